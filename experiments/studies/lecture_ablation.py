r"""The lecture's picture: time scales are set by the biases, and still there after training, measured on data.

    set        T of each unit, by chrono; `ctrnn.timescales` of the field at its start
    measured   one sample replaced by a null token: how long until 1/e of what it moved is left, experiments/models/forgetting.py

Both before and after training, on a text read on a warped clock.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from experiments.models.fields import FieldSettings
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.studies.records import NotEnoughError, Record, Spread, grouped, markdown, spread
from experiments.studies.study import Run, Study, Verdict, Word
from experiments.tasks.repeated_text import RepeatText

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from experiments.models.sequence_model import SequenceModel

__all__ = ["LectureAblation"]

MODELS = {"lstm": "LSTM", "gated": "gated"}
AGREES, SOMEWHAT = 0.7, 0.3  # rank correlations of set and measured times
DIGITS = 4
SEQUENCES, PLACES, APART = 32, 4, 50  # of the ablation; what is looked at is three times the largest T
# units, largest T, length, largest warp, steps, seeds
SIZES = {
    "smoke": (16, 20.0, 60, 4, 20, 1),
    "small": (64, 100.0, 200, 8, 1500, 3),
    "paper": (256, 200.0, 500, 16, 10_000, 5),
}


class LectureAblation(Study):
    """Chrono networks on repeated text: rank correlation of set and measured forgetting times, before and after training."""

    name = "lecture-ablation"
    question = "Do units forget as slowly as their biases were set to, also after training?"
    claim = (
        "Long time scale units are ~equally affected by both ancient and recent inputs; "
        "short time scale units are ~only affected by recent inputs."
    )
    source = "A. Huth, lecture slides of 2020, 'Bias controls the timescale'."
    resolutions = (
        "The slides' network is a language model of words that is not given: here an LSTM and a gated network on the "
        "declaration's first article, characters repeated a random number of times, the character before to be said.",
        "Biases by chrono at the start; all weights are trained, the biases too.",
        "The null token is a sample of zeros. Of the LSTM the cells are looked at, of the gated network the states.",
        "A unit has forgotten when 1/e of the largest change is left and it stays below; what does not within the samples "
        "looked at counts as longer than all others.",
        "Reproduced is a rank correlation of at least 0.7 between set and measured times in every trained network.",
    )
    minutes: ClassVar = {"smoke": 0.2, "small": 3, "paper": 120}
    captions: ClassVar = {
        "lstm": "What is left of one sample in the cells of a trained LSTM: units by the time scale that was set, long ones on "
        "top; below, the measured times against the set ones, and the line on which they agree.",
        "gated": "The same of a trained gated network, whose units hear of the sample through one another.",
    }

    def runs(self, scale: str) -> list[Run]:
        hidden, t_max, length, warp, steps, seeds = SIZES[scale]
        return [
            Run(
                f"{model}-{seed}",
                Configuration(
                    RepeatText(warping="variable", warp=warp, length=length),
                    model,
                    "euler",
                    FieldSettings(hidden=hidden, init="chrono", t_max=t_max),
                    training=TrainingSettings(
                        steps=steps, seed=seed, optimizer="adam", rate=2e-3, clip=1.0, evaluation=256, threads=1
                    ),
                ),
            )
            for seed in range(seeds)
            for model in MODELS
        ]

    def measure(self, run: Run, model: SequenceModel) -> list[dict[str, Any]]:
        """A row a unit: the time that was set, those measured before and after training, and what was left at every sample."""
        import ctrnn  # noqa: PLC0415
        from experiments.models.forgetting import forgetting_times  # noqa: PLC0415

        start = run.configuration.untrained_model()
        influences = [self._influence(run.configuration, each) for each in (start, model)]
        before, after = (forgetting_times(influence).tolist() for influence in influences)
        sets, now = ctrnn.timescales(start.field).tolist(), ctrnn.timescales(model.field).tolist()
        return [
            {
                "unit": unit,
                "set": sets[unit],
                "by the trained biases": now[unit],
                "measured before": before[unit],
                "measured": after[unit],
                "influence": [float(f"{value:.{DIGITS}g}") for value in influences[1][:, unit].tolist()],
            }
            for unit in range(len(sets))
        ]

    @staticmethod
    def _influence(configuration: Configuration, model: SequenceModel) -> Tensor:
        from experiments.models.forgetting import forgetting  # noqa: PLC0415
        from experiments.seeds import generator  # noqa: PLC0415

        t_max = configuration.field_settings.t_max
        if t_max is None or not isinstance(configuration.task, RepeatText):
            raise ValueError("the ablation is of chrono networks on a repeated text.")
        horizon = math.ceil(3 * t_max)
        places = [APART * (k + 1) for k in range(PLACES)]
        task = dataclasses.replace(configuration.task, length=places[-1] + horizon)
        xs = task.batch(SEQUENCES, generator(configuration.training.seed, "ablation"), "test").xs
        return forgetting(model.rnn, xs, places, horizon)

    def verdict(self, records: Sequence[Record]) -> Verdict:
        found = {model: spread(map(_agreement, runs)) for model, runs in self._by_model(records).items()}
        if absent := [model for model in MODELS if model not in found]:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        every = [_agreement(record) for record in records]
        least = min(every) if all(map(math.isfinite, every)) else -1.0  # no order at all agrees with none
        word: Word = "reproduced" if least >= AGREES else "partly" if least >= SOMEWHAT else "not"
        told = ", ".join(f"{MODELS[model]} {found[model]}" for model in MODELS)
        numbers: dict[str, float | int | str] = {f"rank correlation, {MODELS[model]}": str(found[model]) for model in MODELS}
        return Verdict(word, f"Rank correlation of set and measured forgetting times after training: {told}.", numbers)

    def table(self, records: Sequence[Record]) -> str:
        rows = []
        for model, runs in self._by_model(records).items():
            thirds = [_thirds(record, "measured") for record in runs]
            rows.append((
                MODELS[model],
                spread(_agreement(record, "measured before") for record in runs),
                spread(map(_agreement, runs)),
                _median(third[0] for third in thirds),
                _median(third[1] for third in thirds),
                spread(record["measures"]["accuracy"] for record in runs),
                len(runs),
            ))  # fmt: skip
        head = ("network", "rank correlation at the start", "trained", "third set shortest, samples",
                "third set longest, samples", "accuracy", "runs")  # fmt: skip
        return (
            "Set and measured forgetting times; medians over the units of a third. Mean (least–largest) over seeds.\n\n"
            + markdown(head, rows)
        )

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        import numpy as np  # noqa: PLC0415

        from experiments.reports.forgetting_figure import forgetting_figure  # noqa: PLC0415

        drawn = {}
        for model, (first, *_) in self._by_model(records).items():
            influence = np.array([row["influence"] for row in first["rows"]]).T
            drawn[model] = forgetting_figure(influence, np.array([row["set"] for row in first["rows"]]))
        return drawn

    @staticmethod
    def _by_model(records: Sequence[Record]) -> dict[str, list[Record]]:
        return {model: found for (model,), found in grouped(records, "field").items()}


def _agreement(record: Record, measured: str = "measured") -> float:
    """Spearman's rank correlation; units that never forget are the slowest of all. nan where all are equal."""
    from scipy.stats import spearmanr  # noqa: PLC0415

    pairs = [(row["set"], row[measured]) for row in record["rows"] if not math.isnan(row[measured])]
    if len({time for _, time in pairs}) < 2:
        return math.nan
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def _thirds(record: Record, measured: str) -> tuple[float, float]:
    """Medians of the third that was set shortest, and of the longest."""
    rows = sorted(record["rows"], key=lambda row: row["set"])
    third = max(1, len(rows) // 3)
    return tuple(_middle([row[measured] for row in part]) for part in (rows[:third], rows[-third:]))  # type: ignore[return-value]


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _median(values: Iterable[float]) -> Spread | str:
    found = list(values)
    return spread(found) if all(map(math.isfinite, found)) else "beyond what was looked at"
