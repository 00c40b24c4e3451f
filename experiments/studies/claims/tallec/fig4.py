r"""Repeats figure 4 of Tallec and Ollivier 2018: how soon an LSTM learns to add two numbers far apart, by how its gates start.

    standard   b_f = 1                                  chrono    b_f = log u, b_i = -b_f, u uniform on 1 .. T - 1        eq. (16)
    constant   b_f = log(u - 1), b_i = -b_f, u = T/2, the middle of chrono's times, in every unit: as large, but not spread

    speed      steps until the mean squared error on held-out sequences is at most m, for the smallest m of 0.01, 0.02, 0.05
               and 0.1 that every chrono run reaches; without memory it is 1/6

A run that never gets there has taken more steps than it was given, and so counts as faster than it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, number, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.training import learning_curve, started, steps_in_words, steps_to, thinned
from experiments.studies.results import Results, groups
from experiments.studies.specs import Bands, Table, at_end, run_count
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict

__all__ = ["ERRORS", "SOLVED", "SPEEDUP", "STARTS", "TallecFigure4"]

STARTS = ("standard", "constant", "chrono")
ERRORS = (0.01, 0.02, 0.05, 0.1)
SOLVED = ERRORS[0]
SPEEDUP = 2.0  # "significantly"
AT_RATE = "at the learning rate 1e-3"  # the printed one, for all starts
SHORTEST = 200  # of the T's that are printed
LONG, PRINTED = 750, 7.0  # "7 times faster for T = 750"


@dataclass(frozen=True)
class Race:
    """Compares another start with chrono at one T, to the smallest error that every chrono run reaches; None if there is none."""

    name: str
    other: pd.DataFrame
    chrono: pd.DataFrame

    @cached_property
    def error(self) -> float | None:
        return next((error for error in ERRORS if not steps_to(self.chrono, error)["late"].any()), None)

    @cached_property
    def ratio(self) -> float:
        if self.error is None:
            return 0.0
        other, chrono = (spread(steps_to(rows, self.error)["steps"]) for rows in (self.other, self.chrono))
        return other.mean / chrono.mean

    @property
    def significant(self) -> bool:
        """Return whether every chrono run comes first, and so many times sooner, or none other to the largest error."""
        if self.error is None:
            return False
        other, chrono = (steps_to(rows, self.error) for rows in (self.other, self.chrono))
        first = chrono["steps"].max() < other.loc[~other["late"], "steps"].min() or other["late"].all()
        return bool(first and (self.ratio >= SPEEDUP or steps_to(self.other, ERRORS[-1])["late"].all()))

    @property
    def times(self) -> str:
        late = self.error is not None and bool(steps_to(self.other, self.error)["late"].any())
        return f"{'more than ' if late else ''}{number(self.ratio, 2)} times"

    def __str__(self) -> str:
        if self.error is None:
            return f"not every chrono run comes to an error of {ERRORS[-1]}"
        steps = f"chrono {_steps(self.chrono, self.error)} steps, {self.name} {_steps(self.other, self.error)}"
        return f"to an error of {self.error}: {steps}, {self.times}"


def _steps(rows: pd.DataFrame, error: float) -> str:
    return steps_in_words(steps_to(rows, error))


class TallecFigure4(Study):
    """Trains LSTMs on the adding task, with forget biases of 1, with one large one for all, and with chrono initialization."""

    name = "tallec-fig4"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 40, "paper": 650}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, steps={12: 40}, every=10, held_out=100, seeds=1),
        "small": Sizes(hidden=64, steps={200: 16_000, 150: 8000, 100: 4800, 50: 4800}, every=100, held_out=500, seeds=3),
        "paper": Sizes(hidden=128, steps={750: 20_000, 200: 20_000}, every=100, held_out=1000, seeds=3),
    }
    tables = (
        Table(
            "Steps until an error on held-out sequences, mean (least–largest) over runs, and the error at the end. A run that "
            "did not get there counts with the steps that it was given.",
            by={"T": "T", "start": "start"},
            columns={
                **{f"steps to {error}": partial(_steps, error=error) for error in ERRORS},
                "error at the end": at_end("loss at the end"),
                "runs": run_count,
            },
            data=lambda results: results.rows_with("loss"),
            sort=lambda T, start: (T, start),
        ),
    )
    figures: ClassVar = {
        "curves": Bands(
            "Mean squared error on held-out sequences while learning: the mean over runs, a band from least to largest, "
            "and the error of saying 1 always.",
            x="step",
            y="loss",
            panels=("T", "T = {}"),
            lines=("start", STARTS),
            data=lambda results: thinned(results.rows, ["T", "start"]),
            x_label="steps",
            y_label="mean squared error",
            y_limits=(0.0, 0.2),
            levels={"without memory": 1 / 6},
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), T=sizes.steps, start=reversed(STARTS))

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        T = point["T"]
        model = {"field": "lstm", "integrator": "euler", "hidden": sizes.hidden, "alpha": 2 / T, **started(point["start"], T)}
        training = {"steps": sizes.steps[T], "batch": 50, "evaluate_every": sizes.every, "evaluation": sizes.held_out}
        return shared_configuration(task="adding", T=T, **model, **training, seed=point["seed"])

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Read the learning curve: what the evaluations found on the way."""
        return learning_curve(folder)

    def headline(self, record: Record) -> str:
        at = next((row["step"] for row in record["rows"] if row["loss"] <= SOLVED), None)
        return f"error {number(record['measures']['loss'])}" + (f", at most {SOLVED} from step {at} on" if at else "")

    def verdict(self, results: Results) -> ClaimVerdict:
        runs = groups(results.rows, ["T", "start"])
        pairs = {
            (T, start): Race(start, rows, runs[T, "chrono"])
            for (T, start), rows in sorted(runs.items())
            if start != "chrono" and (T, "chrono") in runs
        }
        standard = {T: race for (T, start), race in pairs.items() if start == "standard"}
        constant = {T: race for (T, start), race in pairs.items() if start == "constant"}
        if not standard:
            raise NotEnoughError("no T has both a standard and a chrono run yet")
        short = {T: race for T, race in standard.items() if T < SHORTEST}
        parts = [
            _sooner(
                f"{AT_RATE}, chrono significantly speeds up learning", {T: race for T, race in standard.items() if T >= SHORTEST}
            ),
            *([_sooner("it does so at shorter T too", short)] if short else []),
            _sooner(
                "one large bias for all units would not do",
                {T: race for T, race in constant.items() if T >= SHORTEST},
            ),
            ClaimPart(
                f"{PRINTED:g} times faster at T = {LONG}",
                standard[LONG].ratio >= PRINTED if LONG in standard else None,
                standard[LONG].times if LONG in standard else f"no run has T = {LONG}",
            ),
        ]
        numbers = {
            f"steps, T = {T}, {start}": _steps(rows, race.error or ERRORS[-1])
            for T, race in standard.items()
            for start in STARTS
            if (rows := runs.get((T, start))) is not None
        }
        return ClaimVerdict(parts, numbers)


def _sooner(claim: str, races: Mapping[int, Race]) -> ClaimPart:
    held = all(race.significant for race in races.values()) if races else None
    return ClaimPart(claim, held, "; ".join(f"T = {T}, {race}" for T, race in races.items()) or "no run has such a T")
