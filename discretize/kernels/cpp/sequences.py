"""Run the steps of a sequence by a compiled program: `steps.cpp`, its structures, and the two passes of a call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, Structure, c_int, c_size_t, c_void_p
from typing import Any

import torch
from torch import Tensor

from discretize.kernels.build import CppSource, library
from discretize.kernels.cpp.memory import keep_freed, lent, lent_if_large
from discretize.kernels.cpp.programs import (
    DRIVER,
    REALS,
    SOURCES,
    GivenProgram,
    ModelStructure,
    ProgramStructure,
    SumBuffers,
    SumsStructure,
    address,
    functions_of,
    strides,
)
from discretize.kernels.cpp.text import CppText
from discretize.kernels.record.program import Program

__all__ = ["STEPS", "CompiledKernel", "EquationUnsolvedError"]

UNSOLVED = 2  # of what `ctrnn_steps_forwards` returns
STEPS = CppSource(SOURCES / "steps.cpp", flags=DRIVER)


class SequenceStructure(Structure):
    """`CtrnnSequence` of source/steps.cpp, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("time", "batch", "inputs", "state", "substeps", "threads", "rests", "counted")),
        *((name, c_void_p) for name in ("x", "h0", "dt")),
        *((name, c_size_t) for name in ("dt_time", "dt_batch")),
        ("program", POINTER(ProgramStructure)),
    ]


class Gradients(Structure):
    """`CtrnnGradients`."""

    _fields_ = [*((name, c_void_p) for name in ("of_hs", "x", "h0", "dt")), ("sums", POINTER(SumsStructure))]


class EquationUnsolvedError(Exception):
    """Raised where a kernel finds no solution of a step's equation: steps in torch find one, or say which sample has none."""


class EquationKernel:
    """The programs of an equation's flow and Jacobian, and their libraries; columns: of how many numbers its input is."""

    def __init__(self, columns: int, programs: Sequence[Program[CppText]], dtype: torch.dtype) -> None:
        self.columns, self.programs = columns, programs
        self.functions = [functions_of(program, dtype) for program in programs]

    def given(self, state: int, weights: Sequence[Tensor], *networks: int) -> list[tuple[ModelStructure, Any]]:
        """Return for each network what the library reads, and what must stay alive while it does."""
        laid = [GivenProgram(*each, weights, *networks) for each in zip(self.programs, self.functions, strict=True)]
        of_each = zip(*(each.structures for each in laid), strict=True)
        return [(ModelStructure(state, self.columns, *map(ctypes.pointer, both)), laid) for both in of_each]


class CompiledKernel:
    """A program and its library; `equation`: the programs of what it solves, if a step of it is implicit."""

    program: Program[CppText]
    moves: Mapping[str, bool]
    functions: dict[str, int]

    def __init__(
        self,
        program: Program[CppText],
        dtype: torch.dtype,
        moves: Mapping[str, bool],
        equation: Sequence[Program[CppText]] = (),
    ) -> None:
        self.program, self.moves, self.functions = program, moves, functions_of(program, dtype)
        columns = program.written.equation
        self.equation = None if columns is None else EquationKernel(columns, equation, dtype)
        keep_freed()
        self.library, self._kept = library(STEPS, {"REAL": REALS[dtype]}), dict[int, int]()
        self.library.ctrnn_steps_kept.argtypes, self.library.ctrnn_steps_kept.restype = [POINTER(SequenceStructure)], c_size_t
        self.library.ctrnn_steps_forwards.argtypes = [POINTER(SequenceStructure), c_size_t, c_void_p, c_void_p]
        self.library.ctrnn_steps_backwards.argtypes = [POINTER(SequenceStructure), c_size_t, c_void_p, POINTER(Gradients)]
        self.library.ctrnn_steps_forwards.restype = self.library.ctrnn_steps_backwards.restype = c_int

    def call(self, substeps: int, rests: bool, xs: Tensor, h0: Tensor, dt: float | Tensor, weights: Sequence[Tensor]) -> _CppCall:
        return _CppCall(self, substeps, rests, xs, h0, dt, weights)

    def kept_of(self, state: int) -> int:
        """Return how many numbers the backward pass needs of a step and a sample."""
        if state not in self._kept:
            widths = (c_size_t * len(self.program.written.kept))(*self.program.written.kept)
            program = ProgramStructure(kept_values=len(widths), kept_widths=ctypes.addressof(widths))
            self._kept[state] = int(
                self.library.ctrnn_steps_kept(SequenceStructure(state=state, program=ctypes.pointer(program)))
            )
        return self._kept[state]


