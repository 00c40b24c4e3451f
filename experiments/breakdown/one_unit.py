r"""One unit by one step of every map: gates, limits and errors on a target that is held and where h is forgotten slowly.

held     dh/dt = g (f - h), here from h = 0 to f = 1; at rest with noise, dh = -h dt + sqrt(2) dW
power    dh/dt = -g |h|^r h, here from h = 1

The exact factor of the distance to the target is e^(-g dt), and (1 + r y)^(-1/r) with y = g dt |h|^r; each step map has its
own, R(-g dt), and with the power decay whatever it makes of h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise

import pandas as pd
import torch
from torch import Tensor

import ctrnn
import discretize
from discretize import REGIONS, Step
from discretize.analysis.stability import regions_of_factors
from experiments.breakdown import figures
from experiments.breakdown.maps import GATES, MAPS, limits
from experiments.breakdown.noise import AT, NOISY, finite, noise_failures, noise_rows, said
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section
from experiments.reports.templates import scientific

__all__ = [
    "EXPONENT",
    "GRID",
    "bars",
    "bars_of_maps",
    "decay_factor",
    "errors",
    "held_section",
    "limit_failures",
    "power_section",
    "softplus_identity",
]

MARKED = (0.5, 1.0, 1.8, 5.0, 50.0, 200.0)
GRID = (
    torch.cat([torch.logspace(-2, math.log10(50), 400, dtype=torch.float64), torch.tensor([*MARKED, 2.0], dtype=torch.float64)])
    .sort()
    .values
)
EXPONENT = 2.0
PART, FIELD = "one unit, held target", "g (f - h)"
LABEL = f"g dt |h|^r, r = {EXPONENT:g}"


class _Constant(ctrnn.Part):
    """The candidate that is the same for every input and state."""

    projected_size = 0
    input_size, hidden_size = 1, 1

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def project(self, x: Tensor) -> Tensor:
        return x[..., :0]

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.full_like(h, self.value)


class _InputRate(ctrnn.Part):
    """The rate that is the input."""

    projected_size = 1

    def project(self, x: Tensor) -> Tensor:
        return x

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return projected


def errors(step: Step, g: Tensor) -> Tensor:
    """Compute the error of one step from h = 0 to the target f = 1, by the map itself: |R(-g) - e^-g| where it makes a gate."""
    field = ctrnn.Relaxation(_Constant(1.0), _InputRate(), ctrnn.LinearDecay())
    moved = step(field, g[:, None], torch.zeros_like(g)[:, None], 1.0)[:, 0]
    return (moved + torch.expm1(-g)).abs()


def decay_factor(step: Step, y: Tensor, exponent: float = EXPONENT) -> Tensor:
    """Compute what one step leaves of h = 1 under dh/dt = -y |h|^r h: the same for every h and g with g dt |h|^r = y."""
    field = ctrnn.Relaxation(_Constant(0.0), _InputRate(), ctrnn.PowerDecay(exponent))
    return step(field, y[:, None], torch.ones_like(y)[:, None], 1.0)[:, 0]


def regions_of(factors: Tensor, g: Tensor) -> list[str]:
    """Name the region of each factor, at that g dt."""
    return [REGIONS[k] for k in regions_of_factors(factors, g).tolist()]


def bars(g: Tensor, regions: list[str]) -> list[tuple[float, float, str]]:
    """Join neighbouring g of one region to one piece."""
    edges = [float(g[0]), *(float((a * b).sqrt()) for a, b in pairwise(g)), float(g[-1])]
    pieces: list[tuple[float, float, str]] = []
    for k, found in enumerate(regions):
        # Marginal is a single point, at the edge of what follows.
        region = found if found != "marginal" else regions[min(k + 1, len(regions) - 1)]
        if pieces and pieces[-1][2] == region:
            pieces[-1] = (pieces[-1][0], edges[k + 1], region)
        else:
            pieces.append((edges[k], edges[k + 1], region))
    return pieces


def bars_of_maps(g: Tensor) -> Mapping[str, list[tuple[float, float, str]]]:
    """Compute the regions of every map over g dt, on a held target."""
    return {name: bars(g, regions_of(step.stability(-g), g)) for name, step in MAPS.items()}


def limit_failures() -> list[str]:
    """Check the limits of the Taylor step, 1 and 2, and of the exponential one, which has none; say what is wrong."""
    euler, exponential, failures = limits(MAPS["Euler"]), limits(MAPS["ExponentialEuler"]), []
    if abs((euler.overshoots or 0) - 1) > 1e-6 or abs((euler.diverges or 0) - 2) > 1e-6:
        failures.append(f"Euler overshoots from {euler.overshoots} and diverges from {euler.diverges}, not from 1 and 2.")
    if exponential.overshoots is not None or exponential.diverges is not None:
        failures.append("Exponential Euler leaves its target, which it never should.")
    return failures


@torch.no_grad()
def softplus_identity() -> float:
    """Measure the largest difference between a sigmoid gate's Euler step and a softplus rate's exponential step, over a run."""
    generator = torch.Generator().manual_seed(0)
    field = ctrnn.gated(4, 16, dtype=torch.float64, generator=generator)
    for parameter in field.parameters():
        parameter.mul_(3)
    xs = torch.randn(200, 1, 4, dtype=torch.float64, generator=generator)
    familiar = discretize.DiscreteRNN(field, allow_overshoot=True)(xs)[0]
    assert isinstance(field, ctrnn.Relaxation)
    twin = discretize.DiscreteRNN(ctrnn.softplus_clock(field), discretize.ExponentialEuler())(xs)[0]
    return float((familiar - twin).abs().max())


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
