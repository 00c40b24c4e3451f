"""Events under steps of fixed length: closed forms, orders, a loop of one's own, and gradients of the program itself."""

import math

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import Euler, Event, ExponentialEuler, Midpoint, RungeKutta4, SolverError, integrate

START = torch.zeros(1, 1, dtype=torch.float64)
CASES = {
    "euler": ("euler", 1),
    "Midpoint()": (Midpoint(), 2),
    "heun3": ("heun3", 3),
    "rk4": ("rk4", 4),
    "RungeKutta4()": (RungeKutta4(), 4),
}


class Neuron(ctrnn.VectorField):
    """dv/dt = x - v."""

    def __init__(self):
        super().__init__(1, 1)

    def flow(self, projected, h):
        return projected - h

    def leak(self, projected, h):
        return torch.ones_like(h)


class Turning(ctrnn.VectorField):
    """Three units that push one another."""

    def __init__(self):
        super().__init__(3, 3)

    def flow(self, projected, h):
        return projected + torch.sin(2 * h.flip(-1)) - h

    def leak(self, projected, h):
        return torch.ones_like(h)


def fire(threshold=1.0):
    return Event(lambda t, h: h[:, 0] - threshold, 1, reset=lambda t, h: 0 * h)


def held(current, end=3.0):
    return ctrnn.HeldPath(current[None, :, None], torch.tensor([0.0, end], dtype=torch.float64))


def closed_form(current, end):
    """The times of spikes of v' = I - v from 0, and v at the end."""
    period = torch.log(current / (current - 1))
    times = period * torch.arange(1, math.floor(end / float(period.detach())) + 1)
    return times, current * (1 - torch.exp(-(end - times[-1])))


@pytest.mark.by_default(3)
@pytest.mark.parametrize("name", CASES)
def test_times_of_spikes_and_their_gradients_are_of_the_order_of_the_step(name):
    method, order = CASES[name]
    current = torch.tensor([1.7], dtype=torch.float64, requires_grad=True)
    times, v = closed_form(current, 3.0)
    expected = torch.stack([*times, v[0], *(torch.autograd.grad(x, current, retain_graph=True)[0][0] for x in (*times, v[0]))])
    off = []
    for longest in (0.2, 0.05):
        solved = integrate(Neuron(), held(current), START, [0.0, 3.0], method=method, max_step=longest, events=fire())
        found = [*solved.events[0].times, solved.hs[-1, 0, 0]]
        assert len(found) == 4
        slopes = [torch.autograd.grad(x, current, retain_graph=True)[0][0] for x in found]
        off.append((torch.stack([*found, *slopes]) - expected).abs().detach().reshape(2, 4).amax(1))
    assert off[0][0] / off[1][0] == pytest.approx(4**order, rel=0.35)
    assert off[1][1] < 3 * off[0][1] / 4**order  # of slopes the error also depends on how much of a step is left at a spike


def test_an_exponential_step_of_a_neuron_is_its_closed_form_at_any_length():
    current = torch.tensor([1.7, 2.3, 0.9], dtype=torch.float64, requires_grad=True)
    solved = integrate(
        Neuron(), held(current), torch.zeros(3, 1, dtype=torch.float64), [0.0, 3.0], method=ExponentialEuler(), events=fire()
    )
    for sample in range(2):
        times, v = closed_form(current[sample], 3.0)
        found = solved.events[0].times[solved.events[0].samples == sample]
        assert_close(found, times, rtol=0, atol=1e-13)
        assert_close(solved.hs[-1, sample, 0], v, rtol=0, atol=1e-13)
        for mine, theirs in ((found[-1], times[-1]), (solved.hs[-1, sample, 0], v)):
            assert_close(*(torch.autograd.grad(x, current, retain_graph=True)[0] for x in (mine, theirs)), rtol=0, atol=1e-12)
    assert not (solved.events[0].samples == 2).any()
    with torch.no_grad():
        at = torch.linspace(0, 3, 31, dtype=torch.float64)
        period = torch.log(current / (current - 1))[:2]
        since = at[:, None] - period * torch.floor(at[:, None] / period)
        assert_close(solved(at)[:, :2, 0], current[:2] * (1 - torch.exp(-since)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.LinearPath])
