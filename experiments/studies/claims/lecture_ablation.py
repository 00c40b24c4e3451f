r"""Tests the lecture's picture on data: time scales are set by the biases, and still there after training.

    set        T of each unit, by chrono; `ctrnn.timescales` of the field at its start
    measured   one sample replaced by a null token: how long until 1/e of what it moved is left, experiments/models/forgetting.py

    gates      1 over the mean leak of each unit on data, after training

Set and measured before and after training, on a text read on a warped clock and in a model of a text's next characters, where
biases learn and where they stay as they were set: what the gates say of the units' own memory, and what the units hear of each
other beside it.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, SequenceModel
from experiments.models.forgetting import forgetting, forgetting_times, times_of_gates
from experiments.reports.forgetting_figure import forgetting_figure
from experiments.reports.spreads import NotEnoughError, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.seeds import generator
from experiments.studies.claims.tallec.fig7 import SHAKESPEARE
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Drawing, Table, at_end, run_count
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.tasks.next_character import NextCharacter
from experiments.tasks.next_word import NextWord
from experiments.tasks.warps.repeated_text import RepeatText

__all__ = ["AGREES", "LectureAblation", "agreements", "memory_of_units", "middle_of_third", "unseen"]

TASKS = {"repeats": "character before, repeated", "next": "next character"}
MODELS = {"lstm": "LSTM", "gated": "gated"}
BIASES = {"lstm": "*.field.gates.bias", "gated": "*.field.rate.bias"}  # by which time scales are set
ARMS = {"learned": "learned", "frozen": "as they were set"}
AGREES = 0.7  # rank correlation of set and measured times
DIGITS = 4
SEQUENCES, PLACES, APART = 32, 4, 50  # of the ablation; what is looked at is three times the largest T


def agreements(rows: pd.DataFrame, measured: str = "measured", said: str = "set") -> list[float]:
    """Compute Spearman's rank correlation of set and measured times in each run; units that never forget are the slowest.

    nan where all are equal.
    """
    from scipy.stats import spearmanr  # noqa: PLC0415

    known = [run[run[measured].notna()] for run in groups(rows, "key").values()]
    told = [min(run[said].nunique(), run[measured].nunique()) > 1 for run in known]
    return [
        float(spearmanr(run[said], run[measured]).statistic) if one else math.nan for run, one in zip(known, told, strict=True)
    ]


def middle_of_third(rows: pd.DataFrame, longest: bool) -> object:
    """Compute, over runs, the median measured time of the third of the units that was set shortest, or longest."""
    found = []
    for run in groups(rows, "key").values():
        units, third = run.sort_values("set", kind="stable")["measured"], max(1, len(run) // 3)
        part = sorted(units.iloc[-third:] if longest else units.iloc[:third])
        found.append(part[len(part) // 2])
    return spread(found) if all(map(math.isfinite, found)) else "beyond what was looked at"


def forgetting_of(model: str, results: Results) -> Figure:
    """Draw the forgetting of the first run of a model on repeated characters."""
    runs = groups(where(results.rows, task="repeats", biases="learned"), ["model", "key"])
    first = next((rows for (of, _), rows in runs.items() if of == model), None)
    if first is None:
        raise NotEnoughError(f"no run of {model} is done yet")
    return forgetting_figure(np.array(first["influence"].tolist()).T, first["set"].to_numpy())


def influence(configuration: Configuration, model: SequenceModel, horizon: int) -> Tensor:
    """Measure what a sample does to each unit for so many samples, on sequences that no training saw."""
    places = [APART * (k + 1) for k in range(PLACES)]
    assert isinstance(model.rnn, DiscreteRNN | ContinuousRNN)
    return forgetting(model.rnn, unseen(configuration, places[-1] + horizon), places, horizon)


def unseen(configuration: Configuration, length: int) -> Tensor:
    """Draw sequences that no training saw."""
    assert isinstance(configuration.task, RepeatText | NextCharacter | NextWord)
    task = dataclasses.replace(configuration.task, length=length)
    return task.batch(SEQUENCES, generator(configuration.training.seed, "ablation"), "test").xs


def memory_of_units(configuration: Configuration, model: SequenceModel, horizon: int) -> list[Row]:
    """Return a row a unit: the time set, those measured before and after training, and what is left at every sample."""
    start = configuration.untrained_model()
    before, after = (influence(configuration, each, horizon) for each in (start, model))
    assert isinstance(model.rnn, DiscreteRNN | ContinuousRNN)
    columns = {
        "set": ctrnn.timescales(start.field).tolist(),
        "by the trained biases": ctrnn.timescales(model.field).tolist(),
        "measured before": forgetting_times(before).tolist(),
        "measured": forgetting_times(after).tolist(),
        "gates": times_of_gates(model.rnn, unseen(configuration, PLACES * APART)).tolist(),
        "influence": [[float(f"{value:.{DIGITS}g}") for value in unit] for unit in after.T.tolist()],
    }
    return [{"unit": unit, **{name: values[unit] for name, values in columns.items()}} for unit in range(after.shape[1])]


class LectureAblation(Study):
    """Trains chrono networks on text, and correlates set and measured forgetting times before and after."""

    name = "lecture-ablation"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 8, "paper": 240}
    sizes: ClassVar = scales(
        hidden=(16, 64, 256),
        t_max=({"repeats": 20.0, "next": 10.0}, {"repeats": 100.0, "next": 200.0}, {"repeats": 200.0, "next": 200.0}),
        steps=({"repeats": 20, "next": 20}, {"repeats": 1500, "next": 4000}, {"repeats": 10_000, "next": 10_000}),
        length=(60, 200, 500),
        warp=(4, 8, 16),
        evaluation=(16, 256, 256),
        seeds=(1, 3, 5),
    )
    needs = (SHAKESPEARE,)
    another: ClassVar = dict.fromkeys(
        ("small", "paper"),
        "The slides are of a language model of words that is not given; tried was another experiment, models of characters.",
    )
    tables = (
        Table(
            "Set and measured forgetting times, and those of the trained gates on data; medians over the units of a third. Mean "
            "(least–largest) over seeds.",
            by={"task": "task", "network": "model", "biases": "biases"},
            columns={
                "rank correlation at the start": lambda rows: spread(agreements(rows, "measured before")),
                "trained": lambda rows: spread(agreements(rows)),
                "gates and measured": lambda rows: spread(agreements(rows, said="gates")),
                "set and gates": lambda rows: spread(agreements(rows, "gates")),
                "third set shortest, samples": lambda rows: middle_of_third(rows, longest=False),
                "third set longest, samples": lambda rows: middle_of_third(rows, longest=True),
                "accuracy": at_end("accuracy"),
                "runs": run_count,
            },
            data=lambda results: results.rows_with("accuracy"),
            words={**TASKS, **MODELS, **ARMS},
        ),
    )
    figures: ClassVar = {
        "lstm": Drawing(
            "What is left of one sample in the cells of a trained LSTM: units by the time scale that was set, long ones on "
            "top; below, the measured times against the set ones, and the line on which they agree.",
            lambda results: forgetting_of("lstm", results),
        ),
        "gated": Drawing(
            "The same of a trained gated network, whose units hear of the sample through one another.",
            lambda results: forgetting_of("gated", results),
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points, without those of next characters where there is no text."""
        tasks = [task for task in TASKS if task == "repeats" or data_path(SHAKESPEARE)]
        return grid(seed=range(sizes.seeds), task=tasks, model=MODELS, biases=ARMS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task: dict[str, Any] = {"task": "next-character", "text": str(data_path(SHAKESPEARE))}
        if point["task"] == "repeats":
            task = {"task": "repeat-text", "warping": "variable", "warp": sizes.warp}
        model: dict[str, Any] = {"field": point["model"], "integrator": "euler", "hidden": sizes.hidden, "init": "chrono"}
        frozen = BIASES[point["model"]] if point["biases"] == "frozen" else ""
        training: dict[str, Any] = {
            "steps": sizes.steps[point["task"]],
            "seed": point["seed"],
            "evaluation": sizes.evaluation,
            "frozen": frozen,
        }
        by_adam: dict[str, Any] = {"optimizer": "adam", "rate": 2e-3, "clip": 1.0, "threads": 1}
        return shared_configuration(**task, length=sizes.length, **model, t_max=sizes.t_max[point["task"]], **training, **by_adam)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        return memory_of_units(run.configuration, model, math.ceil(3 * (run.configuration.field_settings.t_max or 0.0)))

    def verdict(self, results: Results) -> ClaimVerdict:
        learned = where(results.rows, biases="learned")
        found = {pair: spread(agreements(rows)) for pair, rows in groups(learned, ["task", "model"]).items()}
        tasks = [task for task in TASKS if task == "repeats" or any(of == task for of, _ in found)]
        if absent := [f"{model}, {TASKS[task]}" for task in tasks for model in MODELS if (task, model) not in found]:
            raise NotEnoughError(f"no run of {'; '.join(absent)} is done yet")
        parts = [
            ClaimPart(
                f"{TASKS[task]}, {MODELS[model]}: after training units forget in the order that was set",
                *_kept(results, task, model),
            )
            for task in tasks
            for model in MODELS
        ]
        numbers: dict[str, float | int | str] = {
            f"rank correlation, {TASKS[task]}, {MODELS[model]}": str(found[task, model]) for task in tasks for model in MODELS
        }
        return ClaimVerdict(parts, numbers)


def _kept(results: Results, task: str, model: str) -> tuple[bool, str]:
    """Return whether every run keeps the order, and the rank correlations; no order at all is none that was kept."""
    learned, frozen = (where(results.rows, task=task, model=model, biases=arm) for arm in ("learned", "frozen"))
    found = agreements(learned)
    said = [f"rank correlation of set and measured times {spread(found)}"]
    said += [f"with biases that stay as they were set {spread(agreements(frozen))}"] if len(frozen) else []
    said.append(f"of the trained gates on data and measured times {spread(agreements(learned, said='gates'))}")
    return all(one >= AGREES for one in found), "; ".join(said)
