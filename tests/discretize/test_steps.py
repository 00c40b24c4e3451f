"""One-step maps against closed forms and their declared order."""

import math

import problems
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize


def test_an_euler_step_is_the_first_two_terms_of_the_taylor_series():
    field, x, h = ctrnn.gated(3, 5), torch.randn(4, 3), torch.randn(4, 5)
    expected = h + 0.3 * field(x, h)
    assert_close(discretize.Euler()(field, x, h, 0.3), expected, rtol=0, atol=1e-15)


def test_the_unit_euler_step_of_a_gated_field_mixes_candidate_and_state():
    field, x, h = ctrnn.gated(3, 5), torch.randn(4, 3), torch.randn(4, 5)
    g, f = field.rate(x, h), field.candidate(x, h)
    # Tallec and Ollivier, eq. (10); other order of the same sums.
    assert_close(discretize.Euler()(field, x, h, 1.0), g * f + (1 - g) * h, rtol=0, atol=1e-15)


@pytest.mark.parametrize("make", [problems.free_leaky, problems.free_power, problems.linear])
def test_euler_has_the_order_it_declares(make):
    problem = make()

    def error(steps: int) -> float:
        h = problem.h0
        for _ in range(steps):
            h = discretize.Euler()(problem.field, problem.x, h, 1.0 / steps)
        return float((h - problem.solution(torch.tensor(1.0))).detach().abs().max())

    observed = math.log2(error(256) / error(512))
    # The next term of the error expansion is 1/512 of the first.
    assert observed == pytest.approx(discretize.Euler.order, abs=0.02)


def test_steps_differentiate_to_inputs_states_and_weights():
    cell = discretize.DiscreteCell(ctrnn.gru(2, 3), dt=0.5)
    names = [name for name, _ in cell.named_parameters()]
    x, h = torch.randn(4, 2, requires_grad=True), torch.randn(4, 3, requires_grad=True)

    def call(x, h, *weights):
        return torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (x, h))

    assert torch.autograd.gradcheck(call, (x, h, *cell.parameters()))


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf])
def test_a_step_that_is_not_positive_and_finite_is_refused(dt):
    with pytest.raises(ValueError, match="`dt` must be"):
        discretize.Euler()(ctrnn.plain(1, 2), torch.zeros(1, 1), torch.zeros(1, 2), dt)


def test_inputs_that_do_not_fit_are_refused_by_name():
    step, field = discretize.Euler(), ctrnn.plain(3, 5)
    with pytest.raises(ValueError, match="reads 3 input features"):
        step(field, torch.zeros(4, 2), torch.zeros(4, 5), 1.0)
    with pytest.raises(ValueError, match="the field keeps 5"):
        step(field, torch.zeros(4, 3), torch.zeros(4, 7), 1.0)
    with pytest.raises(ValueError, match="agree on all axes but the last"):
        step(field, torch.zeros(4, 3), torch.zeros(1, 5), 1.0)
    with pytest.raises(TypeError, match="float32"):
        step(field, torch.zeros(4, 3, dtype=torch.float32), torch.zeros(4, 5), 1.0)
