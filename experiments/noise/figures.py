r"""Draws the figures of docs/noise.md: `python -m experiments.noise.figures`, some minutes; names draw some of them only."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sympy import Rational

import discretize
from ctrnn.storage.files import write_atomically
from experiments.breakdown.noise import said
from experiments.noise import decision, laws
from experiments.reports import plots, svg
from experiments.reports.plots import BLUE, DASHES, GREEN, INK, MUTED, ORANGE, PURPLE

__all__ = ["FIGURES"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
COLOURS, MARKS = (ORANGE, PURPLE, BLUE, GREEN, INK), ("o", "s", "^", "D", "v")
STEPS = (
    discretize.EulerMaruyama(),
    discretize.Milstein(),
    discretize.StratonovichHeun(),
    discretize.SRA1(),
    discretize.ExponentialEulerMaruyama(),
)
TRIALS = 5000
HIGHEST = 4.5  # variance
POWERS = {0.5: "√dt", 1: "dt", 1.5: "dt √dt"}


def path() -> Figure:
    """Draw one Brownian path as read at steps of four lengths."""
    found = discretize.BrownianPath(7, torch.arange(5.0), 1)
    with plots.style():
        figure, (ax,) = plots.panels(1, 2.6)
        for n, colour, width in ((64, MUTED, 0.6), (4, GREEN, 1.0), (2, BLUE, 1.3), (1, ORANGE, 1.8)):
            ts = torch.linspace(0, 4, 4 * n + 1)
            name = f"dt = 1/{n}" if n > 1 else "dt = 1"
            mark = "o" if n < 64 else ""
            ax.plot(ts, found(ts)[:, 0, 0], color=colour, linewidth=width, label=name, marker=mark, markersize=3.5)
        ax.set(xlabel="t, in samples", ylabel="W(t), in √samples", xlim=(0, 4))
        ax.set_xticks(range(5))
        ax.grid(axis="y")
        plots.legend(figure, ax, columns=2, order=(3, 2, 1, 0))
        return figure


def inside() -> Figure:
    """Draw the mean of tanh(1 + noise) against the step at which the noise is drawn."""
    measured, fine = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.004), np.geomspace(0.002, 1, 60)
    flat = laws.mean_tanh(laws.WHITE / laws.COLOUR**0.5)
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.0)
        ax.plot(fine, [laws.mean_tanh(laws.WHITE * (2 / dt) ** 0.5) for dt in fine], color=ORANGE, linestyle=DASHES[1])
        ax.plot(fine, [flat] * len(fine), color=BLUE)
        for colored, colour, mark, name in (
            (False, ORANGE, "o", "white: 0.3 √(2/dt) ξ, new at each step"),
            (True, BLUE, "s", "ColoredInput of the same strength, τ = 0.1"),
        ):
            found = [laws.mean_response(dt, colored) for dt in measured]
            ax.plot(measured, found, mark, color=colour, markersize=4.5, label=name)
        ax.set(xscale="log", xlabel="step dt, in time constants of the unit", ylabel="mean of h", ylim=(0, 0.8), xlim=(0.002, 1))
        plots.log_ticks(ax.xaxis, (0.002, 0.01, 0.05, 0.2, 1))
        ax.grid(axis="y")
        plots.legend(figure, ax, columns=1)
        return figure


def strong() -> Figure:
    """Draw the error of single paths against the step, for multiplied and for added noise."""
    with plots.style():
        figure, axes = plots.panels(2, 6.0, sharex=True)
        kinds = (("multiplied", "dh = -h dt + 0.8 h dW", (0.5, 1)), ("added", "a leaky network of 4 units, + dW", (1, 1.5)))
        for ax, (kind, title, slopes) in zip(axes, kinds, strict=True):
            lowest = 1.0
            for step, colour, mark in zip(STEPS, COLOURS, MARKS, strict=True):
                if (kind == "multiplied" and step.of == "additive") or (kind == "added" and step.of == "diagonal"):
                    continue  # Milstein's step is Euler's where noise is added
                found = laws.strong_errors(step, kind)
                ax.plot(list(found), list(found.values()), color=colour, marker=mark, markersize=4, label=type(step).__name__)
                lowest = min(lowest, *found.values())
            dts = np.array([2.0**-6, 2.0**-1])
            for slope, dashes in zip(slopes, (DASHES[3], DASHES[1]), strict=True):
                guide = 0.5 * lowest * (dts / dts[0]) ** slope
                ax.plot(dts, guide, color=MUTED, linestyle=dashes, linewidth=1)
                ax.text(dts[1] * 1.05, guide[1], POWERS[slope], va="center", fontsize=9, color=MUTED)
            ax.set(xscale="log", yscale="log", xlim=(2.0**-6.3, 1))
            ax.set_title(title, pad=2)
            ax.grid(axis="y")
            plots.decades(ax)
        axes[-1].set_xlabel("step dt, in samples")
        axes[-1].set_xticks([2.0**-n for n in (6, 5, 4, 3, 2, 1)], ["1/64", "1/32", "1/16", "1/8", "1/4", "1/2"])
        axes[-1].minorticks_off()
        figure.supylabel("root mean square error of h(1)", fontsize=10)
        plots.legend(figure, *axes, columns=1)
        return figure


def variance() -> Figure:
    """Draw the variance that each step gives a unit whose variance is 1."""
    fine, measured = np.linspace(0.01, 3, 150), (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.5)
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.5)
        for step, colour, mark in zip(STEPS, COLOURS, MARKS, strict=True):
            if isinstance(step, discretize.Milstein):
                continue  # its variance is Euler's
            drawn = [dt for dt in fine if 0 < _said(step, dt) < HIGHEST]
            ax.plot(drawn, [_said(step, dt) for dt in drawn], color=colour, linewidth=1)
            seen = [dt for dt in measured if 0 < _said(step, dt) < HIGHEST]  # beyond 2 it is negative: no rest
            found = [laws.variance(step, dt) for dt in seen]
            ax.plot(seen, found, mark, color=colour, markersize=4, label=type(step).__name__)
        ax.axvline(2, color=MUTED, linewidth=0.8, linestyle=DASHES[3])
        ax.set(ylim=(0, HIGHEST), xlim=(0, 3), xlabel="step dt, in time constants of the unit", ylabel="variance at rest")
        ax.grid(axis="y")
        plots.legend(figure, ax, columns=1)
        return figure


def _said(step: discretize.StochasticStep, dt: float) -> float:
    return said(step, Rational(dt))


def psychometric() -> Figure:
    """Draw how often the network chooses the side of the evidence, by coherence and step, for each way to step."""
    with plots.style():
        figure = Figure(figsize=(1.7 * plots.WIDTH, 5.8), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
        fine = np.geomspace(decision.COHERENCES[0], decision.COHERENCES[-1], 60)
        for ax, (name, way) in zip(axes, decision.STEPS.items(), strict=True):
            ax.plot(100 * fine, [decision.probability(c) for c in fine], color=INK, linewidth=1, label="the equation")
            for dt, colour, mark in zip(decision.LENGTHS, COLOURS, MARKS, strict=False):
                _choices(ax, decision.choices(way, dt, TRIALS), colour, mark, f"dt = {dt:g} τ")
                steep = decision.steepness(name, dt)
                ax.plot(
                    100 * fine, [decision.probability(c, steep) for c in fine], color=colour, linewidth=0.8, linestyle=DASHES[3]
                )
            ax.set_title(name, pad=2)
            ax.set(xscale="log", xlim=(2.7, 60), ylim=(0.5, 1.01))
            ax.set_xticks([100 * c for c in decision.COHERENCES], [f"{100 * c:g}" for c in decision.COHERENCES])
            ax.minorticks_off()
            ax.grid(axis="y")
        figure.supxlabel("coherence of the evidence, %", fontsize=10)
        figure.supylabel("share of trials in which its side was chosen", fontsize=10)
        plots.legend(figure, axes[0], columns=5)
        return figure


def _choices(ax: Axes, found: decision.Choices, colour: str, mark: str, name: str) -> None:
    at = [100 * c for c in decision.COHERENCES]
    errors = np.abs(np.array([found.low, found.high]) - np.array(found.right))
    ax.errorbar(at, found.right, errors, fmt=mark, color=colour, markersize=3.5, elinewidth=0.9, label=name)


FIGURES: dict[str, Callable[[], Figure]] = {
    "path": path,
    "inside": inside,
    "strong": strong,
    "variance": variance,
    "psychometric": psychometric,
}


def main(names: Sequence[str]) -> None:
    page = (DOCS / "noise.md").read_text(encoding="utf-8")
    for name in names or FIGURES:
        words = re.search(rf"!\[([^]]*)\]\(figures/noise-{name}\.svg\)", page)
        assert words, f"docs/noise.md shows no {name}"
        title, description = words[1].split(": ", 1)
        drawn = svg.inline_svg(FIGURES[name](), f"noise-{name}", title, description)
        write_atomically(DOCS / "figures" / f"noise-{name}.svg", svg.with_colours(drawn))


if __name__ == "__main__":
    main(sys.argv[1:])
