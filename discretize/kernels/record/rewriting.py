r"""Rewrite functions of torch as others that kernels know, with the same numbers and derivatives to rounding.

numbers taken by index        products with a matrix of zeros and ones
convolutions                  shifted pieces, one after the other, times the kernel
amin                          -amax(-x)
sizes and signs               |x| = x sign x, whose sign stands still: of what is differentiated twice
std, sinc                     without a division by 0 where numbers are equal, or 0: likewise, for torch masks its result, which
                              is nan in a derivative of the derivative
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


def _taken(x: Tensor, dim: int, index: Tensor) -> Tensor:
    if not _takes(x, dim) or index.dtype not in (torch.int32, torch.int64):
        return NotImplemented
    ones = _unit_rows(x, dim)[index.reshape(-1)]
    taken = (x.movedim(dim, -1) @ ones.mT).unflatten(-1, index.shape)
    dim, many = dim % x.dim(), index.dim()
    return taken.movedim(tuple(range(-many, 0)), tuple(range(dim, dim + many)))


def _takes(x: Tensor, dim: int) -> bool:
    return x.is_floating_point() and isinstance(x.shape[dim], int)


def _unit_rows(x: Tensor, dim: int) -> Tensor:
    """Of the identity, which torch takes by index at each call, and refuses what is beyond."""
    return torch.eye(x.shape[dim], dtype=x.dtype, device=x.device)


def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    if not _takes(x, dim):
        return NotImplemented
    ones = _unit_rows(x, dim).index_select(0, index)  # which knows no negative index
    return (x.movedim(dim, -1) @ ones.mT).movedim(-1, dim)


def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    if not _takes(x, dim):
        return NotImplemented
    ones = _unit_rows(x, dim).index_select(0, index)
    return x + alpha * (source.movedim(dim, -1) @ ones).movedim(-1, dim)


def _getitem(x: Tensor, place: Any) -> Tensor:
    """Of one list of whole numbers beside slices."""
    places = list(place) if isinstance(place, tuple) else [place]
    lists = [k for k, each in enumerate(places) if isinstance(each, Tensor | list)]
    if len(lists) != 1 or not all(isinstance(each, slice) or each is ... for k, each in enumerate(places) if k not in lists):
        return NotImplemented
    (k,) = lists
    index = torch.as_tensor(places[k], device=x.device)
    if not index.dim():
        return NotImplemented
    filled = any(each is ... for each in places[:k])
    places[k] = slice(None)
    return _taken(x[tuple(places)], k - len(places) if filled else k, index)


def _convolution(
    x: Tensor,
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
    x = functional.pad(x, [end for pair in reversed(ends) for end in pair])
    many = [size - width for size, width in zip(x.shape[-axes:], widths, strict=True)]
    pieces = []
    for offset in itertools.product(*map(range, sizes)):
        starts = [d * k for d, k in zip(apart, offset, strict=True)]
        window: list[Any] = [slice(first, first + last, step) for first, last, step in zip(starts, many, strides, strict=True)]
        pieces.append(x[(..., *window)].movedim(-axes - 1, -1).chunk(groups, -1))
    kernels = weight.flatten(2).movedim(-1, 1).flatten(1).chunk(groups)
    parts = [torch.cat(of_group, -1) @ kernel.mT for of_group, kernel in zip(zip(*pieces, strict=True), kernels, strict=True)]
    output = torch.cat(parts, -1)
    return (output if bias is None else output + bias).movedim(-1, -axes - 1)


def _each(number: Any, axes: int) -> tuple[int, ...]:
    return (number,) * axes if isinstance(number, int) else tuple(number)


def _bilinear(one: Tensor, other: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    outer, left, right = weight.shape
    output = (one @ weight.movedim(1, 0).reshape(left, outer * right)).unflatten(-1, (outer, right))
    output = (output * other.unsqueeze(-2)).sum(-1)
    return output if bias is None else output + bias


def _prod(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    if not isinstance(x.shape[dim], int):
        return NotImplemented
    product = functools.reduce(torch.mul, x.unbind(dim))
    return product.unsqueeze(dim) if keepdim else product


def _amin(x: Tensor, *axes: Any, **settings: Any) -> Tensor:
    return -torch.amax(-x, *axes, **settings)


def _abs(x: Tensor) -> Tensor:
    return x * torch.sign(x.detach())


def _sign(x: Tensor) -> Tensor:
    return torch.sign(x.detach())


def _std(x: Tensor, *axes: Any, **settings: Any) -> Tensor:
    variance = torch.var(x, *axes, **settings)
    equal = variance == 0
    return torch.where(equal, 0.0, torch.where(equal, 1.0, variance).sqrt())


def _sinc(x: Tensor) -> Tensor:
    zero = x == 0
    angle = math.pi * torch.where(zero, 1.0, x)
    return torch.where(zero, 1.0, torch.sin(angle) / angle)


RULES: dict[str, Callable[..., Tensor]] = {
    "__getitem__": _getitem,
    "index_select": _index_select,
    "index_add": _index_add,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    "bilinear": _bilinear,
    "prod": _prod,
    "amin": _amin,
    "log2": lambda x: torch.log(x) / math.log(2),
    "log10": lambda x: torch.log(x) / math.log(10),
}
# Of what is differentiated twice.
OF_DERIVATIVES: dict[str, Callable[..., Tensor]] = TWICE | {
    **dict.fromkeys(("abs", "absolute"), _abs),
    **dict.fromkeys(("sign", "sgn"), _sign),
    "softsign": lambda x: x / (1 + _abs(x)),
    "std": _std,
    "sinc": _sinc,
}
