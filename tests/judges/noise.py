r"""Laws that equations with noise obey, in closed form, and how near the steps come: orders, variance at rest, times of escape.

Geometric    dh = -h dt + s h dW             h(t) = h0 e^(-(1 + s^2/2) t + s W(t)), without s^2/2 in Stratonovich's calculus
Bent         dh = (tanh(2 h + 1/2) - h) dt + s dW
Well         dh = (h - h^3) dt + sqrt(2 D) dW

python tests/judges/noise.py      the tables of docs/judges.md, in a few minutes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.integrate import dblquad
from scipy.stats import norm
from sympy import Symbol, lambdify
from sympy.parsing.sympy_parser import convert_xor, implicit_multiplication, parse_expr, standard_transformations
from torch import Tensor

import ctrnn
import discretize
from discretize import StochasticStep
from discretize.steps.catalog import stochastic_step_names

__all__ = [
    "Bent",
    "Geometric",
    "Measured",
    "Well",
    "at_rest",
    "at_rest_exactly",
    "escape",
    "escape_by_quadrature",
    "escape_of_the_map",
    "orders",
]

GAUSS = 400  # nodes of a quadrature
MONITORED = 0.5826  # -zeta(1/2)/sqrt(2 pi), Broadie, Glasserman and Kou 1997: how far discrete looks move a border, in deviations
RESAMPLED = 400
LEVELS = (3, 4, 5, 6)  # dt = 2^-k


class Measured(NamedTuple):
    """A number, and the ends of its interval, of 95 % where nothing else is said."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g}–{self.high:.3g})"


class Scalar(ctrnn.VectorField):
    """Units that know nothing of each other: each a sample of one equation."""

    def __init__(self, samples: int) -> None:
        super().__init__(1, samples)  # modules ask for an input; it is not read

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.ones_like(h)


class Geometric(Scalar):
    sigma = 0.8

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return -h

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.sigma * h

    def exact(self, w: Tensor, calculus: str) -> Tensor:
        """h(1) where h(0) is 1; w: W(1)."""
        return torch.exp(self.sigma * w - 1 - (self.sigma**2 / 2 if calculus == "Ito" else 0))


class Bent(Scalar):
    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(2 * h + 0.5) - h

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.full_like(h, 0.7)


class Well(Scalar):
    def __init__(self, samples: int, strength: float) -> None:
        super().__init__(samples)
        self.strength = strength

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return h - h**3

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.full_like(h, (2 * self.strength) ** 0.5)


def orders(
    field: Geometric | Bent, step: StochasticStep, seed: int, levels: Sequence[int] = LEVELS, finest: int = 11
) -> tuple[Measured, Measured]:
    """Fit the strong order and the order of the mean, at time 1 from 1, by the same path at all steps.

    Without a closed form the exact state is that of SRA1 at dt = 2^-finest.
    """
    samples, top = field.hidden_size, finest if isinstance(field, Bent) else max(levels)
    path = discretize.BrownianPath(seed, torch.linspace(0, 1, 2**top + 1, dtype=torch.float64), samples, 1)
    w, z = path.increments(path.knots)
    exact = ends(field, discretize.SRA1(), w, z) if isinstance(field, Bent) else field.exact(w.sum(0), step.calculus)
    errors = []
    for level in range(top, min(levels) - 1, -1):
        if level in levels:
            errors.append((ends(field, step, w, z) - exact)[0].numpy())
        w, z = w[::2] + w[1::2], z[::2] + z[1::2] + 2.0**-level * w[::2]
    lengths = [2.0**-level for level in sorted(levels, reverse=True)]
    return _slope(np.abs(errors), lengths), _slope(np.array(errors), lengths)


@torch.no_grad()
def ends(field: ctrnn.VectorField, step: StochasticStep, w: Tensor, z: Tensor) -> Tensor:
    """The state at time 1, from 1; w, z (steps, 1, samples)."""
    h, nothing = torch.ones(1, field.hidden_size), torch.zeros(1, 1)
    for k in range(len(w)):
        h = step.moved(field, nothing, h, 1 / len(w), w[k], z[k])
    return h


def _slope(errors: np.ndarray, lengths: Sequence[float]) -> Measured:
    """Of log |mean error| over log dt, over resampled samples; errors (lengths, samples)."""
    dice, found = np.random.default_rng(0), []
    for k in range(RESAMPLED + 1):
        of = dice.integers(errors.shape[1], size=errors.shape[1]) if k else slice(None)
        found.append(np.polyfit(np.log(lengths), np.log(np.abs(errors[:, of].mean(1))), 1)[0])
    return Measured(float(found[0]), *(float(end) for end in np.quantile(found[1:], (0.025, 0.975))))


class AtRest(NamedTuple):
    """Autocovariances at lags 0, 1, ..., their standard errors, and of how many independent states that of the variance is."""

    covariances: Tensor
    errors: Tensor
    effective: float


