r"""Repeats table II of Ohno and Kumagai 2021 on MNIST, pixel by pixel, rows and permuted, with r = 2 and r = 0.

dh/dt = alpha (tanh(U h + W x + b) - |h|^r h), Euler steps        r = 0: leaky        alpha starts at c/T
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, number, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.ohno.har import OHNO, chosen, of_chosen
from experiments.studies.claims.training import curve_of_epochs, in_epochs
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, first
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, distinct, grid, scales, words_beside
from experiments.studies.verdicts import ClaimVerdict, compared

__all__ = ["EPOCH", "MNIST", "ORDERS", "OhnoPixels"]

MNIST = "mnist/"
EPOCH = 500  # batches of 100
ORDERS = ("rows", "permuted")
EXPONENTS = (0.0, 2.0)
PRINTED = {("rows", 0.0): 0.946, ("rows", 2.0): 0.924, ("permuted", 0.0): 0.907, ("permuted", 2.0): 0.917}  # table II
SETTINGS = ["order", "exponent"]


def printed(rows: pd.DataFrame) -> str:
    return number(PRINTED[rows["order"].iloc[0], rows["exponent"].iloc[0]])


def with_validation(results: Results) -> pd.DataFrame:
    """Select the runs that did not diverge, each with its lowest validation loss."""
    lowest = where(results.rows, what="epoch").groupby("key")["loss"].min().rename("validation")
    return results.runs.merge(lowest, on="key")


class OhnoPixels(Study):
    """Trains slow forgetting on MNIST, one pixel a time step, in the order of rows and in a random one."""

    name = "ohno-pixels"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 30, "paper": 100_000}
    sizes: ClassVar = scales(
        side=(7, 14, 28),
        hidden=(4, 64, 128),
        epochs=(1, 6, 200),
        starts=([5], [1, 5, 25], [1, 5, 25]),
        rates=([5e-3], [5e-3], [1e-3, 5e-3, 1e-4]),
        clips=([5.0], [5.0], [1.0, 5.0]),
        seeds=(1, 3, 4),
        seeds_of_last=(1, 12, 4),
        held_out=(100, 10_000, 10_000),
    )
    another: ClassVar = {
        "small": "The printed accuracies are of 784 pixels and 200 epochs; tried was another experiment, 14 × 14 means of four "
        "pixels and 6 epochs."
    }
    may_diverge = True
    needs = (MNIST,)
    tables = (
        Table(
            "Test accuracy with the settings chosen by validation, mean (least–largest) over seeds, and that of the paper.",
            by={"order": "order", "r": "exponent"},
            columns={
                "accuracy": "accuracy",
                "c chosen": first("c"),
                "rate": first("rate"),
                "diverged": lambda rows: "{lost} of {tried}".format(**rows.iloc[0]),
                "in the paper": printed,
            },
            data=lambda results: chosen(results, SETTINGS),
        ),
        Table(
            "The same for every c at the start: test accuracy, mean (least–largest) over seeds, and the lowest validation loss.",
            by={"order": "order", "r": "exponent", "c": "c"},
            columns={"accuracy": "accuracy", "validation": "validation"},
            data=with_validation,
        ),
    )
    figures: ClassVar = {
        "accuracy": Bands(
            "Validation accuracy after each epoch, settings chosen by validation: the mean over seeds, and a band from the least "
            "to the largest.",
            x="epoch",
            y="accuracy",
            lines=("exponent", {r: f"r = {r:g}" for r in EXPONENTS}),
            panels=("order", ORDERS),
            x_label="epoch",
            y_label="validation accuracy",
            data=lambda results: of_chosen(results, "epoch", SETTINGS),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points, the first seed of all and then those of the largest c before the others; none without the images."""
        if data_path(MNIST) is None:
            return []
        stages = ((1, sizes.starts), (sizes.seeds_of_last, sizes.starts[-1:]), (sizes.seeds, sizes.starts))
        settings = {"exponent": EXPONENTS, "rate": sizes.rates, "clip": sizes.clips}
        return distinct(each for seeds, c in stages for each in grid(seed=range(seeds), order=ORDERS, c=c, **settings))

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "pixels", "data": str(data_path(MNIST)), "order": point["order"], "side": sizes.side}
        network = {**OHNO, "exponent": point["exponent"], "hidden": sizes.hidden, "alpha": point["c"] / sizes.side**2}
        training = {"seed": point["seed"], "rate": point["rate"], "clip": point["clip"], "evaluation": sizes.held_out}
        return shared_configuration(**task, **network, integrator="euler", **training, **in_epochs(EPOCH, sizes.epochs))

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        return curve_of_epochs(folder)

    def verdict(self, results: Results) -> ClaimVerdict:
        found = {same: rows["accuracy"].dropna() for same, rows in groups(chosen(results, SETTINGS), SETTINGS).items()}
        if missing := [f"{order}, r = {r:g}" for order in ORDERS for r in EXPONENTS if (order, r) not in found]:
            raise NotEnoughError(f"no run with {'; '.join(missing)} is done yet")
        parts = [
            compared(
                f"of {pixels} r = 2 classifies {as_printed} than r = 0",
                found[order, 2.0],
                found[order, 0.0],
                PRINTED[order, 2.0] - PRINTED[order, 0.0],
                f", in the paper {PRINTED[order, 2.0]} against {PRINTED[order, 0.0]}",
            )
            for order, pixels, as_printed in (("permuted", "permuted pixels", "better"), ("rows", "rows", "worse"))
        ]
        return ClaimVerdict(parts, {f"accuracy, {order}, r = {r:g}": str(spread(each)) for (order, r), each in found.items()})
