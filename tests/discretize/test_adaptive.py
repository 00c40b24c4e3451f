"""The traps of torchdiffeq: each naive call goes wrong here, and ours does not."""

import copy
import math
import pickle
import subprocess
import sys
import textwrap

import problems
import pytest
import references
import torch
import torchdiffeq
from torch.testing import assert_close

import ctrnn
from discretize import SolverError, integrate
from discretize.segments import segments


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
    assert naive_misses > 0, "torchdiffeq has mended its jumps: say so in docs/discretization.md"


@torch.no_grad()
def test_steps_that_overshoot_and_are_interpolated_back_are_not_taken():
    tolerance, worst_naive, worst_ours = 1e-6, 0.0, 0.0
    for seed in range(3):
        field, xs, h0, ts, exact = held_problem(seed)
        h = h0
        for x in xs.unbind(0):  # piece by piece, each from its start to its end
            clock = torch.tensor([0.0, 1.0])
            slope = lambda t, h, field=field, x=x: field(x, h)  # noqa: E731 (as users write it)
            h = torchdiffeq.odeint(slope, h, clock, rtol=tolerance, atol=tolerance, method="bosh3")[-1]
        worst_naive = max(worst_naive, float((h - exact[-1]).abs().max()))
        ours = integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=tolerance, atol=tolerance, method="bosh3")
        worst_ours = max(worst_ours, float((ours.hs - exact).abs().max()))
    assert worst_naive > 20 * tolerance
    assert worst_ours < 10 * tolerance


@torch.no_grad()
def test_every_knot_and_requested_time_is_the_end_of_a_step():
    field = ctrnn.gated(1, 2)
    knots, ts = torch.tensor([0.0, 0.3, 1.1, 1.15, 4.0]), torch.tensor([0.2, 0.3, 2.0, 3.5])
    path = ctrnn.HeldPath(torch.randn(4, 1, 1), knots)
    chain = segments(ctrnn.Driven(field, path), ts)
    assert [(s.start, s.end) for s in chain] == [(0.2, 0.3), (0.3, 1.1), (1.1, 1.15), (1.15, 2.0), (2.0, 3.5)]
    assert [s.piece for s in chain] == [0, 1, 2, 3, 3]
    assert [s.requested for s in chain] == [True, False, False, True, True]
    solved = integrate(field, path, torch.zeros(1, 2), ts, rtol=1e-1, atol=1e-1)
    # At so loose a tolerance one step would do for each segment, and none may be longer than its segment.
    assert solved.stats["num_accepted_steps"] >= len(chain)
    assert solved.stats["smallest_step"] <= 0.05 + 1e-12


@torch.no_grad()
def test_the_step_carried_on_is_the_one_before_landing_cut_it():
    """A knot just before another must not reset the solver to tiny steps."""
    field, h0 = ctrnn.gated(1, 2), torch.randn(1, 2)
    sliver = torch.tensor([0.0, 10.0, 10.0 + 1e-9, 20.0])
    xs = torch.randn(1, 1, 1).expand(3, 1, 1)
    cut = integrate(field, ctrnn.HeldPath(xs, sliver), h0, torch.tensor([0.0, 20.0]), rtol=1e-6, atol=1e-6)
    whole = integrate(field, ctrnn.HeldPath(xs[:2], sliver[[0, 1, 3]]), h0, torch.tensor([0.0, 20.0]), rtol=1e-6, atol=1e-6)
    assert cut.stats["num_steps"] <= whole.stats["num_steps"] + 2
    assert_close(cut.hs, whole.hs, rtol=0, atol=1e-6)


