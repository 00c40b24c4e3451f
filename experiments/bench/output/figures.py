"""A comparison as one figure: cells and solves as ratios, growth as lines, and how to read them."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from ctrnn.storage.files import write_atomically
from experiments.bench.parts.cells import BY_DEFAULT
from experiments.bench.parts.growth import exponent, sweeps
from experiments.bench.rows import BACKWARD, data_frame, ratio
from experiments.reports import plots
from experiments.reports.colours import COLOURS
from experiments.reports.svg import standalone_svg

__all__ = ["overview", "save"]

LIGHT = {placeholder: light for placeholder, light, _ in COLOURS.values()}
BLUE, ORANGE, GREEN, PURPLE, INK, MUTED = (COLOURS[name][1] for name in ("blue", "orange", "green", "purple", "ink", "muted"))
ENGINES = {
    "compiled": (BLUE, "o", "ours, compiled"),
    "steps": (ORANGE, "^", "ours, step by step"),
    BY_DEFAULT: (GREEN, "s", "ours, at first"),
}
THEIRS = (PURPLE, "D", "torch.nn, torchdiffeq, torchode, diffrax")
DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1.2, 1.2)))
WIDTH = 8.0  # inches
AXES = {
    "time": "length, in samples",
    "batch": "batch, in sequences",
    "hidden": "hidden size, in units",
    "error": "largest error asked for",
    "stiffness": "largest rate over smallest",
}


def overview(record: Mapping[str, Any]) -> Figure:
    """Draw a panel for each size of cells, one for solves, one for each sweep; smaller is faster everywhere."""
    rows = data_frame(record["rows"])
    compared = [
        (f"{title}, {name}", _with_lines(same))
        for part, title in (("cells", "Cells"), ("solves", "Exact solves"))
        for name, same in rows[(rows["part"] == part) & (rows["work"] == BACKWARD)].groupby("problem", sort=False)
    ]
    growing = list(sweeps(rows).items())
    heights = [0.22 * same["line"].nunique() + 0.85 for _, same in compared]
    below = 3.4 * -(-len(growing) // 2)
    colours = {key: LIGHT[value] for key, value in plots.STYLE.items() if isinstance(value, str) and value in LIGHT}
    paper = COLOURS["paper"][1]
    with plots.style(**{**colours, "figure.facecolor": paper, "savefig.facecolor": paper}):
        figure = Figure(figsize=(WIDTH, 1.3 + sum(heights) + below), layout="constrained")
        shares = [share for share in (sum(heights) + 0.4, below) if share > 0.4]
        parts = list(figure.subfigures(len(shares), 1, height_ratios=shares, squeeze=False).flat)
        if compared:
            upper = parts.pop(0)
            for ax, same in zip(_column(upper, heights), compared, strict=True):
                _ratios(ax, *same)
            _legend(upper)
        if growing:
            for ax, (sweep, curves) in zip(_pairs(parts.pop(0), len(growing)), growing, strict=True):
                _curves(ax, sweep, curves)
        figure.suptitle(_caption(record), x=0.01, ha="left", fontsize=10)
        return figure


def save(figure: Figure, out: Path) -> None:
    """Write the figure as .svg or .png, by the file's ending."""
    if out.suffix == ".svg":
        write_atomically(out, standalone_svg(figure))
        return
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    write_atomically(out, image.getvalue())


def _column(figure: SubFigure, heights: Sequence[float]) -> list[Axes]:
    return list(figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False).flat)


def _pairs(figure: SubFigure, n: int) -> list[Axes]:
    """Two in a row; what is left over is empty."""
    axes = list(figure.subplots(-(-n // 2), 2, squeeze=False).flat)
    for ax in axes[n:]:
        ax.set_axis_off()
    return axes[:n]


def _caption(record: Mapping[str, Any]) -> str:
    facts = record["machine"]
    machine = f"{facts['processor']}, {facts['vectors']}, {facts['threads']} thread(s), torch {facts['torch']}, {facts['date']}."
    return (
        f"Time for {BACKWARD}: further left, and lower, is faster; a line's slope is the exponent in its legend.\n"
        "Marks are medians of ratios within rounds, whiskers their quartiles.\n"
        "T samples, B sequences, I inputs, H units.\n" + textwrap.fill(machine, 100)
    )


def _with_lines(rows: pd.DataFrame) -> pd.DataFrame:
    """The line of the panel for each row: a field for all its engines, or a peer alone."""
    names = rows["candidate"].str.extract(rf"^(.*), ({'|'.join(ENGINES)})$")
    return rows.assign(line=names[0].fillna(rows["candidate"]), ending=names[1])


def _ratios(ax: Axes, title: str, rows: pd.DataFrame) -> None:
    """Ratios to torch.nn.GRU, else to the first candidate."""
    values = rows.set_index("candidate")["values"]
    base = "torch.nn.GRU" if "torch.nn.GRU" in values else rows["candidate"].iloc[0]
    lines = list(rows["line"].unique())
    for row in rows.to_dict("records"):
        if found := ratio(row["values"], values[base]):
            colour, marker, _ = ENGINES.get(row["ending"], THEIRS)
            spread = [[found.median - found.low], [found.high - found.median]]
            ax.errorbar(found.median, lines.index(row["line"]), xerr=spread, fmt=marker, color=colour, markersize=5, linewidth=1)
    ax.axvline(1.0, color=MUTED, linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yticks(range(len(lines)), [_plain(name) for name in lines])
    ax.invert_yaxis()
    ax.grid(axis="x")
    ax.set_title(title)
    ax.set_xlabel(f"times {_plain(base)}")
    plots.log_ticks(ax.xaxis, _ticks(*ax.get_xlim()))


def _curves(ax: Axes, sweep: str, curves: pd.DataFrame) -> None:
    theirs = iter((PURPLE, INK, MUTED, PURPLE, INK, MUTED))
    for k, (name, own) in enumerate(curves.iterrows()):
        engine, points, p = str(name).rpartition(", ")[2], own.dropna(), exponent(own)
        colour = ENGINES[engine][0] if engine in ENGINES else next(theirs)
        label = _plain(str(name)) + ("" if p is None else f": {p:.2f}")
        ax.plot(points.index, points, "o", linestyle=DASHES[k % 4], color=colour, markersize=3, label=label)
    ax.set_xscale("log")
    ax.set_yscale("log")
    plots.log_ticks(ax.yaxis, _ticks(*ax.get_ylim()))
    plots.log_ticks(ax.xaxis, [float(x) for x in curves.columns])
    if sweep.endswith("error"):
        ax.invert_xaxis()
    ax.set_title(sweep[0].upper() + sweep[1:])
    ax.set_xlabel(AXES[sweep.rpartition(" ")[2]])
    ax.set_ylabel("seconds")
    ax.grid()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), fontsize=8, handlelength=2.2)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... within the limits; powers of ten where that would be many, all digits where it would be one or two."""
    powers, usual, all_digits = (
        [m * 10.0**e for e in range(-6, 6) for m in digits if low <= m * 10.0**e <= high]
        for digits in ((1,), (1, 2, 5), range(1, 10))
    )
    return powers if len(usual) > 8 else usual if len(usual) > 2 else all_digits


def _legend(figure: SubFigure) -> None:
    marks = (*ENGINES.values(), THEIRS)
    handles = [Line2D([], [], marker=marker, linestyle="", color=colour, label=name) for colour, marker, name in marks]
    figure.legend(handles=handles, loc="outside lower left", ncols=4, fontsize=9)


def _plain(name: str) -> str:
    return name.replace("`", "")
