"""Figures of fits and profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from discretize.analysis.drawing import ShownFigure
from discretize.analysis.style import COLOURS, DASHES, WIDTH, settings
from discretize.fitting.problem import Problem

__all__ = ["drawn_fit", "drawn_profile"]

LIGHT = {name: light for name, (light, _) in COLOURS.items()}
LINES = [LIGHT[name] for name in ("blue", "orange", "green", "purple", "ink")]
FINE = 400  # times of a line
Solved = Callable[[torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]  # times, series -> states and outputs at them


def drawn_fit(problem: Problem, noise: Mapping[str, float], solved: Solved, units: Mapping[str, str]) -> ShownFigure:
    """Draw a panel for each output, one for the states that are not seen, and one for what is left.

    Raises:  ValueError for units of what is not there.
    """
    hidden = [k for k, _ in enumerate(problem.states) if k not in problem.observe]
    known = {"time", *problem.outputs, *problem.states, *problem.series[0].constants}
    if set(units) - known:
        raise ValueError(f"`units` has {sorted(set(units) - known)}; it may have {sorted(known)}.")
    heights = [1.7] * len(problem.outputs) + [1.3] * bool(hidden) + [1.3]
    with rc_context(settings(LIGHT, LIGHT["paper"])):  # type: ignore[arg-type]
        figure = ShownFigure(figsize=(WIDTH, sum(heights) + 1.0), layout="constrained")
        axes = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
        handles, dashes = [], list[Any](DASHES)
        for k, (series, colour) in enumerate(zip(problem.series, cycle(LINES), strict=False)):
            fine = torch.linspace(float(series.ts[0]), float(series.ts[-1]), FINE, dtype=torch.float64)
            states, lines = solved(fine, k)
            left = series.values - solved(series.ts, k)[1]
            if len(problem.series) > 1:
                own = ", ".join(f"{name} {value:g} {units.get(name, '')}".strip() for name, value in series.constants.items())
                handles.append(Line2D([], [], color=colour, label=own or f"series {k}"))
            for i, name in enumerate(problem.outputs):
                dots = LINES[i % len(LINES)] if len(problem.series) == 1 else colour
                axes[i].plot(series.ts, series.values[:, i], "o", color=dots, markersize=2.5)
                axes[i].plot(fine, lines[:, i], color=dots)
                axes[-1].plot(series.ts, left[:, i] / noise[name], "o", color=dots, markersize=2.5)
            for state, line in zip(hidden, cycle(dashes), strict=False):
                shade = LIGHT["ink"] if len(problem.series) == 1 else colour
                axes[-2].plot(fine, states[:, state], color=shade, linestyle=line)
        for ax, name in zip(axes, problem.outputs, strict=False):
            ax.set_ylabel(_label(name, units))
        if hidden:
            names = [_label(problem.states[k], units) for k in hidden]
            axes[-2].set_ylabel(names[0] if len(names) == 1 else "not seen")
            if len(names) > 1:
                handles += [
                    Line2D([], [], color=LIGHT["ink"], linestyle=line, label=name)
                    for name, line in zip(names, cycle(dashes), strict=False)
                ]
        axes[-1].axhline(0, color=LIGHT["muted"], linewidth=0.8)
        axes[-1].set_ylabel("residual / noise")
        axes[-1].set_xlabel(_label("time", units))
        axes[0].set_title("values (dots) and fit (lines)")
        if handles:
            figure.legend(handles=handles, loc="outside lower left", ncols=3, handlelength=2.2, columnspacing=1.2)
        return figure


def drawn_profile(
    name: str, unit: str, x: np.ndarray, y: np.ndarray, threshold: float, level: float, ends: tuple[float | None, float | None]
) -> ShownFigure:
    """Draw chi2 over a parameter, the threshold of a level, and the ends of the interval."""
    with rc_context(settings(LIGHT, LIGHT["paper"])):  # type: ignore[arg-type]
        figure = ShownFigure(figsize=(WIDTH, 2.4), layout="constrained")
        ax: Axes = figure.subplots()
        ax.plot(x, y, "o-", color=LIGHT["blue"], markersize=2.5)
        ax.axhline(threshold, color=LIGHT["muted"], linewidth=0.8, linestyle="--")
        ax.set_ylim(-0.1 * threshold, 3 * threshold)
        for end in ends:
            if end is not None:
                ax.axvline(end, color=LIGHT["orange"], linewidth=0.8)
        ax.set_xlabel(_label(name, {name: unit} if unit else {}))
        ax.set_ylabel("growth of chi2")
        ax.set_title(f"the dashed line is passed at {level:.0%}")
        return figure


def _label(name: str, units: Mapping[str, str]) -> str:
    return f"{name} ({units[name]})" if name in units else name
