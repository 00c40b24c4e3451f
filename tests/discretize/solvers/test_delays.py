"""Delay differential equations: closed forms, characteristic roots, other solvers, central differences, and a line of states."""

import gc
import math
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.special import lambertw
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.solvers import delays as method_of_steps
from discretize.solvers.past import SAME, Lag, breaking_points

TIGHT = {"rtol": 1e-11, "atol": 1e-12}


def fading(t, h, past):
    return -past[0]


class Net(ctrnn.DelayedField):
    """Two delays, an input, and weights for the present and for each of them."""

    def __init__(self, delays=(0.7, 0.31), learn=False):
        super().__init__(2, 3, delays, learn=learn)
        self.weight_x = torch.nn.Linear(2, 3)
        self.weights = torch.nn.ParameterList(torch.randn(3, 3) for _ in range(3))

    def project(self, x):
        return self.weight_x(x)

    def flow(self, projected, h, past):
        return torch.tanh(projected + sum(h @ weight.T for h, weight in zip((h, *past), self.weights, strict=True))) - h


def polynomial(t):
    """h' = -h(t - 1), h = 1 before 0, interval by interval."""
    return sum((-1) ** k * (t - (k - 1)) ** k / math.factorial(k) for k in range(int(t) + 2))


def test_twenty_intervals_are_the_closed_polynomials():
    ts, between = torch.linspace(0, 20, 21), torch.linspace(0.05, 19.95, 50)
    solved = discretize.integrate(fading, None, torch.ones(1, 1), ts, delays=1.0, rtol=1e-7, atol=1e-8)
    for times, hs in ((ts, solved.hs), (between, solved(between))):
        assert_close(hs[:, 0, 0], torch.tensor([polynomial(t) for t in times.tolist()]), rtol=0, atol=1e-6)
    assert solved.stats["engine"] == "steps"
    assert solved.stats["num_steps"] > 20


# A rhythm that stays and one that grows; the slow run adds one that fades, by the same steps.
@pytest.mark.parametrize("delay", [pytest.param(1.3, marks=pytest.mark.slow), math.pi / 2, 1.8])
def test_what_is_left_goes_by_the_rightmost_root(delay):
    """Of z = -exp(-z d); at d = pi/2 it is i, and a rhythm begins."""
    root = lambertw(-delay, 0) / delay
    if delay == math.pi / 2:
        assert abs(root - 1j) < 1e-12
    ts = torch.cat([torch.zeros(1), torch.arange(16.0, 20.0, 0.5)])
    solved = discretize.integrate(fading, None, torch.ones(1, 1), ts, delays=delay, rtol=1e-7, atol=1e-9)
    h = solved.hs[1:, 0, 0].numpy()
    factor = np.exp(0.5 * root)
    assert np.allclose(h[2:], 2 * factor.real * h[1:-1] - abs(factor) ** 2 * h[:-2], rtol=0, atol=1e-5 * abs(h).max())


def mackey_glass(t, h, past):
    return 0.2 * past[0] / (1 + past[0] ** 10) - 0.1 * h


