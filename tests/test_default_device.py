"""A default device of torch's is for what a user makes: the numbers kept beside states on another device stay where they are."""

import copy
from functools import partial

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteRNN, Event, integrate
from discretize.torchdiffeq import odeint

TIME, BATCH = 4, 2
XS = torch.randn(TIME, BATCH, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TS, OF_EACH = torch.linspace(0, 3, TIME, dtype=torch.float64), torch.tensor([[1.0, 2.0]], dtype=torch.float64)
H0 = torch.zeros(BATCH, 4, dtype=torch.float64)
WITH_EDGES = torch.cat([TS, TS[-1:] + 1])
LOOSE = {"rtol": 1e-3, "atol": 1e-3}  # where numbers are is the same in a short solve
NOISE, WARP = ctrnn.Noise(0.1), ctrnn.SmoothWarp(4.0, [0.05], [0.1])


def solved(path=ctrnn.LinearPath, ts=TS, **settings):
    return lambda field: integrate(field, path(XS, ts), H0, ts, **settings).hs


def with_events(field):
    event = Event(lambda t, h: t[..., 0] - 0.3, terminal=True)
    found = integrate(field, ctrnn.HermitePath(XS, TS), H0, TS, events=[event], **LOOSE)
    return torch.cat([found.hs.nan_to_num().flatten(), found.events[0].times])


def through(kind, *settings, seed=None, **named):
    def run(field):
        network, drawn = kind(field, *settings), {} if seed is None else {"seed": seed}
        return network(XS, H0, **named, **drawn)[0]

    return run


def noisy(way):
    return lambda field: way(ctrnn.Noisy(field, copy.deepcopy(NOISE)))


def driven(field):
    return odeint(ctrnn.Driven(field, ctrnn.LinearPath(XS, TS)), H0, TS, method="dopri5", **LOOSE)


def live(kind):
    def run(field):
        rnn, outputs, state = kind(field), [], H0[None]
        for x in XS:
            output, state = rnn.live_step(x, state, 0.5)
            outputs.append(output)
        return torch.stack(outputs)

    return run


WAYS = {
    "a stream": live(DiscreteRNN),
    "a stream that is solved": live(partial(ContinuousRNN, **LOOSE)),
    "a twin": lambda field: discretize.solved(DiscreteRNN(field, dt=0.5), **LOOSE)(XS, H0)[0],
    "noise that chooses steps": noisy(solved(method=discretize.StepDoubling(discretize.SRA1()), rtol=0.1, atol=0.1, seed=3)),
    "steps": through(DiscreteRNN),
    "steps of each length": through(DiscreteRNN, lengths=[4, 2]),
    "steps at stamps": through(DiscreteRNN, discretize.ExponentialEuler(), ts=TS[:, None] * OF_EACH),
    "an implicit step": through(DiscreteRNN, discretize.BackwardEuler()),
    "noise": noisy(through(DiscreteRNN, discretize.EulerMaruyama(), seed=3)),
    "noise in a solve": noisy(solved(method=discretize.SRA1(), max_step=0.3, seed=3)),
    "a solve at stamps": through(partial(ContinuousRNN, **LOOSE), ts=TS, lengths=[4, 2]),
    "a solve": solved(**LOOSE),
    "a stiff solve": solved(method="rodas5p", **LOOSE),
    "fixed steps": solved(method="rk4", max_step=0.5),
    "torchdiffeq's": solved(method="torchdiffeq:dopri5", **LOOSE),
    "as torchdiffeq is called": driven,
    "steps of each sequence": solved(ts=TS[:, None] * OF_EACH, **LOOSE),
    "an adjoint": solved(gradient=discretize.Adjoint(), **LOOSE),
    "checkpoints": solved(gradient=discretize.Checkpointed(4096), **LOOSE),
    "an event": with_events,
    "a warped input": lambda field: (
        integrate(field, ctrnn.WarpedPath(ctrnn.LinearPath(XS, TS), WARP), H0, [0.0, 1.0], **LOOSE).hs
    ),
    "a speed": solved(speed=lambda t: 1.5, **LOOSE),
    "delays": lambda field: (
        integrate(lambda t, h, past: field(XS[0], past[0]), None, H0, TS, delays=[1.4, 0.9], history=lambda t: H0 + t, **LOOSE).hs
    ),
}


@pytest.mark.by_default(12)
@pytest.mark.parametrize("way", WAYS)
def test_states_and_gradients_on_one_device_do_not_depend_on_the_default_device(way):
    field, found = ctrnn.gated(3, 4), []
    for device in ("cpu", "meta"):
        mine = copy.deepcopy(field)
        with torch.device(device):
            states = WAYS[way](mine)
            states.sum().backward()
        found.append([states, *(p.grad for p in mine.parameters())])
    assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.parametrize("noise", [False, True])
def test_a_look_at_a_model_does_not_depend_on_the_default_device(noise):
    field = ctrnn.gated(3, 4).double()
    model = DiscreteRNN(ctrnn.Noisy(field, copy.deepcopy(NOISE)), discretize.EulerMaruyama()) if noise else DiscreteRNN(field)
    found = []
    for device in ("cpu", "meta"):
        torch.manual_seed(0)
        with torch.device(device):
            found.append(discretize.breakdown(model, XS, halvings=1, steps=()))
    assert_close(found[0].by_unit, found[1].by_unit)
    assert (found[0].held, found[0].noise) == (found[1].held, found[1].noise)
