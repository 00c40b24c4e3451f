r"""Plays recordings faster: where the Taylor step of a gated model breaks that was trained at the recording's own speed.

What is faster than c samples is lost in the means, for every model alike: those trained at the fastest speed show what is left
to be had there.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pandas as pd
from matplotlib.figure import Figure

from discretize import SequenceModel
from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, Spread, number, spread
from experiments.runs.configuration import Configuration
from experiments.studies.claims.recordings import (
    SOURCES,
    AccuracyAndGate,
    check_learned,
    figure_at_speeds,
    folders_found,
    with_falls,
)
from experiments.studies.claims.training import by_adam
from experiments.studies.clocks.accuracies import run_as_trained
from experiments.studies.clocks.crosswise import crosswise
from experiments.studies.clocks.figures import clock_words
from experiments.studies.clocks.rollout import INTEGRATORS, RATES, WAYS, ways_of
from experiments.studies.results import Results, spreads, where
from experiments.studies.specs import Drawing, Table, across
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.tasks.recorded.recordings import Recorded

__all__ = ["CompressedRecordings"]

FALL = 0.05  # of accuracy, from that at the speed of training, that counts as a loss


def accuracy_and_g_dt(rows: pd.DataFrame) -> str:
    accuracy, largest = spread(rows["accuracy"]), rows["largest"]
    written = f"{accuracy.mean:.3f}" if accuracy.count == 1 else str(accuracy)
    return f"{written} ({number(largest.max(), 2)})" if largest.notna().all() else f"{written} (×)"


def table_of(name: str) -> Table:
    source = SOURCES[name]
    return Table(
        f"{source.title}: test accuracy, and in brackets the largest c′g met.",
        by={"clock": "clock_given", "rate": "rate", "trained": "trained", "at c": "speed", "run as": "way"},
        columns=across("clock", {f"c = {clock_words(c)}": c for c in source.speeds}, accuracy_and_g_dt),
        data=lambda results: where(results.rows.assign(speed=results.rows["on"].map(clock_words)), recording=name),
        words={True: "given", False: "hidden", **WAYS},
        empty=source.left_out.format(source.title),
    )


def figure_of(name: str, results: Results) -> Figure:
    rows = where(results.rows, recording=name, rate="sigmoid", on=1.0)
    return figure_at_speeds(rows, lambda rows: "trained " + rows["trained"].map(WAYS))


class CompressedRecordings(Study):
    """Trains gated models on recordings at one speed, and runs them at others in three ways on the same weights."""

    name = "compressed-recordings"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 5, "paper": 1200}
    sizes: ClassVar = scales(  # other_rates are also trained at half speed and at the fastest
        hidden=(8, 32, 128),
        steps=(6, 300, 3000),
        rate=(4e-3, 4e-3, 1e-3),
        sequences=(64, 3000, 3000),
        seeds=(1, 5, 5),
        rates=(["sigmoid"], ["sigmoid", "softplus"], RATES),
        other_rates=([], ["sigmoid"], RATES),
        integrators=(("euler", EXACT), INTEGRATORS, INTEGRATORS),
    )
    may_diverge = True
    needs = tuple(source.folder for source in SOURCES.values())
    tables = tuple(table_of(name) for name in SOURCES)
    figures: ClassVar = {
        "har": Drawing(
            "Activities (UCI HAR), sigmoid gates: test accuracy at other speeds, of weights trained in one way (rows) at the "
            "shaded speed, and run in three.",
            lambda results: figure_of("har", results),
        ),
        "vowels": Drawing("Speakers (JapaneseVowels), sigmoid gates: likewise.", lambda results: figure_of("vowels", results)),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points of the recordings that are there; none without a folder of them."""
        there = folders_found()
        each = grid(recording=there, rate=sizes.rates, on=[1.0], trained=sizes.integrators)
        for name in there:
            each += grid(recording=[name], rate=sizes.other_rates, on=[0.5, SOURCES[name].speeds[-1]], trained=sizes.integrators)
        return [{**point, "seed": seed} for seed in range(sizes.seeds) for point in each]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        recording, speed = point["recording"], point["on"]
        task = {"task": recording, "data": str(folders_found()[recording]), "speed": speed, "clock_given": speed != 1}
        model = {"field": RATES[point["rate"]], "integrator": point["trained"], "init": "chrono"}
        return by_adam(point, sizes, **task, **model, t_max=SOURCES[recording].longest)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, Recorded)
        ways = {name: way for name, way in ways_of(model).items() if name in INTEGRATORS}
        clocks = (True, False) if task.speed == 1 else (True,)
        return crosswise(task, ways, training, AccuracyAndGate, SOURCES[run.configuration.task_name].speeds, clocks)

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = with_falls(run_as_trained(where(results.rows, clock_given=True, on=1.0)))
        trained = {name: set(where(rows, recording=name, clock=1.0)["trained"]) for name in SOURCES} if len(rows) else {}
        judged = [name for name, ways in trained.items() if {"euler", EXACT} <= ways]
        if not judged:
            raise NotEnoughError("a model trained by Euler steps and one trained exactly, at c = 1, are needed.")
        for name in judged:
            check_learned(rows, name)
        parts, falls_in_words, worth_in_words = list[ClaimPart](), list[str](), list[str]()
        numbers = dict[str, float | int | str]()
        for name in judged:
            title, mine, fastest = SOURCES[name].name, where(rows, recording=name), SOURCES[name].speeds[-1]
            found = spreads(where(mine, clock=fastest), "trained", "fall")
            falls = {way: found[way] for way in WAYS if way in found}
            falls_in_words.append(f"{title} at c = {fastest:g}: {', '.join(f'{WAYS[way]} by {falls[way]}' for way in falls)}")
            numbers |= {f"{name}, {WAYS[way]}: fall from c = 1 to {fastest:g}": str(fall) for way, fall in falls.items()}
            loses = falls["euler"].mean >= FALL
            taylor = where(mine, trained="euler")
            kept = falls[EXACT].mean < FALL and (taylor[taylor["largest"] <= 1]["fall"] < FALL).all()
            parts.append(ClaimPart(f"Taylor steps lose {title} at the fastest speed", loses))
            parts.append(
                ClaimPart(f"they do where g dt is above 1, and the exact model does not lose {title}", bool(loses and kept))
            )
            for clock in (fastest, SOURCES[name].speeds[0]):
                worth = worth_of_the_clock(where(results.rows, recording=name, on=1.0, clock=clock))
                if worth is not None:
                    at = f"{title} at c = {clock_words(clock)}"
                    parts.append(ClaimPart(f"the exact model needs to be given the clock for {at}", worth.mean >= FALL))
                    worth_in_words.append(f"{at} {worth}")
        summary = (
            "Given how fast it is played, models trained and run in one way at c = 1 lose accuracy (over rates and seeds): "
            f"{'; '.join(falls_in_words)}. {breaking_words(where(rows, trained='euler'))}"
            "The control: the same exact models, not given it, have so much less accuracy (over rates and seeds): "
            f"{'; '.join(worth_in_words)}."
        )
        return ClaimVerdict(parts, numbers, summary)


def worth_of_the_clock(rows: pd.DataFrame) -> Spread | None:
    """Subtract, from the accuracy of exact models that are given the clock, that of the same weights without it."""
    mine = where(rows, trained=EXACT, way=EXACT)
    given, hidden = (where(mine, clock_given=known).set_index("key")["accuracy"] for known in (True, False))
    worth = (given - hidden).dropna()
    return spread(worth) if len(worth) else None


def breaking_words(taylor: pd.DataFrame) -> str:
    """Say at which g dt Taylor steps begin to lose."""
    faster = taylor[(taylor["clock"] > 1) & taylor["largest"].notna()]
    lost, held = (faster[which]["largest"] for which in (faster["fall"] >= FALL, faster["fall"] < FALL))
    if lost.empty:
        return "Taylor steps lose less than 0.05 everywhere. "
    kept = f"keep a largest c′g of up to {number(held.max(), 2)} and " if len(held) else ""
    return f"Taylor steps {kept}lose 0.05 and more from {number(lost.min(), 2)} on. "
