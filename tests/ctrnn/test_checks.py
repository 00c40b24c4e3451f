"""Every refusal names what was asked, what came and what to do, also where `assert` is switched off."""

import math
import os
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import each

import ctrnn
from ctrnn import checks
from ctrnn.fields.field import check_batched_state, check_state

ROOT = Path(__file__).resolve().parents[2]


def field():
    return ctrnn.gated(3, 5, dtype=torch.float64)


def zeros(*shape, **settings):
    return torch.zeros(*shape, **{"dtype": torch.float64, **settings})


def path(samples=5, **settings):
    return ctrnn.HeldPath(zeros(samples, 4, 3), **settings)


# One of each kind at every public entrance; the files beside this one have more.
BAD = {
    "size that is no number": (lambda: ctrnn.plain("3", 5), TypeError, "`input_size` must be a whole number, got '3'"),
    "size that is too small": (lambda: ctrnn.gru(3, 0), ValueError, "`hidden_size` must be at least 1, got 0"),
    "batch": (lambda: field().initial_state(-1), ValueError, "`batch` must be at least 1, got -1"),
    "gate": (lambda: ctrnn.gated(3, 5, "all"), ValueError, "`gate` must be one of 'unit', 'global'"),
    "negative rate": (lambda: ctrnn.leaky(3, 5, -0.1), ValueError, "`alpha` must be positive, got -0.1"),
    "rate of zero": (lambda: ctrnn.ConstantRate(0.0), ValueError, "`alpha` must be positive and finite"),
    "sigmoid rate of one": (lambda: ctrnn.SigmoidConstantRate(1.0), ValueError, "`alpha` must be strictly between 0 and 1"),
    "rate of nan": (lambda: ctrnn.FixedRate(math.nan), ValueError, "`alpha` must be finite, got nan"),
    "negative exponent": (lambda: ctrnn.PowerDecay(-1), ValueError, "`exponent` must be at least 0, got -1"),
    "part": (lambda: ctrnn.Relaxation(1, 2, 3), TypeError, "`candidate` must be a ctrnn.Part, got int"),
    "features": (lambda: field()(zeros(4, 2), zeros(4, 5)), ValueError, "the field reads 3 input features"),
    "units": (lambda: field()(zeros(4, 3), zeros(4, 7)), ValueError, "`h` has 7 units.*the field keeps 5.*initial_state"),
    "batches": (lambda: field()(zeros(4, 3), zeros(2, 5)), ValueError, r"must agree on all axes but the last, got \(4, 3\) and"),
    "dtype": (
        lambda: field()(zeros(4, 3), zeros(4, 5).float()),
        TypeError,
        "`h` is torch.float32, the field's parameters are torch.float64",
    ),
    "device": (lambda: field()(zeros(4, 3, device="meta"), zeros(4, 5)), ValueError, "`x` is on meta.*on cpu; move"),
    "array": (
        lambda: field()(np.zeros((4, 3)), zeros(4, 5)),
        TypeError,
        r"`x` must be a torch.Tensor, got ndarray; wrap it as torch.as_tensor\(x\)",
    ),
    "module": (lambda: ctrnn.from_torch(torch.nn.Linear(3, 5)), TypeError, "`module` must be an RNNCell.*got Linear"),
    "layers": (lambda: ctrnn.from_torch(torch.nn.LSTM(3, 5, 2)), ValueError, "`module` has num_layers=2"),
    "field for torch": (lambda: ctrnn.to_torch(field()), TypeError, "torch has a cell for plain, gru and lstm fields only"),
    "samples": (lambda: ctrnn.HeldPath(zeros(5, 3)), ValueError, r"`xs` must be \(time, batch, feature\), got shape \(5, 3\)"),
    "no samples": (lambda: ctrnn.LinearPath(zeros(0, 4, 3)), ValueError, "`xs` is empty"),
    "nan among samples": (
        lambda: ctrnn.LinearPath(zeros(5, 4, 3) / 0),
        ValueError,
        r"`xs` must be finite, got nan at index \(0, 0, 0\)",
    ),
    "times that repeat": (
        lambda: path(ts=[0, 1, 1, 2, 3]),
        ValueError,
        "`ts` must increase strictly, but repeats at index 2: 1.0",
    ),
    "times that go back": (lambda: path(ts=[0, 1, 3, 2, 4]), ValueError, "but goes back at index 3: 3.0 is followed by 2.0"),
    "number of times": (lambda: path(ts=[0, 1]), ValueError, "`ts` has 2 .*for 5 samples; give 6 edges or 5 stamps"),
    "time outside": (lambda: path()(5.5), ValueError, r"`t` = 5.5 lies outside the interval \[0.0, 5.0\]"),
    "time of nan": (lambda: path()(math.nan), ValueError, "`t` must be finite, got nan"),
    "time that is none": (lambda: path()(None), TypeError, "`t` must be a time or a sequence of times, got NoneType"),
    "piece": (lambda: path().piece(5), IndexError, "no piece 5: the path has 5"),
    "speed": (lambda: ctrnn.AffineWarp(-1), ValueError, "`speed` must be positive, got -1"),
    "clock that falls": (lambda: ctrnn.PiecewiseWarp([0, 1], [1, 0]), ValueError, "`cs` must increase strictly"),
    "clock too slow": (lambda: ctrnn.SmoothWarp.random(1, 0.5), ValueError, "`max_speed` must be at least 1, got 0.5"),
    "clock that stands still": (lambda: ctrnn.SmoothWarp(1, [1.5], [0]), ValueError, "stand still or run back"),
    "clock elsewhere": (lambda: ctrnn.WarpedPath(path(), ctrnn.PiecewiseWarp([0, 1], [6, 7])), ValueError, "no time in common"),
    "warp": (lambda: ctrnn.WarpedPath(path(), 2.0), TypeError, "`warp` must be a ctrnn.Warp, got float"),
    "driven path": (lambda: ctrnn.Driven(field(), zeros(5, 4, 3)), TypeError, "`path` must be a ctrnn.Path, got Tensor; wrap"),
    "driven state": (
        lambda: ctrnn.Driven(field(), path())(0.5, zeros(3, 5)),
        ValueError,
        r"`h` must have shape \(batch, state\) = \(4, 5\)",
    ),
    "driven speed": (
        lambda: ctrnn.Driven(field(), path(), lambda t: -1.0)(0.5, zeros(4, 5)),
        ValueError,
        "`speed` must be finite and at least 0",
    ),
}


