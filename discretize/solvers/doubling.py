r"""Steps that are compared with their two halves; with noise along one Brownian path for each sample.

    without noise     error = |two - one| / (2^order - 1), an embedded method as any other
    with noise        q = max_i |two_i - one_i| / ((atol + rtol max(|h_i|, |two_i|)) sqrt(dt / length of the segment))
                      accepted where q <= 1

With noise errors of single steps have random signs and add up as roots do: over a segment they come to about a tolerance. A step
is one of the dyadic parts of its segment. One that is rejected is cut in two, and where both are passed they may be joined again:
so no part of the path that was looked at is stepped over, and the path is read at the nodes of its tree.

Who chooses steps by the noise in them chooses noise: where Euler and Maruyama's step errs little w^2 is below dt in the mean, and
the limit is that of another equation. Steps of strong order 1 take w^2 into account, or noise does not depend on h.

Source:  Gaines and Lyons 1997, "Variable step size control in the numerical solution of stochastic differential equations".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.combinations import check_pairs
from discretize.errors import Failure, StepError
from discretize.methods import checked_method
from discretize.noise.brownian import DEPTH, BrownianPath
from discretize.solvers.control import most_steps
from discretize.solvers.engine import Engine, SolverState, column
from discretize.solvers.segments import Chain, RightHandSide, Segment, Slope
from discretize.solvers.stochastic import driven_by
from discretize.solvers.tableaus import Attempt, EmbeddedMethod
from discretize.steps.runge_kutta import ExplicitRungeKutta
from discretize.steps.step import Step
from discretize.steps.stochastic import StochasticStep, noise_traits

__all__ = ["DoublingEngine", "StepDoubling"]

FINEST = DEPTH - 1  # halvings of a segment to a step, whose halves are the path's finest cells
FIRST = 6  # halvings of a segment to the first step, where none is given: of a long one the error may be small by chance
MOST_CUT = 3  # halvings after one step
GROWS = 0.3  # below this share of the error that a step twice as long may have


@dataclass(frozen=True)
class StepDoubling(EmbeddedMethod):
    r"""A method that makes any step choose its length: a step is compared with two halves, whose states go on.

    Every sample takes steps of its own, where its input can be read at its own times. Without noise the error of the halves is
    estimated as |two - one| / (2^order - 1), all else is as for an embedded pair: events, states between, gradients but by
    `Adjoint()`. Where the input moves within a step, explicit Runge-Kutta steps read it at their stages; others hold it over each
    half, and are of order 1 there. With noise the path is the same at any tolerance: as they fall, states come to its solution.

    Args:    step: any step map, by name or object; for a field with noise a `StochasticStep`, of strong order 1 or more where
             its noise depends on the state.
    Raises:  TypeError, ValueError for what is no step.
    Source:  Hairer, Norsett and Wanner, Solving ODEs I, sec. II.4; with noise see the first lines of this file.
    """

    step: Step
    reads_start: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", checked_method(self.step, "step"))
        if not self.step.order:
            raise TypeError(f"`step` must have an order, by which errors of halves are told, and {self.step!r} has none.")

    @property
    def order(self) -> int:  # type: ignore[override]
        return self.step.order

    @property
    def error_order(self) -> int:
        return self.step.order + 1

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        return 2 * self.step.evaluations

    @property
    def tangents(self) -> int:  # type: ignore[override]
        return 2 * self.step.tangents

    @property
    def jacobians(self) -> int:  # type: ignore[override]
        return 2 * self.step.jacobians

    def attempt_cost(self, slope: Slope, state: int) -> int:
        return super().attempt_cost(slope, state) * 3 // 2

    def check_noise(self, field: VectorField) -> None:
        """Refuse noise under a step without and the other way round, and noise that steps of this kind would choose from."""
        self.step.check_noise(field)
        if isinstance(self.step, StochasticStep) and self.step.strong_order < 1:
            check_pairs({**noise_traits(field), "rough steps": repr(self)})

    def attempt(self, slope: Slope, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        lost: Tensor | None = None  # samples whose step has no solution
        while True:
            try:
                one, half = self._stepped(slope, tau, dt, h), self._stepped(slope, tau, dt / 2, h)
                two = self._stepped(slope, tau + dt / 2, dt / 2, half)
                break
            except StepError as failure:  # a shorter step may have a solution; others go on without that sample
                row = failure.sample if len(dt) > 1 else 0
                lost = torch.zeros_like(dt, dtype=torch.bool) if lost is None else lost
                if bool(lost[row]):  # not even a step of length 0: the field is not finite there
                    return Attempt(h, torch.full_like(h, math.inf))
                lost = lost.index_fill(0, torch.tensor(row, device=dt.device), True)
                dt = torch.where(lost, 0.0, dt)
        order = self.order if slope.steady or isinstance(self.step, ExplicitRungeKutta) else 1
        error = (two - one) / (2**order - 1)
        return Attempt(two, error if lost is None else torch.where(lost.to(h.device), math.inf, error))

    def _stepped(self, slope: Slope, tau: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        assert isinstance(slope, Segment)
        length = dt.to(device=h.device, dtype=h.dtype, non_blocking=True)
        length = length.reshape(()) if len(length) == 1 else length
        if isinstance(self.step, ExplicitRungeKutta):
            return self.step.along(lambda share, u: slope(tau + share * dt, u), h, length)
        t = slope.time(tau)
        length = length if slope.chain.speed is None else length * slope.speed_at(t, h)
        return self.step.advance(slope.chain.field, slope.input_at(t), h, length)

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return self.step.advance(field, projected, self.step.advance(field, projected, h, dt / 2), dt / 2)


class DoublingEngine(Engine):
    r"""Carries states through the segments of a chain by steps that are compared with their halves.

    Args:    step: the map; path: the Brownian motions; rtol, atol: tolerances; the rest as for `StepControl`.
    Raises:  Failure where no step is short enough, or there are too many.
    """

    map: StochasticStep
    path: BrownianPath
    rtol: float
    atol: float | Tensor
    max_num_steps: int
    min_step: float
    max_step: float

    def __init__(
        self,
        step: StochasticStep,
        path: BrownianPath,
        rtol: float,
        atol: float | Tensor,
        max_num_steps: int,
        min_step: float,
        max_step: float,
        first_step: float | None,
    ) -> None:
        super().__init__()
        self.map, self.path, self.rtol, self.atol = step, path.remembering(), rtol, atol
        self.max_num_steps, self.min_step, self.max_step = max_num_steps, min_step, max_step
        self.first_step = first_step
        self.rate: float = max(1.0, step.strong_order)  # q grows as dt to this power
        self.most: float = math.inf

    def start(self, chain: Chain, batch: int) -> SolverState:
        self.most = most_steps(self.max_num_steps, len(chain))
        return super().start(chain, batch)

    def rows(self, chain: Chain, batch: int) -> int:
        return batch if chain.own or chain.own_times else 1

    def segment(self, segment: RightHandSide, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        assert isinstance(segment, Segment)
        length, tries = np.broadcast_to(segment.lengths, state.tau.shape), 0
        if state.step is None:
            first = 0.5**FIRST * np.where(length > 0, length, length.max())
            state.step = first if self.first_step is None else np.full(len(length), self.first_step)
        if state.held_back is None or state.tried is None:
            state.held_back, state.tried = np.zeros(len(state.tau), dtype=bool), np.zeros(len(state.tau), dtype=np.int64)
        while tries < limit and (state.tau < length).any():
            h, tries = self._round(segment, state, h, length), tries + 1
        return h, tries

    def _round(self, segment: Segment, state: SolverState, h: Tensor, length: np.ndarray) -> Tensor:
        """Try a step of each sample."""
        assert state.step is not None
        assert state.held_back is not None
        live, begin = state.tau < length, _places(state.tau, length)
        level = np.maximum(_levels(length, np.minimum(state.step, self.max_step)), FINEST - _trailing_zeros(begin))
        end = np.where(live, begin + (1 << (FINEST - level)), begin)
        dt = length * ((end - begin) / (1 << FINEST))
        self._check(segment, state, h, live)
        two, one = self._attempt(segment, begin, end, h)
        error = self._error(one, two, h, dt, length)
        accepted = live & ((error <= 1) | (np.isfinite(error) & (dt <= self.min_step)))
        stuck = live & ~accepted & (level == FINEST)
        if stuck.any():
            row = int(stuck.argmax())
            raise self._failure(segment, state, two, row, f"no step down to {dt[row]:.3g} meets {self._tolerances()}")
        self._count(segment, state, live, accepted, error, dt)
        with np.errstate(all="ignore"):
            cut = np.clip(np.ceil(np.log2(np.where(np.isfinite(error), error, np.inf)) / self.rate), 1, MOST_CUT)
        may_grow = (error <= GROWS * 0.5**self.rate) & ~state.held_back
        # A step that its place cut short says little of the one proposed before.
        following = np.where(may_grow, np.maximum(2 * dt, state.step), dt)
        state.step = np.where(live, np.where(accepted, following, dt * 0.5**cut), state.step)
        state.held_back = np.where(live, ~accepted, state.held_back)
        state.tau = np.where(accepted, np.where(end == 1 << FINEST, length, length * (end / (1 << FINEST))), state.tau)
        return self._taken(segment, begin, end, h, two, live, accepted)

    def _attempt(self, segment: Segment, begin: np.ndarray, end: np.ndarray, h: Tensor) -> tuple[Tensor, Tensor]:
        """Step from one place of a segment to another one by two halves, and by one step; places (rows,), in its finest parts."""
        device = segment.times_on(h.device)
        length = np.broadcast_to(segment.lengths, begin.shape)
        share = np.stack([begin, (begin + end) / 2, end]) / (1 << FINEST)
        edges = segment.chain.edges.detach()[segment.number] + torch.from_numpy(share * length)
        w, z = self.path.increments(edges[:, 0] if len(begin) == 1 else edges)
        w, z = w.to(h), z.to(h)
        half = column(length * (share[1] - share[0]), h)
        t, middle = (segment.time(checks.time_on(column(length * each), device)) for each in share[:2])
        with torch.no_grad():
            one = driven_by(self.map, segment, t, h, 2 * half, w[0] + w[1], z[0] + z[1] + half * w[0])
        two = driven_by(self.map, segment, t, h, half, w[0], z[0])
        two = driven_by(self.map, segment, middle, two, half, w[1], z[1])
        self.counts.call(3 * self.map.cost(segment.chain.field), len(h))
        return two, one

    def _taken(
        self,
        segment: Segment,
        begin: np.ndarray,
        end: np.ndarray,
        h: Tensor,
        two: Tensor,
        live: np.ndarray,
        accepted: np.ndarray,
    ) -> Tensor:
        """The states after a round."""
        if not accepted.any():
            return h
        if (accepted == live).all():
            return two
        if not bool(torch.isfinite(two.detach()).all()):
            # Steps that led to nan would leave nan in the gradients of their neighbours: none for them this time.
            two, _ = self._attempt(segment, begin, np.where(accepted, end, begin), h)
        return torch.where(column(accepted, h, torch.bool), two, h)

    @torch.no_grad()
    def _error(self, one: Tensor, two: Tensor, h: Tensor, dt: np.ndarray, length: np.ndarray) -> np.ndarray:
        """Return q of each row, infinity where a state is not finite."""
        scale = self.atol + self.rtol * torch.maximum(h.abs(), two.abs())
        sizes = ((two - one).abs() / scale + (two - two)).amax(-1).to(checks.time_dtype(h.device))
        sizes = torch.where(torch.isnan(sizes), math.inf, sizes)
        found = np.array((sizes if len(dt) > 1 else sizes.amax(0, keepdim=True)).tolist())
        return found / np.sqrt(np.where(dt > 0, dt / np.where(length > 0, length, 1), 1))

    def _count(
        self, segment: Segment, state: SolverState, live: np.ndarray, accepted: np.ndarray, error: np.ndarray, dt: np.ndarray
    ) -> None:
        assert state.tried is not None
        state.tried = state.tried + live
        self.counts.accepted += accepted
        self.counts.rejected += live & ~accepted
        if accepted.any():
            row = int(np.where(accepted, dt, np.inf).argmin())
            self.counts.smaller(float(dt[row]), segment.when(float(state.tau[row]), row))
        forced = accepted & (error > 1)
        if forced.any():
            row = int(forced.argmax())
            self.counts.force(int(forced.sum()), segment.when(float(state.tau[row]), row), float(error[row]))

    def _check(self, segment: Segment, state: SolverState, h: Tensor, live: np.ndarray) -> None:
        assert state.tried is not None
        for tried, most, where in (
            (state.tried, self.max_num_steps, ""),
            (self.counts.attempted, self.most, " on the whole way"),
        ):
            if (live & (tried >= most)).any():
                row = int(np.where(live, tried, -1).argmax())
                raise self._failure(segment, state, h, row, f"{tried[row]} steps{where} were not enough")

    def _failure(self, segment: Segment, state: SolverState, h: Tensor, row: int, cause: str) -> Failure:
        mine = h.detach() if len(state.tau) == 1 else h.detach()[row : row + 1]
        finite = torch.isfinite(mine)
        at = (mine.abs() if bool(finite.all()) else ~finite).reshape(-1).float().argmax()
        sample, unit = divmod(int(at), mine.shape[-1])
        if not bool(finite.all()):
            cause = f"the state became {float(mine[sample, unit])}; {cause}"
        return Failure(
            cause=cause,
            hint="Loosen the tolerances, raise `max_num_steps` (for each segment), give a `min_step`, below which steps are "
            "accepted with a warning, or put knots at jumps of the input.",
            time=segment.when(float(state.tau[row]), row),
            sample=sample if len(state.tau) == 1 else row,
            unit=unit,
        )

    def _tolerances(self) -> str:
        atol = float(self.atol.min()) if isinstance(self.atol, Tensor) else self.atol
        return f"rtol={self.rtol:g}, atol={atol:g}"


def _places(tau: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return how many of a segment's finest parts were passed: (rows,)."""
    return np.rint(tau / np.where(length > 0, length, 1) * (1 << FINEST)).astype(np.int64)


def _levels(length: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return how often segments must be halved to parts no longer than the step."""
    with np.errstate(all="ignore"):
        # Segments are differences of times: 0.30000000000000004 is no longer than 0.3.
        found = np.ceil(np.log2(length / step * (1 - 1e-12)))
    return np.clip(np.where(np.isfinite(found), found, 0), 0, FINEST).astype(np.int64)


def _trailing_zeros(place: np.ndarray) -> np.ndarray:
    """Return the level of the longest part that begins at a place, counted from the finest."""
    lowest = np.where(place > 0, place & -place, 1 << FINEST)
    return np.log2(lowest).astype(np.int64)
