"""Draws the scores of a field over speeds: a row of panels for each way of training, in each a line for every way of running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.compare.cells import ComparisonLayout, CrosswiseCell, Seeds, cells, interval
from experiments.reports import plots
from experiments.reports.bands import LOOKS, band
from experiments.reports.plots import WIDTH
from experiments.reports.spreads import NotEnoughError, Spread
from experiments.studies.clocks.figures import clock_words
from experiments.studies.results import Results

__all__ = ["scores_figure"]

DECADES = 30  # between the smallest and the largest score, above which the axis is logarithmic
LONG = 22  # letters of a way's name beside which no other has room in the legend


def scores_figure(results: Results, layout: ComparisonLayout) -> Figure:
    """Draw the scores of a comparison of one field. Raises: NotEnoughError where there is none."""
    known = cells(results, layout)
    if not any(_spread(seeds, layout.score) for seeds in known.values()):
        raise NotEnoughError("there is no point to draw yet")
    return (_over_speeds if len(layout.speeds) > 1 else _over_ways)(known, layout)


def _over_speeds(known: Mapping[CrosswiseCell, Seeds], layout: ComparisonLayout) -> Figure:
    (field,) = layout.fields
    with plots.style():
        figure, axes = _panels(len(layout.ways), len(layout.clocks), 1.25 + 0.2 * len(layout.ways) + 1.3 * len(layout.ways))
        for i, trained in enumerate(layout.ways):
            for j, clock in enumerate(layout.clocks):
                ax = axes[i, j]
                ax.set_xscale("log", base=2)
                for k, run in enumerate(layout.ways):
                    seeds = {speed: known[CrosswiseCell(field, trained, run, clock, speed)] for speed in layout.speeds}
                    each = {speed: _spread(one, layout.score) for speed, one in seeds.items()}
                    colour, dashes, look = _look(k)
                    if points := {speed: value for speed, value in each.items() if value is not None}:
                        band(ax, points, colour, linestyle=dashes, markersize=3.6, label=f"run {run}", **look)
                    _mark_lost(ax, [speed for speed, one in seeds.items() if _any_lost(one)], colour)
                _entitle(ax, layout, trained, clock)
        axes[0, 0].set_xticks(layout.speeds, [clock_words(c) for c in layout.speeds])
        axes[0, 0].minorticks_off()
        figure.supxlabel("speed c at which the test is played", fontsize=10)
        return _finished(figure, axes, layout)


def _over_ways(known: Mapping[CrosswiseCell, Seeds], layout: ComparisonLayout) -> Figure:
    """Draw a mark with its interval for each way of running, where the test is run at one speed."""
    (field,) = layout.fields
    speed = layout.speeds[0] if layout.speeds else None
    with plots.style():
        figure, axes = _panels(1, len(layout.clocks), 3.2)
        for j, clock in enumerate(layout.clocks):
            ax = axes[0, j]
            for k, trained in enumerate(layout.ways):
                colour, _, look = _look(k)
                for at, run in enumerate(layout.ways):
                    seeds = known[CrosswiseCell(field, trained, run, clock, speed)]
                    x = at + 0.6 * ((k + 0.5) / len(layout.ways) - 0.5)
                    if (value := _spread(seeds, layout.score)) is not None:
                        ax.plot([x, x], [value.low, value.high], color=colour, linewidth=1.4, solid_capstyle="butt")
                        ax.plot(x, value.mean, color=colour, linestyle="", markersize=4.5, label=f"trained {trained}", **look)
                    _mark_lost(ax, [x] * _any_lost(seeds), colour)
            ax.set_xticks(range(len(layout.ways)), layout.ways, rotation=20, ha="right")
            _entitle(ax, layout, "", clock)
        figure.supxlabel("run as", fontsize=10)
        return _finished(figure, axes, layout)


def _panels(rows: int, columns: int, height: float) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)


def _entitle(ax: Axes, layout: ComparisonLayout, trained: str, clock: bool) -> None:
    parts = ["clock given" if clock else "clock hidden"] * (len(layout.clocks) > 1)
    way, _, dt = f"trained {trained}".partition(" dt=") if trained else ("", "", "")
    rest = ", ".join([f"dt={dt}"] * bool(dt) + parts)
    ax.set_title("\n".join(filter(None, [way, rest])), pad=2, fontsize=9)  # panels of two columns have room for no more
    ax.grid(axis="y")


def _mark_lost(ax: Axes, xs: list[float], colour: str) -> None:
    """Put a cross on the lower edge where a seed has no score."""
    for x in xs:
        ax.plot(x, 0.04, "x", color=colour, markersize=5, transform=ax.get_xaxis_transform())


def _finished(figure: Figure, axes: np.ndarray, layout: ComparisonLayout) -> Figure:
    if layout.score == "accuracy":
        axes[0, 0].set_ylim(-0.03, 1.05)
    elif _over_decades(axes):
        axes[0, 0].set_yscale("log")
        plots.decades(axes[0, 0])
    figure.supylabel(f"{layout.score} ({layout.better} is better)", fontsize=10)
    long = any(len(way) > LONG for way in layout.ways)
    plots.legend(figure, *axes.flat, length=2.6, columns=1 if long else 2)
    return figure


def _over_decades(axes: np.ndarray) -> bool:
    """Return whether what is drawn is above 0, and would not be seen side by side: a loss of 1 beside one of 1000, say."""
    drawn = [np.asarray(line.get_ydata(), float) for ax in axes.flat for line in ax.get_lines() if line.get_label()[:1] != "_"]
    values = np.concatenate(drawn)
    return bool(values.min() > 0 and values.max() > DECADES * values.min())


def _look(k: int) -> tuple[str, Any, dict[str, Any]]:
    """Return colour, dashes and marker of a way; of the sixth on, the same colours with open markers and other dashes."""
    (colour, dashes, marker), again = LOOKS[k % len(LOOKS)], k // len(LOOKS)
    return (
        colour,
        LOOKS[(k + again) % len(LOOKS)][1] if again else dashes,
        {"marker": marker, "fillstyle": "none" if again else "full"},
    )


def _any_lost(seeds: Seeds) -> bool:
    return any(one["lost"] for one in seeds.values())


def _spread(seeds: Seeds, score: str) -> Spread | None:
    values = [one[score] for one in seeds.values() if not one["lost"]]
    return interval(values) if values else None