def by_numpy(f, history, delay, end, steps_a_delay):
    """Runge-Kutta of order 4 with cubic polynomials between its steps, written for this test."""
    dt = delay / steps_a_delay
    hs, slopes = [history(0.0)], []

    def before(t):
        place = (t - delay) / dt
        if place <= 0:
            return history(t - delay)
        n = min(int(place), len(slopes) - 2)
        s = place - n
        return (
            (1 + 2 * s) * (1 - s) ** 2 * hs[n]
            + s**2 * (3 - 2 * s) * hs[n + 1]
            + dt * (s * (1 - s) ** 2 * slopes[n] - s**2 * (1 - s) * slopes[n + 1])
        )

    for n in range(round(end / dt)):
        t, h = n * dt, hs[-1]
        k1 = f(h, before(t))
        slopes.append(k1)
        k2 = f(h + dt / 2 * k1, before(t + dt / 2))
        k3 = f(h + dt / 2 * k2, before(t + dt / 2))
        k4 = f(h + dt * k3, before(t + dt))
        hs.append(h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return hs[-1]


@pytest.mark.parametrize(
    "method", ["dopri5", *(pytest.param(method, marks=pytest.mark.slow) for method in ("tsit5", "bosh3", "rodas5p"))]
)
def test_mackey_and_glass_equation_is_solved_as_another_solver_does(method):
    tolerance = {"dopri5": 1e-7, "bosh3": 1e-6}.get(method, 1e-9)
    theirs = by_numpy(lambda h, past: 0.2 * past / (1 + past**10) - 0.1 * h, lambda t: 0.5 + 0.1 * math.sin(t), 17.0, 34.0, 340)
    solved = discretize.integrate(
        mackey_glass,
        None,
        torch.full((1, 1), 0.5),
        torch.tensor([0.0, 34.0]),
        delays=17.0,
        history=lambda t: (0.5 + 0.1 * torch.sin(t)).reshape(1, 1),
        method=method,
        rtol=tolerance,
        atol=tolerance,
    )
    assert abs(float(solved.hs[-1]) - theirs) < 100 * tolerance


OF_TIME = {  # the equation, its delay, its solution
    "proportional": (lambda t, h, past: (torch.exp(t / 2) * past[0] + h) / 2, lambda t: t / 2, torch.exp),
    # Enright and Hayashi 1997, B1, from where its delay is no longer 0
    "vanishing at 1": (lambda t, h, past: 1 - past[0], lambda t: t - torch.exp(1 - 1 / t), torch.log),
}


@pytest.mark.parametrize("name", OF_TIME)
def test_equations_whose_delay_is_a_function_of_time_have_their_known_solutions(name):
    f, delay, exact = OF_TIME[name]
    ts = torch.tensor([1.5, 2.5, 6.0])
    h0 = exact(ts[:1]).expand(2, 1)
    solved = discretize.integrate(f, None, h0, ts, delays=[delay], history=lambda t: exact(t).expand(2, 1), rtol=1e-8, atol=1e-9)
    assert_close(solved.hs[:, 1, 0], exact(ts), rtol=1e-6, atol=0)


def test_a_warp_makes_of_a_constant_delay_one_of_time():
    """Of h'(t) = F(h, h(t - d)) the warped model has the delay t - c^-1(c(t) - d) and the speed c'(t), and the states h(c(t))."""
    warp = ctrnn.SmoothWarp.random(6.0, 3.0, generator=torch.Generator().manual_seed(3))
    assert warp(torch.tensor(1.5)) > 0.9
    torch.manual_seed(1)
    field, h0, ts = Net((0.9, 0.4)), torch.randn(2, 3), torch.linspace(1.5, 3.0, 3)
    xs = torch.randn(6, 2, 2)
    plain, start = ctrnn.LinearPath(xs, torch.linspace(0, 6, 6)), warp(ts[:1])
    asked = warp(ts)
    asked[0] = start

    def seen(d):
        return lambda t: t - warp.inverse((warp(t.reshape(-1)) - d).reshape(-1)).reshape(t.shape)

    warped = Net([seen(0.9), seen(0.4)])
    warped.load_state_dict({name: value for name, value in field.state_dict().items() if name != "delays"}, strict=False)
    theirs = discretize.integrate(field, plain, h0, asked, rtol=1e-3, atol=1e-4)
    path = ctrnn.WarpedPath(plain, warp)
    mine = discretize.integrate(warped, path, h0, ts, speed=warp.speed, rtol=1e-3, atol=1e-4)
    assert_close(mine.hs, theirs.hs, rtol=0, atol=3e-3)  # some tolerances
    constant = discretize.integrate(field, path, h0, ts, speed=warp.speed, rtol=1e-3, atol=1e-3)
    assert (constant.hs - theirs.hs).abs().max() > 1e-2  # the delay has to be warped too


def along_one_direction(loss, sources, apart=1e-4):
    """How the loss changes along one direction through all numbers of all sources, by a central difference and by gradients."""
    ways, before, sides = [torch.randn_like(source) for source in sources], [source.detach().clone() for source in sources], []
    gradients = torch.autograd.grad(loss(), sources)
    with torch.no_grad():
        for sign in (1, -1, 0):
            for source, way, start in zip(sources, ways, before, strict=True):
                source.copy_(start + sign * apart * way)
            sides += [loss()] if sign else []
    return (sides[0] - sides[1]) / (2 * apart), sum((g * way).sum() for g, way in zip(gradients, ways, strict=True))


@pytest.mark.parametrize("kind", ["a function", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("nothing", "a state"))])
def test_gradients_are_central_differences(kind):
    """The delays' as well, where the history does not end in h0, and jumps are seen again later."""
    torch.manual_seed(0)
    field, x, h0 = Net((0.7, 0.4), learn=True), torch.randn(2, 2, 2).requires_grad_(), torch.randn(2, 3).requires_grad_()
    held, speed, ts = torch.randn(2, 3).requires_grad_(), torch.tensor(0.8).requires_grad_(), torch.tensor([0.0, 0.35, 1.2])
    history = {"nothing": None, "a state": held, "a function": lambda t: held * torch.cos(speed * t) + 0.2 * t}[kind]
    sources = {"delays": field.delays, "weights": field.weights[1], "x": x, "h0": h0}
    sources |= {"nothing": {}, "a state": {"held": held}, "a function": {"held": held, "speed": speed}}[kind]

    def loss():
        solved = discretize.integrate(field, ctrnn.HeldPath(x), h0, ts, history=history, rtol=1e-5, atol=1e-6)
        return (solved.hs[1:] * torch.linspace(-1, 1, 12).reshape(2, 2, 3)).sum()

    by_difference, by_gradient = along_one_direction(loss, [*sources.values()])
    assert_close(by_difference, by_gradient, rtol=0, atol=1e-4)


def test_the_delay_of_an_equation_has_a_gradient():
    # Of h' = -h(t - d), h = 1 before 0: on [d, 2 d] it is 1 - t + (t - d)^2 / 2.
    delay = torch.tensor([0.8], requires_grad=True)
    solved = discretize.integrate(fading, None, torch.ones(1, 1), torch.tensor([0.0, 1.6]), delays=delay, **TIGHT)
    (gradient,) = torch.autograd.grad(solved.hs[-1].sum(), delay)
    assert_close(gradient, torch.tensor([-0.8]), rtol=0, atol=1e-8)