@each("name", BAD)
def test_bad_input_is_refused_in_words(name):
    make, error, message = BAD[name]
    with pytest.raises(error, match=message) as caught:
        make()
    assert caught.type is error


@pytest.mark.slow
def test_bad_input_is_refused_in_the_same_words_where_assert_is_switched_off():
    done = subprocess.run(
        [sys.executable, "-O", __file__],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["refused", str(len(BAD))]


@each("value", [1, np.int64(3), np.uint8(200)])
def test_a_size_may_be_any_whole_number(value):
    size = checks.positive_size("size", value)
    assert type(size) is int
    assert size == value


@each("value", [True, 1.0, "1", None, [1], torch.tensor(1.5)])
def test_what_is_no_whole_number_is_no_size(value):
    with pytest.raises(TypeError, match="`size` must be a whole number, got"):
        checks.positive_size("size", value)


@each(
    "value",
    [2, 2.0, np.float32(2), np.int64(2), Fraction(2), np.array(2.0), np.array([2.0]), torch.tensor(2), torch.tensor([2.0])],
)
def test_a_number_may_be_any_real_number(value):
    number = checks.finite_number("number", value)
    assert type(number) is float
    assert number == 2.0


@each(
    "value",
    [True, "2", b"2", None, [2.0], 2j, np.array([1.0, 2.0]), torch.zeros(2), torch.zeros(0), torch.tensor(2j), {}],
)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match=r"`number` must be .*number, got"):
        checks.finite_number("number", value)


@each("value", [math.nan, math.inf, -math.inf, torch.tensor(math.nan), np.float64("inf")])
def test_a_number_that_is_not_finite_is_refused(value):
    with pytest.raises(ValueError, match="`number` must be finite, got"):
        checks.finite_number("number", value)


def test_a_number_that_would_lose_its_gradient_is_refused():
    with pytest.raises(ValueError, match=r"`number` is taken as a plain number.*pass `number.item\(\)`"):
        checks.finite_number("number", torch.ones((), requires_grad=True))


