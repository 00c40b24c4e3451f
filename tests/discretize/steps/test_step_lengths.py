"""A step length for each sample: against the same samples one at a time, each with its length as a number."""

import re

import problems
import pytest
import torch
from cases import crossed
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import DiscreteCell

every_step = pytest.mark.parametrize("step", problems.STEPS.values())
FIELDS = {name: problems.NAMED_FIELDS[name] for name in ("gated per unit", "lstm", "gated power 0.5", "gated power 2", "gru")}
FIELDS["stack"] = lambda *sizes: ctrnn.gated(*sizes, num_layers=2)
DIFFERENTIATED = ["Euler", "ExponentialEuler", "RungeKutta4", "BackwardEuler", "StrangSplitting", "ExponentialRosenbrock"]


def setting(make, batch=3, hidden=3):
    field = make(2, hidden)
    return field, torch.randn(batch, 2), torch.randn(batch, field.state_size), 0.1 + torch.rand(batch)


@pytest.mark.parametrize(("batch", "hidden"), [(2, 3), (3, 1)])
@pytest.mark.parametrize(("make", "step"), crossed(FIELDS.values(), problems.STEPS.values()))
def test_each_sample_takes_the_step_it_takes_alone(make, step, batch, hidden):
    field, x, h, dt = setting(make, batch, hidden)
    together = step.advance(field, field.project(x), h, dt[:, None])
    alone = torch.cat([step(field, x[i : i + 1], h[i : i + 1], float(dt[i])) for i in range(batch)])
    assert_close(together, alone, rtol=1e-14, atol=1e-14)  # rounding of matrix products of other shapes


@pytest.mark.parametrize("start", [0.0, 1.0])
@pytest.mark.parametrize(("make", "step"), crossed(FIELDS.values(), problems.STEPS.values()))
def test_a_sample_whose_dt_is_zero_keeps_its_state_to_the_last_bit_with_finite_gradients(make, step, start):
    field, x, h, dt = setting(make, 4)
    dt[1:3] = 0
    dt, h = dt[:, None].requires_grad_(), (start * h).requires_grad_()
    moved = step.advance(field, field.project(x), h, dt)
    assert torch.equal(moved[1:3], h[1:3])
    assert not torch.equal(moved[0], h[0])
    (slope,) = torch.autograd.grad(moved[1].sum(), h, retain_graph=True)
    assert_close(slope, torch.eye(4)[:, 1:2] * torch.ones_like(h), rtol=0, atol=1e-15)
    for gradient in torch.autograd.grad(moved.sum(), [h, dt, *field.parameters()]):
        assert gradient.isfinite().all()


@every_step
def test_the_slope_along_a_dt_of_zero_is_the_field(step):
    field, x, h, dt = setting(ctrnn.gated)
    dt = torch.zeros_like(dt)[:, None].requires_grad_()
    moved = step.advance(field, field.project(x), h, dt)
    weights = torch.randn_like(h)
    (slope,) = torch.autograd.grad((moved * weights).sum(), dt)
    assert_close(slope, (field(x, h) * weights).sum(-1, keepdim=True), rtol=0, atol=1e-14)


@every_step
def test_cells_and_steps_take_lengths_with_and_without_a_last_axis(step):
    field, x, h, dt = setting(ctrnn.gru)
    expected = step.advance(field, field.project(x), h, dt[:, None])
    cell = DiscreteCell(field, step, dt=9.0)
    for found in (cell(x, h, dt), cell(x, h, dt[:, None]), step(field, x, h, dt), step(field, x, h, dt[:, None])):
        assert torch.equal(found, expected)
    assert_close(cell(x[0], h[0], dt[:1]), expected[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize(("name", "make"), crossed(DIFFERENTIATED, [ctrnn.gated, ctrnn.lstm]))
def test_lengths_are_differentiated(name, make):
    field, x, h, dt = setting(make, 2, 2)
    cell = DiscreteCell(field, problems.STEPS[name])
    assert torch.autograd.gradcheck(cell, [t.requires_grad_() for t in (x, h, dt)], fast_mode=True)
    assert torch.autograd.gradcheck(lambda dt: cell(x, h, dt), torch.tensor(0.7, requires_grad=True))


def test_lengths_follow_the_dtype_of_the_state():
    field = ctrnn.gated(2, 3, dtype=torch.float32)
    moved = DiscreteCell(field)(torch.randn(4, 2).float(), dt=torch.rand(4, dtype=torch.float64) + 1)
    assert moved.dtype == torch.float32


def test_a_step_without_a_solution_names_the_length_of_its_sample():
    field = problems.LinearField(torch.eye(1), torch.ones(1, 1))  # u = 1 + u with dt = 1
    x, h = torch.ones(3, 1), torch.ones(3, 1)
    with pytest.raises(discretize.StepError, match="tau = 1,") as caught:
        DiscreteCell(field, discretize.BackwardEuler())(x, h, torch.tensor([0.5, 0.25, 1.0]))
    assert caught.value.sample == 2


@pytest.mark.parametrize(
    ("dt", "error", "words"),
    [
        (torch.ones(3), ValueError, "`dt` must be a number, or one for each sample, (4,) or (4, 1), got shape (3,)"),
        (torch.ones(4, 3), ValueError, "got shape (4, 3)"),
        (torch.ones(1, 4), ValueError, "got shape (1, 4)"),
        (torch.tensor([1.0, 1.0, 0.0, 1.0]), ValueError, "`dt` must be positive, got 0.0"),
        (torch.tensor([1.0, -2.0, 1.0, 1.0]), ValueError, "`dt` must be positive, got -2.0"),
        (torch.tensor([1.0, 1.0, torch.nan, 1.0]), ValueError, "`dt` must be finite, got nan at index (2,)"),
        (torch.ones(4, dtype=torch.bool), TypeError, "`dt` must hold real numbers, got torch.bool"),
        (torch.ones(4, dtype=torch.complex128), TypeError, "`dt` must hold real numbers"),
        ([1.0, 1.0, 1.0, 1.0], TypeError, "`dt` must be a number"),
    ],
)
def test_lengths_that_do_not_fit_are_refused_by_name(dt, error, words):
    cell = DiscreteCell(ctrnn.gated(2, 3))
    with pytest.raises(error, match=re.escape(words)):
        cell(torch.zeros(4, 2), dt=dt)
