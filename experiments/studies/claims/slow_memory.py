r"""Measures what networks with the decay |h|^r h remember, and whether it helps on a task that wants the first samples.

free       no input, bias and recurrence      |dh_n/dh_0| = (1 + r alpha |h|^r n)^(-(r+1)/r)      polynomial
driven     noise and bias, no recurrence      |dh_n/dh_0| = e^(-alpha (r+1) int |h|^r)            exponential
settled    the same, from states that such units have come to      exponential
silence    the network without input          units hear of one another: a mixture of rates, which
noise      the network under noise            differ from unit to unit for r > 0
walking, resting    a network trained on recordings of people (UCI HAR) under those; "driven": without recurrence
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import ContinuousRNN, DiscreteRNN, SequenceModel
from experiments.data.uci_har import WINDOW
from experiments.reports.spreads import NotEnoughError, Spread, number, paired, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.seeds import generator
from experiments.studies.claims.laws import MOMENTS, NO_LAW, law_over, laws_in_words, recordings_in_pieces, simplify
from experiments.studies.claims.training import once
from experiments.studies.results import Results, groups, spreads, where
from experiments.studies.specs import Dots, Table, across
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison
from experiments.tasks.recorded.har import HAR
from experiments.tasks.two_sequence import TwoSequence

__all__ = ["SlowMemory"]

SURROUNDINGS = ("free", "driven", "settled", "silence", "noise")
DRIVEN, SETTLED = ("driven, walking", "driven, resting"), ("settled, walking", "settled, resting")
FINER, SUBSTEPS = ("in 16 steps, walking", "in 16 steps, resting"), 16  # settled units, by so many of Euler's a sample
NETWORKS = ("walking", "resting")
RECORDED = (*DRIVEN, *SETTLED, *FINER, *NETWORKS)
ALONE = ("free", "driven", "settled")  # without recurrence, by one step a sample
TIMES_OVER = 10  # that what comes before the start is read by units that settle
SEQUENCES = 16
FORGETS = 25  # of c in alpha = c/T, with which networks forget within a sequence
SLOWER = 5  # of c, with which leaky networks have the task's signal left at its end
CHANCE, SOLVED, NEAR, WORTH = 0.5, 0.95, 0.1, 0.05  # accuracies; how near to chance is at it, and how much less counts
BENT, ROUNDING = 0.1, 1e-6  # of |κ|, from which `decay_law` calls a law no exponential; of falls
NO_RECORDINGS = "no run on recordings is done"


def forgotten(results: Results, **of: object) -> pd.DataFrame:
    """Select the rows of networks that forget within a sequence."""
    return where(results.rows, c=FORGETS, **of)


def with_laws(results: Results) -> pd.DataFrame:
    """Select those of them that have a law, and numbers."""
    rows = forgotten(results)
    return rows if rows.empty else rows[rows["law"] != NO_LAW]


def of_euler_steps(rows: pd.DataFrame) -> Spread:
    return spread(rows["stepped"].round(9))  # what comes later is rounding of some hundred factors


class SlowMemory(Study):
    """Trains leaky networks and such with the decay |h|^r h on a task that wants the first samples."""

    name = "slow-memory"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 4, "paper": 70}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, T=60, exponents=[0.0, 2.0], starts=[25], steps=10, seeds=1),
        "small": Sizes(hidden=64, T=300, exponents=[0.0, 1.0, 2.0], starts=[1, 5, 25], steps=400, seeds=3),
        "paper": Sizes(hidden=128, T=300, exponents=[0.0, 0.5, 1.0, 2.0, 4.0], starts=[1, 5, 25], steps=3000, seeds=5),
    }
    needs = ("uci_har/",)
    tables = (
        Table(
            "Test accuracy, mean (least–largest) over seeds; 0.5 is chance. α starts at c/T.",
            by={"r": "exponent"},
            columns=across("c", {"c = 1": 1, "c = 5": 5, "c = 25": 25}, "accuracy"),
            data=lambda results: where(results.runs, task="two-sequence"),
            sort=lambda r: r,
        ),
        *(
            Table(
                f"The law by which the derivative of a unit's state with respect to its own earlier one falls, c = 25, {under}, "
                "and κ, mean (least–largest) over seeds.",
                by={"r": "exponent", "": "when"},
                columns=across("around", around, laws_in_words),
                data=partial(forgotten, task=task),
                sort=lambda r, when: (r, when),
                words=MOMENTS,
                empty="Recordings: left out; `--data DIR` names the folder with uci_har/ in it.",
            )
            for task, under, around in (
                ("two-sequence", "networks for the two-sequence problem", SURROUNDINGS),
                ("har", "networks for recordings, and under these", RECORDED),
            )
        ),
        *(
            Table(
                f"The fall of ln |dh_n/dh_0| over that of {alone}, along the same states; c = 25, mean (least–largest) over "
                "seeds.",
                by={"r": "exponent", "": "when"},
                columns=across("around", (*SURROUNDINGS[1:], *recorded), column),
                data=with_laws,
                sort=lambda r, when: (r, when),
                words=MOMENTS,
            )
            for column, alone, recorded in (
                ("ratio", "the equation of a unit by itself, −α (r + 1) ∫|h|^r", RECORDED),
                (of_euler_steps, "Euler steps of a unit by itself, ∑ ln |1 − α (r + 1)|h|^r|", (*DRIVEN, *SETTLED, *NETWORKS)),
            )
        ),
    )
    figures: ClassVar = {
        "bends": Dots(
            "κ of the law by which a unit's derivative with respect to its own earlier state falls, r = 2, c = 25: 0 is an "
            "exponential, r/(r + 1) = 0.67 a unit that nothing drives.",
            x="bend",
            by="case",
            x_label="κ",
            x_limits=lambda least: (min(-0.5, least), 1.5),
            data=lambda results: cases(forgotten(results, exponent=2.0)),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points, with recordings where there is a folder of them."""
        noise = grid(task=["two-sequence"], seed=range(sizes.seeds), exponent=sizes.exponents, c=sizes.starts)
        there = ["har"] if data_path("uci_har/") else []
        return noise + grid(task=there, seed=range(sizes.seeds), exponent=sizes.exponents, c=[FORGETS])

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task: dict[str, Any] = {"task": "two-sequence", "T": sizes.T, "signal": sizes.T // 20}
        if recorded := point["task"] == "har":
            task = {"task": "har", "data": str(data_path("uci_har/"))}
        model = {"field": "leaky-power", "exponent": point["exponent"], "integrator": "euler", "hidden": sizes.hidden}
        start = {"alpha": point["c"] / (WINDOW if recorded else sizes.T), "recurrent_gain": 0.1, "seed": point["seed"]}
        return shared_configuration(
            **task, **model, **start, **once(sizes.steps), batch=64, rate=1e-3, clip=1.0, evaluation=1000, threads=1
        )

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        if run.point["c"] != FORGETS:
            return []
        moments = {"start": run.configuration.untrained_model(), "trained": model}
        return [
            {"when": when, "around": around, **law_around(run.configuration, each, around)}
            for when, each in moments.items()
            for around in (SURROUNDINGS if run.point["task"] == "two-sequence" else RECORDED)
        ]

    def verdict(self, results: Results) -> ClaimVerdict:
        runs = where(results.runs, task="two-sequence")
        accuracies = spreads(runs, ["exponent", "c"], "accuracy")
        if absent := [f"r = {r:g}" for r in (0.0, 2.0) if (r, FORGETS) not in accuracies]:
            raise NotEnoughError(f"no run with {' and '.join(absent)}, c = {FORGETS} is done yet")
        noise, recorded = (forgotten(results, task=task) for task in ("two-sequence", "har"))
        parts = [
            _formula(forgotten(results)),
            _free(noise),
            _driven("driven units forget exponentially for every r > 0, too", noise, ["driven"]),
            _of_networks("before training a network of them does not, where one of leaky units does", noise, "start", ["noise"]),
            _of_networks("nor does a trained one, where one of leaky units does", noise, "trained", ["noise"]),
            *_of_the_task(runs),
            _driven("driven by recordings units forget exponentially for every r > 0, too", recorded, DRIVEN),
            _of_networks(
                "under recordings, too, before training a network of them does not, where one of leaky units does",
                *(recorded, "start", NETWORKS),
            ),
            _of_networks("nor does one that was trained on them", recorded, "trained", NETWORKS),
            _driven("settled under noise driven units forget exponentially for every r > 0", noise, ["settled"]),
            _driven("settled under recordings driven units forget exponentially for every r > 0", recorded, SETTLED),
            _driven("by 16 steps a sample settled units do under recordings, too", recorded, FINER),
        ]
        numbers = {f"accuracy, r = {r:g}, c = {c}": str(found) for (r, c), found in accuracies.items()}
        of_har = spreads(where(results.runs, task="har"), "exponent", "accuracy")
        return ClaimVerdict(parts, numbers | {f"accuracy on recordings, r = {r:g}": str(found) for r, found in of_har.items()})


def _formula(rows: pd.DataFrame) -> ClaimPart:
    """Judge the formula itself, which is no matter of seeds."""
    alone = rows[rows["around"].str.startswith(ALONE)]
    off = float((alone["stepped"] - 1).abs().max())
    return ClaimPart(
        "without recurrence a unit's derivative is that of Euler's steps of exp(−α (r + 1) ∫|h|^r)",
        off < ROUNDING,
        f"the falls of its logarithm differ by {f'less than {ROUNDING:g}' if off < ROUNDING else number(off)} of themselves",
    )


def _free(rows: pd.DataFrame) -> ClaimPart:
    free = where(rows, around="free")
    each = {
        "the least κ of a seed, r > 0,": _polynomial(free[free["exponent"] > 0]),
        "the largest |κ|, r = 0,": _exponential(where(free, exponent=0.0)),
    }
    claim = "free units forget polynomially for every r > 0, exponentially for r = 0"
    return ClaimPart(claim, EveryComparison(each), by_exponent(free))


def _driven(claim: str, rows: pd.DataFrame, around: Sequence[str]) -> ClaimPart:
    """Judge driven units at every r > 0, at the start and trained, by the largest |κ| of a seed."""
    kinds = rows[(rows["exponent"] > 0) & rows["around"].isin(around)] if len(rows) else rows
    if kinds.empty:
        return ClaimPart(claim, None, NO_RECORDINGS)
    evidence = "; ".join(
        f"{one}, {words}, {by_exponent(where(kinds, around=one, when=when))}" for one in around for when, words in MOMENTS.items()
    )
    if bool(_bends(kinds).isna().any()):
        return ClaimPart(claim, None, f"{evidence}; units without a law decide nothing")
    return ClaimPart(claim, _exponential(kinds), f"{evidence}; of a seed the largest |κ| counts")


def _of_networks(claim: str, rows: pd.DataFrame, when: str, around: Sequence[str]) -> ClaimPart:
    """Judge networks with r = 2 beside leaky ones."""
    judged: dict[str, Compared] = {}
    for r, one in product((2.0, 0.0), around):
        if (kinds := where(rows, exponent=r, when=when, around=one)).empty:
            return ClaimPart(claim, None, NO_RECORDINGS)
        judged[f"r = {r:g}, {one}"] = _polynomial(kinds) if r else _exponential(kinds)
    return ClaimPart(claim, EveryComparison(judged), "κ of the law")


def _of_the_task(runs: pd.DataFrame) -> list[ClaimPart]:
    """Judge what r = 2 is worth in the task, beside leaky networks that forget as fast at |h| = 1, and more slowly."""
    slow, leaky, slower = (
        where(runs, exponent=r, c=c).set_index("seed")["accuracy"] for r, c in ((2.0, FORGETS), (0.0, FORGETS), (0.0, SLOWER))
    )
    each = {
        "r = 2 from chance": Compared(paired(slow - CHANCE), SOLVED - CHANCE, printed=False),
        "r = 0": Compared(paired(leaky - CHANCE), NEAR, absent=True, printed=False),
    }
    solves = f"r = 2 solves the task at α = {FORGETS}/T, where leaky networks stay at chance"
    parts = [ClaimPart(solves, EveryComparison(each), f"accuracies {spread(slow)} and {spread(leaky)}")]
    if pairs := slow.index.intersection(slower.index).tolist():
        ahead = Compared(paired(slow[pairs] - slower[pairs]), WORTH, absent=True, printed=False)
        as_well = f"leaky networks solve it as well where they forget more slowly, α = {SLOWER}/T"
        parts.append(ClaimPart(as_well, ahead, f"accuracy {spread(slower)}; r = 2 ahead"))
    return parts


def _polynomial(rows: pd.DataFrame) -> Compared:
    least = _bends(rows).groupby(rows["seed"]).agg(lambda of_seed: of_seed.min(skipna=False))
    return Compared(paired(least), BENT, printed=False)


def _exponential(rows: pd.DataFrame) -> Compared:
    largest = _bends(rows).abs().groupby(rows["seed"]).agg(lambda of_seed: of_seed.max(skipna=False))
    return Compared(paired(largest), BENT, absent=True, printed=False)


def _bends(rows: pd.DataFrame) -> pd.Series:
    """Return κ; what grows, or is gone too soon, has no law of forgetting, and decides nothing."""
    return rows["bend"].where(rows["law"] != "growing")


def by_exponent(rows: pd.DataFrame) -> str:
    """Write every law that was found for each r, over seeds and moments: "r = 0: exponential, κ 0.00; r = 2: ..."."""
    ordered = rows.sort_values("exponent", kind="stable")
    return "; ".join(f"r = {r:g}: {laws_in_words(same)}" for r, same in groups(ordered, "exponent").items())


def cases(rows: pd.DataFrame) -> pd.DataFrame:
    if rows.empty:  # and has no columns, where no run that was measured is done yet
        return rows
    return rows.assign(case=rows["around"] + ", " + rows["when"].map(MOMENTS))


def law_around(configuration: Configuration, model: SequenceModel, around: str) -> Row:
    """Measure how dh_n/dh_0 falls, from states that the network has under its own input; in double precision."""
    rnn = copy.deepcopy(model.rnn).double()
    assert isinstance(rnn, DiscreteRNN | ContinuousRNN)
    before, xs = _input(configuration, around)
    with torch.no_grad():
        h0 = rnn(before)[1][0]
    if around.startswith(ALONE) or around in FINER:
        simplify(rnn, bias=around != "free")
    if around in FINER and isinstance(rnn, DiscreteRNN):
        rnn.substeps = SUBSTEPS
    if around in ("settled", *SETTLED, *FINER):
        with torch.no_grad():
            h0 = rnn(before.repeat(TIMES_OVER, 1, 1), h0[None])[1][0]
    return law_over(rnn, xs * (around not in ("free", "silence")), h0)


def _input(configuration: Configuration, around: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw what comes before the start, and after it."""
    task = configuration.task
    if isinstance(task, HAR):
        return recordings_in_pieces(task.recorded("test"), around.endswith("walking"), SEQUENCES)
    assert isinstance(task, TwoSequence)
    draw = generator(configuration.training.seed, "memory")
    noise = torch.randn(3 * task.T, SEQUENCES, 1, generator=draw, dtype=torch.float64)
    return noise[task.T :], noise[: task.T]
