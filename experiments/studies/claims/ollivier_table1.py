r"""Repeats table 1: models of symbol sequences, trained for equal times by gradients and in invariant metrics.

regret = bits that the model needs for the validation sequence - bits of the law that drew it
wrong  = share of the results of the distant XOR, at the end of a run, that have a probability of 1/2 or less
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pandas as pd

from experiments.reports.spreads import NotEnoughError, difference, spread
from experiments.studies.results import Results, groups
from experiments.studies.specs import Dots, Table
from experiments.studies.study import Described, Point, Record, Row, Run, RunMeasures, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison
from experiments.symbols.laws.distant_xor import DistantXOR
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.laws.insertions import Insertions
from experiments.symbols.laws.music import Music
from experiments.symbols.source import SymbolSource
from experiments.symbols.sources import SCALES

__all__ = ["OllivierTable1", "SymbolRun"]

BASELINES = "baselines"
METHODS = (
    "RNN, DH, FB",
    "RNN, DH, RMS",
    "GNN, DH, FB",
    "GLNN, DH, FB",
    "LSTM, gradient",
    "LSTM, DH, FB",
    "LSTM, Adam 0.01",
    "RNN, QDH, QDRUOP",
    "RNN, QDH, QDRBPM",
    "GNN, QDH, RUOP",
    "GNN, QDH, RBPM",
    "GLNN, QDH, RUOP",
    "GLNN, QDH, RBPM",
)
INVARIANT = ("RUOP", "RBPM")
TITLES = {"insertions": "alphabet with insertions", "music": "music", "blocks": "aⁿbⁿ", "xor": "distant XOR"}
FULLY = ((10,), (10,))  # units and edges of the network for the distant XOR, of which there is one
SOLVED = 0.01  # of results wrong
COUNTS = 0.1  # of a regret
SOURCES: dict[str, dict[str, SymbolSource]] = {
    "smoke": {"blocks": EqualBlocks(pairs=3, least=4, most=7), "xor": DistantXOR(lines=4, T=10)},
    "small": {
        "insertions": Insertions(lines=200, letters=8, digits=4, capitals=6, run=3),
        "music": Music(bars=300),
        "blocks": EqualBlocks(least=128, most=255),
        "xor": DistantXOR(lines=500, T=10),
    },
    "paper": {name: SCALES["paper"][name] for name in TITLES},
}


def chosen(results: Results) -> pd.DataFrame:
    """Select, of each source, method and seed, the run with the least regret over sizes and edges."""
    runs = results.runs
    if runs.empty or "best" not in runs:
        return runs.iloc[:0]
    trained = runs[runs["method"] != BASELINES]
    return trained.loc[trained.groupby(["source", "method", "seed"], sort=False)["best"].idxmin()]


def of_xor(results: Results) -> pd.DataFrame:
    runs = results.runs
    return runs[runs["wrong"].notna()] if "wrong" in runs else runs.iloc[:0]


def of_source(name: str, results: Results) -> pd.DataFrame:
    runs = chosen(results)
    return runs[runs["source"] == name] if "source" in runs else runs


@dataclass(frozen=True)
class SymbolRun(Described):
    """Says what one training is, which takes a given time; the method BASELINES needs none."""

    kind = "symbols"

    source: str
    scale: str
    method: str
    units: int
    edges: int
    seed: int
    seconds: float


class OllivierTable1(Study):
    """Compares the regrets of thirteen ways to train for the same time, and of predictors without gradients."""

    name = "ollivier-table1"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.2, "small": 60, "paper": 65_000}
    sizes: ClassVar = scales(
        scale=("smoke", "small", "paper"),
        methods=((METHODS[3], METHODS[-1]), METHODS, METHODS),
        units=((4,), (12, 24), (4, 6, 8, 11, 16, 23, 32, 45, 64)),
        edges=((2,), (4,), (3, 5, 10)),
        seconds=(0.2, 8.0, 600.0),
        seconds_of_xor=(0.2, 30.0, 4 * 3600.0),
        seeds=(1, 3, 5),
    )
    tables = (
        Table(
            "Regret in bits on the validation sequence, {seconds} s a run: the best over sizes and evaluations, mean "
            "(least–largest) over seeds; that at the end of those runs; steps of a run.",
            by={"source": "source", "method": "method"},
            columns={"best": "best", "at the end": "last", "units": lambda rows: _listed(rows["units"]), "steps": "steps"},
            data=chosen,
            words=TITLES,
        ),
        Table(
            "Distant XOR: the share of results that are wrong at the end of a run, mean (least–largest) over seeds, and the runs "
            f"that come below {SOLVED:.0%}; 50 % are those of a coin.",
            by={"method": "method"},
            columns={"wrong": "wrong", "solved": lambda rows: f"{int((rows['wrong'] < SOLVED).sum())} of {len(rows)}"},
            data=of_xor,
        ),
        Table(
            "Regret in bits of predictors that are not trained by gradients, on the same sequences.",
            by={"source": "source", "predictor": "predictor"},
            columns={"regret": "regret"},
            data="rows",
            words=TITLES,
        ),
    )
    figures: ClassVar = {
        f"regrets-{name}": Dots(
            f"{title}: the best regret on the validation sequence, mean over seeds, and a bar from the least to the largest.",
            x="best",
            by="method",
            x_label="regret, bits",
            x_limits=lambda least: (min(0.0, least), None),
            data=partial(of_source, name),
        )
        for name, title in TITLES.items()
    }

    def points(self, sizes: Sizes) -> list[Point]:
        sources, seeds = list(SOURCES[sizes.scale]), range(sizes.seeds)
        known = grid(seed=seeds, source=sources, method=[BASELINES], units=[0], edges=[0])
        others, (units, edges) = [name for name in sources if name != "xor"], FULLY
        trained = grid(seed=seeds, source=others, method=sizes.methods, units=sizes.units, edges=sizes.edges)
        return [*known, *trained, *grid(seed=seeds, source=["xor"], method=sizes.methods, units=units, edges=edges)]

    def configuration(self, point: Point, sizes: Sizes) -> SymbolRun:
        seconds = sizes.seconds_of_xor if point["source"] == "xor" else sizes.seconds
        return SymbolRun(scale=sizes.scale, seconds=seconds, **point)

    def seconds(self, run: Run) -> float:
        return float(run.configuration.seconds)

    def carry_out(self, run: Run, folder: Path) -> RunMeasures:
        import torch  # noqa: PLC0415

        torch.set_num_threads(1)
        given: SymbolRun = run.configuration
        source = SOURCES[given.scale][given.source]
        if given.method == BASELINES:
            begun = time.process_time()
            return RunMeasures({}, list(_baselines(source, given.seed)), time.process_time() - begun)
        from experiments.symbols.scores import missed  # noqa: PLC0415
        from experiments.symbols.trained.runs import trained  # noqa: PLC0415

        done, learner = trained(source, given.method, given.units, given.edges, given.seed, given.seconds)
        measures = {"best": done.best, "last": done.last, "steps": done.steps, "failed": int(done.failed)}
        if given.source == "xor":
            validation = source.draw(given.seed, "validation")
            wrong = missed(learner.logits(validation.symbols).log_softmax(-1), *validation)
            measures["wrong"] = float(wrong.sum() / validation.counts.sum())
        return RunMeasures(measures, [], given.seconds)

    def headline(self, record: Record) -> str:
        return f"regret {record['measures']['best']:.1f} bits" if record["measures"] else ""

    def verdict(self, results: Results) -> ClaimVerdict:
        parts: list[ClaimPart] = []
        numbers: dict[str, float | int | str] = {}
        for name, rows in groups(chosen(results), "source").items():
            found = {method: spread(same["best"]) for method, same in groups(rows, "method").items()}
            parts += _judged(TITLES[name], {method: same["best"] for method, same in groups(rows, "method").items()})
            numbers |= {f"{TITLES[name]}, {method}": str(regret) for method, regret in found.items()}
        recurrent = of_xor(results)
        if len(recurrent) and len(of := recurrent[recurrent["method"].isin(METHODS[-2:])]):
            solved = int((of["wrong"] < SOLVED).sum())
            claim = (
                f"{TITLES['xor']}: GLNNs by the recurrent metrics come below {SOLVED:.0%} of wrong results in half of the runs"
            )
            parts.append(ClaimPart(claim, 2 * solved >= len(of), f"{solved} of {len(of)}"))
        if not parts:
            raise NotEnoughError("no model is done yet both by FB and by an invariant method")
        return ClaimVerdict(parts, numbers)


def _judged(title: str, found: Mapping[str, Iterable[float]]) -> list[ClaimPart]:
    """Judge a source by the regret of each run: by both metrics together, so that the better of two stands for neither."""
    parts = []
    for model in ("RNN", "GNN", "GLNN"):
        ours, gradient = _by_metrics(found, model), f"{model}, DH, FB"
        if gradient in found and ours:
            evidence = "; ".join(f"{method}: {spread(found[method])}" for method in (*ours, gradient))
            less = _less([regret for method in ours for regret in found[method]], found[gradient])
            parts.append(ClaimPart(f"{title}: invariance helps {model}s", less, evidence))
    if parts and len(found) == len(METHODS):
        glnns = _by_metrics(found, "GLNN")
        regrets = [regret for method in glnns for regret in found[method]]
        others = {method: _less(regrets, found[method]) for method in METHODS if method not in glnns}
        parts.append(ClaimPart(f"{title}: GLNNs by the recurrent metrics have the fewest bits", EveryComparison(others)))
    return parts


def _by_metrics(found: Mapping[str, Iterable[float]], model: str) -> list[str]:
    return [method for method in found if method.startswith(f"{model},") and method.endswith(INVARIANT)]


def _less(ours: Iterable[float], theirs: Iterable[float]) -> Compared:
    """Compare regrets, of which a tenth of theirs counts."""
    return Compared(difference(theirs, ours), COUNTS * abs(spread(theirs).mean), printed=False)


def _listed(units: pd.Series) -> str:
    return ", ".join(map(str, sorted(set(units))))


def _baselines(source: SymbolSource, seed: int) -> Iterator[Row]:
    """Yield the best of each kind."""
    from experiments.symbols.table import baseline_rows  # noqa: PLC0415

    best: dict[str, float] = {}
    for row in baseline_rows(source, seed, starts=4, steps=40):
        kind = row.name.split(",")[0]
        if kind in ("context tree", "hidden Markov", "bzip2"):
            best[kind] = min(row.regret, best.get(kind, row.regret))
    for kind, regret in best.items():
        yield {"predictor": kind, "regret": regret}
