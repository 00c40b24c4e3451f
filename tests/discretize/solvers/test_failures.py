"""What a solve says when it cannot go on, and what its trajectory knows between the times that were asked for."""

import copy
import math
import pickle

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, Checkpointed, ContinuousRNN, DiscreteCell, SolverError, SolverWarning, integrate, unroll

SOME = ("dopri5", "rodas5p")
TIMES = torch.tensor([0.0, 0.5, 1.0, 3.0], dtype=torch.float64)


class Field(ctrnn.VectorField):
    """dh/dt = f(x, h), of two units."""

    def __init__(self, f):
        super().__init__(1, 2)
        self.f = f

    def flow(self, projected, h):
        return self.f(projected, h)


class NanFrom(ctrnn.Path):
    """x(t) = 1, and nan from some time on in one sample."""

    def __init__(self, start, sample, batch=3):
        self.knots, self.start, self.sample, self.batch = torch.tensor([0.0, 3.0]), start, sample, batch

    def at(self, k, t):
        if t.dim():
            return torch.stack([self.at(k, time) for time in t])
        x = torch.ones(self.batch, 1)
        x[self.sample] = torch.where(t >= self.start, math.nan, 1.0)
        return x

    def slope(self, k, t):
        return torch.zeros_like(self.at(k, t))


def solve(f, method="dopri5", path=None, h0=None, ts=TIMES, **settings):
    path = ctrnn.HeldPath(torch.zeros(1, 3, 1), [0.0, 3.0]) if path is None else path
    return integrate(Field(f), path, torch.full((3, 2), 0.5) if h0 is None else h0, ts, method=method, **settings)


def failure(f, *args, **settings):
    with pytest.raises(SolverError) as caught, torch.no_grad():
        solve(f, *args, **settings)
    error = caught.value
    assert f"t = {error.time:g}" in str(error)
    assert error.cause in str(error)
    assert error.hint in str(error)
    assert error.trajectory.status == f"failed: {error.cause}"
    known = error.trajectory
    assert torch.equal(known.ts, TIMES[: len(known)])
    assert (known.ts <= error.time).all()
    assert len(known) == int((error.time + 1e-9 >= TIMES).sum()) or error.time in TIMES.tolist()
    assert known.hs.isfinite().all()
    return error


@pytest.mark.parametrize("name", dict(ctrnn.gated(2, 3).named_parameters()))
def test_a_weight_that_is_not_finite_is_named_and_not_the_input(name):
    field = ctrnn.gated(2, 3)
    with torch.no_grad():
        dict(field.named_parameters())[name].view(-1)[-1] = torch.nan
    with pytest.raises(SolverError, match=rf"parameter `{name}` holds nan"):
        ContinuousRNN(field, fused=False)(torch.randn(4, 2, 2))


@pytest.mark.kernels
def test_a_kernel_names_a_weight_that_is_not_finite():
    field = ctrnn.gated(2, 3)
    with torch.no_grad():
        field.rate.weight_h.view(-1)[-1] = torch.nan
        rnn = ContinuousRNN(field, fused="always")
        with pytest.raises(SolverError, match=r"parameter `rate\.weight_h` holds nan"):
            rnn(torch.randn(4, 2, 2))


@pytest.mark.parametrize("method", SOME)
def test_nan_in_the_input_is_said_to_be_in_the_input(method):
    error = failure(lambda x, h: x - h, method, NanFrom(1.7, 2), rtol=1e-3, atol=1e-3)
    assert "the input is nan there" in error.cause
    assert "path" in error.hint
    assert error.sample == 2
    assert error.time == pytest.approx(1.7, abs=1e-6)
    # Up to there the states are those of x = 1.
    assert_close(error.trajectory.hs[:, 0, 0], 1 - 0.5 * torch.exp(-TIMES[:3]), rtol=0, atol=1e-2)


@pytest.mark.parametrize("method", SOME)
def test_nan_from_the_field_is_said_to_be_the_fields(method):
    def f(x, h):
        bad = torch.zeros_like(h)
        bad[1, 1] = torch.where(h[1, 1] < 0.25, math.nan, 0.0)
        return bad - h

    error = failure(f, method, rtol=1e-3, atol=1e-3)
    assert "the field gives nan there" in error.cause
    assert "input" not in error.cause
    assert error.sample == 1
    # An implicit step mixes the units of a sample; in the others nan stays where it is.
    assert error.unit == 1 or method == "rodas5p"
    assert error.time == pytest.approx(math.log(2), abs=1e-2)  # exp(-t) / 2 = 1/4


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_a_state_that_becomes_infinite_is_said_to_be_the_state(method):
    with pytest.raises(SolverError, match="the state became") as caught:
        solve(lambda x, h: 1e200 * h**3, method, max_step=0.1)
    assert "steps of 0.1" in caught.value.cause
    assert "shorter steps" in caught.value.hint


