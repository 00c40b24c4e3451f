"""One solve from its first to its last time: by a kernel or by steps, with its gradient, statistics and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from ctrnn import Driven, VectorField
from ctrnn.autocast import without_autocast
from discretize.errors import Failure, SolverError, SolverWarning, warn_user
from discretize.gradients.adjoint import AdjointBackward, EdgeLog
from discretize.gradients.checkpointing import Blocks
from discretize.gradients.choice import Adjoint, Checkpointed
from discretize.integration.between import StatesBetween
from discretize.integration.half import rounded
from discretize.integration.settings import Settings
from discretize.kernels.choose import run_solve, solve_by_steps
from discretize.kernels.solved import Solved
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.continuation import Continuation, StepLog
from discretize.solvers.diagnosis import slow_hint
from discretize.solvers.segments import chain_of
from discretize.trajectory import Trajectory

__all__ = ["Solve"]

STIFF_STEPS = 50  # a segment: from here on a solve is looked at
WARN_STEPS = 1_000  # of one sample: from here on it is warned of
BAR: dict[str, Any] = {"desc": "integrate", "unit": "segment", "leave": False, "delay": 0.2}  # tqdm's, on stderr


class Solve:
    r"""A solve, checked and ready to run.

    Args:    driven: field, path and speed; h0 (batch, state); times: the requested ones; settings: how. stored: a dtype in which
             the states are given back, and a kernel stores what it can.
    Raises:  SolverError, with the states so far, for a solve that fails; TypeError where there is no such kernel.
    """

    def __init__(self, driven: Driven, h0: Tensor, times: Tensor, settings: Settings, stored: torch.dtype | None = None) -> None:
        self.driven, self.times, self.settings, self.stored = driven, times, settings, stored
        self.chain = chain_of(driven, times, by_slope=settings.adaptive)
        self.h0 = h0 = self.chain.begun(h0)
        self.stats: dict[str, Any] = {}
        self.engine = settings.engine(h0, self.stats)
        self.state = self.engine.start(self.chain, len(h0))
        self.wanted, self.kept = self.chain.wanted(), {0: h0}
        self.missed: str | None = None  # why no engine that comes before the one that ran
        self.log: EdgeLog | None = None  # for the adjoint
        if isinstance(settings.gradient, Adjoint) and settings.steps_alone and torch.is_grad_enabled():
            self.log = EdgeLog()
            self.log.add(h0, self.state, self.engine.counts)
        # Gradients to times move the steps: a state between is then solved for.
        self.keeps = settings.gradient is None and not self.chain.differentiable and self.chain.requested is None
        if self.keeps and isinstance(self.engine, AdaptiveEngine):
            self.engine.log = StepLog()

    def run(self) -> Trajectory:
        with tqdm(total=len(self.chain), disable=None if self.settings.progress else True, **BAR) as self.bar:
            whole = self._by_kernel()
            if self.stored and isinstance(whole, str):
                raise TypeError(
                    f"`h0` is {self.stored}, too coarse for steps chosen by their error but in a kernel for GPUs, and there is "
                    f"none: {whole}. Use float32 or float64, or fixed steps."
                )
            try:
                h = self._take(whole) if isinstance(whole, Solved) else self._by_steps()
            except Failure as failure:
                self._count(whole)
                self.kept = {edge: h for edge, h in self.kept.items() if failure.edge is None or edge <= failure.edge}
                failure = _named(failure, self.driven.field)
                if self.settings.on_failure == "keep" and (self.chain.own or self.chain.own_times):
                    return self._without_failed()
                raise SolverError(failure, self._trajectory(f"failed: {failure.cause}", whole)) from None
        self._count(whole)
        # One row of states for every requested time, as they came, where no two sequences ask for times of their own.
        as_they_came = isinstance(whole, Solved) and not self.chain.own and self.chain.requested is None
        solved = self._trajectory("completed", whole, whole.hs if isinstance(whole, Solved) and as_they_came else None)
        if isinstance(self.engine, AdaptiveEngine):
            self._warn_of_forced_steps(self.engine)
            self.stats["hint"] = self._hint(self.engine, h)
            if self.log is not None:
                adjoint = AdjointBackward(self.engine, self.chain, self.log, self.stats)
                hs = adjoint.attach(solved.hs.detach(), self.h0)
                return replace(solved, hs=hs, between=self._between(whole, hs))
        return solved

    def _without_failed(self) -> Trajectory:
        """The solve step by step, samples that fail left behind; and without them from the start, for its graph."""
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
        self._count("samples failed, and others were kept")
        status = ["completed"] * len(self.h0)
        for sample, (_, failure) in failures.items():
            status[sample] = f"failed at t = {failure.time:g}: {failure.cause}"
        self.stats["status_of_samples"] = status
        said = f"completed but for {len(failures)} of {len(self.h0)} samples"
        return replace(self._trajectory(said, ""), between=None)

    def _of(self, samples: Iterable[int]) -> Tensor:
        """Which samples these are, (batch, 1), where the states are."""
        found = torch.zeros(len(self.h0), 1, dtype=torch.bool)
        found[list(samples)] = True
        return found.to(self.h0.device)

    def _left_behind(self, h0: Tensor, known: list[int]) -> tuple[dict[int, Tensor], dict[int, tuple[int, Failure]]]:
        """States at the wanted edges, and why samples failed; the `known` ones are left out from the start."""
        self.engine = engine = self.settings.engine(h0, self.stats)
        assert isinstance(engine, AdaptiveEngine)
        state, kept = engine.start(self.chain, len(h0)), {0: h0.clone()}
        state.failed = np.isin(np.arange(len(h0)), known)

        def keep(edge: int, h: Tensor) -> None:
            if edge in self.wanted:
                kept[edge] = h if torch.is_grad_enabled() else h.clone()

        gradient = self.settings.gradient
        memory = gradient.bytes if isinstance(gradient, Checkpointed) else None
        Blocks(engine, self.chain, memory, self.stats).run(h0, state, keep)
        return kept, engine.failures

    def _by_kernel(self) -> Solved | str:
        """The whole solve by a compiled kernel, or why not."""
        settings = self.settings
        if not isinstance(self.engine, AdaptiveEngine):
            return "torchdiffeq has no kernels" if settings.of_torchdiffeq else "steps of fixed length have no kernel"
        if isinstance(settings.gradient, Adjoint):
            return f"`gradient`={settings.gradient} takes its own backward pass"
        memory = settings.gradient.bytes if isinstance(settings.gradient, Checkpointed) else None
        # Not `self._show`: the states' graph keeps what the kernel was called with, and a Solve keeps the states.
        show = partial(_show, self.bar)
        found, self.missed = run_solve(self.chain, self.h0, self.engine, settings.fused, show, self.stats, memory, self.stored)
        if isinstance(found, str):
            self.state = self.engine.start(self.chain, len(self.h0))  # a kernel that gave up may have begun it
        return found

    def _take(self, whole: Solved) -> Tensor:
        self.kept |= dict(zip(whole.edges, whole.hs.unbind(0), strict=True))
        if whole.failure is not None:
            raise whole.failure
        return whole.hs[-1].to(self.h0.dtype)

    def _by_steps(self) -> Tensor:
        gradient, fused = self.settings.gradient, self.settings.fused
        memory = gradient.bytes if isinstance(gradient, Checkpointed) else None
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.log is None), solve_by_steps(self.chain, self.engine, fused):
            return Blocks(self.engine, self.chain, memory, self.stats).run(self.h0, self.state, self._at_edge)

    def _at_edge(self, edge: int, h: Tensor) -> None:
        if edge in self.wanted:
            self.kept[edge] = h
        if self.log is not None:
            self.log.add(h, self.state, self.engine.counts)
        _show(self.bar, edge)

    def _count(self, whole: Solved | str) -> None:
        engine, why = (whole.engine, self.missed) if isinstance(whole, Solved) else (self.engine.name, whole)
        ran = {"engine": engine, "engine_why": why}
        self.stats.update(self.engine.counts.stats(str(self.settings.method)) | ran)

    def _trajectory(self, status: str, whole: Solved | str, hs: Tensor | None = None) -> Trajectory:
        if hs is None:
            hs = self.chain.states({edge: h.to(self.h0.dtype) for edge, h in self.kept.items()})
        ts = self.times[: len(hs)]
        solved = Trajectory(ts if self.driven.direction > 0 else -ts, hs, self.stats, status, self._between(whole, hs))
        return rounded(solved, self.stored)

    def _between(self, whole: Solved | str, hs: Tensor) -> Callable[[Tensor], Tensor]:
        make, has_graph = partial(self._continuation, whole), isinstance(whole, str)
        between = StatesBetween(self.driven.field, self.times[: len(hs)], hs, self._solve_on, make, has_graph)
        return between if self.driven.direction > 0 else lambda t: between(-t)

    def _continuation(self, whole: Solved | str) -> Continuation | None:
        """The steps that were taken, where they were kept."""
        if not isinstance(self.engine, AdaptiveEngine) or self.engine.log is None:
            return None
        # A kernel's samples step on their own, whatever drives them.
        chain, log = (whole.chain, whole) if isinstance(whole, Solved) else (self.chain, self.engine.log)
        steps = log.steps()
        return None if steps is None else Continuation(self.engine.control.method, chain, steps)

    def _solve_on(self, h: Tensor, ts: Tensor) -> Tensor:
        """The states at other times, solved on from one of them with the same settings."""
        with without_autocast(self.driven.field.device):
            return Solve(self.driven, h.to(self.h0.dtype), ts, replace(self.settings, progress=False)).run().hs

    def _warn_of_forced_steps(self, engine: AdaptiveEngine) -> None:
        if engine.counts.forced_at is None:
            return
        at, error = engine.counts.forced_at
        warn_user(
            f"{engine.counts.forced} step(s) were accepted at min_step={engine.control.min_step:g} in spite of their error, the "
            f"first at t = {at:g} with {error:.3g} tolerances; the result is not to the tolerance asked for.",
            SolverWarning,
        )

    def _hint(self, engine: AdaptiveEngine, h: Tensor) -> str | None:
        """What would have been easier, warned of where it cost many steps."""
        chain, counts = self.chain, engine.counts
        row = int(counts.attempted.argmax())
        steps = int(counts.attempted[row])
        if steps <= STIFF_STEPS * len(chain):
            return None
        spans = chain.lengths.sum(0)
        typical = float(spans[row % len(spans)]) / max(1, int(counts.accepted[row]))
        start = torch.zeros((), dtype=torch.float64, device=h.device)
        last = chain.segment(len(chain) - 1)
        hint = slow_hint(engine.control.method.implicit, last, start, h.detach(), row % len(h), typical)
        if hint and steps > WARN_STEPS:
            warn_user(f"The solve took {steps} steps. {hint}", SolverWarning)
        return hint


def _show(bar: tqdm[NoReturn], edge: int) -> None:
    bar.update(edge - bar.n)


def _named(failure: Failure, field: VectorField) -> Failure:
    """The failure, with a weight that is not finite as its cause: whatever it reaches, the input's projection too, is so then."""
    for name, parameter in field.named_parameters():
        bad = parameter.detach()[~torch.isfinite(parameter.detach())]
        if len(bad):
            hint = "Weights become so where training diverges: load them from before, and train at a smaller rate."
            return replace(failure, cause=f"the field's parameter `{name}` holds {float(bad[0])}", hint=hint)
    return failure
