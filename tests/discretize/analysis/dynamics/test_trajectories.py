"""Lyapunov exponents, basins and phase planes: closed forms, published exponents, and what is read back from figures."""

import math

import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.quiver import Quiver
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Flow, Map, basins, fixed_points, lyapunov, phase_plane


def lorenz(_, h):
    x, y, z = h.split(1, -1)
    return torch.cat([10 * (y - x), x * (28 + -1 * z) - y, x * y - 8 / 3 * z], -1)


def duffing(_, h):
    return torch.cat([h[:, 1:], h[:, :1] - h[:, :1] ** 3 - 0.3 * h[:, 1:]], -1)


def linear(_, h):
    return h @ torch.tensor([[-0.3, 0.5, 0.0], [0.0, -1.0, 0.2], [0.0, 0.0, -2.0]]).T


def within(found, expected, errors):
    """Within five standard errors, and a standard error that is worth the name."""
    assert ((found - expected).abs() <= 5 * errors + 1e-12).all(), (found, expected, errors)


def test_exponents_of_linear_systems_are_their_eigenvalues():
    flow, h0 = Flow(linear), torch.randn(2, 3)
    expected = torch.tensor([-0.3, -1.0, -2.0]).expand(2, 3)
    found = lyapunov(flow, h0, intervals=16, transient=8, interval=1.0, rtol=1e-4, atol=1e-6)
    assert_close(found.exponents, expected, rtol=0, atol=1e-3)


def test_exponents_of_steps_are_those_of_their_multipliers():
    flow, h0, expected = Flow(linear), torch.randn(2, 3), torch.tensor([-0.3, -1.0, -2.0]).expand(2, 3)
    # Euler's multiplier of lambda is 1 + lambda dt.
    stepped = lyapunov(flow.stepped(discretize.Euler(), 0.25), h0, intervals=40, transient=40)
    assert_close(stepped.exponents, (1 + 0.25 * expected).log(), rtol=0, atol=1e-6)


def test_the_largest_exponent_alone_is_the_first_of_all():
    step = Flow(linear).stepped(discretize.Euler(), 0.25)
    found = lyapunov(step, torch.randn(2, 3), intervals=40, transient=60, count=1).exponents
    assert_close(found, torch.full((2, 1), 1 - 0.25 * 0.3).log(), rtol=0, atol=1e-4)  # of a direction that is found on the way


def test_the_logistic_map_at_4_gains_a_bit_a_step():
    found = lyapunov(Map(lambda r, h: r * h * (1 - h)), torch.rand(200, 1), 4.0, intervals=500)
    within(found.exponents.mean(), torch.tensor(math.log(2)), found.exponents.std() / 200**0.5)


def test_exponents_of_henon_are_those_published_and_sum_to_log_b():
    henon = Map(lambda _, h: torch.cat([1 - 1.4 * h[:, :1] ** 2 + h[:, 1:], 0.3 * h[:, :1]], -1))
    found = lyapunov(henon, 0.1 * torch.rand(64, 2), intervals=600)
    assert_close(found.exponents.sum(-1), torch.full((64,), math.log(0.3)), rtol=0, atol=1e-10)
    mean, error = found.exponents.mean(0), found.exponents.std(0) / 8
    within(mean, torch.tensor([0.41922, -1.62319]), error)  # Sprott 2003
    assert_close(found.errors.mean(0), found.exponents.std(0), rtol=0.3, atol=0)  # of blocks in one run, and over runs
    assert found.dimension.mean() == pytest.approx(1.258, abs=0.01)
    assert lyapunov(henon, 0.1 * torch.rand(2, 2), intervals=20, count=1).dimension.isnan().all()  # the second one says it


def test_errors_go_with_their_exponents():
    # The first unit halves in each step, for certain; the second is chaotic, and its exponent comes first.
    two = Map(lambda _, h: torch.cat([h[:, :1] / 2, 4 * h[:, 1:] * (1 - h[:, 1:])], -1))
    found = lyapunov(two, torch.tensor([[1.0, 0.3]]), intervals=300)
    assert_close(found.exponents[0], math.log(2) * torch.tensor([1.0, -1.0]), rtol=0, atol=0.1)
    assert found.errors[0, 0] > 1e-3
    assert found.errors[0, 1] < 1e-12


def test_runs_that_leave_all_bounds_have_no_exponent_and_no_dimension():
    found = lyapunov(Map(lambda r, h: r * h * (1 - h)), torch.tensor([[0.3], [0.3]]), torch.tensor([3.9, 4.5]), intervals=400)
    assert torch.isfinite(found.exponents).flatten().tolist() == [True, False]
    assert torch.isfinite(found.dimension).tolist() == [True, False]


