r"""A module's code as a graph of tensor operations, recorded by torch at a batch of unknown size.

Parameters and buffers are arguments of the graph: none of their numbers is in it. What torch records holds for every batch
of two samples or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from sympy import Symbol
from torch import Tensor, nn

from derivations.tracing.operations import has_reading
from derivations.tracing.sizes import Width, Widths, checked_widths
from discretize import compat
from discretize.kernels.record.recording import as_function, decompositions, is_in_place, record, unknown_size, without_values

__all__ = ["Program", "next_state", "trace"]


@dataclass(frozen=True)
class Program:
    r"""The graph of a module's operations, and which of its placeholders and results are what.

    Args:    name; graph: of core ATen operations; parameters: their names in the module, by placeholder; constants: values by
             placeholder, buffers among them; inputs: for each argument its placeholders; several: the arguments that are tuples
             of tensors; state: which argument is the state; returned: the nodes that are dh/dt or the next state; any_batch:
             whether the batch has an unknown size, or is one sample; note: what of the answer is not read, in words; dtype:
             of the numbers it was recorded with; asked: what was asked of the size of the batch, in words.
    """

    name: str
    graph: torch.fx.Graph
    parameters: Mapping[str, str]
    constants: Mapping[str, Tensor]
    inputs: Mapping[str, tuple[str, ...]]
    several: frozenset[str]
    state: str
    returned: tuple[Any, ...]
    any_batch: bool
    note: str = ""
    dtype: torch.dtype = torch.float32
    asked: str = ""

    @property
    def placeholders(self) -> list[str]:
        return [node.name for node in self.graph.nodes if node.op == "placeholder"]

    def packed(self, given: Mapping[str, Tensor]) -> list[Any]:
        """Arrange tensors by placeholder as the module's arguments, several tensors as a tuple."""
        columns = {argument: tuple(given[name] for name in names) for argument, names in self.inputs.items()}
        return [tensors if argument in self.several else tensors[0] for argument, tensors in columns.items()]

    def state_of(self, answer: object) -> list[Tensor]:
        """Find the next state in what a call returns."""
        leaves, structure = compat.tree_flatten(answer)
        return list(next_state(leaves, structure, len(self.inputs[self.state]))[0])


def trace(module: nn.Module, widths: Widths | None = None, *, any_batch: bool = True) -> Program:
    r"""Record a module's code.

    Args:    module: `module(x, h)`, or with more arguments; widths: of every argument, the state's second, e.g.
             {"x": 2, "h": 3}, with a tuple for a state of several tensors; read off the module where not given; any_batch: at
             a batch of unknown size, two or more, else of one sample, which torch and users may treat otherwise.
    Raises:  TypeError for what is not a module; ValueError, with the line of code, where the code branches on values, depends
             on the size of the batch, or changes its buffers or inputs.
    """
    widths = checked_widths(module, widths)
    # A tensor under two names has the first.
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    tensors = [*parameters.values(), *buffers.values()]
    like: dict[str, Any] = {"dtype": _dtype(module), "device": next((t.device for t in tensors), None)}
    environment = compat.ShapeEnv()
    batch: Any = unknown_size(environment, "batch", 3) if any_batch else 1
    with without_values(environment):
        weights = list(map(torch.empty_like, tensors))
        columns = tuple(_tree(width, lambda n: torch.empty(batch, n, **like)) for width in widths.values())
    try:
        graph, structure, constants = record(decompositions(has_reading), as_function(module), weights, columns)
    except ValueError as error:
        *others, (h, width) = list(widths.items())[:2]
        if "to unpack" not in str(error.__cause__) or not isinstance(width, int):  # Python's words
            raise
        given = ", ".join([*(f"{name!r}: {n}" for name, n in others), f"{h!r}: ({width}, {width})"])
        raise ValueError(f"{error}; if its state is of two tensors, say so: widths={{{given}}}.") from error
    if any(hasattr(t, "fake_mode") for t in constants.values()):  # of another record
        raise ValueError("the code keeps a tensor from one call to the next, outside of the module; it must keep nothing.")
    if any(map(is_in_place, graph.nodes)):
        raise ValueError("the code changes its buffers, parameters or inputs; it must be a function of them.")
    graph.eliminate_dead_code()
    placed = iter(node.name for node in graph.nodes if node.op == "placeholder")
    letters = {next(placed): name for name in parameters}
    constants |= {next(placed): buffer.detach() for buffer in buffers.values()}
    inputs = {argument: tuple(next(placed) for _ in _parts(width)) for argument, width in widths.items()}
    state = list(widths)[min(1, len(widths) - 1)]
    leaves = next(node for node in graph.nodes if node.op == "output").args[0]
    returned, note = next_state(leaves, structure, len(inputs[state]))
    several = frozenset(argument for argument, width in widths.items() if isinstance(width, tuple))
    dtype = next(n for n in graph.nodes if n.name == inputs[state][0]).meta["val"].dtype
    asked = _sizes_asked(environment, batch)
    name = type(module).__name__
    return Program(name, graph, letters, constants, inputs, several, state, returned, any_batch, note, dtype, asked)


def _sizes_asked(environment: compat.ShapeEnv, batch: Any) -> str:
    """Say what was asked of the size of the batch."""
    if not (environment.guards or environment.replacements):
        return ""
    asked = [str(guard.expr.xreplace({batch.node.expr: Symbol("batch")})) for guard in environment.guards[:1]]
    words = "".join(f": it, or an operation of torch in it, asks whether {e}" for e in asked)
    return f"the code takes batches of certain sizes only{words}; it must act on each sample by itself."


def next_state(leaves: Any, structure: Any, count: int) -> tuple[tuple[Any, ...], str]:
    """Find the next state in what a cell returns: all of it, or the last part, as in (output, state)."""
    children = [child.num_leaves for child in structure.children()] if structure.num_nodes > 1 else [1]
    if sum(children) == count:
        return tuple(leaves), ""
    if children[-1] == count and structure.type in (tuple, list):
        return tuple(leaves[-count:]), "of what the module returns, the last part is the next state and the rest is not compared"
    raise ValueError(f"the module returns {len(leaves)} tensors where its state has {count}.")


def _dtype(module: nn.Module) -> torch.dtype:
    floating = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floating, getattr(module, "dtype", None) or torch.get_default_dtype())


def _tree(width: Width, make: Any) -> Any:
    return tuple(map(make, width)) if isinstance(width, tuple) else make(width)


def _parts(width: Width) -> tuple[int, ...]:
    return width if isinstance(width, tuple) else (width,)
