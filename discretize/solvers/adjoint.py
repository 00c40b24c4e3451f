r"""The adjoint equation, solved backwards over the steps of a solve, gives gradients without the graph of the steps.

    da/dt = -(df/dh)^T a        dL/dtheta = integral of (df/dtheta)^T a dt        a jumps by dL/dh_i at requested time i

Kept are the states at the ends of segments. Backwards each segment is solved forwards again, and a is carried back over one
of its steps at a time, together with h, which starts each time from the state that was there: run back freely, what forgets
would explode. The gradient is that of the exact solution, to the tolerance of the solve; the gradient of the steps that were
computed is what `integrate` gives by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.combinations import Trait
from discretize.errors import Failure, SolverError
from discretize.solvers.adaptive import AdaptiveEngine, StepRecord
from discretize.solvers.detached import ParameterSnapshot, check_same_states, detached_chain, refuse_captured
from discretize.solvers.engine import SolverState, SolverStats, column
from discretize.solvers.segments import Chain, RightHandSide, Segment, SlopeFunction
from discretize.solvers.tableaus import Attempt, EmbeddedMethod, EmbeddedRungeKutta
from discretize.trajectory import Trajectory

__all__ = ["SETTING", "Adjoint", "AdjointBackward", "EdgeLog", "checked_segments"]

SETTING = "gradient=Adjoint"
CHECKED = 8  # segments on which the backward pass looks whether the field is still that of the solve


@dataclass(frozen=True)
class Adjoint:
    r"""The gradient of the exact solution, to the tolerance: the adjoint equation solved backwards, no steps kept.

    For explicit adaptive methods; no second derivatives, and no gradients to times.

    Source:  Chen et al. 2018, Neural ordinary differential equations, app. B.
    """

    trait: ClassVar[Trait] = "adjoint"


@dataclass
class EdgeLog:
    """Records a solve at each edge: the states, the steps proposed next, and how many each sample had accepted."""

    hs: list[Tensor] = field(default_factory=list)
    steps: list[np.ndarray | None] = field(default_factory=list)
    accepted: list[np.ndarray] = field(default_factory=list)

    def add(self, h: Tensor, state: SolverState, counts: SolverStats) -> None:
        self.hs.append(h.detach())
        self.steps.append(state.copy().step)
        self.accepted.append(counts.accepted.copy())


def checked_segments(count: int) -> set[int]:
    """Return the numbers of the segments on which the backward pass looks whether the field is still that of the solve."""
    return set(np.linspace(0, count - 1, CHECKED).astype(int).tolist())


class AdjointBackward:
    r"""Computes the backward pass of a finished solve.

    Args:    engine, chain: of the solve; log: of all edges; stats: where evaluations are counted.
    Raises:  ValueError for tensors that require a gradient and would not get one.
    Source:  Chen et al. 2018, Neural ordinary differential equations, app. B; the restart of h is this project's.
    """

    engine: AdaptiveEngine
    chain: Chain
    log: EdgeLog
    stats: dict[str, Any]
    field: ParameterSnapshot
    weights: tuple[float, ...]

    def __init__(self, engine: AdaptiveEngine, chain: Chain, log: EdgeLog, stats: dict[str, Any]) -> None:
        self.engine, self.chain, self.log, self.stats = engine, chain, log, stats
        self.field, self.weights = ParameterSnapshot(chain.field), _weights(engine.control.method)
        self.parameters: list[Tensor] = self.field.learned
        self.checked: set[int] = checked_segments(len(chain))

    def attach(self, hs: Tensor, h0: Tensor) -> Tensor:
        """Return the states at the requested times, with the adjoint as their gradient: (n, batch, state)."""
        refuse_captured(self.chain, self.parameters, h0, SETTING)
        path = self.chain.path
        read = [tensor for j in range(len(self.chain)) for tensor in path.learned(j)]
        return self.field.with_gradients(SETTING, self.gradients, [hs], [h0, *self.parameters, *read])[0]

    def gradients(self, by_hs: Sequence[Tensor], *_: Sequence[Tensor]) -> list[Tensor]:
        """Return dL by h0, by every parameter and by every tensor of the path, from dL/dh at the requested times."""
        jumps = self._at_edges(by_hs[0])
        by_parameter = [torch.zeros_like(p) for p in self.parameters]
        by_sample: list[list[Tensor]] = []
        a = jumps[-1].clone()
        for j in range(len(self.chain) - 1, -1, -1):
            a, mine = self._over_segment(j, a, by_parameter)
            a = a + jumps[j]
            by_sample.append(mine)
        return [a, *by_parameter, *(tensor for mine in reversed(by_sample) for tensor in mine)]

    def _at_edges(self, by_hs: Tensor) -> Tensor:
        """Sum dL/dh at the requested times by their edges."""
        jumps = by_hs.new_zeros(len(self.log.hs), *by_hs.shape[1:])
        places = self.chain.places.to(by_hs.device)
        if places.dim() == 1:
            return jumps.index_add(0, places, by_hs)
        samples = torch.arange(by_hs.shape[1], device=by_hs.device)
        return jumps.index_put((places, samples.expand_as(places)), by_hs, accumulate=True)

    def _over_segment(self, j: int, a: Tensor, by_parameter: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Carry a from the end of segment j to its start, and return dL by what the path reads there."""
        chain, path = detached_chain(self.chain)
        records = self._steps_of(j)
        chain.segment(j).read(torch.zeros((), dtype=torch.float64, device="cpu"))
        leaves = path.leaves[j]
        targets = [*self.parameters, *(leaf for leaf in leaves if leaf.requires_grad)]
        totals = [torch.zeros_like(target) for target in targets]
        # The equation is linear in a: of size 1, its errors are measured as those of h are.
        size = a.abs().amax(-1, keepdim=True)
        size = torch.where(size > 0, size, 1.0)
        a = a / size
        step: np.ndarray | None = None
        for record in reversed(records):
            backwards = ReversedStep(chain.segment(j), record, size, targets, totals, self.weights)
            a, step = self._over_step(backwards, record, a, step)
        for i, mine in enumerate(totals[: len(by_parameter)]):
            by_parameter[i] += mine
        rest = iter(totals[len(self.parameters) :])
        return a * size, [next(rest) if leaf.requires_grad else torch.zeros_like(leaf) for leaf in leaves]

    @torch.no_grad()
    def _steps_of(self, j: int) -> list[StepRecord]:
        """Solve segment j again for its steps, where there were several or to check the field."""
        log, length = self.log, self.chain.lengths[j]
        accepted = log.accepted[j + 1] - log.accepted[j]
        if j not in self.checked and np.array_equal(accepted, np.broadcast_to(length > 0, accepted.shape)):
            whole = np.broadcast_to(length, accepted.shape).copy()
            return [StepRecord(whole, whole, log.hs[j + 1])]
        step = log.steps[j]
        state = SolverState(j, np.zeros(len(accepted)), None if step is None else step.copy())
        records: list[StepRecord] = []
        engine = AdaptiveEngine(self.engine.control, records.append)
        check_same_states(self._run(engine, self.chain.segment(j), state, log.hs[j]), log.hs[j + 1], SETTING)
        return records

    def _over_step(
        self, backwards: ReversedStep, record: StepRecord, a: Tensor, step: np.ndarray | None
    ) -> tuple[Tensor, np.ndarray]:
        """Carry a back over a step; return it with the steps proposed to go on with."""
        control = self.engine.control
        atol = torch.cat([control.atol, control.atol]) if isinstance(control.atol, Tensor) else control.atol
        assert isinstance(control.method, EmbeddedRungeKutta)
        control = replace(control, method=_FreshFirstStage(control.method), atol=atol, given_first_step=None)
        first = np.where(record.dt > 0, record.dt, 1.0)
        state = SolverState(0, np.zeros(len(record.dt)), first if step is None else np.maximum(step, 1e-3 * first))
        try:
            engine = AdaptiveEngine(control, backwards.add_share)
            engine.on_attempt = self.engine.on_backward_attempt
            y = self._run(engine, backwards, state, torch.cat([record.h, a], -1))
        except Failure as failure:
            advice = "That was in the backward pass: `gradient=Checkpointed(bytes)` has another, in bounded memory."
            solved = Trajectory(self.chain.edges.detach(), torch.stack(self.log.hs))
            raise SolverError(replace(failure, hint=f"{failure.hint} {advice}"), solved) from None
        assert state.step is not None
        return y[..., a.shape[-1] :], state.step

    def _run(self, engine: AdaptiveEngine, segment: RightHandSide, state: SolverState, h: Tensor) -> Tensor:
        """Solve a segment, counted as work of the backward pass."""
        engine.counts = SolverStats(len(state.tau))
        with torch.no_grad():
            try:
                return engine.segment(segment, state, h)[0]
            finally:
                self.stats["nfe_backward"] += engine.counts.evaluations


