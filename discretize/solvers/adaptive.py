r"""Adaptive solves: every sample with steps of its own, each segment ended by a step that lands on its end.

    error of a step, the largest over units, in tolerances:    q = max_i |e_i| / (atol + rtol max(|h_i|, |h_i'|))
    accepted where q <= 1; next step:                          dt 0.9 q^(-1/order), at most 10 times and at least dt / 5

So a sample's answer does not depend on its neighbours, and a stiff one does not shorten theirs: a sample that has landed
waits, and where that pays the others go on without it. Where the input cannot be read at a time for each sample (a
function of one time, say) all take the same steps, and q is the largest over samples too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discretize.errors import Failure
from discretize.solvers.diagnosis import diagnosis
from discretize.solvers.embedded import Attempt, EmbeddedMethod
from discretize.solvers.rodas import Rodas5P
from discretize.solvers.segments import Chain, Segment
from discretize.solvers.statistics import SolverStats
from discretize.solvers.tableaus import EXPLICIT_PAIRS

__all__ = ["ADAPTIVE_METHODS", "AdaptiveEngine", "SolverState", "Taken"]

ADAPTIVE_METHODS: dict[str, EmbeddedMethod] = {**EXPLICIT_PAIRS, "rodas5p": Rodas5P()}

# Embedded error estimates are for small steps. At about one step a sample, which held inputs invite, dopri5 came out at up
# to 52 tolerances without this margin and 15 with it, at 0.8 and 0.1 in the median, for 20 to 34 % more evaluations
# (tolerances 1e-3 to 1e-5, 88 problems each, cubic decays among them). bosh3: 14 and 1, for 68 to 84 % more.
ERROR_MARGIN = 8.0
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0

SHORTEST_STEP = 1e-14  # as a fraction of the segment: below it the state no longer moves in float64
# To leave out the samples that have landed costs a few copies. With one stiff sample among 16 to 256 it took between 0.4
# and 1.0 of the time, from 960 units spared on.
WORTH_LEAVING_OUT = 1_024


@dataclass
class SolverState:
    """Where a solve is: a segment, how far into it each sample has come, and the step each would take next."""

    segment: int
    tau: np.ndarray
    step: np.ndarray | None = None
    held_back: np.ndarray | None = None  # whose last step was rejected

    def copy(self) -> SolverState:
        step, held_back = (None if of_all is None else of_all.copy() for of_all in (self.step, self.held_back))
        return SolverState(self.segment, self.tau.copy(), step, held_back)


@dataclass(frozen=True)
class Taken:
    """A round of steps: how long, 0 for samples that took none; where in the segment each ended, and in which state."""

    dt: np.ndarray
    end: np.ndarray
    h: Tensor


class AdaptiveEngine:
    r"""Carries states through the segments of a chain.

    Args:    method: a name in `ADAPTIVE_METHODS`; rtol, atol: tolerances of each unit's local error; max_num_steps: of each
             sample, over all segments; min_step: steps this short are accepted whatever their error; tally: counted into.
    Raises:  Failure where no step is short enough, the field is not finite, or there are too many steps.
    Source:  Hairer, Norsett and Wanner, Solving ODEs I, sec. II.4, for first step and control.
    """

    def __init__(self, method: str, rtol: float, atol: float, max_num_steps: int, min_step: float, tally: SolverStats) -> None:
        self.method, self.rtol, self.atol = ADAPTIVE_METHODS[method], rtol, atol
        self.max_num_steps, self.min_step, self.tally = max_num_steps, min_step, tally
        self.log: list[Taken] | None = None  # of every round of steps that some sample took, if wanted

    def start(self, chain: Chain, batch: int) -> SolverState:
        """Before the first step."""
        rows = batch if chain.own or chain.course.own_times else 1
        return SolverState(0, np.zeros(rows))

    def segment(self, chain: Chain, flight: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        """On to the end of the flight's segment, or until `limit` steps were tried; the state there, and the tries it took."""
        return _Segment(self, chain, flight, h).fly(limit)

    @torch.no_grad()
    def first_step(self, segment: Segment, h: Tensor, length: np.ndarray) -> np.ndarray:
        """A first guess of each sample's step, from how fast the field is and how fast it changes; length (rows,)."""
        rows = len(length)

        def size(values: Tensor) -> np.ndarray:
            # The margin belongs to the size of the error, and so to what the tolerance is compared with.
            return ERROR_MARGIN * _largest(values / (self.atol + self.rtol * h.abs()), rows)

        zero = torch.zeros((), dtype=torch.float64, device=h.device)
        slope = segment(zero, h)
        far, fast = size(h), size(slope)
        with np.errstate(all="ignore"):
            # From rest, where sequences start, the state says nothing of what a small step is; the interval does.
            near = np.where(length > 0, 1e-3 * length, 1e-6)
            guess = np.where((far > 1e-5) & (fast > 1e-5), 0.01 * far / fast, near)
            guess = np.where(np.isfinite(guess) & (guess > 0), guess, near)
            there = _column(guess, h)
            bend = size(segment(_column(guess), h + there * slope) - slope) / guess
            steepest = np.fmax(fast, bend)
            by_error = np.where(steepest > 1e-15, (0.01 / steepest) ** (1 / self.method.order), guess)
        self.tally.call(2, len(h))
        return np.where(by_error > 0, np.fmin(100 * guess, by_error), guess)