def test_bounds_include_what_they_say():
    assert checks.positive_number("n", 5e-324) == 5e-324
    assert checks.non_negative_number("n", 0) == 0.0
    for value in (0, -0.0, -1):
        with pytest.raises(ValueError, match="`n` must be positive"):
            checks.positive_number("n", value)
    with pytest.raises(ValueError, match="`n` must be at least 0, got -5e-324"):
        checks.non_negative_number("n", -5e-324)


def test_the_first_value_that_is_not_finite_is_named():
    values = zeros(3, 2)
    values[1, 1], values[2, 0] = math.inf, math.nan
    with pytest.raises(ValueError, match=r"`v` must be finite, got inf at index \(1, 1\) of shape \(3, 2\); fill or drop"):
        checks.is_finite("v", values.requires_grad_())
    checks.is_finite("v", zeros(0))
    checks.is_finite("v", zeros(3, device="meta"))  # has no values to look at


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


def test_a_batched_state_has_two_axes_and_its_batch():
    check_batched_state(field(), zeros(4, 5), 4)
    for shape in ((3, 5), (5,), (1, 4, 5), (4, 4, 5)):
        with pytest.raises(
            ValueError, match=r"`h0` must have shape \(batch, state\) = \(4, 5\), got .*`field.initial_state\(4\)`"
        ):
            check_batched_state(field(), zeros(*shape), 4)


@each(
    "value",
    [[0, 1, 3], (0.0, 1.0, 3.0), np.array([0, 1, 3]), torch.tensor([0, 1, 3]), torch.tensor([0.0, 1, 3]).half(), range(4)],
)
def test_times_become_float64(value):
    times = checks.are_times("ts", value)
    assert times.dtype == torch.float64
    assert times.tolist() == [float(t) for t in value]
    assert checks.evaluation_times("t", value).tolist() == times.tolist()


def test_times_to_evaluate_at_come_in_any_order():
    assert checks.evaluation_times("t", [2.0, 0.0, 2.0]).tolist() == [2.0, 0.0, 2.0]
    assert checks.evaluation_times("t", 3).shape == ()
    assert checks.evaluation_times("t", []).shape == (0,)


@each("default", [torch.float32, torch.float64])
def test_no_digit_of_a_time_is_lost(default):
    torch.set_default_dtype(default)
    for t in (0.1, 1e4 + 0.1, math.pi, np.float64(0.7)):
        assert checks.evaluation_times("t", t).item() == t
        assert checks.evaluation_times("t", [t]).tolist() == [t]
        assert checks.are_times("ts", [t, t + 1]).tolist() == [t, t + 1]
        assert checks.are_times("ts", np.array([t, t + 1])).tolist() == [t, t + 1]


@each("end", [1.0, 1.9, 3.0, 0.1, 1e-300, 12345.678, 2.0**52, 1e300, -0.1, -1.0])
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


def test_an_unbounded_end_lets_every_time_through():
    times = torch.tensor([-1e308, 0.0, 1e308])
    assert checks.within("t", times, -math.inf, math.inf).tolist() == times.tolist()
    with pytest.raises(ValueError, match=r"`t` = -1e\+308 lies outside the interval \[0.0, inf\]"):
        checks.within("t", times, 0.0, math.inf)


def test_the_first_time_outside_is_named():
    with pytest.raises(ValueError, match=re.escape("`t` = 7.5 lies outside the interval [0.0, 5.0]")):
        checks.within("t", torch.tensor([1.0, 7.5, -3.0]), 0.0, 5.0)


def test_a_decimal_is_refused_or_read_but_never_misread():
    try:
        assert checks.finite_number("number", Decimal("2.5")) == 2.5
    except TypeError as error:
        assert "`number` must be a number" in str(error)  # noqa: PT017


def refuse_all() -> None:
    """What the test above runs without `assert`."""
    for name, (make, error, message) in BAD.items():
        try:
            make()
        except error as caught:
            if re.search(message, str(caught)) is None:
                sys.exit(f"{name}: refused in other words: {caught}")
        else:
            sys.exit(f"{name}: not refused")
    if __debug__:
        sys.exit("`assert` is on.")
    print("refused", len(BAD))


if __name__ == "__main__":
    refuse_all()
