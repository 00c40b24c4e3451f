"""Paths by segment index: whatever the order of pieces, the choice of rows and the times, they are the path's own pieces."""

import pytest
import torch
import torchcde
from torch.testing import assert_close

import ctrnn
from ctrnn.inputs.segment_input import SegmentInput
from ctrnn.inputs.splines import as_path

TS = torch.tensor([0.0, 0.1, 0.7, 1.9, 2.0, 5.0], dtype=torch.float64)
BATCH, PIECES = 4, torch.tensor([1, 2, 2, 0, 3, 4, 1])  # as between requested times, and in any order
CONSECUTIVE = torch.arange(1, 5)
ROWS = torch.tensor([3, 1])


def paths():
    torch.manual_seed(0)
    xs = torch.randn(len(TS), BATCH, 2)
    wave = lambda t: torch.sin(t + xs[0]) + (t >= 0.7) * xs[1]  # noqa: E731
    linear, function = ctrnn.LinearPath(xs, TS), ctrnn.FunctionPath(wave, (0.0, 5.0), 2, TS[1:-1])
    coefficients = torchcde.natural_cubic_coeffs(xs.transpose(0, 1), TS)
    return {
        "held": ctrnn.HeldPath(xs[:-1], TS),
        "linear": linear,
        "hermite": ctrnn.HermitePath(xs, TS),
        "function": function,
        "spline": as_path(torchcde.CubicSpline(coefficients, TS)),
        "mapped": linear.map(torch.tanh),
        "mapped function": function.map(torch.tanh),
        "warped": ctrnn.WarpedPath(linear, ctrnn.PiecewiseWarp(TS, TS**2 / 5)),
        "warped function": ctrnn.WarpedPath(function, ctrnn.AffineWarp(1.0)),
    }


every_path = pytest.mark.parametrize("path", paths().values())


def inside(path, k):
    """Times on piece k, its ends included."""
    start, end = path.piece(int(k)).start, path.piece(int(k)).end
    return [torch.tensor(t, dtype=torch.float64) for t in (start, 0.3 * start + 0.7 * end, end)]


@every_path
def test_a_segment_is_its_piece_for_all_rows_and_for_some(path):
    for pieces in (PIECES, CONSECUTIVE):
        segments = SegmentInput(path, pieces)
        for j, k in enumerate(pieces.tolist()):
            for t in inside(path, k):
                expected = path.piece(k)(t)
                assert torch.equal(path.evaluate(segments.data(j), t), expected)
                assert torch.equal(path.evaluate(segments.data(j, ROWS), t), expected[ROWS])


@every_path
def test_each_sequence_may_have_a_time_and_a_piece_of_its_own(path):
    own = torch.stack([PIECES.roll(i) for i in range(BATCH)], 1)
    segments, shared = SegmentInput(path, own), SegmentInput(path, PIECES)
    for j, row in enumerate(own.tolist()):
        for which in range(3):
            times = torch.stack([inside(path, k)[which] for k in row])[:, None]
            expected = torch.stack([path.piece(k)(t)[i] for i, (k, t) in enumerate(zip(row, times[:, 0], strict=True))])
            assert_close(
                path.evaluate(segments.data(j), times), expected, rtol=0, atol=1e-14
            )  # one or many times: lines round alike
            assert_close(path.evaluate(segments.data(j, ROWS), times[ROWS]), expected[ROWS], rtol=0, atol=1e-14)
        k = int(PIECES[j])
        times = torch.stack([*inside(path, k), inside(path, k)[1]])[:, None]
        expected = torch.stack([path.piece(k)(t)[i] for i, t in enumerate(times[:, 0])])
        assert_close(path.evaluate(shared.data(j), times), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", [ctrnn.HeldPath, ctrnn.LinearPath, ctrnn.HermitePath])
def test_knots_of_their_own_are_those_of_the_sequences_alone(kind):
    xs, ts = torch.randn(6, 3, 2), torch.cumsum(0.05 + torch.rand(6, 3), 0)
    path, order = kind(xs, ts), torch.tensor([2, 0, 1])
    times = ts[:1] + torch.rand(9, 3) * (ts[-1:] - ts[:1])
    times[0], times[1], times[2] = ts[0], ts[2], ts[-1]
    for i in range(3):
        assert_close(path(times)[:, i], kind(xs[:, i : i + 1], ts[:, i])(times[:, i])[:, 0], rtol=0, atol=1e-13)
    assert torch.equal(kind(xs[:, order], ts[:, order])(times[:, order]), path(times)[:, order])
    common = torch.linspace(*path.interval, 5)
    assert_close(path(common), path(common[:, None].expand(-1, 3)), rtol=0, atol=0)
    with pytest.raises(ValueError, match="`t` has times for 4 sequences, the path has 3"):
        path(times[:, [0, 1, 2, 0]])


@pytest.mark.parametrize(("kind", "count"), [(ctrnn.HeldPath, 1), (ctrnn.LinearPath, 2), (ctrnn.HermitePath, 3)])
def test_data_that_require_a_gradient_get_it(kind, count):
    xs = torch.randn(len(TS), BATCH, 2, requires_grad=True)
    path = kind(xs, TS)
    assert len(SegmentInput(path, PIECES).learned(0)) == count
    weights = torch.randn(len(PIECES), BATCH, 2)
    segments = SegmentInput(path, PIECES)
    times = [inside(path, k)[1] for k in PIECES]
    ours = sum((w * path.evaluate(segments.data(j), t)).sum() for j, (w, t) in enumerate(zip(weights, times, strict=True)))
    path = kind(xs, TS)
    theirs = sum((w * path.piece(k)(t)).sum() for w, k, t in zip(weights, PIECES.tolist(), times, strict=True))
    assert_close(torch.autograd.grad(ours, xs), torch.autograd.grad(theirs, xs), rtol=0, atol=1e-13)


@pytest.mark.parametrize("read", ["one segment", "places"])
def test_what_is_first_read_without_gradients_has_them_later(read):
    xs = torch.randn(4, 2, 2, requires_grad=True)
    path, number, at = ctrnn.HeldPath(xs), torch.tensor([1, 1]), torch.full((2, 1), 1.5)
    segments = SegmentInput(path, torch.arange(4))

    def total():
        data = segments.data(1) if read == "one segment" else segments.data_at(number, torch.arange(2))
        return path.evaluate(data, at).sum()

    with torch.no_grad():
        total()
    (found,) = torch.autograd.grad(total(), xs)
    assert_close(found, torch.eye(4)[1][:, None, None].expand(4, 2, 2), rtol=0, atol=0)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", [ctrnn.HeldPath, ctrnn.LinearPath])
def test_places_in_several_segments_are_each_its_own_segment(kind, batch):
    path = kind(torch.randn(5, batch, 2))
    segments = SegmentInput(path, torch.arange(4))
    numbers, rows = torch.tensor([2, 0, 3, 2]), torch.tensor([0, 2, 1, 1]) % batch
    times = (numbers + 0.25)[:, None]
    expected = [
        path.evaluate(segments.data(j), t)[row] for j, t, row in zip(numbers.tolist(), times[:, 0], rows.tolist(), strict=True)
    ]
    assert_close(path.evaluate(segments.data_at(numbers, rows, batch), times), torch.stack(expected), rtol=0, atol=1e-14)
