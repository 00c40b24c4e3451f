r"""Trains cells on symbols that are repeated at random, and measures the clock that their gates have learned.

invariant         a symbol takes the same time on the clock of a gate, however often it is repeated
a constant gate   it takes as many times as long as there are repetitions
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, spread
from experiments.runs.configuration import Configuration
from experiments.seeds import generator
from experiments.studies.claims.stop_and_go import ADAM, NAMES, PAPERS, configuration_of
from experiments.studies.clocks.learned_clocks import at_change, on_held_symbols
from experiments.studies.clocks.oracle import StopAndGo
from experiments.studies.clocks.oracle_clocks import SEQUENCES, SYMBOLS, accuracy_held, symbols_of
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, at_end, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import Part, Verdict

__all__ = ["CELLS", "LearnedClocks"]

CELLS = ("gated", "gated-global", "gru", "lstm", "lstm-blind-output", "leaky")
CONSTANT = "leaky"
DRAWN = ("gated", "gated-global", "gru", "lstm", CONSTANT)
REPEATS = (1, 2, 3, 4, 6, 8, 12, 16)
LONGEST = REPEATS[-1]
INVARIANT, SOLVED = 2.0, 0.99  # times as long as one repetition; accuracy


def held(column: str, repeats: int | None = None) -> Any:
    """Make a cell of the table: at so many repetitions, None for the most of the training."""

    def cell(rows: pd.DataFrame) -> object:
        return spread(where(rows, kind="held", repeats=repeats or rows["most"].iloc[0])[column])

    return cell


class LearnedClocks(Study):
    """Trains six cells on repeated symbols, five with gates that could wait."""

    name = "learned-clocks"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 1, "paper": 450}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=16, length=24, steps=30, most=3, held_out=32, seeds=1, learning=ADAM),
        "small": Sizes(hidden=32, length=120, steps=600, most=8, held_out=256, seeds=3, learning=ADAM),
        "paper": Sizes(hidden=64, length=500, steps=4689, most=10, held_out=10_000, seeds=5, learning=PAPERS),
    }
    tables = (
        Table(
            "Trained on symbols repeated 1 to {most} times, no step given. Gate (1 - f of the LSTM) at a symbol's first "
            "repetition and at the others, the best unit's correlation with the clock that goes at the first; time elapsed "
            "within a symbol by that at one repetition, the median and the least over units (invariant: 1; a constant gate: "
            "the number of repetitions); deviation from the states at one repetition (1: as far as other sequences).",
            by={"cell": "cell"},
            columns={
                "accuracy": at_end("accuracy at the end"),
                "g, first": lambda rows: spread(rows["first"].dropna()),
                "g, others": lambda rows: spread(rows["others"].dropna()),
                "correlation": lambda rows: spread(rows["correlation"].dropna()),
                "elapsed at {most}": held("elapsed"),
                "least of a unit": held("least_elapsed"),
                "deviation at {most}": held("deviation"),
                f"at {LONGEST}": held("deviation", LONGEST),
                f"accuracy at {LONGEST}": held("accuracy", LONGEST),
            },
            data=lambda results: results.rows_with("accuracy"),
            words=NAMES,
        ),
    )
    figures: ClassVar = {
        "elapsed": Bands(
            "Time that passes on the learned clock within one symbol, by the time at one repetition; the median over "
            "units, the mean over seeds and a band from the least to the largest. Invariant is flat; the leaky cell's constant "
            "gate takes as many times as long as there are repetitions.",
            x="repeats",
            y="elapsed",
            lines=("cell", {cell: NAMES.get(cell, cell) for cell in DRAWN}),
            data=only(kind="held"),
            x_label="repetitions of a symbol",
            y_label="time elapsed in a symbol",
            x_log=True,
            y_log=True,
            levels={"invariant": 1.0},
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), cell=CELLS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return configuration_of(point, sizes, warping="variable", warp=sizes.most)

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        torch.set_num_threads(1)  # one sample at a time is no work for several, which wait for one another
        warp, seed = run.configuration.settings()["warp"], run.configuration.training.seed
        symbols, targets = symbols_of(seed)
        clock = StopAndGo.random(SYMBOLS, SEQUENCES, max(warp, 4), generator(seed, "stop-and-go", "clock"))
        field = copy.deepcopy(model.field).double()
        rows: list[Row] = [
            {"kind": "held", **row, "accuracy": accuracy_held(model, symbols, targets, int(row["repeats"]))}
            for row in on_held_symbols(field, symbols.double(), tuple(dict.fromkeys((*REPEATS, warp))))
        ]
        rows.append({"kind": "gate", **at_change(field, symbols.double(), clock)})
        return [{"most": warp, **row} for row in rows]

    def verdict(self, results: Results) -> Verdict:
        held, gates = (groups(where(results.rows, kind=kind), "cell") for kind in ("held", "gate"))
        accuracies = {cell: spread(runs["accuracy"]) for cell, runs in groups(results.runs, "cell").items()}
        if absent := [cell for cell in CELLS if cell not in held]:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        parts = []
        for cell in (cell for cell in CELLS if cell != CONSTANT):
            most = held[cell]["most"].iloc[0]
            elapsed = spread(where(held[cell], repeats=most)["elapsed"])
            parts.append(
                Part(
                    f"{NAMES.get(cell, cell)} goes at a symbol's first repetition and waits at the others",
                    elapsed.high < INVARIANT,
                    f"{most} repetitions take {elapsed} times as long as one; the best unit's correlation with that clock is "
                    f"{spread(gates[cell]['correlation'])}; accuracy {accuracies[cell]}",
                )
            )
        constant = accuracies[CONSTANT]
        parts.append(
            Part(
                "the task asks for a clock: with a constant gate it is not solved",
                constant.low < SOLVED,
                f"{CONSTANT}, accuracy {constant}",
            )
        )
        return Verdict(parts)
