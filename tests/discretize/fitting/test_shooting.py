"""Residuals and their Jacobian, against differences, in all that can be combined."""

import numpy as np
import pytest
import torch

from discretize.fitting.fit import _settle
from discretize.fitting.problem import as_problem
from discretize.fitting.search import together
from discretize.fitting.shooting import Shooting, Solver


def chain(t, h, k, W, v):
    a, b = h[:, :1], h[:, 1:]
    return torch.cat([-k * a + v * torch.sin(t), W[0] * a - W[1] * b], 1)


def seen(t, h, k, gain):
    return gain * h[:, 0] * h[:, 1] + k * t[:, 0]


@pytest.mark.parametrize("pieces", [1, 3])
def test_the_jacobian_is_that_of_differences_of_the_residuals(pieces):
    ts = torch.linspace(1, 3, 7)
    data = [
        (ts, torch.rand(7, 2).where(torch.rand(7, 2) < 0.8, torch.nan), {"v": 0.5}),
        (ts[:4] / 2, torch.rand(4, 2), {"v": -2.0}),
    ]
    params = {"k": (0.7, 0, 2), "W": ([1.0, 0.4], 0, 3), "gain": (20.0, 1, 90), "begin": (0.3, 0, 1)}
    problem = as_problem(chain, data, params, {"a": (1.5, 0, 9), "b": "begin"}, {"product": seen, "b": "b"})
    solver = Solver(
        torch.tensor([2.0, 0.1]), 1e-6, {"method": "rk4"}
    )  # whose sensitivities are exactly the derivatives of its steps
    sizes = np.array([each.size for each in problem.unknowns])
    _settle(problem, solver)
    assert problem.equation.form == "single"
    shooting = Shooting(problem, solver, sizes, pieces)
    x = torch.as_tensor(shooting.begin(np.array([each.start for each in problem.unknowns])[None] / sizes))
    u = x * (1 + 0.1 * torch.rand(2, x.shape[1]))
    noise, gap = torch.tensor([0.1, 3.0]), torch.tensor([0.2, 0.7])
    found = shooting.jacobian(u, noise, gap)
    for c in range(u.shape[1]):
        e = 1e-5 * torch.eye(u.shape[1])[c]
        difference = (shooting.residuals(u + e, noise, gap) - shooting.residuals(u - e, noise, gap)) / 2e-5
        torch.testing.assert_close(found[:, :, c], difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("at", ["states", "a parameter", "states at rest"])
def test_a_sum_over_all_that_is_called_together_is_not_read_as_one_over_units_where_all_begin_at_0(at):
    def shared(t, h, k, d):  # right for one sample, whose units are summed, and wrong for several
        a, b = h.unbind(-1)
        own = k * (t[..., 0] > 0) if at == "states at rest" else k
        return torch.stack([own - d * a * h.sum(), own - d * b], -1)

    params = {"k": (1.0, 0.1, 9.0), "d": (0.0, -1.0, 0.0) if at == "a parameter" else (0.3, 0.0, 1.0)}
    h0 = dict.fromkeys("ab", 1.0 if at == "a parameter" else 0.0)
    problem = as_problem(shared, (torch.arange(4.0), torch.rand(4, 2)), params, h0, None)
    _settle(problem, Solver(torch.ones(2), 1e-6, {"method": "rk4"}))
    t, h, q = torch.rand(3, 1), torch.rand(3, 2), torch.tensor([[1.0, -0.5]]).expand(3, 2)
    alone = torch.cat([shared(t[k : k + 1], h[k : k + 1], 1.0, -0.5) for k in range(3)])
    torch.testing.assert_close(problem.equation(t, h, q), alone)


def test_what_grows_from_a_small_part_of_its_size_is_solved_as_well():
    """A logistic curve from 1 to 1e8, in closed form."""
    ts, size = torch.linspace(0, 28, 8, dtype=torch.float64), 1e8
    curve = size / (1 + (size - 1) * torch.exp(-ts))
    problem = as_problem(lambda t, h, r: r * h * (1 - h / size), (ts, curve), {"r": (1.0, 0, 2)}, {"y": 1.0}, None)
    solver = Solver(torch.tensor([size]), 1e-6, {"fused": False})
    _settle(problem, solver)
    found = Shooting(problem, solver, np.ones(1)).solve(torch.ones(1, 1))[:, 0, 0, 0]
    torch.testing.assert_close(found, curve, rtol=1e-4, atol=0)


def test_each_sample_is_solved_at_its_own_time_by_code_that_reads_the_first_one():
    def driven(t, h, k):
        return torch.sin(t[0]) - k * h

    problem = as_problem(driven, (torch.arange(4.0), torch.rand(4)), {"k": (1.0, 0, 9)}, {"a": 1.0}, None)
    _settle(problem, Solver(torch.ones(1), 1e-6, {"method": "rk4"}))
    t, h = torch.rand(3, 1), torch.rand(3, 1)
    torch.testing.assert_close(problem.equation(t, h, torch.ones(3, 1)), torch.sin(t) - h)


def test_questions_of_all_that_still_run_are_answered_at_once():
    sizes = []

    def answer(kind, x):
        sizes.append(len(x))
        return 2 * x

    def job(count):
        return lambda ask: [float(ask("double", np.array([k + 0.5]))[0]) for k in range(count)]

    assert together(answer, [job(1), job(3), job(2)]) == [[1.0], [1.0, 3.0, 5.0], [1.0, 3.0]]
    assert sizes == [3, 2, 1]


def test_what_goes_wrong_in_an_answer_ends_all_jobs():
    def answer(kind, x):
        raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        together(answer, [lambda ask: ask("it", np.zeros(1))] * 3)
