r"""Repeats figure 1 of Tallec and Ollivier 2018: the character before, on four kinds of clocks, with gates and without.

                 uniform                variable
    warped   A A A B B B C C C      A A A B C C        every character w times; 1 to w times
    padded   A - - B - - C - -      A - - B C -        once, and dummies for the rest of its time

    loss     cross entropy in nats on held-out sequences, over maximum_warping w
    rate     of each model on each clock that with which the loss at its last evaluation is least, in the mean over runs
    steps    until an evaluation on the way finds at most 0.1 nats, by that rate
    solved   a loss of at most 0.1 nats in every run; without memory it is 2.1 to 2.2
    below    log2(loss of one) - log2(loss of the other), means over runs, losses of at least 0.001 nats: below that both models
             are right, and how sure they are of it is a matter of rounding and of when training was stopped

A constant leak can be the speed of a uniform clock, and a gate that of any clock: so runs the theory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, difference, number, spread
from experiments.runs.configuration import Configuration
from experiments.runs.evaluation import evaluate
from experiments.studies.claims.training import MODELS, STEPS, TRAINING_SET, by_plateaus, learning_curve, steps_in_words, steps_to
from experiments.studies.results import Results, best_settings, groups
from experiments.studies.specs import Bands, Table, across, first, in_order
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison

__all__ = ["FLOOR", "PANELS", "SOLVED", "TESTED", "UNIFORM", "VARIABLE", "TallecFigure1"]

# As they are printed, from top left to bottom right.
PANELS = ("uniform warping", "uniform padding", "variable warping", "variable padding")
UNIFORM, VARIABLE = PANELS[:2], PANELS[2:]
SOLVED, FLOOR = 0.1, 1e-3  # nats
RATES = [1e-3, 3e-3, 1e-2]
TESTED = 10  # times as many sequences as in an evaluation on the way: 10,000 at the paper's scale
CLEARLY = 1.0  # doublings
MODERATE = 10  # "moderate warping coefficients": from here on
Losses = Mapping[tuple[str, int], Mapping[str, pd.Series]]  # (panel, warp) -> model -> test loss of each run


def chosen(results: Results) -> pd.DataFrame:
    """Select the rows of each model on each clock by the rate that an evaluation on other sequences chose."""
    return best_settings(results.rows, ["panel", "warp", "model"], ["rate"], "validation")


def with_memoryless(results: Results) -> pd.DataFrame:
    """Add the loss without memory as that of one more model, once for each clock."""
    rows = chosen(results)
    baseline = rows.drop_duplicates(["panel", "warp"])
    return pd.concat([rows, baseline.assign(model="memoryless", loss=baseline["memoryless"])])


def _steps_and_rate(rows: pd.DataFrame) -> str:
    return f"{steps_in_words(rows)}, {number(rows['rate'].iloc[0])}"


class TallecFigure1(Study):
    """Trains plain, leaky and gated networks on uniform and variable warps, repeated or padded."""

    name = "tallec-fig1"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 60, "paper": 3000}
    sizes: ClassVar = scales(
        hidden=(16, 64, 64),
        length=(24, 200, 500),
        warps=([10], [40, 20, 10], [*range(100, 9, -10), 1]),
        rates=([1e-2, 3e-3], RATES, RATES),
        steps=(10, 3000, STEPS),
        every=(5, 100, 100),
        held_out=(32, 256, 1000),
        seeds=(1, 3, 5),
        batches=(None, None, TRAINING_SET),
    )
    tables = (
        Table(
            "Test loss in nats, sequences of length {length}; mean (least–largest) over runs.",
            by={"clock": "panel", "largest warp": "warp"},
            columns={**across("model", MODELS, "loss"), "memoryless": first("memoryless"), "runs": len},
            data=chosen,
            sort=in_order(PANELS, None),
        ),
        Table(
            "Steps until an evaluation finds at most 0.1 nats, mean (least–largest) over runs, and the rate that was chosen.",
            by={"clock": "panel", "largest warp": "warp"},
            columns=across("model", MODELS, _steps_and_rate),
            data=chosen,
            sort=in_order(PANELS, None),
        ),
        Table(
            "All rates: loss at the last evaluation on the way, and the test loss; mean (least–largest) over runs.",
            by={"clock": "panel", "largest warp": "warp", "model": "model", "rate": "rate"},
            columns={"evaluation": "validation", "test": "loss"},
            data="rows",
            sort=in_order(PANELS, None, MODELS, None),
        ),
    )
    figures: ClassVar = {
        "losses": Bands(
            "Held-out loss over the largest warp: the mean over runs, a band from least to largest, and what is lost "
            "without any memory. Where gates are worth something, their line stays on the ground.",
            x="warp",
            y="loss",
            panels=("panel", PANELS),
            lines=("model", (*MODELS, "memoryless")),
            data=with_memoryless,
            x_label="largest warp, samples a symbol",
            y_label="test loss, nats",
            y_limits=(-0.08, 2.4),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), warp=sizes.warps, panel=PANELS, model=MODELS, rate=sizes.rates)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        warping, kind = point["panel"].split()
        task = {"task": "recall", "warping": warping, "padded": kind == "padding", "warp": point["warp"]}
        return by_plateaus(point, sizes, point["warp"], **task)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Measure the test, on as many sequences as the scale has, and the loss without memory."""
        task, settings = run.configuration.task, run.configuration.training
        tested = TESTED * settings.evaluation
        found = evaluate(model, task, "test", tested, settings.seed, settings.batch)
        curve = learning_curve(folder)
        ((steps, late),) = steps_to(pd.DataFrame(curve).assign(key=""), SOLVED).itertuples(index=False)
        reached = {"validation": curve[-1]["loss"], "steps": int(steps), "late": bool(late)}
        return [{"sequences": tested, **found, **reached, **task.baselines()}]

    def headline(self, record: Record) -> str:
        return f"test loss {number(record['rows'][0]['loss'])}"

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = groups(chosen(results), ["panel", "warp"])
        losses = {at: {model: runs["loss"] for model, runs in groups(same, "model").items()} for at, same in rows.items()}
        slow = {at: found for at, found in losses.items() if at[1] >= MODERATE and all(model in found for model in MODELS)}
        if absent := [panel for panel in PANELS if all(of != panel for of, _ in slow)]:
            raise NotEnoughError(f"no warp of {MODERATE} or more has runs of all three models yet for {', '.join(absent)}")
        largest = {panel: max(warp for of, warp in slow if of == panel) for panel in PANELS}
        numbers: dict[str, float | int | str] = {
            f"loss, {panel}, warp {warp}, {model}": str(spread(slow[panel, warp][model]))
            for panel, warp in largest.items()
            for model in MODELS
        }
        ends = {panel: slow[panel, warp] for panel, warp in largest.items()}
        order = sorted(slow, key=lambda at: PANELS.index(at[0]))
        beats = _beats_plain({at: slow[at] for at in order})
        return ClaimVerdict([beats, _leaky(losses), _leaky_behind(ends), _gated(losses)], numbers)


