r"""Which map is cheapest for a given accuracy: evaluations of the field a sample against the error over a run.

The same field and samples as in `networks`; every map with 1, 2, 4, ... steps a sample, and dopri5 at several tolerances. A
Jacobian counts as one evaluation for each of its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import ctrnn
import discretize
from experiments.breakdown import figures
from experiments.breakdown.maps import FAMILIES, MAPS
from experiments.breakdown.networks import SAMPLES, exact_states, fields_for, root_mean_square, stepped
from experiments.breakdown.rows import Row
from experiments.data.recording import Recording
from experiments.interruption import checkpoint
from experiments.reports.page import scientific, table
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg

__all__ = ["Price", "cheapest", "cost_section", "prices"]

FIELD = "gated, softplus"
DTS = (1.0, 8.0)  # the familiar cell, and a clock eight times faster
MOST_STEPS, DEAREST = 64, 300.0
TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
SOLVER = "dopri5"


@dataclass(frozen=True)
class Price:
    """A map with so many steps a sample: evaluations a sample, and the error over the run."""

    step: str
    substeps: int
    cost: float
    drift: float


@torch.no_grad()
def prices(field: ctrnn.VectorField, xs: Tensor, dt: float) -> list[Price]:
    """Every map with twice as many steps a sample, again and again; and the adaptive solver."""
    exact, found = exact_states(field, xs, dt), []
    for label, step in MAPS.items():
        n = 1
        while n <= MOST_STEPS:
            checkpoint()
            states, cost = stepped(field, step, xs, dt, n)
            found.append(Price(label, n, cost, root_mean_square(states - exact)))
            if found[-1].drift < 1e-7 or 2 * cost > DEAREST:
                break
            n *= 2
    path = ctrnn.HeldPath(xs, dt * torch.arange(len(xs) + 1, dtype=torch.float64))
    for power in (1, 2, 3, 4, 5, 6):
        solved = discretize.integrate(field, path, exact[0], path.knots, method=SOLVER, rtol=10.0**-power, atol=10.0**-power)
        found.append(Price(SOLVER, power, solved.stats["nfe"] / len(xs), root_mean_square(solved.hs - exact)))
    return found


def cheapest(found: list[Price], target: float, steps: tuple[str, ...]) -> Price | None:
    """The cheapest of these maps whose error is at most the target."""
    good = [price for price in found if price.step in steps and price.drift <= target]
    return min(good, key=lambda price: price.cost, default=None)


def cost_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Prices, and what to take for which accuracy."""
    xs = torch.from_numpy(recording.xs[:SAMPLES])[:, None]
    field = fields_for(len(recording.channels))[FIELD]
    found = {dt: prices(field, xs, dt) for dt in DTS}
    rows = [
        Row("cost", f"{FIELD}, dt = {dt:g}", price.step, price.cost, "error over the run", price.drift)
        for dt, listed in found.items()
        for price in listed
    ]
    lines = []
    groups = {**FAMILIES, "adaptive": (SOLVER,)}
    say(f"cheapest map for an error over the run, evaluations a sample ({FIELD})")
    for dt, listed in found.items():
        for target in TARGETS:
            best = cheapest(listed, target, tuple(name for names in groups.values() for name in names))
            told = "none tried" if best is None else f"{best.step}, {best.cost:.3g}"
            say(f"  dt = {dt:g}   error {target:g}   {told}")
            cells = [_told(cheapest(listed, target, names)) for names in groups.values()]
            lines.append([f"{scientific(target)}, d<i>t</i> = {dt:g}", *cells])
    one = {price.step: price for price in found[1.0] if price.substeps == 1}
    winner = _told(cheapest(found[1.0], 1e-4, tuple(MAPS)))
    return Section(
        key="cost",
        title="What accuracy costs",
        lead="A map that is stable for every step is not the one that is cheapest for every accuracy: what counts is the "
        "error for an evaluation of the field.",
        body=f"<p>The {FIELD} field of the section before, with 1, 2, 4, ... steps a sample.</p>\n"
        + table(
            "The cheapest of each family whose error over the run is at most the one on the left, and its evaluations of the "
            "field a sample", ["Error", *(name[0].upper() + name[1:] for name in groups)], lines, "wide",
        ),
        pictures=tuple(_picture(dt, listed) for dt, listed in found.items()),
        numbers={"rows": rows},
        verdict=f"One exponential step a sample is {one['Euler'].drift / one['ExponentialEuler'].drift:.1f} times as accurate "
        f"as one Taylor step at the same cost; for an error of 10<sup>−4</sup> {winner} is cheapest.",
    )  # fmt: skip


def _told(price: Price | None) -> str:
    return "–" if price is None else f"{price.step} ({price.cost:.3g})"


def _picture(dt: float, listed: list[Price]) -> Picture:
    values = {label: [p.drift for p in listed if p.step == label] for label in MAPS}
    costs = {label: [p.cost for p in listed if p.step == label] for label in MAPS}
    solver = [p for p in listed if p.step == SOLVER]
    return Picture(
        inline_svg(
            figures.by_family(
                [1, DEAREST], values, "evaluations of the field a sample", "r.m.s. error over the run", (1e-9, 10), marks=(),
                ends=costs, dots=(SOLVER, [p.cost for p in solver], [p.drift for p in solver]),
            ),
            f"figure-cost-{dt:g}", f"Error against cost, dt = {dt:g}",
            "Both axes logarithmic, a panel for each family: lines fall with the order of the map; the adaptive solver's "
            "dots are in each panel.",
        ),
        f"<b>d<i>t</i> = {dt:g}.</b> Error over the run against its cost; lower and further left is better. Grey: {SOLVER} at "
        "tolerances from 0.1 to 10<sup>−6</sup>.",
    )  # fmt: skip
