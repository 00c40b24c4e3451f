"""Missing values: against a loop over time that reads like the definition."""

import math

import pytest
import torch
from torch.testing import assert_close

from ctrnn import hold_missing

nan = math.nan


def by_loop(xs, observed, before):
    values = torch.empty_like(xs)
    for b in range(xs.shape[1]):
        for f in range(xs.shape[2]):
            last = before[f]
            for t in range(len(xs)):
                last = xs[t, b, f] if observed[t, b, f] else last
                values[t, b, f] = last
    return values


def holes(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype), torch.rand(*shape) < 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(7, 4, 3), (1, 3, 2), (6, 1, 1)])
@pytest.mark.parametrize("given", [False, True])
def test_values_are_those_of_a_loop_over_time(dtype, shape, given):
    xs, observed = holes(*shape, dtype=dtype)
    before = torch.randn(shape[2], dtype=dtype)
    spoiled = xs.where(observed, torch.tensor(nan if not given else math.inf, dtype=dtype))
    values, seen = hold_missing(spoiled, observed if given else None, before)
    assert values.dtype == seen.dtype == dtype
    assert torch.equal(values, by_loop(xs, observed, before))
    assert torch.equal(seen, observed.to(dtype))


def test_samples_need_not_be_contiguous_and_sequences_are_apart():
    xs, observed = holes(3, 4, 7)
    xs, observed, order = xs.permute(2, 1, 0), observed.permute(2, 1, 0), torch.tensor([2, 0, 3, 1])
    values, _ = hold_missing(xs, observed)
    assert torch.equal(values, hold_missing(xs.contiguous(), observed.contiguous())[0])
    assert torch.equal(values[:, order], hold_missing(xs[:, order], observed[:, order])[0])
    for b in range(4):
        assert torch.equal(values[:, b : b + 1], hold_missing(xs[:, b : b + 1], observed[:, b : b + 1])[0])


def test_values_are_held_along_time_whichever_axis_comes_first():
    xs = torch.randn(7, 3, 2)
    xs[torch.rand(7, 3, 2) < 0.4] = torch.nan
    values, seen = hold_missing(xs)
    turned, turned_seen = hold_missing(xs.transpose(0, 1), batch_first=True)
    assert torch.equal(turned.transpose(0, 1), values)
    assert torch.equal(turned_seen.transpose(0, 1), seen)
    with pytest.raises(TypeError, match="`batch_first` must be True or False"):
        hold_missing(xs, batch_first=1)


@pytest.mark.parametrize("beyond", [nan, math.inf, 1e300])
def test_gradients_reach_observed_values_and_nothing_of_the_others(beyond):
    xs, observed = holes(7, 4, 3)
    weight, before = torch.randn(7, 4, 3), torch.randn(3, requires_grad=True)
    spoiled = xs.where(observed, torch.tensor(beyond)).requires_grad_()
    values, _ = hold_missing(spoiled, observed, before)
    gradient, start = torch.autograd.grad((values * weight).sum(), [spoiled, before])
    expected, first = torch.zeros_like(xs), torch.zeros(3)
    for t in range(7):
        for b in range(4):
            for f in range(3):
                earlier = [s for s in range(t + 1) if observed[s, b, f]]
                if earlier:
                    expected[earlier[-1], b, f] += weight[t, b, f]
                else:
                    first[f] += weight[t, b, f]
    assert_close(gradient, expected, rtol=0, atol=1e-14)
    assert_close(start, first, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"xs": torch.zeros(4, 2)}, ValueError, r"`xs` must be \(time, batch, feature\)"),
        ({"xs": torch.full((4, 3, 2), math.inf)}, ValueError, "`xs` must be finite, got inf"),
        ({"xs": torch.full((4, 3, 2), nan), "observed": torch.ones(4, 3, 2).bool()}, ValueError, "got nan .*`observed` is False"),
        ({"observed": torch.ones(4, 3, 2)}, TypeError, "`observed` must hold booleans, got torch.float32"),
        ({"observed": torch.ones(4, 3).bool()}, ValueError, r"like `xs`, \(4, 3, 2\), got \(4, 3\)"),
        ({"before": torch.zeros(3)}, ValueError, r"a number or \(2,\), one for each feature, got \(3,\)"),
        ({"before": torch.tensor([0.0, nan])}, ValueError, "`before` must be finite"),
        ({"before": torch.tensor(True)}, TypeError, "`before` must hold real numbers"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        hold_missing(**{"xs": torch.zeros(4, 3, 2)} | arguments)
