"""Awkward knots under every kind of path: ties, ends, neighbours an ulp apart, float32 stamps; against exact arithmetic."""

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
import torchcde
from torch.testing import assert_close

import ctrnn
from ctrnn import TimePath
from ctrnn.inputs.splines import as_path
from discretize import integrate

up = lambda t: math.nextafter(t, math.inf)  # noqa: E731
down = lambda t: math.nextafter(t, -math.inf)  # noqa: E731

TENTHS = [0.0, 0.1, 0.30000000000000004, 0.7, 1.9, 5.0]
LATE = [1e4, 1e4 + 0.1, 1e4 + 0.7, 1e4 + 1.9]
AROUND_ZERO = [-0.7, -5e-324, 0.0, 5e-324, 1.3]
NEIGHBOURS = [0.0, 1.0, up(1.0), 2.0, 3.0]
ONLY_NEIGHBOURS = [1.0, up(1.0), up(up(1.0))]


def torchcde_linear(xs, ts):
    return as_path(torchcde.LinearInterpolation(xs.transpose(0, 1), torch.as_tensor(ts)))


def torchcde_hermite(xs, ts):
    stamps, xs = torch.as_tensor(ts), xs.transpose(0, 1)
    return as_path(torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(xs, stamps), stamps))


SAMPLED = {
    "held": ctrnn.HeldPath,
    "linear": ctrnn.LinearPath,
    "hermite": ctrnn.HermitePath,
    "torchcde linear": torchcde_linear,
    "torchcde hermite": torchcde_hermite,
}
OURS = ["held", "linear", "hermite"]
every_kind = pytest.mark.parametrize("name", SAMPLED)


def exact(name, xs, ts, k, t):
    """Piece k at t, in fractions, as the definition has it: one feature of one sequence."""
    xs, ts, t = [Fraction(x) for x in xs], [Fraction(s) for s in ts], Fraction(t)
    if name.endswith("held"):
        return xs[k]
    chords = [(b - a) / (v - u) for (a, b), (u, v) in zip(pairwise(xs), pairwise(ts), strict=True)]
    width, s = ts[k + 1] - ts[k], (t - ts[k]) / (ts[k + 1] - ts[k])
    leaving, arriving = (chords[k], chords[k]) if name.endswith("linear") else (chords[max(k - 1, 0)], chords[k])
    return (
        (1 + 2 * s) * (1 - s) ** 2 * xs[k]
        + s * (1 - s) ** 2 * width * leaving
        + s**2 * (3 - 2 * s) * xs[k + 1]
        + s**2 * (s - 1) * width * arriving
    )


def column(values):
    return torch.tensor(values)[:, None, None]


def read(path, times):
    return path(torch.tensor(times))[:, 0, 0].tolist()


READABLE = [
    *((name, ts) for name in SAMPLED for ts in (TENTHS, LATE)),
    *((name, ts) for name in OURS for ts in (NEIGHBOURS, ONLY_NEIGHBOURS)),
    *((name, AROUND_ZERO) for name in ("held", "linear")),
]


def tolerance(name, xs, ts):
    """Rounding of the terms that a value is summed of, and for a spline of another library the ulp that we move its times."""
    chords = [abs((b - a) / (v - u)) for (a, b), (u, v) in zip(pairwise(xs), pairwise(ts), strict=True)]
    bends = [chord * (v - u) for chord, (u, v) in zip(chords, list(pairwise(ts))[1:], strict=False)]
    size = max(map(abs, xs)) + (max(bends) if name.endswith("hermite") else 0.0)
    moved = 2 * max(chords) * math.ulp(ts[-1]) if name.startswith("torchcde") else 0.0
    return 1e-14 * size + moved


