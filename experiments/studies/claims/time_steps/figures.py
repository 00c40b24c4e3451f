"""Draws what trained rhythms keep under their equation: over dt, in time, after a long wait, and by their modes."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.reports import plots
from experiments.reports.plots import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, WIDTH
from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.time_steps.design import EULER, RHYTHM, SLOW
from experiments.studies.claims.time_steps.prediction import predicted_r2
from experiments.studies.results import Results, where
from experiments.tasks.cognitive import Rhythm

__all__ = ["amplitudes", "kept_over_dt", "modes", "traces"]

LINE = (0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
OF_ONE = {
    "heun": ("Heun, dt = τ", BLUE, "s"),
    "runge-kutta4": ("Runge-Kutta, dt = τ", GREEN, "^"),
    "exact": ("exact", PURPLE, "D"),
}


def _rows(results: Results, **values: object) -> pd.DataFrame:
    found = where(results.rows, task=RHYTHM, units="tanh", **values)
    if found.empty:
        raise NotEnoughError("there is no rhythm to draw yet")
    return found


def kept_over_dt(results: Results) -> Figure:
    rows = _rows(results, kind="score")
    with plots.style():
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        ax = figure.subplots()
        ax.plot(LINE, [predicted_r2(EULER, dt, Rhythm()) for dt in LINE], color=INK, label="predicted, Euler")
        euler = where(rows, step=EULER)
        ax.plot(euler["dt"], euler["exact"], "o", color=ORANGE, alpha=0.7, markersize=5, label="Euler")
        slow = where(results.rows, kind="score", task=RHYTHM, units=SLOW)
        if len(slow):
            ax.plot(slow["dt"] * 0.9, slow["exact"], "v", color=MUTED, alpha=0.8, markersize=5, label="Euler, rate 0.001")
        for k, (step, (label, colour, marker)) in enumerate(OF_ONE.items()):
            found = where(rows, step=step)
            ax.plot(found["dt"] * 1.1 ** (k + 1), found["exact"], marker, color=colour, alpha=0.7, markersize=5, label=label)
        ax.set(xscale="log", xlabel="dt/τ of the step that trained it", ylabel="R² under the equation", xlim=(0.045, 1.6))
        ax.axhline(0, color=MUTED, linewidth=0.8)
        plots.log_ticks(ax.xaxis, (0.05, 0.1, 0.2, 0.5, 1))
        ax.grid(axis="y")
        plots.legend(figure, ax)
        return figure


def traces(results: Results) -> Figure:
    rows = _rows(results, kind="trace", step=EULER).sort_values("dt", ascending=False)
    with plots.style():
        figure, axes = plots.panels(len(rows), 0.7 + 1.15 * len(rows), sharex=True, sharey=True)
        for ax, (_, row) in zip(axes, rows.iterrows(), strict=True):
            ax.plot(row["t"], row["stepped"], "o-", color=ORANGE, markersize=2, linewidth=0.9, label="by its step")
            ax.plot(row["exact t"], row["solved"], color=BLUE, label="same weights, exactly")
            ax.set_title(f"trained at dt/τ = {row['dt']:g}", pad=2, fontsize=9)
            ax.set_ylim(-1.4, 1.4)
        axes[-1].set_xlabel("time, τ")
        figure.supylabel("output", fontsize=10)
        plots.legend(figure, *axes)
        return figure


def amplitudes(results: Results) -> Figure:
    rows = _rows(results, kind="held", held="0", step=EULER)
    drawn = {
        "amplitude": ("by the step", ORANGE, "o", 1.0),
        "modified amplitude": ("by the modified equation", GREEN, "^", 1.06),
        "exact amplitude": ("in the equation", BLUE, "s", 1.12),
    }
    with plots.style():
        figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
        ax = figure.subplots()
        for column, (label, colour, marker, aside) in drawn.items():
            if column in rows:
                ax.plot(rows["dt"] * aside, rows[column], marker, color=colour, alpha=0.7, markersize=5, label=label)
        ax.set(xscale="log", xlabel="dt/τ", ylabel="amplitude", xlim=(0.08, 1.4), ylim=(-0.05, 1.6))
        plots.log_ticks(ax.xaxis, (0.1, 0.2, 0.5, 1))
        ax.grid(axis="y")
        plots.legend(figure, ax)
        return figure


def modes(results: Results) -> Figure:
    rows = where(results.rows, kind="held", held="0", task=RHYTHM, step=EULER)
    rows = rows[rows["units"].isin(["tanh", SLOW])].dropna(subset=["a", "stepped a"]) if "a" in rows else rows[:0]
    if rows.empty:
        raise NotEnoughError("no rhythm has a rest point inside")
    looks = {1.0: (ORANGE, "o"), 0.5: (BLUE, "s"), 0.2: (GREEN, "^"), 0.1: (PURPLE, "D")}
    with plots.style():
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        ax = figure.subplots()
        for dt, (colour, marker) in looks.items():
            for units, filled, said in (("tanh", colour, ""), (SLOW, "none", ", rate 0.001")):
                found = where(rows, dt=dt, units=units)
                ax.plot(
                    found["a"],
                    found["stepped a"],
                    marker,
                    color=colour,
                    markerfacecolor=filled,
                    alpha=0.8,
                    markersize=5,
                    label=f"dt/τ = {dt:g}{said}",
                )
        ax.axline((0, 0), slope=1, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
        ax.axvline(0, color=MUTED, linewidth=0.8)
        ax.axhline(0, color=MUTED, linewidth=0.8)
        ax.set(xlabel="growth in the equation, a, per τ", ylabel="growth under the step, per τ")
        plots.legend(figure, ax)
        return figure
