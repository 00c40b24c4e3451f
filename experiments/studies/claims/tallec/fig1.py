r"""Repeats figure 1 of Tallec and Ollivier 2018: the character before, on four kinds of clocks, with gates and without.

                 uniform                variable
    warped   A A A B B B C C C      A A A B C C        every character w times; 1 to w times
    padded   A - - B - - C - -      A - - B C -        once, and dummies for the rest of its time

    loss     cross entropy in nats on held-out sequences, over maximum_warping w
    rate     of each model on each clock that with which the loss at its last evaluation is least, in the mean over runs
    steps    until an evaluation on the way finds at most 0.1 nats, by that rate
    solved   a mean loss of at most 0.1 nats; without memory it is 2.1 to 2.2
    floor    losses that differ by less than 0.001 nats are not told apart: both models are right, and how sure they are of it is
             a matter of rounding and of when training was stopped

A constant leak can be the speed of a uniform clock, and a gate that of any clock: so runs the theory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, number
from experiments.runs.configuration import Configuration
from experiments.runs.evaluation import evaluate
from experiments.studies.claims.training import MODELS, STEPS, TRAINING_SET, by_plateaus, learning_curve, steps_in_words, steps_to
from experiments.studies.results import Results, best_settings, groups, spreads
from experiments.studies.specs import Bands, Table, across, first, in_order
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict

__all__ = ["FLOOR", "PANELS", "SOLVED", "TESTED", "UNIFORM", "VARIABLE", "TallecFigure1"]

# As they are printed, from top left to bottom right.
PANELS = ("uniform warping", "uniform padding", "variable warping", "variable padding")
UNIFORM, VARIABLE = PANELS[:2], PANELS[2:]
SOLVED, FLOOR = 0.1, 1e-3  # nats
RATES = [1e-3, 3e-3, 1e-2]
TESTED = 10  # times as many sequences as in an evaluation on the way: 10,000 at the paper's scale
MODERATE = 10  # "moderate warping coefficients": from here on
Losses = Mapping[tuple[str, int], Mapping[str, Spread]]  # (panel, warp) -> model -> test loss


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
            by={"clock": "panel", "maximum_warping": "warp"},
            columns={**across("model", MODELS, "loss"), "memoryless": first("memoryless"), "runs": len},
            data=chosen,
            sort=in_order(PANELS, None),
        ),
        Table(
            "Steps until an evaluation finds at most 0.1 nats, mean (least–largest) over runs, and the rate that was chosen.",
            by={"clock": "panel", "maximum_warping": "warp"},
            columns=across("model", MODELS, _steps_and_rate),
            data=chosen,
            sort=in_order(PANELS, None),
        ),
        Table(
            "All rates: loss at the last evaluation on the way, and the test loss; mean (least–largest) over runs.",
            by={"clock": "panel", "maximum_warping": "warp", "model": "model", "rate": "rate"},
            columns={"evaluation": "validation", "test": "loss"},
            data="rows",
            sort=in_order(PANELS, None, MODELS, None),
        ),
    )
    figures: ClassVar = {
        "losses": Bands(
            "Held-out loss over maximum_warping: the mean over runs, a band from least to largest, and what is lost "
            "without any memory. Where gates are worth something, their line stays on the ground.",
            x="warp",
            y="loss",
            panels=("panel", PANELS),
            lines=("model", (*MODELS, "memoryless")),
            data=with_memoryless,
            x_label="maximum_warping",
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
        losses = {at: spreads(same, "model", "loss") for at, same in groups(chosen(results), ["panel", "warp"]).items()}
        slow = {at: found for at, found in losses.items() if at[1] >= MODERATE and all(model in found for model in MODELS)}
        if absent := [panel for panel in PANELS if all(of != panel for of, _ in slow)]:
            raise NotEnoughError(f"no warp of {MODERATE} or more has runs of all three models yet for {', '.join(absent)}")
        largest = {panel: max(warp for of, warp in slow if of == panel) for panel in PANELS}
        numbers: dict[str, float | int | str] = {
            f"loss, {panel}, warp {warp}, {model}": str(slow[panel, warp][model])
            for panel, warp in largest.items()
            for model in MODELS
        }
        ends = {panel: slow[panel, warp] for panel, warp in largest.items()}
        order = sorted(slow, key=lambda at: PANELS.index(at[0]))
        return ClaimVerdict([_beats_plain({at: slow[at] for at in order}), _leaky(losses, ends), _gated(losses)], numbers)


def _told_apart(ours: Spread, theirs: Spread) -> bool:
    return abs(theirs.mean - ours.mean) >= FLOOR


def _far_below(ours: Spread, theirs: Spread) -> bool:
    return _told_apart(ours, theirs) and ours.high < theirs.low and ours.mean < theirs.mean / 2


def _beats_plain(losses: Losses) -> ClaimPart:
    both = {f"{panel} {warp}": (found["gated"], found["plain"]) for (panel, warp), found in losses.items()}
    alike = [name for name, pair in both.items() if not _told_apart(*pair)]
    lost = [name for name, pair in both.items() if not _far_below(*pair) and name not in alike]
    evidence = f"in {len(both) - len(lost) - len(alike)} of {len(both)} cases"
    evidence += f", not in {', '.join(lost)}" if lost else ""
    evidence += f", not told apart, by less than {FLOOR:g} nats, in {', '.join(alike)}" if alike else ""
    failed = max((warp for panel, warp in losses if f"{panel} {warp}" in (*lost, *alike)), default=0)
    beyond = [warp for _, warp in losses if warp > failed]
    evidence += f"; from {min(beyond)} on in all: what is moderate is a definition" if failed and beyond else ""
    return ClaimPart(f"gated far below plain at warps from {MODERATE} on", not lost and not alike, evidence)


def _leaky(losses: Losses, ends: Mapping[str, Mapping[str, Spread]]) -> ClaimPart:
    """Judge whether leaky solves what is uniform, and is left behind by the gated network at the largest variable warps."""
    uniform = max(found["leaky"].mean for (panel, _), found in losses.items() if panel in UNIFORM and "leaky" in found)
    behind = all(_far_below(ends[panel]["gated"], ends[panel]["leaky"]) for panel in VARIABLE)
    against = ", ".join(f"{panel} {ends[panel]['leaky']} against {ends[panel]['gated']} of the gated" for panel in VARIABLE)
    return ClaimPart(
        "leaky solves uniform clocks and is far above gated at the largest variable warp",
        uniform <= SOLVED and behind,
        f"at most {number(uniform)} nats on uniform clocks; {against}",
    )


def _gated(losses: Losses) -> ClaimPart:
    found = {at: models["gated"].mean for at, models in losses.items() if "gated" in models}
    worst = max(found, key=lambda at: (found[at], -PANELS.index(at[0])))
    evidence = f"at most {number(found[worst])} nats, {worst[0]} {worst[1]}"
    return ClaimPart("gated solves every clock", found[worst] <= SOLVED, evidence)
