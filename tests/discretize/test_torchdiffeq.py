"""`discretize.torchdiffeq` beside torchdiffeq itself: numbers, gradients, events, options, callbacks, and what is refused."""

import math
import runpy
import sys

import pytest
import torch
import torchdiffeq
from cases import diagonal
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize.torchdiffeq as ours
from discretize import SolverError, integrate

TIGHT = {"rtol": 1e-7, "atol": 1e-8}


class Net(nn.Module):
    """A field that reads the time, with callbacks that note the steps they are called for, and its calls counted."""

    def __init__(self, width=3):
        super().__init__()
        self.net, self.seen, self.calls = nn.Sequential(nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, width)), [], 0

    def forward(self, t, y):
        self.calls += 1
        return self.net(y) * torch.cos(t)


class Watched(Net):
    def note(self, what):
        return lambda t, y, dt: self.seen.append((what, float(t), tuple(y.shape), float(dt)))

    def __getattr__(self, name):
        return self.note(name) if name.startswith("callback_") else super().__getattr__(name)


def swinging(t, y):
    return torch.stack([y[1], -y[0]])


def gradients(solve, func, y0, t, **how):
    y = solve(func, y0, t, **how)
    y = torch.cat([part.reshape(len(t), -1) for part in y], 1) if isinstance(y, tuple) else y
    starts = y0 if isinstance(y0, tuple) else (y0,)
    return y, *torch.autograd.grad(y.sin().sum(), [*starts, t, *func.parameters()])


@pytest.mark.parametrize(
    ("solve", "shape", "times"),
    diagonal([ours.odeint, ours.odeint_adjoint], [(3,), (4, 3), (2, 2, 3)], [(0.0, 0.3, 1.0), (1.0, 0.3, -0.5), (0.5, 1.0)]),
)
def test_states_and_gradients_are_torchdiffeqs(solve, shape, times):
    func, y0, t = Net(), torch.randn(shape, requires_grad=True), torch.tensor(times, requires_grad=True)
    expected = gradients(torchdiffeq.odeint, func, y0, t, **TIGHT)  # whose gradients to times are those of an interpolant
    assert_close(gradients(solve, func, y0, t, **TIGHT), expected, rtol=0, atol=1e-4)


class Pair(Net):
    def forward(self, t, y):
        return super().forward(t, y[0]), y[1] * y[0].sum()


def test_a_tuple_of_tensors_is_solved_as_by_torchdiffeq():
    func, t = Pair(), torch.tensor([0.0, 0.5, 1.0], requires_grad=True)
    y0 = torch.randn(2, 3, requires_grad=True), torch.tensor(0.3, requires_grad=True)
    how = {"rtol": 1e-7, "atol": (1e-8, torch.tensor(1e-8))}
    found = ours.odeint(func, y0, t, **how)
    assert [part.shape for part in found] == [(3, 2, 3), (3,)]
    expected = gradients(torchdiffeq.odeint, func, y0, t, **how)
    assert_close(gradients(ours.odeint, func, y0, t, **how), expected, rtol=0, atol=1e-5)


def test_a_state_that_is_a_number_is_solved():
    end = ours.odeint(lambda t, y: -y, torch.tensor(2.0), torch.tensor([0.0, 0.5, 1.0]))[-1]
    assert_close(end, torch.tensor(2 * math.exp(-1)), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("solve", "method"), [(ours.odeint, "dopri5"), (ours.odeint_adjoint, "dopri5"), (ours.odeint_adjoint, "rk4")]
)
def test_at_a_single_time_the_state_is_the_start(solve, method):
    y0 = torch.randn(2, 3, requires_grad=True), torch.tensor(0.3, requires_grad=True)
    (at_once, _) = solve(Pair(), y0, torch.zeros(1), method=method)
    assert torch.equal(at_once[0], y0[0])
    assert torch.equal(torch.autograd.grad(at_once.sum(), y0[0])[0], torch.ones(2, 3))