@pytest.mark.parametrize("method", SOME)
def test_a_blow_up_is_called_one(method):
    """h' = h^2 from 0.8 is infinite at t = 1.25; the others fall to 0."""
    h0 = torch.tensor([[-0.5, -0.1], [-0.3, 0.8], [-0.2, -0.1]])
    error = failure(lambda x, h: h**2, method, h0=h0, rtol=1e-3, atol=1e-3)
    assert "grows without bound" in error.cause
    assert "blow up" in error.hint
    assert (error.sample, error.unit) == (1, 1)
    assert error.time == pytest.approx(1.25, abs=0.05)
    assert_close(error.trajectory.hs[2, 1, 1], torch.tensor(4.0), rtol=0.05, atol=0)


@pytest.mark.parametrize("method", ["dopri5", "bosh3"])
def test_stiffness_is_called_stiffness_and_rodas5p_is_named(method):
    rates = torch.tensor([[1.0], [1.0], [1e5]])
    error = failure(lambda x, h: rates[: len(h)] * (torch.cos(h) - h), method, max_num_steps=300)
    assert "300 steps were not enough" in error.cause
    assert "stiff" in error.hint
    assert "about 1.67e+05" in error.hint  # 1e5 (1 + sin h) where cos h = h
    assert "method='rodas5p'" in error.hint
    assert error.sample == 2
    assert error.trajectory.stats["num_steps"] == 300
    # What was advised works.
    solved = solve(lambda x, h: rates[: len(h)] * (torch.cos(h) - h), "rodas5p", max_num_steps=300)
    assert_close(solved.hs[-1, 2], torch.cos(solved.hs[-1, 2]), rtol=0, atol=1e-8)


@pytest.mark.parametrize("method", SOME)
def test_too_few_steps_for_a_field_that_is_not_stiff_are_not_called_stiffness(method):
    error = failure(lambda x, h: 30 * torch.stack([-h[:, 1], h[:, 0]], -1), method, max_num_steps=15, rtol=1e-7, atol=1e-9)
    assert "15 steps were not enough" in error.cause
    assert "stiff" not in error.hint
    assert "max_num_steps" in error.hint


def test_min_step_accepts_steps_that_short_and_warns_and_counts_them():
    def f(x, h):
        return torch.where(h > 0.4, -1.0, -50.0)  # falls off an edge at t = 0.1

    with pytest.warns(SolverWarning, match=r"accepted at min_step=0.01 .* the first at t = 0\.") as caught, torch.no_grad():
        solved = solve(f, rtol=1e-9, atol=1e-9, min_step=0.01)
    assert len(caught) == 1
    assert "not to the tolerance" in str(caught[0].message)
    forced = solved.stats["num_forced_steps"]
    assert 1 <= forced <= 3 * 5  # some for each of three samples
    assert solved.stats["smallest_step"] >= 0.01 / 5  # a landing may be shorter
    # A step of 0.01 over the edge is off by at most 50 x 0.01.
    assert_close(solved.hs[1], torch.full((3, 2), 0.4 - 50 * 0.4), rtol=0, atol=0.5)


def test_a_jump_that_no_step_is_short_enough_for_names_min_step():
    jumping = lambda x, h: torch.where(h > 0.3, -1.0, 1.0) * 1e3  # noqa: E731
    error = failure(jumping, h0=torch.full((3, 2), 0.3), rtol=0, atol=2e-15, max_num_steps=1000)
    assert "no step down to" in error.cause
    assert "min_step" in error.hint


def test_min_step_does_not_hold_on_to_what_is_not_finite():
    error = failure(lambda x, h: torch.where(h < 0.4, math.nan, -h), min_step=0.01)
    assert "the field gives nan there" in error.cause


def test_min_step_is_silent_where_no_step_was_forced():
    solved = solve(lambda x, h: -h, min_step=1e-3)
    assert solved.stats["num_forced_steps"] == 0


