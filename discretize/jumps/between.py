r"""Solve a field without input from observation to observation: checked, and its engine chosen, once for a sequence.

Each interval begins anew, for the state has jumped: nothing is known of the next step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.autocast import cast_for, without_autocast
from discretize.errors import Failure, SolverError
from discretize.kernels.choose import plan_solve, solve_by_steps
from discretize.kernels.eligibility import Fused
from discretize.kernels.price import Stopwatch, Waiting
from discretize.kernels.solved import SolveRequest
from discretize.loop.checking import check_solve, in_float32, stored_dtype, warn_of_atol
from discretize.loop.solving import Solve, named
from discretize.settings import Settings
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.adjoint import Adjoint
from discretize.solvers.checkpointing import Checkpointed, CheckpointedSolve
from discretize.solvers.engine import SolverState, SolverStats
from discretize.solvers.equation import as_driven_field, driven_in
from discretize.solvers.fixed import FixedEngine
from discretize.solvers.segments import Chain
from discretize.steps.step import Step
from discretize.trajectory import Trajectory

ONE = "one interval between observations is stepped through sooner than a kernel is called"

__all__ = ["SolveBetween", "StepBetween"]


class StepBetween:
    r"""Takes one step over each interval, which a solve would take too.

    Args:    field: without input, its masks drawn; h0 (batch, state); edges (intervals + 1,) or (intervals + 1, batch); step.
    Raises:  SolverError for states that are not finite, once all steps are taken.
    """

    def __init__(self, field: VectorField, h0: Tensor, edges: Tensor, step: Step) -> None:
        self.field, self.step, self.projected = field, step, field.project(h0[:, :0])
        self.edges: Tensor = edges.detach()
        lengths = edges.diff(dim=0) if edges.dim() > 1 else edges.diff()[:, None]
        self.passes: Tensor = lengths.detach() > 0
        self.lengths = (lengths[..., None] if edges.dim() > 1 else lengths[:, 0]).to(h0).unbind(0)
        self.some: list[bool] = self.passes.any(1).tolist()
        self.counts: SolverStats = SolverStats(max(1, self.passes.shape[1]))

    def over(self, k: int, h: Tensor) -> Tensor:
        """Return the state at the end of interval k."""
        if not self.some[k]:
            return h
        following, cost = self.step.counted(self.field, self.projected, h, self.lengths[k])
        self.counts.call(cost, len(h))
        return following

    def finish(self, hs: Tensor) -> dict[str, Any]:
        """Return the stats of all intervals; hs: the states at their ends, and then others."""
        self.counts.accepted += self.passes.sum(0).numpy() if self.passes.shape[1] else 0
        stats, ends = self.counts.stats(str(self.step)) | {"engine_why": ONE}, hs.detach()[: len(self.some)]
        if not checks.holds(torch.isfinite(ends.sum())) and not checks.holds(torch.isfinite(ends)):
            raise self._not_finite(ends, stats)
        return stats

    def _not_finite(self, ends: Tensor, stats: dict[str, Any]) -> SolverError:
        k, sample, unit = torch.nonzero(~torch.isfinite(ends))[0].tolist()
        own = sample if self.edges.dim() > 1 else ...
        length, times = float(self.edges.diff(dim=0)[k, own]), self.edges[1 : k + 1]
        cause = f"the state became {float(ends[k, sample, unit])} with steps of {length:.3g}"
        failure = Failure(cause, FixedEngine.hint, float(self.edges[k + 1, own]), sample, unit)
        return SolverError(named(failure, self.field), Trajectory(times, ends[:k], stats, f"failed: {cause}"))


class SolveBetween(Solve):
    r"""Solves one interval at a time: `over(k, h)` takes the state h at the begin of interval k to its end.

    Args:    field: without input, its masks drawn; h0 (batch, state); edges (intervals + 1,) or (intervals + 1, batch), which may
             repeat and require a gradient; settings. `stats`: of all intervals, after `finish`.
    Raises:  TypeError, ValueError for what cannot be solved so; SolverError for an interval that fails.
    """

    def __init__(self, field: VectorField, h0: Tensor, edges: Tensor, settings: Settings) -> None:
        h0, given = cast_for(field, h0), field
        field, path = as_driven_field(field, None, h0, None, edges, None)
        stored = stored_dtype(settings, h0)
        if stored:
            field, path, h0 = in_float32(field, path, h0)
        with without_autocast(field.device):
            driven = driven_in(1, field, path, None, h0)
            _ = driven.projected  # here, in the caller's mode: checks run without gradients
            check_solve(given, driven, edges, h0, settings, settings.may_draw)
            super().__init__(driven, h0, edges, settings, stored, dense=False)
        self.engine.start(self.chain, len(h0))
        if isinstance(self.engine, AdaptiveEngine):
            self.engine.most = math.inf  # bounded interval by interval
        self.some: Sequence[bool] = self.chain.lengths.any(1).tolist()  # type: ignore[assignment]
        self.rang, self.watch = False, Stopwatch()
        self.engine.look = self._rings
        self._choose(settings.fused)

    def _segments(self) -> Chain:
        # Also intervals in which no time passes: their numbers are those of the observations.
        edges = self.times.detach() if self.settings.adaptive else self.times
        return Chain(self.driven, edges, torch.arange(len(edges), device="cpu"))

    def over(self, k: int, h: Tensor) -> Tensor:
        """Return the state at the end of interval k."""
        if not self.some[k]:
            return h
        with without_autocast(self.driven.field.device):
            h = h.to(self.h0.dtype)
            try:
                end = self._over(k, h)
            except Failure as failure:
                self._count()
                failed = Trajectory(self.times[k : k + 1], h[None], self.stats, f"failed: {failure.cause}")
                raise SolverError(named(failure, self.driven.field), failed) from None
            if self.times.requires_grad and self.settings.adaptive:
                length = self.times[k + 1] - self.times[k]
                later = (length - length.detach()).to(h)
                end = end + self.chain.arrival(k + 1, end) * (later[:, None] if later.dim() else later)
            return end.to(self.stored) if self.stored else end

    def finish(self, hs: Tensor) -> dict[str, Any]:
        """Return the stats of all intervals, and warn of what is to be said of them; hs: their states, the last one last."""
        self._count()
        self.engine.look = None  # which keeps this object
        if isinstance(self.engine, AdaptiveEngine):
            self._warn_of_forced_steps(self.engine)
            self.stats["hint"] = self._hint(self.engine, hs[-1].to(self.h0.dtype))
        warn_of_atol(Trajectory(self.times, hs, self.stats), self.settings)
        return self.stats

    def _count(self) -> None:
        super()._count()
        self.stats["engine"] = self.ran

    def _rings(self) -> bool:
        rings = self.watch.rings()
        self.rang |= rings
        return rings

    def _choose(self, fused: Fused) -> None:
        """Choose the kernel for all intervals, or say why there is none."""
        self.plan, self.ran = None, self.engine.name
        if self.settings.of_torchdiffeq:
            self.why = "torchdiffeq has no kernels"
        elif isinstance(self.settings.gradient, Adjoint):
            self.why = f"`gradient`={self.settings.gradient} takes its own backward pass"
        elif not isinstance(self.engine, AdaptiveEngine):
            self.why = ONE
        else:
            counts = self.engine.counts
            plan, self.why = plan_solve(self._request(self.chain, self.h0, self.engine), fused)
            self.engine.counts = counts
            if isinstance(plan, str):
                self.why = plan
            else:
                self.plan = plan
        if self.stored and self.plan is None:
            raise self._too_coarse()

    def _request(self, chain: Chain, h: Tensor, engine: AdaptiveEngine) -> SolveRequest:
        gradient = self.settings.gradient
        memory = gradient.bytes if isinstance(gradient, Checkpointed) else None
        return SolveRequest(chain, h, engine, _unseen, self.stats, memory, self.stored, self.dense)

    def _over(self, k: int, h: Tensor) -> Tensor:
        if self.rang and isinstance(self.why, Waiting):
            self._choose("always")
        if self.plan is not None:
            assert isinstance(self.engine, AdaptiveEngine)
            engine = AdaptiveEngine(self.engine.control)
            engine.start(self.plan.chain, len(h))
            found = self.plan.run(self._request(self.plan.chain, h, engine), k, k + 1)
            if not isinstance(found, str):
                self.engine.counts.add(engine.counts)
                self.ran = found.engine
                if found.failure is not None:
                    raise found.failure
                return found.hs[-1].to(h.dtype)
            self.why, self.plan = found, None
        if isinstance(self.settings.gradient, Adjoint) and torch.is_grad_enabled() and not self.settings.of_torchdiffeq:
            return self._by_adjoint(k, h)
        return self._over_by_steps(k, h)

    def _over_by_steps(self, k: int, h: Tensor) -> Tensor:
        state, gradient = SolverState(k, np.zeros(len(self.engine.counts.accepted))), self.settings.gradient
        with solve_by_steps(self.chain, self.engine, self.settings.fused):
            if isinstance(gradient, Checkpointed) and torch.is_grad_enabled():
                part = self.chain.part(k, k + 1)
                return CheckpointedSolve(self.engine, part, gradient.bytes, self.stats).run(h, replace(state, segment=0), _unseen)
            return self.engine.segment(self.chain.segment(k), state, h)[0]

    def _by_adjoint(self, k: int, h: Tensor) -> Tensor:
        """Solve by itself, for the backward pass of each interval is its own."""
        part = Solve(self.driven, h, self.times[k : k + 2].detach(), self.settings, dense=False)
        part.stats = self.stats
        try:
            return part.run().hs[-1]
        finally:
            self.engine.counts.add(part.engine.counts)


def _unseen(*_: object) -> None:
    pass