@torch.no_grad()
def test_the_sample_read_is_the_one_whose_turn_it_is_even_where_the_clock_rounds():
    """c(t_k) computed in floating point falls on the wrong side of a sample's edge at about one knot in twenty."""
    field, xs = ctrnn.plain(1, 2), torch.randn(40, 1, 1)
    warp, path = ctrnn.AffineWarp(0.35), ctrnn.HeldPath(xs)
    warped = ctrnn.WarpedPath(path, warp)
    rounded = torch.floor(warp(warped.knots[:-1])).long()
    assert (rounded != torch.arange(40)).any(), "this clock rounds nowhere: take another"
    for k in range(40):
        assert torch.equal(warped.piece(k)(warped.knots[k]), xs[k])
        assert torch.equal(warped.piece(k)(warped.knots[k + 1]), xs[k])
    h0, shown = torch.zeros(1, 2), torch.arange(41.0)
    original = integrate(field, path, h0, shown, rtol=1e-9, atol=1e-9)
    slowed = integrate(field, warped, h0, warp.inverse(shown), speed=warp.speed, rtol=1e-9, atol=1e-9)
    assert_close(slowed.hs, original.hs, rtol=0, atol=1e-7)


@torch.no_grad()
def test_knots_an_ulp_apart_are_solved():
    knots = torch.tensor([0.0, 1.0, math.nextafter(1.0, 2.0), 2.0])
    field, xs, h0 = ctrnn.gated(2, 3), torch.randn(3, 1, 2), torch.zeros(1, 3)
    with_sliver = integrate(field, ctrnn.HeldPath(xs, knots), h0, torch.tensor([0.0, 2.0]), rtol=1e-9, atol=1e-9)
    without = integrate(field, ctrnn.HeldPath(xs[[0, 2]], knots[[0, 1, 3]]), h0, torch.tensor([0.0, 2.0]), rtol=1e-9, atol=1e-9)
    assert_close(with_sliver.hs, without.hs, rtol=0, atol=1e-8)


@torch.no_grad()
def test_one_wild_sample_is_solved_as_well_in_a_batch_as_alone():
    """torchdiffeq's own norm is a mean over the batch, in which one wild sample among 64 counts an eighth."""
    field = ctrnn.plain(2, 3)
    xs = torch.randn(6, 64, 2) * 0.01
    xs[:, 0] = 8 * torch.randn(6, 2)
    h0, ts = torch.zeros(64, 3), torch.arange(7.0)
    h0[0] = 3.0
    exact = references.dop853(field, references.held(xs[:, :1], ts), ts, h0[:1], ts)
    ours = integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-5, atol=1e-5)
    assert float((ours.hs[:, :1] - exact).abs().max()) < 1e-4


