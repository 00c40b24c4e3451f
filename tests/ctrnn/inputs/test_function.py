"""Inputs given by formulas: where they are asked, what they give, and their slopes."""

import math

import numpy as np
import pytest
import references
import torch
from torch.testing import assert_close

import ctrnn
from ctrnn import FunctionPath
from discretize import integrate

PHASES = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], dtype=torch.float64)


def wave(t):
    return torch.sin(2 * t + PHASES)


def step(t):
    """0 before 1, and 1 from 1 on, right-continuous."""
    return torch.full((3, 2), float(t >= 1))


def test_values_and_slopes_are_those_of_the_formula():
    path, ts = FunctionPath(wave, (-1.0, 3.0), 2), torch.tensor([2.5, -1.0, 3.0, 0.3])
    assert path.interval == (-1.0, 3.0)
    assert torch.equal(path(0.3), wave(torch.tensor(0.3)))
    assert torch.equal(path(ts), torch.stack([wave(t) for t in ts]))
    slopes = torch.stack([2 * torch.cos(2 * t + PHASES) for t in ts])
    assert_close(path.derivative(ts), slopes, rtol=0, atol=1e-15)
    assert path(torch.empty(0)).shape == path.derivative(torch.empty(0)).shape == (0, 3, 2)
    own = torch.rand(5, 3)
    assert_close(path(own), torch.stack([torch.stack([wave(t)[i] for i, t in enumerate(row)]) for row in own]), rtol=0, atol=0)


def test_a_solver_asks_inside_of_its_piece_only():
    asked = []

    def watched(t):
        assert t.dtype == torch.float64
        assert t.dim() == 0
        asked.append(float(t))
        return step(t)

    path = FunctionPath(watched, (0, 2), 2, knots=[1.0])
    integrate(ctrnn.plain(2, 3), path, torch.zeros(3, 3), torch.tensor([0.0, 2.0]))
    assert 1.0 not in asked
    assert math.nextafter(1.0, 0.0) in asked
    assert math.nextafter(1.0, 2.0) in asked
    assert 0 <= min(asked) <= max(asked) <= 2


def test_a_function_may_be_a_speed():
    field, path, h0 = ctrnn.gated(2, 3), ctrnn.LinearPath(torch.randn(4, 3, 2)), torch.randn(3, 3)
    bare = integrate(field, path, h0, [0.0, 3.0], speed=lambda t: 1 + t**2).hs
    speed = FunctionPath(lambda t: (1 + t**2).reshape(1, 1), (0, 3), 1)
    assert_close(integrate(field, path, h0, [0.0, 3.0], speed=speed).hs, bare, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["dopri8", "rodas5p"])
def test_a_solve_agrees_with_dop853(method):
    field, h0, ts = ctrnn.gru(2, 3), torch.randn(3, 3), torch.tensor([0.0, 0.4, 2.0])
    kinked = lambda t: (t - 1).abs() * wave(t)  # noqa: E731
    expected = references.dop853(field, lambda k, t: kinked(torch.tensor(t)), torch.arange(3.0), h0, ts)
    with torch.no_grad():
        solved = integrate(field, FunctionPath(kinked, (0, 2), 2, [1.0]), h0, ts, method=method, rtol=1e-7, atol=1e-7)
    assert_close(solved.hs, expected, rtol=0, atol=1e-5)


def test_gradients_reach_what_the_formula_is_made_of_and_the_times():
    field, h0 = ctrnn.gated(2, 3), torch.randn(3, 3)
    frequency = torch.tensor(1.3, requires_grad=True)
    ts = torch.tensor([0.2, 0.9, 1.7], requires_grad=True)

    def solve(frequency, ts):
        path = FunctionPath(lambda t: torch.sin(frequency * t + PHASES), (0.0, 2.0), 2, knots=[1.0])
        return integrate(field, path, h0, ts, method="rk4", max_step=0.5).hs

    def values(frequency):
        path = FunctionPath(lambda t: torch.sin(frequency * t + PHASES), (0.0, 2.0), 2, knots=[1.0])
        return torch.cat([path([0.0, 0.5, 1.0]), path.derivative([0.0, 0.5, 1.0])])

    assert torch.autograd.gradcheck(solve, (frequency, ts))
    assert torch.autograd.gradcheck(values, (frequency,))


