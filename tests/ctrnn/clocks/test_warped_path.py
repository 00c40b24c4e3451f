"""A path on another clock: its pieces against exact arithmetic, its values against x(c(t))."""

from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from torch.testing import assert_close

import ctrnn
from ctrnn import AffineWarp, HeldPath, LinearPath, PiecewiseWarp, SmoothWarp
from ctrnn.clocks.warped_path import WarpedPath

EPS = torch.finfo(torch.float64).eps

# Tenths meet each other and whole numbers in exact arithmetic or miss by one rounding: where a search goes wrong.
tenths = st.integers(1, 40).map(lambda n: n / 10)
widths = st.lists(tenths | st.floats(1e-3, 10), min_size=1, max_size=8)
points = st.lists(st.tuples(tenths | st.floats(1e-3, 10), tenths | st.floats(1e-3, 10)), min_size=1, max_size=8)


def numbered(knots):
    """A held path whose sample k is k."""
    return HeldPath(torch.arange(float(len(knots) - 1))[:, None, None], torch.tensor(knots))


def increasing(start, steps):
    return np.cumsum([start, *steps]).tolist()


def exact_piecewise(ts, cs):
    """c in fractions, through the same float64 points."""
    ts, cs = [Fraction(t) for t in ts], [Fraction(c) for c in cs]

    def clock(t):
        k = min(max(bisect_right(ts, t) - 1, 0), len(ts) - 2)
        return cs[k] + (t - ts[k]) * (cs[k + 1] - cs[k]) / (ts[k + 1] - ts[k])

    return clock


def exact_affine(speed, offset):
    return lambda t: Fraction(speed) * t + Fraction(offset)


def assert_pieces_are_exact(path, warp, exact, inverse):
    """Every piece of the warped path plays the sample that c, in fractions, shows at its middle; every knot is where c,
    in fractions, shows a knot of the path, or where c has a corner; and nothing of either is missing."""
    warped = WarpedPath(path, warp)
    shown_at = [Fraction(s) for s in path.knots.tolist()]
    start, end = warped.interval
    largest = max(abs(x) for x in (start, end, *path.interval))
    finite = warp.knots[torch.isfinite(warp.knots)].tolist()

    first, last = shown_at[0], shown_at[-1]
    if finite:
        first, last = max(first, exact(Fraction(finite[0]))), min(last, exact(Fraction(finite[-1])))
    expected = {inverse(s) for s in shown_at if first < s < last} | {inverse(first), inverse(last)}
    expected |= {Fraction(t) for t in finite if inverse(first) < t < inverse(last)}
    # Fewer where two of them are one float64, never more.
    knots = warped.knots.tolist()
    assert knots == sorted(set(knots))
    assert len(knots) <= len(expected)
    rounding = Fraction(8 * EPS * max(1.0, float(1 / min(slopes(warp)))) * largest)
    for t in expected:
        assert min(abs(t - Fraction(k)) for k in knots) <= rounding
    for k in knots:
        assert min(abs(t - Fraction(k)) for t in expected) <= rounding

    for k, (a, b) in enumerate(pairwise(knots)):
        if Fraction(b) - Fraction(a) <= 2 * rounding:
            continue  # between a corner and a knot that are one but for rounding
        middle = (Fraction(a) + Fraction(b)) / 2
        sample = bisect_right(shown_at, exact(middle)) - 1
        for t in (a, float(middle), b):  # the piece keeps its sample up to both of its ends
            assert warped.piece(k)(t).item() == sample
        assert warped(a).item() == sample
        assert warped(float(middle)).item() == sample


def slopes(warp):
    return warp._speeds.tolist() if isinstance(warp, PiecewiseWarp) else [warp._speed]


@given(widths, tenths | st.floats(1e-2, 1e2), st.integers(-50, 50).map(lambda n: n / 10) | st.floats(-20, 20))
def test_on_an_affine_clock_each_piece_plays_its_sample(steps, speed, offset):
    path = numbered(increasing(0.0, steps))
    exact = exact_affine(speed, offset)
    assert_pieces_are_exact(path, AffineWarp(speed, offset), exact, lambda s: (s - Fraction(offset)) / Fraction(speed))


@given(widths, points, st.sampled_from([0.0, -1.0, 0.5, 2.3]))
def test_on_a_piecewise_clock_each_piece_plays_its_sample(steps, points, shown):
    knots = increasing(0.0, steps)
    ts, cs = increasing(0.3, [p[0] for p in points]), increasing(shown, [p[1] for p in points])
    if not max(cs[0], 0.0) + 1e-6 < min(cs[-1], knots[-1]):
        return  # the clock never enters the path
    assert_pieces_are_exact(numbered(knots), PiecewiseWarp(ts, cs), exact_piecewise(ts, cs), exact_piecewise(cs, ts))


