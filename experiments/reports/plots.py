r"""Figures, drawn from arrays only: matplotlib without pyplot, so that nothing global is touched.

Wide enough for a column of text, with letters that a phone can still show. Colours are placeholders; `demo/svg.py` puts
the page's in their place. They are told apart by the colour-blind, and no figure relies on colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from experiments.reports.colours import COLOURS

__all__ = ["ClockTrace", "clocks", "deviations", "landing", "recording", "step_errors", "step_states", "warp"]

INK, MUTED, GRID, PAPER, BLUE, ORANGE, GREEN, PURPLE = (placeholder for placeholder, _ in COLOURS.values())
BY_CLOCK = (BLUE, ORANGE, GREEN, PURPLE)
DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1.2, 1.2)))

WIDTH = 4.2  # inches
STYLE: dict[str, Any] = {
    "font.size": 10, "axes.labelsize": 10, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "axes.titlesize": 10,
    "legend.fontsize": 9.5, "font.family": ["DejaVu Sans"], "lines.linewidth": 1.3, "axes.linewidth": 0.8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": MUTED, "axes.labelcolor": INK,
    "text.color": INK, "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "legend.frameon": False, "axes.facecolor": "none", "figure.facecolor": "none", "grid.color": GRID, "grid.linewidth": 0.8,
    "axes.titlelocation": "left", "axes.unicode_minus": True, "axes.formatter.use_mathtext": False,
}  # fmt: skip


@dataclass(frozen=True)
class ClockTrace:
    r"""One clock, as figures need it.

    Shape:   ts (n,) when the clock shows sample 0, 1, ...; xs (n,) a channel; with_speed, without (n,) a unit's state;
             deviation_with, deviation_without (n,) the largest over units.
    """

    name: str
    ts: np.ndarray
    xs: np.ndarray
    with_speed: np.ndarray
    without: np.ndarray
    deviation_with: np.ndarray
    deviation_without: np.ndarray


def recording(xs: np.ndarray, rate: float, names: Sequence[str]) -> Figure:
    """Channels one above the other; xs (time, channels), standardized."""
    with style():
        figure = Figure(figsize=(WIDTH, 0.9 + 0.52 * len(names)), layout="constrained")
        ax = figure.add_subplot()
        apart = 6.0
        for k, name in enumerate(names):
            ax.plot(np.arange(len(xs)), xs[:, k] - apart * k, color=BLUE, linewidth=0.8, label=name)
        ax.set_yticks([-apart * k for k in range(len(names))], names)
        ax.set_ylabel("channel")
        ax.set_xlabel("time in samples")
        ax.set_xlim(0, len(xs) - 1)
        ax.tick_params(left=False)
        ax.spines["left"].set_visible(False)
        seconds = ax.secondary_xaxis("top", functions=(lambda t: np.asarray(t) / rate, lambda s: np.asarray(s) * rate))
        seconds.set_xlabel("time in seconds")
        return figure


def clocks(traces: Sequence[ClockTrace], original: np.ndarray, window: float, marked: tuple[int, int]) -> Figure:
    """One channel on every clock, one row a clock, over the same stretch of time; the same samples marked in each."""
    with style():
        figure = Figure(figsize=(WIDTH, 0.55 + 0.78 * (len(traces) + 1)), layout="constrained")
        axes = figure.subplots(len(traces) + 1, 1, sharex=True, sharey=True)
        rows = [("as recorded", np.arange(len(original), dtype=float), original)]
        rows += [(trace.name, trace.ts, trace.xs) for trace in traces]
        first, last = marked
        for ax, (name, ts, xs) in zip(axes, rows, strict=True):
            ax.axvspan(ts[first], ts[last], color=GRID, linewidth=0)
            ax.plot(ts, xs, color=MUTED, linewidth=0.9)
            ax.plot(ts[first : last + 1], xs[first : last + 1], color=BLUE, linewidth=1.5)
            ax.set_title(name, pad=2)
            ax.set_yticks([])
            ax.spines["left"].set_visible(False)
            ax.tick_params(bottom=ax is axes[-1])
        seen = np.concatenate([xs[ts <= window] for _, ts, xs in rows])
        low, high = np.quantile(seen, (0.004, 0.996))  # a rare spike may be cut off, so that the rest has a shape
        axes[0].set_ylim(low - 0.3, high + 0.3)
        axes[0].set_xlim(0, window)
        axes[-1].set_xlabel("time t in units")
        return figure


def landing(traces: Sequence[ClockTrace], unwarped: np.ndarray, shown: slice, unit: int) -> Figure:
    """One unit's state on every clock against what the clock shows: with its speed, without it, and unwarped."""
    with style():
        figure = Figure(figsize=(WIDTH, 1.2 + 1.0 * len(traces)), layout="constrained")
        axes = figure.subplots(len(traces), 1, sharex=True, sharey=True)
        samples = np.arange(len(unwarped))[shown]
        every = max(1, len(samples) // 30)
        for ax, trace in zip(axes, traces, strict=True):
            ax.plot(
                samples,
                trace.without[shown],
                color=ORANGE,
                linestyle=(0, (4, 1.5)),
                linewidth=1.1,
                label="on its clock, without c′",
            )
            ax.plot(samples, unwarped[shown], color=INK, linewidth=1.1, label="unwarped")
            ax.plot(
                samples[::every],
                trace.with_speed[shown][::every],
                "o",
                color=BLUE,
                markersize=3.2,
                label="on its clock, times c′",
            )
            ax.set_title(trace.name, pad=2)
            ax.grid(axis="y")
            ax.set_axisbelow(True)
        axes[0].set_xlim(samples[0], samples[-1])
        axes[-1].set_xlabel("what the clock shows, in samples")
        figure.supylabel(f"state of unit {unit + 1}", fontsize=10)
        handles, labels = axes[0].get_legend_handles_labels()
        order = [1, 2, 0]
        handles, labels = [handles[k] for k in order], [labels[k] for k in order]
        figure.legend(handles, labels, loc="outside upper left", ncols=2, handlelength=1.8, columnspacing=1.2)
        return figure


def deviations(traces: Sequence[ClockTrace], limit: float) -> Figure:
    """The largest deviation over units along the recording, with and without the clock's speed, and the limit."""
    with style():
        figure = Figure(figsize=(WIDTH, 3.5), layout="constrained")
        ax = figure.add_subplot()
        smallest = limit
        for trace, colour, dashes in zip(traces, BY_CLOCK, DASHES, strict=True):
            samples, (fine, gross) = _upper_envelope(trace.deviation_with, trace.deviation_without)
            smallest = min(smallest, float(fine[fine > 0].min(initial=limit)))
            ax.plot(samples, gross, color=colour, linestyle=dashes, linewidth=1.2)
            ax.plot(samples, np.where(fine > 0, fine, np.nan), color=colour, linestyle=dashes, linewidth=1.5, label=trace.name)
        ax.axhline(limit, color=INK, linewidth=0.9)
        last = len(traces[0].ts) - 1
        ax.text(last, limit * 1.5, "allowed", ha="right", va="bottom")
        ax.text(0.02 * last, 8.0, "without c′", ha="left", va="center")
        ax.text(0.02 * last, smallest / 8, "times c′", ha="left", va="center")
        ax.set_yscale("log")
        ax.set_ylim(smallest / 40, 40)
        ax.set_xlim(0, last)
        decades(ax)
        ax.set_xlabel("what the clock shows, in samples")
        ax.set_ylabel("largest deviation of a unit")
        ax.grid(axis="y")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=2.6, columnspacing=1.2)
        return figure