@pytest.mark.slow
def test_a_stiff_solve_that_got_there_gives_the_hint_with_its_answer():
    with pytest.warns(SolverWarning, match="stiff"):
        solved = solve(lambda x, h: 3e3 * (1 - h), rtol=1e-3, atol=1e-3)
    assert "rodas5p" in solved.stats["hint"]
    assert solve(lambda x, h: 1 - h).stats["hint"] is None
    assert solve(lambda x, h: 3e3 * (1 - h), "rodas5p").stats["hint"] is None


# Between the times that were asked for


def solve_gated(ts, method="dopri5", path=ctrnn.LinearPath, seed=0, **settings):
    torch.manual_seed(seed)
    field, xs, h0 = ctrnn.gated(2, 3), torch.randn(6, 2, 2), torch.randn(2, 3)
    field_path = path(xs) if path is ctrnn.LinearPath else path(xs[:-1])
    return integrate(field, field_path, h0, torch.as_tensor(ts), method=method, **settings), field


ASKED = [0.0, 0.7, 2.0, 4.5]


@pytest.mark.parametrize(
    ("method", "path"),
    [("dopri5", ctrnn.HeldPath), ("rk4", ctrnn.LinearPath), ("rodas5p", ctrnn.HeldPath)]
    + [pytest.param(m, p, marks=pytest.mark.slow) for m in ("dopri8", "rodas5p", "euler") for p in (ctrnn.LinearPath,)],
)
def test_a_trajectory_called_at_a_time_is_what_asking_for_it_gives(method, path):
    settings = {"max_step": 0.05} if method in ("rk4", "euler") else {"rtol": 1e-6, "atol": 1e-7}
    trajectory, _ = solve_gated(ASKED, method, path, **settings)
    new = [0.2, 1.0, 1.3, 2.7, 3.0, 4.4]
    asked, _ = solve_gated(sorted({*ASKED, *new}), method, path, **settings)
    expected = asked.hs[[i for i, t in enumerate(asked.ts.tolist()) if t in new]]
    # Other steps: a few tolerances, or of the fixed methods those of their own lengths.
    close = {"rtol": 0, "atol": {"rk4": 1e-6, "euler": 2e-2}.get(method, 1e-5)}
    assert_close(trajectory(torch.tensor(new)), expected, **close)
    for t, h in zip(new, expected, strict=True):
        assert_close(trajectory(t), h, **close)
    assert torch.equal(trajectory.ts, torch.tensor(ASKED))


def test_times_between_come_in_any_order_and_more_than_once():
    trajectory, _ = solve_gated(ASKED)
    times = torch.tensor([3.0, 0.2, 2.0, 3.0, 4.5, 0.0, 1.3, 0.2, 0.7])
    got = trajectory(times)
    assert got.shape == (9, 2, 3)
    assert torch.equal(got[0], got[3])
    assert torch.equal(got[1], got[7])
    in_order = trajectory(times.unique())
    for i, t in enumerate(times.tolist()):
        assert torch.equal(got[i], in_order[times.unique().tolist().index(t)])
    for i, place in ((2, 2), (4, 3), (5, 0), (8, 1)):
        assert torch.equal(got[i], trajectory.hs[place]), "known times are the known states, to the bit"
    assert trajectory(torch.tensor([1.3]))[0].equal(trajectory(1.3))


def test_every_sequence_is_asked_at_times_of_its_own():
    tight = {"rtol": 1e-7, "atol": 1e-8}
    trajectory, _ = solve_gated(ASKED, **tight)
    own = torch.tensor([[3.0, 0.1], [0.2, 4.5], [2.0, 2.0], [2.0, 1.1]])
    got = trajectory(own)
    for j in range(2):
        assert_close(got[:, j], trajectory(own[:, j])[:, j], rtol=0, atol=1e-6)
    # And a solve that was asked at times of its own answers at shared ones.
    theirs, _ = solve_gated([[0.0, 0.0], [0.7, 1.0], [4.5, 4.5]], **tight)
    assert_close(theirs(torch.tensor([0.3, 4.5, 1.0])), trajectory(torch.tensor([0.3, 4.5, 1.0])), rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="times for 3 sequences, the trajectory has 2"):
        trajectory(torch.zeros(2, 3))


@torch.no_grad()
def test_a_sequence_that_ends_before_the_others_is_known_up_to_its_end():
    # h = t - 1 + exp(-t), in many times to a step; the last step of the second ends at 1.
    path = ctrnn.LinearPath(torch.tensor([0.0, 5.0])[:, None, None].expand(2, 2, 1), [0.0, 5.0])
    own = torch.tensor([[0.0, 0.0], [5.0, 1.0]])
    trajectory = integrate(Function(), path, torch.zeros(2, 1), own, rtol=1e-6, atol=1e-6)
    times = own[1] * torch.linspace(0, 1, 200)[:, None]
    assert_close(trajectory(times)[..., 0], times - 1 + torch.exp(-times), rtol=0, atol=1e-6)


