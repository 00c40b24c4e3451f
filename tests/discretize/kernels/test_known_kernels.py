"""Calls that find their kernel: what is not done again, and what is checked all the same."""

import sys
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from own_fields import Own
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, SolverError, SolverWarning, integrate
from discretize.steps.step import key_of

OURS = tuple(str(Path(package.__file__).parent) for package in (ctrnn, discretize))


class Shaken(ctrnn.VectorField):
    """dh/dt = -h + x, and noise where it is asked for."""

    def __init__(self, noise=0.0):
        super().__init__(2, 2)
        self.noise = noise

    def flow(self, projected, h):
        return projected - h + self.noise * torch.randn_like(h) if self.noise else projected - h


def known(rnn, *given, **named):
    """Calls a module until its kernel is there."""
    for _ in range(3):
        rnn(*given, **named)
    assert rnn.stats["engine"] == "compiled", rnn.stats["engine_why"]
    return rnn


def walk(work):
    """Returns the functions of this project that are called, each with its file."""
    calls = []

    def profile(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(OURS):
            calls.append((name, frame.f_code.co_name))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_the_field_is_evaluated_by_the_kernel_alone():
    rnn, x = ContinuousRNN(ctrnn.gated(2, 3), fused="always"), torch.randn(6, 2, 2)
    known(rnn, x)
    assert "flow" not in {name for _, name in walk(lambda: rnn(x))}
    rnn.settings = replace(rnn.settings, fused=False)
    assert "flow" in {name for _, name in walk(lambda: rnn(x))}


@pytest.mark.parametrize("learns", [False, True])
def test_a_call_walks_a_short_way(learns):
    rnn, x = ContinuousRNN(ctrnn.gated(2, 3), fused="always"), torch.randn(6, 2, 2)
    with torch.set_grad_enabled(learns):
        known(rnn, x)
        calls = walk(lambda: rnn(x))
    files = [file for file, _ in calls]
    assert len(calls) < 185
    assert len(set(files)) < 36
    assert sum(one != other for one, other in pairwise(files)) < 97


def test_a_field_that_begins_to_draw_is_refused():
    field, x = Shaken(), torch.randn(4, 2, 2)
    rnn = known(ContinuousRNN(field, fused="always"), x)
    field.noise = 0.1
    with pytest.raises(ValueError, match="draws random numbers"):
        rnn(x)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rnn: rnn(torch.randn(4, 2, 2), torch.full((2, 3), torch.nan)), "`h_0` must be finite"),
        (lambda rnn: rnn(torch.randn(4, 2, 2), torch.zeros(2, 4)), "`h_0`"),
        (lambda rnn: rnn(torch.randn(4, 2, 3)), "input features"),
        (lambda rnn: ContinuousRNN(rnn.field, atol=torch.ones(4), fused="always")(torch.randn(4, 2, 2)), "each of the 3 units"),
    ],
    ids=["a start that is nan", "a start of other units", "other features", "tolerances of other units"],
)
def test_what_does_not_fit_is_refused_after_calls_that_did(change, words):
    rnn = known(ContinuousRNN(ctrnn.gated(2, 3), fused="always"), torch.randn(4, 2, 2))
    with pytest.raises(ValueError, match=words):
        change(rnn)


def test_a_field_with_noise_is_refused_after_calls_of_one_without():
    rnn, x = ContinuousRNN(ctrnn.gated(2, 3), fused="always"), torch.randn(4, 2, 2)
    known(rnn, x)
    rnn.field = ctrnn.Noisy(rnn.field, ctrnn.Noise(0.1))
    with pytest.raises((TypeError, ValueError), match="noise"):
        rnn(x)


class Integral(ctrnn.VectorField):
    """dh/dt = x."""

    def __init__(self):
        super().__init__(1, 1)
        self.one = nn.Parameter(torch.ones(()))

    def flow(self, projected, h):
        return self.one * projected + 0 * h


@pytest.mark.parametrize("fused", ["always", False])
def test_states_between_samples_tell_whether_all_are_below_the_tolerance(fused):
    # From 1 to -1 in a straight line: h = t - t t, which is 0 at both samples and 1/4 between them, whenever it begins.
    rnn = ContinuousRNN(Integral(), path="linear", fused=fused)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SolverWarning)
        output, _ = rnn(torch.tensor([[[1.0]], [[-1.0 + 1e-9]]]), ts=torch.tensor([7.0, 8.0]))
    assert output.abs().max() < 1e-7
    with pytest.warns(SolverWarning, match="stay below"):
        rnn(1e-9 * torch.randn(4, 1, 1))


class Squared(ctrnn.VectorField):
    """dh/dt = x h h."""

    def __init__(self):
        super().__init__(1, 1)

    def flow(self, projected, h):
        return projected * h * h


@pytest.mark.parametrize("fused", ["always", False])
def test_what_was_reached_before_a_failure_is_known_at_any_time(fused):
    with pytest.raises(SolverError) as stopped:
        ContinuousRNN(Squared(), fused=fused)(torch.ones(4, 1, 1), torch.full((1, 1), 0.4))
    # 1 / h = 2.5 - t, infinite at 2.5.
    assert_close(stopped.value.trajectory(1.5), torch.ones(1, 1), rtol=1e-4, atol=0)


def test_a_trajectory_of_a_module_is_that_of_integrate():
    field, x = Own(10), torch.randn(5, 2, 10)
    rnn = ContinuousRNN(field, fused="always")
    known(rnn, x)
    ts, h0 = torch.arange(6.0), torch.zeros(2, 10)
    whole, solved = rnn.trajectory(x), integrate(field, ctrnn.HeldPath(x, ts), h0, ts, fused="always")
    for time in (0.5, 3.25, 5.0):
        assert_close(whole(time), solved(time), rtol=0, atol=0)


class Told(discretize.Step):
    """Euler's step, and something it is told."""

    order = evaluations = 1

    def __init__(self, told):
        self.told = told

    def advance(self, field, projected, h, dt):
        return h + dt * field.flow(projected, h)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (discretize.Euler(), discretize.RungeKutta4(), False),
        (discretize.Euler(), discretize.Euler(), True),
        *((Told(1), Told(told), False) for told in (2, 1.0, True)),
        (Told(1), Told(1), True),
    ],
)
def test_steps_are_known_by_their_class_and_numbers(one, other, alike):
    assert (key_of(one) == key_of(other)) is alike