def test_where_corners_meet_samples_there_is_one_knot():
    cs = [0.0, 0.5, 1.0, 3.0, 4.0]
    ts = [0.0, 0.1, 0.7, 0.9, 5.0]
    warped = WarpedPath(numbered([0.0, 1.0, 2.0, 3.0, 4.0]), PiecewiseWarp(ts, cs))
    assert_close(warped.knots, torch.tensor([0.0, 0.1, 0.7, 0.8, 0.9, 5.0]), rtol=2 * EPS, atol=0)
    assert warped.knots[[0, 1, 2, 4, 5]].tolist() == ts  # exactly: the clock shows these at its own points
    assert [warped.piece(k)(warped.knots[k]).item() for k in range(5)] == [0.0, 0.0, 1.0, 2.0, 3.0]
    assert warped(torch.tensor(ts))[:, 0, 0].tolist() == [0.0, 0.0, 1.0, 3.0, 3.0]


def test_the_speed_of_a_clock_can_be_played_on_another_clock():
    # c = c1(c2(t)) has the speed c1'(c2(t)) c2'(t): the first factor is a warped speed.
    first, second = some_warps()["piecewise"], PiecewiseWarp([0.0, 1.0, 2.0], [0.0, 5.0, 9.0])
    warped = WarpedPath(first.speed, second)
    ts = inner_times(warped)
    assert_close(warped(ts), first.speed(second(ts)), rtol=0, atol=0)
    smooth = WarpedPath(some_warps()["smooth"].speed, AffineWarp(0.5))
    ts = inner_times(smooth)
    assert_close(smooth.derivative(ts), 0.5 * some_warps()["smooth"].speed.derivative(0.5 * ts), rtol=0, atol=1e-13)
    assert smooth.derivative(1.0).shape == ()


def test_a_clock_too_fast_for_float64_is_refused():
    with pytest.raises(ValueError, match=r"in no time.*too fast for float64"):
        WarpedPath(numbered([0.0, 1e-20]), AffineWarp(1.0, -1.0))


@pytest.mark.parametrize(("seed", "duration", "max_speed"), [(0, 6.0, 1.0), (1, 6.0, 3.0), (2, 1.9, 20.0)])
def test_on_a_smooth_clock_knots_are_where_a_root_finder_finds_them(seed, duration, max_speed):
    warp = SmoothWarp.random(duration, max_speed, torch.Generator().manual_seed(seed))
    edges = [*(duration * torch.arange(6) / 6).tolist(), duration]
    warped = WarpedPath(numbered(edges), warp)
    assert warped.interval == (0.0, duration)
    roots = [
        brentq(lambda t, s=s: float(warp.at(0, torch.tensor(t))) - s, 0, duration, xtol=1e-15, rtol=4 * EPS) for s in edges[1:-1]
    ]
    # The clock is known to a few dozen roundings of the duration, its time to those over the speed, 0.05 at least.
    rounding = 800 * EPS * duration
    expected = torch.cat([torch.tensor(roots), warp.knots]).sort().values
    assert float((warped.knots[:, None] - expected).abs().amin(1).max()) <= rounding
    assert float((warped.knots[:, None] - expected).abs().amin(0).max()) <= rounding
    for k, (a, b) in enumerate(pairwise(warped.knots.tolist())):
        if b - a > 2 * rounding:
            assert warped.piece(k)(a).item() == warped.piece(k)(b).item() == bisect_right(roots, (a + b) / 2)
    assert warped(torch.tensor([0.0, duration]))[:, 0, 0].tolist() == [0.0, 5.0]


def some_warps():
    return {
        "affine": AffineWarp(0.4, 0.5),
        "piecewise": PiecewiseWarp([0.0, 1.0, 1.3, 6.0, 9.0], [0.0, 0.2, 2.5, 3.0, 5.0]),
        "smooth": SmoothWarp.random(5.0, 3.0, torch.Generator().manual_seed(0)),
    }


warps = pytest.mark.parametrize("warp", some_warps().values())


def inner_times(path, count=200):
    """Times of the path away from its knots."""
    start, end = path.interval
    ts = start + (end - start) * torch.rand(count, generator=torch.Generator().manual_seed(1))
    return ts[(ts[:, None] - path.knots).abs().amin(1) > 1e-9]


@warps
@pytest.mark.parametrize("kind", [HeldPath, LinearPath])
def test_a_warped_path_is_the_path_at_what_the_clock_shows(warp, kind):
    path = kind(torch.randn(5 if kind is HeldPath else 6, 3, 2))
    warped = WarpedPath(path, warp)
    ts = inner_times(warped)
    assert len(ts) > 150
    assert_close(warped(ts), path(warp(ts)), rtol=0, atol=1e-14)  # the line is evaluated at the same rounded clock
    assert_close(torch.stack([warped(float(t)) for t in ts[:20]]), path(warp(ts[:20])), rtol=0, atol=1e-13)
    assert warped(0.5).shape == (3, 2)


