r"""Trains networks by the steps that neuroscience takes, then runs the same weights exactly: what was the step's.

paper    seven tasks, tanh units: Euler at dt/tau 1, 0.5, 0.2, 0.1, and Heun, Runge-Kutta, exact solves at dt = tau, ten seeds;
         the rhythm with relu units, gated ones, noise, exponential steps, and a tutorial's network
"""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, number, paired, spread
from experiments.runs.configuration import Configuration
from experiments.seeds import drawing, generator
from experiments.studies.claims.time_steps import figures, measures
from experiments.studies.claims.time_steps.design import EULER, RHYTHM, SMOOTH, TASKS, TUTORIAL, DesignCell, configured, networks
from experiments.studies.claims.time_steps.prediction import predicted_r2
from experiments.studies.claims.time_steps.tables import NAMES, TABLES, in_words, learned, lost
from experiments.studies.claims.time_steps.tutorial import trained_tutorial
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Drawing
from experiments.studies.study import Point, Record, Row, Run, RunMeasures, Sizes, Study, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison
from experiments.tasks.cognitive import Rhythm, Trials

__all__ = ["TimeSteps", "of_others"]

COUNTED = 0.02  # of a score: the least loss that counts
WITHIN = 0.1  # of R^2, that the prediction is to be good for
FOLLOWED = 0.02  # of amplitude and period, relative
TRACE = 40.0  # time constants


