"""What users call, with tensors on a device that is not the CPU: the same numbers and gradients, found there.

The device is played by the CPU: where a tensor of one meets one of the other it is an error, as on a GPU.
"""

import pytest
import torch
import torchcde
from fake_device import DEVICE, FakeDevice
from problems import thinned
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map_only

import ctrnn
import discretize
from ctrnn import checks
from ctrnn.inputs.polynomial import polynomial_of
from ctrnn.inputs.splines import as_path
from discretize import ContinuousRNN, DiscreteRNN, Euler, Event, ExponentialEuler, integrate

CPU = torch.device("cpu")
LENGTHS = torch.tensor([4, 2, 1])
LOOSE = {"rtol": 1e-3, "atol": 1e-3}  # here and there the same steps are taken, however few


def normal(*shape):
    return torch.randn(shape)


def clocks():
    return torch.rand(4, 3).cumsum(0) + 0.1


def trained(make, *x, **given):
    """A module's outputs and gradients."""

    def run(device):
        module, inputs = make().to(device), normal(*x).to(device).requires_grad_()
        settings = {name: value().to(device) if callable(value) else value for name, value in given.items()}
        found = [y for y in tree_leaves(module(inputs, **settings)) if isinstance(y, torch.Tensor)]
        parameters = [inputs, *(p for p in module.parameters() if p.requires_grad)]
        loss = sum(y.square().sum() for y in found if y.requires_grad)
        return found, torch.autograd.grad(loss, parameters, allow_unused=True)

    return run


def solved(path=None, ts=lambda: torch.tensor([0.0, 1.3, 2.9]), between=True, **settings):
    """A solve's states, at the times asked for and between, and gradients."""

    def run(device):
        field, h0 = ctrnn.gated(2, 3).to(device), normal(4, 3).to(device).requires_grad_()
        driven = ctrnn.LinearPath(normal(6, 4, 2).to(device)) if path is None else path(device)
        given = {name: value(device) if value is speed else value for name, value in settings.items()}
        result = integrate(field, driven, h0, ts(), fused=False, **given)
        some = result(torch.tensor([0.5, 1.9])) if between else None
        return result.hs, some, torch.autograd.grad(result.hs.square().sum(), [h0, *field.parameters()])

    return run


class Oscillator(ctrnn.VectorField):
    """y'' = -k y."""

    def __init__(self):
        super().__init__(1, 2)
        self.k = torch.nn.Parameter(torch.tensor(1.3))

    def flow(self, x, h):
        return torch.stack([h[..., 1], -self.k * h[..., 0]], -1)


def crossed(**settings):
    def run(device):
        field, h0 = Oscillator().to(device), torch.tensor([[0.3, -1.0], [0.5, -1.0]]).to(device).requires_grad_()
        path = ctrnn.HeldPath(torch.zeros(1, 2, 1, device=device), torch.tensor([0.0, 1.0]))
        result = integrate(
            field, path, h0, torch.tensor([0.0, 0.5, 1.0]), events=[Event(lambda t, h: h[:, 0], **settings)], **LOOSE
        )
        times = result.events[0].times
        return result.hs, times, torch.autograd.grad(result.hs[-1].sum() + times.sum().to(h0), [h0, field.k])

    return run


class Late(ctrnn.DelayedField):
    def __init__(self):
        super().__init__(2, 3, [0.7, 0.4], learn=True)
        self.to_state = torch.nn.Linear(8, 3)

    def flow(self, projected, h, past):
        return torch.tanh(self.to_state(torch.cat([projected, *past], -1))) - h


def delayed(device):
    field, h0, history = (
        Late().to(device, torch.get_default_dtype()),
        normal(4, 3).to(device).requires_grad_(),
        normal(4, 3).to(device),
    )
    result = integrate(
        field, ctrnn.HeldPath(normal(2, 4, 2).to(device)), h0, torch.tensor([0.0, 0.25, 0.5]), history=history, **LOOSE
    )
    found = torch.autograd.grad(result.hs.square().sum(), [h0, *field.parameters()])
    line = ctrnn.DelayLine(field, 0.25, longest=0.75)
    return (
        result.hs,
        result(torch.tensor([0.2, 0.4])),
        found,
        DiscreteRNN(line, dt=0.25)(normal(4, 4, 2).to(device), line.state_of(history))[0],
    )


