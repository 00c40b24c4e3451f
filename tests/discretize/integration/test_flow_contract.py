"""What every way to run a field refuses of its `flow`: derivatives that torch would broadcast, writes into the state."""

import pytest
import torch

from ctrnn import VectorField
from discretize import ETDRK4, BackwardEuler, ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, ExponentialRosenbrock, unroll


class FirstUnitOnly(VectorField):
    """What a slip of the keyboard gives: one derivative for all units."""

    def flow(self, projected, h):
        return torch.tanh(projected[..., :1]) - h[..., :1]


class WritesIntoTheState(VectorField):
    def flow(self, projected, h):
        h[..., 0] = 0
        return -h


class GivesAList(VectorField):
    def flow(self, projected, h):
        return [-h]


def ways_to_run(field):
    x, h = torch.randn(4, 2, 2), torch.randn(2, 3)
    yield lambda: field(x[0], h)
    yield lambda: unroll(DiscreteCell(field), x)
    for step in (Euler(), ETDRK4(), BackwardEuler(), ExponentialRosenbrock()):
        yield lambda step=step: DiscreteCell(field, step)(x[0], h)
        yield lambda step=step: DiscreteRNN(field, step)(x)
        yield lambda step=step: step(field, x[0], h, 0.1)
    yield lambda: ContinuousRNN(field)(x)


def test_a_flow_that_torch_would_broadcast_is_refused_by_whatever_calls_it():
    for kind, error, words in (
        (FirstUnitOnly, ValueError, r"gives shape \(2, 1\) for a state of shape \(2, 3\)"),
        (GivesAList, TypeError, "gives list, not a tensor"),
    ):
        for run in ways_to_run(kind(2, 3)):
            with pytest.raises(error, match=words):
                run()


def test_a_flow_that_writes_into_its_state_is_refused_by_whatever_calls_it():
    for run in ways_to_run(WritesIntoTheState(2, 3)):
        with pytest.raises(ValueError, match=r"writes into the state .* `h.clone\(\)`"):
            run()
    with torch.inference_mode():  # where torch does not count writes
        WritesIntoTheState(2, 3)(torch.randn(1, 2), torch.randn(1, 3))
