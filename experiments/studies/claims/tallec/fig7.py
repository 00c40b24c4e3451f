r"""Repeats figure 7 of Tallec and Ollivier 2018: language models of characters, by how their gates start.

LSTM   standard   b_f = 1             chrono   b_f = log u, b_i = -b_f, u uniform on 1 .. 7              T_max = 8
       the same with recurrent batch normalization and orthogonal weights, as in the paper, and without
RHN    standard   gates -2            chrono   of one b a unit, all layers together 1/T, T up to 11
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, difference, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.training import STARTS, learning_curve, started
from experiments.studies.results import Results, groups
from experiments.studies.specs import Bands, Table
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison, need_intervals

__all__ = ["SHAKESPEARE", "TallecFigure7"]

LSTMS = {"lstm-batch-norm": "a normalized LSTM", "lstm": "an LSTM"}  # the first is that of the paper
MODELS = {"lstm-batch-norm": "normalized LSTM", "lstm": "LSTM", "rhn": "RHN"}
SHAKESPEARE, TEXT8 = "tinyshakespeare/input.txt", "text8/text8"
LONGEST = {**dict.fromkeys(LSTMS, 8.0), "rhn": 11.0}
MARGIN = 0.1  # bits
PRINTED = {"standard": 1.38, "chrono": 1.37}  # bits, an LSTM on text8
BESIDE = 0.05 / (2 * len(LSTMS) + 1)  # the chance of error by which evaluations answer, beside all comparisons of the study


def in_bits(results: Results) -> pd.DataFrame:
    """Return the learning curves, in bits."""
    return results.rows.assign(bits=results.rows["loss"] / math.log(2), model=results.rows["model"].map(MODELS))


def at_the_end(results: Results) -> pd.DataFrame:
    """Return the runs, each with its lowest validation loss and its test loss, in bits."""
    lowest = results.rows.groupby("key")["loss"].min().div(math.log(2)).rename("validation")
    return results.runs.merge(lowest, on="key").assign(test=lambda runs: runs["loss"] / math.log(2))


class TallecFigure7(Study):
    """Trains LSTMs and recurrent highway networks on the characters of a text, with chrono initialization and without."""

    name = "tallec-fig7"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 140, "paper": 500_000}
    sizes: ClassVar = {
        "smoke": Sizes(text=SHAKESPEARE, hidden=4, length=10, batch=4, steps=4, every=2, held_out=4, seeds=2),
        "small": Sizes(text=SHAKESPEARE, hidden=128, length=100, batch=32, steps=10_000, every=500, held_out=500, seeds=3),
        "paper": Sizes(text=TEXT8, hidden=2000, length=180, batch=128, steps=100_000, every=1000, held_out=20_000, seeds=2),
    }
    needs = (SHAKESPEARE, TEXT8)
    another: ClassVar = {
        "small": "The printed claim is of text8, words, and networks of 2000 and 830 units; tried was another experiment, "
        "the characters of tinyshakespeare with 128 units.",
        "paper": "What is printed of a recurrent highway network is of words; tried was another experiment, characters.",
    }
    tables = (
        Table(
            "Bits a character, mean (least–largest) over seeds: lowest on the validation part, and on the test part with the "
            "same weights.",
            by={"model": "model", "start": "start"},
            columns={"validation": "validation", "test": "test", "runs": len},
            data=at_the_end,
            words=MODELS,
        ),
    )
    figures: ClassVar = {
        "curves": Bands(
            "Bits a character on the validation part while learning: the mean over seeds, and a band from the least to the "
            "largest.",
            x="step",
            y="bits",
            panels=("model", list(MODELS.values())),
            lines=("start", STARTS),
            x_label="steps",
            y_label="bits a character",
            data=in_bits,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points; none without the text."""
        return [] if data_path(sizes.text) is None else grid(seed=range(sizes.seeds), model=list(MODELS), start=list(STARTS))

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "next-character", "text": str(data_path(sizes.text)), "length": sizes.length}
        start = started(point["start"], LONGEST[point["model"]])
        training = {"steps": sizes.steps, "batch": sizes.batch, "evaluate_every": sizes.every, "evaluation": sizes.held_out}
        by_adam = {"optimizer": "adam", "rate": 1e-3, "clip": 1.0, "keep": "best", "seed": point["seed"], "threads": 1}
        model = {"field": point["model"], "integrator": "euler", "hidden": sizes.hidden}
        return shared_configuration(**task, **model, **start, **training, **by_adam)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        return learning_curve(folder)

    def verdict(self, results: Results) -> ClaimVerdict:
        if not results.records:
            raise NotEnoughError("no run is done yet")
        runs, curves = groups(at_the_end(results), ["model", "start"]), groups(in_bits(results), ["model", "start"])
        if missing := [f"{words}, {start}" for model, words in MODELS.items() for start in STARTS if (model, start) not in runs]:
            raise NotEnoughError(f"no run with {'; '.join(missing)} is done yet")
        parts = [part for model in LSTMS for part in _of_lstm(model, runs, curves)]
        parts.append(
            ClaimPart(
                "a recurrent highway network by chrono is similar to one whose gates start at -2",
                Compared(_gain("rhn", runs), MARGIN, absent=True, printed=False),
                _said("rhn", runs),
            )
        )
        need_intervals(parts)
        return ClaimVerdict(
            parts, {f"test, {MODELS[model]}, {start}": str(spread(each["test"])) for (model, start), each in runs.items()}
        )


