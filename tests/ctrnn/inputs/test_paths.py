"""Input signals: values and slopes against NumPy, and exactness at the knots."""

import math
from bisect import bisect_right

import numpy as np
import pytest
import torch
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from ctrnn import HeldPath, LinearPath, Path
from ctrnn.inputs.path import Piece

TS = [0.0, 0.1, 0.7, 1.9, 2.0, 5.0]  # not representable, unequally far apart
BOTH = each("kind", [HeldPath, LinearPath])


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


@BOTH
def test_batch_equal_to_time_and_to_features_is_no_special_case(kind):
    xs = samples(4, 4, 4)
    path, ts = kind(xs), torch.tensor([0.25, 1.5, 2.75, 3.0])
    for b in range(4):
        assert_close(path(ts)[:, b : b + 1], kind(xs[:, b : b + 1])(ts), rtol=0, atol=0)
        assert_close(path.derivative(ts)[:, b : b + 1], kind(xs[:, b : b + 1]).derivative(ts), rtol=0, atol=0)


def test_a_held_path_is_right_continuous_and_ends_on_its_last_sample():
    xs = samples(5)
    path = HeldPath(xs, torch.tensor(TS))
    for k in range(5):
        assert torch.equal(path(TS[k]), xs[k])
        assert torch.equal(path(math.nextafter(TS[k + 1], -1)), xs[k])
    assert torch.equal(path(TS[-1]), xs[-1])
    assert torch.equal(path(torch.tensor(TS)), xs[[0, 1, 2, 3, 4, 4]])


