"""Fields with noise, dh = F dt + G dW: G read off the code against numbers of the code, formulas proved, and clocks absorbed."""

from functools import cache

import pytest
import torch
from sympy import Float, Symbol, sqrt

import ctrnn
from derivations import change_of_time, closed_under, symbolic, verify
from derivations.closure import NONE, RESCALING
from derivations.prover import symbols

pytestmark = pytest.mark.usefixtures("read_alone")


class Driven(ctrnn.VectorField):
    """dh = (w * x - h) dt + x tanh(h) / 2 dW, for two units."""

    formula = "dh/dt = w * x - h\nG = 0.5 x * tanh(h)"

    def __init__(self):
        super().__init__(2, 2)
        self.w = torch.nn.Parameter(torch.randn(2))

    def flow(self, projected, h):
        return self.w * projected - h

    def diffusion(self, projected, h):
        return projected * torch.tanh(h) / 2


class Doubled(ctrnn.ColoredInput):
    def diffusion(self, projected, h):
        return 2 * super().diffusion(projected, h)


class Silent(Driven):
    formula = "dh/dt = w * x - h"


FIELDS = {
    "one sigma": lambda: ctrnn.Noisy(ctrnn.gated(1, 2), ctrnn.Noise(0.1)),
    "a matrix": lambda: ctrnn.Noisy(ctrnn.plain(1, 2), ctrnn.Noise(torch.randn(2, 3))),
    "on the input": lambda: ctrnn.Noisy(ctrnn.glnn(2, 2), ctrnn.Noise(torch.rand(2), on="input")),
    "colored": lambda: ctrnn.ColoredInput(ctrnn.plain(1, 3), 0.2, 3.0),
    "of its own": Driven,
}


@cache
def field_of(name):
    """One for all tests, so that it is recorded once."""
    return FIELDS[name]()


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", FIELDS)
def test_the_diffusion_that_is_read_gives_the_numbers_that_torch_gives(name):
    field = field_of(name)
    found = symbolic(field)
    x, h, increment = torch.randn(field.input_size), torch.randn(field.state_size), torch.randn(field.noise_channels)
    values = dict(zip([*found.inputs, *found.state], [*x.tolist(), *h.tolist()], strict=True))
    for parameter, matrix in found.parameters.items():
        values |= dict(zip(matrix, field.get_parameter(parameter).flatten().tolist(), strict=True))
    numbers = found.diffusion.xreplace({letter: Float(value, 20) for letter, value in values.items()})
    expected = field.diffuse(field.project(x[None]), h[None], increment[None])[0]
    got = torch.tensor(numbers.tolist(), dtype=torch.float64) @ increment
    assert torch.allclose(got, expected, rtol=0, atol=1e-13)  # rounding of a few sums


EVERYDAY = ("on the input", "colored")


@pytest.mark.parametrize("name", [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.slow) for name in FIELDS])
def test_a_noisy_field_is_proved_to_be_its_formula(name):
    found = verify(field_of(name))
    assert found
    assert "of G" in found.evidence


def test_another_diffusion_is_refuted():
    found = verify(Doubled(ctrnn.plain(1, 2), 0.2, 3.0))
    assert found.holds is False
    assert "of G" in found.evidence


def test_a_formula_without_a_line_for_noise_is_proved_of_the_drift_and_says_so():
    found = verify(Silent())
    assert found
    assert "nothing is compared" in found.evidence


def test_a_field_without_noise_has_no_diffusion():
    assert symbolic(ctrnn.plain(1, 2)).diffusion is None


def test_noise_of_a_free_amplitude_is_rescaled_by_the_root_of_the_speed():
    found = closed_under(ctrnn.Noisy(ctrnn.leaky(1, 1), ctrnn.Noise(0.1)))
    sigma, speed = symbols.entry("noise.sigma", ()), Symbol("c'", positive=True)
    assert found.group == RESCALING
    assert {str(e.lhs): e.rhs for e in found.witness}["noise.sigma'"] == sqrt(speed) * sigma


def test_a_free_matrix_of_noise_is_rescaled_by_the_root_of_the_speed_too():
    found = closed_under(ctrnn.Noisy(ctrnn.leaky(1, 2), ctrnn.Noise(torch.rand(2, 2))))
    roots = [e.rhs / sqrt(Symbol("c'", positive=True)) for e in found.witness if "sigma" in str(e.lhs)]
    assert found.group == RESCALING
    assert {str(root) for root in roots} == {f"noise.sigma[{i},{j}]" for i in range(2) for j in range(2)}


def test_noise_of_a_given_amplitude_absorbs_no_clock():
    assert closed_under(ctrnn.Noisy(ctrnn.gated(1, 1), ctrnn.Noise(0.1)), free=["field.rate.bias"]).group == NONE


def test_equations_with_noise_are_not_put_on_a_clock_as_if_they_had_none():
    found = symbolic(ctrnn.Noisy(ctrnn.plain(1, 1), ctrnn.Noise(0.1)))
    with pytest.raises(ValueError, match="noise"):
        change_of_time(found, 2 * symbols.t)
    assert change_of_time(list(found), 2 * symbols.t)
