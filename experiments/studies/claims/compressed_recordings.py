r"""Recordings played faster: where the Taylor step of a gated model breaks that was trained at the recording's own speed.

    speed c        the mean of c samples after one another is one sample; at 1 / c every sample comes c times
    clock given    a sample takes c units of own time, else one; at c = 1 both are the same, so one training serves both

What is faster than c samples is lost in the means, for every model alike: those trained at the fastest speed show what is left
to be had there.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from matplotlib.figure import Figure

from ctrnn import PowerDecay, Relaxation
from discretize import SequenceModel
from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, Spread, number, spread
from experiments.runs.configuration import Configuration, TrainingSettings, configuration
from experiments.studies.clocks.accuracies import run_as_trained
from experiments.studies.clocks.figures import accuracy_over_clocks, clock_words
from experiments.studies.clocks.rollout import INTEGRATORS, RATES, WAYS, is_right, roll_out, ways_of
from experiments.studies.results import Results, spreads, where
from experiments.studies.specs import Drawing, Table, across
from experiments.studies.study import Point, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import Part, Verdict
from experiments.tasks.recorded.recordings import Recorded

__all__ = ["DATA", "LEARNED", "SOURCES", "CompressedRecordings", "folders_found", "row_at"]

DATA = "CTRNN_DATA"  # the environment variable in which `--data DIR` comes to worker processes


@dataclass(frozen=True)
class Source:
    """Recordings: their folder in DIR, the speeds played, and the time scales that chrono draws up to, in samples."""

    title: str
    folder: str
    speeds: tuple[float, ...]
    longest: float


SOURCES = {
    "har": Source("UCI HAR, windows of 128 samples", "uci_har", (0.5, 1.0, 2.0, 4.0, 8.0), 64.0),
    "vowels": Source("JapaneseVowels, 7 to 29 frames", "japanese_vowels", (0.25, 0.5, 1.0, 2.0, 4.0), 16.0),
}
BATCH = 512  # sequences at once in the test
LEARNED = 0.6  # of accuracy; that of both is below 0.2 without looking
FALL = 0.05  # of accuracy, from that at the speed of training, that counts as a loss


def folders_found() -> dict[str, Path]:
    """The recordings' own folders, where there are any."""
    root = os.environ.get(DATA)
    folders = {name: Path(root) / source.folder for name, source in SOURCES.items()} if root else {}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}


def with_falls(results: Results) -> pd.DataFrame:
    """Trained at c = 1, run in the same way and given the clock; "fall" is that of accuracy from c = 1."""
    rows = run_as_trained(where(results.rows, clock_given=True, on=1.0))
    before = where(rows, clock=1.0)
    if before.empty:
        raise NotEnoughError("a model trained by Euler steps and one trained exactly, at c = 1, are needed.")
    return rows.assign(fall=rows["key"].map(before.set_index("key")["accuracy"]) - rows["accuracy"])


def accuracy_and_g_dt(rows: pd.DataFrame) -> str:
    accuracy, largest = spread(rows["accuracy"]), rows["largest"]
    written = f"{accuracy.mean:.3f}" if accuracy.count == 1 else str(accuracy)
    return f"{written} ({number(largest.max(), 2)})" if largest.notna().all() else f"{written} (×)"


def table_of(name: str, source: Source) -> Table:
    return Table(
        f"{source.title}: test accuracy, and in brackets the largest c′g met.",
        by={"clock": "clock_given", "rate": "rate", "trained": "trained", "at c": "speed", "run as": "way"},
        columns=across("clock", {f"c = {clock_words(c)}": c for c in source.speeds}, accuracy_and_g_dt),
        data=lambda results: where(results.rows.assign(speed=results.rows["on"].map(clock_words)), recording=name),
        words={True: "given", False: "hidden", **WAYS},
        empty=f"{source.title}: left out; `--data DIR` names the folder with {source.folder}/ in it.",
    )


def figure_of(name: str, results: Results) -> Figure:
    rows = where(results.rows, recording=name, rate="sigmoid", on=1.0)
    if rows.empty:
        raise NotEnoughError("there is no point to draw yet")
    titles = {True: "clock given", False: "clock hidden"}
    titled = rows.assign(row="trained " + rows["trained"].map(WAYS), column=rows["clock_given"].map(titles))
    return accuracy_over_clocks(titled, "speed c at which the recording is played", dict.fromkeys(titles.values(), (1.0,)))


