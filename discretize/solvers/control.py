r"""Step size control decides how large a step's error is, whether it is accepted, and how long the next one is.

error of a step, the largest over units, in tolerances:    q = max_i |e_i| / (atol + rtol max(|h_i|, |h_i'|))
accepted where q <= 1; next step:                          dt 0.9 q^(-1/order), at most 10 times and at least dt / 5
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from discretize.solvers.engine import column
from discretize.solvers.segments import RightHandSide
from discretize.solvers.tableaus import Attempt, EmbeddedMethod

__all__ = ["ERROR_MARGIN", "GROW", "SAFETY", "SHORTEST_STEP", "SHRINK", "Numbers", "StepPlace", "Round", "StepControl"]

# Embedded error estimates are for small steps. At about one step a sample, which held inputs invite, dopri5 came out at up
# to 52 tolerances without this margin and 15 with it, at 0.8 and 0.1 in the median, for 20 to 34 % more evaluations
# (tolerances 1e-3 to 1e-5, 88 problems each, cubic decays among them). bosh3: 14 and 1, for 68 to 84 % more.
ERROR_MARGIN = 8.0
MOST_ON_AVERAGE = 1_000  # steps a segment
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0
NEAR = 2.0**-10  # of its step, of a sample that waits: a field that ends nearby, as a root does at 0, is not asked beyond
SHORTEST_STEP = 1e-14  # as a fraction of the segment: below it the state no longer moves in float64

Numbers = TypeVar("Numbers", np.ndarray, Tensor)  # one for each sample


@dataclass(frozen=True)
class StepControl:
    r"""Controls a method's steps by tolerances and bounds.

    Args:    rtol, atol: tolerances of each unit's local error, atol a number or (state,), for each unit its own;
             max_num_steps: of each sample in one segment; min_step: steps this short are accepted whatever their error;
             max_step: no step is longer; given_first_step: the first one to try, None for a guess.
    Another rule overrides how long a step is, how large its error, and what comes after it. `margin`: of the error; `shortest`:
    step, as a fraction of the segment; `whole`: an attempt is of the whole batch, and its error is read before the next;
    `advice`: where no step is short enough.

    Source:  Hairer, Norsett and Wanner, Solving ODEs I, sec. II.4, for first step and control.
    """

    margin: ClassVar[float] = ERROR_MARGIN
    shortest: ClassVar[float] = SHORTEST_STEP
    whole: ClassVar[bool] = False
    advice: ClassVar[str] = (
        "Loosen the tolerances, use float64, or look at the field there: its solution may end, or it has a jump, and jumps "
        "belong at knots; `min_step` would step over it, with a warning."
    )

    method: EmbeddedMethod
    rtol: float
    atol: float | Tensor
    max_num_steps: int
    min_step: float = 0.0
    max_step: float = math.inf
    given_first_step: float | None = None

    def most_steps(self, segments: int) -> int:
        """Return the bound on steps of each sample over a whole solve, which grows with the number of segments."""
        return self.max_num_steps + MOST_ON_AVERAGE * segments

    @property
    def stiffness_shortens(self) -> bool:
        """Whether a stiff field shortens the steps, and a method for it would not."""
        return not self.method.implicit

    def first_step(self, slope: RightHandSide, h: Tensor, length: np.ndarray) -> tuple[np.ndarray, int]:
        """Return each sample's first step, and how many evaluations that took; length (rows,), of the segment."""
        if self.given_first_step is not None:
            return np.full(len(length), self.given_first_step), 0
        guess, calls = self.guessed_step(slope, h, length)
        return np.fmax(guess, self.min_step), calls

    @torch.no_grad()
    def guessed_step(self, slope: RightHandSide, h: Tensor, length: np.ndarray) -> tuple[np.ndarray, int]:
        """Guess the first step from how fast the field is and how fast it changes."""
        rows = len(length)

        def size(values: Tensor) -> np.ndarray:
            # The margin belongs to the size of the error, and so to what the tolerance is compared with.
            return np.array((self.margin * _largest(values / (self.atol + self.rtol * h.abs()), rows)).tolist())

        start = slope(torch.zeros((), dtype=checks.time_dtype(h.device), device=h.device), h)
        far, fast = size(h), size(start)
        with np.errstate(all="ignore"):
            # From rest, where sequences start, the state says nothing of what a small step is; the interval does.
            # Rates are counted in the length of the segment, so that the guess does not depend on the unit of time.
            span = np.where(length > 0, length, length.max())
            near = 1e-3 * span
            guess = np.where((far > 1e-5) & (fast * span > 1e-5), 0.01 * far / fast, near)
            guess = np.where(np.isfinite(guess) & (guess > 0), guess, near)
            bend = size(slope(checks.time_on(column(guess), h.device), h + column(guess, h) * start) - start) / guess
            steepest = np.fmax(fast, bend * span) * span
            by_error = np.where(steepest > 1e-15, (0.01 / steepest) ** (1 / self.method.error_order) * span, guess)
        return np.where(by_error > 0, np.fmin(100 * guess, by_error), guess), 2

    def next_step(self, place: StepPlace[Numbers], length: Numbers) -> tuple[Numbers, Numbers]:
        """Return how long a step to try, and where it leads: the last to the end itself, whatever the sum rounds to."""
        remaining = length - place.tau
        steps = self.steps_to(remaining, place.step)
        dt = remaining / steps
        return dt, _functions_of(steps).where(steps == 1, length, place.tau + dt)

    def steps_to(self, remaining: Numbers, step: Numbers) -> Numbers:
        """Return how many equal steps lead to the end of a segment; at least one."""
        on = _functions_of(remaining)
        with np.errstate(all="ignore"):
            proposed = on.ceil(remaining / step * (1 - 1e-3))
        # Lengths are differences of times: 0.30000000000000004 is three steps of 0.1, not four.
        bound = on.ceil(remaining / self.max_step * (1 - 1e-12))
        return on.clip(on.maximum(proposed, bound), 1.0, None)

    def error(self, attempt: Attempt, h: Tensor, round: Round[np.ndarray]) -> np.ndarray:
        """Read `error_on_device` from the device."""
        # Not .numpy(), which torch.func's tensors have not.
        return np.array(self.error_on_device(attempt, h, len(round.dt)).tolist())

    def error_on_device(self, attempt: Attempt, h: Tensor, rows: int) -> Tensor:
        """Return q of each sample, or one for all that step together: (rows,), float64; infinity if a state is not finite."""
        with torch.no_grad():
            start, end = h.detach(), attempt.h.detach()
            scale = self.atol + self.rtol * torch.maximum(start.abs(), end.abs())
            # end - end is nan where a step went to infinity, which by its own measure would be no error at all.
            q = self.margin * _largest(attempt.error.detach() / scale + (end - end), rows)
            return torch.where(torch.isnan(q), math.inf, q)

    def accepts(self, error: Numbers, dt: Numbers) -> Numbers:
        return (error <= 1) | (_functions_of(error).isfinite(error) & (dt <= self.min_step))

    def following(self, error: Numbers, round: Round[Numbers], accepted: Numbers) -> Numbers:
        """Return the step to try next."""
        on, dt, (_, step, held_back) = _functions_of(error), round.dt, round.place
        with np.errstate(all="ignore"):
            factor = on.clip(SAFETY * error ** (-1 / self.method.error_order), SHRINK, GROW)
        factor = on.where(held_back & accepted, on.clip(factor, None, 1.0), factor)
        # What is not finite is not accepted at any length, and must go on to shorter steps or to a failure.
        proposed = on.where(on.isfinite(error), on.clip(dt * factor, self.min_step, None), dt * factor)
        # A step cut short by landing says little when its error is nothing; the one proposed before it still holds.
        return on.where(accepted & (factor >= GROW), on.maximum(proposed, step), proposed)


