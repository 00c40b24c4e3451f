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
from experiments.studies.clocks.figures import accuracy_over_clocks
from experiments.studies.clocks.rollout import is_right, roll_out
from experiments.studies.results import where
from experiments.studies.study import Row, data_path
from experiments.tasks.recorded.recordings import Recorded

__all__ = ["SOURCES", "check_learned", "figure_at_speeds", "folders_found", "row_at", "with_falls"]

BATCH = 512  # sequences at once in the test
LEARNED = 0.6  # of accuracy; that of both recordings is below 0.2 without looking


@dataclass(frozen=True)
class Source:
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
    "har": Source("UCI HAR", "windows of 128 samples", "uci_har/", (0.5, 1.0, 2.0, 4.0, 8.0), 64.0),
    "vowels": Source("JapaneseVowels", "7 to 29 frames", "japanese_vowels/", (0.25, 0.5, 1.0, 2.0, 4.0), 16.0),
}


def folders_found() -> dict[str, Path]:
    """Find the recordings' own folders, where there are any."""
    found = {name: data_path(source.folder) for name, source in SOURCES.items()}
    return {name: folder for name, folder in found.items() if folder is not None}


def row_at(task: Recorded, model: SequenceModel, training: TrainingSettings) -> Row:
    """Measure what one way of running gives on the test split, at one speed; "steepest" is the largest c'g (r + 1)|h|^r."""
    own_time, r = task.speed if task.clock_given else 1.0, _exponent(model)
    good, count, losses, largest, steepest, medians, finite = 0, 0, 0.0, 0.0, 0.0, list[float](), True
    for batch in task.evaluation("test", training.evaluation, BATCH, training.seed):
        count += batch.size
        found = roll_out(model, batch, own_time)
        if found is None:
            finite = False
            continue
        last = batch.last(found.outputs)
        good += int(is_right(last, batch.targets).sum())
        losses += float(torch.nn.functional.cross_entropy(last, batch.targets, reduction="sum"))
        largest = max(largest, float(found.g_dt.max()))
        steepest = max(steepest, float((found.g_dt * found.before.abs() ** r).max()) * (r + 1) if r else largest)
        medians.append(float(found.g_dt.median()))
        finite = finite and found.finite
    return {
        "finite": finite,
        "accuracy": good / count,
        "loss": losses / count if finite else None,
        "largest": largest if finite else None,
        "steepest": steepest if finite else None,
        "median": sorted(medians)[len(medians) // 2] if finite else None,
    }


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
