"""What a field's code may look at beside its weights: numbers, words and objects that its modules keep."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Attributes", "attributes_of"]

PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
OF_TORCH = frozenset(vars(nn.Module())) - {"training"}


class Attributes(NamedTuple):
    """`values` are equal where the code has the same before it; objects that are known by their ids are in `objects`."""

    values: tuple[Any, ...]
    objects: tuple[Any, ...]


def attributes_of(module: nn.Module) -> Attributes | str:
    """Of a module, with the types of its parts and the shapes of its weights; or why they cannot be told."""
    objects: list[Any] = []
    values: list[Any] = []
    for place, part in module.named_modules(remove_duplicate=False):
        own = {name: value for name, value in vars(part).items() if name not in OF_TORCH}
        if any(isinstance(value, Tensor) and value.requires_grad for value in own.values()):
            return f"its {type(part).__name__} keeps a tensor with a gradient that is no parameter"
        if part._forward_hooks or part._forward_pre_hooks:
            return f"its {type(part).__name__} has hooks"
        values.append((place, type(part), _value(own, objects)))
    seen: dict[int, int] = {}
    for name, tensor in [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]:
        values.append((name, tensor.shape, tensor.dtype, tensor.requires_grad, seen.setdefault(id(tensor), len(seen))))
    return Attributes(tuple(values), tuple(objects))


def _value(given: Any, objects: list[Any]) -> Any:
    if isinstance(given, PLAIN):
        return type(given), given
    if isinstance(given, list | tuple):
        return type(given), tuple(_value(each, objects) for each in given)
    if isinstance(given, dict):
        return dict, tuple((_value(key, objects), _value(value, objects)) for key, value in given.items())
    objects.append(given)
    if isinstance(given, Tensor):
        return Tensor, id(given), given._version
    inside = vars(given) if hasattr(given, "__dict__") and not callable(given) and not isinstance(given, type) else {}
    return type(given), None if inside or not callable(given) else id(given), _value(dict(inside), objects)
