r"""Trains gates without a bound, by steps and exactly: what g dt becomes, what the step costs, and which speeds are read.

softplus, exponential gates      g dt may pass 1, where Euler's step overshoots, and 2, where it diverges
sigmoid gates                    the control: on samples of one unit they cannot
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.models.integrators import EXACT, under
from experiments.reports.spreads import NotEnoughError, Spread, number, paired, spread
from experiments.runs.configuration import Configuration
from experiments.studies.claims.memory.rates import Played, played, right_answers
from experiments.studies.claims.recordings import SOURCES, folders_found
from experiments.studies.claims.training import POINTS, by_adam, metrics
from experiments.studies.clocks.rollout import FINE, RATES, Rollout, roll_out
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, across, in_order, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, need_intervals
from experiments.tasks.task import Batch

__all__ = ["GatesBeyondOne"]

WAYS = {
    "euler": "Euler",
    "capped-euler": "Euler, capped at 1",
    "exponential-euler": "exponential Euler",
    "frozen-backward-euler": "linearly implicit",
    EXACT: "exact",
}
GATES = {"softplus": "softplus", "exponential": "exponential", "sigmoid": "sigmoid, the control"}
TASKS = {"recall": "recall", "tones": "tones", "vowels": "JapaneseVowels"}
SPEEDS = (0.5, 1.0, 2.0, 4.0)
FAST = 2.0  # at which networks are compared
CURVE = ("g_dt_median", "g_dt_high", "g_dt_largest", "capped")
PASSES, COSTS, AHEAD = 0.05, 0.05, 0.1  # a share of g dt above 1, and accuracies, that count


def cost_rows(results: Results) -> pd.DataFrame:
    """Select what was measured at s = 1, and add a row for each training that diverged."""
    lost = results.runs[results.runs["key"].isin(results.diverged)]
    frame = (
        pd.concat([where(results.rows, kind="cost"), lost.assign(finite=False)])
        if len(lost)
        else where(results.rows, kind="cost")
    )
    return frame.sort_values(["task", "gate", "trained"], key=lambda column: column.map(list({**TASKS, **GATES, **WAYS}).index))


def diverged(rows: pd.DataFrame) -> str:
    return f"{int((rows['finite'] == False).sum())} of {len(rows)}"  # noqa: E712 - a column


def shown(column: str) -> Any:
    """Make a cell of the spread of the numbers there are."""

    def cell(rows: pd.DataFrame) -> Spread | None:
        found = rows[column].dropna()
        return spread(found) if len(found) else None

    return cell


def lost(rows: pd.DataFrame) -> str | None:
    """Write the mean of what is lost by solving the same weights exactly, with its 95 % interval."""
    found = paired(rows["own"] - rows["exact"])
    return f"{found:.3f}" if math.isfinite(found.low) else None


BY = {"task": "task", "gate": "gate", "trained": "trained"}
WORDS = {**TASKS, **GATES, **WAYS}
IN_ORDER = in_order(TASKS, GATES, WAYS)


class GatesBeyondOne(Study):
    """Trains softplus gates by steps and exactly, beside sigmoid gates, and solves all of them."""

    name = "gates-beyond-one"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 25, "paper": 3000}
    sizes: ClassVar = scales(
        hidden=(8, 32, 128),
        characters=(4, 10, 20),
        steps=(6, 300, 3000),
        rate=(4e-3, 4e-3, 1e-3),
        sequences=(32, 256, 1000),
        recordings=(32, 3000, 3000),  # all of the test: they are sorted by speaker
        seeds=(1, 5, 5),
        ways=(
            {"softplus": ["euler", "capped-euler", EXACT], "sigmoid": ["euler", EXACT]},
            {"softplus": WAYS, "sigmoid": ["euler", EXACT], "exponential": ["euler", "capped-euler"]},
            {"softplus": WAYS, "sigmoid": WAYS, "exponential": WAYS},
        ),
    )
    may_diverge = True
    needs = (SOURCES["vowels"].folder,)
    tables = (
        Table(
            "What g dt became, on the test and run as trained; mean (least–largest) over the seeds that did not diverge. "
            "Diverged: trainings.",
            by=BY,
            columns={
                "diverged": diverged,
                "median": shown("median"),
                "share above 1": shown("above 1"),
                "share above 2": shown("above 2"),
                "largest": shown("largest"),
            },
            data=cost_rows,
            words=WORDS,
            sort=IN_ORDER,
        ),
        Table(
            "What the step costs, at s = 1: accuracy as trained, and of the same weights solved; lost, with its 95 % interval "
            "over seeds; states apart, as a share of their spread.",
            by=BY,
            columns={"as trained": shown("own"), "solved": shown("exact"), "lost": lost, "states apart": shown("apart")},
            data=lambda results: where(cost_rows(results), finite=True),
            words=WORDS,
            sort=IN_ORDER,
        ),
        Table(
            "Accuracy where a sample lasts s units, in training 1, which is given: run as trained, or the same weights solved.",
            by={**BY, "run": "way"},
            columns=across("length", {f"s = {s:g}": s for s in SPEEDS}, "accuracy"),
            data=only(kind="speed"),
            words={**WORDS, "own": "as trained", "solved": "solved"},
            sort=in_order(TASKS, GATES, WAYS, ("own", "solved")),
        ),
    )
    figures: ClassVar = {
        "g-dt": Bands(
            "Softplus gates in training: the g dt that 99 % of units, samples and sequences do not exceed; the mean over the "
            "seeds that have not diverged, and a band from the least to the largest. The last step before a training diverged "
            "is a point of that seed alone. Of exact solves there are no steps. Lines: 1, from where on Euler's step overshoots, "
            "and 2, from where on it grows, on a target that is held.",
            x="step",
            y="g_dt_high",
            lines=("trained", {way: name for way, name in WAYS.items() if way != EXACT}),
            x_label="step of training",
            y_label="g dt",
            panels=("task", TASKS),
            data=only(kind="training", gate="softplus"),
            levels={"1": 1.0, "2": 2.0},
        ),
        "speeds": Bands(
            "Softplus gates, run as they were trained, by one step a sample or exactly, on samples that last s units, which is "
            "given; 1 in training. What is not finite is wrong, so that a run may be below a guess.",
            x="length",
            y="accuracy",
            lines=("trained", WAYS),
            x_label="length s of a sample",
            y_label="accuracy",
            x_log=True,
            y_limits=(-0.03, 1.05),
            panels=("task", TASKS),
            data=only(kind="speed", gate="softplus", way="own"),
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        tasks = [name for name in TASKS if name not in SOURCES or name in folders_found()]
        each = [point for gate, ways in sizes.ways.items() for point in grid(task=tasks, gate=[gate], trained=ways)]
        return [{**point, "seed": seed} for seed in range(sizes.seeds) for point in each]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task: dict[str, Any] = {"task": point["task"], "clock_given": False}
        if point["task"] == "recall":
            task = {"task": "clocked-recall", "clocks": (4.0,), "clock_given": True, "characters": sizes.characters}
        if point["task"] in SOURCES:
            task |= {"data": str(folders_found().get(point["task"])), "evaluation": sizes.recordings}
        return by_adam(point, sizes, **task, field=RATES[point["gate"]], integrator=point["trained"], threads=1)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, Played)
        solved, rows = under(model, EXACT, FINE), list[Row]()
        for s in SPEEDS:
            batches = list(played(task, s, training.evaluation, training.seed))
            ran = {way: [roll_out(one, batch, s) for batch in batches] for way, one in (("own", model), ("solved", solved))}
            right = {way: _accuracy(task, s, batches, found) for way, found in ran.items()}
            rows += [{"kind": "speed", "way": way, "length": s, "accuracy": accuracy} for way, accuracy in right.items()]
            if s == 1:
                found = {"own": right["own"], "exact": right["solved"], "apart": _apart(batches, ran["own"], ran["solved"])}
                rows.append({"kind": "cost", "finite": True, **found, **_g_dt(ran["own"])})
        return rows + self.measure_diverged(run, folder)

    def measure_diverged(self, run: Run, folder: Path) -> list[Row]:
        """Read g dt over the steps of training, up to where it diverged if it did."""
        there = [row for row in metrics(folder) if row["g_dt_high"]]
        apart = max(1, run.configuration.training.steps // POINTS)
        every = [row for k, row in enumerate(there) if k % apart == 0 or k == len(there) - 1]  # the last, by which it is lost
        return [
            {"kind": "training", "step": int(row["step"]), **{name: float(row[name]) for name in CURVE if row[name]}}
            for row in every
        ]

    def verdict(self, results: Results) -> ClaimVerdict:
        costs, speeds = where(results.rows, kind="cost"), where(results.rows, kind="speed", way="own")
        if where(costs, gate="sigmoid").empty or where(costs, gate="softplus").empty:
            raise NotEnoughError("softplus and sigmoid gates are needed, trained by Euler steps and exactly.")
        parts, more = list[ClaimPart](), "by more than with sigmoid gates"
        for task, name in TASKS.items():
            mine = {gate: where(costs, task=task, gate=gate, trained="euler").set_index("seed") for gate in GATES}
            tried = len(where(results.runs, task=task, gate="softplus", trained="euler"))
            if len(mine["softplus"]) < min(tried, 2) or not tried:
                parts += _without(results, task, name)
                continue
            parts.append(_passes(name, mine["softplus"]["above 1"], tried))
            off = {gate: rows["own"] - rows["exact"] for gate, rows in mine.items()}
            claim = f"{name}: the weights that Euler's step trained lose accuracy where they are solved"
            parts += [_part(claim, off["softplus"], COSTS, tried)]
            parts += [_part(f"{name}: they do {more}", off["softplus"] - off["sigmoid"], COSTS, tried)]
            ahead = {}
            for gate in ("softplus", "sigmoid"):
                found = where(speeds, task=task, gate=gate, length=FAST)
                exact, stepped = (where(found, trained=way).set_index("seed")["accuracy"] for way in (EXACT, "euler"))
                ahead[gate] = exact - stepped
            claim = f"{name} at s = {FAST:g}: trained and run exactly networks are ahead of those with one Euler step a sample"
            parts += [_part(claim, ahead["softplus"], AHEAD, tried)]
            parts += [_part(f"{name} at s = {FAST:g}: they are {more}", ahead["softplus"] - ahead["sigmoid"], AHEAD, tried)]
        need_intervals(parts)
        return ClaimVerdict([*parts, *_alive(results)], {**_diverged(results), **_numbers(costs)})


def _without(results: Results, task: str, name: str) -> list[ClaimPart]:
    """Say that there is nothing to measure where trainings by Euler's step diverged, all or all but one; nothing of a task that
    was left out."""
    tried = where(results.runs, task=task, gate="softplus", trained="euler")["key"]
    gone = int(tried.isin(results.diverged).sum())
    measured = "there is nothing to measure" if gone == len(tried) else "no interval can be had of what is left"
    claim = f"{name}: what softplus gates trained by Euler's step come to, and what is lost"
    return [ClaimPart(claim, None, f"{gone} of {len(tried)} trainings diverged, so that {measured}")] if len(tried) else []


def _part(claim: str, differences: pd.Series, effect: float, tried: int) -> ClaimPart:
    """Answer by the interval of differences over seeds, those of which there are both."""
    pairs = differences.dropna()
    return ClaimPart(claim, Compared(paired(pairs), effect, printed=False), _left(len(pairs), tried))


def _passes(name: str, shares: pd.Series, tried: int) -> ClaimPart:
    claim = f"{name}: more than {PASSES:g} of g dt is above 1 after training by Euler's step"
    said = f"a share of {shares.mean():.3f}"
    return ClaimPart(
        claim, Compared(paired(shares), PASSES, printed=False), "; ".join(filter(None, (_left(len(shares), tried), said)))
    )


def _left(seeds: int, tried: int) -> str:
    """Say how many seeds are left, where it is not all: which diverged is no chance."""
    return f"{seeds} of {tried} seeds are left" if seeds < tried else ""


def _alive(results: Results) -> list[ClaimPart]:
    """Say of exponential gates whether capped steps are trained to the end where Euler's are not."""
    mine = {way: where(results.runs, gate="exponential", trained=way)["key"] for way in ("euler", "capped-euler")}
    if not all(map(len, mine.values())):
        return []
    gone = {way: int(keys.isin(results.diverged).sum()) for way, keys in mine.items()}
    holds = None if not gone["euler"] else not gone["capped-euler"]
    said = "; ".join(f"{WAYS[way]}: {gone[way]} of {len(keys)} diverged" for way, keys in mine.items())
    return [ClaimPart("exponential gates, where Euler's step diverges in training, a capped one does not", holds, said)]


