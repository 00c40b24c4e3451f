r"""Repeats figure 6 of Tallec and Ollivier 2018: LSTMs that read MNIST pixel by pixel, by how their gates start.

standard   b_f = 1                             chrono    b_f = log u, b_i = -b_f, u uniform on 1 .. T_max - 1, T_max the length

rate       of each start and order that with the best validation accuracy, in the mean over seeds: by chrono input gates start
           near 1/T, and what is learned through them at a rate is as much less
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, number, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.ohno.pixels import EPOCH, MNIST, ORDERS
from experiments.studies.claims.training import STARTS, curve_of_epochs, in_epochs, started
from experiments.studies.results import Results, best_settings, groups
from experiments.studies.specs import Bands, Table, first, in_order
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, words_beside
from experiments.studies.verdicts import ClaimVerdict, compared, need_intervals

__all__ = ["TallecFigure6"]

PRINTED = {("permuted", "standard"): 0.954, ("permuted", "chrono"): 0.963}
GAIN = PRINTED["permuted", "chrono"] - PRINTED["permuted", "standard"]


def with_best(results: Results) -> pd.DataFrame:
    """Add to each run its best validation accuracy; no number where training diverged."""
    if results.rows.empty:
        return results.rows
    best = results.rows.groupby("key")["accuracy"].max().rename("validation")
    return results.runs.merge(best, on="key", how="left")


def chosen(results: Results) -> pd.DataFrame:
    """Select, of each order and start, the runs by the rate with the best validation accuracy in the mean over seeds."""
    runs = with_best(results)
    return runs if runs.empty else best_settings(runs.assign(wrong=1 - runs["validation"]), ["order", "start"], ["rate"], "wrong")


def printed(rows: pd.DataFrame) -> str:
    value = PRINTED.get((rows["order"].iloc[0], rows["start"].iloc[0]))
    return "–" if value is None else number(value)


class TallecFigure6(Study):
    """Trains LSTMs on MNIST, one pixel a time step, with forget biases of 1 and with chrono initialization."""

    name = "tallec-fig6"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 16, "paper": 90_000}
    sizes: ClassVar = {
        "smoke": Sizes(side=7, hidden=4, epochs=1, rates=[4e-2], seeds=2, held_out=100),
        "small": Sizes(side=7, hidden=64, epochs=4, rates=[1e-2, 2e-2, 4e-2, 8e-2], seeds=3, held_out=10_000),
        "paper": Sizes(side=28, hidden=512, epochs=100, rates=[1e-3, 3e-3, 1e-2], seeds=3, held_out=10_000),
    }
    another: ClassVar = {
        "small": "The printed claim is of 784 pixels and 512 units; tried was another experiment, 7 × 7 means of 16 pixels and "
        "64 units."
    }
    may_diverge = True
    needs = (MNIST,)
    tables = (
        Table(
            "By the rate with the best validation accuracy: that accuracy, and the test accuracy of the same weights, mean "
            "(least–largest) over seeds; and the best validation accuracy in the paper.",
            by={"order": "order", "start": "start"},
            columns={"rate": first("rate"), "validation": "validation", "test": "accuracy", "in the paper": printed, "runs": len},
            data=chosen,
        ),
        Table(
            "All rates: best validation accuracy, and the test accuracy of the same weights; mean (least–largest) over seeds.",
            by={"order": "order", "start": "start", "rate": "rate"},
            columns={"validation": "validation", "test": "accuracy"},
            data=with_best,
            sort=in_order(ORDERS, STARTS, None),
        ),
    )
    figures: ClassVar = {
        "rates": Bands(
            "Test accuracy over the rate, of the weights with the best validation accuracy: the mean over seeds, and a band from "
            "the least to the largest.",
            x="rate",
            y="accuracy",
            lines=("start", STARTS),
            panels=("order", ORDERS),
            x_label="rate",
            y_label="test accuracy",
            x_log=True,
            data=with_best,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points; none without the images."""
        if data_path(MNIST) is None:
            return []
        return grid(seed=range(sizes.seeds), order=ORDERS, start=STARTS, rate=sizes.rates)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "pixels", "data": str(data_path(MNIST)), "order": point["order"], "side": sizes.side}
        model = {"field": "lstm", "integrator": "euler", "hidden": sizes.hidden, **started(point["start"], sizes.side**2)}
        training = {"seed": point["seed"], "rate": point["rate"], "clip": 1.0, "evaluation": sizes.held_out, "threads": 1}
        return shared_configuration(**task, **model, **training, **in_epochs(EPOCH, sizes.epochs))

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        return curve_of_epochs(folder)

    def verdict(self, results: Results) -> ClaimVerdict:
        if not results.records:
            raise NotEnoughError("no run is done yet")
        found = {same: rows["accuracy"] for same, rows in groups(chosen(results), ["order", "start"]).items()}
        if missing := [f"{order}, {start}" for order in ORDERS for start in STARTS if (order, start) not in found]:
            raise NotEnoughError(f"no run with {'; '.join(missing)} is done yet")
        (rows, plain_rows), (permuted, plain_permuted) = ((found[order, "chrono"], found[order, "standard"]) for order in ORDERS)
        parts = [
            compared("of rows there is no clear difference", rows, plain_rows, GAIN, absent=True, printed=False),
            compared("of permuted pixels chrono classifies better", permuted, plain_permuted, GAIN),
        ]
        need_intervals(parts)
        return ClaimVerdict(
            parts, {f"test accuracy, {order}, {start}": str(spread(each)) for (order, start), each in found.items()}
        )
