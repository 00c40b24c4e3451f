r"""What the studies of Tallec and Ollivier 2018 have in common: three models, how they are trained, and learning curves.

    plain    dh/dt = tanh(Wx x + Wh h + b) - h                 no gate                                  eq. (2)
    leaky    alpha (tanh(..) - h)                              alpha = sigma(a) for each unit           eq. (5)
    gated    g(x, h) (tanh(..) - h)                            a gate for each unit                     eq. (10)

each by unit Euler steps, as the paper has them.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.reports.spreads import spread
from experiments.runs.configuration import Configuration, configuration
from experiments.studies.results import groups
from experiments.studies.study import Point, Sizes

__all__ = ["MODELS", "STEPS", "TRAINING_SET", "learning_curve", "steps_in_words", "steps_to", "thinned", "trained"]

MODELS = ("plain", "leaky", "gated")
TRAINING_SET = 1563  # batches of 32 in 50,000 sequences
STEPS = 3 * TRAINING_SET
POINTS = 24  # of a curve that are drawn


def trained(point: Point, sizes: Sizes, longest: int, **task: Any) -> Configuration:
    """By the paper's schedule; time scales up to the longest wait, 2 samples at least; the plain network has none to set."""
    start: dict[str, Any] = {} if point["model"] == "plain" else {"init": "chrono", "t_max": float(max(2, longest))}
    return configuration(
        field=point["model"],
        integrator="euler",
        hidden=sizes.hidden,
        **start,
        **task,
        length=sizes.length,
        seed=point["seed"],
        steps=sizes.steps,
        rate=point.get("rate") or sizes.rate,
        schedule="plateau",
        batches=sizes.batches,
        evaluate_every=sizes.every,
        evaluation=sizes.held_out,
    )


def learning_curve(folder: Path) -> list[dict[str, float]]:
    """What the evaluations of a training found on the way: a row of step and loss for each."""
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["evaluation_loss"]]
    return [{"step": int(row["step"]), "loss": float(row["evaluation_loss"])} for row in rows]


def steps_to(rows: pd.DataFrame, error: float) -> pd.DataFrame:
    """For each run the first step after which an evaluation found no more than that loss, or its last one, which is late."""
    there = rows[rows["loss"] <= error].groupby("key")["step"].min()
    last = rows.groupby("key", sort=False)["step"].last()
    return pd.DataFrame({"steps": there.reindex(last.index).fillna(last), "late": ~last.index.isin(there.index)})


def steps_in_words(found: pd.DataFrame) -> str:
    """ "4267 (4200–4300)"; "> 4800" where no run got there."""
    if found["late"].all():
        return f"> {found['steps'].max():.0f}"
    steps, late = spread(found["steps"]), int(found["late"].sum())
    words = f"{steps.mean:.0f}" + (f" ({steps.low:.0f}–{steps.high:.0f})" if steps.high > steps.low else "")
    return f"> {words}, {late} of {len(found)} not there" if late else words


def thinned(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The curves of each group at no more points than can be seen apart, the last one among them."""
    kept = []
    for same in groups(rows, by).values():
        steps = sorted(same["step"].unique())[::-1]
        kept.append(same[same["step"].isin(steps[:: max(1, -(-len(steps) // POINTS))])])
    return pd.concat(kept) if kept else rows
