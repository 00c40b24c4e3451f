r"""Runs a GRU and an LSTM, trained as usual, on samples that last s times as long.

as trained       h + g (f - h), g = sigma(z)                 a sample is one step, whatever it lasts
read s times     the cell itself, s times on every sample; at s = 1/2 as Euler
Euler            h + s g (f - h)
softplus clock   h + (1 - e^(-s softplus(z))) (f - h)        the GRU itself at s = 1; the LSTM has none
trained anew     as usual, at the new rate

                 what is left of f - h, f held       how far h moves along f - h that recurrence keeps
read s times     (1 - g)^s                           s g
Euler            1 - s g                             s g
softplus clock   (1 - g)^s                           1 - (1 - g)^s, less: 0.75 for 1 at g = 1/2, s = 2
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
from experiments.reports.spreads import NotEnoughError, Spread, paired, spread
from experiments.runs.configuration import Configuration
from experiments.seeds import generator
from experiments.studies.claims.recordings import SOURCES, folders_found
from experiments.studies.claims.training import by_adam
from experiments.studies.clocks.rollout import SOFTPLUS_CLOCK, ways_of
from experiments.studies.results import Results, where
from experiments.studies.specs import Bands, Table, across, in_order, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison
from experiments.tasks.recorded.recordings import Recorded
from experiments.tasks.task import Batch, said_right
from experiments.tasks.tones import Tones
from experiments.tasks.warps.clocked import ClockedRecall

__all__ = ["CELLS", "LENGTHS", "Played", "SamplingRates", "played", "right_answers"]

LENGTHS = (0.5, 1.0, 2.0, 4.0)
SAMPLES = 4  # of a symbol, at s = 1
FALL, LEARNED = 0.1, 0.85
CELLS = ("gru", "lstm")
RECORDINGS = {name: SOURCES[name].name for name in ("vowels", "har")}
MADE = {"recall": "recall", "tones": "tones"}  # in which time is what is learned
SHOWN = {"gru": "GRU", "lstm": "LSTM"}
NO_WORSE = 0.02  # of accuracy
Played = ClockedRecall | Tones | Recorded
WAYS = {
    "repeated": "each sample read s times",
    "euler": "Euler steps, given s",
    SOFTPLUS_CLOCK: "softplus clock, given s",
    "as trained": "as it is, not given s",
    "anew": "trained anew",
}
GIVEN = ("repeated", "euler", SOFTPLUS_CLOCK)


class SamplingRates(Study):
    """Trains a GRU and an LSTM at one rate and runs them at others, on recordings and on two tasks that are about time."""

    name = "sampling-rates"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    another: ClassVar = dict.fromkeys(
        ("small", "paper"),
        "These claims were written down after runs of the same seeds had been seen, and others have not been run.",
    )
    minutes: ClassVar = {"smoke": 0.3, "small": 12, "paper": 300}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, characters=4, steps=6, rate=4e-3, sequences=32, recordings=32, seeds=1),
        "small": Sizes(hidden=48, characters=10, steps=400, rate=4e-3, sequences=512, recordings=3000, seeds=5),
        "paper": Sizes(hidden=128, characters=20, steps=2000, rate=1e-3, sequences=512, recordings=3000, seeds=5),
    }
    needs = tuple(SOURCES[name].folder for name in RECORDINGS)
    tables = (
        Table(
            "Test accuracy where a sample lasts s times as long as in training; mean (least–largest) over seeds.",
            by={"task": "source", "cell": "cell", "run": "way"},
            columns=across("length", {f"s = {s:g}": s for s in LENGTHS}, "accuracy"),
            data="rows",
            words=WAYS | RECORDINGS | SHOWN,
            sort=in_order(None, None, WAYS),
        ),
    )
    figures: ClassVar = {
        "accuracy": Bands(
            "The GRU's test accuracy over the length s of a sample, 1 in training: the mean over seeds, and a band from the "
            "least to the largest.",
            x="length",
            y="accuracy",
            lines=("way", WAYS),
            x_label="length s of a sample",
            y_label="accuracy",
            x_log=True,
            y_limits=(-0.03, 1.05),
            panels=("source", RECORDINGS | MADE),
            data=only(cell="gru"),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        sources = [*MADE, *(name for name in RECORDINGS if name in folders_found())]
        return grid(seed=range(sizes.seeds), cell=CELLS, source=sources, on=LENGTHS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        s, source = point["on"], point["source"]
        task: dict[str, Any] = {"task": source, "speed": s, "clock_given": False}
        if source in RECORDINGS:
            task |= {"data": str(folders_found().get(source)), "evaluation": sizes.recordings}
        if source == "recall":
            task = {"task": "clocked-recall", "clocks": (16 / SAMPLES * s,), "clock_given": False, "counted": "last"}
            task["characters"] = sizes.characters
        return by_adam(point, sizes, **task, field=point["cell"], integrator="euler", threads=1)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, Played)

        def row(way: str, s: float, network: SequenceModel, given: bool) -> Row:
            batches = played(task, s, training.evaluation, training.seed)
            right = torch.cat([right_answers(task, s, batch, answers(network, batch, given)) for batch in batches])
            return {"way": way, "length": s, "accuracy": float(right.float().mean())}

        if run.point["on"] != 1:
            return [row("anew", run.point["on"], model, False)]
        ways = ways_of(model) if isinstance(model.field, Relaxation) else {"euler": model}
        given = [way for way in GIVEN if way in ways or way == "repeated"]
        rows = [row("anew", 1.0, model, False)]
        for s in LENGTHS:
            ways["repeated"] = under(model, "euler", IntegratorSettings(substeps=max(1, round(s))))
            rows += [*(row(way, s, ways[way], True) for way in given), row("as trained", s, model, False)]
        return rows

    def verdict(self, results: Results) -> ClaimVerdict:
        def at(source: str, way: str, s: float, cell: str = "gru") -> pd.Series:
            found = where(results.rows, source=source, way=way, length=s, cell=cell)["accuracy"]
            if found.empty:
                raise NotEnoughError(f"runs of the {cell} on {source} are needed, trained at s = 1 and at s = {s:g}.")
            return found

        recorded = [name for name in RECORDINGS if name == "vowels" or not where(results.rows, source=name).empty]
        learned = {source: spread(at(source, "anew", 1.0)) for source in (*recorded, *MADE)}
        if min(found.mean for found in learned.values()) < LEARNED:
            raise NotEnoughError("the tasks have not been learned; a larger scale decides.")
        names = RECORDINGS | MADE
        falls = {
            f"{SHOWN[cell]}, {names[source]}": _falls(results, cell, source) for cell in CELLS for source in (*recorded, *MADE)
        }
        parts = [
            ClaimPart(
                f"of both cells, two unit steps on samples twice as long lose less than {FALL:g} on every task",
                EveryComparison({of: Compared(paired(fall), FALL, absent=True, printed=False) for of, fall in falls.items()}),
                "; ".join(f"{of} {spread(fall)}" for of, fall in falls.items()),
            )
        ]
        for source, before in learned.items():
            ahead = _ahead(results, source, 2.0, "euler", SOFTPLUS_CLOCK)
            said = f"{spread(at(source, 'euler', 2.0))} against {spread(at(source, SOFTPLUS_CLOCK, 2.0))}, at s = 1 {before}"
            if source in MADE:
                claim = f"{names[source]}, where time counts: at s = 2 Euler steps of the GRU are ahead of its softplus clock"
                parts.append(ClaimPart(claim, Compared(ahead, FALL, printed=False), said))
            else:
                claim = f"{names[source]}: at s = 2 Euler steps of the GRU are no worse than its softplus clock, by {NO_WORSE}"
                no_worse = True if ahead.low > -NO_WORSE else False if ahead.high < -NO_WORSE else None
                parts.append(
                    ClaimPart(claim, no_worse, f"{said}; difference {ahead.mean:.4f}, 95 % {ahead.low:.4f} to {ahead.high:.4f}")
                )
        for source in recorded:
            shown = (SOFTPLUS_CLOCK, "euler", "repeated", "as trained", "anew")
            clock, euler, repeated, hidden, anew = (spread(at(source, way, 4.0)) for way in shown)
            parts.append(
                ClaimPart(
                    f"{names[source]}: at s = 4, where Euler steps overshoot, the clock is ahead of them",
                    Compared(_ahead(results, source, 4.0, SOFTPLUS_CLOCK, "euler"), FALL, printed=False),
                    f"{clock} against {euler}; each sample read s times {repeated}, as it is {hidden}, trained anew {anew}",
                )
            )
        return ClaimVerdict(parts)


def _falls(results: Results, cell: str, source: str) -> pd.Series:
    """Compute what each run loses by unit steps, at s = 2."""
    rows = where(results.rows, cell=cell, source=source, on=1.0)
    before, after = (where(rows, way=way, length=s).set_index("key")["accuracy"] for way, s in (("anew", 1.0), ("repeated", 2.0)))
    if not len(falls := before - after):
        raise NotEnoughError(f"runs of the {cell} on {source} are needed, trained at s = 1.")
    return falls


def _ahead(results: Results, source: str, s: float, way: str, other: str) -> Spread:
    """Compute how much more accurate a GRU's weights are in one way than in the other, with the 95 % interval (t)."""
    rows = where(results.rows, cell="gru", source=source, length=s)
    one, two = (where(rows, way=name).set_index("key")["accuracy"] for name in (way, other))
    return paired(one - two)


