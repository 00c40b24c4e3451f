r"""Measures how a unit's derivative by its own earlier state falls, beside that of a unit that hears of no other.

fall       mean ln |dh_n/dh_0|, over units and sequences
ratio      of it to -(r + 1) int alpha |h|^r over the same states: what the equation of a unit by itself has
stepped    of it to sum ln |1 - (r + 1) alpha |h|^r|: what Euler's step of that equation has; 1 without recurrence
"""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor

import discretize
from ctrnn import PowerDecay, Relaxation, TanhCandidate
from discretize import ContinuousRNN, DecayLaw, DiscreteRNN
from experiments.reports.spreads import spread
from experiments.studies.study import Row
from experiments.tasks.recorded.recordings import Sequences

__all__ = ["MOMENTS", "NO_LAW", "law_numbers", "law_over", "laws_in_words", "recordings_in_pieces", "simplify"]

MOMENTS = {"start": "at the start", "trained": "trained"}  # of a network, at which its memory is measured
NO_LAW = "gone too soon for a law"
WALKING = (0, 1, 2)  # of UCI HAR's six activities; the others are rest


@torch.no_grad()
def simplify(rnn: DiscreteRNN | ContinuousRNN, bias: bool) -> None:
    """Take recurrence away, and the bias too unless it is kept."""
    candidate = rnn.field.candidate if isinstance(rnn.field, Relaxation) else None
    assert isinstance(candidate, TanhCandidate)
    for name, parameter in candidate.named_parameters():
        if name == "weight_h" or not bias:
            parameter.zero_()


def law_over(rnn: DiscreteRNN | ContinuousRNN, xs: Tensor, h0: Tensor) -> Row:
    """Measure how dh_n/dh_0 falls along these sequences, and its ratios to what a unit by itself has.

    Where nothing is left of one of them before a law could be fitted, the row says `NO_LAW` and has no numbers.
    """
    norms = discretize.state_jacobians(rnn, xs, h0, fixed="start", order="units").flatten(1)
    try:
        law = discretize.decay_law(norms)
    except ValueError:
        if not bool(norms.isfinite().all()):
            raise
        return {"law": NO_LAW}  # a step that takes 1/(r + 1) of a unit's leak or so leaves nothing of its derivative
    last = law.fitted - 1  # what is later is rounding
    fall, (solved, stepped) = norms[last].log().mean(), _alone(rnn, xs[:last], h0)
    return {**law_numbers(law), "ratio": float(fall / solved), "stepped": float(fall / stepped)}


def law_numbers(law: DecayLaw) -> Row:
    """Write a law and how far it is bent as columns of a row."""
    return {"law": law.name, "bend": law.bend, "low": law.interval[0], "high": law.interval[1], "decay_rate": law.rate}


def laws_in_words(rows: pd.DataFrame) -> str:
    """Write every law that was found over the seeds: "exponential, κ 0.02 (0.01–0.04)"."""
    found, names = rows["bend"].dropna(), ", ".join(rows["law"].value_counts().index)
    return f"{names}, κ {spread(found)}" if len(found) else names


@torch.no_grad()
def _alone(rnn: DiscreteRNN | ContinuousRNN, xs: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the fall of a unit by itself, by the equation and by Euler's step; means over units and sequences."""
    field = rnn.field
    assert isinstance(field, Relaxation)
    r = field.decay.exponent if isinstance(field.decay, PowerDecay) else 0.0
    hs = torch.cat([h0[None], rnn(xs, h0[None])[0][:-1]])
    slope = (r + 1) * field.rate(xs, hs) * field.decay.leak(hs)
    return -slope.sum(0).mean(), (1 - slope).abs().log().sum(0).mean()


def recordings_in_pieces(found: Sequences, walking: bool, count: int) -> tuple[Tensor, Tensor]:
    r"""Find windows of people who walk or rest, and those that begin where they end: (time, count, feature) each.

    Windows follow one another by half their length; two that do share that half, to the bit.

    Raises:  ValueError where there are fewer.
    """
    xs, half = found.xs, len(found.xs) // 2
    follows = (xs[half:, :-1] == xs[:half, 1:]).all(2).all(0)
    same = torch.isin(found.labels, torch.tensor(WALKING)) == walking
    firsts = (follows[:-1] & follows[1:] & same[:-2] & same[1:-1] & same[2:]).nonzero()[:, 0]
    if len(firsts) < count:
        raise ValueError(f"{count} windows that others go on from are needed, {len(firsts)} are there.")
    chosen = firsts[torch.linspace(0, len(firsts) - 1, count).round().long()]
    return xs[:, chosen].double(), xs[:, chosen + 2].double()