def test_the_gradient_of_fixed_steps_in_bounded_memory_is_that_of_the_steps():
    func, y0, t = Net(), torch.randn(2, 3, requires_grad=True), torch.linspace(0, 1, 3)
    how = {"method": "rk4", "options": {"step_size": 0.1}}
    plain, bounded = ((gradients_to_weights(f, func, y0, t, **how)) for f in (ours.odeint, ours.odeint_adjoint))
    assert_close(bounded, plain, rtol=1e-10, atol=1e-12)


def test_samples_with_steps_of_their_own_have_the_states_and_gradients_of_one_solve():
    func, y0, t = Net(), torch.randn(4, 3, requires_grad=True), torch.tensor([0.0, 0.3, 1.0], requires_grad=True)
    how = {**TIGHT, "options": {"per_sample": True}}
    assert_close(gradients(ours.odeint, func, y0, t, **how), gradients(ours.odeint, func, y0, t, **TIGHT), rtol=0, atol=1e-5)


def test_a_stiff_sample_does_not_shorten_the_steps_of_the_others_nor_change_their_numbers():
    how = {**TIGHT, "options": {"per_sample": True}}
    speeds = torch.tensor([[1.0], [1.0], [300.0]])
    both = ours.odeint(lambda t, y: -speeds[: len(y)] * y, torch.ones(3, 1), torch.tensor([0.0, 1.0]), **how)
    alone = ours.odeint(lambda t, y: -y, torch.ones(2, 1), torch.tensor([0.0, 1.0]), **how)
    assert torch.equal(both[:, :2], alone)


