r"""Steps for noise on one unit at rest: what each makes of the variance of dh = -h dt + sqrt(2) dW, which is 1.

h' = R h + a w + b z        v = (a^2 dt + a b dt^2 + b^2 dt^3/3)/(1 - R^2), infinite where |R| >= 1
"""

from __future__ import annotations

import pandas as pd
import torch
from sympy import Rational

import ctrnn
from derivations.twins.step_maps import read
from discretize.steps.catalog import stochastic_steps
from discretize.steps.stochastic import StochasticStep
from experiments.breakdown.maps import limits
from experiments.breakdown.rows import frame

__all__ = ["AT", "NOISY", "finite", "noise_failures", "noise_rows", "said", "variance"]

NOISY: dict[str, StochasticStep] = {name: kind() for name, kind in stochastic_steps().items()}
AT = (Rational(1, 10), Rational(1, 2), Rational(1), Rational(3, 2))
APART = 1e-12


def _unit() -> ctrnn.Noisy:
    """tanh(0) - h, with noise."""
    field = ctrnn.plain(1, 1, dtype=torch.float64)
    for weight in field.parameters():
        torch.nn.init.zeros_(weight)
    return ctrnn.Noisy(field, ctrnn.Noise(2**0.5))


def said(step: StochasticStep, dt: Rational) -> float:
    """Return the variance that the class of a step says it leaves."""
    return float(read(step.variance, dt=dt))


@torch.no_grad()
def variance(step: StochasticStep, dt: float) -> float:
    """Return the variance that the map itself leaves."""
    h, w, z = torch.eye(3, dtype=torch.float64)[..., None]
    after = step(_unit(), torch.zeros_like(h), h, dt, *([w, z] if step.reads_integral else [w]))
    kept, of_w, of_z = after[:, 0].tolist()
    return (of_w**2 * dt + of_w * of_z * dt**2 + of_z**2 * dt**3 / 3) / (1 - kept**2) if abs(kept) < 1 else float("inf")


def finite(step: StochasticStep) -> str:
    """Say for which dt the variance is finite."""
    until = limits(step).diverges
    return "always" if until is None else f"dt < {until:.4g}"


def noise_rows() -> pd.DataFrame:
    rows = [[variance(step, float(dt)) for dt in AT] for step in NOISY.values()]
    return pd.concat(
        frame("one unit, at rest", "-h, noise sqrt(2)", name, [float(dt) for dt in AT], "variance", found)
        for name, found in zip(NOISY, rows, strict=True)
    )


def noise_failures() -> list[str]:
    return [
        f"{name} does not leave the variance that it says at dt {dt}."
        for name, step in NOISY.items()
        for dt in AT
        if not abs(variance(step, float(dt)) - said(step, dt)) < APART
    ]
