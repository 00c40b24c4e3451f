"""No knot is missed: spacings, tolerances, methods, paths and precisions against SciPy restarted at every knot.

A solver that steps over a knot, or reads the sample beside it, is off by order 1: a thousand tolerances and more.
"""

import functools

import problems
import pytest
import references
import torch

import ctrnn
from discretize import integrate

FIELDS = ("plain", "gated per unit", "gated power 2", "gru", "lstm")
METHODS = ("dopri5", "tsit5", "dopri8", "bosh3")
PATHS = {"held": (ctrnn.HeldPath, references.held), "linear": (ctrnn.LinearPath, references.linear)}
# Local errors of some twenty segments add up, and held inputs invite steps as long as an error estimate can bear: see
# ERROR_MARGIN in discretize/solvers/control.py. 22 seen with a cubic decay.
WITHIN = 30


def widths(spacing, n):
    """Lengths of n pieces."""
    if spacing == "even":
        return torch.ones(n)
    if spacing == "uneven":
        return 0.02 + torch.rand(n)
    if spacing == "tenths":  # sums of 0.1 round to either side of their tenth
        return torch.full((n,), 0.1)
    if spacing == "wild":  # from 1e-9 to 10, which tests the step carried from piece to piece
        return 10 ** (10 * torch.rand(n) - 9)
    if spacing == "slivers":
        return torch.where(torch.arange(n) % 3 == 1, 1e-9, 1.0 + torch.rand(n))
    raise ValueError(spacing)


SPACINGS = ("even", "uneven", "tenths", "wild", "slivers")


@functools.lru_cache(maxsize=256)
def problem(seed, name, spacing, path, dtype=torch.float64, pieces=8, batch=2):
    """A field, its path, a start, times, and the states there by a solve that is far tighter than those it judges."""
    torch.manual_seed(seed)
    field = problems.NAMED_FIELDS[name](2, 3).to(dtype)
    knots = torch.cat([torch.zeros(1), widths(spacing, pieces).cumsum(0)])
    # Asked for at every other knot and once between, so that there are knots that nobody asks for.
    between = float(knots[-2] + 0.3 * (knots[-1] - knots[-2]))
    ts = torch.tensor(sorted({0.0, between, *knots[::2].tolist(), float(knots[-1])}))
    make, signal = PATHS[path]
    xs = 2 * torch.randn(pieces + (path == "linear"), batch, 2, dtype=dtype)
    h0 = torch.randn(batch, field.state_size, dtype=dtype)
    with torch.no_grad():
        exact = references.dop853(field.double(), signal(xs.double(), knots), knots, h0.double(), ts)
    return field.to(dtype), make(xs, knots), h0, ts, exact


def miss(setting, method, tolerance):
    """The largest error in tolerances rtol |h| + atol."""
    field, path, h0, ts, exact = setting
    with torch.no_grad():
        solved = integrate(field, path, h0, ts, method=method, rtol=tolerance, atol=tolerance)
    assert solved.hs.dtype == h0.dtype
    assert len(solved) == len(ts)
    return float(((solved.hs.double() - exact).abs() / (1 + exact.abs())).max()) / tolerance


def worst(method, tolerance, spacing, path, seeds, fields=FIELDS, dtype=torch.float64):
    """The worst miss, and where; seeds take turns at the fields."""
    found = []
    for seed in seeds:
        name = fields[seed % len(fields)]
        found.append((miss(problem(seed, name, spacing, path, dtype), method, tolerance), seed, name))
    return max(found)


@pytest.mark.parametrize(
    ("method", "path"),
    [("tsit5", "linear"), ("dopri8", "held"), *(pytest.param(m, p, marks=pytest.mark.slow) for m in METHODS for p in PATHS)],
)
@pytest.mark.parametrize(("seed", "spacing"), [*enumerate(SPACINGS)])
def test_no_knot_is_missed(method, path, seed, spacing):
    for tolerance in (1e-2, 1e-5)[: 1 if method == "bosh3" else 2]:  # bosh3 is of a low order: thousands of steps
        found = worst(method, tolerance, spacing, path, [seed])
        assert found[0] < WITHIN, (tolerance, *found)


@pytest.mark.parametrize("path", problems.thinned(PATHS, ("linear",)))
@pytest.mark.parametrize("method", [m if m == "dopri5" else pytest.param(m, marks=pytest.mark.slow) for m in METHODS])
@pytest.mark.parametrize(("seed", "spacing"), [*enumerate(("uneven", "wild", "slivers"))])
def test_no_knot_is_missed_in_single_precision(method, path, seed, spacing):
    found = worst(method, 1e-3, spacing, path, [seed], ["gated per unit"], torch.float32)
    assert found[0] < WITHIN, found


@pytest.mark.parametrize("method", METHODS[:3])
def test_requested_times_that_are_knots_but_for_rounding_are_not_missed(method):
    """Sums of 0.1 are knots an ulp or two beside the multiples of 0.1 that are asked for."""
    field, knots = problems.NAMED_FIELDS["gru"](2, 3), torch.cat([torch.zeros(1), torch.full((20,), 0.1).cumsum(0)])
    ts = torch.arange(20) / 10
    assert 0 < (ts - knots[:-1]).abs().max() < 1e-15
    xs, h0 = 2 * torch.randn(20, 2, 2), torch.randn(2, 3)
    exact = references.dop853(field, references.held(xs, knots), knots, h0, ts)
    assert miss((field, ctrnn.HeldPath(xs, knots), h0, ts, exact), method, 1e-5) < WITHIN


# Held and linear inputs, five spacings, tolerances from 1e-2 to 1e-8, seeds by the hundred.
FINE = {"dopri5": 1e-7, "tsit5": 1e-7, "dopri8": 1e-8, "bosh3": 1e-5}


@pytest.mark.slow
@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_no_knot_is_missed_over_hundreds_of_seeds(dtype, path, spacing):
    tolerances = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
    for seed in range(60):
        setting = problem(seed, FIELDS[seed % len(FIELDS)], spacing, path, dtype)
        for method in METHODS:
            finest = max(FINE[method], 1e-5) if dtype == torch.float32 else FINE[method]
            # Every tolerance in turn, and the first three of each seed.
            for tolerance in {*tolerances[:2], tolerances[2 + seed % 5]}:
                if tolerance >= finest * 0.99:
                    found = miss(setting, method, tolerance)
                    assert found < WITHIN, (method, tolerance, seed, FIELDS[seed % len(FIELDS)])
