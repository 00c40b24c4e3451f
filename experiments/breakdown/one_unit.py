r"""One step of every map for one unit: dh/dt = g (1 - h) from h = 0, and dh/dt = -y |h|^r h from h = 1.

The exact factor of the distance to the target is e^(-g dt), and (1 + r y)^(-1/r) with y = g dt |h|^r; each step map has its
own, R(-g dt), and with the power decay whatever it makes of h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor

import ctrnn
import discretize
from discretize import REGIONS, Step
from discretize.analysis.stability import regions_of_factors
from experiments.breakdown.maps import MAPS, limits

__all__ = [
    "EXPONENT",
    "GRID",
    "MARKED",
    "bars",
    "bars_of_maps",
    "decay_factor",
    "errors",
    "limit_failures",
    "regions_of",
    "softplus_identity",
]

MARKED = (0.5, 1.0, 1.8, 5.0, 50.0, 200.0)
GRID = (
    torch.cat([torch.logspace(-2, math.log10(50), 400, dtype=torch.float64), torch.tensor([*MARKED, 2.0], dtype=torch.float64)])
    .sort()
    .values
)
EXPONENT = 2.0


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
