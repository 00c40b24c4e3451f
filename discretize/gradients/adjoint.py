r"""Gradients by the adjoint equation: solved backwards in one sweep, without the graph of the steps.

    da/dt = -(df/dh)^T a        dL/dtheta = integral of (df/dtheta)^T a dt        a jumps by dL/dh_i at requested time i

Kept are the states at the ends of segments. On the way back each segment is solved forwards again, and a is carried back
over one of its steps at a time, together with h, which starts each time from the state that was there: run back freely,
what forgets would explode. The gradient is that of the exact solution, to the tolerance of the solve; the gradient of the
steps that were computed is what `integrate` gives without `adjoint`.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discretize.errors import Failure, SolverError
from discretize.gradients.detached import ParameterSnapshot, detached_chain, once_only, refuse_captured
from discretize.solvers.adaptive import AdaptiveEngine, SolverState, Taken
from discretize.solvers.embedded import Attempt, EmbeddedMethod, EmbeddedRungeKutta, Slope
from discretize.solvers.segments import Chain, Segment
from discretize.solvers.statistics import SolverStats
from discretize.trajectory import Trajectory

__all__ = ["AdjointBackward"]


class AdjointBackward:
    r"""The way back through a finished solve.

    Args:    engine, chain: of the solve; states: at all edges; steps: proposed at the start of each segment; taken: by each
             sample until then; stats: where evaluations are counted.
    Raises:  ValueError for tensors that require a gradient and would not get one.
    Source:  Chen et al. 2018, Neural ordinary differential equations, app. B; the restart of h is this project's.
    """

    def __init__(
        self,
        engine: AdaptiveEngine,
        chain: Chain,
        states: list[Tensor],
        steps: list[np.ndarray | None],
        taken: list[np.ndarray],
        stats: dict[str, Any],
    ) -> None:
        self.engine, self.chain, self.states, self.stats = engine, chain, states, stats
        self.steps, self.taken = steps, taken
        self.field, self.weights = ParameterSnapshot(chain.course.field), _weights(engine.method)
        self.parameters = self.field.learned

    def attach(self, hs: Tensor, h0: Tensor) -> Tensor:
        """The states at the requested times, with this sweep as their gradient: (n, batch, state)."""
        refuse_captured(self.chain, self.parameters, h0, "adjoint=True")
        path = self.chain.course.path
        read = [tensor for j in range(len(self.chain)) for tensor in path.tensors(j)]
        return _Adjoint.apply(self, hs, h0, *self.parameters, *read)

    def back(self, jumps: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """From dL/dh at all edges: dL/dh0, and dL by every parameter and every tensor of the path."""
        by_parameter = [torch.zeros_like(p) for p in self.parameters]
        by_sample: list[list[Tensor]] = []
        a = jumps[-1].clone()
        for j in range(len(self.chain) - 1, -1, -1):
            a, mine = self._segment_back(j, a, by_parameter)
            a = a + jumps[j]
            by_sample.append(mine)
        return a, by_parameter, [tensor for mine in reversed(by_sample) for tensor in mine]

    def _segment_back(self, j: int, a: Tensor, by_parameter: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        chain, path = detached_chain(self.chain)
        taken = self._again(j)
        chain.segment(j).read(torch.zeros((), dtype=torch.float64))
        leaves = path.leaves[j]
        targets = [*self.parameters, *(leaf for leaf in leaves if leaf.requires_grad)]
        totals = [torch.zeros_like(target) for target in targets]
        # The equation is linear in a: of size 1, its errors are measured as those of h are.
        size = a.abs().amax(-1, keepdim=True)
        size = torch.where(size > 0, size, 1.0)
        a = a / size
        step: np.ndarray | None = None
        for i in range(len(taken) - 1, -1, -1):
            reversed_round = ReversedStep(chain.segment(j), taken[i], size, targets, totals, self.weights)
            a, step = self._round_back(reversed_round, taken[i], a, step)
        for i, mine in enumerate(totals[: len(by_parameter)]):
            by_parameter[i] += mine
        rest = iter(totals[len(self.parameters) :])
        return a * size, [next(rest) if leaf.requires_grad else torch.zeros_like(leaf) for leaf in leaves]

    @torch.no_grad()
    def _again(self, j: int) -> list[Taken]:
        """The steps of segment j, solved again from the state at its start where there were several."""
        length = self.chain.lengths[j]
        if np.array_equal(self.taken[j + 1] - self.taken[j], np.broadcast_to(length > 0, self.taken[j].shape)):
            whole = np.broadcast_to(length, self.taken[j].shape).copy()
            return [Taken(whole, whole, self.states[j + 1])]
        counted = self.engine.tally
        step = self.steps[j]
        flight = SolverState(j, np.zeros(len(counted.accepted)), None if step is None else step.copy())
        self.engine.tally, self.engine.log = SolverStats(len(flight.tau)), []
        try:
            self.engine.segment(self.chain, flight, self.states[j])
            return self.engine.log
        finally:
            self._count(counted)
            self.engine.log = None

    def _round_back(self, back: ReversedStep, taken: Taken, a: Tensor, step: np.ndarray | None) -> tuple[Tensor, np.ndarray]:
        """a before a round of steps from a after it, and the steps proposed to go on with."""
        counted = self.engine.tally
        engine = copy.copy(self.engine)
        engine.method, engine.tally, engine.log = _Anew(self.engine.method), SolverStats(len(taken.dt)), []
        first = np.where(taken.dt > 0, taken.dt, 1.0)
        flight = SolverState(0, np.zeros(len(taken.dt)), first if step is None else np.maximum(step, 1e-3 * first))
        try:
            with torch.no_grad():
                y, _ = engine.segment(back, flight, torch.cat([taken.h, a], -1))  # type: ignore[arg-type]
        except Failure as failure:
            advice = "That was on the way back: leave `adjoint` out; `memory` bounds what gradients then take."
            solved = Trajectory(self.chain.edges.detach(), torch.stack(self.states).detach())
            raise SolverError(replace(failure, hint=f"{failure.hint} {advice}"), solved) from None
        self.engine.tally = engine.tally
        self._count(counted)
        assert flight.step is not None
        return y[..., a.shape[-1] :], flight.step

    def _count(self, counted: SolverStats) -> None:
        counted.backward += self.engine.tally.evaluations
        self.engine.tally = counted
        self.stats["nfe_backward"] = counted.backward


class _Adjoint(torch.autograd.Function):
    """The states as they are, forwards; the sweep, backwards."""

    @staticmethod
    def forward(ctx: Any, sweep: AdjointBackward, hs: Tensor, h0: Tensor, *tensors: Tensor) -> Tensor:
        ctx.sweep = sweep
        ctx.save_for_backward(h0, *tensors)
        return hs.clone()

    @staticmethod
    def backward(ctx: Any, by_hs: Tensor) -> tuple[Tensor | None, ...]:
        sweep: AdjointBackward = ctx.sweep
        with torch.no_grad():
            by_h0, by_parameter, by_sample = sweep.field.run(lambda: sweep.back(_at_edges(sweep, by_hs)))
        gradients = once_only("adjoint", [by_h0, *by_parameter, *by_sample], [by_hs, *ctx.saved_tensors])
        return (None, None, *gradients)


def _at_edges(sweep: AdjointBackward, by_hs: Tensor) -> Tensor:
    """dL/dh at the requested times, added up at the edges they are."""
    jumps = by_hs.new_zeros(len(sweep.states), *by_hs.shape[1:])
    places = sweep.chain.places.to(by_hs.device)
    if places.dim() == 1:
        return jumps.index_add(0, places, by_hs)
    samples = torch.arange(by_hs.shape[1], device=by_hs.device)
    return jumps.index_put((places, samples.expand_as(places)), by_hs, accumulate=True)


class ReversedStep:
    """A round of steps run backwards, as a chain of one segment: sigma is the time until it ended, the state is [h, a]."""

    own, differentiable = True, False

    def __init__(
        self,
        segment: Segment,
        taken: Taken,
        size: Tensor,
        targets: list[Tensor],
        totals: list[Tensor],
        weights: tuple[float, ...],
    ) -> None:
        self.forwards, self.size, self.targets, self.totals, self.weights = segment, size, targets, totals, weights
        self.end = torch.from_numpy(taken.end)[:, None]
        self.lengths = taken.dt[None]
        self.steady = segment.steady
        self.differentiable_in_time = False
        self.stages: list[tuple[Tensor, Tensor]] = []  # of the step under way: dh/dt with its graph, and a
        self.chain, self.number, self.rows = self, 0, None

    def segment(self, j: int, rows: Tensor | None = None) -> ReversedStep:
        return self

    def time(self, j: int, sigma: float, sample: int | None) -> float:
        end = self.end[(sample or 0) % len(self.end)]
        return self.forwards.chain.time(self.forwards.number, float(end) - sigma, sample)

    def read(self, sigma: Tensor) -> Tensor:
        return self.forwards.read(self.end.to(sigma.device) - sigma)

    def __call__(self, sigma: Tensor, y: Tensor) -> Tensor:
        h, a = y.detach().chunk(2, -1)
        tau = self.end.to(sigma.device) - sigma
        with torch.enable_grad():
            h = h.requires_grad_()
            slope = self.forwards(tau, h)
            (pull,) = torch.autograd.grad(slope, h, a, retain_graph=True, materialize_grads=True)
        self.stages.append((slope, a))
        return torch.cat([-slope.detach(), pull], -1)

    def taken(self, dt: Tensor) -> None:
        """Adds the step's share of the integrals: its first stage serves all tries, the others are the last ones computed."""
        stages = [self.stages[0], *self.stages[1 - len(self.weights) :]]
        share = [
            (slope, weight * dt * self.size * a)
            for weight, (slope, a) in zip(self.weights, stages, strict=True)
            if weight and slope.requires_grad
        ]
        if share and self.targets:
            slopes, along = zip(*share, strict=True)
            found = torch.autograd.grad(slopes, self.targets, along, allow_unused=True)
            for i, mine in enumerate(found):
                if mine is not None:
                    self.totals[i] += mine
        self.stages.clear()


class _Anew(EmbeddedMethod):
    """A pair whose every step computes its first slope anew, so that all stages of a step are its own."""

    def __init__(self, pair: EmbeddedMethod) -> None:
        self.pair, self.name, self.order = pair, pair.name, pair.order
        self.evaluations = pair.evaluations

    def attempt(self, slope: Slope, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        return self.pair.attempt(slope, tau, dt, h, start)._replace(end=None)


def _weights(method: EmbeddedMethod) -> tuple[float, ...]:
    """b, one for each stage."""
    assert isinstance(method, EmbeddedRungeKutta)
    return tuple(method.b) if method.b is not None else (*method.a[-1], 0.0)
