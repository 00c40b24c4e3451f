"""The atlas's figures, drawn from arrays only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from experiments.breakdown.maps import FAMILIES
from experiments.reports import plots
from experiments.reports.plots import BLUE, DASHES, GREEN, GRID, INK, MUTED, ORANGE, PAPER, PURPLE

__all__ = ["by_family", "chart", "growths", "played", "region_bars"]

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, INK)
LINES = (*DASHES, (0, (7, 1.5, 1, 1.5, 1, 1.5)))
NAMES = {
    "ExponentialEuler": "Exponential Euler",
    "ExponentialRosenbrock": "Exp. Rosenbrock",
    "BackwardEuler": "Backward Euler",
    "FrozenBackwardEuler": "Frozen backward",
    "FrozenTrapezoid": "Frozen trapezoid",
    "StrangSplitting": "Strang",
    "RungeKutta4": "Runge-Kutta 4",
    "FittedMidpoint": "Fitted midpoint",
}
REGION_COLOURS = {"monotone": GREEN, "overshooting": ORANGE, "marginal": INK, "divergent": PURPLE}
# Rest is the paper itself: what is coloured is what the equation does not do.
FATE_COLOURS = (PAPER, BLUE, GREEN, ORANGE, GRID)
REGION_HATCHES = {"monotone": "", "overshooting": "///", "marginal": "", "divergent": "xxx"}


def region_bars(bars: Mapping[str, Sequence[tuple[float, float, str]]], label: str) -> Figure:
    """Draw a bar for each step map, from region to region: (start, end, region) with g dt on a logarithmic axis."""
    with plots.style():
        figure, (ax,) = plots.panels(1, 0.75 + 0.235 * len(bars))
        for row, pieces in enumerate(bars.values()):
            for start, end, region in pieces:
                for look in _looks(region):
                    ax.barh(row, end - start, left=start, height=0.72, **look)
        ax.set_yticks(range(len(bars)), list(bars), fontsize=9)
        ax.invert_yaxis()
        ax.set_xscale("log")
        first, last = next(iter(bars.values()))[0][0], next(iter(bars.values()))[-1][1]
        ax.set_xlim(first, last)
        plots.log_ticks(ax.xaxis)
        for mark in (1, 2):
            ax.axvline(mark, color=INK, linewidth=0.8)
        ax.tick_params(left=False)
        ax.spines["left"].set_visible(False)
        ax.set_xlabel(label)
        named = ("monotone", "overshooting", "divergent")
        handles: list[Any] = [tuple(Patch(**look) for look in _looks(region)) for region in named]
        figure.legend(handles, named, loc="outside upper left", ncols=3, handlelength=2.2, columnspacing=1.2)
        return figure


def _looks(region: str) -> list[dict[str, Any]]:
    """Return how a region is filled, and hatched by a patch of its own: in SVG a hatch takes the colour of a fill with alpha."""
    colour, hatch = REGION_COLOURS[region], REGION_HATCHES[region]
    hatched = [{"fill": False, "hatch": hatch, "edgecolor": colour, "linewidth": 0}] if hatch else []
    return [{"color": colour, "alpha": 0.55, "linewidth": 0}, *hatched]


def by_family(
    xs: Sequence[float],
    values: Mapping[str, Sequence[float]],
    x_label: str,
    y_label: str,
    limits: tuple[float, float],
    marks: Sequence[float] = (1, 2),
    ends: Mapping[str, Sequence[float]] | None = None,
    dots: tuple[str, Sequence[float], Sequence[float]] | None = None,
) -> Figure:
    """Draw a panel for each family of step maps, a line for each map; values beyond `limits` leave the panel at the top."""
    with plots.style():
        families = {name: [m for m in maps if m in values] for name, maps in FAMILIES.items()}
        # A family below the panel is exact: an empty panel would say less than none.
        families = {name: maps for name, maps in families.items() if any(max(values[m]) > limits[0] for m in maps)}
        figure, axes = plots.panels(len(families), 0.45 + 1.62 * len(families), sharex=True, sharey=True)
        for ax, (family, maps) in zip(axes, families.items(), strict=True):
            for name, colour, dashes in zip(maps, COLOURS, LINES, strict=False):
                at = xs if ends is None else ends[name]
                ys = np.asarray(values[name], dtype=float)
                shown = np.where(np.isfinite(ys), ys, 1e300)
                shown = np.clip(shown, None, limits[1] * 1e3)
                ax.plot(
                    at,
                    shown,
                    color=colour,
                    linestyle=dashes,
                    linewidth=1.3,
                    label=name,
                    marker="o" if ends is not None else None,
                    markersize=2.4,
                )
            if dots is not None:
                ax.plot(dots[1], dots[2], "s", color=MUTED, markersize=3, label=dots[0])
            ax.set_title(family, pad=2)
            ax.set(xscale="log", yscale="log")
            for mark in marks:
                ax.axvline(mark, color=GRID, linewidth=1)
            ax.set_ylim(*limits)
            ax.grid(axis="y")
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, handlelength=1.9)
            plots.decades(ax)
            ax.tick_params(which="minor", bottom=False)
        if ends is None:
            axes[-1].set_xlim(min(xs), max(xs))
            plots.log_ticks(axes[-1].xaxis, (0.01, 0.1, 1, 2, 10, 50))
        axes[-1].set_xlabel(x_label)
        figure.supylabel(y_label, fontsize=10)
        return figure


def growths(curves: pd.DataFrame) -> Figure:
    """Draw for each field the largest spectral radius along a run for two maps, and the norms above them."""
    with plots.style():
        fields = list(curves.field.unique())
        figure, axes = plots.panels(len(fields), 0.7 + 1.5 * len(fields), sharex=True)
        for ax, field in zip(axes, fields, strict=True):
            maps = curves[curves.field == field].groupby("step", sort=False)
            for (name, found), colour in zip(maps, (ORANGE, BLUE), strict=True):
                ax.plot(found.dt, found.radius, color=colour, label=f"{name}: spectral radius")
                ax.plot(found.dt, found.norm, color=colour, linestyle=DASHES[1], linewidth=1, label=f"{name}: norm, a bound")
            ax.axhline(1.0, color=INK, linewidth=0.8)
            ax.set_title(field, pad=2)
            ax.set(xscale="log", yscale="log", ylim=(0.2, 40))
            ax.set_yticks([0.5, 1, 2, 10], ["0.5", "1", "2", "10"])
            ax.minorticks_off()
            ax.grid(axis="y")
        axes[-1].set_xlim(curves.dt.min(), curves.dt.max())
        plots.log_ticks(axes[-1].xaxis)
        axes[-1].set_xlabel("step dt, in samples of the field's own clock")
        figure.supylabel("growth of a small difference in one step", fontsize=10)
        plots.legend(figure, axes[0], columns=1)
        return figure


def played(time: np.ndarray, g: np.ndarray, exact: np.ndarray, stepped: Mapping[str, np.ndarray], unit: int) -> Figure:
    """Draw c'g along a run on coloured ground, and a unit's state, exact and by each of some step maps."""
    with plots.style():
        ratios = [1.3, *([1] * len(stepped))]
        figure, axes = plots.panels(len(ratios), 1.7 + 1.15 * len(stepped), sharex=True, height_ratios=ratios)
        top = float(np.max(g)) * 1.3
        low = float(np.min(g)) / 1.3
        for start, end, region in ((low, 1, "monotone"), (1, 2, "overshooting"), (2, top, "divergent")):
            if end > start:
                axes[0].axhspan(max(low, start), min(top, end), color=REGION_COLOURS[region], alpha=0.22, linewidth=0)
                axes[0].text(time[0], math.sqrt(max(low, start) * min(top, end)), f" {region}", va="center", fontsize=9)
        axes[0].plot(time, g, color=INK, linewidth=1)
        axes[0].set_yscale("log")
        axes[0].set_ylim(low, top)
        plots.log_ticks(axes[0].yaxis)
        axes[0].set_title(f"c′g of unit {unit + 1}, a step", pad=2)
        for ax, (name, states) in zip(axes[1:], stepped.items(), strict=True):
            ax.plot(time, np.clip(states, -9, 9), color=ORANGE, linewidth=1.0, label="stepped")
            ax.plot(time, exact, color=INK, linewidth=1.0, label="exact")
            ax.set_title(name, pad=2)
            ax.set_ylim(-1.6, 1.6)
            ax.grid(axis="y")
        axes[-1].set_xlim(time[0], time[-1])
        axes[-1].set_xlabel("steps")
        plots.legend(figure, axes[-1])
        return figure


def chart(pictures: Mapping[str, np.ndarray], g_dt: np.ndarray, w: np.ndarray, fates: Sequence[str]) -> Figure:
    """Draw small panels of the plane of g dt and w, coloured by fate: (w, g dt), indices into `fates`."""
    with plots.style():
        columns = 6
        rows = math.ceil(len(pictures) / columns)
        figure = Figure(figsize=(1.8 * plots.WIDTH, 0.6 + 1.25 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for ax, (name, found) in zip(axes, pictures.items(), strict=False):
            _cells(ax, found, g_dt, w)
            ax.set_title(NAMES.get(name, name), fontsize=8, pad=2)
            ax.set(xscale="log", xlim=(g_dt[0], g_dt[-1]), ylim=(w[0], w[-1]))
            plots.log_ticks(ax.xaxis, (0.1, 1, 10))
            ax.axvline(1, color=MUTED, linewidth=0.6, linestyle=DASHES[3])
        for ax in axes[len(pictures) :]:
            ax.set_visible(False)
        for ax in axes[max(0, len(pictures) - columns) : len(pictures)]:  # the lowest of each column
            ax.tick_params(labelbottom=True)
        figure.supxlabel("g dt", fontsize=10)
        figure.supylabel("w", fontsize=10)
        handles = [
            Patch(facecolor=colour, edgecolor=MUTED, linewidth=0.6, label=fate)
            for fate, colour in zip(fates, FATE_COLOURS, strict=True)
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=5, handlelength=1.2, columnspacing=1.2)
        return figure


def _cells(ax: Axes, found: np.ndarray, g_dt: np.ndarray, w: np.ndarray) -> None:
    """Each colour as one outline, of the stretches of each row that have it: a small file, in the page's own colours."""
    edges, half = np.concatenate([g_dt[:1], np.sqrt(g_dt[:-1] * g_dt[1:]), g_dt[-1:]]), (w[1] - w[0]) / 2
    outlines: dict[int, list[Path]] = {}
    for level, row in zip(w, found, strict=True):
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(row)], strict=True):
            left, right, low, high = edges[start], edges[end], level - half, level + half
            corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
            outlines.setdefault(int(row[start]), []).append(Path(corners, closed=True))
    for fate, parts in outlines.items():
        if fate:
            ax.add_patch(PathPatch(Path.make_compound_path(*parts), facecolor=FATE_COLOURS[fate], linewidth=0))
