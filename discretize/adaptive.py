r"""Adaptive Runge-Kutta solves by torchdiffeq, made to land on the end of every segment.

Left alone, torchdiffeq steps over the end of what it is asked for and interpolates back; the interpolant is less accurate
than the step and, over an input with corners, wrong. Here `step_t` cuts the last step of a segment at its end, and the
state is taken as the step left it: the solve is asked to go on, and is stopped before its next step, which also tells the
step size it would have taken. The next segment starts from that, or from the one proposed before landing cut it, if that
is longer. The error norm is the largest over samples and units, so that none hides behind its neighbours.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torchdiffeq import odeint

from discretize.errors import Failure
from discretize.segments import Segment
from discretize.tally import Tally

__all__ = ["ADAPTIVE_METHODS", "AdaptiveEngine"]

ADAPTIVE_METHODS = {"dopri5": 5, "dopri8": 8, "bosh3": 3, "adaptive_heun": 2}  # name: order

# Embedded error estimates are for small steps. At about one step a sample, which held inputs invite, dopri5 came out at up
# to 52 tolerances without this margin and 15 with it, at 0.8 and 0.1 in the median, for 20 to 34 % more evaluations
# (tolerances 1e-3 to 1e-5, 88 problems each, cubic decays among them). bosh3: 14 and 1, for 68 to 84 % more.
ERROR_MARGIN = 8.0

SHORTEST_STEP = 1e-14  # as a fraction of the segment: below it the state no longer moves in float64


class _Landed(Exception):  # noqa: N818 (not an error: the way out of a solve that has arrived)
    def __init__(self, h: Tensor) -> None:
        self.h = h


class AdaptiveEngine:
    r"""Carries a state through segments with steps of its own choosing, and the step size from one to the next.

    Args:    method: a name in `ADAPTIVE_METHODS`; rtol, atol: tolerances of each unit's local error;
             max_num_steps: over all segments; tally: counted into.
    Raises:  Failure where no step is short enough, the field is not finite, or there are too many steps.
    Source:  torchdiffeq 0.2.5; first step after Hairer, Norsett and Wanner, Solving ODEs I, sec. II.4.
    """

    def __init__(self, method: str, rtol: float, atol: float, max_num_steps: int, tally: Tally) -> None:
        self.method, self.rtol, self.atol = method, rtol, atol
        self.max_num_steps, self.tally = max_num_steps, tally
        self.step: float | None = None

    def advance(self, segment: Segment, h: Tensor) -> Tensor:
        """The state at the end of the segment: (batch, state) -> (batch, state)."""
        flight = _Flight(self, segment)
        if self.step is None:
            self.step = flight.first_step(h)
        length = segment.length
        # Twice the length: somewhere to go on to after landing, never reached.
        clock = torch.tensor([0.0, 2 * length], dtype=torch.float64, device=h.device)
        options = {"norm": flight.norm, "first_step": self.step, "step_t": [length]}
        try:
            odeint(flight, h, clock, rtol=self.rtol, atol=self.atol, method=self.method, options=options)
        except _Landed as landed:
            return landed.h
        raise RuntimeError(f"torchdiffeq's {self.method} went past a segment's end without landing on it.")


class _Flight:
    """One segment's right-hand side on its own clock, with the callbacks by which torchdiffeq reports its steps."""

    def __init__(self, engine: AdaptiveEngine, segment: Segment) -> None:
        self.engine, self.segment, self.tally = engine, segment, engine.tally
        self.flow = segment.flow()
        self.proposed = 0.0
        self.cut = self.rejected = False  # the step under way by landing, the last one for its error
        self.errors: Tensor | None = None
        self.derivative: Tensor | None = None

    def __call__(self, tau: Tensor, h: Tensor) -> Tensor:
        self.tally.evaluations += 1
        derivative = self.flow(tau, h)
        if self.derivative is None and not bool(torch.isfinite(derivative).all()):
            raise self.not_finite(derivative, 0.0)
        self.derivative = derivative
        return derivative

    def norm(self, errors: Tensor) -> Tensor:
        """The largest over samples and units, with a margin; nan, where a trial step went too far, is inf."""
        self.errors = errors.detach()
        largest = ERROR_MARGIN * self.errors.abs().amax()
        # torchdiffeq divides its step by a nan and ends at 0; from inf it shortens the step and tries again.
        return torch.nan_to_num(largest, nan=math.inf, posinf=math.inf)

    def callback_step(self, tau: Tensor, h: Tensor, step: Tensor) -> None:
        at, proposed = float(tau), float(step)
        if at >= self.segment.length:
            self.engine.step = max(proposed, self.proposed) if self.cut else proposed
            raise _Landed(h)
        if self.tally.attempted >= self.engine.max_num_steps:
            raise self.too_many_steps(at, h)
        self.proposed, self.cut = proposed, at + proposed > self.segment.length
        # A short step is no failure by itself: it may have been carried here from a shorter segment, and will grow.
        if not at + proposed > at or (self.rejected and proposed < SHORTEST_STEP * self.segment.length):
            raise self.too_short_a_step(at, h)

    def callback_accept_step(self, tau: Tensor, h: Tensor, step: Tensor) -> None:
        self.rejected = False
        self.tally.accept(self.segment.start + float(tau), float(step))

    def callback_reject_step(self, tau: Tensor, h: Tensor, step: Tensor) -> None:
        self.rejected = True
        self.tally.rejected += 1

    @torch.no_grad()
    def first_step(self, h: Tensor) -> float:
        order = ADAPTIVE_METHODS[self.engine.method]
        scale = self.engine.atol + self.engine.rtol * h.abs()
        slope = self(torch.zeros((), dtype=torch.float64, device=h.device), h)
        size, speed = float(self.norm(h / scale)), float(self.norm(slope / scale))
        guess = 0.01 * size / speed if size > 1e-5 and speed > 1e-5 else 1e-6
        moved = self.flow(torch.tensor(guess, dtype=torch.float64, device=h.device), h + guess * slope)
        self.tally.evaluations += 1
        bend = float(self.norm((moved - slope) / scale)) / guess
        steepest = max(speed, bend)
        by_error = (0.01 / steepest) ** (1 / order) if steepest > 1e-15 else max(1e-6, guess * 1e-3)
        return min(100 * guess, by_error) if by_error > 0 else guess

    def not_finite(self, derivative: Tensor, at: float) -> Failure:
        sample, unit = _first(~torch.isfinite(derivative))
        return Failure(
            cause=f"the field gives {float(derivative[sample, unit].detach())} there",
            hint="Look at the field's weights and at the state it is given.",
            time=self.segment.start + at, sample=sample, unit=unit,
        )  # fmt: skip

    def too_short_a_step(self, at: float, h: Tensor) -> Failure:
        if self.derivative is not None and not bool(torch.isfinite(self.derivative).all()):
            return self.not_finite(self.derivative, at)
        sample, unit = self._worst(h)
        size = float(h.detach().abs().max())
        if size > 1e8:
            cause, hint = (
                f"the state grows without bound (|h| is {size:.3g})",
                "Look at the field: it may blow up in finite time.",
            )
        else:
            cause = f"no step down to {self.proposed:.3g} meets rtol={self.engine.rtol:g}, atol={self.engine.atol:g}"
            hint = (
                "Loosen the tolerances, use float64, or look at the field there: its solution may end, or it has a jump, and "
                "jumps belong at knots."
            )
        return Failure(cause, hint, self.segment.start + at, sample, unit)

    def too_many_steps(self, at: float, h: Tensor) -> Failure:
        sample, unit = self._worst(h)
        return Failure(
            cause=f"{self.tally.attempted} steps were not enough (the last one was {self.proposed:.3g} long)",
            hint="Loosen the tolerances, raise `max_num_steps`, or slow the field down: steps this short mean a stiff one.",
            time=self.segment.start + at, sample=sample, unit=unit,
        )  # fmt: skip

    def _worst(self, h: Tensor) -> tuple[int, int]:
        errors = h.detach() if self.errors is None else torch.nan_to_num(self.errors, nan=math.inf)
        index = int(errors.abs().argmax())
        return index // h.shape[1], index % h.shape[1]


def _first(mask: Tensor) -> tuple[int, int]:
    sample, unit = torch.nonzero(mask)[0].tolist()
    return sample, unit