@torch.no_grad()
@pytest.mark.parametrize(
    ("knots", "ts"),
    [
        ([0.0, 0.1 + 0.2, 1.0], [0.3, 1.0]),  # starts an ulp before a knot
        ([0.0, 1.0, 3.0], [math.nextafter(1.0, 0.0), 3.0]),
        ([0.0, 1e-15, 1000.0], [0.0, 1000.0]),
        ([0.0, 1e-300, 1.0], [0.0, 1.0]),
        ([0.0, 1e9, 2e9], [0.0, 2e9]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_segments_of_any_length_follow_one_another(knots, ts, dtype):
    field = ctrnn.leaky(2, 3, alpha=1.0 if knots[-1] < 1e6 else 1e-9, dtype=dtype)
    path = ctrnn.LinearPath(torch.randn(3, 1, 2, dtype=dtype), knots)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-8
    solved = integrate(field, path, torch.zeros(1, 3, dtype=dtype), ts, rtol=tolerance, atol=tolerance)
    fine = integrate(field, path, torch.zeros(1, 3, dtype=dtype), ts, method="rk4", dt=(ts[-1] - ts[0]) / 4096)
    assert_close(solved.hs, fine.hs, rtol=0, atol=20 * tolerance)


@torch.no_grad()
def test_a_field_at_rest_stays_there_however_long():
    field = ctrnn.plain(2, 3, bias=False)
    solved = integrate(field, ctrnn.HeldPath(torch.zeros(2, 1, 2), [0.0, 1e12, 2e12]), torch.zeros(1, 3), [0.0, 2e12])
    assert not solved.hs.any()


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


def test_nan_from_the_field_is_called_nan_and_named():
    def f(h):
        slope = -h
        slope = slope.clone()
        slope[1, 0] = torch.where(h[1, 0] < 0.4, math.nan, slope[1, 0])
        return slope

    with pytest.raises(SolverError, match="the field gives nan there") as caught:
        solve(f)
    assert (caught.value.sample, caught.value.unit) == (1, 0)
    assert 0.1 < caught.value.time < 0.4  # exp(-t) = 0.8 at t = 0.22
    assert len(caught.value.trajectory) == 1

    with pytest.raises(SolverError, match="the field gives inf there") as caught:
        solve(lambda h: torch.full_like(h, math.inf))
    assert caught.value.time == 0.0


def test_a_trial_step_that_leaves_the_domain_of_the_field_is_taken_back():
    # sqrt of a negative number in a trial stage is nan; the solution stays positive throughout.
    solved = solve(lambda h: -torch.sqrt(h) * h * 20, torch.full((3, 2), 1.0), rtol=1e-6, atol=1e-8)
    assert solved.status == "completed"
    # h' = -20 h^(3/2): h = (1 + 10 t)^-2
    assert_close(solved.hs[:, 0, 0], (1 + 10 * solved.ts) ** -2, rtol=0, atol=1e-6)


def test_too_many_steps_is_counted_over_the_whole_solve():
    with pytest.raises(SolverError, match="steps were not enough") as caught:
        solve(lambda h: -1e4 * h, max_num_steps=200)
    assert caught.value.trajectory.stats["num_steps"] == 200
    assert "stiff" in caught.value.hint


def test_a_jump_inside_the_field_is_said_to_be_one():
    with pytest.raises(SolverError, match="no step down to"):
        solve(lambda h: torch.where(h > 0.3, -1.0, 1.0) * 1e3, torch.full((3, 2), 0.3), rtol=0, atol=1e-17, max_num_steps=1000)


def test_fixed_steps_that_blow_up_say_so():
    with pytest.raises(SolverError, match="the state became") as caught:
        solve(lambda h: h**3 * 1e5, method="euler", dt=0.1)
    assert "shorter steps" in str(caught.value)


def test_everything_holds_under_optimized_python():
    """torchdiffeq guards itself by asserts, which -O removes; without guards a nan would loop for ever."""
    script = """
        import torch, ctrnn
        from discretize import SolverError, integrate
        torch.set_default_dtype(torch.float64)
        assert False, "asserts must be off"

        class Field(ctrnn.VectorField):
            def flow(self, projected, h):
                return torch.where(h < 0.4, torch.nan, -h)

        path, h0, ts = ctrnn.HeldPath(torch.zeros(2, 1, 1)), torch.full((1, 1), 0.5), torch.tensor([0.0, 2.0])
        try:
            integrate(Field(1, 1), path, h0, ts)
        except SolverError as error:
            print("SolverError", error.cause)
        class Stiff(ctrnn.VectorField):
            def flow(self, projected, h):
                return -1e5 * h
        try:
            integrate(Stiff(1, 1), path, h0, ts, max_num_steps=50)
        except SolverError as error:
            print("SolverError", error.cause)
        for bad in ({"ts": torch.tensor([0.0, 0.0])}, {"h0": h0 * torch.nan}, {"method": "rk45"}, {"rtol": -1.0}):
            arguments = {"h0": h0, "ts": ts} | bad
            try:
                integrate(Stiff(1, 1), path, arguments.pop("h0"), arguments.pop("ts"), **arguments)
            except ValueError as error:
                print("ValueError", error)
    """
    done = subprocess.run(
        [sys.executable, "-O", "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120, check=True
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["SolverError"] * 2 + ["ValueError"] * 4
    assert "the field gives nan" in lines[0]
    assert "50 steps were not enough" in lines[1]


def test_a_failure_travels_to_other_processes():
    with pytest.raises(SolverError) as caught:
        solve(lambda h: -1e4 * h, max_num_steps=20)
    for twin in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert str(twin) == str(caught.value)
        assert (twin.time, twin.sample, twin.unit) == (caught.value.time, caught.value.sample, caught.value.unit)
        assert torch.equal(twin.trajectory.hs, caught.value.trajectory.hs)