def test_samples_of_several_axes_have_steps_of_their_own():
    how = {**TIGHT, "options": {"per_sample": True}}
    images = ours.odeint(lambda t, y: -y * t, torch.ones(2, 3, 4), torch.tensor([0.0, 1.0]), **how)  # t (2, 1, 1)
    assert_close(images[-1], torch.full((2, 3, 4), math.exp(-0.5)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["euler", "midpoint", "heun2", "heun3", "rk4"])
@pytest.mark.parametrize(
    "options", [{"step_size": 0.125}, None, {"grid_constructor": lambda f, y, t: torch.linspace(0, 1, 9, dtype=t.dtype) ** 2}]
)
def test_fixed_steps_are_torchdiffeqs_own(name, options):
    func, y0, t = Net(), torch.randn(2, 3), torch.tensor([0.0, 0.5, 1.0])
    if options and "grid_constructor" in options:  # ours end at every time asked for too
        t = (torch.linspace(0, 1, 9) ** 2)[[0, 4, 8]]
    theirs = torchdiffeq.odeint(func, y0, t, method=name, options=options)
    assert_close(ours.odeint(func, y0, t, method=name, options=options), theirs, rtol=1e-12, atol=1e-12)


def gradients_to_weights(solve, func, y0, t, **how):
    return torch.autograd.grad(solve(func, y0, t, **how).sin().sum(), [y0, *func.parameters()])


def test_the_adjoint_takes_tensors_by_name_and_refuses_those_that_nobody_named():
    w = torch.tensor(1.3, requires_grad=True)
    v, y0, t = w.sin(), torch.ones(2), torch.tensor([0.0, 1.0])  # v is no leaf, and is learned through
    found = ours.odeint_adjoint(lambda t, y: -v * y, y0, t, adjoint_params=(v, v))
    (gradient,) = torch.autograd.grad(found[-1].sum(), w, retain_graph=True)
    assert_close(gradient, -2 * math.exp(-math.sin(1.3)) * torch.tensor(math.cos(1.3)), rtol=0, atol=1e-6)
    found = ours.odeint_adjoint(lambda t, y: -v * y, y0, t, adjoint_params=())  # found in the closure
    assert_close(torch.autograd.grad(found[-1].sum(), w, retain_graph=True)[0], gradient, rtol=1e-12, atol=0)

    class Hidden:
        def __init__(self):
            self.v = v

        def __call__(self, t, y):
            return -self.v * y

    with pytest.raises(ValueError, match=r"of shape \(\) that requires one is used besides"):
        ours.odeint_adjoint(Hidden(), y0, t, adjoint_params=())
    net, y0 = Net(), torch.randn(2, 3)
    named = ours.odeint_adjoint(net, y0, t, adjoint_params=tuple(net.parameters()))
    by_itself = ours.odeint_adjoint(net, y0, t)
    both = [torch.autograd.grad(y[-1].sum(), list(net.parameters())) for y in (named, by_itself)]
    assert_close(*both, rtol=1e-12, atol=0)  # and not twice as much
    with pytest.raises(ValueError, match="`func` must be a torch"):
        ours.odeint_adjoint(lambda t, y: -y, y0, t)


def test_a_function_may_differentiate_by_its_own_state_as_the_log_density_of_a_flow_does():
    net, y0, t = Net(2), (torch.randn(4, 2), torch.zeros(4, 1)), torch.tensor([1.0, 0.0])

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, states):
            with torch.enable_grad():
                z = states[0].requires_grad_()
                dz = self.net(t, z)
                traces = [torch.autograd.grad(dz[:, k].sum(), z, create_graph=True)[0][:, k] for k in range(2)]
            return dz, -sum(traces)[:, None]

    found = []
    for solve in (ours.odeint, ours.odeint_adjoint, torchdiffeq.odeint_adjoint):
        z, log_density = solve(Flow(), y0, t, rtol=1e-7, atol=1e-7)
        found.append(
            [
                log_density[-1].detach(),
                *torch.autograd.grad(z[-1].square().sum() + log_density[-1].sum(), net.net.parameters(), allow_unused=True),
            ]
        )
    for mine, adjoint, theirs in zip(*found, strict=True):
        assert_close(adjoint, theirs, rtol=0, atol=1e-4)
        if mine is not None:  # the last bias has none
            assert_close(mine, adjoint, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("at", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("method", ["dopri5", "rk4"])
def test_a_jump_that_is_named_costs_nothing_and_is_seen_from_both_sides(dtype, at, method):
    calls = 0

    def jumping(t, y):
        nonlocal calls
        calls += 1
        return -0.5 * y if t < at else y**2

    how = {"rtol": 1e-6, "atol": 1e-6} if method == "dopri5" else {"method": method}
    options = {"jump_t": torch.tensor([at])} | ({} if method == "dopri5" else {"step_size": 0.02})
    y0, t = torch.tensor([0.5, 1.0], dtype=dtype), torch.tensor([0.0, 0.95])
    before = y0.double() * math.exp(-0.5 * at)
    exact = 1 / (1 / before - (0.95 - at))
    found = ours.odeint(jumping, y0, t, **how, options=options)
    assert_close(found[-1].double(), exact, rtol=2e-5, atol=0)
    named, calls = calls, 0
    back = ours.odeint(jumping, found[-1], t.flip(0), **how, options=options)
    assert_close(back[-1], y0, rtol=2e-5, atol=0)
    if method == "dopri5":
        calls = 0
        ours.odeint(jumping, y0, t, **how)
        assert named < calls / 2


@pytest.mark.parametrize(("reverse", "interface"), [(False, ours.odeint), (True, ours.odeint_adjoint)])
def test_the_first_of_several_events_and_its_gradients_are_torchdiffeqs(reverse, interface):
    w, p = torch.tensor(1.3, requires_grad=True), torch.tensor(0.2, requires_grad=True)
    y0, t0 = (torch.tensor(1.0, requires_grad=True), torch.tensor(0.0)), torch.tensor(0.3, requires_grad=True)

    def func(t, y):
        return y[1], -w * w * y[0]

    def event(t, y):
        return torch.stack([y[0] + 0.4, y[0] - p])

    def solved(odeint_event, how):
        t, y = odeint_event(func, y0, t0, event_fn=event, reverse_time=reverse, **TIGHT, **how)
        return t, y[0], *torch.autograd.grad(t + y[1][-1], [t0, w, y0[0], p], allow_unused=True)

    params = {"adjoint_params": (w,)} if interface is ours.odeint_adjoint else {}
    found = solved(ours.odeint_event, {"odeint_interface": interface} | params)
    for mine, theirs in zip(found[:-1], solved(torchdiffeq.odeint_event, {})[:-1], strict=True):
        assert_close(mine, theirs, rtol=0, atol=1e-5)
    # Of what the event holds torchdiffeq gives none: cos(w (t - t0)) = p, and y[1] = -w sin(w (t - t0)).
    angle = (-1 if reverse else 1) * torch.acos(p.detach())
    assert_close(found[-1], -1 / (w * angle.sin()).detach() + w.detach() / angle.tan(), rtol=0, atol=1e-5)


def test_every_sample_ends_at_its_own_event_however_far_it_is(monkeypatch):
    y0 = torch.tensor([[1.0, 0.0, 1.0], [1.0, 0.0, 0.1]], requires_grad=True)

    def swings(t, y):  # each at the frequency y[2]
        return torch.stack([y[:, 2] * y[:, 1], -y[:, 2] * y[:, 0], 0 * y[:, 2]], 1)

    t, _ = ours.odeint_event(
        swings, y0, torch.tensor(0.0), event_fn=lambda t, y: y[:, 0], options={"per_sample": True}, rtol=1e-5, atol=1e-7
    )
    assert_close(t, torch.tensor([math.pi / 2, 10 * math.pi / 2]), rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(t[0], y0)  # at the angle of y[1], over w
    assert_close(gradient, torch.tensor([[0.0, 1.0, -math.pi / 2], [0.0, 0.0, 0.0]]), rtol=0, atol=1e-4)
    with pytest.raises(SolverError, match="60 steps were not enough"):
        ours.odeint_event(swinging, y0[0, :2], torch.tensor(0.0), event_fn=lambda t, y: y[0] - 2, options={"max_num_steps": 60})
    monkeypatch.setattr(ours, "FARTHEST", 4.0)
    with pytest.raises(ValueError, match="has not become 0 up to t = 4"):
        ours.odeint_event(lambda t, y: 0 * y, y0[0], torch.tensor(0.0), event_fn=lambda t, y: y[0] - 2)


# At the end of the first look for an event, and within the second; the slow run has each by both interfaces.
@pytest.mark.parametrize(
    ("interface", "jump"),
    [
        (ours.odeint, 1.0),
        (ours.odeint_adjoint, 1.3),
        pytest.param(ours.odeint, 1.3, marks=pytest.mark.slow),
        pytest.param(ours.odeint_adjoint, 1.0, marks=pytest.mark.slow),
    ],
)
def test_an_event_that_jumps_to_a_number_ends_a_solve_whose_state_has_its_gradient(interface, jump):
    w, reads = torch.tensor(1.0, requires_grad=True), 0

    def ends(t, y):
        nonlocal reads
        reads += 1
        return torch.zeros_like(t) if t > jump else y.sum() + w

    params = {"adjoint_params": (w,)} if interface is ours.odeint_adjoint else {}
    t, y = ours.odeint_event(
        lambda t, y: -w * y, torch.ones(1), torch.tensor(0.0), event_fn=ends, odeint_interface=interface, **params
    )
    assert not t.requires_grad
    assert float(t) == pytest.approx(jump)
    assert_close(torch.autograd.grad(y[-1].sum(), w)[0], torch.tensor(-jump * math.exp(-jump)), rtol=0, atol=1e-7)
    assert reads < 3000


@pytest.mark.parametrize("sign", [1, -1])
def test_times_with_a_gradient_end_no_steps_and_move_their_states_by_the_slope(sign):
    calls, rate = 0, torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    t = (sign * torch.linspace(0.2, 3.0, 75, dtype=torch.float64)).requires_grad_()
    y0, weights = torch.tensor([1.0, 0.5], dtype=torch.float64), torch.linspace(-1, 1, 75, dtype=torch.float64)[:, None]

    def swing(t, y):
        nonlocal calls
        calls += 1
        return rate * torch.stack([y[1], -y[0]])

    def gradients(y):
        return torch.autograd.grad((weights * y).sum(), [rate, t])

    found = gradients(ours.odeint(swing, y0, t, rtol=1e-5, atol=1e-6))
    angle = rate * (t - t[0])
    expected = torch.stack([y0[0] * angle.cos() + y0[1] * angle.sin(), y0[1] * angle.cos() - y0[0] * angle.sin()], 1)
    for mine, exact in zip(found, gradients(expected), strict=True):
        assert_close(mine, exact, rtol=1e-4, atol=1e-4)
    assert calls < 450  # 74 of them are slopes at the times


@pytest.mark.parametrize("least", [1e3, 1e12])  # of a solution that ends at t = 1 / y0
def test_an_event_shortly_before_a_solution_ends_has_the_gradient_of_the_closed_form(least):
    y0, t0 = torch.tensor([0.4], dtype=torch.float64, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    t, _ = ours.odeint_event(lambda t, y: y**2, y0, t0, event_fn=lambda t, y: y - least)
    assert_close(t, torch.tensor(3.0 - 1 / least), rtol=0, atol=1e-6, check_dtype=False)
    by_y0, by_t0 = torch.autograd.grad(t, [y0, t0])
    assert float(by_y0) == pytest.approx(-1 / 0.4**2, rel=1e-4)
    assert float(by_t0) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_an_event_is_solved_to_once_in_about_as_many_calls_in_every_unit_of_time(unit):
    calls, tau = 0, torch.tensor(unit, requires_grad=True)

    def decay(t, y):
        nonlocal calls
        calls += 1
        return -y / tau

    y0 = torch.ones(2, dtype=torch.float64)
    t, _ = ours.odeint_event(decay, y0, torch.tensor(0.0), event_fn=lambda t, y: y[0] - 0.2, rtol=1e-6, atol=1e-9)
    assert_close(torch.autograd.grad(t, tau)[0], torch.tensor(math.log(5)), rtol=1e-5, atol=0)
    assert calls < 300  # a first window of 1 takes 3000 of them where tau is 1e-3, and a second solve for the graph twice as many


@pytest.mark.parametrize("module", [ours, torchdiffeq], ids=["ours", "theirs"])
def test_an_event_that_is_0_at_the_start_is_found_there_as_by_torchdiffeq(module):
    t, y = module.odeint_event(swinging, torch.tensor([0.0, 1.0]), torch.tensor(0.5), event_fn=lambda t, y: y[0])
    assert float(t) == 0.5
    assert y.tolist() == [[0.0, 1.0]] * 2


@pytest.mark.parametrize("named", [False, True])
def test_the_knots_of_a_driven_field_are_jumps_without_being_named(named):
    field, path = ctrnn.gated(2, 3), ctrnn.HeldPath(3 * torch.randn(3, 4, 2))
    h0, t = torch.zeros(4, 3), torch.tensor([0.0, 3.0])
    exact = integrate(field, path, h0, t, rtol=1e-8, atol=1e-9).hs[-1]
    how = {"options": {"jump_t": path.knots[1:-1]}} if named else {}
    assert_close(ours.odeint(ctrnn.Driven(field, path), h0, t, **how)[-1], exact, rtol=0, atol=1e-6)
    loose = ours.odeint(ctrnn.Driven(field, path), h0, t, rtol=1e-3, atol=1e-3, **how)[-1]
    assert_close(loose, exact, rtol=0, atol=2e-3)


@pytest.mark.parametrize("method", ["dopri5", "rk4"])
@pytest.mark.parametrize("adjoint", [False, True])
def test_callbacks_are_called_for_every_step_that_is_tried(method, adjoint):
    func, t = Watched(), torch.tensor([1.0, 0.0])
    options = {"first_step": 1.0} if method == "dopri5" else {"step_size": 0.1}
    if method == "rk4":
        with pytest.warns(UserWarning, match="rk4 accepts every step"):
            y = (ours.odeint_adjoint if adjoint else ours.odeint)(func, 5 * torch.ones(2, 3), t, method=method, options=options)
    else:
        y = (ours.odeint_adjoint if adjoint else ours.odeint)(func, 5 * torch.ones(2, 3), t, options=options)
    names = [name for name, *_ in func.seen]
    tried = [dt for name, _, _, dt in func.seen if name == "callback_step"]
    assert func.seen[0] == ("callback_step", 1.0, (2, 3), tried[0])
    assert tried[0] == options.get("first_step", 0.1)
    if method == "rk4":
        assert names == ["callback_step"] * 10
    else:
        took = [dt for name, _, _, dt in func.seen if name == "callback_accept_step"]
        assert sum(took) == pytest.approx(1.0)
        assert names.count("callback_reject_step") == len(tried) - len(took) > 0
    if adjoint:
        func.seen.clear()
        y.sum().backward()
        assert {shape for _, _, shape, _ in func.seen} == {(2, 3)}
        assert len(func.seen) == 10 if method == "rk4" else len(func.seen) > len(took)


@pytest.mark.parametrize("method", ["dopri5", "tsit5", "dopri8"])
def test_defaults_in_float32_do_not_chase_its_rounding(method):
    func, y0, t = Net().float(), torch.randn(4, 3), torch.linspace(0, 2, 3)
    exact = ours.odeint(Net.double(func), y0, t)
    func = func.float()
    func.calls = 0
    found = ours.odeint(func, y0.float(), t.float(), method=method)
    assert func.calls < 600  # dopri8 483, and 920 with an atol of 1e-9 in each unit
    assert_close(found.double(), exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", ["dopri5", "tsit5", "dopri8"])
def test_what_grows_far_beyond_its_start_is_solved_in_float32_in_few_steps(method):
    steps = Watched(1).float()
    steps.forward = lambda t, y: 4 * y
    grown = ours.odeint(steps, torch.full((1,), 1e-4, dtype=torch.float32), torch.tensor([0.0, 4.0]), method=method)
    assert_close(grown[-1], torch.tensor([1e-4 * math.exp(16)], dtype=torch.float32), rtol=1e-4, atol=0)
    assert sum(name == "callback_step" for name, *_ in steps.seen) < 400


@pytest.mark.parametrize("solve", ["odeint", "odeint_adjoint"])
def test_a_method_that_is_not_here_is_solved_by_torchdiffeq(solve):
    func, y0, t = Net(), torch.randn(2, 3), torch.tensor([0.0, 1.0])
    found = getattr(ours, solve)(func, y0, t, method="fehlberg2")
    assert torch.equal(found, getattr(torchdiffeq, solve)(func, y0, t, method="fehlberg2"))


def test_an_event_by_a_method_that_is_not_here_is_found_by_torchdiffeq():
    func, y0, t = Net(), torch.randn(2, 3), torch.tensor([0.0, 1.0])
    how = {"event_fn": lambda t, y: y[0, 0] - y0[0, 0] - 0.01, "method": "rk4", "options": {"step_size": 0.1}}
    mine, theirs = (module.odeint_event(func, y0, t[0], **how) for module in (ours, torchdiffeq))
    assert_close(mine, theirs, rtol=0, atol=0)


def test_the_methods_are_those_here_and_those_of_torchdiffeq():
    assert {"dopri5", "rodas5p", "fehlberg2"} <= set(ours.SOLVERS)


def test_nothing_of_torchdiffeq_is_loaded_until_it_has_to_solve(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)  # as if it were not installed
    runpy.run_path(ours.__file__)  # and tests/test_imports.py asks a new process for all that it imports
    found = ours.odeint(lambda t, y: -y, torch.ones(2), torch.tensor([0.0, 1.0]))
    assert_close(found[-1], torch.full((2,), math.exp(-1)), rtol=1e-4, atol=0)
    with pytest.raises(ImportError, match="torchdiffeq"):
        ours.odeint(lambda t, y: -y, torch.ones(2), torch.tensor([0.0, 1.0]), method="explicit_adams")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"options": {"norm": torch.max}}, "'norm': ...} has no meaning here: the error is the largest over all units"),
        ({"options": {"step_size": 0.1}}, "'step_size': ...} has no meaning here: dopri5 knows first_step, fused, jump_t"),
        ({"method": "rk4", "options": {"perturb": True}}, "'perturb': ...} has no meaning here: name the times"),
        ({"method": "rk5"}, 'Invalid method "rk5"'),
        (
            {"method": "rk4", "options": {"per_sample": True}},
            "needs a method .*; rk4 is none",
        ),
        ({"method": "fehlberg2", "options": {"per_sample": True}}, "fehlberg2 is none"),
        ({"atol": (1e-9, 1e-9)}, "`atol` has 2 tolerances, and y0 1 tensors"),
        ({"event_fn": lambda t, y: y[0, 0], "t": torch.linspace(0, 1, 3)}, "t must be two times"),
        ({"y0": torch.ones(0, 3)}, "`y0` has no units"),
        ({"options": {"per_sample": True}, "y0": torch.ones(3)}, "With 'per_sample' y0 must be"),
        ({"rtol": -1e-3}, "`rtol` must be at least 0"),
        ({"rtol": (1e-3, 1e-3)}, "`rtol` must be one number"),
        ({"atol": (-1e-3,)}, "`atol` must be at least 0"),
        ({"atol": torch.ones(5)}, r"`atol` of shape \(5,\) does not fit y0, \(2, 3\)"),
        ({"y0": torch.full((2, 3), math.nan)}, "`y0` must be finite"),
        ({"t": torch.tensor([0.0, 1.0, 0.5])}, "`t` must increase strictly, but goes back at index 2"),
        ({"t": torch.tensor([0.0, 0.0, 0.5])}, "`t` must increase strictly, but repeats"),
        ({"t": torch.zeros(0)}, "`t` is empty"),
        ({"event_fn": lambda t, y: y.sum() * math.nan}, r"`event_fn` must give numbers, got \[nan\] at t = 0"),
        ({"func": lambda t, y: y.T}, r"must give dy/dt like y, \(2, 3\); got \(3, 2\)"),  # as many numbers, in another order
        ({"func": lambda t, y: (y,)}, "must give dy/dt like y"),
        ({"func": lambda t, y: (y[0],), "y0": (torch.ones(2), torch.ones(2))}, r"like y, \(2,\), \(2,\); got \(2,\)"),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_name(how, message):
    with pytest.raises(ValueError, match=message):
        ours.odeint(**({"func": Net(), "y0": torch.ones(2, 3), "t": torch.tensor([0.0, 1.0])} | how))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"adjoint_method": "tsit5"}, "`adjoint_method` must be that of the solve here"),
        ({"adjoint_rtol": 1e-9}, "`adjoint_rtol` is below `rtol`"),
        ({"adjoint_atol": (1e-12,)}, "`adjoint_atol` is below `atol`"),
        ({"adjoint_options": {"norm": torch.max}}, "'norm'"),
    ],
)
def test_settings_of_the_adjoint_that_would_have_no_effect_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        ours.odeint_adjoint(Net(), torch.ones(2, 3), torch.tensor([0.0, 1.0]), **how)


