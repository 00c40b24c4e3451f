"""Tables of `ctrnn-steps`: scores by step and by equation, rhythms, fixed points, and what a step costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
from scipy.stats import ttest_1samp

from experiments.reports.spreads import NotEnoughError, Spread, spread
from experiments.studies.claims.time_steps import measures
from experiments.studies.claims.time_steps.design import EULER, RHYTHM, TASKS
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Table, only

__all__ = ["NAMES", "TABLES", "in_words", "lost", "resting", "spread_of"]

NAMES = {"euler": "Euler", "heun": "Heun", "runge-kutta4": "Runge-Kutta", "exact": "exact"}
OTHERS = {
    "exponential-euler": "exponential Euler",
    "fitted-midpoint": "fitted midpoint",
    "etd2": "ETD2",
    "euler-maruyama": "Euler-Maruyama",
}


def other_units(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["units"] != "tanh") | ~rows["step"].isin(list(NAMES))] if len(rows) else rows


def lost(rows: pd.DataFrame) -> Spread:
    """Compute the mean of what each network loses under its equation, with its 95 % interval by Student's t of the pairs.

    Networks that all lose the same, nothing say, have an interval of no width.
    """
    off = (rows["own"] - rows["exact"]).to_numpy()
    if not len(off):
        raise NotEnoughError("none of these runs is done")
    if len(off) < 2:
        return Spread(float(off.mean()), -math.inf, math.inf, len(off))
    if (off == off[0]).all():
        return Spread(float(off[0]), float(off[0]), float(off[0]), len(off))
    interval = ttest_1samp(off, 0.0).confidence_interval(0.95)
    return Spread(float(off.mean()), float(interval.low), float(interval.high), len(off))


def in_words(found: Spread) -> str:
    if not math.isfinite(found.low) or found.low == found.high:
        return f"{found.mean:.3f}"
    return f"{found.mean:.3f} ({found.low:.3f} to {found.high:.3f})"


def predicted(rows: pd.DataFrame) -> float | None:
    return float(rows["predicted"].iloc[0]) if "predicted" in rows and rows["predicted"].notna().any() else None


def spread_of(rows: pd.DataFrame, column: str) -> Spread | None:
    """Return the spread of the numbers there are, None for none."""
    found = rows[column].dropna().tolist() if column in rows else []
    return spread(found) if found else None


def resting(rows: pd.DataFrame) -> str | None:
    """Count the networks whose rest point is stable in the equation, of those in which one was found."""
    found = rows["a"].dropna() if "a" in rows else rows["key"][:0]
    return f"{int((found < 0).sum())} of {len(found)}" if len(found) else None


def total(column: str) -> Callable[[pd.DataFrame], int | None]:
    return lambda rows: int(rows[column].sum()) if column in rows else None


def with_seconds(rows: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Add the seconds that trainings took."""
    return rows.assign(seconds=rows["key"].map({one["key"]: one["seconds"] for one in results.records}))


def evaluations(rows: pd.DataFrame) -> str | None:
    """Return how often a step evaluates the field in a time constant; None for a solver, which decides itself."""
    cost = float(rows["cost"].iloc[0])
    return f"{cost:g}" if math.isfinite(cost) else None


def others_keep(rows: pd.DataFrame) -> str | None:
    others = rows[rows["task"] != RHYTHM]
    if others.empty:
        return None
    kept = {task: float(same["exact"].mean() / same["own"].mean()) for task, same in groups(others, "task").items()}
    least = min(kept, key=kept.__getitem__)
    return f"{kept[least]:.1%}, {least}"


