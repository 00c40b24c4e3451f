"""Read operations that move numbers: views, slices, permutations, concatenations and padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx import Node

from discretize.kernels.record.recording import FILLED, FILLED_BY, SAME_NUMBERS, operation_name
from discretize.kernels.record.values import Value, row_major
from discretize.kernels.record.zones import OperationReader

__all__ = ["LAYOUT"]


def _same(reader: OperationReader, operand: object, *_: object, **__: object) -> Value:
    """The same numbers in axes of other sizes, or repeated along axes."""
    if operand in reader.zones.rows and reader.value(operand).width == reader.width:
        return reader.value(operand)
    source = reader.value(operand, reader.sizes())
    return source if source.width == reader.width else reader.values.make("spread", [source], reader.width)


def _converted(reader: OperationReader, node: Node, *arguments: object, **settings: object) -> Value:
    source, target = node.meta["val"].dtype, reader.node.meta["val"].dtype
    if target == torch.bool and source != torch.bool:
        return reader.by_unit("ne", node, 0)
    return reader.by_unit("trunc", node) if source.is_floating_point and target == torch.int64 else _same(reader, node)


def _in_order(reader: OperationReader, node: Node, order: Iterable[int]) -> Value:
    axes = row_major(reader.sizes(node))
    return reader.values.strided(reader.value(node), 0, [axes[axis] for axis in order])


def _permute(reader: OperationReader, node: Node, order: Sequence[int]) -> Value:
    return _in_order(reader, node, order)


def _turned(reader: OperationReader, node: Node) -> Value:
    return _in_order(reader, node, reversed(range(len(reader.sizes(node)))))


def _transpose(reader: OperationReader, node: Node, one: int, other: int) -> Value:
    order = list(range(len(reader.sizes(node))))
    order[one], order[other] = order[other], order[one]
    return _in_order(reader, node, order)


def _flip(reader: OperationReader, node: Node, dims: Sequence[int]) -> Value:
    axes, first = row_major(reader.sizes(node)), 0
    for dim in dims:
        size, stride = axes[_Axis.of(reader, node, dim).axis]
        axes[dim], first = (size, -stride), first + (size - 1) * stride
    return reader.values.strided(reader.value(node), first, axes)


def _filled(place: int) -> Callable[..., Value]:
    """A constant that stands at that place among the arguments."""
    return lambda reader, *arguments, **_: reader.filled(arguments[place])


def _all(number: float) -> Callable[..., Value]:
    return lambda reader, *_, **__: reader.filled(number)


@dataclass(frozen=True)
class _Axis:
    """One axis among those of a sample's numbers."""

    reader: OperationReader
    sizes: tuple[int, ...]
    axis: int

    @classmethod
    def of(cls, reader: OperationReader, node: Node | None, dim: int) -> _Axis:
        sizes = reader.sizes(node)
        axis = dim % len(sizes)
        if axis == reader.batch(node):
            raise reader.unknown("it takes some of the samples, or puts others beside them")
        return cls(reader, sizes, axis)

    @property
    def size(self) -> int:
        return self.sizes[self.axis]

    @property
    def outer(self) -> int:
        return prod(self.sizes[: self.axis])

    @property
    def inner(self) -> int:
        return prod(self.sizes[self.axis + 1 :])

    def index(self, place: int | None) -> int:
        return (place or 0) % self.size if (place or 0) < self.size else self.size

    def piece(self, value: Value, first: int, size: int, step: int = 1) -> Value:
        axes = [(self.outer, self.size * self.inner), (size, step * self.inner), (self.inner, 1)]
        return self.reader.values.strided(value, first * self.inner, axes)

    def joined(self, parts: Iterable[tuple[Value, int]]) -> Value:
        """Values of so many numbers along this axis, one after the other."""
        values, outer, inner = self.reader.values, self.outer, self.inner
        parts = [(value, size) for value, size in parts if size]
        first = [values.strided(value, 0, [(size, inner), (outer, size * inner), (inner, 1)]) for value, size in parts]
        size = sum(size for _, size in parts)
        return values.strided(values.cat(first), 0, [(outer, inner), (size, outer * inner), (inner, 1)])

    def filled(self, number: float, size: int) -> tuple[Value, int]:
        value = self.reader.values.number(number)
        return self.reader.values.make("spread", [value], self.outer * size * self.inner), size

    def replaced(self, whole: Value, first: int, part: Value, size: int) -> Value:
        last = first + size
        before, after = self.piece(whole, 0, first), self.piece(whole, last, self.size - last)
        return self.joined([(before, first), (part, size), (after, self.size - last)])


def _slice(reader: OperationReader, node: Node, dim: int = 0, start: Any = None, end: object = None, step: int = 1) -> Value:
    if node.meta["val"].shape == reader.node.meta["val"].shape and step == 1:
        return reader.value(node)
    axis = _Axis.of(reader, node, dim)
    return axis.piece(reader.value(node), axis.index(start), reader.sizes()[axis.axis], step)


