"""Every refusal names what was asked, what came and what to do."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

import ctrnn
from ctrnn import checks
from ctrnn.fields.field import check_batched_state, check_state


def field():
    return ctrnn.gated(3, 5, dtype=torch.float64)


def zeros(*shape, **settings):
    return torch.zeros(*shape, **{"dtype": torch.float64, **settings})


@pytest.mark.parametrize("value", [1, np.int64(3), np.uint8(200)])
def test_a_size_may_be_any_whole_number(value):
    size = checks.positive_size("size", value)
    assert type(size) is int
    assert size == value


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1], torch.tensor(1.5)])
def test_what_is_no_whole_number_is_no_size(value):
    with pytest.raises(TypeError, match="`size` must be a whole number, got"):
        checks.positive_size("size", value)


@pytest.mark.parametrize(
    "value",
    [2, 2.0, np.float32(2), np.int64(2), Fraction(2), np.array(2.0), np.array([2.0]), torch.tensor(2), torch.tensor([2.0])],
)
def test_a_number_may_be_any_real_number(value):
    number = checks.finite_number("number", value)
    assert type(number) is float
    assert number == 2.0


@pytest.mark.parametrize(
    "value",
    [True, "2", b"2", None, [2.0], 2j, np.array([1.0, 2.0]), torch.zeros(2), torch.zeros(0), torch.tensor(2j), {}],
)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match=r"`number` must be .*number, got"):
        checks.finite_number("number", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, torch.tensor(math.nan), np.float64("inf")])
def test_a_number_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="`number` must be finite, got"):
        checks.finite_number("number", value)


def test_under_vmap_values_are_let_through():
    def f(v):
        checks.is_finite("v", v)
        return v

    assert torch.func.vmap(f)(zeros(3, 2)).shape == (3, 2)


def test_a_field_without_parameters_takes_every_floating_dtype():
    class Still(ctrnn.VectorField):
        def flow(self, projected, h):
            return torch.zeros_like(h)

    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        h = torch.ones(4, 3, dtype=dtype)
        check_state(Still(2, 3), h)
        assert torch.equal(Still(2, 3)(torch.ones(4, 2, dtype=dtype), h), zeros(4, 3, dtype=dtype))
    with pytest.raises((TypeError, ValueError), match=r"int64"):
        check_state(Still(2, 3), zeros(4, 3, dtype=torch.int64))


def test_bounds_include_what_they_say():
    assert checks.positive_number("n", 5e-324) == 5e-324
    assert checks.non_negative_number("n", 0) == 0.0
    for value in (0, -0.0, -1):
        with pytest.raises(ValueError, match="`n` must be positive"):
            checks.positive_number("n", value)
    with pytest.raises(ValueError, match="`n` must be at least 0, got -5e-324"):
        checks.non_negative_number("n", -5e-324)


def test_an_unbounded_end_lets_every_time_through():
    times = torch.tensor([-1e308, 0.0, 1e308])
    assert checks.within("t", times, -math.inf, math.inf).tolist() == times.tolist()
    with pytest.raises(ValueError, match=r"`t` = -1e\+308 lies outside the interval \[0.0, inf\]"):
        checks.within("t", times, 0.0, math.inf)


@pytest.mark.parametrize(
    "value",
    [[0, 1, 3], (0.0, 1.0, 3.0), np.array([0, 1, 3]), torch.tensor([0, 1, 3]), torch.tensor([0.0, 1, 3]).half(), range(4)],
)
def test_times_become_float64(value):
    times = checks.are_times("ts", value)
    assert times.dtype == torch.float64
    assert times.tolist() == [float(t) for t in value]
    assert checks.evaluation_times("t", value).tolist() == times.tolist()


@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_no_digit_of_a_time_is_lost(default):
    torch.set_default_dtype(default)
    for t in (0.1, 1e4 + 0.1, math.pi, np.float64(0.7)):
        assert checks.evaluation_times("t", t).item() == t
        assert checks.evaluation_times("t", [t]).tolist() == [t]
        assert checks.are_times("ts", [t, t + 1]).tolist() == [t, t + 1]
        assert checks.are_times("ts", np.array([t, t + 1])).tolist() == [t, t + 1]


@pytest.mark.parametrize("end", [1.0, 1.9, 3.0, 0.1, 1e-300, 12345.678, 2.0**52, 1e300, -0.1, -1.0])
def test_an_end_reaches_four_ulp_and_no_further(end):
    ulp = math.ulp(end)
    for ulps in (0, 1, 4):
        assert checks.within("t", zeros(()) + (end + ulps * ulp), end - abs(end), end).item() == end
        assert checks.within("t", zeros(()) + (end - ulps * ulp), end, end + abs(end)).item() == end
    for ulps in (5, 6, 7, 8, 50):
        with pytest.raises(ValueError, match="lies outside the interval"):
            checks.within("t", zeros(()) + (end + ulps * ulp), end - abs(end), end)
        with pytest.raises(ValueError, match="lies outside the interval"):
            checks.within("t", zeros(()) + (end - ulps * ulp), end, end + abs(end))


def test_a_number_that_would_lose_its_gradient_is_refused():
    with pytest.raises(ValueError, match=r"`number` is taken as a plain number.*pass `number.item\(\)`"):
        checks.finite_number("number", torch.ones((), requires_grad=True))


def test_the_first_value_that_is_not_finite_is_named():
    values = zeros(3, 2)
    values[1, 1], values[2, 0] = math.inf, math.nan
    with pytest.raises(ValueError, match=r"`v` must be finite, got inf at index \(1, 1\) of shape \(3, 2\); fill or drop"):
        checks.is_finite("v", values.requires_grad_())
    checks.is_finite("v", zeros(0))
    checks.is_finite("v", zeros(3, device="meta"))  # has no values to look at


def test_a_batched_state_has_two_axes_and_its_batch():
    check_batched_state(field(), zeros(4, 5), 4)
    for shape in ((3, 5), (5,), (1, 4, 5), (4, 4, 5)):
        with pytest.raises(
            ValueError, match=r"`h0` must have shape \(batch, state\) = \(4, 5\), got .*`field.initial_state\(4\)`"
        ):
            check_batched_state(field(), zeros(*shape), 4)


def test_the_first_time_outside_is_named():
    with pytest.raises(ValueError, match=re.escape("`t` = 7.5 lies outside the interval [0.0, 5.0]")):
        checks.within("t", torch.tensor([1.0, 7.5, -3.0]), 0.0, 5.0)
