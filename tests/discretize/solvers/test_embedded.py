"""The pairs: conditions of order tree by tree, observed orders, and the same tableaus elsewhere."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import numpy as np
import problems
import pytest
import torch
from scipy.integrate._ivp.rk import RK45
from torch.testing import assert_close
from torchdiffeq._impl.adaptive_heun import _ADAPTIVE_HEUN_TABLEAU
from torchdiffeq._impl.bosh3 import _BOGACKI_SHAMPINE_TABLEAU
from torchdiffeq._impl.dopri5 import _DORMAND_PRINCE_SHAMPINE_TABLEAU
from torchdiffeq._impl.dopri8 import _DOPRI8_TABLEAU

import ctrnn
from discretize import integrate
from discretize.solvers.pairs import EXPLICIT_PAIRS
from discretize.solvers.rodas import COUPLINGS, GAMMA, NODES, STAGES, Rodas5P
from discretize.solvers.segments import RightHandSide

PAIRS = EXPLICIT_PAIRS.values()
every_pair = pytest.mark.parametrize("pair", PAIRS)
# Tsitouras prints 16 digits, Prince and Dormand fractions that are good to 1e-18 each, of size 50 and more.
ROUNDING = {"rtol": 0, "atol": 3e-14}


def matrix(pair):
    """a (stages, stages), b and c in full."""
    a = np.zeros((len(pair.nodes) + 1, len(pair.nodes) + 1))
    for i, row in enumerate(pair.a, 1):
        a[i, : len(row)] = row
    return a, a[-1] if pair.b is None else np.array(pair.b), np.array([0.0, *pair.nodes])


def trees(order):
    """The rooted trees with that many vertices, a tree being the sorted tuple of what hangs at its root."""
    if order == 1:
        return [()]
    found = set()
    for sizes in partitions(order - 1):
        found |= set(forests(sizes))
    return sorted(found)


def partitions(n, most=None):
    most = n if most is None else most
    if n == 0:
        yield ()
    for size in range(min(n, most), 0, -1):
        for rest in partitions(n - size, size):
            yield (size, *rest)


def forests(sizes):
    if not sizes:
        yield ()
        return
    alike = sizes.count(sizes[0])
    for some in combinations_with_replacement(trees(sizes[0]), alike):
        for rest in forests(sizes[alike:]):
            yield tuple(sorted(some + rest))


def vertices(tree):
    return 1 + sum(map(vertices, tree))


def density(tree):
    return vertices(tree) * math.prod(map(density, tree))


def weight(tree, a):
    """Phi_i(tree), for each stage i."""
    value = np.ones(len(a))
    for branch in tree:
        value = value * (a @ weight(branch, a))
    return value


def test_there_are_as_many_rooted_trees_as_the_books_count():
    assert [len(trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]
    assert density(((), ((),))) == 8  # Hairer, Norsett and Wanner, table II.2.2


def test_dopri5_is_rk45_of_scipy_but_for_the_companion():
    a, b, c = matrix(EXPLICIT_PAIRS["dopri5"])
    assert_close(a[:6, :5], RK45.A, rtol=0, atol=1e-15)
    assert_close(b[:6], RK45.B, rtol=0, atol=1e-15)
    assert_close(c[:6], RK45.C, rtol=0, atol=1e-15)
    # Shampine's companion, as in torchdiffeq, against Dormand and Prince's own.
    e = np.array(EXPLICIT_PAIRS["dopri5"].e)
    assert abs(e - RK45.E).max() > 1e-4
    own = [Fraction(71, 57600), 0, Fraction(-71, 16695), Fraction(71, 1920), Fraction(-17253, 339200), Fraction(22, 525)]
    assert_close(-RK45.E[:6], np.array([float(x) for x in own]), rtol=0, atol=1e-15)


def test_the_coefficients_of_rodas5p_add_up():
    # In the form with J: alpha and gamma sum up to the nodes and to what comes of df/dt.
    n = len(NODES)
    c = np.zeros((n, n))
    a = np.zeros((n, n))
    for i in range(n):
        c[i, : len(COUPLINGS[i])], a[i, : len(STAGES[i])] = COUPLINGS[i], STAGES[i]
    gamma = np.linalg.inv(np.eye(n) / GAMMA - c)
    alpha = a @ gamma
    assert_close(alpha.sum(1), np.array(NODES), rtol=0, atol=1e-12)
    b = alpha[-1] + gamma[-1]  # stiffly accurate: the weights are the last stage
    beta = alpha + gamma
    whole = beta.sum(1)
    assert b.sum() == pytest.approx(1, abs=1e-12)
    assert b @ whole == pytest.approx(1 / 2, abs=1e-12)
    assert b @ alpha.sum(1) ** 2 == pytest.approx(1 / 3, abs=1e-12)
    assert b @ beta @ whole == pytest.approx(1 / 6, abs=1e-12)
    assert b @ alpha.sum(1) ** 3 == pytest.approx(1 / 4, abs=1e-12)
    assert b @ (alpha.sum(1) * (alpha @ whole)) == pytest.approx(1 / 8, abs=1e-12)
    assert b @ beta @ alpha.sum(1) ** 2 == pytest.approx(1 / 12, abs=1e-12)
    assert b @ beta @ beta @ whole == pytest.approx(1 / 24, abs=1e-12)
    assert b @ alpha.sum(1) ** 4 == pytest.approx(1 / 5, abs=1e-12)


@pytest.mark.parametrize("rate", [1e3, 1e4, 1e6])
def test_rodas5p_keeps_its_order_on_a_stiff_problem_whose_equilibrium_moves(rate):
    # Classical Rosenbrock methods fall to order 1 or 2 there.
    one = torch.ones(1, 1, dtype=torch.float64)
    dts = (1 / 2, 1 / 4, 1 / 8)
    errors = [float((fixed(Rodas5P(), dt, slope=Pulled(rate), h=one)[0] - math.cos(1)).abs()) for dt in dts]
    # What is left where dt rate >> 1 is c dt^3 / rate, with a small c: a slope of 3.1 to 3.4 seen.
    assert all(math.log2(large / small) > 3 for large, small in pairwise(errors)), errors
    assert errors[0] < 1e-3 / rate, errors  # 6e-4 seen; methods that do not follow the equilibrium leave dt^2


@every_pair
def test_the_order_conditions_hold_for_every_tree_up_to_the_declared_order(pair):
    a, b, _ = matrix(pair)
    for order in range(1, pair.order + 1):
        for tree in trees(order):
            assert b @ weight(tree, a) == pytest.approx(1 / density(tree), rel=0, abs=3e-14), tree
    assert any(abs(b @ weight(tree, a) - 1 / density(tree)) > 1e-8 for tree in trees(pair.order + 1)), "it is of higher order"


@every_pair
def test_the_companion_is_of_the_order_below_and_no_higher(pair):
    # So that the estimate falls as dt to the declared order: the error coefficients vanish on smaller trees, and on no other.
    a, _, _ = matrix(pair)
    e = np.array(pair.e)
    for order in range(1, pair.order):
        for tree in trees(order):
            # Tsitouras prints his error weights to about 16 digits.
            assert e @ weight(tree, a) == pytest.approx(0, abs=3e-14), tree
    assert any(abs(e @ weight(tree, a)) > 1e-8 for tree in trees(pair.order))


@every_pair
def test_nodes_are_the_sums_of_their_rows_and_weights_add_up_to_1(pair):
    a, b, c = matrix(pair)
    assert_close(a.sum(1), c, **ROUNDING)
    assert sum(b) == pytest.approx(1, abs=3e-14)
    assert sum(pair.e) == pytest.approx(0, abs=3e-14)
    assert len(pair.e) == len(pair.a) + 1 == len(pair.nodes) + 1
    assert pair.evaluations == len(pair.nodes) + (pair.b is not None)  # a step by itself does not need the last slope
    if pair.b is None:
        assert pair.nodes[-1] == 1


@every_pair
def test_the_last_slope_is_the_first_of_the_next_step_where_it_is_handed_on(pair):
    attempt = pair.attempt(Swing(), column(0.2), column(0.1), START, None)
    if pair.b is None:
        assert_close(attempt.end, Swing()(column(0.2 + 0.1), attempt.h), rtol=0, atol=1e-15)
    else:
        assert attempt.end is None
    given = pair.attempt(Swing(), column(0.2), column(0.1), START, Swing()(column(0.2), START))
    assert torch.equal(given.h, attempt.h)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("adaptive_heun", _ADAPTIVE_HEUN_TABLEAU),
        ("bosh3", _BOGACKI_SHAMPINE_TABLEAU),
        ("dopri5", _DORMAND_PRINCE_SHAMPINE_TABLEAU),
        ("dopri8", _DOPRI8_TABLEAU),
    ],
)
def test_the_tableaus_are_those_of_torchdiffeq(name, theirs):
    ours = EXPLICIT_PAIRS[name]
    _, b, _ = matrix(ours)
    n = len(b)
    assert_close(torch.tensor(ours.c, dtype=torch.float64), theirs.alpha[: n - 1], rtol=0, atol=1e-15)
    for row, expected in zip(ours.a, theirs.beta, strict=False):
        assert_close(torch.tensor(row, dtype=torch.float64), expected[: len(row)], rtol=1e-15, atol=1e-15)
    assert_close(torch.from_numpy(b), theirs.c_sol[:n], rtol=1e-15, atol=1e-15)
    # The sign of the error is of no account.
    sign = math.copysign(1, ours.e[0] * float(theirs.c_error[0]))
    assert_close(sign * torch.tensor(ours.e, dtype=torch.float64), theirs.c_error[:n], rtol=1e-12, atol=1e-15)
    # Where the last row of ours is not b, torchdiffeq adds one that is; it must weigh nothing.
    assert not theirs.c_sol[n:].any()
    assert not theirs.c_error[n:].any()


class Swing:
    """h' = [sin(t) - h_1^2 h_0, cos(2 t) h_0 - h_1 / (1 + h_0^2)]: moved from outside, not linear, smooth."""

    steady, differentiable_in_time = False, True
    jacobian, time_derivative = RightHandSide.jacobian, RightHandSide.time_derivative

    def __call__(self, tau, h):
        x, y = h.unbind(-1)
        t = tau.reshape(-1)
        return torch.stack([torch.sin(t) - y**2 * x, torch.cos(2 * t) * x - y / (1 + x**2)], -1)


