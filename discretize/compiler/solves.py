r"""Exact solves of any field by a kernel that is written for its `flow`: kernels/solves.cpp with kernels/written_model.h."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_size_t
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, LinearPath, TimePath, VectorField
from ctrnn.inputs.segment_input import SegmentInput
from discretize.compiler.attributes import attributes_of
from discretize.compiler.program import FlowModule, Program, weights_of, with_weights
from discretize.compiler.written_kernels import (
    DRIVERS,
    HERE,
    ROUNDING,
    GivenProgram,
    ProgramStructure,
    Sums,
    functions_of,
    kernel_of,
)
from discretize.fused.build import Source
from discretize.fused.eligibility import device_reason, setting_reason, tensor_reason, tracing_reason
from discretize.fused.kernel_run import (
    ALL_STEPS,
    GivenModel,
    KernelRun,
    Solved,
    no_kernel,
    projected_of,
    solved,
    states_by_engine,
)
from discretize.fused.libraries import KERNELS, REALS, made_solves_library
from discretize.solvers.adaptive import ADAPTIVE_METHODS, AdaptiveEngine
from discretize.solvers.control import StepControl
from discretize.solvers.segments import Chain, chain_of

__all__ = ["LEAST_SEGMENTS", "solve"]

LEAST_SEGMENTS = 1000  # of all samples together: from here on a solve is worth a kernel
SOLVES = Source(KERNELS / "solves.cpp", (*DRIVERS, HERE / "written_model.h", KERNELS / "tableau.h"))


class ModelStructure(Structure):
    """`CtrnnModel` of kernels/written_model.h, field by field."""

    _fields_ = [("state", c_size_t), ("columns", c_size_t), ("program", POINTER(ProgramStructure))]


class WrittenField(VectorField):
    """A module's `flow` at any weights, a function of the projected input."""

    def __init__(self, module: FlowModule, weights: Sequence[Tensor]) -> None:
        super().__init__(module.columns, module.field.state_size)
        self.code = with_weights(module, weights).forward  # not its tensors, which are the caller's

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.code(projected, h)


class _Kernel:
    """A program and its library."""

    def __init__(self, program: Program, dtype: torch.dtype, moves: bool) -> None:
        self.program, self.dtype, self.moves, self.functions = program, dtype, moves, functions_of(program, dtype)
        self.library = made_solves_library(SOLVES, {"REAL": REALS[dtype], "WRITTEN": 1})


@dataclass(frozen=True)
class _Model:
    """A field as a kernel knows it; its weights are those of `module`, each once."""

    kernel: _Kernel
    module: FlowModule

    @property
    def library(self) -> ctypes.CDLL:
        return self.kernel.library

    def given(self, weights: Sequence[Any]) -> GivenModel:
        given = GivenProgram(self.kernel.program, self.kernel.functions, weights)
        structure = ModelStructure(self.module.field.state_size, self.module.columns, ctypes.pointer(given.structure))
        return GivenModel(structure, given)

    def gradients(self, write: Callable[[Any], None], weights: Sequence[Any]) -> list[Tensor | None]:
        sums = Sums(self.kernel.program, torch.empty(0, dtype=self.kernel.dtype))
        write(ctypes.byref(sums.structure))
        return sums.gradients(weights)

    def field(self, *weights: Any) -> VectorField:
        return WrittenField(self.module, weights)


def solve(
    chain: Chain, h0: Tensor, engine: AdaptiveEngine, fused: bool, show: Callable[[int], None], stats: dict[str, Any]
) -> Solved | str:
    """As `discretize.fused.solves.solve`, for any field whose code can be recorded."""
    chain = _sampled(chain, h0)
    why = setting_reason(fused) or tracing_reason() or no_kernel(chain, engine) or device_reason(h0)
    if why:
        return why
    if len(chain) * len(h0) < LEAST_SEGMENTS:
        return f"kernels are written for solves of {LEAST_SEGMENTS} intervals or more, of all samples together"
    projected = projected_of(chain).xs
    module = FlowModule(chain.field, projected.shape[-1])
    attributes = attributes_of(module)
    if isinstance(attributes, str):
        return attributes
    weights = attributes.tensors
    if why := tensor_reason([h0, projected, *weights]):
        return why
    moves = projected.requires_grad
    kernel = kernel_of(module, attributes, {"x": moves}, h0.dtype, partial(_made, module, h0.dtype, moves))
    if isinstance(kernel, str):
        return kernel
    return solved(_Model(kernel, module), chain, [projected, h0, *weights], engine, show, stats)