class CompressedRecordings(Study):
    """Gated models trained on recordings at one speed, and run at others in three ways on the same weights."""

    name = "compressed-recordings"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 5, "paper": 1200}
    sizes: ClassVar = {  # other_rates are also trained at half speed and at the fastest
        "smoke": Sizes(
            hidden=8, steps=6, rate=4e-3, sequences=64, seeds=1, rates=["sigmoid"], other_rates=[], integrators=("euler", EXACT)
        ),
        "small": Sizes(
            hidden=32,
            steps=300,
            rate=4e-3,
            sequences=3000,
            seeds=5,
            rates=["sigmoid", "softplus"],
            other_rates=["sigmoid"],
            integrators=INTEGRATORS,
        ),
        "paper": Sizes(
            hidden=128, steps=3000, rate=1e-3, sequences=3000, seeds=5, rates=RATES, other_rates=RATES, integrators=INTEGRATORS
        ),
    }
    may_diverge = True
    tables = tuple(table_of(name, source) for name, source in SOURCES.items())
    figures: ClassVar = {
        "har": Drawing(
            "Activities (UCI HAR), sigmoid gates: test accuracy at other speeds, of weights trained in one way (rows) at the "
            "shaded speed, and run in three.",
            lambda results: figure_of("har", results),
        ),
        "vowels": Drawing("Speakers (JapaneseVowels), sigmoid gates: likewise.", lambda results: figure_of("vowels", results)),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Those of the recordings that are there; none without a folder of them."""
        there = folders_found()
        each = grid(recording=there, rate=sizes.rates, on=[1.0], trained=sizes.integrators)
        for name in there:
            each += grid(recording=[name], rate=sizes.other_rates, on=[0.5, SOURCES[name].speeds[-1]], trained=sizes.integrators)
        return [{**point, "seed": seed} for seed in range(sizes.seeds) for point in each]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return configuration(
            task=point["recording"],
            data=str(folders_found()[point["recording"]]),
            speed=point["on"],
            clock_given=point["on"] != 1,
            field=RATES[point["rate"]],
            integrator=point["trained"],
            hidden=sizes.hidden,
            init="chrono",
            t_max=SOURCES[point["recording"]].longest,
            steps=sizes.steps,
            seed=point["seed"],
            optimizer="adam",
            rate=sizes.rate,
            clip=1.0,
            evaluate_every=sizes.steps,
            evaluation=sizes.sequences,
            checkpoint_every=sizes.steps,
        )

    def left_out(self) -> str:
        absent = [f"{source.folder}/" for name, source in SOURCES.items() if name not in folders_found()]
        return f"Left out: {' and '.join(absent)}; --data DIR names the folder they are in." if absent else ""

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[dict[str, Any]]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, Recorded)
        ways = {name: way for name, way in ways_of(model).items() if name in INTEGRATORS}
        rows = []
        for given in (True, False) if task.speed == 1 else (True,):
            for name, way in ways.items():
                for speed in SOURCES[run.configuration.task_name].speeds:
                    played = dataclasses.replace(task, speed=speed, clock_given=given)
                    rows.append({"way": name, "clock_given": given, "clock": speed, **row_at(played, way, training)})
        return rows

    def verdict(self, results: Results) -> Verdict:
        rows = with_falls(results)
        trained = {name: set(where(rows, recording=name)["trained"]) for name in SOURCES}
        sources = {SOURCES[name].title.split(",")[0]: name for name, ways in trained.items() if {"euler", EXACT} <= ways}
        if not sources:
            raise NotEnoughError("a model trained by Euler steps and one trained exactly, at c = 1, are needed.")
        for title, name in sources.items():
            best = where(rows, recording=name, clock=1.0)["accuracy"].max()
            if best < LEARNED:
                raise NotEnoughError(
                    f"no model has learned {title} (the best accuracy is {number(best)}); a larger scale decides."
                )
        parts, falls_in_words, worth_in_words = list[Part](), list[str](), list[str]()
        numbers = dict[str, float | int | str]()
        for title, name in sources.items():
            mine, fastest = where(rows, recording=name), SOURCES[name].speeds[-1]
            found = spreads(where(mine, clock=fastest), "trained", "fall")
            falls = {way: found[way] for way in WAYS if way in found}
            falls_in_words.append(f"{title} at c = {fastest:g}: {', '.join(f'{WAYS[way]} by {falls[way]}' for way in falls)}")
            numbers |= {f"{name}, {WAYS[way]}: fall from c = 1 to {fastest:g}": str(fall) for way, fall in falls.items()}
            loses = falls["euler"].mean >= FALL
            taylor = where(mine, trained="euler")
            kept = falls[EXACT].mean < FALL and (taylor[taylor["largest"] <= 1]["fall"] < FALL).all()
            parts.append(Part(f"Taylor steps lose {title} at the fastest speed", loses))
            parts.append(Part(f"they do where g dt is above 1, and the exact model does not lose {title}", bool(loses and kept)))
            for clock in (fastest, SOURCES[name].speeds[0]):
                worth = worth_of_the_clock(where(results.rows, recording=name, on=1.0, clock=clock))
                if worth is not None:
                    at = f"{title} at c = {clock_words(clock)}"
                    parts.append(Part(f"the exact model needs to be given the clock for {at}", worth.mean >= FALL))
                    worth_in_words.append(f"{at} {worth}")
        summary = (
            "Given how fast it is played, models trained and run in one way at c = 1 lose accuracy (over rates and seeds): "
            f"{'; '.join(falls_in_words)}. {breaking_words(where(rows, trained='euler'))}"
            "The control: the same exact models, not given it, have so much less accuracy (over rates and seeds): "
            f"{'; '.join(worth_in_words)}."
        )
        return Verdict(parts, numbers, summary)


def worth_of_the_clock(rows: pd.DataFrame) -> Spread | None:
    """Accuracy of models that are trained and run exactly, given the clock, less that of the same weights without it."""
    mine = where(rows, trained=EXACT, way=EXACT)
    given, hidden = (where(mine, clock_given=told).set_index("key")["accuracy"] for told in (True, False))
    worth = (given - hidden).dropna()
    return spread(worth) if len(worth) else None


def breaking_words(taylor: pd.DataFrame) -> str:
    """At which g dt Taylor steps begin to lose."""
    faster = taylor[(taylor["clock"] > 1) & taylor["largest"].notna()]
    lost, held = (faster[which]["largest"] for which in (faster["fall"] >= FALL, faster["fall"] < FALL))
    if lost.empty:
        return "Taylor steps lose less than 0.05 everywhere. "
    kept = f"keep a largest c′g of up to {number(held.max(), 2)} and " if len(held) else ""
    return f"Taylor steps {kept}lose 0.05 and more from {number(lost.min(), 2)} on. "


def row_at(task: Recorded, model: SequenceModel, training: TrainingSettings) -> dict[str, Any]:
    """What one way of running gives on the test split, at one speed; "steepest" is the largest c'g (r + 1)|h|^r."""
    own_time, r = task.speed if task.clock_given else 1.0, _exponent(model)
    good, count, losses, largest, steepest, medians, finite = 0, 0, 0.0, 0.0, 0.0, list[float](), True
    for batch in task.evaluation("test", training.evaluation, BATCH, training.seed):
        count += batch.size
        found = roll_out(model, batch, own_time)
        if found is None:
            finite = False
            continue
        last = batch.last(found.outputs)
        good += int(is_right(last, batch.targets).sum())
        losses += float(torch.nn.functional.cross_entropy(last, batch.targets, reduction="sum"))
        largest = max(largest, float(found.g_dt.max()))
        steepest = max(steepest, float((found.g_dt * found.before.abs() ** r).max()) * (r + 1) if r else largest)
        medians.append(float(found.g_dt.median()))
        finite = finite and found.finite
    return {
        "finite": finite,
        "accuracy": good / count,
        "loss": losses / count if finite else None,
        "largest": largest if finite else None,
        "steepest": steepest if finite else None,
        "median": sorted(medians)[len(medians) // 2] if finite else None,
    }


def _exponent(model: SequenceModel) -> float:
    """r of the decay |h|^r h."""
    decay = model.field.decay if isinstance(model.field, Relaxation) else None
    return float(decay.exponent) if isinstance(decay, PowerDecay) else 0.0
