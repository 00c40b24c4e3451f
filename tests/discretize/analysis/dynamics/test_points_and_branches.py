"""Fixed points, periodic orbits and bifurcations: closed forms, SciPy, and parameters that textbooks print."""

import math

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Flow, Map, continuation, fixed_points, periodic_orbits
from discretize.analysis.dynamics.orbits import settled_periods

LOGISTIC = Map(lambda r, h: r * h * (1 - h))
STEPS = ("Euler", "ETDRK4", "ExponentialEuler", "BackwardEuler", "Trapezoid", "ExponentialRosenbrock", "FrozenTrapezoid")


def brusselator(a):
    def slope(b, h):
        u, v = h.split(1, -1)
        return torch.cat([a - (b + 1) * u + u**2 * v, b * u - u**2 * v], -1)

    return Flow(slope)


def delayed_logistic(r, h):
    return torch.cat([r * h[:, :1] * (1 - h[:, 1:]), h[:, :1]], -1)


class Own(ctrnn.VectorField):
    """A module of one's own with parts: tanh(gain W h + x) - h."""

    def __init__(self, units):
        super().__init__(units, units)
        self.mix = nn.Linear(units, units, bias=False)

    def flow(self, projected, h):
        return torch.tanh(self.mix(h) + projected) - h


def test_the_logistic_map_rests_where_it_should_at_every_parameter():
    found = fixed_points(LOGISTIC, torch.linspace(-1, 2, 15)[:, None], torch.tensor([2.5, 3.2, 0.7]))
    assert found.index.tolist() == [0, 0, 1, 1, 2, 2]
    for r, h, value, stable in zip(found.p, found.h[:, 0], found.eigenvalues[:, 0], found.stable, strict=True):
        assert min(abs(h), abs(h - (1 - 1 / r))) < 1e-14
        assert_close(value.real, r * (1 - 2 * h), rtol=0, atol=1e-13)
        assert bool(stable) == (abs(float(r * (1 - 2 * h))) < 1)


def test_a_system_that_never_rests_has_no_fixed_points():
    for system in (Flow(lambda _, h: 1 + h**2), Map(lambda _, h: h + 1 + h**2)):
        assert len(fixed_points(system, torch.linspace(-1, 1, 5)[:, None])) == 0


def test_points_are_one_by_their_distance_relative_to_their_size():
    flow = Flow(lambda _, h: h * (h - 1) * (h - 100) * (h - 101))
    found = fixed_points(flow, torch.tensor([[0.0], [1.0], [100.0], [101.0]]), tolerance=0.02)
    assert_close(found.h[:, 0], torch.tensor([0.0, 1.0, 100.0]), rtol=0, atol=1e-12)


def test_periods_of_the_logistic_map_at_4_are_as_many_as_moebius_counts():
    found = periodic_orbits(LOGISTIC, 5, torch.linspace(1, 0, 300)[:, None], 4.0)
    assert [sum(orbit.period == n for orbit in found) for n in range(1, 6)] == [2, 1, 2, 3, 6]
    for orbit in found:
        assert orbit.hs[0, 0] == orbit.hs[:, 0].min()
        assert_close(LOGISTIC(orbit.hs, 4.0), orbit.hs.roll(-1, 0), rtol=0, atol=1e-12)
        # All but 0 have the multiplier +-2^n, for the map is conjugate to a tent.
        if orbit.hs[0, 0] > 1e-6:
            assert abs(float(orbit.multipliers[0].abs()) - 2**orbit.period) < 1e-8
        assert not orbit.stable


def test_the_period_that_settles_is_the_least():
    quarter = Map(lambda _, h: torch.stack([-h[:, 1], h[:, 0], -h[:, 2]], 1))  # first two turn by a quarter, the third flips
    h = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    assert settled_periods(quarter, h, 9).tolist() == [1, 2, 4, 4]
    assert settled_periods(quarter, h, 3).tolist() == [1, 2, 0, 0]