START = torch.tensor([[0.8, -0.5], [0.1, 1.2]], dtype=torch.float64)


def column(*values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


def fixed(method, dt, until=1.0, slope=None, h=START):
    """Equal steps of the method; the state at the end, and the size of the first step's estimate."""
    slope, steps, first = slope or Swing(), round(until / dt), None
    for i in range(steps):
        attempt = method.attempt(slope, column(i * dt), column(dt), h, None)
        h = attempt.h
        first = attempt.error if first is None else first
    return h, float(first.abs().max())


METHODS = {**EXPLICIT_PAIRS, "rodas5p": Rodas5P()}


@pytest.mark.parametrize("name", METHODS)
def test_the_declared_order_is_observed_on_a_driven_system_that_is_not_linear(name):
    method = METHODS[name]
    dts = {8: (1 / 4, 1 / 8), 5: (1 / 32, 1 / 64)}.get(method.order, (1 / 64, 1 / 128))
    truth, _ = fixed(EXPLICIT_PAIRS["dopri8"], 1 / 32)
    large, small = ((fixed(method, dt)[0] - truth).norm() for dt in dts)
    # Half an order either way: the next term is a share dt of the leading one.
    assert math.log2(large / small) == pytest.approx(method.order, abs=0.5)


@pytest.mark.parametrize("name", METHODS)
def test_the_estimate_falls_as_dt_to_the_declared_order(name):
    # A single step's, with a companion an order below: O(dt^order).
    method = METHODS[name]
    dts = (1 / 8, 1 / 16) if method.order == 8 else (1 / 64, 1 / 128)
    large, small = (fixed(method, dt, until=dt)[1] for dt in dts)
    assert math.log2(large / small) == pytest.approx(method.order, abs=0.5)


@pytest.mark.parametrize("name", METHODS)
def test_a_step_of_length_zero_leaves_the_state_exactly(name):
    dt = column(0.0, 0.3)
    attempt = METHODS[name].attempt(Swing(), column(0.2, 0.4), dt, START, None)
    assert torch.equal(attempt.h[0], START[0])
    assert not attempt.error[0].any()
    assert attempt.h[1].ne(START[1]).all()
    assert attempt.h.isfinite().all()


@pytest.mark.parametrize("name", METHODS)
def test_a_step_of_its_own_for_each_sample_is_that_of_the_sample_alone(name):
    taus, dts = (0.2, 1.1), (0.05, 0.7)
    together = METHODS[name].attempt(Swing(), column(*taus), column(*dts), START, None)
    for i in range(2):
        alone = METHODS[name].attempt(Swing(), column(taus[i]), column(dts[i]), START[i : i + 1], None)
        assert_close(together.h[i], alone.h[0], rtol=0, atol=1e-15)
        assert_close(together.error[i], alone.error[0], rtol=0, atol=1e-15)


class Pulled:
    """h' = -rate (h - cos t) - sin t, whose solution from 1 is cos t: Prothero and Robinson."""

    steady, differentiable_in_time = False, True
    jacobian, time_derivative = RightHandSide.jacobian, RightHandSide.time_derivative

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, tau, h):
        return -self.rate * (h - torch.cos(tau)) - torch.sin(tau)


