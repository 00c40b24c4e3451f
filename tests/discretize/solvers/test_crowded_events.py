"""Events where they crowd or end: closed forms of balls and neurons, at ends, at one time, before a failure, in batches."""

import math

import pytest
import torch
from scipy.integrate import solve_ivp
from torch.testing import assert_close

from discretize import Event, SolverError, integrate

TIGHT = {"rtol": 1e-9, "atol": 1e-9}


def falling(t, h):
    return torch.stack([h[:, 1], -9.81 * torch.ones_like(h[:, 1])], 1)


def rising(t, h):
    return torch.ones_like(h)


def floor(kept, height=0.0):
    return Event(lambda t, h: h[:, 0] + height, -1, reset=lambda t, h: torch.stack([h[:, 0], -kept * h[:, 1]], 1))


def starts(*rows, dtype=torch.float64):
    return torch.tensor(rows, dtype=dtype)


@pytest.mark.parametrize(
    ("kept", "height", "dtype"),
    [(0.5, 1.0, torch.float64), (0.01, 0.0, torch.float32), (0.01, 1.0, torch.float64), (0.0, 0.0, torch.float64)],
)
def test_a_ball_that_comes_to_rest_is_an_error_that_says_so(kept, height, dtype):
    first = math.sqrt(2 * (1 + height) / 9.81)
    rest = first + 2 * first * kept / (1 - kept)
    with pytest.raises(SolverError, match=r"sample 0.*event 0 stops the sample .* times in all") as caught:
        integrate(falling, None, starts([1.0, 0.0], dtype=dtype), [0.0, 0.1, 4.5], events=floor(kept, height))
    assert_close(caught.value.time, rest, rtol=0, atol=1e-3 if dtype == torch.float32 else 1e-5)
    assert len(caught.value.trajectory) == 2
    assert caught.value.trajectory.events[0].times[0] == pytest.approx(first, abs=1e-4)


def test_a_hop_far_shorter_than_a_step_is_found():
    # v rises by 1 per unit from 1 - 1e-3 to 1, again and again, in an equation whose steps are as long as they are let.
    fire = Event(lambda t, h: h[:, 0] - 1, 1, reset=lambda t, h: torch.full_like(h, 1 - 1e-3))
    (found,) = integrate(rising, None, starts([0.0]), [0.0, 1.0055], events=fire).events
    assert_close(found.times, 1 + 1e-3 * torch.arange(6), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("peak", "method"), [(30.0, "dopri5"), (1e6, "dopri5"), (1e6, "dopri8"), (30.0, "rodas5p"), (1e3, "rodas5p")]
)
def test_a_quadratic_neuron_fires_when_the_tangent_says(peak, method):
    # dv/dt = v^2 + 1 is tan(t + c); sample 2 never fires in that time.
    fire = Event(lambda t, h: h[:, 0] - peak, 1, reset=lambda t, h: torch.stack([torch.full_like(h[:, 0], -10.0), h[:, 1]], 1))

    def neuron(t, h):
        return torch.stack([h[:, 0] ** 2 + h[:, 1], 0 * h[:, 1]], 1)

    h0, begun = starts([0.0, 1.0], [-3.0, 1.0], [-2.0, -1.0]), (0.0, -3.0)
    solved = integrate(neuron, None, h0, [0.0, 5.0], events=fire, method=method, **TIGHT)
    for sample, v in enumerate(begun):
        first, period = math.atan(peak) - math.atan(v), math.atan(peak) + math.atan(10.0)
        expected = torch.arange(first, 5.0, period)
        found = solved.events[0].times[solved.events[0].samples == sample]
        assert_close(found, expected, rtol=0, atol=1e-7)
    alone = integrate(neuron, None, h0[2:], [0.0, 5.0], method=method, **TIGHT)
    assert not (solved.events[0].samples == 2).any()
    assert_close(solved.hs[-1, 2], alone.hs[-1, 0], rtol=0, atol=1e-8)


def test_an_exponential_neuron_fires_when_scipy_says():
    def slope(t, v):
        return -v + 0.2 * math.exp((float(v[0]) - 1) / 0.2) + 1.2

    def peak(t, v):
        return float(v[0]) - 5.0

    peak.terminal = True
    theirs = solve_ivp(slope, (0, 20), [0.0], "DOP853", rtol=1e-11, atol=1e-12, events=peak).t_events[0][0]
    fire = Event(lambda t, h: h[:, 0] - 5, 1, reset=lambda t, h: 0 * h)
    neuron, ts = lambda t, h: -h + 0.2 * torch.exp((h - 1) / 0.2) + 1.2, [0.0, 3.5 * theirs]
    (found,) = integrate(neuron, None, starts([0.0]), ts, events=fire, **TIGHT).events
    assert_close(found.times, theirs * torch.arange(1, 4), rtol=1e-7, atol=0)


