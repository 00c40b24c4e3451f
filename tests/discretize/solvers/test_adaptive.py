"""The traps of torchdiffeq: each naive call goes wrong here, and ours does not."""

import copy
import math
import pickle

import numpy as np
import problems
import pytest
import references
import torch
import torchdiffeq
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import ctrnn
from ctrnn.inputs.segment_input import SegmentInput
from discretize import Midpoint, SolverError, integrate
from discretize.solvers import adaptive
from discretize.solvers.adaptive import ADAPTIVE_METHODS
from discretize.solvers.control import StepControl
from discretize.solvers.segments import chain_of


def held_problem(seed, time=12):
    torch.manual_seed(seed)
    field = problems.NAMED_FIELDS["gated per unit"](2, 3)
    xs, h0, ts = 3 * torch.randn(time, 2, 2), torch.randn(2, 3), torch.arange(time + 1.0)
    with torch.no_grad():
        exact = references.dop853(field, references.held(xs, ts), ts, h0, ts)
    return field, xs, h0, ts, exact


def as_users_write_it(field, xs):
    """The sample is found by rounding the time, inside the field."""
    return lambda t, h: field(xs[min(int(t), len(xs) - 1)], h)


@pytest.mark.slow
@torch.no_grad()
def test_jumps_that_torchdiffeq_drops_are_kept():
    naive_misses = 0
    for seed in range(6):
        field, xs, h0, ts, exact = held_problem(seed)
        options = {"jump_t": ts[1:-1]}
        naive = torchdiffeq.odeint(as_users_write_it(field, xs), h0, ts, rtol=1e-3, atol=1e-3, options=options)
        naive_misses += bool((naive - exact).abs().max() > 0.02)
        ours = integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-3, atol=1e-3)
        assert float((ours.hs - exact).abs().max()) < 0.01
    assert naive_misses > 0, "torchdiffeq has mended its jumps: say so in docs/torchdiffeq.md"


@torch.no_grad()
def test_every_knot_and_requested_time_is_the_end_of_a_step():
    field = ctrnn.gated(1, 2)
    knots, ts = torch.tensor([0.0, 0.3, 1.1, 1.15, 4.0]), torch.tensor([0.2, 0.3, 2.0, 3.5])
    path = ctrnn.HeldPath(torch.randn(4, 1, 1), knots)
    chain = chain_of(ctrnn.Driven(field, path), ts)
    assert chain.edges.tolist() == [0.2, 0.3, 1.1, 1.15, 2.0, 3.5]
    read = SegmentInput(path, torch.tensor([0, 1, 2, 3, 3]))  # the pieces of the segments
    for j, k in enumerate([0, 1, 2, 3, 3]):
        assert torch.equal(path.evaluate(read.data(j), ts[0]), path.xs[k])
        # Projected with all samples at once: the same product, summed in another order.
        assert_close(chain.segment(j).input_at(ts[0]), field.project(path.xs[k]), rtol=1e-14, atol=1e-14)
    assert chain.places.tolist() == [0, 1, 4, 5]
    solved = integrate(field, path, torch.zeros(1, 2), ts, rtol=1e-1, atol=1e-1)
    # At so loose a tolerance one step would do for each segment, and none may be longer than its segment.
    assert solved.stats["num_accepted_steps"] >= len(chain)
    assert solved.stats["smallest_step"] <= 0.05 + 1e-12


@torch.no_grad()
def test_the_step_carried_on_is_the_one_before_a_landing_cut_it():
    # A knot just before another must not reset the solver to tiny steps.
    field, h0 = ctrnn.gated(1, 2), torch.randn(1, 2)
    sliver = torch.tensor([0.0, 10.0, 10.0 + 1e-9, 20.0])
    xs = torch.randn(1, 1, 1).expand(3, 1, 1)
    cut = integrate(field, ctrnn.HeldPath(xs, sliver), h0, torch.tensor([0.0, 20.0]), rtol=1e-6, atol=1e-6)
    whole = integrate(field, ctrnn.HeldPath(xs[:2], sliver[[0, 1, 3]]), h0, torch.tensor([0.0, 20.0]), rtol=1e-6, atol=1e-6)
    assert cut.stats["num_steps"] <= whole.stats["num_steps"] + 2
    assert_close(cut.hs, whole.hs, rtol=0, atol=1e-6)


