r"""Trains cells on symbols that are repeated at random, and asks whether their gates have become the clock.

a clock           a symbol takes the same time on the clock of a gate, however often it is repeated: n^0
a constant gate   it takes as many times as long as there are repetitions: n^1
in its place      does the true clock answer in the gate's place, where constants do not?
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, number, paired, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.seeds import generator
from experiments.studies.claims.stop_and_go import NAMES, PAPERS
from experiments.studies.clocks.learned_clocks import CLOCKS, at_change, on_held_symbols, under_other_clocks
from experiments.studies.clocks.oracle import StopAndGo
from experiments.studies.clocks.oracle_clocks import SEQUENCES, SYMBOLS, accuracy_held, symbols_of
from experiments.studies.results import Results, groups, spreads, where
from experiments.studies.specs import Bands, Table, at_end, in_order
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison

__all__ = ["CELLS", "SOLVED", "LearnedClocks"]

CELLS = ("leaky", "gated", "gated-global", "gated-network", "gru", "lstm")
CONSTANT = CELLS[0]
LEARNED, FIRST, SPREAD_OUT, UNIFORM, *_ = CLOCKS
REPEATS = (1, 2, 5, 10, 20, 40, 80)
BEYOND = (1, 2, 4)  # times the longest repetition of the training
OTHERS = 1000  # between the seeds of sequences that are measured, and of those on which the time of a symbol is chosen
SOLVED, LOST, HALF = 0.99, 0.05, 0.5  # accuracy; how much less of it counts; of the exponents 0 of a clock and 1 of a constant
EVERY = "at every sample, chrono"
OTHERWISE: dict[str, dict[str, object]] = {  # settings in which other trainings differ from the first; alpha is of leaky cells
    "at ends": {"task": "recall-at-ends"},
    "no chrono": {"init": "standard", "t_max": None, "alpha": 0.9},
}
OTHERWISE |= {"at ends, no chrono": OTHERWISE["at ends"] | OTHERWISE["no chrono"], "rate 0.003": {"rate": 3e-3}}
SPELT = {"at ends": "at ends, chrono", "no chrono": "at every sample, no chrono", "rate 0.003": f"{EVERY}, rate 0.003"}
TRIED = ("leaky", "gated", "gru", "lstm")  # cells that are trained so, too
ADAM = {"optimizer": "adam", "rate": 1e-2, "clip": 1.0}


def powers(rows: pd.DataFrame) -> dict[int, pd.Series]:
    """Return at each warp p of each run, of n^p, the time that n = warp repetitions take by that of one."""
    longest = rows[(rows["kind"] == "held") & (rows["repeats"] == rows["warp"])]
    return {warp: same["elapsed"].map(math.log) / math.log(warp) for warp, same in groups(longest, "warp").items()}


def exponents(rows: pd.DataFrame) -> dict[int, Spread]:
    return {warp: spread(found) for warp, found in powers(rows).items()}


def with_training(frame: pd.DataFrame) -> pd.DataFrame:
    """Name the training in every row: that of the first ones is no axis of their points."""
    return frame.assign(training=frame["training"].fillna(EVERY) if "training" in frame else EVERY)


def as_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Select what is of the first training."""
    return where(with_training(frame), training=EVERY)


def trained_otherwise(results: Results) -> pd.DataFrame:
    """Select the rows of the other trainings, and those of the first one that they are compared with."""
    rows = with_training(results.rows_with("accuracy"))
    others = rows[rows["training"] != EVERY]
    return rows[rows["warp"].isin(others["warp"].unique()) & rows["cell"].isin(TRIED)]


def exponent(rows: pd.DataFrame) -> Spread:
    """Compute p of a cell at one warp."""
    return next(iter(exponents(rows).values()))


def waiting(rows: pd.DataFrame) -> Spread:
    """Count the units that wait, of a cell at one warp."""
    return spread(rows[rows["repeats"] == rows["warp"]]["waiting"])


def held(times: int) -> Any:
    """Make a cell of the table: the share of right answers with all symbols so many times as long as the longest in training."""
    return lambda rows: spread(where(rows, kind="beyond", times=times)["at_ends"])


def by_gates(gate: str, column: str = "at_ends") -> Any:
    """Make a cell of the table: the share of right answers with other gates in the place of the learned ones."""

    def cell(rows: pd.DataFrame) -> object:
        found = where(rows, kind="instead", gate=gate)[column]
        return spread(found) if len(found) else None

    return cell


