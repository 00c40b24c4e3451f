r"""Trajectories drawn, from arrays only: states over time, two of them against each other, and the steps taken.

Lines are the states between the requested times, where the solve kept its steps, and dots the states at these times.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from discretize.analysis.style import COLOURS, DASHES, WIDTH, settings

__all__ = ["DrawnCurve", "ShownFigure", "drawn"]

LIGHT = {name: light for name, (light, _) in COLOURS.items()}
LINES = [LIGHT[name] for name in ("blue", "orange", "green", "purple", "ink")]
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
MOST_DOTS = 60  # more are a line of their own
MOST_UNITS = (6, 3)  # of one curve, of each of several


@dataclass(frozen=True)
class DrawnCurve:
    """One sample's trajectory: states hs (n, state) at ts (n,), a finer line (m,), (m, state) through them, and what is known of
    steps, their ends (k + 1,), and of events, times (e,) and states (e, state); the method, and which sample, in words."""

    ts: np.ndarray
    hs: np.ndarray
    line: tuple[np.ndarray, np.ndarray]
    steps: np.ndarray | None
    events: tuple[np.ndarray, np.ndarray]
    method: str
    sample: str


@dataclass(frozen=True)
class _Look:
    colour: str
    dash: Any
    label: str


class ShownFigure(Figure):
    """A figure without pyplot's global state, which notebooks show all the same."""

    def _repr_png_(self) -> bytes:
        image = io.BytesIO()
        self.savefig(image, format="png", dpi=110)
        return image.getvalue()


def drawn(curves: Mapping[str, DrawnCurve], panels: str | Sequence[str], units: Sequence[int] | None) -> ShownFigure:
    """Draw panels one above the other; several curves differ in their dashes, units in colour and, of one curve, in dashes too.

    Raises:  ValueError for panels, units or steps that are not there.
    """
    named = (panels,) if isinstance(panels, str) else tuple(panels)
    width = min(curve.hs.shape[1] for curve in curves.values())
    chosen = list(range(min(width, MOST_UNITS[len(curves) > 1]))) if units is None else list(units)
    _check(curves, named, width, chosen)
    with rc_context(settings(LIGHT, LIGHT["paper"])):  # type: ignore[arg-type]
        heights = [PANELS[panel][1] for panel in named]
        figure = ShownFigure(figsize=(WIDTH, sum(heights) + 0.5), layout="constrained")
        axes = list(figure.subplots(len(named), 1, squeeze=False, height_ratios=heights)[:, 0])
        for ax, panel in zip(axes, named, strict=True):
            PANELS[panel][0](ax, curves, chosen)
        axes[0].set_title(_title(curves, width, chosen))
        if handles := _handles(curves, chosen, named):
            columns = min(len(handles), 4)
            figure.legend(handles=handles, loc="outside lower left", ncols=columns, handlelength=2.2, columnspacing=1.2)
        return figure


def _check(curves: Mapping[str, DrawnCurve], panels: Sequence[str], width: int, units: Sequence[int]) -> None:
    for panel in panels:
        if panel not in PANELS:
            raise ValueError(f"`panels` must be among {', '.join(map(repr, PANELS))}, got {panel!r}.")
    if not panels or not units or not all(type(unit) is int and 0 <= unit < width for unit in units):
        raise ValueError(f"`panels` must name one at least, and `units` be among 0 to {width - 1}; got {panels} and {units}.")
    if "plane" in panels and len(units) < 2:
        raise ValueError(f"A plane has two axes; `units` must name two of the state, got {units}.")
    if "steps" in panels and any(curve.steps is None for curve in curves.values()):
        raise ValueError("The steps of this solve were not kept; adaptive methods keep them, with gradient=None.")


def _name(unit: int) -> str:
    """Name a unit as equations count: h₁ is unit 0."""
    return f"h{unit + 1}".translate(SUBSCRIPTS)


def _looks(curves: Mapping[str, DrawnCurve], units: Sequence[int]) -> list[tuple[DrawnCurve, int, _Look]]:
    """List every line: of which curve and unit, and how it looks."""
    looks = []
    for curve, dash in zip(curves.values(), cycle(DASHES), strict=False):
        for unit, colour, own in zip(units, cycle(LINES), cycle(DASHES), strict=False):
            looks.append((curve, unit, _Look(colour, dash if len(curves) > 1 else own, _name(unit))))
    return looks


