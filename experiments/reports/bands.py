r"""Figures that several studies draw, from the least to the largest of what differs over seeds.

bands       lines over x with bands, panel above panel
dots        a row and a dot for each name
log_dots    dots on a logarithmic axis that has a place for exactly zero
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments.reports import plots
from experiments.reports.plots import BLUE, DASHES, GREEN, INK, ORANGE, PURPLE
from experiments.reports.spreads import NotEnoughError, Spread

__all__ = ["LOOKS", "Lines", "band", "bands", "dots", "log_dots"]

# Told apart by colour, dashes and markers, each by itself.
LOOKS = tuple(zip((ORANGE, BLUE, GREEN, PURPLE, INK), (*DASHES, (0, (7, 1.5, 1, 1.5))), ("o", "s", "^", "D", "v"), strict=True))
Lines = Mapping[str, Mapping[float, Spread]]  # name of the line -> x -> spread there


def bands(
    panels: Mapping[str, Lines],
    x_label: str,
    y_label: str,
    *,
    x_log: bool = False,
    y_log: bool = False,
    y_limits: tuple[float, float] | None = None,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    r"""Draw a panel for each title, in it a line for each model: the mean, and a band from the least to the largest.

    Args:    panels: title -> model -> x -> spread; a model looks the same in all of them;  levels: name -> y of a thin line
             across every panel, what is reached without memory, say.
    Raises:  NotEnoughError without any point;  ValueError for more than five models.
    """
    looks = _looks(panels)
    with plots.style():
        height = 1.0 + 0.2 * -(-len(looks) // 2) + 1.55 * len(panels)
        figure, axes = plots.panels(len(panels), height, sharex=True, sharey=True)
        xs = sorted({x for lines in panels.values() for points in lines.values() for x in points})
        for ax, (title, lines) in zip(axes, panels.items(), strict=True):
            for name, points in lines.items():
                colour, dashes, marker = looks[name]
                band(ax, points, colour, linestyle=dashes, marker=marker, markersize=4, label=name)
            ax.set_title(title, pad=2)
            ax.grid(axis="y")
        if y_log:
            axes[0].set_yscale("log")
        if y_limits is not None:
            axes[0].set_ylim(*y_limits)
        for ax in axes:
            for name, level in (levels or {}).items():
                plots.level(ax, level, name)
        if y_log:
            plots.decades(axes[0])
        _x_axis(axes[-1], xs, x_log)
        axes[-1].set_xlabel(x_label)
        figure.supylabel(y_label, fontsize=10)
        plots.legend(figure, *axes, length=2.6)
        return figure


def dots(rows: Mapping[str, Spread], x_label: str, x_limits: tuple[float, float | None]) -> Figure:
    """Draw a row for each name: a dot at the mean, with a bar from the least to the largest."""
    with plots.style():
        figure, (ax,) = plots.panels(1, 1.0 + 0.32 * len(rows))
        for row, value in enumerate(rows.values()):
            ax.plot([value.low, value.high], [row, row], color=ORANGE, linewidth=1.6, solid_capstyle="butt")
            ax.plot(value.mean, row, "o", color=ORANGE, markersize=5, clip_on=False)
        _name_rows(ax, list(rows))
        ax.set_xlim(*x_limits)
        ax.grid(axis="x")
        ax.set_xlabel(x_label)
        return figure


def log_dots(rows: Mapping[str, Mapping[str, float]], label: str) -> Figure:
    r"""Draw a row for each name and in it a dot for each series; zeros stand left of the axis' break.

    Args:    rows: name -> series -> value, at least 0; what is not finite stands at the right edge.
    Raises:  NotEnoughError without any value.
    """
    values = [value for series in rows.values() for value in series.values()]
    if not values:
        raise NotEnoughError("there is no point to draw yet")
    positive = [value for value in values if 0 < value < math.inf]
    low = math.floor(math.log10(min(positive, default=1.0)))
    high = max(math.ceil(math.log10(max(positive, default=1.0))), low + 1)
    zero = low - 0.12 * (high - low) - 0.4
    names = list(dict.fromkeys(name for series in rows.values() for name in series))
    looks = dict(zip(names, LOOKS, strict=False))
    with plots.style():
        figure, (ax,) = plots.panels(1, 1.1 + 0.4 * len(rows))
        for place, series in enumerate(rows.values()):
            for k, name in enumerate(names):
                if name in series:
                    value, (colour, _, marker) = series[name], looks[name]
                    x = zero if value == 0 else math.log10(value) if value < math.inf else high
                    y = place + 0.24 * (k - (len(names) - 1) / 2)
                    ax.plot(x, y, marker, color=colour, markersize=5.5, markerfacecolor="none" if value == 0 else colour)
        for name, (colour, _, marker) in looks.items():
            ax.plot([], [], marker, color=colour, markersize=5.5, label=name)
        ax.axvline((zero + low) / 2, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
        exponents = range(low, high + 1, max(1, -(-(high - low) // 5)))
        ax.set_xticks([zero, *exponents], ["0 exactly", *(f"{10.0**e:g}" for e in exponents)])
        ax.set_xlim(zero - 0.06 * (high - zero), high + 0.06 * (high - zero))
        _name_rows(ax, list(rows))
        ax.grid(axis="both")
        ax.set_xlabel(label)
        plots.legend(figure, ax, length=1.2)
        return figure


def _looks(panels: Mapping[str, Lines]) -> dict[str, tuple]:
    """Colour, dashes and marker of every model, in the order of their first appearance."""
    names = list(dict.fromkeys(name for lines in panels.values() for name, points in lines.items() if points))
    if not names:
        raise NotEnoughError("there is no point to draw yet")
    if len(names) > len(LOOKS):
        raise ValueError(f"{len(names)} lines cannot be told apart in one figure; there are looks for {len(LOOKS)}.")
    return dict(zip(names, LOOKS, strict=False))


def band(ax: Axes, points: Mapping[float, Spread], colour: str, **look: Any) -> None:
    """Draw the means over x as a line, and a band from the least to the largest; `look` as for `Axes.plot`."""
    xs = sorted(points)
    means, lows, highs = ([getattr(points[x], part) for x in xs] for part in ("mean", "low", "high"))
    ax.fill_between(xs, lows, highs, color=colour, alpha=0.2, linewidth=0)
    ax.plot(xs, means, color=colour, **look)


def _x_axis(ax: Axes, xs: list[float], log: bool) -> None:
    if log:
        ax.set_xscale("log")
        shown = xs[:: max(1, -(-len(xs) // 7))]
        ax.set_xticks(shown, [f"{x:g}" for x in shown])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(which="minor", bottom=False)


def _name_rows(ax: Axes, names: Sequence[str]) -> None:
    """From the top, without an axis of their own."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(left=False)
    ax.spines["left"].set_visible(False)