def test_a_network_rests_where_scipy_says_and_so_does_every_step_that_does_not_split():
    field, x = Own(4), torch.randn(4)
    with torch.no_grad():
        field.mix.weight.mul_(3)
    starts = torch.randn(60, 4)
    flow = Flow(field, x)
    found = fixed_points(flow, starts)

    def slope(h):
        return field(x, torch.from_numpy(h)).detach().numpy()

    roots = [scipy.optimize.root(slope, start.numpy(), tol=1e-13) for start in starts]
    points = {tuple(np.round(root.x, 6)) for root in roots if root.success and np.abs(slope(root.x)).max() < 1e-10}
    assert len(found) >= len(points) >= 1
    for point in points:
        assert (found.h - torch.tensor(point)).abs().amax(-1).min() < 1e-5
    for name in STEPS:
        step = getattr(discretize, name)()
        at = flow.stepped(step, 0.3)
        assert_close(at(found.h), found.h, rtol=0, atol=1e-12)
    # All that moves with it, from its definition: det (J - lambda) = 0 with J by autograd.
    J = torch.autograd.functional.jacobian(lambda h: field(x, h), found.h[0].detach())
    assert_close(found.jacobian[0], J)
    moved = found.jacobian[0].to(torch.complex128) @ found.eigenvectors[0]
    assert_close(moved, found.eigenvectors[0] * found.eigenvalues[0])


@pytest.mark.parametrize("name", [None, "BackwardEuler", "Euler"])
def test_fixed_points_have_the_derivatives_of_the_implicit_function_theorem(name):
    field, x = Own(3), torch.randn(3, requires_grad=True)
    flow = Flow(field, x)
    system = flow if name is None else flow.stepped(getattr(discretize, name)(), 0.5)
    starts = torch.zeros(1, 3)

    def at(x, weight):
        with torch.no_grad():
            field.mix.weight.copy_(weight)
        system.x = x
        return fixed_points(system, starts).h[0]

    (ours,) = torch.autograd.grad(at(x, field.mix.weight.detach().clone())[0], x)
    h = fixed_points(flow, starts).h[0].detach()
    slope = 1 - h**2  # of tanh at its argument, for h = tanh(...)
    inverse = torch.linalg.inv(torch.eye(3) - slope[:, None] * field.mix.weight.detach())
    assert_close(ours, (inverse * slope)[0], rtol=1e-10, atol=1e-12)


def test_second_derivatives_at_rest_keep_their_digits_where_a_slow_unit_is_beside_a_stiff_one():
    class Apart(ctrnn.VectorField):
        def flow(self, projected, h):
            y, z = h[..., :1], h[..., 1:]
            return torch.cat([0.2 + 0.3 * y * y + 0.2 * z * z - y, 1e6 * (projected + 1e-3 * y * y - z)], -1)

    seconds = []
    for dtype in (torch.float32, torch.float64):
        xs = torch.linspace(0.1, 0.5, 3).to(dtype).requires_grad_()
        rests = [fixed_points(Flow(Apart(1, 2), x[None]), torch.full((1, 2), 0.1, dtype=dtype)).h[0, 0] for x in xs]
        (first,) = torch.autograd.grad(torch.stack(rests).sum(), xs, create_graph=True)
        seconds.append(torch.autograd.grad(first.sum(), xs)[0].double())
    # Sums of a few terms that are no larger than they are. Rows exchanged by the numbers of the stiff unit lose hundreds.
    assert_close(*seconds, rtol=16 * torch.finfo(torch.float32).eps, atol=0)


