r"""Tests on clocks that stop and go which discrete cells wait exactly where their gates are multiplied by 0 and 1.

Trained without repetitions, run on repeated symbols: h + 0 (f - h) is h, to the bit. It is a theorem, and the code that is
checked; which clock gates learn is another question, see learned_clocks.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from matplotlib.figure import Figure

from discretize import SequenceModel
from experiments.reports.bands import log_dots
from experiments.reports.spreads import NotEnoughError, number
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.seeds import generator
from experiments.studies.clocks.oracle import STEPS, StopAndGo
from experiments.studies.clocks.oracle_clocks import DTYPES, NO_ORACLE, SEQUENCES, SYMBOLS, differences_from_unwarped, symbols_of
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Drawing, Table
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict

__all__ = ["ADAM", "EXACT", "NAMES", "PAPERS", "StopAndGoStudy", "configuration_of"]

# Cell -> clocks on which it is exactly invariant, by result 10; the others have no gate or read their state where it waits.
EXACT: dict[str, tuple[str, ...]] = {
    "gated": STEPS,
    "gated-global": STEPS,
    "gru": STEPS,
    "gated-power": STEPS,
    "lstm-blind-output": ("first",),
    "lstm": (),
    "leaky": (),
    "plain": (),
}
GATELESS = ("leaky", "plain")
NAMES = {
    "gated-global": "gated, one gate",
    "gated-network": "gated by a network",
    "gated-power": "power decay",
    "lstm-blind-output": "LSTM, blind output",
    "lstm": "LSTM",
    "gru": "GRU",
}
MOST = 4  # repetitions of a symbol
MOVED = 1e-3  # of states in [-1, 1], and cells c of about that size: what is called not exact differs by more
ADAM = {"optimizer": "adam", "rate": 1e-2, "clip": 1.0}
PAPERS = {"optimizer": "rmsprop", "rate": 1e-3}


def differences(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return (cell, clock) -> the largest over seeds and dtypes; what is not a number counts as infinitely far."""
    return {at: float(same["largest"].fillna(float("inf")).max()) for at, same in groups(rows, ["cell", "clock"]).items()}


def theorem(rows: pd.DataFrame) -> str | None:
    cell, clock = rows["cell"].iloc[0], rows["clock"].iloc[0]
    return "exact" if clock in EXACT[cell] else None if clock == NO_ORACLE and cell not in GATELESS else "not exact"


def difference_dots(results: Results) -> Figure:
    found = differences(where(results.rows, dtype="float64"))
    clocks = {"first": "goes at the first", "last": "goes at the last", NO_ORACLE: "no step"}
    rows = {
        NAMES.get(cell, cell): {words: found[cell, clock] for clock, words in clocks.items() if (cell, clock) in found}
        for cell in EXACT
        if any(name == cell for name, _ in found)
    }
    return log_dots(rows, "largest difference of a state")


class StopAndGoStudy(Study):
    """Trains eight cells and runs them under oracle gates."""

    name = "stop-and-go"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 1, "paper": 450}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=16, length=12, steps=30, held_out=32, seeds=1, learning=ADAM),
        "small": Sizes(hidden=32, length=40, steps=300, held_out=256, seeds=3, learning=ADAM),
        "paper": Sizes(hidden=64, length=500, steps=4689, held_out=10_000, seeds=5, learning=PAPERS),
    }
    tables = (
        Table(
            "Trained unwarped, played on repeated symbols. Largest difference of any unit from the unwarped trajectory, over "
            "both dtypes and all seeds; accuracy where the clock goes (no step: at last repetitions), and unwarped.",
            by={"cell": "cell", "clock goes at the": "clock"},
            columns={
                "by the theorem": theorem,
                "largest difference": lambda rows: max(differences(rows).values()) or "0, every bit",
                "accuracy": "accuracy",
                "unwarped": "unwarped_accuracy",
            },
            data="rows",
            words=NAMES,
        ),
    )
    figures: ClassVar = {
        "oracle": Drawing(
            "Largest difference of a unit's state from the unwarped trajectory, over all samples, in float64. Exactly zero "
            "is left of the dashed line.",
            difference_dots,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), cell=EXACT)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return configuration_of(point, sizes)

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        torch.set_num_threads(1)  # one sample at a time is no work for several, which wait for one another
        seed = run.configuration.training.seed
        symbols, targets = symbols_of(seed)
        clock = StopAndGo.random(SYMBOLS, SEQUENCES, MOST, generator(seed, "stop-and-go", "clock"))
        return [row for name in DTYPES for row in differences_from_unwarped(model, symbols, targets, clock, name)]

    def headline(self, record: Record) -> str:
        off = (f"{number(row['largest'])} ({row['clock']})" for row in record["rows"] if row["dtype"] == "float64")
        return f"off by {', '.join(off)}"

    def verdict(self, results: Results) -> ClaimVerdict:
        found = differences(results.rows)
        if absent := [cell for cell in EXACT if cell not in {name for name, _ in found}]:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        judged = {at: largest for at, largest in found.items() if at[1] != NO_ORACLE or at[0] in GATELESS}
        exact = {at: largest for at, largest in judged.items() if at[1] in EXACT[at[0]]}
        others = {at: largest for at, largest in judged.items() if at not in exact}
        parts = [ClaimPart(f"{cell} is exact, going at the {clock}", largest == 0) for (cell, clock), largest in exact.items()]
        parts += [ClaimPart(f"{cell} is not exact, {clock}", largest > MOVED) for (cell, clock), largest in others.items()]
        summary = (
            "This is a theorem, checked on trained weights: "
            f"{list(exact.values()).count(0)} of the {len(exact)} pairs of cell and clock that should be exact are so to the "
            f"bit, in float32 and float64; those that should not be differ by at least {number(min(others.values()))}."
        )
        return ClaimVerdict(parts, {f"{cell}, {clock}": largest for (cell, clock), largest in judged.items()}, summary)


def configuration_of(point: Point, sizes: Sizes, **task: Any) -> Configuration:
    """Configure a training on recall, by Euler steps of one unit a sample."""
    every = max(10, sizes.steps // 5)
    model = {"field": point["cell"], "integrator": "euler", "hidden": sizes.hidden, "alpha": 0.5, "exponent": 0.5}
    training = {"steps": sizes.steps, "evaluate_every": every, "checkpoint_every": every, "evaluation": sizes.held_out}
    return shared_configuration(
        task="recall", length=sizes.length, **task, **model, **training, **sizes.learning, seed=point["seed"], threads=1
    )
