"""Events where they crowd or end: closed forms of balls and neurons, at ends, at one time, before a failure, in batches."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad, solve_ivp
from torch.testing import assert_close

import ctrnn
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
    [  # the slow run adds a ball that hops more often before it rests
        pytest.param(0.3, 1.0, torch.float64, marks=pytest.mark.slow),
        *[(0.01, 0.0, torch.float32), (0.01, 1.0, torch.float64), (0.0, 0.0, torch.float64)],
    ],
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


def quadratic(t, h):  # dv/dt = v^2 + I, whose solutions are tangents
    return torch.stack([h[:, 0] ** 2 + h[:, 1], 0 * h[:, 1]], 1)


def spike(peak, reset=1.0, **settings):
    if settings:
        return Event(lambda t, h: h[:, 0] - peak, 1, **settings)
    return Event(lambda t, h: h[:, 0] - peak, 1, reset=lambda t, h: torch.cat([torch.full_like(h[:, :1], reset), h[:, 1:]], 1))


def of_sample(found, sample):
    return found.times[found.samples == sample]


@pytest.mark.parametrize(
    ("peak", "method", "tolerances", "off"),
    [
        (
            30.0,
            "dopri5",
            {"rtol": 1e-7, "atol": 1e-9},
            2e-6,
        ),  # the slow run has every method; higher peaks are in the next test too
        *(
            pytest.param(peak, method, tolerances, off, marks=pytest.mark.slow)
            for peak in (30.0, 1e3, 1e6, 1e9)
            for method in ("dopri5", "dopri8", "tsit5", "bosh3", "rodas5p")
            for tolerances, off in (({}, 2e-5), ({"rtol": 1e-7, "atol": 1e-9}, 2e-6), (TIGHT, 5e-7))
            if method != "bosh3" or tolerances != TIGHT
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The solve (took|has taken)")  # bosh3 takes very many steps
def test_a_quadratic_neuron_fires_when_the_tangent_says(peak, method, tolerances, off):
    h0, begun = starts([0.0, 1.0], [-1.0, 1.0], [-2.0, -1.0]), (0.0, -1.0)  # sample 2 never fires in that time
    solved = integrate(quadratic, None, h0, [0.0, 2.5], events=spike(peak), method=method, **tolerances)
    for sample, v in enumerate(begun):
        first, period = math.atan(peak) - math.atan(v), math.atan(peak) - math.atan(1.0)
        assert_close(of_sample(solved.events[0], sample), torch.arange(first, 2.5, period), rtol=0, atol=off)
    alone = integrate(quadratic, None, h0[2:], [0.0, 2.5], method=method, **tolerances)
    assert not (solved.events[0].samples == 2).any()
    assert_close(solved.hs[-1, 2], alone.hs[-1, 0], rtol=0, atol=10 * off)


@pytest.mark.parametrize(
    ("terminal", "direction", "dtype", "fused"),
    [
        *[(True, -1, torch.float64, False), (False, 1, torch.float32, False)],  # the slow run has the rest
        *(
            pytest.param(terminal, direction, dtype, fused, marks=pytest.mark.slow)
            for terminal in (True, False)
            for direction in (1, -1)
            for dtype in (torch.float32, torch.float64)
            for fused in (False, True)
        ),
    ],
)
def test_a_peak_next_to_the_end_of_a_solution_is_found_every_way(terminal, direction, dtype, fused):
    h0, event = starts([0.0, 1.0], [-1.0, 1.0], dtype=dtype), spike(1e10, terminal=True) if terminal else spike(1e10)
    ts = [0.0, 2.5 * direction]
    solved = integrate(lambda t, h: direction * quadratic(t, h), None, h0, ts, events=event, method="tsit5", fused=fused)
    for sample, v in enumerate((0.0, -1.0)):
        first, period = math.pi / 2 - math.atan(v), math.pi / 2 - math.atan(1.0)
        expected = direction * torch.arange(first, first + 0.1 if terminal else 2.5, period)
        times = of_sample(solved.events[0], sample)
        assert_close(times, expected, rtol=0, atol=2e-5)
        if terminal:
            # The state is as far from its threshold as the error of the time lets it be.
            assert 1e4 < float(solved.hs[-1, sample, 0]) < 1e14
            assert_close(solved(torch.tensor([ts[-1]]))[0, sample], solved.hs[-1, sample], rtol=0, atol=0)


@pytest.mark.parametrize(("end", "count"), [pytest.param(1.7, 1, marks=pytest.mark.slow), (2.5, 2)])  # and of one after a reset
def test_a_spike_next_to_the_end_of_a_solution_has_the_gradient_of_its_closed_form(end, count):
    v, drive = starts(0.0).requires_grad_(), starts(1.0).requires_grad_()
    h0, settings = torch.stack([v, drive], 1), {"method": "dopri8", "fused": False, "rtol": 1e-5, "atol": 1e-6}
    times = integrate(quadratic, None, h0, [0.0, end], events=spike(1e9), **settings).events[0].times
    still = drive.detach().requires_grad_()
    spikes, root = torch.arange(count), still.sqrt()  # each after the way from 1 to infinity, the first after that from 0
    expected = (math.pi / 2 + spikes * (math.pi / 2 - torch.atan(1 / root))) / root
    assert len(times) == count
    for time, by_tangent in zip(times, expected, strict=True):
        by_v, by_drive = torch.autograd.grad(time, (v, drive), retain_graph=True)
        assert_close(by_v, starts(-1.0), rtol=1e-4, atol=0)
        assert_close(by_drive, torch.autograd.grad(by_tangent, still, retain_graph=True)[0], rtol=1e-4, atol=0)


@pytest.mark.parametrize("peak", [1e1, pytest.param(1e5, marks=pytest.mark.slow), 1e9])
def test_the_gradient_of_a_spike_does_not_hang_on_how_far_away_its_peak_is(peak):
    v = starts(0.0).requires_grad_()
    h0 = torch.stack([v, torch.ones(1)], 1)
    times = integrate(quadratic, None, h0, [0.0, 2.5], events=spike(peak), fused=False).events[0].times
    for time in times:  # to start higher is to start later
        assert_close(torch.autograd.grad(time, v, retain_graph=True)[0], starts(-1.0), rtol=5e-4, atol=0)


def test_a_delayed_neuron_next_to_the_end_of_its_solution_ends_at_its_peak():
    def neuron(t, h, past):
        return h**2 + 1 + 0 * past[0]

    end = Event(lambda t, h: h[:, 0] - 1e9, 1, terminal=True)
    solved = integrate(neuron, None, starts([0.0], [-1.0]), [0.0, 3.0], delays=1.2, events=end, method="tsit5")
    assert_close(solved.events[0].times, math.pi / 2 - torch.atan(starts(0.0, -1.0)), rtol=0, atol=2e-5)
    for sample, time in enumerate(solved.events[0].times):
        assert 1e4 < float(solved.hs[-1, sample, 0]) < 1e14
        assert_close(solved(3.0)[sample], solved.hs[-1, sample], rtol=0, atol=0)
        assert 1e3 < float(solved(time - 1e-9)[sample, 0]) < 1e14


def test_neurons_next_to_the_ends_of_their_solutions_fire_as_if_alone():
    h0 = starts([0.0, 1.0], [-2.0, -1.0], [1.0, 2.0])
    how = {"events": spike(1e6), "method": "tsit5", "fused": False, "rtol": 1e-4}
    together = integrate(quadratic, None, h0, [0.0, 1.7], **how)
    for sample, fires in enumerate((1, 0, 2)):
        alone = integrate(quadratic, None, h0[sample : sample + 1], [0.0, 1.7], **how).events[0].times
        assert len(alone) == fires
        assert_close(of_sample(together.events[0], sample), alone, rtol=0, atol=1e-4)


# The slow run adds the way back, on which the test of peaks above ends every day.
@pytest.mark.parametrize("direction", [1, pytest.param(-1, marks=pytest.mark.slow)])
def test_a_solution_that_ends_without_an_event_is_an_error_beside_one_that_fires(direction):
    h0 = starts([0.0, 1.0], [-2.0, 2.0])
    end = Event(lambda t, h: torch.where(h[:, 1] > 1.5, -1.0, h[:, 0] - 1e10), 1, terminal=True)
    with pytest.raises(SolverError, match="sample 1") as caught:
        integrate(lambda t, h: direction * quadratic(t, h), None, h0, [0.0, 5.0 * direction], method="tsit5", events=end)
    assert caught.value.sample == 1
    assert_close(caught.value.time, direction * (math.pi / 2 + math.atan(math.sqrt(2))) / math.sqrt(2), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("peak", "method"),
    # In the units of a neuron, where it has been reset too; the next test has one such neuron every day.
    [
        pytest.param(peak, m, marks=pytest.mark.slow)
        for peak in (0.0, 20.0)
        for m in ("dopri5", "dopri8", "tsit5", "bosh3", "rodas5p")
    ],
)
def test_an_exponential_neuron_fires_when_its_integral_says(peak, method):
    # C = 1 nF, 0.1 uS, E_L = -65 mV, V_T = -50 mV, delta_T = 2 mV, peak 0 or 20 mV: exp(25) or exp(35) at the end
    def slope(v):
        return (-(v + 65) + 2 * np.exp((v + 50) / 2) + 20) / 10

    first, period = (quad(lambda v: 1 / slope(v), v, peak, epsabs=1e-12, limit=300, points=[-50, -30])[0] for v in (-65.0, -60.0))
    found = integrate(
        lambda t, h: (-(h + 65) + 2 * torch.exp((h + 50) / 2) + 20) / 10,
        None,
        starts([-65.0]),
        [0.0, first + 1.5 * period],
        events=spike(peak, -60.0),
        method=method,
        rtol=1e-4,
        atol=1e-6,
        fused=False,
    ).events[0]
    assert_close(found.times, first + period * torch.arange(2), rtol=2e-4, atol=0)


@pytest.mark.parametrize(
    ("peak", "method"),
    [
        (6.0, "dopri8"),  # the slow run has the other methods
        *(pytest.param(peak, m, marks=pytest.mark.slow) for peak, m in [(5.0, "dopri5")]),
        *(pytest.param(6.0, m, marks=pytest.mark.slow) for m in ("bosh3", "tsit5", "rodas5p")),
    ],
)
def test_an_exponential_neuron_fires_when_scipy_says(peak, method):
    def slope(t, v):
        return -v + 0.2 * math.exp((float(v[0]) - 1) / 0.2) + 1.2

    def over(t, v):
        return float(v[0]) - peak

    over.terminal = True
    theirs = solve_ivp(slope, (0, 20), [0.0], "DOP853", rtol=1e-11, atol=1e-12, events=over).t_events[0][0]
    neuron, ts = lambda t, h: -h + 0.2 * torch.exp((h - 1) / 0.2) + 1.2, [0.0, 1.2 * theirs]
    (found,) = integrate(neuron, None, starts([0.0]), ts, events=spike(peak, 0.0), method=method).events
    assert_close(found.times, theirs * torch.ones(1), rtol=1e-4, atol=0)


def test_the_time_of_a_spike_has_the_gradient_of_its_closed_form():
    v = starts([0.5]).requires_grad_()
    fire = Event(lambda t, h: h[:, 0] - 10, 1, reset=lambda t, h: 0.2 + 0 * h)
    times = integrate(lambda t, h: h**2 + 1, None, v, [0.0, 2.6], events=fire, rtol=1e-4, atol=1e-5).events[0].times
    assert len(times) == 2
    for time in times:  # atan(peak) - atan(v), and a period later
        (slope,) = torch.autograd.grad(time, v, retain_graph=True)
        assert_close(slope, starts([-1 / (1 + 0.5**2)]), rtol=1e-3, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bent", [lambda h: h**3, torch.exp, lambda h: 1 / (h + 0.1)], ids=["cube", "exp", "inverse"])
def test_a_crossing_of_what_bends_is_off_by_a_few_digits_of_the_time(bent, dtype):
    h0 = torch.stack([torch.zeros(40), torch.linspace(0.31, 0.97, 40)], 1).to(dtype)
    g = Event(lambda t, h: bent(h[:, 0]) - bent(h[:, 1]))
    ahead = torch.tensor([1.0, 0.0], dtype=dtype)
    (found,) = integrate(lambda t, h: ahead + 0 * h, None, h0, [0.0, 1.0], events=g).events
    off = (found.times - h0[:, 1]).abs() / torch.finfo(dtype).eps
    assert off.mean() < 7  # 4 to 6; 9 to 20 where roots are narrowed to 64 digits


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


either_order = pytest.mark.parametrize("order", [(0, 1), (1, 0)])


@either_order
def test_two_balls_in_one_state_land_together(order):
    def both(t, h):
        return torch.cat([falling(t, h[:, :2]), falling(t, h[:, 2:])], 1)

    one = Event(lambda t, h: h[:, 0], -1, reset=lambda t, h: torch.cat([h[:, :1], -h[:, 1:2], h[:, 2:]], 1))
    other = Event(lambda t, h: h[:, 2], -1, reset=lambda t, h: torch.cat([h[:, :3], -h[:, 3:]], 1))
    events = [(one, other)[k] for k in order]
    solved = integrate(both, None, starts([1.0, 0.0, 1.0, 0.0]), [0.0, 2.0], events=events, **TIGHT)
    for found in solved.events:
        assert_close(found.times, math.sqrt(2 / 9.81) * torch.tensor([1.0, 3.0]), rtol=0, atol=1e-7)
    assert_close(solved.hs[-1, 0, :2], solved.hs[-1, 0, 2:], rtol=0, atol=1e-7)


@either_order
def test_a_threshold_that_resets_and_its_copy_that_counts_both_happen(order):
    fire = Event(lambda t, h: h[:, 0] - 1, 1, reset=lambda t, h: torch.stack([0 * h[:, 0], h[:, 1]], 1))
    count = Event(lambda t, h: h[:, 0] - 1, 1, reset=lambda t, h: torch.stack([h[:, 0], h[:, 1] + 1], 1))
    events = [(fire, count)[k] for k in order]
    run = integrate(
        lambda t, h: torch.stack([1 + 0 * h[:, 0], 0 * h[:, 0]], 1), None, starts([0.0, 0.0]), [0.0, 3.5], events=events
    )
    assert_close(run.hs[-1, 0], torch.tensor([0.5, 3.0]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("jumped", [torch.gt, torch.ge])
@pytest.mark.parametrize("ts", [[0.0, 1.0, 2.0], [0.0, 2.0]])
def test_a_crossing_just_before_a_threshold_jumps_at_a_requested_time_is_found(jumped, ts):
    # h falls from 1.38 and passes 0.4 at t = 0.98; at t = 1 g jumps to 5, which is no rounding of the step before.
    event = Event(lambda t, h: torch.where(jumped(t[:, 0], 1.0), 5.0, h[:, 0] - 0.4))
    (found,) = integrate(lambda t, h: -torch.ones_like(h), None, starts([1.38]), ts, events=event).events
    assert_close(found.times, starts(0.98, 1.0), rtol=0, atol=1e-9)


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


def test_what_crosses_zero_as_another_event_stops_the_sample_is_found_once():
    # Three events at one time, the last two as rounding has it before or after the first, whose reset does not move them.
    at = torch.rand(40, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1

    def f(t, h):
        return torch.tensor([1.0, 1.0, 0.0], dtype=h.dtype).expand_as(h)

    events = [
        Event(lambda t, h: h[:, 0] - h[:, 2], 1, reset=lambda t, h: torch.cat([h[:, :1] - 10, h[:, 1:]], 1)),
        Event(lambda t, h: 3 * h[:, 1] - 3 * h[:, 2], 1),
        Event(lambda t, h: t.reshape(-1) - h[:, 2], 1),
    ]
    found = integrate(f, None, torch.cat([0 * at, 0 * at, at], 1), [0.0, 2.0], events=events).events
    assert all(one.samples.tolist() == list(range(40)) for one in found)


@pytest.mark.parametrize("scale", [1e-5, 7.0, 3e6])
@pytest.mark.parametrize("method", ["rk4", "rodas5p"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_ends_on_one_surface_in_other_units_both_happen(dtype, method, scale):
    def swinging(t, h):
        return torch.stack([h[:, 1], -h[:, 0]], 1)

    levels = torch.linspace(-0.8, 0.8, 9, dtype=dtype)[:, None]
    h0 = torch.cat([torch.ones_like(levels), 0 * levels, levels], 1)
    ends = [
        Event(lambda t, h: h[:, 0] - h[:, 2], terminal=True),
        Event(lambda t, h: scale * h[:, 0] - scale * h[:, 2], terminal=True),
    ]
    settings = {"method": method, "fused": False} | ({"max_step": 0.1} if method == "rk4" else {})
    solved = integrate(lambda t, h: torch.cat([swinging(t, h), 0 * h[:, :1]], 1), None, h0, [0.0, 3.0], events=ends, **settings)
    assert [found.samples.tolist() for found in solved.events] == [list(range(9))] * 2
    assert_close(solved.events[0].times, torch.arccos(levels[:, 0].double()), rtol=0, atol=1e-4)
    assert_close(solved.events[1].times, solved.events[0].times, rtol=0, atol=0)


def test_a_crossing_a_rounding_before_a_requested_time_is_gone_through():
    onward = Event(lambda t, h: h[:, 0] - 0.5625, reset=lambda t, h: h)
    settings = {"method": "rk4", "max_step": 0.3, "fused": False}
    solved = integrate(rising, None, starts([0.0], dtype=torch.float32), [0.0, 0.5625, 3.0], events=onward, **settings)
    assert_close(solved.events[0].times, torch.tensor([0.5625], dtype=torch.float64), rtol=0, atol=1e-7)
    assert_close(solved.hs[-1].item(), 3.0, rtol=0, atol=1e-5)


def test_what_rests_at_a_threshold_may_be_pushed_off_by_another_event():
    def moving(t, h):  # a place, its speed and its acceleration
        return torch.stack([h[:, 1], h[:, 2], 0 * h[:, 0]], 1)

    lands = Event(lambda t, h: h[:, 0], -1, reset=lambda t, h: 0 * h)
    pulls = Event(lambda t, h: t[:, 0] - 2, reset=lambda t, h: h - h.new_tensor([0.0, 0.0, 1.0]))
    solved = integrate(moving, None, starts([1.0, -1.0, 0.0]), [0.0, 3.0], events=[lands, pulls], **TIGHT)
    assert_close([event.times.tolist() for event in solved.events], [[1.0], [2.0]], rtol=0, atol=1e-9)
    assert_close(solved.hs[-1, 0], starts([-0.5, -1.0, -1.0])[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_stays_at_zero_for_a_while_crosses_where_it_comes_there(dtype):
    level = Event(lambda t, h: (h[:, 0] - 0.5).clamp(min=0) + (h[:, 0] - 0.3).clamp(max=0))
    found = integrate(rising, None, starts([0.0], dtype=dtype), [0.0, 1.0], events=level, first_step=0.9, fused=False).events[0]
    assert_close(found.times, starts([0.3])[0], rtol=0, atol=16 * torch.finfo(dtype).eps)


class Pushed(ctrnn.VectorField):
    """dh[0]/dt = h[1] + input."""

    def __init__(self):
        super().__init__(1, 2)

    def flow(self, projected, h):
        return torch.cat([h[:, 1:] + projected, 0 * projected], 1)


def landings(inputs, knots, speed=0.0, **how):
    """When a point that falls from 1 / 8 lands, where it takes a speed, with each input from one knot to the next."""
    lands = Event(lambda t, h: h[:, 0], -1, reset=lambda t, h: torch.cat([0 * h[:, :1], 0 * h[:, 1:] + speed], 1))
    path = ctrnn.HeldPath(torch.tensor(inputs, dtype=torch.float64)[:, None, None], torch.tensor(knots, dtype=torch.float64))
    ts = [0.0, float(knots[-1])]
    return integrate(Pushed(), path, starts([0.125, -1.0]), ts, events=lands, fused=False, **how).events[0].times


@pytest.mark.parametrize("rest", [1, 2, 5, 9])  # looks are from stop to stop and at every other length
def test_what_rests_at_a_threshold_is_not_pushed_through_it_by_an_input_that_jumps(rest):
    assert_close(landings([0.0, 1.0], [0, rest, rest + 3]), starts([0.125])[0], rtol=0, atol=1e-15)
    with pytest.raises(SolverError, match="leaves it at rest at g = 0, from where it is pushed on"):
        landings([0.0, -1.0], [0, rest, rest + 3])


def test_what_rests_at_a_threshold_is_not_pushed_through_it_just_where_a_look_begins():
    for rest in np.arange(2, 12) / 8:
        with pytest.raises(SolverError, match="leaves it at rest at g = 0, from where it is pushed on"):
            landings([0.0, -1.0], [0.0, rest, 4.0], method="euler", max_step=0.125)


def test_a_landing_just_where_a_look_ends_is_found_whatever_was_at_zero_before():
    for up in np.arange(1, 12) / 8:  # all numbers are exact
        found = landings([0.0, -2.0], [0.0, 0.125 + up, 9.0], speed=1.0, method="euler", max_step=0.125)
        assert found.tolist() == [0.125, 0.125 + 2 * up]


def test_what_rests_at_a_threshold_for_long_is_not_pushed_through_it_in_silence():
    def pulled_later(t, h):
        return torch.cat([h[:, 1:], -(t - 2).clamp(min=0)], 1)

    lands = Event(lambda t, h: h[:, 0], -1, reset=lambda t, h: 0 * h)
    with pytest.raises(SolverError, match="leaves it at rest at g = 0, from where it is pushed on"):
        integrate(pulled_later, None, starts([0.1, -1.0]), [0.0, 4.0], events=lands, fused=False)
