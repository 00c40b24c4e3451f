r"""Which map is cheapest for a given accuracy: evaluations of the field a sample against the error over a run.

The same field and samples as in `networks`; every map with 1, 2, 4, ... steps a sample, and dopri5 at several tolerances. A
Jacobian counts as one evaluation for each of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd
import torch
from markupsafe import Markup
from matplotlib.figure import Figure
from torch import Tensor

import ctrnn
import discretize
from derivations.processes.interruption import checkpoint
from experiments.breakdown import figures
from experiments.breakdown.maps import FAMILIES, MAPS
from experiments.breakdown.networks import SAMPLES, exact_states, fields_for, root_mean_square, stepped
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section
from experiments.reports.templates import scientific

__all__ = ["Price", "cheapest", "cost_section", "prices"]

FIELD = "gated, softplus"
DTS = (1.0, 8.0)  # the familiar cell, and a clock eight times faster
MOST_STEPS, DEAREST, ENOUGH = 64, 300.0, 1e-7
TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
SOLVER, POWERS = "dopri5", (1, 2, 3, 4, 5, 6)  # tolerances 10^-1, ..., 10^-6


class Price(NamedTuple):
    """A map with so many steps a sample, or the solver at a tolerance: evaluations a sample, and the error over the run."""

    step: str
    substeps: int
    cost: float
    drift: float


@torch.no_grad()
def prices(field: ctrnn.VectorField, xs: Tensor, dt: float) -> pd.DataFrame:
    """Price every map with 1, 2, 4, ... steps a sample, and the adaptive solver at several tolerances.

    Columns: those of `Price`; for the solver `substeps` is the power of its tolerance.
    """
    exact, found = exact_states(field, xs, dt), []
    for label, step in MAPS.items():
        n = 1
        while n <= MOST_STEPS:
            checkpoint()
            states, cost = stepped(field, step, xs, dt, n)
            drift = root_mean_square(states - exact)
            found.append((label, n, cost, drift))
            if drift < ENOUGH or 2 * cost > DEAREST:
                break
            n *= 2
    path = ctrnn.HeldPath(xs, dt * torch.arange(len(xs) + 1, dtype=torch.float64))
    for power in POWERS:
        solved = discretize.integrate(field, path, exact[0], path.knots, method=SOLVER, rtol=10.0**-power, atol=10.0**-power)
        found.append((SOLVER, power, solved.stats["nfe"] / len(xs), root_mean_square(solved.hs - exact)))
    return pd.DataFrame(found, columns=list(Price._fields))


def cheapest(found: pd.DataFrame, target: float, steps: Sequence[str]) -> Price | None:
    """Find the cheapest of these maps whose error is at most the target."""
    good = found[found.step.isin(steps) & (found.drift <= target)]
    return min((Price(*row) for row in good.itertuples(index=False)), key=lambda price: price.cost, default=None)


def cost_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Price all maps, and say which to take for which accuracy."""
    xs = torch.from_numpy(recording.xs[:SAMPLES])[:, None]
    field = fields_for(len(recording.channels))[FIELD]
    costs = {dt: prices(field, xs, dt) for dt in DTS}
    groups = {**FAMILIES, "adaptive": (SOLVER,)}
    say(f"  cheapest map for an error over the run, evaluations a sample ({FIELD})")
    lines = []
    for dt, listed in costs.items():
        for target in TARGETS:
            best = cheapest(listed, target, (*MAPS, SOLVER))
            say(f"  dt = {dt:g}   error {target:g}   {'none tried' if best is None else f'{best.step}, {best.cost:.3g}'}")
            cells = [_words(cheapest(listed, target, names)) for names in groups.values()]
            lines.append([scientific(target) + Markup(f", d<i>t</i> = {dt:g}"), *cells])
    single = costs[1.0].query("substeps == 1").set_index("step").drift
    return Section.from_template(
        "breakdown/cost.html.jinja",
        "cost",
        figures={f"cost-{dt:g}": _figure(listed) for dt, listed in costs.items()},
        numbers={
            "rows": pd.concat(
                frame("cost", f"{FIELD}, dt = {dt:g}", listed.step, listed.cost, "error over the run", listed.drift)
                for dt, listed in costs.items()
            )
        },
        field=FIELD,
        groups=groups,
        lines=lines,
        dts=DTS,
        solver=SOLVER,
        ratio=single["Euler"] / single["ExponentialEuler"],
        winner=_words(cheapest(costs[1.0], 1e-4, tuple(MAPS))),
    )


def _words(price: Price | None) -> str:
    return "–" if price is None else f"{price.step} ({price.cost:.3g})"


def _figure(listed: pd.DataFrame) -> Figure:
    by = {str(label): found for label, found in listed.groupby("step", sort=False)}
    solver = by.pop(SOLVER)
    return figures.by_family(
        [1, DEAREST],
        {label: found.drift.tolist() for label, found in by.items()},
        "evaluations of the field a sample",
        "r.m.s. error over the run",
        (1e-9, 10),
        marks=(),
        ends={label: found.cost.tolist() for label, found in by.items()},
        dots=(SOLVER, solver.cost.tolist(), solver.drift.tolist()),
    )
