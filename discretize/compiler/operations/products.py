"""Products with matrices: of samples with weights, an affine map, and of samples with samples, a sum over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import Node

from discretize.compiler.operations.reader import Reader
from discretize.compiler.values import Value
from discretize.compiler.zones import SumOverSamples, Turned

__all__ = ["PRODUCTS", "joined"]


def _mm(reader: Reader, a: Node, b: Node) -> Any:
    left, right = reader.own(a), reader.own(b)
    if isinstance(left, Value) and right is None:
        return _affine(reader, [], [left], reader.width, (reader.matrix(b),))
    if left is None and isinstance(right, Turned):  # W h^T
        return Turned(_affine(reader, [], [right.value], a.meta["val"].shape[0], (reader.matrix(a, turned=True),)))
    if isinstance(left, Turned) and isinstance(right, Value):
        return SumOverSamples(left.value, right, (left.value.width, right.width))
    raise reader.unknown("it multiplies what two samples or two units of one have")


def _mv(reader: Reader, a: Node, b: Node) -> Any:
    left, right = reader.own(a), reader.own(b)
    if isinstance(left, Value) and right is None:
        return _affine(reader, [], [left], 1, (reader.matrix(b),))
    if isinstance(left, Turned) and isinstance(right, Value):
        return SumOverSamples(left.value, right, (left.value.width,))
    raise reader.unknown("it multiplies what two samples or two units of one have")


def _addmm(reader: Reader, start: Any, a: Node, b: Node, beta: float = 1, alpha: float = 1) -> Value:
    product = _mm(reader, a, b)
    if not isinstance(product, Value) or (beta, alpha) != (1, 1):
        raise reader.unknown("its products are scaled, or of other than samples and weights")
    first = reader.value(start, reader.tail())
    if first.operation == "shared" and first.width == product.width:
        return _affine(reader, [first], product.of, product.width, product.settings[1])
    return reader.by_unit("add", first, product)


def joined(reader: Reader, a: Any, b: Any) -> Value | None:
    """One affine map in place of a sum of two, or of one and a vector, which nobody else reads."""
    maps = [given for given in (a, b) if isinstance(given, Node) and _is_affine(reader.own(given)) and len(given.users) == 1]
    if not maps or any(reader.own(given).width != reader.width for given in maps):
        return None
    one, *others = map(reader.own, maps)
    if others:
        starts = [value.of[0] for value in (one, *others) if value.settings[0]]
        matrices = one.settings[1] + others[0].settings[1]
        return _affine(reader, starts, [*_read(one), *_read(others[0])], one.width, matrices) if len(starts) < 2 else None
    rest = b if maps[0] is a else a
    if one.settings[0] or not isinstance(rest, Node) or rest in reader.zones.rows:
        return None
    start = reader.value(rest, reader.tail())
    return _affine(reader, [start], _read(one), one.width, one.settings[1]) if start.width == one.width else None


def _is_affine(value: Any) -> bool:
    return isinstance(value, Value) and value.operation == "affine"


def _affine(reader: Reader, start: list[Value], read: Sequence[Value], width: int, matrices: tuple[int, ...]) -> Value:
    return reader.values.make("affine", [*start, *read], width, (bool(start), matrices))


def _read(affine: Value) -> tuple[Value, ...]:
    """What an affine map multiplies."""
    return affine.of[1:] if affine.settings[0] else affine.of


PRODUCTS: dict[str, Callable[..., Any]] = {"mm": _mm, "mv": _mv, "addmm": _addmm}
