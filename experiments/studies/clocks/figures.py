"""Draws accuracy over the speed of a clock: a grid of panels, a line for each way of running the same weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.reports import plots
from experiments.reports.bands import band
from experiments.reports.plots import BLUE, DASHES, GREEN, GRID, MUTED, ORANGE, PURPLE, WIDTH
from experiments.reports.spreads import NotEnoughError
from experiments.studies.results import groups, spreads, where

__all__ = ["accuracy_over_clocks", "accuracy_over_g_dt", "clock_words"]

# How a way of running looks in every panel and figure.
LOOKS = {
    "euler": ("Taylor (Euler) step", ORANGE, DASHES[0], "o"),
    "exponential-euler": ("exponential Euler", BLUE, DASHES[1], "s"),
    "splitting": ("splitting", PURPLE, DASHES[3], "D"),
    "exact": ("exact", GREEN, DASHES[2], "^"),
    "softplus-clock": ("softplus clock, exponential", PURPLE, DASHES[3], "D"),
}


def clock_words(clock: float) -> str:
    """Write the speed of a clock as a fraction: 1/4, 1, 16."""
    return str(Fraction(clock).limit_denominator(1000))


def accuracy_over_clocks(
    rows: pd.DataFrame,
    x_label: str,
    trained: Mapping[str, Sequence[float]],
    chance: float | None = None,
    diverged: Collection[tuple[str, str]] = (),
) -> Figure:
    r"""Draw a panel for each value of the columns "row" and "column" of the frame, which are its titles.

    Args:    rows: with way, clock and accuracy;  trained: column -> clocks of training, which are shaded;
             chance: accuracy without memory, a thin line;  diverged: panels of trainings that did.
    Raises:  NotEnoughError without any point.
    """
    if rows.empty:
        raise NotEnoughError("there is no point to draw yet")
    titles, columns, clocks = rows["row"].unique(), rows["column"].unique(), sorted(rows["clock"].unique())
    with plots.style():
        figure = Figure(figsize=(WIDTH, 1.25 + 1.3 * len(titles)), layout="constrained")
        axes = np.atleast_2d(figure.subplots(len(titles), len(columns), sharex=True, sharey=True, squeeze=False))
        for (i, row), (j, column) in ((r, c) for r in enumerate(titles) for c in enumerate(columns)):
            ax = axes[i, j]
            ax.set_xscale("log", base=2)  # before the shade: it has a width in logarithms
            if column in trained:
                ax.axvspan(min(trained[column]) / 2**0.35, max(trained[column]) * 2**0.35, color=GRID, alpha=0.7, linewidth=0)
            for way, points in groups(where(rows, row=row, column=column), "way").items():
                _line(ax, way, points)
            if chance is not None:
                ax.axhline(chance, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
            words = "training diverged" if (row, column) in diverged else ""
            ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", color=MUTED, fontsize=9)
            ax.set_title(f"{row}\n{column}" if len(columns) > 1 else row, pad=2, fontsize=9)
            ax.grid(axis="y")
        axes[0, 0].set_ylim(-0.03, 1.05)
        shown = clocks[:: max(1, -(-len(clocks) // (4 if len(columns) > 1 else 8)))]
        axes[0, 0].set_xticks(shown, [clock_words(c) for c in shown])
        axes[0, 0].minorticks_off()
        figure.supxlabel(x_label, fontsize=10)
        figure.supylabel("accuracy", fontsize=10)
        plots.legend(figure, *axes.flat, length=2.6)
        return figure


def accuracy_over_g_dt(rows: pd.DataFrame, x_label: str) -> Figure:
    """Draw a mark for each row: its "exact_largest", the largest g dt of the same weights run exactly, and its accuracy."""
    if rows.empty:
        raise NotEnoughError("there is no point to draw yet")
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.4)
        for bound in (1.0, 2.0):
            ax.axvline(bound, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        for way in ("euler", "exponential-euler", "exact"):
            name, colour, _, marker = LOOKS[way]
            marks = where(rows, way=way)
            looks: dict[str, Any] = {"color": colour, "markersize": 4, "alpha": 0.7, "markeredgewidth": 0, "label": name}
            ax.plot(marks["exact_largest"].tolist(), marks["accuracy"].tolist(), marker, **looks)
        ax.set_xscale("log")
        ax.set_ylim(-0.03, 1.05)
        plots.log_ticks(ax.xaxis, (0.01, 0.1, 0.5, 1, 2, 5, 10, 100, 1000))
        ax.set_xlabel(x_label)
        ax.set_ylabel("accuracy")
        ax.grid(axis="y")
        plots.legend(figure, ax, length=2.6)
        return figure


def _line(ax: Axes, way: str, rows: pd.DataFrame) -> None:
    name, colour, dashes, marker = LOOKS[way]
    points = spreads(rows, "clock", "accuracy")
    band(ax, points, colour, linestyle=dashes, marker=marker, markersize=3.6, label=name)
