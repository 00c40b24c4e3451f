r"""Asks which metric learns in fewer steps, and what dampening by other sequences does to learning.

theta <- theta + rate (M + dampening)^-1 d log Pr/d theta

rbpm, ruop           the recurrent metrics, a matrix for each unit and symbol
recurrent-natural    that of all weights, each time's as if they were others
natural              the Fisher metric of what the network predicts

paper        1 on the diagonals                    depends on how activities are written
weak         0.01 on the diagonals                 so does this
none         nothing, and a pseudoinverse          does not, but for rounding
sequences    0.01 of the metric of random symbols  does not, but for rounding
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
import torch

import ctrnn
from discretize import RiemannianAscent, SymbolModel
from experiments.reports.spreads import NotEnoughError, Spread, number, paired
from experiments.seeds import generator
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, across, first, in_order
from experiments.studies.study import Described, Point, Record, Row, Run, RunMeasures, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.scores import bits

__all__ = ["MetricRun", "Metrics", "paired"]

METRICS = RECURRENT, NATURAL = (("rbpm", "ruop"), ("recurrent-natural", "natural"))
PAPER, WEAK, NONE, SEQUENCES = "paper", "weak", "none", "sequences"
DAMPENINGS = {
    PAPER: "dampening: 1, as in the paper",
    WEAK: "0.01",
    NONE: "none",
    SEQUENCES: "0.01 of the metric of random symbols",
}
METRIC_NAMES = {"rbpm": "RBPM", "ruop": "RUOP", "recurrent-natural": "recurrent natural", "natural": "natural"}
IN_WORDS = METRIC_NAMES | DAMPENINGS | {PAPER: "1, as in the paper"}
Written = Literal["tanh", "logistic"]
WRITTEN: tuple[Written, Written] = ("tanh", "logistic")
TANH, LOGISTIC = WRITTEN
SMALL = 0.01  # on the diagonal, and of the metric of other sequences
EARLY, LATE = 20, 100  # steps
SHOWN = (1, 5, EARLY, LATE)
COUNTS = 5.0  # bits, an eighth of what the law itself needs


@dataclass(frozen=True)
class MetricRun(Described):
    """Says what is trained: by which metric and dampening, with activities written how, on lines of which lengths."""

    kind = "metrics"

    metric: str
    dampening: str
    written: Written
    units: int
    edges: int
    seed: int
    steps: int
    least: int
    most: int


def difference(rows: pd.DataFrame, axis: str, ours: str, theirs: str) -> Spread:
    """Compute by how many bits of the training one has more than the other, seed by seed, with a 95 % interval of the mean (t).

    Raises: NotEnoughError without two seeds that have both.
    """
    both = rows.pivot_table(index="seed", columns=axis, values="training").reindex(columns=[ours, theirs]).dropna()
    if len(both) < 2:
        raise NotEnoughError(f"no two seeds have both {ours} and {theirs} yet")
    return paired(both[ours] - both[theirs])


def apart(results: Results) -> pd.DataFrame:
    """Compute for each metric, dampening, step and seed by how many bits the two writings differ."""
    axes = ["metric", "dampening", "step", "seed"]
    both = results.rows.pivot_table(index=axes, columns="written", values="training").reindex(columns=WRITTEN)
    return (both[TANH] - both[LOGISTIC]).abs().rename("apart").dropna().reset_index()


def beside(results: Results, axis: str, theirs: str, same: Sequence[str]) -> pd.DataFrame:
    """Compare the training's bits with those of one value of an axis, all else being the same, in words."""
    lines = []
    for key, rows in groups(results.rows, [*same, "step"]).items():
        for ours in sorted(set(rows[axis]) - {theirs}):
            try:
                found = difference(rows, axis, ours, theirs)
            except NotEnoughError:
                continue
            said = f"{round(found.mean)} ({round(found.low)} to {round(found.high)})"
            lines.append({**dict(zip([*same, "step"], key, strict=True)), axis: ours, "more": said, "seeds": found.count})
    return pd.DataFrame(lines, columns=[*same, "step", axis, "more", "seeds"])