@pytest.mark.parametrize(("name", "ts"), READABLE)
def test_at_knots_and_an_ulp_beside_them_values_are_those_of_exact_arithmetic(name, ts):
    xs = torch.randn(len(ts)).tolist()
    path = SAMPLED[name](column(xs), ts)
    edges = path.knots.tolist()
    times = sorted({t for knot in ts for t in (down(knot), knot, up(knot)) if edges[0] <= t <= edges[-1]})
    pieces = [min(bisect_right(edges, t) - 1, len(edges) - 2) for t in times]
    expected = torch.tensor([float(exact(name, xs, ts, k, t)) for k, t in zip(pieces, times, strict=True)])
    close = {"rtol": 0, "atol": tolerance(name, xs, ts)}
    assert_close(path(torch.tensor(times))[:, 0, 0], expected, **close)
    assert_close(torch.stack([path(t)[0, 0] for t in times]), expected, **close)
    if name in OURS:
        assert read(path, ts) == xs
        own = SAMPLED[name](column(xs).expand(-1, 2, -1), torch.tensor([ts, ts]).mT)
        assert_close(own(torch.tensor(times))[:, 1, 0], expected, **close)


@pytest.mark.parametrize(("name", "ts"), READABLE)
def test_a_piece_is_itself_at_both_ends(name, ts):
    xs = torch.randn(len(ts)).tolist()
    path = SAMPLED[name](column(xs), ts)
    for k in range(len(path.knots) - 1):
        piece = path.piece(k)
        for t in (piece.start, piece.end):
            wanted = xs[k] if name == "held" else float(exact(name, xs, ts, k, t))
            assert float(piece(t)) == pytest.approx(wanted, rel=0, abs=tolerance(name, xs, ts))


@pytest.mark.parametrize("name", ["torchcde linear", "torchcde hermite"])
def test_grid_points_between_which_a_spline_cannot_be_asked_are_refused(name):
    with pytest.raises(ValueError, match=r"`grid_points`: no time lies between 1.0 and 1.0000000000000002"):
        SAMPLED[name](torch.randn(5, 1, 1), NEIGHBOURS)


@pytest.mark.parametrize(("dtype", "ts"), [(torch.float64, AROUND_ZERO), (torch.float32, [0.0, 1e-39, 1.0])])
def test_cubics_that_no_number_holds_are_refused(dtype, ts):
    with pytest.raises(ValueError, match=f"must be finite, got .*in {dtype}, knots so near to each other"):
        ctrnn.HermitePath(torch.randn(len(ts), 1, 1).to(dtype), ts)


@every_kind
@pytest.mark.parametrize("tied", [[0.0, 1.0, 1.0, 2.0], [0.0, -0.0, 1.0, 2.0]])
def test_ties_are_refused_and_named(name, tied):
    with pytest.raises(ValueError, match=r"must increase strictly, but repeats at index \d|t must be monotonically increasing"):
        SAMPLED[name](column([0.0, 1.0, 2.0, 3.0]), tied)
    if name in OURS:
        own = torch.tensor([[0.0, 1.0, 2.0, 3.0], tied]).mT
        with pytest.raises(ValueError, match=r"`ts` must increase strictly, but repeats at index \d in sequence 1"):
            SAMPLED[name](column([0.0, 1.0, 2.0, 3.0]).expand(-1, 2, -1), own)


