"""A field with its input: speed(t) field(x(t), h), piece by piece."""

import math

import pytest
import torch
from problems import NAMED_FIELDS
from torch.testing import assert_close

import ctrnn
from ctrnn import AffineWarp, HeldPath, LinearPath, PiecewiseWarp, SmoothWarp
from ctrnn.clocks.warped_path import WarpedPath
from ctrnn.driven import Driven
from discretize.solvers.segments import chain_of

ROUNDING = {"rtol": 0, "atol": 1e-13}  # |h|^3 h of order 10, a few sums in another order


def held(**settings):
    return HeldPath(torch.randn(5, 4, 3), **settings)


def bent():
    return PiecewiseWarp([0.0, 1.5, 2.25, 5.0], [0.0, 3.0, 3.5, 5.0])


TIMES = [0.0, 0.3, 1.0, 1.5, 2.2, 2.25, 3.999, 4.0]


@pytest.mark.parametrize("name", NAMED_FIELDS)
def test_it_is_the_field_on_the_path_times_the_speed(name):
    field, warp = NAMED_FIELDS[name](3, 4), bent()
    h = torch.randn(4, field.state_size)
    for path in (held(), LinearPath(torch.randn(5, 4, 3))):
        for t in TIMES:
            assert_close(Driven(field, path)(t, h), field(path(t), h), **ROUNDING)
            assert_close(
                Driven(field, path, warp.speed)(torch.tensor(t), h), float(warp.speed(t)) * field(path(t), h), **ROUNDING
            )


def test_the_warped_model_is_the_field_at_what_the_clock_shows():
    # Tallec and Ollivier 2018, eq. (6): dh/dt = c'(t) field(x(c(t)), h).
    field, path = ctrnn.gated(3, 5), LinearPath(torch.randn(6, 4, 3))
    h = torch.randn(4, 5)
    for warp in (AffineWarp(0.4, 0.1), bent(), SmoothWarp.random(5.0, 3.0, torch.Generator().manual_seed(0))):
        driven = Driven(field, WarpedPath(path, warp), warp.speed)
        for t in (0.3, 1.7, 2.9, 4.6):
            expected = float(warp.speed(t)) * field(path(float(warp(t))), h)
            assert_close(driven(t, h), expected, **ROUNDING)


def test_knots_are_those_of_path_and_speed_together():
    driven = Driven(ctrnn.plain(3, 5), held(), bent().speed)
    assert driven.knots.tolist() == [0.0, 1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 5.0]
    assert driven.interval == (0.0, 5.0)
    assert Driven(ctrnn.plain(3, 5), held()).knots.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert Driven(ctrnn.plain(3, 5), held(), AffineWarp(2.0).speed).knots.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_interval_is_what_path_and_speed_share():
    speed = PiecewiseWarp([1.25, 2.5, 9.0], [0.0, 1.0, 2.0]).speed
    driven = Driven(ctrnn.plain(3, 5), held(), speed)
    assert driven.knots.tolist() == [1.25, 2.0, 2.5, 3.0, 4.0, 5.0]
    h = torch.zeros(4, 5)
    for t, end in ((1.0, 1.25), (5.5, 5.0)):  # where a solver's step may look, but not begin
        assert_close(driven(t, h), driven(end, h), rtol=0, atol=0)
        with pytest.raises(ValueError, match=rf"begins at t = {t:g}.* on \[1.25, 5.0\]"):
            driven.callback_step(torch.tensor(t), h, torch.tensor(0.1))


def test_each_piece_has_its_own_input_and_speed_up_to_both_ends():
    field, path, warp = ctrnn.gated(3, 5), held(), bent()
    driven, h = Driven(field, path, warp.speed), torch.randn(4, 5)
    chain = chain_of(driven, driven.knots)
    for k in range(len(driven.knots) - 1):
        segment, width = chain.segment(k), driven.knots[k + 1] - driven.knots[k]
        middle = float(driven.knots[k] + driven.knots[k + 1]) / 2
        expected = float(warp.speed(middle)) * field(path(middle), h)
        for tau in (torch.tensor(0.0), width / 2, width):
            t = driven.knots[k] + tau
            assert_close(segment(tau, h), expected, **ROUNDING)
            assert_close(segment.speed_at(t, h), warp.speed(middle), rtol=0, atol=0)
            assert_close(segment.input_at(t), field.project(path(middle)), **ROUNDING)
    without = Driven(field, path)
    assert_close(chain_of(without, driven.knots).segment(0)(width / 2, h), without(0.5, h), **ROUNDING)


def test_at_a_knot_the_piece_that_begins_there_is_meant():
    field, path, warp = ctrnn.gated(3, 5), held(), bent()
    driven, h = Driven(field, path, warp.speed), torch.randn(4, 5)
    chain, now = chain_of(driven, driven.knots), torch.tensor(0.0)
    for k, t in enumerate(driven.knots[:-1]):
        assert_close(driven(t, h), chain.segment(k)(now, h), **ROUNDING)
    last = driven.knots[-1]
    assert_close(driven(last, h), chain.segment(len(chain) - 1)(last - driven.knots[-2], h), **ROUNDING)
    assert_close(driven(float(last) + 4 * math.ulp(float(last)), h), driven(last, h), rtol=0, atol=0)