def ensembled(device):
    members = discretize.ensemble([DiscreteRNN(ctrnn.gated(2, 3)).to(device) for _ in range(3)])
    output, h_n = members(normal(4, 3, 2).to(device))
    return output, h_n, torch.autograd.grad(output.square().sum(), list(members.parameters()))


def together(method):
    def run(device):
        cell = discretize.DiscreteCell(ctrnn.gated(2, 3)).to(device)
        result = discretize.unroll_parallel(cell, normal(8, 4, 2).to(device), method=method)
        return result.hs, torch.autograd.grad(result.hs.square().sum(), list(cell.parameters()))

    return run


def ascended(metric):
    def run(device):
        model = discretize.SymbolModel(ctrnn.glnn(4, 6)).to(device)
        ascent = discretize.RiemannianAscent(model, metric, lr=0.1)
        ascent.step(torch.randint(4, (9, 5)).to(device))
        return [parameter.detach() for parameter in model.parameters()]

    return run


def gated(**settings):
    return lambda: DiscreteRNN(ctrnn.gated(2, 3), **settings)


def exact(**settings):
    return lambda: ContinuousRNN(ctrnn.gated(2, 3), **settings)


def sampled(kind, samples, *knots):
    return lambda device: kind(normal(samples, 4, 2).to(device), *(knot.to(device) for knot in knots))


def speed(device):
    return ctrnn.LinearPath(torch.rand(6, 1, 1).to(device))


def wave(device):
    phases = torch.arange(8.0, device=device).view(4, 2)
    return ctrnn.FunctionPath(lambda t: torch.sin(t.to(phases) + phases), (0.0, 3.0), 2)


def spline(device):
    times = torch.arange(6.0, device=device)
    return torchcde.CubicSpline(torchcde.natural_cubic_coeffs(normal(4, 6, 2).to(device), times), times)


def pieces(*paths):
    return lambda device: [polynomial_of(as_path(path(device))).xs for path in paths]


X = (4, 3, 2)
CASES = {
    "lengths": trained(gated(), *X, lengths=lambda: LENGTHS),
    "times of each": trained(gated(step=ExponentialEuler()), *X, ts=clocks),
    "exact, times of each, lengths": trained(exact(path="linear", **LOOSE), *X, ts=clocks, lengths=LENGTHS),
    "delays": delayed,
    "a function of time": solved(wave, **LOOSE),
    "a function of time, as kernels read it": pieces(wave),
    "events": crossed(direction=-1, reset=lambda t, h: torch.stack([0 * h[:, 0], -0.8 * h[:, 1]], 1)),
    "an ensemble": ensembled,
    "newton's method": together("newton"),
}