def step_states(exact: np.ndarray, stepped: Sequence[tuple[int, np.ndarray]], shown: slice, unit: int) -> Figure:
    """One unit's state, exact and by Euler steps, one row for each number of steps a sample."""
    with style():
        figure = Figure(figsize=(WIDTH, 0.95 + 1.05 * len(stepped)), layout="constrained")
        axes = np.atleast_1d(figure.subplots(len(stepped), 1, sharex=True, sharey=True))
        samples = np.arange(1, len(exact) + 1)[shown]
        for ax, (n, states) in zip(axes, stepped, strict=True):
            ax.plot(samples, exact[shown], color=INK, linewidth=1.2, label="exact")
            ax.plot(samples, states[shown], "o-", color=ORANGE, markersize=2.6, linewidth=0.8, label="Euler steps")
            ax.set_title("1 step a sample: the cell as it is used" if n == 1 else f"slowed down: {n} steps a sample", pad=2)
            ax.grid(axis="y")
            ax.set_axisbelow(True)
        axes[0].set_xlim(samples[0], samples[-1])
        axes[-1].set_xlabel("samples read")
        figure.supylabel(f"state of unit {unit + 1}", fontsize=10)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=1.8)
        return figure


def step_errors(ns: Sequence[int], largest: Sequence[float], rms: Sequence[float]) -> Figure:
    """Deviation of the Euler steps from the solution against steps a sample, both logarithmic."""
    with style():
        figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
        ax = figure.add_subplot()
        steps = np.asarray(ns, dtype=float)
        for errors, colour, marker, name in ((largest, BLUE, "o", "largest"), (rms, GREEN, "s", "root mean square")):
            ax.plot(steps, errors, marker=marker, color=colour, markersize=5, label=name)
            ax.plot(steps, errors[-1] * steps[-1] / steps, color=MUTED, linestyle=(0, (2, 2)), linewidth=1)
        ax.plot([], [], color=MUTED, linestyle=(0, (2, 2)), linewidth=1, label="proportional to 1/n")
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(steps, [str(n) for n in ns])
        ax.minorticks_off()
        decades(ax)
        ax.set_xlabel("steps a sample, n (each covers 1/n of it)")
        ax.set_ylabel("deviation from exact")
        ax.grid(axis="y")
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=1.8, columnspacing=1.2)
        return figure


