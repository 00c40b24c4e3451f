r"""Asks what a network that has learned a^n b^n computes: how long a line of b it expects after n a, and where it keeps n.

end       after n a and a new line, the number of b at which the model has ended the line with probability 1/2
effect    of some numbers of the state: (end with these from m a, all others from n - end of n) / (end of m - end of n)
ramp      a number that changes by nearly the same with each a
digit     a number that turns twice or more while a are read: goes up after it went down, or down after it went up

Each is measured in the first line that a network reads, and after a pair of lines before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from discretize import DiscreteCell, DiscreteRNN
from experiments.reports.spreads import NotEnoughError, number, spread
from experiments.seeds import generator
from experiments.studies.results import Results, groups, once, where
from experiments.studies.specs import Bands, Table
from experiments.studies.study import Described, Point, Record, Row, Run, RunMeasures, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.scores import bits
from experiments.symbols.trained.methods import METHODS, Ascending, Learner, Torch

__all__ = ["Counting", "CountingRun", "Reader", "how_it_keeps"]

A, B, LINE = range(3)  # of EqualBlocks.alphabet
RECURRENT = ("GLNN, QDH, RUOP", "GLNN, QDH, RBPM")
OTHERS = ("GLNN, DH, FB", "GNN, QDH, RUOP", "RNN, QDH, QDRUOP", "LSTM, Adam 0.01")
BEYOND = 4  # times the longest line of the training
ONE, CLOSE, KNOWN = 0.1, 0.1, 0.1  # how far an effect is from 1, a ramp's speed from what it was, an end from n
KEPT = RAMPS, DIGITS, OTHERWISE, UNKNOWN = ("ramps", "digits", "otherwise", "not known")
FIRST, LATER = LINES = ("first line", "after a pair")
LEAST_CHANGE = 0.01  # of a ramp, and of a digit
COLUMNS = ("key", "kept", "ramps", "effect", "late", "activity", "far")


@dataclass(frozen=True)
class CountingRun(Described):
    """Says what is trained: by which method, how many units with how many edges into each, on lines of which lengths."""

    kind = "counting"

    method: str
    units: int
    edges: int
    seed: int
    steps: int
    least: int
    most: int


class Reader:
    """Reads symbols one by one with a trained model, many copies side by side."""

    def __init__(self, learner: Learner) -> None:
        if isinstance(learner, Ascending):
            self.cell, self.read_out = learner.model.cell, learner.model.read_out
            self.start = learner.model.start.detach()[None]
        else:
            assert isinstance(learner, Torch)
            rnn = learner.layer
            assert isinstance(rnn, DiscreteRNN)
            self.cell, self.read_out = DiscreteCell(rnn.field, rnn.step), learner.read_out
            h = self.cell.field.initial_state(1)
            self.start = self.cell(h.new_zeros(1, self.cell.field.input_size), h).detach()

    @torch.no_grad()
    def read(self, symbol: int, h: Tensor, times: int = 1) -> Tensor:
        """Return the states after so many of one symbol, those given first: (copies, state) -> (1 + times, copies, state)."""
        x = one_hot(torch.tensor([symbol]), self.cell.field.input_size).to(h).expand(len(h), -1)
        states = [h]
        for _ in range(times):
            states.append(self.cell(x, states[-1]))
        return torch.stack(states)

    @torch.no_grad()
    def ends(self, h: Tensor, most: int, lines: int = 1) -> list[float]:
        """Find after how many b the line has ended with probability 1/2; nan above `most`.

        Args:    h: states after the last a, or with `lines=0` after the new line and perhaps some b.
        """
        after = self.read(B, self.read(LINE, h, lines)[-1], most)
        ended = self.read_out(self.cell.field.visible(after)).log_softmax(-1)[..., LINE].exp()
        left = (1 - ended.double()).cumprod(0)
        there = left < 0.5
        return [int(column.int().argmax()) if column.any() else float("nan") for column in there.unbind(1)]


@dataclass(frozen=True)
class Lengths:
    """Says which n are asked, after training on lines of `least` to `most`."""

    least: int
    most: int

    @cached_property
    def inside(self) -> list[int]:
        return [self.least + round(k * (self.most - self.least) / 4) for k in range(5)]

    @cached_property
    def asked(self) -> list[int]:
        return [self.least // 4, self.least // 2, *self.inside, self.most * 3 // 2, self.most * 2, self.most * BEYOND]

    @property
    def pair(self) -> tuple[int, int]:
        return self.inside[0], self.inside[-1]


def measured(reader: Reader, lengths: Lengths) -> list[Row]:
    """Measure both lines: the first, and one after a pair of middle length."""
    middle = lengths.inside[2]
    between = reader.read(LINE, reader.read(A, reader.start, middle)[-1])[-1]
    later = reader.read(LINE, reader.read(B, between, middle)[-1])[-1]
    return [
        {"line": line, **row}
        for line, start in zip(LINES, (reader.start, later), strict=True)
        for row in of_line(reader, lengths, start)
    ]


def of_line(reader: Reader, lengths: Lengths, start: Tensor) -> list[Row]:
    """Measure the ends of all lengths, and the effects of all ramps and of all digits, after the a and among the b."""
    n, m = lengths.pair
    states = reader.read(A, start, max(lengths.asked))[:, 0]
    found = reader.ends(states[lengths.asked], 2 * max(lengths.asked))
    rows: list[Row] = [{"what": "end", "n": length, "end": end} for length, end in zip(lengths.asked, found, strict=True)]
    steps = states.diff(dim=0)
    within = steps[lengths.least : lengths.most]
    steady = ((within - within[0]).abs() < CLOSE * within[0].abs()).all(0)
    ramps = steady & (within[0].abs() >= LEAST_CHANGE)
    turning = ~ramps & torch.tensor([turned(column) > 1 for column in steps.unbind(1)])
    activities = reader.cell.field.visible(states[[n, m]]).diff(dim=0)[0].abs()
    seen = len(activities) == len(ramps) and bool(ramps.any())  # the cells of an LSTM are not visible
    after = states[[n, m]], reader.read(B, reader.read(LINE, states[[n, m]])[-1], n // 2)[-1]
    for numbers, chosen in ((RAMPS, ramps), (DIGITS, turning)):
        ends = reader.ends(torch.cat([after[0], after[0][1].where(chosen, after[0][0])[None]]), 3 * lengths.most)
        among = torch.cat([after[1], after[1][1].where(chosen, after[1][0])[None]])
        late = reader.ends(among, 3 * lengths.most, lines=0)
        row: Row = {
            "what": "effect",
            "numbers": numbers,
            "count": int(chosen.sum()),
            "effect": effect(ends),
            "late": effect(late),
        }
        rows.append(row | {"activity": float(activities[ramps].max()) if seen and numbers == RAMPS else None})
    return rows


def effect(ends: list[float]) -> float:
    """Compute how far the last of three ends has gone from the first to the second; nan where these are the same."""
    return (ends[2] - ends[0]) / (ends[1] - ends[0] or math.nan)


def turned(changes: Tensor) -> int:
    """Count how often a number goes up that went down, or down that went up, by no less than `LEAST_CHANGE`."""
    signs = changes[changes.abs() >= LEAST_CHANGE].sign()
    return int((signs[1:] != signs[:-1]).sum())


def how_it_keeps(rows: pd.DataFrame, least: int, most: int) -> str:
    """Say of one run how it keeps n in both lines, or that it does not know it in one of them."""
    found = []
    for line in LINES:
        ends = where(rows, line=line, what="end").set_index("n")["end"]
        if not all(abs(ends[n] - n) <= KNOWN * n for n in Lengths(least, most).pair):
            return UNKNOWN
        effects = where(rows, line=line, what="effect").set_index("numbers")["effect"]
        found.append(next((numbers for numbers in (RAMPS, DIGITS) if abs(effects[numbers] - 1) < ONE), OTHERWISE))
    return found[0] if found[0] == found[1] else OTHERWISE


@once
def kept(results: Results) -> pd.DataFrame:
    """Add to the runs how each keeps n, and of its ramps after a pair of lines: how many, their effects, what is seen of them."""
    lines = []
    for key, rows in groups(results.rows, "key").items():
        least, most = (int(results.settings(name)[0]) for name in ("least", "most"))
        later = where(rows, line=LATER)
        end, ramps = where(later, what="end", n=most * BEYOND)["end"].iloc[0], where(later, what="effect", numbers=RAMPS).iloc[0]
        told = (ramps["count"], ramps["effect"], ramps["late"], ramps["activity"], end / (most * BEYOND))
        lines.append(dict(zip(COLUMNS, (key, how_it_keeps(rows, least, most), *told), strict=True)))
    frame = pd.DataFrame(lines, columns=list(COLUMNS))
    return results.runs.merge(frame, on="key") if len(results.runs) else frame


def cells(column: str, *words: str) -> Callable[[pd.DataFrame], object]:
    """Make a cell of a table: a column over the runs that keep n so; without a column, how many these are."""

    def cell(rows: pd.DataFrame) -> object:
        found = rows[rows["kept"].isin(words)]
        if not column:
            return f"{len(found)} of {len(rows)}"
        values = found[column].dropna()
        # Not means: some are hundreds of times others.
        return f"{number(values.median())} ({number(values.min())}–{number(values.max())})" if len(values) else None

    return cell


def ends_by_kind(results: Results) -> pd.DataFrame:
    rows = where(results.rows, what="end", line=LATER)
    return rows.merge(kept(results)[["key", "kept"]], on="key").dropna(subset=["end"]) if len(rows) else rows


class Counting(Study):
    """Trains networks on a^n b^n and takes them apart: which number of the state carries n, and how it moves."""

    name = "ollivier-counting"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.2, "small": 25, "paper": 400}
    sizes: ClassVar = scales(
        least=(8, 128, 1024),
        most=(15, 255, 2047),
        units=((4,), (12, 24), (11, 23)),
        edges=(3, 4, 4),
        steps=(3, 900, 3000),
        adam=(3, 2000, 3000),
        others=(OTHERS[-1:], OTHERS, OTHERS),
        seeds=(1, 10, 10),
        more=(1, 3, 3),
    )
    may_diverge = True
    tables = (
        Table(
            "How networks keep n, by how many runs, and their regret in bits on the validation sequence: the median over seeds "
            "and sizes, least and largest.",
            by={"method": "method"},
            columns={
                **{word: cells("", word) for word in KEPT},
                "regret, ramps": cells("regret", RAMPS),
                "regret, otherwise": cells("regret", DIGITS, OTHERWISE),
                "regret, not known": cells("regret", UNKNOWN),
            },
            data=kept,
        ),
        Table(
            "Where ramps keep n, after a pair of lines: how many ramps there are, their effect after the last a and among the b, "
            "by how much their activities differ at most between the shortest and the longest line, and the end that is expected "
            "at four times the longest line, over n; the same end of those that keep n otherwise. Medians, least and largest.",
            by={"method": "method"},
            columns={
                "ramps": cells("ramps", RAMPS),
                "effect": cells("effect", RAMPS),
                "among b": cells("late", RAMPS),
                "activity": cells("activity", RAMPS),
                "end at 4 ×": cells("far", RAMPS),
                "end at 4 ×, otherwise": cells("far", DIGITS, OTHERWISE),
            },
            data=kept,
        ),
    )
    figures: ClassVar = {
        "ends": Bands(
            "The number of b after which the line has ended with probability 1/2, after n a in a line "
            "after a pair, by how networks keep n; the mean over runs, and a band from the least to the largest. The training "
            "had 128 to 255.",
            x="n",
            y="end",
            lines=("kept", KEPT),
            x_label="n",
            y_label="b expected after n a",
            data=ends_by_kind,
            x_log=True,
            y_log=True,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        main = grid(seed=range(sizes.seeds), method=RECURRENT, units=sizes.units)
        return main + grid(seed=range(sizes.more), method=sizes.others, units=sizes.units)

    def configuration(self, point: Point, sizes: Sizes) -> CountingRun:
        steps = sizes.adam if "Adam" in point["method"] else sizes.steps
        return CountingRun(edges=sizes.edges, steps=steps, least=sizes.least, most=sizes.most, **point)

    def carry_out(self, run: Run, folder: Path) -> RunMeasures:
        torch.set_num_threads(1)
        given: CountingRun = run.configuration
        begun, source = time.perf_counter(), EqualBlocks(least=given.least, most=given.most)
        train, validation = source.draw(given.seed), source.draw(given.seed, "validation")
        draws = generator(given.seed, "trained", given.method, given.units, given.edges)
        learner = METHODS[given.method].learner(len(source.alphabet), given.units, given.edges, train, draws)
        for step in range(given.steps):
            try:
                learner.step()
            except ValueError:  # log Pr is no number
                return RunMeasures({}, [], time.perf_counter() - begun, step)
        needed = bits(learner.logits(validation.symbols).log_softmax(-1), *validation).sum()
        regret = float(needed - source.bits(validation.symbols).sum())
        rows = measured(Reader(learner), Lengths(given.least, given.most))
        return RunMeasures({"regret": regret}, rows, time.perf_counter() - begun)

    def headline(self, record: Record) -> str:
        return f"regret {record['measures']['regret']:.1f} bits" if record["measures"] else "diverged"

    def verdict(self, results: Results) -> ClaimVerdict:
        runs = kept(results)
        runs = runs[runs["method"].isin(RECURRENT)]
        knowing = runs[runs["kept"] != UNKNOWN]
        if len(knowing) < 2:
            raise NotEnoughError("no two networks that know n are done yet")
        ramps, best = where(knowing, kept=RAMPS), knowing.nsmallest(len(knowing) // 2, "regret")
        digits, others, first = (int((some["kept"] == word).sum()) for some, word in
                                 ((knowing, DIGITS), (knowing, OTHERWISE), (best, RAMPS)))  # fmt: skip
        evidence = f"{len(ramps)} of the {len(knowing)} that know n, {first} of the {len(best)} of them with the fewest bits"
        on = int(((knowing["far"] - 1).abs() < KNOWN).sum())
        parts = [
            ClaimPart("it builds a base-2 counter", 2 * digits > len(knowing), f"digits keep n in {digits} of {len(knowing)}"),
            ClaimPart("it keeps n otherwise than in digits and ramps", 2 * others > len(knowing), f"{others} of {len(knowing)}"),
            ClaimPart("it keeps n in numbers that change alike with each a", 2 * len(ramps) > len(knowing), evidence),
            ClaimPart("it counts on at four times the longest line, to 10 %", 2 * on > len(knowing), f"{on} of {len(knowing)}"),
        ]
        return ClaimVerdict(
            parts, {f"regret, {word}": str(spread(same["regret"])) for word, same in groups(runs, "kept").items()}
        )
