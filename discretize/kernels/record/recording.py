r"""Record code by torch as a graph of core operations on tensors without values.

    code, tensors of known or unknown sizes -> make_fx -> core operations, with no in-place forms

Modules are made functions of their parameters and buffers first (copies.py), so that none of their numbers is in the graph.
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
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch.func import functionalize
from torch.fx import Graph, GraphModule, Interpreter, Node

from ctrnn.rewriting import Rewritten
from discretize import compat
from discretize.solvers.tableaus import is_for_one

__all__ = [
    "FILLED",
    "FILLED_BY",
    "RESHAPES",
    "SAME_NUMBERS",
    "LinesNotRecordedError",
    "ModuleRecord",
    "UnknownOperation",
    "UnknownSizes",
    "decompositions",
    "in_the_users_words",
    "is_in_place",
    "operation_name",
    "own_line",
    "record",
    "source_line",
    "user_lines",
]

# Files whose lines no user wrote.
OURS = (copy.__file__, inspect.getfile(Rewritten))
KERNELS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

FRAME = re.compile(r'^ *(File "(.+)", line (\d+), in .*)(?:\n(?! *File ") *(.*))?', re.MULTILINE)
# What torch's errors name where code leaves tensors, and what the code does.
OUTSIDE = {
    "SymInt": "makes a number of the size of the batch",
    "SymFloat": "makes a number of what is in tensors",
    "SymBool": "makes a truth value of what is in tensors",
    ".numpy()": "makes NumPy's arrays of tensors",
}
# Operations that torch takes apart into what it cannot record, or into other roundings: in float32 some digits fewer than it has.
WHOLE = {"diagonal_backward", "linspace", "logspace"}

# Operations that give the same numbers in axes of other sizes, or repeated along axes.
RESHAPES = ("view", "reshape", "_unsafe_view")
SAME_NUMBERS = (
    *RESHAPES,
    *("alias", "clone", "contiguous", "detach", "expand", "lift_fresh", "lift_fresh_copy", "squeeze", "unsqueeze"),
)
# Tensors made of nothing but a shape: which argument is the number in them, or that number.
FILLED_BY = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
FILLED = dict.fromkeys(("zeros", "zeros_like", "new_zeros"), 0) | dict.fromkeys(("ones", "ones_like", "new_ones"), 1)

Known = Callable[[str, str], bool]
Decompositions = Mapping["compat.OpOverload", Callable[..., Any]]


class UnknownOperation(NotImplementedError):  # noqa: N818 - said of the operation, as KeyError's kin say it of the key
    """Raised for a tensor operation, on which line, that a kernel or a reading in SymPy is not written for here."""


class LinesNotRecordedError(Exception):
    """Raised where an operation is to be named by its line in a graph that was recorded without lines."""


class UnknownSizes:
    r"""Sizes from 2 on that torch does not know, by their names, and whether it asked something of them while it recorded.

    Args:    hints: what torch sees of each where it must see a number; a batch, "batch", that is not among them is one sample.
    """

    def __init__(self, hints: Mapping[Any, int]) -> None:
        compat.require(compat.RECORDING)
        self.environment: Any = compat.ShapeEnv()
        self.line = ""
        self.environment.evaluate_expr = partial(self._evaluated, self.environment.evaluate_expr)
        self.by_name: dict[Any, Any] = {name: self._size(str(name), hint) for name, hint in hints.items()}
        self.symbols: dict[Any, Any] = {size.node.expr: name for name, size in self.by_name.items()}

    def _size(self, name: str, hint: int) -> torch.SymInt:
        from_two = compat.ValueRanges(2, compat.int_oo)
        source, several = compat.ConstantSource(name), compat.StrictMinMaxConstraint(warn_only=False, vr=from_two)
        with _without_own_files():
            symbol = self.environment.create_symbol(
                hint, source=source, dynamic_dim=compat.DimDynamic.DYNAMIC, constraint_dim=several
            )
        size: Any = self.environment.create_symintnode(symbol, hint=hint, source=source)
        return size

    def _evaluated(self, evaluate: Callable[..., Any], *expression: Any, **how: Any) -> Any:
        """Answer what torch asks of sizes, and note the line of the user's code that asks first what is not so of all sizes."""
        answer = evaluate(*expression, **how)
        if not self.line and (self.environment.guards or self.environment.replacements):
            frames = traceback.StackSummary.from_list(traceback.extract_stack()[:-1])
            self.line = own_line(_all_frames(None, frames)) or " "
        return answer

    def without_values(self) -> compat.FakeTensorMode:
        """Where tensors that are made have shapes and no values, nor memory that code could look at, as .numpy() does."""
        compat.keep_device_guard()
        with compat.functorch_config.patch(fake_tensor_allow_unsafe_data_ptr_access=False):
            return compat.FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)

    @property
    def asked(self) -> str:
        """What was asked first, as batch > 3; nothing where the record is of all sizes."""
        names = {symbol: symbol.func(str(name)) for symbol, name in self.symbols.items()}
        guards = (guard.expr.xreplace(names) for guard in self.environment.guards)
        fixed = (f"{old.xreplace(names)} = {new}" for old, new in self.environment.replacements.items())
        return str(next(chain(guards, fixed), ""))