TABLES = (
    Table(
        "Score as trained and under the equation, same weights, same trials; mean (least–largest) over seeds. Lost: the mean "
        "of the differences, with its 95 % interval. Score: R² of rhythm and ready-set-go, else the share of right answers.",
        by={"task": "task", "step": "step", "dt/τ": "dt"},
        columns={
            "as trained": "own",
            "exactly": "exact",
            "lost": lambda rows: in_words(lost(rows)),
            "predicted": predicted,
        },
        data=lambda results: where(results.rows, kind="score", units="tanh"),
        words=NAMES,
        sort=lambda task, step, dt: (TASKS.index(task), [*NAMES, step].index(step), -dt),
    ),
    Table(
        "The rhythm by other units and steps.",
        by={"units": "units", "step": "step", "dt/τ": "dt"},
        columns={
            "as trained": "own",
            "exactly": "exact",
            "lost": lambda rows: in_words(lost(rows)),
            "predicted": predicted,
            "seeds": len,
        },
        data=lambda results: other_units(where(results.rows, kind="score", task=RHYTHM)),
        words=NAMES | OTHERS,
        sort=lambda units, step, dt: (units, step, -dt),
    ),
    Table(
        "The same weights by Euler's step at other dt: score, mean (least–largest).",
        by={"task": "task", "trained at dt/τ": "dt"},
        columns={**{f"run at {dt:g}": f"euler {dt:g}" for dt in measures.DTS}, "exactly": "exact"},
        data=only(kind="score", units="tanh", step=EULER),
        sort=lambda task, dt: (TASKS.index(task), -dt),
    ),
    Table(
        "Rhythms that are held, after 200 τ: amplitude and period of the output by the step, in the equation, and by the "
        "modified equation. Rests: networks in which the rest point inside is stable in the equation, of all. From dt/τ: where "
        "the step makes it repel, by continuation.",
        by={"step": "step", "dt/τ": "dt", "period": "held"},
        columns={
            "amplitude": "amplitude",
            "exactly": "exact amplitude",
            "modified": lambda rows: spread_of(rows, "modified amplitude"),
            "period, step": lambda rows: spread_of(rows, "period"),
            "exactly ": lambda rows: spread_of(rows, "exact period"),
            "modified ": lambda rows: spread_of(rows, "modified period"),
            "rests": resting,
            "from dt/τ": lambda rows: spread_of(rows, "from dt"),
        },
        data=lambda results: where(results.rows, kind="held", units="tanh", task=RHYTHM),
        words={**NAMES, **{f"{x:g}": f"{8 + 16 * x:g} τ" for x in measures.HELD}},
        sort=lambda step, dt, held: ([*NAMES, step].index(step), -dt, float(held)),
    ),
    Table(
        "Fixed points under held inputs, in all networks of a row: found in the field, and what the step makes of their "
        "stability. Moving: the share of trajectories that still move after 200 τ.",
        by={"task": "task", "dt/τ": "dt"},
        columns={
            "fixed points": total("rests"),
            "stable": total("stable"),
            "stable under the step": total("stable under the step"),
            "made unstable": total("made unstable"),
            "made stable": total("made stable"),
            "moving, step": lambda rows: float(rows["moving"].mean()),
            "moving, exactly": lambda rows: float(rows["exact moving"].mean()),
        },
        data=only(kind="held", units="tanh", step=EULER),
        sort=lambda task, dt: (TASKS.index(task), -dt),
    ),
    Table(
        "What to take: evaluations of the field a time constant, seconds of training, and what the rhythm is worth as "
        "trained and exactly; the least of the other six scores under the equation, of its score as trained.",
        by={"step": "step", "dt/τ": "dt"},
        columns={
            "evaluations": evaluations,
            "seconds": lambda rows: float(where(rows, task=RHYTHM)["seconds"].median()),
            "rhythm": lambda rows: spread_of(where(rows, task=RHYTHM), "own"),
            "exactly": lambda rows: spread_of(where(rows, task=RHYTHM), "exact"),
            "others keep": others_keep,
        },
        data=lambda results: with_seconds(where(results.rows, kind="score", units="tanh"), results),
        words=NAMES | OTHERS,
        sort=lambda step, dt: ([*NAMES, step].index(step), -dt),
    ),
)