@pytest.mark.parametrize("method", [Euler(), "rk4"], ids=repr)
def test_gradients_through_resets_are_central_differences_of_the_program(method, path):
    generator, dtype = torch.Generator().manual_seed(0), torch.float64
    xs = 1.5 * torch.randn(4, 2, 3, generator=generator, dtype=dtype)
    h0, knots = torch.randn(2, 3, generator=generator, dtype=dtype), torch.tensor([0.0, 1.1, 2.0, 3.3], dtype=dtype)
    happens = [
        Event(lambda t, h: h[:, 0] - 0.05 * t[:, 0], 1, reset=lambda t, h: h * 0.5 - 0.3 * h.flip(1) - 0.2),
        Event(lambda t, h: h[:, 1] + 0.2),
    ]

    def run(*leaves):
        h0, xs, knots, ts = leaves
        given = path(xs[: 3 if path is ctrnn.HeldPath else 4], knots)
        solved = integrate(Turning(), given, h0, ts, method=method, max_step=0.73, events=happens)
        assert min(len(event.times) for event in solved.events) > 0
        generator.manual_seed(1)
        parts = [solved.hs, *(part for event in solved.events for part in (event.times, event.states))]
        return sum((part * torch.randn(part.shape, generator=generator, dtype=dtype)).sum() for part in parts)

    leaves = [x.requires_grad_() for x in (h0, xs, knots, torch.tensor([0.3, 1.5, 3.1], dtype=dtype))]
    value = run(*leaves)
    slopes = torch.autograd.grad(value, leaves)
    along = [torch.randn(x.shape, generator=generator, dtype=dtype) for x in leaves]
    with torch.no_grad():
        assert_close(run(*leaves), value.detach(), rtol=0, atol=0)  # the same numbers
        up, down = (run(*(x + by * a for x, a in zip(leaves, along, strict=True))) for by in (1e-6, -1e-6))
    assert_close(sum((slope * a).sum() for slope, a in zip(slopes, along, strict=True)), (up - down) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["dopri5", "rodas5p", "rk4", Euler()], ids=repr)
