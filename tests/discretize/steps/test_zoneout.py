"""Zoneout keeps units with their probability, and is its expectation in evaluation."""

import pytest
import torch
from conformance import kernels_for_all
from torch.testing import assert_close

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, Euler, Heun, StepWarning, Zoneout

CLOSE = {"rtol": 0, "atol": 1e-14}


@pytest.mark.parametrize("inner", [Euler(), Heun()])
def test_in_training_a_unit_stays_or_takes_the_whole_step(inner):
    field, step = ctrnn.gated(2, 50), Zoneout(inner, 0.3)
    x, h = torch.randn(200, 2), torch.randn(200, 50)
    taken, whole = step(field, x, h, 0.5), inner(field, x, h, 0.5)
    stays = taken == h
    assert_close(taken, torch.where(stays, h, whole), **CLOSE)
    assert stays.double().mean().item() == pytest.approx(0.3, abs=0.02)  # four standard errors of 10 000 draws


def test_zoneout_in_evaluation_is_the_mean_of_what_it_does_in_training():
    field, step = ctrnn.gated(2, 5), Zoneout(Euler(), 0.3)
    x, h = torch.randn(1, 2), torch.randn(1, 5)
    mean = step(field, x.expand(4_000, 2), h.expand(4_000, 5), 1.0).mean(0, keepdim=True)
    step.eval()
    assert_close(step(field, x, h, 1.0), 0.3 * h + 0.7 * Euler()(field, x, h, 1.0), **CLOSE)
    assert_close(mean, step(field, x, h, 1.0), rtol=0, atol=0.04)  # four standard errors
    assert torch.equal(step(field, x, h, 1.0), step(field, x, h, 1.0))


def test_the_parts_of_a_state_have_probabilities_of_their_own():
    field, step = ctrnn.lstm(2, 40), Zoneout(Euler(), (0.0, 1.0))
    x, state = torch.randn(3, 2), torch.randn(3, 80)
    hidden, cell = step(field, x, state, 1.0).chunk(2, -1)
    assert torch.equal(cell, state[:, 40:])
    assert_close(hidden, Euler()(field, x, state, 1.0)[:, :40], **CLOSE)


def test_a_sample_of_no_length_keeps_its_state_to_the_last_bit():
    rnn, x = DiscreteRNN(ctrnn.gru(2, 5), Zoneout(Euler(), 0.2)).eval(), torch.randn(6, 2, 2)
    output, h_n = rnn(x, lengths=[6, 2])
    assert torch.equal(h_n[0, 1], output[1, 1])


def test_the_stability_is_that_of_the_expectation():
    z = torch.linspace(-3, 1, 9)
    assert_close(Zoneout(Euler(), 0.25).stability(z), 0.25 + 0.75 * (1 + z), **CLOSE)


def test_units_that_seldom_stay_are_warned_of_beside_others_that_mostly_do():
    rnn = DiscreteRNN(ctrnn.leaky(1, 2, alpha=3.0), Zoneout(Euler(), (0.1, 0.9)))  # factors -1.7 and 0.7
    with pytest.warns(StepWarning, match="multiplies the distance to what the state is pulled to by 1.7"):
        rnn(torch.zeros(4, 3, 1))


@pytest.mark.kernels
def test_modules_draw_at_each_step_and_follow_train_and_eval():
    rnn, x = DiscreteRNN(ctrnn.gru(2, 5), Zoneout(Euler(), 0.2)), torch.randn(6, 3, 2, requires_grad=True)
    torch.manual_seed(2)
    first = rnn(x)[0]
    assert not torch.equal(first, rnn(x)[0])
    torch.manual_seed(2)
    assert torch.equal(first, rnn(x)[0])
    assert list(rnn.state_dict()) == [f"field.{name}" for name in rnn.field.state_dict()]
    rnn.eval()
    assert not rnn.step.training
    assert torch.equal(rnn(x)[0], rnn(x)[0])
    with kernels_for_all():
        rnn.train()(x)
    assert "no kernel is written for it" in rnn.stats["engine_why"]
    rnn.eval()
    assert torch.autograd.gradcheck(lambda x: rnn(x)[0], x, fast_mode=True)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Zoneout(Euler, 0.5), TypeError, "`step` must be an instance of a step map"),
        (lambda: Zoneout(Euler(), 1.5), ValueError, "`p` must be a probability"),
        (lambda: Zoneout(Euler(), ()), ValueError, "`p` must be one probability or several"),
        (lambda: Zoneout(Euler(), "0.5"), TypeError, "`p` must be a number"),
        (lambda: DiscreteRNN(ctrnn.gru(2, 5), Zoneout(Euler(), (0.1, 0.2)))(torch.randn(3, 1, 2)), ValueError, "2 equal parts"),
        (
            lambda: ContinuousRNN(ctrnn.gru(2, 5), Zoneout(Euler(), 0.5)),
            TypeError,
            "solves nothing; take `discretize.DiscreteRNN`",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_words(make, error, message):
    with pytest.raises(error, match=message):
        make()