def _far_below(ours: pd.Series, theirs: pd.Series) -> Compared:
    """Compare in doublings how many times as large the other losses are, with none below those that are told apart."""
    low, high = (losses.clip(lower=FLOOR).map(math.log2) for losses in (ours, theirs))
    return Compared(difference(high, low), CLEARLY, printed=False)


def _beats_plain(losses: Losses) -> ClaimPart:
    both = {f"{panel} {warp}": (found["gated"], found["plain"]) for (panel, warp), found in losses.items()}
    alike = [name for name, pair in both.items() if max(map(max, pair)) <= FLOOR]
    apart = EveryComparison({name: _far_below(*pair) for name, pair in both.items() if name not in alike})
    below = [name for name, one in apart.of.items() if one.answer == "yes"]
    evidence = f"by the interval of each in {len(below)} of {len(both)} cases"
    if lost := [name for name in apart.of if name not in below]:
        evidence += f", not in {', '.join(f'{name} ({spread(both[name][1])})' for name in lost)}"
    if alike:
        evidence += f"; in {', '.join(alike)} no run of either loses more than {FLOOR:g} nats, and nothing is told apart"
    return ClaimPart(f"gated far below plain at warps from {MODERATE} on", False if alike else apart, evidence)


def _leaky(losses: Losses) -> ClaimPart:
    uniform = max(found["leaky"].max() for (panel, _), found in losses.items() if panel in UNIFORM and "leaky" in found)
    return ClaimPart("leaky solves uniform clocks", bool(uniform <= SOLVED), f"at most {number(uniform)} nats in any run")


def _leaky_behind(ends: Mapping[str, Mapping[str, pd.Series]]) -> ClaimPart:
    each = {panel: _far_below(ends[panel]["gated"], ends[panel]["leaky"]) for panel in VARIABLE}
    against = ", ".join(f"{spread(ends[panel]['leaky'])} against {spread(ends[panel]['gated'])}" for panel in VARIABLE)
    return ClaimPart("gated is far below leaky at the largest variable warp", EveryComparison(each), f"{against}; in doublings")


def _gated(losses: Losses) -> ClaimPart:
    found = {at: models["gated"].max() for at, models in losses.items() if "gated" in models}
    worst = max(found, key=lambda at: (found[at], -PANELS.index(at[0])))
    evidence = f"at most {number(found[worst])} nats in any run, {worst[0]} {worst[1]}"
    return ClaimPart("gated solves every clock", bool(found[worst] <= SOLVED), evidence)