class _Segment:
    """One segment's flight: the samples still on their way, where they are, and what the last step said."""

    def __init__(self, engine: AdaptiveEngine, chain: Chain, flight: SolverState, h: Tensor) -> None:
        self.engine, self.chain, self.flight, self.tally = engine, chain, flight, engine.tally
        self.method = engine.method
        self.number = flight.segment
        self.shared = len(flight.tau) == 1
        self.slope = chain.segment(self.number)
        self.length = np.broadcast_to(chain.lengths[self.number], flight.tau.shape)
        if flight.step is None:
            flight.step = engine.first_step(self.slope, h, self.length)
        self.step: np.ndarray = flight.step
        self.all: Tensor = h  # the states of the whole batch, up to date where samples were left out
        self.rows: np.ndarray | None = None  # the samples still in h; None for all of them
        self.h = h
        self.start: Tensor | None = None  # dh/dt at h
        if flight.held_back is None:
            flight.held_back = np.zeros(len(flight.tau), dtype=bool)
        self.held_back: np.ndarray = flight.held_back
        self.last: Attempt | None = None  # the last one that was, of some sample

    def fly(self, limit: float) -> tuple[Tensor, int]:
        tries = 0
        while tries < limit:
            live = self._mine(self.flight.tau < self.length)
            if not live.any():
                break
            if not live.all():
                self._leave_out(live)
            self._try(self._mine(self.flight.tau), self._mine(self.step), self._mine(self.length))
            tries += 1
        if self.rows is not None:
            self._put_back()
        return self.h, tries

    def _try(self, tau: np.ndarray, step: np.ndarray, length: np.ndarray) -> None:
        live = tau < length
        self._check_progress(live, tau, step)
        remaining = length - tau
        with np.errstate(all="ignore"):
            steps = np.maximum(np.ceil(remaining / step * (1 - 1e-3)), 1.0)  # to the landing, if they were equal
        dt = np.where(live, remaining / steps, 0.0)
        attempt = self._attempt(tau, dt)
        error = self._error(attempt)
        finite = np.isfinite(error)
        accepted = live & ((error <= 1) | (finite & (dt <= self.engine.min_step)))
        with np.errstate(all="ignore"):
            factor = np.clip(SAFETY * error ** (-1 / self.method.order), SHRINK, GROW)
        factor = np.where(self._mine(self.held_back) & accepted, np.minimum(factor, 1.0), factor)
        # A step cut short by landing says little when its error is nothing; the one proposed before it still holds.
        # What is not finite is not accepted at any length, and must go on to shorter steps or to a failure.
        proposed = np.where(finite, np.maximum(dt * factor, self.engine.min_step), dt * factor)
        proposed = np.where(accepted & (factor >= GROW), np.maximum(proposed, step), proposed)
        self._count(live, accepted, error, tau, dt)
        self._move(attempt, live, accepted, tau, dt)
        self._set(self.step, np.where(live, proposed, step))
        self._set(self.held_back, live & ~accepted)
        self._set(self.flight.tau, np.where(accepted, np.where(steps == 1, length, tau + dt), tau))

    def _attempt(self, tau: np.ndarray, dt: np.ndarray) -> Attempt:
        segment, h = self.slope, self.h
        if self.start is None:
            self.start = segment(self._time(tau), h)
            self.tally.call(1, len(h))
        self.tally.call(self.method.cost(h.shape[-1], segment.steady), len(h))
        return self.method.attempt(segment, self._time(tau), self._time(dt), h, self.start)

    def _time(self, value: np.ndarray) -> Tensor:
        """Numbers as a column; shares of the segment's length where its edges have gradients."""
        column = _column(value, self.h, torch.float64)
        if not self.chain.differentiable:
            return column
        length = self.slope.length
        ahead = length.detach() > 0
        return column * torch.where(ahead, length / torch.where(ahead, length.detach(), 1.0), 1.0)

    def _error(self, attempt: Attempt) -> np.ndarray:
        with torch.no_grad():
            h, error = attempt.h.detach(), attempt.error.detach()
            scale = self.engine.atol + self.engine.rtol * torch.maximum(self.h.detach().abs(), h.abs())
            # h - h is nan where a step went to infinity, which by its own measure would be no error at all.
            q = ERROR_MARGIN * _largest(error / scale + (h - h), len(self._mine(self.flight.tau)))
        return np.where(np.isnan(q), np.inf, q)

    def _move(self, attempt: Attempt, live: np.ndarray, accepted: np.ndarray, tau: np.ndarray, dt: np.ndarray) -> None:
        if not accepted.any():
            self.last = attempt
            return
        self._step_on(attempt, live, accepted, tau, dt)
        if self.engine.log is not None:
            took = np.where(accepted, dt, 0.0)
            self.engine.log.append(Taken(took, tau + took, self.h))
            self.slope.taken(_column(took, self.h))

    def _step_on(self, attempt: Attempt, live: np.ndarray, accepted: np.ndarray, tau: np.ndarray, dt: np.ndarray) -> None:
        if (accepted == live).all():
            self.h, self.start = attempt.h, attempt.end
            return
        self.last = attempt
        took = _column(accepted, self.h, torch.bool)
        if not bool(torch.isfinite(attempt.h).all()):
            # Steps that led to nan would leave nan in the gradients of their neighbours: none for them this time.
            attempt = self._attempt(tau, np.where(accepted, dt, 0.0))
            # Where the field itself is nan even a step of 0 leads to nan, and the state is not to blame.
            self.h, self.start = torch.where(took, attempt.h, self.h), attempt.end
            return
        self.h = torch.where(took, attempt.h, self.h)
        self.start = None if attempt.end is None or self.start is None else torch.where(took, attempt.end, self.start)

    def _leave_out(self, live: np.ndarray) -> None:
        """Go on with those still on their way, where the others are many."""
        gone = int((~live).sum())
        if self.shared or self.engine.log is not None or 2 * gone < len(live) or gone * self.h.shape[-1] < WORTH_LEAVING_OUT:
            return
        here = torch.from_numpy(np.flatnonzero(live)).to(self.h.device)
        if self.rows is not None:
            self._put_back()
        self.all = self.h
        self.rows = np.flatnonzero(live) if self.rows is None else self.rows[live]
        chosen = torch.from_numpy(self.rows).to(self.h.device)
        self.h = self.all.index_select(0, chosen)
        self.start = None if self.start is None else self.start.index_select(0, here)
        self.slope = self.chain.segment(self.number, chosen)

    def _put_back(self) -> None:
        assert self.rows is not None
        self.h = self.all.index_copy(0, torch.from_numpy(self.rows).to(self.h.device), self.h)

    def _mine(self, values: np.ndarray) -> np.ndarray:
        return values if self.rows is None else values[self.rows]

    def _set(self, values: np.ndarray, mine: np.ndarray) -> None:
        values[slice(None) if self.rows is None else self.rows] = mine

    def _count(self, live: np.ndarray, accepted: np.ndarray, error: np.ndarray, tau: np.ndarray, dt: np.ndarray) -> None:
        where = slice(None) if self.rows is None else self.rows
        self.tally.accepted[where] += accepted
        self.tally.rejected[where] += live & ~accepted
        if accepted.any():
            row = int(np.where(accepted, dt, np.inf).argmin())
            if self.tally.smallest is None or dt[row] < self.tally.smallest:
                self.tally.smaller(float(dt[row]), self.chain.time(self.number, float(tau[row]), self._sample(row)))
        forced = accepted & (error > 1)
        if forced.any():
            row = int(forced.argmax())
            at = self.chain.time(self.number, float(tau[row]), self._sample(row))
            self.tally.force(int(forced.sum()), at, float(error[row]))

    def _sample(self, row: int) -> int:
        return row if self.rows is None else int(self.rows[row])

    def _check_progress(self, live: np.ndarray, tau: np.ndarray, step: np.ndarray) -> None:
        attempted = self._mine(self.tally.attempted)
        if (live & (attempted >= self.engine.max_num_steps)).any():
            row = int(np.where(live, attempted, -1).argmax())
            raise self._failure(row, float(tau[row]), float(step[row]), f"{attempted[row]} steps were not enough")
        # A short step is no failure by itself: it may have been carried here from a shorter segment, and will grow.
        stuck = ~(tau + step > tau) | (self._mine(self.held_back) & (step < SHORTEST_STEP * self._mine(self.length)))
        if (live & stuck).any():
            row = int((live & stuck).argmax())
            raise self._failure(row, float(tau[row]), float(step[row]), None)

    def _failure(self, row: int, tau: float, step: float, too_many: str | None) -> Failure:
        whose = None if self.shared else row
        return diagnosis(self.engine, self.slope, self.h, self.last, whose, tau, step, too_many)


def _largest(values: Tensor, rows: int) -> np.ndarray:
    """The largest size over units, and over samples where they step together: (rows,), float64."""
    sizes = values.abs().amax(-1)
    sizes = sizes if rows > 1 or len(sizes) == 1 else sizes.amax(0, keepdim=True)
    return np.array(sizes.tolist(), dtype=np.float64)  # not .numpy(), which torch.func's tensors have not


def _column(values: np.ndarray, like: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """(rows,) numbers as (rows, 1), like a tensor's dtype and device unless told otherwise."""
    # A copy: numbers kept for a gradient must not move on with the flight.
    column = torch.from_numpy(np.array(values))[:, None]
    return column if like is None else column.to(device=like.device, dtype=dtype or like.dtype)
