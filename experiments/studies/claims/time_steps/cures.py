r"""Trains the rhythm by the trapezoid, by Euler's step with noise, and by Euler's and fifty exact steps at the end.

lost      R^2 by the step that trained it less R^2 of the same weights, solved
size      deviation of the solved output in time, over that of the target
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch

from derivations.processes.interruption import checkpoint
from discretize import SequenceModel
from experiments.models.integrators import EXACT, under
from experiments.reports.spreads import NotEnoughError, number, paired
from experiments.runs.configuration import Configuration
from experiments.seeds import generator
from experiments.studies.claims.time_steps import measures
from experiments.studies.claims.time_steps.design import EULER, RHYTHM, DesignCell, configured
from experiments.studies.claims.time_steps.prediction import predicted_r2
from experiments.studies.claims.time_steps.tables import NAMES, OTHER_STEPS, how_many, in_words, learned, lost, spread_of
from experiments.studies.claims.training import learning_curve
from experiments.studies.results import Results, where
from experiments.studies.specs import Table, across
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared
from experiments.tasks.cognitive import Rhythm

__all__ = ["StepCures"]

TRAPEZOID, NOISY = "trapezoid", "euler-maruyama"
CELLS = (
    DesignCell(RHYTHM, "tanh", EULER, 0.2),
    DesignCell(RHYTHM, "noisy", NOISY, 0.2),
    DesignCell(RHYTHM, "tanh", TRAPEZOID, 1.0),
)
RATE, COMMON, OTHERS, TUNED, FINE_RATE = 0.01, 0.001, (0.003, 0.03, 0.1), 50, 1e-3
COUNTED = 0.02
AS_TRAINED, BY_EXACT, BY_EULER = "as trained", "50 exact steps more", "50 Euler steps more"


class StepCures(Study):
    """Compares cures of what a step invents, at one learning rate."""

    name = "ctrnn-steps-cures"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 60, "paper": 180}
    sizes: ClassVar = scales(
        hidden=(8, 64, 64),
        steps=(3, 800, 2000),
        batch=(8, 64, 64),
        sequences=(16, 512, 512),
        rate=(3e-3,) * 3,
        seeds=(1, 3, 5),
        common=(1, 5, 5),  # seeds at the rate of common
        others=((), OTHERS, OTHERS),
    )
    tables = (
        Table(
            "R² of the rhythm by the step that trained it and solved, mean (least–largest) over seeds; lost: the mean of those "
            "that learned, with its 95 % interval; predicted: what a linear oscillator keeps. Size: deviation of the solved "
            "output in time, over that of the target.",
            by={"step": "step", "dt/τ": "dt", "rate": "rate", "training": "training"},
            columns={
                "by the step": "own",
                "solved": "exact",
                "lost": lambda rows: in_words(lost(rows)),
                "predicted": "predicted",
                "size": lambda rows: spread_of(rows, "size"),
                "learned": how_many,
            },
            data="rows",
            words=NAMES | OTHER_STEPS,
        ),
        Table(
            "Validation loss after the training, of the first seed, by rate.",
            by={"step": "step", "dt/τ": "dt"},
            columns=across("rate", {f"rate {rate:g}": rate for rate in sorted((RATE, COMMON, *OTHERS))}, "validation"),
            data=lambda results: where(results.rows, training=AS_TRAINED, seed=0),
            words=NAMES | OTHER_STEPS,
        ),
    )

    def points(self, sizes: Sizes) -> list[Point]:
        seeds = [{**cell._asdict(), "rate": RATE, "seed": seed} for seed in range(sizes.seeds) for cell in CELLS]
        common = [{**cell._asdict(), "rate": COMMON, "seed": seed} for cell in CELLS for seed in range(sizes.common)]
        return seeds + common + [{**cell._asdict(), "rate": rate, "seed": 0} for rate in sizes.others for cell in CELLS]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return configured(point, sizes)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        asked, point = run.configuration, run.point
        task = asked.task
        assert isinstance(task, Rhythm)
        shared: Row = {
            "predicted": predicted_r2(EULER if point["step"] == NOISY else point["step"], point["dt"], task),
            "validation": learning_curve(folder)[-1]["loss"],
        }
        tuned = {AS_TRAINED: model.eval()}
        if point["step"] == EULER and point["rate"] in (RATE, COMMON):
            count = min(TUNED, asked.training.steps)
            tuned |= {BY_EXACT: fine_tuned(model, task, EXACT, count), BY_EULER: fine_tuned(model, task, EULER, count)}
        return [
            {"training": training, **shared, **measures.scores(each, task, asked.training.evaluation, asked.training.seed)}
            for training, each in tuned.items()
        ]

    def headline(self, record: Record) -> str:
        score = record["rows"][0]
        return f"{number(score['own'])} as trained, {number(score['exact'])} exactly"

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = results.rows
        if not _decides(where(rows, rate=RATE)):
            raise NotEnoughError("two seeds of Euler's step are needed, with noise and without")
        first, common = (where(rows, rate=rate) for rate in (RATE, COMMON))
        nothing = Compared(lost(where(first, step=EULER, training=BY_EXACT)), COUNTED, absent=True, printed=False)
        parts = [*_parts(first, ClaimPart("after fifty exact steps nothing is lost", nothing), "")]
        if _decides(common):
            raised = Compared(paired(_raised(common)), COUNTED, printed=False)
            at = f"at the rate {COMMON:g}, "
            parts += _parts(common, ClaimPart(f"{at}fifty exact steps raise R² by the equation", raised), at)
        return ClaimVerdict(parts)


def _decides(rows: pd.DataFrame) -> bool:
    """Tell whether two seeds of Euler's step are there, with noise and without."""
    seeds: dict[str, int] = dict(rows.groupby("step")["seed"].nunique()) if len(rows) else {}
    return min(seeds.get(step, 0) for step in (EULER, NOISY)) >= 2


