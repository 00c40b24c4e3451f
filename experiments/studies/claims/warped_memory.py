r"""Trains cells on symbols that are repeated at random, holds a symbol for much longer, and asks what kept the one before.

an attractor   states that follow different symbols end apart          a latch, by construction, does
a clock        gates shut while nothing changes
a transient    a memory that ends, after a time in proportion to the longest hold of training
"""

from __future__ import annotations

import copy
import dataclasses
import math
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, number, paired, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.runs.stopping import StoppedError
from experiments.runs.training import train
from experiments.seeds import generator
from experiments.studies.claims.learned_clocks import SOLVED
from experiments.studies.claims.stop_and_go import ADAM, NAMES
from experiments.studies.claims.training import once
from experiments.studies.clocks.held_memory import (
    ANOTHER,
    HELD,
    HORIZON,
    Probe,
    answers,
    ends,
    forgotten,
    gates_held,
    in_other_gates,
    latch,
    shut_after,
    slow_modes,
)
from experiments.studies.clocks.held_memory import SOLVED as EXACTLY
from experiments.studies.clocks.oracle import StopAndGo
from experiments.studies.clocks.oracle_clocks import SEQUENCES, SYMBOLS, symbols_of
from experiments.studies.results import Results, where
from experiments.studies.specs import Bands, Table, in_order, run_count
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, key_of, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared

__all__ = ["CELLS", "WarpedMemory"]

CELLS = ("gated", "gru", "lstm")
FIRST = 3  # seeds of all warps before there are more
TIMES = (1, 2, 4, 8, 16, HORIZON)  # of the largest warp, at which answers are counted
HALF, LOST, SPOILT, OPEN, FACTOR, POWER = 0.5, 0.05, 0.25, 0.1, 1.0, 0.25  # effects, as the page says them
MOST_LEFT_OUT = 0.1  # of networks that have not forgotten
TRAINED, UNTRAINED, LATCH = "trained", "untrained", "latch"


def networks(results: Results) -> pd.DataFrame:
    """Select what was measured of each network, a row each, with the accuracy of its training."""
    rows = where(results.rows, kind="network")
    found = rows.merge(results.runs[["key", "accuracy"]], on="key")
    return found.assign(times=found.get("times", math.nan))


def solving(results: Results) -> pd.DataFrame:
    """Select trained networks that solve their task, started by chrono as the largest warp has it."""
    found = networks(results)
    return found[(found["weights"] == TRAINED) & found["times"].isna() & (found["accuracy"] >= SOLVED)]


def power(rows: pd.DataFrame) -> Spread:
    """Fit p of forgotten = c warp^p by least squares of logarithms: p - 1, with its 95 % interval."""
    from scipy.stats import linregress, t  # noqa: PLC0415

    x, y = (rows[name].astype(float).map(math.log2) for name in ("warp", "forgotten"))
    if len(rows) < 3 or x.nunique() < 2:
        return Spread(math.nan, -math.inf, math.inf, len(rows))
    fit, freedom = linregress(x, y), len(rows) - 2
    half = float(t.ppf(0.975, freedom) * fit.stderr)
    return Spread(float(fit.slope) - 1, float(fit.slope) - 1 - half, float(fit.slope) - 1 + half, len(rows), freedom)


def of_start(results: Results, cell: str) -> pd.Series:
    """Pair networks that started from other times with those of their seed and warp: by how many factors of 2 longer they
    remember where they began from longer times, or shorter where from shorter ones."""
    mine = where(networks(results), cell=cell, weights=TRAINED)
    mine = forgetful(mine[mine["accuracy"] >= SOLVED])
    own, other = mine[mine["times"].isna()], mine[mine["times"].notna()]
    both = other.merge(own, on=["seed", "warp"], suffixes=("", "_own"))
    signs = (both["times"] > both["warp"]).map({True: 1.0, False: -1.0})
    return signs * (both["forgotten"] / both["forgotten_own"]).map(math.log2)


