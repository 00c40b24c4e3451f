r"""Tests footnote 7 of Tallec and Ollivier 2018: how soon an LSTM learns to add that is not told how far apart the numbers are.

slow-decay   P(k) ~ 1/(k log(k + 1)^2)     whatever T is
chrono       uniform on 2 .. T             told the task's T                   too long   told 10 T     too short   told T/10
standard     b_f = 1                       a time of 4 samples

speed        log2 of the steps until a mean squared error; each start by its own learning rate, which other seeds have chosen

ctrnn study run unknown-times --scale small --out DIR            the choice
python -m experiments.studies.claims.tallec.unknown_times DIR    writes unknown_times.csv, what was tried
ctrnn study run unknown-times --scale small --out DIR            what is judged
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, difference, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.tallec.fig4 import ERRORS
from experiments.studies.claims.tallec.tried import TriedRates
from experiments.studies.claims.training import learning_curve, started, steps_in_words, steps_to, thinned
from experiments.studies.folder import records_in
from experiments.studies.results import Results, groups, once
from experiments.studies.specs import Bands, Table, across, first, in_order, run_count
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison, need_intervals

__all__ = ["UnknownTimes"]

STARTS = {
    "slow-decay": "slow decay",
    "chrono": "chrono told T",
    "too-long": "chrono told 10 T",
    "too-short": "chrono told T/10",
    "standard": "standard",
}
TIMES = {"chrono": 1.0, "too-long": 10.0, "too-short": 0.1}  # what chrono is told, in T
CHOOSING, JUDGED, AGAIN = 100, 200, 300  # the first seeds by which rates are chosen, that judge, that judge too long a time
RATES = [2e-3, 6e-3, 2e-2, 4e-2, 8e-2]
TRIED = TriedRates(Path(__file__).with_suffix(".csv"), "error")
COUNTS, AT_ALL = 1.0, math.log2(1.1)  # log2 of steps: twice as soon, and by a tenth


@once
def judged(results: Results) -> pd.DataFrame:
    """Select the rows of the seeds that judge, each start at the rate at which others had the least mean error."""
    rows = results.rows
    return rows if rows.empty else rows[(rows["seed"] >= JUDGED) & (rows["seed"] < AGAIN)]


@once
def judged_again(results: Results) -> pd.DataFrame:
    """Select the rows of the seeds by which chrono is judged that is told too long a time."""
    rows = results.rows
    return rows if rows.empty else rows[rows["seed"] >= AGAIN]


def tried(results: Results) -> pd.DataFrame:
    """Compute the mean error over a training, evaluations all counted, of each run of the choice."""
    rows = results.rows
    if rows.empty:
        return rows
    return rows[rows["seed"] < JUDGED].groupby(["T", "start", "rate", "seed"])["loss"].mean().reset_index()


def reached(chrono: pd.DataFrame) -> float | None:
    """Return the smallest of the errors that every one of these runs reaches; None if there is none."""
    return next((error for error in ERRORS if not steps_to(chrono, error)["late"].any()), None)


def speeds(rows: pd.DataFrame, error: float) -> pd.Series:
    """Compute the binary logarithm of each run's steps to an error."""
    return np.log2(steps_to(rows, error)["steps"])


def _steps(rows: pd.DataFrame, error: float) -> str:
    return steps_in_words(steps_to(rows, error))


# Columns of a table of runs, each at its start's rate.
LEARNING = {
    "rate": first("rate"),
    **{f"steps to {error}": partial(_steps, error=error) for error in ERRORS},
    "error at the end": lambda rows: spread(rows.groupby("key")["loss"].last()),
    "runs": run_count,
}