def _parts(rows: pd.DataFrame, exact: ClaimPart, at: str) -> list[ClaimPart]:
    """Judge the cures by the networks of one rate; `exact`: what is asked of those with fifty exact steps."""
    of = {step: learned(where(rows, step=step, training=AS_TRAINED)) for step in (EULER, NOISY, TRAPEZOID)}
    implicit = None if len(of[TRAPEZOID]) < 2 else of[TRAPEZOID]
    off = pd.merge(of[EULER], of[NOISY], on="seed", suffixes=("", " noisy"))
    halved = (off["own noisy"] - off["exact noisy"]) - (off["own"] - off["exact"]) / 2
    kept = None if implicit is None else Compared(paired(implicit["size"] - 1), COUNTED, absent=True, printed=False)
    losses = f"{in_words(lost(of[NOISY]))} and {in_words(lost(of[EULER]))}"
    more = Compared(lost(where(rows, step=EULER, training=BY_EULER)), COUNTED, printed=False)
    loses = None if implicit is None else Compared(lost(implicit), COUNTED, printed=False)
    half = Compared(paired(halved), -COUNTED, printed=False)
    return [
        ClaimPart(f"{at}the size of a rhythm that the trapezoid trained is kept", kept),
        ClaimPart(f"{at}the trapezoid loses R²" if at else "and it loses R²", loses),
        ClaimPart(f"{at}with noise Euler's step loses less than half as much", half, losses),
        exact,
        ClaimPart(f"{at}after fifty more of Euler's a loss is left" if at else "after fifty more of Euler's it still is", more),
    ]


def _raised(rows: pd.DataFrame) -> pd.Series:
    """Compute how much fifty exact steps raise R^2 by the equation, of each network that Euler's step trained."""
    before, after = (where(rows, step=EULER, training=name).set_index("seed")["exact"] for name in (AS_TRAINED, BY_EXACT))
    return (after - before).dropna()


def fine_tuned(model: SequenceModel, task: Rhythm, integrator: str, steps: int) -> SequenceModel:
    """Return a copy that was trained on, by an integrator, with the samples of dt = tau where it is solved."""
    tuned = copy.deepcopy(model)
    taught = under(tuned, integrator) if integrator == EXACT else tuned
    trials = dataclasses.replace(task, dt=1.0) if integrator == EXACT else task
    optimizer, draws = torch.optim.Adam(tuned.parameters(), lr=FINE_RATE), generator(0, "fine-tuning")
    for _ in range(steps):
        checkpoint()
        batch = trials.batch(64, draws)
        optimizer.zero_grad()
        trials.loss(taught(batch.xs, ts=batch.ts), batch).backward()
        torch.nn.utils.clip_grad_norm_(tuned.parameters(), 1.0)
        optimizer.step()
    return tuned.eval()