def test_second_derivatives_of_delays_are_refused():
    field, loss = late(0.9, history=0.3)
    (gradient,) = torch.autograd.grad(loss, field.delays, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives with `delays that are learned`"):
        torch.autograd.grad(gradient.sum(), field.delays)


def test_second_derivatives_of_weights_are_central_differences_of_the_first():
    torch.manual_seed(0)
    net, path, how = Net((0.7, 0.4)), ctrnn.LinearPath(torch.randn(3, 1, 2)), {"rtol": 1e-5, "atol": 1e-6}

    def slope(apart):
        with torch.no_grad():
            net.weights[1][0, 0] += apart
        end = discretize.integrate(net, path, torch.ones(1, 3), torch.tensor([0.0, 1.2]), **how).hs[-1].sum()
        (first,) = torch.autograd.grad(end, net.weights[1], create_graph=apart == 0)
        return first[0, 0]

    (second,) = torch.autograd.grad(slope(0.0), net.weights[1])
    above, below = slope(1e-3), slope(-2e-3)
    assert_close(second[0, 0], ((above - below) / 2e-3).detach(), rtol=0, atol=1e-4)


# A sum with the delay that rounds and one that is exact; the slow run adds another start that is exact.
@pytest.mark.parametrize("start", [1.4, pytest.param(3.1, marks=pytest.mark.slow), 3.6])
def test_delays_are_learned_from_wherever_a_solve_begins(start):
    # h(t - 0.7) is 1 up to start + 0.7, the delay moves what comes after: of h' = -h(t - d) + sin(h(t - d)) h.
    def end(delay):
        path = ctrnn.HeldPath(torch.zeros(2, 1, 1), torch.tensor([start, 5.0, 6.0], dtype=torch.float64))
        field, ts = Late([delay]), torch.tensor([start, 5.0])
        return field, discretize.integrate(field, path, torch.ones(1, 1), ts, rtol=1e-6, atol=1e-7).hs[-1].sum()

    field, loss = end(0.7)
    (gradient,) = torch.autograd.grad(loss, field.delays)
    with torch.no_grad():
        above, below = (end(0.7 + apart)[1] for apart in (1e-3, -1e-3))
    assert_close(gradient[0], (above - below) / 2e-3, rtol=0, atol=1e-4)


def test_delays_are_learned_along_a_chain_of_solves():
    field, path, how = Late([0.7]), ctrnn.LinearPath(torch.randn(4, 1, 1)), {"rtol": 1e-5, "atol": 1e-6}
    whole = discretize.integrate(field, path, torch.ones(1, 1), torch.tensor([0.0, 2.9]), **how)
    begin = discretize.integrate(field, path, torch.ones(1, 1), torch.tensor([0.0, 1.5]), **how)
    rest = discretize.integrate(field, path, begin.hs[-1], torch.tensor([1.5, 2.9]), history=begin, **how)
    mine, theirs = (torch.autograd.grad(solved.hs[-1].sum(), field.delays)[0] for solved in (rest, whole))
    assert_close(mine, theirs, rtol=0, atol=1e-4)


def test_two_learned_delays_that_see_one_jump_are_refused_but_not_where_nothing_jumps():
    torch.manual_seed(0)
    field, h0, path = Net((0.5, 0.5), learn=True), torch.randn(1, 3), ctrnn.HeldPath(torch.zeros(2, 1, 2))
    with pytest.raises(ValueError, match="Move one of them a little"):
        discretize.integrate(field, path, h0, torch.tensor([0.0, 1.2]), history=h0 + 1)
    solved = discretize.integrate(field, path, h0, torch.tensor([0.0, 1.2]))
    first, second = torch.autograd.grad(solved.hs[-1].sum(), field.delays)[0]
    assert first.abs() > 0
    assert second.abs() > 0


class Late(ctrnn.DelayedField):
    """One unit, whose input and past do not just add up."""

    def __init__(self, delay, learn=True):
        super().__init__(1, 1, delay, learn=learn)

    def flow(self, projected, h, past):
        return projected - past[0] + torch.sin(past[-1]) * h


def late(delay, samples=(0.0, 1.0, -0.5), history=None, rtol=1e-6, **how):
    path = ctrnn.HeldPath(torch.tensor(samples).reshape(-1, 1, 1))
    field = Late([delay]) if isinstance(delay, float) else Late(delay, learn=False)
    given = None if history is None else torch.full((1, 1), history)
    return field, discretize.integrate(
        field, path, torch.ones(1, 1), torch.tensor([0.0, 2.5]), history=given, rtol=rtol, atol=rtol / 10, **how
    ).hs[-1].sum()


LATE = {
    "x jumps where the delay begins to see the solution": {"delay": 1.0, "rtol": 1e-8},
    "and the history does not end in h0": {"delay": 1.0, "history": 0.3, "rtol": 1e-8},
    "on a clock": {"delay": 0.9, "history": 0.3, "speed": lambda t: 1 + 0.5 * torch.sin(3 * t), "rtol": 1e-5},
    "by rodas5p": {"delay": 0.9, "history": 0.3, "method": "rodas5p", "rtol": 1e-4},
}


# The slow run adds an implicit method, whose gradient to a delay comes by the same way.
@pytest.mark.parametrize("kind", [*list(LATE)[:-1], pytest.param("by rodas5p", marks=pytest.mark.slow)])
def test_the_gradient_of_a_delay_is_a_central_difference(kind):
    how = LATE[kind]
    field, loss = late(**how)
    (gradient,) = torch.autograd.grad(loss, field.delays)
    with torch.no_grad():
        above, below = (late(**how | {"delay": how["delay"] + apart})[1] for apart in (1e-4, -1e-4))
    assert_close(gradient[0], (above - below) / 2e-4, rtol=0, atol=1e-4)


def test_the_gradient_of_a_delay_that_varies_in_time_is_a_central_difference():
    def end(number):
        return late([lambda t: number + 0.3 * torch.sin(2 * t)], history=0.3)[1]

    number = torch.tensor(0.9, requires_grad=True)
    (gradient,) = torch.autograd.grad(end(number), number)
    with torch.no_grad():
        above, below = (end(number + apart) for apart in (1e-4, -1e-4))
    assert_close(gradient, (above - below) / 2e-4, rtol=0, atol=1e-4)


def test_knots_of_the_input_that_are_breaking_points_too_are_one():
    # With a delay of 0.1 they are 0.30000000000000004 and 0.3.
    torch.manual_seed(0)
    field, x = Net((0.1,) * 1 + (0.25,)), torch.randn(5, 1, 2)
    path = ctrnn.HeldPath(x, torch.tensor([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], dtype=torch.float64))
    solved = discretize.integrate(field, path, torch.zeros(1, 3), torch.tensor([0.0, 0.5]), rtol=1e-7, atol=1e-7)
    assert solved.stats["smallest_step"] > 1e-4


def test_one_mask_of_dropout_holds_for_all_blocks():
    class Dropping(ctrnn.DelayedField):
        def __init__(self):
            super().__init__(1, 2, [0.5])
            self.part = ctrnn.Dropout(ctrnn.TanhCandidate(1, 2), 0.5)

        def project(self, x):
            return self.part.project(x)

        def flow(self, projected, h, past):
            return self.part.flow(projected, past[0]) - h

    torch.manual_seed(0)
    field = Dropping()
    path, h0, ts = (
        ctrnn.HeldPath(torch.ones(1, 4, 1), torch.tensor([0.0, 16.0])),
        torch.ones(4, 2),
        torch.tensor([0.0, 12.0, 16.0]),
    )
    _, middle, end = discretize.integrate(field, path, h0, ts, rtol=1e-4, atol=1e-5).hs
    assert_close(middle, end, rtol=0, atol=1e-3)  # at rest, as it stays under one mask


def test_a_solve_goes_on_from_another():
    torch.manual_seed(0)
    field, h0 = Net(), torch.randn(2, 3)
    path = ctrnn.LinearPath(torch.randn(3, 2, 2))
    how = {"rtol": 1e-4, "atol": 1e-5}
    whole = discretize.integrate(field, path, h0, torch.tensor([0.0, 1.0, 1.6]), **how)
    begin = discretize.integrate(field, path, h0, torch.tensor([0.0, 1.0]), **how)
    rest = discretize.integrate(field, path, begin.hs[-1], torch.tensor([1.0, 1.6]), history=begin, **how)
    assert_close(rest.hs[-1], whole.hs[-1], rtol=0, atol=1e-3)


def test_samples_step_on_their_own_and_ask_at_times_of_their_own():
    torch.manual_seed(0)
    field, x, h0 = Net(), torch.randn(2, 3, 2), torch.randn(3, 3) * torch.tensor([[0.1], [1.0], [9.0]])
    ts = torch.tensor([[0.0, 0.0, 0.0], [0.5, 1.0, 0.2], [1.1, 1.2, 1.3]])
    solved = discretize.integrate(field, ctrnn.HeldPath(x), h0, ts, rtol=1e-5, atol=1e-6)
    assert len(set(solved.stats["steps_of_samples"])) > 1
    for k in range(3):
        alone = discretize.integrate(field, ctrnn.HeldPath(x[:, k : k + 1]), h0[k : k + 1], ts[:, k], rtol=1e-5, atol=1e-6)
        assert_close(alone.hs[:, 0], solved.hs[:, k], rtol=0, atol=1e-3)


def test_float32_stays_float32():
    solved = discretize.integrate(fading, None, torch.ones(2, 1, dtype=torch.float32), torch.tensor([0.0, 3.0]), delays=1.0)
    assert solved.hs.dtype == torch.float32
    assert abs(float(solved.hs[-1, 0]) - polynomial(3.0)) < 1e-4


def test_a_batch_without_samples_has_no_states():
    assert discretize.integrate(fading, None, torch.ones(0, 1), torch.tensor([0.0, 3.0]), delays=1.0).hs.shape == (2, 0, 1)


@pytest.mark.usefixtures("only_new_garbage")
def test_the_past_of_a_chain_of_short_solves_is_kept_as_long_as_it_is_read():
    ts, past, at, reached = torch.linspace(0, 3, 13), torch.sin, torch.zeros(1, 1), []
    how = {"rtol": 1e-6, "atol": 1e-7}
    whole = discretize.integrate(fading, None, at, ts, delays=1.0, history=lambda t: past(t).reshape(1, 1), **how)
    history, pasts = lambda t: past(t).reshape(1, 1), []
    for k in range(0, 12, 2):
        history = discretize.integrate(fading, None, at, ts[k : k + 3], delays=1.0, history=history, **how)
        at = history.hs[-1]
        reached += history.hs[1:]
        pasts.append(weakref.ref(history.between.__self__.past))
    assert_close(torch.stack(reached), whole.hs[1:], rtol=0, atol=1e-5)
    gc.collect()
    assert sum(each() is not None for each in pasts) == 1
    with pytest.raises(ValueError, match=r"known on \[1.5, 3\], and the longest delay reads it on \[1, 3\]"):
        discretize.integrate(fading, None, at, torch.tensor([3.0, 4.0]), delays=2.0, history=history)


@pytest.mark.kernels
@pytest.mark.parametrize(("fused", "method"), [(False, "dopri5"), ("always", "bosh3"), ("always", "dopri5")])
def test_a_sample_with_fewer_steps_than_its_neighbour_reads_no_step_that_it_did_not_take(fused, method):
    """0.22 + 0.11 - 0.11 is more than 0.22, where a block begins, and its past ends."""
    f = lambda t, h, past: torch.cos(9 * h) + past[0]  # noqa: E731
    how = {"delays": 0.11, "fused": fused, "method": method, "rtol": 1e-5, "atol": 1e-7}

    def solved(h0):
        return discretize.integrate(f, None, h0, torch.tensor([0.0, 2.0]), **how)

    calm, wild = torch.zeros(1, 1), torch.full((1, 1), 3.0)
    alone, beside = solved(calm), solved(torch.cat([calm, wild]))
    assert beside.stats["steps_of_samples"][0] == alone.stats["steps_of_samples"][0]
    assert_close(beside.hs[:, :1], alone.hs, rtol=1e-13, atol=0)


def test_a_held_history_that_jumps_before_a_chain_of_short_solves_is_stepped_to_its_jump():
    held = ctrnn.HeldPath(torch.tensor([1.0, 3.0]).reshape(2, 1, 1), torch.tensor([-1.0, -0.5, 0.0]))
    at, history, steps = torch.ones(1, 1), held, 0
    for k in range(4):
        history = discretize.integrate(fading, None, at, torch.tensor([k, k + 1]) / 4, delays=1.0, history=history, **TIGHT)
        at, steps = history.hs[-1], steps + history.stats["num_rejected_steps"]
    assert_close(at, torch.full((1, 1), 1 - 0.5 - 1.5), rtol=0, atol=1e-12)
    assert steps == 0  # none over the jump


def test_a_state_that_is_moved_between_two_solves_is_seen_to_jump_a_delay_later():
    h0, kick = torch.ones(1, 1), torch.full((1, 1), 0.5, requires_grad=True)
    first = discretize.integrate(fading, None, h0, torch.tensor([0.0, 0.4]), delays=1.0, **TIGHT)
    then = discretize.integrate(fading, None, first.hs[-1] + kick, torch.tensor([0.4, 0.9]), delays=1.0, history=first, **TIGHT)
    last = discretize.integrate(fading, None, then.hs[-1], torch.tensor([0.9, 1.4, 2.0]), delays=1.0, history=then, **TIGHT)
    for t, moved in zip((1.4, 2.0), last.hs[1:], strict=True):
        left = 1 - (t - 1.4)
        assert_close(moved.detach(), torch.full((1, 1), polynomial(t) + 0.5 * left), rtol=0, atol=1e-9)
        assert_close(torch.autograd.grad(moved, kick, retain_graph=True)[0], torch.full((1, 1), left), rtol=0, atol=1e-6)


def test_events_are_found_where_the_closed_form_has_them_and_end_samples():
    # h falls from a h0 by a t, then by the parabola a (1 - t + (t - 1)^2 / 2).
    h0, ts = torch.tensor([[1.0], [0.5], [2.0]]), torch.linspace(0, 6, 7)
    events = [discretize.Event(lambda t, h: h[:, 0] - 0.25), discretize.Event(lambda t, h: h[:, 0] + 0.3, terminal=True)]
    solved = discretize.integrate(fading, None, h0, ts, delays=1.0, events=events, **TIGHT)
    crossed, ended = solved.events
    stops = {k: 2 - math.sqrt(1 - 0.6 / a) for k, a in ((0, 1.0), (2, 2.0))}
    assert crossed.samples.tolist() == [0, 1, 2]
    assert_close(crossed.times, torch.tensor([0.75, 0.5, 0.875]), rtol=0, atol=1e-10)
    assert ended.samples.tolist() == list(stops)
    assert_close(ended.times, torch.tensor(list(stops.values())), rtol=0, atol=1e-9)
    assert [said.split(" at")[0] for said in solved.stats["status_of_samples"]] == [
        "ended by event 1",
        "completed",
        "ended by event 1",
    ]
    between = torch.tensor([0.4, 1.1, 1.25, 3.3, 5.9])
    for times, hs in ((ts, solved.hs), (between, solved(between))):
        for k, a in enumerate(h0[:, 0].tolist()):
            known = [-0.3 if t > stops.get(k, 9) else a * polynomial(t) for t in times.tolist()]
            assert_close(hs[:, k, 0], torch.tensor(known), rtol=0, atol=1e-9)


def test_an_event_ends_samples_before_there_is_no_solution():
    # h' = h^2 h(t - d)^0 has h0 / (1 - h0 t), up to t = 1 / h0.
    grows = discretize.Event(lambda t, h: h[:, 0] - 10, terminal=True)
    h0, ts = torch.tensor([[1.0], [0.9]]), torch.tensor([0.0, 1.0, 3.0])
    solved = discretize.integrate(lambda t, h, past: h**2 + 0 * past[0], None, h0, ts, delays=1.5, events=grows, rtol=1e-4)
    assert_close(solved.events[0].times, 1 / h0[:, 0] - 1 / 10, rtol=0, atol=1e-3)
    assert_close(solved.hs[1:, :, 0], torch.tensor([[10.0, 9.0], [10.0, 10.0]]), rtol=0, atol=1e-2)
    none = discretize.integrate(fading, None, h0[:0], ts, delays=1.5, events=grows)
    assert (none.hs.shape, none.events[0].states.shape) == ((3, 0, 1), (0, 1))


@pytest.mark.parametrize("terminal", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradients_of_crossings_are_central_differences(terminal):
    torch.manual_seed(1)
    field, h0, level = Net((0.7, 0.4), learn=True), torch.randn(2, 3).requires_grad_(), torch.tensor(0.1).requires_grad_()
    path, ts = ctrnn.LinearPath(2 * torch.randn(3, 2, 2)), torch.tensor([[0.0, 0.0], [0.9, 0.3], [1.2, 1.0]])
    events = [
        discretize.Event(lambda t, h: h[:, 0] - level, terminal=terminal),
        discretize.Event(lambda t, h: h[:, 1] + 0.1 * t[:, 0]),
    ]
    sources = {"delays": field.delays, "level": level}
    sources |= {"weights": field.weights[1], "h0": h0} if terminal else {}

    def loss():
        solved = discretize.integrate(field, path, h0, ts, events=events, history=torch.ones(3), rtol=1e-4, atol=1e-5)
        assert all(len(found.times) for found in solved.events)
        assert all((found.times <= ts[-1][found.samples] + 1e-12).all() for found in solved.events)
        crossed = sum((found.times * torch.arange(1, 1 + len(found.times))).sum() + found.states.sum() for found in solved.events)
        return crossed + (solved.hs * torch.linspace(-1, 1, 18).reshape(3, 2, 3)).sum()

    by_difference, by_gradient = along_one_direction(loss, [*sources.values()])
    assert_close(by_difference, by_gradient, rtol=0, atol=1e-3)  # of a sum over all crossings


def test_a_learned_delay_does_not_move_a_sample_that_has_ended():
    # h' = -2 up to d, from h0: the first ends at 0.8, of the second h(T) = h0 - 2 d - h0 (T - d) + (T - d)^2.
    delay, end = torch.tensor([0.8], requires_grad=True), discretize.Event(lambda t, h: h[:, 0] - 0.8, terminal=True)
    hs = discretize.integrate(
        fading,
        None,
        torch.tensor([[1.0], [5.0]]),
        torch.tensor([0.0, 1.0]),
        delays=delay,
        history=torch.full((2, 1), 2.0),
        events=end,
        rtol=1e-8,
        atol=1e-9,
    ).hs[-1, :, 0]
    slopes = [torch.autograd.grad(h, delay, retain_graph=True)[0] for h in hs]
    assert_close(torch.cat(slopes), torch.tensor([0.0, -2 + 5 - 2 * 0.2]), rtol=0, atol=1e-6)


def test_a_knot_and_a_breaking_point_that_differ_by_rounding_are_one():
    knot, near = 0.300000000000025, SAME / 2  # half way between two multiples of it
    for off in (-0.4, -0.1, -0.01, 0.0, 0.01, 0.1, 0.4):
        lag = Lag(0, torch.tensor(knot + off * near))
        assert list(breaking_points([lag], [0.0], [knot], 0.0, 0.5, 1)) == [knot]
    apart = Lag(0, torch.tensor(knot + 5 * near))
    assert len(breaking_points([apart], [0.0], [knot], 0.0, 0.5, 1)) == 1
    assert knot not in breaking_points([apart], [0.0], [knot], 0.0, 0.5, 1)


def test_calls_of_the_field_are_counted_with_those_for_polynomials():
    called = []

    def counted(t, h, past):
        called.append(len(h))
        return -past[0]

    solved = discretize.integrate(counted, None, torch.ones(3, 1), torch.tensor([0.0, 5.0]), delays=1.0)
    assert 0 <= len(called) - solved.stats["nfe"] <= 4  # the checks at the start
    assert 0 <= sum(called) - solved.stats["nfe_samples"] <= 12


def test_errors_fall_with_the_tolerance():
    errors = []
    for tolerance in (1e-4, 1e-9):
        solved = discretize.integrate(
            fading, None, torch.ones(1, 1), torch.tensor([0.0, 4.5]), delays=1.0, rtol=tolerance, atol=tolerance
        )
        errors.append(abs(float(solved.hs[-1]) - polynomial(4.5)))
    assert errors[1] < 1e-8
    assert errors[0] < 1e-3


def test_a_flow_of_other_arguments_is_refused():
    class Wrong(ctrnn.DelayedField):
        def flow(self, projected, h):
            return h

    with pytest.raises(TypeError, match=r"it must take \(projected, h, past\)"):
        Wrong(1, 1, [1.0])


@pytest.mark.parametrize("ts", [torch.zeros(1), torch.zeros(1, 2), torch.zeros(3, 2)])
def test_a_solve_of_no_time_at_0_is_its_start(ts):
    h0 = torch.tensor([[1.0], [2.0]])
    solved = discretize.integrate(fading, None, h0, ts, delays=0.7)
    assert_close(solved.hs, h0.expand(len(ts), 2, 1), rtol=0, atol=0)
    assert_close(solved(ts), solved.hs, rtol=0, atol=0)


def test_what_is_long_past_is_dropped_where_no_gradient_is_wanted(monkeypatch):
    monkeypatch.setattr(method_of_steps, "MOST_BYTES", 2_000)
    ts = torch.tensor([0.0, 10.0])
    solved = discretize.integrate(fading, None, torch.ones(1, 1), ts, delays=1.0, rtol=1e-6, atol=1e-7)
    assert_close(solved.hs[-1, 0, 0], torch.tensor(polynomial(10.0)), rtol=0, atol=1e-5)
    assert_close(solved(torch.tensor([9.5]))[0, 0, 0], torch.tensor(polynomial(9.5)), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="so long ago were not kept"):
        solved(torch.tensor([0.5]))


def of_delay(delay):
    field = Late([0.7])
    with torch.no_grad():
        field.delays.fill_(delay)
    return discretize.integrate(field, ctrnn.HeldPath(torch.ones(2, 1, 1)), torch.ones(1, 1), torch.arange(2.0))


def with_learned_knots():
    knots = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    return discretize.integrate(Late([0.7]), ctrnn.HeldPath(torch.ones(2, 1, 1), knots), torch.ones(1, 1), torch.arange(2.0))


REFUSED = {
    "and have become .-1": lambda: of_delay(-1.0),
    "and have become .nan": lambda: of_delay(math.nan),
    "jumps at times that require a gradient": with_learned_knots,
    "positive numbers": lambda: discretize.integrate(fading, None, torch.ones(1, 1), torch.arange(2.0), delays=[0.0]),
    "decreasing ts": lambda: discretize.integrate(fading, None, torch.ones(1, 1), torch.tensor([1.0, 0.0]), delays=1.0),
    "take adaptive_heun": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1), torch.arange(2.0), delays=1.0, method="dopri8"
    ),
    r"`method=EulerMaruyama\(\)` does not go with `delays`": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1), torch.arange(2.0), delays=1.0, method=discretize.EulerMaruyama()
    ),
    r"`method=StepDoubling\(step=Milstein\(\)\)` does not go with `delays`": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1), torch.arange(2.0), delays=1.0, method=discretize.StepDoubling(discretize.steps.Milstein())
    ),
    "more than 100,000 times": lambda: discretize.integrate(fading, None, torch.ones(1, 1), torch.arange(2.0), delays=1e-6),
    "reads no past": lambda: discretize.integrate(
        lambda t, h: h, None, torch.ones(1, 1), torch.arange(2.0), history=torch.ones(1, 1)
    ),
    r"called as f\(t, h, past\)": lambda: discretize.integrate(
        lambda t, h: h, None, torch.ones(1, 1), torch.arange(2.0), delays=1.0
    ),
    "a state like h0": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1), torch.arange(2.0), delays=1.0, history=torch.ones(1, 2)
    ),
    "the longest delay reads it": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1), torch.arange(2.0), delays=1.0, history=ctrnn.LinearPath(torch.ones(2, 1, 1))
    ),
    r"known on \[-3, -1\]": lambda: discretize.integrate(
        fading,
        None,
        torch.ones(1, 1),
        torch.arange(2.0),
        delays=1.0,
        history=ctrnn.LinearPath(torch.ones(3, 1, 1), torch.tensor([-3.0, -2.0, -1.0])),
    ),
    "of positive times like t, got 1.0": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1), torch.arange(2.0), delays=[lambda t: 1.0]
    ),
    "`history` has 3 sequences, and `h0` has 2": lambda: discretize.integrate(
        fading, None, torch.ones(2, 1), torch.arange(2.0), delays=1.0, history=lambda t: torch.ones(3, 1)
    ),
    "`path` has 3 sequences, and `h0` has 2": lambda: discretize.integrate(
        Net(), ctrnn.HeldPath(torch.ones(2, 3, 2)), torch.ones(2, 3), torch.arange(2.0)
    ),
    "`path` is torch.float32": lambda: discretize.integrate(
        Net(), ctrnn.HeldPath(torch.ones(2, 1, 2, dtype=torch.float32)), torch.ones(1, 3), torch.arange(2.0)
    ),
    "`h0` must be floating point": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1, dtype=torch.int64), torch.arange(2.0), delays=1.0
    ),
    "`history` must be finite": lambda: discretize.integrate(
        fading, None, torch.ones(1, 1), torch.arange(2.0), delays=1.0, history=torch.full((1, 1), math.nan)
    ),
    "solve on from there with `history` the trajectory": lambda: discretize.integrate(
        fading,
        None,
        torch.ones(1, 1),
        torch.arange(2.0),
        delays=1.0,
        events=discretize.Event(lambda t, h: h[:, 0], reset=lambda t, h: h),
    ),
    "functions t -> d": lambda: discretize.integrate(fading, None, torch.ones(1, 1), torch.arange(2.0), delays="1"),
    "has delays of its own": lambda: discretize.integrate(
        Net(), ctrnn.HeldPath(torch.ones(2, 1, 2)), torch.ones(1, 3), torch.arange(2.0), delays=1.0
    ),
    "it reads its own past": lambda: ctrnn.timescales(Net()),
    "give `longest`": lambda: ctrnn.DelayLine(Net(), 0.1, longest=0.5),
    r"takes \(h, x, past\); it is given \(projected, h, past\)": lambda: type(
        "Turned", (ctrnn.DelayedField,), {"flow": lambda self, h, x, past: past[0] - h}
    )(3, 3, [1.0]),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_solved_is_refused_in_words(words):
    with pytest.raises((TypeError, ValueError), match=words):
        REFUSED[words]()


