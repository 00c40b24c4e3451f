r"""Trains cells on symbols that are repeated at random, and asks whether their gates have become the clock.

a clock           a symbol takes the same time on the clock of a gate, however often it is repeated: n^0
a constant gate   it takes as many times as long as there are repetitions: n^1
in its place      where a gate is a clock and no more, the true clock in its place keeps the answers, and a constant does not
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, number, spread
from experiments.runs.configuration import Configuration, configuration
from experiments.seeds import generator
from experiments.studies.claims.stop_and_go import NAMES, PAPERS
from experiments.studies.clocks.learned_clocks import CLOCKS, at_change, on_held_symbols, under_other_clocks
from experiments.studies.clocks.oracle import StopAndGo
from experiments.studies.clocks.oracle_clocks import SEQUENCES, SYMBOLS, symbols_of
from experiments.studies.results import Results, groups, spreads, where
from experiments.studies.specs import Bands, Table, at_end, in_order, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import Part, Verdict

__all__ = ["CELLS", "LearnedClocks"]

CELLS = ("leaky", "gated", "gated-global", "gated-network", "gru", "lstm")
CONSTANT = CELLS[0]
LEARNED, FIRST, SPREAD_OUT, UNIFORM, _, BY_TWO, _ = CLOCKS
REPEATS = (1, 2, 5, 10, 20, 40, 80)
SOLVED, LOST, HALF = 0.99, 0.05, 0.5  # accuracy; how much less of it counts; of the exponents 0 of a clock and 1 of a constant
ADAM = {"optimizer": "adam", "rate": 1e-2, "clip": 1.0}


def exponents(rows: pd.DataFrame) -> dict[int, Spread]:
    """Return at each warp p, over runs, of n^p, the time that n = warp repetitions take by that of one."""
    longest = rows[(rows["kind"] == "held") & (rows["repeats"] == rows["warp"])]
    return {warp: spread(same["elapsed"].map(math.log) / math.log(warp)) for warp, same in groups(longest, "warp").items()}


def by_gates(gate: str, column: str = "at_ends") -> Any:
    """Make a cell of the table: the share of right answers with other gates in the place of the learned ones."""

    def cell(rows: pd.DataFrame) -> object:
        found = where(rows, kind="instead", gate=gate)[column]
        return spread(found) if len(found) else None

    return cell


class LearnedClocks(Study):
    """Trains six cells on repeated symbols, five with gates that could wait."""

    name = "learned-clocks"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 90, "paper": 1200}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=16, length=24, steps=30, warps=[5], held_out=32, seeds=1, learning=ADAM),
        "small": Sizes(hidden=64, length=400, steps=1500, warps=[10, 20, 40, 80], held_out=256, seeds=3, learning=ADAM),
        "paper": Sizes(hidden=64, length=500, steps=4689, warps=[10, 20, 40, 80], held_out=10_000, seeds=5, learning=PAPERS),
    }
    tables = (
        Table(
            "Trained on symbols repeated at random up to so many times, sequences of length {length}; no step is given. Test "
            "accuracy; gate (1 - f of the LSTM) at a symbol's first repetition and at the others, the best unit's correlation "
            "with the clock that goes at the first; p, where as many repetitions as were seen at most take n^p times as long "
            "as one on the clock of the gate, by the median over units (a clock: 0; a constant gate: 1); deviation there from "
            "the states at one repetition (1: as far as other sequences).",
            by={"repetitions": "warp", "cell": "cell"},
            columns={
                "accuracy": at_end("accuracy"),
                "g, first": lambda rows: spread(rows["first"].dropna()),
                "g, others": lambda rows: spread(rows["others"].dropna()),
                "correlation": lambda rows: spread(rows["correlation"].dropna()),
                "p": lambda rows: next(iter(exponents(rows).values())),
                "deviation": lambda rows: spread(rows[rows["repeats"] == rows["warp"]]["deviation"]),
            },
            data=lambda results: results.rows_with("accuracy"),
            sort=in_order(None, CELLS),
            words=NAMES,
        ),
        Table(
            "The same weights with other gates in the place of the learned ones: share of right answers at the last sample of "
            "each symbol. On the first three a symbol takes a unit as much time as by its learned gate in the mean: all at "
            "its first sample, evenly over its n samples, or by the same gate at all samples, so that it is as long as n. "
            "Then the mean of the learned gate over all samples of a symbol, or of it after the same other one; and the gates "
            "of another sequence. Behind them the share at all samples.",
            by={"repetitions": "warp", "cell": "cell"},
            columns={
                **{gate: by_gates(gate) for gate in CLOCKS},
                **{f"all samples, {gate}": by_gates(gate, "all_samples") for gate in (LEARNED, FIRST)},
            },
            data="rows",
            sort=in_order(None, CELLS),
            words=NAMES,
        ),
    )
    figures: ClassVar = {
        "elapsed": Bands(
            "Time that passes on the learned clock within one symbol, by the time at one repetition; the median over units, "
            "the mean over seeds and a band from the least to the largest. A clock is flat; a constant gate takes as many "
            "times as long as there are repetitions.",
            x="repeats",
            y="elapsed",
            panels=("warp", "trained on 1 to {} repetitions"),
            lines=("cell", {cell: NAMES.get(cell, cell) for cell in CELLS if cell != CONSTANT}),
            data=only(kind="held"),
            x_label="repetitions of a symbol",
            y_label="time elapsed in a symbol",
            x_log=True,
            y_log=True,
            levels={"a clock": 1.0},
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), warp=sizes.warps, cell=CELLS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "recall", "warping": "variable", "warp": point["warp"], "length": sizes.length}
        model = {"field": point["cell"], "integrator": "euler", "hidden": sizes.hidden, "init": "chrono", "t_max": point["warp"]}
        every = max(10, sizes.steps // 5)
        times = {"steps": sizes.steps, "evaluate_every": every, "checkpoint_every": every, "evaluation": sizes.held_out}
        return configuration(**task, **model, **times, **sizes.learning, seed=point["seed"], threads=1)

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        torch.set_num_threads(1)  # one sample at a time is no work for several, which wait for one another
        warp, seed = run.point["warp"], run.configuration.training.seed
        symbols, targets = symbols_of(seed)
        clock = StopAndGo.random(SYMBOLS, SEQUENCES, warp, generator(seed, "stop-and-go", "clock"))
        model, symbols = copy.deepcopy(model).double(), symbols.double()
        rows: list[Row] = [{"kind": "held", **row} for row in on_held_symbols(model.field, symbols, (*{*REPEATS, warp},))]
        rows += [{"kind": "instead", **row} for row in under_other_clocks(model, symbols, targets, clock)]
        return [*rows, {"kind": "gate", **at_change(model.field, symbols, clock)}]

    def verdict(self, results: Results) -> Verdict:
        accuracies = {cell: spreads(runs, "warp", "accuracy") for cell, runs in groups(results.runs, "cell").items()}
        if absent := [cell for cell in CELLS if cell not in accuracies]:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        constant = accuracies[CONSTANT]
        asks = [warp for warp, value in constant.items() if value.high < SOLVED]
        parts, said = [], []
        for cell, rows in groups(results.rows, "cell").items():
            if cell != CONSTANT:
                found, words = self._of_cell(NAMES.get(cell, cell), rows[rows["warp"].isin(asks or list(constant))])
                parts += found
                said.append(words)
        leaky = ", ".join(f"{number(value.mean)} at {warp}" for warp, value in constant.items())
        another = "" if asks else f"A constant gate solves it as well ({CONSTANT}, {leaky}), so it asks for no clock."
        return Verdict(parts, summary=" ".join([f"A constant gate has {leaky} repetitions.", *said]), another=another)

    def _of_cell(self, name: str, rows: pd.DataFrame) -> tuple[list[Part], str]:
        found = exponents(rows)
        kept = {gate: spreads(where(rows, kind="instead", gate=gate), "warp", "at_ends") for gate in CLOCKS}

        def clock_answers(warp: int) -> bool:
            best = max((kept[gate][warp] for gate in (FIRST, SPREAD_OUT)), key=lambda value: value.mean)
            return best.low > kept[LEARNED][warp].mean - LOST and kept[UNIFORM][warp].high < kept[LEARNED][warp].mean - LOST

        parts = [
            Part("a symbol lasts as long however often it is repeated", all(power.high < HALF for power in found.values())),
            Part("the true clock answers in the gates' place, and none does not", all(map(clock_answers, found))),
        ]
        rights = ((LEARNED, "its own gates"), (FIRST, "the clock that goes at the first sample"), (SPREAD_OUT, "an even one"),
                  (UNIFORM, "constant gates"), (BY_TWO, "gates that know the two symbols and no time"))  # fmt: skip
        words = "; ".join(
            f"at {warp} a symbol lasts as n to the {number(power.mean)}, and of the answers are right by "
            + ", by ".join(f"{gates} {number(kept[gate][warp].mean)}" for gate, gates in rights)
            for warp, power in found.items()
        )
        return parts, f"{name}: {parts[0].answer} and {parts[1].answer} ({words})."
