r"""Check that a recorded program acts on each sample of the batch by itself, the same way on each.

Recorded at a batch of unknown size s, every tensor tells by its shape which of its axes is the batch: the one of length s.
A program acts on samples one by one if every operation does, and that is seen operation by operation:

    entry by entry              row meets row, for shapes that fit have their s at the same place
    sums, softmax, cat, ...     along other axes than the batch
    products                    contracted over other axes than the batch
    reshapes                    as many entries to the left of the batch axis before and after
    numbers                     never s itself

Then the program may be read with a batch of one sample, and what is read holds for every sample of every batch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.fx import Node

from derivations.tracing.elementwise import ELEMENTWISE
from derivations.tracing.operations import MADE
from discretize.kernels.record.recording import RESHAPES, SAME_NUMBERS, ModuleRecord, operation_name, source_line

__all__ = ["check_samples"]

# Operations along axes: where these stand among the arguments, and whether all are meant where none is given.
FIRST = (
    "logsumexp",
    "cumsum",
    "_softmax",
    "_log_softmax",
    "select",
    "slice",
    "cat",
    "stack",
    "flip",
    "index_select",
    "sort",
    "median",
)
ALONG = {
    **dict.fromkeys(("sum", "mean", "prod", "amax", "amin", "max", "min", "var"), (1, True)),
    **dict.fromkeys(FIRST, (1, False)),
    **dict.fromkeys(("split_with_sizes", "split", "slice_scatter", "select_scatter"), (2, False)),
    **dict.fromkeys(("linalg_vector_norm", "roll"), (2, True)),
    "topk": (2, False),
}
LAST = {"sort", "topk"}  # which work along the last axis where none is given
WHOLE = 2**63 - 1  # the end of a slice that has none
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "dot"}
MOVES = {"permute", "transpose", "t", "_to_copy"}
# What may be given the size of the batch: it is a length there.
SIZED = {*RESHAPES, "expand", *MADE}


def check_samples(program: ModuleRecord) -> None:
    r"""Raise ValueError, with the line of code, where samples of a batch are mixed or counted."""
    _Samples(program).check()


class _Samples:
    """Checks every operation, for one symbol of the size of the batch."""

    def __init__(self, program: ModuleRecord) -> None:
        self.program = program
        self.size = program.batch

    def check(self) -> None:
        for node in self.program.graph.nodes:
            # Sizes are looked at where they are used, and what gives no tensor asserts something of one.
            gives_tensors = isinstance(node.meta.get("val"), torch.Tensor | tuple | list)
            if node.op == "call_function" and node.target is not operator.getitem and gives_tensors:
                self._check(node, operation_name(node))
        for leaf in self.program.returned:
            if not isinstance(leaf, Node) or len(_shape(leaf)) != 2 or self._batch_axis(leaf) != 0:
                raise ValueError("the code does not answer with a row for each sample: its result must be (batch, units).")

    def _check(self, node: Node, name: str) -> None:
        if any(self._is_size(other) for other in node.all_input_nodes) and (name not in SIZED or self._size_as_value(node, name)):
            raise ValueError(f"the code computes with the size of the batch: {source_line(node)}")
        self._batch_axis(node)
        batched = [other for other in node.all_input_nodes if self._batch_axis(other) is not None]
        if batched and self._mixes(node, name, batched):
            raise ValueError(f"the code mixes the samples of a batch: {source_line(node)}. It must act on each sample by itself.")

    def _mixes(self, node: Node, name: str, batched: list[Node]) -> bool:
        if name in ("select_scatter", "slice_scatter"):  # what is put in has the batch where the whole has it
            batched = [node.args[0]]  # type: ignore[list-item]
        if name in ALONG:
            return not _is_whole(node, name) and any(
                self._batch_axis(other) in self._axes(node, other, *ALONG[name]) for other in batched
            )
        if name in RESHAPES:
            return any(self._left(other) != self._left(node) for other in batched)
        rules: dict[str, Callable[[Node], bool]] = {
            "index": self._picks_samples,
            "native_layer_norm": self._norm_mixes,
            "log_sigmoid_forward": lambda _: False,
            "_native_batch_norm_legit_no_training": lambda norm: self._batch_axis(norm.args[0]) != 0,  # type: ignore[arg-type]
            "gather": self._gathers_samples,
            "copy": lambda _: False,  # row meets row, as entry by entry
        }
        if name in rules or name in PRODUCTS:
            return rules.get(name, self._contracts)(node)
        # What is left is free of the question, or has no reading and was refused.
        return not (name in ELEMENTWISE or name in SAME_NUMBERS or name in MADE or name in MOVES)

    def _norm_mixes(self, node: Node) -> bool:
        x, axes = node.args[0], node.args[1]
        return self._batch_axis(x) != 0 or len(_shape(x)) == len(axes)  # type: ignore[arg-type]

    def _is_size(self, node: Node) -> bool:
        """Whether a number depends on the size of the batch, or is read off a tensor."""
        value = node.meta.get("val")
        return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) and value.node.expr.has(self.size)

    def _size_as_value(self, node: Node, name: str) -> bool:
        """Whether the size of the batch is the number that a tensor is filled with."""
        return name in MADE and any(isinstance(a, Node) and self._is_size(a) for a in node.args)

    def _batch_axis(self, node: Node) -> int | None:
        """Which axis is the batch; None where there is none, or for several tensors."""
        sizes = [(axis, size.node.expr) for axis, size in enumerate(_shape(node)) if _has(size, self.size)]
        if len(sizes) > 1 or any(size != self.size for _, size in sizes):
            raise ValueError(
                f"the code mixes the batch with other axes: {source_line(node)}. It must act on each sample by itself."
            )
        return sizes[0][0] if sizes else None

    def _axes(self, node: Node, tensor: Node, place: int, or_all: bool) -> set[int]:
        """The axes of one tensor that an operation works along."""
        rank, dims = len(_shape(tensor)), node.args[place] if len(node.args) > place else node.kwargs.get("dim")
        if dims is None or dims == []:
            return set(range(rank)) if or_all else {rank - 1 if operation_name(node) in LAST else 0}
        # `stack` counts the new axis, which is between two old ones: it joins no samples wherever it stands.
        if operation_name(node) == "stack":
            return set()
        return {int(axis) % rank for axis in (dims if isinstance(dims, list | tuple) else [dims])}  # type: ignore[arg-type]

    def _contracts(self, node: Node) -> bool:
        """Whether a product sums over the batch: it sums over the last axis of its first factor."""
        factors = [a for a in node.args if isinstance(a, Node)]
        first = factors[1 if operation_name(node) in ("addmm", "baddbmm") else 0]
        return self._batch_axis(first) == len(_shape(first)) - 1

    def _left(self, node: Node) -> int | None:
        axis = self._batch_axis(node)
        return None if axis is None else prod(_shape(node)[:axis])

    def _gathers_samples(self, node: Node) -> bool:
        """Unless the positions are of the same samples, and along another axis."""
        tensor, dim, index = node.args[:3]
        axis = self._batch_axis(tensor)  # type: ignore[arg-type]
        return axis != self._batch_axis(index) or dim % len(_shape(tensor)) == axis  # type: ignore[arg-type, operator]

    def _picks_samples(self, node: Node) -> bool:
        """Unless an index leaves the batch axis whole, and picks along the others by numbers that are the same for all."""
        tensor, indices = node.args[0], list(node.args[1])  # type: ignore[arg-type]
        axis = self._batch_axis(tensor)  # type: ignore[arg-type]
        return axis is None or any(
            i is not None and (k == axis or self._batch_axis(i) is not None) for k, i in enumerate(indices)
        )


def _is_whole(node: Node, name: str) -> bool:
    """Return whether a slice is from end to end, as [:, 1:] makes one of the batch."""
    ends = {"slice": 2, "slice_scatter": 3}.get(name)
    return ends is not None and list(node.args[ends:]) in ([], [0], [0, WHOLE], [None, None], [None, None, 1], [0, WHOLE, 1])


def _shape(node: Node) -> tuple[Any, ...]:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()


def _has(size: object, symbol: object) -> bool:
    return isinstance(size, torch.SymInt) and size.node.expr.has(symbol)