def played(task: Played, s: float, sequences: int, seed: int) -> Iterator[Batch]:
    """Draw the test sequences on samples s times as long, that length being given."""
    if isinstance(task, Recorded):
        return dataclasses.replace(task, speed=s, clock_given=True).evaluation("test", sequences, sequences, seed)
    if isinstance(task, Tones):
        return iter([dataclasses.replace(task, speed=s, clock_given=True).batch(sequences, generator(seed, "rates"), "test")])
    timed = dataclasses.replace(task, tau=float(SAMPLES), clock_given=True).at(16 / SAMPLES * s)
    return iter([timed.batch(sequences, generator(seed, "rates"), "test")])


@torch.no_grad()
def answers(model: SequenceModel, batch: Batch, given: bool) -> torch.Tensor:
    """Return the outputs, with the length of samples given, or as if all took one unit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)  # of g dt beyond 2, which is what is asked here
        outputs: torch.Tensor = model(batch.xs, ts=batch.ts if given else None, lengths=batch.lengths)
    return outputs


def right_answers(task: Played, s: float, batch: Batch, outputs: torch.Tensor) -> torch.Tensor:
    """Return for each answer that counts whether it is right."""
    if isinstance(task, Recorded | Tones):
        return said_right(batch.last(outputs), batch.targets)
    held = round(SAMPLES / s)
    return said_right(outputs, batch.targets)[2 * held - 1 :: held].flatten()
