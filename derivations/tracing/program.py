r"""A module's code as a graph of tensor operations, recorded by torch at a batch of unknown size.

    module, widths of its arguments -> torch.export -> core operations, with no in-place forms -> `Program`

Parameters and buffers are arguments of the graph: none of their numbers is in it. What torch records holds for every batch
of two samples or more.
"""

from __future__ import annotations

import copy
import logging
import os
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.proxy import TracerBase

from derivations.tracing.readings.operations import has_reading
from derivations.tracing.widths.arguments import Width, Widths, checked_widths

__all__ = [
    "Program",
    "as_function",
    "call_with",
    "decompositions",
    "next_state",
    "operation_name",
    "results_kept",
    "source_line",
    "trace",
]


@dataclass(frozen=True)
class Program:
    r"""What a module computes, operation by operation.

    Args:    name; graph: of core ATen operations; parameters: their names in the module, by placeholder; constants: values by
             placeholder, buffers among them; inputs: for each argument its placeholders; several: the arguments that are tuples
             of tensors; state: which argument is the state; returned: the nodes that are dh/dt or the next state; any_batch:
             whether the batch has an unknown size, or is one sample; note: what of the answer is not read, in words; dtype:
             of the numbers it was recorded with.
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


def trace(module: nn.Module, widths: Widths | None = None, *, any_batch: bool = True) -> Program:
    r"""Record a module's code.

    Args:    module: `module(x, h)`, or with more arguments; widths: of every argument, the state's second, e.g.
             {"x": 2, "h": 3}, with a tuple for a state of several tensors; read off the module where not given; any_batch: at
             a batch of unknown size, two or more, else of one sample, which torch and users may treat otherwise.
    Raises:  TypeError for what is not a module; ValueError, with the line of code, where the code branches on values, depends
             on the size of the batch, or changes its buffers or inputs.
    """
    widths = checked_widths(module, widths)
    names, tensors = _tensors(module)
    batch = torch.export.Dim("batch", min=2)
    like: dict[str, Any] = {"dtype": _dtype(module), "device": next((t.device for t in tensors), None)}
    examples = tuple(_tree(width, lambda n: torch.zeros(3 if any_batch else 1, n, **like)) for width in widths.values())
    shapes: Any = (
        tuple({} for _ in tensors),
        tuple(_tree(width, lambda _: {0: batch} if any_batch else {}) for width in widths.values()),
    )
    with _in_the_user_s_words():
        called = _Called(module, tensors)
        program = torch.export.export(called, (tuple(tensors), examples), dynamic_shapes=shapes)
        if not all(map(_is_core, program.graph.nodes)):
            program = program.run_decompositions(decompositions())
    return _program(program, type(module).__name__, names, widths, tensors, any_batch)


def call_with(module: nn.Module, values: Mapping[int, Tensor], *arguments: Any) -> Any:
    """The module's answer with other tensors in place of its own, by their ids, wherever it keeps them."""
    # Not torch.func.functional_call: it misses parameters that a module also keeps in a dict of its own.
    return copy.deepcopy(module, dict(values))(*arguments)


def results_kept(module: nn.Module) -> dict[int, Tensor]:
    """Tensors that a module keeps from a computation, as pruned weights, which torch would refuse to copy; by their ids."""
    kept = (value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor))
    return {id(value): value.detach() for value in kept if value.grad_fn is not None}


def operation_name(node: torch.fx.Node) -> str:
    """`add` of torch.ops.aten.add.Tensor: the overloads of an operation do the same."""
    return str(node.target).removeprefix("aten.").partition(".")[0]


def source_line(node: torch.fx.Node) -> str:
    """Where in the user's code an operation comes from."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    places = [k for k, line in enumerate(lines) if line.startswith('File "') and not _is_torch(line) and __file__ not in line]
    return ": ".join(lines[places[-1] : places[-1] + 2]) if places else "a line that torch does not tell"


def as_function(module: nn.Module, kept: Mapping[int, Any]) -> nn.Module:
    """The module as a function of its parameters and buffers too; `kept`: objects that are not copied, by their ids."""
    return _Called(module, _tensors(module)[1], kept)


class _Called(nn.Module):
    """A module as a function of its parameters and buffers too."""

    def __init__(self, module: nn.Module, tensors: list[Tensor], kept: Mapping[int, Any] | None = None) -> None:
        super().__init__()
        # In a list, so that torch does not find the parameters here again.
        self.module, self.tensors = [module], tensors
        visited: dict[int, Any] = {**results_kept(module), **(kept or {})}
        copy.deepcopy(module, visited)
        # Other tensors that the module keeps are constants: the same objects in each copy.
        self.kept = {**{key: value for key, value in visited.items() if isinstance(value, Tensor)}, **(kept or {})}

    def forward(self, tensors: tuple[Tensor, ...], arguments: tuple[Any, ...]) -> Any:
        given = {id(old): new for old, new in zip(self.tensors, tensors, strict=True)}
        return call_with(self.module[0], {**self.kept, **given}, *arguments)


def _is_core(node: torch.fx.Node) -> bool:
    """Whether an operation can stay as it is: it has a reading, and changes nothing in place."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return node.op != "call_module"
    return has_reading(operation_name(node), node.target._overloadname) and not node.target._schema.is_mutable


