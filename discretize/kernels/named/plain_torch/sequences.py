r"""What the plain-torch engines share: buffers of states, sums of gradients, step lengths, the recursion of the backward pass.

With q the cotangent of the state after a step, a the arguments of candidate and gates, and W their weights on h

    da_n = q_n+1 dh_n+1/da_n        q_n = (hs)_n + q_n+1 C_n + da_n W        dW = sum over n of da_n^T h_n

where dh/da, and C, the derivative by h with a held, are elementwise: they are found for a block of steps at once, and what is
left to do one after the other is three calls of torch a step. What gradients the input and its weights have follows from da.

    M = u phi_1(-u l)        the factor of (target - l h) in a step with u = rate dt and leak l; u where Euler steps
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from discretize.kernels.named.kernel_spec import CellInputs

__all__ = [
    "GradientSums",
    "LocalDerivatives",
    "StateBuffer",
    "backward_steps",
    "blocks",
    "lengths",
    "per_step",
    "phi_1",
    "phi_1_slope",
    "scaled",
    "unit_leak_factor",
]

# Numbers among the local derivatives of a block of steps: small enough for a cache, many enough to be worth a call.
BLOCK = 2**18
SERIES = 0.5  # up to there phi_1' is taken from its series


class StateBuffer:
    """Where the state after each step is written: a row for each, or kept only after samples and else two rows in turn."""

    def __init__(self, h0: Tensor, time: int, substeps: int, keep: bool) -> None:
        self.substeps, self.keep = substeps, keep
        self.buffer = h0.new_empty(time * substeps + 1 if keep else time, *h0.shape)
        if keep:
            self.buffer[0] = h0
            self.rows = list(self.buffer[1:].unbind(0))
        else:
            spare = h0.new_empty(min(2, substeps - 1), *h0.shape).unbind(0)
            inner = [spare[k % 2] for k in range(substeps - 1)]
            self.rows = [row for last in self.buffer.unbind(0) for row in (*inner, last)]

    def results(self) -> tuple[Tensor, ...]:
        """The states after samples; and all of them if kept: a copy, for the user may write into his."""
        return (self.buffer[self.substeps :: self.substeps].clone(), self.buffer) if self.keep else (self.buffer,)


class GradientSums:
    """Gradients to the inputs that need them, `of`, added up block by block."""

    def __init__(self, substeps: int, inputs: CellInputs, needed: CellInputs) -> None:
        self.substeps, self.inputs, self.needed = substeps, inputs, needed
        zeros = (tensor.new_zeros(tensor.shape) if need else None for tensor, need in zip(inputs, needed, strict=True))
        self.of = CellInputs(*zeros)
        self.of_weight_x = inputs.xs.new_zeros(inputs.weight_x.shape[::-1])

    def add_weights(self, d_args: Tensor, h: Tensor) -> None:
        """Cotangents (steps, batch, columns) of what W h is part of, in one product for a block; h (steps, batch, hidden)."""
        if self.of.weight_h is not None:
            self.of.weight_h.addmm_(d_args.flatten(0, 1).t(), h.flatten(0, 1))

    def add_projections(self, first: int, last: int, d_args: Tensor) -> None:
        """Cotangents of what the projections of samples first to last are part of."""
        flat, of = self._of_samples(d_args).flatten(0, 1), self.of
        if self.needed.weight_x:
            # The input on the left: where it is narrow, the other way round takes 10 times as long.
            self.of_weight_x.addmm_(self.inputs.xs[first:last].flatten(0, 1).t(), flat)
        if of.bias is not None:
            of.bias.add_(flat.sum(0))
        if of.xs is not None:
            torch.mm(flat, self.inputs.weight_x, out=of.xs[first:last].flatten(0, 1))

    def add_step_lengths(self, first: int, last: int, pushed: Tensor) -> None:
        """Cotangents times the derivative of each state by the length of its step, (steps, batch, state)."""
        if isinstance(self.of.dt, Tensor):
            per_sample = self._of_samples(pushed.sum(-1, keepdim=True)) / self.substeps
            self.of.dt[first:last] = per_sample.sum_to_size(last - first, *self.of.dt.shape[1:])

    def _of_samples(self, steps: Tensor) -> Tensor:
        """(samples * substeps, ...) -> (samples, ...)."""
        return steps if self.substeps == 1 else steps.unflatten(0, (-1, self.substeps)).sum(1)

    def results(self, of_h0: Tensor) -> CellInputs:
        found = self.of._replace(h0=of_h0.clone())
        return found._replace(weight_x=self.of_weight_x.t().contiguous()) if self.needed.weight_x else found


class LocalDerivatives(Protocol):
    """Derivatives of the states after the steps of a block, elementwise; `carried` (steps, batch, state): by those before."""

    @property
    def carried(self) -> Tensor: ...

    def step_back(self, qs: Tensor, d_args: Tensor) -> Callable[[int], None]:
        """For step k: writes d_args[k] from qs[k + 1], and adds to qs[k] what `carried` leaves out."""


def backward_steps(
    q: Tensor, grad: Tensor, first: int, substeps: int, local: LocalDerivatives, weight_h: Tensor, d_args: Tensor
) -> Tensor:
    r"""Back through the steps of a block that begins with sample `first`, with cotangent q after its last step.

    Writes the cotangents of the arguments into d_args.

    Shape:   q (batch, state); grad (time, batch, state); d_args (steps, batch, columns) -> cotangents before the first step
             and after each, (steps + 1, batch, state).
    """
    steps, hidden = len(d_args), weight_h.shape[1]
    qs = q.new_empty(steps + 1, *q.shape)
    qs[steps] = q
    # Views of all steps at once: taken one by one they would cost as much as the arithmetic.
    before, h_before = qs.unbind(0), qs[..., :hidden].unbind(0)
    C, args, step_back = local.carried.unbind(0), d_args.unbind(0), local.step_back(qs, d_args)
    arriving = grad[max(0, first - 1) : first + steps // substeps].unbind(0)
    for k in reversed(range(steps)):
        sample, inner = divmod(k, substeps)
        if inner or not first + sample:
            torch.mul(before[k + 1], C[k], out=before[k])
        else:
            torch.addcmul(arriving[sample - (first == 0)], before[k + 1], C[k], out=before[k])
        step_back(k)
        h_before[k].addmm_(args[k], weight_h)
    return qs


def blocks(time: int, numbers: int) -> Iterator[tuple[int, int]]:
    """Samples of so many numbers each in blocks of about `BLOCK`, the last block first."""
    size = max(1, BLOCK // numbers)
    for last in range(time, 0, -size):
        yield max(0, last - size), last


def per_step(tensor: Tensor, steps: int) -> list[Tensor]:
    """A row for each step, where one serves several steps in turn, or all."""
    found = tensor.unbind(0)
    return list(found) if len(found) == steps else [row for row in found for _ in range(steps // len(found))]


def lengths(dt: float | Tensor, substeps: int, steps: int) -> Sequence[Any]:
    """The length of each step."""
    return per_step(dt / substeps, steps) if isinstance(dt, Tensor) else [dt / substeps] * steps


def scaled(rate: Tensor, length: float | Tensor) -> Tensor:
    """rate * length, without the product where the length is 1."""
    return rate if isinstance(length, float) and length == 1 else rate * length


def unit_leak_factor(step: str, u: Any) -> Any:
    """M where l = 1."""
    if step == "euler":
        return u
    return torch.expm1(-u).neg_() if isinstance(u, Tensor) else -math.expm1(-u)


def phi_1(x: Tensor) -> Tensor:
    """phi_1(-x) = (1 - e^-x)/x, x >= 0."""
    return torch.where(x == 0, 1.0, torch.expm1(-x) / -x)


def phi_1_slope(x: Tensor) -> Tensor:
    """phi_1'(-x) = (phi_1(-x) - e^-x)/x; by its series, sum of (n + 1)/(n + 2)! (-x)^n, where that would cancel."""
    near = x < SERIES
    small, terms = torch.where(near, x, 0.0), 16 if x.dtype == torch.float64 else 9
    series = torch.zeros_like(x)
    for n in reversed(range(terms)):
        series = (n + 1) / math.factorial(n + 2) - series * small
    return torch.where(near, series, (phi_1(x) - torch.exp(-x)) / x)