class TimeSteps(Study):
    """Compares each trained network under its step with the same weights under their equation."""

    name = "ctrnn-steps"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 8, "paper": 150}
    sizes: ClassVar = scales(
        hidden=(8, 64, 64),
        steps=(3, 800, 2000),
        batch=(8, 64, 64),
        sequences=(16, 512, 512),
        rate=(3e-3,) * 3,
        seeds=(1, 2, 10),
        more=(1, 2, 5),
        tasks=((RHYTHM,), (RHYTHM, "flip-flop"), TASKS),
    )
    tables = TABLES
    figures: ClassVar = {
        "rhythm": Drawing(
            "R² of a trained rhythm under its equation, against the dt/τ of the step that trained it: each network a dot, and "
            "the line that was computed before any of them was trained, of a linear oscillator, without a parameter. Networks "
            "that learn slowly are near the line, those of the best rate below it from dt/τ = 0.2 on; Heun's are anywhere, and "
            "Runge-Kutta's lose little.",
            figures.kept_over_dt,
        ),
        "trace": Drawing(
            "One network each, its period 8 τ: the output by the step that trained it, and of the same weights under the "
            "equation. The coarser the step, the sooner the two part, in size or in time.",
            figures.traces,
        ),
        "amplitude": Drawing(
            "Amplitude of the held rhythm 200 τ on, period 8 τ, each network: under the step, in the equation, and by the "
            "modified equation, which is where the step is up to dt/τ = 0.2.",
            figures.amplitudes,
        ),
        "modes": Drawing(
            "The mode that grows most at the rest point inside each rhythm of 8 τ: its growth in the equation, and under Euler's "
            "step. Above the dotted line the step adds to it. Left of 0 the equation comes to rest: the rhythm is the step's.",
            figures.modes,
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return seed after seed; of what stands around the seven tasks three seeds come first, and the others last."""
        cells = [
            (seed, network)
            for seed in range(sizes.seeds)
            for network in networks(sizes.tasks)
            if seed < sizes.more or is_main(network)
        ]
        cells.sort(key=lambda cell: cell[0] >= 3 and not is_main(cell[1]))
        return [{**network._asdict(), "seed": seed} for seed, network in cells]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return configured(point, sizes)

    def carry_out(self, run: Run, folder: Path) -> RunMeasures:
        """Train as all studies do, but the tutorial's network by its own loop."""
        if run.point["units"] != TUTORIAL:
            return super().carry_out(run, folder)
        asked, task, begun = run.configuration, run.configuration.task, time.perf_counter()
        assert isinstance(task, Trials)
        sizes, threads = (asked.field_settings.hidden, asked.training.steps, asked.training.batch), torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            model, found = trained_tutorial(task, *sizes, asked.training.seed)
            seconds = time.perf_counter() - begun
            return RunMeasures(found, self.measure(run, model, folder), seconds)
        finally:
            torch.set_num_threads(threads)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, name, seed = run.configuration.task, run.point["step"], run.configuration.training.seed
        assert isinstance(task, Trials)
        with drawing(generator(seed, "measures")):  # of noise, where there is any
            return self._measured(run, model.eval(), task, name, seed)

    def _measured(self, run: Run, model: SequenceModel, task: Trials, name: str, seed: int) -> list[Row]:
        found = measures.scores(model, task, run.configuration.training.evaluation, seed)
        step, dt = measures.step_of(name), task.dt / run.configuration.integrator_settings.substeps
        cost = step.cost(model.field) / dt if step is not None else None
        rows: list[Row] = [{"kind": "score", **found, "cost": cost}]
        if isinstance(task, Rhythm):
            rows[0]["predicted"] = predicted_r2(EULER if name == "euler-maruyama" else name, dt, task)
        exact = copy.deepcopy(measures.noiseless(model)).double().requires_grad_(False)
        trials = task.batch(measures.STARTS, generator(seed, "starts"), "test")
        with torch.no_grad():
            states, _ = model.double().rnn(trials.xs.double(), ts=trials.ts)
        starts = states.flatten(0, 1)[:: max(1, len(states) // 2)]
        for held, x in measures.held_inputs(task).items():
            at = measures.resting_points(exact.field, x, starts)
            row = measures.rests(exact.field, x, at, step, dt)
            row["fastest"] = measures.fastest(exact.field, x, starts)
            row |= measures.rhythms(exact, step, dt, x, states[-1], at, run.point["units"] in SMOOTH)
            rows.append({"kind": "held", "held": held, **row})
        if isinstance(task, Rhythm) and seed == 0 and run.point["units"] == "tanh":
            rows.append({"kind": "trace", **measures.trace(model, task, TRACE)})
        return rows

    def headline(self, record: Record) -> str:
        score = record["rows"][0]
        return f"{number(score['own'])} as trained, {number(score['exact'])} exactly"

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = where(results.rows, kind="score")
        held = where(results.rows, kind="held")
        tanh = where(rows, units="tanh")
        if tanh.empty or set(tanh["task"]) < set(TASKS) or tanh.groupby(["task", "step", "dt"]).size().min() < 2:
            raise NotEnoughError("two seeds of every task are needed")
        rhythm, others = learned(where(tanh, task=RHYTHM)), tanh[tanh["task"] != RHYTHM]
        parts = [
            ClaimPart(
                f"rhythms that Euler's step trained at dt/τ = {dt:g} lose R² under their equation",
                Compared(lost(where(rhythm, step=EULER, dt=dt)), COUNTED, printed=False),
                f"{spread(where(rhythm, step=EULER, dt=dt)['own'])} as trained, "
                f"{spread(where(rhythm, step=EULER, dt=dt)['exact'])} exactly",
            )
            for dt in measures.DTS
        ]
        for dt in measures.DTS[1:]:
            left, said = (where(rhythm, step=EULER, dt=dt)[column] for column in ("exact", "predicted"))
            parts.append(
                ClaimPart(
                    f"at dt/τ = {dt:g} what is left is within {WITHIN:g} of what a linear oscillator keeps",
                    Compared(paired(left - said), WITHIN, absent=True, printed=False),
                    f"{number(left.mean())}, predicted {number(said.iloc[0])}",
                )
            )
        for step in ("runge-kutta4", "exact"):
            parts.append(
                ClaimPart(
                    f"trained at dt = τ, {NAMES[step]}, they lose nothing",
                    Compared(lost(where(rhythm, step=step)), COUNTED, absent=True, printed=False),
                )
            )
        parts += [of_others(where(others, step=EULER, dt=dt), dt) for dt in measures.DTS[1:]]
        stepped = where(held, units="tanh", step=EULER)
        parts.append(
            ClaimPart(
                "Euler's step makes no unstable fixed point stable, and some stable ones unstable",
                stepped["made stable"].sum() == 0 < stepped["made unstable"].sum(),
                f"{int(stepped['rests'].sum())} fixed points, {int(stepped['made unstable'].sum())} made unstable",
            )
        )
        followed = where(stepped, task=RHYTHM).query("dt <= 0.2").dropna(subset=["modified amplitude"])
        off = (followed["modified amplitude"] / followed["amplitude"] - 1).abs()
        parts.append(
            ClaimPart(
                "the modified equation has the amplitude of Euler's rhythms at dt/τ ≤ 0.2",
                bool(off.median() <= FOLLOWED),
                f"median relative difference {number(float(off.median()))}, largest {number(float(off.max()))}",
            )
        )
        return ClaimVerdict(parts)


def of_others(rows: pd.DataFrame, dt: float) -> ClaimPart:
    """Say whether no other task loses: each must not, for a yes, and one that does is a no."""
    found = {task: Compared(lost(same), COUNTED, absent=True, printed=False) for task, same in groups(rows, "task").items()}
    said = ", ".join(f"{task} {in_words(one.measured)}" for task, one in found.items())
    return ClaimPart(f"no other task loses at dt/τ = {dt:g}", EveryComparison(found), said)


def is_main(network: DesignCell) -> bool:
    return network.units == "tanh" and network.step in NAMES
