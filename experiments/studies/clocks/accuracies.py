r"""Summarizes the rows of `compressed`: accuracies over clocks, and where Taylor steps break.

rows    clock_given, rate, trained, on: of the training;  way, clock: how the weights are run;  accuracy, finite, largest and
        median of g dt, states: the largest difference of a state from that at c = 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, number, spread
from experiments.studies.clocks.figures import accuracy_over_clocks, accuracy_over_g_dt
from experiments.studies.clocks.rollout import SOFTPLUS_CLOCK, WAYS
from experiments.studies.results import Results, groups, where

__all__ = [
    "accuracy_cell",
    "accuracy_figure",
    "difference_between_clocks",
    "g_dt_cell",
    "g_dt_figure",
    "given",
    "held_and_lost",
    "moved_numbers",
    "not_given",
    "run_as_trained",
    "span",
]


def given(results: Results) -> pd.DataFrame:
    """Select the rows of models that the clock is given to."""
    return where(results.rows, clock_given=True)


def not_given(results: Results) -> pd.DataFrame:
    """Select the rows of models that take every sample as one unit of time."""
    return where(results.rows, clock_given=False)


def run_as_trained(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of weights that are run in the way in which they were trained."""
    return rows if rows.empty else rows[rows["way"] == rows["trained"]]


def span(rows: pd.DataFrame) -> str:
    """Write the accuracies from the least to the largest."""
    if rows.empty:
        return "–"
    low, high = f"{rows['accuracy'].min():.2f}", f"{rows['accuracy'].max():.2f}"
    return low if low == high else f"{low} to {high}"


def difference_between_clocks(rows: pd.DataFrame) -> tuple[float, float]:
    """Find, of weights run exactly, the largest difference between clocks, of accuracy and of a state."""
    exact = where(rows, way=EXACT)
    accuracies = exact.groupby("key")["accuracy"].agg(["min", "max"])
    return float((accuracies["max"] - accuracies["min"]).max()), float(exact["states"].max())


def _exact_g_dt(rows: pd.DataFrame, kept: float) -> pd.DataFrame:
    """Find key, clock and largest g dt of weights that keep their accuracy on every clock where they are run exactly.

    That of the Taylor step itself would be no measure: where it diverges, so do its gates.
    """
    exact = where(rows, way=EXACT)
    able = exact[exact.groupby("key")["accuracy"].transform("min") >= kept].dropna(subset=["largest"])
    return able[["key", "clock", "largest"]].rename(columns={"largest": "exact_largest"})


def held_and_lost(rows: pd.DataFrame, kept: float, lost: float) -> tuple[pd.Series, pd.Series]:
    """Find, of weights run by Taylor steps, the largest g dt on the fastest clock kept and on the first faster one lost."""
    taylor = where(rows, way="euler").merge(_exact_g_dt(rows, kept), on=["key", "clock"]).sort_values("clock")
    good = taylor[taylor["accuracy"] >= kept].groupby("key").last()
    beyond = taylor[(taylor["accuracy"] <= lost) & (taylor["clock"] > taylor["key"].map(good["clock"]))]
    return good["exact_largest"], beyond.groupby("key").first()["exact_largest"]


def moved_numbers(rows: pd.DataFrame, clocks: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Write accuracy before and after a move to another way of running, at the fastest clock that was trained on."""
    numbers = {}
    found = groups(rows[rows["clock"] == rows["on"].map(lambda on: max(clocks[on]))], ["trained", "on", "way"])
    for (trained, on, way), mine in found.items():
        own = found.get((trained, on, trained))
        known = way != SOFTPLUS_CLOCK or (trained, on) == ("euler", "unit")
        if own is not None and known and way not in (trained, "exponential-euler"):
            name = f"trained {WAYS[trained]} on {on}, run {WAYS[way]}, at the fastest clock of training (before the move)"
            numbers[name] = f"{span(mine)} ({span(own)})"
    return numbers


def accuracy_cell(rows: pd.DataFrame) -> str:
    found = spread(rows["accuracy"])
    written = f"{found.mean:.2f}" if found.count == 1 else str(found)
    return written if rows["finite"].all() else f"{written} ×"


def g_dt_cell(rows: pd.DataFrame) -> str:
    known = rows.dropna(subset=["largest", "median"])
    return "×" if known.empty else f"{number(known['largest'].max(), 2)}, {number(known['median'].median(), 2)}"


def accuracy_figure(results: Results, clock_given: bool, rate: str, clocks: Mapping[str, Sequence[float]]) -> Figure:
    rows = where(results.rows, clock_given=clock_given, rate=rate)
    if rows.empty:
        raise NotEnoughError("there is no point to draw yet")
    rows = rows[(rows["on"] != "unit") & (rows["way"] != SOFTPLUS_CLOCK)]
    order = rows["trained"].map(list(WAYS).index)
    rows = rows.assign(row="trained " + rows["trained"].map(WAYS), column="on " + rows["on"] + " clocks")
    diverged = where(results.runs[results.runs["key"].isin(results.diverged)], clock_given=clock_given, rate=rate)
    empty = {(f"trained {WAYS[trained]}", f"on {on} clocks") for trained, on in groups(diverged, ["trained", "on"])}
    label = "speed c of the clock: a symbol takes 16 / c samples"
    shaded = {f"on {on} clocks": trained for on, trained in clocks.items()}
    return accuracy_over_clocks(rows.iloc[order.argsort(kind="stable")], label, shaded, 1 / 9, empty)


def g_dt_figure(rows: pd.DataFrame, kept: float) -> Figure:
    if rows.empty:
        raise NotEnoughError("there is no point to draw yet")
    marks = rows[rows["way"] != SOFTPLUS_CLOCK].merge(_exact_g_dt(rows, kept), on=["key", "clock"])
    return accuracy_over_g_dt(marks, "largest c′ g of the exact run: own time × rate")
