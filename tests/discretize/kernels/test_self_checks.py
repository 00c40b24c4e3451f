"""A kernel is compared with the steps before it is used, in the units of what it computes: a wrong one of any field is seen."""

from collections import OrderedDict

import pytest
import torch
from conformance import kernels_for_all
from torch import nn

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN
from discretize.kernels import registry
from discretize.kernels.cpp import sequences as compiled
from discretize.kernels.cpp.solving import KernelRun
from discretize.kernels.price import kernels_at_once

UNITS = [1e-9, 1.0, 1e9]  # of the field: what it gives
# The slow run adds float64, whose rounding is further from what is found wrong here.
DTYPES = [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)]


class Scaled(ctrnn.VectorField):
    """dh/dt = unit tanh(W h + x), and a third unit that moves as fast as others where these are slow."""

    def __init__(self, unit, mixed=False):
        super().__init__(3, 3)
        self.matrix = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("units", torch.tensor([unit, unit, 1.0 if mixed else unit]))

    def flow(self, projected, h):
        return self.units * torch.tanh(h @ self.matrix + projected)


@pytest.fixture(autouse=True)
def each_kernel_is_made_anew(monkeypatch):
    monkeypatch.setattr(registry, "_made", OrderedDict())
    with kernels_for_all("compiled"):
        yield


def break_states(monkeypatch, wrong):
    """Has kernels move states by so many times what they should."""
    solve, step = KernelRun.forward, compiled._CppCall.forward

    def solved(run, projected, h0, *weights):
        return h0.detach() + wrong * (solve(run, projected, h0, *weights) - h0.detach())

    def stepped(call, keep):
        states, kept = step(call, keep)
        return call.h0 + wrong * (states - call.h0), kept

    monkeypatch.setattr(KernelRun, "forward", solved)
    monkeypatch.setattr(compiled._CppCall, "forward", stepped)


def break_gradients(monkeypatch, wrong):
    """Has kernels give so many times the gradient to the matrix."""
    solve, step = KernelRun.backward, compiled._CppCall.backward

    def changed(found):
        return [*found[:-2], wrong * found[-2], found[-1]]

    monkeypatch.setattr(KernelRun, "backward", lambda run, grad: changed(solve(run, grad)))
    monkeypatch.setattr(compiled._CppCall, "backward", lambda call, *given: changed(step(call, *given)))


RUNS = {"steps": DiscreteRNN, "solve": ContinuousRNN}
BREAKS = {"states": break_states, "gradients": break_gradients}


def engine(run, field):
    dtype = field.matrix.dtype
    rnn, h0, ts = RUNS[run](field), torch.rand(2, 3, dtype=dtype) + 0.5, torch.arange(5.0) / field.units.max().item()
    with kernels_at_once():
        rnn(torch.randn(4, 2, 3, dtype=dtype), h0, ts)
    return rnn.stats


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("run", RUNS)
class TestUnits:
    def test_a_right_kernel_is_used(self, run, unit, dtype):
        stats = engine(run, Scaled(unit).to(dtype))
        assert stats["engine"] == "compiled", stats["engine_why"]

    @pytest.mark.parametrize("broken", BREAKS)
    def test_one_that_is_wrong_by_a_hundredth_is_not(self, run, unit, dtype, broken, monkeypatch):
        BREAKS[broken](monkeypatch, 1.01)
        stats = engine(run, Scaled(unit).to(dtype))
        assert stats["engine"] == "steps"
        assert "its kernel differs from" in stats["engine_why"]


@pytest.mark.parametrize("run", RUNS)
def test_slow_units_are_looked_at_beside_fast_ones(run, monkeypatch):
    break_states(monkeypatch, torch.tensor([1.01, 1.0, 1.0]))
    assert "its kernel differs from" in (engine(run, Scaled(1e-9, mixed=True).float())["engine_why"] or "")


def test_a_gradient_is_as_wrong_as_it_is_beside_what_its_tensor_can_do_to_the_loss():
    h0, hs, true = torch.ones(2, 1), torch.full((3, 2, 1), 2.0), torch.zeros(2, 2)
    off = [
        registry.wrong_by([hs, true + 1e-7], [hs, true], h0, [torch.full((2, 2), size)], 1.0, torch.float64) for size in (1e-9, 1)
    ]
    assert off[0] < 1e-10  # a loss of 1 by numbers of 1e-9: gradients are 1e9
    assert off[1] > 1e-5