@torch.no_grad()
def at_rest(step: StochasticStep, dt: float, seed: int, chains: int, time: int, lags: int = 4, burned: int = 60) -> AtRest:
    """Measure those of dh = -h dt + sqrt(2) dW under a step; the mean is 0. Errors are of independent chains."""
    field = ctrnn.Noisy(Unit(64), ctrnn.Noise(2**0.5))
    rnn = discretize.DiscreteRNN(field, step, dt=dt, fused=False, allow_overshoot=True)
    hs = rnn(torch.zeros(burned + time, chains // 64, 1), seed=seed)[0][burned:].flatten(1)
    each = torch.stack([(hs[: time - lag] * hs[lag:]).mean(0) for lag in range(lags)])
    covariances, errors = each.mean(1), each.std(1) / each.shape[1] ** 0.5
    return AtRest(covariances, errors, float(2 * (covariances[0] / errors[0]) ** 2))


def at_rest_exactly(step: StochasticStep, dt: float) -> tuple[float, float]:
    """Of the same equation: the variance that a step says it has at rest, and how much of a state is left a step later."""
    written = parse_expr(step.variance, transformations=(*standard_transformations, implicit_multiplication, convert_xor))
    left = step.stability(torch.tensor(-dt), leak=torch.tensor(dt))
    return float(lambdify(Symbol("dt"), written)(dt)), float(left)


class Unit(Scalar):
    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return -h


@torch.no_grad()
def escape(strength: float, dt: float, border: float, seed: int, samples: int, piece: int = 64) -> Measured:
    """Measure the mean time at which Euler and Maruyama's path from -1 is first seen at or beyond the border."""
    field = Well(samples, strength)
    rnn = discretize.DiscreteRNN(field, discretize.EulerMaruyama(), dt=dt, fused=False, allow_overshoot=True)
    times, h = torch.full((samples,), torch.inf), torch.full((1, samples), -1.0)
    for k in range(100_000):
        hs = rnn(torch.zeros(piece, 1, 1), h, seed=seed + k)[0][:, 0]
        first = (hs >= border).to(torch.int8).argmax(0)
        passed = (hs >= border).any(0) & times.isinf()
        times = torch.where(passed, dt * (k * piece + first + 1), times)
        h = hs[-1:]
        if not times.isinf().any():
            break
    mean, error = float(times.mean()), float(times.std() / samples**0.5)
    return Measured(mean, mean - 1.96 * error, mean + 1.96 * error)


def escape_by_quadrature(strength: float, border: float) -> float:
    """1/D int_-1^border e^(V(y)/D) int_-inf^y e^(-V(x)/D) dx dy, the mean time of the equation (Gardiner 2009, sec. 5.5)."""

    def potential(h: float) -> float:
        return h**4 / 4 - h**2 / 2

    found, _ = dblquad(lambda x, y: np.exp((potential(y) - potential(x)) / strength), -1, border, -6, lambda y: y)
    return float(found / strength)


def escape_of_the_map(strength: float, dt: float, border: float) -> float:
    """The mean time of h + dt F(h) + sqrt(2 D dt) xi, by u(x) = dt + int_below p(x, y) u(y) dy at Gauss's nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(GAUSS)
    lowest = -4.0
    y, weights = lowest + (nodes + 1) / 2 * (border - lowest), weights * (border - lowest) / 2

    def density(x: np.ndarray) -> np.ndarray:
        return norm.pdf(y, loc=(x + dt * (x - x**3))[:, None], scale=(2 * strength * dt) ** 0.5) * weights

    u = np.linalg.solve(np.eye(GAUSS) - density(y), np.full(GAUSS, dt))
    return float(dt + density(np.array([-1.0]))[0] @ u)


def main() -> None:
    print("| step | equation | strong | fitted | mean | fitted |\n|---|---|---|---|---|---|")
    every = [getattr(discretize.steps, name)() for name in stochastic_step_names()]
    for field, steps in ((Geometric(50_000), [s for s in every if s.of != "additive"]), (Bent(50_000), every)):
        for step in steps:
            of_paths = {"levels": (6, 7, 8, 9)} if isinstance(field, Geometric) else {"levels": (5, 6, 7), "finest": 10}
            strong, _ = orders(type(field)(4000), step, 11, **of_paths)
            _, weak = orders(field, step, 12, levels=(2, 3, 4, 5), finest=8)
            mean = weak if weak.high - weak.low < 1 else "no error beyond chance"
            cells = (type(step).__name__, type(field).__name__, step.strong_order, strong, step.order, mean)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    print("\n| step | dt | variance | measured | autocovariance at 1, 2, 3 | measured | states |\n|---|---|---|---|---|---|---|")
    for step in every:
        for dt in (0.5, 1.0, 1.5):
            found, (variance, left) = at_rest(step, dt, 13, 8192, 100), at_rest_exactly(step, dt)
            expected = ", ".join(f"{variance * left**lag:.4f}" for lag in (1, 2, 3))
            measured = [f"{value:.4f} ± {1.96 * error:.4f}" for value, error in zip(*found[:2], strict=True)]
            cells = (
                type(step).__name__,
                dt,
                f"{variance:.4f}",
                measured[0],
                expected,
                ", ".join(measured[1:]),
                f"{found.effective:,.0f}",
            )
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    print("\n| D | dt | measured | of the map | of the equation, border moved | of the equation |\n|---|---|---|---|---|---|")
    for strength in (0.2, 0.15):
        for dt in (0.2, 0.1, 0.05, 0.02):
            border = MONITORED * (2 * strength * dt) ** 0.5
            exact = (escape_of_the_map(strength, dt, 0.0), *(escape_by_quadrature(strength, at) for at in (border, 0.0)))
            cells = (strength, dt, escape(strength, dt, 0.0, 14, 4096), *(f"{each:.3g}" for each in exact))
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    main()
