"""Sums and the like over the numbers of a sample; sums over samples are left to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch.fx import Node

from discretize.kernels.record.operations.reader import Reader
from discretize.kernels.record.values import Value, row_major
from discretize.kernels.record.zones import SumOverSamples

__all__ = ["SUMS"]


def _taken(reader: Reader, given: Node, dim: Any) -> list[int]:
    """Over which axes."""
    axes = range(len(reader.sizes(given)))
    return list(axes) if dim is None or dim == [] else sorted(axes[each] for each in ([dim] if isinstance(dim, int) else dim))


def _sum(reader: Reader, given: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Value | SumOverSamples:
    if reader.batch(given) in _taken(reader, given, dim):
        return SumOverSamples(((reader.value(given), None),), reader.sizes(given))
    return _over_units(reader, "sum", given, dim)


def _over_units(reader: Reader, how: str, given: Node, dim: Any) -> Value:
    taken = _taken(reader, given, dim)
    if reader.batch(given) in taken:
        raise reader.unknown("it takes it of the samples")
    return _over(reader, how, reader.value(given), reader.sizes(given), taken)


def _over(reader: Reader, how: str, value: Value, sizes: Sequence[int], taken: list[int]) -> Value:
    """A value of these sizes, over some of the axes."""
    size = prod(sizes[axis] for axis in taken)
    several = [axis for axis in taken if sizes[axis] != 1] or taken
    before, between, after = sizes[: several[0]], sizes[several[0] : several[-1] + 1], sizes[several[-1] + 1 :]
    if prod(between) == size:
        return reader.values.over_axis(how, value, prod(before), size, prod(after))
    axes = row_major(sizes)
    order = [axis for axis in range(len(sizes)) if axis not in taken] + taken
    return reader.values.over_axis(how, reader.values.strided(value, 0, [axes[k] for k in order]), value.width // size, size)


def _amax(reader: Reader, given: Node, dim: Any = (), keepdim: bool = False) -> Value:
    return _over_units(reader, "amax", given, dim or None)


def _mean(reader: Reader, given: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
    total = _over_units(reader, "sum", given, dim)
    return _divided(reader, total, reader.value(given).width // total.width)


def _divided(reader: Reader, total: Value, by: float) -> Value:
    return reader.values.make("div", [total, reader.values.make("count", settings=(by,))], total.width)


def _var_mean(
    reader: Reader, given: Node, dim: Any = None, *, correction: float | None = 1, keepdim: bool = False
) -> tuple[Value, Value]:
    make, value, sizes = reader.values.make, reader.value(given), reader.sizes(given)
    mean, taken = _mean(reader, given, dim), _taken(reader, given, dim)
    of_all = [1 if axis in taken else size for axis, size in enumerate(sizes)]
    other = mean if mean.width == 1 else reader.values.broadcast(mean, of_all, sizes)
    squares = make("square", [make("sub", [value, other], value.width)], value.width)
    lost = 1 if correction is None else correction
    total = _over(reader, "sum", squares, sizes, taken)
    return _divided(reader, total, value.width // mean.width - lost), mean


def _var(reader: Reader, given: Node, dim: Any = None, **settings: Any) -> Value:
    return _var_mean(reader, given, dim, **settings)[0]


SUMS: dict[str, Callable[..., Any]] = {"sum": _sum, "amax": _amax, "mean": _mean, "var": _var, "var_mean": _var_mean}