class LearnedClocks(Study):
    """Trains six cells on repeated symbols, five with gates that could wait."""

    name = "learned-clocks"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 120, "paper": 1500}
    sizes: ClassVar = scales(
        hidden=(16, 64, 64),
        length=(24, 400, 500),
        steps=(30, 1500, 4689),
        warps=([5], [10, 20, 40, 80], [10, 20, 40, 80]),
        otherwise=([5], [40], [40]),  # warps of the other trainings
        held_out=(32, 256, 10_000),
        seeds=(1, 3, 5),
        learning=(ADAM, ADAM, PAPERS),
    )
    tables = (
        Table(
            "Trained on symbols repeated at random up to so many times, sequences of length {length}; no step is given. Test "
            "accuracy over all samples; gate (1 - f of the LSTM) at a symbol's first repetition and at the others; p, where "
            "as many repetitions as were seen at most take n^p times as long as one on the clock of the gate, by the median "
            "over units (a clock: 0; a constant gate: 1), and how many of the {hidden} units have a p below 0.5. Then the "
            "share of right answers at the ends of symbols that are all shown as long as the longest was in training, and two "
            "and four times as long.",
            by={"repetitions": "warp", "cell": "cell"},
            columns={
                "accuracy": at_end("accuracy"),
                "g, first": lambda rows: spread(rows["first"].dropna()),
                "g, others": lambda rows: spread(rows["others"].dropna()),
                "p": exponent,
                "waiting units": waiting,
                **{f"{times} × as long": held(times) for times in BEYOND},
            },
            data=lambda results: as_first(results.rows_with("accuracy")),
            sort=in_order(None, CELLS),
            words=NAMES,
        ),
        Table(
            "The same weights with other gates in the place of the learned ones: share of right answers at the last sample of "
            "each symbol. Two clocks on which every symbol takes the same time, the same for all units: at its first sample, "
            "or evenly over its n samples. Each unit's mean gate. The learned gates for 5 samples of a symbol, then none. "
            "Each unit's mean over all samples of a symbol, or of it after the same other one. The gates of another sequence. "
            "Behind them the share at all samples: an even clock has not come to a symbol at its beginning.",
            by={"repetitions": "warp", "cell": "cell"},
            columns={
                **{gate: by_gates(gate) for gate in CLOCKS},
                **{f"all samples, {gate}": by_gates(gate, "all_samples") for gate in (LEARNED, FIRST)},
            },
            data=lambda results: as_first(results.rows),
            sort=in_order(None, CELLS),
            words=NAMES,
        ),
        Table(
            "The same with the loss at the last sample of each symbol alone, where accuracy is counted there, from biases as "
            "they are without chrono initialization, and at another rate. Shares of right answers are at the ends of symbols.",
            by={"trained": "training", "repetitions": "warp", "cell": "cell"},
            columns={
                "accuracy": at_end("accuracy"),
                "p": exponent,
                "waiting units": waiting,
                **{gate: by_gates(gate) for gate in (LEARNED, FIRST, SPREAD_OUT, UNIFORM)},
                **{f"{times} × as long": held(times) for times in BEYOND},
            },
            data=trained_otherwise,
            sort=in_order([EVERY, *OTHERWISE], None, CELLS),
            words=NAMES | SPELT,
            empty="No cell was trained otherwise.",
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
            data=lambda results: as_first(where(results.rows, kind="held")),
            x_label="repetitions of a symbol",
            y_label="time elapsed in a symbol",
            x_log=True,
            y_log=True,
            levels={"a clock": 1.0},
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        seeds = range(sizes.seeds)
        first = grid(seed=seeds, warp=sizes.warps, cell=CELLS)
        return first + grid(seed=seeds, warp=sizes.otherwise, cell=TRIED, training=OTHERWISE)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "recall", "warping": "variable", "warp": point["warp"], "length": sizes.length}
        model = {"field": point["cell"], "integrator": "euler", "hidden": sizes.hidden, "init": "chrono", "t_max": point["warp"]}
        every = max(10, sizes.steps // 5)
        times = {"steps": sizes.steps, "evaluate_every": every, "checkpoint_every": every, "evaluation": sizes.held_out}
        settings = task | model | times | sizes.learning | OTHERWISE.get(point.get("training", ""), {})
        return shared_configuration(**settings, seed=point["seed"], threads=1)

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        torch.set_num_threads(1)  # one sample at a time is no work for several, which wait for one another
        warp, seed = run.point["warp"], run.configuration.training.seed
        symbols, targets = symbols_of(seed)
        clock = StopAndGo.random(SYMBOLS, SEQUENCES, warp, generator(seed, "stop-and-go", "clock"))
        model, symbols = copy.deepcopy(model).double(), symbols.double()
        rows: list[Row] = [{"kind": "held", **row} for row in on_held_symbols(model.field, symbols, (*{*REPEATS, warp},))]
        others, theirs = symbols_of(seed + OTHERS)
        another = StopAndGo.random(SYMBOLS, SEQUENCES, warp, generator(seed, "stop-and-go", "another clock"))
        chosen = (others.double(), theirs, another)
        rows += [{"kind": "instead", **row} for row in under_other_clocks(model, symbols, targets, clock, chosen)]
        for times in BEYOND:
            rows.append({"kind": "beyond", "times": times, "at_ends": accuracy_held(model, symbols, targets, times * warp)})
        return [*rows, {"kind": "gate", **at_change(model.field, symbols, clock)}]

    def verdict(self, results: Results) -> ClaimVerdict:
        runs, rows = with_training(results.runs), groups(with_training(results.rows), ["training", "warp", "cell"])
        if absent := [cell for cell in CELLS if where(runs, cell=cell, training=EVERY).empty]:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        solved = dict[tuple[str, int, str], list[ClaimPart]]()
        for (training, warp), same in groups(runs, ["training", "warp"]).items():
            accuracies = spreads(same, "cell", "accuracy")
            if CONSTANT in accuracies and accuracies[CONSTANT].high < SOLVED:
                able = [cell for cell, value in accuracies.items() if cell != CONSTANT and value.mean >= SOLVED]
                solved |= {(training, warp, cell): self._of_cell(rows[training, warp, cell], warp) for cell in able}
        constant = spreads(where(runs, cell=CONSTANT, training=EVERY), "warp", "accuracy")
        leaky = ", ".join(f"{number(value.mean)} at {warp}" for warp, value in constant.items())
        if not solved:
            return ClaimVerdict([], another=f"No cell with gates solves it where a constant gate does not ({CONSTANT}, {leaky}).")
        judged = iter(ClaimVerdict([part for parts in solved.values() for part in parts]).parts)
        solved = {key: [next(judged) for _ in parts] for key, parts in solved.items()}
        first, others = ({key: solved[key] for key in solved if (key[0] == EVERY) is which} for which in (True, False))
        summary = [f"With a constant gate accuracy is {leaky} repetitions."]
        for how, found in (
            ("", first),
            ("with the loss at the last samples of symbols alone, without chrono, both, or at a rate of 0.003, ", others),
        ):
            if found:
                summary.append(f"Where it falls short {how}cells with gates solve the task in {in_words(found, rows)}.")
        return ClaimVerdict([part for parts in solved.values() for part in parts], summary=" ".join(summary))

    def _of_cell(self, rows: pd.DataFrame, warp: int) -> list[ClaimPart]:
        kept = where(rows, kind="instead").pivot_table(index="seed", columns="gate", values="at_ends")
        lost = {gate: kept[LEARNED] - kept[gate] for gate in (FIRST, SPREAD_OUT, UNIFORM)}
        better = min((lost[gate] for gate in (FIRST, SPREAD_OUT)), key=lambda values: float(values.mean()))
        in_its_place = {
            "of the true clock": Compared(paired(better), LOST, absent=True, printed=False),
            "of constants": Compared(paired(lost[UNIFORM]), LOST, printed=False),
        }
        return [
            ClaimPart(
                "a symbol lasts as long however often it is repeated",
                Compared(paired(1 - powers(rows)[warp]), HALF, printed=False),
            ),
            ClaimPart("the true clock answers in the gates' place, and constants do not", EveryComparison(in_its_place)),
        ]


def in_words(solved: dict[tuple[str, int, str], list[ClaimPart]], rows: dict[Any, pd.DataFrame]) -> str:
    """Say in how many cases the gate is the clock, and in which the true clock stands in its place."""
    ps = [exponents(rows[key])[key[1]].mean for key in solved]
    clocks, stands = (
        {word: [key for key, parts in solved.items() if parts[k].answer == word] for word in ("yes", "undecided", "no")}
        for k in range(2)
    )
    return (
        f"{len(solved)} cases. The gate is a clock, p being {number(min(ps))} to {number(max(ps))}: {_counted(clocks)}. The true "
        f"clock answers in its place, where constants do not: {_counted(stands)}"
    )


def _counted(answers: dict[str, list[tuple[str, int, str]]]) -> str:
    """Say how many there are of each answer, and name those of a yes."""
    names = ", ".join(f"{NAMES.get(cell, cell)} at {warp}{f' ({how})' * (how != EVERY)}" for how, warp, cell in answers["yes"])
    counts = [f"{word} in {len(keys)}{f' ({names})' * (word == 'yes')}" for word, keys in answers.items() if keys]
    return ", ".join(counts)
