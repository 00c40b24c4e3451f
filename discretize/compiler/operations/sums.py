"""Sums and the like over the units of a sample; sums over samples are left to the end."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from torch.fx import Node

from discretize.compiler.operations.reader import Reader
from discretize.compiler.values import Value
from discretize.compiler.zones import SumOverSamples

__all__ = ["SUMS"]


def _sum(reader: Reader, given: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Value | SumOverSamples:
    tail = reader.tail(given)
    axes = range(len(tail) + 1) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    if any(axis % (len(tail) + 1) == 0 for axis in axes):
        return SumOverSamples(reader.value(given), None, tail)
    return _over_units(reader, "sum", given, dim)


def _over_units(reader: Reader, how: str, given: Node, dim: Any) -> Value:
    value, tail = reader.value(given), reader.tail(given)
    axes = range(len(tail) + 1) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    taken = {axis % (len(tail) + 1) for axis in axes}
    if 0 in taken or prod(n for axis, n in enumerate(tail, 1) if axis not in taken) != 1:
        raise reader.unknown("it takes it of some of a sample's numbers only, or of the samples")
    return reader.values.make(how, [value])


def _amax(reader: Reader, given: Node, dim: Any = (), keepdim: bool = False) -> Value:
    return _over_units(reader, "amax", given, dim)


def _mean(reader: Reader, given: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
    return _divided(reader, _over_units(reader, "sum", given, dim), prod(reader.tail(given)))


def _divided(reader: Reader, total: Value, by: float) -> Value:
    return reader.values.make("div", [total, reader.values.make("count", settings=(by,))])


def _var_mean(
    reader: Reader, given: Node, dim: Any = None, *, correction: float | None = 1, keepdim: bool = False
) -> tuple[Value, Value]:
    make, value, count = reader.values.make, reader.value(given), prod(reader.tail(given))
    mean = _mean(reader, given, dim)
    squares = make("square", [make("sub", [value, mean], value.width)], value.width)
    return _divided(reader, make("sum", [squares]), count - (1 if correction is None else correction)), mean


def _var(reader: Reader, given: Node, dim: Any = None, **settings: Any) -> Value:
    return _var_mean(reader, given, dim, **settings)[0]


SUMS: dict[str, Callable[..., Any]] = {"sum": _sum, "amax": _amax, "mean": _mean, "var": _var, "var_mean": _var_mean}
