r"""Tries the rates of every network of `ctrnn-steps`, by a seed that is used for nothing else.

ctrnn study run ctrnn-steps-rates --scale paper --out DIR
python -m experiments.studies.claims.time_steps.rates DIR        writes rates.csv
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from discretize import SequenceModel
from experiments.studies.claims.time_steps.design import (
    RATES_TRIED,
    SAMPLED,
    SLOW,
    TABLE,
    TASKS,
    TUTORIAL,
    DesignCell,
    configured,
    networks,
)
from experiments.studies.claims.time_steps.tables import NAMES, OTHER_STEPS
from experiments.studies.claims.training import learning_curve
from experiments.studies.folder import records_in
from experiments.studies.results import Results
from experiments.studies.specs import Table, across
from experiments.studies.study import Point, Row, Run, Sizes, Study, scales, words_beside
from experiments.studies.verdicts import NoVerdict

__all__ = ["StepRates"]

SEED = 100


class StepRates(Study):
    """Trains each network at three rates; the least validation loss says which one it learns at in `ctrnn-steps`."""

    name = "ctrnn-steps-rates"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.2, "small": 10, "paper": 30}
    sizes: ClassVar = scales(
        hidden=(8, 64, 64),
        steps=(3, 800, 2000),
        batch=(8, 64, 64),
        sequences=(16, 512, 512),
        rate=(3e-3,) * 3,
        rates=(RATES_TRIED[:1], RATES_TRIED, RATES_TRIED),
        tasks=(("rhythm",), ("rhythm", "flip-flop"), TASKS),
    )
    tables = (
        Table(
            "Validation loss after the training, one seed.",
            by={"task": "task", "units": "units", "step": "step", "dt/τ": "dt"},
            columns=across("rate", {f"rate {rate:g}": rate for rate in RATES_TRIED}, "loss"),
            data="rows",
            words=NAMES | OTHER_STEPS,
        ),
    )

    def points(self, sizes: Sizes) -> list[Point]:
        return [
            {**network._asdict(), "rate": rate, "seed": SEED}
            for network in networks(sizes.tasks)
            if network.units not in (SAMPLED, SLOW, TUTORIAL)
            for rate in sizes.rates
        ]

    def configuration(self, point: Point, sizes: Sizes) -> object:
        return configured(point, sizes)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        return [{"loss": learning_curve(folder)[-1]["loss"]}]

    def verdict(self, results: Results) -> NoVerdict:
        rows = results.rows
        best = rows.loc[rows.groupby(list(DesignCell._fields))["loss"].idxmin()]["rate"].value_counts().sort_index()
        found = ", ".join(f"{count} at {rate:g}" for rate, count in best.items())
        said = "By the validation loss of one seed, of which no interval is known, so many networks have their best at each rate"
        return NoVerdict("No verdict", f"{said}: {found}. It is a choice, and no claim.", final=True)


def main(folder: Path) -> None:
    """Write the table of the losses that a folder of this study has."""
    rows = Results(records_in(folder)[1]).rows.drop(columns=["key", "seed"]).round({"loss": 6})
    rows.to_csv(TABLE, index=False, float_format="%.6g")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
