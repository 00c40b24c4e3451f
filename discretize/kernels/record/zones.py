r"""Split a recorded graph of torch's operations into three programs, and read the arguments of its operations.

    before     made of weights alone: computed by torch, once a call
    rows       a sample's own values, `discretize.kernels.record.values`: what the kernel computes at each step
    after      made of sums over samples, by which weights have their gradients: by torch, once a call

What is made of sums over samples is linear in them, as every derivative is in the cotangent; so sums over time may come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch.fx import Graph, Node

from discretize.kernels.record.recording import UnknownOperation, operation_name, source_line
from discretize.kernels.record.values import Value, ValuePool

__all__ = ["OperationReader", "SumOverSamples", "Zones"]


@dataclass(frozen=True)
class SumOverSamples:
    r"""Of a value; or of the products of each unit of one with each of another, for several pairs.

    shape: of the value, or of one pair's sum; how: what the pairs' sums make, their "sum" or a "stack" of them.
    """

    pairs: tuple[tuple[Value, Value | None], ...]
    shape: tuple[int, ...]
    how: str = ""


@dataclass
class Zones:
    r"""The three programs of a graph.

    dtype: of samples; rows: what a node is for each sample; vectors: nodes made before, and the shape in which they are read,
    () as they are; matrices: likewise, whether they are read turned, and their place in a stack; sums: nodes that stand for
    sums over samples; after: those and what is made of them; inside: where numbers of a sample lie along the batch's axis, how
    many of them are further apart than the samples.
    """

    graph: Graph
    dtype: torch.dtype
    rows: dict[Node, Any] = field(default_factory=dict)
    values: ValuePool = field(default_factory=ValuePool)
    vectors: list[tuple[Node, tuple[int, ...]]] = field(default_factory=list)
    matrices: list[tuple[Node, bool, int | None]] = field(default_factory=list)
    sums: dict[Node, SumOverSamples] = field(default_factory=dict)
    after: set[Node] = field(default_factory=set)
    inside: dict[Node, int] = field(default_factory=dict)

    @property
    def pairs(self) -> list[tuple[Value, Value | None]]:
        """Of all sums."""
        return [pair for each in self.sums.values() for pair in each.pairs]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(each.shape for each in self.sums.values() for _ in each.pairs)

    def before_graph(self) -> torch.fx.GraphModule:
        """All placeholders -> the vectors, flat, and the matrices (depth, width)."""
        made = Graph()
        copied = _copier(made, self._placeholders(made))
        vectors = [made.call_method("expand", (copied(node), shape)) if shape else copied(node) for node, shape in self.vectors]
        matrices = [_matrix(made, copied(node), turned, place) for node, turned, place in self.matrices]
        flat = [made.call_method("to", (made.call_method("reshape", (vector, -1)), self.dtype)) for vector in vectors]
        # Vectors too: a column, a diagonal or one number for all units is as flat where it lies.
        made.output(tuple([made.call_method("contiguous", (each,)) for each in some] for some in (flat, matrices)))
        return torch.fx.GraphModule(torch.nn.Module(), made)

    def after_graph(self, wanted: Sequence[Node | None]) -> torch.fx.GraphModule:
        """All placeholders, and the pairs' sums in their order -> the wanted nodes, None for those that are 0."""
        made = Graph()
        known = self._placeholders(made)
        sums = iter([made.placeholder(f"sum_over_samples_{place}") for place in range(len(self.pairs))])
        for node, each in self.sums.items():
            one, *others = [next(sums) for _ in each.pairs]
            if not each.how:  # the sum over a batch of one, for what else it does
                one = made.call_method("reshape", (one, each.shape))
                known[node] = made.create_node("call_function", node.target, (one, *node.args[1:]), dict(node.kwargs))
            elif each.how == "stack" or others:
                stack = made.call_function(torch.stack, ([one, *others],))
                known[node] = stack if each.how == "stack" else made.call_method("sum", (stack, 0))
            else:
                known[node] = one
        copied = _copier(made, known)
        made.output([None if node is None else copied(node) for node in wanted])
        return torch.fx.GraphModule(torch.nn.Module(), made)

    def _placeholders(self, made: Graph) -> dict[Node, Node]:
        return {node: made.node_copy(node) for node in self.graph.nodes if node.op == "placeholder"}


def _copier(made: Graph, known: dict[Node, Node]) -> Callable[[Node], Node]:
    """Copies a node and what it is made of, once each."""

    def kept(node: Node) -> Node:
        if node not in known:
            for other in node.all_input_nodes:
                kept(other)
            known[node] = _quick(made, node, known)
        return known[node]

    return kept


