"""Views, pieces of a sample's numbers, and numbers put one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node

from discretize.compiler.operations.reader import Reader
from discretize.compiler.recording import operation_name
from discretize.compiler.values import Value
from discretize.compiler.zones import Turned

__all__ = ["LAYOUT"]


def _same(reader: Reader, given: Any, *_: Any, **__: Any) -> Value:
    source, width = reader.value(given), reader.width
    if source.width not in (width, 1):
        raise reader.unknown("it repeats some of a sample's numbers")
    return source if source.width == width else reader.values.make("spread", [source], width)


def _converted(reader: Reader, given: Node, *arguments: Any, **settings: Any) -> Value:
    source, target = given.meta["val"].dtype, reader.node.meta["val"].dtype
    if target == torch.bool and source != torch.bool:
        return reader.by_unit("ne", given, 0)
    return reader.by_unit("trunc", given) if source.is_floating_point and target == torch.int64 else _same(reader, given)


def _turned(reader: Reader, given: Node, *axes: Any) -> Any:
    source = reader.own(given)
    if isinstance(source, Turned):
        return source.value
    order = [axis % 2 for axis in (axes[0] if len(axes) == 1 else axes)]
    if len(given.meta["val"].shape) != 2 or sorted(order) not in ([], [0, 1]):
        raise reader.unknown("it changes the order of a sample's numbers")
    unmoved = operation_name(reader.node) == "permute" and order == [0, 1]
    return source if unmoved else Turned(reader.value(given))


def _filled(place: int) -> Callable[..., Value]:
    """A constant that stands at that place among the arguments."""
    return lambda reader, *arguments, **_: reader.filled(arguments[place])


def _all(number: float) -> Callable[..., Value]:
    return lambda reader, *_, **__: reader.filled(number)


def _slice(reader: Reader, given: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    return _units(reader, given, dim, start or 0, reader.width, step)


def _select(reader: Reader, given: Node, dim: int, index: int) -> Value:
    return _units(reader, given, dim, index, reader.width)


def _units(reader: Reader, given: Node, dim: int, start: Any, width: int, step: int = 1) -> Value:
    """`width` of a sample's numbers, from index `start` of an axis on."""
    tail = reader.tail(given)
    if width == prod(tail):
        return reader.value(given)
    axis = _axis(reader, tail, dim, step)
    start = max(start + tail[axis], 0) if start < 0 else start
    return reader.values.slice(reader.value(given), start * prod(tail[axis + 1 :]), width)


def _axis(reader: Reader, tail: tuple[int, ...], dim: int, step: int = 1) -> int:
    """Which of a sample's axes; the first of more than one number, or pieces along it are none of its numbers in their order."""
    axis = dim % (len(tail) + 1) - 1
    if axis < 0 or prod(tail[:axis]) != 1 or step != 1:
        raise reader.unknown("it takes some samples, or a sample's numbers out of their order")
    return axis


def _pieces(reader: Reader, given: Node, *arguments: Any) -> list[Value]:
    """Of split, split_with_sizes and unbind, whose last argument is the axis."""
    place = 0 if operation_name(reader.node) == "unbind" else 1
    dim, tail = (arguments[place] if len(arguments) > place else 0), reader.tail(given)
    axis, found, start = _axis(reader, tail, dim), [], 0
    for piece in reader.node.meta["val"]:
        width = prod(piece.shape[1:])
        found.append(_units(reader, given, dim, start, width))
        start += width // prod(tail[axis + 1 :])
    return found


def _cat(reader: Reader, parts: Sequence[Node], dim: int = 0) -> Value:
    _axis(reader, reader.tail(), dim)
    values = []
    for part in parts:
        tail = tuple(part.meta["val"].shape[1:])
        value = reader.value(part, tail)
        values.append(value if value.width == prod(tail) else reader.values.make("spread", [value], prod(tail)))
    return reader.values.cat(values)


def _roll(reader: Reader, given: Node, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    value = reader.value(given)
    if len(reader.tail(given)) != 1 or len(shifts) != 1 or [dim % 2 for dim in dims] != [1]:
        raise reader.unknown("it turns other than the last axis")
    first = -shifts[0] % value.width
    return reader.values.cat([reader.between(value, first, value.width), reader.between(value, 0, first)])


def _slice_scatter(
    reader: Reader, given: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    whole, inner, tail = reader.value(given), reader.value(part), reader.tail()
    if inner.width == whole.width:
        return inner
    axis = _axis(reader, tail, dim, step)
    first = (start or 0) % tail[axis] * prod(tail[axis + 1 :])
    last = first + inner.width
    return reader.values.cat([reader.between(whole, 0, first), inner, reader.between(whole, last, whole.width)])


def _select_scatter(reader: Reader, given: Any, part: Any, dim: int, index: int) -> Value:
    return _slice_scatter(reader, given, part, dim, index % reader.tail()[_axis(reader, reader.tail(), dim)])


def _slice_backward(reader: Reader, part: Any, sizes: Any, dim: int, start: Any, end: Any, step: int) -> Value:
    return _slice_scatter(reader, reader.filled(0.0), part, dim, start, end, step)


def _select_backward(reader: Reader, part: Any, sizes: Any, dim: int, index: int) -> Value:
    return _select_scatter(reader, reader.filled(0.0), part, dim, index)


def _constant_pad_nd(reader: Reader, given: Node, pad: Sequence[int], number: float = 0.0) -> Value:
    if len(pad) != 2 or prod(reader.tail(given)[:-1]) != 1:
        raise reader.unknown("it pads other than the last axis")
    value, filler = reader.value(given), reader.values.number(number)
    value = reader.between(value, max(-pad[0], 0), value.width - max(-pad[1], 0))
    before, after = ([reader.values.make("spread", [filler], width)] if width > 0 else [] for width in pad)
    return reader.values.cat([*before, value, *after])


LAYOUT: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "alias", "detach", "clone"), _same),
    **dict.fromkeys(("contiguous", "lift_fresh"), _same),
    **dict.fromkeys(("_to_copy", "convert_element_type"), _converted),
    **dict.fromkeys(("t", "permute", "transpose", "numpy_T"), _turned),
    **dict.fromkeys(("full", "full_like"), _filled(1)),
    "new_full": _filled(2),
    "scalar_tensor": _filled(0),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), _all(0.0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), _all(1.0)),
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