@pytest.mark.parametrize("rate", [1e4, 1e8, 1e12])
def test_rodas5p_forgets_at_once_what_forgets_fast(rate):
    """R(infinity) = 0: nothing of the start is left after a step of any length."""
    slope = Pulled(rate)
    near = Rodas5P().attempt(slope, column(0.0), column(1.0), torch.full((1, 1), 1.0, dtype=torch.float64), None)
    far = Rodas5P().attempt(slope, column(0.0), column(1.0), torch.full((1, 1), 5.0, dtype=torch.float64), None)
    # R(z) falls as 1/z.
    assert float((far.h - near.h).abs()) < 100 / rate + 1e-14


class Read(Swing):
    """An input that torch cannot differentiate in time."""

    differentiable_in_time = False


@pytest.mark.parametrize(("kind", "off"), [(Swing, 1e-14), (Read, 1e-7)])  # exact, or by three points in the step
def test_the_derivative_by_time_that_rodas5p_reads_is_that_of_the_field(kind, off):
    tau = column(0.2, 1.1)
    x = START[:, 0]
    expected = torch.stack([torch.cos(tau[:, 0]), -2 * torch.sin(2 * tau[:, 0]) * x], -1)
    assert_close(kind().time_derivative(tau, column(0.3, 0.1), START), expected, rtol=0, atol=off)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@torch.no_grad()