def test_an_event_that_stops_nothing_changes_no_state(method):
    xs, h0 = torch.randn(3, 2, 3), 0.3 * torch.ones(2, 3)
    settings = {"method": method, "max_step": 0.3, "fused": False}
    plain = integrate(Turning(), ctrnn.HeldPath(xs), h0, [0.0, 1.5, 3.0], **settings)
    seen = integrate(Turning(), ctrnn.HeldPath(xs), h0, [0.0, 1.5, 3.0], **settings, events=Event(lambda t, h: h[:, 0]))
    assert len(seen.events[0].times)
    assert_close(seen.hs, plain.hs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("own", [False, True], ids=["shared times", "own times"])
def test_crossings_of_euler_steps_are_those_of_the_straight_lines_of_a_loop(own, unit):
    generator, dtype = torch.Generator().manual_seed(5), torch.float64
    xs, h0 = 2 * torch.randn(40, 3, 3, generator=generator, dtype=dtype), torch.randn(3, 3, generator=generator, dtype=dtype)
    knots = torch.cat([torch.zeros(1, 3, dtype=dtype), (0.5 + torch.rand(40, 3, generator=generator, dtype=dtype)).cumsum(0)])
    knots = unit * (knots if own else knots[:, 0])

    class Slower(Turning):
        def flow(self, projected, h):
            return super().flow(projected, h) / unit

    solved = integrate(
        Slower(), ctrnn.HeldPath(xs, knots), h0, knots[[0, -1]], method=Euler(), events=Event(lambda t, h: h[:, 0] - 0.1)
    )
    h, t, field = h0, (knots if own else knots[:, None].expand(-1, 3)), Slower()
    expected = [[], [], []]
    for k, x in enumerate(xs):
        dt = (t[k + 1] - t[k])[:, None]
        following = h + dt * field.flow(x, h)
        for sample in range(3):
            a, b = h[sample, 0] - 0.1, following[sample, 0] - 0.1
            if a * b < 0:
                expected[sample].append(t[k, sample] + dt[sample, 0] * a / (a - b))
        h = following
    assert_close(solved.hs[-1], h, rtol=0, atol=1e-12)
    for sample, times in enumerate(expected):
        assert len(times) > 5
        assert_close(solved.events[0].times[solved.events[0].samples == sample], torch.stack(times), rtol=1e-12, atol=0)


def test_crossings_of_other_steps_are_those_on_a_dense_grid():
    xs, h0 = 2 * torch.randn(10, 4, 3), torch.randn(4, 3)
    with torch.no_grad():
        solved = integrate(
            Turning(), ctrnn.HeldPath(xs), h0, [0.0, 10.0], method="rk4", max_step=0.4, events=Event(lambda t, h: h[:, 1])
        )
        signs = solved(torch.linspace(0, 10, 4001))[..., 1] > 0
    assert torch.bincount(solved.events[0].samples, minlength=4).tolist() == signs.int().diff(dim=0).abs().sum(0).tolist()


def test_between_two_stops_steps_are_as_long_as_they_may_be():
    solved = integrate(
        Neuron(),
        held(torch.tensor([1.7], dtype=torch.float64)),
        START,
        [0.0, 3.0],
        method="euler",
        max_step=0.25,
        events=fire(),
    )
    v, t, times = 0.0, 0.0, []
    while t < 3:
        steps = math.ceil((3 - t) / 0.25 - 1e-9)  # equal ones from here to the end
        dt = (3 - t) / steps
        if v + dt * (1.7 - v) >= 1:
            t, v = t + (1 - v) / (1.7 - v), 0.0
            times.append(t)
        else:
            t, v = t + dt, v + dt * (1.7 - v)
    assert_close(solved.events[0].times, torch.tensor(times, dtype=torch.float64), rtol=0, atol=1e-12)
    assert_close(float(solved.hs[-1]), v, rtol=0, atol=1e-12)


def test_what_comes_after_a_stop_is_not_looked_at_where_it_has_no_bound():
    def quadratic(t, h):  # from -10 to 10 in (2 / sqrt(I)) atan(10 / sqrt(I)), and soon beyond all numbers
        return torch.cat([h[:, :1] ** 2 + h[:, 1:], 0 * h[:, 1:]], 1)

    spike = Event(lambda t, h: h[:, 0] - 10, 1, reset=lambda t, h: torch.cat([-10 + 0 * h[:, :1], h[:, 1:]], 1))
    h0, settings = torch.tensor([[-10.0, 1.0], [-10.0, 4.0]], dtype=torch.float64), {"method": "rk4", "max_step": 0.02}
    found = integrate(quadratic, None, h0, [0.0, 3.3], events=spike, **settings).events[0]
    for sample, root in enumerate((1.0, 2.0)):
        period = 2 / root * math.atan(10 / root)
        times = period * torch.arange(1, math.floor(3.3 / period) + 1, dtype=torch.float64)
        assert_close(found.times[found.samples == sample], times, rtol=0, atol=1e-4)
    with pytest.raises(SolverError, match=r"the state became (inf|nan) with steps of"):
        integrate(quadratic, None, h0, [0.0, 3.3], events=Event(lambda t, h: h[:, 0] + 20), **settings)


def test_a_field_that_draws_at_each_call_has_no_events():
    class Drawing(Neuron):
        def flow(self, projected, h):
            return super().flow(projected, h) + torch.randn_like(h)

    with pytest.raises(ValueError, match="random"):
        integrate(Drawing(), ctrnn.HeldPath(torch.zeros(2, 1, 1)), torch.zeros(1, 1), [0.0, 2.0], method="euler", events=fire())


@pytest.mark.kernels
@pytest.mark.parametrize("method", [Euler(), "rk4"])
def test_crossings_on_the_steps_of_a_kernel_are_those_of_steps_one_by_one(method):
    xs, found = 2 * torch.randn(12, 3, 1, dtype=torch.float64), []
    path, h0, cross = ctrnn.HeldPath(xs), torch.zeros(3, 1, dtype=torch.float64), Event(lambda t, h: h[:, 0] - 0.2)
    for fused in ("always", False):
        with torch.no_grad():
            solved = integrate(Neuron(), path, h0, torch.arange(13.0), method=method, max_step=0.25, events=cross, fused=fused)
        found.append((solved.events[0].times, solved.events[0].states))
        assert solved.stats["engine"] == ("compiled" if fused else "steps")
    assert len(found[0][0]) > 3
    assert_close(found[0], found[1], rtol=0, atol=1e-12)