def test_the_time_of_a_spike_has_the_gradient_of_its_closed_form():
    v = starts([0.5]).requires_grad_()
    fire = Event(lambda t, h: h[:, 0] - 1e4, 1, reset=lambda t, h: -10 + 0 * h)
    times = integrate(lambda t, h: h**2 + 1, None, v, [0.0, 4.5], events=fire, **TIGHT).events[0].times
    assert len(times) == 2
    for time in times:  # atan(peak) - atan(v), and a period later
        (slope,) = torch.autograd.grad(time, v, retain_graph=True)
        assert_close(slope, starts([-1 / (1 + 0.5**2)]), rtol=1e-4, atol=0)


@pytest.mark.parametrize("apart", [0.06, 1e-3, 1e-5])
def test_two_crossings_within_one_step_are_two(apart):
    g = Event(lambda t, h: (h[:, 0] - 30.42) ** 2 - apart**2)
    (found,) = integrate(rising, None, starts([0.0]), [0.0, 50.0], events=g).events
    assert_close(found.times, starts(30.42 - apart, 30.42 + apart), rtol=0, atol=1e-9)


def test_a_threshold_faster_than_the_steps_is_followed_or_refused():
    (found,) = integrate(rising, None, starts([0.0]), [0.0, 10.0], events=Event(lambda t, h: torch.sin(40 * h[:, 0]))).events
    assert_close(found.times, torch.arange(1, 128) * math.pi / 40, rtol=0, atol=1e-9)
    with pytest.raises(SolverError, match="too often in one step"):
        integrate(rising, None, starts([0.0]), [0.0, 10.0], events=Event(lambda t, h: torch.sin(40_000 * h[:, 0])))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_events_at_one_time_all_happen(order):
    # Two balls in one state land together, and so do the copies of one threshold that resets and counts.
    def both(t, h):
        return torch.cat([falling(t, h[:, :2]), falling(t, h[:, 2:])], 1)

    one = Event(lambda t, h: h[:, 0], -1, reset=lambda t, h: torch.cat([h[:, :1], -h[:, 1:2], h[:, 2:]], 1))
    other = Event(lambda t, h: h[:, 2], -1, reset=lambda t, h: torch.cat([h[:, :3], -h[:, 3:]], 1))
    events = [(one, other)[k] for k in order]
    solved = integrate(both, None, starts([1.0, 0.0, 1.0, 0.0]), [0.0, 2.0], events=events, **TIGHT)
    for found in solved.events:
        assert_close(found.times, math.sqrt(2 / 9.81) * torch.tensor([1.0, 3.0]), rtol=0, atol=1e-7)
    assert_close(solved.hs[-1, 0, :2], solved.hs[-1, 0, 2:], rtol=0, atol=1e-7)
    fire = Event(lambda t, h: h[:, 0] - 1, 1, reset=lambda t, h: torch.stack([0 * h[:, 0], h[:, 1]], 1))
    count = Event(lambda t, h: h[:, 0] - 1, 1, reset=lambda t, h: torch.stack([h[:, 0], h[:, 1] + 1], 1))
    events = [(fire, count)[k] for k in order]
    run = integrate(
        lambda t, h: torch.stack([1 + 0 * h[:, 0], 0 * h[:, 0]], 1), None, starts([0.0, 0.0]), [0.0, 3.5], events=events
    )
    assert_close(run.hs[-1, 0], torch.tensor([0.5, 3.0]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("end", [1.0, -1.0])
def test_crossings_at_requested_times_are_one_each(end):
    ts = torch.tensor([0.0, 0.25, 0.5, 1.0]) * end
    events = [Event(lambda t, h, level=level: h[:, 0] - level) for level in ts[:3].tolist()]
    found = integrate(rising, None, starts([0.0]), ts, events=events).events
    assert [len(each.times) for each in found] == [0, 1, 1]
    assert_close(torch.cat([each.times for each in found]), ts[1:3], rtol=0, atol=1e-12)


def test_a_reset_that_stays_on_its_threshold_goes_through_once():
    once = Event(lambda t, h: h[:, 0] - 1, reset=lambda t, h: torch.ones_like(h))
    solved = integrate(rising, None, starts([0.0]), [0.0, 2.0], events=once)
    assert_close(solved.events[0].times, starts(1.0), rtol=0, atol=1e-9)
    assert_close(solved.hs[-1], starts([2.0]), rtol=0, atol=1e-9)


def test_a_crowding_sample_leaves_its_neighbours_as_they_are():
    h0 = starts([1e-3, 0.0], [1.0, 0.0], [50.0, 0.0])
    solved = integrate(falling, None, h0, [0.0, 0.2], events=floor(0.95), **TIGHT)
    for sample in (1, 2):
        alone = integrate(falling, None, h0[sample : sample + 1], [0.0, 0.2], events=floor(0.95), **TIGHT)
        assert_close(solved.hs[:, sample], alone.hs[:, 0], rtol=0, atol=1e-8)
    first = math.sqrt(2e-3 / 9.81)
    times, hops = solved.events[0].times[solved.events[0].samples == 0], 2 * first * 0.95 ** torch.arange(1, 100)
    expected = first + torch.cat([torch.zeros(1), hops]).cumsum(0)
    assert_close(times, expected[expected < 0.2], rtol=0, atol=1e-8)
