r"""Exact solves of named fields by a compiled kernel: `discretize.kernels.cpp.solving` with kernels/named_model.h."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from ctypes import Structure, c_double, c_size_t, c_void_p
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ctrnn import Driven, HeldPath
from discretize.kernels.build import Unavailable
from discretize.kernels.cpp.blocks import solved_within
from discretize.kernels.cpp.libraries import address, named_solves_library
from discretize.kernels.cpp.solving import (
    ALL_STEPS,
    EXPLICIT_METHODS,
    GivenModel,
    KernelRun,
    Solved,
    no_kernel,
    states_by_engine,
)
from discretize.kernels.eligibility import device_reason, setting_reason, tensor_reason, tracing_reason, warn_once
from discretize.kernels.named import reference
from discretize.kernels.named.kernel_spec import CellInputs, Kind, kind_of, stacked_weights
from discretize.kernels.pieces import projected_of, readable
from discretize.solvers.adaptive import ADAPTIVE_METHODS, AdaptiveEngine
from discretize.solvers.control import StepControl
from discretize.solvers.segments import Chain, chain_of

__all__ = ["solve"]


class NamedWeights(Structure):
    """`CtrnnModel` of kernels/named_model.h, field by field."""

    _fields_ = [("hidden", c_size_t), *((name, c_void_p) for name in ("w", "bias_h", "rates")), ("exponent", c_double)]


class NamedSums(Structure):
    """`CtrnnSums`."""

    _fields_ = [(name, c_void_p) for name in ("w", "bias_h", "rates")]


@dataclass(frozen=True)
class NamedModel:
    """A named field; its weights: weight_h (columns, hidden), bias_h and rates (hidden,) or None."""

    kind: Kind
    library: ctypes.CDLL

    def given(self, weights: Sequence[Tensor | None]) -> GivenModel:
        assert weights[0] is not None
        return GivenModel(NamedWeights(weights[0].shape[1], *map(address, weights), self.kind.exponent), weights)

    def gradients(self, write: Callable[[Any], None], weights: Sequence[Tensor | None]) -> list[Tensor | None]:
        found = [None if t is None else torch.empty_like(t) for t in weights]
        write(ctypes.byref(NamedSums(*map(address, found))))
        return found

    def field(self, *weights: Any) -> reference.StackedField:
        return reference.StackedField(self.kind, *weights)


def solve(
    chain: Chain,
    h0: Tensor,
    engine: AdaptiveEngine,
    fused: bool,
    show: Callable[[int], None],
    stats: dict[str, Any],
    memory: float | None = None,
) -> Solved | str:
    r"""The solve by a kernel, counted in the engine's counts; or why there is none.

    Args:    show: called now and then with the number of segments done; stats: where evaluations made again for gradients
             are counted; memory: bytes for the steps that gradients need, None for all of them.
    Raises:  MemoryError.
    """
    kind = _eligible_kind(chain, h0, engine, fused)
    if isinstance(kind, str):
        return kind
    read = readable(chain, engine)
    if isinstance(read, str):
        return read
    chain, xs = read, projected_of(read).xs
    if why := tensor_reason([xs, h0, *chain.field.parameters(), *chain.field.buffers()]):
        return why
    try:
        library = named_solves_library(kind, h0.dtype)
    except Unavailable as error:
        return warn_once(str(error))
    if why := reference.disagreement(
        library, kind, h0.dtype, partial(_by_kernel, kind, library), partial(_by_engine, kind, library)
    ):
        return warn_once(why)
    tensors = (xs, h0, *stacked_weights(chain.field)[2:])
    return solved_within(KernelRun, NamedModel(kind, library), chain, tensors, engine, show, stats, memory)


def _eligible_kind(chain: Chain, h0: Tensor, engine: AdaptiveEngine, fused: bool) -> Kind | str:
    why = setting_reason(fused) or tracing_reason() or no_kernel(chain, engine, EXPLICIT_METHODS)
    if why:
        return why
    kind = kind_of(chain.field)
    return kind if isinstance(kind, str) else device_reason(h0) or kind


def _example_run(kind: Kind, library: ctypes.CDLL, inputs: CellInputs) -> tuple[KernelRun, list[Any]]:
    """A short solve, to be compared."""
    tensors = [inputs.projected(), inputs.h0, *inputs[5:]]
    model = NamedModel(kind, library)
    # A few steps, for the engine in torch takes 1 ms for each.
    driven = Driven(
        model.field(*tensors[2:]), HeldPath.unchecked(tensors[0], torch.arange(len(inputs.xs) + 1, dtype=torch.float64) / 4)
    )
    control = StepControl(ADAPTIVE_METHODS["dopri5"], 1e-2, 1e-2, max_num_steps=100)
    chain = chain_of(driven, driven.knots)
    return KernelRun(model, chain, AdaptiveEngine(control), lambda done: None, {"nfe_backward": 0}, keep=ALL_STEPS), tensors


def _by_kernel(kind: Kind, library: ctypes.CDLL, inputs: CellInputs) -> list[Tensor]:
    """States and gradients of their sum, nan for a sample that could not be solved."""
    run, tensors = _example_run(kind, library, inputs)
    run.engine.start(run.chain, len(inputs.h0))
    hs = run.forward(*tensors)
    if run.failed.cause:
        hs[:, run.row] = math.nan
        return [hs]
    return [hs, *(gradient for gradient in run.backward(torch.ones_like(hs)) if gradient is not None)]


def _by_engine(kind: Kind, library: ctypes.CDLL, inputs: CellInputs) -> list[Tensor]:
    run, tensors = _example_run(kind, library, inputs)
    hs = states_by_engine(run, *tensors)
    return [hs, *torch.autograd.grad(hs.sum(), [tensor for tensor in tensors if tensor is not None])]
