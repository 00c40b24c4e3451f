"""Implicit steps solve their equations, differentiate as the solutions do, stay bounded, and say where they cannot."""

import pickle

import pytest
import torch
from cases import crossed
from problems import LinearField
from scipy.optimize import root
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.steps.algebra.jacobian import jacobian
from discretize.steps.algebra.newton import _Equation, _relaxed

IMPLICIT = [discretize.BackwardEuler(), discretize.Trapezoid()]
implicit = pytest.mark.parametrize("step", IMPLICIT)


def fast(rate: float, gain: float = 0.8, hidden: int = 8, seed: int = 0) -> ctrnn.Relaxation:
    """A field of the rate given, whose recurrence has the spectral radius `gain`."""
    generator = torch.Generator().manual_seed(seed)
    candidate = ctrnn.TanhCandidate(3, hidden, generator=generator)
    with torch.no_grad():
        candidate.weight_h.mul_(gain / torch.linalg.eigvals(candidate.weight_h).abs().max())
    return ctrnn.Relaxation(candidate, ctrnn.FixedRate(rate), ctrnn.LinearDecay())


@pytest.mark.parametrize("dt", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("name", ["gated", "gru", "lstm"])
def test_the_equations_are_solved_and_scipy_finds_the_same_state(name, dt):
    field = getattr(ctrnn, name)(2, 4)
    x, h = torch.randn(3, 2), torch.tanh(torch.randn(3, field.state_size))
    with torch.no_grad():
        u = discretize.BackwardEuler()(field, x, h, dt)
        assert_close(u, h + dt * field(x, u), rtol=0, atol=1e-12 * max(1, dt))
        v = discretize.Trapezoid()(field, x, h, dt)
        assert_close(v, h + dt / 2 * (field(x, h) + field(x, v)), rtol=0, atol=1e-12 * max(1, dt))
        for k in range(3):
            theirs = root(lambda w, k=k: (h[k] + dt * field(x[k], torch.tensor(w)) - torch.tensor(w)).numpy(), u[k].numpy(),
                          tol=1e-13)  # fmt: skip
            assert_close(torch.tensor(theirs.x), u[k], rtol=0, atol=1e-10)


@implicit
def test_an_affine_field_is_solved_in_closed_form(step):
    field = LinearField(torch.randn(4, 4) - 3 * torch.eye(4), torch.randn(4, 2))
    x, h, dt = torch.randn(5, 2), torch.randn(5, 4), 2.0
    one = torch.eye(4)
    if isinstance(step, discretize.BackwardEuler):
        expected = torch.linalg.solve(one - dt * field.A, (h + dt * x @ field.B.mT).mT).mT
    else:
        start = h + dt / 2 * h @ field.A.mT + dt * x @ field.B.mT
        expected = torch.linalg.solve(one - dt / 2 * field.A, start.mT).mT
    found, cost = step.counted(field, field.project(x), h, dt)
    assert_close(found, expected, rtol=0, atol=1e-13)
    assert cost == step.cost(field)


@pytest.mark.parametrize(("step", "check"), crossed(IMPLICIT, [torch.autograd.gradcheck, torch.autograd.gradgradcheck]))
def test_first_and_second_derivatives_are_those_of_the_solution(step, check):
    cell = discretize.DiscreteCell(ctrnn.gated(1, 2, rate="softplus"), step, dt=2.0)
    names = [name for name, _ in cell.named_parameters()]
    x, h = torch.randn(1, 1, requires_grad=True), torch.randn(1, 2, requires_grad=True)

    def call(x, h, *weights):
        return torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (x, h))

    assert check(call, (x, h, *cell.parameters()), fast_mode=True)


