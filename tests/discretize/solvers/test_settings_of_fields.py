"""What is computed after a call has the settings of the call, whatever has become of the field's attributes since."""

import copy

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, Checkpointed, RungeKutta4, integrate

X = torch.linspace(-1, 1, 48, dtype=torch.float64).reshape(12, 2, 2)
SAME = {"rtol": 1e-12, "atol": 1e-12}  # the same steps, perhaps by a kernel


def field():
    return ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(2.0), generator=torch.Generator().manual_seed(0))


def gradients(of, loss, h0):
    return torch.autograd.grad(loss, [h0, *of.parameters()])


WAYS = {
    "all kept": {},
    "adjoint": {"gradient": Adjoint()},
    "torchdiffeq's adjoint": {"gradient": Adjoint(), "method": "torchdiffeq:dopri5"},
    "checkpointed": {"gradient": Checkpointed(3000)},
    "checkpointed fixed steps": {"gradient": Checkpointed(3000), "method": RungeKutta4()},
}


@pytest.mark.parametrize(
    ("how", "fused"),
    [
        ("all kept", False),
        ("torchdiffeq's adjoint", False),
        *(pytest.param(how, fused, marks=pytest.mark.slow) for how in WAYS for fused in (False, True)),
    ],
)
def test_an_exponent_that_changes_after_a_solve_changes_neither_its_gradients_nor_its_states_between(how, fused):
    found = []
    for change in (False, True):
        of, h0 = field(), torch.full((2, 3), 0.4, requires_grad=True)
        solved = integrate(of, ctrnn.HeldPath(X), h0, torch.arange(13.0), fused=fused, **WAYS[how])
        of.decay.fixed_exponent = 1.0 if change else 2.0
        with torch.no_grad():
            between = solved(torch.tensor([3.3, 7.9]))
        found.append([between, *gradients(of, solved.hs.square().sum(), h0)])
        assert of.decay.fixed_exponent == (1.0 if change else 2.0)
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, **SAME)


class Counting(ctrnn.VectorField):
    """Counts its calls."""

    def __init__(self):
        super().__init__(2, 3)
        self.inner, self.calls = field(), 0

    def flow(self, projected, h):
        self.calls += 1
        return self.inner.flow(self.inner.project(projected), h)


def test_a_field_that_counts_its_calls_counts_those_of_the_backward_pass():
    counting, h0 = Counting(), torch.full((2, 3), 0.4, requires_grad=True)
    solved = integrate(counting, ctrnn.HeldPath(X), h0, torch.arange(13.0), gradient=Adjoint(), fused=False)
    before, reset = counting.calls, copy.copy(solved.stats)
    solved.hs.sum().backward()
    assert counting.calls - before == solved.stats["nfe_backward"] - reset["nfe_backward"] > 0
