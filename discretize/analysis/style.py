"""The style of figures: colours for light and dark paper, dashes, width, and matplotlib's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["COLOURS", "DASHES", "WIDTH", "settings"]

# On light and on dark paper. They differ for the colour-blind too, and no figure relies on colour alone.
COLOURS = {
    "ink": ("#1b2126", "#e7eaec"),
    "muted": ("#5a6670", "#9ba6af"),
    "grid": ("#d9dee2", "#333b42"),
    "paper": ("#fdfdfc", "#14181b"),
    "blue": ("#0a64ad", "#6db5f7"),
    "orange": ("#c2530a", "#ff9f5a"),
    "green": ("#007a5a", "#45c79b"),
    "purple": ("#8b4a9c", "#d2a3e2"),
}
DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1.2, 1.2)))
WIDTH = 4.2  # inches: a column of text, with letters that a phone can still show


def settings(colours: Mapping[str, str], paper: str = "none") -> dict[str, Any]:
    """Return matplotlib's rcParams in these colours; `paper` is what is behind the figure."""
    ink, muted = colours["ink"], colours["muted"]
    return {
        "font.size": 10, "axes.labelsize": 10, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "axes.titlesize": 10,
        "legend.fontsize": 9.5, "font.family": ["DejaVu Sans"], "lines.linewidth": 1.3, "axes.linewidth": 0.8,
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": muted, "axes.labelcolor": ink,
        "text.color": ink, "xtick.color": muted, "ytick.color": muted, "xtick.labelcolor": ink, "ytick.labelcolor": ink,
        "legend.frameon": False, "axes.facecolor": "none", "figure.facecolor": paper, "savefig.facecolor": "auto",
        "grid.color": colours["grid"], "grid.linewidth": 0.8, "axes.titlelocation": "left", "axes.unicode_minus": True,
        "axes.axisbelow": True, "axes.formatter.use_mathtext": False,
    }  # fmt: skip
