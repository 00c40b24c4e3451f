r"""Lowering reads a recorded graph: each operation becomes a value of a sample, a sum over samples, or part of what is made of
weights alone or of sums.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from discretize.kernels.record.functions import FUNCTIONS
from discretize.kernels.record.layout import LAYOUT
from discretize.kernels.record.products import PRODUCTS, joined
from discretize.kernels.record.recording import RESHAPES, operation_name
from discretize.kernels.record.values import Value, row_major
from discretize.kernels.record.zones import OperationReader, SumOverSamples, Zones

__all__ = ["is_known", "zones_of"]

POWERS = {0.5: "sqrt", -1: "reciprocal", 1: "spread", -0.5: "rsqrt", 2: "square"}
COUNTS = {"sum", "_to_copy", "where"}  # in whole numbers
# Of the same names as what is read, and something else.
OTHERS = {
    *(("view", "dtype"), ("div", "Tensor_mode"), ("div", "Scalar_mode"), ("round", "decimals")),
    *(("var", "dim"), ("var_mean", "dim")),
}


def is_known(name: str, overload: str) -> bool:
    """Whether an operation is read as it is."""
    return (name, overload) not in OTHERS and (name in FUNCTIONS or name in OPERATIONS)


def zones_of(graph: Graph, samples: Mapping[str, str], dtype: torch.dtype) -> Zones:
    r"""Read a graph.

    Args:    samples: by placeholder of what each sample has its own of, "x", "h", "dt", "cotangent" or "slope 3"; dtype: of the
             samples.
    Raises:  Unknown, with the line of code.
    """
    zones = Zones(graph, dtype)
    for node in graph.nodes:
        if node.op == "placeholder" and node.name in samples:
            zones.rows[node] = zones.values.given(samples[node.name], node.meta["val"].shape[-1])
        elif node.op == "call_function" and any(source in zones.rows or source in zones.after for source in node.all_input_nodes):
            _read(zones, dtype, node)
    return zones


def _read(zones: Zones, dtype: torch.dtype, node: Node) -> None:
    reader = OperationReader(zones, dtype, node)
    if any(source in zones.after for source in node.all_input_nodes):
        if any(zones.rows.get(source) is not None for source in node.all_input_nodes):
            raise reader.unknown("it mixes samples")
        zones.after.add(node)
        return
    result = _result(reader, node)
    if isinstance(result, SumOverSamples):
        zones.sums[node] = result
        zones.after.add(node)
    else:
        zones.rows[node] = result
        _note_order(zones, reader, node)


def _note_order(zones: Zones, reader: OperationReader, node: Node) -> None:
    """Where numbers of a sample lie along the batch's axis, in which order they do, to refuse other orders beside it."""
    if not isinstance(zones.rows[node], Value) or not reader.sizes() or reader.sizes()[reader.batch()] == 1:
        return
    read = node.all_input_nodes if node.target is not operator.getitem else node.all_input_nodes[0].all_input_nodes
    sources = [source for source in read if isinstance(zones.rows.get(source), Value) and reader.sizes(source)]
    if operation_name(node) in RESHAPES:
        sources = sources[:1]
        distances = {reader.outside(source) * reader.inside(source) // reader.outside(node) for source in sources}
    else:
        distances = {reader.inside(source) for source in sources if reader.sizes(source)[reader.batch(source)] != 1}
    if len(distances) > 1:
        raise reader.unknown("it mixes samples")
    zones.inside[node] = distances.pop() if distances else 1


def _result(reader: OperationReader, node: Node) -> Any:
    value, name = node.meta.get("val"), operation_name(node)
    if isinstance(value, torch.SymInt | int):
        return None  # the size of the batch
    if node.target is operator.getitem:
        source, place = node.args
        return reader.own(source)[place]
    known = {reader.dtype, torch.bool, *((torch.int64,) if name in COUNTS else ())}
    if isinstance(value, Tensor) and value.dtype not in known:
        raise reader.unknown(f"it computes in {str(value.dtype).removeprefix('torch.')}")
    if not is_known(name, str(node.target).rpartition(".")[2]):
        raise reader.unknown("no kernel is written for it")
    if name in OPERATIONS:
        return OPERATIONS[name](reader, *node.args, **node.kwargs)
    if node.kwargs:
        raise reader.unknown(f"no kernel is written for its {', '.join(node.kwargs)}")
    return reader.by_unit(name, *node.args)


def _add(reader: OperationReader, a: object, b: Any, alpha: Any = 1) -> Value:
    if reader.node.meta["val"].dtype == torch.bool:
        return reader.by_unit("logical_or", a, b)
    return (alpha == 1 and joined(reader, a, b)) or reader.by_unit("add", a, _scaled(reader, b, alpha))


def _sub(reader: OperationReader, a: object, b: Any, alpha: Any = 1) -> Value:
    return reader.by_unit("sub", a, _scaled(reader, b, alpha))


def _rsub(reader: OperationReader, a: object, b: object, alpha: object = 1) -> Value:
    return _sub(reader, b, a, alpha)


def _scaled(reader: OperationReader, operand: object, by: float) -> Any:
    return operand if by == 1 else reader.by_unit("mul", operand, by)


def _pow(reader: OperationReader, a: object, b: object) -> Value:
    if isinstance(b, int | float) and b in POWERS:
        return reader.by_unit(POWERS[b], a)
    return reader.by_unit("mul", reader.by_unit("square", a), a) if _is_number(b, 3) else reader.by_unit("pow", a, b)


def _is_number(operand: object, number: float) -> bool:
    return not isinstance(operand, Node) and operand == number


def _clamp(reader: OperationReader, a: object, low: object = None, high: object = None) -> Value:
    raised = a if low is None else reader.by_unit("maximum", a, low)
    return reader.by_unit("spread", raised) if high is None else reader.by_unit("minimum", raised, high)


def _named(name: str) -> Callable[..., Value]:
    return lambda reader, *arguments: reader.by_unit(name, *arguments)


# Sums and the like over the numbers of a sample; sums over samples are left to the end.


def _taken(reader: OperationReader, node: Node, dim: Any) -> list[int]:
    """Over which axes."""
    axes = range(len(reader.sizes(node)))
    return list(axes) if dim is None or dim == [] else sorted(axes[each] for each in ([dim] if isinstance(dim, int) else dim))


def _sum(reader: OperationReader, node: Node, dim: object = None, keepdim: bool = False, **_: object) -> Value | SumOverSamples:
    if reader.batch(node) in _taken(reader, node, dim):
        return SumOverSamples(((reader.value(node), None),), reader.sizes(node))
    return _over_units(reader, "sum", node, dim)


def _over_units(reader: OperationReader, how: str, node: Node, dim: object) -> Value:
    taken = _taken(reader, node, dim)
    if reader.batch(node) in taken:
        raise reader.unknown("it takes it of the samples")
    return _over(reader, how, reader.value(node), reader.sizes(node), taken)


def _over(reader: OperationReader, how: str, value: Value, sizes: Sequence[int], taken: list[int]) -> Value:
    """A value of these sizes, over some of the axes."""
    size = prod(sizes[axis] for axis in taken)
    several = [axis for axis in taken if sizes[axis] != 1] or taken
    before, between, after = sizes[: several[0]], sizes[several[0] : several[-1] + 1], sizes[several[-1] + 1 :]
    if prod(between) == size:
        return reader.values.over_axis(how, value, prod(before), size, prod(after))
    axes = row_major(sizes)
    order = [axis for axis in range(len(sizes)) if axis not in taken] + taken
    return reader.values.over_axis(how, reader.values.strided(value, 0, [axes[k] for k in order]), value.width // size, size)


def _amax(reader: OperationReader, node: Node, dim: object = (), keepdim: bool = False) -> Value:
    return _over_units(reader, "amax", node, dim or None)


def _mean(reader: OperationReader, node: Node, dim: object = None, keepdim: bool = False, **_: object) -> Value:
    total = _over_units(reader, "sum", node, dim)
    return _divided(reader, total, reader.value(node).width // total.width)


def _divided(reader: OperationReader, total: Value, by: float) -> Value:
    return reader.values.make("div", [total, reader.values.make("count", settings=(by,))], total.width)


def _var_mean(
    reader: OperationReader, node: Node, dim: object = None, *, correction: float | None = 1, keepdim: bool = False
) -> tuple[Value, Value]:
    make, value, sizes = reader.values.make, reader.value(node), reader.sizes(node)
    mean, taken = _mean(reader, node, dim), _taken(reader, node, dim)
    of_all = [1 if axis in taken else size for axis, size in enumerate(sizes)]
    other = mean if mean.width == 1 else reader.values.broadcast(mean, of_all, sizes)
    squares = make("square", [make("sub", [value, other], value.width)], value.width)
    lost = 1 if correction is None else correction
    total = _over(reader, "sum", squares, sizes, taken)
    return _divided(reader, total, value.width // mean.width - lost), mean


def _var(reader: OperationReader, node: Node, dim: object = None, **settings: Any) -> Value:
    return _var_mean(reader, node, dim, **settings)[0]


def _increments(reader: OperationReader, columns: Node, parts: int, integral: bool, width: int) -> Value:
    of = reader.value(columns)
    if of.width != reader.sizes(columns)[-1]:
        raise reader.unknown("a sample has more than one address")
    made = [reader.values.make("increments", [of], width, (parts, integral, which)) for which in range(1 + integral)]
    return reader.values.cat(made)


def _jacobian_product(reader: OperationReader, _: Node, v: Node, turned: bool) -> Value:
    return reader.values.make("jacobian_product", [reader.value(v, reader.sizes())], reader.width, (turned,))


def _jacobian_solve(reader: OperationReader, _: Node, a: Node, b: Node, right: Node, turned: bool) -> Value:
    factored = reader.values.make("factored", [reader.value(a), reader.value(b)])
    return reader.values.make("jacobian_solve", [factored, reader.value(right, reader.sizes())], reader.width, (turned,))


def _jacobian_outer(reader: OperationReader, left: Node, right: Node) -> Value:
    return reader.values.make("jacobian_outer", [reader.value(each, reader.sizes()) for each in (left, right)], reader.width)


def _solution(reader: OperationReader, projected: Node, a: Node, tau: Node, guess: Node) -> Value:
    own = [reader.value(each, reader.sizes(each)) for each in (projected, a, tau, guess)]
    return reader.values.make("solution", own, reader.width)


def _solution_pull(reader: OperationReader, cotangent: Node, u: Node, projected: Node, tau: Node) -> Value:
    own = [reader.value(each, reader.sizes(each)) for each in (cotangent, u, projected, tau)]
    return reader.values.make("solution_pull", own, reader.width)


# The value of each operation that is not a function of each unit by its own name.
OPERATIONS: dict[str, Callable[..., Any]] = {
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
    "sum": _sum,
    "amax": _amax,
    "mean": _mean,
    "var": _var,
    "var_mean": _var_mean,
    "increments": _increments,
    "jacobian_product": _jacobian_product,
    "jacobian_solve": _jacobian_solve,
    "jacobian_outer": _jacobian_outer,
    "solution": _solution,
    "solution_pull": _solution_pull,
    **PRODUCTS,
    **LAYOUT,
}