@every_kind
def test_float32_stamps_that_have_lost_their_differences_are_refused(name):
    stamps = (1e4 + 1e-4 * torch.arange(4)).float()
    with pytest.raises(ValueError, match=r"must increase strictly, but repeats|t must be monotonically increasing"):
        SAMPLED[name](column([0.0, 1.0, 2.0, 3.0]), stamps)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_float32_stamps_late_in_time_are_the_numbers_they_are(name, dtype):
    stamps, xs = (1e4 + 0.1 * torch.arange(6)).float(), torch.randn(6, 1, 1).to(dtype)
    path, numbers, values = SAMPLED[name](xs, stamps), stamps.double().tolist(), xs.flatten().tolist()
    assert path.knots.dtype == torch.float64
    assert path.knots.tolist()[:6] == numbers
    times = [t + share * 0.09 for t in numbers[:-1] for share in (0.0, 0.123456789, 0.9)]
    expected = [float(exact(name, values, numbers, k // 3, t)) for k, t in enumerate(times)]
    found = path(torch.tensor(times))[:, 0, 0]
    assert found.dtype == dtype
    # torchcde's coefficients are made in float32 where stamps are; the place in the piece would be off by 5e-3 if it were.
    assert_close(found.double(), torch.tensor(expected), rtol=0, atol=1e-12 if dtype == torch.float64 and name in OURS else 2e-5)
    assert torch.equal(path(stamps), path(stamps.double()))


def of_clock(make):
    return ctrnn.WarpedPath(make, ctrnn.AffineWarp(2.0))


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("ts", [TENTHS, LATE])
def test_a_clock_twice_as_fast_moves_knots_exactly(name, ts):
    path = SAMPLED[name](torch.randn(len(ts), 3, 2), ts)
    warped = of_clock(path)
    assert warped.knots.tolist() == [t / 2 for t in path.knots.tolist()]
    times = [t for knot in path.knots.tolist() for t in (down(knot), knot, up(knot)) if ts[0] <= t <= path.knots[-1]]
    assert torch.equal(warped(torch.tensor(times) / 2), path(torch.tensor(times)))


def test_knots_of_a_function_at_the_ends_of_its_interval_are_the_ends():
    f = lambda t: torch.full((1, 1), float(t > 0) + float(t >= 1))  # noqa: E731
    path = ctrnn.FunctionPath(f, (0.0, 1.0), 1, knots=[0.0, 0.5, 1.0])
    assert path.knots.tolist() == [0.0, 0.5, 1.0]
    assert read(path, [0.0, 5e-324, 0.5, down(1.0), 1.0]) == [0.0, 1.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("knot", [0.1, 1e4 + 0.1, -5e-324, 0.0])
def test_a_function_that_jumps_at_a_knot_is_read_exactly_beside_it(knot):
    f = lambda t: (t >= knot).double().reshape(1, 1)  # noqa: E731
    path = ctrnn.FunctionPath(f, (knot - 1, knot + 1), 1, knots=[knot])
    assert read(path, [down(down(knot)), down(knot), knot, up(knot)]) == [0.0, 0.0, 1.0, 1.0]
    assert float(path.piece(0)(knot)) == 0.0


def leak(x, span):
    """The state of dh/dt = x - h after `span`, from 0, for a constant x."""
    return x * -math.expm1(-span)


class Leaky(ctrnn.VectorField):
    def flow(self, projected, h):
        return projected - h


@pytest.mark.parametrize("name", ["held", "linear", "torchcde linear"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_solve_passes_knots_an_ulp_apart(name, dtype):
    """A jump from 1 to 3 in a piece of one or two ulp, where only that fits between: h(2) of dh/dt = x - h."""
    for there in (up(1.0), up(up(1.0))):
        xs = [1.0, 3.0, 3.0] if name == "held" else [1.0, 1.0, 3.0, 3.0]
        ts = [0.0, 1.0, there, 2.0]
        if "torchcde" in name and there == up(1.0):
            with pytest.raises(ValueError, match=r"`grid_points`: no time lies between 1.0 and 1.0000000000000002"):
                SAMPLED[name](column(xs), ts)
            continue
        path = SAMPLED[name](column(xs).double(), ts).map(lambda x: x.to(dtype))
        h0 = torch.zeros(1, 1, dtype=dtype)
        solved = integrate(Leaky(1, 1), path, h0, [0.0, 1.0, 2.0], rtol=1e-6, atol=1e-6).hs[:, 0, 0]
        expected = [0.0, leak(1, 1), leak(1, 1) * math.exp(-1) + leak(3, 1)]
        assert_close(solved.double(), torch.tensor(expected), rtol=0, atol=3e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_field_that_jumps_at_knots_of_the_time_sees_one_side_of_each(dtype):
    knots = torch.tensor([0.0, 0.3, 0.5, 0.7, 1.0], dtype=torch.float64)
    path = TimePath(knots, 2, dtype=dtype)
    for k, at in enumerate(knots[1:-1]):
        before, after = path.at(k, at), path.at(k + 1, at)
        for side, expected in ((before, True), (after, False)):
            assert side.shape == (2, 1)
            assert (
                bool((side.double() < at).all()) == bool((side < float(at)).all()) == expected
            )  # as numbers and as torch compares
        assert_close(before, after, rtol=0, atol=2e-7)  # two neighbours of a float32
    assert float(path.at(0, knots[0])[0]) == 0.0
    assert float(path.at(3, knots[-1])[0]) == 1.0
    numbers = torch.tensor([[0, 1], [2, 3]])
    assert path.at(numbers, knots[numbers + 1][..., None]).shape == (2, 2, 1)
    t = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(path.at(0, t).sum(), t)[0] == 2  # of both sequences
