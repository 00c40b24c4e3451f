r"""What networks with the decay |h|^r h remember, unit by unit, and whether it helps on a task that wants the first samples.

free       no input, bias and recurrence      |dh_n/dh_0| = (1 + r alpha |h|^r n)^(-(r+1)/r)      polynomial
driven     noise and bias, no recurrence      |dh_n/dh_0| = e^(-alpha (r+1) int |h|^r)            exponential
silence    the network without input          units hear of one another: a mixture of rates, which
noise      the network under noise            differ from unit to unit for r > 0
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

import discretize
from ctrnn import Relaxation, TanhCandidate
from discretize import ContinuousRNN, DiscreteRNN, SequenceModel
from experiments.reports.spreads import NotEnoughError, spread
from experiments.runs.configuration import Configuration, configuration
from experiments.seeds import generator
from experiments.studies.results import Results, groups, spreads, where
from experiments.studies.specs import Dots, Table, across
from experiments.studies.study import Part, Point, Run, Sizes, Study, Verdict, grid, words_beside

__all__ = ["SlowMemory"]

SURROUNDINGS = ("free", "driven", "silence", "noise")
MOMENTS = {"start": "at the start", "trained": "trained"}
SEQUENCES = 16
FORGETS = 25  # of c in alpha = c/T, with which networks forget within a sequence
CHANCE, SOLVED = 0.6, 0.95


def laws_in_words(rows: pd.DataFrame) -> str:
    """ "exponential, κ 0.02 (0.01–0.04)", of the seeds; every law that was found."""
    return f"{', '.join(rows['law'].value_counts().index)}, κ {spread(rows['bend'])}"


class SlowMemory(Study):
    """Leaky networks and such with the decay |h|^r h, on a task that wants the first samples, and what they remember."""

    name = "slow-memory"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 3, "paper": 60}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, T=60, exponents=[0.0, 2.0], starts=[25], steps=10, seeds=1),
        "small": Sizes(hidden=64, T=300, exponents=[0.0, 1.0, 2.0], starts=[1, 5, 25], steps=400, seeds=3),
        "paper": Sizes(hidden=128, T=300, exponents=[0.0, 0.5, 1.0, 2.0, 4.0], starts=[1, 5, 25], steps=3000, seeds=5),
    }
    tables = (
        Table(
            "Test accuracy, mean (least–largest) over seeds; 0.5 is chance. α starts at c/T.",
            by={"r": "exponent"},
            columns=across("c", {"c = 1": 1, "c = 5": 5, "c = 25": 25}, "accuracy"),
            sort=lambda r: r,
        ),
        Table(
            "The law by which the derivative of a unit's state with respect to its own earlier one falls, c = 25, and κ, mean "
            "(least–largest) over seeds.",
            by={"r": "exponent", "": "when"},
            columns=across("around", SURROUNDINGS, laws_in_words),
            data=lambda results: where(results.rows, c=FORGETS),
            sort=lambda r, when: (r, when),
            words=MOMENTS,
        ),
    )
    figures: ClassVar = {
        "bends": Dots(
            "κ of the law by which a unit's derivative with respect to its own earlier state falls, r = 2, c = 25: 0 is an "
            "exponential, r/(r + 1) = 0.67 a unit that nothing drives.",
            x="bend", by="case", x_label="κ", x_limits=lambda least: (min(-0.5, least), 1.5),
            data=lambda results: cases(where(results.rows, c=FORGETS, exponent=2.0)),
        )
    }  # fmt: skip

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), exponent=sizes.exponents, c=sizes.starts)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return configuration(
            task="two-sequence", T=sizes.T, signal=sizes.T // 20, field="leaky-power", exponent=point["exponent"],
            integrator="euler", hidden=sizes.hidden, alpha=point["c"] / sizes.T, recurrent_gain=0.1, steps=sizes.steps, batch=64,
            seed=point["seed"], rate=1e-3, clip=1.0, evaluate_every=sizes.steps, evaluation=1000, checkpoint_every=sizes.steps,
        )  # fmt: skip

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[dict[str, Any]]:
        if run.point["c"] != FORGETS:
            return []
        moments = {"start": run.configuration.untrained_model(), "trained": model}
        return [
            {"when": when, "around": around, **law_around(run.configuration, each, around)}
            for when, each in moments.items()
            for around in SURROUNDINGS
        ]

    def verdict(self, results: Results) -> Verdict:
        accuracies = spreads(results.runs, ["exponent", "c"], "accuracy")
        if absent := [f"r = {r:g}" for r in (0.0, 2.0) if (r, FORGETS) not in accuracies]:
            raise NotEnoughError(f"no run with {' and '.join(absent)}, c = {FORGETS} is done yet")
        laws = groups(where(results.rows, c=FORGETS), ["exponent", "when", "around"])
        leaky, slow = accuracies[0.0, FORGETS], accuracies[2.0, FORGETS]
        parts = [
            Part(
                "free units forget polynomially for r = 2, exponentially for r = 0",
                self._all(laws, 2.0, ["free"], "polynomial") and self._all(laws, 0.0, ["free"], "exponential"),
                f"r = 2: {laws_in_words(laws[2.0, 'start', 'free'])}; r = 0: {laws_in_words(laws[0.0, 'start', 'free'])}",
            ),
            Part(
                "driven units forget exponentially for r = 2, too",
                self._all(laws, 2.0, ["driven"], "exponential"),
                laws_in_words(laws[2.0, "start", "driven"]),
            ),
            Part(
                "a network of them does not, where one of leaky units does",
                self._all(laws, 2.0, ["noise"], "polynomial") and self._all(laws, 0.0, ["noise"], "exponential"),
                f"r = 2: {laws_in_words(laws[2.0, 'start', 'noise'])}; r = 0: {laws_in_words(laws[0.0, 'start', 'noise'])}",
            ),
            Part(
                f"r = 2 solves the task at α = {FORGETS}/T, where leaky networks stay at chance",
                slow.low >= SOLVED and leaky.high <= CHANCE,
                f"r = 2: {slow}, r = 0: {leaky}",
            ),
        ]
        return Verdict(parts, {f"accuracy, r = {r:g}, c = {c}": str(found) for (r, c), found in accuracies.items()})

    @staticmethod
    def _all(laws: dict[Any, pd.DataFrame], r: float, surroundings: list[str], law: str) -> bool:
        return all(set(laws[r, "start", around]["law"]) == {law} for around in surroundings)


def cases(rows: pd.DataFrame) -> pd.DataFrame:
    if rows.empty:  # and has no columns, where no run that was measured is done yet
        return rows
    return rows.assign(case=rows["around"] + ", " + rows["when"].map(MOMENTS))


def law_around(configuration: Configuration, model: SequenceModel, around: str) -> dict[str, Any]:
    """How dh_n/dh_0 falls, from states that the network has under noise; in double precision."""
    rnn = copy.deepcopy(model.rnn).double()
    assert isinstance(rnn, DiscreteRNN | ContinuousRNN)
    T, draw = configuration.task.T, generator(configuration.training.seed, "memory")  # type: ignore[attr-defined]
    noise = torch.randn(3 * T, SEQUENCES, 1, generator=draw, dtype=torch.float64)
    with torch.no_grad():
        h0 = rnn(noise[T:])[1][0]
        _simplify(rnn, around)
    xs = noise[:T] * (around in ("driven", "noise"))
    law = discretize.decay_law(discretize.state_jacobians(rnn, xs, h0, fixed="start", order="units").flatten(1))
    return {"law": law.name, "bend": law.bend, "low": law.interval[0], "high": law.interval[1], "decay_rate": law.rate}


def _simplify(rnn: DiscreteRNN | ContinuousRNN, around: str) -> None:
    """Take recurrence, and of free units the bias too, away."""
    candidate = rnn.field.candidate if isinstance(rnn.field, Relaxation) else None
    assert isinstance(candidate, TanhCandidate)
    for name, parameter in candidate.named_parameters():
        if around == "free" or (around == "driven" and name == "weight_h"):
            parameter.zero_()