def _select(reader: OperationReader, node: Node, dim: int, index: int) -> Value:
    axis = _Axis.of(reader, node, dim)
    return axis.piece(reader.value(node), axis.index(index), 1)


def _pieces(reader: OperationReader, node: Node, *arguments: Any) -> list[Value]:
    """Of split, split_with_sizes and unbind, whose last argument is the axis."""
    one_each = operation_name(reader.node) == "unbind"
    axis = _Axis.of(reader, node, [*arguments, 0][0 if one_each else 1])
    pieces, first = [], 0
    for piece in reader.node.meta["val"]:
        size = 1 if one_each else piece.shape[axis.axis]
        pieces.append(axis.piece(reader.value(node), first, size))
        first += size
    return pieces


def _cat(reader: OperationReader, parts: Sequence[Node], dim: int = 0) -> Value:
    axis = _Axis.of(reader, None, dim)
    values = []
    for part in parts:
        sizes = reader.sizes(part) if part in reader.zones.rows else tuple(part.meta["val"].shape)
        value = reader.value(part, sizes)
        values.append((reader.values.make("spread", [value], prod(sizes)) if value.width == 1 else value, sizes[axis.axis]))
    return axis.joined(values)


def _roll(reader: OperationReader, node: Node, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if len(dims) != len(shifts):
        raise reader.unknown("it turns over the samples")
    value = reader.value(node)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = _Axis.of(reader, node, dim)
        first = -shift % axis.size
        value = axis.joined(
            [(axis.piece(value, first, axis.size - first), axis.size - first), (axis.piece(value, 0, first), first)]
        )
    return value


def _slice_scatter(
    reader: OperationReader, target: object, part: Any, dim: int = 0, start: Any = None, end: object = None, step: int = 1
) -> Value:
    whole, inner = reader.value(target), reader.value(part)
    if inner.width == whole.width:
        return inner
    axis = _Axis.of(reader, None, dim)
    if step != 1:
        raise reader.unknown("it takes steps")
    return axis.replaced(whole, axis.index(start), inner, inner.width // (axis.outer * axis.inner))


def _select_scatter(reader: OperationReader, target: object, part: object, dim: int, index: int) -> Value:
    axis = _Axis.of(reader, None, dim)
    return axis.replaced(reader.value(target), axis.index(index), reader.value(part), 1)


def _slice_backward(reader: OperationReader, part: object, sizes: Any, dim: int, start: Any, end: object, step: int) -> Value:
    inner = reader.value(part)
    if inner.width == reader.width:
        return inner
    axis = _Axis.of(reader, None, dim)
    size, first = inner.width // (axis.outer * axis.inner), axis.index(start)
    if step > 1:  # zeros between, as further numbers along an axis within
        within = _Axis(reader, (axis.outer * size, 1, axis.inner), 1)
        inner, size = within.joined([(inner, 1), within.filled(0.0, step - 1)]), size * step
        room = min(size, axis.size - first)
        inner, size = _Axis(reader, (axis.outer, size, axis.inner), 1).piece(inner, 0, room), room
    return axis.replaced(reader.filled(0.0), first, inner, size)


def _select_backward(reader: OperationReader, part: object, sizes: object, dim: int, index: int) -> Value:
    return _select_scatter(reader, reader.filled(0.0), part, dim, index)


def _constant_pad_nd(reader: OperationReader, node: Node, pad: Sequence[int], number: float = 0.0) -> Value:
    value, sizes = reader.value(node), list(reader.sizes(node))
    for place in range(len(pad) // 2):
        before, after = pad[2 * place : 2 * place + 2]
        axis = _Axis.of(reader, node, -1 - place)
        axis = _Axis(reader, tuple(sizes), axis.axis)
        first, size = max(-before, 0), axis.size + min(before, 0) + min(after, 0)
        piece = axis.piece(value, first, size), size
        value = axis.joined([axis.filled(number, max(before, 0)), piece, axis.filled(number, max(after, 0))])
        sizes[axis.axis] += before + after
    return value


def _copy(reader: OperationReader, target: object, source: object, *_: object) -> Value:
    return _same(reader, source)


LAYOUT: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(SAME_NUMBERS, _same),
    **dict.fromkeys(("_to_copy", "convert_element_type"), _converted),
    **dict.fromkeys(("t", "numpy_T"), _turned),
    "permute": _permute,
    "transpose": _transpose,
    "flip": _flip,
    **{name: _filled(place) for name, place in FILLED_BY.items()},
    **{name: _all(number) for name, number in FILLED.items()},
    **dict.fromkeys(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"), _all(0.0)),  # written into later
    "copy": _copy,
    "slice": _slice,
    "select": _select,
    **dict.fromkeys(("split", "split_with_sizes", "unbind"), _pieces),
    "cat": _cat,
    "roll": _roll,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "slice_backward": _slice_backward,
    "select_backward": _select_backward,
    "constant_pad_nd": _constant_pad_nd,
}
