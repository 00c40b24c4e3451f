"""Exact integration against closed forms, SciPy, and the theorem of time warping."""

import dataclasses
import math
import re

import numpy as np
import problems
import pytest
import references
import torch
import torchdiffeq
from torch.testing import assert_close

import ctrnn
from discretize import (
    ETDRK4,
    Adjoint,
    BackwardEuler,
    Checkpointed,
    ContinuousRNN,
    DiscreteCell,
    DiscreteRNN,
    Euler,
    ExponentialEuler,
    Step,
    integrate,
    unroll,
)

NAMED = problems.NAMED_FIELDS
# |h|^r h has no second derivative at 0 for r <= 1, and no solver's error estimate holds across that corner.
CORNERED = ["gated power 0.5", "gated power 1"]
SMOOTH = [name for name in NAMED if name not in CORNERED]
# rtol, atol at which a solve is taken as exact to 1e-8
TIGHT = {"rtol": 1e-10, "atol": 1e-11}


def recording(time=8, batch=3, features=2):
    return torch.randn(time, batch, features)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gated power 2", "held"), ("lstm", "held"), ("gru", "linear")]
    + [pytest.param(name, kind, marks=pytest.mark.slow) for name in NAMED for kind in ("held", "linear")],
)
def test_exact_integration_agrees_with_dop853_restarted_at_each_knot(name, kind):
    field, xs = NAMED[name](2, 4), recording(5, 2)
    h0 = 0.5 * torch.randn(2, field.state_size)
    if kind == "held":
        path, knots, signal = ctrnn.HeldPath(xs), torch.arange(6.0), references.held
    else:
        path, knots, signal = ctrnn.LinearPath(xs), torch.arange(5.0), references.linear
    ts = torch.tensor([0.3, 1.0, 1.7, 1.9, 4.0])
    expected = references.dop853(field, signal(xs, knots), knots, h0, ts)
    tolerances = TIGHT if name in SMOOTH else {"rtol": 1e-11, "atol": 1e-12}
    with torch.no_grad():
        solved = integrate(field, path, h0, ts, method="dopri8", **tolerances)
    assert torch.equal(solved.hs[0], h0)
    assert torch.equal(solved.ts, ts)
    assert_close(solved.hs, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("make", [problems.free_leaky, problems.free_power, problems.linear])
@pytest.mark.parametrize("method", ["dopri5", "dopri8", "rk4"])
def test_solutions_in_closed_form_are_met(make, method):
    problem = make()
    path = ctrnn.HeldPath(problem.x[None], torch.tensor([0.0, 3.0]))
    ts = torch.tensor([0.0, 0.7, 1.9, 3.0])
    tolerance = 1e-9
    fixed = {"max_step": 1 / 128} if method == "rk4" else {"rtol": tolerance, "atol": tolerance / 10}
    with torch.no_grad():
        solved = integrate(problem.field, path, problem.h0, ts, method=method, **fixed)
    assert_close(solved.hs, torch.stack([problem.solution(t) for t in ts]).detach(), rtol=0, atol=30 * tolerance)


@pytest.mark.each_value
@pytest.mark.parametrize("settings", [{"method": "euler"}, {"method": Euler()}, {"method": Euler(), "max_step": 1.0}])
@pytest.mark.parametrize("name", NAMED)
def test_euler_on_the_unit_grid_is_the_unrolled_cell(name, settings):
    field, xs = NAMED[name](2, 3), recording()
    h0 = torch.randn(3, field.state_size)
    expected = unroll(DiscreteCell(field, allow_overshoot=True), xs, h0).hs
    solved = integrate(field, ctrnn.HeldPath(xs), h0, torch.arange(9.0), **settings)
    assert_close(solved.hs, expected, rtol=1e-11, atol=1e-13)  # rounding, which |h|^3 h makes grow


def test_a_step_map_takes_the_speed_of_the_clock_where_its_step_begins():
    field, warp, h0 = NAMED["gated per unit"](2, 3), ctrnn.SmoothWarp.random(7.0, 3.0), torch.randn(3, 3)
    path = ctrnn.WarpedPath(ctrnn.LinearPath(recording()), warp)
    ts = torch.linspace(0, 7, 4)
    ours = integrate(field, path, h0, ts, method=Euler(), max_step=0.3, speed=warp.speed)
    # The Euler of solvers sees the closed right side: eq. (7) of Tallec and Ollivier, stepped as (8).
    theirs = integrate(field, path, h0, ts, method="euler", max_step=0.3, speed=warp.speed)
    assert_close(ours.hs, theirs.hs, rtol=0, atol=1e-13)
    assert not torch.allclose(ours.hs, integrate(field, path, h0, ts, method=Euler(), max_step=0.3).hs)


def test_fixed_steps_are_equal_and_at_most_dt_between_knots_and_times():
    field, path = ctrnn.plain(1, 1), ctrnn.HeldPath(torch.randn(2, 1, 1), torch.tensor([0.0, 1.0, 1.3]))
    solved = integrate(field, path, torch.zeros(1, 1), torch.tensor([0.0, 0.5, 1.3]), method="euler", max_step=0.2)
    # [0, 0.5] and [0.5, 1] take 3 steps of 1/6, [1, 1.3] takes 2 of 0.15
    assert solved.stats["num_steps"] == solved.stats["nfe"] == 8
    assert solved.stats["smallest_step"] == pytest.approx(0.15)
    tenths = integrate(field, path, torch.zeros(1, 1), torch.tensor([0.1, 0.4]), method=Euler(), max_step=0.1)
    assert tenths.stats["num_steps"] == 3  # 0.4 - 0.1 is 0.30000000000000004


def test_a_step_map_need_not_be_hashable():
    @dataclasses.dataclass
    class Theta(Step):
        theta: float = 0.5
        order, evaluations = 1, 1

        def advance(self, field, projected, h, dt):
            return h + dt * field.flow(projected, h)

    field = ctrnn.plain(2, 3)
    assert torch.equal(call(field=field, method=Theta(), max_step=0.5).hs, call(field=field, method=Euler(), max_step=0.5).hs)


@pytest.mark.parametrize("method", ["euler", "midpoint", "heun2", "heun3", "rk4"])
def test_fixed_steps_are_torchdiffeqs(method):
    field, xs, h0 = NAMED["gated per unit"](2, 3), recording(time=5), torch.randn(3, 3)
    path, ts = ctrnn.LinearPath(xs), torch.arange(5.0)
    ours = integrate(field, path, h0, ts, method=method, max_step=0.25).hs
    clock = torch.linspace(0, 4, 17, dtype=torch.float64)
    theirs = torchdiffeq.odeint(lambda t, h: field(path(t), h), h0, clock, method=method)[::4]
    assert_close(ours, theirs, rtol=0, atol=1e-13)  # the same formulas, summed in another order


def clocks(seed: int, duration: float):
    """Clocks over a recording of that duration, with times at which to look, at the corners and between them."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(n):
        return torch.rand(n, generator=generator, dtype=torch.float64)

    speed = float(10 ** (2 * uniform(1) - 1))  # 0.1 to 10
    lasts = 0.2 + 4 * uniform(int(duration))
    repeats = torch.randint(1, 5, (int(duration),), generator=generator).double()
    readings = torch.arange(int(duration) + 1, dtype=torch.float64)

    def ticks(steps):
        return torch.cat([torch.zeros(1, dtype=torch.float64), steps.cumsum(0)])

    yield ctrnn.AffineWarp(speed, -speed * float(uniform(1)))
    yield ctrnn.PiecewiseWarp(ticks(lasts), readings)
    yield ctrnn.PiecewiseWarp(ticks(repeats), readings)
    yield ctrnn.SmoothWarp.random(duration, 1 + 4 * float(uniform(1)), generator=generator)


def deviation(field, path, warp, tolerance, times=7):
    """How far the warped model at t lies from the model at c(t), in tolerances."""
    start, end = path.interval
    h0 = 0.5 * torch.randn(path.xs.shape[1], field.state_size)
    shown = torch.linspace(start, end, times)
    settings = {"rtol": tolerance, "atol": tolerance}
    with torch.no_grad():
        original = integrate(field, path, h0, shown, **settings)
        warped = integrate(field, ctrnn.WarpedPath(path, warp), h0, warp.inverse(shown), speed=warp.speed, **settings)
    return float((warped.hs - original.hs).abs().max()) / tolerance


@pytest.mark.parametrize(
    ("name", "path_kind"),
    [("lstm", ctrnn.HeldPath), ("gated power 2", ctrnn.LinearPath)]
    + [pytest.param(name, kind, marks=pytest.mark.slow) for name in SMOOTH for kind in (ctrnn.HeldPath, ctrnn.LinearPath)],
)
def test_the_warped_field_on_the_warped_input_lands_on_the_warped_solution(name, path_kind):
    path = path_kind(recording(4))
    for warp in clocks(7, path.interval[1]):
        # Both solves are within a few tolerances of the truth.
        assert deviation(NAMED[name](2, 3), path, warp, 1e-6) < 10, warp


@pytest.mark.slow
def test_warp_invariance_holds_at_hundreds_of_random_speeds():
    fields = [NAMED[name](2, 2) for name in SMOOTH]
    worst = 0.0
    for seed in range(26):
        torch.manual_seed(seed)
        path = ctrnn.HeldPath(torch.randn(3, 1, 2))
        for n, warp in enumerate(clocks(seed, 3.0)):  # four clocks, of which two have a speed for each sample: 208 speeds
            worst = max(worst, deviation(fields[(seed + n) % len(fields)], path, warp, 1e-6, times=3))
    assert worst < 10


def test_repeating_every_sample_is_the_theorem_for_a_constant_speed():
    repeats = 3
    field, xs, h0 = NAMED["gru"](2, 3), recording(), torch.randn(3, 3)
    repeated = ctrnn.HeldPath(xs.repeat_interleave(repeats, 0))
    slow = ctrnn.AffineWarp(1 / repeats)
    path, ts, fine = ctrnn.HeldPath(xs), torch.arange(9.0), {"method": "dopri8", **TIGHT}
    with torch.no_grad():
        original = integrate(field, path, h0, ts, **fine)
        slowed = integrate(field, repeated, h0, repeats * ts, speed=slow.speed, **fine)
        warped = integrate(field, ctrnn.WarpedPath(path, slow), h0, repeats * ts, speed=slow.speed, **fine)
    assert_close(slowed.hs, original.hs, rtol=0, atol=1e-10)
    assert_close(warped.hs, original.hs, rtol=0, atol=1e-10)


def test_a_speed_may_be_a_bare_function_of_time():
    field, path, h0 = NAMED["plain"](2, 3), ctrnn.LinearPath(recording(4)), torch.randn(3, 3)
    warp = ctrnn.SmoothWarp.random(3.0, 2.0)
    ts = torch.linspace(0, 3, 3)
    with torch.no_grad():
        by_path = integrate(field, ctrnn.WarpedPath(path, warp), h0, ts, speed=warp.speed, rtol=1e-6, atol=1e-6)
        by_function = integrate(
            field, ctrnn.WarpedPath(path, warp), h0, ts, speed=lambda t: float(warp.speed(t)), rtol=1e-6, atol=1e-6
        )
    assert_close(by_function.hs, by_path.hs, rtol=0, atol=1e-5)


def test_the_gradient_at_the_zero_state_under_slow_forgetting_is_finite():
    field = ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(0.5))
    solved = integrate(field, ctrnn.HeldPath(recording(3)), torch.zeros(3, 3, requires_grad=True), torch.arange(4.0))
    solved.hs.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in field.parameters())


class Solved(torch.nn.Module):
    """(samples, start) -> states at three times, on a clock of its own."""

    def __init__(self, field, **settings):
        super().__init__()
        self.field, self.settings = field, settings

    def forward(self, xs, h0):
        warp = ctrnn.AffineWarp(0.7)
        path, ts = ctrnn.WarpedPath(ctrnn.LinearPath(xs), warp), torch.tensor([0.0, 1.0, 2.5])
        return integrate(self.field, path, h0, ts, speed=warp.speed, **self.settings).hs


@pytest.mark.parametrize("method", ["rk4", Euler()])
def test_gradients_of_fixed_steps_are_those_of_finite_differences(method):
    solved, batch = Solved(NAMED["gated per unit"](2, 2), method=method, max_step=0.7), 2
    names = [name for name, _ in solved.named_parameters()]

    def call(xs, h0, *weights):
        return torch.func.functional_call(solved, dict(zip(names, weights, strict=True)), (xs, h0))

    xs, h0 = torch.randn(3, batch, 2, requires_grad=True), torch.randn(batch, 2, requires_grad=True)
    assert torch.autograd.gradcheck(call, (xs, h0, *solved.parameters()), fast_mode=True)


@pytest.mark.kernels
@pytest.mark.parametrize("start", [0.0, 1e4])
def test_float32_is_solved_to_its_own_accuracy_wherever_the_clock_stands(start):
    xs = recording(12)
    field = ctrnn.gated(2, 3)
    ts = start + torch.arange(12.0)
    with torch.no_grad():
        fine = {"method": "dopri8", "rtol": 1e-7, "atol": 1e-7, "fused": False}
        exact = integrate(field, ctrnn.LinearPath(xs, ts), torch.zeros(3, 3), ts, **fine).hs
        path = ctrnn.LinearPath(xs.float(), ts.float())
        solved = integrate(field.float(), path, torch.zeros(3, 3, dtype=torch.float32), ts, rtol=1e-6, atol=1e-6).hs
    assert solved.dtype == torch.float32
    # Float32 rounding (6e-8) over some hundred evaluations; a float32 clock at 1e4 would be off by 1e-3.
    assert_close(solved.double(), exact, rtol=0, atol=5e-6)


def test_a_requested_time_is_the_end_of_a_step_and_changes_nothing_else():
    field, path, h0 = NAMED["gated per unit"](2, 3), ctrnn.HeldPath(recording()), torch.randn(3, 3)
    with torch.no_grad():
        few = integrate(field, path, h0, torch.tensor([0.0, 8.0]), rtol=1e-8, atol=1e-8)
        many = integrate(field, path, h0, torch.linspace(0, 8, 101), rtol=1e-8, atol=1e-8)
    assert many.stats["num_accepted_steps"] >= 100
    assert_close(many.hs[-1], few.hs[-1], rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "settings", [{}, {"method": "bosh3"}, {"method": "rk4", "max_step": 0.3}, {"method": Euler(), "max_step": 0.3}]
)
def test_statistics_count_what_the_field_saw(settings):
    calls = []

    class Counted(ctrnn.VectorField):
        def flow(self, projected, h):
            calls.append(1)
            return projected - h

    seen, path = [], ctrnn.HeldPath(recording())
    for end in (3.0, 9.0):
        calls.clear()
        stats = integrate(Counted(2, 2), path, torch.zeros(3, 2), torch.arange(end), **settings).stats
        seen.append((len(calls), stats["nfe"]))
        assert stats["num_steps"] == stats["num_accepted_steps"] + stats["num_rejected_steps"]
        assert 0 < stats["smallest_step"] <= 1
        assert 0 <= stats["smallest_step_at"] < 8
    (few, nfe), (many, more) = seen
    assert many - few == more - nfe > 0
    assert few >= nfe  # some check at the entrance what `flow` returns


def test_a_held_input_is_projected_once_for_the_whole_sequence():
    shapes = []

    class Watched(ctrnn.VectorField):
        def project(self, x):
            shapes.append(tuple(x.shape))
            return 2 * x

        def flow(self, projected, h):
            return projected - h

    integrate(Watched(2, 2), ctrnn.HeldPath(recording()), torch.zeros(3, 2), torch.arange(9.0))
    assert shapes == [(8, 3, 2)]


def zeros(*shape, **settings):
    return torch.zeros(*shape, dtype=torch.float64, **settings)  # parameters of tests are made before float64 is set


def call(**changes):
    field = changes.pop("field", None) or ctrnn.plain(2, 3)
    arguments = {"path": ctrnn.HeldPath(zeros(4, 5, 2)), "h0": zeros(5, 3), "ts": torch.arange(5.0)} | changes
    return integrate(field, arguments.pop("path"), arguments.pop("h0"), arguments.pop("ts"), **arguments)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"field": torch.nn.Linear(2, 3)}, TypeError, "`field` must be a ctrnn.VectorField, got Linear"),
        ({"path": zeros(4, 5, 2)}, TypeError, "wrap samples in `ctrnn.HeldPath`"),
        ({"h0": zeros(4, 3)}, ValueError, "(batch, state) = (5, 3), got (4, 3)"),
        ({"h0": zeros(5, 4)}, ValueError, "the field keeps 3"),
        ({"h0": torch.zeros(5, 3, dtype=torch.float32)}, TypeError, "`h0` is torch.float32"),
        ({"h0": zeros(5, 3, device="meta")}, ValueError, "`h0` is on meta"),
        ({"h0": zeros(5, 3) + math.nan}, ValueError, "`h0` must be finite"),
        ({"h0": np.zeros((5, 3))}, TypeError, "got ndarray"),
        ({"ts": torch.tensor([])}, ValueError, "`ts` is empty"),
        ({"ts": torch.tensor([0.0, 1.0, 1.0])}, ValueError, "repeats at index 2"),
        ({"ts": torch.tensor([0.0, 1.0, 0.5])}, ValueError, "goes back at index 2"),
        ({"ts": torch.tensor([0.0, math.nan])}, ValueError, "`ts` must be finite"),
        ({"ts": torch.tensor([0.0, 4.5])}, ValueError, "`ts` = 4.5 lies outside the interval [0.0, 4.0]"),
        ({"ts": torch.zeros(2, 4)}, ValueError, "`ts` has times for 4 sequences, the path has 5"),
        ({"ts": torch.tensor([[0.0] * 5, [1.0] * 4 + [5.0]])}, ValueError, "(That is sequence 4.)"),
        ({"ts": torch.tensor([[0.0] * 5, [1.0, -1.0, 1.0, 1.0, 1.0]])}, ValueError, "goes back at index 1 in sequence 1"),
        ({"min_step": -1.0}, ValueError, "`min_step` must be at least 0"),
        ({"min_step": 1.0, "method": "rk4"}, ValueError, "`min_step` does not go with `method='rk4'`"),
        ({"min_step": 0.5, "max_step": 0.1}, ValueError, "no step is both"),
        ({"method": "dopry5"}, ValueError, "did you mean 'dopri5'"),
        ({"method": "scipy_solver"}, ValueError, "it leaves autograd"),
        ({"method": "fehlberg2"}, ValueError, "50 to 150 times the tolerance"),
        ({"method": Euler}, TypeError, "`Euler()`, not the class"),
        ({"method": None}, TypeError, "the name of a method or a step map"),
        ({"rtol": -1e-3}, ValueError, "`rtol` must be at least 0"),
        ({"atol": math.nan}, ValueError, "`atol` must be finite"),
        ({"rtol": 0, "atol": 0}, ValueError, "both 0"),
        ({"rtol": "tight"}, TypeError, "`rtol` must be a number"),
        ({"method": "euler", "max_step": 0}, ValueError, "`max_step` must be positive"),
        ({"max_num_steps": 0}, ValueError, "`max_num_steps` must be at least 1"),
        ({"gradient": Adjoint(), "method": Euler()}, ValueError, "the gradient would be wrong"),
        ({"gradient": Adjoint(), "method": "rk4"}, ValueError, "steps that are not its solution"),
        ({"gradient": Adjoint(), "method": "rodas5p"}, ValueError, "what forgets fast would explode"),
        ({"gradient": Adjoint(), "ts": torch.arange(5.0, requires_grad=True)}, ValueError, "no gradients to times"),
        ({"speed": 2.0}, TypeError, "`speed` must be a warp's `speed`"),
        ({"speed": lambda t: -1.0}, ValueError, "`speed` must be finite and at least 0, got -1.0"),
        ({"last_step": 0.1}, TypeError, "last_step"),
        ({"ts": [0.0, 4.0, math.nextafter(4.0, 5.0)]}, ValueError, "several times within 4 ulp of one end"),
        ({"ts": [0, 2**60]}, ValueError, "which float64 cannot tell apart; count from the first"),
        ({"atol": 0.0}, ValueError, "`rtol` alone cannot measure"),
        ({"rtol": 1e-19, "atol": 1e-19}, ValueError, "far below what torch.float64 can tell apart"),
        ({"rtol": 10**400}, TypeError, "`rtol` must be one number"),
        ({"rtol": True}, TypeError, "`rtol` must be a number, got True"),
        ({"gradient": True}, TypeError, "`gradient` must be None, discretize.Checkpointed"),
        ({"dt": 0.1}, TypeError, "`integrate` takes"),
        ({"adjoint": True}, TypeError, "`adjoint` is now `gradient=discretize.Adjoint()`"),
        ({"memory": 1e6}, TypeError, "`memory` is now `gradient=discretize.Checkpointed(bytes)`"),
        ({"path": ctrnn.HeldPath(torch.zeros(4, 5, 2)), "h0": zeros(5, 3)}, TypeError, "`path` is torch.float32"),
    ],
)
def test_bad_input_is_refused_before_anything_is_solved(changes, error, words):
    with pytest.raises(error) as caught:
        call(**changes)
    assert words in str(caught.value)


def test_half_precision_is_refused_where_steps_are_chosen_by_error_and_stepped_otherwise():
    field = ctrnn.plain(2, 3, dtype=torch.bfloat16)
    path, h0 = ctrnn.HeldPath(torch.zeros(4, 5, 2, dtype=torch.bfloat16)), torch.zeros(5, 3, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match="too coarse for steps chosen by their error"):
        integrate(field, path, h0, torch.arange(5.0))
    assert integrate(field, path, h0, torch.arange(5.0), method="euler").hs.dtype == torch.bfloat16


def test_autocast_does_not_reach_into_a_solve():
    field, xs = ctrnn.gated(2, 3, dtype=torch.float32), recording().float()
    path, h0, ts = ctrnn.HeldPath(xs), torch.zeros(3, 3, dtype=torch.float32), torch.arange(9.0)
    plain = integrate(field, path, h0, ts)
    with torch.autocast("cpu", torch.bfloat16):
        cast = integrate(field, path, h0, ts)
    assert torch.equal(cast.hs, plain.hs)


def test_a_single_time_is_the_initial_state():
    solved = integrate(ctrnn.plain(2, 3), ctrnn.HeldPath(recording()), torch.ones(3, 3), torch.tensor([2.0]))
    assert torch.equal(solved.hs, torch.ones(1, 3, 3))
    assert solved.stats["nfe"] == 0


def test_non_contiguous_samples_and_states_give_the_same_answer():
    field, xs, h0 = NAMED["gru"](2, 3), torch.randn(2, 3, 8).permute(2, 1, 0), torch.randn(3, 3).mT
    ts = torch.arange(9.0)
    strided = integrate(field, ctrnn.HeldPath(xs), h0, ts).hs
    assert_close(strided, integrate(field, ctrnn.HeldPath(xs.contiguous()), h0.contiguous(), ts).hs, rtol=0, atol=1e-14)


def test_tolerances_and_steps_may_be_tensors_of_one_number():
    field = ctrnn.plain(2, 3)
    solved = call(field=field, rtol=torch.tensor([1e-5]), atol=np.float64(1e-6))
    assert torch.equal(solved.hs, call(field=field, rtol=1e-5, atol=1e-6).hs)


def test_times_beyond_an_end_by_a_few_ulp_are_the_end():
    ts = torch.tensor([0.0, 4.0 * (1 + 3e-16)])
    assert call(ts=ts).ts[-1] == 4.0


@pytest.mark.parametrize("make", [ctrnn.gated, ctrnn.lstm])
def test_a_batch_without_samples_has_no_states_and_gradients_of_zero_as_in_torch(make):
    field = make(2, 3)
    assert field.initial_state(0).shape == (0, field.state_size)
    for states in nobody(field):
        assert states.shape[-2] == 0
        gradients = torch.autograd.grad(states.sum(), list(field.parameters()))
        assert not any(bool(gradient.any()) for gradient in gradients)


def test_a_sequence_without_samples_has_the_shape_that_torch_gives_it():
    theirs, _ = torch.nn.RNN(2, 3)(torch.randn(4, 0, 2))
    assert theirs.shape == next(nobody(ctrnn.plain(2, 3))).shape


def test_a_sequence_without_times_is_refused():
    with pytest.raises(ValueError, match=r"is empty: shape .*; give at least one sample"):
        DiscreteRNN(ctrnn.plain(2, 3))(torch.randn(0, 2, 2))


@pytest.mark.parametrize(
    ("name", "ours"), [("rk45", "dopri5"), ("RK45", "dopri5"), ("DOP853", "dopri8"), ("Radau", "rodas5p"), ("ode23", "bosh3")]
)
def test_methods_by_their_names_elsewhere_are_answered_by_ours(name, ours):
    with pytest.raises(ValueError, match=f"did you mean '{ours}'"):
        ContinuousRNN(ctrnn.plain(2, 3), method=name)


def nobody(field, **settings):
    """Every way to run a batch of 0, (time, 0, input): the states."""
    x, h0 = torch.randn(4, 0, 2), torch.zeros(0, field.state_size)
    for step in (Euler(), ExponentialEuler(), BackwardEuler(), ETDRK4()):
        yield DiscreteRNN(field, step)(x)[0]
        yield unroll(DiscreteCell(field, step), x).hs
        yield DiscreteCell(field, step)(x[0])
    yield DiscreteRNN(field)(x, lengths=[], ts=torch.zeros(4, 0))[0]
    for method in ("dopri5", "dopri8", "rodas5p", "rk4", Euler()):
        yield ContinuousRNN(field, method)(x)[0]
    for gradient in (Adjoint(), Checkpointed(1e6)):
        yield ContinuousRNN(field, gradient=gradient)(x, lengths=[])[0]
    for path in (ctrnn.HeldPath, ctrnn.LinearPath, ctrnn.HermitePath):
        solved = integrate(field, path(x), h0, torch.arange(3.0))
        yield solved.hs
        assert solved(torch.tensor([0.5, 1.5])).shape == (2, 0, field.state_size)
    yield integrate(field, ctrnn.FunctionPath(lambda t: torch.zeros(0, 2), (0.0, 3.0), 2), h0, torch.arange(3.0)).hs


@pytest.mark.parametrize("make", [ctrnn.gated, ctrnn.lstm, lambda i, h: ctrnn.Noisy(ctrnn.plain(i, h), ctrnn.Noise(0.1))])
def test_without_h0_a_field_starts_from_its_own_initial_state(make):
    field, path, ts = make(2, 3), ctrnn.HeldPath(torch.randn(5, 4, 2)), torch.tensor([0.0, 1.5, 5.0])
    how = {"seed": 3, "method": "euler-maruyama"} if isinstance(field, ctrnn.Noisy) else {}
    given = integrate(field, path, field.initial_state(4), ts, **how)
    for other in (integrate(field, path, ts=ts, **how), integrate(field, path, None, ts, **how)):
        assert_close(other.hs, given.hs, rtol=0, atol=0)


def test_without_h0_a_field_with_delays_starts_from_its_own_initial_state_too():
    class Echo(ctrnn.DelayedField):
        def flow(self, projected, h, past):
            return projected - past[0]

    field, path, ts = Echo(2, 2, delays=[1.0]), ctrnn.HeldPath(torch.randn(5, 4, 2)), torch.tensor([0.0, 2.0, 5.0])
    expected = integrate(field, path, torch.zeros(4, 2), ts)
    assert_close(integrate(field, path, ts=ts).hs, expected.hs, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: integrate(lambda t, h: -h, None, ts=torch.arange(2.0)), "`h0` is missing: an equation"),
        (lambda: integrate(ctrnn.plain(1, 2), ctrnn.HeldPath(torch.zeros(3, 1, 1))), "`integrate` needs `ts`."),
        (lambda: integrate(ctrnn.plain(1, 2), torch.zeros(3, 1, 1), ts=torch.arange(2.0)), "`path` must be a ctrnn.inputs.Path"),
    ],
)
def test_what_is_missing_and_cannot_be_known_is_named(call, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        call()