@warps
def test_the_derivative_follows_the_chain_rule(warp):
    path = LinearPath(torch.randn(6, 3, 2))
    warped = WarpedPath(path, warp)
    ts = inner_times(warped)
    expected = path.derivative(warp(ts)) * warp.speed(ts)[:, None, None]
    assert_close(warped.derivative(ts), expected, rtol=1e-13, atol=1e-13)
    assert_close(torch.stack([warped.derivative(float(t)) for t in ts[:20]]), expected[:20], rtol=1e-13, atol=1e-13)
    smooth = ts[(ts[:, None] - warped.knots).abs().amin(1) > 1e-4]
    quotient = (warped(smooth + 1e-5) - warped(smooth - 1e-5)) / 2e-5
    assert_close(warped.derivative(smooth), quotient, rtol=1e-7, atol=1e-7)  # step^2 c''' and eps / step


@warps
def test_mapping_and_warping_commute(warp):
    path, weight = LinearPath(torch.randn(6, 3, 2)), torch.randn(4, 2)

    def f(x):
        return torch.tanh(x @ weight.mT)

    warped = WarpedPath(path, warp)
    ts = inner_times(warped)
    assert_close(warped.map(f)(ts), WarpedPath(path.map(f), warp)(ts), rtol=0, atol=0)
    assert_close(warped.map(f)(ts), f(warped(ts)), rtol=0, atol=1e-15)
    assert_close(warped.map(f).derivative(ts), WarpedPath(path.map(f), warp).derivative(ts), rtol=0, atol=1e-13)
    assert warped(ts).shape[-1] == 2  # the original is as it was


@pytest.mark.parametrize("first", some_warps().values())
@pytest.mark.parametrize("kind", [HeldPath, LinearPath])
def test_warped_twice_is_warped_by_the_composition(first, kind):
    path = kind(torch.randn(5 if kind is HeldPath else 6, 3, 2))
    once = WarpedPath(path, first)
    start, end = once.interval
    second = PiecewiseWarp([-1.0, 0.7, 2.0, 4.0], [start, start + 0.6 * (end - start), start + 0.7 * (end - start), end])
    twice = WarpedPath(once, second)
    assert twice.interval == (-1.0, 4.0)
    ts = inner_times(twice)
    assert_close(twice(ts), path(first(second(ts))), rtol=0, atol=1e-12)  # one more rounding of the time
    if kind is LinearPath:
        expected = path.derivative(first(second(ts))) * (first.speed(second(ts)) * second.speed(ts))[:, None, None]
        assert_close(twice.derivative(ts), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("warp", "interval"),
    [
        (AffineWarp(2.0), (0.0, 2.5)),
        (AffineWarp(0.5, -1.0), (2.0, 12.0)),
        (PiecewiseWarp([0.0, 4.0], [-4.0, 12.0]), (1.0, 2.25)),  # runs before and beyond the path
        (PiecewiseWarp([0.0, 8.0], [3.0, 7.0]), (0.0, 4.0)),  # starts late
        (SmoothWarp(8.0, [], []), (0.0, 5.0)),
    ],
)
def test_the_interval_is_where_the_clock_shows_times_of_the_path(warp, interval):
    warped = WarpedPath(numbered([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), warp)
    assert_close(warped.interval, interval, rtol=2 * EPS, atol=0)
    for t in warped.interval:
        warped(t)
    for t in (warped.interval[0] - 1e-6, warped.interval[1] + 1e-6):
        with pytest.raises(ValueError, match=r"`t` = .* lies outside the interval"):
            warped(t)


@pytest.mark.parametrize("warp", [PiecewiseWarp([0.0, 1.0], [5.0, 6.0]), PiecewiseWarp([0.0, 1.0], [-2.0, 0.0])])
def test_a_clock_that_never_enters_the_path_is_refused(warp):
    with pytest.raises(ValueError, match=r"The clock shows \(.*\), and the path is defined on \(0.0, 5.0\).*no time in common"):
        WarpedPath(numbered([0.0, 5.0]), warp)


@pytest.mark.parametrize(
    ("path", "warp", "message"),
    [
        (lambda: torch.randn(5, 3, 2), lambda: AffineWarp(1.0), "`path` must be a ctrnn.inputs.Path, got Tensor"),
        (lambda: numbered([0.0, 1.0]), lambda: AffineWarp(1.0).speed, "`warp` must be a ctrnn.inputs.Warp, got Speed"),
    ],
)
def test_what_is_no_path_or_clock_is_refused(path, warp, message):
    with pytest.raises(TypeError, match=message):
        WarpedPath(path(), warp())


def test_the_theorem_holds_for_the_free_state():
    # h' = -alpha h warped by c is h' = -c' alpha h, solved by h(c(t)): the derivative of the warped solution says so.
    warp, alpha = some_warps()["smooth"], 0.7
    ts = torch.linspace(0.1, 4.9, 30)
    field = ctrnn.leaky(1, 1, alpha)
    h, slope = torch.func.jvp(lambda t: torch.exp(-alpha * warp.at(0, t)), (ts,), (torch.ones_like(ts),))
    leak = field.leak(field.project(torch.zeros(30, 1)), h[:, None])[:, 0]
    assert_close(slope, -warp.speed(ts) * leak * h, rtol=1e-12, atol=0)  # sums of a dozen terms