def _of_lstm(
    model: str, runs: Mapping[tuple[str, str], pd.DataFrame], curves: Mapping[tuple[str, str], pd.DataFrame]
) -> list[ClaimPart]:
    """Judge what is printed of the LSTM: of the curves on the validation part, and of the test part."""
    name, one = MODELS[model], LSTMS[model]
    ahead = margins(curves[name, "chrono"], curves[name, "standard"])
    return [
        ClaimPart(f"on validation {one} by chrono outperforms uniformly, by a small margin", uniformly(ahead), _at_each(ahead)),
        ClaimPart(
            f"on the test part {one} by chrono needs fewer bits",
            Compared(_gain(model, runs), PRINTED["chrono"] - PRINTED["standard"]),
            _said(model, runs),
        ),
    ]


def _gain(model: str, runs: Mapping[tuple[str, str], pd.DataFrame]) -> Spread:
    return difference(runs[model, "chrono"]["test"], runs[model, "standard"]["test"])


def _said(model: str, runs: Mapping[tuple[str, str], pd.DataFrame]) -> str:
    return f"{spread(runs[model, 'chrono']['test'])} against {spread(runs[model, 'standard']['test'])} bits"


def margins(chrono: pd.DataFrame, standard: pd.DataFrame) -> dict[int, Spread]:
    """Compute by how many bits the mean of chrono runs is below, at each evaluation, with its 95 % interval."""
    ours, theirs = (groups(curves, ["step"]) for curves in (chrono, standard))
    return {step: difference(theirs[step,]["bits"], ours[step,]["bits"]) for (step,) in sorted(ours.keys() & theirs.keys())}


def uniformly(ahead: Mapping[int, Spread]) -> bool | None:
    """Return whether chrono is ahead at each evaluation, by little at the last; None where intervals leave it open."""
    gain = PRINTED["standard"] - PRINTED["chrono"]
    every = EveryComparison({str(step): Compared(measured, gain) for step, measured in ahead.items()})
    little = Compared(ahead[max(ahead)], MARGIN, absent=True, printed=False)
    answers = {every.erring(BESIDE), little.erring(BESIDE)}
    return False if "no" in answers else True if answers == {"yes"} else None


def _at_each(ahead: Mapping[int, Spread]) -> str:
    """Write at how many evaluations it is below, by how much, and at how many by its interval."""
    found = list(ahead.values())
    below, apart = (sum(getattr(one, end) > 0 for one in found) for end in ("mean", "low"))
    beyond = sum(one.high < 0 for one in found)
    ends = " and ".join(f"{one.mean:.4f} (95 % {one.low:.4f} to {one.high:.4f})" for one in (found[0], found[-1]))
    return (
        f"below at {below} of {len(found)} evaluations in the mean, by its 95 % interval at {apart}, above by it at {beyond}; "
        f"by {ends} bits at the first and the last"
    )
