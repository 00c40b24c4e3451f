"""`ContinuousRNN(events=...)`: a layer of leaky units that spike against its closed form, and every way of calling it."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import ctrnn
from discretize import Adjoint, ContinuousRNN, Ensemble, Euler, Event, ExponentialEuler, Layers, SequenceModel

TIGHT = {"rtol": 1e-8, "atol": 1e-9, "fused": False}
LOOSE = {"rtol": 1e-7, "atol": 1e-8, "fused": False}  # where a run is compared with one that takes nearly the same steps


class Leaky(ctrnn.VectorField):
    """dv/dt = w x - v, of each unit by itself."""

    def __init__(self, units=1):
        super().__init__(units, units)
        self.w = nn.Parameter(torch.ones(units, dtype=torch.float64))

    def project(self, x):
        return self.w * x

    def flow(self, projected, h):
        return projected - h

    def leak(self, projected, h):
        return torch.ones_like(h)


def spike(unit=0, threshold=1.0):
    def reset(t, h):
        return torch.cat([h[:, :unit], 0 * h[:, unit : unit + 1], h[:, unit + 1 :]], 1)

    return Event(lambda t, h: h[:, unit] - threshold, 1, reset=reset)


def layer(units=1, **settings):
    return ContinuousRNN(Leaky(units), events=[spike(unit) for unit in range(units)], **settings)


def by_hand(current, v, end):
    """The times of spikes of v' = I - v through resets to 0 at 1, and v at the end."""
    times, begin = [], torch.zeros((), dtype=torch.float64)
    while current > 1 and (at := begin + torch.log((current - v) / (current - 1))) < end:
        begin, v = at, torch.zeros((), dtype=torch.float64)
        times.append(at)
    return times, current + (v - current) * torch.exp(-(end - begin))


@pytest.mark.parametrize("end", [1, 2], ids=["one spike", "several spikes"])
@pytest.mark.parametrize(
    ("settings", "off"), [(TIGHT, 1e-6), ({"method": ExponentialEuler()}, 1e-10)], ids=["dopri5", "exponential"]
)
def test_spikes_states_and_sensitivities_of_a_leaky_layer_are_the_closed_form(settings, off, end):
    rnn, x = layer(**settings), torch.tensor([1.7, 2.1, 0.8], dtype=torch.float64, requires_grad=True)
    h_0 = torch.tensor([0.1, -0.4, 0.5], dtype=torch.float64, requires_grad=True)
    output, _ = rnn(x[None, :, None].expand(end, -1, -1), h_0[None, :, None])
    for k in range(3):
        times, v = by_hand(rnn.field.w[0] * x[k], h_0[k], end)
        found = rnn.crossed[0].times[rnn.crossed[0].samples == k]
        assert len(found) == len(times) == end * (k < 2)
        for mine, theirs in zip([*found, output[-1, k, 0]], [*times, v], strict=True):
            assert_close(mine, theirs, rtol=0, atol=off)
            of = [torch.autograd.grad(each, (x, h_0, rnn.field.w), retain_graph=True) for each in (mine, theirs)]
            assert_close(*of, rtol=off, atol=off)


def test_a_layer_in_fixed_steps_comes_to_the_closed_form_as_they_get_shorter():
    off = []
    for substeps in (4, 32):
        rnn, x = layer(method=Euler(), max_step=1 / substeps), torch.full((3, 1, 1), 1.7, dtype=torch.float64)
        output, _ = rnn(x)
        times, v = by_hand(torch.tensor(1.7, dtype=torch.float64), torch.zeros(()), 3.0)
        off.append(
            float((torch.stack([*rnn.crossed[0].times, output[-1, 0, 0]]) - torch.stack([*times, v])).detach().abs().max())
        )
    assert off[0] / off[1] == pytest.approx(8, rel=0.4)


