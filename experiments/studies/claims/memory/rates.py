r"""Sampling rates: a GRU and an LSTM trained as usual, run on samples that last s times as long.

as trained       h + sigma(z) (f - h)                        a sample is one step, whatever it lasts
Euler            h + s sigma(z) (f - h)
read s times     the cell itself, s times on every sample; at s = 1/2 as Euler
softplus clock   h + (1 - e^(-s softplus(z))) (f - h)        the GRU itself at s = 1; the LSTM has none
trained anew     as usual, at the new rate
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from ctrnn import Relaxation
from discretize import SequenceModel, StepWarning
from experiments.models.integrators import IntegratorSettings, under
from experiments.reports.spreads import NotEnoughError, spread
from experiments.runs.configuration import Configuration, configuration
from experiments.seeds import generator
from experiments.studies.claims.compressed_recordings import SOURCES, folders_found
from experiments.studies.clocks.rollout import SOFTPLUS_CLOCK, is_right, ways_of
from experiments.studies.results import Results, where
from experiments.studies.specs import Bands, Table, across
from experiments.studies.study import Point, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import Part, Verdict
from experiments.tasks.recorded.recordings import Recorded
from experiments.tasks.task import Batch
from experiments.tasks.warps.clocked import ClockedRecall

__all__ = ["CELLS", "LENGTHS", "SamplingRates", "played"]

LENGTHS = (0.5, 1.0, 2.0, 4.0)
SAMPLES = 4  # of a symbol, at s = 1
FALL, LEARNED = 0.1, 0.85
CELLS = ("gru", "lstm")
RECORDINGS = {"vowels": "JapaneseVowels", "har": "UCI HAR"}
WAYS = {
    SOFTPLUS_CLOCK: "softplus clock, given s", "euler": "Euler steps, given s", "repeated": "each sample read s times",
    "as trained": "as it is, not given s",
    "anew": "trained anew",
}  # fmt: skip


class SamplingRates(Study):
    """A GRU and an LSTM trained at one rate and run at others, on recordings and on a task that is about timing."""

    name = "sampling-rates"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 10, "paper": 240}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, characters=4, steps=6, rate=4e-3, sequences=32, recordings=32, seeds=1),
        "small": Sizes(hidden=48, characters=10, steps=400, rate=4e-3, sequences=512, recordings=3000, seeds=5),
        "paper": Sizes(hidden=128, characters=20, steps=2000, rate=1e-3, sequences=512, recordings=3000, seeds=5),
    }
    tables = (
        Table(
            "Test accuracy where a sample lasts s times as long as in training; mean (least–largest) over seeds.",
            by={"task": "source", "cell": "cell", "run": "way"},
            columns=across("length", {f"s = {s:g}": s for s in LENGTHS}, "accuracy"),
            data="rows", words=WAYS, sort=lambda source, cell, way: (source, cell, list(WAYS).index(way)),
        ),
    )  # fmt: skip
    figures: ClassVar = {
        "accuracy": Bands(
            "The GRU's test accuracy over the length s of a sample, 1 in training: the mean over seeds, and a band from the "
            "least to the largest.",
            x="length", y="accuracy", lines=("way", WAYS), x_label="length s of a sample", y_label="accuracy", x_log=True,
            y_limits=(-0.03, 1.05), panels=("source", {**RECORDINGS, "recall": "recall"}),
            data=lambda results: where(results.rows, cell="gru"),
        )
    }  # fmt: skip

    def points(self, sizes: Sizes) -> list[Point]:
        sources = ["recall", *(name for name in RECORDINGS if name in folders_found())]
        return grid(seed=range(sizes.seeds), cell=CELLS, source=sources, on=LENGTHS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        s, source = point["on"], point["source"]
        played: dict[str, Any] = {"task": source, "data": str(folders_found().get(source)), "speed": s, "clock_given": False}
        if source == "recall":
            played = {"task": "clocked-recall", "clocks": (16 / SAMPLES * s,), "clock_given": False, "counted": "last",
                      "characters": sizes.characters}  # fmt: skip
        return configuration(
            **played, field=point["cell"], integrator="euler", hidden=sizes.hidden, steps=sizes.steps, rate=sizes.rate,
            seed=point["seed"], optimizer="adam", clip=1.0, evaluate_every=sizes.steps,
            evaluation=sizes.sequences if source == "recall" else sizes.recordings,
            checkpoint_every=sizes.steps, threads=1,
        )  # fmt: skip

    def left_out(self) -> str:
        absent = [f"{SOURCES[name].folder}/" for name in RECORDINGS if name not in folders_found()]
        return f"Left out: {', '.join(absent)}; --data DIR names the folder it is in." if absent else ""

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[dict[str, Any]]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, ClockedRecall | Recorded)

        def row(way: str, s: float, network: SequenceModel, given: bool) -> dict[str, Any]:
            batches = played(task, s, training.evaluation, training.seed)
            right = torch.cat([_right(task, s, batch, answers(network, batch, given)) for batch in batches])
            return {"way": way, "length": s, "accuracy": float(right.float().mean())}

        if run.point["on"] != 1:
            return [row("anew", run.point["on"], model, False)]
        ways = ways_of(model) if isinstance(model.field, Relaxation) else {"euler": model}
        given = [way for way in (SOFTPLUS_CLOCK, "euler", "repeated") if way in ways or way == "repeated"]
        rows = [row("anew", 1.0, model, False)]
        for s in LENGTHS:
            ways["repeated"] = under(model, "euler", IntegratorSettings(substeps=max(1, round(s))))
            rows += [*(row(way, s, ways[way], True) for way in given), row("as trained", s, model, False)]
        return rows

    def verdict(self, results: Results) -> Verdict:
        def at(source: str, way: str, s: float, cell: str = "gru") -> pd.Series:
            found = where(results.rows, source=source, way=way, length=s, cell=cell)["accuracy"]
            if found.empty:
                raise NotEnoughError(f"runs of the {cell} on {source} are needed, trained at s = 1 and at s = {s:g}.")
            return found

        recorded = [name for name in RECORDINGS if name == "vowels" or not where(results.rows, source=name).empty]
        learned = {source: spread(at(source, "anew", 1.0)) for source in (*recorded, "recall")}
        if min(found.mean for found in learned.values()) < LEARNED:
            raise NotEnoughError("the tasks have not been learned; a larger scale decides.")
        parts = []
        for name in recorded:
            moved = {way: spread(at(name, way, 4.0)) for way in WAYS}
            softplus, hidden, kept = moved[SOFTPLUS_CLOCK], moved["as trained"], learned[name].mean - FALL
            others = ", ".join(f"{WAYS[way]} {found}" for way, found in moved.items() if way != SOFTPLUS_CLOCK)
            parts += [
                Part(f"{RECORDINGS[name]} keeps its accuracy on the softplus clock at s = 4", softplus.mean > kept,
                     f"{softplus}, at s = 1 {learned[name]}"),
                Part("it loses it by Euler steps and as the cell is", max(moved["euler"].mean, hidden.mean) <= kept, others),
                Part("to be given s helps: the softplus clock is better than the cell as it is", softplus.low > hidden.high,
                     f"{softplus} against {hidden}; trained anew {moved['anew']}"),
            ]  # fmt: skip
        timed = {way: spread(at("recall", way, 2.0)) for way in WAYS}
        repeated = [*((name, 4.0) for name in recorded), ("recall", 2.0)]
        counted = {(cell, source, s): spread(at(source, "repeated", s, cell)) for cell in CELLS for source, s in repeated}
        return Verdict([
            *parts,
            Part("recall is lost on it at s = 2, and not where it is trained anew",
                 timed[SOFTPLUS_CLOCK].mean <= learned["recall"].mean - FALL < timed["anew"].mean,
                 f"{timed[SOFTPLUS_CLOCK]} against {timed['anew']}, at s = 1 {learned['recall']}"),
            Part("of both cells, unit steps as many as the length says keep all tasks within 0.1",
                 all(found.mean > at(source, "anew", 1.0, cell).mean() - FALL for (cell, source, _), found in counted.items()),
                 "; ".join(f"{cell}, {RECORDINGS.get(source, source)} at s = {s:g} {found}"
                           for (cell, source, s), found in counted.items())),
        ])  # fmt: skip


def played(task: ClockedRecall | Recorded, s: float, sequences: int, seed: int) -> Iterator[Batch]:
    """The test sequences on samples s times as long, that length being given."""
    if isinstance(task, Recorded):
        return dataclasses.replace(task, speed=s, clock_given=True).evaluation("test", sequences, sequences, seed)
    timed = dataclasses.replace(task, tau=float(SAMPLES), clock_given=True).at(16 / SAMPLES * s)
    return iter([timed.batch(sequences, generator(seed, "rates"), "test")])


@torch.no_grad()
def answers(model: SequenceModel, batch: Batch, given: bool) -> torch.Tensor:
    """What is said, with the length of samples given, or as if all took one unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)  # of g dt beyond 2, which is what is asked here
        outputs: torch.Tensor = model(batch.xs, ts=batch.ts if given else None, lengths=batch.lengths)
    return outputs


def _right(task: ClockedRecall | Recorded, s: float, batch: Batch, outputs: torch.Tensor) -> torch.Tensor:
    if isinstance(task, Recorded):
        return is_right(batch.last(outputs), batch.targets)
    held = round(SAMPLES / s)
    return is_right(outputs, batch.targets)[2 * held - 1 :: held].flatten()