def test_where_the_speed_ends_on_a_knot_of_the_path_the_piece_before_it_is_meant():
    field, path, h = ctrnn.gated(3, 5), held(), torch.randn(4, 5)
    driven = Driven(field, path, PiecewiseWarp([0.0, 2.0], [0.0, 3.0]).speed)
    assert_close(driven(2.0, h), 1.5 * field(path.piece(1)(2.0), h), **ROUNDING)


def test_a_bare_function_is_a_smooth_speed():
    field, path = ctrnn.plain(3, 5), held()
    h = torch.randn(4, 5)
    for speed in (lambda t: 2 + torch.sin(t), lambda t: 2 + math.sin(float(t)), lambda t: (2 + torch.sin(t)).reshape(1)):
        driven = Driven(field, path, speed)
        assert torch.equal(driven.knots, path.knots)
        for t in (0.3, 2.0, 5.0):
            assert_close(driven(t, h), (2 + math.sin(t)) * field(path(t), h), **ROUNDING)


def test_a_learned_speed_gets_its_gradient():
    pace = torch.tensor(2.0, requires_grad=True)
    field, path, h = ctrnn.plain(3, 5), held(), torch.randn(4, 5)
    (gradient,) = torch.autograd.grad(Driven(field, path, lambda t: pace * t)(1.5, h).sum(), pace)
    assert_close(gradient, 1.5 * field(path(1.5), h).detach().sum(), **ROUNDING)


def test_gradients_reach_weights_state_and_samples():
    field, xs = ctrnn.gated(3, 5), torch.randn(5, 4, 3, requires_grad=True)
    h = torch.randn(4, 5, requires_grad=True)
    wanted = [xs, h, *field.parameters()]
    ours = torch.autograd.grad(Driven(field, HeldPath(xs), bent().speed)(1.7, h).pow(2).sum(), wanted)
    theirs = torch.autograd.grad((bent().speed(1.7) * field(xs[1], h)).pow(2).sum(), wanted)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, **ROUNDING)


@pytest.mark.parametrize(
    ("speed", "message"),
    [
        (lambda t: -1.0, "`speed` must be finite and at least 0, got -1.0 at t = 1.5"),
        (lambda t: torch.ones(4, 1), r"`speed` must give one number for the whole batch, got shape \(4, 1\)"),
        (lambda t: None, "`speed` must"),
    ],
)
def test_a_value_that_is_no_speed_is_refused(speed, message):
    driven = Driven(ctrnn.plain(3, 5), held(), speed)
    with pytest.raises((TypeError, ValueError), match=message):
        driven(1.5, torch.zeros(4, 5))


def test_a_path_that_is_no_speed_is_refused():
    # A recording of several features, or one that goes backwards, is not a clock's speed.
    h = torch.zeros(4, 5)
    with pytest.raises((TypeError, ValueError), match="`speed` must"):
        Driven(ctrnn.plain(3, 5), held(), HeldPath(torch.ones(5, 4, 5)))(1.5, h)
    with pytest.raises((TypeError, ValueError), match="`speed` must"):
        Driven(ctrnn.plain(3, 5), held(), HeldPath(-torch.ones(5, 1, 1)))(1.5, h)


def test_a_clock_given_for_its_speed_is_refused():
    # Warps are callable: without a word, c(t) would be taken for c'(t).
    with pytest.raises(TypeError, match=r"`warp\.speed`; got the PiecewiseWarp itself"):
        Driven(ctrnn.plain(3, 5), held(), bent())


def test_the_slope_of_a_bare_function_is_not_known():
    with pytest.raises(NotImplementedError, match="use a warp's `speed`"):
        Driven(ctrnn.plain(3, 5), held(), lambda t: t).speed.derivative(1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Driven(torch.nn.GRUCell(3, 5), held()), TypeError, "`field` must be a ctrnn.VectorField, got GRUCell"),
        (
            lambda: Driven(ctrnn.plain(3, 5), torch.randn(5, 4, 3)),
            TypeError,
            "`path` must be a ctrnn.inputs.Path, got Tensor; wrap samples in `ctrnn.HeldPath`",
        ),
        (lambda: Driven(ctrnn.plain(2, 5), held()), ValueError, r"`path` has shape \(4, 3\), the field reads 2 input features"),
        (
            lambda: Driven(ctrnn.plain(3, 5), held(), 2.0),
            TypeError,
            "`speed` must be a warp's `speed`, a path or a function of time, got float",
        ),
        (
            lambda: Driven(ctrnn.plain(3, 5), held(), PiecewiseWarp([5, 6], [0, 1]).speed),
            ValueError,
            r"`path` on \(0.0, 5.0\) and `speed` on \(5.0, 6.0\) have no time in common",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("t", "h", "error", "message"),
    [
        (1.5, torch.zeros(3, 5).double(), ValueError, r"`h` must have shape \(batch, state\) = \(4, 5\), got \(3, 5\)"),
        (1.5, torch.zeros(4, 5).float(), TypeError, "`h` is torch.float32"),
        (math.nan, torch.zeros(4, 5).double(), ValueError, "`t` must be finite"),
        (torch.tensor([0.5, 1.5]), torch.zeros(4, 5).double(), ValueError, r"`t` must be one time.*\(2,\)"),
    ],
)
def test_a_time_or_state_that_does_not_fit_is_refused(t, h, error, message):
    with pytest.raises(error, match=message):
        Driven(ctrnn.plain(3, 5), held())(t, h)
