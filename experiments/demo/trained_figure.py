"""The figure of the trained section: what is recalled at every speed, told the clock and not told it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from experiments.reports import plots
from experiments.reports.plots import BLUE, GRID, MUTED, ORANGE, WIDTH

__all__ = ["share_by_speed"]

LOOKS = ((ORANGE, (0, (4, 1.5)), "o"), (BLUE, "-", "s"))


def share_by_speed(
    samples: Sequence[int],
    told: Mapping[str, Sequence[float]],
    not_told: Mapping[str, Sequence[float]],
    told_title: str,
    trained: tuple[int, int],
    guessing: float,
) -> Figure:
    """Two panels over samples a symbol, a line for each model; `trained` is shaded where it can be, below."""
    with plots.style():
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True, sharey=True)
        for ax, shares, title in zip(axes, (told, not_told), (told_title, "not told: a sample is one unit of time"), strict=True):
            for (name, ys), (colour, dashes, marker) in zip(shares.items(), LOOKS, strict=True):
                ax.plot(samples, ys, color=colour, linestyle=dashes, marker=marker, markersize=4.5, label=name)
            ax.axhline(guessing, color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)))
            ax.annotate("guessing", (0.5, guessing), (0, 2), ("axes fraction", "data"), "offset points",
                        ha="center", va="bottom", fontsize=9, color=MUTED)  # fmt: skip
            ax.set_title(title, pad=2)
            ax.grid(axis="y")
            ax.set_axisbelow(True)
        # Above, a unit of time is what it was in training, and the number of samples in it is on no axis of the training.
        axes[1].axvspan(*trained, color=GRID, linewidth=0)
        axes[0].set_xscale("log", base=2)
        axes[0].set_xticks(samples, [str(n) for n in samples])
        axes[0].minorticks_off()
        axes[0].set_ylim(0, 1.05)
        axes[1].set_xlabel("samples a symbol: fast on the left, slow on the right")
        figure.supylabel("share of symbols recalled", fontsize=10)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=2.6)
        return figure