class StepPlace(NamedTuple, Generic[Numbers]):
    """Holds the time since the segment's start, the step proposed next, and whether the last one was rejected."""

    tau: Numbers
    step: Numbers
    held_back: Numbers


@dataclass(frozen=True)
class Round(Generic[Numbers]):
    """Describes a step of each sample: of dt, to `end`, of a segment of that length; those not `live` have arrived, and their dt,
    which they do not take, is above 0 and leads nowhere; where a control judges all of them as a whole, it is 0.

    The numbers are NumPy's, or tensors on the device of the states, where they need not be read to go on.
    """

    control: StepControl
    place: StepPlace[Numbers]
    length: Numbers
    live: Numbers
    dt: Numbers
    end: Numbers

    @classmethod
    def of(cls, control: StepControl, place: StepPlace[Numbers], length: Numbers) -> Round[Numbers]:
        live, (dt, end), on = place.tau < length, control.next_step(place, length), _functions_of(length)
        tried = on.where(live, dt, 0.0)
        if not control.whole:
            own = on.minimum(place.step, length)
            tried = on.where(live, dt, NEAR * on.where(own > 0, own, tried.max()))
        return cls(control, place, length, live, tried, end)

    def accepted(self, error: Numbers) -> Numbers:
        return self.live & self.control.accepts(error, self.dt)

    def after(self, error: Numbers, accepted: Numbers) -> StepPlace[Numbers]:
        """Return the places after the step."""
        where, (tau, step, _) = _functions_of(error).where, self.place
        following = where(self.live, self.control.following(error, self, accepted), step)
        return StepPlace(where(accepted, self.end, tau), following, self.live & ~accepted)


def _functions_of(numbers: Numbers) -> Any:
    """Return NumPy, or torch for tensors: the functions used here have the same names and arguments in both."""
    return np if isinstance(numbers, np.ndarray) else torch


def _largest(values: Tensor, rows: int) -> Tensor:
    """Return the largest size over units, and over samples where they step together: (rows,), float64."""
    sizes = values.abs().amax(-1).to(checks.time_dtype(values.device))
    return sizes if rows > 1 or len(sizes) == 1 else sizes.amax(0, keepdim=True)