@pytest.mark.parametrize(
    ("system", "h", "p", "limits", "direction", "kind", "expected"),
    [
        (LOGISTIC, [0.6], 2.8, (1.2, 3.2), 1, "flip", [3.0]),
        (brusselator(1.0), [1.0, 1.7], 1.7, (0.0, 2.3), 1, "Hopf", [2.0]),
        (Map(delayed_logistic), [0.4, 0.4], 1.8, (1.2, 2.2), 1, "Neimark-Sacker", [2.0]),
        (Flow(lambda p, h: p - h**2), [0.5], 0.25, (-1, 0.25), -1, "fold", [0.0]),
        (Map(lambda p, h: h + p - h**2), [0.5], 0.25, (-1, 0.25), -1, "fold", [0.0]),
        (Flow(lambda p, h: torch.tanh(p * h) - h), [0.0], 0.8, (0, 1.2), 1, "branch point", [1.0]),
        # Cusp p = h^3 - h: two folds, passed one after the other, at h = -+ 1/sqrt 3.
        (Flow(lambda p, h: p - h**3 + h), [-1.2], -0.5, (-0.6, 0.6), 1, "fold", [2 / 27**0.5, -2 / 27**0.5]),
    ],
)  # fmt: skip
def test_bifurcations_are_where_closed_forms_say(system, h, p, limits, direction, kind, expected):
    found = continuation(system, torch.tensor(h), p, limits, direction=direction)
    assert [b.kind for b in found.bifurcations] == [kind] * len(expected)
    for b, at in zip(found.bifurcations, expected, strict=True):
        assert abs(b.p - at) < 1e-10
        assert float(system.growth(torch.tensor(b.eigenvalue)).abs()) < 1e-7
    assert system.residual(found.h, found.p).abs().max() < 1e-10


def test_a_branch_that_ends_within_the_limits_says_so():
    ends = Flow(lambda p, h: torch.where(p <= 0.5, p - h, torch.nan))
    for settings, words in (({}, r"p = 0\.[45].*no further point was found"), ({"steps": 3}, "`steps`=3 were taken")):
        with pytest.warns(discretize.errors.SolverWarning, match=words):
            branch = continuation(ends, torch.zeros(1, dtype=torch.float64), 0.0, (0.0, 1.0), **settings)
        assert branch.p[-1] <= 0.5


def test_a_branch_whose_end_is_not_found_says_so_and_repeats_no_point():
    ends = Flow(lambda p, h: torch.where((p - 1).abs() < 1e-6, torch.nan, p - h))
    with pytest.warns(discretize.errors.SolverWarning, match=r"within the limits 0 and 1: no further point was found"):
        branch = continuation(ends, torch.zeros(1, dtype=torch.float64), 0.0, (0.0, 1.0))
    assert bool((branch.p.diff() > 0).all())
    assert 0.9 < branch.p[-1] < 1


def test_a_bifurcation_just_beyond_the_limits_is_not_told():
    for high in (2.9999, 2.999999):  # the last step passes 3, where the period doubles
        branch = continuation(LOGISTIC, torch.tensor([0.6]), 2.8, (1.2, high))
        assert float(branch.p[-1]) == high
        assert branch.bifurcations == ()
        assert bool(branch.stable.all())


def test_the_hopf_points_of_fitzhugh_and_nagumo_bound_the_unstable_part():
    a, b, rate = 0.7, 0.8, 0.08
    flow = Flow(lambda I, h: torch.cat([h[:, :1] - h[:, :1] ** 3 / 3 - h[:, 1:] + I, rate * (h[:, :1] + a - b * h[:, 1:])], -1))
    branch = continuation(flow, torch.tensor([-1.0, -0.4]), 0.25, (0.2, 1.5), step=0.2)
    v = math.sqrt(1 - rate * b)  # where the trace 1 - v^2 - rate b is 0
    first, second = ((w + a) / b - w + w**3 / 3 for w in (-v, v))
    assert [x.kind for x in branch.bifurcations] == ["Hopf", "Hopf"]
    assert abs(branch.bifurcations[0].p - first) < 1e-10
    assert abs(branch.bifurcations[1].p - second) < 1e-10
    assert (branch.stable == ~((branch.p > first) & (branch.p < second))).all()
    assert float(branch.p[-1]) == 1.5