def test_a_whole_solve_falls_with_the_order_of_its_method(name):
    """By `integrate`: the tolerance divided by 2^order doubles the steps."""
    problem, order = problems.linear(), METHODS[name].order
    path, ts = ctrnn.HeldPath(problem.x[None], torch.tensor([0.0, 8.0])), torch.tensor([0.0, 8.0])
    tight = {2: 1e-3, 3: 1e-4}.get(order, 1e-7)
    few, many = (
        integrate(problem.field, path, problem.h0, ts, method=name, rtol=t, atol=t).stats["num_accepted_steps"]
        for t in (tight, tight / 2**order)
    )
    assert few > 5
    assert 1.4 < many / few < 2.6  # 2, were all of them small


def test_rodas5p_reads_a_function_of_time_in_float32_by_as_many_steps_as_in_float64():
    # df/dt is a difference there: of times so near that it is rounding, a step has to be short for the error to pass.
    def steps(dtype):
        field = ctrnn.gated(1, 4, dtype=torch.float32, generator=torch.Generator().manual_seed(0)).to(dtype)
        path = ctrnn.FunctionPath(lambda t: torch.sin(3 * t).to(dtype).reshape(1, 1), (0.0, 2.0), 1)
        return integrate(field, path, field.initial_state(1), torch.tensor([0.0, 2.0]), method="rodas5p").stats["num_steps"]

    assert steps(torch.float32) < 1.5 * steps(torch.float64)
