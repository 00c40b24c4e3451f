r"""Recordings played faster: where the Taylor step of a gated model breaks that was trained at the recording's own speed.

    speed c     the mean of c samples after one another is one sample; at 1 / c every sample comes c times
    told        a sample takes c units of own time; at c = 1 that is what an untold one takes, so one training serves both

What is faster than c samples is lost in the means, for every model alike: those trained at the fastest speed show what is left
to be had there.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from experiments.models.fields import FieldSettings
from experiments.models.integrators import EXACT
from experiments.models.sequence_model import SequenceModel
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.studies.clock_findings import RATES, WAYS, clock_words
from experiments.studies.compressed import carried_or_diverged, moved
from experiments.studies.records import NotEnoughError, Record, Spread, markdown, number, setting, spread
from experiments.studies.rollout import passed, right
from experiments.studies.study import Carried, Run, Study, Verdict, Word
from experiments.tasks.recordings import HAR, Recorded, Vowels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DATA", "CompressedRecordings"]

DATA = "CTRNN_DATA"  # the variable in which `--data DIR` is handed to worker processes


@dataclass(frozen=True)
class _Source:
    """Recordings: their folder in DIR, their task, the speeds played, time scales that chrono draws up to, in samples."""

    title: str
    folder: str
    task: type[Recorded]
    speeds: tuple[float, ...]
    longest: float


SOURCES = {
    "har": _Source("UCI HAR, windows of 128 samples", "uci_har", HAR, (0.5, 1.0, 2.0, 4.0, 8.0), 64.0),
    "vowels": _Source("JapaneseVowels, 7 to 29 frames", "japanese_vowels", Vowels, (0.25, 0.5, 1.0, 2.0, 4.0), 16.0),
}


@dataclass(frozen=True)
class _Size:
    hidden: int
    steps: int
    rate: float
    sequences: int  # of the test split, at most
    seeds: int
    rates: tuple[str, ...]
    others: tuple[str, ...]  # rates that are also trained at half speed and at the fastest
    integrators: tuple[str, ...] = ("euler", "exponential-euler", EXACT)


SIZES = {
    "smoke": _Size(8, 6, 4e-3, 64, 1, ("sigmoid",), (), ("euler", EXACT)),
    "small": _Size(32, 300, 4e-3, 3000, 1, ("sigmoid", "softplus"), ("sigmoid",)),
    "paper": _Size(128, 3000, 1e-3, 3000, 5, tuple(RATES), tuple(RATES)),
}
BATCH = 512  # sequences at once in the test
LEARNED = 0.6  # of accuracy; that of both is below 0.2 without looking
FALL = 0.05  # of accuracy, from that at the speed of training, that counts as a loss


class CompressedRecordings(Study):
    """Gated models trained on recordings at one speed, and run at others in three ways on the same weights."""

    name = "compressed-recordings"
    question = "What is left of a gated model on a recording that is played faster, by its Taylor step and by its equation?"
    claim = (
        "The Taylor expansion is valid when the derivative of the time warping is not too large, say, when α ≲ 1 or g_t ≲ 1 "
        "(then (8) and (7) are close)."
    )
    source = "C. Tallec and Y. Ollivier, Can recurrent neural networks warp time?, ICLR 2018, sec. 1; the experiment is ours."
    resolutions = (
        "The folder with uci_har/ and japanese_vowels/ is named by --data DIR; what is not in it is left out. UCI HAR: Anguita "
        "et al. 2012; JapaneseVowels: Kudo, Toyama and Shimbo 1999.",
        "Played c times as fast, the mean of c samples is one sample; told, it takes c units of own time, untold one.",
        "Trained at the recording's own speed, where told and untold are the same. With sigmoid gates also, told, at half speed "
        "and at the fastest: the latter show what can still be known there.",
        "Adam, 300 batches of 32 (small), the norm of the gradient at most 1; gates start by chrono, up to 64 samples (HAR) and "
        "16 (vowels). Tested on the whole test split: one standard error is at most 0.009 (HAR) and 0.026 (vowels).",
        "A loss is a fall by 0.05 and more from the accuracy at the speed of training. Reproduced means, of every recording and "
        "told the clock: Taylor steps lose at the fastest speed, but nowhere where the largest c′g is at most 1, and the exact "
        "model does not lose at the fastest speed either.",
    )
    minutes: ClassVar = {"smoke": 0.5, "small": 3, "paper": 1200}
    captions: ClassVar = {
        "har": "Activities (UCI HAR), sigmoid gates: test accuracy at other speeds, of weights trained in one way (rows) at the "
        "shaded speed, and run in three.",
        "vowels": "Speakers (JapaneseVowels), sigmoid gates: likewise.",
    }

    def runs(self, scale: str) -> list[Run]:
        """Those of the recordings that are there; none without a folder of them."""
        size, there = SIZES[scale], _there()
        asked = [(name, rate, 1.0) for name in there for rate in size.rates]
        asked += [(name, rate, speed) for name in there for rate in size.others for speed in (0.5, SOURCES[name].speeds[-1])]
        return [
            _run(size, there[name], name, rate, integrator, speed, seed)
            for seed in range(size.seeds)
            for name, rate, speed in asked
            for integrator in size.integrators
        ]

    def left_out(self) -> str:
        absent = [f"{source.folder}/" for name, source in SOURCES.items() if name not in _there()]
        return f"Left out: {' and '.join(absent)}; --data DIR names the folder they are in." if absent else ""

    def measure(self, run: Run, model: SequenceModel) -> list[dict[str, Any]]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, Recorded)
        ways = {name: way for name, way in moved(model).items() if name != "softplus-clock"}
        return [
            {
                "as": name,
                "told": told,
                "clock": speed,
                **_row(dataclasses.replace(task, speed=speed, clock_given=told), way, training),
            }
            for told in ((True, False) if task.speed == 1 else (True,))
            for name, way in ways.items()
            for speed in SOURCES[run.configuration.task_name].speeds
        ]

    def carry_out(self, run: Run, folder: Path, progress: Callable[..., None] | None = None) -> Carried:
        return carried_or_diverged(lambda: super(CompressedRecordings, self).carry_out(run, folder, progress))

    def verdict(self, records: Sequence[Record]) -> Verdict:
        rows = [row for row in _rows(records) if row["told"] and row["on"] == 1 and row["as"] == row["trained"]]
        sources = [name for name in SOURCES if {"euler", EXACT} <= {row["trained"] for row in rows if row["task"] == name}]
        if not sources:
            raise NotEnoughError("a model trained by Euler steps and one trained exactly, at c = 1, are needed.")
        for name in sources:
            best = max(row["accuracy"] for row in rows if (row["task"], row["clock"]) == (name, 1))
            if best < LEARNED:
                raise NotEnoughError(
                    f"no model has learned {SOURCES[name].title.split(',')[0]} (the best accuracy is {number(best)}); a larger "
                    "scale decides."
                )
        parts, kept, lost, numbers = [], 0, 0, dict[str, float | int | str]()
        for name in sources:
            falls = {way: _fall([row for row in rows if (row["task"], row["trained"]) == (name, way)]) for way in WAYS}
            told = [f"{WAYS[way]} by {fall}" for way, fall in falls.items() if fall is not None]
            fastest = SOURCES[name].speeds[-1]
            parts.append(f"{SOURCES[name].title.split(',')[0]} at c = {fastest:g}: {', '.join(told)}")
            numbers |= {f"{name}, {WAYS[way]}: fall from c = 1 to {fastest:g}": str(fall) for way, fall in falls.items() if fall}
            taylor, exact = falls["euler"], falls[EXACT]
            if taylor is not None and exact is not None and taylor.mean >= FALL:
                lost += 1
                kept += exact.mean < FALL and _holds_at_small_paces([row for row in rows if row["task"] == name])
        word: Word = "reproduced" if kept == len(sources) else "partly" if lost else "not"
        sentence = (
            f"Told how fast it is played, models trained and run in one way at c = 1 lose accuracy (over rates and seeds): "
            f"{'; '.join(parts)}. {_breaking(rows)}"
        )
        return Verdict(word, sentence.strip(), numbers)

    def table(self, records: Sequence[Record]) -> str:
        rows, parts = _rows(records), list[str]()
        for name, source in SOURCES.items():
            mine = [row for row in rows if row["task"] == name]
            if not mine:
                parts += [f"{source.title}: left out; `--data DIR` names the folder with {source.folder}/ in it.", ""]
                continue
            groups: dict[tuple[Any, ...], dict[float, list[dict[str, Any]]]] = {}
            for row in mine:
                key = tuple(row[word] for word in ("told", "rate", "trained", "on", "as"))
                groups.setdefault(key, {}).setdefault(row["clock"], []).append(row)
            lines = [
                (
                    "told" if told else "untold", rate, WAYS[trained], clock_words(on), WAYS[way],
                    *(_cell(found.get(clock, ())) for clock in source.speeds),
                )
                for (told, rate, trained, on, way), found in groups.items()
            ]  # fmt: skip
            head = ("clock", "rate", "trained", "at c", "run as", *(f"c = {clock_words(c)}" for c in source.speeds))
            parts += [f"{source.title}: test accuracy, and in brackets the largest pace c′g met.", "", markdown(head, lines), ""]
        return "\n".join(parts).strip()

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        from experiments.studies.clock_figures import accuracy_over_clocks  # noqa: PLC0415

        drawn = {}
        for name in SOURCES:
            panels: dict[tuple[str, str], dict[str, dict[float, list[float]]]] = {}
            for row in _rows(records):
                if (row["task"], row["rate"], row["on"]) == (name, "sigmoid", 1):
                    place = (f"trained {WAYS[row['trained']]}", "told" if row["told"] else "untold")
                    panels.setdefault(place, {}).setdefault(row["as"], {}).setdefault(row["clock"], []).append(row["accuracy"])
            if panels:
                spreads: dict[tuple[str, str], dict[str, dict[float, Spread]]] = {
                    place: {way: {c: spread(found) for c, found in points.items()} for way, points in panel.items()}
                    for place, panel in panels.items()
                }
                label = "speed c at which the recording is played"
                drawn[name] = accuracy_over_clocks(spreads, label, {"told": (1.0,), "untold": (1.0,)})
        return drawn


def _there() -> dict[str, Path]:
    """The recordings' own folders, where there are any."""
    root = os.environ.get(DATA)
    folders = {name: Path(root) / source.folder for name, source in SOURCES.items()} if root else {}
    return {name: folder for name, folder in folders.items() if folder.is_dir()}