def warp(trace: ClockTrace, original: np.ndarray, unwarped: np.ndarray, shown: slice) -> Figure:
    """The README's figure: a recording on two clocks, a unit's state on each, and one landing on the other."""
    with style(**{"figure.facecolor": PAPER, "savefig.facecolor": PAPER}):
        figure = Figure(figsize=(8.0, 4.4), layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1))
        grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.35], hspace=0.08)
        left, right, below = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, :])
        samples = np.arange(len(original))[shown]
        left.plot(samples, original[shown], color=INK, linewidth=1.1)
        right.plot(trace.ts[shown], original[shown], color=BLUE, linewidth=1.1)
        left.set_title("the recording, x(t)")
        right.set_title("on another clock, x(c(t))")
        for ax, ts in ((left, samples), (right, trace.ts[shown])):
            ax.set_yticks([])
            ax.spines["left"].set_visible(False)
            ax.set_xlim(ts[0], ts[-1])
            ax.set_xlabel("time t, in units")
        below.plot(samples, trace.without[shown], color=ORANGE, linestyle=(0, (4, 1.5)), label="warped, without c′(t)")
        below.plot(samples, unwarped[shown], color=INK, label="h: dh/dt = f(x(t), h)")
        every = max(1, len(samples) // 60)
        below.plot(samples[::every], trace.with_speed[shown][::every], "o", color=BLUE, markersize=4,
                   label="warped: dh/dt = c′(t) f(x(c(t)), h)")  # fmt: skip
        below.set_title("the state of one unit, where the clock shows c(t) = s")
        below.set_xlim(samples[0], samples[-1])
        below.set_xlabel("s, in samples")
        below.grid(axis="y")
        handles, labels = below.get_legend_handles_labels()
        figure.legend([handles[k] for k in (1, 2, 0)], [labels[k] for k in (1, 2, 0)], loc="outside lower center", ncols=3)
        return figure


def style(**more: str) -> AbstractContextManager[None]:
    return rc_context(cast(Any, {**STYLE, **more}))


def _upper_envelope(*series: np.ndarray, most: int = 80) -> tuple[np.ndarray, list[np.ndarray]]:
    """Every series as the largest of each few neighbours, so that a line of hundreds of points stays a line."""
    length = len(series[0])
    starts = np.arange(0, length, max(1, -(-length // most)))
    return starts, [np.maximum.reduceat(values, starts) for values in series]


def decades(ax: Axes) -> None:
    """Powers of ten as text: matplotlib's own are set in its mathematical font."""
    superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

    def name(exponent: int) -> str:
        return {-3: "0.001", -2: "0.01", -1: "0.1", 0: "1", 1: "10"}.get(exponent, f"10{str(exponent).translate(superscripts)}")

    low, high = ax.get_ylim()
    exponents = list(range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1))
    exponents = exponents[:: max(1, -(-len(exponents) // 6))]
    ax.set_yticks([10.0**e for e in exponents], [name(e) for e in exponents])
    ax.tick_params(axis="y", which="minor", left=False)