@pytest.mark.slow
def test_lorenz_exponents_are_those_published():
    starts = torch.randn(128, 3) + torch.tensor([1.0, 1.0, 20.0])
    found = lyapunov(Flow(lorenz), starts, intervals=64, transient=16, interval=1.0)
    assert_close(found.exponents.mean(0), torch.tensor([0.906, 0.0, -14.572]), rtol=0, atol=0.01)
    assert found.dimension.mean() == pytest.approx(2.062, abs=0.01)


def test_a_driven_trajectory_has_the_exponent_of_its_own_inputs():
    # h' = -x(t) h: the exponent is the mean of -x, and of log (1 - x dt) for Euler steps.
    xs = 0.1 + torch.rand(20, 3, 1)
    flow, h0 = Flow(lambda x, h: -x * h), torch.ones(3, 1)
    assert_close(lyapunov(flow, h0, xs=xs, transient=0).exponents, -xs.mean(0), rtol=0, atol=1e-5)
    euler = lyapunov(flow.stepped(discretize.Euler(), 0.5), h0, xs=xs, transient=4)
    assert_close(euler.exponents, (1 - 0.5 * xs[4:]).log().mean(0))


def test_exponents_of_a_cell_agree_with_autograd_along_its_inputs():
    field, xs = ctrnn.gru(2, 4), torch.randn(30, 1, 2)
    found = lyapunov(Map(field, discretize.ExponentialEuler(), torch.zeros(2)), torch.zeros(1, 4), xs=xs, transient=0)
    h, product = torch.zeros(4), torch.eye(4)
    for x in xs[:, 0]:
        J = torch.autograd.functional.jacobian(lambda u, x=x: discretize.ExponentialEuler()(field, x, u, 1.0), h)
        h, product = discretize.ExponentialEuler()(field, x, h, 1.0).detach(), J @ product
    assert_close(found.exponents.sum(), torch.linalg.slogdet(product).logabsdet / 30)
    assert_close(found.h[0], h)


@pytest.mark.parametrize("by", ["inputs", "parameters"])
def test_samples_that_take_many_steps_are_solved_on_alone(by, monkeypatch):
    """Turning at w and shrinking at d: both exponents are -d, however fast it turns."""
    monkeypatch.setattr("discretize.solvers.adaptive.WORTH_LEAVING_OUT", 8)
    d = torch.linspace(0.1, 1, 16).unsqueeze(-1)
    x = torch.cat([torch.where(torch.arange(16)[:, None] % 8 == 0, 25.0, 1.0), d], 1)
    flow = Flow(lambda x, h: x[:, :1] * torch.stack([-h[:, 1], h[:, 0]], 1) - x[:, 1:] * h)
    given = {"xs": x.expand(16, 16, 2)} if by == "inputs" else {"p": torch.arange(16.0), "intervals": 16}
    system = flow if by == "inputs" else Flow(flow.field, lambda p: x[p.long()])
    found = lyapunov(system, torch.ones(16, 2), transient=0, interval=0.05, rtol=1e-4, **given)
    assert_close(found.exponents, -d.expand(16, 2), rtol=0, atol=1e-3)


def test_every_start_ends_in_the_basin_of_its_side():
    flow = Flow(lambda _, h: h - h**3)
    starts = torch.tensor([[-1.7], [-0.2], [0.4], [2.0]])
    ends = basins(flow, starts, [torch.tensor([1.0]), torch.tensor([-1.0])], length=15.0)
    assert ends.tolist() == [1, 1, 0, 0]
    euler = flow.stepped(discretize.Euler(), 0.1)
    assert basins(euler, starts, [torch.tensor([1.0]), torch.tensor([-1.0])], length=150).tolist() == [1, 1, 0, 0]
    away = Map(lambda _, h: 2 * h)
    assert basins(away, starts, [torch.tensor([0.0])], length=2000).tolist() == [-1] * 4


@pytest.mark.parametrize(
    ("points", "ends"),
    [
        ([0.05, 0.02], [1, -1, -1]),
        ([0.02, 0.05], [0, -1, -1]),
        ([100.0], [-1, 0, -1]),  # 9 off is less than 0.1 (1 + 100)
        ([100.0, 105.0], [-1, 1, 1]),
    ],
)
def test_a_start_is_in_the_basin_of_the_nearest_attractor_relative_to_its_size(points, ends):
    still, starts = Map(lambda _, h: h), torch.tensor([[0.0], [109.0], [114.0]])
    assert basins(still, starts, [torch.tensor([at]) for at in points], length=1, tolerance=0.1).tolist() == ends