def _diverged(results: Results) -> dict[str, float | int | str]:
    """Count the trainings that diverged, by gate and way, of those with any."""
    found = groups(results.runs.assign(gone=results.runs["key"].isin(results.diverged)), ["gate", "trained"])
    return {
        f"trainings that diverged, {gate} gates, {WAYS[way]}": f"{int(rows['gone'].sum())} of {len(rows)}"
        for (gate, way), rows in found.items()
        if rows["gone"].any() or way == "capped-euler"
    }


def _numbers(costs: pd.DataFrame) -> dict[str, float | int | str]:
    return {
        f"{TASKS[task]}, {gate}, trained {WAYS[way]}: median and largest g dt, states apart": ", ".join(
            number(float(rows[name].median()), 2) if rows[name].notna().any() else "×" for name in ("median", "largest", "apart")
        )
        for (task, gate, way), rows in groups(costs, ["task", "gate", "trained"]).items()
    }


def _accuracy(task: Played, s: float, batches: list[Batch], found: list[Rollout | None]) -> float:
    """Count what is right; what a solver cannot go on with, or is not finite, is wrong."""
    right = [
        torch.zeros(batch.size) if one is None else right_answers(task, s, batch, one.outputs).float()
        for batch, one in zip(batches, found, strict=True)
    ]
    return float(torch.cat(right).mean())


def _apart(batches: list[Batch], one: list[Rollout | None], other: list[Rollout | None]) -> float | None:
    """Measure how far states are from the solved ones, over how far these are from each unit's mean: roots of mean squares."""
    pairs = []
    for batch, mine, theirs in zip(batches, one, other, strict=True):
        if mine is None or theirs is None:
            return None
        read = torch.ones(theirs.states.shape[:2], dtype=torch.bool)
        if batch.lengths is not None:
            read = torch.arange(len(read))[:, None] < batch.lengths
        pairs.append((mine.states[read] - theirs.states[read], theirs.states[read]))
    off, solved = (torch.cat(parts).double() for parts in zip(*pairs, strict=True))
    share = float((off.pow(2).mean() / solved.var(0, correction=0).mean()).sqrt())
    return share if math.isfinite(share) else None


def _g_dt(found: list[Rollout | None]) -> Row:
    values = torch.cat([one.g_dt for one in found if one is not None])
    median = float(values.nanmedian())
    finite = values[values.isfinite()]
    above = {f"above {level}": float((~(values <= level)).double().mean()) for level in (1, 2)}  # what is no number is
    return {"median": median if math.isfinite(median) else None, "largest": float(finite.max()), **above}
