r"""Trains the example of a toolbox that turns without input, a sine of period 8 tau, by the settings of its script.

    v <- (1 - a) v + a (W r + b + noise)      a = dt/tau = 0.2, r = relu(v), W = relu(C V) signs, z = Wout r + bout

Song, Yang and Wang 2016, software pycog, examples/models/sinewave.py: 100 units, 80 of them excitatory, gradient descent at
0.01 with its norm clipped at 1 and the regularizer Omega of Pascanu et al. 2013 times 2, one trial of two periods an update,
each from the same state, until the root mean square error is below 0.05. (The script asks for trials that go on from one another;
its code, at commit 7c5d54b, begins each in the same state.) The code is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from derivations.processes.interruption import checkpoint

__all__ = ["ALPHA", "NOISE", "PERIOD", "SIZE", "Sine"]

UNITS, EXCITATORY = 100, 80
ALPHA, PERIOD, SIZE = 0.2, 8.0, 0.9  # dt/tau; time constants; amplitude
STEPS = round(2 * PERIOD / ALPHA)
NOISE = math.sqrt(2 * ALPHA) * 0.05  # deviation of a step's
RATE, CLIP, OMEGA, BOUND, RADIUS, ENOUGH, LOOK = 0.01, 1.0, 2.0, 1e-20, 1.5, 0.05, 1000
Array = np.ndarray[Any, np.dtype[np.float64]]
TARGET = SIZE * np.sin(2 * math.pi / PERIOD * ALPHA * np.arange(1, STEPS + 1))


@dataclass
class Sine:
    """Holds the network; `updates` and `error` say how its training ended."""

    seed: int
    updates: int = 0
    error: float = math.inf

    def __post_init__(self) -> None:
        self.dice = np.random.default_rng((self.seed, 2016))
        self.signs = np.where(np.arange(UNITS) < EXCITATORY, 1.0, -1.0)
        # All to all but themselves; it starts with inhibition as strong in all as excitation, each row of norm 1.
        self.linked = 1 - np.eye(UNITS)
        scale = self.linked * (self.signs > 0)
        inhibits = self.linked * (self.signs < 0)
        scale += inhibits * (scale.sum(1) / inhibits.sum(1))[:, None]
        self.v = self.dice.gamma(2, 0.05 * scale / np.linalg.norm(scale, axis=1)[:, None])
        self.v *= RADIUS / np.abs(np.linalg.eigvals(self.weight)).max()
        self.out = np.abs(0.1 * self.dice.uniform(-1, 1, UNITS))
        self.bias, self.out_bias, self.start = np.zeros(UNITS), 0.0, 0.1 * np.ones(UNITS)

    @property
    def weight(self) -> Array:
        return np.maximum(self.linked * self.v, 0) * self.signs

    @property
    def read_out(self) -> Array:
        return np.maximum(self.out, 0) * self.signs

    def run(self, x: Array, noise: Array) -> Array:
        """Run (units,) or (batch, units) for as many steps as there is noise for: states (steps + 1, ..., units)."""
        weight, states = self.weight.T, np.empty((len(noise) + 1, *x.shape))
        states[0] = x
        for t, drawn in enumerate(noise):
            x = (1 - ALPHA) * x + ALPHA * (np.maximum(x, 0) @ weight + self.bias) + drawn
            states[t + 1] = x
        return states

    def update(self) -> None:
        """Take a step of gradient descent on one trial."""
        xs = self.run(self.start, NOISE * self.dice.normal(size=(STEPS, UNITS)))
        weight, read_out = self.weight, self.read_out
        rates, on = np.maximum(xs, 0), (xs > 0).astype(float)
        off = 2 * (rates[1:] @ read_out + self.out_bias - TARGET) / STEPS
        direct = off[:, None] * read_out * on[1:]
        to_x = np.empty((STEPS, UNITS))  # gradients to the states, each with what comes after it
        to_x[-1] = direct[-1]
        for t in range(STEPS - 2, -1, -1):
            to_x[t] = direct[t] + (1 - ALPHA) * to_x[t + 1] + ALPHA * (to_x[t + 1] @ weight) * on[t + 1]
        to_weight = ALPHA * to_x.T @ rates[:-1]
        kept = (1 - ALPHA) * to_x + ALPHA * (to_x @ weight) * on[1:]
        size = np.square(to_x).sum(1)
        counted = size >= BOUND
        if counted.any():
            pull = np.where(counted, (np.square(kept).sum(1) / np.where(counted, size, 1) - 1) / np.where(counted, size, 1), 0)
            to_weight += OMEGA * 4 * ALPHA / counted.sum() * (pull[:, None] * to_x).T @ (kept * on[1:])
        gradients = [
            to_weight * self.signs * (self.linked * self.v > 0),
            (off @ rates[1:]) * self.signs * (self.out > 0),
            ALPHA * to_x.sum(0),
            off.sum(),
        ]
        norm = math.sqrt(sum(float(np.square(each).sum()) for each in gradients))
        rate = RATE * min(1.0, CLIP / norm) if norm else 0.0
        self.v -= rate * gradients[0]
        self.out -= rate * gradients[1]
        self.bias -= rate * gradients[2]
        self.out_bias -= rate * float(gradients[3])

    def validated(self) -> float:
        """Return the root mean square error over two periods, of 50 noisy copies."""
        dice = np.random.default_rng((self.seed, 22))
        xs = self.run(np.tile(self.start, (50, 1)), NOISE * dice.normal(size=(STEPS, 50, UNITS)))[1:]
        off = np.maximum(xs, 0) @ self.read_out + self.out_bias - TARGET[:, None]
        return float(np.sqrt(np.square(off).mean()))

    def train(self, most: int) -> None:
        """Update until the error is small enough, `most` times at most."""
        while self.updates < most and self.error > ENOUGH:
            checkpoint()
            for _ in range(min(LOOK, most - self.updates)):
                self.update()
                self.updates += 1
            self.error = self.validated()

    def arrays(self) -> dict[str, Array]:
        """Return the weights by the names that `discretize.from_ctrnn` knows, with an input that is not used."""
        return {
            "W_in": np.zeros((UNITS, 1)),
            "W_rec": self.weight,
            "b_rec": self.bias,
            "W_out": self.read_out[None],
            "b_out": np.array([self.out_bias]),
            "dale_ratio": np.array(EXCITATORY / UNITS),
            "Dale_rec": np.diag(self.signs),
        }