def test_the_jacobian_of_backward_euler_is_the_inverse_that_the_theorem_gives():
    field, x, h, dt = fast(5.0), torch.randn(3), torch.tanh(torch.randn(8)), 1.0
    step = discretize.BackwardEuler()
    found = torch.func.jacrev(lambda h: step.advance(field, field.project(x), h, dt))(h)
    J = jacobian(field, field.project(x), step(field, x, h, dt))
    assert_close(found, torch.linalg.inv(torch.eye(8) - dt * J), rtol=0, atol=1e-12)
    forward = torch.func.jvp(lambda h: step.advance(field, field.project(x), h, dt), (h,), (torch.ones(8),))[1]
    assert_close(forward, found @ torch.ones(8), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rate", [*(pytest.param(rate, marks=pytest.mark.slow) for rate in (2.0, 50.0, 200.0)), 1e4])
@pytest.mark.parametrize("step", [*IMPLICIT, discretize.ExponentialEuler(), discretize.ExponentialRosenbrock(),
                                  discretize.FrozenBackwardEuler(), discretize.ETDRK4()])  # fmt: skip
@torch.no_grad()
def test_on_the_stiff_side_states_stay_where_the_equation_keeps_them(step, rate):
    field, xs = fast(rate), torch.randn(20, 4, 3)
    hs = discretize.unroll(discretize.DiscreteCell(field, step), xs).hs
    # The trapezoid reflects what it cannot follow, f - h to h - f, and random targets let that wander.
    assert hs.abs().max() < (20.0 if isinstance(step, discretize.Trapezoid) else 1.5)
    if isinstance(step, discretize.BackwardEuler):
        assert hs.abs().max() <= 1.0


@pytest.mark.parametrize("step", [discretize.BackwardEuler(), pytest.param(discretize.Trapezoid(), marks=pytest.mark.slow)])
def test_an_equation_without_a_solution_is_an_error_that_names_sample_and_unit(step):
    class Away(ctrnn.VectorField):
        """dh/dt = 1 + h^2, which no implicit step of length 1 from h = 0 can follow."""

        def flow(self, projected, h):
            return projected + h**2

    field = Away(1, 1)
    x = torch.tensor([[-1.0], [1.0]])
    with pytest.raises(discretize.StepError, match="sample 1, unit 0") as caught:
        step(field, x, torch.zeros(2, 1), 3.0)
    assert (caught.value.sample, caught.value.unit) == (1, 0)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    path = ctrnn.HeldPath(x.expand(3, 2, 1) * torch.tensor([0.0, 0.0, 1.0]).reshape(3, 1, 1))
    with pytest.raises(discretize.SolverError, match="sample 1, unit 0") as stopped:
        discretize.integrate(field, path, torch.zeros(2, 1), torch.arange(4.0), method=step, speed=ctrnn.AffineWarp(3.0).speed)
    assert stopped.value.time == 2.0
    assert len(stopped.value.trajectory.ts) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("h", [0.0, 0.1, 1.0, 20.0])
def test_no_equation_without_a_solution_is_solved_because_an_iteration_was_far_away(h, dtype):
    """u = h + tau (1 + u^2) has none; held leaks begin an iteration at u = 1e4, beside which all its corrections are small."""

    class Away(ctrnn.VectorField):
        def flow(self, projected, h):
            return projected + h**2

    for tau in (1.5, 2.0, 3.0, 4.5):
        with pytest.raises(discretize.StepError, match="no solution of u = a"):
            discretize.BackwardEuler()(Away(1, 1), torch.ones(1, 1, dtype=dtype), torch.full((1, 1), h, dtype=dtype), tau)


class Bistable(ctrnn.VectorField):
    """dh/dt = g tanh(s h + x) - h, of an input x, g, s."""

    def __init__(self):
        super().__init__(3, 1)

    def flow(self, projected, h):
        x, g, s = projected.split(1, -1)
        return g * torch.tanh(s * h + x) - h


class Mutual(ctrnn.VectorField):
    """dh/dt = B tanh(A h + x) - h, of two units that are drawn."""

    def __init__(self, seed):
        super().__init__(2, 2)
        drawn = torch.Generator().manual_seed(seed)
        self.A, self.B = (3 * torch.randn(2, 2, generator=drawn, dtype=torch.float64) for _ in range(2))

    def flow(self, projected, h):
        return torch.tanh(h @ self.A.mT + projected) @ self.B.mT - h


def test_a_sample_at_which_newtons_method_stays_is_not_moved_on_while_its_neighbours_go_on():
    drawn = torch.Generator().manual_seed(0)
    for _ in range(9):
        x, h = (size * torch.randn(500, 2, generator=drawn, dtype=torch.float64) for size in (2, 3))
    step, field = discretize.BackwardEuler(), Mutual(2)
    alone = torch.stack([step(field, x[k : k + 1], h[k : k + 1], 50.0)[0] for k in range(20, 40)])
    assert_close(step(field, x, h, 50.0)[20:40], alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_over_a_fold_is_solved_where_only_a_far_solution_is_left(dtype):
    x = torch.tensor([[-7.4301, 2.9532, 3.2196], [-6.7918, 3.4566, 2.5368]], dtype=dtype)
    h, dt = torch.tensor([[3.4817], [3.8692]], dtype=dtype), torch.tensor([[9.2375], [5.0938]], dtype=dtype)
    u = discretize.BackwardEuler().advance(Bistable(), x, h, dt)
    assert_close(u.double(), torch.tensor([[-2.3247], [-2.2544]], dtype=torch.float64), rtol=0, atol=1e-3)


def first_solutions(field, x, h, tau):
    """Of u = h + tau F(u), where the residual at h points, and which are clear: else two have as good as merged, and rounding
    tells whether they are there."""

    def residual(u):
        return h + tau * field.flow(x, u) - u

    way = residual(h).sign()
    grid = h + way * torch.linspace(0, 10, 4001)
    off = way * torch.cat([residual(u) for u in grid.split(1, -1)], -1) / (1 + tau)
    before, after = (grid.gather(-1, (off <= least).to(torch.int8).argmax(-1, keepdim=True)) for least in (0.01, -0.01))
    clear = (after - before).abs() < 0.5
    assert int(clear.sum()) > 350
    return after, clear


def relaxed(field, x, h, tau):
    return _relaxed(_Equation(field, x, h, tau), h)


@pytest.mark.parametrize("solve", [relaxed, discretize.BackwardEuler().advance], ids=["pseudo-time", "backward Euler"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_first_solution_where_the_residual_points_is_found(solve, dtype):
    # By Newton's method from h, 8 of these 400 steps ended at others.
    x, h = torch.rand(400, 3) * torch.tensor([16.0, 5.0, 3.5]) - torch.tensor([8.0, 1.0, -0.5]), 8 * torch.rand(400, 1) - 4
    tau, field = 10 ** (3 * torch.rand(400, 1) - 1), Bistable()
    first, clear = first_solutions(field, x, h, tau)
    u = solve(field, x.to(dtype), h.to(dtype), tau.to(dtype))
    assert_close(u.double()[clear], first[clear], rtol=0, atol=0.5)


@pytest.mark.parametrize("step", IMPLICIT, ids=repr)
@pytest.mark.parametrize("sizes", [(1e-7, 1e-7), (1e-7, 1e4)], ids=["small", "beside a large unit"])
def test_units_of_any_sizes_satisfy_their_own_equations(step, sizes):
    s = torch.tensor(sizes, dtype=torch.float32)

    class InUnits(ctrnn.VectorField):
        def flow(self, projected, h):
            return s * (torch.tanh(3 * projected) - (h / s) ** 3 - 0.3 * h / s)

    class Alone(InUnits):  # in units of 1 and float64
        def flow(self, projected, h):
            return torch.tanh(3 * projected) - h**3 - 0.3 * h

    x, h = torch.randn(4, 1), torch.randn(4, 2)
    found = step(InUnits(1, 2), x.float(), h.float() * s, 1.5)
    assert_close((found / s).double(), step(Alone(1, 2), x.float().double(), h.float().double(), 1.5), rtol=0, atol=1e-6)


@implicit
def test_second_derivatives_of_a_slow_unit_keep_their_digits_beside_a_stiff_one(step):
    class Apart(ctrnn.VectorField):
        def flow(self, projected, h):
            y, z = h[..., :1], h[..., 1:]
            return torch.cat([0.3 * y * y + 0.2 * z * z - y, 1e6 * (projected + 0.1 * y * y - z)], -1)

    found = []
    for dtype in (torch.float32, torch.float64):
        x, h = torch.full((8, 1), 0.3, dtype=dtype), torch.linspace(0.4, 0.9, 16).reshape(8, 2).to(dtype).requires_grad_()
        (first,) = torch.autograd.grad(step(Apart(1, 2), x, h, 0.01)[:, 0].sum(), h, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 0].sum(), h)
        found.append(second[:, 0].double())
    # Sums of a dozen terms that are no larger than they are. Rows exchanged by the numbers of the stiff unit lose hundreds.
    assert_close(*found, rtol=16 * torch.finfo(torch.float32).eps, atol=0)


@pytest.mark.parametrize("dt", [0.7, 4.92, 90.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_that_have_decayed_to_the_last_digits_there_are_can_be_stepped(dtype, dt):
    field = ctrnn.plain(1, 1, dtype=dtype)
    with torch.no_grad():
        for name, weight in field.named_parameters():
            weight.fill_(-1.5 if name.endswith("weight_h") else 0.0)
    least = torch.finfo(dtype).tiny * torch.finfo(dtype).eps  # above 0
    h = least * torch.arange(-40.0, 41.0, dtype=dtype)[:, None]
    after = discretize.BackwardEuler()(field, torch.zeros_like(h), h, dt)
    assert bool((after.abs() <= h.abs() + least).all())
