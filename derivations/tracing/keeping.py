r"""What a module could keep from one call to the next: numbers, words, lengths, its buffers, and the tensors that it reads.

A tensor that is written and never read, as a cell's last gates for a plot, is no memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["kept", "memory", "tensors_read"]


def kept(module: nn.Module, read: Collection[str]) -> dict[str, Any]:
    """What is found at the attributes of a module and its parts, of tensors at those that are read."""
    found = ((place, _shown(value)) for place, value in _places(module) if not isinstance(value, Tensor) or place in read)
    return {place: value for place, value in found if value is not None}


def tensors_read(module: nn.Module, constants: Iterable[Tensor]) -> set[str]:
    """Where a module has its weights, its buffers, and tensors that are as one that was recorded as a constant."""
    own = {(t.dtype, t.shape, _shown(t)) for t in constants}
    weights = {memory(t) for t in (*module.parameters(), *module.buffers())}
    tensors = ((place, value) for place, value in _places(module) if isinstance(value, Tensor))
    return {place for place, t in tensors if memory(t) in weights or (t.dtype, t.shape, _shown(t)) in own}


def memory(t: Tensor) -> int:
    """The same for tensors that share their numbers, as long as both live."""
    return t.untyped_storage().data_ptr() or id(t)


def _places(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Attributes, and the entries of those that are lists or dicts."""
    for part, keeper in module.named_modules():
        for name, value in vars(keeper).items():
            place = f"{part}.{name}".lstrip(".")
            yield place, value
            entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
            own = name in ("_parameters", "_buffers")
            yield from ((f"{part}.{key}".lstrip(".") if own else f"{place}[{key!r}]", entry) for key, entry in entries)


def _shown(value: Any) -> Any:
    if isinstance(value, int | float | complex | str):
        return repr(value)
    if isinstance(value, list | dict | set | tuple):
        return len(value)
    if isinstance(value, Tensor) and value.layout == torch.strided:
        value = value.detach().cpu().reshape(-1).view(torch.uint8).numpy()
    return value.tobytes() if isinstance(value, np.ndarray) else None
