r"""Exact solves of any field by a kernel that is written for its `flow`: kernels/solves.cpp with kernels/written_model.h."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_size_t
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, VectorField
from discretize.compiler.program import FlowModule, Program, weights_of
from discretize.compiler.recording import as_function
from discretize.compiler.written_kernels import (
    HERE,
    GivenProgram,
    ProgramStructure,
    Sums,
    SumsStructure,
    kernel_of,
    products,
    written_source,
)
from discretize.fused.eligibility import device_reason, setting_reason, tensor_reason, tracing_reason
from discretize.fused.kernel_run import ALL_STEPS, GivenModel, KernelRun, Solved, no_kernel, projected_of, solved, states_by_engine
from discretize.fused.libraries import KERNELS, REALS, made_solves_library
from discretize.solvers.adaptive import ADAPTIVE_METHODS, AdaptiveEngine
from discretize.solvers.control import StepControl
from discretize.solvers.segments import Chain, chain_of

__all__ = ["LEAST_SEGMENTS", "solve"]

LEAST_SEGMENTS = 1000  # of all samples together: from here on a solve is worth a kernel
ROUNDING = {torch.float32: 1e-3, torch.float64: 1e-9}  # relative to the largest number of each result
HEADERS = (HERE / "written_model.h", KERNELS / "tableau.h")


class ModelStructure(Structure):
    """`CtrnnModel` of kernels/written_model.h, field by field."""

    _fields_ = [("state", c_size_t), ("columns", c_size_t), ("program", POINTER(ProgramStructure))]


class WrittenField(VectorField):
    """A module's `flow` at any weights, a function of the projected input."""

    def __init__(self, module: FlowModule, weights: Sequence[Tensor]) -> None:
        super().__init__(module.columns, module.field.state_size)
        self.code, self.weights = as_function(module), weights

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        slope: Tensor = self.code(self.weights, (projected, h))
        return slope


@dataclass(frozen=True)
class _Model:
    """A field as a kernel knows it; its weights are those of `module`, each once."""

    module: FlowModule
    program: Program
    library: ctypes.CDLL
    products: dict[str, int]

    def given(self, weights: Sequence[Any]) -> GivenModel:
        given = GivenProgram(self.program, self.products, weights)
        structure = ModelStructure(self.module.field.state_size, self.module.columns, ctypes.pointer(given.structure))
        return GivenModel(structure, given)

    def gradients(self, write: Callable[[Any], None], weights: Sequence[Any]) -> list[Tensor | None]:
        sums = Sums(self.program, torch.empty(0, dtype=self.dtype))
        write(ctypes.byref(sums.structure))
        return sums.gradients(weights)

    def field(self, *weights: Any) -> VectorField:
        return WrittenField(self.module, weights)


def solve(
    chain: Chain, h0: Tensor, engine: AdaptiveEngine, fused: bool, show: Callable[[int], None], stats: dict[str, Any]
) -> Solved | str:
    """As `discretize.fused.solves.solve`, for any field whose code can be recorded."""
    why = setting_reason(fused) or tracing_reason() or no_kernel(chain, engine) or device_reason(h0)
    if why:
        return why
    if len(chain) * len(h0) < LEAST_SEGMENTS:
        return f"kernels are written for solves of {LEAST_SEGMENTS} intervals or more, of all samples together"
    projected = projected_of(chain).xs
    module = FlowModule(chain.field, projected.shape[-1])
    weights = weights_of(module)
    if why := tensor_reason([h0, projected, *weights]):
        return why
    make = partial(_made, module, h0.dtype)
    found = kernel_of(module, {"x": projected.requires_grad}, h0.dtype, make)
    if isinstance(found, str):
        return found
    model = _Model(module, *found)
    return solved(model, chain, [projected, h0, *weights], engine, show, stats)


Made = tuple[Program, ctypes.CDLL, dict[str, int], torch.dtype]
