r"""Trains networks of rates under Dale's law, and beside it, by Euler's step, and asks how much of what they do is the step's.

dale      sizes times signs, 80 % of the units excite; recurrent weights start balanced
freed     the same weights at the start, whose signs are free
usual     relu units with normal recurrent weights at the start

lost      score by the step less score of the same weights, solved
invented  share of trials whose last input is held that move by the step and rest in the equation
swings    share of places along trials where a mode changes its sign in a step, which none of an equation does
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor

import discretize
from discretize import SequenceModel, SolverError, SolverWarning, StepError, StepWarning
from discretize.analysis.breakdown.held import NO_BOUND, REST
from experiments.reports.spreads import NotEnoughError, Spread, number, paired
from experiments.runs.configuration import Configuration
from experiments.seeds import generator
from experiments.studies.claims.time_steps import measures
from experiments.studies.claims.time_steps.design import EULER, RHYTHM
from experiments.studies.claims.time_steps.prediction import predicted_r2
from experiments.studies.claims.time_steps.tables import LOST, how_many, learned, spread_of
from experiments.studies.claims.training import by_adam, learning_curve
from experiments.studies.results import Results, where
from experiments.studies.specs import Bands, Table, across, in_order
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared
from experiments.tasks.cognitive import Rhythm, Trials

__all__ = ["DaleSteps"]

DALE, FREED, USUAL = "dale", "freed", "usual"
SHARE = 0.8  # of the units excite
FIELDS: dict[str, dict[str, Any]] = {
    DALE: {"dale": SHARE},
    FREED: {"dale": SHARE, "init": "balanced"},
    USUAL: {"nonlinearity": "relu", "recurrent_gain": 1.0},
}
NAMES = {DALE: "Dale's law", FREED: "same start, free signs", USUAL: "usual start"}
TASKS, DTS = (RHYTHM, "decision", "delayed-match"), (1.0, 0.5, 0.2)
RATE, OTHERS = 3e-3, (1e-3, 1e-2, 3e-2)
FIRST = 3  # seeds that are trained before other rates are tried
SCORES, SHARES = 0.02, 0.05  # the least that counts
HELD = 16  # trials whose last input is held
CELL = ["task", "dt", "seed"]
# Groups of a table's lines, and their order.
GROUPS, IN_ORDER = {"task": "task", "dt/τ": "dt", "signs": "units"}, in_order(TASKS, DTS, NAMES)


def compared(results: Results) -> pd.DataFrame:
    return where(results.rows, rate=RATE)


def held(results: Results) -> pd.DataFrame:
    """Select networks of which it is known what becomes of trials whose last input is held."""
    rows = compared(results)
    return rows.dropna(subset=["invented"]) if "invented" in rows else rows.iloc[:0]


def verdicts(rows: pd.DataFrame) -> str | None:
    """Count networks by the verdict of `breakdown`, the most frequent first."""
    counted = rows["verdict"].dropna().value_counts() if "verdict" in rows else pd.Series(dtype=int)
    return ", ".join(f"{count} {verdict}" for verdict, count in counted.items()) or None


class DaleSteps(Study):
    """Compares networks under Dale's law with others, under Euler's step and under their equation."""

    name = "ctrnn-steps-dale"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 20, "paper": 75}
    may_diverge = True
    sizes: ClassVar = scales(
        hidden=(10, 64, 64),
        steps=(3, 600, 2000),
        batch=(8, 64, 64),
        sequences=(16, 512, 512),
        rate=(RATE,) * 3,
        seeds=(1, 5, 10),
        tasks=((RHYTHM,), TASKS, TASKS),
        dts=((1.0,), DTS, DTS),
        others=((), OTHERS, OTHERS),
    )
    tables = (
        Table(
            "Score by the step that trained it and solved, R² of the rhythm, else the share of right answers; mean "
            "(least–largest) over seeds. Lost: the mean of those that learned, 0.7 at least, with its 95 % interval. Predicted: "
            "the R² that a linear oscillator keeps. Size: deviation of the solved output in time, over that of the target.",
            by=GROUPS,
            columns={
                "by the step": "own",
                "solved": "exact",
                "learned": how_many,
                **LOST,
                "size": lambda rows: spread_of(rows, "size"),
            },
            data=compared,
            words=NAMES,
            sort=IN_ORDER,
        ),
        Table(
            "What `breakdown` says; mean (least–largest) over seeds. Invented: the share of trials that go on moving by the "
            "step, their last input held, and rest in the equation; of these swung past: where the step turns a difference "
            "round and lets it grow. Missed: trials that move in the equation alone. Swings: the share of places where a mode "
            "changes its sign in a step. States off: their distance from the equation's, over their spread. Forbidden: the "
            "share of recurrent weights whose sign is not that of their unit.",
            by=GROUPS,
            columns={
                "invented": lambda rows: spread_of(rows, "invented"),
                "swung past": lambda rows: spread_of(rows, "swung"),
                "missed": lambda rows: spread_of(rows, "missed"),
                "swings": lambda rows: spread_of(rows, "swings"),
                "states off": lambda rows: spread_of(rows, "apart"),
                "forbidden": lambda rows: spread_of(rows, "forbidden"),
                "networks": verdicts,
            },
            data=compared,
            words=NAMES,
            sort=IN_ORDER,
        ),
        Table(
            "Validation loss after the training, of the first seed, by rate.",
            by=GROUPS,
            columns=across("rate", {f"rate {rate:g}": rate for rate in sorted((RATE, *OTHERS))}, "validation"),
            data=lambda results: where(results.rows, seed=0),
            words=NAMES,
            sort=IN_ORDER,
        ),
    )
    figures: ClassVar = {
        "lost": Bands(
            "What a network that learned loses under its equation, of R² or of right answers: the mean over seeds, and a band "
            "from the least to the largest.",
            x="dt",
            y="lost",
            panels=("task", "{}"),
            lines=("units", NAMES),
            data=lambda results: learned(compared(results)),
            x_label="dt/τ",
            y_label="lost, of R² or right answers",
            x_log=True,
        ),
        "invented": Bands(
            "The share of trials that go on moving by the step, their last input held, and rest in the equation: the mean over "
            "seeds, and a band from the least to the largest.",
            x="dt",
            y="invented",
            panels=("task", "{}"),
            lines=("units", NAMES),
            data=held,
            x_label="dt/τ",
            y_label="share invented",
            x_log=True,
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        def of(seeds: Sequence[int], rates: Sequence[float]) -> list[Point]:
            return grid(seed=seeds, rate=rates, dt=sizes.dts, task=sizes.tasks, units=FIELDS)

        seeds = range(sizes.seeds)
        points = [*of(seeds[:FIRST], [RATE]), *of([0], sizes.others), *of(seeds[FIRST:], [RATE])]
        return [{axis: point[axis] for axis in ("task", "units", "dt", "rate", "seed")} for point in points]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        shared = {"integrator": EULER, "batch": sizes.batch, "schedule": "cosine", "threads": 1}
        of_point = {"task": point["task"], "dt": point["dt"], "rate": point["rate"]}
        return by_adam(point, sizes, field="plain", **shared, **of_point, **FIELDS[point["units"]])

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        asked, point = run.configuration, run.point
        task, seed = asked.task, asked.training.seed
        assert isinstance(task, Trials)
        row: Row = {"validation": learning_curve(folder)[-1]["loss"]}
        if isinstance(task, Rhythm):
            row["predicted"] = predicted_r2(EULER, task.dt, task)
        scores = measures.scores(model.eval(), task, asked.training.evaluation, seed)
        row |= {**scores, "lost": scores["own"] - scores["exact"]}
        if point["rate"] == RATE:
            row |= looked_at(model, task, seed) | {"forbidden": forbidden(model)}
        return [{name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()}]

    def measure_diverged(self, run: Run, folder: Path) -> list[Row]:
        return []

    def headline(self, record: Record) -> str:
        if not record["rows"]:
            return "diverged"
        row = record["rows"][0]
        invented = row.get("invented")
        moved = "" if invented is None else f", {number(invented)} of trials go on by the step alone"
        return f"{number(row['own'])} as trained, {number(row['exact'])} exactly{moved}"

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = compared(results)
        seeds: dict[str, int] = dict(rows.groupby("units")["seed"].nunique()) if len(rows) else {}
        if min(seeds.get(units, 0) for units in FIELDS) < 2:
            raise NotEnoughError("two seeds of each kind of network are needed")
        rhythm = where(rows, task=RHYTHM)
        parts = [
            _part(f"rhythms lose more R² under Dale's law at dt/τ = {dt:g}", _lost(where(rhythm, dt=dt)), SCORES) for dt in DTS
        ]
        parts.append(_part("tasks that rest lose more right answers", _lost(rows[rows["task"] != RHYTHM]), SCORES))
        for other, beside in ((FREED, ""), (USUAL, ", beside the usual start")):
            parts.append(_part(f"more of what moves is invented{beside}", _more(rows, "invented", other), SHARES))
            parts.append(_part(f"more modes swing{beside}", _more(rows, "swings", other), SHARES))
        return ClaimVerdict(parts)


def looked_at(model: SequenceModel, task: Trials, seed: int) -> Row:
    """Say what `breakdown` finds of trials without noise on the input; nothing where the equation has no solution."""
    quiet = dataclasses.replace(task, input_noise=0.0)
    batch = quiet.batch(HELD, generator(seed, "held"), "test")
    asked = discretize.Batch(batch.xs, batch.targets, batch.counts, batch.ts)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SolverWarning)
            warnings.simplefilter("ignore", StepWarning)
            found = discretize.breakdown(model, asked, halvings=2, steps=())
    except (SolverError, StepError):
        return {}
    row: Row = {"verdict": found.verdict, "apart": found.refinement.share}
    if found.modes is not None:
        row["swings"] = found.modes.swings
    if found.held is None:
        return row
    factors = found.refinement.factors or (math.nan,) * HELD
    pairs = list(zip(*found.held, factors, strict=True))
    invented = [factor for stepped, exact, factor in pairs if stepped != REST and exact == REST]
    return row | {
        "invented": len(invented) / len(pairs),
        "swung": sum(factor.real < -1 and not factor.imag for factor in invented) / len(pairs),
        "missed": sum(stepped == REST != exact for stepped, exact, _ in pairs) / len(pairs),
        "without bound": sum(exact == NO_BOUND for _, exact, _ in pairs) / len(pairs),
    }


def forbidden(model: SequenceModel) -> float:
    """Return the share of recurrent weights whose sign is not that of their column in Dale's law."""
    candidate: Any = model.field.candidate
    weight: Tensor = candidate.weight_h.detach()
    signs = torch.ones(weight.shape[1])
    signs[round(SHARE * len(signs)) :] = -1
    return float((weight * signs < 0).double().mean())


def _more(rows: pd.DataFrame, column: str, other: str = FREED) -> Spread:
    """Compute how much more there is under Dale's law than beside it, by seeds: the mean over tasks and dt that both have."""
    if column not in rows:
        return paired([])
    law, beside = (where(rows, units=units).set_index(CELL)[column].astype(float) for units in (DALE, other))
    return paired((law - beside).dropna().groupby("seed").mean())


def _lost(rows: pd.DataFrame) -> Spread:
    return _more(learned(rows), "lost")


def _part(claim: str, more: Spread, least: float) -> ClaimPart:
    return ClaimPart(claim, Compared(more, least, printed=False), f"by {more.count} seeds")