SLOW_CASES = {
    "resets": trained(gated(), *X, reset=lambda: torch.rand(4, 3) > 0.6),
    "a start": trained(gated(), *X, h_0=lambda: normal(1, 3, 3)),
    "zoneout": trained(lambda: gated(step=discretize.Zoneout(Euler(), 0.3))().eval(), *X),
    "zoneout of parts": trained(lambda: DiscreteRNN(ctrnn.lstm(2, 3), discretize.Zoneout(Euler(), [0.3, 0.1])).eval(), *X),
    "exact, resets": trained(exact(), *X, reset=lambda: torch.rand(4, 3) > 0.6),
    "exact, lengths": trained(exact(path="hermite"), *X, lengths=lambda: LENGTHS),
    "fixed steps, times of each": trained(exact(method="rk4", max_step=0.3), *X, ts=clocks),
    "step maps, times of each": trained(exact(method=ExponentialEuler(), max_step=0.3), *X, ts=clocks),
    "implicit, times of each": trained(exact(method=discretize.BackwardEuler(), max_step=0.5), *X, ts=clocks),
    "stiff, times of each": trained(exact(method="rodas5p", path="linear", rtol=1e-3, atol=1e-3), *X, ts=clocks),
    "both directions": trained(lambda: discretize.Layers([[gated()(), gated()()]]), *X, lengths=LENGTHS),
    "layers": trained(lambda: discretize.Layers([gated()(), DiscreteRNN(ctrnn.gru(3, 3))]), *X),
    "a stack": trained(lambda: DiscreteRNN(ctrnn.Stack([ctrnn.gated(2, 3), ctrnn.gated(3, 3)])), *X),
    "a model": trained(lambda: discretize.SequenceModel(gated()(), 2), *X),
    "from torch": trained(lambda: discretize.layers_from_torch(torch.nn.LSTM(2, 3)), *X),
    "ode_rnn": trained(lambda: discretize.ode_rnn(2, 3, rtol=1e-4, atol=1e-4), *X, ts=torch.tensor([0.0, 1.0, 2.5, 3.0])),
    "gru_ode_bayes": trained(lambda: discretize.gru_ode_bayes(2, 3, rtol=1e-4, atol=1e-4), *X),
    "gru_d": trained(
        lambda: discretize.gru_d(2, 3, mean=torch.tensor([0.1, 0.2])), *X, observed=lambda: torch.rand(4, 3, 2) > 0.5
    ),
    "cfc": trained(lambda: discretize.cfc(2, 3, "no_gate"), *X, ts=clocks),
    "a straight line": solved(),
    "a spline": solved(spline),
    "a spline, as kernels read it": pieces(spline),
    "a cubic": solved(sampled(ctrnn.HermitePath, 6)),
    "knots on the device": solved(sampled(ctrnn.LinearPath, 6, torch.arange(6.0))),
    "a warp": solved(lambda device: ctrnn.WarpedPath(sampled(ctrnn.LinearPath, 6)(device), ctrnn.AffineWarp(0.5, 0.0))),
    "backwards": solved(ts=lambda: torch.tensor([2.9, 0.7, 0.0])),
    "learned times": solved(ts=lambda: torch.tensor([0.0, 2.0, 2.9]).requires_grad_(), between=False),
    "tolerances of units": solved(atol=torch.tensor([1e-4, 1e-5, 1e-6])),
    "a clock": solved(speed=speed),
    "a clock, fixed steps": solved(speed=speed, method="rk4", max_step=0.5),
    "a clock, step maps": solved(speed=speed, method=Euler(), max_step=0.5),
    "checkpointed": solved(gradient=discretize.Checkpointed(100_000)),
    "adjoint": solved(gradient=discretize.Adjoint(), rtol=1e-4, atol=1e-4, between=False),
    "events that stop": crossed(terminal=True),
    "newton's method, diagonal": together("quasi"),
    "a scan": lambda device: discretize.linear_recurrence(normal(50, 2, 3).to(device), normal(50, 2, 3).to(device)),
    "ascent by rbpm": ascended("rbpm"),
    "ascent by ruop": ascended("ruop"),
    "time scales": lambda device: ctrnn.timescales(ctrnn.gated(2, 3).to(device)),
    "jacobians": lambda device: discretize.state_jacobians(gated()().to(device), torch.randn(6, 1, 2).to(device)),
}


def check(run, **device):
    torch.manual_seed(0)
    here = run(CPU)
    with FakeDevice(**device):
        torch.manual_seed(0)
        there = tree_map_only(torch.Tensor, lambda x: x.detach().cpu().double(), run(DEVICE))
    here = tree_map_only(torch.Tensor, lambda x: x.detach().double(), here)
    tolerance = 1e-6 if torch.get_default_dtype() == torch.float64 else 3e-4  # that of the solves, and times are rounded
    assert_close(tree_leaves(there), tree_leaves(here), rtol=tolerance, atol=tolerance)


# The slow run adds that what is longest here takes float64 on a device that has it; every day it runs on one without.
@pytest.mark.parametrize("name", thinned(CASES, CASES.keys() - {"delays", "events"}))
def test_a_device_gives_what_the_cpu_does(name):
    check(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_CASES)
def test_all_else_on_a_device(name):
    check(SLOW_CASES[name])


@pytest.fixture
def without_float64(monkeypatch):
    """A device as Apple's, MPS, on which float64 is an error; `_same_start` puts back what numbers are by default."""
    monkeypatch.setattr(checks, "WITHOUT_FLOAT64", {DEVICE.type})
    torch.set_default_dtype(torch.float32)


@pytest.mark.by_default(5)
@pytest.mark.parametrize("name", CASES)
def test_a_device_without_float64_gives_what_the_cpu_does(name, without_float64):
    check(CASES[name], float64=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_CASES)
def test_all_else_on_a_device_without_float64(name, without_float64):
    check(SLOW_CASES[name], float64=False)


def test_refining_on_a_device_without_float64_is_refused_in_words(without_float64):
    with FakeDevice(float64=False), pytest.raises(ValueError, match="has no float64, in which steps are compared"):
        discretize.refine(gated()().to(DEVICE), normal(*X).to(DEVICE))
