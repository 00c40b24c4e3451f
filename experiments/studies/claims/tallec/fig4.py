r"""Repeats figure 4 of Tallec and Ollivier 2018: how soon an LSTM learns to add two numbers far apart, by how its gates start.

    standard   b_f = 1                                  chrono    b_f = log u, b_i = -b_f, u uniform on 1 .. T - 1        eq. (16)
    constant   b_f = log(u - 1), b_i = -b_f, u = T/2, the middle of chrono's times, in every unit: as large, but not spread

    speed      steps until the mean squared error on held-out sequences is at most m, for the smallest m of 0.01, 0.02, 0.05
               and 0.1 that every chrono run reaches; without memory it is 1/6
    lead       log2(steps of another start) - log2(steps of chrono), means over seeds

A run that never gets there has taken more steps than it was given, and so counts as faster than it is: a lead over such runs is
longer than measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, at_least, at_most, difference, number
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.training import learning_curve, started, steps_in_words, steps_to, thinned
from experiments.studies.results import Results, groups
from experiments.studies.specs import Bands, Table, at_end, run_count
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared

__all__ = ["ERRORS", "SOLVED", "SPEEDUP", "STARTS", "TallecFigure4", "bounded"]

STARTS = ("standard", "constant", "chrono")
ERRORS = (0.01, 0.02, 0.05, 0.1)
SOLVED = ERRORS[0]
SPEEDUP = 2.0  # "significantly"
AT_RATE = "at the learning rate 1e-3"  # the printed one, for all starts
SHORTEST = 200  # of the T's that are printed
LONG, PRINTED = 750, 7.0  # "7 times faster for T = 750"


@dataclass(frozen=True)
class Race:
    """Compares another start with chrono at one T, to the smallest error that every chrono run reaches, or to the largest."""

    name: str
    other: pd.DataFrame
    chrono: pd.DataFrame

    @cached_property
    def error(self) -> float:
        return next((error for error in ERRORS if not steps_to(self.chrono, error)["late"].any()), ERRORS[-1])

    @cached_property
    def lead(self) -> Spread:
        """Return how many doublings sooner chrono is there, with the 95 % interval."""
        other, chrono = (steps_to(rows, self.error)["steps"].map(math.log2) for rows in (self.other, self.chrono))
        return difference(other, chrono)

    def judged(self, claim: str, times: float) -> ClaimPart:
        """Answer whether chrono is there so many times as soon; not by runs of which too little is known for the answer."""
        lead = Compared(self.lead, math.log2(times), printed=False)
        late = {"no": self._late(self.other), "yes": self._late(self.chrono)}
        if late.get(lead.answer):
            return ClaimPart(claim, None, f"{self}: {lead}, but runs were not there")
        return ClaimPart(claim, lead, str(self))

    def _late(self, rows: pd.DataFrame) -> bool:
        return bool(steps_to(rows, self.error)["late"].any())

    def __str__(self) -> str:
        steps = f"chrono {_steps(self.chrono, self.error)} steps, {self.name} {_steps(self.other, self.error)}"
        times = bounded(2**self.lead.mean, self._late(self.other), self._late(self.chrono))
        return f"to an error of {self.error}: {steps}, {times} times; in doublings"


def bounded(times: float, other_late: bool, chrono_late: bool) -> str:
    """Write how many times as soon chrono is there, which is a bound where runs of one of the two are late."""
    if other_late and chrono_late:
        return f"as counted {number(times)}"
    return f"more than {at_least(times)}" if other_late else f"less than {at_most(times)}" if chrono_late else number(times)


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
        longest, most = standard.get(LONG), f"{PRINTED:g} times faster at T = {LONG}"
        parts = [
            *_sooner(f"{AT_RATE}, chrono significantly speeds up learning", standard, lambda T: T >= SHORTEST),
            *_sooner("it does so at shorter T too", standard, lambda T: T < SHORTEST),
            *_sooner("one large bias for all units would not do", constant, lambda T: T >= SHORTEST),
            longest.judged(most, PRINTED) if longest else ClaimPart(most, None, f"no run has T = {LONG}"),
        ]
        numbers = {
            f"steps, T = {T}, {start}": _steps(rows, race.error)
            for T, race in standard.items()
            for start in STARTS
            if (rows := runs.get((T, start))) is not None
        }
        return ClaimVerdict(parts, numbers)


def _sooner(claim: str, races: Mapping[int, Race], of: Callable[[int], bool]) -> list[ClaimPart]:
    return [race.judged(f"{claim}, T = {T}", SPEEDUP) for T, race in races.items() if of(T)]
