"""Run the same weights under other steps: how far states are from the equation's, the score, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discretize.analysis.breakdown.taken import stepping
from discretize.analysis.refine import Call, refined, root_mean_square, run_with
from discretize.analysis.refinement import Refinement
from discretize.errors import SolverError, StepError
from discretize.methods import checked_method
from discretize.sequences.rnn import DiscreteRNN

__all__ = ["STEPS", "Substitute", "own_steps", "substitutes"]

REFUSED = (SolverError, StepError, TypeError, ValueError, NotImplementedError)  # the last by torch, of half precision
STEPS = ("euler", "exponential-euler", "frozen-backward-euler", "backward-euler", "runge-kutta4")


@dataclass(frozen=True)
class Substitute:
    """Describes a step under a model's weights, taken so many times in a sample.

    `substeps`: of a model's first module; `share`: how far its states are from the equation's, as a share of their spread;
    `score`: the metric; `evaluations`: of the field in a sample; `refused`: why it does not go, else empty.
    """

    step: str
    substeps: int
    share: float
    score: float | None
    evaluations: int
    refused: str = ""


def own_steps(parts: list[DiscreteRNN], refinement: Refinement) -> list[Substitute]:
    """Return what a refinement knows of a model's own steps, more and more of them."""
    cost, name = sum(part.step.cost(part.field) * part.substeps for part in parts), ", ".join({repr(part.step) for part in parts})
    scores = refinement.metrics or (None,) * len(refinement.substeps)
    spread, before = refinement.spread, parts[0].substeps
    return [
        Substitute(name, before * n, _share(off, spread), score, cost * n)
        for n, off, score in zip(refinement.substeps, refinement.drift, scores, strict=True)
    ]


def substitutes(
    parts: list[DiscreteRNN],
    call: Call,
    exact: list[Tensor],
    spread: float,
    metric: Callable[[Any], float] | None,
    steps: Sequence[str],
    substeps: Sequence[int],
    dice: Tensor,
) -> list[Substitute]:
    """Run a call under each of the steps but its own; exact: the states of each part under the equation, as `run_with` has them
    over time; spread: of these."""
    fields = []
    for name in steps:
        step = checked_method(name, "steps")
        if all(repr(part.step) == repr(step) for part in parts):
            continue
        for n in substeps[:1] if step.jacobians else substeps:  # iterations of implicit steps are dear
            try:
                for part in parts:
                    DiscreteRNN(part.field, step, allow_overshoot=True)  # refuses what does not go together
                cost = sum(step.cost(part.field) * part.substeps * n for part in parts)
                with ExitStack() as within, torch.no_grad():
                    for part in parts:
                        within.enter_context(stepping(part, step))
                    within.enter_context(refined(parts, n))
                    states, result = run_with(parts, call, dice, over_time=True)
            except REFUSED as error:
                fields.append(Substitute(name, parts[0].substeps * n, math.nan, None, 0, str(error).split("\n")[0]))
                continue
            off = root_mean_square([(a - b)[~b.isnan()].double() for a, b in zip(states, exact, strict=True)])
            score = None if metric is None else float(metric(result))
            fields.append(Substitute(name, parts[0].substeps * n, _share(off, spread), score, cost))
    return fields


def _share(off: float, spread: float) -> float:
    """Return a distance as a share of the spread; of states that are all 0 none, or without bound."""
    return off / spread if spread else math.inf if off else 0.0
