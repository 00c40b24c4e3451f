"""Cubic Hermite paths with backward differences: against torchcde, SciPy's Hermite cubics and finite differences."""

import math

import pytest
import torch
import torchcde
from scipy.interpolate import CubicHermiteSpline
from torch.testing import assert_close

from ctrnn import HermitePath

STAMPS = [-1.3, 0.1, 0.7, 1.9, 2.0, 5.0]
every_size = pytest.mark.parametrize(("time", "batch", "features"), [(6, 3, 2), (2, 1, 1)])


def irregular(*shape):
    return torch.cumsum(0.05 + torch.rand(*shape), 0)


def theirs(xs, ts=None):
    """torchcde's spline, batch first, as one that is asked with the time axis first."""
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(xs.transpose(0, 1), ts)
    return torchcde.CubicSpline(coefficients, ts)


def inner_times(ts):
    """Times inside every piece, (pieces * 3,)."""
    return (ts[:-1, None] + ts.diff()[:, None] * torch.tensor([0.1, 0.5, 0.93])).flatten()


@every_size
@pytest.mark.parametrize("stamped", [False, True])
def test_value_and_derivative_are_those_of_torchcde(time, batch, features, stamped):
    xs = torch.randn(time, batch, features)
    ts = irregular(time) if stamped else None
    path, spline = HermitePath(xs, ts), theirs(xs, ts)
    times = inner_times(path.knots)
    # Rounding: slopes reach 1 / 0.05, and torchcde's cubic coefficient their square.
    assert_close(path(times), spline.evaluate(times).transpose(0, 1), rtol=0, atol=1e-12)
    assert_close(path.derivative(times), spline.derivative(times).transpose(0, 1), rtol=0, atol=1e-10)


def test_the_cubics_are_those_that_scipy_lays_through_values_and_backward_slopes():
    xs, ts = torch.randn(6, 3, 2), torch.tensor(STAMPS)
    slopes = xs.diff(dim=0) / ts.diff()[:, None, None]
    cubic = CubicHermiteSpline(STAMPS, xs.numpy(), torch.cat([slopes[:1], slopes]).numpy())
    path, times = HermitePath(xs, ts), inner_times(ts)
    assert_close(path(times), torch.from_numpy(cubic(times.numpy())), rtol=0, atol=1e-12)
    assert_close(path.derivative(times), torch.from_numpy(cubic.derivative()(times.numpy())), rtol=0, atol=1e-12)


def test_samples_that_come_later_change_nothing():
    xs = torch.randn(6, 3, 2)
    changed = torch.cat([xs[:4], torch.randn(2, 3, 2)])
    times = torch.linspace(0, 3, 40)
    assert torch.equal(HermitePath(xs)(times), HermitePath(changed)(times))
    assert_close(HermitePath(xs[:4])(times), HermitePath(xs)(times), rtol=0, atol=0)


def test_float32_keeps_its_dtype_and_its_place_late_in_time():
    ts = 1e4 + irregular(5).float().double()
    xs = torch.randn(5, 3, 2).float()
    path, times = HermitePath(xs, ts), inner_times(ts)
    assert path(times).dtype == path.derivative(times).dtype == torch.float32
    assert_close(path(times).double(), HermitePath(xs.double(), ts)(times), rtol=0, atol=2e-5)  # bends reach 20


def test_what_does_not_fit_is_refused():
    xs = torch.randn(5, 3, 2)
    with pytest.raises(ValueError, match=r"A Hermite path needs at least two samples, got 1; use `HeldPath`"):
        HermitePath(xs[:1])
    with pytest.raises(ValueError, match=r"`ts` has 6 stamps for 5 samples; a Hermite path needs one for each"):
        HermitePath(xs, torch.arange(6))
    with pytest.raises(ValueError, match=r"`ts` has times for 4 sequences, `xs` has 3"):
        HermitePath(xs, irregular(5, 4))
    with pytest.raises(ValueError, match=r"`xs` must be finite, got nan .*`ctrnn.inputs.hold_missing`"):
        HermitePath(xs * math.nan)


@pytest.mark.parametrize("own", [False, True])
def test_gradients_reach_samples_and_stamps(own):
    xs = torch.randn(4, 2, 3, requires_grad=True)
    ts = irregular(4, 2) if own else irregular(4)
    ts.requires_grad_()
    times = ts.detach()[:-1] + 0.3 * ts.detach().diff(dim=0)
    assert torch.autograd.gradcheck(lambda xs, ts: HermitePath(xs, ts)(times), (xs, ts))
    if not own:
        assert torch.autograd.gradcheck(lambda xs, ts: HermitePath(xs, ts).derivative(times), (xs, ts))


@pytest.mark.parametrize("own", [False, True])
def test_an_affine_map_is_made_once_and_another_at_each_time(own):
    xs, weight, offset = torch.randn(5, 3, 2), torch.randn(4, 2), torch.randn(4)
    ts = irregular(5, 3) if own else irregular(5)
    path, calls = HermitePath(xs, ts), []

    def affine(x):
        calls.append(x.shape)
        return x @ weight.mT + offset

    mapped = path.map(affine, affine=True)
    times = torch.linspace(*mapped.interval, 13)
    assert isinstance(mapped, HermitePath)
    assert_close(mapped(times), path(times) @ weight.mT + offset, rtol=0, atol=1e-12)
    assert len(calls) == 1
    bent = path.map(lambda x: torch.tanh(x) ** 2)
    assert_close(bent(times), torch.tanh(path(times)) ** 2, rtol=0, atol=1e-15)


def test_an_affine_map_in_float32_keeps_the_slope_after_a_short_piece():
    # The slope of the long piece is (x_1 - x_0) / 1e-4, and x + 10 in float32 has this difference to a hundredth.
    ts = torch.tensor([0.0, 1.0, 1.0001, 2.0], dtype=torch.float64)
    xs = torch.sin(ts)[:, None, None].float()
    times = torch.linspace(1.0001, 2.0, 9, dtype=torch.float64)
    expected = HermitePath(xs.double(), ts)(times) + 10
    assert_close(HermitePath(xs, ts).map(lambda x: x + 10, affine=True)(times).double(), expected, rtol=0, atol=4e-6)
