r"""Record code by torch as a graph of core operations on tensors without values.

    code, tensors of known or unknown sizes -> make_fx -> core operations, with no in-place forms

Modules are made functions of their parameters and buffers first, so that none of their numbers is in the graph.
"""

from __future__ import annotations

import copy
import inspect
import logging
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import get_ident
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functionalize
from torch.fx import Graph, GraphModule, Interpreter, Node

from ctrnn.rewriting import Rewritten
from discretize import compat

__all__ = [
    "as_function",
    "call_with",
    "copied_with",
    "decompositions",
    "is_in_place",
    "operation_name",
    "own_line",
    "record",
    "results_kept",
    "source_line",
    "unknown_size",
    "user_lines",
    "without_values",
]

# Files whose lines no user wrote.
OURS = (__file__, copy.__file__, inspect.getfile(Rewritten), os.path.join(os.path.dirname(__file__), "rewriting.py"))

WHOLE = {"diagonal_backward"}  # which torch takes apart into what it cannot record

Module = TypeVar("Module", bound=nn.Module)
Known = Callable[[str, str], bool]
Decompositions = Mapping["compat.OpOverload", Callable[..., Any]]


def record(
    ways: Decompositions, code: Callable[..., object], *arguments: object
) -> tuple[Graph, compat.TreeSpec, dict[str, Tensor]]:
    r"""The core operations that code does on tensors without values.

    Args:    ways: in which operations are taken apart, `decompositions`; arguments: tensors made under `without_values`, or
             tuples and lists of them.
    Returns: the graph; the structure of what the code returns, whose leaves the graph returns; and the values of tensors that
             the code makes or keeps, by placeholder, which come after those of the arguments.
    Raises:  ValueError, with the line of code, where the code branches on values or torch cannot follow it; `compat.Missing`.
    """
    compat.require(compat.RECORDING)
    structures = list[Any]()

    def flat(*arguments: object) -> list[Any]:
        leaves, structure = compat.tree_flatten(code(*arguments))
        structures.append(structure)
        return leaves

    how: Any = {"decomposition_table": ways, "tracing_mode": "symbolic", "record_stack_traces": True}
    with _in_the_user_s_words():
        recorded = compat.make_fx(flat, **how)(*arguments)
        if any(map(is_in_place, recorded.graph.nodes)):  # the code's, or those of torch's own kernels
            with compat.preserve_node_meta():
                recorded = compat.make_fx(functionalize(Interpreter(recorded).run), **how)(*arguments)
    return recorded.graph, structures[0], _constants(recorded)


def without_values(environment: compat.ShapeEnv) -> compat.FakeTensorMode:
    """Where tensors that are made have shapes and no values, nor memory that code could look at, as .numpy() does."""
    compat.keep_device_guard()
    with compat.functorch_config.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
        return compat.FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)


def unknown_size(environment: compat.ShapeEnv, name: str, hint: int) -> torch.SymInt:
    """A size from 2 on; torch sees `hint` where it must see a number, and notes that among the environment's guards."""
    from_two = compat.ValueRanges(2, compat.int_oo)
    source, several = compat.ConstantSource(name), compat.StrictMinMaxConstraint(warn_only=False, vr=from_two)
    with _without_own_files():
        symbol = environment.create_symbol(hint, source=source, dynamic_dim=compat.DimDynamic.DYNAMIC, constraint_dim=several)
    size: Any = environment.create_symintnode(symbol, hint=hint, source=source)
    return size


def is_in_place(node: Node) -> bool:
    """Whether an operation changes one of its arguments."""
    return isinstance(node.target, compat.OpOverload) and node.target._schema.is_mutable


def operation_name(node: Node) -> str:
    """`add` of torch.ops.aten.add.Tensor: the overloads of an operation do the same."""
    name = str(node.target)
    for namespace in ("aten.", "prims.", "ctrnn."):
        name = name.removeprefix(namespace)
    return name.partition(".")[0]


def source_line(node: Node) -> str:
    """Where in the user's code an operation comes from."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    given = [k for k, line in enumerate(lines) if line.startswith('File "') and not _is_torch(line)]
    places = [k for k in given if not any(file in lines[k] for file in OURS)]
    return ": ".join(lines[places[-1] : places[-1] + 2]) if places else "a line that torch does not tell"


def user_lines(node: Node) -> list[tuple[str, int]]:
    """The files and lines of the user's code that an operation comes from, the innermost last."""
    frames = re.findall(r'^\s*File "(.+)", line (\d+), in ', node.meta.get("stack_trace") or "", re.MULTILINE)
    return [(file, int(line)) for file, line in frames if not _is_torch(file) and file not in OURS]


def own_line(frames: traceback.StackSummary, *others: str) -> str:
    """The last line that is neither torch's nor ours, nor of other files."""
    own = [f for f in frames if not _is_torch(f.filename) and f.filename not in (*OURS, *others)]
    return f" ({own[-1].filename}, line {own[-1].lineno}: {own[-1].line})" if own else ""