def _run(size: _Size, data: Path, name: str, rate: str, integrator: str, speed: float, seed: int) -> Run:
    at = {1.0: "as-recorded", 0.5: "slow"}.get(speed, "fast")
    source = SOURCES[name]
    training = TrainingSettings(
        steps=size.steps, seed=seed, optimizer="adam", rate=size.rate, clip=1.0, evaluate_every=size.steps,
        evaluation=size.sequences, checkpoint_every=size.steps,
    )  # fmt: skip
    task = source.task(data=str(data), speed=speed, clock_given=speed != 1)
    field_settings = FieldSettings(size.hidden, init="chrono", t_max=source.longest)
    return Run(
        f"{name}-{rate}-{integrator}-{at}-{seed}",
        Configuration(task, RATES[rate], integrator, field_settings, training=training),
    )


def _row(task: Recorded, model: SequenceModel, training: TrainingSettings) -> dict[str, Any]:
    """What one way of running gives on the test split, at one speed."""
    own_time = task.speed if task.clock_given else 1.0
    good, count, losses, largest, medians, finite = 0, 0, 0.0, 0.0, list[float](), True
    for batch in task.evaluation("test", training.evaluation, BATCH, training.seed):
        count += batch.size
        found = passed(model, batch, own_time)
        if found is None:
            finite = False
            continue
        last = batch.last(found.outputs)
        good += int(right(last, batch.targets).sum())
        losses += float(torch.nn.functional.cross_entropy(last, batch.targets, reduction="sum"))
        largest = max(largest, float(found.paces.max()))
        medians.append(float(found.paces.median()))
        finite = finite and found.finite
    return {
        "finite": finite,
        "accuracy": good / count,
        "loss": losses / count if finite else None,
        "largest": largest if finite else None,
        "median": sorted(medians)[len(medians) // 2] if finite else None,
    }


def _rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Every row with what its run was."""
    return [
        {
            "task": record["configuration"]["task"],
            "rate": next(rate for rate, field in RATES.items() if field == setting(record, "field")),
            "trained": setting(record, "integrator"),
            "on": float(setting(record, "task_settings.speed")),
            "key": record["key"],
            **row,
        }
        for record in records
        for row in record["rows"]
        if "diverged" not in row
    ]


def _fall(rows: Sequence[Mapping[str, Any]]) -> Spread | None:
    """Of accuracy, from c = 1 to the fastest speed."""
    if not rows:
        return None
    fastest = max(row["clock"] for row in rows)
    before = {row["key"]: row["accuracy"] for row in rows if row["clock"] == 1}
    return spread(before[row["key"]] - row["accuracy"] for row in rows if row["clock"] == fastest)


def _holds_at_small_paces(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether Taylor steps lose nowhere where no unit's pace is above 1."""
    taylor = [row for row in rows if row["trained"] == "euler"]
    before = {row["key"]: row["accuracy"] for row in taylor if row["clock"] == 1}
    slow = [row for row in taylor if row["largest"] is not None and row["largest"] <= 1]
    return all(before[row["key"]] - row["accuracy"] < FALL for row in slow)


def _breaking(rows: Sequence[Mapping[str, Any]]) -> str:
    """At which pace Taylor steps begin to lose."""
    taylor = [row for row in rows if row["trained"] == "euler"]
    before = {row["key"]: row["accuracy"] for row in taylor if row["clock"] == 1}
    faster = [row for row in taylor if row["clock"] > 1 and row["largest"] is not None]
    lost = [row["largest"] for row in faster if before[row["key"]] - row["accuracy"] >= FALL]
    held = [row["largest"] for row in faster if before[row["key"]] - row["accuracy"] < FALL]
    if not lost:
        return "Taylor steps lose less than 0.05 everywhere. "
    kept = f"keep a largest pace c′g of up to {number(max(held), 2)} and " if held else ""
    return f"Taylor steps {kept}lose 0.05 and more from {number(min(lost), 2)} on. "


def _cell(rows: Sequence[Mapping[str, Any]]) -> str | None:
    if not rows:
        return None
    accuracy = spread(row["accuracy"] for row in rows)
    written = f"{accuracy.mean:.3f}" if accuracy.count == 1 else str(accuracy)
    known = [row["largest"] for row in rows if row["largest"] is not None]
    return f"{written} ({number(max(known), 2)})" if len(known) == len(rows) else f"{written} (×)"
