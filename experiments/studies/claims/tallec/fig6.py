r"""Figure 6 of Tallec and Ollivier 2018: LSTMs that read MNIST pixel by pixel, by how their gates start.

standard   b_f = 1                             chrono    b_f = log u, b_i = -b_f, u uniform on 1 .. T_max - 1, T_max the length
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, number, spread
from experiments.runs.configuration import Configuration, configuration
from experiments.studies.claims.ohno.har import learning_curve
from experiments.studies.claims.ohno.pixels import EPOCH, ORDERS, mnist_folder
from experiments.studies.results import Results, groups
from experiments.studies.specs import Bands, Table
from experiments.studies.study import Point, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import Compared, Part, Verdict, difference

__all__ = ["TallecFigure6"]

STARTS = ("standard", "chrono")
PRINTED = {("permuted", "standard"): 0.954, ("permuted", "chrono"): 0.963}


GAIN = PRINTED["permuted", "chrono"] - PRINTED["permuted", "standard"]


def with_best(results: Results) -> pd.DataFrame:
    """The runs, each with its best validation accuracy."""
    best = results.rows.groupby("key")["accuracy"].max().rename("validation")
    return results.runs.merge(best, on="key")


def printed(rows: pd.DataFrame) -> str:
    value = PRINTED.get((rows["order"].iloc[0], rows["start"].iloc[0]))
    return "–" if value is None else number(value)


class TallecFigure6(Study):
    """LSTMs on MNIST, one pixel a time step, with forget biases of 1 and with chrono initialization."""

    name = "tallec-fig6"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 30, "paper": 30_000}
    sizes: ClassVar = {
        "smoke": Sizes(side=7, hidden=4, epochs=1, seeds=2, held_out=100),
        "small": Sizes(side=14, hidden=64, epochs=8, seeds=3, held_out=10_000),
        "paper": Sizes(side=28, hidden=512, epochs=100, seeds=3, held_out=10_000),
    }
    tables = (
        Table(
            "Best validation accuracy, test accuracy of the same weights, mean (least–largest) over seeds, and the best "
            "validation accuracy in the paper.",
            by={"order": "order", "start": "start"},
            columns={
                "validation": lambda rows: str(spread(rows["validation"])),
                "test": lambda rows: str(spread(rows["accuracy"])),
                "in the paper": printed,
                "runs": len,
            },
            data=with_best,
        ),
    )
    figures: ClassVar = {
        "accuracy": Bands(
            "Validation accuracy after each epoch: the mean over seeds, and a band from the least to the largest.",
            x="epoch", y="accuracy", lines=("start", {start: start for start in STARTS}), panels=("order", ORDERS),
            x_label="epoch", y_label="validation accuracy", data=lambda results: results.rows,
        ),
    }  # fmt: skip

    def points(self, sizes: Sizes) -> list[Point]:
        """None without the images."""
        if mnist_folder() is None:
            return []
        return grid(seed=range(sizes.seeds), order=list(ORDERS), start=list(STARTS))

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return configuration(
            task="pixels", data=str(mnist_folder()), order=point["order"], side=sizes.side, field="lstm", integrator="euler",
            hidden=sizes.hidden, init=point["start"], t_max=float(sizes.side**2) if point["start"] == "chrono" else None,
            steps=EPOCH * sizes.epochs, batch=100, batches=EPOCH, seed=point["seed"], rate=1e-3, clip=1.0,
            schedule="halved-twice", keep="best", evaluate_every=EPOCH, evaluation=sizes.held_out, threads=1,
            checkpoint_every=EPOCH * sizes.epochs,
        )  # fmt: skip

    def left_out(self) -> str:
        return "" if mnist_folder() else "Left out: mnist/; --data DIR names the folder it is in."

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[dict[str, Any]]:
        return learning_curve(folder)

    def verdict(self, results: Results) -> Verdict:
        if not results.records:
            raise NotEnoughError("no run is done yet")
        found = {same: rows["validation"].dropna() for same, rows in groups(with_best(results), ["order", "start"]).items()}
        if missing := [f"{order}, {start}" for order in ORDERS for start in STARTS if (order, start) not in found]:
            raise NotEnoughError(f"no run with {'; '.join(missing)} is done yet")
        gains = {order: difference(found[order, "chrono"], found[order, "standard"]) for order in ORDERS}
        said = {
            order: f"{number(found[order, 'chrono'].mean())} against {number(found[order, 'standard'].mean())}"
            for order in ORDERS
        }
        if not all(math.isfinite(gain.low) for gain in gains.values()):
            raise NotEnoughError("an interval needs two seeds of each")
        parts = [
            Part("of rows there is no clear difference", Compared(gains["rows"], GAIN, absent=True), said["rows"]),
            Part("of permuted pixels chrono classifies better", Compared(gains["permuted"], GAIN), said["permuted"]),
        ]
        return Verdict(
            parts, {f"validation accuracy, {order}, {start}": str(spread(each)) for (order, start), each in found.items()}
        )
