"""Tables of `ctrnn-steps`: scores by step and by equation, rhythms, fixed points, and what a step costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from experiments.reports.spreads import Spread, paired, spread
from experiments.studies.claims.time_steps import measures
from experiments.studies.claims.time_steps.design import EULER, RHYTHM, TASKS
from experiments.studies.results import groups, where
from experiments.studies.specs import Table, only

__all__ = [
    "LEARNED",
    "LOST",
    "NAMES",
    "OTHER_STEPS",
    "TABLES",
    "gone",
    "how_many",
    "in_words",
    "learned",
    "lost",
    "resting",
    "spread_of",
]

LEARNED = 0.7  # of a score, where a guess is a half, or 0 for R^2
MOVING = measures.MOVING
NAMES = {"euler": "Euler", "heun": "Heun", "runge-kutta4": "Runge-Kutta", "exact": "exact"}
OTHER_STEPS = {
    "exponential-euler": "exponential Euler",
    "fitted-midpoint": "fitted midpoint",
    "etd2": "ETD2",
    "euler-maruyama": "Euler-Maruyama",
}


def other_units(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["units"] != "tanh") | ~rows["step"].isin(list(NAMES))] if len(rows) else rows


def learned(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the networks that have learned their task; of the others nothing is left to be lost."""
    return rows[rows["own"] >= LEARNED]


def how_many(rows: pd.DataFrame) -> str:
    return f"{len(learned(rows))} of {len(rows)}"


def lost(rows: pd.DataFrame) -> Spread:
    """Compute the mean of what each network that learned loses under its equation, with its 95 % interval.

    By Student's t of the pairs; networks that all lose the same, nothing say, have an interval of no width.
    """
    return paired(learned(rows)["own"] - learned(rows)["exact"])


def in_words(found: Spread) -> str:
    return "–" if math.isnan(found.mean) else f"{found:.3f}"


def predicted(rows: pd.DataFrame) -> float | None:
    return float(rows["predicted"].iloc[0]) if "predicted" in rows and rows["predicted"].notna().any() else None


def spread_of(rows: pd.DataFrame, column: str) -> Spread | None:
    """Return the spread of the numbers there are, None for none."""
    found = rows[column].dropna().tolist() if column in rows else []
    return spread(found) if found else None


def resting(rows: pd.DataFrame) -> str | None:
    """Count the networks whose rest point inside is stable in the equation, of those in which one was found."""
    found = rows["growth"].dropna().tolist() if "growth" in rows else []
    return f"{sum(value < 0 for value in found)} of {len(found)}" if found else None


def gone(rows: pd.DataFrame) -> str:
    """Count the networks whose output moves under the step, and by less than a hundredth in the equation."""
    moving = rows[rows["amplitude"] > MOVING] if len(rows) else rows
    if moving.empty:
        return "–"
    return f"{int((moving['exact amplitude'] < MOVING).sum())} of {len(moving)}"


def total(column: str) -> Callable[[pd.DataFrame], int | None]:
    return lambda rows: int(rows[column].sum()) if column in rows else None


def evaluations(rows: pd.DataFrame) -> str | None:
    """Return how often a step evaluates the field in a time constant; None for a solver, which decides itself."""
    cost = float(rows["cost"].iloc[0])
    return f"{cost:g}" if math.isfinite(cost) else None


def others_keep(rows: pd.DataFrame) -> str | None:
    """Say what share of its score above a guess the equation keeps, of the other task that keeps least of it."""
    others = learned(rows[rows["task"] != RHYTHM])
    if others.empty:
        return None
    kept = {task: _kept(same, 0.0 if task == "ready-set-go" else 0.5) for task, same in groups(others, "task").items()}
    least = min(kept, key=kept.__getitem__)
    return f"{kept[least]:.0%}, {least}"


def _kept(rows: pd.DataFrame, guess: float) -> float:
    return float((rows["exact"].mean() - guess) / (rows["own"].mean() - guess))


# Columns of what networks that learned lose under their equation.
LOST = {"lost": lambda rows: in_words(lost(rows)), "predicted": predicted}
TABLES = (
    Table(
        "Score as trained and under the equation, same weights, same trials; mean (least–largest) over seeds. Lost: the mean "
        "difference of those that learned, 0.7 at least, with its 95 % interval. Score: R² of rhythm and ready-set-go, else the "
        "share of right answers.",
        by={"task": "task", "step": "step", "dt/τ": "dt"},
        columns={
            "as trained": "own",
            "exactly": "exact",
            "learned": how_many,
            **LOST,
        },
        data=lambda results: where(results.rows, kind="score", units="tanh"),
        words=NAMES,
        sort=lambda task, step, dt: (TASKS.index(task), [*NAMES, step].index(step), -dt),
    ),
    Table(
        "The rhythm by other units and steps; mean (least–largest) over seeds, lost with its 95 % interval. Size: deviation of "
        "the solved output in time, over that of the target.",
        by={"units": "units", "step": "step", "dt/τ": "dt"},
        columns={
            "as trained": "own",
            "exactly": "exact",
            **LOST,
            "size": lambda rows: spread_of(rows, "size"),
            "learned": how_many,
        },
        data=lambda results: other_units(where(results.rows, kind="score", task=RHYTHM)),
        words=NAMES | OTHER_STEPS,
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
        "modified equation. Gone: rhythms that the equation has nothing of. Rests: networks in which the rest point inside is "
        "stable in the equation. From dt/τ: where the step makes such a point repel, by continuation.",
        by={"step": "step", "dt/τ": "dt", "period": "held"},
        columns={
            "amplitude": "amplitude",
            "exactly": "exact amplitude",
            "modified": lambda rows: spread_of(rows, "modified amplitude"),
            "period, step": lambda rows: spread_of(rows, "period"),
            "exactly ": lambda rows: spread_of(rows, "exact period"),
            "modified ": lambda rows: spread_of(rows, "modified period"),
            "gone": gone,
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
        "What to take: evaluations of the field a time constant, and what the rhythm is worth as trained and exactly; what the "
        "equation keeps, of the score above a guess, of the one of the other six tasks that keeps least.",
        by={"step": "step", "dt/τ": "dt"},
        columns={
            "evaluations": evaluations,
            "rhythm": lambda rows: spread_of(where(rows, task=RHYTHM), "own"),
            "exactly": lambda rows: spread_of(where(rows, task=RHYTHM), "exact"),
            "others keep": others_keep,
        },
        data=only(kind="score", units="tanh"),
        words=NAMES | OTHER_STEPS,
        sort=lambda step, dt: ([*NAMES, step].index(step), -dt),
    ),
)
