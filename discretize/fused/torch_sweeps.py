r"""What the sweeps over a sequence in plain torch share: rows, step lengths, the functions of a leak, the way back.

M = u phi_1(-u l)        how far a step goes to its target, and u where Euler steps
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Found", "States", "Tensors", "blocks", "lengths", "phi_1", "phi_1_slope", "rows", "sweep", "times", "towards"]

# Numbers among the local derivatives of a block of steps: small enough for a cache, many enough to be worth a call.
BLOCK = 2**18
SERIES = 0.5  # up to there phi_1' is taken from its series


class Tensors(NamedTuple):
    """What `cells` reads; of gradients, None for those that nobody needs. Typed as what they mostly are."""

    xs: Any
    weight_x: Any
    bias: Any
    h0: Any
    weight_h: Any
    bias_h: Any
    rates: Any
    dt: Any

    def projected(self) -> Tensor:
        """(time, batch, columns), to be written over."""
        flat, weights = self.xs.flatten(0, 1), self.weight_x.t()
        found = flat @ weights if self.bias is None else torch.addmm(self.bias, flat, weights)
        return found.unflatten(0, self.xs.shape[:2])

    def sizes(self, substeps: int) -> tuple[int, int, int]:
        """Steps, batch, hidden."""
        return len(self.xs) * substeps, self.xs.shape[1], self.weight_h.shape[1]

    def durations(self, substeps: int, first: int, last: int) -> float | Tensor:
        """The lengths of the steps of samples first to last: a number, or (steps, 1 or batch, 1)."""
        if not isinstance(self.dt, Tensor):
            return self.dt / substeps
        return (self.dt[first:last] / substeps).repeat_interleave(substeps, 0)


class States:
    """Rows that states go to, one for each step: all of them kept, or only those after a sample."""

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

    def given(self) -> tuple[Tensor, ...]:
        """The states after samples; and all of them if kept: a copy, for the user may write into his."""
        return (self.buffer[self.substeps :: self.substeps].clone(), self.buffer) if self.keep else (self.buffer,)


class Found:
    """Gradients to the tensors that need them, filled in block by block."""

    def __init__(self, substeps: int, tensors: Tensors, needed: Tensors) -> None:
        self.substeps, self.tensors, self.needed = substeps, tensors, needed
        of = (tensor.new_zeros(tensor.shape) if need else None for tensor, need in zip(tensors, needed, strict=True))
        self.of = Tensors(*of)
        self.of_weight_x = tensors.xs.new_zeros(tensors.weight_x.shape[::-1])

    def weights(self, d_args: Tensor, h: Tensor) -> None:
        """Cotangents (steps, batch, columns) of what W h is part of, in one product for a block; h (steps, batch, hidden)."""
        if self.of.weight_h is not None:
            self.of.weight_h.addmm_(d_args.flatten(0, 1).t(), h.flatten(0, 1))

    def projections(self, first: int, last: int, d_args: Tensor) -> None:
        """Cotangents of what the projections of samples first to last are part of."""
        flat, of = self.of_samples(d_args).flatten(0, 1), self.of
        if self.needed.weight_x:
            # The input on the left: where it is narrow, the other way round takes 10 times as long.
            self.of_weight_x.addmm_(self.tensors.xs[first:last].flatten(0, 1).t(), flat)
        if of.bias is not None:
            of.bias.add_(flat.sum(0))
        if of.xs is not None:
            torch.mm(flat, self.tensors.weight_x, out=of.xs[first:last].flatten(0, 1))

    def durations(self, first: int, last: int, pushed: Tensor) -> None:
        """Cotangents times the derivative of each state by the length of its step, (steps, batch, state)."""
        if isinstance(self.of.dt, Tensor):
            per_sample = self.of_samples(pushed.sum(-1, keepdim=True)) / self.substeps
            self.of.dt[first:last] = per_sample.sum_to_size(last - first, *self.of.dt.shape[1:])

    def of_samples(self, steps: Tensor) -> Tensor:
        """(samples * substeps, ...) -> (samples, ...)."""
        return steps if self.substeps == 1 else steps.unflatten(0, (-1, self.substeps)).sum(1)

    def all(self, h0: Tensor) -> Tensors:
        found = self.of._replace(h0=h0.clone())
        return found._replace(weight_x=self.of_weight_x.t().contiguous()) if self.needed.weight_x else found


def sweep(
    q: Tensor,
    grad: Tensor,
    first: int,
    substeps: int,
    units: Tensor,
    shared: Tensor | None,
    carried: Tensor,
    weight_h: Tensor,
    d_args: Tensor,
) -> Tensor:
    r"""Back through the steps of a block that begins with sample `first`, with cotangent q after its last step.

    Writes the cotangents of the arguments into d_args.

    Shape:   q (batch, state); grad (time, batch, state); units (steps, batch, rows, hidden); shared (steps, batch, hidden);
             carried (steps, batch, hidden); d_args (steps, batch, columns) -> cotangents before the first step and after each,
             (steps + 1, batch, hidden).
    """
    steps, hidden = len(units), units.shape[-1]
    qs = q.new_empty(steps + 1, *q.shape)
    qs[steps] = q
    before, columns = qs.unbind(0), units.shape[2] * hidden
    wide, into = qs.unsqueeze(2).unbind(0), d_args[..., :columns].unflatten(-1, (-1, hidden)).unbind(0)
    to_shared, local, args = d_args[..., columns:].unbind(0), units.unbind(0), d_args.unbind(0)
    C, arriving = carried.unbind(0), grad[max(0, first - 1) : first + steps // substeps].unbind(0)
    for k in reversed(range(steps)):
        torch.mul(wide[k + 1], local[k], out=into[k])
        if shared is not None:
            torch.sum(before[k + 1] * shared[k], -1, keepdim=True, out=to_shared[k])
        sample, inner = divmod(k, substeps)
        if inner or not first + sample:
            torch.mul(before[k + 1], C[k], out=before[k])
        else:
            torch.addcmul(arriving[sample - (first == 0)], before[k + 1], C[k], out=before[k])
        before[k].addmm_(args[k], weight_h)
    return qs


def blocks(time: int, numbers: int) -> Iterator[tuple[int, int]]:
    """Samples of so many numbers each in blocks of about `BLOCK`, the last block first."""
    size = max(1, BLOCK // numbers)
    for last in range(time, 0, -size):
        yield max(0, last - size), last


def rows(tensor: Tensor, steps: int) -> list[Tensor]:
    """A row for each step, where one serves several steps in turn, or all."""
    found = tensor.unbind(0)
    return list(found) if len(found) == steps else [row for row in found for _ in range(steps // len(found))]


def lengths(dt: float | Tensor, substeps: int, steps: int) -> Sequence[Any]:
    """Of each step."""
    return rows(dt / substeps, steps) if isinstance(dt, Tensor) else [dt / substeps] * steps


def times(rate: Tensor, length: float | Tensor) -> Tensor:
    return rate if isinstance(length, float) and length == 1 else rate * length


def towards(step: str, u: Any) -> Any:
    """M where all is leak."""
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