class _CppCall:
    """The numbers of a call, laid out as the kernel reads them; of several networks h0 and weights have a first axis for them,
    and xs and dt if they differ."""

    kernel: CompiledKernel
    substeps: int
    weights: list[Tensor]
    xs: Tensor
    h0: Tensor
    count: int
    steps: int

    def __init__(
        self,
        kernel: CompiledKernel,
        substeps: int,
        rests: bool,
        xs: Tensor,
        h0: Tensor,
        dt: float | Tensor,
        weights: Sequence[Tensor],
    ) -> None:
        self.kernel, self.substeps, self.weights = kernel, substeps, [weight.detach() for weight in weights]
        self.xs, self.h0 = (tensor.detach().contiguous() for tensor in (xs, h0))
        self.dt: Tensor = dt.detach() if isinstance(dt, Tensor) else xs.new_full((), dt)
        self.networks, self.count, self.steps = h0.shape[:-2], h0.shape[:-2].numel(), xs.shape[-3] * substeps
        self.given: GivenProgram = GivenProgram(kernel.program, kernel.functions, self.weights, *self.networks)
        if kernel.equation is not None:
            self.models = kernel.equation.given(h0.shape[-1], self.weights, *self.networks)
            for structure, (model, _) in zip(self.given.structures, self.models, strict=True):
                structure.flow = ctypes.addressof(model)
        at, dt_network, dt_time, dt_batch = strides(self.dt)
        samples = _parts(self.xs, self.count) if xs.dim() > 3 else [address(self.xs)] * self.count
        places = zip(samples, _parts(self.h0, self.count), self.given.structures, strict=True)
        counted = kernel.program.written.counted
        size, sizes = self.dt.element_size(), (*xs.shape[-3:], h0.shape[-1], substeps, torch.get_num_threads(), rests)
        sizes = *sizes, 0 if counted is None else counted + 1
        self.sequences = (SequenceStructure * self.count)(
            *(
                SequenceStructure(*sizes, x, h, at + k * dt_network * size, dt_time, dt_batch, ctypes.pointer(program))
                for k, (x, h, program) in enumerate(places)
            )
        )

    def forward(self, keep: bool) -> tuple[Tensor, Tensor | None]:
        """The states after samples, (time, batch, state), and what the backward pass reads; of networks, if there are several."""
        (time, batch, _), steps = self.xs.shape[-3:], self.steps
        new = lent if self.networks else lent_if_large
        states = new(self.xs, *self.networks, time, *self.h0.shape[-2:])
        width = self.kernel.kept_of(self.h0.shape[-1])
        kept = lent(self.xs, *self.networks, steps, batch, width) if keep else None
        status = self.kernel.library.ctrnn_steps_forwards(self.sequences, self.count, states.data_ptr(), address(kept))
        if status == UNSOLVED:
            raise EquationUnsolvedError
        if status:
            raise MemoryError(f"There is no memory for {steps} steps of {batch} samples; take shorter pieces or smaller batches.")
        return states, kept

    def backward(self, kept: Tensor, grad: Tensor, needed: tuple[bool, bool, bool]) -> list[Tensor | None]:
        """The gradients to x, h0, dt and the weights."""
        grad, (_, batch, inputs), steps = grad.resolve_neg().contiguous(), self.xs.shape[-3:], self.steps
        new = lent if self.networks else lent_if_large
        of_x = new(self.xs, *self.networks, steps, batch, inputs) if needed[0] else None
        of_dt = self.xs.new_empty(*self.networks, steps, batch) if needed[2] else None
        of_h0, sums = torch.empty_like(self.h0), SumBuffers(self.kernel.program, self.xs, *self.networks)
        rows = zip(*(_parts(tensor, self.count) for tensor in (grad, of_x, of_h0, of_dt)), sums.structures, strict=True)
        to = (Gradients * self.count)(*(Gradients(*places, ctypes.pointer(each)) for *places, each in rows))
        if self.kernel.library.ctrnn_steps_backwards(self.sequences, self.count, kept.data_ptr(), to):
            raise MemoryError(f"There is no memory for the gradients of {steps} steps of {batch} samples; take smaller batches.")
        if of_x is not None:
            of_x = of_x.unflatten(-3, (-1, self.substeps)).sum(-3) if self.substeps > 1 else of_x
            of_x = of_x.sum_to_size(self.xs.shape)
        if of_dt is not None:
            of_dt = of_dt.unflatten(-2, (-1, self.substeps)).sum(-2)[..., None].sum_to_size(self.dt.shape)
        return [of_x, of_h0, of_dt, *sums.gradients(self.weights)]


def _parts(tensor: Tensor | None, count: int) -> list[int | None]:
    """Return the addresses of so many equal parts of a tensor."""
    if tensor is None:
        return [None] * count
    assert tensor.is_contiguous()
    return [tensor.data_ptr() + k * (tensor.numel() // count) * tensor.element_size() for k in range(count)]
