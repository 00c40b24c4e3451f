r"""Random problems against SciPy's DOP853, restarted at every knot: field, path, clock, method, tolerance, times, engine.

    python tests/discretize/solvers/test_fuzz.py [problems] [first seed]        prints the distribution of errors

Errors in tolerances, |h - exact| / (atol + rtol |exact|), the largest over times, samples and units. The reference has its own
interpolation and clocks, in NumPy.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import problems
import pytest
import torch
from scipy.integrate import solve_ivp

import ctrnn
from discretize import integrate

METHODS = ("dopri5", "tsit5", "dopri8", "bosh3", "adaptive_heun", "rodas5p")
# Decays with r <= 1 have a corner at h = 0, across which no estimate holds: docs/discretization.md.
FIELDS = [name for name in problems.NAMED_FIELDS if "power 0.5" not in name and "power 1" not in name]
PATHS = ("held", "linear", "hermite", "function")
CLOCKS = ("none", "none", "affine", "piecewise")
MOST = 20.0  # tolerances


@dataclass(frozen=True)
class Case:
    """What was drawn, in words, and its error in tolerances."""

    words: str
    method: str
    error: float


class Input:
    """Samples (time, batch, feature) at stamps, or a formula, read by NumPy on the piece that begins at `stamps[k]`."""

    def __init__(self, kind, rng, batch, features):
        self.kind, time = kind, int(rng.integers(2, 7))
        self.stamps = np.concatenate([[0.0], np.cumsum(rng.exponential(1.0, time) + 1e-3)])
        count = time if kind == "held" else time + 1
        self.xs, self.phase = rng.normal(size=(count, batch, features)) * rng.uniform(0.3, 2.0), rng.uniform(0.5, 3.0)

    def at(self, k, t):
        x, s = self.xs, (t - self.stamps[k]) / (self.stamps[k + 1] - self.stamps[k])
        if self.kind == "held":
            return x[k]
        if self.kind == "function":
            return x[0] * np.sin(self.phase * t) + x[1]
        if self.kind == "hermite" and k > 0:
            length, before = self.stamps[k + 1] - self.stamps[k], self.stamps[k] - self.stamps[k - 1]
            bend = (x[k] - x[k - 1]) / before * length - (x[k + 1] - x[k])
            return (1 - s) * x[k] + s * x[k + 1] + s * (1 - s) ** 2 * bend
        return (1 - s) * x[k] + s * x[k + 1]

    def path(self):
        xs, stamps = torch.from_numpy(self.xs), torch.from_numpy(self.stamps)
        if self.kind == "function":
            x, phase = xs, self.phase
            return ctrnn.FunctionPath(lambda t: x[0] * torch.sin(phase * t) + x[1], (0.0, float(stamps[-1])), xs.shape[-1])
        kinds = {"held": ctrnn.HeldPath, "linear": ctrnn.LinearPath, "hermite": ctrnn.HermitePath}
        return kinds[self.kind](xs, stamps)


class Clock:
    """c(t), straight between corners."""

    def __init__(self, kind, rng, end):
        self.kind = kind
        corners = np.sort(rng.uniform(0.1, 0.9, 2)) * end
        self.cs = np.array([0.0, *corners, end])
        speeds = {"none": np.ones(3), "affine": np.full(3, rng.uniform(0.3, 3.0)), "piecewise": rng.uniform(0.2, 4.0, 3)}[kind]
        self.ts, self.speeds = np.concatenate([[0.0], np.cumsum(np.diff(self.cs) / speeds)]), speeds

    def warp(self):
        if self.kind == "affine":
            return ctrnn.AffineWarp(float(self.speeds[0]))
        return ctrnn.PiecewiseWarp(torch.from_numpy(self.ts), torch.from_numpy(self.cs))


def exact(field, signal, clock, h0, ts, tolerance):
    """(times, batch, state), far below that tolerance."""
    edges = np.unique(np.concatenate([ts, clock.ts, np.interp(signal.stamps, clock.cs, clock.ts)]))
    edges = edges[(edges >= ts[0]) & (edges <= ts[-1])]
    y, states = h0.numpy().ravel(), [h0.numpy()]
    for start, end in pairwise(edges):
        middle = 0.5 * (start + end)
        k = int(np.searchsorted(signal.stamps, np.interp(middle, clock.ts, clock.cs), side="right")) - 1
        speed = clock.speeds[int(np.searchsorted(clock.ts, middle, side="right")) - 1]

        def slope(t, y, k=k, speed=speed):
            x = torch.from_numpy(np.asarray(signal.at(k, np.interp(t, clock.ts, clock.cs))))
            return speed * field(x, torch.from_numpy(y).reshape(h0.shape)).numpy().ravel()

        y = solve_ivp(slope, (start, end), y, method="DOP853", rtol=1e-4 * tolerance, atol=1e-4 * tolerance).y[:, -1]
        if end in ts:
            states.append(y.reshape(h0.shape))
    return torch.from_numpy(np.array(states))


@torch.no_grad()
def solved_case(seed):
    rng = np.random.default_rng(seed)
    name, method, kind = (str(rng.choice(of)) for of in (FIELDS, METHODS, PATHS))
    clock_kind, tolerance, fused = str(rng.choice(CLOCKS)), 10.0 ** -rng.uniform(2, 7), bool(rng.random() < 0.7)
    batch, features, hidden = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(2, 5))
    field = problems.NAMED_FIELDS[name](features, hidden, generator=torch.Generator().manual_seed(seed))
    for parameter in field.parameters():
        parameter.mul_(float(rng.uniform(0.5, 2.0)))
    signal = Input(kind, rng, batch, features)
    clock = Clock(clock_kind, rng, signal.stamps[-1])
    ts = np.concatenate([[0.0], np.sort(rng.uniform(0, clock.ts[-1], int(rng.integers(1, 6)))), [clock.ts[-1]]])
    h0 = torch.from_numpy(rng.normal(size=(batch, field.state_size)) * float(rng.random() < 0.6))
    path, speed = signal.path(), None
    if clock_kind != "none":
        path, speed = ctrnn.WarpedPath(path, clock.warp()), clock.warp().speed
    ends = torch.from_numpy(ts).clamp(max=path.interval[1])
    found = integrate(field, path, h0, ends, method=method, rtol=tolerance, atol=tolerance, speed=speed, fused=fused)
    expected = exact(field, signal, clock, h0, ts, tolerance)
    error = float(((found.hs - expected).abs() / (tolerance * (1 + expected.abs()))).max())
    return Case(f"seed {seed}: {name}, {kind}, {clock_kind}, {tolerance:.1e}, {found.stats['engine']}", method, error)


def check(seeds):
    cases = [solved_case(seed) for seed in seeds]
    worst = max(cases, key=lambda case: case.error)
    assert worst.error < MOST, worst
    return cases


def test_random_problems_are_within_a_few_tolerances():
    check(range(3))


@pytest.mark.slow
def test_five_hundred_random_problems_are_within_a_few_tolerances():
    check(range(500))


def distribution(cases):
    """A line for each method: how many problems, and quantiles of their errors in tolerances."""
    by_method = defaultdict(list)
    for case in cases:
        by_method[case.method].append(case.error)
    lines = [f"{'method':<14} {'n':>4}" + "".join(f"{q:>9}" for q in ("median", "90 %", "99 %", "largest"))]
    for method, errors in [*sorted(by_method.items()), ("all", [case.error for case in cases])]:
        quantiles = np.quantile(errors, [0.5, 0.9, 0.99, 1.0])
        lines.append(f"{method:<14} {len(errors):>4}" + "".join(f"{q:9.3f}" for q in quantiles))
    return "\n".join([*lines, "worst:", *(str(case) for case in sorted(cases, key=lambda case: -case.error)[:5])])


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    count, first = (int(word) for word in [*sys.argv[1:], *("500", "0")[len(sys.argv) - 1 :]])
    print(distribution([solved_case(seed) for seed in range(first, first + count)]))