# A line of states.


def test_steps_along_a_line_of_states_converge_to_the_solution():
    torch.manual_seed(0)
    field, x, h0 = Net((0.7, 0.33)), torch.randn(2, 2, 2), torch.randn(2, 3)
    exact = discretize.integrate(field, ctrnn.HeldPath(x), h0, torch.arange(3.0), rtol=1e-6, atol=1e-7).hs
    off = []
    for substeps in (10, 20):
        line = ctrnn.DelayLine(field, 1 / substeps)
        output, _ = discretize.DiscreteRNN(line, dt=1.0, substeps=substeps)(x, line.state_of(h0))
        off.append(float((output - exact[1:]).detach().abs().max()))
    assert 1.8 < off[0] / off[1] < 2.3


def test_a_step_along_the_line_shifts_the_states_and_reads_between_them():
    line = ctrnn.DelayLine(Net((1.0, 0.25)), 0.5)
    assert line.states == 3
    state, x = torch.randn(2, 9), torch.randn(2, 2)
    following = discretize.Euler()(line, x, state, 0.5)
    assert_close(following[:, 3:], state[:, :-3])
    past = state[:, 6:], (state[:, :3] + state[:, 3:6]) / 2
    assert_close(following[:, :3], state[:, :3] + 0.5 * line.field(x, state[:, :3], past))
    assert_close(line.state_of(lambda t: t * torch.ones(2, 3))[0], torch.tensor([0.0, -0.5, -1.0]).repeat_interleave(3))


