r"""Compresses time: where the Taylor step of a gated model breaks, and what is left of the exact one.

    dh/dt = g(x, h) (f(x, h) - h)       a symbol takes tau units of own time; at clock c it is held for 16 / c samples
    g dt    dt = c' = tau c / 16 units of own time a sample, where the clock is given to the model; 1, where it is not

Trained on slow clocks and tested on fast ones, and the other way round; by the Taylor step, by exponential Euler and exactly; and
every model is then run in all three ways on the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, number
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.seeds import generator
from experiments.studies.claims.training import by_adam
from experiments.studies.clocks.accuracies import (
    accuracy_cell,
    accuracy_figure,
    difference_between_clocks,
    g_dt_cell,
    g_dt_figure,
    given,
    held_and_lost,
    moved_numbers,
    not_given,
    run_as_trained,
    span,
)
from experiments.studies.clocks.figures import clock_words
from experiments.studies.clocks.rollout import INTEGRATORS, RATES, WAYS, Rollout, largest_magnitude, roll_out, ways_of
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Drawing, Table, across
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, scales, summary_of, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.tasks.task import Batch, said_right
from experiments.tasks.warps.clocked import ClockedRecall

__all__ = ["AT_CLOCKS", "CLOCKS", "KEPT", "LOST", "TRAINED", "Compressed", "on_clocks"]

CLOCKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TRAINED = {"slow": (0.5, 1.0), "unit": (4.0,), "fast": (8.0, 16.0)}
KEPT, LOST = 0.9, 0.5  # accuracies that count as such
ACCURACY = "accuracy at the last sample of each symbol; × where numbers were no longer finite."
AT_CLOCKS = {f"c = {clock_words(c)}": c for c in CLOCKS}


GIVEN = Table(
    f"Given the clock: {ACCURACY}",
    by={"rate": "rate", "trained": "trained", "on": "on", "run as": "way"},
    columns=across("clock", AT_CLOCKS, accuracy_cell),
    words=WAYS,
    data=given,
)


class Compressed(Study):
    """Trains gated models on slow and on fast clocks, and runs them on all of them, in three ways on the same weights."""

    name = "compressed"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.4, "small": 30, "paper": 2400}
    sizes: ClassVar = scales(
        hidden=(12, 48, 128),
        characters=(4, 10, 20),
        steps=(12, 400, 2000),
        rate=(4e-3, 4e-3, 2e-3),
        sequences=(16, 128, 512),
        seeds=(1, 5, 5),
        integrators=(("euler", EXACT), INTEGRATORS, INTEGRATORS),
        given=({"rate": ["sigmoid"], "on": ["slow", "fast"]}, {"rate": RATES, "on": TRAINED}, {"rate": RATES, "on": TRAINED}),
        not_given=(
            {"rate": ["sigmoid"], "on": ["fast"]},
            {"rate": ["sigmoid", "softplus"], "on": ["slow", "fast"]},
            {"rate": RATES, "on": ["slow", "fast"]},
        ),
    )
    may_diverge = True
    tables = (
        GIVEN,
        replace(GIVEN, caption=f"Not given the clock: {ACCURACY}", data=not_given),
        Table(
            "Given the clock, run as trained: largest c′g met, and the median.",
            by={"rate": "rate", "trained and run": "trained", "on": "on"},
            columns=across("clock", AT_CLOCKS, g_dt_cell),
            words=WAYS,
            data=lambda results: run_as_trained(given(results)),
        ),
    )
    figures: ClassVar = {
        "clock-given-sigmoid": Drawing(
            "Sigmoid gates, given the clock: accuracy over clocks c, weights trained in one way (rows) on shaded "
            "clocks and run in three. The dashed line is what is said without memory.",
            lambda results: accuracy_figure(results, True, "sigmoid", TRAINED),
        ),
        "clock-given-softplus": Drawing(
            "The same with rates softplus(z), which have no largest one.",
            lambda results: accuracy_figure(results, True, "softplus", TRAINED),
        ),
        "clock-hidden-sigmoid": Drawing(
            "Sigmoid gates that are not given the clock.", lambda results: accuracy_figure(results, False, "sigmoid", TRAINED)
        ),
        "g-dt": Drawing(
            "All weights, given the clock, that run exactly keep 0.9 on every clock: accuracy on each clock against the "
            "largest c′ g of the exact run there. Dashed: 1 and 2, where a Taylor step begins to overshoot and to diverge.",
            lambda results: g_dt_figure(given(results), KEPT),
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        each = [*grid(clock_given=[True], **sizes.given, trained=sizes.integrators)]
        each += grid(clock_given=[False], **sizes.not_given, trained=sizes.integrators)
        return [{**point, "seed": seed} for seed in range(sizes.seeds) for point in each]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        known = point["clock_given"]
        task = {"task": "clocked-recall", "clocks": TRAINED[point["on"]], "clock_given": known, "characters": sizes.characters}
        model = {"field": RATES[point["rate"]], "integrator": point["trained"]}
        return by_adam(point, sizes, **task, counted="last" if known else "all", **model)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, ClockedRecall)
        batches = on_clocks(task, CLOCKS, training)
        ways = ways_of(model)
        reference = roll_out(ways[EXACT], batches[1.0], task.own_time(1.0))
        return [
            {"way": name, "clock": clock, **_row(task, clock, batch, roll_out(way, batch, task.own_time(clock)), reference)}
            for name, way in ways.items()
            for clock, batch in batches.items()
        ]

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = given(results)
        exact = where(rows, trained=EXACT, on="slow", way=EXACT)
        taylor = where(rows, trained="euler", on="slow", way="euler")
        if exact.empty or taylor.empty:
            raise NotEnoughError("a model trained by Euler steps and one trained exactly, on slow clocks, are needed.")
        both = pd.concat([exact, taylor])
        if both[both["clock"].isin(TRAINED["slow"])]["accuracy"].max() < KEPT:
            best = number(both["accuracy"].max())
            raise NotEnoughError(f"no model has learned the task (the best accuracy is {best}); a larger scale decides.")
        stretched, fastest = taylor[taylor["clock"] <= 1], taylor[taylor["clock"] == taylor["clock"].max()]
        change, states = difference_between_clocks(rows)
        breaks = fastest["accuracy"].max() <= LOST
        keeps = exact["accuracy"].min() >= KEPT and change <= 0.02
        parts = [
            ClaimPart(
                "Taylor steps break where time is compressed, the exact model, by the theorem, does not", bool(breaks and keeps)
            ),
            ClaimPart(
                "Taylor steps break there, not where it is stretched", bool(breaks and stretched["accuracy"].min() >= KEPT)
            ),
        ]
        held, lost = held_and_lost(rows, KEPT, LOST)
        hidden = run_as_trained(not_given(results))
        ends = sorted({hidden["clock"].min(), hidden["clock"].max()}) if len(hidden) else []
        summary = summary_of(
            "compressed",
            rows=rows,
            exact=exact,
            stretched=stretched,
            fastest=fastest,
            last=fastest["clock"].iloc[0],
            held=held,
            lost=lost,
            change=change,
            hidden=hidden,
            ends=ends,
            span=span,
            where=where,
            groups=groups,
        )
        numbers: dict[str, float | int | str] = {
            "exact, clock given: largest difference of accuracy between clocks": change,
            "exact, clock given: largest difference of a state between clocks": states,
            "Taylor steps, clock given: c′g on the fastest clock with an accuracy of 0.9, median of models": median_of(held),
            "Taylor steps, clock given: c′g on the first faster one with at most 0.5": median_of(lost),
            **moved_numbers(rows, TRAINED),
            "trainings that diverged": len(results.diverged),
        }
        return ClaimVerdict(parts, numbers, summary)


def on_clocks(task: ClockedRecall, clocks: Sequence[float], training: TrainingSettings) -> dict[float, Batch]:
    """Draw test sequences on each clock: from the same generator, so of the same symbols."""
    return {c: task.at(c, "all").batch(training.evaluation, generator(training.seed, "clocks"), "test") for c in clocks}


def median_of(found: pd.Series) -> float | str:
    return float(found.median()) if len(found) else "none"


def _row(task: ClockedRecall, clock: float, batch: Batch, found: Rollout | None, reference: Rollout | None) -> Row:
    """Measure what one way of running gives on one clock, beyond its first symbol, which has none before it."""
    if found is None:
        return {"finite": False, "accuracy": 0.0, "accuracy_all": 0.0, **dict.fromkeys(("loss", "largest", "median", "states"))}
    held = task.held(clock)
    ends = slice(2 * held - 1, None, held)
    answers = said_right(found.outputs, batch.targets).float()
    loss = torch.nn.functional.cross_entropy(found.outputs[ends].flatten(0, 1), batch.targets[ends].flatten())
    apart = None
    if reference is not None and task.clock_given:
        every = task.held(1.0)
        apart = largest_magnitude(found.states[held - 1 :: held] - reference.states[every - 1 :: every])
    return {
        "finite": found.finite,
        "accuracy": float(answers[ends].mean()),
        "accuracy_all": float(answers[held:].mean()),
        "loss": float(loss) if bool(loss.isfinite()) else None,
        "largest": largest_magnitude(found.g_dt),
        "median": float(found.g_dt.nanmedian()) if found.finite else None,
        "states": apart,
    }