@given(st.lists(st.floats(1e-3, 10), min_size=2, max_size=12), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_held_path_is_the_sample_that_a_search_in_a_list_finds(widths, places):
    knots = np.cumsum([0.0, *widths]).tolist()
    xs = torch.arange(float(len(widths)))[:, None, None]
    times = [min(knots[-1], place * knots[-1]) for place in places]
    expected = [min(bisect_right(knots, t) - 1, len(widths) - 1) for t in times]
    found = HeldPath(xs, torch.tensor(knots))(torch.tensor(times))
    assert found[:, 0, 0].tolist() == expected


@each(
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


def test_a_single_stamp_is_held_for_one_unit_of_time():
    assert HeldPath(samples(1), torch.tensor([4.5])).knots.tolist() == [4.5, 5.5]
    assert HeldPath(samples(1)).knots.tolist() == [0.0, 1.0]
    assert HeldPath(samples(1), torch.tensor([4.5, 9.0])).knots.tolist() == [4.5, 9.0]


def test_times_may_be_lists_arrays_integers_and_float32():
    for ts in ([0, 1, 2, 4], np.array([0, 1, 2, 4]), torch.tensor([0, 1, 2, 4]), torch.tensor([0.0, 1, 2, 4]).float()):
        assert HeldPath(samples(3), ts).knots.tolist() == [0.0, 1.0, 2.0, 4.0]
        assert LinearPath(samples(4), ts).knots.tolist() == [0.0, 1.0, 2.0, 4.0]


@given(st.lists(st.floats(1e-3, 10), min_size=1, max_size=8), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_linear_path_is_numpys_interpolation(widths, places):
    knots = np.cumsum([-2.0, *widths])
    xs = torch.randn(len(knots), 3, 2, generator=torch.Generator().manual_seed(len(knots)))
    path = LinearPath(xs, torch.from_numpy(knots))
    times = np.clip(knots[0] + np.array(places) * (knots[-1] - knots[0]), knots[0], knots[-1])
    assert_close(path(torch.from_numpy(times)), interp(path, xs, times), rtol=0, atol=1e-12)  # two ways to round a line


def test_a_linear_path_by_default_has_a_sample_at_each_whole_number():
    xs = samples(5)
    path = LinearPath(xs)
    assert path.interval == (0.0, 4.0)
    assert torch.equal(path(torch.arange(5)), xs)
    assert_close(path(1.25), 0.75 * xs[1] + 0.25 * xs[2], rtol=0, atol=1e-15)


def test_the_derivative_of_a_held_path_is_zero():
    assert torch.equal(HeldPath(samples()).derivative(torch.linspace(0, 5, 11)), torch.zeros(11, 3, 2))


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


def test_every_piece_of_a_held_path_is_its_sample_at_both_ends():
    xs = samples(5)
    path = HeldPath(xs, torch.tensor(TS))
    for k in range(5):
        piece = path.piece(k)
        assert isinstance(piece, Piece)
        assert (piece.start, piece.end) == (TS[k], TS[k + 1])
        for t in (piece.start, piece.end, (piece.start + piece.end) / 2):
            assert torch.equal(piece(t), xs[k])
            assert torch.equal(piece.derivative(t), torch.zeros(3, 2))


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


@BOTH
def test_a_piece_may_be_asked_for_by_any_kind_of_whole_number(kind):
    path = kind(samples(5))
    for k in (np.int64(2), torch.tensor(2)):
        assert torch.equal(path.piece(k)(2.5), path(2.5))


@BOTH
def test_a_piece_at_many_times_is_a_sequence_like_its_path(kind):
    path, ts = kind(samples(5)), torch.tensor([2.0, 2.25, 2.5])
    assert_close(path.piece(2)(ts), path(ts), rtol=0, atol=0)
    assert_close(path.piece(2).derivative(ts), path.derivative(ts), rtol=0, atol=0)


def beyond(end, ulps):
    return end + math.copysign(1, ulps) * abs(ulps) * math.ulp(end)


@BOTH
@each("interval", [(0.0, 1.9), (1e4, 1e4 + 0.1), (-2.0, -1.0)])
@each("ulps", [1, 4])
def test_a_time_beyond_an_end_by_at_most_four_ulp_is_the_end(kind, interval, ulps):
    start, end = interval
    xs = samples(2)
    path = kind(xs, torch.tensor([start, (start + end) / 2, end] if kind is HeldPath else [start, end]))
    for f in (path, path.derivative):
        assert torch.equal(f(beyond(end, ulps)), f(end))
        assert torch.equal(f(beyond(start, -ulps)), f(start))
        assert torch.equal(f(torch.tensor([beyond(end, ulps), start])), f(torch.tensor([end, start])))


@BOTH
@each("interval", [(0.0, 1.9), (1e4, 1e4 + 0.1), (-2.0, -1.0)])
@each("ulps", [5, 100])
def test_a_time_beyond_an_end_by_more_than_four_ulp_is_refused(kind, interval, ulps):
    start, end = interval
    path = kind(samples(2), torch.tensor([start, (start + end) / 2, end] if kind is HeldPath else [start, end]))
    for t in (beyond(end, ulps), beyond(start, -ulps)):
        for f in (path, path.derivative):
            with pytest.raises(ValueError, match=r"`t` = .* lies outside the interval"):
                f(t)
            with pytest.raises(ValueError, match="lies outside"):
                f(torch.tensor([start, t]))


def test_a_message_about_time_names_the_time_and_the_interval():
    with pytest.raises(ValueError, match=r"`t` = 7.25 lies outside the interval \[0.0, 5.0\]"):
        HeldPath(samples(5))(7.25)


@each("dtype", [torch.float32, torch.float64])
@BOTH
def test_values_keep_the_dtype_of_the_samples(kind, dtype):
    path = kind(samples(dtype=dtype))
    for t in (0.5, torch.tensor([0.5, 1.5]), torch.tensor(0.5, dtype=torch.float32)):
        assert path(t).dtype == dtype
        assert path.derivative(t).dtype == dtype
        assert path.piece(0)(0.5).dtype == dtype


@BOTH
def test_samples_may_stand_on_another_device_than_times(kind):
    path = kind(samples(device="meta"), torch.arange(5))
    for t in (0.5, torch.tensor([0.5, 1.5])):
        assert path(t).device.type == "meta"
        assert path.derivative(t).device.type == "meta"
    assert path.knots.device.type == "cpu"


def test_float32_samples_late_in_time_keep_their_place_in_the_piece():
    # A float32 time of 1e4 would be off by 5e-4 of a sample, a thousand times the tolerance.
    xs = samples(5, dtype=torch.float32)
    path = LinearPath(xs, 1e4 + torch.arange(5))
    times = 1e4 + np.array([0.123456789, 1.987654321, 3.5000001])
    expected = interp(path, xs.double(), times)
    assert_close(path(torch.from_numpy(times)).double(), expected, rtol=0, atol=1e-6)  # a few float32 roundings


def test_a_time_written_as_a_number_keeps_its_digits_whatever_the_default_dtype():
    torch.set_default_dtype(torch.float32)
    xs = samples(5)
    path = LinearPath(xs, 1e4 + torch.arange(5, dtype=torch.float64))
    for t in (10001.987654321, 10003.1):
        expected = interp(path, xs.double(), [t])[0]
        assert_close(path(t).double(), expected, rtol=0, atol=1e-6)  # a few float32 roundings of the value
        assert_close(path([t])[0].double(), expected, rtol=0, atol=1e-6)
    edges = [0.1, 0.7, 1.9]
    held = HeldPath(samples(2), edges)
    assert held.knots.tolist() == edges
    assert torch.equal(held(0.7), held.xs[1])
    assert torch.equal(held(1.9), held.xs[1])
    assert held.interval == (0.1, 1.9)


def test_float32_stamps_are_taken_for_the_numbers_they_are():
    stamps = (1e4 + 0.1 * torch.arange(6)).float()
    path = HeldPath(samples(5), stamps)
    assert path.knots.tolist() == stamps.double().tolist()
    assert torch.equal(path(stamps[2]), path(float(stamps[2])))
    assert torch.equal(path(stamps[2]), path.piece(2)(stamps[2]))


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


def test_mapping_a_held_path_leaves_the_path_as_it_was():
    xs = samples(5)
    path = HeldPath(xs)
    mapped = path.map(lambda x: 2 * x).map(lambda x: x + 1)
    assert torch.equal(mapped(2.5), 2 * xs[2] + 1)
    assert torch.equal(path(2.5), xs[2])


def test_held_values_are_mapped_once_for_the_whole_sequence():
    calls = []
    mapped = HeldPath(samples(5)).map(lambda x: calls.append(x.shape) or x)
    mapped(torch.linspace(0, 5, 20))
    assert calls == [(5, 3, 2)]


@each(
    ("xs", "error", "message"),
    [
        (np.zeros((5, 3, 2)), TypeError, r"`xs` must be a torch.Tensor, got ndarray; wrap it as torch.as_tensor\(xs\)"),
        ([[[0.0]]], TypeError, "`xs` must be a torch.Tensor, got list"),
        (None, TypeError, "`xs` must be a torch.Tensor, got NoneType"),
        (torch.zeros(5, 3, 2, dtype=torch.int64), TypeError, r"floating point, got torch.int64; convert it"),
        (torch.zeros(5, 3, 2, dtype=torch.complex64), TypeError, "floating point, got torch.complex64"),
        (torch.zeros(5, 3), ValueError, r"\(time, batch, feature\), got shape \(5, 3\); add a"),
        (torch.zeros(5, 3, 2, 1), ValueError, r"got shape \(5, 3, 2, 1\)"),
        (torch.zeros(0, 3, 2), ValueError, r"`xs` is empty: shape \(0, 3, 2\)"),
        (torch.zeros(5, 3, 0), ValueError, "`xs` is empty"),
    ],
)
@BOTH
def test_samples_that_are_none_are_refused(kind, xs, error, message):
    with pytest.raises(error, match=message):
        kind(xs)


@each("value", [math.nan, math.inf, -math.inf])
@BOTH
def test_a_sample_that_is_not_finite_is_refused_and_found(kind, value):
    xs = samples()
    xs[3, 1, 0] = value
    with pytest.raises(ValueError, match=rf"`xs` must be finite, got {value} at index \(3, 1, 0\) of shape \(5, 3, 2\)"):
        kind(xs)


@each(
    ("ts", "error", "message"),
    [
        ([0.0, 1, 2, 2, 4], ValueError, "`ts` must increase strictly, but repeats at index 3: 2.0 is followed by 2.0"),
        ([0.0, 1, 3, 2, 4], ValueError, "goes back at index 3: 3.0 is followed by 2.0"),
        ([4.0, 3, 2, 1, 0], ValueError, "goes back at index 1"),
        ([0.0, 1, math.nan, 3, 4], ValueError, r"`ts` must be finite, got nan at index \(2,\)"),
        ([0.0, 1, 2, 3, math.inf], ValueError, "`ts` must be finite, got inf"),
        ([], ValueError, "`ts` is empty"),
        ([0.0, 1, 2], ValueError, "`ts` has 3 .*for 5 samples"),
        (torch.arange(8), ValueError, "`ts` has 8 .*for 5 samples"),
        (3.0, ValueError, r"`ts` must be .*shared by the whole batch.*got shape \(\)"),
        (torch.zeros(5, 3, 1), ValueError, r"got shape \(5, 3, 1\)"),
        ("01234", TypeError, "`ts` must be a time or a sequence of times, got str"),
        ([True, False, True, False, True], TypeError, "`ts` must hold real numbers, got torch.bool"),
        (torch.arange(5) * 1j, TypeError, "`ts` must hold real numbers, got torch.complex"),
    ],
)
@BOTH
def test_times_that_are_none_are_refused(kind, ts, error, message):
    with pytest.raises(error, match=message):
        kind(samples(5), ts)


def test_a_held_path_says_both_numbers_of_times_that_it_takes():
    with pytest.raises(ValueError, match="give 6 edges or 5 stamps"):
        HeldPath(samples(5), [0.0, 1.0])


def test_a_linear_path_takes_stamps_only_and_at_least_two():
    with pytest.raises(ValueError, match="`ts` has 6 stamps for 5 samples; a linear path needs one for each"):
        LinearPath(samples(5), torch.arange(6))
    with pytest.raises(ValueError, match="at least two samples, got 1; use `HeldPath`"):
        LinearPath(samples(1))


@each(
    ("t", "error", "message"),
    [
        (math.nan, ValueError, "`t` must be finite, got nan"),
        (math.inf, ValueError, "`t` must be finite, got inf"),
        (torch.tensor([0.5, math.nan]), ValueError, r"`t` must be finite, got nan at index \(1,\)"),
        ("now", TypeError, "`t` must be a time or a sequence of times, got str"),
        (None, TypeError, "`t` must be a time or a sequence of times, got NoneType"),
        (True, TypeError, "`t` must hold real numbers, got torch.bool"),
        (1j, TypeError, "`t` must hold real numbers"),
        (torch.zeros(2, 2, 2), ValueError, r"`t` must be one time or a vector of times, got shape \(2, 2, 2\)"),
        (torch.tensor(0.5).requires_grad_(), ValueError, r"`t` requires a gradient.*`t.detach\(\)`"),
        (-1.0, ValueError, "`t` = -1.0 lies outside"),
        ([0.5, 9.0], ValueError, "`t` = 9.0 lies outside"),
    ],
)
@BOTH
def test_a_time_that_is_none_is_refused(kind, t, error, message):
    path = kind(samples(5))
    for f in (path, path.derivative):
        with pytest.raises(error, match=message):
            f(t)


def test_the_interface_of_paths_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Path()


def test_a_path_of_ones_own_needs_knots_values_and_slopes():
    class Parabola(Path):
        knots = torch.tensor([0.0, 2.0], dtype=torch.float64)

        def at(self, k, t):
            return (t**2).reshape(*t.shape, 1, 1)

        def slope(self, k, t):
            return (2 * t).reshape(*t.shape, 1, 1)

    assert float(Parabola()(1.5)) == 2.25
    assert Parabola().derivative(torch.tensor([0.5, 1.0]))[:, 0, 0].tolist() == [1.0, 2.0]
    assert float(Parabola().map(lambda x: x**2).derivative(1.0)) == 4.0


def test_a_piece_refuses_times_outside_of_it_and_numbers_that_are_none():
    path = LinearPath(torch.randn(4, 2, 3))
    for bad in (1.5, -0.1, torch.nan, torch.inf):
        with pytest.raises(ValueError, match="`t`"):
            path.piece(0)(bad)
    for bad in ("a", None, 1.5, torch.ones(5)):
        with pytest.raises(TypeError, match="`k` must be a whole number"):
            path.piece(bad)
