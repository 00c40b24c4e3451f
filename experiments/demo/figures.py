"""The demo's figures, drawn from arrays only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from experiments.demo.warped_runs import WarpedRun
from experiments.reports.plots import BLUE, DASHES, GREEN, GRID, INK, MUTED, ORANGE, PAPER, PURPLE, decades, legend, panels, style

__all__ = ["accuracies", "clocks", "deviations", "landing", "recording", "step_errors", "step_states", "warp"]

BY_CLOCK = (BLUE, ORANGE, GREEN, PURPLE)
BY_MODEL = ((ORANGE, (0, (4, 1.5)), "o"), (BLUE, "-", "s"))
ENVELOPE = 80  # points that a line of hundreds is drawn by
SAMPLES = "what the clock shows, in samples"
SHARED = {"sharex": True, "sharey": True}


def recording(xs: np.ndarray, rate: float, names: Sequence[str]) -> Figure:
    """Draw channels one above the other; xs (time, channels), standardized."""
    with style():
        figure, (ax,) = panels(1, 0.9 + 0.52 * len(names))
        apart = 6.0
        for k, name in enumerate(names):
            ax.plot(np.arange(len(xs)), xs[:, k] - apart * k, color=BLUE, linewidth=0.8, label=name)
        ax.set_yticks([-apart * k for k in range(len(names))], names, parse_math=False)  # a "$" in a name is a "$"
        ax.set(ylabel="channel", xlabel="time in samples", xlim=(0, len(xs) - 1))
        ax.tick_params(left=False)
        ax.spines["left"].set_visible(False)
        seconds = ax.secondary_xaxis("top", functions=(lambda t: np.asarray(t) / rate, lambda s: np.asarray(s) * rate))
        seconds.set_xlabel("time in seconds")
        return figure


def clocks(runs: Sequence[WarpedRun], xs: np.ndarray, window: float, marked: tuple[int, int]) -> Figure:
    """Draw one channel xs (time,) on every clock, a row a clock, over the same stretch of time; the same samples are marked."""
    with style():
        figure, axes = panels(len(runs) + 1, 0.55 + 0.78 * (len(runs) + 1), **SHARED)
        rows = [("as recorded", np.arange(len(xs), dtype=float)), *((run.clock.name, run.ts) for run in runs)]
        first, last = marked
        for ax, (name, ts) in zip(axes, rows, strict=True):
            ax.axvspan(ts[first], ts[last], color=GRID, linewidth=0)
            ax.plot(ts, xs, color=MUTED, linewidth=0.9)
            ax.plot(ts[first : last + 1], xs[first : last + 1], color=BLUE, linewidth=1.5)
            _bare(ax, name)
            ax.tick_params(bottom=ax is axes[-1])
        seen = np.concatenate([xs[ts <= window] for _, ts in rows])
        low, high = np.quantile(seen, (0.004, 0.996))  # a rare spike may be cut off, so that the rest has a shape
        axes[0].set(ylim=(low - 0.3, high + 0.3), xlim=(0, window))
        axes[-1].set_xlabel("time t in units")
        return figure


def landing(runs: Sequence[WarpedRun], unwarped: np.ndarray, shown: slice, unit: int) -> Figure:
    """Draw one unit's state on every clock against what the clock shows: with its speed, without it, and unwarped."""
    with style():
        figure, axes = panels(len(runs), 1.2 + 1.0 * len(runs), **SHARED)
        for ax, run in zip(axes, runs, strict=True):
            _landing(ax, run, unwarped, shown, unit, 30, ("on its clock, without c′", "unwarped", "on its clock, times c′"))
            ax.set_title(run.clock.name, pad=2)
        axes[-1].set_xlabel(SAMPLES)
        figure.supylabel(f"state of unit {unit + 1}", fontsize=10)
        legend(figure, axes[0], order=[1, 2, 0])
        return figure


def warp(run: WarpedRun, xs: np.ndarray, unwarped: np.ndarray, shown: slice, unit: int) -> Figure:
    """Draw the README's figure: a channel xs (time,) on two clocks, a unit's state on each, and one landing on the other."""
    with style(**{"figure.facecolor": PAPER, "savefig.facecolor": PAPER}):
        figure = Figure(figsize=(8.0, 4.4), layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1))
        grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.35], hspace=0.08)
        left, right, below = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, :])
        samples = np.arange(len(xs))
        for ax, ts, colour, title in (
            (left, samples[shown], INK, "the recording, x(t)"),
            (right, run.ts[shown], BLUE, "on another clock, x(c(t))"),
        ):
            ax.plot(ts, xs[shown], color=colour, linewidth=1.1)
            _bare(ax, title)
            ax.set(xlim=(ts[0], ts[-1]), xlabel="time t, in units")
        labels = ("warped, without c′(t)", "h: dh/dt = f(x(t), h)", "warped: dh/dt = c′(t) f(x(c(t)), h)")
        _landing(below, run, unwarped, shown, unit, 60, labels)
        below.set_title("the state of one unit, where the clock shows c(t) = s")
        below.set_xlabel("s, in samples")
        legend(figure, below, order=[1, 2, 0], columns=3, place="outside lower center")
        return figure


