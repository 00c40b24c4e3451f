r"""Compile the attempt of a method, which then steps any field: source/attempt.h, driven by source/solves.cpp."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_double, c_size_t, c_void_p
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from discretize.kernels.build import CppSource, library
from discretize.kernels.cpp.attempts import attempt_written
from discretize.kernels.cpp.programs import PRODUCTS, REALS, SOURCES, GivenProgram, ProgramStructure
from discretize.kernels.cpp.rows import CppText
from discretize.kernels.eligibility import tensor_reason
from discretize.kernels.record.attempt import START, AttemptModule, FieldCalls, calls_of
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.guards import Guards
from discretize.kernels.record.program import Program
from discretize.kernels.record.stored import Recorder
from discretize.kernels.registry import Uses, kernel_of, known, remember
from discretize.solvers.tableaus import EmbeddedMethod

__all__ = ["AttemptKernel", "WrittenMethod", "method_of", "no_program"]


class MethodStructure(Structure):
    """`CtrnnMethod` of source/attempt.h, field by field."""

    _fields_ = [
        ("program", POINTER(ProgramStructure)),
        *((name, c_void_p) for name in ("attempt", "attempt_return")),
        *((name, c_size_t) for name in ("calls", "calls_back", "pulled", "following", "end", "reads_start")),
        *((name, c_size_t) for name in ("factors", "factors_back", "pairs", "drift")),
        *((name, c_void_p) for name in ("nodes", "nodes_back")),
    ]


class AttemptKernel:
    """The compiled attempt of methods of one code, and its calls; `agreed`: kernels of fields with which it agreed with torch."""

    read: tuple[list[bytes], FieldCalls] | None = None  # a method's tensors, and its calls at these

    def __init__(self, program: Program[CppText], calls: FieldCalls, reads_start: bool, dtype: torch.dtype) -> None:
        assert program.written.calls is not None
        self.program, self.calls, self.reads_start, self.numbers = program, calls, reads_start, program.written.calls
        real = {"REAL": REALS[dtype]}
        products, made = library(PRODUCTS, real), library(_source(program), real)
        self.products = {name: _address(products[f"ctrnn_{name}"]) for name in ("multiply", "outer")}
        self.functions = {name: _address(made[f"ctrnn_{name}"]) for name in ("attempt", "attempt_return")}
        self.agreed: weakref.WeakSet[Any] = weakref.WeakSet()


def _source(program: Program[CppText]) -> CppSource:
    return CppSource(SOURCES / "attempt.cpp", (("program.h", program.written.text),), ("-O2",))


def _address(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


@dataclass(frozen=True)
class WrittenMethod:
    """A method as the driver takes it: its kernel, the tensors that it keeps, and its calls, whose nodes may be among these."""

    kernel: AttemptKernel
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

    def given(self) -> tuple[MethodStructure, Any]:
        """What the library reads; and what must stay alive while it does."""
        kernel, numbers = self.kernel, self.kernel.numbers
        program = GivenProgram(kernel.program, kernel.products, self.tensors)
        nodes = _numbers(self.calls.nodes)
        back = _numbers([self.calls.nodes[number] for number in numbers.back])
        end = 0 if numbers.drift else self.calls.end or 0  # which is made of the flow at the start, where a clock runs
        counts = len(nodes), len(back), numbers.pulled, numbers.following or 0, end, int(kernel.reads_start)
        counts += numbers.factors, numbers.factors_back, numbers.pairs, int(numbers.drift)
        places = ctypes.addressof(nodes), ctypes.addressof(back)
        return MethodStructure(ctypes.pointer(program.structure), *kernel.functions.values(), *counts, *places), (
            program,
            nodes,
            back,
        )


def _numbers(values: Sequence[float]) -> ctypes.Array[c_double]:
    return (c_double * len(values))(*values)


_uses: dict[type, Uses] = {}


def no_program(method: EmbeddedMethod, state: int, dtype: torch.dtype) -> str | None:
    """Why a method has no program, as far as that is quickly seen; None where it may have one."""
    if known(method, _request(state, dtype), wait=True):
        return None
    calls = calls_of(method, state, dtype)
    return calls if isinstance(calls, str) else None


def _request(state: int, dtype: torch.dtype) -> tuple[object, ...]:
    return AttemptModule, state, dtype, torch.get_default_dtype()


def method_of(method: EmbeddedMethod, state: int, dtype: torch.dtype) -> WrittenMethod | str:
    """The program of a method for states of so many units, made where there is none yet; or why it has none."""
    request = _request(state, dtype)
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
    make, libraries = partial(_made, module, calls, dtype), [(PRODUCTS, {"REAL": REALS[dtype]})]
    found = kernel_of(module, attributes, wanted, dtype, make, attempt_written, libraries, guards, uses, True)
    remember(method, request, guards, attributes, found, uses)
    return _written(found, method, state, dtype, attributes.tensors)


def _made(module: AttemptModule, calls: FieldCalls, dtype: torch.dtype, program: Program[CppText], _: Recorder) -> AttemptKernel:
    reads_start = module.reads_start or START in calls.slopes or "drift" in calls.derivatives
    return AttemptKernel(program, calls, reads_start, dtype)


def _written(
    kernel: AttemptKernel | str, method: EmbeddedMethod, state: int, dtype: torch.dtype, tensors: Sequence[Tensor]
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