def _quick(made: Graph, node: Node, known: dict[Node, Node]) -> Node:
    """A copy of a node. The most frequent by methods of tensors, which take a third of the time; nothing here has a gradient."""
    one = known.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
    if one is not None and node.target is torch.ops.aten.detach.default:
        return one
    if one is not None and node.target is torch.ops.aten.t.default:
        return made.call_method("t", (one,))
    return made.node_copy(node, known.__getitem__)


def _matrix(graph: Graph, node: Node, turned: bool, place: int | None) -> Node:
    one = node if place is None else graph.call_method("select", (node, 0, place))
    return graph.call_method("t", (one,)) if turned else one


@dataclass(frozen=True)
class OperationReader:
    """For one operation, whose result is `node`."""

    zones: Zones
    dtype: torch.dtype
    node: Node

    @property
    def values(self) -> ValuePool:
        return self.zones.values

    @property
    def width(self) -> int:
        """How many numbers of a sample the result has."""
        return prod(self.sizes())

    def unknown(self, why: str) -> UnknownOperation:
        name = operation_name(self.node)
        return UnknownOperation(f"its code uses {name}, and {why}: {source_line(self.node)}")

    def sizes(self, node: Node | None = None) -> tuple[int, ...]:
        """Of a sample's numbers, in torch's axes: 1 where the batch is, or how many lie along that axis too."""
        return tuple(size for size, _ in self._axes(node))

    def batch(self, node: Node | None = None) -> int:
        """In which axis the samples are."""
        return [batch for _, batch in self._axes(node)].index(True)

    def outside(self, node: Node) -> int:
        """How many of a sample's numbers are in the axes before that of the batch."""
        return prod(self.sizes(node)[: self.batch(node)])

    def inside(self, node: Node) -> int:
        """How many of a sample's numbers along the batch's own axis are further apart than the samples."""
        return self.zones.inside.get(node, 1)

    def _axes(self, node: Node | None) -> list[tuple[int, bool]]:
        shape, axes = (node or self.node).meta["val"].shape, list[tuple[int, bool]]()
        for size in shape:
            times, batch = size.node.expr.as_coeff_Mul() if isinstance(size, torch.SymInt) else (size, None)
            if batch is not None and not batch.is_symbol:
                raise self.unknown(f"its result of shape {tuple(shape)} is no batch of samples")
            axes.append((int(times), batch is not None))
        if shape and sum(batch for _, batch in axes) != 1:
            raise self.unknown(f"its result of shape {tuple(shape)} has more or less than one axis of samples")
        return axes

    def own(self, operand: object) -> Any:
        """What each sample has of an argument; None where it is the same for all."""
        return self.zones.rows.get(operand) if isinstance(operand, Node) else None

    def value(self, operand: object, like: tuple[int, ...] | None = None) -> Value:
        """An argument; of the sizes `like` where it is more than one number."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, bool | int | float):
            return self.values.number(operand)
        if not isinstance(operand, Node):
            raise self.unknown(f"its argument {operand} is no tensor and no number")
        if operand not in self.zones.rows:
            return self._shared(operand, like)
        own = self.own(operand)
        if not isinstance(own, Value):
            raise self.unknown("it mixes samples")
        return own if like is None or own.width == 1 else self.values.broadcast(own, self.sizes(operand), like)

    def _shared(self, node: Node, like: tuple[int, ...] | None) -> Value:
        tensor = node.meta["val"]
        if tensor.dtype != self.dtype and tensor.is_floating_point():
            raise self.unknown(f"it reads {tensor.dtype}")
        shape = () if tensor.numel() == 1 or like is None else like
        if (node, shape) not in self.zones.vectors:
            self.zones.vectors.append((node, shape))
        width = prod(shape) if shape else tensor.numel()
        return self.values.make("shared", width=width, settings=(self.zones.vectors.index((node, shape)),))

    def matrix(self, node: Node, turned: bool = False, place: int | None = None) -> int:
        """The number of a matrix, or of that in one place of a stack."""
        if (node, turned, place) not in self.zones.matrices:
            self.zones.matrices.append((node, turned, place))
        return self.zones.matrices.index((node, turned, place))

    def by_unit(self, name: str, *arguments: object) -> Value:
        """A function of the numbers of each unit."""
        sizes = self.sizes()
        return self.values.make(name, [self.value(operand, sizes) for operand in arguments], prod(sizes))

    def between(self, value: Value, first: int, last: int) -> Value:
        return self.values.slice(value, first, last - first)

    def filled(self, number: float) -> Value:
        value = self.values.number(number)
        return self.values.make("spread", [value], self.width) if self.node.meta["val"].dim() else value
