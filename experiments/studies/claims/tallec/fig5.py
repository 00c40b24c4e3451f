r"""Repeats figure 5 of Tallec and Ollivier 2018: trained on warps up to w, tested on slower clocks, up to ten times slower.

    trained    warps 1 .. w
    tested     warps 2w .. M for M = 2w .. 10w, on sequences of length 10 M, so that each has ten symbols at least
    accuracy   of the answers after the first run, which is said without having seen anything; without memory it is 1/8

The caption says uniform warps, the text a variable warping task. Both readings are tried:

    a warp for each sequence    uniform on 1 .. w, the same all along
    a warp for each symbol      uniform on 1 .. w
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, number, paired
from experiments.runs.configuration import Configuration
from experiments.runs.evaluation import evaluate
from experiments.studies.claims.training import MODELS, STEPS, TRAINING_SET, by_plateaus
from experiments.studies.results import Results, groups, spreads
from experiments.studies.specs import Bands, Table, across
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison
from experiments.tasks.warps.recall import AnyWarp

__all__ = ["TallecFigure5", "slower_tests"]

READINGS = {"sequence": "a warp for each sequence", "symbol": "a warp for each symbol"}
SYMBOLS = 10  # at least, in a test's sequence
TIMES = (2, 3, 4, 5, 6, 7, 8, 9, 10)  # the slowest test in multiples of the slowest clock in training; 2 is also the fastest
PERFECT, DECENT, PLAINS = 0.95, 0.65, 0.8
COUNTS = 0.01  # of accuracy


def slower_tests(trained: AnyWarp) -> list[tuple[int, AnyWarp]]:
    """Return how many times as slow, and the task; 1 is the range of the training."""
    w = trained.warp
    ranges = [(1, 1, w), *((k, TIMES[0] * w, k * w) for k in TIMES)]
    return [
        (k, replace(trained, least=least, warp=most, length=max(trained.length, SYMBOLS * most), first=False))
        for k, least, most in ranges
    ]


def with_ranges(results: Results) -> pd.DataFrame:
    rows = results.rows
    return rows.assign(range=[f"{least:g}–{most:g}" for least, most in zip(rows["least"], rows["warp"], strict=True)])


class TallecFigure5(Study):
    """Tests plain, leaky and gated networks on clocks slower than any they were trained on."""

    name = "tallec-fig5"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 8, "paper": 60}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=16, length=24, warp=2, rate=1e-2, steps=10, every=5, held_out=16, seeds=1, batches=None),
        "small": Sizes(hidden=64, length=300, warp=50, rate=3e-3, steps=1500, every=100, held_out=256, seeds=3, batches=None),
        "paper": Sizes(
            hidden=64, length=500, warp=50, rate=1e-3, steps=STEPS, every=100, held_out=1000, seeds=5, batches=TRAINING_SET
        ),
    }
    tables = (
        Table(
            "Accuracy; mean (least–largest) over runs, trained on length {length}. Without memory it is 0.125.",
            by={"trained and tested on": "per", "warps of the test": "range"},
            columns=across("model", MODELS, "accuracy"),
            data=with_ranges,
            words=READINGS,
        ),
    )
    figures: ClassVar = {
        "accuracies": Bands(
            "Accuracy on clocks up to so many times slower than the slowest of the training (1: as in training): the "
            "mean over runs, and a band from least to largest. Flat is a network that does not care how slow it is played.",
            x="times",
            y="accuracy",
            panels=("per", READINGS),
            lines=("model", MODELS),
            x_label="slowest warp of the test, over that of the training",
            y_label="accuracy",
            y_limits=(0.0, 1.04),
            levels={"without memory": 1 / 8},
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), per=READINGS, model=MODELS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return by_plateaus(point, sizes, sizes.warp, task="recall-any-warp", warp=sizes.warp, per=point["per"])

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Measure a row a test."""
        task, settings = run.configuration.task, run.configuration.training
        assert isinstance(task, AnyWarp)
        return [
            {
                "times": times,
                "least": slower.least,
                "warp": slower.warp,
                "length": slower.length,
                "memoryless": slower.baseline_accuracies()["memoryless"],
                **evaluate(model, slower, "test", settings.evaluation, settings.seed, settings.batch),
            }
            for times, slower in slower_tests(task)
        ]

    def headline(self, record: Record) -> str:
        first, last = record["rows"][0], record["rows"][-1]
        return f"accuracy {number(first['accuracy'])} as in training, {number(last['accuracy'])} at {last['times']} times slower"

    def verdict(self, results: Results) -> ClaimVerdict:
        reading = _reading(results.rows)
        rows = results.rows[results.rows["per"] == reading]
        if absent := [model for model in MODELS if model not in set(rows["model"])]:
            raise NotEnoughError(f"no run of {', '.join(absent)} with {READINGS[reading]} is done yet")
        found = spreads(rows, ["model", "times"], "accuracy")
        longest = TIMES[-1]
        of = {at: same.set_index("seed")["accuracy"] for at, same in groups(rows, ["model", "times"]).items()}
        each = {k: ", ".join(f"{model} {found[model, k]}" for model in MODELS) for k in (1, longest)}
        lead = {k: of["gated", k] - of["plain", k] for k in (1, *TIMES)}
        ahead = {f"{k} times": _counts(one) for k, one in lead.items()}
        more = {f"from {k} to {longest} times": _counts(lead[k] - lead[longest]) for k in (1, longest - 3)}
        parts = [
            ClaimPart(
                f"with {READINGS[reading]}, at warps {longest} times longer accuracies are decent",
                EveryComparison({model: _short_of(1, of[model, longest], 1 - DECENT, absent=True) for model in MODELS}),
                each[longest],
            ),
            ClaimPart(
                "gated and leaky are perfect within the range of the training, plain is not",
                EveryComparison(
                    {
                        **{model: _short_of(1, of[model, 1], 1 - PERFECT, absent=True) for model in ("leaky", "gated")},
                        "plain": _short_of(1, of["plain", 1], 1 - PLAINS),
                    }
                ),
                each[1],
            ),
            ClaimPart("gated is better than plain all along", EveryComparison(ahead)),
            ClaimPart(
                "plain is flatter, and gated loses more at seven to ten times",
                EveryComparison(more),
            ),
        ]
        return ClaimVerdict(
            parts, {f"accuracy, {model}, {k} times": str(found[model, k]) for model in MODELS for k in (1, TIMES[0], longest)}
        )


def _counts(differences: pd.Series) -> Compared:
    """Compare differences between runs of one seed with what counts."""
    return Compared(paired(differences.dropna()), COUNTS, printed=False)


def _short_of(whole: float, accuracies: pd.Series, effect: float, *, absent: bool = False) -> Compared:
    """Compare what accuracies miss with what counts."""
    return Compared(paired(whole - accuracies), effect, absent, printed=False)


def _reading(rows: pd.DataFrame) -> str:
    """Choose the first in which plain is no better where it was trained than printed, or else the first."""
    inside = rows[(rows["model"] == "plain") & (rows["times"] == 1)].groupby("per")["accuracy"].mean()
    return next((reading for reading in READINGS if inside.get(reading, 1.0) < PLAINS), next(iter(READINGS)))
