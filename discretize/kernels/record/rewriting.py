r"""Rewrite functions of torch as others that kernels know, with the same numbers and derivatives to rounding.

numbers taken by index        products with a matrix of zeros and ones
convolutions                  shifted pieces, one after the other, times the kernel
amin                          -amax(-x)
sizes and signs               |x| = x sign x, whose sign stands still: of what is differentiated twice
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ctrnn.rewriting import TWICE

__all__ = ["OF_DERIVATIVES", "RULES"]


def _taken(given: Tensor, dim: int, index: Tensor) -> Tensor:
    if not _takes(given, dim) or index.dtype not in (torch.int32, torch.int64):
        return NotImplemented
    ones = _unit_rows(given, dim)[index.reshape(-1)]
    found = (given.movedim(dim, -1) @ ones.mT).unflatten(-1, index.shape)
    dim, many = dim % given.dim(), index.dim()
    return found.movedim(tuple(range(-many, 0)), tuple(range(dim, dim + many)))


def _takes(given: Tensor, dim: int) -> bool:
    return given.is_floating_point() and isinstance(given.shape[dim], int)


def _unit_rows(given: Tensor, dim: int) -> Tensor:
    """Of the identity, which torch takes by index at each call, and refuses what is beyond."""
    return torch.eye(given.shape[dim], dtype=given.dtype, device=given.device)


def _index_select(given: Tensor, dim: int, index: Tensor) -> Tensor:
    if not _takes(given, dim):
        return NotImplemented
    ones = _unit_rows(given, dim).index_select(0, index)  # which knows no negative index
    return (given.movedim(dim, -1) @ ones.mT).movedim(-1, dim)


def _index_add(given: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    if not _takes(given, dim):
        return NotImplemented
    ones = _unit_rows(given, dim).index_select(0, index)
    return given + alpha * (source.movedim(dim, -1) @ ones).movedim(-1, dim)


def _getitem(given: Tensor, place: Any) -> Tensor:
    """Of one list of whole numbers beside slices."""
    places = list(place) if isinstance(place, tuple) else [place]
    lists = [k for k, each in enumerate(places) if isinstance(each, Tensor | list)]
    if len(lists) != 1 or not all(isinstance(each, slice) or each is ... for k, each in enumerate(places) if k not in lists):
        return NotImplemented
    (k,) = lists
    index = torch.as_tensor(places[k], device=given.device)
    if not index.dim():
        return NotImplemented
    filled = any(each is ... for each in places[:k])
    places[k] = slice(None)
    return _taken(given[tuple(places)], k - len(places) if filled else k, index)


def _convolution(
    given: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: object = 1,
    padding: object = 0,
    dilation: object = 1,
    groups: int = 1,
) -> Tensor:
    sizes, axes = weight.shape[2:], weight.dim() - 2
    strides, apart = (_each(number, axes) for number in (stride, dilation))
    widths = [d * (size - 1) for d, size in zip(apart, sizes, strict=True)]
    ends = [(end, end) for end in _each(0 if isinstance(padding, str) else padding, axes)]
    if padding == "same":
        ends = [(width // 2, width - width // 2) for width in widths]
    given = functional.pad(given, [end for pair in reversed(ends) for end in pair])
    many = [size - width for size, width in zip(given.shape[-axes:], widths, strict=True)]
    pieces = []
    for offset in itertools.product(*map(range, sizes)):
        starts = [d * k for d, k in zip(apart, offset, strict=True)]
        window: list[Any] = [slice(first, first + last, step) for first, last, step in zip(starts, many, strides, strict=True)]
        pieces.append(given[(..., *window)].movedim(-axes - 1, -1).chunk(groups, -1))
    kernels = weight.flatten(2).movedim(-1, 1).flatten(1).chunk(groups)
    parts = [torch.cat(of_group, -1) @ kernel.mT for of_group, kernel in zip(zip(*pieces, strict=True), kernels, strict=True)]
    found = torch.cat(parts, -1)
    return (found if bias is None else found + bias).movedim(-1, -axes - 1)


def _each(number: Any, axes: int) -> tuple[int, ...]:
    return (number,) * axes if isinstance(number, int) else tuple(number)


def _bilinear(one: Tensor, other: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    outer, left, right = weight.shape
    found = (one @ weight.movedim(1, 0).reshape(left, outer * right)).unflatten(-1, (outer, right))
    found = (found * other.unsqueeze(-2)).sum(-1)
    return found if bias is None else found + bias


def _prod(given: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    if not isinstance(given.shape[dim], int):
        return NotImplemented
    found = functools.reduce(torch.mul, given.unbind(dim))
    return found.unsqueeze(dim) if keepdim else found


def _amin(given: Tensor, *axes: Any, **settings: Any) -> Tensor:
    return -torch.amax(-given, *axes, **settings)


def _abs(given: Tensor) -> Tensor:
    return given * torch.sign(given.detach())


def _sign(given: Tensor) -> Tensor:
    return torch.sign(given.detach())


RULES: dict[str, Callable[..., Tensor]] = {
    "__getitem__": _getitem,
    "index_select": _index_select,
    "index_add": _index_add,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    "bilinear": _bilinear,
    "prod": _prod,
    "amin": _amin,
    "log2": lambda given: torch.log(given) / math.log(2),
    "log10": lambda given: torch.log(given) / math.log(10),
}
# Of what is differentiated twice.
OF_DERIVATIVES: dict[str, Callable[..., Tensor]] = TWICE | {
    **dict.fromkeys(("abs", "absolute"), _abs),
    **dict.fromkeys(("sign", "sgn"), _sign),
    "softsign": lambda given: given / (1 + _abs(given)),
}
