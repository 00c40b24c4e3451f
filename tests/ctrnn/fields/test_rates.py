"""Rates: formulas, bounds that learning cannot leave, and starts that are refused."""

import numpy as np
import pytest
import torch
from cases import each
from torch.testing import assert_close

import ctrnn


def rate_of(part, batch=4, inputs=3, hidden=5):
    return part(torch.randn(batch, inputs), torch.randn(batch, hidden))


@each("alpha", [1.0, 0.25, 7])
def test_a_fixed_rate_is_its_number_and_learns_nothing(alpha):
    part = ctrnn.FixedRate(alpha)
    assert_close(rate_of(part), torch.tensor(float(alpha)), rtol=0, atol=0)
    assert not list(part.parameters())
    h = torch.zeros(4, 5, dtype=torch.float32)
    assert part(torch.zeros(4, 3, dtype=torch.float32), h).dtype == torch.float32


@each("alpha", [1e-6, 0.1, 1.0, 40.0])
def test_a_constant_rate_starts_where_asked_and_is_kept_as_its_logarithm(alpha):
    part = ctrnn.ConstantRate(alpha)
    assert_close(rate_of(part), torch.tensor(alpha), rtol=4e-15, atol=0)  # exp(log a): eps * |log a|
    assert_close(part.log_alpha.detach(), torch.tensor(np.log(alpha)), rtol=1e-15, atol=1e-15)


@each("alpha", [1e-6, 0.1, 0.5, 1 - 1e-9])
def test_a_sigmoid_constant_rate_starts_where_asked(alpha):
    part = ctrnn.SigmoidConstantRate(alpha)
    assert_close(rate_of(part), torch.tensor(alpha), rtol=4e-15, atol=0)  # sigma(logit a): eps * |logit a|
    assert_close(part.logit_alpha.detach(), torch.tensor(np.log(alpha) - np.log1p(-alpha)), rtol=1e-7, atol=1e-15)


@each("kind", [ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
def test_a_vector_gives_each_unit_its_own_constant(kind):
    alphas = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
    part = kind(alphas)
    assert_close(rate_of(part), alphas, rtol=4e-15, atol=0)
    alphas.zero_()  # a copy was taken
    assert bool((rate_of(part) > 0).all())


@each("kind", [ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
def test_no_gradient_step_makes_a_constant_rate_negative(kind):
    part = kind(0.1)
    optimizer = torch.optim.SGD(part.parameters(), lr=1e3)
    rate_of(part).sum().backward()  # down: d alpha / d parameter is about 0.1, so the step is about -100
    optimizer.step()
    assert 0 < float(rate_of(part).detach()) < 1e-30


def test_a_sigmoid_constant_rate_stays_below_one_in_a_step_up():
    part = ctrnn.SigmoidConstantRate(0.1)
    with torch.no_grad():
        part.logit_alpha.add_(30.0)
    assert 0.999 < float(rate_of(part).detach()) < 1


@each(("kind", "outputs"), [(ctrnn.GateRate, 5), (ctrnn.GlobalGateRate, 1)])
@each("bias", [True, False])
def test_a_gate_is_its_formula(kind, outputs, bias):
    part, x, h = kind(3, 5, bias=bias), torch.randn(4, 3), torch.randn(4, 5)
    w = {name: value.detach().numpy() for name, value in part.named_parameters()}
    z = x.numpy() @ w["weight_x"].T + h.numpy() @ w["weight_h"].T + w.get("bias", 0.0)
    expected = torch.from_numpy(1 / (1 + np.exp(-z)))
    assert expected.shape == (4, outputs)
    assert_close(part(x, h), expected, rtol=0, atol=1e-14)  # rounding of a dozen terms


@each("kind", [ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
def test_dtype_and_device_are_torchs(kind):
    assert kind(0.1, dtype=torch.float32).state_dict().popitem()[1].dtype == torch.float32
    assert kind(torch.full((5,), 0.1), device="cpu").state_dict().popitem()[1].dtype == torch.float64


@each("alpha", [0.0, -0.1, float("nan"), float("inf")])
@each("kind", [ctrnn.FixedRate, ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
def test_a_rate_that_is_not_positive_and_finite_is_refused(kind, alpha):
    with pytest.raises(ValueError, match=r"`alpha` must be .*got"):
        kind(alpha)


@each("alpha", [1.0, 2.0])
def test_a_sigmoid_never_starts_at_one_or_above(alpha):
    with pytest.raises(ValueError, match="`alpha` must be strictly between 0 and 1, got"):
        ctrnn.SigmoidConstantRate(alpha)


@each("kind", [ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
@each(
    ("alpha", "error", "message"),
    [
        (torch.tensor([0.5, -0.25]), ValueError, r"got \[0.5, -0.25\]"),
        (torch.tensor([0.1, float("nan")]), ValueError, "`alpha` must be"),
        (torch.full((2, 2), 0.1), ValueError, r"one rate or a vector of one per unit, got shape \(2, 2\)"),
        (torch.empty(0), ValueError, r"got shape \(0,\)"),
        ("fast", TypeError, "`alpha` must be a rate, or one rate per unit, got 'fast'"),
        (None, TypeError, "got None"),
    ],
)
def test_what_is_no_rate_is_refused(kind, alpha, error, message):
    with pytest.raises(error, match=message):
        kind(alpha)


@each(("alpha", "error"), [("fast", TypeError), (None, TypeError), (True, TypeError)])
def test_a_fixed_rate_is_a_number(alpha, error):
    with pytest.raises(error, match="`alpha` must be a number, got"):
        ctrnn.FixedRate(alpha)
