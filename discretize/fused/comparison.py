r"""Kernels compared with torch, once in a process: on a few numbers, states and gradients, and where nan goes.

A kernel may be built with flags of the user's own (CTRNN_CXXFLAGS), by any compiler. -ffast-math, say, takes nan for a number
and cancels what rounds an exponent to a whole number: cells were off by 0.14. What disagrees is not used.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable

import torch
from torch import Tensor

from discretize.fused.kernel_spec import CellInputs, Kind

__all__ = ["Results", "disagreement"]

Results = Callable[[CellInputs], list[Tensor]]  # states (time, batch, state) first, then gradients

TIME, BATCH, FEATURES, HIDDEN = 2, 2, 2, 11  # units for a full vector and a part of one
# Relative to the largest of each result: sums of some ten terms of order 1, by other formulas for tanh and exp.
ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-10}

_found: dict[ctypes.CDLL, str | None] = {}


def disagreement(library: ctypes.CDLL, kind: Kind, dtype: torch.dtype, ours: Results, theirs: Results) -> str | None:
    r"""Why the kernels of a library cannot be used: they give other numbers than torch; None where they give the same.

    Args:    ours, theirs: states and gradients of the same inputs, by the kernel and in torch; a sample that a kernel cannot
             solve is nan.
    """
    if library not in _found:
        with torch.inference_mode(False), torch.autocast("cpu", enabled=False):
            _found[library] = _compared(_example(kind, dtype), ours, theirs)
    return _found[library]


def _compared(inputs: CellInputs, ours: Results, theirs: Results) -> str | None:
    with torch.enable_grad():
        expected = theirs(CellInputs(*(x.requires_grad_() if isinstance(x, Tensor) else x for x in inputs)))
    with torch.no_grad():
        inputs = CellInputs(*(x.detach() if isinstance(x, Tensor) else x for x in inputs))
        expected = [tensor.detach() for tensor in expected]
        found = ours(inputs)
        poisoned = inputs.xs.clone()
        poisoned[-1, -1, -1] = math.nan
        finite = torch.isfinite(ours(inputs._replace(xs=poisoned))[0][-1]).tolist()
    off = max(float((mine - other).abs().max() / (1 + other.abs().max())) for mine, other in zip(found, expected, strict=True))
    if not off <= ROUNDING[inputs.xs.dtype]:
        return f"they differ from torch by {off:.2g} on a few numbers{_advice()}"
    if not all(finite[0]) or any(finite[1]):
        return f"they do not keep nan where it comes from{_advice()}"
    return None


def _advice() -> str:
    return "; look at the compiler and its flags (CXX, CTRNN_CXXFLAGS: no -ffast-math)."


def _example(kind: Kind, dtype: torch.dtype) -> CellInputs:
    """Inputs of that kind: numbers of order 1."""
    gate = 0 if kind.rate == "constant" else 1 if kind.shared else HIDDEN
    columns = {"tanh": 1, "reset": 2, "lstm": 4}[kind.candidate] * HIDDEN + gate

    def numbers(*shape: int, size: float = 1.0) -> Tensor:
        return (size * torch.arange(1.0, 1 + math.prod(shape), dtype=torch.float64).mul(2.4).sin()).reshape(shape).to(dtype)

    return CellInputs(
        xs=numbers(TIME, BATCH, FEATURES),
        h0=numbers(BATCH, kind.state(HIDDEN)),
        dt=0.7,
        weight_x=numbers(columns, FEATURES),
        bias=numbers(columns, size=0.5),
        weight_h=numbers(columns, HIDDEN, size=0.5),
        bias_h=numbers(HIDDEN) if kind.candidate == "reset" else None,
        rates=numbers(HIDDEN, size=0.4).abs() + 0.1 if kind.rate == "constant" and kind.candidate != "lstm" else None,
    )
