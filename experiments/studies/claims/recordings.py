r"""Plays recordings at other speeds: which there are, how a trained model is run on them, and what it loses.

speed c        the mean of c samples after one another is one sample; at 1 / c every sample comes c times
clock given    a sample takes c units of own time, else one; at c = 1 both are the same, so one training serves both
fall           accuracy at c = 1 less that at c, in the same way of running the same weights
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure

from ctrnn import PowerDecay, Relaxation
from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, number
from experiments.runs.configuration import TrainingSettings
from experiments.studies.clocks.crosswise import crosswise
from experiments.studies.clocks.figures import accuracy_over_clocks
from experiments.studies.clocks.rollout import Rollout
from experiments.studies.results import where
from experiments.studies.study import Row, data_path
from experiments.tasks.recorded.recordings import Recorded
from experiments.tasks.task import Batch, Task, said_right

__all__ = ["AccuracyAndGate", "SOURCES", "check_learned", "figure_at_speeds", "folders_found", "row_at", "with_falls"]

LEARNED = 0.6  # of accuracy; that of both recordings is below 0.2 without looking


@dataclass(frozen=True)
class RecordingSource:
    """Names recordings: their folder in `--data DIR`, the speeds played, and the longest time scale of chrono, in samples."""

    name: str
    about: str
    folder: str
    speeds: tuple[float, ...]
    longest: float

    @property
    def title(self) -> str:
        return f"{self.name}, {self.about}"

    @property
    def left_out(self) -> str:
        """Return what stands in place of an empty table; "{}" is what is not shown."""
        return f"{{}}: left out; `--data DIR` names the folder with {self.folder} in it."


SOURCES = {
    "har": RecordingSource("UCI HAR", "windows of 128 samples", "uci_har/", (0.5, 1.0, 2.0, 4.0, 8.0), 64.0),
    "vowels": RecordingSource("JapaneseVowels", "7 to 29 frames", "japanese_vowels/", (0.25, 0.5, 1.0, 2.0, 4.0), 16.0),
}


def folders_found() -> dict[str, Path]:
    """Find the recordings' own folders, where there are any."""
    found = {name: data_path(source.folder) for name, source in SOURCES.items()}
    return {name: folder for name, folder in found.items() if folder is not None}


class AccuracyAndGate:
    """Sums up one way of running on the test split, at one speed; "steepest" is the largest c'g (r + 1)|h|^r."""

    def __init__(self, task: Task, model: SequenceModel) -> None:
        self.r = _exponent(model)
        self.good, self.count, self.losses, self.largest, self.steepest, self.finite = 0, 0, 0.0, 0.0, 0.0, True
        self.medians = list[float]()

    def add(self, batch: Batch, found: Rollout | None, reference: Rollout | None) -> None:
        self.count += batch.size
        if found is None:
            self.finite = False
            return
        last, r = batch.last(found.outputs), self.r
        self.good += int(said_right(last, batch.targets).sum())
        self.losses += float(torch.nn.functional.cross_entropy(last, batch.targets, reduction="sum"))
        self.largest = max(self.largest, float(found.g_dt.max()))
        steepest = float((found.g_dt * found.before.abs() ** r).max()) * (r + 1) if r else self.largest
        self.steepest = max(self.steepest, steepest)
        self.medians.append(float(found.g_dt.median()))
        self.finite = self.finite and found.finite

    def row(self) -> Row:
        finite, medians = self.finite, sorted(self.medians)
        return {
            "finite": finite,
            "accuracy": self.good / self.count,
            "loss": self.losses / self.count if finite else None,
            "largest": self.largest if finite else None,
            "steepest": self.steepest if finite else None,
            "median": medians[len(medians) // 2] if finite else None,
        }


def row_at(task: Recorded, model: SequenceModel, training: TrainingSettings) -> Row:
    """Measure one way of running on the test split of a task, at its speed."""
    (row,) = crosswise(task, {"": model}, training, AccuracyAndGate)
    return {name: value for name, value in row.items() if name not in ("way", "clock_given", "clock")}


def _exponent(model: SequenceModel) -> float:
    """Return r of the decay |h|^r h."""
    decay = model.field.decay if isinstance(model.field, Relaxation) else None
    return float(decay.exponent) if isinstance(decay, PowerDecay) else 0.0


def with_falls(rows: pd.DataFrame) -> pd.DataFrame:
    """Add a column "fall", of accuracy from c = 1."""
    if rows.empty:
        return rows
    of = ["key", "way", "clock_given"]
    first = where(rows, clock=1.0)[[*of, "accuracy"]].rename(columns={"accuracy": "first"})
    found = rows.merge(first, on=of, how="left")
    return found.assign(fall=found["first"] - found["accuracy"])


def check_learned(rows: pd.DataFrame, recording: str) -> None:
    """Refuse to judge models of which none has learned a recording at its own speed. Raises: NotEnoughError."""
    if (best := where(rows, recording=recording, clock=1.0)["accuracy"].max()) < LEARNED:
        title = SOURCES[recording].name
        raise NotEnoughError(f"no model has learned {title} (the best accuracy is {number(best)}); a larger scale decides.")


def figure_at_speeds(rows: pd.DataFrame, title: Callable[[pd.DataFrame], pd.Series]) -> Figure:
    """Draw accuracies over speeds, of models trained at c = 1: a row of panels for each title, the clock given and hidden."""
    if rows.empty:
        raise NotEnoughError("there is no point to draw yet")
    titles = {True: "clock given", False: "clock hidden"}
    titled = rows.assign(row=title(rows), column=rows["clock_given"].map(titles))
    return accuracy_over_clocks(titled, "speed c at which the recording is played", dict.fromkeys(titles.values(), (1.0,)))
