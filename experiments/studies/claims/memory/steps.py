r"""Trains networks exactly on recall, and runs them by every step map, given the clock.

R(z) = R(0) + R'(0) z + ...     z = s dt of a slow mode: the speed at which a step moves it is R'(0), and 1 of the equation
before, now                     what is said: the symbol before, which has to be kept, or the one that is seen
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, Spread, spread
from experiments.runs.configuration import Configuration
from experiments.studies.claims.compressed import on_clocks
from experiments.studies.claims.memory import measures
from experiments.studies.claims.memory.figures import accuracy_over_speed
from experiments.studies.claims.memory.measures import STEPS
from experiments.studies.claims.training import by_adam
from experiments.studies.results import Results, where
from experiments.studies.specs import Bands, Drawing, Table, across, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict
from experiments.tasks.warps.clocked import ClockedRecall

__all__ = ["CLOCKS", "NAMES", "SHOWN", "STRETCHED", "STRETCHES", "MemoryAndSteps"]

CLOCKS = (1.0, 2.0, 4.0, 8.0, 16.0)
STRETCHES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
SHOWN = (0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
STRETCHED = ("euler", "exponential-euler", "frozen-trapezoid", "frozen-backward-euler", "etd2", "fitted-midpoint")
KEPT, LOST, MENDED = 0.9, 0.5, 0.8
NAMES: dict[str | int, str] = {**{name: type(step).__name__ for name, step in STEPS.items()}, EXACT: "exact", 0: "–"}
AT_CLOCKS = {f"c = {c:g}": c for c in CLOCKS}
SAID = {"before": "Before", "now": "Now"}


def evaluations_kept(rows: pd.DataFrame) -> str:
    """Count the evaluations of a symbol on the fastest clock up to which every mean is at least 0.9; a dash for none."""
    means = rows.groupby("clock")["accuracy"].mean().sort_index()
    kept = means[(means >= KEPT).cummin()]
    cost = rows["cost"].iloc[0]
    return f"{16 / kept.index[-1] * cost:g}" if len(kept) and cost else "–"


def speeds(rows: pd.DataFrame) -> str:
    return f"{rows['speed'].mean():.2f} ({rows['derived'].mean():.2f})"


OF_STEPS = Table(
    "Accuracy of what is kept, the symbol before, mean (least–largest) over seeds. Cost: evaluations a step. A symbol: "
    "evaluations on the fastest clock up to which the mean is at least 0.9.",
    by={"step": "map", "cost": "cost"},
    columns={**across("clock", AT_CLOCKS, "accuracy"), "a symbol": evaluations_kept},
    data=only(kind="clock", said="before"),
    words=NAMES,
    sort=lambda _, cost: cost,
)


class MemoryAndSteps(Study):
    """Trains gated networks exactly to say the symbol before, or the present one, and runs every step map on five clocks."""

    name = "memory-steps"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 8, "paper": 240}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, characters=4, steps=10, rate=4e-3, sequences=8, seeds=1),
        "small": Sizes(hidden=48, characters=10, steps=400, rate=4e-3, sequences=64, seeds=5),
        "paper": Sizes(hidden=128, characters=20, steps=2000, rate=2e-3, sequences=256, seeds=5),
    }
    tables = (
        OF_STEPS,
        replace(
            OF_STEPS, caption="The same of a task without memory, the symbol that is seen.", data=only(kind="clock", said="now")
        ),
        Table(
            "Speed at which a step moves the state, mean over seeds, in brackets what is derived for slow modes at these leaks.",
            by={"weights": "weights", "step": "map"},
            columns=across("clock", dict(list(AT_CLOCKS.items())[1:]), speeds),
            data=only(kind="speed"),
            words=NAMES,
            sort=lambda weights, _: weights,
        ),
        Table(
            "Accuracy of the symbol before where the map takes every sample as s times as long; mean (least–largest) over seeds.",
            by={"step": "map", "c": "clock"},
            columns=across("stretch", {f"s = {s:g}": s for s in SHOWN}, "accuracy"),
            data=only(kind="stretch", said="before"),
            words=NAMES,
            sort=lambda name, _: name,
        ),
        Table(
            "What the first terms drop against F, in size and, with its sign, along F; the leak and the slowest mode, largest Re "
            "of F', times dt. Medians over samples, mean (least–largest) over seeds.",
            by={"weights": "weights", "c": "clock"},
            columns={
                "dt/2 F'F": "euler size",
                "along": "euler along",
                "dt/2 (F' + g) F": "exponential size",
                "along ": "exponential along",
                "g dt": "leak",
                "slowest": "slowest",
            },
            data=only(kind="dropped"),
            sort=lambda weights, clock: (weights, clock),
        ),
    )
    figures: ClassVar = {
        "speed": Drawing(
            "Accuracy against the speed at which time passes for the network. Line: the exact solution, slowed down or sped up. "
            "Marks: steps on c = 2, 4 and 8 (larger), each seed, at their measured speed; slow ones lie below the line, so that "
            "not all is speed. The symbol before is kept within a fifth of the right speed; the one that is seen from half of it "
            "on.",
            accuracy_over_speed,
        ),
        "clocks": Bands(
            "Accuracy over clocks: the mean over seeds, and a band from the least to the largest. A step is c / 4 units of time.",
            x="clock",
            y="accuracy",
            x_label="speed c of the clock",
            y_label="accuracy",
            x_log=True,
            y_limits=(-0.03, 1.05),
            lines=("map", {name: NAMES[name] for name in ("euler", "exponential-euler", "etd2", "fitted-midpoint", "etdrk4")}),
            panels=("said", {"before": "the symbol before", "now": "the symbol that is seen"}),
            data=only(kind="clock"),
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), said=SAID)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "clocked-recall", "clocks": (16.0,), "clock_given": True, "counted": "last", "said": point["said"]}
        return by_adam(point, sizes, **task, characters=sizes.characters, field="gated", integrator=EXACT, threads=1)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, ClockedRecall)
        batches = on_clocks(task, CLOCKS, training)
        rows: list[Row] = []
        for clock, batch in batches.items():
            for name in (EXACT, *STEPS):
                cost = STEPS[name].cost(model.field) if name in STEPS else 0
                found = measures.accuracy(model, name, task, clock, batch)
                rows.append({"kind": "clock", "map": name, "clock": clock, "accuracy": found, "cost": cost})
        for name, clock in [(EXACT, 16.0), *((name, c) for name in STRETCHED for c in (2.0, 4.0, 8.0))]:
            for s in STRETCHES if name == EXACT else SHOWN:
                found = measures.accuracy(model, name, task, clock, batches[clock], s)
                rows.append({"kind": "stretch", "map": name, "clock": clock, "stretch": s, "accuracy": found})
        networks = {task.said: model} | ({"untrained": run.configuration.untrained_model()} if task.said == "before" else {})
        for (weights, network), clock in itertools.product(networks.items(), CLOCKS[1:]):
            exact = measures.exact_steps(network, task, clock, batches[clock])
            rows.append({"kind": "dropped", "weights": weights, "clock": clock, **measures.dropped(exact)})
            for name, step in STEPS.items():
                moved = {"speed": measures.speed(step, exact), "derived": measures.derived_speed(step, exact)}
                rows.append({"kind": "speed", "weights": weights, "map": name, "clock": clock, **moved})
        return rows

    def verdict(self, results: Results) -> ClaimVerdict:
        def at(what: str, column: str, **values: object) -> Spread:
            found = where(results.rows, kind=what, **values)[column].dropna()
            if found.empty:
                raise NotEnoughError("runs of both tasks are needed")
            return spread(found)

        def accuracy(name: str, clock: float, said: str = "before") -> Spread:
            return at("clock", "accuracy", map=name, clock=clock, said=said)

        if accuracy(EXACT, 4.0).mean < KEPT:
            raise NotEnoughError("networks have not learned the task; a larger scale decides.")
        return ClaimVerdict(_parts(at, accuracy), {f"accuracy, {NAMES[name]}, c = 4": str(accuracy(name, 4.0)) for name in STEPS})


def _parts(at: Callable[..., Spread], accuracy: Callable[..., Spread]) -> list[ClaimPart]:
    slow = "exponential-euler"
    euler, exponential, fourth = (accuracy(name, 4.0) for name in ("euler", slow, "etdrk4"))
    runs, derived = (at("speed", column, map=slow, clock=4.0, weights="before") for column in ("speed", "derived"))
    fresh = at("speed", "speed", map=slow, clock=4.0, weights="untrained")
    slowed, less = (at("stretch", "accuracy", map=EXACT, stretch=s, said="before") for s in (0.6, 0.7))
    mended = at("stretch", "accuracy", map=slow, clock=4.0, stretch=2.0, said="before")
    beyond = max((at("stretch", "accuracy", map=slow, clock=8.0, stretch=s, said="before") for s in SHOWN), key=lambda s: s.mean)
    unmoved, now = at("speed", "speed", map=slow, clock=4.0, weights="now"), accuracy(slow, 4.0, "now")
    cheap = {
        name: accuracy(name, 8.0) for name, step in STEPS.items() if step.evaluations + step.tangents <= 2 and not step.jacobians
    }
    fitted = cheap.pop("fitted-midpoint")
    best = max(cheap, key=lambda name: cheap[name].mean)
    return [
        ClaimPart(
            "at c = 4 Euler keeps recall and exponential Euler loses it",
            euler.low >= KEPT and exponential.high <= LOST,
            f"{euler} against {exponential}; ETD-RK4 {fourth}",
        ),
        ClaimPart(
            "exponential Euler runs at the speed that is derived for slow modes, and untrained weights do not",
            abs(runs.mean - derived.mean) <= 0.1 < fresh.mean - derived.mean,
            f"{runs}, derived {derived}; untrained, where nothing is as slow, {fresh}",
        ),
        ClaimPart("the exact solution, slowed down to 0.6, loses recall too", slowed.high <= LOST, f"{slowed}; to 0.7, {less}"),
        ClaimPart("stretching samples by 2 mends it at c = 4", mended.low >= MENDED, str(mended)),
        ClaimPart("at c = 8, where g dt is above 1, no stretch does", beyond.high <= LOST, f"at best {beyond}"),
        ClaimPart("as slow a step keeps what needs no memory", now.low >= KEPT, f"{now} at the speed {unmoved}"),
        ClaimPart(
            "of steps of at most two evaluations the fitted midpoint rule alone keeps recall at c = 8",
            fitted.low >= KEPT > cheap[best].mean,
            f"{fitted}; the next, {NAMES[best]}, {cheap[best]}",
        ),
    ]
