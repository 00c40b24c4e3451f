r"""Measures what networks with the decay |h|^r h remember, and whether it helps on a task that wants the first samples.

free       no input, bias and recurrence      |dh_n/dh_0| = (1 + r alpha |h|^r n)^(-(r+1)/r)      polynomial
driven     noise and bias, no recurrence      |dh_n/dh_0| = e^(-alpha (r+1) int |h|^r)            exponential
silence    the network without input          units hear of one another: a mixture of rates, which
noise      the network under noise            differ from unit to unit for r > 0
walking, resting    a network trained on recordings of people (UCI HAR) under those; "driven": without recurrence
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import ContinuousRNN, DiscreteRNN, SequenceModel
from experiments.data.uci_har import WINDOW
from experiments.reports.spreads import NotEnoughError, Spread, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.seeds import generator
from experiments.studies.claims.laws import MOMENTS, law_over, laws_in_words, recordings_in_pieces, simplify
from experiments.studies.claims.training import once
from experiments.studies.results import Results, groups, spreads, where
from experiments.studies.specs import Dots, Table, across
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.tasks.recorded.har import HAR
from experiments.tasks.two_sequence import TwoSequence

__all__ = ["SlowMemory"]

SURROUNDINGS = ("free", "driven", "silence", "noise")
RECORDED = ("driven, walking", "driven, resting", "walking", "resting")
SEQUENCES = 16
FORGETS = 25  # of c in alpha = c/T, with which networks forget within a sequence
CHANCE, SOLVED = 0.6, 0.95


def forgotten(results: Results, **of: object) -> pd.DataFrame:
    """Select the rows of networks that forget within a sequence."""
    return where(results.rows, c=FORGETS, **of)


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
                ("two-sequence", "under noise", SURROUNDINGS),
                ("har", "trained on recordings and under them", RECORDED),
            )
        ),
        *(
            Table(
                f"The fall of ln |dh_n/dh_0| over that of {alone}, along the same states; c = 25, mean (least–largest) over "
                "seeds.",
                by={"r": "exponent", "": "when"},
                columns=across("around", (*SURROUNDINGS[1:], *RECORDED), column),
                data=forgotten,
                sort=lambda r, when: (r, when),
                words=MOMENTS,
            )
            for column, alone in (
                ("ratio", "the equation of a unit by itself, −α (r + 1) ∫|h|^r"),
                (of_euler_steps, "Euler steps of a unit by itself, ∑ ln |1 − α (r + 1)|h|^r|"),
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
        accuracies = spreads(where(results.runs, task="two-sequence"), ["exponent", "c"], "accuracy")
        if absent := [f"r = {r:g}" for r in (0.0, 2.0) if (r, FORGETS) not in accuracies]:
            raise NotEnoughError(f"no run with {' and '.join(absent)}, c = {FORGETS} is done yet")
        laws = groups(forgotten(results), ["exponent", "when", "around"])
        leaky, slow = accuracies[0.0, FORGETS], accuracies[2.0, FORGETS]
        parts = [
            ClaimPart(
                "free units forget polynomially for r = 2, exponentially for r = 0",
                self._all(laws, 2.0, ["free"], "polynomial") and self._all(laws, 0.0, ["free"], "exponential"),
                f"r = 2: {laws_in_words(laws[2.0, 'start', 'free'])}; r = 0: {laws_in_words(laws[0.0, 'start', 'free'])}",
            ),
            ClaimPart(
                "driven units forget exponentially for r = 2, too",
                self._all(laws, 2.0, ["driven"], "exponential"),
                laws_in_words(laws[2.0, "start", "driven"]),
            ),
            ClaimPart(
                "a network of them does not, where one of leaky units does",
                self._all(laws, 2.0, ["noise"], "polynomial") and self._all(laws, 0.0, ["noise"], "exponential"),
                f"r = 2: {laws_in_words(laws[2.0, 'start', 'noise'])}; r = 0: {laws_in_words(laws[0.0, 'start', 'noise'])}",
            ),
            ClaimPart(
                f"r = 2 solves the task at α = {FORGETS}/T, where leaky networks stay at chance",
                slow.low >= SOLVED and leaky.high <= CHANCE,
                f"r = 2: {slow}, r = 0: {leaky}",
            ),
            *self._recorded(laws),
        ]
        numbers = {f"accuracy, r = {r:g}, c = {c}": str(found) for (r, c), found in accuracies.items()}
        recorded = spreads(where(results.runs, task="har"), "exponent", "accuracy")
        return ClaimVerdict(parts, numbers | {f"accuracy on recordings, r = {r:g}": str(found) for r, found in recorded.items()})

    def _recorded(self, laws: dict[Any, pd.DataFrame]) -> list[ClaimPart]:
        """Judge by recordings of people who walk and rest, where there are any."""
        driven, network = RECORDED[:2], RECORDED[2:]
        claims = (
            "driven by recordings units forget exponentially for r = 2, too",
            "under recordings, too, an untrained network of them does not, where one of leaky units does",
        )
        if any((r, "start", around) not in laws for r in (0.0, 2.0) for around in RECORDED):
            return [ClaimPart(claim, None, "no recordings") for claim in claims]
        found = {
            (r, around): f"r = {r:g}, {around}: {laws_in_words(laws[r, 'start', around])}"
            for r in (2.0, 0.0)
            for around in RECORDED
        }
        slow, leaky = self._all(laws, 2.0, network, "polynomial"), self._all(laws, 0.0, network, "exponential")
        return [
            ClaimPart(claims[0], self._all(laws, 2.0, driven, "exponential"), "; ".join(found[2.0, one] for one in driven)),
            ClaimPart(claims[1], slow and leaky, "; ".join(found[r, one] for r in (2.0, 0.0) for one in network)),
        ]

    @staticmethod
    def _all(laws: dict[Any, pd.DataFrame], r: float, surroundings: Iterable[str], law: str) -> bool:
        return all(set(laws[r, "start", around]["law"]) == {law} for around in surroundings)


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
    if around.startswith(("free", "driven")):
        simplify(rnn, bias=around != "free")
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
