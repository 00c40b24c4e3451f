r"""Run a solve that was checked: by a kernel or by the steps of an engine, with its gradient, statistics and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import Driven, VectorField, checks
from ctrnn.autocast import without_autocast
from discretize.errors import WEIGHTS_DIVERGED, Failure, SolverError, SolverWarning, diverged_weight, warn_user
from discretize.kernels.choose import run_fixed, run_solve, solve_by_steps
from discretize.kernels.eligibility import Fused, refuse_steps
from discretize.kernels.price import KernelReady, Stopwatch, Waiting
from discretize.kernels.record.counters import count_calls
from discretize.kernels.solved import Solved, SolveRequest
from discretize.noise.brownian import BrownianPath
from discretize.progress import progress_bar
from discretize.settings import Settings
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.adjoint import Adjoint, AdjointBackward, EdgeLog
from discretize.solvers.checkpointing import Checkpointed, CheckpointedSolve
from discretize.solvers.continuation import Continuation, StatesBetween
from discretize.solvers.diagnosis import STIFF_STEPS, slow_hint
from discretize.solvers.engine import Engine, SolverState
from discretize.solvers.fixed import FixedEngine, OwnStep
from discretize.solvers.kept import StepLog
from discretize.solvers.segments import Chain, chain_of
from discretize.trajectory import Trajectory

if TYPE_CHECKING:
    from discretize.kernels.plan import Plan

__all__ = ["NoKernel", "Solve", "named", "rounded"]

WARN_STEPS = 1_000  # of one sample: from here on it is warned of


class NoKernel(Exception):  # noqa: N818 - an answer
    """Raised where a solve that is for a kernel alone has none, with the reason."""


class Solve:
    r"""Runs a solve that was checked, and gives it its gradient, statistics and warnings.

    Args:    driven: field, path and speed; h0 (batch, state); times: the requested ones; settings: how. stored: a dtype in which
             the states are given back, and a kernel stores what it can; noise: the path of a method for fields with noise; dense:
             whether the states between the times may be asked for, for which steps and weights are kept; check: of the field,
             made where no kernel is known for it. needs_kernel: no steps are taken without one. plan: one that fits.
    Raises:  SolverError, with the states so far, for a solve that fails; TypeError where there is no such kernel; NoKernel.
    """

    driven: Driven
    times: Tensor
    settings: Settings
    stored: torch.dtype | None
    noise: BrownianPath | None
    h0: Tensor
    kept: dict[int, Tensor]

    def __init__(
        self,
        driven: Driven,
        h0: Tensor,
        times: Tensor,
        settings: Settings,
        stored: torch.dtype | None = None,
        noise: BrownianPath | None = None,
        dense: bool = True,
        check: Callable[[], None] | None = None,
        needs_kernel: bool = False,
        plan: Plan | None = None,
    ) -> None:
        self.driven, self.times, self.settings, self.stored, self.noise = driven, times, settings, stored, noise
        self.direction: int = driven.direction
        self.dense, self.needs_kernel, self.planned = dense, needs_kernel, plan
        self.check: Callable[[], None] = _once(check)  # no method: kernels' graphs keep it
        self.chain: Chain = self._segments()
        self.h0 = h0 = self.chain.begun(h0)
        self.stats: dict[str, Any] = {}
        self.engine: Engine = self._new_engine()
        self.kept = {0: h0}  # of steps
        self.kernel: Solved | None = None  # what a kernel gave
        self.why: str | None = None  # no engine that comes before the one that ran
        self.log: EdgeLog | None = None  # for the adjoint
        if isinstance(settings.gradient, Adjoint) and settings.steps_alone and torch.is_grad_enabled():
            self.log = EdgeLog()
            self.log.add(h0, self.engine.start(self.chain, len(h0)), self.engine.counts)

    def _segments(self) -> Chain:
        return chain_of(self.driven, self.times, by_slope=self.settings.adaptive)

    def run(self) -> Trajectory:
        with progress_bar("integrate", self.settings.progress, len(self.chain), "segment") as self.show:
            self._try_kernel(self.settings.fused)
            if self.stored and self.kernel is None:
                raise self._too_coarse()
            if self.needs_kernel and self.kernel is None:
                raise NoKernel(self.why)
            if self.kernel is None:
                little = len(self.chain) < self.engine.few
                refuse_steps(self.settings.fused, self.why, 0 if little else self.h0.numel())
            try:
                h = self._at_end()
            except Failure as failure:
                self._count()
                self.dense = True  # what was reached is looked at
                failure = named(failure, self.driven.field)
                if self.settings.on_failure == "keep" and (self.chain.own or self.chain.own_times):
                    return self._without_failed()
                raise SolverError(failure, self._trajectory(f"failed: {failure.cause}", failure.edge)) from None
        self._count()
        solved = self._trajectory("completed")
        if isinstance(self.engine, AdaptiveEngine):
            self._warn_of_forced_steps(self.engine)
            self.stats["hint"] = self._hint(self.engine, h)
            if self.log is not None:
                adjoint = AdjointBackward(self.engine, self.chain, self.log, self.stats)
                hs = adjoint.attach(solved.hs.detach(), self.h0)
                return replace(solved, hs=hs, between=self._between(hs) if self.dense else None)
        return solved

    def _too_coarse(self) -> TypeError:
        return TypeError(
            f"`h0` is {self.stored}, too coarse for steps chosen by their error but in a kernel for GPUs, and there is none: "
            f"{self.why}. Use float32 or float64, or fixed steps."
        )

    def _at_end(self) -> Tensor:
        """Return the states at the end, by steps that give way to a kernel where they take long, or by the one there is."""
        if self.kernel is None:
            self.check()
            self.state: SolverState = self.engine.start(self.chain, len(self.h0))  # a kernel may have begun and given up
            engine = self.engine
            engine.look = partial(self._look, Stopwatch(), torch.is_grad_enabled())
            try:
                return self._by_steps(self.h0, self.state, self._at_edge)
            except KernelReady:
                self.kept = {0: self.h0}
            finally:
                engine.look = None  # graphs of blocks keep the engine, and a Solve keeps the states
        assert self.kernel is not None
        return self._take(self.kernel)

    def _look(self, watch: Stopwatch, graph: bool) -> bool:
        """Return once that the solve takes long. Raises: KernelReady where a kernel is to be had by then."""
        if not watch.rings():
            return False
        if isinstance(self.why, Waiting):
            engine, self.engine = self.engine, self._new_engine()
            with torch.set_grad_enabled(graph):
                self._try_kernel("always")
            if self.kernel is not None:
                raise KernelReady
            self.engine = engine
        return True

    def _new_engine(self) -> Engine:
        engine = self.settings.engine(self.h0, self.stats, self.noise)
        # Gradients to times move the steps: a state between is then solved for.
        keeps = self.dense and self.settings.gradient is None
        keeps = keeps and not self.chain.differentiable and self.chain.requested is None
        if keeps and self.settings.pair and isinstance(engine, AdaptiveEngine):
            engine.log = StepLog()
        return engine

    def _try_kernel(self, fused: Fused) -> None:
        """Run the whole solve by a compiled kernel, if there is one."""
        settings = self.settings
        if settings.of_torchdiffeq or not (settings.fixed or settings.pair):
            self.why = "torchdiffeq has no kernels" if settings.of_torchdiffeq else _no_noisy_kernel(settings.method)
        elif isinstance(settings.gradient, Adjoint):
            self.why = f"`gradient`={settings.gradient} takes its own backward pass"
        elif settings.on_attempt is not None:
            self.why = "every step that is tried is called back"
        elif isinstance(self.engine, FixedEngine):
            self.check()
            self.engine.start(self.chain, len(self.h0))
            if isinstance(settings.gradient, Checkpointed):
                self.why = f"`gradient`={settings.gradient} takes fixed steps one by one"
            elif isinstance(found := run_fixed(self.chain, self.engine, self.h0, fused), Solved):
                self.kernel, self.why = found, None
            else:
                self.why = found
        else:
            assert isinstance(self.engine, AdaptiveEngine)
            memory = settings.gradient.bytes if isinstance(settings.gradient, Checkpointed) else None
            # Not a method: the states' graph keeps what the kernel was called with, and a Solve keeps the states.
            how = (self.show, self.stats, memory, self.stored, self.dense, self.check)
            request = SolveRequest(self.chain, self.h0, self.engine, *how)
            found, self.why = run_solve(request, fused) if self.planned is None else (self.planned.solve(request), None)
            if isinstance(found, Solved):
                self.kernel = found
                if self.planned is None:  # of a field without counters
                    field, start = self.driven.field, self.times[0]
                    count_calls(field, self.engine.counts.evaluations, lambda: field.flow(self.driven.read_at(start), self.h0))
            else:
                self.why = found

    def _take(self, kernel: Solved) -> Tensor:
        if kernel.failure is not None:
            raise kernel.failure
        return kernel.hs[-1].to(self.h0.dtype)

    def _by_steps(self, h0: Tensor, state: SolverState, at_edge: Callable[[int, Tensor], None]) -> Tensor:
        gradient, graph = self.settings.gradient, torch.is_grad_enabled() and self.log is None
        with torch.set_grad_enabled(graph), solve_by_steps(self.chain, self.engine, self.settings.fused):
            if isinstance(gradient, Checkpointed) and graph:
                return CheckpointedSolve(self.engine, self.chain, gradient.bytes, self.stats).run(h0, state, at_edge)
            return self.engine.solve(self.chain, h0, state, at_edge)

    @cached_property
    def wanted(self) -> frozenset[int]:
        """The edges whose states are kept."""
        return frozenset(self.chain.wanted().tolist())

    def _at_edge(self, edge: int, h: Tensor) -> None:
        if edge in self.wanted:
            self.kept[edge] = h
        if self.log is not None:
            self.log.add(h, self.state, self.engine.counts)
        self.show(edge)

    def _without_failed(self) -> Trajectory:
        """Solve step by step, leaving samples behind where they fail; and once more without them, for the graph."""
        self.kernel, self.why = None, "samples failed, and others were kept"
        with torch.no_grad():
            kept, failures = self._left_behind(self.h0.detach(), [])
        bad = self._of(failures)
        for edge, h in kept.items():
            over = self._of(sample for sample, (segment, _) in failures.items() if edge > segment)
            kept[edge] = h.masked_fill(over, torch.nan)
        if torch.is_grad_enabled():
            whole, _ = self._left_behind(self.h0, list(failures))
            kept = {edge: torch.where(bad, kept[edge], h) for edge, h in whole.items()}
        self.kept = kept
        self._count()
        status = ["completed"] * len(self.h0)
        for sample, (_, failure) in failures.items():
            status[sample] = f"failed at t = {failure.time:g}: {failure.cause}"
        self.stats["status_of_samples"] = status
        said = f"completed but for {len(failures)} of {len(self.h0)} samples"
        return replace(self._trajectory(said), between=None)

    @torch.no_grad()
    def failures(self) -> dict[int, Failure]:
        """Return which samples fail, and why, of a solve whose samples step on their own."""
        return {sample: failure for sample, (_, failure) in self._left_behind(self.h0, [])[1].items()}

    def _of(self, samples: Iterable[int]) -> Tensor:
        """Return a mask of these samples, (batch, 1), on the device of the states."""
        found = torch.zeros(len(self.h0), 1, dtype=torch.bool, device="cpu")
        found[list(samples)] = True
        return found.to(self.h0.device)

    def _left_behind(self, h0: Tensor, known: list[int]) -> tuple[dict[int, Tensor], dict[int, tuple[int, Failure]]]:
        """Return the states at the wanted edges, and why samples failed; the `known` ones are left out from the start."""
        self.engine = engine = self.settings.engine(h0, self.stats)
        assert isinstance(engine, AdaptiveEngine)
        state, kept = engine.start(self.chain, len(h0)), {0: h0.clone()}
        state.failed = np.isin(np.arange(len(h0)), known)

        def keep(edge: int, h: Tensor) -> None:
            if edge in self.wanted:
                kept[edge] = h if torch.is_grad_enabled() else h.clone()

        self._by_steps(h0, state, keep)
        return kept, engine.failures

    def _count(self) -> None:
        ran = {
            "engine": self.engine.name if self.kernel is None else self.kernel.engine,
            "engine_why": self.why and str(self.why),
        }
        self.stats.update(self.engine.counts.stats(str(self.settings.method)) | ran)

    def _trajectory(self, status: str, last: int | None = None) -> Trajectory:
        """Return the states at the requested times, up to the last edge."""
        if self.kernel is not None:
            edges, hs = self.kernel.edges, self.kernel.hs if self.chain.requested is None else self.kernel.hs.to(self.h0.dtype)
        else:
            edges = np.array(sorted(self.kept))
            hs = torch.stack([self.kept[edge].to(self.h0.dtype) for edge in edges.tolist()])
        reached = len(edges) if last is None else int((edges <= last).sum())
        hs = self.chain.states(edges[:reached], hs[:reached], by_kernel=self.kernel is not None)
        ts = self.times[: len(hs)]
        between = self._between(hs) if self.dense else None
        return rounded(Trajectory(ts if self.direction > 0 else -ts, hs, self.stats, status, between), self.stored)

    def with_states_between(self, solved: Trajectory) -> Trajectory:
        """Return what `run` gave with the states between its times, of the field as it is now."""
        return replace(solved, between=self._between(solved.hs))

    def _between(self, hs: Tensor) -> Callable[[Tensor], Tensor]:
        has_graph = self.kernel is None or self.kernel.differentiable
        times, kept = self.times[: len(hs)], None if self.planned is None else self.planned.kept
        between = StatesBetween(self.driven.field, times, hs, self._solve_on, self._continuation, has_graph, kept)
        if self.planned is not None:
            self.planned.kept = between.snapshot.found
        return between if self.direction > 0 else lambda t: between(-t)

    def _continuation(self) -> Continuation | None:
        """Return the steps that were taken, if they were kept."""
        if not isinstance(self.engine, AdaptiveEngine | FixedEngine) or self.engine.log is None:
            return None
        method = self.engine.control.method if isinstance(self.engine, AdaptiveEngine) else OwnStep(self.engine)
        # A kernel's samples step on their own, whatever drives them.
        chain, log = (self.chain, self.engine.log) if self.kernel is None else (self.kernel.chain, self.kernel)
        steps = log.steps()
        return None if steps is None else Continuation(method, chain, steps)

    def _solve_on(self, h: Tensor, ts: Tensor) -> Tensor:
        """Solve on from a known state, with the same settings."""
        with without_autocast(self.driven.field.device):
            settings = replace(self.settings, progress=False)
            return Solve(self.driven, h.to(self.h0.dtype), ts, settings, noise=self.noise).run().hs

    def _warn_of_forced_steps(self, engine: AdaptiveEngine) -> None:
        if engine.counts.forced_at is None:
            return
        at, error = engine.counts.forced_at
        warn_user(
            f"{engine.counts.forced} step(s) were accepted at min_step={self.settings.min_step:g} in spite of their error, the "
            f"first at t = {at:g} with {error:.3g} tolerances; the result is not to the tolerance asked for.",
            SolverWarning,
        )

    def _hint(self, engine: AdaptiveEngine, h: Tensor) -> str | None:
        """Return what would have been easier; warn if it cost many steps."""
        chain, counts = self.chain, engine.counts
        row = int((attempted := counts.attempted).argmax())
        steps = int(attempted[row])
        if steps <= STIFF_STEPS * len(chain):
            return None
        spans = chain.lengths.sum(0)
        typical = float(spans[row % len(spans)]) / max(1, int(counts.accepted[row]))
        start = torch.zeros((), dtype=checks.time_dtype(h.device), device=h.device)
        last = chain.segment(len(chain) - 1)
        hint = slow_hint(engine.control.stiffness_shortens, last, start, h.detach(), row % len(h), typical)
        if hint and steps > WARN_STEPS and not engine.warned:
            warn_user(f"The solve took {steps} steps. {hint}", SolverWarning)
        return hint


def _no_noisy_kernel(method: object) -> str:
    return f"steps of {method!r} are cut and joined along one Brownian path, which kernels do not read"


def _once(work: Callable[[], None] | None) -> Callable[[], None]:
    """Do something at the first call alone."""
    left = [work] if work else []

    def run() -> None:
        while left:
            left.pop()()

    return run


def named(failure: Failure, field: VectorField) -> Failure:
    """Name a weight that is not finite as the cause: whatever it reaches, the input's projection too, is so then."""
    cause = diverged_weight(field)
    return failure if cause is None else replace(failure, cause=cause, hint=WEIGHTS_DIVERGED)


def rounded(solved: Trajectory, dtype: torch.dtype | None) -> Trajectory:
    """Round the states to that dtype, also those between."""
    if dtype is None:
        return solved
    between = solved.between
    return replace(solved, hs=solved.hs.to(dtype), between=None if between is None else lambda t: between(t).to(dtype))
