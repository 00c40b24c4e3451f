"""Draws scores over speeds: a row of panels for each way of training, in each a line for every way of running."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.compare.cells import Layout, Place, Seeds, cells, interval
from experiments.reports import plots
from experiments.reports.bands import LOOKS, band
from experiments.reports.plots import WIDTH
from experiments.reports.spreads import NotEnoughError, Spread
from experiments.studies.clocks.figures import clock_words
from experiments.studies.results import Results

__all__ = ["scores_figure"]

LONG = 22  # letters of a way's name beside which no other has room in the legend


def scores_figure(results: Results, layout: Layout) -> Figure:
    """Draw the scores of a comparison. Raises: NotEnoughError where there is none."""
    known = cells(results, layout)
    if not any(_spread(seeds, layout.score) for seeds in known.values()):
        raise NotEnoughError("there is no point to draw yet")
    return (_over_speeds if len(layout.speeds) > 1 else _over_ways)(known, layout)


def _over_speeds(known: Mapping[Place, Seeds], layout: Layout) -> Figure:
    columns = [(field, clock) for field in layout.fields for clock in layout.clocks]
    with plots.style():
        figure, axes = _panels(len(layout.ways), len(columns), 1.25 + 0.2 * len(layout.ways) + 1.3 * len(layout.ways))
        for i, trained in enumerate(layout.ways):
            for j, (field, clock) in enumerate(columns):
                ax = axes[i, j]
                ax.set_xscale("log", base=2)
                for k, run in enumerate(layout.ways):
                    each = {
                        speed: _spread(known[Place(field, trained, run, clock, speed)], layout.score) for speed in layout.speeds
                    }
                    points = {speed: value for speed, value in each.items() if value is not None}
                    colour, dashes, marker = LOOKS[k % len(LOOKS)]
                    label = f"run {run}"
                    if points:
                        band(ax, points, colour, linestyle=dashes, marker=marker, markersize=3.6, label=label)
                    _mark_lost(ax, [speed for speed in layout.speeds if speed not in points], colour)
                _entitle(ax, layout, trained, field, clock)
        axes[0, 0].set_xticks(layout.speeds, [clock_words(c) for c in layout.speeds])
        axes[0, 0].minorticks_off()
        figure.supxlabel("speed c at which the test is played", fontsize=10)
        return _finished(figure, axes, layout)


def _over_ways(known: Mapping[Place, Seeds], layout: Layout) -> Figure:
    """Draw a mark with its interval for each way of running, where the test is run at one speed."""
    columns = [(field, clock) for field in layout.fields for clock in layout.clocks]
    speed = layout.speeds[0] if layout.speeds else None
    with plots.style():
        figure, axes = _panels(1, len(columns), 3.2)
        for j, (field, clock) in enumerate(columns):
            ax = axes[0, j]
            for k, trained in enumerate(layout.ways):
                colour, _, marker = LOOKS[k % len(LOOKS)]
                for at, run in enumerate(layout.ways):
                    value = _spread(known[Place(field, trained, run, clock, speed)], layout.score)
                    x = at + 0.12 * (k - (len(layout.ways) - 1) / 2)
                    if value is None:
                        _mark_lost(ax, [x], colour)
                        continue
                    ax.plot([x, x], [value.low, value.high], color=colour, linewidth=1.4, solid_capstyle="butt")
                    ax.plot(x, value.mean, marker, color=colour, markersize=4.5, label=f"trained {trained}")
            ax.set_xticks(range(len(layout.ways)), layout.ways, rotation=20, ha="right")
            _entitle(ax, layout, "", field, clock)
        figure.supxlabel("run as", fontsize=10)
        return _finished(figure, axes, layout)


def _panels(rows: int, columns: int, height: float) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)


def _entitle(ax: Axes, layout: Layout, trained: str, field: str, clock: bool) -> None:
    parts = [field] * (len(layout.fields) > 1) + ["clock given" if clock else "clock hidden"] * (len(layout.clocks) > 1)
    way, _, dt = f"trained {trained}".partition(" dt=") if trained else ("", "", "")
    rest = ", ".join([f"dt={dt}"] * bool(dt) + parts)
    ax.set_title("\n".join(filter(None, [way, rest])), pad=2, fontsize=9)  # panels of two columns have room for no more
    ax.grid(axis="y")


def _mark_lost(ax: Axes, xs: list[float], colour: str) -> None:
    """Put a cross on the lower edge where no seed has a score."""
    for x in xs:
        ax.plot(x, 0.04, "x", color=colour, markersize=5, transform=ax.get_xaxis_transform())


def _finished(figure: Figure, axes: np.ndarray, layout: Layout) -> Figure:
    if layout.score == "accuracy":
        axes[0, 0].set_ylim(-0.03, 1.05)
    figure.supylabel(f"{layout.score} ({layout.better} is better)", fontsize=10)
    long = any(len(way) > LONG for way in layout.ways)
    plots.legend(figure, *axes.flat, length=2.6, columns=1 if long else 2)
    return figure


def _spread(seeds: Seeds, score: str) -> Spread | None:
    values = [one[score] for one in seeds.values() if not one["lost"]]
    return interval(values) if values else None
