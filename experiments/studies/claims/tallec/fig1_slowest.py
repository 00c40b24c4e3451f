r"""Repeats the end of figure 1 of Tallec and Ollivier 2018, symbols of up to 100 samples, with an interval for each difference.

below      log2(loss of one / loss of the other), of the same seed, losses of at least 0.001 nats
solved     a loss of at most 0.1 nats in every run
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, paired, spread
from experiments.runs.configuration import Configuration
from experiments.runs.evaluation import evaluate
from experiments.studies.claims.tallec.fig1 import FLOOR, PANELS, SOLVED, TESTED, UNIFORM, VARIABLE
from experiments.studies.claims.training import MODELS, STEPS, TRAINING_SET, by_plateaus, learning_curve, steps_in_words, steps_to
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, across, first, in_order
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison

__all__ = ["TallecSlowestSymbols"]

WARP, SEED = 100, 1
CLEARLY = 1.0  # doublings
RATE, SMALLER_RATE = 1e-2, 3e-3
AT_SMALLER = {("plain", "uniform padding"), ("plain", "variable padding"), ("gated", "variable padding")}
CURVE, TEST = "curve", "test"
Losses = Mapping[tuple[str, str], pd.Series]  # (panel, model) -> test loss by seed


def tested(results: Results) -> pd.DataFrame:
    return where(results.rows, what=TEST)


def curves(results: Results) -> pd.DataFrame:
    return where(results.rows, what=CURVE)


def _steps(rows: pd.DataFrame) -> str:
    return steps_in_words(steps_to(rows, SOLVED))


class TallecSlowestSymbols(Study):
    """Trains plain, leaky and gated networks on uniform and variable warps of up to 100 samples, repeated or padded."""

    name = "tallec-fig1-slowest"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 12, "paper": 34}
    sizes: ClassVar = scales(
        hidden=(16, 64, 64),
        length=(24, 500, 500),
        warp=(10, WARP, WARP),
        steps=(10, 3000, STEPS),
        every=(5, 100, 100),
        held_out=(32, 256, 1000),
        seeds=(1, 3, 5),
        batches=(None, None, TRAINING_SET),
    )
    tables = (
        Table(
            "Test loss in nats, sequences of length {length}; mean (least–largest) over runs.",
            by={"clock": "panel"},
            columns={**across("model", MODELS, "loss"), "memoryless": first("memoryless"), "runs": len},
            data=tested,
            sort=in_order(PANELS),
        ),
        Table(
            "Steps until an evaluation finds at most 0.1 nats, mean (least–largest) over runs.",
            by={"clock": "panel"},
            columns=across("model", MODELS, _steps),
            data=curves,
            sort=in_order(PANELS),
        ),
    )
    figures: ClassVar = {
        "curves": Bands(
            "Held-out loss while learning: the mean over runs, and a band from the least to the largest.",
            x="step",
            y="loss",
            panels=("panel", PANELS),
            lines=("model", MODELS),
            data=curves,
            x_label="steps",
            y_label="loss, nats",
            y_log=True,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(SEED, SEED + sizes.seeds), panel=PANELS, model=MODELS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        warping, kind = point["panel"].split()
        task = {"task": "recall", "warping": warping, "padded": kind == "padding", "warp": sizes.warp}
        rate = SMALLER_RATE if (point["model"], point["panel"]) in AT_SMALLER else RATE
        return by_plateaus({**point, "rate": rate}, sizes, sizes.warp, **task)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Read the learning curve, and measure the test and the loss without memory."""
        task, settings = run.configuration.task, run.configuration.training
        found = evaluate(model, task, "test", TESTED * settings.evaluation, settings.seed, settings.batch)
        curve = [{"what": CURVE, **row} for row in learning_curve(folder)]
        return [*curve, {"what": TEST, **found, **task.baselines()}]

    def headline(self, record: Record) -> str:
        return f"test loss {record['rows'][-1]['loss']:.3g}"

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = tested(results)
        losses = {at: same.set_index("seed")["loss"] for at, same in groups(rows, ["panel", "model"]).items()}
        if missing := [f"{panel}, {model}" for panel in PANELS for model in MODELS if len(losses.get((panel, model), ())) < 2]:
            raise NotEnoughError(f"two runs of each are needed, and are not there of {'; '.join(missing)}")
        parts = [
            _below("gated is far below plain on every clock", losses, "plain", PANELS),
            _solves("leaky solves uniform clocks", losses, "leaky", UNIFORM),
            _below("gated is far below leaky on variable clocks", losses, "leaky", VARIABLE),
            _solves("gated solves every clock", losses, "gated", PANELS),
        ]
        return ClaimVerdict(parts, {f"loss, {panel}, {model}": str(spread(loss)) for (panel, model), loss in losses.items()})


def _below(claim: str, losses: Losses, other: str, panels: Iterable[str]) -> ClaimPart:
    """Judge by pairs of a seed, on each of these clocks, how many times as large the loss of another model is."""
    doublings = {
        panel: (losses[panel, other].clip(lower=FLOOR) / losses[panel, "gated"].clip(lower=FLOOR)).dropna().map(math.log2)
        for panel in panels
    }
    each = {panel: Compared(paired(apart), CLEARLY, printed=False) for panel, apart in doublings.items()}
    evidence = ", ".join(f"{spread(losses[panel, other])} against {spread(losses[panel, 'gated'])}" for panel in panels)
    return ClaimPart(claim, EveryComparison(each), f"{evidence}; in doublings")


def _solves(claim: str, losses: Losses, model: str, panels: Iterable[str]) -> ClaimPart:
    there = {panel: losses[panel, model] <= SOLVED for panel in panels}
    every, none = (all(runs.all() for runs in there.values()), any(not runs.any() for runs in there.values()))
    evidence = ", ".join(
        f"{panel} {spread(losses[panel, model])}, {int(runs.sum())} of {len(runs)}" for panel, runs in there.items()
    )
    return ClaimPart(claim, True if every else False if none else None, evidence)
