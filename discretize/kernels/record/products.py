"""Read products with matrices: of samples with weights (affine maps), of samples with samples (sums), of each sample's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch.fx import Node

from discretize.kernels.record.values import Value
from discretize.kernels.record.zones import OperationReader, SumOverSamples

__all__ = ["PRODUCTS", "joined"]


MOST_BLOCKS = 32  # products in place of one
MOST_NUMBERS = 1 << 16  # of a sample, in place of a product of what it has


def _mm(reader: OperationReader, a: Node, b: Node) -> Any:
    """Of a sample's numbers along the batch's axis too, one product each."""
    left, right = reader.own(a), reader.own(b)
    if isinstance(left, Value) and isinstance(right, Value) and reader.batch(a) == 1:
        return _sum_of_products(reader, left, right, reader.sizes(a), reader.sizes(b), reader.inside(a) == reader.inside(b))
    if isinstance(left, Value) and right is None:
        (blocks, depth), width = reader.sizes(a), b.meta["val"].shape[1:].numel()
        return _blocks(reader, left, depth, width, [reader.matrix(b)] * blocks)
    if left is None and isinstance(right, Value) and reader.sizes(b)[1:] == (1,):  # W h^T
        return _blocks(reader, right, right.width, a.meta["val"].shape[0], [reader.matrix(a, turned=True)])
    raise reader.unknown("no kernel is written for this product")


def _blocks(reader: OperationReader, value: Value, depth: int, width: int, matrices: Sequence[int]) -> Value:
    """One part of a value after the other, each times a matrix."""
    if len(matrices) > MOST_BLOCKS:
        raise reader.unknown(f"it stands for {len(matrices)} products, more than {MOST_BLOCKS}")
    parts = (reader.values.slice(value, k * depth, depth) for k in range(len(matrices)))
    return reader.values.cat(_affine(reader, [], [part], width, (each,)) for part, each in zip(parts, matrices, strict=True))


def _sum_of_products(
    reader: OperationReader, left: Value, right: Value, sizes: Sequence[int], others: Sequence[int], alike: bool
) -> SumOverSamples:
    (height, blocks), width = sizes, prod(others[1:])
    if blocks > MOST_BLOCKS or not alike:
        raise reader.unknown("it sums over too many of a sample's numbers, too, or in another order")
    pairs = (
        (reader.values.strided(left, k, [(height, blocks)]), reader.values.slice(right, k * width, width)) for k in range(blocks)
    )
    return SumOverSamples(tuple(pairs), (height, *others[1:]), "sum")


def _bmm(reader: OperationReader, a: Node, b: Node) -> Any:
    left, right, stack = reader.own(a), reader.own(b), a.meta["val"].shape[0]
    if isinstance(left, Value) and isinstance(right, Value):
        of_left, of_right = reader.sizes(a), reader.sizes(b)
        batches = reader.batch(a), reader.batch(b)
        if batches == (0, 0) and reader.inside(a) == reader.inside(b):
            return _product_of_each(reader, left, right, of_left, of_right[2])
        if batches == (2, 1) and (of_left[2], of_right[1]) == (1, 1) and stack <= MOST_BLOCKS:
            height, width = of_left[1], of_right[2]
            parts = [(left, height), (right, width)]
            pairs = [[reader.values.slice(value, k * size, size) for value, size in parts] for k in range(stack)]
            return SumOverSamples(tuple((one, other) for one, other in pairs), (height, width), "stack")
    elif isinstance(left, Value) and reader.batch(a) == 1 and reader.sizes(a)[1] == 1:
        return _blocks(
            reader, left, reader.sizes(a)[2], b.meta["val"].shape[2], [reader.matrix(b, place=k) for k in range(stack)]
        )
    elif isinstance(right, Value) and reader.batch(b) == 2 and reader.sizes(b)[2] == 1:
        matrices = [reader.matrix(a, turned=True, place=k) for k in range(stack)]
        return _blocks(reader, right, reader.sizes(b)[1], a.meta["val"].shape[1], matrices)
    raise reader.unknown("no kernel is written for this product")


def _product_of_each(reader: OperationReader, left: Value, right: Value, sizes: Sequence[int], width: int) -> Value:
    """Matrices that each sample has, (blocks, height, depth) and (blocks, depth, width)."""
    blocks, height, depth = sizes
    if blocks * height * depth * width > MOST_NUMBERS:
        raise reader.unknown(f"it stands for more than {MOST_NUMBERS:,} products of a sample's numbers")
    strided, size = reader.values.strided, blocks * height * depth * width
    one = strided(left, 0, [(blocks, height * depth), (height, depth), (depth, 1), (width, 0)])
    other = strided(right, 0, [(blocks, depth * width), (height, 0), (depth, width), (width, 1)])
    return reader.values.over_axis("sum", reader.values.make("mul", [one, other], size), blocks * height, depth, width)


def _addmm(reader: OperationReader, start: object, a: Node, b: Node, beta: float = 1, alpha: float = 1) -> Value:
    product = _mm(reader, a, b)
    if not isinstance(product, Value) or (beta, alpha) != (1, 1):
        raise reader.unknown("its products are scaled, or of other than samples and weights")
    first = reader.value(start, reader.sizes())
    if first.operation == "shared" and first.width == product.width and product.operation == "affine":
        return _affine(reader, [first], product.of, product.width, product.settings[1])
    return reader.by_unit("add", first, product)


def joined(reader: OperationReader, a: object, b: object) -> Value | None:
    """One affine map in place of a sum of two, or of one and a vector, which nobody else reads."""
    maps = [
        operand for operand in (a, b) if isinstance(operand, Node) and _is_affine(reader.own(operand)) and len(operand.users) == 1
    ]
    if not maps or any(reader.own(operand).width != reader.width for operand in maps):
        return None
    one, *others = map(reader.own, maps)
    if others:
        starts = [value.of[0] for value in (one, *others) if value.settings[0]]
        matrices = one.settings[1] + others[0].settings[1]
        return _affine(reader, starts, [*_read(one), *_read(others[0])], one.width, matrices) if len(starts) < 2 else None
    rest = b if maps[0] is a else a
    if one.settings[0] or not isinstance(rest, Node):
        return None
    start = reader.value(rest, reader.sizes())
    return _affine(reader, [start], _read(one), one.width, one.settings[1]) if start.width == one.width else None


def _is_affine(value: object) -> bool:
    return isinstance(value, Value) and value.operation == "affine"


def _affine(reader: OperationReader, start: list[Value], read: Sequence[Value], width: int, matrices: tuple[int, ...]) -> Value:
    return reader.values.make("affine", [*start, *read], width, (bool(start), matrices))


def _read(affine: Value) -> tuple[Value, ...]:
    """What an affine map multiplies."""
    return affine.of[1:] if affine.settings[0] else affine.of


PRODUCTS: dict[str, Callable[..., Any]] = {"mm": _mm, "mv": _mm, "bmm": _bmm, "addmm": _addmm}
