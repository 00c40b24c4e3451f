r"""Trains models on the patients of PhysioNet 2012, each tested in one of five folds, and compares them on resampled patients.

times        a GRU that sees none; the gap as one more value; held samples and stamps; the same, the gaps mixed up
exactness    one field by Euler's step, by the exponential one, and solved: trained so, and on the same weights
controls     labels mixed up in training and test; the number of measurements alone
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.stats import rankdata

from discretize import SequenceModel
from experiments.models.integrators import EXACT, under
from experiments.reports.spreads import NotEnoughError
from experiments.runs.configuration import Configuration, configuration
from experiments.runs.folder import read_result
from experiments.studies.resampling import auroc_drawn, difference_drawn
from experiments.studies.results import Results
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, words_beside
from experiments.studies.verdicts import Compared, Part, Verdict
from experiments.tasks.recorded.patients import FOLDS, VALUES, Patients

__all__ = ["MODELS", "PhysioNetFolds"]

DATA = "physionet2012/"
EXPONENTIAL, EULER = "exponential-euler", "euler"
STEPS = (EULER, EXPONENTIAL, EXACT)


def _held(field: str, integrator: str, **settings: object) -> dict[str, Any]:
    return {"field": field, "integrator": integrator, "hold": "backward", **settings}


def _no_times(field: str, **settings: object) -> dict[str, Any]:
    return {"field": field, "integrator": EULER, "clock_given": False, **settings}


MODELS: dict[str, dict[str, Any]] = {
    "gru": _no_times("gru"),
    "gru-gap": _no_times("gru", gap_given=True),
    "gru-euler": _held("gru", EULER),
    "gru-exponential": _held("gru", EXPONENTIAL),
    "gru-exact": _held("gru", EXACT),
    "gru-mixed-gaps": _held("gru", EXPONENTIAL, shuffled="gaps"),
    "gru-mixed-labels": _no_times("gru", shuffled="labels"),
    "gated": _no_times("gated"),
    "gated-euler": _held("gated", EULER),
    "gated-exponential": _held("gated", EXPONENTIAL),
    "gated-exact": _held("gated", EXACT),
    "gated-mixed-gaps": _held("gated", EXPONENTIAL, shuffled="gaps"),
    "ode-rnn": {"field": "ode-rnn", "integrator": EULER},
    "gru-d": {"field": "gru-d", "integrator": EXACT},
    "cfc": {"field": "cfc", "integrator": EXACT},
    "gru-ode-bayes": {"field": "gru-ode-bayes", "integrator": EXPONENTIAL},
}
SOLVED, JUMPING, SLOWEST = ("gru-exact", "gated-exact"), ("ode-rnn", "gru-d", "cfc"), ("gru-ode-bayes",)
QUICK = tuple(name for name in MODELS if name not in (*SOLVED, *JUMPING, *SLOWEST))
TIMED = ("gru", "gru-gap", "gru-exponential", "gated", "gated-exponential")
KEPT = {"all": 1.0, "a third": 1 / 3}  # of the stamps after the first
TRAINED, MIXED, COUNT = "as trained", "gaps mixed up", "number of measurements"  # how weights are run, or what is ranked


COUNTS = 0.01  # of AUROC, the least difference that counts
Read = tuple[str, str, str]  # model, stamps, how the weights are run


def _of(model: str, stamps: str = "all", read: str = TRAINED) -> Read:
    return model, stamps, read


CLAIMS: list[tuple[str, Read, Read]] = [
    ("a GRU with held samples and times is better than one that sees none", _of("gru-exponential"), _of("gru")),
    ("so is a gated network", _of("gated-exponential"), _of("gated")),
    ("a GRU that reads the gap as one more value is better than without", _of("gru-gap"), _of("gru")),
    ("a GRU trained exactly is better than by exponential Euler steps", _of("gru-exact"), _of("gru-exponential")),
    ("a GRU trained exactly is better than by Euler steps", _of("gru-exact"), _of("gru-euler")),
    ("a gated network trained exactly is better than by exponential Euler steps", _of("gated-exact"), _of("gated-exponential")),
    ("a gated network trained exactly is better than by Euler steps", _of("gated-exact"), _of("gated-euler")),
]


def drawn(results: Results) -> dict[Read, dict[int, np.ndarray]]:
    """Compute the AUROCs of all that was ranked, on the patients as they are and on each draw, fold by fold."""
    died = {row["key"]: row["died"] for row in results.rows.to_dict("records") if row["read"] == TRAINED}
    found: dict[Read, dict[int, list[np.ndarray]]] = {}
    for row in results.rows.to_dict("records"):
        if row["ranks"]:
            read = found.setdefault((row["model"], row["stamps"], row["read"]), {})
            read.setdefault(row["fold"], []).append(auroc_drawn(row["ranks"], died[row["key"]], row["fold"]))
    return {read: {fold: np.array(seeds) for fold, seeds in folds.items()} for read, folds in found.items()}


@torch.no_grad()
def ranked(model: SequenceModel, task: Patients) -> list[int]:
    """Rank the patients of the test by the model's score of a death, times two, so that ties are whole; [] if it overflows."""
    (batch,) = task.evaluation("test", task.count("test"), 1, 0)
    last = batch.last(model(batch.xs.to(next(model.parameters()).dtype), batch.ts, batch.lengths))
    return _ranks(last[:, 1] - last[:, 0])


