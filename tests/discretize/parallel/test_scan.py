"""Linear recurrences by pairs, against the loop over time, and derivatives against finite differences."""

import pytest
import torch
from torch.testing import assert_close

import discretize
from discretize.parallel.scan import recurrence, reversed_recurrence


@pytest.mark.parametrize("time", [1, 2, 8, 9, 37, 100, 257])
def test_states_by_pairs_are_those_of_the_loop(time):
    a, b, h = 1.2 * torch.rand(time, 2, 3), torch.randn(time, 2, 3), torch.randn(2, 3)
    a[::5] = 0.0  # no division: factors may be 0
    hs, states = h, []
    for factor, added in zip(a, b, strict=True):
        hs = factor * hs + added
        states.append(hs)
    # Sums in another order: rounding, which grows with the products as the states do.
    assert_close(discretize.linear_recurrence(a, b, h), torch.stack(states), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("time", [5, 23, 64])
def test_matrices_forward_and_reversed_solve_the_banded_system(time):
    a, b, h = torch.randn(time, 1, 2, 2) / 2, torch.randn(time, 1, 2), torch.randn(1, 2)
    system = torch.eye(2 * time)
    for k in range(1, time):
        system[2 * k : 2 * k + 2, 2 * k - 2 : 2 * k] = -a[k, 0]
    start = b.clone()
    start[0] += (a[0] @ h[..., None])[..., 0]
    solution = torch.linalg.solve(system, start.reshape(-1)).reshape(b.shape)
    assert_close(recurrence(a, b, h), solution, rtol=1e-10, atol=1e-10)
    adjoint = torch.linalg.solve(system.T, b.reshape(-1)).reshape(b.shape)
    assert_close(reversed_recurrence(a, b), adjoint, rtol=1e-10, atol=1e-10)


def test_first_and_second_derivatives_are_those_of_finite_differences():
    a, b, h = (torch.randn(*shape, requires_grad=True) for shape in [(11, 1, 2), (11, 1, 2), (1, 2)])
    assert torch.autograd.gradcheck(discretize.linear_recurrence, (a, b, h))
    assert torch.autograd.gradgradcheck(discretize.linear_recurrence, (a, b, h))


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match=r"both be \(time, batch, units\)"):
        discretize.linear_recurrence(torch.ones(3, 1, 2), torch.ones(4, 1, 2))
    with pytest.raises(ValueError, match="`h0` must be"):
        discretize.linear_recurrence(torch.ones(3, 1, 2), torch.ones(3, 1, 2), torch.ones(2, 2))
    with pytest.raises(TypeError, match="one floating dtype"):
        discretize.linear_recurrence(torch.ones(3, 1, 2).float(), torch.ones(3, 1, 2))