def _tensors(module: nn.Module) -> tuple[list[str | None], list[Tensor]]:
    """Parameters with their names, then buffers with None: a tensor under two names has the first."""
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    return [*parameters, *(None for _ in buffers)], [*parameters.values(), *buffers.values()]


def _dtype(module: nn.Module) -> torch.dtype:
    floating = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floating, getattr(module, "dtype", None) or torch.get_default_dtype())


def _tree(width: Width, make: Any) -> Any:
    return tuple(map(make, width)) if isinstance(width, tuple) else make(width)


@cache
def decompositions() -> Any:
    """How operations are taken apart: torch's way, but for what has a reading as it is, which is shorter."""
    table = torch.export.default_decompositions()
    for operation in list(table.keys()):
        name, _, overload = str(operation).removeprefix("aten.").partition(".")
        if has_reading(name, overload):
            table.pop(operation, None)
    return table


def _program(
    exported: Any, name: str, names: list[str | None], widths: Widths, tensors: list[Tensor], any_batch: bool
) -> Program:
    signature = exported.graph_signature
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in signature.output_specs):
        raise ValueError("the code changes its buffers, parameters or inputs; it must be a function of them.")
    stored = {**exported.state_dict, **exported.constants}
    constants = {s.arg.name: stored[s.target] for s in signature.input_specs if s.kind is not InputKind.USER_INPUT}
    given = [s.arg.name for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
    placeholders, rest = given[: len(names)], iter(given[len(names) :])
    parameters = {placeholder: name for placeholder, name in zip(placeholders, names, strict=True) if name is not None}
    constants |= {p: t.detach() for p, n, t in zip(placeholders, names, tensors, strict=True) if n is None}
    inputs = {
        argument: tuple(next(rest) for _ in (width if isinstance(width, tuple) else (width,)))
        for argument, width in widths.items()
    }
    state = list(widths)[min(1, len(widths) - 1)]
    leaves = next(node for node in exported.graph.nodes if node.op == "output").args[0]
    returned, note = next_state(leaves, exported.call_spec.out_spec, len(inputs[state]))
    several = frozenset(argument for argument, width in widths.items() if isinstance(width, tuple))
    dtype = next(n for n in exported.graph.nodes if n.name == inputs[state][0]).meta["val"].dtype
    return Program(name, exported.graph, parameters, constants, inputs, several, state, returned, any_batch, note, dtype)


def next_state(leaves: Any, structure: Any, count: int) -> tuple[tuple[Any, ...], str]:
    """Of what a cell returns, what is the next state: all of it, or the last part, as in (output, state)."""
    children = [child.num_leaves for child in structure.children()] if structure.num_nodes > 1 else [1]
    if sum(children) == count:
        return tuple(leaves), ""
    if children[-1] == count and structure.type in (tuple, list):
        return tuple(leaves[-count:]), "of what the module returns, the last part is the next state and the rest is not compared"
    raise ValueError(f"the module returns {len(leaves)} tensors where its state has {count}.")


def _is_torch(place: str) -> bool:
    return os.path.join("site-packages", "torch", "") in place


def _all_frames(_: TracerBase, frames: traceback.StackSummary) -> traceback.StackSummary:
    own = [number for number, frame in enumerate(frames) if frame.filename == __file__]
    return traceback.StackSummary.from_list(frames[own[-1] + 1 :] if own else [])


@contextmanager
def _in_the_user_s_words() -> Iterator[None]:
    """torch's errors of recording, as what the user's code does and where."""
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's, of torch's own code
            # torch keeps the lines of functions called `forward` alone; the user's `flow` is to be named too.
            # And it prints what it has of a graph when it fails.
            lines = patch.object(TracerBase, "_filter_traceback_frames", _all_frames)
            with lines, patch("torch.export._trace.print", lambda *_, **__: None, create=True):
                yield
    except Exception as error:
        kind, frames = type(error).__name__, traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if f"{os.sep}torch{os.sep}" not in f.filename and f.filename not in (__file__, copy.__file__)]
        line = f" ({own[-1].filename}, line {own[-1].lineno}: {own[-1].line})" if own else ""
        if "DataDependent" in kind or "DynamicOutputShape" in kind:
            raise ValueError(f"the code branches on the values of tensors{line}; write it with torch.where.") from error
        if "Constraints violated" in str(error) or kind == "ConstraintViolationError":
            raise ValueError("the code takes batches of certain sizes only; it must act on each sample by itself.") from error
        if isinstance(error, RuntimeError):
            raise ValueError(
                f"torch cannot record the code at a batch of unknown size{line}: {str(error).splitlines()[0]}"
            ) from error
        raise ValueError(f"the code raises {kind} when torch records it{line}: {error}") from error
    finally:
        logger.setLevel(level)
