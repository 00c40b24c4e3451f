r"""The theorem in numbers: on the clock c, with the field times c'(t), the state when the clock shows s is h(s).

dh/dt = f(x(t), h)                      solved once: h
dH/dt = c'(t) f(x(c(t)), H)             solved on each clock: H(t) = h(c(t))
dG/dt = f(x(c(t)), G)                   the field left as it is: G is something else

The cell is one gated field, with the same weights in every section of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

import ctrnn
import discretize
from experiments.data.recording import Recording

__all__ = [
    "ALLOWED",
    "JUDGE",
    "METHOD",
    "SEED",
    "TOLERANCE",
    "UNITS",
    "Clock",
    "WarpedRun",
    "allowed_deviation",
    "clocks_for",
    "field_for",
    "run_clock",
    "samples",
    "unwarped",
]

UNITS = 16
SEED = 0
TOLERANCE = 1e-7  # rtol and atol of every solve
ALLOWED = 10  # tolerances
METHOD = "dopri8"
JUDGE = f"torchdiffeq:{METHOD}"  # a solver that nobody here wrote
MAX_SPEED = 3.0
REPEATS = (1, 5)  # units that a sample lasts on the clock of variable repeats


@cache
def field_for(channels: int) -> ctrnn.VectorField:
    """Make a gated field with weights drawn from a fixed seed."""
    return ctrnn.gated(channels, UNITS, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))


def samples(recording: Recording) -> Tensor:
    """Return the recording as a tensor (time, 1, channels)."""
    return torch.from_numpy(recording.xs)[:, None]


@dataclass(frozen=True)
class Clock:
    """A clock with its name and what it does."""

    name: str
    what: str
    warp: ctrnn.Warp


@dataclass(frozen=True)
class WarpedRun:
    r"""A recording played on a clock.

    Shape:   ts (n,): when the clock shows sample 0, 1, ..., n - 1; with_speed, without (n, units): the states then;
             deviation_with, deviation_without (n,): from the unwarped states, the largest over units.
    """

    clock: Clock
    ts: np.ndarray
    with_speed: np.ndarray
    without: np.ndarray
    deviation_with: np.ndarray
    deviation_without: np.ndarray
    evaluations: int
    seconds: float

    @property
    def largest(self) -> float:
        return float(self.deviation_with.max())

    @property
    def largest_without(self) -> float:
        return float(self.deviation_without.max())


def allowed_deviation() -> float:
    """Return how far two solutions at the solver's tolerance may be apart."""
    return ALLOWED * TOLERANCE


def clocks_for(length: int) -> list[Clock]:
    """Make four clocks for a recording of `length` samples."""
    generator = torch.Generator().manual_seed(SEED)
    least, most = REPEATS
    lasts = torch.randint(least, most + 1, (length - 1,), generator=generator).double()
    ts = torch.cat([torch.zeros(1, dtype=torch.float64), lasts.cumsum(0)])
    smooth = ctrnn.SmoothWarp.random(length - 1.0, MAX_SPEED, generator=generator)
    speeds = smooth.speed(torch.linspace(0, length - 1.0, 2001, dtype=torch.float64))
    repeats = ctrnn.PiecewiseWarp(ts, torch.arange(length).double())
    return [
        Clock("slowed down", Markup("<i>c</i>(<i>t</i>) = <i>t</i>/4"), ctrnn.AffineWarp(0.25)),
        Clock("sped up", Markup("<i>c</i>(<i>t</i>) = 3<i>t</i>"), ctrnn.AffineWarp(3.0)),
        Clock("variable repeats", f"a sample lasts {least} to {most} units, at random", repeats),
        Clock("smooth random", f"speeds from {float(speeds.min()):.2f} to {float(speeds.max()):.2f}", smooth),
    ]


@torch.no_grad()
def unwarped(recording: Recording, method: str = METHOD) -> np.ndarray:
    """Solve for h at every sample, (n, units)."""
    path = ctrnn.LinearPath(samples(recording))
    return _solve(path, path.knots, method=method).hs[:, 0].numpy()


@torch.no_grad()
def run_clock(recording: Recording, clock: Clock, h: np.ndarray) -> WarpedRun:
    """Run the recording on the clock, with c' and without, against the unwarped states h."""
    start = perf_counter()
    straight = ctrnn.LinearPath(samples(recording))
    path, ts = ctrnn.WarpedPath(straight, clock.warp), clock.warp.inverse(straight.knots)
    solved = _solve(path, ts, clock.warp.speed)
    # Two digits are enough to see that this is another solution.
    contrast = discretize.integrate(field_for(len(recording.channels)), path, _rest(), ts, method="rk4", max_step=1.0)
    states, without = solved.hs[:, 0].numpy(), contrast.hs[:, 0].numpy()
    return WarpedRun(
        clock,
        ts.numpy(),
        states,
        without,
        np.abs(states - h).max(1),
        np.abs(without - h).max(1),
        solved.stats["nfe"],
        perf_counter() - start,
    )


def _solve(path: ctrnn.Path, ts: Tensor, speed: ctrnn.Path | None = None, method: str = METHOD) -> discretize.Trajectory:
    field = field_for(path(path.knots[0]).shape[-1])
    return discretize.integrate(
        field, path, _rest(), ts, method=method, rtol=TOLERANCE, atol=TOLERANCE, speed=speed, progress=True
    )


def _rest() -> Tensor:
    return torch.zeros(1, UNITS, dtype=torch.float64)