class UnknownTimes(Study):
    """Trains LSTMs on the adding task, their times drawn by a law that knows no T, by chrono told the right one and another."""

    name = "unknown-times"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 8, "paper": 5300}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, steps={12: 40}, every=10, held_out=100, rates=[1e-2], seeds=1, choosing=1, again=1),
        "small": Sizes(hidden=32, steps={100: 2000}, every=50, held_out=250, rates=RATES, seeds=8, choosing=2, again=8),
        "paper": Sizes(
            hidden=128,
            steps={200: 20_000, 750: 20_000},
            every=100,
            held_out=1000,
            rates=[1e-3, 3e-3, 1e-2, 3e-2],
            seeds=5,
            choosing=2,
            again=0,
        ),
    }
    tables = (
        Table(
            "By the rate that other seeds chose: steps until an error on held-out sequences, mean (least–largest) over runs, and "
            "the error at the end. A run that did not get there counts with the steps that it was given.",
            by={"T": "T", "start": "start"},
            columns=LEARNING,
            data=judged,
            sort=in_order(None, STARTS),
            words=STARTS,
        ),
        Table(
            "The choice: the mean error over a training, evaluations all counted, at each rate, of two other seeds.",
            by={"T": "T", "start": "start"},
            columns=across("rate", {f"rate {rate:g}": rate for rate in RATES}, "loss"),
            data=tried,
            sort=in_order(None, STARTS),
            words=STARTS,
        ),
        Table(
            "Eight more seeds of chrono, told T and ten times T.",
            by={"T": "T", "start": "start"},
            columns=LEARNING,
            data=judged_again,
            sort=in_order(None, STARTS),
            words=STARTS,
        ),
    )
    figures: ClassVar = {
        "curves": Bands(
            "Mean squared error on held-out sequences while learning, by the rate that other seeds chose: the mean over runs, a "
            "band from least to largest, and the error of saying 1 always.",
            x="step",
            y="loss",
            panels=("T", "T = {}"),
            lines=("start", STARTS),
            data=lambda results: thinned(judged(results), ["T", "start"]),
            x_label="steps",
            y_label="mean squared error",
            y_limits=(0.0, 0.2),
            levels={"without memory": 1 / 6},
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        choosing = range(CHOOSING, CHOOSING + sizes.choosing)
        judging = [
            *grid(seed=range(JUDGED, JUDGED + sizes.seeds), T=sizes.steps, start=STARTS),
            *grid(seed=range(AGAIN, AGAIN + sizes.again), T=sizes.steps, start=["chrono", "too-long"]),
        ]
        chosen = [{**at, "rate": TRIED.best(sizes.hidden, at["T"], at["start"], sizes.rates)} for at in judging]
        return [
            *grid(seed=choosing, T=sizes.steps, start=STARTS, rate=sizes.rates),
            *(point for point in chosen if point["rate"] is not None),
        ]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        T, start = point["T"], point["start"]
        told = started("chrono", max(2, TIMES[start] * T)) if start in TIMES else started(start, T)
        training = {"steps": sizes.steps[T], "batch": 50, "evaluate_every": sizes.every, "evaluation": sizes.held_out}
        model = {"field": "lstm", "integrator": "euler", "hidden": sizes.hidden, **told}
        return shared_configuration(task="adding", T=T, **model, **training, rate=point["rate"], seed=point["seed"], threads=1)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Read the learning curve: what the evaluations found on the way."""
        return learning_curve(folder)

    def verdict(self, results: Results) -> ClaimVerdict:
        found = groups(judged(results), ["T", "start"])
        whole = sorted({T for T, _ in found if all((T, start) in found for start in STARTS)})
        if not whole:
            raise NotEnoughError("of no T every start has a rate that other seeds chose, and runs by it")
        errors = {T: reached(found[T, "chrono"]) for T in whole}
        parts = [
            _part("told nothing, it learns to add as soon as chrono told T", found, errors, "chrono"),
            _part("it learns sooner than from forget biases of 1", found, errors, "standard"),
            _part("it learns sooner than chrono told ten times T", found, errors, "too-long"),
            _part("it learns sooner than chrono told a tenth of T", found, errors, "too-short"),
            *_too_long(groups(judged_again(results), ["T", "start"])),
        ]
        need_intervals(parts)
        numbers = {
            f"steps, T = {T}, {STARTS[start]}": _steps(found[T, start], errors[T] or ERRORS[-1])
            for T in whole
            for start in STARTS
        }
        return ClaimVerdict(parts, numbers)


def _too_long(found: Mapping[tuple[int, str], pd.DataFrame]) -> list[ClaimPart]:
    """Judge by more seeds, where both starts have some, whether chrono told too long a time is sooner."""
    errors = {T: reached(rows) for (T, start), rows in found.items() if start == "chrono" and (T, "too-long") in found}
    claim = "by more seeds, chrono told ten times T learns sooner at all than told T, by a tenth"
    return [_part(claim, found, errors, "chrono", "too-long", AT_ALL)] if errors else []


def _part(
    claim: str,
    found: Mapping[tuple[int, str], pd.DataFrame],
    errors: Mapping[int, float | None],
    other: str,
    start: str = "slow-decay",
    counts: float = COUNTS,
) -> ClaimPart:
    """Judge a claim at each T by how far slow decay, or another start, is from another, in log2 of steps."""
    said, compared, unsure = list[str](), dict[str, Compared](), set[str]()
    for T, error in errors.items():
        if error is None:
            said.append(f"T = {T}, not every run of chrono told T comes to an error of {ERRORS[-1]}")
            continue
        ours, theirs = found[T, start], found[T, other]
        steps = [_steps(rows, error) for rows in (ours, theirs)]
        said.append(f"T = {T}, to an error of {error}: {STARTS[start]} {steps[0]} steps, {STARTS[other]} {steps[1]}")
        apart = difference(speeds(ours, error), speeds(theirs, error))
        close = (start, other) == ("slow-decay", "chrono")
        compared[f"log2 of steps at T = {T}"] = Compared(apart, counts if close else -counts, absent=close, printed=False)
        # A run that did not get there counts as faster than it is.
        unsure |= {answer for rows, answer in ((ours, "yes"), (theirs, "no")) if steps_to(rows, error)["late"].any()}
    evidence = "; ".join(said)
    if len(compared) < len(errors):
        return ClaimPart(claim, None, evidence)
    answered = EveryComparison(compared)
    if answered.answer in unsure:
        return ClaimPart(claim, None, f"{evidence}: {answered}, but runs were not there")
    return ClaimPart(claim, answered, evidence)


def main(folder: Path) -> None:
    """Write what the choice found: the mean error at each rate, of those tried by all of its seeds."""
    asked, records = records_in(folder)
    sizes = UnknownTimes.sizes[asked["scale"]]
    TRIED.write(
        [sizes.hidden, T, start, f"{rate:g}", f"{same['loss'].mean():.6g}"]
        for (T, start, rate), same in groups(tried(Results(records)), ["T", "start", "rate"]).items()
        if len(same) == sizes.choosing
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