def share(column: str) -> Any:
    """Make a cell of a table: the spread of a column, of those networks where it was measured."""
    return lambda rows: spread(found) if len(found := rows[column].dropna()) else None


def forgetful(rows: pd.DataFrame) -> pd.DataFrame:
    """Select networks that have forgotten within the longest hold."""
    return rows[~rows["kept"].astype(bool)]


def lasting(rows: pd.DataFrame, by_warp: bool = False) -> str:
    """Write the forgetting time of those that have forgotten, and how many have not: "40.5 (40.0-41.0), 1 not"."""
    found, kept = forgetful(rows), int(rows["kept"].sum())
    times = found["forgotten"] / found["warp"] if by_warp else found["forgotten"]
    return ", ".join([*([str(spread(times))] if len(found) else []), *([f"{kept} not"] if kept and not by_warp else [])])


def after(samples: int) -> Any:
    return lambda rows: spread(where(rows, kind="held", weights=TRAINED, samples=samples)["right"])


def in_gates(gate: str) -> Any:
    def cell(rows: pd.DataFrame) -> object:
        found = where(rows, kind="gates", gate=gate)["at_ends"]
        return spread(found) if len(found) else None

    return cell


def with_start(rows: pd.DataFrame) -> pd.DataFrame:
    """Name the times from which gates start in every row."""
    times = rows["times"] if "times" in rows else pd.Series(math.nan, rows.index)
    return rows.assign(start=times.fillna(rows["warp"]).astype(int))


def not_solving(results: Results) -> str:
    left = results.runs[results.runs["accuracy"] < SOLVED]["key"]
    return f"; {len(left)} of {len(results.runs)} networks do not solve their task" if len(left) else ""


BY = {"repetitions": "warp", "cell": "cell"}
LINES = {cell: NAMES.get(cell, cell) for cell in CELLS}


