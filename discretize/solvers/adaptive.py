r"""Adaptive solves give every sample its own steps, and end each segment by a step that lands on its end.

So a sample's answer does not depend on its neighbours, and a stiff one does not shorten theirs: a sample that has landed
waits, and where that pays the others go on without it. Where the input cannot be read at a time for each sample (a
function of one time, say) all take the same steps, and the error is the largest over samples too.

On a GPU reading an error waits for all work given to it: there several rounds of steps, with their errors and what follows
from them, are computed before their results are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.fields.probes import has_two_answers
from discretize.errors import Failure, SolverWarning, warn_user
from discretize.solvers.control import Numbers, Round, StepControl, StepPlace
from discretize.solvers.diagnosis import STIFF_STEPS, diagnosis, jump_hint, stiff_hint
from discretize.solvers.engine import MOST_UNSEEN, Engine, SolverState, column, waits_for
from discretize.solvers.kept import StepLog
from discretize.solvers.pairs import EXPLICIT_PAIRS
from discretize.solvers.rodas import Rodas5P
from discretize.solvers.segments import Chain, RightHandSide
from discretize.solvers.tableaus import Attempt, EmbeddedMethod, attempted, slopes_of

__all__ = ["ADAPTIVE_METHODS", "AdaptiveEngine", "StepRecord"]

ADAPTIVE_METHODS: dict[str, EmbeddedMethod] = {**EXPLICIT_PAIRS, "rodas5p": Rodas5P()}

LOOKED_AT = 2_000  # steps of a sample in one segment: the field is looked at for random numbers and jumps
# To leave out the samples that have landed costs a few copies. With one stiff sample among 16 to 256 it took between 0.4
# and 1.0 of the time, from 960 units spared on.
WORTH_LEAVING_OUT = 1_024


@dataclass(frozen=True)
class StepRecord:
    """An accepted step of each sample: its length, 0 where it took none; where in the segment it ended, and in which state."""

    dt: np.ndarray
    end: np.ndarray
    h: Tensor


class AdaptiveEngine(Engine):
    r"""Carries states through the segments of a chain by steps that keep to a tolerance.

    Args:    control: the method, its tolerances and bounds; on_step: called with a record of every accepted step. `log`, if it
             is set, takes them too, sample by sample.
    Raises:  Failure where no step is short enough, the field is not finite, or there are too many steps.
    Source:  Hairer, Norsett and Wanner, Solving ODEs I, sec. II.4.
    """

    control: StepControl
    on_step: Callable[[StepRecord], None] | None

    def __init__(self, control: StepControl, on_step: Callable[[StepRecord], None] | None = None) -> None:
        super().__init__()
        self.control, self.on_step = control, on_step
        self.log: StepLog | None = None
        self.warned: bool = False  # of stiffness
        self.most: float = math.inf  # steps of a sample
        self.failures: dict[int, tuple[int, Failure]] = {}  # of samples left behind: the segment, and why

    def start(self, chain: Chain, batch: int) -> SolverState:
        self.most = self.control.most_steps(len(chain))
        state = super().start(chain, batch)
        if self.carried is not None:
            together = self.carried[self.carried > 0].min(initial=math.inf, keepdims=True)
            state.step = self.carried.copy() if len(state.tau) == batch else np.where(together < math.inf, together, 0.0)
        return state

    def rows(self, chain: Chain, batch: int) -> int:
        return batch if chain.own or chain.own_times else 1

    def segment(self, segment: RightHandSide, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        return _SegmentSolve(self, segment, state, h).run(limit)


class _SegmentSolve:
    """Solves one segment: keeps the samples that have not reached its end, their places, and the last step."""

    def __init__(self, engine: AdaptiveEngine, whole: RightHandSide, state: SolverState, h: Tensor) -> None:
        self.control, self.on_step, self.counts, self.log = engine.control, engine.on_step, engine.counts, engine.log
        self.whole, self.slope, self.state = whole, whole, state  # of all samples, and of those still in h
        self.shared, self.most = len(state.tau) == 1, engine.most
        self.length, self.failures = np.broadcast_to(whole.lengths, state.tau.shape), engine.failures
        self.on_attempt, self.engine = engine.on_attempt, engine
        if state.failed is not None:
            state.tau = np.where(state.failed, self.length, state.tau)
        step = np.zeros(len(state.tau)) if state.step is None else state.step
        # One that begins later than others guesses by its own first segment, whoever is beside it.
        if (begins := (step == 0) & (self.length > 0)).any():
            first, calls = self.control.first_step(self.slope, h, self.length)
            step = np.where(begins, first, step)
            self.counts.call(calls, len(h))
        state.step = step
        if state.held_back is None or state.tried is None:
            state.held_back, state.tried = np.zeros(len(state.tau), dtype=bool), np.zeros(len(state.tau), dtype=np.int64)
        self.step, self.held_back, self.tried = state.step, state.held_back, state.tried
        self.all: Tensor = h  # the states of the whole batch, up to date where samples were left out
        self.rows: np.ndarray | None = None  # the samples still in h; None for all of them
        self.h = h
        self.start: Tensor | None = None  # dh/dt at h
        self.last: Attempt | None = None  # the last one that was, of some sample
        self.undone = 0  # rounds that are to be taken one at a time

    def run(self, limit: float) -> tuple[Tensor, int]:
        tries = 0
        while tries < limit:
            live = self._mine(self.state.tau < self.length)
            if not live.any():
                break
            if not live.all():
                self._leave_out(live)
            if self.engine.look is not None and self.engine.look():
                self._say_if_stiff()
            place = StepPlace(*(self._mine(x) for x in (self.state.tau, self.step, self.held_back)))
            first = Round.of(self.control, place, self._mine(self.length))
            rounds = self._rounds_unseen(first, limit - tries)
            if rounds == 1:
                self._try(first)
            elif not self._try_unseen(first, rounds):
                self.undone = rounds
                continue
            tries += rounds
        if self.rows is not None:
            self._put_back()
        return self.h, tries

    def _rounds_unseen(self, first: Round[np.ndarray], most: float) -> int:
        """Return how many rounds to compute before reading from the device: as many as the proposed steps leave, and none that
        has to be read by itself. The number doubles each time, for the first step is a guess and soon grows."""
        watched = self.on_step is not None or self.on_attempt is not None
        one_by_one = watched or self.control.whole or self.state.failed is not None or self.undone > 0
        device = self.slope.times_on(self.h.device)
        # Steps are chosen in float64, on the CPU where the device has none.
        if one_by_one or not waits_for(device) or checks.time_dtype(device) != torch.float64:
            self.undone = max(0, self.undone - 1)
            return 1
        live = first.live
        tried, attempted = (self._mine(counts)[live] for counts in (self.tried, self.counts.attempted))
        unlooked = LOOKED_AT - tried[tried <= LOOKED_AT]
        ahead = np.rint((first.length - first.place.tau)[live] / first.dt[live])
        spare = (most, self.control.max_num_steps - tried.max(), self.most - attempted.max(), *unlooked, ahead.max())
        rounds = int(max(1, min(self.state.unseen, *spare)))
        self.state.unseen = min(2 * self.state.unseen, MOST_UNSEEN)
        return rounds

    def _try_unseen(self, first: Round[np.ndarray], rounds: int) -> bool:
        """Compute rounds on the device and read their results at once; return False, undone, if one has to be read itself."""
        begun = self.h, self.start
        there, length = StepPlace(*(self._there(numbers) for numbers in first.place)), self._there(first.length)
        tried, attempts, states = [], [], []
        for _ in range(rounds):
            round = Round.of(self.control, there, length)
            attempt = self._attempt(there.tau, round.dt)
            error = self.control.error_on_device(attempt, self.h, len(length))
            accepted = round.accepted(error)
            tried.append(torch.stack([*there, round.dt, error, round.live, accepted]))
            attempts.append(attempt)
            states.append(self.h)
            self._take(attempt, accepted[:, None])
            there = round.after(error, accepted)
        seen = np.array(torch.stack([*tried, torch.stack([*there, *there, there.tau])]).tolist())
        live, accepted = seen[:-1, 5:].swapaxes(0, 1) > 0
        tau, step, held_back, dt, error, *_ = seen[:-1].swapaxes(0, 1)
        # What is not finite, and a step too short to go on, is looked at where it is.
        if (~np.isfinite(error) | (live & self._is_stuck(tau, step, held_back > 0))).any():
            self.h, self.start = begun
            return False
        for k in range(rounds):
            self._count(live[k], accepted[k], error[k], tau[k], dt[k])
            if not (accepted[k] == live[k]).all():
                self.last = attempts[k]
            if self.log is not None and accepted[k].any():
                self.log.add(
                    self.state.segment, self.rows, tau[k], accepted[k], states[k], slopes_of(attempts[k], self.control.method)
                )
        self._set_place(StepPlace(seen[-1, 0], seen[-1, 1], seen[-1, 2] > 0))
        return True

    def _try(self, round: Round[np.ndarray]) -> None:
        tau, step, live, dt = round.place.tau, round.place.step, round.live, round.dt
        try:
            self._check_progress(live, tau, step)
        except Failure as failure:
            if self.state.failed is None or failure.sample is None:
                raise
            self._leave_behind(failure.sample, failure)
            return
        attempt = self._attempt(tau, dt)
        error = self.control.error(attempt, self.h, round)
        accepted = round.accepted(error)
        self._count(live, accepted, error, tau, dt)
        self._move(attempt, live, accepted, tau, dt, finite=bool(np.isfinite(error).all()))
        self._set_place(round.after(error, accepted))

    def _there(self, numbers: np.ndarray) -> Tensor:
        """Copy numbers, which change, to the device of the states."""
        return torch.from_numpy(np.array(numbers)).to(self.h.device, non_blocking=True)

    def _attempt(self, tau: Numbers, dt: Numbers) -> Attempt:
        slope, h, method = self.slope, self.h, self.control.method
        if self.start is None and method.reads_start:
            self.start = slope(self._time(tau), h)
            self.counts.call(1, len(h))
        self.counts.call(method.attempt_cost(slope, h.shape[-1]), len(h))
        return attempted(method, slope, self._time(tau), self._time(dt), h, self.start)

    def _time(self, value: Numbers) -> Tensor:
        """Return numbers as a column; as shares of the segment's length where its edges have gradients."""
        device = self.slope.times_on(self.h.device)
        numbers = checks.time_on(column(value), device) if isinstance(value, np.ndarray) else value[:, None]
        if not self.whole.differentiable:
            return numbers
        length = self.slope.length(device)
        ahead = length.detach() > 0
        return numbers * torch.where(ahead, length / torch.where(ahead, length.detach(), 1.0), 1.0)

    def _move(
        self, attempt: Attempt, live: np.ndarray, accepted: np.ndarray, tau: np.ndarray, dt: np.ndarray, finite: bool
    ) -> None:
        if not accepted.any():
            self.last = attempt
            return
        if self.log is not None:
            # What is not finite leaves nan in the gradients of its neighbours.
            slopes = slopes_of(attempt, self.control.method) if finite else None
            self.log.add(self.state.segment, self.rows, tau, accepted, self.h, slopes)
        self._step_on(attempt, live, accepted, tau, dt, finite)
        if self.on_step is not None:
            taken = np.where(accepted, dt, 0.0)
            self.on_step(StepRecord(taken, tau + taken, self.h))

    def _step_on(
        self, attempt: Attempt, live: np.ndarray, accepted: np.ndarray, tau: np.ndarray, dt: np.ndarray, finite: bool
    ) -> None:
        if accepted.all():
            self.h, self.start = attempt.h, attempt.end
            return
        if not (accepted == live).all():
            self.last = attempt
        took = column(accepted, self.h, torch.bool)
        # An error of infinity is known here; whether the state is what is not finite, or the slope there, has to be read from its
        # device.
        if not finite and not all(bool(torch.isfinite(part).all()) for part in (attempt.h, attempt.end) if part is not None):
            # Steps that led to nan would leave nan in the gradients of their neighbours: none for them this time.
            attempt = self._attempt(tau, np.where(accepted, dt, 0.0))
            # Where the field itself is nan even a step of 0 leads to nan, and the state is not to blame.
            self.h, self.start = torch.where(took, attempt.h, self.h), attempt.end
            return
        self._take(attempt, took)

    def _take(self, attempt: Attempt, took: Tensor) -> None:
        self.h = torch.where(took, attempt.h, self.h)
        self.start = None if attempt.end is None or self.start is None else torch.where(took, attempt.end, self.start)

    def _leave_behind(self, sample: int, failure: Failure) -> None:
        """Leave a sample behind where it is."""
        assert self.state.failed is not None
        self.failures[sample] = self.state.segment, failure
        self.state.failed[sample], self.state.tau[sample] = True, self.length[sample]

    def _leave_out(self, live: np.ndarray) -> None:
        """Go on with the samples still on their way, if the others are many."""
        gone = int((~live).sum())
        worth = 2 * gone >= len(live) and gone * self.h.shape[-1] >= WORTH_LEAVING_OUT
        # What failed may be nan, and is not to be evaluated again.
        must = self.state.failed is not None and bool(self._mine(self.state.failed).any())
        if self.shared or self.control.whole or self.on_step is not None or not (worth or must):
            return
        here = torch.from_numpy(np.flatnonzero(live)).to(self.h.device)
        if self.rows is not None:
            self._put_back()
        self.all = self.h
        self.rows = np.flatnonzero(live) if self.rows is None else self.rows[live]
        chosen = torch.from_numpy(self.rows).to(self.h.device)
        self.h = self.all.index_select(0, chosen)
        self.start = None if self.start is None else self.start.index_select(0, here)
        self.slope = self.whole.of(chosen)

    def _put_back(self) -> None:
        assert self.rows is not None
        self.h = self.all.index_copy(0, torch.from_numpy(self.rows).to(self.h.device), self.h)

    def _mine(self, values: np.ndarray) -> np.ndarray:
        return values if self.rows is None else values[self.rows]

    def _set(self, values: np.ndarray, mine: np.ndarray) -> None:
        values[slice(None) if self.rows is None else self.rows] = mine

    def _set_place(self, place: StepPlace[np.ndarray]) -> None:
        for values, mine in zip((self.state.tau, self.step, self.held_back), place, strict=True):
            self._set(values, mine)

    def _count(self, live: np.ndarray, accepted: np.ndarray, error: np.ndarray, tau: np.ndarray, dt: np.ndarray) -> None:
        where = slice(None) if self.rows is None else self.rows
        self.tried[where] += live
        self.counts.accepted[where] += accepted
        self.counts.rejected[where] += live & ~accepted
        if self.on_attempt is not None:
            self.on_attempt(self.whole.when(float(tau[0]), 0), self.h, float(dt[0]), bool(accepted[0]))
        if accepted.any():
            row = int(np.where(accepted, dt, np.inf).argmin())
            if self.counts.smallest is None or dt[row] < self.counts.smallest:
                self.counts.smaller(float(dt[row]), self.whole.when(float(tau[row]), self._sample(row)))
        forced = accepted & (error > 1)
        if forced.any():
            row = int(forced.argmax())
            at = self.whole.when(float(tau[row]), self._sample(row))
            self.counts.force(int(forced.sum()), at, float(error[row]))

    def _sample(self, row: int) -> int:
        return row if self.rows is None else int(self.rows[row])

    def _check_progress(self, live: np.ndarray, tau: np.ndarray, step: np.ndarray) -> None:
        for tried, most, where in (
            (self.tried, self.control.max_num_steps, ""),
            (self.counts.attempted, self.most, " on the whole way"),
        ):
            mine = self._mine(tried)
            if (live & (mine >= most)).any():
                row = int(np.where(live, mine, -1).argmax())
                raise self._failure(row, float(tau[row]), float(step[row]), f"{mine[row]} steps{where} were not enough")
        if (live & (self._mine(self.tried) == LOOKED_AT)).any():
            self._look_at_field(int((live & (self._mine(self.tried) == LOOKED_AT)).argmax()), tau, step)
        # A short step is no failure by itself: it may have been carried here from a shorter segment, and will grow.
        stuck = self._is_stuck(tau, step, self._mine(self.held_back))
        if (live & stuck).any():
            row = int((live & stuck).argmax())
            raise self._failure(row, float(tau[row]), float(step[row]), None)

    def _is_stuck(self, tau: np.ndarray, step: np.ndarray, held_back: np.ndarray) -> np.ndarray:
        return ~(tau + step > tau) | (held_back & (step < self.control.shortest * self._mine(self.length)))

    def _look_at_field(self, row: int, tau: np.ndarray, step: np.ndarray) -> None:
        """Stop if the field is random, warn if it jumps."""
        at = torch.tensor(tau[row], dtype=checks.time_dtype(self.h.device), device=self.h.device)
        if has_two_answers(lambda: self.slope(at, self.h.detach()), self.h.device):
            raise self._failure(row, float(tau[row]), float(step[row]), None)
        sample = self._sample(row)
        if hint := jump_hint(self.slope, at, self.h.detach(), row, float(step[row])):
            where = f"t = {self.whole.when(float(tau[row]), sample):g}, sample {sample}"
            warn_user(f"{LOOKED_AT} steps, and the solve is at {where}. {hint}", SolverWarning)

    def _say_if_stiff(self) -> None:
        """Warn, in a solve that takes long, if its steps are many and stability is what keeps them short."""
        steps, tau = self._mine(self.counts.attempted), self._mine(self.state.tau)
        row = int(np.where(tau < self._mine(self.length), steps, -1).argmax())
        if steps[row] <= STIFF_STEPS * (self.state.segment + 1):
            return
        at = torch.tensor(tau[row], dtype=checks.time_dtype(self.h.device), device=self.h.device)
        typical = float(tau[row] / self._mine(self.tried)[row] if tau[row] > 0 else self._mine(self.step)[row])
        if hint := stiff_hint(self.control.stiffness_shortens, self.slope, at, self.h.detach(), row, typical):
            self.engine.warned, sample = True, self._sample(row)
            where = f"t = {self.whole.when(float(tau[row]), sample):g}, sample {sample}"
            warn_user(f"The solve has taken {steps[row]} steps, and is at {where}. {hint}", SolverWarning)

    def _failure(self, row: int, tau: float, step: float, too_many: str | None) -> Failure:
        sample = None if self.shared else row
        # A step that was taken says nothing of what is wrong; and the one that is kept may be of another sample.
        last = self.last if self._mine(self.held_back)[row] else None
        return diagnosis(self.control, self.slope, self.h, last, sample, tau, step, too_many)
