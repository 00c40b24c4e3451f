"""Clocks: the inverse undoes them, the speed is their derivative, and random ones keep what they promise."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from ctrnn import AffineWarp, HeldPath, PiecewiseWarp, SmoothWarp, Warp

EPS = torch.finfo(torch.float64).eps

widths = st.lists(st.floats(1e-3, 10), min_size=1, max_size=10)
place = st.floats(0, 1)


def piecewise(steps, speeds, start=0.5, shown=-1.5):
    """A clock with these steps of time and these speeds on them."""
    steps, speeds = np.array(steps), np.resize(np.array(speeds), len(steps))
    ts = np.cumsum([start, *steps])
    return PiecewiseWarp(torch.from_numpy(ts), torch.from_numpy(np.cumsum([shown, *(steps * speeds)])))


def smooth(seed, duration=7.3, max_speed=3.0):
    return SmoothWarp.random(duration, max_speed, torch.Generator().manual_seed(seed))


def some_clocks():
    return [AffineWarp(0.3, 2.0), piecewise([0.1, 2.0, 0.7, 3.0], [0.2, 5.0, 1.0, 0.4]), smooth(0), smooth(1, 100.0, 8.0)]


def inside(warp, places):
    start, end = warp.interval if math.isfinite(warp.interval[0]) else (-50.0, 50.0)
    return (start + torch.tensor(places) * (end - start)).clamp(start, end)


clocks = pytest.mark.parametrize("warp", some_clocks())


@given(st.floats(1e-3, 1e3), st.floats(-100, 100), st.floats(-100, 100))
def test_an_affine_clock_and_its_inverse_undo_one_another(speed, offset, t):
    warp = AffineWarp(speed, offset)
    # Three roundings of numbers as large as speed |t| and the offset, seen through the speed on the way back.
    scale = speed * abs(t) + abs(offset) + 1e-300  # below, the rounding is no longer relative
    assert abs(float(warp.inverse(warp(t))) - t) <= 4 * EPS * (scale / speed + abs(t))
    assert abs(float(warp(warp.inverse(t))) - t) <= 4 * EPS * (abs(t) + abs(offset) + abs(t - offset) + 1e-300)
    exact = Fraction(speed) * Fraction(t) + Fraction(offset)
    assert abs(Fraction(float(warp(t))) - exact) <= 2 * EPS * scale


@given(widths, st.lists(st.floats(1e-2, 1e2), min_size=1, max_size=10), place)
def test_a_piecewise_clock_and_its_inverse_undo_one_another(steps, speeds, where):
    warp = piecewise(steps, speeds)
    (start, end), (first, last) = warp.interval, warp.image
    t, s = min(end, start + where * (end - start)), min(last, first + where * (last - first))
    used = warp.speed(torch.tensor([start, t, end]))
    fast, slow = max(1.0, float(warp._speeds.max())), min(1.0, float(warp._speeds.min()))
    largest = max(map(abs, (start, end, first, last)))
    assert bool((used > 0).all())
    # A few roundings of the largest number there is, seen through the slowest or the fastest piece.
    assert abs(float(warp.inverse(warp(t))) - t) <= 8 * EPS * largest / slow
    assert abs(float(warp(warp.inverse(s))) - s) <= 8 * EPS * largest * fast


@given(st.integers(0, 10**6), st.floats(1, 20), st.floats(0.1, 1e3), place)
def test_a_smooth_clock_and_its_inverse_undo_one_another(seed, max_speed, duration, where):
    warp = smooth(seed, duration, max_speed)
    t = min(where * duration, duration)
    shown = warp(t)
    # The sum of up to 40 sines is known to some 40 roundings of the duration; on the way back they are divided by the
    # speed, which is at least 0.05 by construction.
    assert abs(float(warp(warp.inverse(t))) - t) <= 40 * EPS * duration * max_speed
    assert abs(float(warp.inverse(shown)) - t) <= 40 * EPS * duration / 0.05


@clocks
def test_vectors_are_many_scalars(warp):
    ts = inside(warp, [0.9, 0.0, 0.3, 0.3, 1.0])
    for f, arguments in ((warp, ts), (warp.inverse, warp(ts)), (warp.speed, ts), (warp.speed.derivative, ts)):
        values = f(arguments)
        assert values.shape == (5,)
        assert values.dtype == torch.float64
        # The inverse of a smooth clock stops for a vector when its slowest element has arrived.
        one_by_one = torch.stack([f(float(t)) for t in arguments])
        assert one_by_one.shape == (5,)
        assert_close(values, one_by_one, rtol=1e-13, atol=1e-13)
        assert f(torch.empty(0)).shape == (0,)


@clocks
def test_the_speed_is_the_slope_of_the_clock(warp):
    ts = inside(warp, np.linspace(0.01, 0.99, 97))
    corners = warp.knots[torch.isfinite(warp.knots)]
    if len(corners):
        ts = ts[(ts[:, None] - corners).abs().amin(1) > 1e-4]
    quotient = (warp(ts + 1e-5) - warp(ts - 1e-5)) / 2e-5
    assert_close(warp.speed(ts), quotient, rtol=1e-7, atol=1e-8)  # eps * 100 / 1e-5, and step^2 c'''
    turning = (warp.speed(ts + 1e-5) - warp.speed(ts - 1e-5)) / 2e-5
    assert_close(warp.speed.derivative(ts), turning, rtol=1e-7, atol=1e-7)


@clocks
def test_the_speed_is_what_autograd_finds_on_each_piece(warp):
    for k in range(len(warp.knots) - 1):
        start, end = torch.nan_to_num(warp.knots[k : k + 2], posinf=50.0, neginf=-50.0).tolist()
        for where in (0.0, 0.3, 1.0):
            t = torch.tensor(start + where * (end - start))
            _, slope = torch.func.jvp(lambda t, k=k: warp.at(k, t), (t,), (torch.tensor(1.0),))
            assert_close(warp.speed.piece(k)(t), slope, rtol=1e-12, atol=0)  # sums of a few dozen terms
            _, turn = torch.func.jvp(lambda t, k=k: warp.speed_at(k, t) + 0 * t, (t,), (torch.tensor(1.0),))
            assert_close(warp.speed.piece(k).derivative(t), turn, rtol=1e-12, atol=1e-12)


@clocks
def test_a_time_outside_is_refused_and_named(warp):
    if math.isfinite(warp.interval[1]):
        for f, name, end in (
            (warp, "t", warp.interval[1]),
            (warp.inverse, "s", warp.image[1]),
            (warp.speed, "t", warp.interval[1]),
        ):
            with pytest.raises(ValueError, match=f"`{name}` = {end + 1!r} lies outside the interval"):
                f(end + 1)


def test_an_affine_clock_is_its_formula_on_all_of_time():
    warp = AffineWarp(0.25, 3.0)
    assert warp.interval == warp.image == (-math.inf, math.inf)
    assert float(warp(-1e6)) == -249997.0
    assert float(warp.inverse(-249997.0)) == -1e6
    assert float(warp.speed(1e9)) == 0.25
    assert float(AffineWarp(2.0)(3.5)) == 7.0


def test_a_clock_of_the_user_needs_four_functions():
    assert float(Late().inverse(Late()(2.0))) == 2.0
    assert float(Late().speed(2.0)) == 4.0
    with pytest.raises(ValueError, match=r"`s` = 0.5 lies outside the interval \[1.0, 9.0\]"):
        Late().inverse(0.5)
    with pytest.raises(TypeError, match="abstract"):
        Warp()


def test_points_given_as_python_numbers_keep_their_digits_whatever_the_default_dtype():
    torch.set_default_dtype(torch.float32)
    assert PiecewiseWarp([0.1, 0.7], [0.3, 0.4]).knots.tolist() == [0.1, 0.7]
    assert HeldPath(torch.zeros(1, 1, 1), [0.1, 0.7]).knots.tolist() == [0.1, 0.7]
    assert AffineWarp(1.0)(0.1).item() == 0.1
    assert SmoothWarp(1.0, [0.1], [0.0]).cosines.tolist() == [0.1]


@given(widths, st.lists(st.floats(1e-2, 1e2), min_size=1, max_size=10))
def test_a_piecewise_clock_is_exact_at_its_points(steps, speeds):
    warp = piecewise(steps, speeds)
    assert warp(warp.knots).tolist() == warp.images.tolist()
    assert warp.inverse(warp.images).tolist() == warp.knots.tolist()
    for k in range(len(warp.knots) - 1):
        for end in (0, 1):
            assert float(warp.at(k, warp.knots[k + end])) == float(warp.images[k + end])
            assert float(warp.inverse_at(k, warp.images[k + end])) == float(warp.knots[k + end])


def test_a_piecewise_clock_is_exact_at_both_ends_of_a_piece_through_zero():
    # left + (right - left) misses right in several of these; such a clock would show the end of a sample too late.
    starts, ends = -torch.rand(300), torch.rand(300)
    assert int((starts + (ends - starts) != ends).sum()) > 10
    for start, end in zip(starts, ends, strict=True):
        warp = PiecewiseWarp(torch.stack([start, end]), torch.stack([start, end]))
        assert float(warp(end)) == float(warp.inverse(end)) == float(end)
        assert float(warp(start)) == float(warp.inverse(start)) == float(start)


def test_a_smooth_clock_is_its_formula():
    D, a, b = 7.0, np.array([0.2, 0.0, -0.1]), np.array([0.1, -0.3, 0.05])
    warp, t = SmoothWarp(D, torch.from_numpy(a), torch.from_numpy(b)), np.linspace(0, D, 29)
    w = 2 * np.pi * np.array([1, 2, 3]) / D
    shown = t + (a / w * np.sin(np.outer(t, w)) + b / w * (1 - np.cos(np.outer(t, w)))).sum(1)
    speed = 1 + (a * np.cos(np.outer(t, w)) + b * np.sin(np.outer(t, w))).sum(1)
    assert_close(warp(torch.from_numpy(t)), torch.from_numpy(shown).clamp(0, D), rtol=0, atol=1e-14)  # rounding of D
    assert_close(warp.speed(torch.from_numpy(t)), torch.from_numpy(speed), rtol=0, atol=1e-14)


@pytest.mark.parametrize("max_speed", [1.5, 3.0, 10.0])
def test_a_random_smooth_clock_comes_close_to_the_speed_it_may_have(max_speed):
    # A bound that is kept by hardly moving would be no warp.
    fastest = [float(smooth(seed, 1.0, max_speed).speed(torch.linspace(0, 1, 1001)).max()) for seed in range(20)]
    assert np.mean(fastest) > 0.5 * max_speed


def test_a_generator_makes_the_clock_reproducible():
    before = torch.random.get_rng_state()
    assert torch.equal(smooth(5).cosines, smooth(5).cosines)
    assert not torch.equal(smooth(5).cosines, smooth(6).cosines)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(5)
    first = SmoothWarp.random(7.3, 3.0)
    torch.manual_seed(5)
    assert torch.equal(SmoothWarp.random(7.3, 3.0).sines, first.sines)


def test_a_smooth_clock_is_positive_between_the_points_of_any_grid():
    # 1 + a cos(40 theta) with |a| just below 1, just above, and at it.
    def narrow(a):
        cosines = torch.zeros(40)
        cosines[-1] = a
        return SmoothWarp(1.0, cosines, torch.zeros(40))

    narrow(0.99)
    for a in (1.0, 1.01, -1.5):
        with pytest.raises(ValueError, match=r"stand still or run back.*make the coefficients smaller"):
            narrow(a)
    # Below 0 only halfway between two of the grid's 1024 points: the bound between them refuses it.
    phase = math.pi / 1024
    with pytest.raises(ValueError, match="its speed is not safely above 0"):
        SmoothWarp(1.0, [1.000001 * math.cos(phase)], [1.000001 * math.sin(phase)])


@given(st.integers(0, 10**6), st.floats(1, 30), st.floats(1e-2, 1e4))
@settings(max_examples=60)
def test_a_random_smooth_clock_keeps_its_promises(seed, max_speed, duration):
    warp = smooth(seed, duration, max_speed)
    assert warp.interval == warp.image == (0.0, duration)
    assert float(warp(0.0)) == 0.0
    assert float(warp(duration)) == duration
    assert float(warp.inverse(0.0)) == 0.0
    assert float(warp.inverse(duration)) == duration
    speeds = warp.speed(torch.linspace(0, 1, 2001) * duration)
    assert float(speeds.min()) > 0
    assert float(speeds.max()) <= max_speed * (1 + 1e-14)  # rounding of the sum where max_speed is 1


class Late(Warp):
    """A clock of one's own: c(t) = t^2 on [1, 3]."""

    knots, images = torch.tensor([1.0, 3.0], dtype=torch.float64), torch.tensor([1.0, 9.0], dtype=torch.float64)

    def at(self, k, t):
        return t**2

    def inverse_at(self, k, s):
        return s.sqrt()

    def speed_at(self, k, t):
        return 2 * t

    def acceleration_at(self, k, t):
        return 2 * torch.ones_like(t)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: AffineWarp(0.0), ValueError, "`speed` must be positive, got 0.0"),
        (lambda: AffineWarp("fast"), TypeError, "`speed` must be a number, got 'fast'"),
        (lambda: AffineWarp(1.0, math.nan), ValueError, "`offset` must be finite"),
        (lambda: PiecewiseWarp([0, 1, 2], [0, 2, 1]), ValueError, "`cs` must increase strictly, but goes back at index 2"),
        (lambda: PiecewiseWarp([0, 1, 2], [0, 1, 1]), ValueError, "`cs` must increase strictly, but repeats at index 2"),
        (lambda: PiecewiseWarp([0, 1], [0, 1, 2]), ValueError, "`ts` and `cs` must be as long as one another, got 2 and 3"),
        (lambda: PiecewiseWarp([0], [0]), ValueError, "at least two points, got 1; use `AffineWarp`"),
        (lambda: PiecewiseWarp([0, 1e300], [0, 1e-300]), ValueError, "a speed that is 0 or infinite"),
        (lambda: SmoothWarp(0.0, [], []), ValueError, "`duration` must be positive, got 0.0"),
        (lambda: SmoothWarp(1.0, [0.1], []), ValueError, "`cosines` and `sines` differ in length: 1 and 0"),
        (lambda: SmoothWarp(1.0, [[0.1]], [[0.1]]), ValueError, r"`cosines` must be a vector of real numbers.*\(1, 1\)"),
        (lambda: SmoothWarp(1.0, [0.9], [0.9]), ValueError, "its speed is not safely above 0"),
        (lambda: SmoothWarp.random(1.0, 0.99), ValueError, "`max_speed` must be at least 1, got 0.99.*the mean speed is 1"),
    ],
)
def test_what_is_no_clock_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@clocks
@pytest.mark.parametrize(
    ("t", "error", "message"),
    [
        ("now", TypeError, "must be a time or a sequence of times, got str"),
        (torch.zeros(2, 2), ValueError, r"must be one time or a vector of times, got shape \(2, 2\)"),
    ],
)
def test_a_time_that_is_none_is_refused(warp, t, error, message):
    for f, name in ((warp, "t"), (warp.inverse, "s"), (warp.speed, "t"), (warp.speed.derivative, "t")):
        with pytest.raises(error, match=f"`{name}` {message}"):
            f(t)