def test_a_line_in_float32_takes_noise_beside_delays_in_float64():
    """h' = h + dt F(x, h, h(t - 0.5), h(t - 1)) + dW, in a loop that keeps all states, float32 beside float64 delays."""
    torch.manual_seed(0)
    field, dt, batch = Net((0.5, 1.0), learn=True), 0.5, 4
    field.weight_x.float(), field.weights.float()
    line = ctrnn.DelayLine(field, dt)
    noisy, x = ctrnn.Noisy(line, ctrnn.Noise(0.3)), torch.randn(6, batch, 2, dtype=torch.float32)
    w = discretize.BrownianPath(7, dt * torch.arange(7.0), 3, batch)
    output, _ = discretize.DiscreteRNN(noisy, discretize.EulerMaruyama(), dt=dt)(x, seed=w)
    assert noisy.dtype == ctrnn.Stack([ctrnn.plain(2, 2, dtype=torch.float32), line]).dtype == output.dtype == torch.float32
    hs, kicks = [torch.zeros(batch, 3)] * 3, w(dt * torch.arange(7.0)).diff(dim=0)
    for sample, kick in zip(x, kicks, strict=True):
        hs.append(hs[-1] + dt * field(sample, hs[-1].float(), (hs[-2].float(), hs[-3].float())) + 0.3 * kick)
    assert_close(output, torch.stack(hs[3:]).float(), rtol=0, atol=1e-5)