def test_slopes_that_torch_cannot_follow_are_refused_and_those_of_constants_are_zero():
    for f in (
        lambda t: torch.full((3, 2), math.sin(t)),
        lambda t: torch.from_numpy(np.full((3, 2), np.sin(float(t)))),
        lambda t: torch.from_numpy(np.full((3, 2), np.sin(t.numpy()))),
    ):
        path = FunctionPath(f, (0, 2), 2)
        assert float(path(0.5)[0, 0]) == pytest.approx(math.sin(0.5), abs=1e-15)
        for t in (0.5, [0.5, 1.0]):
            with pytest.raises(NotImplementedError, match=r"derivative of `f` at t = 0.5 .*`torch.sin\(t\)` for `math.sin\(t\)`"):
                path.derivative(t)
    path = FunctionPath(step, (0, 2), 2, knots=[1.0])
    assert torch.equal(path.derivative([0.0, 0.5, 1.0, 2.0]), torch.zeros(4, 3, 2))
    hidden = FunctionPath(step, (0, 2), 2)  # a jump that was not told
    with pytest.raises(NotImplementedError):
        hidden.derivative(0.5)


def test_a_function_that_changes_its_mind_is_refused_when_it_does():
    path = FunctionPath(lambda t: torch.zeros(3 if t < 1 else 4, 2), (0.0, 2.0), 2)
    with pytest.raises(ValueError, match=r"shape \(3, 2\) at every time, got \(4, 2\) at t = 1.5"):
        path(1.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_formula_decides_the_dtype_and_the_field_must_fit_it(dtype, batch):
    path = FunctionPath(lambda t: wave(t)[:batch].to(dtype), (1e4, 1e4 + 1), 2)
    assert path(1e4).dtype == path.derivative(1e4).dtype == dtype
    ts = 1e4 + torch.tensor([0.0, 0.5, 1.0])
    solved = integrate(ctrnn.plain(2, 3, dtype=dtype), path, torch.zeros(batch, 3, dtype=dtype), ts)
    assert solved.hs.dtype == dtype
    assert solved.hs.shape == (3, batch, 3)
    other = torch.float32 if dtype == torch.float64 else torch.float64
    with pytest.raises(TypeError, match=f"`path` is {dtype}"):
        integrate(ctrnn.plain(2, 3, dtype=other), path, torch.zeros(batch, 3, dtype=other), ts)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"f": torch.zeros(3, 2)}, TypeError, "`f` must be a function of time, got Tensor"),
        ({"f": lambda t: 1.0}, TypeError, r"floating-point tensor \(batch, 2\) at every time, got float at t = 0.0"),
        ({"f": lambda t: torch.zeros(2)}, ValueError, r"shape \(batch, 2\) at every time, got \(2,\) at t = 0.0"),
        ({"interval": (0.0, 1.0, 2.0)}, ValueError, r"`interval` must be \(start, end\), got 3 times"),
        ({"input_size": 0}, ValueError, "`input_size` must be at least 1"),
        ({"knots": [3.0]}, ValueError, r"`knots` holds 3.0, outside the interval \[0.0, 2.0\]"),
        ({"knots": [1.0, 0.5]}, ValueError, "`knots` must increase strictly, but goes back"),
        ({"knots": [1.0, math.nextafter(1.0, 2.0)]}, ValueError, "no time lies between 1.0 and 1.0000000000000002"),
    ],
)
def test_what_does_not_fit_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        FunctionPath(**{"f": lambda t: torch.zeros(3, 2), "interval": (0.0, 2.0), "input_size": 2} | changes)