@pytest.mark.parametrize(("point", "end"), [(905.0, -1), (915.0, 0), (1085.0, 0), (1115.0, -1)])
def test_a_start_far_from_all_others_is_near_an_attractor_relative_to_the_attractor(point, end):
    """95 of 905 is more than a tenth, 95 of 1000, where the start is, is less."""
    still, starts = Map(lambda _, h: h), torch.tensor([[0.5], [0.5], [1000.0]])
    found = basins(still, starts, [torch.tensor([point])], length=1, tolerance=0.1)
    assert found.tolist() == [-1, -1, end]


def test_starts_keep_their_own_parameters_where_some_are_solved_on_alone(monkeypatch):
    """h' = -w (h - p), fast where p is odd: every start ends at its p."""
    monkeypatch.setattr("discretize.solvers.adaptive.WORTH_LEAVING_OUT", 2)
    flow, p = Flow(lambda p, h: -(1 + 29 * (p % 2)) * (h - p)), torch.tensor([0.0, 2.0, 1.0, 2.0, 0.0, 0.0, 2.0, 0.0])
    ends = basins(flow, torch.full((8, 1), 5.0), [torch.tensor([at]) for at in (0.0, 1.0, 2.0)], p, length=5.0, tolerance=0.1)
    assert ends.tolist() == p.tolist()


def test_a_phase_plane_shows_the_points_their_stability_and_the_trajectory():
    flow, start = Flow(duffing), torch.tensor([[1.5, 1.5]])
    figure = phase_plane(flow, ((-2, 2), (-2, 2)), starts=start.clone().requires_grad_(), length=10.0, shade=True, points=5)
    (ax,) = figure.axes
    drawn = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    stable = fixed_points(flow, torch.tensor([[-0.9, 0.0], [0.9, 0.0]])).h
    assert_close(torch.from_numpy(drawn["stable"]).sort(0).values, stable.sort(0).values)
    assert_close(torch.from_numpy(drawn["unstable"]), torch.zeros(1, 2), rtol=0, atol=1e-12)
    solved = discretize.integrate(duffing, None, start, torch.tensor([0.0, 10.0]))
    assert_close(torch.from_numpy(drawn["trajectory"][-1]), solved.hs[-1, 0], rtol=0, atol=1e-3)
    # The ground is shaded by the point that a start ends near: 1 and 2, and 0 where near none.
    (ground,) = [each for each in ax.collections if isinstance(each, QuadMesh)]
    centres = torch.cartesian_prod(*[torch.linspace(-2, 2, 5)] * 2).flip(-1)
    ends = basins(flow, centres, list(rest_of(flow)), length=10.0, tolerance=0.1)
    assert_close(torch.from_numpy(ground.get_array().data).flatten().long(), 1 + ends)
    assert set(ends.tolist()) >= {0, 1}


def rest_of(flow):
    """The stable points in the order in which a plane finds them."""
    found = fixed_points(flow, torch.cartesian_prod(*[torch.linspace(-2, 2, 12)] * 2).flip(-1))
    return found.h[found.stable]


def test_a_phase_plane_of_a_map_has_arrows_to_the_next_state():
    euler = Flow(duffing).stepped(discretize.Euler(), 0.3)
    (ax,) = phase_plane(euler, ((-2, 2), (-2, 2)), points=20).axes
    assert {line.get_label() for line in ax.get_lines()} == {"unstable"}
    (arrows,) = [each for each in ax.collections if isinstance(each, Quiver)]
    at = torch.from_numpy(arrows.XY)
    assert_close(torch.from_numpy(np.stack([arrows.U, arrows.V], -1)), euler(at) - at, rtol=1e-9, atol=1e-9)
    assert len(at) == 400


@pytest.mark.parametrize("count", [None, 1])
@pytest.mark.parametrize("units", [1, 3])
def test_what_a_map_sends_to_one_point_has_the_exponent_minus_infinity(units, count):
    """Of h <- relu(1 - 2 h) a cycle goes through 1, where the derivative is 0: differences are gone after one round."""
    off_and_on = discretize.Map(lambda p, h: torch.relu(1 - 2 * h))
    spectrum = discretize.lyapunov(off_and_on, torch.full((2, units), 0.1), intervals=40, count=count)
    assert torch.equal(spectrum.exponents, torch.full((2, count or units), -math.inf))
    assert torch.equal(spectrum.dimension, torch.zeros(2))
    assert torch.equal(spectrum.h.unique(), torch.tensor([0.0])) or torch.equal(spectrum.h.unique(), torch.tensor([1.0]))
