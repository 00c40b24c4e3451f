r"""One unit: gates, limits and errors of every map, on a target that is held and where h is forgotten slowly.

held     dh/dt = g (f - h), and at rest with noise, dh = -h dt + sqrt(2) dW
power    dh/dt = -g |h|^r h
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import torch

from discretize import Step
from experiments.breakdown import figures
from experiments.breakdown.maps import GATES, MAPS, limits
from experiments.breakdown.noise import AT, NOISY, finite, noise_failures, noise_rows, said
from experiments.breakdown.one_unit import (
    EXPONENT,
    GRID,
    MARKED,
    bars,
    bars_of_maps,
    decay_factor,
    errors,
    limit_failures,
    regions_of,
    softplus_identity,
)
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section
from experiments.reports.templates import scientific

__all__ = ["held_section", "power_section"]

PART, FIELD = "one unit, held target", "g (f - h)"
LABEL = f"g dt |h|^r, r = {EXPONENT:g}"


@torch.no_grad()
def held_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Compute gates, limits and errors on a target that is held."""
    g, found, identity = GRID[GRID <= 50], {name: limits(step) for name, step in MAPS.items()}, softplus_identity()
    say("  map, overshoots from, diverges from")
    for name, where in found.items():
        say(f"  {name:<22}{_limit(where.overshoots, '.4g'):>8}{_limit(where.diverges, '.4g'):>8}")
    return Section.from_template(
        "breakdown/held.html.jinja",
        "held",
        figures={
            "regions": figures.region_bars(bars_of_maps(g), "g dt"),
            "held": figures.by_family(
                g.tolist(),
                {name: errors(step, g).clamp(min=1e-17).tolist() for name, step in MAPS.items()},
                "g dt",
                "error of one step, in distances to the target",
                (1e-9, 10),
                marks=(1, 2),
            ),
        },
        numbers={
            "rows": pd.concat([*(_rows(name, step) for name, step in MAPS.items()), noise_rows()]),
            "limits": {name: vars(where) for name, where in found.items()},
            "softplus_identity": identity,
        },
        failures=[*limit_failures(), *_failures(identity), *noise_failures()],
        maps=[
            [name, step.order, _cost(step), GATES[name], _limit(found[name].overshoots), _limit(found[name].diverges)]
            for name, step in MAPS.items()
        ],
        noisy=[
            [name, step.calculus, f"{step.strong_order:g}", step.order, finite(step), *(f"{said(step, dt):.3f}" for dt in AT)]
            for name, step in NOISY.items()
        ],
        noisy_at=[float(dt) for dt in AT],
        marked=MARKED,
        errors=[[name, *(_error(step, x) for x in MARKED)] for name, step in MAPS.items()],
        identity=identity,
    )


@torch.no_grad()
def power_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """What one step leaves of h under the power decay, by every map."""
    y = torch.logspace(-2, math.log10(50), 61, dtype=torch.float64)
    exact = (1 + EXPONENT * y) ** (-1 / EXPONENT)
    factors = {name: decay_factor(step, y) for name, step in MAPS.items()}
    regions = {name: regions_of(found, y) for name, found in factors.items()}
    off = {name: (found - exact).abs().clamp(min=1e-17) for name, found in factors.items()}
    largest = {name: float(values.max()) for name, values in off.items()}
    say(f"  r = {EXPONENT:g}: largest error of a step for g dt |h|^r up to 50")
    for name, worst in largest.items():
        say(f"  {name:<22}{worst:>10.3g}")
    first, growing = 2 / (EXPONENT + 1), float(y[regions["Taylor2"].index("divergent")])
    return Section.from_template(
        "breakdown/power.html.jinja",
        "power",
        figures={
            "power-regions": figures.region_bars({name: bars(y, found) for name, found in regions.items()}, LABEL),
            "power": figures.by_family(
                y.tolist(),
                {name: values.nan_to_num(torch.inf, torch.inf).tolist() for name, values in off.items()},
                LABEL,
                "error of one step, in units of |h|",
                (1e-9, 10),
            ),
        },
        numbers={
            "rows": pd.concat(
                frame(
                    "one unit, power decay",
                    f"-g |h|^{EXPONENT:g} h",
                    name,
                    y.numpy(),
                    "factor of one step",
                    found.numpy(),
                    regions[name],
                )
                for name, found in factors.items()
            ),
            "largest_error": largest,
        },
        failures=[
            *([f"Splitting is off by {largest['Splitting']:.1e} under the power decay."] if largest["Splitting"] > 1e-14 else []),
            *([f"Taylor2 grows from {growing:.3g}."] if not 1 < growing / first < 1.2 else []),
        ],
        first=first,
        splitting=max(largest["Splitting"], 1e-17),
    )


def _rows(name: str, step: Step) -> pd.DataFrame:
    factors = step.stability(-GRID)
    return pd.concat(
        [
            frame(PART, FIELD, name, GRID.numpy(), "factor R(-g dt)", factors.numpy(), regions_of(factors, GRID)),
            frame(PART, FIELD, name, GRID.numpy(), "error of one step", errors(step, GRID).numpy()),
        ]
    )


def _failures(identity: float) -> list[str]:
    failures = []
    for name, step in MAPS.items():
        theory = (step.stability(-GRID) - torch.exp(-GRID)).abs()
        apart = float(((errors(step, GRID) - theory).abs() / (1 + theory)).max())
        if apart > 1e-12 and step.keeps_and_writes is None:
            failures.append(f"{name} does not do what its stability function says: {apart:.1e} apart.")
    if identity > 1e-14:
        failures.append(f"sigma(z) and 1 - e^-softplus(z) differ by {identity:.1e}.")
    return failures


def _cost(step: Step) -> str:
    return f"{step.evaluations + step.tangents}" + (f" + {step.jacobians} J" if step.jacobians else "")


def _limit(value: float | None, form: str = ".3g") -> str:
    return "never" if value is None else format(value, form)


def _error(step: Step, x: float) -> str:
    off = float(errors(step, torch.tensor([x], dtype=torch.float64)))
    return scientific(off) if off > 1e-15 else "0"