def than_recurrent(results: Results) -> pd.DataFrame:
    found = [beside(results, "metric", than, ("dampening", "written")).assign(than=than) for than in RECURRENT]
    rows = pd.concat(found)
    return rows[rows["metric"] == "natural"]


def by_tanh(results: Results) -> pd.DataFrame:
    return where(results.rows, written=TANH)


def _median(values: pd.Series, words: str = "{0} ({1}–{2})") -> str:
    return words.format(*(number(float(value)) for value in (values.median(), values.min(), values.max())))


def _seeds(rows: pd.DataFrame) -> int:
    return int(rows["seeds"].max() if "seeds" in rows else rows["seed"].nunique())


ORDER = in_order((*RECURRENT, *NATURAL), tuple(DAMPENINGS))


class Metrics(Study):
    """Trains GLNNs on a^n b^n by four metrics and four dampenings, with tanh and with the logistic function."""

    name = "ollivier-metrics"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.2, "small": 30, "paper": 3000}
    sizes: ClassVar = scales(
        least=(4, 16, 128),
        most=(7, 31, 255),
        units=(3, 11, 11),
        edges=(2, 3, 3),
        steps=(EARLY, LATE, LATE),
        seeds=(2, 20, 10),
        natural_seeds=(2, 5, 10),
    )
    tables = (
        Table(
            "Regret in bits, which is what a network needs for the training sequence beyond what the law needs that drew it, "
            "after so many steps, with tanh: mean (least–largest) over seeds.",
            by={"metric": "metric", "dampening": "dampening"},
            columns=across("step", SHOWN, "training"),
            data=by_tanh,
            sort=ORDER,
            words=IN_WORDS,
        ),
        Table(
            "The same of another sequence, for validation, mixed with the uniform law by 1/(t + 2): median (least–largest), as "
            "few runs with thousands of bits would decide on means.",
            by={"metric": "metric", "dampening": "dampening"},
            columns=across("step", SHOWN, lambda rows: _median(rows["validation"])),
            data=by_tanh,
            sort=ORDER,
            words=IN_WORDS,
        ),
        Table(
            "By how many bits of the training runs with tanh and with the logistic function differ: median over seeds (largest).",
            by={"metric": "metric", "dampening": "dampening"},
            columns={**across("step", SHOWN, lambda rows: _median(rows["apart"], "{0} ({2})")), "seeds": _seeds},
            data=apart,
            sort=ORDER,
            words=IN_WORDS,
        ),
        Table(
            "How many bits of the training more than by the paper's dampening, seed by seed: mean, and its 95 % interval (t).",
            by={"metric": "metric", "dampening": "dampening", "written": "written"},
            columns={**across("step", SHOWN, first("more")), "seeds": _seeds},
            data=lambda results: beside(results, "dampening", PAPER, ("metric", "written")),
            sort=in_order((*RECURRENT, *NATURAL), tuple(DAMPENINGS), WRITTEN),
            words=IN_WORDS,
        ),
        Table(
            "How many bits of the training more by the natural metric than by RBPM and by RUOP with the same dampening: "
            "likewise.",
            by={"dampening": "dampening", "than": "than", "written": "written"},
            columns={**across("step", SHOWN, first("more")), "seeds": _seeds},
            data=than_recurrent,
            sort=in_order(tuple(DAMPENINGS), RECURRENT, WRITTEN),
            words=IN_WORDS,
        ),
    )
    figures: ClassVar = {
        "regrets": Bands(
            "Regret on the training sequence over steps, below 200 bits, by the dampening: the mean over seeds, and a band from "
            "the least to the largest.",
            x="step",
            y="training",
            lines=("metric", METRIC_NAMES),
            panels=("dampening", DAMPENINGS),
            x_label="steps",
            y_label="regret, bits",
            x_log=True,
            y_limits=(-45.0, 200.0),
            data=by_tanh,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        def kinds(metrics: tuple[str, str]) -> list[str]:
            return [kind for kind in DAMPENINGS if metrics == RECURRENT or kind != WEAK]

        return [
            point
            for seed in range(max(sizes.seeds, sizes.natural_seeds))
            for metrics, count in ((RECURRENT, sizes.seeds), (NATURAL, sizes.natural_seeds))
            if seed < count
            for point in grid(seed=[seed], metric=metrics, dampening=kinds(metrics), written=WRITTEN)
        ]

    def configuration(self, point: Point, sizes: Sizes) -> MetricRun:
        settings = {name: vars(sizes)[name] for name in ("units", "edges", "steps", "least", "most")}
        return MetricRun(**settings, **point)

    def carry_out(self, run: Run, folder: Path) -> RunMeasures:
        torch.set_num_threads(1)
        given: MetricRun = run.configuration
        begun, source = time.perf_counter(), EqualBlocks(least=given.least, most=given.most)
        train, validation = source.draw(given.seed), source.draw(given.seed, "validation")
        symbols, mask = train.symbols[:, None], train.counts[:, None]
        draws, size = generator(given.seed, "metrics"), len(source.alphabet)  # the same start for all that have the seed
        settings: dict[str, Any] = {"edges": given.edges, "dtype": torch.float64, "generator": draws}
        model = SymbolModel(ctrnn.glnn(size, given.units, activation=given.written, **settings))
        model.begin(symbols, mask, generator=draws)
        dampening = {PAPER: 1.0, NONE: 0.0}.get(given.dampening, SMALL)
        others = torch.randint(size, symbols.shape, generator=draws) if given.dampening == SEQUENCES else None
        both: dict[str, Any] = {"dampening": dampening, "read_out_dampening": dampening, "dampened_by": others}
        ascent = RiemannianAscent(model, given.metric, **both)
        law, rows = [float(source.bits(each.symbols).sum()) for each in (train, validation)], list[Row]()
        for step in range(1, given.steps + 1):
            needed = -ascent.step(symbols, mask) / math.log(2)
            if step in SHOWN:
                with torch.no_grad():
                    logits = model(validation.symbols[:, None])[:, 0].log_softmax(-1)
                found = float(bits(logits, *validation, mixed=True).sum())
                rows.append({"step": step, "training": needed - law[0], "validation": found - law[1]})
        return RunMeasures({"training": needed - law[0]}, rows, time.perf_counter() - begun)

    def headline(self, record: Record) -> str:
        return f"regret {record['measures']['training']:.1f} bits"

    def verdict(self, results: Results) -> ClaimVerdict:
        gaps = apart(results)
        gaps = gaps[gaps["metric"].isin(RECURRENT) & (gaps["step"] == EARLY)]
        by_kind = {kind: where(gaps, dampening=kind)["apart"] for kind in (PAPER, SEQUENCES)}
        if any(found.empty for found in by_kind.values()):
            raise NotEnoughError(f"no pair of {TANH} and {LOGISTIC} is done yet for both dampenings")
        parts = []
        for kind, claim, holds in (
            (
                PAPER,
                "with the paper's dampening steps depend on how activities are written",
                by_kind[PAPER].median() >= COUNTS,
            ),
            (SEQUENCES, "with that by the metric of other sequences they do not", by_kind[SEQUENCES].max() < COUNTS),
        ):
            said = f"a median of {number(float(by_kind[kind].median()))} bits, at most {number(float(by_kind[kind].max()))}"
            seeds = gaps["seed"].nunique()
            parts.append(
                ClaimPart(claim, bool(holds), f"RBPM and RUOP, {EARLY} steps, tanh beside logistic, {seeds} seeds: {said}")
            )
        return ClaimVerdict(parts)
