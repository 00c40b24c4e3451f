r"""Asks which metric learns in fewer steps, and what dampening by other sequences does to learning.

theta <- theta + rate (M + dampening)^-1 d log Pr/d theta

rbpm, ruop           the recurrent metrics, a matrix for each unit and symbol
recurrent-natural    that of all weights, each time's as if they were others
natural              the Fisher metric of what the network predicts

paper        1 on the diagonal                        hangs on how activities are written
none         nothing, and a pseudoinverse             does not, but for rounding
sequences    0.01 of the metric of random symbols     does not
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
import torch

import ctrnn
from discretize import RiemannianAscent, SymbolModel
from experiments.reports.spreads import NotEnoughError, Spread, number
from experiments.seeds import generator
from experiments.studies.results import Results, where
from experiments.studies.specs import Bands, Table, across, in_order
from experiments.studies.study import Measured, Point, Record, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import Compared, Part, Verdict
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.scores import bits

__all__ = ["MetricRun", "Metrics", "paired"]

METRICS = RECURRENT, NATURAL = (("rbpm", "ruop"), ("recurrent-natural", "natural"))
PAPER, NONE, SEQUENCES = "paper", "none", "sequences"
DAMPENINGS = {PAPER: "dampening: 1, as in the paper", NONE: "none", SEQUENCES: "by the metric of random symbols"}
Written = Literal["tanh", "logistic"]
WRITTEN: tuple[Written, Written] = ("tanh", "logistic")
TANH, LOGISTIC = WRITTEN
SHARE = 0.01  # of the metric of other sequences
EARLY, LATE = 20, 100  # steps at which they are compared
SHOWN = (1, 5, EARLY, LATE)
COUNTS = 5.0  # bits, an eighth of what the law itself needs


@dataclass(frozen=True)
class MetricRun:
    """Says what is trained: by which metric and dampening, with activities written how, on lines of which lengths."""

    metric: str
    dampening: str
    written: Written
    units: int
    edges: int
    seed: int
    steps: int
    least: int
    most: int

    def to_json(self) -> dict[str, Any]:
        return {"metrics": asdict(self)}

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> MetricRun:
        return cls(**described["metrics"])


def paired(rows: pd.DataFrame, axis: str, ours: str, theirs: str) -> Spread:
    """Compute by how many bits of the training one has more than the other, seed by seed, with a 95 % interval of the mean (t).

    Raises: NotEnoughError without two seeds that have both.
    """
    from scipy.stats import ttest_1samp  # noqa: PLC0415

    both = rows.pivot_table(index="seed", columns=axis, values="training").reindex(columns=[ours, theirs]).dropna()
    if len(both) < 2:
        raise NotEnoughError(f"no two seeds have both {ours} and {theirs} yet")
    found = both[ours] - both[theirs]
    interval = ttest_1samp(found, 0).confidence_interval(0.95)
    return Spread(float(found.mean()), float(interval.low), float(interval.high), len(found))


def at(results: Results, step: int, **chosen: str) -> pd.DataFrame:
    return where(results.rows, step=step, **chosen)


def apart(results: Results) -> pd.DataFrame:
    """Compute for each metric, dampening and seed by how many bits the two writings differ after `EARLY` steps."""
    axes = ["metric", "dampening", "seed"]
    both = at(results, EARLY).pivot_table(index=axes, columns="written", values="training").reindex(columns=WRITTEN)
    return (both[TANH] - both[LOGISTIC]).abs().rename("apart").dropna().reset_index()


def by_tanh(results: Results) -> pd.DataFrame:
    return where(results.rows, written=TANH)


class Metrics(Study):
    """Trains GLNNs on a^n b^n by four metrics and three dampenings, with tanh and with the logistic function."""

    name = "ollivier-metrics"
    question, claim, source, *resolutions = words_beside(__file__)
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
            "Regret in bits on the training sequence after so many steps, with tanh: mean (least–largest) over seeds.",
            by={"metric": "metric", "dampening": "dampening"},
            columns=across("step", SHOWN, "training"),
            data=by_tanh,
            sort=in_order((*RECURRENT, *NATURAL), tuple(DAMPENINGS)),
        ),
        Table(
            "The same on the validation sequence, mixed with the uniform law by 1/(t + 2).",
            by={"metric": "metric", "dampening": "dampening"},
            columns=across("step", SHOWN, "validation"),
            data=by_tanh,
            sort=in_order((*RECURRENT, *NATURAL), tuple(DAMPENINGS)),
        ),
        Table(
            f"By how many bits of the training runs with tanh and with the logistic function differ after {EARLY} steps: median "
            "over seeds, and the largest.",
            by={"metric": "metric", "dampening": "dampening"},
            columns={
                "median": lambda rows: float(rows["apart"].median()),
                "largest": lambda rows: float(rows["apart"].max()),
                "seeds": len,
            },
            data=apart,
            sort=in_order((*RECURRENT, *NATURAL), tuple(DAMPENINGS)),
        ),
    )
    figures: ClassVar = {
        "regrets": Bands(
            "Regret on the training sequence over steps, below 200 bits, by the dampening: the mean over seeds, and a band from "
            "the least to the largest.",
            x="step",
            y="training",
            lines=("metric", (*RECURRENT, *NATURAL)),
            panels=("dampening", DAMPENINGS),
            x_label="steps",
            y_label="regret, bits",
            x_log=True,
            y_limits=(-45.0, 200.0),
            data=by_tanh,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        kinds = {"dampening": DAMPENINGS, "written": WRITTEN}
        return [
            point
            for seed in range(max(sizes.seeds, sizes.natural_seeds))
            for metrics, count in ((RECURRENT, sizes.seeds), (NATURAL, sizes.natural_seeds))
            if seed < count
            for point in grid(seed=[seed], metric=metrics, **kinds)
        ]

    def configuration(self, point: Point, sizes: Sizes) -> MetricRun:
        settings = {name: vars(sizes)[name] for name in ("units", "edges", "steps", "least", "most")}
        return MetricRun(**settings, **point)

    def carry_out(self, run: Run, folder: Path) -> Measured:
        torch.set_num_threads(1)
        given: MetricRun = run.configuration
        begun, source = time.perf_counter(), EqualBlocks(least=given.least, most=given.most)
        train, validation = source.draw(given.seed), source.draw(given.seed, "validation")
        symbols, mask = train.symbols[:, None], train.counts[:, None]
        draws, size = generator(given.seed, "metrics"), len(source.alphabet)  # the same start for all that have the seed
        settings: dict[str, Any] = {"edges": given.edges, "dtype": torch.float64, "generator": draws}
        model = SymbolModel(ctrnn.glnn(size, given.units, activation=given.written, **settings))
        model.begin(symbols, mask, generator=draws)
        dampening = {PAPER: 1.0, NONE: 0.0, SEQUENCES: SHARE}[given.dampening]
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
        return Measured({"training": needed - law[0]}, rows, time.perf_counter() - begun)

    def headline(self, record: Record) -> str:
        return f"regret {record['measures']['training']:.1f} bits"

    def verdict(self, results: Results) -> Verdict:
        differ, parts = apart(results), list[Part]()
        differ = differ[differ["metric"].isin(RECURRENT)]
        by_kind = {kind: where(differ, dampening=kind)["apart"] for kind in (PAPER, SEQUENCES)}
        if any(found.empty for found in by_kind.values()):
            raise NotEnoughError(f"no pair of {TANH} and {LOGISTIC} is done yet for both dampenings")
        for kind, claim, holds in (
            (PAPER, "the paper's dampening makes learning hang on how activities are written", by_kind[PAPER].median() >= COUNTS),
            (SEQUENCES, "dampening by other sequences does not", by_kind[SEQUENCES].max() < COUNTS),
        ):
            gaps = by_kind[kind]
            words = f"median of {len(gaps)} pairs {number(float(gaps.median()))} bits, largest {number(float(gaps.max()))}"
            parts.append(Part(claim, bool(holds), f"RBPM and RUOP after {EARLY} steps: {words}"))
        for metric in RECURRENT:
            for step in (EARLY, LATE):
                found = paired(at(results, step, metric=metric, written=TANH), "dampening", SEQUENCES, PAPER)
                claim = f"it costs {metric.upper()} nothing in {step} steps"
                parts.append(Part(claim, Compared(found, COUNTS, absent=True, printed=False), f"bits more, {found.count} pairs"))
        for metric in RECURRENT:
            for step in (EARLY, LATE):
                found = paired(at(results, step, dampening=PAPER, written=TANH), "metric", "natural", metric)
                claim = f"by the natural metric {step} steps go further than by {metric.upper()}"
                parts.append(Part(claim, Compared(found, -COUNTS, printed=False), f"bits more, {found.count} pairs"))
        return Verdict(parts)