def _states(ax: Axes, curves: Mapping[str, DrawnCurve], units: Sequence[int]) -> None:
    for curve, unit, look in _looks(curves, units):
        times, states = curve.line
        ax.plot(times, states[:, unit], color=look.colour, linestyle=look.dash)
        if len(curve.ts) <= MOST_DOTS:
            ax.plot(curve.ts, curve.hs[:, unit], "o", color=look.colour, markersize=2.5)
        at, there = curve.events
        ax.plot(at, there[:, unit], "x", color=look.colour, markersize=5)
    ax.set_xlabel("time")
    ax.set_ylabel("state")


def _plane(ax: Axes, curves: Mapping[str, DrawnCurve], units: Sequence[int]) -> None:
    a, b = units[:2]
    for curve, _, look in _looks(curves, [a]):
        _, states = curve.line
        ax.plot(states[:, a], states[:, b], color=look.colour, linestyle=look.dash)
        if len(curve.ts) <= MOST_DOTS:
            ax.plot(curve.hs[:, a], curve.hs[:, b], "o", color=look.colour, markersize=2.5)
        ax.plot(curve.hs[0, a], curve.hs[0, b], "o", color=LIGHT["ink"], markerfacecolor=LIGHT["paper"], markersize=5)
        _, there = curve.events
        ax.plot(there[:, a], there[:, b], "x", color=look.colour, markersize=5)
    ax.set_xlabel(_name(a))
    ax.set_ylabel(_name(b))


def _steps(ax: Axes, curves: Mapping[str, DrawnCurve], units: Sequence[int]) -> None:
    for curve, dash in zip(curves.values(), cycle(DASHES), strict=False):
        assert curve.steps is not None
        ax.stairs(np.diff(curve.steps), curve.steps, baseline=None, color=LIGHT["ink"], linestyle=dash, linewidth=1.0)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, high / 4), max(high, 4 * low))  # steps that are all alike have an axis too
    ticks = (1.0, 2.0, 5.0) if high < 10 * low else (1.0, 3.0) if high < 300 * low else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=ticks))
    ax.yaxis.set_major_formatter(lambda length, _: f"{length:g}")
    ax.minorticks_off()
    ax.set_xlabel("time")
    ax.set_ylabel("step length")


Panel = Callable[[Axes, Mapping[str, DrawnCurve], Sequence[int]], None]
PANELS: dict[str, tuple[Panel, float]] = {"states": (_states, 2.1), "plane": (_plane, 2.8), "steps": (_steps, 1.3)}


def _title(curves: Mapping[str, DrawnCurve], width: int, units: Sequence[int]) -> str:
    first = next(iter(curves.values()))
    words = [
        "" if len(curves) > 1 else first.method,
        first.sample,
        "" if len(units) == width else f"{len(units)} of {width} units",
    ]
    return ", ".join(filter(None, words))


def _handles(curves: Mapping[str, DrawnCurve], units: Sequence[int], panels: Sequence[str]) -> list[Line2D]:
    handles: list[Line2D] = []
    if "states" in panels:
        looks = [look for _, _, look in _looks(curves, units)][: len(units)]
        handles += [
            Line2D([], [], color=look.colour, linestyle=look.dash if len(curves) == 1 else "-", label=look.label)
            for look in looks
        ]
    if len(curves) > 1:
        looks_of_curves: Any = zip(curves, cycle(DASHES), strict=False)
        handles += [Line2D([], [], color=LIGHT["ink"], linestyle=dash, label=label) for label, dash in looks_of_curves]
    markers = [("o", "start", "plane" in panels), ("x", "event", any(len(curve.events[0]) for curve in curves.values()))]
    handles += [
        Line2D([], [], color=LIGHT["ink"], marker=marker, markerfacecolor=LIGHT["paper"], linestyle="none", label=label)
        for marker, label, there in markers
        if there
    ]
    return handles
