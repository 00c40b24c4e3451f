r"""Compile the attempt of a method, which then steps any field: source/attempt.h, driven by source/solves.cpp."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_double, c_size_t, c_void_p
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule

from discretize.kernels.build import CppSource, Libraries, Unavailable, is_built, library
from discretize.kernels.cpp.attempts import attempt_written
from discretize.kernels.cpp.programs import PRODUCTS, REALS, SOURCES, GivenProgram, ProgramStructure
from discretize.kernels.cpp.text import CppText
from discretize.kernels.eligibility import tensor_reason, warn_once
from discretize.kernels.price import LIVE
from discretize.kernels.record.attempt import START, AttemptModule, FieldCalls, calls_of
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.fingerprint import digest
from discretize.kernels.record.guards import Guards
from discretize.kernels.record.program import Program, Writer
from discretize.kernels.record.stored import Recorder
from discretize.kernels.record.tableau import ExplicitTableau, RosenbrockTableau, tableau_of
from discretize.kernels.registry import Uses, kernel_of, known, remember
from discretize.solvers.tableaus import EmbeddedMethod

__all__ = ["COMPILED", "MethodEngine", "MethodKernel", "WrittenMethod", "libraries_of", "method_of", "no_program"]


ANY_WIDTH = 2  # more than one: what is one number wide is written otherwise
MOST_TABLEAUS = 64  # whose texts and kernels a process remembers


class MethodStructure(Structure):
    """`CtrnnMethod` of source/attempt.h, field by field."""

    _fields_ = [
        ("program", POINTER(ProgramStructure)),
        *((name, c_void_p) for name in ("attempt", "attempt_return")),
        *((name, c_size_t) for name in ("calls", "calls_back", "pulled", "following", "end", "reads_start")),
        *((name, c_size_t) for name in ("factors", "factors_back", "pairs", "drift")),
        *((name, c_void_p) for name in ("nodes", "nodes_back")),
    ]


class MethodKernel(Protocol):
    """The program of methods of one code; `key`: of what it is made of on disk, None where that is never kept; `read`: a method's
    tensors, and its calls at these; `differs`: of kernels of fields with which it was compared with torch, by how much it
    differs, None where it agrees."""

    key: str | None
    calls: FieldCalls
    read: tuple[list[bytes], FieldCalls] | None
    differs: weakref.WeakKeyDictionary[Any, str | None]


class AttemptKernel:
    """The compiled attempt of methods of one code, and its calls; `differs`: of kernels of fields with which it was compared with
    torch, by how much it differs, None where it agrees."""

    read: tuple[list[bytes], FieldCalls] | None = None  # a method's tensors, and its calls at these

    def __init__(
        self, program: Program[CppText], calls: FieldCalls, reads_start: bool, dtype: torch.dtype, key: str | None
    ) -> None:
        assert program.written.calls is not None
        self.key = key  # of the program that is kept
        self.program, self.calls, self.reads_start, self.numbers = program, calls, reads_start, program.written.calls
        real = {"REAL": REALS[dtype]}
        made = library(_source(program.written), real)
        self.products = {"multiply": _address(library(PRODUCTS, real).ctrnn_multiply)} if program.written.products else {}
        self.functions = {name: _address(made[f"ctrnn_{name}"]) for name in ("attempt", "attempt_return")}
        self.differs: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()


def _source(text: CppText) -> CppSource:
    # Where it solves with Jacobians, these take the time: by -O1 it takes 1 % more, and compiles in 0.7 times as long.
    flag = "-O1" if text.calls and text.calls.factors else "-O2"
    return CppSource(SOURCES / "attempt.cpp", (("program.h", text.text),), (flag,))


def _address(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


@dataclass(frozen=True)
class WrittenMethod:
    """A method as the driver takes it: its kernel, the tensors that it keeps, and its calls, whose nodes may be among these."""

    kernel: Any  # a `MethodKernel` of the kind that runs it
    tensors: Sequence[Tensor]
    calls: FieldCalls

    @property
    def evaluations_back(self) -> int:
        """Of the field, in the way back through a step."""
        return len(self.kernel.numbers.back)

    @property
    def pairs(self) -> int:
        """Of vectors, along which the Jacobian is differentiated there."""
        return self.kernel.numbers.pairs

    @cached_property
    def given(self) -> tuple[MethodStructure, Any]:
        """What the library reads; and what must stay alive while it does."""
        kernel, numbers = self.kernel, self.kernel.numbers
        program = GivenProgram(kernel.program, kernel.products, self.tensors)
        nodes = _numbers(self.calls.nodes)
        back = _numbers([self.calls.nodes[number] for number in numbers.back])
        end = 0 if numbers.drift else self.calls.end or 0  # which is made of the flow at the start, where a clock runs
        counts = [len(nodes), len(back), numbers.pulled, numbers.following or 0, end, int(kernel.reads_start)]
        counts += [numbers.factors, numbers.factors_back, numbers.pairs, int(numbers.drift)]
        places = ctypes.addressof(nodes), ctypes.addressof(back)
        return MethodStructure(ctypes.pointer(program.structure), *kernel.functions.values(), *counts, *places), (
            program,
            nodes,
            back,
        )


def _numbers(values: Sequence[float]) -> ctypes.Array[c_double]:
    return (c_double * len(values))(*values)


_uses: dict[type, Uses] = {}


class MethodEngine(NamedTuple):
    """A way to run methods that are programs: what writes one down, what makes a kernel of it, and what does both for a tableau,
    whose numbers are in the text; and whether the kernel of a tableau is ready."""

    write: Writer[Any]
    made: Callable[[AttemptModule, FieldCalls, torch.dtype, Program[Any], Recorder], MethodKernel]
    of_tableau: Callable[[Any, int, torch.dtype], WrittenMethod]
    is_built: Callable[[EmbeddedMethod, torch.dtype], bool] = lambda *_: True


def no_program(how: MethodEngine, method: EmbeddedMethod, state: int, dtype: torch.dtype) -> str | None:
    """Why a method has no program, as far as that is quickly seen; None where it may have one."""
    if known(method, _request(how, state, dtype), wait=True):
        return None
    calls = calls_of(method, state, dtype)
    return calls if isinstance(calls, str) else None


def _request(how: MethodEngine, state: int, dtype: torch.dtype) -> tuple[object, ...]:
    return AttemptModule, how.write, state, dtype, torch.get_default_dtype()


def method_of(how: MethodEngine, method: EmbeddedMethod, state: int, dtype: torch.dtype, wait: bool) -> WrittenMethod | str:
    """The program of a method for states of so many units, or why there is none; wait: for the compiler, if it has to run."""
    if (pair := tableau_of(method)) is None:
        return _recorded(how, method, state, dtype, wait)
    if not wait and not how.is_built(method, dtype):
        return LIVE
    try:
        return how.of_tableau(pair, state, dtype)
    except Unavailable as error:
        return warn_once(str(error))


def _recorded(how: MethodEngine, method: EmbeddedMethod, state: int, dtype: torch.dtype, wait: bool) -> WrittenMethod | str:
    request = _request(how, state, dtype)
    if entry := known(method, request, wait=True):
        return _written(entry.kernel, method, state, dtype, entry.attributes.tensors)
    calls = calls_of(method, state, dtype)
    if isinstance(calls, str):
        return calls
    module, guards, uses = AttemptModule(method, state, calls), Guards(method), _uses.setdefault(type(method), Uses())
    attributes = attributes_of(module, guards=guards)
    if isinstance(attributes, str):
        return attributes
    if why := tensor_reason([torch.empty(1, dtype=dtype, device="cpu"), *attributes.tensors]):
        return why
    if any(tensor.requires_grad for tensor in attributes.tensors):
        return f"the `attempt` of {method!r} has no kernel: it learns, and gradients to a method's own tensors have none"
    wanted = dict.fromkeys(module.of_field, True)
    make = partial(how.made, module, calls, dtype)
    found = kernel_of(module, attributes, wanted, dtype, make, how.write, (), guards, uses, wait)
    remember(method, request, guards, attributes, found, uses)
    return _written(found, method, state, dtype, attributes.tensors)


def _made(
    module: AttemptModule, calls: FieldCalls, dtype: torch.dtype, program: Program[CppText], recorder: Recorder
) -> AttemptKernel:
    reads_start = module.reads_start or START in calls.slopes or "drift" in calls.derivatives
    return AttemptKernel(program, calls, reads_start, dtype, recorder.key)


def _written(
    kernel: MethodKernel | str, method: EmbeddedMethod, state: int, dtype: torch.dtype, tensors: Sequence[Tensor]
) -> WrittenMethod | str:
    if isinstance(kernel, str):
        return kernel
    numbers = [tensor.detach().numpy().tobytes() for tensor in tensors]
    if (read := kernel.read) is None or read[0] != numbers:
        calls = calls_of(method, state, dtype)
        if isinstance(calls, str):
            return calls
        if (calls.slopes, calls.end, calls.derivatives) != (kernel.calls.slopes, kernel.calls.end, kernel.calls.derivatives):
            return f"the `attempt` of {method!r} has no kernel: which calls of the field are one depends on its tensors"
        kernel.read = read = numbers, calls
    return WrittenMethod(kernel, tensors, read[1])


# Of tableaus, whose numbers are in the text


def libraries_of(method: EmbeddedMethod, dtype: torch.dtype) -> Libraries:
    """What a method's program is compiled from, as far as that is known before it is recorded."""
    pair = tableau_of(method)
    return [] if pair is None else [(_source(_text_of(pair)), {"REAL": REALS[dtype]})]


@lru_cache(MOST_TABLEAUS)
def _of_tableau(pair: ExplicitTableau | RosenbrockTableau, state: int, dtype: torch.dtype) -> WrittenMethod:
    text, nothing = _text_of(pair), Graph()
    text = replace(text, sizes=[state if size == ANY_WIDTH else size for size in text.sizes])
    nothing.output(([], []))
    reads_nothing = GraphModule(nn.Module(), nothing)
    program = Program(reads_nothing, text, (), reads_nothing, (), ())
    return WrittenMethod(AttemptKernel(program, pair.calls, True, dtype, digest(pair)), (), pair.calls)


@lru_cache(MOST_TABLEAUS)
def _text_of(pair: ExplicitTableau | RosenbrockTableau) -> CppText:
    """One for states of any width, which is the only one of its sizes."""
    text = attempt_written(pair.values(ANY_WIDTH))
    assert {*text.sizes} <= {ANY_WIDTH, 1}  # and what is one number wide in a state of any width
    return text


def _is_built(method: EmbeddedMethod, dtype: torch.dtype) -> bool:
    return all(is_built(*each) for each in libraries_of(method, dtype))


COMPILED = MethodEngine(attempt_written, _made, _of_tableau, _is_built)
