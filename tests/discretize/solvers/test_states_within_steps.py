"""States between the ends of steps, of pairs whose stages give them: their order, what they cost, and their gradients."""

import itertools
import math
import warnings

import pytest
import torch
from torch.testing import assert_close

import discretize
from discretize import SolverWarning
from discretize.solvers.continuation import Pieces
from discretize.solvers.pairs import EXPLICIT_PAIRS
from discretize.solvers.tableaus import EmbeddedRungeKutta

SHARES = torch.linspace(0, 1, 23, dtype=torch.float64)


def bell(t, h):
    """dh/dt = -2 t h^2, h(t) = 1 / (1 / h(s) + t^2 - s^2)"""
    return -2 * t * h**2


def solved(h, t, at):
    return 1 / (1 / h + at**2 - t**2)


def one_step(method, dt, fused=False):
    ts = torch.tensor([0.5, 0.5 + dt], dtype=torch.float64)
    h0 = torch.tensor([[0.8], [1.1]], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)  # of an `atol` that any step meets
        found = discretize.integrate(bell, None, h0, ts, method=method, rtol=0.9, atol=1e3, first_step=dt, fused=fused)
    assert found.stats["num_steps"] == 1
    return found, h0


def error(method, dt, fused):
    found, h0 = one_step(method, dt, fused)
    times = 0.5 + dt * SHARES
    return float((found(times) - solved(h0, 0.5, times[:, None, None])).abs().max())


@pytest.mark.parametrize("method", ["dopri5", "tsit5"])
@pytest.mark.parametrize("fused", [False, "always"])  # by the slopes that were kept, and by stages that are computed again
def test_states_within_a_step_are_of_the_order_of_the_step(method, fused):
    errors = [error(method, dt, fused) for dt in (0.2, 0.1, 0.05)]
    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert all(5.5 < order < 6.8 for order in orders), orders  # of one step, O(dt^6)


@pytest.mark.parametrize("method", ["dopri5", "tsit5"])
def test_reading_many_times_takes_two_evaluations_a_step(method):
    calls = 0

    def counted(t, h):
        nonlocal calls
        calls += 1
        return bell(t, h)

    ts, h0 = torch.tensor([0.0, 3.0], dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    found = discretize.integrate(counted, None, h0, ts, method=method, fused=False)
    taken, calls = found.stats["num_accepted_steps"], 0
    at = torch.linspace(0, 3, 200, dtype=torch.float64)
    states = found(at)
    assert taken > 3
    assert calls == 2  # of all steps at once
    assert_close(states, solved(h0, 0.0, at[:, None, None]), rtol=0, atol=3e-5)


@pytest.mark.parametrize("method", ["dopri5", "tsit5"])
def test_gradients_of_states_within_steps_are_those_of_the_solution(method):
    h0 = torch.tensor([[0.8], [1.1]], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)  # t -> scale t, for h falls with t^2
    ts = torch.tensor([0.0, 2.0], dtype=torch.float64)
    found = discretize.integrate(lambda t, h: scale * bell(t, h), None, h0, ts, method=method, rtol=1e-9, atol=1e-9, fused=False)
    at = torch.linspace(0, 2, 50, dtype=torch.float64)
    states = found(at)
    exact = 1 / (1 / h0 + scale * at[:, None, None] ** 2)
    weights = torch.linspace(-1, 2, states.numel(), dtype=torch.float64).view_as(states)
    gradients = [torch.autograd.grad((weights * hs).sum(), [h0, scale]) for hs in (states, exact)]
    assert_close(*gradients, rtol=1e-7, atol=0)


@pytest.mark.parametrize("name", ["dopri5", "tsit5"])
def test_a_mistaken_number_of_states_within_a_step_is_refused(name):
    given = EXPLICIT_PAIRS[name]

    class Mistaken(EmbeddedRungeKutta):
        order, a, c, e = given.order, given.a, given.nodes, given.e
        d = (*given.d[:-1], given.d[-1] + 1e-3)

    with pytest.raises(ValueError, match="by `d` are not of order 4"):
        Mistaken()


def test_a_step_of_a_sample_that_is_not_finite_leaves_no_nan_in_the_gradients_between_steps_of_others():
    k, end = torch.tensor(1.0, dtype=torch.float64, requires_grad=True), 1e-196
    h0 = torch.tensor([[1.0], [1e100]], dtype=torch.float64, requires_grad=True)
    ts = torch.tensor([0.0, end], dtype=torch.float64)
    # The first step leads the second sample to infinity; the first one takes it.
    found = discretize.integrate(lambda t, h: -k * h**3, None, h0, ts, fused=False, first_step=end)
    assert found.stats["accepted_steps_of_samples"][0] == 1
    assert found.stats["rejected_steps_of_samples"][1] > 0
    gradients = torch.autograd.grad(found(end * SHARES)[:, 0].sum(), [k, h0])
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_many_times_of_many_steps_are_read_as_a_few_of_them_are():
    steps, asked = 2500, 3000
    begin = torch.rand(steps, 2, dtype=torch.float64).sort(0).values
    pieces = Pieces(begin, torch.ones_like(begin) / steps, torch.randn(steps, 2, 6, 1, dtype=torch.float64))
    samples, times = torch.randint(2, (asked,)), torch.rand(asked, dtype=torch.float64)
    times[:50] = begin[:50, 0]  # of two that meet the earlier
    few = [pieces.at(*each) for each in zip(samples.split(100), times.split(100), strict=True)]
    assert_close(pieces.at(samples, times), torch.cat(few), rtol=0, atol=0)
