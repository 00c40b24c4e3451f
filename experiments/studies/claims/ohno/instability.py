r"""Shows why training with |h|^r h diverges for r < 1: autograd's derivative at h = 0 is inf * 0, and a state may be 0.

autograd    h.abs() ** r * h, differentiated by autograd        limit    the derivative 0 there, as `ctrnn.parts.PowerDecay`
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, number, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.ohno.har import EPOCH, HAR, OHNO, T
from experiments.studies.claims.training import once
from experiments.studies.results import Results, where
from experiments.studies.specs import Table
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, data_path, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.tasks.recorded.recordings import Recorded

__all__ = ["OhnoInstability"]

DERIVATIVES = {"autograd": "leaky-power-autograd", "limit": "leaky-power"}
AT_ONCE = 500  # windows


def with_divergence(results: Results) -> pd.DataFrame:
    """Add the epoch in which runs diverged, from 1 on, nan for those that did not."""
    epochs = {key: math.ceil(step / EPOCH) for key, step in results.diverged.items()}
    return results.runs.assign(epoch=results.runs["key"].map(epochs))


def diverged_in_words(runs: pd.DataFrame) -> str:
    lost = runs["epoch"].dropna()
    return f"{len(lost)} of {len(runs)}" + (f", in epoch {spread(lost)}" if len(lost) else "")


def spread_of_finished(runs: pd.DataFrame, column: str) -> Spread | None:
    found = runs[column].dropna()
    return spread(found) if len(found) else None


class OhnoInstability(Study):
    """Trains the same networks with two derivatives of |h|^r h at h = 0, by exponent: which trainings end in nan."""

    name = "ohno-instability"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.2, "small": 8, "paper": 300}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=4, epochs=1, exponents=[0.5, 2.0], seeds=1),
        "small": Sizes(hidden=64, epochs=20, exponents=[0.25, 0.5, 1.0, 2.0], seeds=4),
        "paper": Sizes(hidden=64, epochs=200, exponents=[0.25, 0.5, 0.75, 1.0, 2.0, 4.0], seeds=8),
    }
    may_diverge = True
    needs = (HAR,)
    tables = (
        Table(
            "Trainings that ended in a loss or gradient that is not a number; accuracy of the others, and states that were "
            "exactly 0 in one pass over the training windows, mean (least–largest).",
            by={"r": "exponent", "derivative at 0": "derivative"},
            columns={
                "diverged": diverged_in_words,
                "accuracy": lambda rows: spread_of_finished(rows, "accuracy"),
                "states of 0": lambda rows: spread_of_finished(rows, "zeros"),
            },
            data=lambda results: with_divergence(results).merge(zeros_of(results), on="key", how="left"),
            sort=lambda r, derivative: (derivative, r),
        ),
    )

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points; none without the recordings."""
        return grid(seed=range(sizes.seeds), derivative=DERIVATIVES, exponent=sizes.exponents) if data_path(HAR) else []

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        network = {**OHNO, "field": DERIVATIVES[point["derivative"]], "exponent": point["exponent"], "hidden": sizes.hidden}
        training = {"batch": 100, "batches": EPOCH, "seed": point["seed"], "rate": 5e-3, "clip": 5.0, "evaluation": 3000}
        return shared_configuration(
            task="har",
            data=str(data_path(HAR)),
            classes="fastgrnn",
            integrator="euler",
            alpha=25 / T,
            **network,
            **training,
            **once(EPOCH * sizes.epochs),
        )

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Count the states that are exactly 0 in one pass over the training windows, and all of them."""
        task, zeros, count = run.configuration.task, 0, 0
        assert isinstance(task, Recorded)
        with torch.no_grad():
            for batch in task.evaluation("train", len(task.recorded("train").labels), AT_ONCE, 0):
                states, _ = model.rnn(batch.xs.float())
                zeros, count = zeros + int((states == 0).sum()), count + states.numel()
        return [{"zeros": zeros, "states": count}]

    def headline(self, record: Record) -> str:
        return f"{super().headline(record)}, {record['rows'][0]['zeros']} states of 0"

    def verdict(self, results: Results) -> ClaimVerdict:
        runs = with_divergence(results)
        below, above = runs[(runs["exponent"] > 0) & (runs["exponent"] < 1)], runs[runs["exponent"] >= 1]
        parts = {
            (derivative, which): where(some, derivative=derivative)
            for derivative in DERIVATIVES
            for which, some in (("below", below), ("above", above))
        }
        if any(some.empty for some in parts.values()):
            raise NotEnoughError("runs with r below 1 and from 1 on, with both derivatives, are needed")
        lost = {key: int(some["epoch"].notna().sum()) for key, some in parts.items()}
        said = {key: diverged_in_words(some) for key, some in parts.items()}
        return ClaimVerdict(
            [
                ClaimPart(
                    "with autograd's derivative at 0 at least half of the trainings below r = 1 diverge, and none from 1 on",
                    2 * lost["autograd", "below"] >= len(parts["autograd", "below"]) and not lost["autograd", "above"],
                    f"{said['autograd', 'below']}; {said['autograd', 'above']}",
                ),
                ClaimPart(
                    "with its limit none does",
                    not lost["limit", "below"] and not lost["limit", "above"],
                    f"{said['limit', 'below']}; {said['limit', 'above']}",
                ),
            ],
            {f"states of 0 in {number(float(rows['states'].mean()))}": str(spread(rows["zeros"]))}
            if not (rows := zeros_of(results)).empty
            else {},
        )


def zeros_of(results: Results) -> pd.DataFrame:
    return (
        results.rows[["key", "zeros", "states"]] if "zeros" in results.rows else pd.DataFrame(columns=["key", "zeros", "states"])
    )
