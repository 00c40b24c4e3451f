"""Looks at a trained model on data: runs it as it is, by shorter and other steps, and solved, and follows its differences."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from ctrnn.fields.delayed import DelayedField
from discretize.analysis.breakdown.held import fates
from discretize.analysis.breakdown.modes import modes_along
from discretize.analysis.breakdown.moments import moments
from discretize.analysis.breakdown.report import Breakdown
from discretize.analysis.breakdown.scores import Metric, Scores, as_metric, number_of, scores
from discretize.analysis.breakdown.substitutes import STEPS, own_steps, substitutes
from discretize.analysis.breakdown.taken import StepsTaken, watched
from discretize.analysis.refine import (
    ATOL,
    FINER,
    Call,
    evaluated,
    refined_and_held,
    run_with,
    solved,
    solved_size,
    stepped_parts,
)
from discretize.errors import SolverWarning, StepWarning
from discretize.methods import checked_method
from discretize.sequences.batches import Batch
from discretize.sequences.rnn import DiscreteRNN

__all__ = ["breakdown"]

SUBSTEPS = (1, 2, 4)  # of other steps
RTOL = 1e-8  # of the solution


@torch.no_grad()
def breakdown(
    model: nn.Module,
    batch: Batch | Tensor | PackedSequence | tuple[Any, ...],
    targets: Any = None,
    metric: Callable[..., float] | None = None,
    halvings: int = 4,
    steps: str | Sequence[str] = STEPS,
) -> Breakdown:
    r"""Say of a trained model whether it is its equation on data, or one that its step makes.

    Its weights stay. It is run as it is, with steps of dt/2, dt/4, ..., solved, and under other steps; small differences are
    followed along the data, and what becomes of states while the last inputs are held. Of a field with noise shorter steps alone
    are compared, along the same paths; of one with delays no differences are followed.

    Args:    model: a `DiscreteRNN`, or a module with some in it; batch: a `Batch`, or what it is called with, a tuple where that
             is several things; targets: what the metric compares with, of a `Batch` its own; metric: metric(outputs, targets) ->
             a number, or that and the same of each sequence (batch,), or metric(outputs) without targets; if not given, whole
             numbers mean accuracy, of outputs (..., classes), others the mean squared error, where a `Batch` counts, and at the
             last sample of each sequence where its targets are of sequences; halvings: of the step, see `refine`; steps: names
             of others to run the weights under.
    Returns: a `Breakdown`.
    Raises:  TypeError, ValueError for what cannot be looked at so; SolverError where the equation has no solution on the data.
    Source:  docs/derivations.md, results 3 and 6; Trefethen and Embree 2005, Spectra and Pseudospectra, ch. 14, for growth.
    """
    parts, named = stepped_parts(model), dict[str, Any]()
    whole = batch if isinstance(batch, Batch) else None
    if isinstance(batch, Batch):
        targets = batch.targets if targets is None else targets
        named = {name: value for name, value in (("ts", batch.ts), ("lengths", batch.lengths)) if value is not None}
        data: tuple[Any, ...] = (batch.xs,)
    else:
        data = batch if isinstance(batch, tuple) and not isinstance(batch, PackedSequence) else (batch,)
    score = as_metric(targets, metric, whole, padded="lengths" in named or len(data) > 2)
    others = [steps] if isinstance(steps, str) else list(steps)
    for name in others:
        checked_method(name, "steps")
    with warnings.catch_warnings(), evaluated(model):
        warnings.simplefilter("ignore", StepWarning)
        warnings.simplefilter("ignore", SolverWarning)  # of states below `atol`, which is in their size here
        return _look(parts, partial(model, *data, **named), score, partial(scores, score, targets, whole), halvings, others)


def _look(
    parts: list[DiscreteRNN],
    call: Call,
    metric: Metric | None,
    by_sequence: Callable[..., Scores],
    halvings: int,
    steps: list[str],
) -> Breakdown:
    first, score = parts[0], None if metric is None else number_of(metric)
    dice, noisy = torch.get_rng_state(), any(part.noisy for part in parts)
    follows = not noisy and not isinstance(first.field, DelayedField)  # a small difference: it has no past
    with watched(first) if follows else nullcontext(StepsTaken()) as taken:
        stepped, answered = run_with(parts, call, dice, over_time=True)
    size = solved_size(parts, call, dice, stepped[0])
    atol = ATOL * (size or 1.0)
    torch.set_rng_state(dice)
    refinement, held = refined_and_held(parts, call, score, halvings, RTOL, atol)
    with solved(parts, RTOL, atol, FINER << halvings):
        exact, right = run_with(parts, call, dice, over_time=True)
    if not refinement.spread:  # all states are one, whose size is known
        refinement = replace(refinement, spread=size)
    others, spread = own_steps(parts, refinement), refinement.spread
    if not noisy:
        others += substitutes(parts, call, exact, spread, score, steps, SUBSTEPS, dice)
    off = ((stepped[0] - exact[0]).double() / (spread or 1.0)).square()
    off = off.nan_to_num(math.inf).masked_fill(exact[0].isnan(), math.nan)  # what left all bounds, and what is over
    found = None if held is None else fates(held, copy.deepcopy(first.field).double(), first, spread)
    g_dt, above = _of_rates(taken)
    return Breakdown(
        step=repr(first.step),
        refinement=refinement,
        g_dt=g_dt,
        above=above,
        modes=modes_along(first.field, first.step, taken.places),
        others=tuple(others),
        over_time=off.nanmean((1, 2)).sqrt(),
        by_unit=off.nanmean((0, 1)).sqrt(),
        by_sequence=off.nanmean((0, 2)).sqrt(),
        held=None if found is None else (tuple(found[0]), tuple(found[1])),
        scores=by_sequence((answered, right), exact[0].shape, first.batch_first),
        noise=moments(first, call, halvings, exact[0], dice) if noisy else None,
        modules=len(parts),
    )


def _of_rates(taken: StepsTaken) -> tuple[Tensor | None, Tensor | None]:
    """Return the largest g dt over sequences, and the shares of a unit's steps above 1 and 2; None where no rate is declared."""
    g_dt = torch.stack(taken.g_dt) if taken.g_dt else torch.zeros(1, 1, 1, device="cpu")
    if not bool((g_dt.nan_to_num(0.0) != 0).any()):
        return None, None
    live = ~g_dt.isnan()
    above = [((g_dt > limit) & live).sum((0, 1)) / live.sum((0, 1)).clamp(min=1) for limit in (1.0, 2.0)]
    return g_dt.nan_to_num(-math.inf).amax(1), torch.stack(above, 1)
