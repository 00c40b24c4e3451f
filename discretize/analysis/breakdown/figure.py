"""Draws a breakdown: distances by step, time, unit and sequence, factors in the plane, and g dt over time and by unit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from discretize.analysis.drawing import ShownFigure
from discretize.analysis.refinement import CLOSE, VISIBLE
from discretize.analysis.style import COLOURS, WIDTH, settings

__all__ = ["drawn"]

LIGHT = {name: light for name, (light, _) in COLOURS.items()}
MARKS = "osD^v"
MOST_POINTS, MOST_COLUMNS = 1_000, 100  # that are drawn of factors, and of steps


Colours = Mapping[str, str]


def drawn(found: Any, colours: Colours = LIGHT, paper: str = LIGHT["paper"], columns: int = 2) -> ShownFigure:
    """Draw what a `Breakdown` knows, a panel each; colours: by the names of `style.COLOURS`."""
    panels = [_distances, _over_time, _by_unit, _by_sequence]
    panels += [] if found.modes is None else [_factors, _growth]
    panels += [] if found.g_dt is None else [_rates, _regions]
    rows = -(-len(panels) // columns)
    with rc_context(settings(colours, paper)):  # type: ignore[arg-type]
        figure = ShownFigure(figsize=(columns * WIDTH, 2.9 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        for ax, panel in zip(axes, panels, strict=False):
            panel(ax, found, colours)
        for ax in axes[len(panels) :]:
            ax.axis("off")
        return figure


def _plain_numbers(*axes: Axis) -> None:
    """Write powers of ten as numbers, whose letters are as large as the others."""
    for axis in axes:
        axis.set_major_formatter(lambda x, _: f"{x:g}")
        axis.set_minor_formatter(NullFormatter())


def _distances(ax: Axes, found: Any, colours: Colours) -> None:
    steps = list(dict.fromkeys(other.step for other in found.others))
    for step, colour, mark in zip(steps, cycle(("ink", "blue", "orange", "green", "purple")), cycle(MARKS), strict=False):
        rows = [(o.evaluations, o.share) for o in found.others if o.step == step and 0 < o.share < math.inf]
        if rows:
            ax.plot(*zip(*rows, strict=True), color=colours[colour], marker=mark, markersize=4, label=step)
    for share in (CLOSE, VISIBLE):
        ax.axhline(share, color=colours["muted"], linewidth=0.8, linestyle=(0, (4, 2)))
    ax.set(xscale="log", yscale="log", xlabel="evaluations of the field in a sample", ylabel="states apart, of their spread")
    _plain_numbers(ax.xaxis, ax.yaxis)
    ax.set_title("From the equation, by step (lines: 1 and 10 %)")
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.22), ncols=2, columnspacing=1)


def _over_time(ax: Axes, found: Any, colours: Colours) -> None:
    ax.plot(found.over_time.cpu().numpy(), color=colours["blue"])
    ax.set(xlabel="sample", ylabel="states apart, of their spread", ylim=(0, None))
    ax.set_title(f"By time, stepped by {found.step}")


def _by_unit(ax: Axes, found: Any, colours: Colours) -> None:
    apart = found.by_unit.cpu().numpy()
    units, bounded = np.arange(len(apart)), np.isfinite(apart)
    ax.bar(units, np.where(bounded, apart, 0.0), color=colours["blue"])
    if not bounded.all():
        edge = np.full((~bounded).sum(), 0.97)
        ax.plot(units[~bounded], edge, "x", color=colours["orange"], transform=ax.get_xaxis_transform(), label="without bound")
        ax.legend(loc="lower right")
    ax.set(xlabel="unit", ylabel="states apart, of their spread")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title("By unit")


def _by_sequence(ax: Axes, found: Any, colours: Colours) -> None:
    apart = found.by_sequence.cpu()
    order, changed = apart.argsort(), found.scores.changed
    others = torch.zeros(len(apart), dtype=torch.bool, device="cpu") if changed is None else changed > 0
    places = torch.arange(1, len(apart) + 1, device="cpu")
    for which, colour, mark, name in (
        (~others, "blue", "o", "answer alike"),
        (others, "orange", "D", "answer otherwise when solved"),
    ):
        shown = which[order]
        label = name if changed is not None and bool(shown.any()) else None
        ax.plot(places[shown], apart[order][shown], mark, color=colours[colour], markersize=4, label=label)
    ax.set(xlabel="sequences, from the nearest to the furthest", ylabel="states apart, of their spread", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title("By sequence")
    if changed is not None:
        ax.legend()


def _factors(ax: Axes, found: Any, colours: Colours) -> None:
    assert found.modes is not None
    turn = np.linspace(0, 2 * math.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color=colours["muted"], linewidth=0.8)
    for modes, colour, mark, name in (
        (found.modes.stepped, "blue", "x", "step"),
        (found.modes.exact, "orange", ".", "equation, exp(dt λ)"),
    ):
        points = modes.flatten().cpu()
        points = points[:: -(-len(points) // MOST_POINTS)]
        ax.plot(points.real, points.imag, mark, color=colours[colour], markersize=3, alpha=0.5, label=name, linestyle="none")
    ax.set(xlabel="real part of a factor", ylabel="imaginary part", aspect="equal")
    ax.set_title("Factors of small differences in a step")
    ax.legend(loc="upper left")


def _growth(ax: Axes, found: Any, colours: Colours) -> None:
    assert found.modes is not None
    for growth, colour, name in (
        (found.modes.growth_exact, "orange", "equation"),
        (found.modes.growth_stepped, "blue", "steps"),
    ):
        steps = range(1, growth.shape[1] + 1)
        ax.plot(steps, growth.amax(0).cpu(), color=colours[colour], marker="o", markersize=3, label=f"{name}, largest")
        ax.plot(steps, growth.median(0).values.cpu(), color=colours[colour], linestyle=(0, (4, 2)), label="median")
    ax.axhline(1, color=colours["muted"], linewidth=0.8)
    ax.set(xlabel="steps", ylabel="growth of a difference", yscale="log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    _plain_numbers(ax.yaxis)
    ax.set_title("Growth over several steps")
    ax.legend()


def _rates(ax: Axes, found: Any, colours: Colours) -> None:
    assert found.g_dt is not None
    finite = found.g_dt.double().cpu().nan_to_num(0.0, 0.0, 0.0)
    for share, dash in ((0.5, (0, (4, 2))), (0.9, (0, (2, 1))), (1.0, "-")):
        name = "largest" if share == 1 else f"{share:.0%} of units below"
        ax.plot(finite.quantile(share, 1), color=colours["blue"], linestyle=dash, label=name)
    for limit in (1, 2):
        ax.axhline(limit, color=colours["orange"], linewidth=0.8)
    ax.set(xlabel="step", ylabel="g dt, the largest over sequences", ylim=(0, None))
    ax.set_title("Rate times step (lines: 1 and 2)")
    ax.legend()


def _regions(ax: Axes, found: Any, colours: Colours) -> None:
    assert found.g_dt is not None
    finite = found.g_dt.double().cpu().nan_to_num(0.0)
    parts = finite.tensor_split(min(len(finite), MOST_COLUMNS))
    largest = torch.stack([part.amax(0) for part in parts])  # of neighbouring steps, where there are many
    shades = [colours[name] for name in ("grid", "green", "orange", "purple")]
    edges = np.linspace(0, len(finite), len(parts) + 1)
    units = np.arange(finite.shape[1] + 1) - 0.5
    ax.pcolormesh(edges, units, largest.mT.numpy(), cmap=ListedColormap(shades), norm=BoundaryNorm([0, 0.5, 1, 2, 1e300], 4))
    names = ("below 0.5", "0.5 to 1", "1 to 2", "from 2")
    marks = [Patch(facecolor=shade, label=name) for shade, name in zip(shades, names, strict=True)]
    ax.legend(handles=marks, loc="lower left", bbox_to_anchor=(0, 1.1), ncols=2)
    ax.set(xlabel="step", ylabel="unit of the state")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_title("Largest g dt of a unit over sequences")
