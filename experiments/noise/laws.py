r"""Measures what steps make of noise where a closed form or a fine step says what it should be.

paths       h on one Brownian path, each step at shorter and shorter lengths       strong errors
rest        dh = -h dt + sqrt(2) dW, of variance 1                                 a step's variance
inside      the mean of tanh(1 + noise), noise drawn anew at each step, or with a correlation time
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

import ctrnn
import discretize

__all__ = ["mean_response", "mean_tanh", "strong_errors", "variance"]

HALVINGS = range(1, 7)
FINEST = 512  # steps
MULTIPLIED = 0.8
WHITE, COLOUR = 0.3, 0.1  # noise of sqrt(2) 0.3 dW, and the time it is remembered for


class Multiplied(ctrnn.VectorField):
    """dh = -h dt + b h dW, whose path is known: exp(-(1 + b^2/2) t + b W), and in Stratonovich's calculus exp(-t + b W)."""

    def __init__(self, factor: float) -> None:
        super().__init__(1, 1)  # the input is not looked at
        self.factor = factor

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return -h

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.ones_like(h)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.factor * h


@torch.no_grad()
def strong_errors(step: discretize.StochasticStep, kind: str, batch: int = 500) -> dict[float, float]:
    """Return the root mean square error at t = 1 by length of step, on the same paths; kind: "multiplied" or "added"."""
    field = Multiplied(MULTIPLIED) if kind == "multiplied" else _added()
    if kind == "multiplied":
        drift = -1.0 if step.calculus == "Stratonovich" else -1 - MULTIPLIED**2 / 2
        path = discretize.BrownianPath(0, torch.tensor([0.0, 1.0]), 1, batch)
        wanted = torch.exp(drift + MULTIPLIED * path(torch.ones(1))[0])
    else:
        wanted = _reference(batch)
    errors = {2.0**-n: _at_the_end(field, step, 2**n, batch) - wanted for n in HALVINGS}
    return {dt: float(error.square().mean().sqrt()) for dt, error in errors.items()}


def _at_the_end(field: ctrnn.VectorField, step: discretize.StochasticStep, substeps: int, batch: int) -> Tensor:
    """The state at t = 1 by so many steps; of one sample, whose path is the same however it is cut."""
    start, x = (torch.ones(*shape, dtype=torch.float64) for shape in ((batch, field.state_size), (1, batch, 1)))
    return discretize.DiscreteRNN(field, step, substeps=substeps)(x, start, seed=0)[0][-1]


@torch.no_grad()
def _added() -> ctrnn.Noisy:
    candidate = ctrnn.TanhCandidate(1, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    candidate.weight_h.mul_(3)
    return _followed(candidate, ctrnn.Noise(1.0), rate=0.5)


@cache
def _reference(batch: int) -> Tensor:
    return _at_the_end(_added(), discretize.SRA1(), FINEST, batch)


def _relaxing() -> ctrnn.Noisy:
    """Make dh = -h dt + sqrt(2) dW."""
    return _followed(_only(weight_x=0.0), ctrnn.Noise(2**0.5))


def _followed(candidate: ctrnn.TanhCandidate, noise: ctrnn.Noise, rate: float = 1.0) -> ctrnn.Noisy:
    return ctrnn.Noisy(ctrnn.Relaxation(candidate, ctrnn.FixedRate(rate), ctrnn.LinearDecay()), noise)


def _only(weight_x: float) -> ctrnn.TanhCandidate:
    """One unit that reads its input alone."""
    candidate = ctrnn.TanhCandidate(1, 1, bias=False)
    torch.nn.init.constant_(candidate.weight_x, weight_x)
    torch.nn.init.zeros_(candidate.weight_h)
    return candidate


@torch.no_grad()
def variance(step: discretize.StochasticStep, dt: float, batch: int = 4000) -> float:
    """Return the variance of dh = -h dt + sqrt(2) dW at rest, of samples that have run for fifteen units of time."""
    rnn = discretize.DiscreteRNN(_relaxing(), step, dt=dt)
    return float(rnn(torch.zeros(max(40, math.ceil(15 / dt)), batch, 1), seed=0)[0][-1].square().mean())


@torch.no_grad()
def mean_response(dt: float, colored: bool, batch: int = 400) -> float:
    """Return the mean of a unit that follows tanh(1 + noise), dh/dt = tanh(1 + u) - h, over eight units of time, after eight."""
    field, number = ctrnn.Relaxation(_only(weight_x=1.0), ctrnn.FixedRate(1.0), ctrnn.LinearDecay()), round(16 / dt)
    if colored:
        noisy = ctrnn.ColoredInput(field, WHITE / COLOUR**0.5, COLOUR)
        rnn = discretize.DiscreteRNN(noisy, discretize.ExponentialEulerMaruyama(), dt=dt)
        output, _ = rnn(torch.ones(number, batch, 1), seed=0)
    else:
        dice = torch.Generator().manual_seed(0)
        x = 1 + WHITE * (2 / dt) ** 0.5 * torch.randn(number, batch, 1, generator=dice)
        output, _ = discretize.DiscreteRNN(field, dt=dt)(x)
    return float(output[number // 2 :].mean())


def mean_tanh(deviation: float) -> float:
    """Return the mean of tanh(1 + deviation xi), xi normal, by quadrature."""
    xi = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
    law = torch.exp(-xi * xi / 2) / (2 * math.pi) ** 0.5
    return float(torch.trapezoid(torch.tanh(1 + deviation * xi) * law, xi))