@dataclass(frozen=True)
class ModuleRecord:
    r"""The operations of a module's code, which kernels lower and proofs read, and what placeholders and results of them are.

    Args:    graph: of core operations, none without a use; parameters: names of weights, by placeholder; inputs: for each
             argument its placeholders; several: the arguments that are tuples of tensors; constants: the values of tensors that
             the code makes or keeps, by placeholder; returned: the nodes that are returned, and `structure` in which; dtype: of
             the inputs; any_batch: whether the batch has an unknown size, or is one sample; asked: what was asked of unknown
             sizes, in words; asked_at: on which line, as `own_line`; name: of the module; note: what of the answer is not read,
             in words.
    """

    graph: Graph
    parameters: Mapping[str, str]
    inputs: Mapping[str, tuple[str, ...]]
    several: frozenset[str]
    constants: Mapping[str, Tensor]
    returned: tuple[Any, ...]
    structure: Any
    dtype: torch.dtype
    any_batch: bool
    asked: str = ""
    asked_at: str = ""
    name: str = ""
    note: str = ""

    @cached_property
    def placeholders(self) -> dict[str, Tensor]:
        """The tensors without values that it was recorded with, by placeholder."""
        return {node.name: node.meta["val"] for node in self.graph.nodes if node.op == "placeholder"}

    @property
    def state(self) -> str:
        """The argument that is the state, the second one."""
        return list(self.inputs)[min(1, len(self.inputs) - 1)]

    @property
    def written_at(self) -> str | None:
        """Where the code changes what it is given, or keeps."""
        for node in filter(is_in_place, self.graph.nodes):
            # What is copied into it at the end: the copy is torch's own.
            return source_line(node.all_input_nodes[-1])
        return None

    @property
    def batch(self) -> Any:
        """torch's symbol of the size of the batch, where that is unknown."""
        size: Any = self.placeholders[self.inputs[self.state][0]].shape[0]
        return size.node.expr

    def width(self, placeholder: str) -> int:
        """How many numbers a sample has in an input."""
        return int(self.placeholders[placeholder].shape[-1])

    def packed(self, by_placeholder: Mapping[str, Tensor]) -> list[Any]:
        """Arrange tensors by placeholder as the module's arguments, several tensors as a tuple."""
        columns = {argument: tuple(by_placeholder[name] for name in names) for argument, names in self.inputs.items()}
        return [tensors if argument in self.several else tensors[0] for argument, tensors in columns.items()]

    def next_state(self) -> ModuleRecord:
        """The record of the next state alone, of all that the module returns."""
        returned, note = _next_state(self.returned, self.structure, len(self.inputs[self.state]))
        return replace(self, returned=returned, note=note)

    def state_of(self, answer: object) -> list[Tensor]:
        """Find the next state in what a call returns."""
        leaves, structure = compat.tree_flatten(answer)
        return list(_next_state(leaves, structure, len(self.inputs[self.state]))[0])


def _next_state(leaves: Any, structure: Any, count: int) -> tuple[tuple[Any, ...], str]:
    """Find the next state in what a cell returns: all of it, or the last part, as in (output, state)."""
    children = [child.num_leaves for child in structure.children()] if structure.num_nodes > 1 else [1]
    if sum(children) == count:
        return tuple(leaves), ""
    if children[-1] == count and structure.type in (tuple, list):
        return tuple(leaves[-count:]), "of what the module returns, the last part is the next state and the rest is not compared"
    raise ValueError(f"the module returns {len(leaves)} tensors where its state has {count}.")


def record(
    ways: Decompositions,
    code: Callable[[Any, tuple[Any, ...]], object],
    weights: Mapping[str, Any],
    widths: Mapping[str, Any],
    sizes: UnknownSizes,
    dtype: torch.dtype,
    device: torch.device | None = None,
    lines: bool = True,
) -> ModuleRecord:
    r"""Record the core operations that code does on tensors without values.

    Args:    ways: in which operations are taken apart, `decompositions`; code: of weights and arguments, as `as_function` makes
             it; weights: by name, tensors like them, or their shapes; widths: of each argument, a tuple of them for one of
             several tensors; sizes: that of the batch, and those of the shapes and widths that have none; dtype, device: of the
             arguments; lines: whether each operation is recorded with its line of code, which takes a sixth of the time.
    Raises:  ValueError, with the line of code, where the code branches on values or torch cannot follow it; `compat.Missing`.
    """
    batch = sizes.by_name.get("batch", 1)
    split = {argument: width if isinstance(width, tuple) else (width,) for argument, width in widths.items()}
    several = frozenset(argument for argument, width in widths.items() if isinstance(width, tuple))
    with sizes.without_values():
        like = [torch.empty_like(each) if isinstance(each, Tensor) else torch.empty(each) for each in weights.values()]
        made = {
            argument: tuple(torch.empty(batch, n, dtype=dtype, device=device) for n in parts) for argument, parts in split.items()
        }
    arguments = tuple(parts if argument in several else parts[0] for argument, parts in made.items())
    graph, structure, constants = _graph(ways, code, lines, like, arguments)
    # As `new_zeros(0)`, which on a GPU torch makes of every `logsigmoid` and does not read.
    graph.eliminate_dead_code()
    placed = iter(graph.find_nodes(op="placeholder"))
    parameters = {next(placed).name: name for name in weights}
    inputs = {argument: tuple(next(placed).name for _ in parts) for argument, parts in split.items()}
    returned: Any = graph.output_node().args[0]
    of_sizes = "batch" in sizes.by_name, sizes.asked, sizes.line.strip() and sizes.line
    return ModuleRecord(graph, parameters, inputs, several, constants, tuple(returned), structure, dtype, *of_sizes)


