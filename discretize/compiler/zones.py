r"""A recorded graph of torch's operations as three programs: what is the same for all samples, each sample's, and sums over them.

    before     made of weights alone: computed by torch, once a call
    rows       a sample's own values, `discretize.compiler.values`: what the kernel computes at each step
    after      made of sums over samples, by which weights have their gradients: by torch, once a call

What is made of sums over samples is linear in them, as every derivative is in the cotangent; so sums over time may come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from discretize.compiler.values import Value, Values

__all__ = ["SumOverSamples", "Turned", "Unknown", "Zones"]


class Unknown(NotImplementedError):  # noqa: N818 - said of the operation, and callers go on without
    """The code uses what no kernel is written for: which operation, on which line."""


@dataclass(frozen=True)
class SumOverSamples:
    """Of a value, of the shape of a sample; or of the products of each unit of one with each of another."""

    left: Value
    right: Value | None
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Turned:
    """(units, samples): what may be multiplied with (samples, units)."""

    value: Value


@dataclass
class Zones:
    r"""The three programs of a graph.

    dtype: of samples; rows: what a node is for each sample; vectors: nodes made before, and the shape in which they are read,
    () as they are; matrices: likewise, and whether they are read turned; sums: nodes that stand for sums over samples; after:
    those and what is made of them.
    """

    graph: Graph
    dtype: torch.dtype
    rows: dict[Node, Any] = field(default_factory=dict)
    values: Values = field(default_factory=Values)
    vectors: list[tuple[Node, tuple[int, ...]]] = field(default_factory=list)
    matrices: list[tuple[Node, bool]] = field(default_factory=list)
    sums: dict[Node, SumOverSamples] = field(default_factory=dict)
    after: set[Node] = field(default_factory=set)

    def before_graph(self) -> torch.fx.GraphModule:
        """All placeholders -> the vectors, flat, and the matrices (depth, width)."""
        made = Graph()
        kept = _copier(made, self._placeholders(made))
        vectors = [_in_shape(made, kept(node), shape, node.meta["val"].dim()) for node, shape in self.vectors]
        matrices = [made.call_method("t", (kept(node),)) if turned else kept(node) for node, turned in self.matrices]
        flat = [made.call_method("to", (made.call_method("reshape", (vector, -1)), self.dtype)) for vector in vectors]
        made.output((flat, [made.call_method("contiguous", (matrix,)) for matrix in matrices]))
        return torch.fx.GraphModule(torch.nn.Module(), made)

    def after_graph(self, wanted: Sequence[Node | None]) -> torch.fx.GraphModule:
        """All placeholders, and the sums in their order -> the wanted nodes, None for those that are 0."""
        made = Graph()
        known = self._placeholders(made)
        for place, node in enumerate(self.sums):
            known[node] = made.placeholder(f"sum_over_samples_{place}")
        for node, each in self.sums.items():
            if each.right is None:  # the sum over a batch of one, for what else it does
                one = made.call_method("reshape", (known[node], (1, *each.shape)))
                known[node] = made.create_node("call_function", node.target, (one, *node.args[1:]), dict(node.kwargs))
        kept = _copier(made, known)
        made.output([None if node is None else kept(node) for node in wanted])
        return torch.fx.GraphModule(torch.nn.Module(), made)

    def _placeholders(self, made: Graph) -> dict[Node, Node]:
        return {node: made.node_copy(node) for node in self.graph.nodes if node.op == "placeholder"}


def _copier(made: Graph, known: dict[Node, Node]) -> Callable[[Node], Node]:
    """Copies a node and what it is made of, once each."""

    def kept(node: Node) -> Node:
        if node not in known:
            for other in node.all_input_nodes:
                kept(other)
            known[node] = made.node_copy(node, known.__getitem__)
        return known[node]

    return kept


def _in_shape(graph: Graph, node: Node, shape: tuple[int, ...], axes: int) -> Node:
    """Expanded to a sample's shape, where it is not one number; axes of 1 before it are left out."""
    for _ in range(axes - len(shape) if shape else 0):
        node = graph.call_method("squeeze", (node, 0))
    return graph.call_method("expand", (node, shape)) if shape else node
