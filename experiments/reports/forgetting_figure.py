"""Forgetting as the lecture draws it: units by time scale, the long ones on top, and what of a sample is left in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from torch import Tensor

from experiments.models.forgetting import forgetting_times
from experiments.reports import plots
from experiments.reports.plots import BLUE, INK, MUTED, ORANGE

__all__ = ["forgetting_figure"]

# Where one shade ends and the next begins: shares of a unit's largest influence. Below the first is paper.
SHADES = (0.02, 0.05, 0.1, 0.2, float(np.exp(-1)), 0.6, 0.8)
NAMES = ("2 %", "5 %", "10 %", "20 %", "1/e", "60 %", "80 %", "all")
OPACITIES = np.linspace(0.1, 1.0, len(SHADES)) ** 1.2
ROWS = 64


def forgetting_figure(influence: Tensor | np.ndarray, timescales: Tensor | np.ndarray) -> Figure:
    r"""Draw what is left of a sample in each unit as time passes, and the measured time scales against those that were set.

    Colour is one ink in seven strengths, so that it follows the page's, and says more where there is more; a dot in every
    row is where 1/e is left. With more than 64 units, neighbours share a row, in which their mean is drawn.

    Args:    influence: of `forgetting`, (horizon, hidden); timescales: of `ctrnn.timescales`, (hidden,).
    Raises:  ValueError where the two are not about the same units.
    Source:  Huth's lecture slides of 2020, "bias controls the timescale"; the second panel is this project's.
    """
    shares, scales = np.asarray(influence, dtype=float), np.asarray(timescales, dtype=float)
    if shares.ndim != 2 or scales.shape != shares.shape[1:] or 0 in shares.shape:
        raise ValueError(
            f"`influence` must be (horizon, hidden) and `timescales` (hidden,), got shapes {shares.shape} and {scales.shape}."
        )
    order = np.argsort(scales, kind="stable")
    shares, scales = shares[:, order], scales[order]
    largest = shares.max(0)
    shares = np.divide(shares, largest, out=np.zeros_like(shares), where=largest > 0)
    times = _times(shares)
    with plots.style():
        figure, (above, below) = plots.panels(2, 6.6, height_ratios=[1.15, 1])
        _memories(above, shares, scales)
        _scale(figure, above)
        _agreement(below, scales, times, len(shares))
        return figure


def _times(shares: np.ndarray) -> np.ndarray:
    return forgetting_times(torch.as_tensor(shares)).numpy()


def _memories(ax: Axes, shares: np.ndarray, scales: np.ndarray) -> None:
    """A row for each unit, or for each few."""
    groups = np.array_split(np.arange(len(scales)), min(ROWS, len(scales)))
    rows = [shares[:, group].mean(1) for group in groups]
    middles = np.array([np.median(scales[group]) for group in groups])
    _shade(ax, rows)
    drawn = np.stack(rows, 1)
    fallen = drawn.argmax(0) + _times(drawn)
    ax.plot(fallen, np.arange(len(rows)), "o", color=INK, markersize=min(3.0, 90 / len(rows)), linestyle="none")
    ax.set_xlim(-0.5, len(shares) - 0.5)
    ax.set_ylim(-0.5, len(rows) - 0.5)
    ticks = np.unique(np.linspace(0, len(rows) - 1, 6).round().astype(int))
    ax.set_yticks(ticks, [f"{middles[k]:.0f}" if middles[k] >= 10 else f"{middles[k]:.2g}" for k in ticks])
    ax.set_ylabel("unit, by its set time scale")
    ax.set_xlabel("samples since the one left out")


def _shade(ax: Axes, rows: Sequence[np.ndarray]) -> None:
    """Neighbours of one shade are one rectangle: a row has few, however long."""
    boxes: list[list[list[tuple[float, float]]]] = [[] for _ in SHADES]
    for k, row in enumerate(rows):
        shade = np.searchsorted(SHADES, np.nan_to_num(row), side="right")
        starts = np.concatenate([[0], np.flatnonzero(np.diff(shade)) + 1])
        for start, end in zip(starts, [*starts[1:], len(row)], strict=True):
            if shade[start]:
                left, right = start - 0.5, end - 0.5
                box = [(left, k - 0.45), (right, k - 0.45), (right, k + 0.45), (left, k + 0.45)]
                boxes[shade[start] - 1].append(box)
    for opacity, some in zip(OPACITIES, boxes, strict=True):
        ax.add_collection(PolyCollection(some, facecolor=BLUE, alpha=float(opacity), linewidth=0))


def _scale(figure: Figure, ax: Axes) -> None:
    """The shades, side by side."""
    bar = ax.inset_axes((0.0, 1.06, 1.0, 0.035))
    for k, opacity in enumerate(OPACITIES):
        bar.add_collection(PolyCollection([[(k, 0), (k + 1, 0), (k + 1, 1), (k, 1)]], facecolor=BLUE, alpha=float(opacity), lw=0))
    bar.set_xlim(0, len(SHADES))
    bar.set_ylim(0, 1)
    bar.set_yticks([])
    bar.set_xticks(range(len(NAMES)), NAMES)
    bar.xaxis.tick_top()
    bar.tick_params(length=0, labelsize=9)
    bar.spines[:].set_visible(False)
    bar.set_title("influence left in a unit, its largest = all (dot: 1/e)", pad=18)


def _agreement(ax: Axes, scales: np.ndarray, times: np.ndarray, horizon: int) -> None:
    """Measured against set, both logarithmic; what has not fallen within the horizon stands at its end, as an arrow."""
    shown = (times > 0) & np.isfinite(times) & np.isfinite(scales)
    late = np.isposinf(times) & np.isfinite(scales)
    known = np.concatenate([scales[shown | late], times[shown], [float(horizon)] * int(late.any())])
    low, high = (known.min() / 1.3, known.max() * 1.3) if known.size else (1.0, 10.0)
    ax.plot([low, high], [low, high], color=MUTED, linestyle=(0, (4, 2)), linewidth=1, label="equal")
    ax.plot(scales[shown], times[shown], "o", color=BLUE, markersize=4, alpha=0.8, markeredgewidth=0, label="a unit")
    if late.any():
        at_end = np.full(int(late.sum()), float(horizon))
        ax.plot(scales[late], at_end, "^", color=ORANGE, markersize=5, label="not before the end")
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for axis in (ax.xaxis, ax.yaxis):
        plots.log_ticks(axis, [m * 10**e for e in range(-1, 5) for m in (1, 2, 5)])
    ax.set_xlabel("set time scale, in samples")
    ax.set_ylabel("measured, in samples")
    ax.grid()
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, handlelength=1.6, columnspacing=1.2, borderaxespad=0.2)
