"""Laws that are known, with and without noise."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from discretize import decay_law

N = torch.arange(200.0)


def law(rate, bend, n=N):
    return torch.exp(-rate * n) if bend == 0 else (1 + bend * rate * n) ** (-1 / bend)


def noisy(values, deviation=0.3, sequences=40):
    return values[:, None] * torch.exp(deviation * torch.randn(len(values), sequences).cumsum(0) / 10)


@given(bend=st.floats(-0.9, 3.0), decades=st.floats(-0.5, 1.0), level=st.floats(-8, 8))
def test_a_law_is_found_again(bend, decades, level):
    falls = 10**decades  # rate times the last n
    rate = min(falls, 0.9 / abs(bend) if bend < 0 else falls) / 199
    found = decay_law(10**level * law(rate, bend if abs(bend) > 1e-6 else 0))
    assert found.rate == pytest.approx(rate, rel=0.03)
    assert found.bend * rate * 199 == pytest.approx(bend * rate * 199, abs=0.02 * (1 + abs(bend) * rate * 199))
    assert found.misfit < 1e-2
    assert found.fitted == 200


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (law(0.05, 0), "exponential"),
        (law(0.05, 2 / 3), "polynomial"),
        (law(0.004, -1), "faster than exponential"),
        (law(-0.01, 0), "growing"),
    ],
)
def test_names(values, name):
    found = decay_law(noisy(values))
    assert found.name == name, found
    assert str(found).startswith(name)


def test_intervals_hold_the_truth_and_shrink():
    few, many = (decay_law(noisy(law(0.05, 0.5), 1.0, sequences)) for sequences in (10, 1000))
    assert many.interval[0] < 0.5 < many.interval[1]
    assert many.interval[1] - many.interval[0] < (few.interval[1] - few.interval[0]) / 3


def test_one_sequence_says_nothing_of_how_sure_it_is():
    found = decay_law(law(0.05, 0.5))
    assert found.interval == (-math.inf, math.inf)
    assert found.name == "undecided"
    assert found.exponent == pytest.approx(2, rel=0.01)
    assert decay_law(law(0.05, -0.05)).exponent == math.inf


def test_rounding_is_not_fitted():
    single = law(0.5, 0).float() + 1e-8
    found = decay_law(single)
    assert 20 < found.fitted < 30
    assert found.rate == pytest.approx(0.5, rel=0.01)
    assert decay_law(torch.cat([law(0.05, 0)[:20], torch.zeros(5)])).fitted == 20


def test_of_a_small_sequence_beside_a_large_one_rounding_is_its_own():
    """Both fall by the same law; the values of one are all below the rounding of the other's first."""
    alone = decay_law(law(0.05, 0.5))
    found = decay_law(torch.stack([law(0.05, 0.5), 1e-18 * law(0.05, 0.5)], 1))
    assert found.fitted == alone.fitted == 200
    assert (found.rate, found.bend) == pytest.approx((alone.rate, alone.bend), rel=1e-6)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (torch.ones(4), "8"),
        (torch.zeros(20), "above their rounding at the first 0"),
        (-torch.ones(20), "not negative, .* got -1"),
        (torch.ones(20, dtype=torch.long), "floating point"),
    ],
)
def test_what_does_not_fit_is_said(values, says):
    with pytest.raises((TypeError, ValueError), match=says):
        decay_law(values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_that_change_by_rounding_alone_are_constant(dtype):
    rounded = 0.3 * (1 + torch.finfo(dtype).eps * torch.randint(-2, 3, (40, 8)).to(dtype))
    found = decay_law(rounded)
    assert (found.name, found.rate) == ("constant", 0.0)
    assert str(found) == "constant: the first 40 values are one, to rounding"
    assert decay_law(rounded * torch.exp(-1e-4 * torch.arange(40, dtype=dtype))[:, None]).rate == pytest.approx(1e-4, rel=0.2)