@pytest.mark.kernels
@pytest.mark.parametrize(
    "how", [{"fused": "always"}, {"fused": False}, {"gradient": Checkpointed(1e4), "fused": False}, {"gradient": Adjoint()}]
)
def test_states_between_are_the_same_numbers_whether_or_not_a_gradient_is_wanted(how):
    trajectory, _ = solve_gated(ASKED, rtol=1e-3, atol=1e-3, **how)
    assert (trajectory.stats["engine"] == "compiled") == ("always" in how.values())
    times = torch.tensor([0.2, 1.3, 4.4])
    with torch.no_grad():
        plain = trajectory(times)
    wanted = trajectory(times)
    assert wanted.requires_grad
    assert_close(wanted, plain, rtol=0, atol=1e-14)


def test_a_time_beyond_an_end_by_a_rounding_is_the_end():
    trajectory, _ = solve_gated(ASKED)
    assert torch.equal(trajectory(math.nextafter(4.5, 5)), trajectory.hs[-1])


def test_copies_from_other_processes_know_their_own_times_only():
    with torch.no_grad():
        trajectory, _ = solve_gated(ASKED)
    away = pickle.loads(pickle.dumps(trajectory))
    assert torch.equal(away.hs, trajectory.hs)
    with pytest.raises(ValueError, match="not a solve, or a copy of one"):
        away(1.0)
    cell = DiscreteCell(ctrnn.gated(2, 3))
    with pytest.raises(ValueError, match="not a solve, or a copy of one"):
        unroll(cell, torch.zeros(4, 2, 2))(1.0)


@pytest.mark.parametrize("t", [-0.1, 4.6, math.inf, math.nan, [0.3, 5.0]])
def test_times_outside_are_refused(t):
    trajectory, _ = solve_gated(ASKED)
    with pytest.raises(ValueError, match="`t`"):
        trajectory(torch.tensor(t))


class Function(ctrnn.VectorField):
    """dh/dt = p x - h, all samples at the times of all."""

    def __init__(self):
        super().__init__(1, 1)
        self.p = torch.nn.Parameter(torch.tensor(1.0))

    def flow(self, projected, h):
        return self.p * projected - h


WAYS = {
    "kernel": lambda method: (ctrnn.gated(2, 3), ctrnn.LinearPath(torch.randn(6, 2, 2)), {"method": method}),
    "steps": lambda method: (ctrnn.gated(2, 3), ctrnn.LinearPath(torch.randn(6, 2, 2)), {"method": method, "fused": False}),
    "held": lambda method: (ctrnn.lstm(2, 3), ctrnn.HeldPath(torch.randn(5, 2, 2)), {"method": method}),
    "together": lambda method: (
        Function(), ctrnn.FunctionPath(lambda t: torch.sin(t) * torch.ones(2, 1), (0.0, 5.0), 1), {"method": method},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("way", "method"),
    [
        ("kernel", "dopri5"),
        ("held", "dopri5"),
        ("steps", "rodas5p"),
        ("together", "bosh3"),
        # The slow run takes each method on the other equation as well, by the same code between its steps.
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("steps", "bosh3"), ("together", "rodas5p"))),
    ],
)
def test_between_its_times_a_trajectory_has_the_weights_of_its_solve(way, method):
    """The weights are changed in place, as an optimizer changes them; the states are those of an untouched copy."""
    field, path, settings = WAYS[way](method)
    twin = copy.deepcopy(field)
    h0, tight = torch.randn(2, field.state_size), settings | {"rtol": 1e-5, "atol": 1e-7}
    new, own = torch.tensor([0.3, 2.9, 2.0, 4.5]), torch.tensor([[0.3, 4.4], [1.0, 0.1]])
    with torch.no_grad():
        trajectory = integrate(field, path, h0, torch.tensor(ASKED), **tight)
        expected = integrate(twin, path, h0, torch.tensor([*ASKED[:1], 0.1, 0.3, 1.0, 2.0, 2.9, 4.4, 4.5]), **tight).hs
        for parameter in field.parameters():
            parameter.add_(torch.randn_like(parameter))
        # To within a few tolerances of 1e-5: other steps.
        assert_close(trajectory(new), expected[[2, 5, 4, 7]], rtol=0, atol=2e-4)
        assert torch.equal(trajectory(new)[2:], trajectory.hs[[2, 3]])
        theirs = torch.stack([torch.stack([expected[2, 0], expected[6, 1]]), torch.stack([expected[3, 0], expected[1, 1]])])
        assert_close(trajectory(own), theirs, rtol=0, atol=2e-4)


