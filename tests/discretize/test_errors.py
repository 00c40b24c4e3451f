"""Warnings name the line of the user's that led to them, however deep it was found."""

import warnings

import pytest
import torch

import ctrnn
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, Layers, Monitor, integrate

fast = ctrnn.leaky(1, 2, alpha=3.0)
x, x32 = torch.zeros(4, 3, 1), torch.zeros(4, 3, 1, dtype=torch.float32)


def coarse():
    return ctrnn.gru(1, 2, dtype=torch.float32)


def monitored():
    rnn = DiscreteRNN(fast)
    with Monitor(rnn):
        rnn(x)


CALLS = {
    "cell": lambda: DiscreteCell(fast)(x[0]),
    "rnn": lambda: DiscreteRNN(fast)(x),
    "layers": lambda: Layers([DiscreteRNN(fast)])(x),
    "one layer": lambda: Layers([DiscreteRNN(ctrnn.gru(1, 2))], dropout=0.5),
    "monitor": monitored,
    "solved rnn": lambda: ContinuousRNN(coarse(), rtol=2e-7, atol=2e-7)(x32),
    "solve": lambda: integrate(coarse(), ctrnn.HeldPath(x32), x32[0].expand(-1, 2), [0.0, 1.0], rtol=2e-7, atol=2e-7),
    "forced": lambda: integrate(lambda t, h: -1e4 * h, None, torch.ones(1, 1), [0.0, 1e-2], min_step=1e-3),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_is_at_the_line_of_the_user(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name]()
    assert {warning.filename for warning in caught} == {__file__}  # one at least
