r"""What all figures share: one column wide, one style, and powers of ten on an axis; matplotlib without pyplot's global state.

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
from matplotlib.figure import Figure

from experiments.reports.colours import COLOURS

__all__ = ["BLUE", "DASHES", "GREEN", "GRID", "INK", "MUTED", "ORANGE", "PAPER", "PURPLE", "STYLE", "WIDTH", "decades",
           "legend", "style"]  # fmt: skip

INK, MUTED, GRID, PAPER, BLUE, ORANGE, GREEN, PURPLE = (placeholder for placeholder, _ in COLOURS.values())
DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1.2, 1.2)))

Place = Literal["outside upper left", "outside lower center"]
WIDTH = 4.2  # inches
STYLE: dict[str, Any] = {
    "font.size": 10, "axes.labelsize": 10, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "axes.titlesize": 10,
    "legend.fontsize": 9.5, "font.family": ["DejaVu Sans"], "lines.linewidth": 1.3, "axes.linewidth": 0.8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": MUTED, "axes.labelcolor": INK,
    "text.color": INK, "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "legend.frameon": False, "axes.facecolor": "none", "figure.facecolor": "none", "grid.color": GRID, "grid.linewidth": 0.8,
    "axes.titlelocation": "left", "axes.unicode_minus": True, "axes.formatter.use_mathtext": False,
}  # fmt: skip


def style(**more: str) -> AbstractContextManager[None]:
    """Within it, figures are drawn in the style of pages."""
    return rc_context(cast(Any, {**STYLE, **more}))


def legend(
    figure: Figure, ax: Axes, order: Sequence[int] | None = None, columns: int = 2, place: Place = "outside upper left"
) -> None:
    """The labels of one panel, outside of all panels."""
    handles, labels = ax.get_legend_handles_labels()
    shown = range(len(labels)) if order is None else order
    figure.legend(
        [handles[k] for k in shown], [labels[k] for k in shown], loc=place, ncols=columns, handlelength=2.2,
        columnspacing=1.2,
    )  # fmt: skip


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
