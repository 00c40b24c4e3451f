r"""Computes digests of tensors, numbers and strings, and of lists and dictionaries of them.

sha256 over key paths, types, shapes and bytes in a canonical order, each with its length before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["digest"]


def digest(value: object) -> str:
    r"""Compute the sha256 in hexadecimal digits.

    Raises:  TypeError for what is no tensor, number or string, or a list or dictionary of them.
    """
    found = hashlib.sha256()
    for part in _canonical("", value):
        found.update(len(part).to_bytes(8, "big"))
        found.update(part)
    return found.hexdigest()


def _canonical(path: str, value: object) -> Iterator[bytes]:
    yield f"{path}:{type(value).__name__}".encode()
    if isinstance(value, dict):
        yield str(len(value)).encode()
        for key in sorted(value, key=repr):
            yield from _canonical(f"{path}/{key!r}", value[key])
    elif isinstance(value, list | tuple):
        yield str(len(value)).encode()
        for k, item in enumerate(value):
            yield from _canonical(f"{path}/{k}", item)
    elif isinstance(value, Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    elif value is None or isinstance(value, bool | int | float | str):
        yield repr(value).encode()
    else:
        raise TypeError(f"only tensors, numbers and strings have a digest, got {type(value).__name__} at {path}.")