def _ranks(scores: torch.Tensor) -> list[int]:
    return (2 * rankdata(scores)).astype(int).tolist() if bool(scores.isfinite().all()) else []


class PhysioNetFolds(Study):
    """Trains sixteen models in five folds, and asks what times, exactness and jumps are worth."""

    name = "physionet-folds"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 300, "paper": 900}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=4, batch=16, batches=2, epochs=1, patience=1, folds=2, stages=[(("gru", "gated-exact"), "all", 1)]),
        "small": Sizes(
            hidden=48, batch=64, batches=80, epochs=30, patience=4, folds=FOLDS,
            stages=[
                *[(models, "all", 1) for models in (QUICK, SOLVED, JUMPING)],
                (TIMED, "a third", 1), (QUICK, "all", 3), (SLOWEST, "all", 1), (TIMED, "a third", 3), (SOLVED, "all", 3),
                (JUMPING, "all", 3),
            ],
        ),
        "paper": Sizes(hidden=48, batch=64, batches=80, epochs=60, patience=8, folds=FOLDS, stages=[(tuple(MODELS), "all", 5)]),
    }  # fmt: skip
    may_diverge = True
    needs = (DATA,)

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points stage by stage, each with so many seeds; none without the patients."""
        if data_path(DATA) is None:
            return []
        points = [
            {"model": model, "stamps": stamps, "fold": fold, "seed": seed}
            for models, stamps, seeds in sizes.stages
            for seed in range(seeds)
            for fold in range(sizes.folds)
            for model in models
        ]
        return list({tuple(point.values()): point for point in points}.values())

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        settings = MODELS[point["model"]] | {"fold": point["fold"], "kept": KEPT[point["stamps"]], "data": str(data_path(DATA))}
        every = {"evaluate_every": sizes.batches, "checkpoint_every": sizes.batches, "steps": sizes.epochs * sizes.batches}
        best = {"keep": "best", "keep_by": "auroc", "patience": sizes.patience, "evaluation": 10_000}
        adam = {"optimizer": "adam", "rate": 2e-3, "clip": 1.0, "batch": sizes.batch, "threads": 1}
        return configuration("physionet", hidden=sizes.hidden, seed=point["seed"], **settings, **every, **best, **adam)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Rank the patients of the test by the trained model, by the same weights run otherwise, and once by a count alone."""
        task, name = run.configuration.task, run.point["model"]
        assert isinstance(task, Patients)
        (batch,) = task.evaluation("test", task.count("test"), 1, 0)
        result, every = read_result(folder) or {}, run.configuration.training.evaluate_every
        best, epochs = result["best"], result["steps"] / every
        about = {"died": batch.targets.nonzero()[:, 0].tolist(), "epochs": epochs, "seconds an epoch": result["seconds"] / epochs}
        told: Row = {"read": TRAINED, **about, "best epoch": best["step"] / every, "validation": best["auroc"]}
        rows: list[Row] = [told | {"ranks": ranked(model, task)}]
        if (task.clock_given or task.gap_given) and task.shuffled == "nothing":
            rows.append({"read": MIXED, "ranks": ranked(model, dataclasses.replace(task, shuffled="gaps"))})
        if MODELS[name].get("hold") and task.shuffled == "nothing":
            rows += [
                {"read": step, "ranks": ranked(under(model, step), task)}
                for step in STEPS
                if step != run.configuration.integrator
            ]
        if name == "gru" and task.kept == 1:
            rows.append({"read": COUNT, "ranks": _ranks(batch.xs[..., VALUES:].sum((0, 2)))})
        return rows

    def verdict(self, results: Results) -> Verdict:
        found, parts = drawn(results), []
        for claim, ours, theirs in CLAIMS:
            with suppress(NotEnoughError):
                measured = difference_drawn(found.get(ours, {}), found.get(theirs, {}))
                parts.append(Part(claim, Compared(measured, COUNTS, printed=False)))
        if not parts:
            raise NotEnoughError("of two models that are compared no fold is done")
        return Verdict(parts)
