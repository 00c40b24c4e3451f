"""Input signals: values and slopes against NumPy, and exactness at the knots."""

import math
from bisect import bisect_right

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from ctrnn import HeldPath, LinearPath, Path

TS = [0.0, 0.1, 0.7, 1.9, 2.0, 5.0]  # not representable, unequally far apart
BOTH = pytest.mark.parametrize("kind", [HeldPath, LinearPath])


def samples(time=5, batch=3, features=2, **settings):
    return torch.randn(time, batch, features, **settings)


def interp(path, xs, ts):
    """numpy.interp, sample by sample and feature by feature."""
    columns = xs.numpy().reshape(len(xs), -1).T
    values = np.stack([np.interp(ts, path.knots.numpy(), column) for column in columns], -1)
    return torch.from_numpy(values.reshape(len(ts), *xs.shape[1:]))


@BOTH
def test_a_scalar_time_gives_a_sample_and_a_vector_gives_a_sequence(kind):
    path = kind(samples())
    assert path(0.5).shape == (3, 2)
    assert path(torch.tensor(0.5)).shape == (3, 2)
    ts = torch.tensor([3.2, 0.5, 1.0, 0.5, 4.0])  # in any order, also twice
    for f in (path, path.derivative):
        assert f(ts).shape == (5, 3, 2)
        assert_close(f(ts), torch.stack([f(float(t)) for t in ts]), rtol=0, atol=0)
        assert f(ts[:1]).shape == (1, 3, 2)
        assert f([0.5, 1.5]).shape == (2, 3, 2)
        assert f(np.array([0.5, 1.5])).shape == (2, 3, 2)
        assert f(torch.empty(0)).shape == (0, 3, 2)
    assert_close(path(2), path(2.0), rtol=0, atol=0)


