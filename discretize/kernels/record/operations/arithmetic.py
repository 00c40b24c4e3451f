"""Functions of each unit that are several of those which kernels have, or another for some of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from discretize.kernels.record.operations.products import joined
from discretize.kernels.record.operations.reader import Reader
from discretize.kernels.record.values import Value

__all__ = ["ARITHMETIC"]

POWERS = {0.5: "sqrt", -1: "reciprocal", 1: "spread", -0.5: "rsqrt", 2: "square"}


def _add(reader: Reader, a: Any, b: Any, alpha: Any = 1) -> Value:
    if reader.node.meta["val"].dtype == torch.bool:
        return reader.by_unit("logical_or", a, b)
    return (alpha == 1 and joined(reader, a, b)) or reader.by_unit("add", a, _scaled(reader, b, alpha))


def _sub(reader: Reader, a: Any, b: Any, alpha: Any = 1) -> Value:
    return reader.by_unit("sub", a, _scaled(reader, b, alpha))


def _rsub(reader: Reader, a: Any, b: Any, alpha: Any = 1) -> Value:
    return _sub(reader, b, a, alpha)


def _scaled(reader: Reader, given: Any, by: float) -> Any:
    return given if by == 1 else reader.by_unit("mul", given, by)


def _pow(reader: Reader, a: Any, b: Any) -> Value:
    if isinstance(b, int | float) and b in POWERS:
        return reader.by_unit(POWERS[b], a)
    return reader.by_unit("mul", reader.by_unit("square", a), a) if _is_number(b, 3) else reader.by_unit("pow", a, b)


def _is_number(given: Any, number: float) -> bool:
    return not isinstance(given, Node) and given == number


def _clamp(reader: Reader, a: Any, low: Any = None, high: Any = None) -> Value:
    raised = a if low is None else reader.by_unit("maximum", a, low)
    return reader.by_unit("spread", raised) if high is None else reader.by_unit("minimum", raised, high)


def _named(name: str) -> Callable[..., Value]:
    return lambda reader, *arguments: reader.by_unit(name, *arguments)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "pow": _pow,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda reader, a, high: _clamp(reader, a, None, high),
    "bitwise_and": _named("logical_and"),
    "bitwise_or": _named("logical_or"),
    "bitwise_xor": _named("logical_xor"),
    "bitwise_not": _named("logical_not"),
}
