r"""Configures trainings as several studies do, and reads the curves that a training leaves in its folder.

    plain    dh/dt = tanh(Wx x + Wh h + b) - h                 no gate                                  eq. (2)
    leaky    alpha (tanh(..) - h)                              alpha = sigma(a) for each unit           eq. (5)
    gated    g(x, h) (tanh(..) - h)                            a gate for each unit                     eq. (10)

are the models of Tallec and Ollivier 2018, by unit Euler steps, as the paper has them.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.reports.spreads import spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.results import groups
from experiments.studies.study import Point, Row, Sizes

__all__ = [
    "MODELS",
    "POINTS",
    "STARTS",
    "STEPS",
    "TRAINING_SET",
    "by_adam",
    "by_plateaus",
    "curve_of_epochs",
    "in_epochs",
    "learning_curve",
    "metrics",
    "once",
    "started",
    "steps_in_words",
    "steps_to",
    "thinned",
]

MODELS = ("plain", "leaky", "gated")
STARTS = ("standard", "chrono")
TRAINING_SET = 1563  # batches of 32 in 50,000 sequences
STEPS = 3 * TRAINING_SET
POINTS = 24  # of a curve that are drawn


def once(steps: int) -> dict[str, Any]:
    """Return settings of so many steps, with an evaluation and a checkpoint after the last one only."""
    return {"steps": steps, "evaluate_every": steps, "checkpoint_every": steps}


def in_epochs(batches: int, epochs: int) -> dict[str, Any]:
    """Return settings of epochs of batches of 100: evaluated after each, the best weights kept, the rate halved twice."""
    every = {"batch": 100, "batches": batches, "evaluate_every": batches, "schedule": "halved-twice", "keep": "best"}
    return {**once(batches * epochs), **every}


def started(start: str, longest: float) -> dict[str, Any]:
    """Return settings of gates that start as usual, by chrono initialization with time scales up to the longest, or by
    slow-decay, which is told none."""
    return {"init": start, "t_max": longest if start == "chrono" else None}


def by_adam(point: Point, sizes: Sizes, **settings: object) -> Configuration:
    """Configure a training by Adam with clipped gradients, evaluated once."""
    shared = {"optimizer": "adam", "clip": 1.0, "rate": sizes.rate, "evaluation": sizes.sequences, **once(sizes.steps)}
    return shared_configuration(hidden=sizes.hidden, seed=point["seed"], **{**shared, **settings})


def by_plateaus(point: Point, sizes: Sizes, longest: int, **task: Any) -> Configuration:
    """Configure a training by the schedule of Tallec and Ollivier.

    Time scales are up to the longest wait, 2 samples at least; the plain network has none to set.
    """
    start: dict[str, Any] = {} if point["model"] == "plain" else {"init": "chrono", "t_max": float(max(2, longest))}
    times = {"steps": sizes.steps, "batches": sizes.batches, "evaluate_every": sizes.every, "evaluation": sizes.held_out}
    model = {"field": point["model"], "integrator": "euler", "hidden": sizes.hidden, **start}
    rate = point.get("rate") or sizes.rate
    return shared_configuration(**model, **task, length=sizes.length, seed=point["seed"], rate=rate, schedule="plateau", **times)


def learning_curve(folder: Path) -> list[Row]:
    """Read what the evaluations of a training found on the way: a row of step and loss for each."""
    return [{"step": int(row["step"]), "loss": float(row["evaluation_loss"])} for row in _evaluations(folder)]


def curve_of_epochs(folder: Path) -> list[Row]:
    """Read validation loss and accuracy after each epoch."""
    return [
        {"what": "epoch", "epoch": k, "loss": float(row["evaluation_loss"]), "accuracy": float(row["evaluation_accuracy"])}
        for k, row in enumerate(_evaluations(folder), 1)
    ]


def metrics(folder: Path) -> list[dict[str, str]]:
    """Read metrics.csv of a training: a row a step."""
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _evaluations(folder: Path) -> list[dict[str, str]]:
    return [row for row in metrics(folder) if row["evaluation_loss"]]


def steps_to(rows: pd.DataFrame, error: float) -> pd.DataFrame:
    """Find for each run the first step at which an evaluation found no more than that loss, or its last one, which is late."""
    there = rows[rows["loss"] <= error].groupby("key")["step"].min()
    last = rows.groupby("key", sort=False)["step"].last()
    return pd.DataFrame({"steps": there.reindex(last.index).fillna(last), "late": ~last.index.isin(there.index)})


def steps_in_words(found: pd.DataFrame) -> str:
    """Write steps as "4267 (4200–4300)", or as "> 4800" where no run got there."""
    if found["late"].all():
        return f"> {found['steps'].max():.0f}"
    steps, late = spread(found["steps"]), int(found["late"].sum())
    words = f"{steps.mean:.0f}" + (f" ({steps.low:.0f}–{steps.high:.0f})" if steps.high > steps.low else "")
    return f"> {words}, {late} of {len(found)} not there" if late else words


def thinned(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Thin the curves of each group to no more points than can be seen apart, the last one among them."""
    kept = []
    for same in groups(rows, by).values():
        steps = sorted(same["step"].unique())[::-1]
        kept.append(same[same["step"].isin(steps[:: max(1, -(-len(steps) // POINTS))])])
    return pd.concat(kept) if kept else rows
