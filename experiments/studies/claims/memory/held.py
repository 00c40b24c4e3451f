r"""Follows trained networks while a symbol is held, under the equation and under every step map, over dt.

flow   dh/dt = F(x, h)             largest exponent a unit of time: below 0 at rest, 0 on a cycle
map    h <- step(F, x, h, dt)      largest exponent a step: below 0 at rest and on cycles, above 0 in chaos
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch
from torch import Tensor, nn

import discretize
from ctrnn import VectorField
from discretize import SequenceModel, Step, StepError
from experiments.reports.spreads import NotEnoughError, spread
from experiments.runs.configuration import Configuration
from experiments.studies.claims.memory.measures import STEPS
from experiments.studies.claims.memory.steps import NAMES, MemoryAndSteps
from experiments.studies.results import Results, where
from experiments.studies.specs import Bands, Table, across, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict

__all__ = ["DTS", "EQUATION", "LINES", "STEPPED", "HeldSymbols", "largest_exponents"]

DTS = (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 10.0)
CHAOTIC, NEAR, FAR = 0.01, 0.1, 100.0
EQUATION = "equation"
WORDS = NAMES | {EQUATION: "the equation"}
STEPPED = tuple(name for name in STEPS if name != "exponential-rosenbrock")
LINES = (EQUATION, "euler", "exponential-euler", "fitted-midpoint", "etdrk4")


def all_rest(rows: pd.DataFrame) -> bool:
    """Return whether all of these come to rest: no largest exponent is near 0, as on a cycle, or above it."""
    return bool((rows["high"] < -CHAOTIC).all())


def fates(rows: pd.DataFrame) -> str:
    """Write how many runs are chaotic, and how many of all are not finite: "3 of 45, 9 lost"."""
    symbols, lost = int(rows["symbols"].sum()), int(rows["lost"].sum())
    words = f"{int(rows['chaotic'].sum())} of {symbols}"
    return "lost" if lost == symbols else f"{words}, {lost} lost" if lost else words


def exponents(rows: pd.DataFrame) -> str:
    """Write the least and the largest over symbols and seeds."""
    found = rows.dropna(subset=["low", "high"])
    return "lost" if found.empty else f"{found['low'].min():.2f} to {found['high'].max():.2f}"


OF_FATES = Table(
    "Trained networks: how many runs, of every symbol in every network, are chaotic, and how many are lost, at each dt. "
    "Runs of one network are not independent of one another.",
    by={"step": "map"},
    columns=across("dt", {f"dt = {dt:g}": dt for dt in DTS}, fates),
    words=WORDS,
    data=only(weights="trained"),
)


class HeldSymbols(Study):
    """Trains networks exactly on recall, and holds each symbol under the equation and every step map."""

    name = "held-symbols"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 6, "paper": 40}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, characters=4, steps=10, rate=4e-3, sequences=8, seeds=1, intervals=32),
        "small": Sizes(hidden=48, characters=10, steps=400, rate=4e-3, sequences=64, seeds=5, intervals=100),
        "paper": Sizes(hidden=128, characters=20, steps=2000, rate=2e-3, sequences=256, seeds=5, intervals=1000),
    }
    tables = (
        OF_FATES,
        replace(
            OF_FATES,
            caption="Their largest exponents a step, from the least to the largest over symbols and networks.",
            columns=across("dt", {f"dt = {dt:g}": dt for dt in (0.5, 1.0, 2.0, 3.0, 4.0, 10.0)}, exponents),
        ),
        replace(
            OF_FATES,
            caption="Untrained networks, of the steps of the figure: how many runs are chaotic, and how many are lost.",
            data=only(weights="untrained"),
        ),
    )
    figures: ClassVar = {
        "exponents": Bands(
            "Largest Lyapunov exponent a step while a symbol is held, the median over symbols: mean over seeds, and a band from "
            "the least to the largest. Above 0 is chaos; a line ends where more than half are lost.",
            x="dt",
            y="median",
            lines=("map", {name: WORDS[name] for name in LINES}),
            x_label="dt, units of own time",
            y_label="exponent a step",
            panels=("weights", ("trained", "untrained")),
            x_log=True,
            y_limits=(-1.1, 0.5),
            levels={"0": 0.0},
            data=lambda results: results.rows.query("2 * lost <= symbols"),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds))

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return MemoryAndSteps().configuration({**point, "said": "before"}, sizes)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        intervals = next(
            sizes.intervals for sizes in self.sizes.values() if sizes.hidden == run.configuration.field_settings.hidden
        )
        networks = {"trained": model, "untrained": run.configuration.untrained_model()}
        rows: list[Row] = []
        for weights, network in networks.items():
            field = copy.deepcopy(network.field).double()
            for name in LINES if weights == "untrained" else (EQUATION, *STEPPED):
                found = largest_exponents(field, STEPS.get(name), DTS, intervals)
                rows += [{"weights": weights, "map": name, "dt": dt, **_row(*each)} for dt, each in found.items()]
        return rows

    def verdict(self, results: Results) -> ClaimVerdict:
        def at(name: str, weights: str = "trained", **values: object) -> pd.DataFrame:
            found = where(results.rows, map=name, weights=weights, **values)
            if found.empty:
                raise NotEnoughError("no run is done yet")
            return found

        rest, euler, beyond, fresh = at(EQUATION), at("euler", dt=2.0), at("euler", dt=2.5), at("euler", "untrained", dt=2.0)
        exponential = at("exponential-euler")
        networks = f"in {rest['key'].nunique()} networks"
        resting = sum(all_rest(rows) for _, rows in where(rest, dt=1.0).groupby("key"))
        steady = [name for name in STEPPED if not at(name)[["chaotic", "lost"]].to_numpy().any()]
        parts = [
            ClaimPart(
                "under the equation every symbol comes to rest",
                all_rest(where(rest, dt=1.0)),
                f"in {resting} of {rest['key'].nunique()} networks, exponents a unit of time {exponents(where(rest, dt=1.0))}; "
                f"chaotic {fates(where(rest, dt=1.0))}",
            ),
            ClaimPart(
                "at dt = 2 Euler's step is chaotic for every symbol, and bounded",
                int(euler["chaotic"].sum()) == int(euler["symbols"].sum()),
                f"{fates(euler)}, {networks}, exponents {exponents(euler)}",
            ),
            ClaimPart(
                "from dt = 2.5 on it diverges", bool((beyond["lost"] == beyond["symbols"]).all()), f"{fates(beyond)}, {networks}"
            ),
            ClaimPart(
                "exponential Euler stays near 0 up to dt = 10",
                not exponential["lost"].any() and max(exponential["high"].max(), -exponential["low"].min()) <= NEAR,
                f"exponents {exponents(exponential)}, {fates(exponential)} at all dt above two standard errors, {networks}",
            ),
            ClaimPart(
                "it is the training: with untrained weights Euler's step rests at dt = 2",
                all_rest(fresh),
                f"{fates(fresh)}, {networks}, exponents {exponents(fresh)}",
            ),
        ]
        most = spread(euler["high"].dropna()) if euler["high"].notna().any() else "lost"
        never = ", ".join(NAMES[name] for name in steady) or "none"
        return ClaimVerdict(parts, {"Euler, dt = 2, largest exponent a step": str(most), "steps without chaos at any dt": never})


@torch.no_grad()
def largest_exponents(
    field: VectorField, step: Step | None, dts: tuple[float, ...], intervals: int
) -> dict[float, tuple[Tensor, Tensor]]:
    """Compute the largest exponent a step of each symbol and its error, at each dt; nan where lost. No step: the flow's."""
    symbols = field.input_size - 1  # the dummy is none
    inputs = nn.functional.one_hot(torch.arange(1, symbols + 1), field.input_size).double()
    if step is None:
        flow = discretize.Flow(field, lambda p: inputs[p.long()])
        found, errors = _run(flow, torch.arange(symbols), intervals)
        return {dt: (dt * found, dt * errors) for dt in dts}
    lengths = torch.tensor(dts, dtype=torch.float64).repeat_interleave(symbols)
    system = discretize.Map(field, step, lambda p: inputs[p.long() % symbols], lambda p: lengths[p.long()])
    parts = (all_of.split(symbols) for all_of in _run(system, torch.arange(len(lengths)), intervals))
    return dict(zip(dts, zip(*parts, strict=True), strict=True))