def deviations(runs: Sequence[WarpedRun], limit: float) -> Figure:
    """Draw the largest deviation over units along the recording, with and without the clock's speed, and the limit."""
    with style():
        figure, (ax,) = panels(1, 3.5)
        smallest = limit
        for run, colour, dashes in zip(runs, BY_CLOCK, DASHES, strict=True):
            samples, (fine, gross) = _upper_envelope(run.deviation_with, run.deviation_without)
            smallest = min(smallest, float(fine[fine > 0].min(initial=limit)))
            ax.plot(samples, gross, color=colour, linestyle=dashes, linewidth=1.2)
            ax.plot(
                samples, np.where(fine > 0, fine, np.nan), color=colour, linestyle=dashes, linewidth=1.5, label=run.clock.name
            )
        ax.axhline(limit, color=INK, linewidth=0.9)
        last = len(runs[0].ts) - 1
        ax.text(last, limit * 1.5, "allowed", ha="right", va="bottom")
        ax.text(0.02 * last, 8.0, "without c′", ha="left", va="center")
        ax.text(0.02 * last, smallest / 8, "times c′", ha="left", va="center")
        ax.set(yscale="log", ylim=(smallest / 40, 40), xlim=(0, last), xlabel=SAMPLES, ylabel="largest deviation of a unit")
        decades(ax)
        ax.grid(axis="y")
        legend(figure, ax)
        return figure


def step_states(exact: np.ndarray, stepped: Mapping[int, np.ndarray], shown: slice, unit: int) -> Figure:
    """Draw one unit's state, exact and by Euler steps, a row for each number of steps a sample."""
    with style():
        figure, axes = panels(len(stepped), 0.95 + 1.05 * len(stepped), **SHARED)
        samples = np.arange(1, len(exact) + 1)[shown]
        for ax, (n, states) in zip(axes, stepped.items(), strict=True):
            ax.plot(samples, exact[shown], color=INK, linewidth=1.2, label="exact")
            ax.plot(samples, states[shown], "o-", color=ORANGE, markersize=2.6, linewidth=0.8, label="Euler steps")
            ax.set_title("1 step a sample: the cell as it is used" if n == 1 else f"slowed down: {n} steps a sample", pad=2)
            ax.grid(axis="y")
        axes[0].set_xlim(samples[0], samples[-1])
        axes[-1].set_xlabel("samples read")
        figure.supylabel(f"state of unit {unit + 1}", fontsize=10)
        legend(figure, axes[0])
        return figure


def step_errors(ns: Sequence[int], largest: Sequence[float], rms: Sequence[float]) -> Figure:
    """Draw the deviation of the Euler steps from the solution against steps a sample, both logarithmic."""
    with style():
        figure, (ax,) = panels(1, 3.1)
        steps = np.asarray(ns, dtype=float)
        dotted: dict[str, Any] = {"color": MUTED, "linestyle": (0, (2, 2)), "linewidth": 1}
        for errors, colour, marker, name in ((largest, BLUE, "o", "largest"), (rms, GREEN, "s", "root mean square")):
            ax.plot(steps, errors, marker=marker, color=colour, markersize=5, label=name)
            ax.plot(steps, errors[-1] * steps[-1] / steps, **dotted)
        ax.plot([], [], **dotted, label="proportional to 1/n")
        _powers_of_two(ax, ns)
        ax.set_yscale("log")
        decades(ax)
        ax.set(xlabel="steps a sample, n (each covers 1/n of it)", ylabel="deviation from exact")
        ax.grid(axis="y")
        legend(figure, ax)
        return figure


def accuracies(
    samples: Sequence[int], shares: Mapping[str, Mapping[str, Sequence[float]]], trained: tuple[int, int], chance: float
) -> Figure:
    """Draw two panels over samples a symbol, a line for each model; in the lower one the speeds `trained` at are shaded."""
    with style():
        figure, axes = panels(2, 4.6, **SHARED)
        for ax, (title, lines) in zip(axes, shares.items(), strict=True):
            for (name, ys), (colour, dashes, marker) in zip(lines.items(), BY_MODEL, strict=True):
                ax.plot(samples, ys, color=colour, linestyle=dashes, marker=marker, markersize=4.5, label=name)
            ax.axhline(chance, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
            ax.annotate(
                "guessing",
                (0.5, chance),
                (0, 2),
                ("axes fraction", "data"),
                "offset points",
                ha="center",
                va="bottom",
                fontsize=9,
                color=MUTED,
            )
            ax.set_title(title, pad=2)
            ax.grid(axis="y")
        # Above, a unit of time is what it was in training, and the number of samples in it is on no axis of the training.
        axes[1].axvspan(*trained, color=GRID, linewidth=0)
        _powers_of_two(axes[0], samples)
        axes[0].set_ylim(0, 1.05)
        axes[1].set_xlabel("samples a symbol: fast on the left, slow on the right")
        figure.supylabel("share of symbols recalled", fontsize=10)
        legend(figure, axes[0])
        return figure


def _landing(
    ax: Axes, run: WarpedRun, unwarped: np.ndarray, shown: slice, unit: int, dots: int, labels: tuple[str, str, str]
) -> None:
    samples = np.arange(len(unwarped))[shown]
    every = max(1, len(samples) // dots)
    without, states = run.without[shown, unit], run.with_speed[shown, unit]
    ax.plot(samples, without, color=ORANGE, linestyle=(0, (4, 1.5)), linewidth=1.1, label=labels[0])
    ax.plot(samples, unwarped[shown, unit], color=INK, linewidth=1.1, label=labels[1])
    ax.plot(samples[::every], states[::every], "o", color=BLUE, markersize=3.4, label=labels[2])
    ax.set_xlim(samples[0], samples[-1])
    ax.grid(axis="y")


def _bare(ax: Axes, title: str) -> None:
    """A trace whose height says nothing."""
    ax.set_title(title, pad=2)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _powers_of_two(ax: Axes, ns: Sequence[int]) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xticks(ns, [str(n) for n in ns])
    ax.minorticks_off()


def _upper_envelope(*series: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Every series as the largest of each few neighbours, so that a line of hundreds of points stays a line."""
    length = len(series[0])
    starts = np.arange(0, length, max(1, -(-length // ENVELOPE)))
    return starts, [np.maximum.reduceat(values, starts) for values in series]
