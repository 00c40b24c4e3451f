"""Rates that can pass 1, and sigma(z) = 1 - e^-softplus(z) as two readings of the same weights."""

import copy

import pytest
import torch
from cases import each
from problems import sigmoid_leaky
from torch.testing import assert_close

import ctrnn
import discretize


@each("gate", ["unit", "global", "network"])
@each(("rate", "function"), [("softplus", lambda z: torch.log1p(torch.exp(z))), ("exponential", torch.exp)])
def test_rates_are_what_their_names_say(gate, rate, function):
    field = ctrnn.gated(3, 5, gate, rate=rate)
    x, h = torch.randn(4, 3), torch.randn(4, 5)
    z = x @ field.rate.weight_x.mT + h @ field.rate.weight_h.mT + field.rate.bias
    assert_close(field.rate(x, h), function(z), rtol=1e-14, atol=0)
    assert field.rate(x, h).shape == (4, 5 if gate == "unit" else 1)


@each("gate", ["unit", "global"])
def test_softplus_rates_are_right_far_out_where_they_pass_any_bound_and_where_they_vanish(gate):
    rate = ctrnn.gated(1, 1, gate, rate="softplus").rate
    with torch.no_grad():
        rate.weight_x.fill_(1.0), rate.weight_h.zero_(), rate.bias.zero_()
    z = torch.tensor([[-700.0], [-40.0], [0.0], [25.0], [1e4]])
    exact = torch.tensor(
        [[9.8596765437597708e-305], [4.2483542552915889e-18], [0.69314718055994531], [25.000000000013888], [1e4]]
    )
    assert_close(rate(z, torch.zeros(5, 1)), exact, rtol=1e-15, atol=0)


@each("make", [ctrnn.gated, lambda *s: ctrnn.gated(*s, "global"), ctrnn.gru, sigmoid_leaky,
                                  lambda *s: ctrnn.gated(*s, decay=ctrnn.PowerDecay(0), bias=False)])  # fmt: skip
def test_the_sigmoid_gate_under_the_taylor_step_is_the_exponential_step_of_a_softplus_rate(make):
    field = make(3, 5)
    with torch.no_grad():
        for p in field.parameters():
            p.mul_(4)
    twin = ctrnn.softplus_clock(field)
    kernels = {"fused": make is ctrnn.gated}  # each kind of field takes a second to compile, and the identity is of the steps
    familiar = discretize.DiscreteRNN(field, discretize.Euler(), **kernels)
    exponential = discretize.DiscreteRNN(twin, discretize.ExponentialEuler(), **kernels)
    xs = 2 * torch.randn(50, 4, 3)
    assert_close(exponential(xs)[0], familiar(xs)[0], rtol=0, atol=1e-13)
    losses = [rnn(xs)[0].square().sum() for rnn in (familiar, exponential)]
    theirs, ours = (torch.autograd.grad(loss, list(field.parameters())) for loss in losses)
    for a, b in zip(theirs, ours, strict=True):
        assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_the_two_readings_share_their_weights_and_their_state_dict():
    field = ctrnn.gated(3, 5)
    before = torch.random.get_rng_state()
    twin = ctrnn.softplus_clock(field)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(a is b for a, b in zip(field.parameters(), twin.parameters(), strict=True))
    assert field.state_dict().keys() == twin.state_dict().keys()
    alone = copy.deepcopy(twin)
    alone.load_state_dict(field.state_dict())
    x, h = torch.randn(4, 3), torch.randn(4, 5)
    assert torch.equal(alone(x, h), twin(x, h))
    constant = sigmoid_leaky(3, 5, 0.3)
    assert_close(ctrnn.softplus_clock(constant).rate(x, h), -torch.log(torch.tensor(0.7)), rtol=1e-15, atol=0)


@each("alpha", [1e-8, 0.3, 5.0, 800.0])
def test_a_constant_softplus_rate_is_the_rate_asked_for(alpha):
    rate = ctrnn.SoftplusConstantRate(alpha)
    assert_close(rate(torch.zeros(1, 1), torch.zeros(1, 1)), torch.tensor(alpha), rtol=1e-14, atol=0)


def test_fields_that_the_identity_is_not_about_are_refused():
    with pytest.raises(ValueError, match=r"PowerDecay\(2\)"):
        ctrnn.softplus_clock(ctrnn.gated(1, 2, decay=ctrnn.PowerDecay(2)))
    with pytest.raises(ValueError, match="ConstantRate"):
        ctrnn.softplus_clock(ctrnn.leaky(1, 2))
    with pytest.raises(TypeError, match="LSTMField"):
        ctrnn.softplus_clock(ctrnn.lstm(1, 2))
    with pytest.raises(ValueError, match="`rate` must be one of 'sigmoid', 'softplus', 'exponential'"):
        ctrnn.gated(1, 2, rate="relu")
    with pytest.raises(ValueError, match="positive and finite"):
        ctrnn.SoftplusConstantRate(0.0)