def _run(system: discretize.Flow | discretize.Map, points: Tensor, intervals: int) -> tuple[Tensor, Tensor]:
    """Run from the state in which sequences start, by halves where an implicit step has no solution for one."""
    assert isinstance(system.field, VectorField)
    start = system.field.initial_state(len(points)).double()
    try:
        run = discretize.lyapunov(system, start, points.double(), intervals=intervals, transient=intervals, count=1)
    except StepError:
        if len(points) == 1:
            return torch.full((1,), torch.nan), torch.full((1,), torch.nan)
        halves = [_run(system, half, intervals) for half in points.tensor_split(2)]
        return torch.cat([found for found, _ in halves]), torch.cat([errors for _, errors in halves])
    # A candidate is at most 1 in size; far beyond it gates are shut, and the exponent is that of what stands still.
    lost = ~(run.h.abs().amax(-1) < FAR)
    return run.exponents[:, 0].masked_fill(lost, torch.nan), run.errors[:, 0]


def _row(found: Tensor, errors: Tensor) -> Row:
    kept = found[~found.isnan()]
    some = len(kept) > 0
    return {
        "symbols": len(found),
        "lost": len(found) - len(kept),
        "chaotic": int((found > torch.maximum(2 * errors, torch.tensor(CHAOTIC))).sum()),
        "low": float(kept.min()) if some else None,
        "median": float(kept.median()) if some else None,
        "high": float(kept.max()) if some else None,
    }