def along_a_line(delay, longest):
    field = Late([0.4])
    line = ctrnn.DelayLine(field, 0.1, longest=longest)
    with torch.no_grad():
        field.delays.fill_(delay)
    output, _ = discretize.DiscreteRNN(line, dt=0.1)(torch.linspace(0, 1, 12)[:, None, None], line.state_of(torch.ones(1, 1)))
    return field, output.sum()


@pytest.mark.parametrize(("longest", "apart"), [(None, -1e-6), (0.8, 1e-6)])
def test_a_learned_delay_on_a_line_has_the_slope_of_one_side(longest, apart):
    field, total = along_a_line(0.4, longest)
    (gradient,) = torch.autograd.grad(total, field.delays)
    assert_close(gradient[0], (along_a_line(0.4 + apart, longest)[1] - total).detach() / apart, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("delay", [0.6, -0.05, math.nan])
def test_beyond_a_line_there_is_nothing(delay):
    with pytest.warns(UserWarning, match="holds nan") if math.isnan(delay) else nullcontext():
        assert along_a_line(delay, None)[1].isnan()


LINE_STEPS = {
    "longer ones": (discretize.Euler(), 1.0, 1, 1.0),
    "shorter ones": (discretize.Euler(), 0.25, 2, 0.125),
    "some that differ": (discretize.Euler(), None, 1, 0.5),
    "of another step": (discretize.RungeKutta4(), 0.25, 1, 0.25),
}


@pytest.mark.parametrize("case", LINE_STEPS)
def test_steps_that_spread_the_delays_of_a_line_are_said(case):
    step, dt, substeps, length = LINE_STEPS[case]
    line, ts = ctrnn.DelayLine(Net((0.5, 0.25)), 0.25), torch.tensor([0.0, 0.25, 0.75, 1.0])
    rnn = discretize.DiscreteRNN(ctrnn.Stack([ctrnn.plain(2, 2), line]), step, dt=dt, substeps=substeps)
    words = f"takes steps of {length:g}, and the states of a DelayLine in the field are 0.25 apart"
    with pytest.warns(discretize.StepWarning, match=words):
        rnn(torch.randn(3, 2, 2), ts=ts if dt is None else None)
    rnn(torch.randn(3, 2, 2), ts=ts if dt is None else None)  # is said once
    if dt:
        with pytest.warns(discretize.StepWarning, match=words):
            discretize.DiscreteCell(line, step, dt=length)(torch.randn(2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_steps_that_shift_the_states_of_a_line_are_not_spoken_of(dtype):
    line = ctrnn.DelayLine(Net((0.5, 0.3)).to(dtype), 0.1)
    ts = torch.tensor([0.0, 0.1, 0.2, 0.3]) + 7
    discretize.DiscreteRNN(line, discretize.ExponentialEuler())(torch.randn(3, 2, 2, dtype=dtype), ts=ts)


def test_a_line_solved_exactly_has_spread_delays():
    # One unit, h' = -u_2 on a line of 3 states 0.5 apart: a matrix, whose exponential solves it.

    class Fading(ctrnn.DelayedField):
        def flow(self, projected, h, past):
            return -past[0]

    line = ctrnn.DelayLine(Fading(0, 1, [1.0]), 0.5)
    solved = discretize.integrate(line, None, torch.ones(1, 3), torch.tensor([0.0, 4.0]), **TIGHT)
    matrix = torch.tensor([[0.0, 0.0, -1.0], [2.0, -2.0, 0.0], [0.0, 2.0, -2.0]])
    assert_close(solved.hs[-1, 0], torch.linalg.matrix_exp(4 * matrix) @ torch.ones(3), rtol=0, atol=1e-9)


@pytest.mark.parametrize("sigma", [0.3, [0.1, 0.2, 0.0], [[0.1], [0.2], [-0.3]]])
def test_noise_on_a_line_drives_the_state_and_not_what_is_kept_of_it(sigma):
    """By the recursion itself, with increments that are drawn before."""
    torch.manual_seed(0)
    field, x, dt, sigma = Net((0.5, 0.2)), torch.randn(9, 4, 2), 0.1, torch.tensor(sigma)
    noisy = ctrnn.Noisy(ctrnn.DelayLine(field, dt), ctrnn.Noise(sigma))
    path = discretize.BrownianPath(3, torch.arange(10) * dt, noisy.noise_channels, batch=4)
    output, _ = discretize.DiscreteRNN(noisy, discretize.EulerMaruyama(), dt=dt, fused=False)(x, seed=path)
    states, drawn = [torch.zeros(4, 3)] * 6, path.increments(torch.arange(10) * dt)[0]
    for sample, w in zip(x, drawn, strict=True):
        h = states[-1]
        moved = w @ sigma.mT if noisy.noise_channels == 1 else sigma * w
        states.append(h + dt * field(sample, h, (states[-6], states[-3])) + moved)
    assert_close(output, torch.stack(states[6:]))
    assert [*noisy.diffusion(x[0], torch.zeros(4, noisy.state_size)).shape] == [4, 18, noisy.noise_channels]


def test_noise_around_a_part_that_keeps_its_past_is_refused():
    class Scaled(ctrnn.VectorField):
        def __init__(self, line):
            super().__init__(line.input_size, line.hidden_size, line.state_size)
            self.line = line

        def flow(self, projected, h):
            return 2 * self.line.flow(projected, h)

    with pytest.raises(ValueError, match="DelayLine in Scaled holds past states, which noise on the state would drive too"):
        ctrnn.Noisy(Scaled(ctrnn.DelayLine(Net(), 0.5)), ctrnn.Noise(0.1))


@pytest.mark.kernels
def test_a_line_of_states_has_a_kernel_and_learned_delays_a_gradient():
    # Three seconds, to compile the kernel and its gradient.
    torch.manual_seed(0)
    line = ctrnn.DelayLine(Net((0.6, 0.33), learn=True), 0.25, longest=1.0)
    x, found = torch.randn(6, 2, 2), []
    for fused in ("always", False):
        rnn = discretize.DiscreteRNN(line, dt=0.25, fused=fused)
        output, _ = rnn(x)
        found.append((output, *torch.autograd.grad(output.square().sum(), list(line.parameters()))))
        assert rnn.stats["engine"] == ("compiled" if fused else "steps"), rnn.stats["engine_why"]
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs)
    assert found[0][1].abs().min() > 0


def test_delays_are_learned_in_single_precision_where_knots_nearly_meet():
    # 0.3 in single precision is not three times 0.1: steps between such knots are 1e-8 long, where states differ by rounding.
    def gradient(dtype):
        torch.manual_seed(0)
        field, h0, history, xs = (
            Net([0.3, 0.1], learn=True).to(dtype),
            *(torch.randn(*shape) for shape in ((4, 3), (4, 3), (3, 4, 2))),
        )
        solved = discretize.integrate(
            field, ctrnn.HeldPath(xs.to(dtype)), h0.to(dtype), torch.tensor([0.0, 0.5]), history=history.to(dtype)
        )
        return torch.autograd.grad(solved.hs[-1].square().sum(), field.delays)[0].double()

    assert_close(gradient(torch.float32), gradient(torch.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", [{"rtol": 1e-6, "atol": 1e-6}, {"method": "rk4"}])
@pytest.mark.parametrize("by", ["max_step", "times"])
def test_a_pulse_of_the_history_is_seen_by_steps_as_short_as_it(how, by):
    """dh/dt = -h(t - 1), whose history is 1 and a pulse; steps are short between requested times, however far the last one is."""
    width = 0.003

    def pulse(t):
        return (1 + 10 * torch.exp(-(((t + 0.47) / width) ** 2))).reshape(1, 1)

    one, times = torch.ones(1, 1, dtype=torch.float64), {"max_step": [0.0, 1.0], "times": [*np.linspace(0, 1, 601), 2.0]}[by]
    ts, longest = torch.tensor(times, dtype=torch.float64), {"max_step": width / 2, "times": None}[by]
    f = lambda t, h, past: -past[0]  # noqa: E731
    solved = discretize.integrate(f, None, one, ts, delays=1.0, history=pulse, max_step=longest, **how)
    assert_close(float(solved.hs[times.index(1.0)]), -10 * width * math.sqrt(math.pi), rtol=1e-3, atol=0)