class _WithProjection(VectorField):
    """A field whose projection is a part of its flow."""

    def __init__(self, field: VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field = field

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(self.field.project(projected), h)


def _sampled(chain: Chain, h0: Tensor) -> Chain:
    """The same along samples of its input, where those of its projected input are none: the projection bends straight lines,
    or the input is the time, which is one."""
    path, sampled = chain.driven.path, copy.copy(chain)
    if type(path) is TimePath:
        path = LinearPath.unchecked(path.knots.to(h0)[:, None, None].expand(-1, len(h0), -1), path.knots)
    elif type(path) is not LinearPath or type(chain.path.path) is LinearPath:
        return chain
    sampled.driven = copy.copy(chain.driven)
    sampled.driven.path, sampled.field = path, _WithProjection(chain.field)
    sampled.path = SegmentInput(path, chain.path.pieces)
    return sampled


def _made(module: FlowModule, dtype: torch.dtype, moves: bool, program: Program) -> _Kernel | str:
    """`moves`: whether the input has a gradient."""
    kernel = _Kernel(program, dtype, moves)
    return _disagreement(kernel, module, dtype) or kernel


def _disagreement(kernel: _Kernel, module: FlowModule, dtype: torch.dtype) -> str | None:
    """Why a kernel cannot be used: states and gradients of a short solve are not those of the engine in torch."""
    dice = torch.Generator().manual_seed(0)
    sizes = ((2, 3, module.columns), (3, module.field.state_size))
    projected, h0 = (torch.rand(size, generator=dice, dtype=dtype) - 0.5 for size in sizes)
    uncounted = torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept)
    with torch.inference_mode(False), torch.autocast("cpu", enabled=False), uncounted:
        weights = [weight.detach().clone().requires_grad_(weight.requires_grad) for weight in weights_of(module)]
        tensors = [projected.requires_grad_(kernel.moves), h0.requires_grad_(), *weights]
        path = HeldPath.unchecked(projected.detach(), torch.arange(3, dtype=torch.float64) / 4)
        chain = chain_of(Driven(_Model(kernel, module).field(*weights), path), path.knots)
        engine = AdaptiveEngine(StepControl(ADAPTIVE_METHODS["dopri5"], 1e-2, 1e-2, max_num_steps=100))
        run = KernelRun(_Model(kernel, module), chain, engine, lambda done: None, {"nfe_backward": 0}, keep=ALL_STEPS)
        engine.start(chain, len(h0))
        hs = run.forward(*tensors)
        if run.failed.cause:
            return None  # nor has the engine an answer
        back = zip(tensors, run.backward(torch.ones_like(hs)), strict=True)
        mine = [hs, *(torch.zeros_like(t) if g is None else g for t, g in back if t.requires_grad)]
        sought = [tensor for tensor in tensors if tensor.requires_grad]
        with torch.enable_grad():
            again = states_by_engine(run, *tensors)
            gradients = torch.autograd.grad(again.sum(), sought, allow_unused=True, materialize_grads=True)
    pairs = [(one, other) for one, other in zip(mine, (again, *gradients), strict=True) if one.numel()]
    worst = max(float((one - other).detach().abs().max() / (1 + other.detach().abs().max())) for one, other in pairs)
    return None if worst <= ROUNDING[dtype] else f"its kernel differs from torch by {worst:.2g} on a few numbers"
