r"""What all figures share: a style, panels, a legend, logarithmic ticks; matplotlib without pyplot's global state.

Wide enough for a column of text, with letters that a phone can still show. Colours are placeholders; `svg` puts the page's in
their place. They differ for the colour-blind too, and no figure relies on colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, cast

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from discretize.analysis import style as house
from experiments.reports.colours import COLOURS

__all__ = [
    "BLUE",
    "DASHES",
    "GREEN",
    "GRID",
    "INK",
    "MUTED",
    "ORANGE",
    "PAPER",
    "PURPLE",
    "STYLE",
    "WIDTH",
    "decades",
    "legend",
    "level",
    "log_ticks",
    "panels",
    "powers_of_two",
    "style",
]

INK, MUTED, GRID, PAPER, BLUE, ORANGE, GREEN, PURPLE = (placeholder for placeholder, *_ in COLOURS.values())

Place = Literal["outside upper left", "outside lower center"]
WIDTH, DASHES = house.WIDTH, house.DASHES
STYLE = house.settings({name: placeholder for name, (placeholder, *_) in COLOURS.items()})


def style(**more: str) -> AbstractContextManager[None]:
    """Draw figures in the style of pages, within this context."""
    return rc_context(cast(Any, {**STYLE, **more}))


def panels(count: int, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Make panels one above the other, in a figure of that height in inches; `options` as for `Figure.subplots`."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(count, 1, squeeze=False, **options)[:, 0])


def legend(
    figure: Figure,
    *axes: Axes,
    order: Sequence[int] = (),
    columns: int = 2,
    place: Place = "outside upper left",
    length: float = 2.2,
) -> None:
    """Name every label of these panels once, perhaps in another order, outside of all panels."""
    once = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    labels = [list(once)[k] for k in order or range(len(once))]
    handles = [once[label] for label in labels]
    figure.legend(handles, labels, loc=place, ncols=columns, handlelength=length, columnspacing=1.2)


def level(ax: Axes, y: float, name: str, x: float = 0.995, align: Literal["center", "right"] = "right") -> None:
    """Draw a thin line across a panel, with its name above it at a share x of the panel's width."""
    ax.axhline(y, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": align, "va": "bottom"}
    ax.annotate(name, (x, y), (0, 2), **place, fontsize=9, color=MUTED)


def powers_of_two(ax: Axes, ns: Sequence[int]) -> None:
    """Put these whole numbers on a horizontal axis on which twice as much is as far everywhere."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(ns, [str(n) for n in ns])
    ax.minorticks_off()


def log_ticks(axis: Axis, at: Sequence[float] = (0.1, 0.5, 1, 2, 5, 10, 50)) -> None:
    """Put plain numbers on a logarithmic axis, those within its limits."""
    low, high = axis.get_view_interval()
    if ticks := [t for t in at if low * 0.99 <= t <= high * 1.01]:
        axis.set_ticks(ticks, labels=[f"{t:g}" for t in ticks])
    axis.minorticks_off()


def decades(ax: Axes) -> None:
    """Label powers of ten as text, or numbers where there are not two: matplotlib's own are set in its mathematical font."""
    superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

    def name(exponent: int) -> str:
        return {-3: "0.001", -2: "0.01", -1: "0.1", 0: "1", 1: "10"}.get(exponent, f"10{str(exponent).translate(superscripts)}")

    low, high = ax.get_ylim()
    exponents = list(range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1))
    if len(exponents) < 2:
        log_ticks(ax.yaxis, [part * 10.0**e for e in range(-9, 10) for part in (1, 2, 5)])
        return
    exponents = exponents[:: max(1, -(-len(exponents) // 6))]
    ax.set_yticks([10.0**e for e in exponents], [name(e) for e in exponents])
    ax.tick_params(axis="y", which="minor", left=False)
