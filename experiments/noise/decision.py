r"""Measures how often a noisy decision network chooses each side, by coherence, step and step length.

    tau dh1 = (tanh(h1 - h2 + c) - h1) dt + s dW1          c = 0.03 of the coherence of the evidence
    tau dh2 = (tanh(h2 - h1 - c) - h2) dt + s dW2          choice: the larger one after twelve tau

Units excite themselves and inhibit one another, as in Wong and Wang 2006. While both are small, d = h1 - h2 grows by
d' = d + 2 c with noise of sqrt(2) s, so that with s = 0.01 the first is chosen with the probability Phi(6 coherence). A step that
multiplies d by R and adds noise of the variance 2 s^2 v chooses by Phi(k 6 coherence), k = sqrt((R^2 - 1)/(2 v)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

import ctrnn
import discretize

__all__ = ["COHERENCES", "STEPS", "Choices", "choices", "network", "probability", "steepness"]

COHERENCES = (0.032, 0.064, 0.128, 0.256, 0.512)
LENGTHS = (1.0, 0.5, 0.2, 0.05)  # of steps, in tau
DRIVE, SIGMA, DURATION = 0.03, 0.01, 12.0
CALIBRATED = 0.2  # the step at which noise that does not know of steps has its strength


class Choices(NamedTuple):
    """How often the side of the evidence was chosen, and an interval of 95 %, at each coherence."""

    right: list[float]
    low: list[float]
    high: list[float]


class NoisyWay(NamedTuple):
    """A step, and whether its noise is scaled by the root of the step, or as code has it that adds sigma xi dt."""

    step: discretize.StochasticStep
    scaled: bool = True


STEPS = {
    "Euler and Maruyama": NoisyWay(discretize.EulerMaruyama()),
    "Euler, σ ξ dt in place of σ ξ √dt": NoisyWay(discretize.EulerMaruyama(), scaled=False),
    "SRA1": NoisyWay(discretize.SRA1()),
    "Exponential Euler and Maruyama": NoisyWay(discretize.ExponentialEulerMaruyama()),
}


def network(sigma: float = SIGMA) -> ctrnn.Noisy:
    """Make the network; tau is the unit of time."""
    candidate = ctrnn.TanhCandidate(1, 2, bias=False)
    with torch.no_grad():
        candidate.weight_h.copy_(torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
        candidate.weight_x.copy_(torch.tensor([[DRIVE], [-DRIVE]]))
    return ctrnn.Noisy(ctrnn.Relaxation(candidate, ctrnn.FixedRate(1.0), ctrnn.LinearDecay()), ctrnn.Noise(sigma))


@torch.no_grad()
def choices(way: NoisyWay, dt: float, trials: int, seed: int = 0) -> Choices:
    """Run as many trials at each coherence, by steps of length dt, in tau."""
    sigma = SIGMA if way.scaled else SIGMA * (dt / CALIBRATED) ** 0.5
    rnn = discretize.DiscreteRNN(network(sigma), way.step, dt=dt)
    x = torch.tensor(COHERENCES).repeat_interleave(trials)[None, :, None].expand(round(DURATION / dt), -1, 1)
    output, _ = rnn(x, seed=seed)
    found = (output[-1, :, 0] > output[-1, :, 1]).double().unflatten(0, (len(COHERENCES), trials)).mean(1)
    intervals = [_interval(p, trials) for p in found.tolist()]
    return Choices(found.tolist(), [low for low, _ in intervals], [high for _, high in intervals])


def probability(coherence: float, steep: float = 1.0) -> float:
    """Return Phi(k 6 coherence)."""
    return 0.5 * math.erfc(-steep * 2 * DRIVE / SIGMA * coherence / 2**0.5)


def steepness(name: str, dt: float) -> float:
    """Return k, by how much a way to step makes the choice steeper than the equation does; 1 is right."""
    if name == "SRA1":
        grown, noise = 1 + dt + dt * dt / 2, dt + dt**2 + dt**3 / 3
    elif name.startswith("Exponential"):
        grown, noise = 2 - math.exp(-dt), (1 - math.exp(-2 * dt)) / 2
    else:
        grown, noise = 1 + dt, dt if STEPS[name].scaled else dt * dt / CALIBRATED
    return ((grown**2 - 1) / (2 * noise)) ** 0.5


def _interval(p: float, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share."""
    middle, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