@torch.no_grad()
def test_the_sample_read_is_the_one_whose_turn_it_is_even_where_the_clock_rounds():
    # c(t_k) computed in floating point falls on the wrong side of a sample's edge at about one knot in twenty.
    field, xs = ctrnn.plain(1, 2), torch.randn(40, 1, 1)
    warp, path = ctrnn.AffineWarp(0.35), ctrnn.HeldPath(xs)
    warped = ctrnn.WarpedPath(path, warp)
    rounded = torch.floor(warp(warped.knots[:-1])).long()
    assert (rounded != torch.arange(40)).any(), "this clock rounds nowhere: take another"
    for k in range(40):
        assert torch.equal(warped.piece(k)(warped.knots[k]), xs[k])
        assert torch.equal(warped.piece(k)(warped.knots[k + 1]), xs[k])
    h0, shown = torch.zeros(1, 2), torch.arange(41.0)
    original = integrate(field, path, h0, shown, rtol=1e-5, atol=1e-5)
    slowed = integrate(field, warped, h0, warp.inverse(shown), speed=warp.speed, rtol=1e-5, atol=1e-5)
    assert_close(slowed.hs, original.hs, rtol=0, atol=1e-4)


@torch.no_grad()
def test_a_field_at_rest_stays_there_however_long():
    field = ctrnn.plain(2, 3, bias=False)
    solved = integrate(field, ctrnn.HeldPath(torch.zeros(2, 1, 2), [0.0, 1e12, 2e12]), torch.zeros(1, 3), [0.0, 2e12])
    assert not solved.hs.any()