def copied_with(module: Module, values: Mapping[int, Tensor]) -> Module:
    """The module with other tensors in place of its own, by their ids, wherever it keeps them."""
    # Not torch.func.functional_call: it misses parameters that a module also keeps in a dict of its own.
    for parameter in module.parameters():
        if id(parameter) in values:
            values[id(parameter)]._is_param = True  # by which torch knows them, `get_parameter` too
    return copy.deepcopy(module, dict(values))


def call_with(module: nn.Module, values: Mapping[int, Tensor], *arguments: object) -> Any:
    """The answer of `copied_with`."""
    return copied_with(module, values)(*arguments)


def results_kept(module: nn.Module) -> dict[int, Tensor]:
    """Tensors that a module keeps from a computation, as pruned weights, which torch would refuse to copy; by their ids."""
    kept = (value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor))
    return {id(value): value.detach() for value in kept if value.grad_fn is not None}


def as_function(module: nn.Module, kept: Mapping[int, Any] | None = None) -> Callable[[Any, tuple[Any, ...]], Any]:
    """The module as a function of its parameters and buffers too; `kept`: objects that are not copied, by their ids."""
    tensors = [*dict(module.named_parameters()).values(), *dict(module.named_buffers()).values()]
    visited: dict[int, Any] = {**results_kept(module), **(kept or {})}
    copy.deepcopy(module, visited)
    # Other tensors that the module keeps are constants: the same objects in each copy.
    same = {**{key: value for key, value in visited.items() if isinstance(value, Tensor)}, **(kept or {})}

    def called(given: Any, arguments: tuple[object, ...]) -> Any:
        return call_with(module, {**same, **{id(old): new for old, new in zip(tensors, given, strict=True)}}, *arguments)

    return called


def _constants(recorded: GraphModule) -> dict[str, Tensor]:
    """Tensors that the code made or kept, as placeholders behind the others."""
    graph, made = recorded.graph, dict[str, Node]()
    for node in graph.find_nodes(op="get_attr"):
        name = str(node.target)
        if name not in made:
            with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
                made[name] = graph.placeholder(name)
            made[name].meta["val"] = getattr(recorded, name)
        node.replace_all_uses_with(made[name])
        graph.erase_node(node)
    return {placeholder.name: placeholder.meta["val"] for placeholder in made.values()}


@cache
def decompositions(known: Known, all_of_torch: bool = False) -> Decompositions:
    r"""How operations are taken apart: torch's way, but for what is known as it is, which is shorter.

    Args:    known: of an operation, by its name and its overload; all_of_torch: with the ways of torch's own compiler.
    """

    def stays(operation: Any) -> bool:
        name, _, overload = str(operation).removeprefix("aten.").partition(".")
        # In place: as it is for `functionalize`, which makes of it what is not in place.
        return known(name, overload) or operation._schema.is_mutable or name in WHOLE

    ways: Any = {**compat.decomposition_table} if all_of_torch else {}
    ways |= torch.export.default_decompositions()
    kind = compat.OpOverload
    return {operation: how for operation, how in ways.items() if isinstance(operation, kind) and not stays(operation)}


def _is_torch(place: str) -> bool:
    return os.path.join(os.path.dirname(torch.__file__), "") in place


def _all_frames(_: compat.TracerBase, frames: traceback.StackSummary) -> traceback.StackSummary:
    own = [number for number, frame in enumerate(frames) if frame.filename == __file__]
    return traceback.StackSummary.from_list(frames[own[-1] + 1 :] if own else [])


def _without_own_files() -> AbstractContextManager[None]:
    """Names of lines that torch notes beside sizes and nobody reads: to leave out its own files, it loads 0.4 s of other code."""
    return compat.exchanged(compat.symbolic_shapes, "uninteresting_files", frozenset)


class _InThisThread:
    """True for the thread that made it: another one, which runs a cell meanwhile, is not recorded."""

    def __init__(self) -> None:
        self.thread = get_ident()

    def __bool__(self) -> bool:
        return get_ident() == self.thread


@contextmanager
def _in_the_user_s_words() -> Iterator[None]:
    """torch's errors of recording, as what the user's code does and where."""
    loggers = [logging.getLogger(f"torch.{name}") for name in ("fx.experimental.symbolic_shapes", "_subclasses.fake_tensor")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's, of torch's own code
            # torch keeps the lines of functions called `forward` alone; the user's `flow` is to be named too.
            lines = compat.exchanged(compat.TracerBase, "_filter_traceback_frames", _all_frames)
            # Code that asks whether it is exported or compiled is told so, and is found out when it is run.
            with lines, _without_own_files(), compat.told_compiling(_InThisThread()):
                yield
    except Exception as error:
        kind, line = type(error).__name__, own_line(traceback.extract_tb(error.__traceback__))
        if "DataDependent" in kind or "DynamicOutputShape" in kind:
            raise ValueError(f"the code branches on the values of tensors{line}; write it with torch.where.") from error
        if isinstance(error, RuntimeError):
            raise ValueError(
                f"torch cannot record the code at a batch of unknown size{line}: {str(error).splitlines()[0]}"
            ) from error
        raise ValueError(f"the code raises {kind} when torch records it{line}: {error}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
