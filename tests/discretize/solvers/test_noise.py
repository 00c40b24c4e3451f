"""Tests solves of fields with noise, and that what is for equations without refuses them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ctrnn
import discretize
from discretize.torchdiffeq import odeint

TWICE = {"dtype": torch.float64}


def noisy(inputs: int = 2, units: int = 3) -> ctrnn.Noisy:
    return ctrnn.Noisy(ctrnn.plain(inputs, units, **TWICE), ctrnn.Noise(0.3))


def along_zeros(field: ctrnn.VectorField, **settings: object) -> discretize.Trajectory:
    path = ctrnn.HeldPath(torch.zeros(2, 1, 2, **TWICE))
    return discretize.integrate(field, path, torch.zeros(1, 3, **TWICE), torch.tensor([0.0, 1.0]), **settings)


def sequence() -> Tensor:
    return torch.zeros(4, 1, 2, **TWICE)


def cell() -> discretize.DiscreteCell:
    return discretize.DiscreteCell(noisy(), discretize.EulerMaruyama())


def times() -> Tensor:
    return torch.tensor([0.0, 1.0], **TWICE)


RUN_WITHOUT: dict[str, Callable[[], object]] = {
    "integrate by dopri5": lambda: along_zeros(noisy()),
    "integrate by torchdiffeq": lambda: along_zeros(noisy(), method="torchdiffeq:dopri5"),
    "integrate by rk4": lambda: along_zeros(noisy(), method="rk4"),
    "integrate by a step map": lambda: along_zeros(noisy(), method=discretize.Midpoint()),
    "integrate a function of a driven field": lambda: discretize.integrate(
        ctrnn.Driven(noisy(), ctrnn.HeldPath(sequence())), None, torch.zeros(1, 3, **TWICE), times()
    ),
    "integrate with noise in a part": lambda: along_zeros(_Around(noisy())),
    "a driven field, called": lambda: ctrnn.Driven(noisy(), ctrnn.HeldPath(sequence()))(0.5, torch.zeros(1, 3, **TWICE)),
    "odeint": lambda: odeint(ctrnn.Driven(noisy(), ctrnn.HeldPath(sequence())), torch.zeros(1, 3, **TWICE), times()),
    "a step map, called": lambda: discretize.Euler()(noisy(), torch.zeros(2, **TWICE), torch.zeros(3, **TWICE), 0.1),
    "ContinuousRNN": lambda: discretize.ContinuousRNN(noisy()),
    "JumpRNN": lambda: discretize.JumpRNN(noisy(0), discretize.CellJump(discretize.DiscreteCell(ctrnn.gru(2, 3, **TWICE)))),
    "CellJump": lambda: discretize.CellJump(cell()),
    "unroll_parallel": lambda: discretize.unroll_parallel(cell(), sequence()),
    "SymbolModel": lambda: discretize.SymbolModel(noisy(), discretize.EulerMaruyama()),
    "Map": lambda: discretize.Map(noisy(0), discretize.EulerMaruyama()),
    "lyapunov": lambda: discretize.lyapunov(discretize.Flow(noisy(0)), torch.zeros(1, 3, **TWICE), intervals=20),
    "basins": lambda: discretize.basins(discretize.Flow(noisy(0)), torch.zeros(1, 3, **TWICE), [], length=1.0),
    "verify_engines": lambda: discretize.verify_engines(noisy(), sequence(), step=discretize.EulerMaruyama()),
    "refine": lambda: discretize.refine(discretize.DiscreteRNN(noisy(), discretize.EulerMaruyama()), sequence()),
    "Monitor": lambda: discretize.Monitor(cell()),
    "state_jacobians": lambda: discretize.state_jacobians(
        discretize.DiscreteRNN(noisy(), discretize.EulerMaruyama()), sequence()
    ),
    "growth": lambda: discretize.growth(discretize.Euler(), noisy(), torch.zeros(2, **TWICE), torch.zeros(3, **TWICE), 0.1),
    "to_torch": lambda: ctrnn.to_torch(_PlainWithNoise(2, 3)),
    "Stack": lambda: ctrnn.Stack([noisy(2, 3), ctrnn.plain(3, 3, **TWICE)]),
    "export": lambda: torch.export.export(discretize.DiscreteRNN(noisy(), discretize.EulerMaruyama()), (sequence(),)),
}


class _Around(ctrnn.VectorField):
    """A field of a user's own around another one, whose noise it forgets."""

    def __init__(self, field: ctrnn.VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size)
        self.field = field

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(self.field.project(projected), h)


class _PlainWithNoise(ctrnn.LSTMField):
    """One of the library's own fields, with noise."""

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.ones_like(h)


@pytest.mark.parametrize("run", RUN_WITHOUT.values(), ids=RUN_WITHOUT.keys())
def test_what_is_for_equations_without_noise_refuses_a_noisy_field_by_name(run: Callable[[], object]):
    with pytest.raises(ValueError, match="has noise"):
        run()


def test_rest_and_slopes_of_a_noisy_field_are_those_of_the_field_without():
    field = noisy(0)
    starts = torch.zeros(1, 3, **TWICE)
    assert torch.equal(
        discretize.fixed_points(discretize.Flow(field), starts).h, discretize.fixed_points(discretize.Flow(field.field), starts).h
    )
    assert torch.equal(field(starts[:, :0], starts), field.field(starts[:, :0], starts))
