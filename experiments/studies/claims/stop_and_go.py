r"""Clocks that stop and go: which discrete cells can wait exactly, and how well learned gates find out when.

unwarped    trained without repetitions, run on repeated symbols with the gate times 0 or 1: h + 0 (f - h) is h, to the bit
repeated    cells trained on repeated symbols, without such a step, and the clock that their gates have made
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from matplotlib.figure import Figure

from discretize import SequenceModel
from experiments.reports.bands import log_dots
from experiments.reports.spreads import NotEnoughError, number, spread
from experiments.runs.configuration import Configuration, configuration
from experiments.seeds import generator
from experiments.studies.clocks.learned_clocks import at_change, on_held_symbols
from experiments.studies.clocks.oracle import STEPS, StopAndGo
from experiments.studies.clocks.oracle_clocks import (
    DTYPES,
    NO_ORACLE,
    SEQUENCES,
    SYMBOLS,
    accuracy_held,
    differences_from_unwarped,
    symbols_of,
)
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Drawing, Table
from experiments.studies.study import Point, Run, Sizes, Study, grid, summary_of, words_beside
from experiments.studies.verdicts import Part, Verdict

__all__ = ["EXACT", "LEARNED", "StopAndGoStudy"]

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
LEARNED = ("gated", "gated-global", "gru", "lstm", "lstm-blind-output", "leaky")
GATELESS = ("leaky", "plain")
DRAWN = ("gated", "gated-global", "gru", "lstm", "leaky")
NAMES = {"lstm-blind-output": "LSTM, blind output", "lstm": "LSTM", "gru": "GRU"}
MOVED = 1e-3  # of states in [-1, 1], and cells c of about that size: what is called not exact differs by more
REPEATS = (1, 2, 3, 4, 6, 8, 12, 16)
LONGEST = REPEATS[-1]
ADAM = {"optimizer": "adam", "rate": 1e-2, "clip": 1.0}


def differences(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    """(cell, clock) -> the largest over seeds and dtypes; what is not a number counts as infinitely far."""
    oracle = where(rows, kind="oracle")
    return {at: float(same["largest"].fillna(float("inf")).max()) for at, same in groups(oracle, ["cell", "clock"]).items()}


def theorem(rows: pd.DataFrame) -> str | None:
    cell, clock = rows["cell"].iloc[0], rows["clock"].iloc[0]
    return "exact" if clock in EXACT[cell] else None if clock == NO_ORACLE and cell not in GATELESS else "not exact"


def held(column: str, repeats: int | None = None) -> Any:
    """A cell of the table: at so many repetitions, None for the most of the training."""

    def cell(rows: pd.DataFrame) -> object:
        return spread(where(rows, kind="held", repeats=repeats or rows["most"].iloc[0])[column])

    return cell


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
    """Eight cells under oracle gates, and six that learn theirs."""

    name = "stop-and-go"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 2, "paper": 900}
    sizes: ClassVar = {  # unwarped: length, steps; repeated at most so often: length, steps
        "smoke": Sizes(hidden=16, unwarped=(12, 30), most=3, repeated=(24, 30), held_out=32, seeds=1, learning=ADAM),
        "small": Sizes(hidden=32, unwarped=(40, 300), most=8, repeated=(120, 600), held_out=256, seeds=3, learning=ADAM),
        "paper": Sizes(
            hidden=64, unwarped=(500, 4689), most=10, repeated=(500, 4689), held_out=10_000, seeds=5,
            learning={"optimizer": "rmsprop", "rate": 1e-3},
        ),
    }  # fmt: skip
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
            data=lambda results: where(results.rows, kind="oracle"),
            words=NAMES,
        ),
        Table(
            "Trained on symbols repeated 1 to {most} times, no step given. Gate (1 - f of the LSTM) at a symbol's first "
            "repetition and at the others, the best unit's correlation with the clock that goes at the first; time elapsed "
            "within a symbol by that at one repetition, the median and the least over units (invariant: 1; a constant gate: "
            "the number of repetitions); deviation from the states at one repetition (1: as far as other sequences).",
            by={"cell": "cell"},
            columns={
                "accuracy": lambda rows: spread(rows.drop_duplicates("key")["accuracy at the end"]),
                "g, first": lambda rows: spread(rows["first"].dropna()),
                "g, others": lambda rows: spread(rows["others"].dropna()),
                "correlation": lambda rows: spread(rows["correlation"].dropna()),
                "elapsed at {most}": held("elapsed"),
                "least of a unit": held("least_elapsed"),
                "deviation at {most}": held("deviation"),
                f"at {LONGEST}": held("deviation", LONGEST),
                f"accuracy at {LONGEST}": held("accuracy", LONGEST),
            },
            data=lambda results: where(results.rows, training="repeated").merge(
                results.runs[["key", "accuracy"]], on="key", suffixes=("", " at the end")
            ),
            words=NAMES,
        ),
    )
    figures: ClassVar = {
        "oracle": Drawing(
            "Largest difference of a unit's state from the unwarped trajectory, over all samples, in float64. Exactly zero "
            "is left of the dashed line.",
            difference_dots,
        ),
        "learned": Bands(
            "Time that passes on the learned clock within one symbol, by the time at one repetition; the median over "
            "units, the mean over seeds and a band from the least to the largest. Invariant is flat; the leaky cell's constant "
            "gate takes as many times as long as there are repetitions.",
            x="repeats", y="elapsed", lines=("cell", {cell: NAMES.get(cell, cell) for cell in DRAWN}),
            data=lambda results: where(results.rows, kind="held"), x_label="repetitions of a symbol",
            y_label="time elapsed in a symbol", x_log=True, y_log=True, levels={"invariant": 1.0},
        ),
    }  # fmt: skip

    def points(self, sizes: Sizes) -> list[Point]:
        seeds = range(sizes.seeds)
        return [*grid(training=["unwarped"], seed=seeds, cell=EXACT), *grid(training=["repeated"], seed=seeds, cell=LEARNED)]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        repeated = point["training"] == "repeated"
        length, steps = sizes.repeated if repeated else sizes.unwarped
        return configuration(
            task="recall", length=length, **({"warping": "variable", "warp": sizes.most} if repeated else {}),
            field=point["cell"], integrator="euler", hidden=sizes.hidden, alpha=0.5, exponent=0.5,
            steps=steps, seed=point["seed"], evaluation=sizes.held_out, threads=1, evaluate_every=max(10, steps // 5),
            checkpoint_every=max(10, steps // 5), **sizes.learning,
        )  # fmt: skip

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[dict[str, Any]]:
        torch.set_num_threads(1)  # one sample at a time is no work for several, which wait for one another
        warp, seed = run.configuration.settings()["warp"], run.configuration.training.seed
        symbols, targets = symbols_of(seed)
        clock = StopAndGo.random(SYMBOLS, SEQUENCES, max(warp, 4), generator(seed, "stop-and-go", "clock"))
        if run.point["training"] == "unwarped":
            return [row for name in DTYPES for row in differences_from_unwarped(model, symbols, targets, clock, name)]
        field = copy.deepcopy(model.field).double()
        rows = [
            {"kind": "held", **row, "accuracy": accuracy_held(model, symbols, targets, row["repeats"])}
            for row in on_held_symbols(field, symbols.double(), tuple(dict.fromkeys((*REPEATS, warp))))
        ]
        rows.append({"kind": "gate", **at_change(field, symbols.double(), clock)})
        return [{"most": warp, **row} for row in rows]

    def headline(self, record: Mapping[str, Any]) -> str:
        rows = [row for row in record["rows"] if row["kind"] == "oracle" and row["dtype"] == "float64"]
        off = ", ".join(f"{number(row['largest'])} ({row['clock']})" for row in rows)
        return f"off by {off}" if rows else super().headline(record)

    def verdict(self, results: Results) -> Verdict:
        found = differences(results.rows)
        if absent := [cell for cell in EXACT if cell not in {name for name, _ in found}]:
            raise NotEnoughError(f"no unwarped run of {', '.join(absent)} is done yet")
        judged = {at: largest for at, largest in found.items() if at[1] != NO_ORACLE or at[0] in GATELESS}
        exact = {at: largest for at, largest in judged.items() if at[1] in EXACT[at[0]]}
        others = {at: largest for at, largest in judged.items() if at not in exact}
        parts = [Part(f"{cell} is exact, going at the {clock}", largest == 0) for (cell, clock), largest in exact.items()]
        parts += [Part(f"{cell} is not exact, {clock}", largest > MOVED) for (cell, clock), largest in others.items()]
        rows = where(results.rows, kind="held")
        ends = groups(rows[rows["repeats"] == rows["most"]], "cell") if len(rows) else {}
        learned = [(cell, ends[cell]) for cell in LEARNED if cell in ends]
        summary = summary_of("stop_and_go", exact=exact, others=others, rows=rows, ends=learned, names=NAMES)
        return Verdict(parts, {f"{cell}, {clock}": largest for (cell, clock), largest in judged.items()}, summary)