def _graph(
    ways: Decompositions, code: Callable[..., object], lines: bool, *arguments: object
) -> tuple[Graph, compat.TreeSpec, dict[str, Tensor]]:
    """Record a graph; return it with the structure of what the code returns, whose leaves the graph returns, and the values of
    tensors that the code makes or keeps, by placeholder, which come after those of the arguments."""
    structures = list[Any]()

    def flat(*arguments: object) -> list[Any]:
        leaves, structure = compat.tree_flatten(code(*arguments))
        structures.append(structure)
        return leaves

    how: Any = {"decomposition_table": ways, "tracing_mode": "symbolic", "record_stack_traces": lines}
    with _in_the_user_s_words():
        recorded = compat.make_fx(flat, **how)(*arguments)
        if any(map(is_in_place, recorded.graph.nodes)):  # the code's, or those of torch's own kernels
            with compat.preserve_node_meta():
                recorded = compat.make_fx(functionalize(Interpreter(recorded).run), **how)(*arguments)
    recorded.graph.output_node().meta["without lines"] = not lines
    return recorded.graph, structures[0], _constants(recorded)


def is_in_place(node: Node) -> bool:
    """Whether an operation changes one of its arguments."""
    return isinstance(node.target, compat.OpOverload) and node.target._schema.is_mutable


def operation_name(node: Node) -> str:
    """`add` of torch.ops.aten.add.Tensor: the overloads of an operation do the same."""
    return re.sub(r"^(aten|prims|ctrnn)\.", "", str(node.target)).partition(".")[0]


def source_line(node: Node) -> str:
    """Return where in the user's code an operation comes from. Raises: LinesNotRecordedError."""
    if node.graph.output_node().meta.get("without lines"):
        raise LinesNotRecordedError
    frames = _user_frames(node)
    return ": ".join(filter(None, frames[-1][2:])) if frames else "a line that torch does not tell"


def user_lines(node: Node) -> list[tuple[str, int]]:
    """The files and lines of the user's code that an operation comes from, the innermost last."""
    return [(file, int(line)) for file, line, *_ in _user_frames(node)]


def _user_frames(node: Node) -> list[tuple[str, str, str, str]]:
    """File, number of the line, what Python says of both, and the line."""
    frames = FRAME.findall(node.meta.get("stack_trace") or "")
    return [(file, line, place, text) for place, file, line, text in frames if not _is_others(file)]


def own_line(frames: traceback.StackSummary, *others: str) -> str:
    """The last line that is neither torch's nor ours, nor of other files."""
    own = [f for f in frames if not _is_others(f.filename) and f.filename not in others]
    return f" ({own[-1].filename}, line {own[-1].lineno}: {own[-1].line})" if own else ""


def in_the_users_words(error: Exception) -> str:
    """What the user's code does where it cannot be run for several samples at once, and where."""
    line, said = own_line(traceback.extract_tb(error.__traceback__)), str(error)
    if is_for_one(error):
        return (
            f"the code takes a tensor for one number or one truth{line}, and states, times and steps have one for each sample "
            "there; keep to operations of torch, as torch.exp and torch.where"
        )
    return said if isinstance(error, ValueError) else f"its code cannot be read{line}: {type(error).__name__}: {said}"


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


def _is_others(file: str) -> bool:
    """Return whether no user wrote the lines of a file."""
    return os.path.join(os.path.dirname(torch.__file__), "") in file or file.startswith(KERNELS) or file in OURS


def _all_frames(_: object, frames: traceback.StackSummary) -> traceback.StackSummary:
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
    except UnknownOperation:
        raise
    except Exception as error:
        kind, line = type(error).__name__, own_line(traceback.extract_tb(error.__traceback__))
        if "DataDependent" in kind or "DynamicOutputShape" in kind:
            raise ValueError(f"the code branches on the values of tensors{line}; write it with torch.where.") from error
        if what := next((does for word, does in OUTSIDE.items() if word in str(error)), None):
            raise ValueError(f"the code {what}{line}, of which nothing can be recorded; keep to operations of torch.") from error
        if isinstance(error, RuntimeError):
            raise ValueError(
                f"torch cannot record the code at a batch of unknown size{line}: {str(error).splitlines()[0]}"
            ) from error
        raise ValueError(f"the code raises {kind} when torch records it{line}: {error}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
