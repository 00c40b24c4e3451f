"""Paths as polynomials of time: their values and slopes are the path's, with as many terms as its pieces have."""

import math

import pytest
import torch
import torchcde
from torch.testing import assert_close

import ctrnn
from ctrnn.inputs.derived import DerivativePath, ReversedPath, TimePath
from ctrnn.inputs.polynomial import MOST_TERMS, polynomial_of
from ctrnn.inputs.splines import as_path

TS = torch.tensor([0.0, 0.1, 0.7, 1.9, 2.0, 5.0], dtype=torch.float64)
SMOOTH = ctrnn.SmoothWarp(5.0, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
STRAIGHT = ctrnn.PiecewiseWarp(TS, TS**2 / 5)


def paths(dtype=torch.float64):
    """A path, and the terms that its pieces have: None for as many as it takes."""
    torch.manual_seed(0)
    xs = torch.randn(len(TS), 4, 2, dtype=dtype)
    own = (TS[:, None] * torch.tensor([1.0, 0.5, 2.0, 1.5])).double()
    linear, hermite = ctrnn.LinearPath(xs, TS), ctrnn.HermitePath(xs, TS)
    spline = torchcde.CubicSpline(torchcde.natural_cubic_coeffs(xs.transpose(0, 1), TS.to(dtype)), TS.to(dtype))
    return {
        "held": (ctrnn.HeldPath(xs[:-1], TS), 1),
        "linear": (linear, 2),
        "hermite": (hermite, 4),
        "hermite, own times": (ctrnn.HermitePath(xs, own), 4),
        "spline": (as_path(spline), 4),
        "slope": (DerivativePath(hermite), 3),
        "backwards": (ReversedPath(hermite), 4),
        "time": (TimePath((0.0, 5.0), 4, dtype=dtype), 2),
        "straight clock": (ctrnn.WarpedPath(hermite, STRAIGHT), 4),
        "straight clock, bent": (ctrnn.WarpedPath(linear, STRAIGHT).map(torch.sin), None),
        "straight clock, affine map": (ctrnn.WarpedPath(linear, STRAIGHT).map(lambda x: 2 * x + 1, affine=True), 2),
        "smooth clock, held": (ctrnn.WarpedPath(ctrnn.HeldPath(xs[:-1], TS), SMOOTH), 1),
        "smooth clock": (ctrnn.WarpedPath(hermite, SMOOTH), None),
        "function": (ctrnn.FunctionPath(lambda t: torch.sin(t + xs[0]), (0.0, 5.0), 2, TS[1:-1]), None),
        "polynomial": (polynomial_of(hermite), 4),
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", paths())
def test_values_and_slopes_are_those_of_the_path(name, dtype):
    rounding = 200 * torch.finfo(dtype).eps
    path, terms = paths(dtype)[name]
    found = polynomial_of(path)
    assert not isinstance(found, str), found
    rows = 1 if isinstance(found, ctrnn.HeldPath) else getattr(found, "terms", 2)
    assert rows == terms if terms else 4 < rows < MOST_TERMS
    assert_close(found.knots, path.knots, rtol=0, atol=0)
    t = torch.linspace(*path.interval, 37, dtype=torch.float64)
    t = t[:-1] + t.diff() / math.pi
    x = path(t)
    assert_close(found(t), x, rtol=0, atol=rounding * (1 + float(x.abs().max())))
    if path.knots.dim() == 1 and name != "slope":
        slope = path.derivative(t)
        assert_close(found.derivative(t), slope, rtol=0, atol=40 * rounding * (1 + float(slope.abs().max())))


def test_gradients_reach_the_samples_whatever_their_values():
    torch.manual_seed(0)
    t = torch.tensor([0.05, 1.0, 4.4], dtype=torch.float64)
    for scale in (1.0, 0.0):  # of samples that are 0 all coefficients are, not so their derivatives
        for warp in (STRAIGHT, SMOOTH):
            xs = (scale * torch.randn(len(TS), 4, 2, dtype=torch.float64)).requires_grad_()
            weights, found = torch.randn(3, 4, 2, dtype=torch.float64), []
            for kind in (polynomial_of, lambda path: path):
                path = kind(ctrnn.WarpedPath(ctrnn.HermitePath(xs, TS), warp))
                found.append(torch.autograd.grad((path(t) * weights).sum(), xs)[0])
            ours, theirs = found
            assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


def test_affine_maps_go_through_the_coefficients():
    path, _ = paths()["polynomial"]
    matrix, t = torch.randn(2, 3, dtype=torch.float64), torch.tensor([0.3, 1.1, 3.9], dtype=torch.float64)
    mapped = path.map(lambda x: x @ matrix + 0.7, affine=True)
    assert_close(mapped(t), path(t) @ matrix + 0.7)
    assert_close(path.map(torch.tanh)(t), path(t).tanh())


def test_what_is_no_polynomial_is_said_so():
    spike = ctrnn.FunctionPath(lambda t: 1 / (1e-4 + (t - 2) ** 2)[None, None], (0.0, 5.0), 1)
    assert "a FunctionPath as polynomials of up to 32 terms between its knots, which do not" in polynomial_of(spike)
    weight = torch.ones(1, 1, requires_grad=True)
    learned = ctrnn.FunctionPath(lambda t: weight * t.sin().float(), (0.0, 5.0), 1)
    assert "gradients are wanted through a FunctionPath" in polynomial_of(learned)