def test_the_first_doublings_of_the_logistic_map_are_those_published():
    for period, r, published, known_to in ((2, 3.3, 1 + math.sqrt(6), 1e-10), (4, 3.5, 3.544090, 5e-7)):
        orbits = periodic_orbits(LOGISTIC, period, torch.linspace(0, 1, 30)[:, None], r)
        orbit = next(orbit for orbit in orbits if orbit.period == period)
        branch = continuation(LOGISTIC.iterated(period), orbit.hs[0], r, (r - 0.01, r + 0.16))
        assert branch.bifurcations[0].kind == "flip"
        assert abs(branch.bifurcations[0].p - published) < known_to


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3, 7])
def test_folds_and_hopf_points_of_random_networks_are_those_of_jaxcont(seed):
    """Which refines them to about 1e-7, at steps this short."""
    jax = pytest.importorskip("jax", reason="pip install '.[judges]'")
    jaxcont = pytest.importorskip("jaxcont", reason="pip install '.[judges]'")
    jax.config.update("jax_enable_x64", True)
    dice = torch.Generator().manual_seed(seed)
    W, b = 1.2 * torch.randn(3, 3, generator=dice), 0.1 * torch.randn(3, generator=dice)
    flow = Flow(lambda p, h: torch.tanh(p * (h @ W.T) + b) - h)
    start = fixed_points(flow, torch.randn(40, 3, generator=dice), torch.tensor(3.0)).h[0]
    branch = continuation(flow, start, 3.0, (0.05, 6.0), direction=-1, step=0.05)
    W_, b_ = W.numpy(), b.numpy()
    problem = jaxcont.bif_problem(
        lambda u, p, args: jax.numpy.tanh(p * (W_ @ u) + b_) - u,
        u0=jax.numpy.array(start.numpy()),
        p0=3.0,
        state_names=["a", "b", "c"],
        param_name="p",
    )
    settings = jaxcont.ContinuationPar(ds=-0.005, max_steps=20_000)
    theirs = jaxcont.continuation(problem, p_span=(3.0, 0.05), settings=settings, events=[jaxcont.Fold(), jaxcont.Hopf()])
    ours = sorted(point.p for point in branch.bifurcations if point.kind in ("fold", "Hopf"))
    assert ours
    assert ours == pytest.approx(sorted(float(event.p) for event in theirs.events), abs=1e-5)


# The leak of a field of one's own is not known, and so exponential Euler is Euler.
@pytest.mark.parametrize("name", ["Euler", pytest.param("ExponentialEuler", marks=pytest.mark.slow), "BackwardEuler"])
def test_a_step_length_and_a_gain_of_weights_are_parameters_too(name):
    """Rotation and forgetting, h' = (-1 + i w) h: the eigenvalue of a step is known for both."""
    field, step = Own(2), getattr(discretize, name)()
    W = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    gained = Flow(field, torch.zeros(2), weights=lambda p: {"mix.weight": p * W})
    dt = 0.5
    found = fixed_points(gained.stepped(step, dt), torch.zeros(1, 2), torch.tensor([1.0, 2.0]))
    for w, values in zip((1.0, 2.0), found.eigenvalues, strict=True):
        z = torch.tensor(complex(-1, w) * dt)
        R = 1 / (1 - z) if name == "BackwardEuler" else 1 + z
        assert_close(values.abs().max(), R.abs())
    if name != "BackwardEuler":
        branch = continuation(gained.stepped(step, dt), torch.zeros(2), 1.5, (0.0, 2.0), step=0.3)
        assert [b.kind for b in branch.bifurcations] == ["Neimark-Sacker"]
        assert abs(branch.bifurcations[0].p - math.sqrt(2 / dt - 1)) < 1e-10  # |1 + z| = 1
        lengths = Map(field, step, torch.zeros(2), dt=lambda p: p, weights=lambda p: {"mix.weight": 2.0 * W})
        branch = continuation(lengths, torch.zeros(2), 0.3, (0.05, 0.6))
        assert abs(branch.bifurcations[0].p - 2 / 5) < 1e-10
