"""Derivatives of states and losses with respect to what came earlier: closed forms, and autograd over the whole sequence."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteRNN, decay_law, input_gradients, integrate, state_jacobians

ALPHA = 0.2


def forgetting(r, size=1, alpha=ALPHA):
    """dh/dt = -alpha |h|^r h: nothing drives it."""
    field = ctrnn.leaky(1, size, alpha=alpha, decay=ctrnn.PowerDecay(r))
    for parameter in field.candidate.parameters():
        torch.nn.init.zeros_(parameter)
    return field


def after(h, s, r):
    return h * (1 + r * ALPHA * s * h**r) ** (-1 / r) if r else h * torch.exp(-ALPHA * s)


def derivative(h, s, r):
    return (1 + r * ALPHA * s * h**r) ** (-(r + 1) / r) if r else torch.exp(-ALPHA * s) + 0 * h


@pytest.mark.parametrize(
    ("solved", "r"),
    [(False, 0.0), (False, 2.0), (True, 2.0), *(pytest.param(True, r, marks=pytest.mark.slow) for r in (0.0, 0.5))],
)
def test_without_input_they_are_the_closed_forms(solved, r):
    field, h0, time = forgetting(r), torch.tensor([[0.9], [0.3]]), 20
    rnn = ContinuousRNN(field, rtol=1e-8, atol=1e-11) if solved else DiscreteRNN(field, discretize.Splitting())
    xs, since = torch.zeros(time, 2, 1), torch.arange(time + 1.0)[:, None]
    until = time - since
    kept = state_jacobians(rnn, xs, h0, fixed="start")
    known = state_jacobians(rnn, xs, h0, order=2)
    assert_close(kept, derivative(h0.T, since, r), atol=1e-7, rtol=0)
    assert_close(known, derivative(after(h0.T, since, r), until, r), atol=1e-7, rtol=0)
    assert decay_law(kept[:, 0]).bend == pytest.approx(r / (r + 1), abs=0.01)
    assert decay_law(known[:, 0].flip(0)).bend == pytest.approx(-r / (r + 1), abs=0.01)


@pytest.mark.parametrize("field", [ctrnn.lstm(2, 3), ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(2.0))])
@pytest.mark.parametrize("fixed", ["end", "start"])
def test_they_are_those_of_autograd_over_the_sequence(field, fixed):
    rnn, xs, ts = DiscreteRNN(field.double(), batch_first=True), torch.randn(2, 5, 2), torch.arange(6.0) ** 1.1
    h0 = torch.randn(2, field.state_size)
    found, units = (state_jacobians(rnn, xs, h0, ts, fixed=fixed, order=order) for order in ("fro", "units"))
    for k in range(6):
        first, last = (k, 5) if fixed == "end" else (0, k)
        for b in range(2):
            x, start = xs[b : b + 1], h0[b : b + 1]
            if first:
                start = rnn(x[:, :first], start, ts=ts[: first + 1])[1][0].detach()
            if first == last:
                whole = torch.eye(field.state_size)
            else:
                ends = rnn, x[:, first:last], ts[first : last + 1]
                whole = torch.autograd.functional.jacobian(lambda h, e=ends: e[0](e[1], h, ts=e[2])[1][0, 0], start)[:, 0]
            assert_close(found[k, b], torch.linalg.matrix_norm(whole), msg=f"{k}, {b}")
            assert_close(units[k, b], whole.diagonal().abs(), msg=f"{k}, {b}")


def test_without_times_samples_take_as_long_as_at_a_call():
    rnn = DiscreteRNN(ctrnn.gated(1, 3), dt=0.1, substeps=2)
    xs, h0 = torch.randn(4, 1, 1), torch.zeros(1, 3)
    whole = torch.autograd.functional.jacobian(lambda h: rnn(xs, h[None])[1][0, 0], h0)[:, 0]
    assert_close(state_jacobians(rnn, xs, h0)[0, 0], torch.linalg.matrix_norm(whole))


def dropped(p):
    gate = ctrnn.Dropout(ctrnn.GateRate(1, 3), p)
    return DiscreteRNN(ctrnn.Relaxation(ctrnn.TanhCandidate(1, 3), gate, ctrnn.LinearDecay()))


def zoned_out(p):
    return DiscreteRNN(ctrnn.gated(1, 3), discretize.Zoneout(discretize.Euler(), p))


@pytest.mark.parametrize("make", [dropped, zoned_out])
def test_what_drops_at_random_has_no_derivatives_in_training(make):
    rnn, xs = make(0.5), torch.randn(4, 2, 1)
    with pytest.raises(ValueError, match="in training"):
        state_jacobians(rnn, xs)
    rnn.eval()
    whole = torch.autograd.functional.jacobian(lambda h: rnn(xs[:, :1], h[None])[1][0, 0], torch.zeros(1, 3))[:, 0]
    assert_close(state_jacobians(rnn, xs)[0, 0], torch.linalg.matrix_norm(whole))  # of the mean, which evaluation takes


@pytest.mark.parametrize("make", [dropped, zoned_out])
def test_what_drops_nothing_draws_nothing(make):
    rnn, xs = make(0.0), torch.randn(4, 2, 1)
    assert_close(state_jacobians(rnn.train(), xs), state_jacobians(rnn.eval(), xs))


@pytest.mark.parametrize(
    "asked",
    [
        lambda step, field: discretize.growth(step, field, torch.ones(2, 1), torch.zeros(2, 3), 0.5).spectral_radius,
        lambda step, field: (
            discretize.lyapunov(discretize.Map(field, step, torch.zeros(1)), torch.ones(1, 3), intervals=20).exponents
        ),
    ],
    ids=["growth", "exponents"],
)
def test_a_step_that_draws_has_no_growth_in_training_and_in_evaluation_that_of_its_mean(asked):
    field, step = ctrnn.gated(1, 3), discretize.Zoneout(discretize.Euler(), 0.5)
    with pytest.raises(ValueError, match="draws at each evaluation, in training"):
        asked(step, field)
    assert not torch.allclose(asked(step.eval(), field), asked(discretize.Euler(), field), atol=1e-3)


def test_under_input_a_unit_alone_forgets_by_what_it_has_been():
    """exp(-alpha (r + 1) int |h|^r), exponential once the state fluctuates around the same size."""
    r, fine, time = 2.0, 20, 100
    field = forgetting(r)
    torch.nn.init.constant_(field.candidate.weight_x, 1.0)
    rnn = ContinuousRNN(field, rtol=1e-5, atol=1e-7)
    xs = torch.randn(time, 30, 1) * 2
    kept = state_jacobians(rnn, xs, fixed="start")
    with torch.no_grad():
        solved = integrate(field, ctrnn.HeldPath(xs[:, :4]), torch.zeros(4, 1), torch.arange(time + 1.0), rtol=1e-5, atol=1e-7)
        hs = solved(torch.arange(time * fine + 1.0) / fine)
    sizes = hs[..., 0].abs() ** r
    integral = torch.cat([torch.zeros(1, 4), torch.cumulative_trapezoid(sizes, dx=1 / fine, dim=0)])[::fine]
    assert_close(kept[:, :4], torch.exp(-ALPHA * (r + 1) * integral), rtol=1e-3, atol=1e-9)
    still = state_jacobians(rnn, 0 * xs[:30, :2], hs[-1, :1].expand(2, 1), fixed="start")
    driven, silent = decay_law(kept[30:]), decay_law(still)
    assert driven.name == "exponential", driven
    assert (silent.name, silent.bend) == ("polynomial", pytest.approx(r / (r + 1), abs=0.01)), silent


@pytest.mark.parametrize("rnn", [DiscreteRNN, ContinuousRNN])
def test_input_gradients_are_those_of_each_sequence(rnn):
    torch.manual_seed(1)
    model = discretize.SequenceModel(rnn(ctrnn.gru(2, 4, dtype=torch.float64)), 3).double()
    xs, targets, lengths = torch.randn(6, 4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([6, 4, 6, 2])

    def losses(outputs):
        return torch.nn.functional.cross_entropy(outputs[lengths - 1, torch.arange(4)], targets, reduction="none")

    norms = input_gradients(model, xs, losses, lengths=lengths)
    assert all(parameter.grad is None for parameter in model.parameters())
    for b, length in enumerate(lengths):
        x = xs[:length, b : b + 1].clone().requires_grad_()
        torch.nn.functional.cross_entropy(model(x)[-1], targets[b : b + 1]).backward()
        assert_close(norms[:length, b], x.grad[:, 0].norm(dim=-1), rtol=1e-6, atol=1e-9)
        assert not norms[length:, b].any()
    assert xs.grad is None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda rnn, xs: state_jacobians(torch.nn.GRU(1, 1), xs), "DiscreteRNN or ContinuousRNN, got GRU"),
        (lambda rnn, xs: state_jacobians(rnn, xs, fixed="middle"), "fixed"),
        (lambda rnn, xs: state_jacobians(rnn, xs, order=1), "'fro', 2 or 'units'"),
        (lambda rnn, xs: state_jacobians(rnn, xs, ts=torch.arange(3.0)), r"6 edges, \(time \+ 1,\), for 5 samples"),
        (lambda rnn, xs: state_jacobians(rnn, xs, torch.zeros(3, 1)), r"\(2, 1\), got shape \(3, 1\)"),
        (
            lambda rnn, xs: input_gradients(torch.nn.Linear(1, 1).double(), xs, lambda y: y),
            r"\(batch,\), or their sum, got shape",
        ),
        (lambda rnn, xs: input_gradients(rnn, xs.long(), torch.sum), "floating point"),
    ],
)
def test_what_does_not_fit_is_said(call, says):
    with pytest.raises((TypeError, ValueError), match=says):
        call(DiscreteRNN(forgetting(2.0)), torch.zeros(5, 2, 1))
