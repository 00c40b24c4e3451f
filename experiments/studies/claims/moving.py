r"""Compresses time while symbols move: what is lost to the step, and what to the samples.

    input      2 sin^2(pi v) of a symbol, v from 0 to 1 of its time; a sample is its mean, held: another function on each clock
    exact      loses what the samples lose          Taylor step     that, and what the step adds

Trained and tested as `compressed`, whose symbols are held: there the exact model sees one function on all clocks.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, number
from experiments.runs.configuration import Configuration
from experiments.studies.claims.compressed import AT_CLOCKS, CLOCKS, KEPT, LOST, TRAINED, Compressed
from experiments.studies.clocks.accuracies import accuracy_cell, accuracy_figure, difference_between_clocks, span
from experiments.studies.clocks.rollout import INTEGRATORS, WAYS
from experiments.studies.results import Results, where
from experiments.studies.specs import Drawing, Table, across, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.tasks.warps.clocked import ClockedRecall, MovingRecall

__all__ = ["MovingSymbols"]

BEYOND = tuple(c for c in CLOCKS if c > 1)
SAME = 0.02  # of accuracy


class MovingSymbols(Study):
    """Trains gated models on slow and fast clocks, of symbols that rise and fall, and runs them on all in three ways."""

    name = "moving-symbols"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 5, "paper": 700}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=12, characters=4, steps=12, rate=4e-3, sequences=16, seeds=1, on=["slow"]),
        "small": Sizes(hidden=48, characters=10, steps=400, rate=4e-3, sequences=128, seeds=3, on=["slow", "fast"]),
        "paper": Sizes(hidden=128, characters=20, steps=2000, rate=2e-3, sequences=512, seeds=5, on=list(TRAINED)),
    }
    may_diverge = True
    tables = (
        Table(
            "Accuracy at the last sample of each symbol; × where numbers were no longer finite.",
            by={"trained": "trained", "on": "on", "run as": "way"},
            columns=across("clock", AT_CLOCKS, accuracy_cell),
            words=WAYS,
            data="rows",
        ),
        Table(
            "Run exactly: the largest difference of a state, at the end of a symbol, from that at c = 1.",
            by={"trained": "trained", "on": "on"},
            columns=across("clock", AT_CLOCKS, "states"),
            words=WAYS,
            data=only(way=EXACT),
        ),
    )
    figures: ClassVar = {
        "accuracy": Drawing(
            "Symbols that rise and fall, sigmoid gates, given the clock: accuracy over clocks c, weights trained in one way "
            "(rows) on shaded clocks and run in three. The dashed line is what is said without memory.",
            lambda results: accuracy_figure(results, True, "sigmoid", TRAINED),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        axes = {"clock_given": [True], "rate": ["sigmoid"], "on": sizes.on, "trained": INTEGRATORS}
        return [{**point, "seed": seed} for seed in range(sizes.seeds) for point in grid(**axes)]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        held = Compressed().configuration(point, sizes)
        assert isinstance(held.task, ClockedRecall)
        training = dataclasses.replace(held.training, threads=1)
        return dataclasses.replace(held, task=MovingRecall(**vars(held.task)), training=training)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        return Compressed().measure(run, model, folder)

    def verdict(self, results: Results) -> ClaimVerdict:
        def at(trained: str, on: str, way: str) -> pd.DataFrame:
            found = where(results.rows, trained=trained, on=on, way=way)
            if found.empty:
                raise NotEnoughError(f"a model trained on {on} clocks is needed, {WAYS[trained]}.")
            return found

        exact, taylor, same = at(EXACT, "slow", EXACT), at("euler", "slow", "euler"), at("euler", "slow", EXACT)
        if exact[exact["clock"].isin(TRAINED["slow"])]["accuracy"].max() < KEPT:
            raise NotEnoughError(f"no model has learned the task (the best accuracy is {number(exact['accuracy'].max())}).")
        parts = [
            ClaimPart(
                f"trained and run exactly on {on} clocks, models keep their accuracy on every clock",
                keeps(found),
                f"{span(found)}; states differ from those at c = 1 by up to {number(found['states'].max(), 2)}, where held "
                "symbols would leave the same",
            )
            for on in ("slow", "fast")
            if len(found := where(results.rows, trained=EXACT, on=on, way=EXACT))
        ]
        apart, _ = difference_between_clocks(results.rows)
        parts.append(
            ClaimPart(
                "as of held symbols, whatever weights are run exactly have one accuracy on all clocks",
                apart <= SAME,
                f"it differs by up to {number(apart, 2)}",
            )
        )
        stretched, fastest = taylor[taylor["clock"] <= 1], where(taylor, clock=CLOCKS[-1])
        parts += [
            ClaimPart(
                "Taylor steps keep it where time is stretched and lose it where it is compressed",
                keeps(stretched) and bool(fastest["accuracy"].max() <= LOST),
                f"{span(stretched)} up to c = 1, {', '.join(f'{span(where(taylor, clock=c))} at c = {c:g}' for c in BEYOND)}",
            ),
            ClaimPart("it is the step that loses it: run exactly, the same weights keep it", keeps(same), span(same)),
        ]
        return ClaimVerdict(parts)


def keeps(rows: pd.DataFrame) -> bool:
    return bool(rows["accuracy"].min() >= KEPT)