def current(time, batch, units=2, seed=0):
    return 3 * torch.rand(time, batch, units, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# The slow run adds steps of several stages, and several of them between samples.
SEVERAL = pytest.param({"method": "rk4", "max_step": 0.3}, marks=pytest.mark.slow)
WAYS = pytest.mark.parametrize("settings", [{"method": ExponentialEuler()}, SEVERAL, LOOSE], ids=["exponential", "rk4", "dopri5"])


@torch.no_grad()
@WAYS
def test_lengths_packed_sequences_and_neighbours_are_each_sequence_alone(settings):
    rnn, xs, lengths = layer(2, **settings), current(3, 3), torch.tensor([2, 3, 1])
    alone = []
    for k, length in enumerate(lengths.tolist()):
        output, _ = rnn(xs[:length, k])
        alone.append((output, rnn.crossed))
    for way in ("lengths", "packed"):
        if way == "lengths":
            output, h_n = rnn(xs, lengths=lengths)
        else:
            rnn(pack_padded_sequence(xs, lengths, enforce_sorted=False))
        for k, (_, crossed) in enumerate(alone):
            for mine, theirs in zip(rnn.crossed, crossed, strict=True):
                assert_close(mine.times[mine.samples == k], theirs.times, rtol=0, atol=1e-9)
    assert sum(len(event.times) for event in rnn.crossed) > 4
    for k, (states, _) in enumerate(alone):
        assert_close(output[: lengths[k], k], states, rtol=0, atol=1e-9)
        assert_close(h_n[0, k], states[-1], rtol=0, atol=1e-9)
        assert not output[lengths[k] :, k].any()


@torch.no_grad()
@WAYS
def test_sequences_that_begin_anew_tell_the_time_of_the_whole(settings):
    rnn, xs, reset = layer(2, **settings), current(4, 2), torch.zeros(4, 2, dtype=torch.bool)
    reset[2, 1] = reset[3, 1] = reset[1, 0] = True
    output, _ = rnn(xs, reset=reset)
    crossed, stamped = rnn.crossed, torch.arange(5.0, dtype=torch.float64)
    assert_close(rnn(xs, reset=reset, ts=stamped)[0], output, rtol=0, atol=1e-12)
    for k, cuts in enumerate(([0, 1, 4], [0, 2, 3, 4])):
        times = [[], []]
        for begin, end in itertools.pairwise(cuts):
            piece, _ = rnn(xs[begin:end, k])
            assert_close(output[begin:end, k], piece, rtol=0, atol=1e-9)
            for found, event in zip(times, rnn.crossed, strict=True):
                found.append(event.times + begin)
        for found, event in zip(times, crossed, strict=True):
            assert_close(event.times[event.samples == k], torch.cat(found), rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_own_times_in_other_units_are_the_same_spikes(unit):
    class Slower(Leaky):
        def flow(self, projected, h):
            return (projected - h) / unit

        def leak(self, projected, h):
            return torch.ones_like(h) / unit

    xs = current(3, 2, 1)
    ts = torch.cat([torch.zeros(1, 2), 0.5 + current(3, 2, 1, seed=1)[..., 0]]).cumsum(0).double()
    for settings in ({"method": ExponentialEuler()}, LOOSE):
        rnn, slower = layer(**settings), ContinuousRNN(Slower(), events=spike(), **settings)
        output, _ = rnn(xs, ts=ts)
        assert_close(slower(xs, ts=unit * ts)[0], output, rtol=0, atol=1e-9)
        assert len(rnn.crossed[0].times) > 4
        assert slower.crossed[0].samples.tolist() == rnn.crossed[0].samples.tolist()
        assert_close(slower.crossed[0].times / unit, rnn.crossed[0].times, rtol=1e-8, atol=0)


def test_the_trajectory_of_a_layer_has_its_events_and_the_states_between_them():
    rnn, xs = layer(method=ExponentialEuler()), current(6, 2, 1)
    with torch.no_grad():
        solved = rnn.trajectory(xs)
        grid = torch.linspace(0, 6, 6001, dtype=torch.float64)
        falls = (solved(grid)[..., 0].diff(dim=0) < -0.5).sum(0)
    assert torch.bincount(solved.events[0].samples, minlength=2).tolist() == falls.tolist()
    assert_close(solved.hs[1:], rnn(xs)[0].detach(), rtol=0, atol=0)


def test_a_sequence_that_an_event_ends_keeps_its_state():
    rnn = ContinuousRNN(Leaky(), events=Event(lambda t, h: h[:, 0] - 1, terminal=True), method=ExponentialEuler())
    x = torch.tensor([1.7, 0.8], dtype=torch.float64)[None, :, None].expand(4, -1, -1)
    output, h_n = rnn(x)
    assert_close(output[:, 0, 0], torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-12)
    assert_close(h_n[0, 1, 0], 0.8 * (1 - torch.exp(torch.tensor(-4.0, dtype=torch.float64))), rtol=0, atol=1e-12)
    assert rnn.stats["status_of_samples"][0].startswith("ended by event 0 at t = 0.88")


class Threshold(nn.Module):
    def __init__(self):
        super().__init__()
        self.height = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))

    def forward(self, t, h):
        return h[:, 0] - self.height