class WarpedMemory(Study):
    """Trains three cells on four warps, and looks at what they do while a symbol is held."""

    name = "warped-memory"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 1, "small": 60, "paper": 630}
    may_diverge = True
    sizes: ClassVar = scales(
        hidden=(8, 32, 64),
        length=(24, 400, 800),
        steps=(20, 1500, 4689),
        warps=([5], [10, 40, 20, 80], [10, 40, 20, 80]),
        other_times=([], [10, 40], [10, 40]),  # warps that are also begun from the times of one another
        held_out=(32, 256, 10_000),
        seeds=(1, 10, 10),
    )
    tables = (
        Table(
            "Trained on symbols repeated at random up to so many times, networks that solve it. Accuracy in the task; share of "
            "right answers after so many samples of a symbol, 1 in 8 by chance; the forgetting time, when fewer than half are "
            "right, and by the largest warp.",
            by=BY,
            columns={
                "networks": run_count,
                "accuracy": lambda rows: spread(rows.drop_duplicates("key")["accuracy"]),
                **{f"{n}": after(n) for n in HELD},
                "forgotten after": lambda rows: lasting(where(rows, kind="network", weights=TRAINED)),
                "by warp": lambda rows: lasting(where(rows, kind="network", weights=TRAINED), by_warp=True),
            },
            data=lambda results: results.rows[results.rows["key"].isin(solving(results)["key"])].merge(
                results.runs[["key", "accuracy"]], on="key"
            ),
            sort=in_order(None, CELLS),
            words=NAMES,
        ),
        Table(
            "Where states end, after 20,000 samples of a symbol: of the 9 symbols, at how many some state still moves, and at "
            "how many of these it would rest by the equation; share of pairs of symbols before whose ends are apart, where all "
            "rest; right answers there. Points of rest found a symbol, how many attract under the equation, and under the "
            "steps; slow points.",
            by={"weights": "weights", **BY},
            columns={
                "symbols that move": share("moving"),
                "by steps alone": share("moving_by_steps_alone"),
                "pairs apart": share("apart"),
                "right in the end": share("at_the_end"),
                "points of rest": share("rest"),
                "attract, equation": share("rest_of_flow"),
                "attract, steps": share("rest_of_map"),
                "slow points": share("slow"),
            },
            data=lambda results: pd.concat([solving(results), networks(results).query("weights != 'trained'")]),
            sort=in_order([TRAINED, UNTRAINED, LATCH], None, CELLS),
            words=NAMES,
        ),
        Table(
            "While memory lasts, and of the same networks before training. Exponent of a small difference from 1 to 4 times "
            "the largest warp, times that warp; how far states move from 1 to 2 times the warp, by how far those of other "
            "symbols before are apart; what is left of that distance at 4 times the warp. Gates (1 - f of the LSTM) in the "
            "second half of a hold as long as the warp, quantiles; the share of units that wait, with a gate below 1 / (4 warp). "
            "Right answers after 16 times the warp with gates shut from the warp on; forgetting time where the same weights "
            "are solved.",
            by={"weights": "weights", **BY},
            columns={
                "exponent × warp": lambda rows: spread(rows["exponent"] * rows["warp"]),
                "moved": share("moved"),
                "left": share("left"),
                "gate, 10 %": share("gate_low"),
                "50 %": share("gate"),
                "90 %": share("gate_high"),
                "waiting units": share("shut"),
                "shut": share("shut_after"),
                "forgotten, solved": share("forgotten_solved"),
            },
            data=lambda results: pd.concat([solving(results), where(networks(results), weights=UNTRAINED)]),
            sort=in_order([TRAINED, UNTRAINED], None, CELLS),
            words=NAMES,
        ),
        Table(
            "Gates exchanged: share of right answers at ends of symbols that are repeated as in training, by the learned gates; "
            "by each unit's mean; by those of another network of the same cell and warp, by rank of their mean; and by those "
            "that the same network had before training.",
            by=BY,
            columns={name: in_gates(name) for name in ("learned", "constant", ANOTHER, UNTRAINED)},
            data=lambda results: results.rows[results.rows["key"].isin(solving(results)["key"])],
            sort=in_order(None, CELLS),
            words=NAMES,
        ),
        Table(
            "Started from other times: forgetting time of networks whose gates start by chrono at times up to the second column.",
            by={"repetitions": "warp", "times at the start": "start", "cell": "cell"},
            columns={"networks": run_count, "accuracy": "accuracy", "forgotten after": lasting},
            data=lambda results: with_start(
                networks(results).query(f"weights == 'trained' and accuracy >= {SOLVED} and warp in [10, 40]")
            ),
            sort=in_order(None, None, CELLS),
            words=NAMES,
            empty="No cell was started from other times.",
        ),
    )
    figures: ClassVar = {
        "forgetting": Bands(
            "Samples of one symbol after which fewer than half of the answers are right, by the largest warp of training; mean "
            "over networks that come to that, and a band from the least to the largest. In proportion would be a line of slope "
            "1.",
            x="warp",
            y="forgotten",
            lines=("cell", LINES),
            data=lambda results: forgetful(solving(results)),
            x_label="largest warp of training, samples",
            y_label="forgetting time, samples",
            x_log=True,
            y_log=True,
        ),
        "held": Bands(
            "Right answers while a symbol is held, by how long, in units of the largest warp of training; mean over networks, "
            "and a band from the least to the largest. A memory as long as training asked for falls at the same place in all "
            "panels.",
            x="by_warp",
            y="right",
            panels=("warp", "trained on 1 to {} repetitions"),
            lines=("cell", LINES),
            data=lambda results: where(
                results.rows[results.rows["key"].isin(solving(results)["key"])], kind="held by warps", weights=TRAINED
            ),
            x_label="samples held / largest warp",
            y_label="share of right answers",
            x_log=True,
            y_limits=(0, 1.02),
            levels={"chance": 1 / 8},
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        few, halves = range(min(FIRST, sizes.seeds)), (sizes.warps[:2], sizes.warps[2:])
        first = [point for warps in halves for point in grid(seed=few, warp=warps, cell=CELLS)]
        pairs = [(warp, times) for warp in sizes.other_times for times in sizes.other_times if warp != times]
        other = [point | {"warp": warp, "times": times} for point in grid(seed=few, cell=CELLS) for warp, times in pairs]
        return first + other + grid(seed=range(FIRST, sizes.seeds), warp=sizes.warps, cell=CELLS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "recall", "warping": "variable", "warp": point["warp"], "length": sizes.length}
        start = {"init": "chrono", "t_max": point.get("times", point["warp"])}
        model = {"field": point["cell"], "integrator": "euler", "hidden": sizes.hidden}
        times = {**once(sizes.steps), "evaluation": sizes.held_out}
        settings: dict[str, Any] = task | start | model | times | ADAM
        return shared_configuration(**settings, seed=point["seed"], threads=1)

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        torch.set_num_threads(1)
        warp, seed = run.point["warp"], run.configuration.training.seed
        model, probe = copy.deepcopy(model).double(), Probe.of(warp, seed)
        rows = held_rows(model, probe, warp, TRAINED)
        of_network = rows[0]
        if "times" in run.point:
            return rows
        longest = longest_hold(warp)
        solved = forgotten(islice(answers(model, probe, *EXACTLY), longest)) or longest
        of_network |= ends(model, probe, warp) | slow_modes(model.field, probe, warp) | gates_held(model.field, probe, warp)
        of_network |= {"shut_after": shut_after(model, probe, warp), "forgotten_solved": solved}
        untrained = run.configuration.untrained_model().double()
        others = {UNTRAINED: untrained} | self._another(run, folder)
        symbols, targets = symbols_of(seed)
        clock = StopAndGo.random(SYMBOLS, SEQUENCES, warp, generator(seed, "warped-memory", "clock"))
        rows += in_other_gates(model, others, symbols.double(), targets, clock)
        if seed == 0:
            for name, control in ((UNTRAINED, untrained), *(((LATCH, latch()),) if run.point["cell"] == CELLS[0] else ())):
                found = held_rows(control, probe, warp, name)
                found[0] |= ends(control, probe, warp) | slow_modes(control.field, probe, warp)
                rows += found
        return rows

    def _another(self, run: Run, folder: Path) -> dict[str, SequenceModel]:
        """Return the network of the seed before, trained here if it is not in its folder; none of the first seed, nor where that
        training diverged."""
        seed = run.configuration.training.seed
        if not seed:
            return {}
        training = dataclasses.replace(run.configuration.training, seed=seed - 1)
        before = folder.parent / key_of({**run.point, "seed": seed - 1})
        place = before if (before / "rows.json").exists() else folder / "another"
        with torch.enable_grad():
            try:
                outcome = train(dataclasses.replace(run.configuration, training=training), place)
            except StoppedError as error:
                if error.status != "diverged":
                    raise
                return {}
        return {ANOTHER: copy.deepcopy(outcome.model).double()}

    def verdict(self, results: Results) -> ClaimVerdict:
        found = solving(results)
        if absent := [cell for cell in CELLS if where(found, cell=cell)["warp"].nunique() < 2]:
            raise NotEnoughError(f"networks of two warps are needed that solve their task: {', '.join(absent)}")
        parts = [part for cell in CELLS for part in self._of_cell(results, where(found, cell=cell), cell)]
        return ClaimVerdict([*parts, self._controls(networks(results))])

    def _of_cell(self, results: Results, rows: pd.DataFrame, cell: str) -> list[ClaimPart]:
        name = NAMES.get(cell, cell)
        held = where(results.rows, kind="held by warps", weights=TRAINED)
        right = held[held["key"].isin(rows["key"])].pivot_table(index="key", columns="by_warp", values="right")
        forgot = forgetful(rows)
        kept, apart = len(rows) - len(forgot), rows["apart"].dropna()
        too_many = kept > MOST_LEFT_OUT * len(rows)
        gates = where(results.rows, kind="gates").pivot_table(index="key", columns="gate", values="at_ends")
        gates = gates[gates.index.isin(rows["key"])]
        slope, solvers = power(forgot), f"{len(rows)} networks"
        slow = paired(rows["exponent"] * rows["warp"])
        solved = paired((rows["forgotten_solved"] / rows["forgotten"]).map(math.log2))
        parts = [
            ClaimPart(f"{name}: memory ends", counted(paired(right[1] - right[16]), HALF), solvers),
            ClaimPart(
                f"{name}: it lasts in proportion to the largest warp",
                None if too_many else counted(slope, POWER, absent=True),
                f"p = {number(1 + slope.mean)}" + (f", {kept} of {solvers} left out, which have not forgotten" if kept else ""),
            ),
            ClaimPart(
                f"{name}: no attractor holds it",
                counted(paired(1 - apart), HALF),
                f"{len(apart)} networks with symbols at which states come to rest",
            ),
            ClaimPart(f"{name}: modes are slow while it lasts", counted(slow, FACTOR, absent=True), solvers),
            ClaimPart(f"{name}: gates stay open", counted(paired(rows["gate"]), OPEN), solvers),
            ClaimPart(f"{name}: solved, the same weights remember as long", counted(solved, FACTOR, absent=True), solvers),
        ]
        lost = (gates["learned"] - gates[ANOTHER]).dropna() if ANOTHER in gates else pd.Series(dtype=float)
        factors = of_start(results, cell)
        parts += [
            ClaimPart(
                f"{name}: gates of another network do not serve",
                counted(paired(lost), SPOILT) if len(lost) else None,
                f"{len(lost)} pairs",
            ),
            ClaimPart(
                f"{name}: the times of the start do not set it",
                counted(paired(factors), FACTOR, absent=True) if len(factors) else None,
                f"{len(factors)} pairs",
            ),
        ]
        if cell == "lstm":
            at_warp = right[1].reindex(rows["key"]).to_numpy()
            claim = f"{name}: gates that are shut keep it"
            parts.append(ClaimPart(claim, counted(paired(at_warp - rows["shut_after"].to_numpy()), LOST, absent=True), solvers))
        return parts

    def _controls(self, rows: pd.DataFrame) -> ClaimPart:
        latches, untrained = where(rows, weights=LATCH), where(rows, weights=UNTRAINED)
        holds = bool(
            (latches["apart"] == 1).all() and (latches["at_the_end"] == 1).all() and (untrained["apart"].dropna() == 0).all()
        )
        some = len(latches) and len(untrained)
        return ClaimPart(
            "the same measures find the attractors of a latch, and none in untrained networks",
            holds if some else None,
            f"pairs apart {spread(latches['apart'])} of {len(latches)} latches, {spread(untrained['apart'].dropna())} of "
            f"{len(untrained)} networks"
            if some
            else "",
        )


def counted(measured: Spread, effect: float, absent: bool = False) -> Compared:
    """Compare with the least effect that counts: none is in print."""
    return Compared(measured, effect, absent, printed=False)


def longest_hold(warp: int) -> int:
    return max(HORIZON * warp, HELD[-1])


def held_rows(model: SequenceModel, probe: Probe, warp: int, weights: str) -> list[Row]:
    """Hold symbols, and make a row of the network and rows of its answers on the way."""
    right = list(islice(answers(model, probe), longest_hold(warp)))
    late = forgotten(right)
    rows: list[Row] = [{"kind": "network", "weights": weights, "forgotten": late or len(right), "kept": late is None}]
    rows += [{"kind": "held", "weights": weights, "samples": n, "right": right[n - 1]} for n in HELD]
    return rows + [{"kind": "held by warps", "weights": weights, "by_warp": n, "right": right[n * warp - 1]} for n in TIMES]
