"""Figures of accuracy over clocks: a grid of panels, trained on slow clocks to the left and on fast ones to the right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.reports import plots
from experiments.reports.plots import BLUE, DASHES, GREEN, GRID, MUTED, ORANGE, PURPLE, WIDTH
from experiments.studies.clock_findings import clock_words
from experiments.studies.records import NotEnoughError, Spread

__all__ = ["Panel", "Panels", "accuracy_over_clocks", "accuracy_over_paces"]

# How a way of running looks in every panel and figure.
LOOKS = {
    "euler": ("Taylor (Euler) step", ORANGE, DASHES[0], "o"),
    "exponential-euler": ("exponential Euler", BLUE, DASHES[1], "s"),
    "exact": ("exact", GREEN, DASHES[2], "^"),
    "softplus-clock": ("softplus clock, exponential", PURPLE, DASHES[3], "D"),
}
Panel = Mapping[str, Mapping[float, Spread]]  # run as -> c -> accuracy
Panels = Mapping[tuple[str, str], Panel]  # row, column -> panel


def accuracy_over_clocks(
    panels: Panels,
    x_label: str,
    trained: Mapping[str, Sequence[float]] | None = None,
    chance: float | None = None,
    empty: Mapping[tuple[str, str], str] | None = None,
) -> Figure:
    r"""A panel for each row and column, in it a line for each way of running the same weights.

    Args:    trained: column -> clocks of training, which are shaded;  chance: accuracy without memory, a thin line;
             empty: why a panel is.
    Raises:  NotEnoughError without any point.
    """
    if not any(points for panel in panels.values() for points in panel.values()):
        raise NotEnoughError("there is no point to draw yet")
    rows, columns = (list(dict.fromkeys(key[k] for key in panels)) for k in (0, 1))
    clocks = sorted({c for panel in panels.values() for points in panel.values() for c in points})
    with plots.style():
        figure = Figure(figsize=(WIDTH, 1.25 + 1.3 * len(rows)), layout="constrained")
        axes = np.atleast_2d(figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False))
        for (i, row), (j, column) in ((r, c) for r in enumerate(rows) for c in enumerate(columns)):
            ax = axes[i, j]
            ax.set_xscale("log", base=2)  # before the shade: it has a width in logarithms
            if trained and column in trained:
                ax.axvspan(min(trained[column]) / 2**0.35, max(trained[column]) * 2**0.35, color=GRID, alpha=0.7, linewidth=0)
            for way, points in panels.get((row, column), {}).items():
                _line(ax, way, points)
            if chance is not None:
                ax.axhline(chance, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
            ax.text(0.5, 0.5, (empty or {}).get((row, column), ""), transform=ax.transAxes, ha="center", color=MUTED, fontsize=9)
            ax.set_title(f"{row}\n{column}" if len(columns) > 1 else row, pad=2, fontsize=9)
            ax.grid(axis="y")
            ax.set_axisbelow(True)
        axes[0, 0].set_ylim(-0.03, 1.05)
        shown = clocks[:: max(1, -(-len(clocks) // (4 if len(columns) > 1 else 8)))]
        axes[0, 0].set_xticks(shown, [clock_words(c) for c in shown])
        axes[0, 0].minorticks_off()
        figure.supxlabel(x_label, fontsize=10)
        figure.supylabel("accuracy", fontsize=10)
        _legend(figure, axes.flat)
        return figure


def accuracy_over_paces(points: Mapping[str, Sequence[tuple[float, float]]], x_label: str) -> Figure:
    """A mark for each model on each clock; points: run as -> (largest pace, accuracy) of each."""
    if not any(points.values()):
        raise NotEnoughError("there is no point to draw yet")
    with plots.style():
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        ax = figure.add_subplot()
        for pace in (1.0, 2.0):
            ax.axvline(pace, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
        for way, marks in points.items():
            name, colour, _, marker = LOOKS[way]
            ax.plot(
                [x for x, _ in marks],
                [y for _, y in marks],
                marker,
                color=colour,
                markersize=4,
                alpha=0.7,
                markeredgewidth=0,
                label=name,
            )
        ax.set_xscale("log")
        ax.set_ylim(-0.03, 1.05)
        low, high = ax.get_xlim()
        ticks = [x for x in (0.01, 0.1, 0.5, 1, 2, 5, 10, 100, 1000) if low <= x <= high]
        ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
        ax.minorticks_off()
        ax.set_xlabel(x_label)
        ax.set_ylabel("accuracy")
        ax.grid(axis="y")
        ax.set_axisbelow(True)
        _legend(figure, [ax])
        return figure


def _line(ax: Axes, way: str, points: Mapping[float, Spread]) -> None:
    name, colour, dashes, marker = LOOKS[way]
    xs = sorted(points)
    ax.fill_between(xs, [points[x].low for x in xs], [points[x].high for x in xs], color=colour, alpha=0.2, linewidth=0)
    ax.plot(xs, [points[x].mean for x in xs], color=colour, linestyle=dashes, marker=marker, markersize=3.6, label=name)


def _legend(figure: Figure, axes: Iterable[Axes]) -> None:
    once = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(once.values(), once.keys(), loc="outside upper left", ncols=2, handlelength=2.6, columnspacing=1.2)
