"""Run a discrete cell over a sequence: the discrete twin of `integrate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.autocast import cast_for
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import DelayedField, Settled
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import check_batched_state, check_input
from ctrnn.inputs.samples import checked_samples
from discretize.graphs import whole
from discretize.kernels.eligibility import Fused, is_fused, transform_reason
from discretize.loop.delayed import step_with_past
from discretize.loop.held import run_held
from discretize.loop.noise import addressed
from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import Seed, check_no_seed
from discretize.sequences.cell import DiscreteCell
from discretize.solvers.engine import SolverStats
from discretize.steps.along import HeldProblem
from discretize.steps.stochastic import StochasticStep, check_noise
from discretize.trajectory import Trajectory

__all__ = ["checked_call", "trajectory_of", "unroll"]


@whole
def unroll(
    cell: DiscreteCell, xs: Tensor, h0: Tensor | None = None, fused: Fused = True, seed: Seed | BrownianPath = None
) -> Trajectory:
    r"""h_k+1 = cell(x_k, h_k): the states before and after every sample, one more than sequence modules give.

    `hs[0]` is h0, and `hs[1:]` are the states behind the outputs of `DiscreteRNN(cell.field, cell.step, cell.dt)(xs)`.

        >>> unroll(discretize.DiscreteCell(ctrnn.gru(2, 8)), torch.randn(20, 4, 2)).hs.shape  # with the state at the start
        torch.Size([21, 4, 8])

    Args:    cell: a `DiscreteCell`; xs: samples; h0: the state before the first one, zero if not given; fused: as for
             `DiscreteRNN`, with "engine" and "engine_why" among the `stats`; seed: of the noise, as for `DiscreteRNN`.
    Shape:   xs (time, batch, input), h0 (batch, state) -> ts 0, dt, ..., T dt; hs (T + 1, batch, state), hs[0] = h0.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Tallec and Ollivier 2018, eq. (2).
    """
    xs, h = checked_call(cell, xs, h0)
    between = None
    field, counts = masked(with_computed_weights(cell.field), (xs.shape[1],)), SolverStats()
    if isinstance(cell.step, StochasticStep):
        if transform_reason() is None:  # G may have been 0 before it was learned
            check_noise(cell.field, cell.step)
        given = addressed(seed, xs, field, cell.step, cell.dt * torch.arange(len(xs) + 1, dtype=torch.float64, device="cpu"))
    else:
        check_no_seed(seed)
        given = xs
    problem = HeldProblem(field, cell.step, given, h, cell.dt)
    if isinstance(field, DelayedField):
        edges = cell.dt * torch.arange(len(xs) + 1, dtype=torch.float64, device="cpu")
        states, engine, past = step_with_past(problem, edges, is_fused("fused", fused))
        between = past.between
        counts.call(len(xs) * cell.step.cost(Settled(field)), len(h))
    else:
        states, engine = run_held(problem, is_fused("fused", fused), counts)
    return replace(trajectory_of(cell, field, xs, torch.cat([h[None], states]), counts, engine), between=between)


def checked_call(cell: DiscreteCell, xs: Tensor, h0: Tensor | None) -> tuple[Tensor, Tensor]:
    """Check what a cell is called with; return samples and start, which is zero if not given."""
    if not isinstance(cell, DiscreteCell):
        raise TypeError(f"`cell` must be a discretize.DiscreteCell, got {type(cell).__name__}; make one of your field.")
    field = cell.field
    xs, h0 = cast_for(field, xs), cast_for(field, h0)
    check_input(field, checked_samples(xs), "xs")
    h = xs.new_zeros(xs.shape[1], field.state_size) if h0 is None else h0
    check_batched_state(field, h, xs.shape[1])
    checks.is_finite("h0", h)
    return xs, h


def trajectory_of(
    cell: DiscreteCell, field: VectorField, xs: Tensor, hs: Tensor, counts: SolverStats, ran: dict[str, Any]
) -> Trajectory:
    """Return the run of a cell as a trajectory, hs (T + 1, batch, state); warn if its steps overshoot."""
    if not isinstance(field, DelayedField) and (every := cell.watch.due(cell.step, cell.field, cell.dt, hs[-1], len(xs))):
        cell.watch.look(cell.step, field, xs, hs[0], hs[1:], cell.dt, every)
    counts.accepted += len(xs)
    counts.smaller(cell.dt, 0.0)
    ts = cell.dt * torch.arange(len(hs), dtype=torch.float64, device="cpu")
    return Trajectory(ts, hs, counts.stats(repr(cell.step)) | ran)