@given(st.lists(st.floats(1e-3, 10), min_size=2, max_size=12), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_held_path_is_the_sample_that_a_search_in_a_list_finds(widths, places):
    knots = np.cumsum([0.0, *widths]).tolist()
    xs = torch.arange(float(len(widths)))[:, None, None]
    times = [min(knots[-1], place * knots[-1]) for place in places]
    expected = [min(bisect_right(knots, t) - 1, len(widths) - 1) for t in times]
    found = HeldPath(xs, torch.tensor(knots))(torch.tensor(times))
    assert found[:, 0, 0].tolist() == expected


@pytest.mark.parametrize(
    ("ts", "edges"),
    [
        (None, [0.0, 1.0, 2.0, 3.0]),
        ([1.0, 2.5, 3.0, 7.0], [1.0, 2.5, 3.0, 7.0]),
        ([1.0, 2.5, 3.0], [1.0, 2.5, 3.0, 3.5]),  # the last is held for as long as the one before it
    ],
)
def test_edges_stamps_and_nothing_mean_what_they_say(ts, edges):
    path = HeldPath(samples(3), None if ts is None else torch.tensor(ts))
    assert path.knots.tolist() == edges
    assert path.knots.dtype == torch.float64
    assert path.interval == (edges[0], edges[-1])
    assert HeldPath(samples(1), [4.5], open_interval=0.25).knots.tolist() == [4.5, 4.75]


@given(st.lists(st.floats(1e-3, 10), min_size=1, max_size=8), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_linear_path_is_numpys_interpolation(widths, places):
    knots = np.cumsum([-2.0, *widths])
    xs = torch.randn(len(knots), 3, 2, generator=torch.Generator().manual_seed(len(knots)))
    path = LinearPath(xs, torch.from_numpy(knots))
    times = np.clip(knots[0] + np.array(places) * (knots[-1] - knots[0]), knots[0], knots[-1])
    assert_close(path(torch.from_numpy(times)), interp(path, xs, times), rtol=0, atol=1e-12)  # two ways to round a line


def test_the_derivative_of_a_linear_path_is_the_quotient_of_differences():
    xs = samples(6)
    path, ts = LinearPath(xs, torch.tensor(TS)), torch.tensor(TS)
    slopes = xs.diff(dim=0) / ts.diff()[:, None, None]
    assert_close(path.derivative((ts[1:] + ts[:-1]) / 2), slopes, rtol=1e-15, atol=0)
    assert_close(path.derivative(ts[:-1]), slopes, rtol=1e-15, atol=0)  # at a knot, of the piece that begins there
    assert_close(path.derivative(TS[-1]), slopes[-1], rtol=1e-15, atol=0)
    middle = (ts[1:] + ts[:-1]) / 2
    quotient = (path(middle + 1e-3) - path(middle - 1e-3)) / 2e-3
    assert_close(path.derivative(middle), quotient, rtol=0, atol=1e-11)  # eps / 1e-3 times the slopes, up to 40


def test_every_piece_of_a_linear_path_is_exact_at_both_ends():
    xs = samples(6)
    path = LinearPath(xs, torch.tensor(TS))
    for k in range(5):
        piece = path.piece(k)
        assert torch.equal(piece(piece.start), xs[k])
        assert torch.equal(piece(piece.end), xs[k + 1])
        slope = (xs[k + 1] - xs[k]) / (TS[k + 1] - TS[k])
        for t in (piece.start, piece.end):
            assert_close(piece.derivative(t), slope, rtol=1e-15, atol=0)


@BOTH
def test_pieces_count_from_the_end_as_in_a_list(kind):
    path = kind(samples(5))
    pieces = len(path.knots) - 1
    assert path.piece(-1) == path.piece(pieces - 1)
    assert path.piece(-pieces).number == 0
    for k in (pieces, -pieces - 1, 100):
        with pytest.raises(IndexError, match=f"no piece {k}: the path has {pieces}"):
            path.piece(k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@BOTH
def test_values_keep_the_dtype_of_the_samples(kind, dtype):
    path = kind(samples(dtype=dtype))
    for t in (0.5, torch.tensor([0.5, 1.5]), torch.tensor(0.5, dtype=torch.float32)):
        assert path(t).dtype == dtype
        assert path.derivative(t).dtype == dtype
        assert path.piece(0)(0.5).dtype == dtype


def test_gradients_reach_the_samples_that_are_seen():
    xs = samples(5).requires_grad_()
    (gradient,) = torch.autograd.grad(HeldPath(xs)(torch.tensor([0.5, 3.0, 3.9])).sum(), xs)
    assert gradient[:, 0, 0].tolist() == [1.0, 0.0, 0.0, 2.0, 0.0]
    (gradient,) = torch.autograd.grad(LinearPath(xs)(1.25).sum(), xs)
    assert gradient[:, 0, 0].tolist() == [0.0, 0.75, 0.25, 0.0, 0.0]
    (gradient,) = torch.autograd.grad(LinearPath(xs).derivative(1.25).sum(), xs)
    assert gradient[:, 0, 0].tolist() == [0.0, -1.0, 1.0, 0.0, 0.0]
    (gradient,) = torch.autograd.grad(HeldPath(xs).piece(2)(3.0).sum(), xs)
    assert gradient[:, 0, 0].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


@BOTH
def test_a_mapped_path_is_the_function_of_the_path(kind):
    path, weight = kind(samples(5)), torch.randn(4, 2)
    ts = torch.tensor([0.0, 0.5, 2.0, 3.75, 4.0])
    for f in (lambda x: x @ weight.mT, lambda x: torch.tanh(x) ** 2):
        mapped = path.map(f)
        assert isinstance(mapped, Path)
        assert torch.equal(mapped.knots, path.knots)
        assert_close(mapped(ts), f(path(ts)), rtol=0, atol=1e-15)
        assert_close(mapped(2.5), f(path(2.5)), rtol=0, atol=1e-15)
        for k in range(len(path.knots) - 1):
            for t in (path.piece(k).start, path.piece(k).end):
                assert_close(mapped.piece(k)(t), f(path.piece(k)(t)), rtol=0, atol=1e-15)
        inner = torch.tensor([0.5, 2.25, 3.75])
        quotient = (mapped(inner + 1e-5) - mapped(inner - 1e-5)) / 2e-5
        assert_close(mapped.derivative(inner), quotient, rtol=0, atol=1e-8)  # step^2 f''' and eps / step
        assert_close(mapped.derivative(0.5), mapped.derivative(torch.tensor([0.5]))[0], rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("xs", "error", "message"),
    [
        (np.zeros((5, 3, 2)), TypeError, r"`xs` must be a torch.Tensor, got ndarray; wrap it as torch.as_tensor\(xs\)"),
        (torch.zeros(5, 3, 2, dtype=torch.int64), TypeError, r"floating point, got torch.int64; convert it"),
        (torch.zeros(5, 3), ValueError, r"\(time, batch, feature\), got shape \(5, 3\); add a"),
        (torch.zeros(0, 3, 2), ValueError, r"`xs` is empty: shape \(0, 3, 2\)"),
    ],
)
@BOTH
def test_samples_that_are_none_are_refused(kind, xs, error, message):
    with pytest.raises(error, match=message):
        kind(xs)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
@BOTH
def test_a_sample_that_is_not_finite_is_refused_and_found(kind, value):
    xs = samples()
    xs[3, 1, 0] = value
    with pytest.raises(ValueError, match=rf"`xs` must be finite, got {value} at index \(3, 1, 0\) of shape \(5, 3, 2\)"):
        kind(xs)


@pytest.mark.parametrize(
    ("ts", "error", "message"),
    [
        ([0.0, 1, 2, 2, 4], ValueError, "`ts` must increase strictly, but repeats at index 3: 2.0 is followed by 2.0"),
        ([0.0, 1, 3, 2, 4], ValueError, "goes back at index 3: 3.0 is followed by 2.0"),
        ([0.0, 1, math.nan, 3, 4], ValueError, r"`ts` must be finite, got nan at index \(2,\)"),
        ([], ValueError, "`ts` is empty"),
        ([0.0, 1, 2], ValueError, "`ts` has 3 .*for 5 samples"),
        (torch.zeros(5, 3, 1), ValueError, r"got shape \(5, 3, 1\)"),
        ([True, False, True, False, True], TypeError, "`ts` must hold real numbers, got torch.bool"),
    ],
)
@BOTH
def test_times_that_are_none_are_refused(kind, ts, error, message):
    with pytest.raises(error, match=message):
        kind(samples(5), ts)


@pytest.mark.parametrize(
    ("t", "error", "message"),
    [
        (math.nan, ValueError, "`t` must be finite, got nan"),
        ("now", TypeError, "`t` must be a time or a sequence of times, got str"),
        (torch.zeros(2, 2, 2), ValueError, r"`t` must be one time or a vector of times, got shape \(2, 2, 2\)"),
        (torch.tensor(0.5).requires_grad_(), ValueError, r"`t` requires a gradient.*`t.detach\(\)`"),
        (-1.0, ValueError, "`t` = -1.0 lies outside"),
    ],
)
@BOTH
def test_a_time_that_is_none_is_refused(kind, t, error, message):
    path = kind(samples(5))
    for f in (path, path.derivative):
        with pytest.raises(error, match=message):
            f(t)


def test_a_path_of_the_user_needs_knots_values_and_slopes():
    class Parabola(Path):
        knots = torch.tensor([0.0, 2.0], dtype=torch.float64)

        def at(self, k, t):
            return (t**2).reshape(*t.shape, 1, 1)

        def slope(self, k, t):
            return (2 * t).reshape(*t.shape, 1, 1)

    assert float(Parabola()(1.5)) == 2.25
    assert Parabola().derivative(torch.tensor([0.5, 1.0]))[:, 0, 0].tolist() == [1.0, 2.0]
    assert float(Parabola().map(lambda x: x**2).derivative(1.0)) == 4.0


def test_a_linear_path_takes_stamps_only_and_at_least_two():
    with pytest.raises(ValueError, match="give 6 edges or 5 stamps"):
        HeldPath(samples(5), [0.0, 1.0])
    with pytest.raises(ValueError, match="`ts` has 6 stamps for 5 samples; a linear path needs one for each"):
        LinearPath(samples(5), torch.arange(6))
    with pytest.raises(ValueError, match="at least two samples, got 1; use `HeldPath`"):
        LinearPath(samples(1))


def test_a_piece_refuses_times_outside_of_it_and_numbers_that_are_none():
    path = LinearPath(torch.randn(4, 2, 3))
    for bad in (1.5, -0.1, torch.nan, torch.inf):
        with pytest.raises(ValueError, match="`t`"):
            path.piece(0)(bad)
    for bad in ("a", None, 1.5, torch.ones(5)):
        with pytest.raises(TypeError, match="`k` must be a whole number"):
            path.piece(bad)
