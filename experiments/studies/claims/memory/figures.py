"""Draws accuracy over the speed at which time passes: the exact solution slowed down, and steps at their own speed."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.models.integrators import EXACT
from experiments.reports import plots
from experiments.reports.bands import band
from experiments.reports.plots import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, WIDTH
from experiments.reports.spreads import NotEnoughError
from experiments.studies.results import Results, spreads, where

__all__ = ["accuracy_over_speed"]

MARKS = {
    "euler": ("Euler", ORANGE, "o"),
    "exponential-euler": ("exponential Euler", BLUE, "s"),
    "frozen-trapezoid": ("frozen trapezoid", PURPLE, "D"),
    "frozen-backward-euler": ("frozen backward Euler", MUTED, "v"),
    "etd2": ("ETD2", INK, "P"),
}
TITLES = {"before": "the symbol before", "now": "the symbol that is seen"}
CLOCKS = (2.0, 4.0, 8.0)
LEFT, RIGHT = 0.2, 1.6


def accuracy_over_speed(results: Results) -> Figure:
    """Draw a panel for each task. Raises: NotEnoughError where neither has a run."""
    if where(results.rows, kind="stretch").empty:
        raise NotEnoughError("there is no point to draw yet")
    with plots.style():
        figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
        axes = figure.subplots(1, len(TITLES), sharex=True, sharey=True)
        for ax, (said, title) in zip(axes, TITLES.items(), strict=True):
            _panel(ax, where(results.rows, said=said), said)
            ax.set_title(title, fontsize=9)
        axes[0].set(xlim=(LEFT, RIGHT), ylim=(-0.03, 1.05), ylabel="accuracy")
        figure.supxlabel("speed of time: 1 is the equation's", fontsize=10)
        plots.legend(figure, *axes)
        return figure


def _panel(ax: Axes, rows: pd.DataFrame, said: str) -> None:
    line = spreads(where(rows, kind="stretch", map=EXACT), "stretch", "accuracy")
    band(ax, line, GREEN, label="exact, slowed or sped up")
    for name, (label, colour, marker) in MARKS.items():
        for clock in CLOCKS:
            speed = where(rows, kind="speed", map=name, clock=clock, weights=said)["speed"]
            right = where(rows, kind="clock", map=name, clock=clock)["accuracy"]
            ax.plot(
                speed.tolist(),
                right.tolist(),
                marker,
                color=colour,
                alpha=0.75,
                markersize=2 + clock**0.6,
                markeredgewidth=0,
                label=label if clock == CLOCKS[1] else None,
            )
    ax.grid(axis="y")
