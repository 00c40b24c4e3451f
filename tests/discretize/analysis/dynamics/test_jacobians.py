"""Jacobians of flows and maps: by rows and by copies the same, and each state is solved once."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Flow, Map
from discretize.analysis.dynamics import systems

UNITS, STATES = 3, 4


class Counting(ctrnn.VectorField):
    """tanh(W h + x) - h, which counts the states of all its calls."""

    def __init__(self):
        super().__init__(1, UNITS)
        self.mix = torch.nn.Parameter(torch.linspace(-1, 1, UNITS**2, dtype=torch.float64).reshape(UNITS, UNITS))
        self.seen = 0

    def flow(self, projected, h):
        self.seen += h.numel() // UNITS
        return torch.tanh(h @ self.mix.T + projected) - h


def drawn(kind):
    field = Counting()
    h = torch.randn(2, STATES // 2, UNITS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = torch.full((1,), 0.3, dtype=torch.float64)
    return Flow(field, x) if kind == "flow" else Map(field, getattr(discretize, kind)(), x, dt=0.7), h


@pytest.mark.parametrize("kind", ["flow", "ExponentialEuler", "BackwardEuler", "Trapezoid"])
def test_a_jacobian_by_rows_is_that_of_each_state_alone(kind, monkeypatch):
    monkeypatch.setattr(systems, "MOST_COPIED", 0)
    system, h = drawn(kind)
    found = systems.jacobian(system, h)
    assert found.shape == (2, STATES // 2, UNITS, UNITS)
    for k in range(STATES):
        own = torch.autograd.functional.jacobian(lambda u: system(u[None])[0], h.reshape(-1, UNITS)[k])
        assert_close(found.reshape(-1, UNITS, UNITS)[k], own, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("kind", "most"), [("flow", 0), ("BackwardEuler", systems.MOST_COPIED)])
def test_a_jacobian_by_rows_has_derivatives_of_its_own(kind, most, monkeypatch):
    monkeypatch.setattr(systems, "MOST_COPIED", most)
    system, h = drawn(kind)
    slope = torch.autograd.grad(systems.jacobian(system, h).diagonal(dim1=-2, dim2=-1).sum(), system.field.mix)[0]
    with torch.no_grad():
        assert not systems.jacobian(system, h).requires_grad
        ends = []
        for side in (1e-5, -1e-5):
            system.field.mix[0, 1] += side
            ends.append(systems.jacobian(system, h).diagonal(dim1=-2, dim2=-1).sum())
            system.field.mix[0, 1] -= side
    assert_close(slope[0, 1], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_an_implicit_step_is_solved_once_for_a_jacobian():
    system, h = drawn("BackwardEuler")
    with torch.no_grad():
        system(h)
        once, system.field.seen = system.field.seen, 0
        systems.jacobian(system, h)
    assert once == system.field.seen
