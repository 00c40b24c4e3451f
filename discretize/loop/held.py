r"""Run fixed steps over held samples, by a kernel or one after another.

    h_k+1 = step^n(x_k, h_k, dt_k / n)        n substeps of a sample that lasts dt_k

Discrete cells are this, and so are solves by steps of one length whose times are the edges of the samples: by whatever door they
come, they take this way. With noise a sample's increments are laid beside it, see `discretize.loop.noise`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField, checks
from discretize.errors import StepError
from discretize.kernels.choose import run_sequence
from discretize.kernels.eligibility import HALF, Fused
from discretize.kernels.shown import Reads
from discretize.loop.noise import addressed, given_samples, keyed_samples, shared
from discretize.noise.brownian import BrownianPath, Cells, is_power_of_two
from discretize.noise.increments import ADDRESS, GivenIncrements
from discretize.settings import Settings
from discretize.solvers.engine import SolverStats
from discretize.solvers.fixed import as_array, count_steps, num_steps, num_steps_of
from discretize.steps.along import HeldProblem, step_along
from discretize.steps.stochastic import StochasticStep

if TYPE_CHECKING:
    from discretize.kernels.plan import Plan

__all__ = ["run_held", "solve_held"]


def run_held(
    problem: HeldProblem,
    fused: Fused,
    counts: SolverStats,
    first: Callable[[], object] = lambda: None,
    reads: Reads | None = None,
) -> tuple[Any, dict[str, Any]]:
    r"""Compute the state after each sample; return "engine" and "engine_why" too: what ran, and why nothing faster did.

    Args:    problem: xs of a `StochasticStep` with an address, as `discretize.loop.noise.addressed` gives them; counts: where
             calls of the field are counted; first: called before steps are taken one by one, and by no kernel; reads: of a
             caller that takes a `Shown` too.
    Shape:   -> (time, batch, state).
    """

    def along(problem: HeldProblem, look: Callable[[], None]) -> Tensor:
        first()
        return step_along(problem, look, counts.call)

    if isinstance(problem.step, StochasticStep):
        states, ran = _run_noisy(problem, problem.step, fused, along)
    else:
        states, ran = run_sequence(problem, fused, partial(along, problem), reads)
    if ran["engine"] != "steps":  # not of steps that a kernel has taken over from
        counts.evaluations, counts.work = 0, 0
        counts.call(problem.evaluations, len(problem.h0))
    return states, ran


def _run_noisy(
    problem: HeldProblem, step: StochasticStep, fused: Fused, along: Callable[[HeldProblem, Callable[[], None]], Tensor]
) -> tuple[Tensor, dict[str, Any]]:
    field, _, xs, h0, dt, substeps = problem
    own, integral = field.input_size, step.reads_integral
    samples, address, rest = xs[..., :own].to(h0.dtype), xs[..., own : own + ADDRESS], xs[..., own + ADDRESS :]

    def ahead() -> HeldProblem:
        if not rest.shape[-1]:
            laid = given_samples(field, samples, address, dt, substeps, integral)
            return problem._replace(**laid._asdict(), substeps=1)
        drawn = [each.unflatten(-1, (substeps, -1)).transpose(1, 2).flatten(0, 1) for each in rest.chunk(1 + integral, -1)]
        every = torch.cat([samples.repeat_interleave(substeps, 0), *(each.to(samples) for each in drawn)], -1)
        return HeldProblem(GivenIncrements(field, integral), step, every, h0, shared(dt, substeps))

    if is_power_of_two(substeps) and not rest.shape[-1] and h0.dtype not in HALF:
        keyed = keyed_samples(field, xs.to(h0.dtype), dt, substeps, integral)

        def last_of_each(look: Callable[[], None]) -> Tensor:
            return along(ahead(), look)[substeps - 1 :: substeps]

        return run_sequence(problem._replace(field=keyed.field, xs=keyed.xs), fused, last_of_each)
    laid = ahead()
    states, ran = run_sequence(laid, fused, partial(along, laid))
    return states[substeps - 1 :: substeps], ran


def _substeps(lengths: np.ndarray, max_step: float | None) -> int | None:
    """Return the number of steps that every sample takes; None where some take more than others, or none any."""
    if (lengths == (first := float(lengths[0, 0]))).all():
        return num_steps_of(first, max_step) if first > 0 else None
    taken = num_steps(lengths[lengths > 0], max_step)
    return int(taken[0]) if (taken == taken[0]).all() else None


def solve_held(
    field: VectorField,
    xs: Tensor,
    h0: Tensor,
    edges: Tensor,
    settings: Settings,
    seed: Cells | BrownianPath | None,
    check: Callable[[], object],
    plan: Plan | None = None,
) -> tuple[Tensor, dict[str, Any]] | None:
    r"""Solve by steps of one length for the states at the ends of held samples; return the statistics of a solve too.

    Args:    edges: when samples begin and end, increasing, in float64; seed: of a `StochasticStep`; check: refuses a field that
             cannot be stepped; plan: one that fits.
    Shape:   xs (time, batch, input), h0 (batch, state), edges (time + 1,) or (time + 1, batch) -> (time, batch, state).
    Returns: None for other solves, and for one that fails, of which a solve step by step says where.
    """
    step = settings.fixed
    if step is None or settings.gradient is not None or settings.on_attempt is not None or settings.progress:
        return None
    if not len(h0) or h0.dtype in HALF or (isinstance(seed, BrownianPath) and edges.requires_grad):
        return None
    lengths = as_array(intervals := edges.diff(dim=0)).reshape(len(edges) - 1, -1)
    if (substeps := _substeps(lengths, settings.max_step)) is None:
        return None
    durations: float | Tensor = float(lengths[0, 0])  # one number, or (samples, 1, 1), or (samples, batch, 1)
    if edges.requires_grad or (lengths != durations).any():
        durations = intervals.reshape(*lengths.shape, 1).to(h0)
    counts = SolverStats(lengths.shape[1])
    if isinstance(step, StochasticStep):
        assert seed is not None
        xs = addressed(seed, xs, field, step, edges.detach(), substeps)
    problem = HeldProblem(field, step, xs, h0, durations, substeps)
    if plan is not None:
        states, ran = plan.states(field, xs, h0, durations, substeps), {"engine": "compiled", "engine_why": None}
        counts.call(problem.evaluations, len(h0))
    else:
        try:
            states, ran = run_held(problem, settings.fused, counts, check)
        except StepError:
            return None
    if not checks.are_finite(states):
        return None
    if isinstance(durations, float):  # of all samples
        counts.accepted += len(xs) * substeps
        counts.smaller(durations / substeps, float(edges.detach().reshape(-1)[0]))
    else:
        count_steps(counts, lengths, np.full(lengths.shape, substeps), edges.detach())
    return states, counts.stats(str(settings.method)) | ran
