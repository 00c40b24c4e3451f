"""Parts against their formulas in NumPy: candidates, rates, and sigma(z) = 1 - e^-softplus(z) as two readings of weights."""

import copy

import numpy as np
import pytest
import torch
from problems import Nowhere, sigmoid_leaky
from torch.testing import assert_close

import ctrnn
import discretize

FORMULAS = {
    ctrnn.TanhCandidate: np.tanh,
    ctrnn.ReluCandidate: lambda z: np.maximum(z, 0),
    ctrnn.GateRate: lambda z: 1 / (1 + np.exp(-z)),
    ctrnn.GlobalGateRate: lambda z: 1 / (1 + np.exp(-z)),
    ctrnn.SoftplusRate: lambda z: np.log1p(np.exp(z)),
    ctrnn.GlobalSoftplusRate: lambda z: np.log1p(np.exp(z)),
    ctrnn.ExponentialRate: np.exp,
    ctrnn.GlobalExponentialRate: np.exp,
    lambda *sizes, **settings: ctrnn.Affine(*sizes, 7, **settings): lambda z: z,
}


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_part_is_its_formula(kind, bias):
    part, x, h = kind(3, 5, bias=bias), torch.randn(4, 3), torch.randn(4, 5)
    w = {name: value.detach().numpy() for name, value in part.named_parameters()}
    assert ("bias" in w) == bias
    z = np.einsum("oi,bi->bo", w["weight_x"], x.numpy()) + np.einsum("oh,bh->bo", w["weight_h"], h.numpy()) + w.get("bias", 0.0)
    assert_close(part(x, h), torch.from_numpy(FORMULAS[kind](z)), rtol=1e-13, atol=1e-14)  # sums of a dozen terms
    assert part(x, h).shape[1] == {"Global": 1, "Affine": 7}.get(type(part).__name__[:6], 5)


def test_the_projection_holds_all_that_depends_on_the_input_alone():
    part = ctrnn.Affine(3, 5, 7)
    x = torch.randn(6, 4, 3)
    assert part.project(x).shape == (6, 4, part.projected_size)
    assert_close(part.project(x), part(x, torch.zeros(6, 4, 5)), rtol=0, atol=0)


def test_a_part_of_the_user_pulls_a_field():
    field = ctrnn.Relaxation(Nowhere(2, 3), ctrnn.FixedRate(2.0), ctrnn.LinearDecay())
    h = torch.randn(4, 3)
    assert_close(field(torch.randn(4, 2), h), -2 * h, rtol=0, atol=0)


def test_a_closed_reset_forgets_the_state():
    candidate, x = ctrnn.ResetCandidate(3, 5), torch.randn(4, 3)
    with torch.no_grad():
        candidate.reset.bias.fill_(-1e3)
    assert torch.equal(candidate(x, torch.randn(4, 5)), candidate(x, torch.zeros(4, 5)))


@pytest.mark.parametrize(
    ("part", "width"),
    [
        (ctrnn.TanhCandidate(3, 5), 5),
        (ctrnn.ResetCandidate(3, 5), 10),
        (ctrnn.GateRate(3, 5), 5),
        (ctrnn.GlobalGateRate(3, 5), 1),
        (ctrnn.FixedRate(), 0),
        (ctrnn.ConstantRate(0.1), 0),
        (ctrnn.SigmoidConstantRate(0.1), 0),
    ],
)
def test_a_part_says_how_wide_its_projection_is(part, width):
    assert part.projected_size == width
    assert part.double().project(torch.randn(6, 4, 3)).shape == (6, 4, width)


def arrays(module):
    return {name: value.detach().numpy() for name, value in module.named_parameters()}


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("bias", [True, False])
def test_the_reset_candidate_resets_after_the_product(bias):
    candidate, x, h = ctrnn.ResetCandidate(3, 5, bias=bias), torch.randn(4, 3), torch.randn(4, 5)
    if bias:
        torch.nn.init.normal_(candidate.bias_h)  # starts at 0, where its place in the formula cannot be seen
    w = arrays(candidate)
    X, H = x.numpy(), h.numpy()
    r = sigmoid(X @ w["reset.weight_x"].T + H @ w["reset.weight_h"].T + w.get("reset.bias", 0.0))
    pulled = H @ w["pull.weight_h"].T + w.get("bias_h", 0.0)
    expected = np.tanh(X @ w["pull.weight_x"].T + w.get("pull.bias", 0.0) + r * pulled)
    assert_close(candidate(x, h), torch.from_numpy(expected), rtol=0, atol=1e-14)  # rounding of a dozen terms