def test_states_between_two_times_cost_no_solve():
    calls = 0

    class Counted(Function):
        def flow(self, projected, h):
            nonlocal calls
            calls += 1
            return super().flow(projected, h)

    path = ctrnn.LinearPath(torch.randn(6, 2, 1))
    with torch.no_grad():
        trajectory = integrate(Counted(), path, torch.zeros(2, 1), torch.tensor([0.0, 5.0]), rtol=1e-10, atol=1e-10)
        asked, calls = calls, 0
        trajectory(torch.linspace(4.1, 4.9, 100))
        many, calls = calls, 0
        trajectory(torch.tensor([4.2, 4.8]))
    # All times at once: two steps of dopri5, to the middle and the end of each that was taken, or one to each time; a solve
    # takes hundreds of steps.
    assert 0 < calls <= many <= 2 * 7
    assert many < asked / 50


@pytest.mark.parametrize(("method", "order"), [("bosh3", 3), ("dopri5", 5), ("tsit5", 5), ("dopri8", 8), ("rodas5p", 5)])
@torch.no_grad()
def test_between_two_steps_the_states_are_continuous_and_of_the_order_of_the_method(method, order):
    # dh/dt = x - h with x = t: h = t - 1 + (1 + h0) exp(-t). One step of a length of 1 is halved again and again.
    field, path = Function(), ctrnn.LinearPath(torch.tensor([0.0, 5.0])[:, None, None], [0.0, 5.0])
    t = torch.linspace(0.0, 5.0, 1001)
    exact = t - 1 + torch.exp(-t)
    few = torch.arange(100, 1000, 199)  # one to a step
    worst = []
    for length in (1.0, 0.5):
        bounds = {"rtol": 0.5, "atol": 0.5, "max_step": length, "first_step": length}  # all of one length
        trajectory = integrate(field, path, torch.zeros(1, 1), torch.tensor([0.0, 5.0]), method=method, **bounds)
        h = trajectory(t)
        assert_close(h[few], trajectory(t[few]), rtol=0, atol=2 * float((h[:, 0, 0] - exact).abs().max()))
        worst.append(float((h[:, 0, 0] - exact).abs().max()))
    assert math.log2(worst[0] / worst[1]) > order - 0.7
    assert float(h[:, 0, 0].diff().abs().max()) < 6e-3, "the largest slope is 1, and times are 0.005 apart"


@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_states_between_are_refused_after_the_weights_changed(way):
    field, path, settings = WAYS[way]("dopri5")
    trajectory = integrate(field, path, torch.randn(2, field.state_size), torch.tensor(ASKED), **settings)
    between = trajectory(1.3).detach()
    trajectory(1.3).sum().backward(retain_graph=True)
    with torch.no_grad():
        next(field.parameters()).mul_(1.1)
    with pytest.raises(RuntimeError, match="was written into since the solve"):
        trajectory(1.3)
    with torch.no_grad():
        assert_close(trajectory(1.3), between, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["dopri5", pytest.param("rodas5p", marks=pytest.mark.slow), "rk4"])
def test_gradients_flow_through_times_in_between(method):
    settings = {"max_step": 0.1} if method == "rk4" else {"rtol": 1e-6, "atol": 1e-7}
    weights = torch.randn(2, 2, 3)
    new = torch.tensor([2.7, 1.3])
    trajectory, field = solve_gated(ASKED, method, **settings)
    between = torch.autograd.grad((trajectory(new) * weights).sum(), list(field.parameters()))
    asked, twin = solve_gated(sorted({*ASKED, 1.3, 2.7}), method, **settings)
    expected = torch.autograd.grad((asked.hs[[4, 2]] * weights).sum(), list(twin.parameters()))
    for ours, theirs in zip(between, expected, strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-5)
    h0 = torch.randn(2, 3, requires_grad=True)
    h = integrate(field, ctrnn.LinearPath(torch.randn(6, 2, 2)), h0, torch.tensor(ASKED), method=method, **settings)(3.1)
    assert torch.autograd.grad(h.sum(), h0)[0].abs().sum() > 0
