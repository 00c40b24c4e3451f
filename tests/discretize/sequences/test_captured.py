"""A sequence's steps and their way back can be captured in a CUDA graph: nothing waits for the device or is sent there.

What a graph repeats it repeats on the device alone: a look at a value ends the capture, and what was sent there once would be
read again from where it no longer is.
"""

import pytest
import torch
from fake_device import DEVICE, FakeDevice
from problems import KINDS, NAMED_FIELDS, PUBLISHED, STEPS

import ctrnn
import ctrnn.checks
from discretize import DiscreteRNN, Euler, ExponentialEuler

MAKERS = NAMED_FIELDS | PUBLISHED
ITERATED = ("BackwardEuler", "Trapezoid")  # whose number of iterations hangs on values


def check(make, step, monkeypatch):
    with FakeDevice() as device:
        rnn, x = DiscreteRNN(make(3, 4), step=step).to(DEVICE), torch.randn(4, 2, 3).to(DEVICE)
        rnn(x)  # once before, as for every capture
        monkeypatch.setattr(ctrnn.checks, "is_captured", lambda device: device == DEVICE)
        device.waits.clear()
        device.sent.clear()
        output, _ = rnn(x)
        output.square().sum().backward()
        assert all(parameter.grad is not None for parameter in rnn.parameters())
        assert not device.waits
        assert not device.sent


@pytest.mark.parametrize(
    ("make", "step"), [*((NAMED_FIELDS[name], Euler()) for name in KINDS), (ctrnn.gated, ExponentialEuler())]
)
def test_steps_can_be_captured(make, step, monkeypatch):
    check(make, step, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MAKERS))
def test_steps_of_every_field_can_be_captured(name, monkeypatch):
    check(MAKERS[name], Euler(), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(STEPS) - set(ITERATED)))
def test_every_step_without_iterations_can_be_captured(name, monkeypatch):
    check(ctrnn.gated, STEPS[name], monkeypatch)
