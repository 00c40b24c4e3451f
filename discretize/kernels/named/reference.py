r"""Kernels' fields in torch operations that autograd differentiates: second derivatives, and gradients under transforms.

All fused engines have a first-order backward pass of their own. Where it is itself differentiated, or its cotangent belongs
to a transform, the same states are computed again here, with a graph.

Kernels are compared with torch once in a process: on a few numbers, states and gradients, and where nan goes. They may be built
with flags of the user's own (CTRNN_CXXFLAGS), by any compiler. -ffast-math, say, takes nan for a number and cancels what rounds
an exponent to a whole number: cells were off by 0.14. What disagrees is not used.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, logsigmoid

from ctrnn import PowerDecay, VectorField
from discretize.kernels.eligibility import is_plain
from discretize.kernels.named.kernel_spec import CellInputs, Kind
from discretize.steps.algebra.phi import phi

__all__ = ["Results", "StackedField", "cell_states", "disagreement", "gradients", "needs_graph"]

Results = Callable[[CellInputs], list[Tensor]]  # states (time, batch, state) first, then gradients

TIME, BATCH, FEATURES, HIDDEN = 2, 2, 2, 11  # units for a full vector and a part of one
# Relative to the largest of each result: sums of some ten terms of order 1, by other formulas for tanh and exp.
ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-10}

_found: dict[ctypes.CDLL, str | None] = {}


def needs_graph(cotangent: Tensor) -> bool:
    """Whether a backward pass has to be made of torch's own operations."""
    return torch.is_grad_enabled() or not is_plain(cotangent)


def gradients(
    states_of: Callable[..., Tensor], inputs: Sequence[Any], needed: Sequence[bool], cotangent: Tensor
) -> list[Tensor | None]:
    """Of states_of(*inputs), by autograd; with a graph of their own, if grad mode is on."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # A view: else autograd.grad follows an edge between two inputs and counts it twice.
        views = [given.view_as(given) if isinstance(given, Tensor) else given for given in inputs]
        sought = [view for view, need in zip(views, needed, strict=True) if need]
        found = iter(torch.autograd.grad(states_of(*views), sought, cotangent, create_graph=again, allow_unused=True))
    return [next(found) if need else None for need in needed]


def cell_states(kind: Kind, step: str, substeps: int, inputs: CellInputs) -> Tensor:
    """The states after each sample, (time, batch, state), step by step."""
    projected = linear(inputs.xs, inputs.weight_x, inputs.bias)
    length = inputs.dt / substeps
    lengths: Sequence[Any] = length.unbind(0) if isinstance(length, Tensor) else [length] * len(projected)
    h, states = inputs.h0, []
    for row, dt in zip(projected.unbind(0), lengths, strict=True):
        for _ in range(substeps):
            slope, leak = _flow_and_leak(kind, row, h, inputs.weight_h, inputs.bias_h, inputs.rates)
            h = h + dt * (slope if step == "euler" else phi(1, -dt * leak) * slope)
        states.append(h)
    return torch.stack(states)


class StackedField(VectorField):
    """A named field by its stacked weights, which may be any tensors; its input is the projection."""

    def __init__(self, kind: Kind, weight_h: Tensor, bias_h: Tensor | None, rates: Tensor | None) -> None:
        columns, hidden = weight_h.shape
        super().__init__(columns, hidden, kind.state(hidden))
        self.kind, self.weights = kind, (weight_h, bias_h, rates)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return _flow_and_leak(self.kind, projected, h, *self.weights)[0]


def _flow_and_leak(
    kind: Kind, projected: Tensor, h: Tensor, weight_h: Tensor, bias_h: Tensor | None, rates: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What the field of that kind gives as `VectorField.flow_and_leak`."""
    hidden = weight_h.shape[1]
    if kind.candidate == "lstm":
        visible, cell = h.split(hidden, -1)
        i, f, g, o = (projected + linear(visible, weight_h)).split(hidden, -1)
        carried = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        slope = torch.cat([torch.sigmoid(o) * torch.tanh(carried) - visible, carried - cell], -1)
        return slope, torch.cat([torch.ones_like(visible), torch.sigmoid(-f)], -1)
    if kind.candidate == "reset":
        parts = [hidden, hidden, len(weight_h) - 2 * hidden]
        (to_reset, to_pull, to_gate), (reset, pull, gate) = projected.split(parts, -1), weight_h.split(parts)
        target = torch.tanh(to_pull + torch.sigmoid(to_reset + linear(h, reset)) * linear(h, pull, bias_h))
        z = to_gate + linear(h, gate)
    else:
        a, z = (projected + linear(h, weight_h)).split([hidden, len(weight_h) - hidden], -1)
        target = torch.relu(a) if kind.candidate == "relu" else torch.tanh(a)
    rate = _rate(kind.rate, z) if rates is None else rates
    decay = PowerDecay(kind.exponent)
    return rate * (target - decay(h)), rate * decay.leak(h)


def _rate(name: str, z: Tensor) -> Tensor:
    if name == "sigmoid":
        return torch.sigmoid(z)
    return torch.exp(z) if name == "exponential" else -logsigmoid(-z)


def disagreement(library: ctypes.CDLL, kind: Kind, dtype: torch.dtype, ours: Results, theirs: Results) -> str | None:
    r"""Why the kernels of a library cannot be used: they give other numbers than torch; None where they give the same.

    Args:    ours, theirs: states and gradients of the same inputs, by the kernel and in torch; a sample that a kernel cannot
             solve is nan.
    """
    if library not in _found:
        # In a thread of its own: in no mode, transform or hook of torch that is on in this one.
        with ThreadPoolExecutor(1) as thread:
            _found[library] = thread.submit(_compared, kind, dtype, ours, theirs).result()
    return _found[library]


def _compared(kind: Kind, dtype: torch.dtype, ours: Results, theirs: Results) -> str | None:
    inputs = _example(kind, dtype)
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
    columns = {"tanh": 1, "relu": 1, "reset": 2, "lstm": 4}[kind.candidate] * HIDDEN + gate

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