@torch.no_grad()
@pytest.mark.parametrize(
    ("knots", "ts"),
    [
        ([0.0, 0.1 + 0.2, 1.0], [0.3, 1.0]),  # starts an ulp before a knot
        ([0.0, 1.0, 3.0], [math.nextafter(1.0, 0.0), 3.0]),
        pytest.param([0.0, 1e-15, 1000.0], [0.0, 1000.0], marks=pytest.mark.slow),
        ([0.0, 1e-300, 1.0], [0.0, 1.0]),
        pytest.param([0.0, 1e9, 2e9], [0.0, 2e9], marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.float64])
def test_segments_of_any_length_follow_one_another(knots, ts, dtype):
    field = ctrnn.leaky(2, 3, alpha=1.0 if knots[-1] < 1e6 else 1e-9, dtype=dtype)
    path = ctrnn.LinearPath(torch.randn(3, 1, 2, dtype=dtype), knots)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-8
    solved = integrate(field, path, torch.zeros(1, 3, dtype=dtype), ts, rtol=tolerance, atol=tolerance)
    xs, at = path.xs.double(), torch.tensor(knots)
    if at[1] < 1e-200:  # SciPy's first step is infinite over so short a piece, in which nothing moves
        xs, at = xs[1:], at[[0, 2]]
    exact = references.dop853(field.double(), references.linear(xs, at), at, torch.zeros(1, 3), torch.tensor(ts))
    assert_close(solved.hs.double(), exact, rtol=0, atol=20 * tolerance)


class Raises(ctrnn.VectorField):
    """dh/dt = f(t-free) of the user's choice."""

    def __init__(self, f):
        super().__init__(1, 2)
        self.f = f

    def flow(self, projected, h):
        return self.f(h)


def solve(f, h0=None, method="dopri5", **settings):
    path = ctrnn.HeldPath(torch.zeros(2, 3, 1))
    start = torch.full((3, 2), 0.5) if h0 is None else h0
    return integrate(Raises(f), path, start, torch.tensor([0.0, 0.5, 2.0]), method=method, **settings)


def test_a_trial_step_that_leaves_the_domain_of_the_field_is_taken_back():
    # sqrt of a negative number in a trial stage is nan; the solution stays positive throughout.
    solved = solve(lambda h: -torch.sqrt(h) * h * 20, torch.full((3, 2), 1.0), rtol=1e-6, atol=1e-8)
    assert solved.status == "completed"
    # h' = -20 h^(3/2): h = (1 + 10 t)^-2
    assert_close(solved.hs[:, 0, 0], (1 + 10 * solved.ts) ** -2, rtol=0, atol=1e-6)


def test_a_failure_travels_to_other_processes():
    with pytest.raises(SolverError) as caught:
        solve(lambda h: -1e4 * h, max_num_steps=20)
    for twin in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert str(twin) == str(caught.value)
        assert (twin.time, twin.sample, twin.unit) == (caught.value.time, caught.value.sample, caught.value.unit)
        assert torch.equal(twin.trajectory.hs, caught.value.trajectory.hs)


def test_a_solve_is_differentiated_by_torch_func():
    field, path, ts = ctrnn.gru(2, 3), ctrnn.HeldPath(torch.randn(3, 4, 2)), torch.arange(4.0)
    start = torch.randn(4, 3)

    def loss(h0):
        return integrate(field, path, h0, ts).hs.square().sum()

    leaf = start.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    assert_close(torch.func.grad(loss)(start), expected, rtol=0, atol=1e-14)
    (along,) = torch.func.jvp(loss, (start,), (torch.ones_like(start),))[1:]
    assert_close(along, expected.sum(), rtol=1e-10, atol=0)


def stiff_one(batch=64, hidden=4):
    """Samples of rate 1, and one of rate 200, told by the input."""

    class Rates(ctrnn.VectorField):
        def __init__(self):
            super().__init__(1, hidden)
            self.turn = torch.nn.Parameter(torch.randn(hidden, hidden))

        def flow(self, projected, h):
            return projected * (torch.tanh(h @ self.turn.mT) + 0.5 - h)

    rates = 0.5 + torch.rand(batch, 1)
    rates[0] = 200.0
    return Rates(), rates, torch.randn(batch, hidden), torch.tensor([0.0, 1.0, 5.0])


def solve_rates(field, rates, h0, ts, **settings):
    return integrate(field, ctrnn.HeldPath(rates[None], [0.0, 5.0]), h0, ts, **settings)


@torch.no_grad()
@pytest.mark.parametrize("threshold", [0, pytest.param(adaptive.WORTH_LEAVING_OUT, marks=pytest.mark.slow)])
def test_one_stiff_sample_costs_its_neighbours_nothing(monkeypatch, threshold):
    monkeypatch.setattr(adaptive, "WORTH_LEAVING_OUT", threshold)
    # By default samples are left out once 1,024 units are spared, and of 300 units each few are not.
    field, rates, h0, ts = stiff_one(hidden=4 if threshold == 0 else 300)
    field.turn /= len(field.turn) ** 0.5
    together = solve_rates(field, rates, h0, ts)
    quiet = solve_rates(field, rates[1:], h0[1:], ts)
    assert together.stats["steps_of_samples"][1:] == quiet.stats["steps_of_samples"]
    assert together.stats["num_steps"] > 5 * quiet.stats["num_steps"], "it is not stiff enough"
    assert together.stats["nfe_samples"] < 5 * quiet.stats["nfe_samples"]
    for i in (0, 1, 17, 63):
        alone = solve_rates(field, rates[i : i + 1], h0[i : i + 1], ts)
        assert alone.stats["num_steps"] == together.stats["steps_of_samples"][i]
        assert_close(together.hs[:, i : i + 1], alone.hs, rtol=1e-12, atol=1e-12)


def test_gradients_do_not_see_who_was_left_out(monkeypatch):
    field, rates, h0, ts = stiff_one(batch=6, hidden=2)
    ts = 0.3 * ts
    rates.requires_grad_()
    weight = torch.randn(3, 6, 2)

    def gradients(threshold):
        monkeypatch.setattr(adaptive, "WORTH_LEAVING_OUT", threshold)
        solved = solve_rates(field, rates, h0.requires_grad_(), ts)
        return solved.stats["nfe_samples"], torch.autograd.grad((solved.hs * weight).sum(), [rates, h0, field.turn])

    (few, left_out), (many, kept) = gradients(0), gradients(math.inf)
    assert few < many / 2
    for ours, theirs in zip(left_out, kept, strict=True):
        # The stiff sample's gradient is carried over some hundred steps, whose products round in another order: 3e-11 seen.
        assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


class Rooted(ctrnn.VectorField):
    """dh/dt = -a h - b + root(h) / 1000, in which a and b are the sample's own: slopes end where h is 0."""

    def __init__(self, root):
        super().__init__(0, 3)
        self.root, self.weight = root, torch.nn.Parameter(torch.ones(1))

    def flow(self, projected, h):
        h, a, b = h.split(1, -1)
        return torch.cat([self.root(h) / 1000 - self.weight * (a * h + b), torch.zeros_like(a), torch.zeros_like(b)], -1)


@pytest.mark.parametrize(
    ("root", "h0", "ts"),
    [
        (torch.sqrt, [[1.0, 6.8, 0.0], [1.0, 0.1, 0.0]], [[0.0, 0.0], [0.5, 0.5]]),  # a step of one is tried again
        (torch.sqrt, [[0.38, 0.0, 1.0], [5.0, 0.0, 1.0]], [[0.0, 0.0], [0.2, 1.0]]),  # one waits
        (lambda h: torch.where(h > 0, h.sqrt(), 0.0), [[0.38, 0.0, 1.0], [5.0, 0.0, 1.0]], [[0.0, 0.0], [0.2, 1.0]]),
    ],
)
def test_a_step_that_is_not_taken_leaves_no_nan_in_gradients_where_its_last_slope_is_none(root, h0, ts):
    field, h0, ts = Rooted(root), torch.tensor(h0, requires_grad=True), torch.tensor(ts)
    how = {"method": "bosh3", "rtol": 1e-3, "atol": 1e-4, "first_step": 0.25, "max_step": 0.25, "fused": False}
    singly = torch.cat([integrate(field, None, h0[b : b + 1], ts[:, b], **how).hs for b in (0, 1)], 1)
    both = integrate(field, None, h0, ts, **how).hs
    mine, theirs = (torch.autograd.grad(hs.square().sum(), [field.weight, h0]) for hs in (both, singly))
    assert all(gradient.isfinite().all() for gradient in theirs)
    assert_close((both, *mine), (singly, *theirs), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["dopri5", "rodas5p", "rk4", Midpoint()])
def test_no_step_is_longer_than_max_step(method):
    field, path, ts = ctrnn.gated(1, 2), ctrnn.HeldPath(torch.randn(2, 1, 1), torch.tensor([0.0, 1.0, 3.05])), [0.0, 3.05]
    chosen = method in ("dopri5", "rodas5p")
    loose = {"method": method, **({"rtol": 0.9, "atol": 0.1} if chosen else {})}
    free = integrate(field, path, torch.zeros(1, 2), ts, **loose)
    bounded = integrate(field, path, torch.zeros(1, 2), ts, max_step=0.3, **loose)
    assert free.stats["num_steps"] < 6
    # 1 is 4 steps of at most 0.3, 2.05 is 7; adaptive ones begin with a short one, and grow.
    assert bounded.stats["num_steps"] == 11 if not chosen else 11 <= bounded.stats["num_steps"] < 16


@given(remaining=st.floats(1e-3, 1e3), step=st.floats(1e-3, 1e3), longest=st.floats(1e-2, 1e3))
def test_steps_to_a_landing_are_equal_and_within_both_bounds(remaining, step, longest):
    control = StepControl(ADAPTIVE_METHODS["dopri5"], 1e-3, 1e-3, 100, max_step=longest)
    dt = remaining / float(control.steps_to(np.array([remaining]), np.array([step]))[0])
    assert dt <= longest * (1 + 1e-11)  # rounding of the quotient
    assert dt <= step * (1 + 2e-3)  # a step is stretched by a thousandth rather than cut in two
    assert dt >= min(step, longest, remaining) / 2.01