def rate_of(part, batch=4, inputs=3, hidden=5):
    return part(torch.randn(batch, inputs), torch.randn(batch, hidden))


@pytest.mark.parametrize("alpha", [1.0, 0.25, 7])
def test_a_fixed_rate_is_its_number_and_learns_nothing(alpha):
    part = ctrnn.FixedRate(alpha)
    assert_close(rate_of(part), torch.tensor(float(alpha)), rtol=0, atol=0)
    assert not list(part.parameters())
    h = torch.zeros(4, 5, dtype=torch.float32)
    assert part(torch.zeros(4, 3, dtype=torch.float32), h).dtype == torch.float32


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 1.0, 40.0])
def test_a_constant_rate_starts_where_asked_and_is_kept_as_its_logarithm(alpha):
    part = ctrnn.ConstantRate(alpha)
    assert_close(rate_of(part), torch.tensor(alpha), rtol=4e-15, atol=0)  # exp(log a): eps * |log a|
    assert_close(part.log_alpha.detach(), torch.tensor(np.log(alpha)), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 0.5, 1 - 1e-9])
def test_a_sigmoid_constant_rate_starts_where_asked(alpha):
    part = ctrnn.SigmoidConstantRate(alpha)
    assert_close(rate_of(part), torch.tensor(alpha), rtol=4e-15, atol=0)  # sigma(logit a): eps * |logit a|
    assert_close(part.logit_alpha.detach(), torch.tensor(np.log(alpha) - np.log1p(-alpha)), rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("kind", [ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
def test_a_vector_gives_each_unit_its_own_constant(kind):
    alphas = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
    part = kind(alphas)
    assert_close(rate_of(part), alphas, rtol=4e-15, atol=0)
    alphas.zero_()  # a copy was taken
    assert bool((rate_of(part) > 0).all())


@pytest.mark.parametrize("kind", [ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
def test_no_gradient_step_makes_a_constant_rate_negative(kind):
    part = kind(0.1)
    optimizer = torch.optim.SGD(part.parameters(), lr=1e3)
    rate_of(part).sum().backward()  # down: d alpha / d parameter is about 0.1, so the step is about -100
    optimizer.step()
    assert 0 < float(rate_of(part).detach()) < 1e-30


@pytest.mark.parametrize(
    ("kind", "alpha"),
    [(ctrnn.FixedRate, 0.0), (ctrnn.ConstantRate, 0.0), (ctrnn.ConstantRate, float("nan")), (ctrnn.SigmoidConstantRate, 1.0)],
)
def test_a_rate_out_of_bounds_is_refused(kind, alpha):
    with pytest.raises(ValueError, match=r"`alpha` must be .*got"):
        kind(alpha)


@pytest.mark.parametrize("kind", [ctrnn.ConstantRate, ctrnn.SigmoidConstantRate])
@pytest.mark.parametrize(
    ("alpha", "error", "message"),
    [
        (torch.tensor([0.5, -0.25]), ValueError, r"got \[0.5, -0.25\]"),
        (torch.full((2, 2), 0.1), ValueError, r"one rate or a vector of one per unit, got shape \(2, 2\)"),
        ("fast", TypeError, "`alpha` must be a rate, or one rate per unit, got 'fast'"),
    ],
)
def test_what_is_no_rate_is_refused(kind, alpha, error, message):
    with pytest.raises(error, match=message):
        kind(alpha)


@pytest.mark.parametrize("gate", ["unit", "global"])
def test_softplus_rates_are_right_far_out_where_they_pass_any_bound_and_where_they_vanish(gate):
    rate = ctrnn.gated(1, 1, gate, rate="softplus").rate
    with torch.no_grad():
        rate.weight_x.fill_(1.0), rate.weight_h.zero_(), rate.bias.zero_()
    z = torch.tensor([[-700.0], [-40.0], [0.0], [25.0], [1e4]])
    exact = torch.tensor(
        [[9.8596765437597708e-305], [4.2483542552915889e-18], [0.69314718055994531], [25.000000000013888], [1e4]]
    )
    assert_close(rate(z, torch.zeros(5, 1)), exact, rtol=1e-15, atol=0)


@pytest.mark.parametrize("make", [ctrnn.gated, lambda *s: ctrnn.gated(*s, "global"), ctrnn.gru, sigmoid_leaky,
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


@pytest.mark.parametrize("alpha", [1e-8, 0.3, 5.0, 800.0])
def test_a_constant_softplus_rate_is_the_rate_asked_for(alpha):
    rate = ctrnn.SoftplusConstantRate(alpha)
    assert_close(rate(torch.zeros(1, 1), torch.zeros(1, 1)), torch.tensor(alpha), rtol=1e-14, atol=0)