def test_settings_of_the_adjoint_that_ask_for_less_are_taken():
    func, y0, t = Net(), torch.ones(2, 3), torch.tensor([0.0, 1.0])
    found = ours.odeint_adjoint(func, y0, t, adjoint_rtol=1e-5, adjoint_options={"norm": "seminorm"})
    assert_close(found, ours.odeint_adjoint(func, y0, t), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("solve", "how", "message"),
    [
        (ours.odeint, {"y0": torch.ones(2, dtype=torch.complex64)}, "`y0` is complex"),
        (ours.odeint, {"y0": torch.ones(2, dtype=torch.long)}, "`y0` must be of floating point"),
        (ours.odeint, {"t": [0.0, 1.0]}, "`t` must be a torch.Tensor"),
        (ours.odeint, {"options": ["min_step"]}, "`options` must be a dict"),
        (ours.odeint, {"event_fn": lambda t, y: None}, "`event_fn` must give a tensor"),
        (ours.odeint_adjoint, {"adjoint_params": (3,)}, "`adjoint_params` must be a torch.Tensor"),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(solve, how, message):
    with pytest.raises(TypeError, match=message):
        solve(**({"func": Net(), "y0": torch.ones(2, 3), "t": torch.tensor([0.0, 1.0])} | how))


def test_max_num_steps_is_a_bound_on_the_steps():
    with pytest.raises(SolverError, match="steps were not enough"):
        ours.odeint(Net(), torch.ones(2, 3), torch.tensor([0.0, 1.0]), options={"max_num_steps": 1})
