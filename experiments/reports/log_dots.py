"""Dots on a logarithmic axis that has a place for exactly zero."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from experiments.reports import plots
from experiments.reports.bands import LOOKS
from experiments.reports.plots import INK, WIDTH
from experiments.studies.records import NotEnoughError

__all__ = ["zero_dots"]


def zero_dots(rows: Mapping[str, Mapping[str, float]], label: str) -> Figure:
    r"""A row for each name and in it a dot for each series; zeros stand left of the axis' break, as what they are.

    Args:    rows: name -> series -> value, at least 0; what is not finite stands at the right edge.
    Raises:  NotEnoughError without any value.
    """
    values = [value for series in rows.values() for value in series.values()]
    if not values:
        raise NotEnoughError("there is no point to draw yet")
    positive = [value for value in values if 0 < value < math.inf]
    low = math.floor(math.log10(min(positive, default=1.0)))
    high = max(math.ceil(math.log10(max(positive, default=1.0))), low + 1)
    zero = low - 0.12 * (high - low) - 0.4
    names = list(dict.fromkeys(name for series in rows.values() for name in series))
    looks = dict(zip(names, LOOKS, strict=False))
    with plots.style():
        figure = Figure(figsize=(WIDTH, 1.1 + 0.4 * len(rows)), layout="constrained")
        ax = figure.add_subplot()
        for place, series in enumerate(rows.values()):
            for k, name in enumerate(names):
                if name in series:
                    value, (colour, _, marker) = series[name], looks[name]
                    x = zero if value == 0 else math.log10(value) if value < math.inf else high
                    y = place + 0.24 * (k - (len(names) - 1) / 2)
                    ax.plot(x, y, marker, color=colour, markersize=5.5, markerfacecolor="none" if value == 0 else colour)
        for name, (colour, _, marker) in looks.items():
            ax.plot([], [], marker, color=colour, markersize=5.5, label=name)
        ax.axvline((zero + low) / 2, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
        exponents = range(low, high + 1, max(1, -(-(high - low) // 5)))
        ax.set_xticks([zero, *exponents], ["0 exactly", *(f"{10.0**e:g}" for e in exponents)])
        ax.set_xlim(zero - 0.06 * (high - zero), high + 0.06 * (high - zero))
        ax.set_yticks(range(len(rows)), list(rows))
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.tick_params(left=False)
        ax.spines["left"].set_visible(False)
        ax.grid(axis="both")
        ax.set_axisbelow(True)
        ax.set_xlabel(label)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=2, handlelength=1.2, columnspacing=1.2)
        return figure
