"""A function's modules and tensors, wherever it has them from, are parameters of the equation: adjoint and kernels see them."""

import functools
import math

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

import discretize
import discretize.torchdiffeq as ours
from discretize.kernels.record.program import FlowModule, weights_of
from discretize.solvers.captured import CapturedFunction, captured
from discretize.solvers.equation import Equation


class Decay(nn.Module):
    """dh/dt = -w h, h(1) = h(0) exp(-w)"""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False, dtype=torch.float64)
        nn.init.constant_(self.layer.weight, 0.7)

    def forward(self, t, h):
        return -self.layer(h)


NET, SCALE = Decay(), nn.Parameter(torch.tensor(1.5, dtype=torch.float64))


def scaled(scale, net, t, h):
    return scale * net(t, h)


def by_global(t, h):
    return SCALE * NET(t, h)


def ways():
    net, scale, weights = NET, SCALE, dict(NET.named_parameters())
    parts = {"scale": scale, "nets": [net]}

    def inner(h):
        return net(None, h)

    def made_inside(t, h):
        def slope():
            return scale * net(t, h)

        return slope()

    def recursive(t, h, depth=2):
        return recursive(t, h, depth - 1) if depth else scale * net(t, h)

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.scale = net, scale

        def slope(self, t, h):
            return self.scale * self.net(t, h)

    return {
        "a closure": lambda t, h: scale * net(t, h),
        "a function in a closure": lambda t, h: scale * inner(h),
        "a function made inside": made_inside,
        "a function that calls itself": recursive,
        "a list and a dict": lambda t, h: parts["scale"] * parts["nets"][0](t, h),
        "defaults": lambda t, h, net=net, *, scale=scale: scale * net(t, h),
        "partial": functools.partial(scaled, scale, net),
        "partial by name": functools.partial(lambda t, h, net: scale * net(t, h), net=net),
        "a bound method": Holder().slope,
        "functional_call": lambda t, h: scale * functional_call(net, weights, (t, h)),
        "globals": by_global,
        "a function of globals": lambda t, h: 1 * by_global(t, h),
    }


@pytest.mark.by_default(6)
@pytest.mark.parametrize("way", ways())
def test_modules_of_a_function_are_parameters_and_the_adjoint_gives_them_gradients(way):
    function, h0 = ways()[way], torch.ones(3, 1, dtype=torch.float64)
    assert {id(w) for w in weights_of(FlowModule(Equation(function, 1, None, h0), 1))} == {id(NET.layer.weight), id(SCALE)}
    ts = torch.tensor([0.0, 1.0], dtype=torch.float64)
    for solved in (
        discretize.integrate(function, None, h0, ts, rtol=1e-9, atol=1e-9, gradient=discretize.Adjoint()).hs,
        ours.odeint_adjoint(function, h0, ts, adjoint_params=()),
    ):
        gradients = torch.autograd.grad(solved[-1].sum(), [NET.layer.weight, SCALE])
        end = 3 * math.exp(-0.7 * 1.5)
        assert_close(solved[-1].sum(), torch.tensor(end, dtype=torch.float64), rtol=1e-7, atol=0)
        expected = (torch.tensor([[-1.5 * end]], dtype=torch.float64), torch.tensor(-0.7 * end, dtype=torch.float64))
        assert_close(gradients, expected, rtol=1e-6, atol=0)


def test_a_name_that_code_rebinds_and_parts_of_another_dtype_stay_where_they_are():
    calls, net, h = 0, NET, torch.ones(2, 1, dtype=torch.float64)

    def counting(t, h):
        nonlocal calls
        calls += 1
        return net(t, h)

    found = captured(counting, h)
    assert isinstance(found, CapturedFunction)
    assert_close(found(None, h), NET(None, h))
    assert calls == 1
    assert captured(counting, h.float()) is counting
    assert captured(math.sin, h) is math.sin


def test_a_module_that_is_bound_anew_is_the_one_of_the_next_solve():
    net, h0, ts = Decay(), torch.ones(1, 1, dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)

    def slope(t, h):
        return net(t, h)

    before = discretize.integrate(slope, None, h0, ts).hs[-1]
    net = lambda t, h: 0 * h  # noqa: E731
    assert_close(discretize.integrate(slope, None, h0, ts).hs[-1], h0)
    assert_close(before.detach(), h0 * math.exp(-0.7), rtol=0, atol=1e-4)


def test_the_kernel_of_a_closure_takes_the_weights_of_each_call():
    h0, ts = torch.ones(2, 1, dtype=torch.float64), torch.tensor([0.0, 1.0], dtype=torch.float64)
    for way in ("a closure", "globals"):
        for weight in (0.7, 0.2):
            with torch.no_grad():
                NET.layer.weight.fill_(weight)
            solved = discretize.integrate(ways()[way], None, h0, ts, rtol=1e-9, atol=1e-9, fused="always")
            assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
            assert_close(solved.hs[-1], h0 * math.exp(-1.5 * weight), rtol=1e-7, atol=0)
            (gradient,) = torch.autograd.grad(solved.hs[-1].sum(), NET.layer.weight)
            assert_close(gradient, torch.full((1, 1), -3 * math.exp(-1.5 * weight), dtype=torch.float64), rtol=1e-6, atol=0)
    nn.init.constant_(NET.layer.weight, 0.7)
