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
from discretize.errors import StepError
from discretize.methods import checked_method
from discretize.noise.brownian import DEPTH, BrownianPath
from discretize.solvers.control import Round, StepControl, StepPlace
from discretize.solvers.engine import column
from discretize.solvers.fixed import as_array
from discretize.solvers.segments import RightHandSide, Segment, SlopeFunction
from discretize.solvers.stochastic import driven_by
from discretize.solvers.tableaus import Attempt, EmbeddedMethod
from discretize.steps.runge_kutta import ExplicitRungeKutta
from discretize.steps.step import Step
from discretize.steps.stochastic import StochasticStep, noise_traits

__all__ = ["FINEST", "DyadicControl", "PathDoubling", "StepDoubling"]

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

    def attempt_cost(self, slope: SlopeFunction, state: int) -> int:
        return super().attempt_cost(slope, state) * 3 // 2

    def check_noise(self, field: VectorField) -> None:
        """Refuse noise under a step without and the other way round, and noise that steps of this kind would choose from."""
        self.step.check_noise(field)
        if isinstance(self.step, StochasticStep) and self.step.strong_order < 1:
            check_pairs({**noise_traits(field), "rough steps": repr(self)})

    def attempt(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
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

    def _stepped(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        length = dt.to(device=h.device, dtype=h.dtype, non_blocking=True)
        length = length.reshape(()) if length.shape[0] == 1 else length
        if isinstance(self.step, ExplicitRungeKutta):
            return self.step.along(lambda share, u: slope(tau + share * dt, u), h, length)
        assert isinstance(slope, Segment), "others than explicit Runge-Kutta steps read the field beside its slope"
        t = slope.time(tau)
        length = length if slope.chain.speed is None else length * slope.speed_at(t, h)
        return self.step.advance(slope.chain.field, slope.input_at(t), h, length)

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return self.step.advance(field, projected, self.step.advance(field, projected, h, dt / 2), dt / 2)


class PathDoubling(EmbeddedMethod):
    r"""A step for noise by two halves, compared with the whole step; all read one Brownian path at the nodes of its tree.

    Args:    step: the map; path: the Brownian motions.
    """

    reads_start = interpolated = False

    def __init__(self, step: StochasticStep, path: BrownianPath) -> None:
        self.step, self.path = step, path.remembering()
        self.order, self.evaluations = step.order, 2 * step.evaluations  # type: ignore[misc]

    def attempt_cost(self, slope: SlopeFunction, state: int) -> int:
        assert isinstance(slope, Segment)
        return 3 * self.step.cost(slope.chain.field)

    def attempt(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        assert isinstance(slope, Segment)
        length = np.broadcast_to(slope.lengths, len(tau))
        begin, end = (_nodes(as_array(each.cpu())[:, 0], length) for each in (tau, tau + dt))
        share = np.stack([begin, (begin + end) / 2, end]) / (1 << FINEST)
        edges = slope.chain.edges.detach()[slope.number] + torch.from_numpy(share * length)
        w, z = (each.to(h) for each in self.path.increments(edges[:, 0] if len(length) == 1 else edges))
        half = column(length * (share[1] - share[0]), h)
        t, middle = (slope.time(checks.time_on(column(length * each), tau.device)) for each in share[:2])
        with torch.no_grad():
            one = driven_by(self.step, slope, t, h, 2 * half, w[0] + w[1], z[0] + z[1] + half * w[0])
        two = driven_by(self.step, slope, t, h, half, w[0], z[0])
        two = driven_by(self.step, slope, middle, two, half, w[1], z[1])
        return Attempt(two, two.detach() - one)


class DyadicControl(StepControl):
    """Controls steps that are dyadic parts of their segment: one that is rejected is cut, two that are passed may be joined."""

    margin = 1.0
    whole = True
    shortest = 0.5**FINEST
    advice = (
        "Loosen the tolerances, raise `max_num_steps` (for each segment), give a `min_step`, below which steps are accepted "
        "with a warning, or put knots at jumps of the input."
    )
    stiffness_shortens = False  # no method for stiff fields takes noise

    @property
    def rate(self) -> float:
        """The power of dt that q grows with."""
        assert isinstance(self.method, PathDoubling)
        return max(1.0, self.method.step.strong_order)

    def guessed_step(self, slope: RightHandSide, h: Tensor, length: np.ndarray) -> tuple[np.ndarray, int]:
        return 0.5**FIRST * length, 0

    def next_step(  # type: ignore[override]
        self, place: StepPlace[np.ndarray], length: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        begin = _nodes(place.tau, length)
        level = np.maximum(_levels(length, np.minimum(place.step, self.max_step)), FINEST - _trailing_zeros(begin))
        end = begin + (1 << (FINEST - level))
        return length * ((end - begin) / (1 << FINEST)), np.where(end == 1 << FINEST, length, length * (end / (1 << FINEST)))

    def error(self, attempt: Attempt, h: Tensor, round: Round[np.ndarray]) -> np.ndarray:
        """Return q: errors of random signs add up as roots do."""
        share = np.where(round.dt > 0, round.dt / np.where(round.length > 0, round.length, 1), 1)
        return super().error(attempt, h, round) / np.sqrt(share)

    def following(  # type: ignore[override]
        self, error: np.ndarray, round: Round[np.ndarray], accepted: np.ndarray
    ) -> np.ndarray:
        dt, finest = round.dt, round.length * 0.5**FINEST
        with np.errstate(all="ignore"):
            cut = np.clip(np.ceil(np.log2(np.where(np.isfinite(error), error, np.inf)) / self.rate), 1, MOST_CUT)
        may_grow = (error <= GROWS * 0.5**self.rate) & ~round.place.held_back
        # A step that its place cut short says little of the one proposed before.
        grown = np.where(may_grow, np.maximum(2 * dt, round.place.step), dt)
        # Where the finest part is rejected there is none to try, and a length below it says so.
        shorter = np.where(dt > finest, np.maximum(dt * 0.5**cut, finest), np.nextafter(finest, 0))
        return np.where(accepted, grown, shorter)


def _nodes(tau: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return how many of a segment's finest parts were passed: (rows,)."""
    return np.rint(tau / np.where(length > 0, length, 1) * (1 << FINEST)).astype(np.int64)


def _levels(length: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return how often segments must be halved to parts no longer than the step."""
    with np.errstate(all="ignore"):
        # Segments are differences of times: 0.30000000000000004 is no longer than 0.3.
        levels = np.ceil(np.log2(length / step * (1 - 1e-12)))
    return np.clip(np.where(np.isfinite(levels), levels, 0), 0, FINEST).astype(np.int64)


def _trailing_zeros(place: np.ndarray) -> np.ndarray:
    """Return the level of the longest part that begins at a place, counted from the finest."""
    lowest = np.where(place > 0, place & -place, 1 << FINEST)
    return np.log2(lowest).astype(np.int64)