class ReversedStep(RightHandSide):
    """Runs a step of each sample backwards, as a segment: sigma is the time until it ended, the state is [h, a]."""

    forwards: Segment
    size: Tensor
    targets: list[Tensor]
    totals: list[Tensor]
    weights: tuple[float, ...]
    ends: np.ndarray
    lengths: np.ndarray
    steady: bool

    def __init__(
        self,
        segment: Segment,
        record: StepRecord,
        size: Tensor,
        targets: list[Tensor],
        totals: list[Tensor],
        weights: tuple[float, ...],
    ) -> None:
        self.forwards, self.size, self.targets, self.totals, self.weights = segment, size, targets, totals, weights
        self.ends, self.lengths, self.steady = record.end, record.dt, segment.steady
        self.end: Tensor = checks.time_on(column(record.end), segment.times_on(size.device))
        self.stages: list[tuple[Tensor, Tensor]] = []  # of the step under way: dh/dt with its graph, and a

    def times_on(self, device: torch.device) -> torch.device:
        return self.forwards.times_on(device)

    def length(self, device: torch.device) -> Tensor:
        return checks.time_on(column(self.lengths), device)

    def of(self, rows: Tensor) -> ReversedStep:
        return self

    def when(self, sigma: float, sample: int | None) -> float:
        return self.forwards.when(float(self.ends[(sample or 0) % len(self.ends)]) - sigma, sample)

    def read(self, sigma: Tensor) -> Tensor:
        return self.forwards.read(self.end - sigma)

    def __call__(self, sigma: Tensor, y: Tensor) -> Tensor:
        h, a = y.detach().chunk(2, -1)
        tau = self.end - sigma
        with torch.enable_grad():
            h = h.requires_grad_()
            slope = self.forwards(tau, h)
            if slope.requires_grad:
                (pull,) = torch.autograd.grad(slope, h, a, retain_graph=True, materialize_grads=True)
            else:  # of a function of time alone
                pull = torch.zeros_like(a)
        self.stages.append((slope, a))
        return torch.cat([-slope.detach(), pull], -1)

    def add_share(self, record: StepRecord) -> None:
        """Add a step's share of the integrals: its first stage serves all tries, the others are the last ones computed."""
        dt = column(record.dt, self.size)
        stages = [self.stages[0], *self.stages[1 - len(self.weights) :]]
        share = [
            (slope, weight * dt * self.size * a)
            for weight, (slope, a) in zip(self.weights, stages, strict=True)
            if weight and slope.requires_grad
        ]
        if share and self.targets:
            slopes, pulled_by = zip(*share, strict=True)
            gradients = torch.autograd.grad(slopes, self.targets, pulled_by, allow_unused=True)
            for i, mine in enumerate(gradients):
                if mine is not None:
                    self.totals[i] += mine
        self.stages.clear()


class _FreshFirstStage(EmbeddedMethod):
    """Computes the first slope of every step of a pair anew, so that all stages of a step are its own."""

    order = evaluations = 0  # those of the pair

    def __init__(self, pair: EmbeddedRungeKutta) -> None:
        self.pair = pair

    @property
    def error_order(self) -> int:
        return self.pair.error_order

    def attempt_cost(self, slope: SlopeFunction, state: int) -> int:
        return self.pair.attempt_cost(slope, state)

    def attempt(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        return self.pair.attempt(slope, tau, dt, h, start)._replace(end=None)


def _weights(method: EmbeddedMethod) -> tuple[float, ...]:
    """Return b, one weight for each stage."""
    assert isinstance(method, EmbeddedRungeKutta)
    return (*method.weights, 0.0) if method.last_is_next else method.weights
