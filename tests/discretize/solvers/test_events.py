"""Events: closed forms, SciPy's own, gradients by differences, resets, and the cases that are easily missed."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, EulerMaruyama, Event, ExponentialEuler, SolverError, integrate
from discretize.solvers import event_solve

TIGHT = {"rtol": 1e-7, "atol": 1e-7}
EXACT = {"rtol": 0, "atol": 1e-6}  # ten tolerances


def falling(t, h):
    return torch.stack([h[:, 1], -torch.ones_like(h[:, 0])], 1)


def swinging(t, h):
    return torch.stack([h[:, 1], -h[:, 0]], 1)


def rising(t, h):
    return torch.ones_like(h)


def bounce(kept=0.5):
    return Event(lambda t, h: h[:, 0], -1, reset=lambda t, h: torch.stack([0 * h[:, 0], -kept * h[:, 1]], 1))


def starts(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def test_a_bouncing_ball_bounces_when_it_must():
    heights = torch.tensor([1.0, 0.5, 2.0])
    h0 = torch.stack([heights, torch.zeros(3)], 1)
    solved = integrate(falling, None, h0, [0.0, 0.9, 2.9], events=bounce(), **TIGHT)
    (found,) = solved.events
    for sample, height in enumerate(heights.tolist()):
        first, speed = math.sqrt(2 * height), math.sqrt(2 * height)
        times = [first]
        while (after := times[-1] + 2 * (speed := speed / 2)) < 2.9:
            times.append(after)
        assert_close(found.times[found.samples == sample], torch.tensor(times), **EXACT)
        speeds = torch.tensor([-math.sqrt(2 * height) / 2**k for k in range(len(times))])
        assert_close(found.states[found.samples == sample], torch.stack([0 * speeds, speeds], 1), **EXACT)


def test_between_its_times_a_solve_with_events_is_the_closed_form():
    heights = torch.tensor([1.0, 0.5], requires_grad=True)
    solved = integrate(falling, None, torch.stack([heights, torch.zeros(2)], 1), [0.0, 0.9, 2.9], events=bounce(), **TIGHT)
    shared = torch.linspace(0, 2.9, 24)
    own = torch.stack([shared, (2.9 - shared) * 0.9], 1)
    for times in (shared, own):
        for t, states in zip(times, solved(times).detach(), strict=True):
            expected = [height_of_a_ball(*each) for each in zip((1.0, 0.5), t.expand(2).tolist(), strict=True)]
            assert_close(states, torch.tensor(expected), **EXACT)
    assert_close(solved(solved.ts), solved.hs, rtol=0, atol=0)
    (slope,) = torch.autograd.grad(solved(1.7)[0, 0], heights)  # after the first bounce, at sqrt(2 height)
    above, below = (height_of_a_ball(1 + small, 1.7)[0] for small in (1e-6, -1e-6))
    assert_close(slope, torch.tensor([(above - below) / 2e-6, 0.0]), rtol=0, atol=1e-6)


def test_a_neuron_fires_at_its_period():
    current = torch.tensor([[1.2], [1.5], [2.0], [0.9]])

    class Leaky(nn.Module):
        def forward(self, t, h):
            return torch.cat([h[:, 1:] - h[:, :1], torch.zeros_like(h[:, :1])], 1)

    fire = Event(lambda t, h: h[:, 0] - 1, 1, reset=lambda t, h: torch.cat([torch.zeros_like(h[:, :1]), h[:, 1:]], 1))
    found = integrate(Leaky(), None, torch.cat([torch.zeros(4, 1), current], 1), [0.0, 2.5], events=fire, **TIGHT).events[0]
    for sample, drive in enumerate(current[:3, 0].tolist()):
        period = math.log(drive / (drive - 1))
        expected = period * torch.arange(1, math.floor(2.5 / period) + 1)
        assert_close(found.times[found.samples == sample], expected, rtol=0, atol=1e-5)  # up to 3 periods, one error each
    assert not (found.samples == 3).any()


def height_of_a_ball(height, t):
    """And its speed: dropped from a height, of g = 1, and half as fast after each bounce."""
    landed, speed = math.sqrt(2 * height), math.sqrt(2 * height)
    if t < landed:
        return height - t**2 / 2, -t
    while t >= landed + (speed := speed / 2) * 2:
        landed += 2 * speed
    return speed * (t - landed) - (t - landed) ** 2 / 2, speed - (t - landed)


def test_crossings_and_directions_are_those_of_scipy():
    field = ctrnn.gru(1, 2, generator=torch.Generator().manual_seed(3))
    path = ctrnn.FunctionPath(lambda t: 4 * torch.sin(2 * t).expand(2, 1), (0.0, 4.0), 1)
    h0, ts = torch.tensor([[0.3, -0.2], [-0.5, 0.1]]), torch.tensor([0.0, 2.0, 4.0])
    wanted = [(lambda h: h[..., 0], 0), (lambda h: h[..., 0] - h[..., 1] - 0.1, 1), (lambda h: h[..., 1], -1)]
    solved = integrate(
        field, path, h0, ts, events=[Event(lambda t, h, g=g: g(h), way) for g, way in wanted], rtol=1e-5, atol=1e-5
    )
    assert sum(len(found.times) for found in solved.events) > 3
    with torch.no_grad():
        driven = ctrnn.Driven(field, path)
        for sample in range(1, 2):

            def slope(t, h, sample=sample):
                both = torch.zeros(2, 2)
                both[sample] = torch.from_numpy(h)
                return driven(t, both)[sample].numpy()

            def event(g, way):
                crossing = lambda t, h: float(g(h))  # noqa: E731 - SciPy reads its attributes
                crossing.direction = way
                return crossing

            theirs = solve_ivp(
                slope, (0, 4), h0[sample].numpy(), "DOP853", events=[event(*one) for one in wanted], rtol=1e-6, atol=1e-6
            )
            for ours, expected in zip(solved.events, theirs.t_events, strict=True):
                assert_close(ours.times[ours.samples == sample], torch.from_numpy(expected), rtol=0, atol=1e-4)


@pytest.mark.parametrize("time", [0.3, 1.1, 5.5, 7.0])
def test_an_event_at_a_time_is_at_that_time_to_rounding(time):
    event = Event(lambda t, h: t[..., 0] - time)
    solved = integrate(lambda t, h: torch.sin(t) - h, None, torch.ones(2, 1), [0.0, 9.3], events=[event])
    assert_close(solved.events[0].times, torch.full((2,), time), rtol=4.5e-16, atol=0)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_crossing_is_found_to_the_last_digit_of_the_states_by_few_looks(dtype, unit):
    looks = []
    cross = Event(lambda t, h: looks.append(t) or h[:, 0] - 0.25)
    h0 = torch.zeros(1, 1, dtype=dtype)
    found = integrate(lambda t, h: rising(t, h) / unit, None, h0, [0.0, unit], events=cross, fused=False).events[0].times
    assert_close(found, torch.tensor([0.25 * unit], dtype=torch.float64), rtol=16 * torch.finfo(dtype).eps, atol=0)
    assert len(looks) < 20  # down to the last digit of a time in float64 it takes 42 with states in float32


@pytest.mark.parametrize("method", ["dopri5", ExponentialEuler()], ids=repr)
def test_several_events_are_read_from_the_same_states(method):
    calls = []

    class Counted(ctrnn.VectorField):
        def __init__(self):
            super().__init__(1, 3)

        def flow(self, projected, h):
            calls.append(len(h))
            return 1 - h

        def leak(self, projected, h):
            return torch.ones_like(h)

    def solve(number):
        calls.clear()
        events = [Event(lambda t, h, k=k: h[:, 0] - 0.1 * k) for k in range(1, 1 + number)]
        h0, path = torch.zeros(2, 3, dtype=torch.float64), ctrnn.HeldPath(torch.zeros(1, 2, 1, dtype=torch.float64))
        found = integrate(Counted(), path, h0, [0.0, 1.0], method=method, events=events, fused=False).events
        expected = [-math.log(1 - 0.1 * k) for k in range(1, 1 + number)]
        assert_close(torch.stack([event.times for event in found])[:, 0].tolist(), expected, rtol=1e-5, atol=0)
        return len(calls)

    assert solve(6) <= 1.5 * solve(1)  # one batch of roots may take an iteration more than another


@pytest.mark.parametrize(("height", "times"), [(1.0, []), (0.999, [math.asin(0.999), math.pi - math.asin(0.999)]), (1.001, [])])
def test_touching_is_no_crossing_and_a_shallow_one_is_two(height, times):
    touch = Event(lambda t, h: h[:, 0] - height)
    found = integrate(swinging, None, starts([0.0, 1.0]), [0.0, 3.0], events=touch, max_step=0.1, **TIGHT).events[0]
    if height == 1:  # the solution is below or above by its error: none, or two at one place
        assert len(found.times) in (0, 2)
    else:
        assert_close(found.times, torch.tensor(times), rtol=0, atol=1e-5)  # the slope there is 0.04


def test_crossings_of_states_below_the_tolerance_have_times():
    def spiral(t, h):  # h_0 = exp(-t / 4) cos(2 t)
        return torch.stack([-0.25 * h[:, 0] - 2 * h[:, 1], 2 * h[:, 0] - 0.25 * h[:, 1]], 1)

    solved = integrate(spiral, None, starts([1, 0]), [0.0, 60.0], events=Event(lambda t, h: h[:, 0]))
    times = solved.events[0].times
    assert_close(times[:10], (torch.arange(10) + 0.5) * math.pi / 2, rtol=0, atol=1e-5)  # later the state is below atol
    assert times.isfinite().all()
    assert (times.diff() >= 0).all()


def test_two_crossings_of_one_step_are_seen_where_steps_are_bounded():
    g = Event(lambda t, h: (h[:, 0] - 0.42) * (h[:, 0] - 0.48))
    found = integrate(rising, None, torch.zeros(1, 1), [0.0, 5.0], events=g, first_step=0.1, max_step=0.1, **TIGHT).events[0]
    assert_close(found.times, torch.tensor([0.42, 0.48]), **EXACT)


def test_being_zero_at_the_start_is_no_crossing_and_each_direction_has_its_own():
    ways = [Event(lambda t, h: h[:, 0], direction) for direction in (0, 1, -1)]
    found = integrate(swinging, None, starts([0.0, 1.0]), [0.0, 3.0, 7.0], events=ways, **TIGHT).events
    for event, turns in zip(found, ([1.0, 2.0], [2.0], [1.0]), strict=True):
        assert_close(event.times, math.pi * torch.tensor(turns), **EXACT)


def test_several_tensors_are_told_apart_in_events_too():
    solved = integrate(
        lambda t, h: (h[1], -torch.ones_like(h[1])), None, (torch.ones(1, 1), torch.zeros(1, 1)), [0.0, 2.0],
        events=Event(lambda t, h: h[0][:, 0], -1, reset=lambda t, h: (0 * h[0], -h[1])), **TIGHT,
    )  # fmt: skip
    height, speed = solved.parts
    since = 2 - math.sqrt(2)
    assert_close(height[-1, 0, 0].item(), math.sqrt(2) * since - since**2 / 2, rtol=0, atol=1e-8)
    assert_close(speed[-1, 0, 0].item(), math.sqrt(2) - since, rtol=0, atol=1e-8)


def test_a_sample_that_is_given_no_time_keeps_its_state_between_too():
    ts = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    solved = integrate(rising, None, torch.zeros(2, 1), ts, **TIGHT)
    assert_close(solved(torch.tensor([[1.0, 0.0]]))[0, :, 0], torch.tensor([1.0, 0.0]), **EXACT)


def test_a_batch_without_samples_has_no_events():
    solved = integrate(rising, None, torch.zeros(0, 2), [0.0, 1.0, 2.0], events=[bounce(), bounce()])
    assert solved.hs.shape == (3, 0, 2)
    assert [len(found.times) for found in solved.events] == [0, 0]


@pytest.mark.parametrize("ts", [[0.0, 2.0], [0.0, 1.0, 2.0]])
def test_a_crossing_on_a_knot_and_on_a_requested_time_is_one(ts):
    class Pulled(ctrnn.VectorField):
        def __init__(self):
            super().__init__(1, 1)

        def flow(self, projected, h):
            return projected + 0 * h

    path, calls = ctrnn.HeldPath(torch.tensor([[[1.0]], [[3.0]]])), []
    event = Event(lambda t, h: calls.append(t) or h[:, 0] - 1)
    found = integrate(Pulled(), path, torch.zeros(1, 1), ts, events=event, **TIGHT).events[0]
    assert_close(found.times, torch.ones(1), **EXACT)
    assert len(calls) < 70  # bisection to rounding takes 53


def test_one_of_many_is_ended_and_the_others_go_on():
    h0 = torch.zeros(64, 1)
    h0[17] = 2.0
    end = Event(lambda t, h: h[:, 0] - 3.5, terminal=True)
    solved = integrate(rising, None, h0, [0.0, 1.0, 2.0, 3.0], events=end, **TIGHT)
    assert_close(solved.hs[:, 17, 0], torch.tensor([2.0, 3.0, 3.5, 3.5]), **EXACT)
    assert_close(solved.hs[:, 16, 0], torch.arange(4.0), **EXACT)
    assert solved.events[0].samples.tolist() == [17]
    assert solved.stats["status_of_samples"][16:18] == ["completed", "ended by event 0 at t = 1.5"]


def test_of_several_events_the_first_one_stops_and_the_others_are_counted_up_to_there():
    events = [
        Event(lambda t, h: h[:, 0] - 2.0, terminal=True),
        Event(lambda t, h: torch.sin(4 * h[:, 0])),
        Event(lambda t, h: h[:, 0] - 3.0),
    ]
    solved = integrate(rising, None, torch.full((1, 1), 0.1), [0.0, 9.0], events=events, max_step=0.3, **TIGHT)
    assert_close(solved.events[1].times, torch.tensor([math.pi / 4, math.pi / 2]) - 0.1, **EXACT)
    assert_close(solved.events[0].times, torch.tensor([1.9]), **EXACT)
    assert not len(solved.events[2].times)


def test_after_its_end_a_sample_is_where_it_ended():
    end = Event(lambda t, h: h[:, 0] - 0.5, terminal=True)
    solved = integrate(rising, None, torch.tensor([[0.0], [-9.0]]), [0.0, 2.0], events=end, **TIGHT)
    times = torch.tensor([0.25, 0.5, 1.0, 2.0])
    assert_close(solved(times)[..., 0], torch.stack([times.clamp(max=0.5), times - 9], 1), **EXACT)


def test_a_sample_goes_on_from_each_of_its_resets():
    onward = Event(lambda t, h: torch.sin(1000 * h[:, 0]), reset=lambda t, h: h)
    found = integrate(rising, None, torch.full((1, 1), 1e-4), [0.0, 0.02], events=onward, max_step=1e-3).events[0]
    assert_close(found.times, torch.arange(1, 7) * math.pi / 1000 - 1e-4, rtol=0, atol=1e-7)
    assert np.all(np.diff(found.times.numpy()) > 0)


def test_what_comes_after_the_end_of_a_sample_is_not_solved():
    def growing(t, h):  # h = 1 / (1 / h0 - t), until then, beside where it is to end
        return torch.stack([h[:, 0] ** 2, 0 * h[:, 1]], 1)

    end = Event(lambda t, h: h[:, 0] - h[:, 1], terminal=True)
    found = integrate(growing, None, starts([1.0, 5.0], [0.5, 4.0]), [0.0, 0.5, 2.0], events=end, rtol=1e-4, atol=1e-5)
    assert_close(found.events[0].times, torch.tensor([0.8, 1.75]), rtol=0, atol=1e-3)  # the slope there is 25, and grows so
    assert_close(found.hs[2], starts([5.0, 5.0], [4.0, 4.0]), rtol=0, atol=1e-4)
    with pytest.raises(SolverError, match=r"t = (2|1\.9999)\d*, sample 1, .* grows without bound"):
        integrate(growing, None, starts([1.0, 5.0], [0.5, -1.0]), [0.0, 3.0], events=end, rtol=1e-3, atol=1e-3)


def test_backwards_too_what_comes_after_the_end_of_a_sample_is_not_solved():
    def blows_up(t, h):
        return -(h**2)  # 1 / (1 + t), from t = 0 back to -1

    end = Event(lambda t, h: h[:, 0] - 5.0, terminal=True)
    found = integrate(blows_up, None, torch.ones(1, 1), [0.0, -3.0], events=end, rtol=1e-5, atol=1e-5, fused=False)
    assert_close(found.events[0].times, torch.tensor([-0.8]), rtol=0, atol=1e-4)
    with pytest.raises(SolverError, match=r"stopped at t = -(1|0\.99)"):
        integrate(
            blows_up,
            None,
            torch.ones(1, 1),
            [0.0, -3.0],
            events=Event(lambda t, h: h[:, 0] + 1, terminal=True),
            rtol=1e-3,
            atol=1e-3,
            fused=False,
        )


def test_times_and_states_of_events_and_what_follows_have_the_gradients_of_the_closed_form():
    def run(h0):
        solved = integrate(falling, None, h0, [0.0, 2.0], events=bounce(), rtol=1e-9, atol=1e-9)
        found = solved.events[0]
        return found.times, found.states[:, 1], solved.hs[-1]

    h0 = starts([1.0, 0.0], [0.5, 0.1]).requires_grad_()
    assert torch.autograd.gradcheck(run, (h0,), eps=1e-6, atol=1e-5, fast_mode=True)
    height = h0[0, 0]
    times = torch.autograd.grad(run(h0)[0][0], h0)[0][0, 0]
    assert_close(times, 1 / (2 * height.detach()).sqrt(), rtol=0, atol=1e-7)


def test_an_end_by_an_event_has_the_gradients_of_the_times_that_were_asked_for():
    ts = torch.tensor([0.25, 2.0], dtype=torch.float64, requires_grad=True)
    ended = integrate(rising, None, starts([0.0], [-9.0]), ts, events=Event(lambda t, h: h[:, 0] - 1, terminal=True), **TIGHT)
    for value, slopes in ((ended.events[0].times[0], [1.0, 0.0]), (ended.hs[-1].sum(), [-1.0, 1.0])):  # t0 + 1; 1 and T - t0 - 9
        (found,) = torch.autograd.grad(value, ts, retain_graph=True)
        assert_close(found, starts(slopes)[0], **EXACT)


def test_what_an_event_itself_holds_has_a_gradient():
    threshold, kept = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.tensor(0.25))
    event = Event(lambda t, h: h[:, 0] - threshold, reset=lambda t, h: kept * torch.ones_like(h))
    solved = integrate(rising, None, torch.zeros(1, 1), [0.0, 0.6], events=event, **TIGHT)  # ends at kept + 0.6 - threshold
    assert_close(torch.autograd.grad(solved.events[0].times.sum(), threshold, retain_graph=True)[0], torch.tensor(1.0))
    assert_close(torch.autograd.grad(solved.hs[-1].sum(), (threshold, kept)), (torch.tensor(-1.0), torch.tensor(1.0)))


@pytest.mark.kernels
def test_a_named_field_on_samples_is_looked_at_between_its_kernels_steps():
    dtype = torch.float32
    field, xs = ctrnn.gated(2, 3, dtype=dtype), torch.randn(7, 4, 2, dtype=dtype)
    path, h0, ts = ctrnn.LinearPath(3 * xs), torch.zeros(4, 3, dtype=dtype), torch.linspace(0, 6, 4)
    with torch.no_grad():
        solved = integrate(field, path, h0, ts, events=Event(lambda t, h: h[:, 0] - 0.05))
        plain = integrate(field, path, h0, ts)
        above = (plain(torch.linspace(0.001, 6, 4000))[..., 0] > 0.05).int().diff(dim=0).abs().sum(0)
    assert plain.stats["engine"] == "compiled"
    assert above.sum() > 3
    assert torch.bincount(solved.events[0].samples, minlength=4).tolist() == above.tolist()
    assert_close(solved.events[0].states[:, 0], torch.full((int(above.sum()),), 0.05, dtype=dtype), rtol=0, atol=1e-4)


ONE = Event(lambda t, h: h[:, 0])
FREE, ZERO = ctrnn.gated(0, 2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
WRONG = {
    "nan": (lambda: solve(events=Event(lambda t, h: (h[:, 0] - 0.5).log())), ValueError, "`g` of an Event gives nan at t = 0"),
    "one state": (lambda: integrate(FREE, None, torch.zeros(2), [0.0, 1.0], events=ONE), ValueError, "`h0` must have shape"),
    "times of others": (lambda: integrate(rising, None, ZERO, torch.zeros(3, 2), events=ONE), ValueError, "`ts` has times for 2"),
    "nan at the start": (lambda: integrate(FREE, None, ZERO / 0, [0.0, 1.0], events=ONE), ValueError, "`h0`"),
    "no event": (lambda: solve(events=[3]), TypeError, "`events` must be discretize.Event"),
    "an adjoint": (lambda: solve(events=ONE, gradient=Adjoint()), ValueError, "take `gradient=None`"),
    "failures": (lambda: solve(events=ONE, on_failure="keep"), ValueError, "take `on_failure='raise'`"),
    "torchdiffeq": (
        lambda: solve(events=ONE, method="torchdiffeq:rk4"), ValueError, "torchdiffeq refuses it",
    ),
    "noise": (lambda: solve(events=ONE, method=EulerMaruyama()), ValueError, "EulerMaruyama"),
    "half precision": (
        lambda: integrate(rising, None, torch.zeros(1, 1, dtype=torch.bfloat16), [0.0, 1.0], events=ONE, method="rk4"),
        TypeError, "`events` do not go with `h0` of torch.bfloat16",
    ),
    "a direction": (lambda: Event(lambda t, h: h, 2), ValueError, "`direction` must be 1, rising"),
    "no function": (lambda: Event(3), TypeError, "must be functions of t and h"),
    "an end with a reset": (lambda: Event(lambda t, h: h, terminal=True, reset=lambda t, h: h), ValueError, "has no `reset`"),
    "no number": (lambda: solve(events=Event(lambda t, h: h.repeat(1, 2))), ValueError, "a number for each of"),
    "no state": (
        lambda: solve(events=Event(lambda t, h: h[:, 0] - 0.5, reset=lambda t, h: h[:, 0])), ValueError, "`reset` of an Event",
    ),
}  # fmt: skip


def solve(**settings):
    return integrate(rising, None, torch.zeros(1, 1), [0.0, 1.0], **settings)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_event_is_refused_in_words(name):
    call, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        call()


def test_backwards_in_time_events_are_those_of_the_equation_in_s_that_is_minus_t():
    looser = {"rtol": 1e-3, "atol": 1e-3, "fused": False}  # the same steps both ways, however long

    def driven(t, h):
        return swinging(t, h) * (1.5 + torch.sin(t))

    h0 = starts([1.0, 0.0], [0.3, 0.8]).requires_grad_()
    mirrored = Event(lambda t, h: h[:, 1] - 0.2, 1, reset=lambda t, h: torch.stack([h[:, 0] + 0.01 * t[:, 0], -h[:, 1]], 1))
    turns = Event(lambda t, h: h[:, 0] + 0.1 * t[:, 0], 1), mirrored
    asked = [Event(lambda t, h: h[:, 0] + 1.5 + t[:, 0], terminal=True), *turns]
    ts = torch.tensor([1.0, 0.2, -2.5], requires_grad=True)
    back = integrate(driven, None, h0, ts, events=asked, **looser)
    turned = [
        Event(lambda s, h, g=e.g: g(-s, h), e.direction, e.terminal, e.reset and (lambda s, h, r=e.reset: r(-s, h)))
        for e in asked
    ]
    ahead = integrate(lambda s, h: -driven(-s, h), None, h0, -ts, events=turned, **looser)
    assert_close(back.hs, ahead.hs, rtol=0, atol=1e-12)
    assert_close(back.ts, -ahead.ts)
    assert sum(len(event.times) for event in back.events) > 4
    for mine, theirs in zip(back.events, ahead.events, strict=True):
        assert_close((mine.times, mine.states), (-theirs.times, theirs.states), rtol=0, atol=1e-9)
    assert [said.replace("t = -", "t = ") for said in back.stats["status_of_samples"]] == ahead.stats["status_of_samples"]
    between = torch.linspace(-2.5, 1, 12)
    assert_close(back(between), ahead(-between), rtol=0, atol=1e-9)
    for mine, theirs in zip(*(torch.autograd.grad(found.hs.sum(), (h0, ts)) for found in (back, ahead)), strict=True):
        assert_close(mine, theirs, rtol=0, atol=1e-8)


def test_the_line_of_a_solve_backwards_in_time_is_that_of_the_mirrored_one():
    up = Event(lambda t, h: h[:, 0] - 1, reset=lambda t, h: 0 * h)
    ahead = integrate(rising, None, torch.zeros(1, 1), [0.0, 1.5], events=up).curve(0)
    back = integrate(lambda t, h: -rising(t, h), None, torch.zeros(1, 1), [0.0, -1.5], events=up).curve(0)
    (mine, mine_h), (theirs, theirs_h) = ([torch.from_numpy(each.copy()) for each in curve.line] for curve in (back, ahead))
    assert_close(mine, -theirs.flip(0), **EXACT)
    whole = (theirs - 1).abs() > 1e-6  # at the reset it has both states
    assert_close(theirs_h[whole, 0], theirs[whole] % 1, **EXACT)
    assert_close(mine_h[whole.flip(0)], theirs_h[whole].flip(0), **EXACT)
    assert_close(torch.from_numpy(back.events[0]), torch.tensor([-1.0]), **EXACT)


def test_stops_without_end_are_an_error(monkeypatch):
    monkeypatch.setattr(event_solve, "MOST_STOPS", 2)
    with pytest.raises(
        SolverError, match="event 0 stops the sample more than 2 times between two requested times: 3 times in all"
    ):
        integrate(falling, None, starts([0.1, 0.0]), [0.0, 2.0], events=bounce(0.9))


def test_second_derivatives_of_times_are_refused():
    h0 = starts([1.0, 0.0]).requires_grad_()
    (time,) = integrate(falling, None, h0, [0.0, 2.0], events=bounce()).events[0].times
    (slope,) = torch.autograd.grad(time, h0, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives with `events`"):
        slope.sum().backward()


def test_masks_of_dropout_are_drawn_once_for_all_stops():
    field = ctrnn.gated(1, 4)
    field.candidate = ctrnn.Dropout(field.candidate, 0.5, 0.0)
    path, h0, ts = ctrnn.HeldPath(torch.randn(3, 2, 1)), torch.randn(2, 4), torch.linspace(0, 3, 7)
    ends = []
    for happens in ((), Event(lambda t, h: h[:, 0] - 0.01 * h[:, 1])):
        torch.manual_seed(5)
        ends.append(integrate(field, path, h0, ts, events=happens, **TIGHT).hs)
    assert_close(ends[1], ends[0], rtol=0, atol=1e-5)


def test_steps_and_calls_are_counted_from_stop_to_stop():
    h0, ts = starts([1.0, 0.0], [2.0, 0.0]), [0.0, 2.0]
    whole = integrate(falling, None, h0, ts, events=bounce()).stats
    free = integrate(falling, None, h0, ts, fused=False).stats
    each = zip(*(whole[f"{kind}_of_samples"] for kind in ("steps", "accepted_steps", "rejected_steps")), strict=True)
    assert all(steps == accepted + rejected for steps, accepted, rejected in each)
    assert whole["num_steps"] == max(whole["steps_of_samples"]) == whole["num_accepted_steps"] + whole["num_rejected_steps"]
    assert whole["num_accepted_steps"] > free["num_accepted_steps"]
    assert whole["nfe_samples"] >= whole["nfe"] > free["nfe"]


def test_an_end_that_is_far_costs_little_where_an_event_comes_soon():
    down = Event(lambda t, h: h[:, 0] - 0.5, terminal=True)
    near, far = (integrate(swinging, None, starts([1.0, 0.0]), [0.0, end], events=down) for end in (16.0, 160.0))
    assert far.stats["num_steps"] < 5 * near.stats["num_steps"]
    assert_close(far.events[0].times, torch.tensor([math.pi / 3]), rtol=0, atol=1e-5)


@pytest.mark.kernels
@pytest.mark.parametrize("method", ["dopri5", "rodas5p"])
def test_from_stop_to_stop_a_kernel_takes_the_steps_of_the_engine(method):
    generator, dtype = torch.Generator().manual_seed(0), torch.float64
    xs, h0, found = 4 * torch.randn(3, 2, 1, generator=generator, dtype=dtype), torch.zeros(2, 2, dtype=dtype), []
    field, path = ctrnn.leaky(1, 2, dtype=dtype, generator=generator), ctrnn.HeldPath(xs)
    fire = Event(lambda t, h: h[:, 0].abs() - 0.02, 1, reset=lambda t, h: 0 * h)
    for fused in ("always", False):
        with torch.no_grad():
            solved = integrate(field, path, h0, [0.0, 3.0], events=fire, method=method, fused=fused)
        found.append((solved.events[0].times, solved.hs, torch.tensor(solved.stats["steps_of_samples"])))
        assert solved.stats["engine"] == ("compiled" if fused else "steps")
    assert len(found[0][0]) > 3
    assert_close(found[0], found[1], rtol=0, atol=1e-10)


def test_after_a_stop_steps_are_as_long_as_before_it():
    fire = Event(lambda t, h: h[:, 0] - 1, 1, reset=lambda t, h: 0 * h)
    h0, settings = torch.zeros(1, 1, dtype=torch.float64), {"rtol": 1e-3, "atol": 1e-3, "fused": False}
    solved = integrate(lambda t, h: 1.7 - h, None, h0, [0.0, 9.0], events=fire, **settings)
    assert len(solved.events[0].times) == 10
    assert solved.stats["num_steps"] < 60  # 66 with a guess at each stop