def test_a_threshold_that_is_a_module_learns_with_the_layer():
    rnn = ContinuousRNN(Leaky(), events=Event(Threshold(), 1, reset=lambda t, h: 0 * h), method=ExponentialEuler())
    assert "event_parts.0.height" in dict(rnn.named_parameters())
    rnn(torch.full((2, 1, 1), 1.7, dtype=torch.float64))
    (slope,) = torch.autograd.grad(rnn.crossed[0].times[0], rnn.event_parts[0].height)
    assert_close(slope, torch.tensor(1 / 0.7, dtype=torch.float64))  # of log(I / (I - height))
    other = copy.deepcopy(rnn)
    assert other.events[0].g is other.event_parts[0]


def test_a_layer_learns_to_fire_at_a_time_by_newtons_steps():
    rnn, x = layer(method=ExponentialEuler()), torch.full((2, 1, 1), 1.5, dtype=torch.float64)
    for _ in range(5):
        rnn(x)
        off = rnn.crossed[0].times[0] - 0.8
        (slope,) = torch.autograd.grad(off, rnn.field.w)
        rnn.field.w.data -= off.detach() / slope
    assert_close(float(rnn.field.w.detach()), 1 / (1 - math.exp(-0.8)) / 1.5, rtol=0, atol=1e-6)  # w I = 1 / (1 - e^-T)


def test_layers_models_and_ensembles_run_layers_that_spike():
    lower, upper = layer(2, method=ExponentialEuler()), layer(2, method=Euler(), max_step=0.5)
    xs, lengths = current(2, 3), torch.tensor([1, 2, 2])
    stacked = Layers([lower, upper])
    output, _ = stacked(xs, lengths=lengths)
    fired = [event.samples.tolist() for event in lower.crossed]
    assert all(fired)
    below, _ = lower(xs, lengths=lengths)
    assert_close(upper(below, lengths=lengths)[0], output, rtol=0, atol=1e-12)
    stacked(pack_padded_sequence(xs, lengths, enforce_sorted=False))
    assert fired == [event.samples.tolist() for event in lower.crossed]
    xs = xs[:, :2]
    assert SequenceModel(lower, 4)(xs).shape == (2, 2, 4)
    networks = [layer(2, method=ExponentialEuler()) for _ in range(2)]
    networks[1].field.w.data *= 1.3
    assert_close(Ensemble(networks)(xs)[0], torch.stack([network(xs)[0] for network in networks]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", [{"gradient": Adjoint()}, {"on_failure": "keep"}, {"method": "torchdiffeq:dopri5"}], ids=str)
def test_what_events_do_not_go_with_is_refused_where_the_layer_is_made(settings):
    with pytest.raises(ValueError, match="`events` does not go with"):
        layer(**settings)


def test_an_exported_layer_has_no_events():
    with pytest.raises(ValueError, match=r"`events` does not go with `torch.export`"):
        torch.export.export(layer(method=Euler()), (current(3, 2, 1),))


@pytest.mark.parametrize("batch", [0, 1])
def test_empty_batches_and_single_samples_are_taken(batch):
    rnn = layer(method="rk4")
    output, h_n = rnn(torch.full((1, batch, 1), 3.0, dtype=torch.float64))
    assert output.shape == (1, batch, 1)
    assert h_n.shape == (1, batch, 1)
    assert len(rnn.crossed[0].times) == 2 * batch
