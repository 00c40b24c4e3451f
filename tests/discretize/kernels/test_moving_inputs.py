"""Kernels along inputs that bend, on clocks that run unevenly: against closed forms, and what they refuse."""

import math

import pytest
import torch
from cases import crossed
from conformance import kernels_for_all
from torch.testing import assert_close

import ctrnn
from discretize import integrate

TS = torch.tensor([0.0, 0.4, 1.0, 1.5, 2.5, 3.0], dtype=torch.float64)
SMOOTH = ctrnn.SmoothWarp(3.0, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))


@pytest.fixture(autouse=True)
def short_solves():
    with kernels_for_all("compiled"):
        yield


def made(kind, dtype=torch.float64):
    return kind(3, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))


class Forgets(ctrnn.VectorField):
    def flow(self, projected, h):
        return -h


# The slow run adds the stiff method, whose kernel reads another clock in test_conformance.py every day.
@pytest.mark.parametrize("method", ["dopri5", pytest.param("rodas5p", marks=pytest.mark.slow)])
def test_what_only_forgets_forgets_by_its_clock(method):
    """dh/dt = -c'(t) h has h = h0 exp(-c(t)): c is the area under the speed, a straight line between learned points."""
    field = Forgets(3, 2)
    ts, speeds = TS.clone().requires_grad_(), (TS.cos() + 2)[:, None, None].requires_grad_()
    h0 = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    path = ctrnn.HeldPath(torch.ones(5, 2, 3), TS)
    made = integrate(field, path, h0, ts, speed=ctrnn.LinearPath(speeds, ts), method=method, rtol=1e-11, atol=1e-11)
    assert made.stats["engine"] == "compiled", made.stats["engine_why"]
    area = torch.cat([torch.zeros(1), ((speeds[1:] + speeds[:-1]).flatten() / 2 * ts.diff()).cumsum(0)])
    expected = h0 * (-area[:, None, None]).exp()
    assert_close(made.hs, expected, rtol=0, atol=1e-9)
    weights = torch.randn_like(expected)
    for mine, other in zip(*(torch.autograd.grad((weights * hs).sum(), [ts, speeds]) for hs in (made.hs, expected)), strict=True):
        assert_close(mine, other, rtol=0, atol=1e-8)


def test_the_warped_solve_is_the_solve_on_the_clock():
    # h(c(t)) of the theorem, from the input as it is: Tallec and Ollivier 2018, eq. (6).
    field, xs = made(ctrnn.gated), torch.randn(len(TS), 4, 3, dtype=torch.float64)
    h0, settings = torch.zeros(4, 5, dtype=torch.float64), {"rtol": 1e-10, "atol": 1e-10}
    path, ts = ctrnn.HermitePath(xs, TS), TS[[0, 2, 3, 5]]
    warped = integrate(field, ctrnn.WarpedPath(path, SMOOTH), h0, ts, speed=SMOOTH.speed, **settings)
    plain = integrate(field, path, h0, SMOOTH(ts), **settings)
    assert warped.stats["engine"] == plain.stats["engine"] == "compiled"
    assert_close(warped.hs, plain.hs, rtol=0, atol=1e-8)


def test_what_keeps_a_clock_from_the_kernel_is_said():
    field, slope = made(ctrnn.gated), torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    path = ctrnn.HeldPath(torch.randn(5, 4, 3, dtype=torch.float64), TS)
    h0 = torch.zeros(4, 5, dtype=torch.float64)
    said = {
        "gradients to knots, or to the clock's `speed`, are wanted, and": lambda t: 1 + slope * t,
        "the clock's `speed` is no polynomial of 32 terms": lambda t: 1 / (1e-4 + (t - 2) ** 2),
    }
    for why, speed in said.items():
        stats = integrate(field, path, h0, TS, speed=speed, rtol=1e-2, atol=1e-2).stats
        assert stats["engine"] == "steps"
        assert why in stats["engine_why"]


@pytest.mark.parametrize("learned", [False, True])
def test_a_speed_below_0_at_an_end_is_refused_as_by_steps(learned):
    path = ctrnn.LinearPath(torch.randn(6, 4, 3), TS)
    speeds = torch.tensor([-0.001, 1.0, 1.0, 1.0, 1.0, 1.0])[:, None, None].requires_grad_(learned)
    for fused in (True, False):
        with pytest.raises(ValueError, match=r"`speed` must be finite and at least 0, got -0\.001 at t = 0\.0"):
            integrate(made(ctrnn.gated), path, torch.zeros(4, 5), TS, speed=ctrnn.LinearPath(speeds, TS), fused=fused)


class Bent(ctrnn.VectorField):
    """Whose projection is no A x + b, so that a straight input is a curve to its flow."""

    def __init__(self):
        super().__init__(3, 4)
        self.weight = torch.nn.Linear(3, 4)

    def project(self, x):
        return torch.tanh(3 * self.weight(x))

    def flow(self, projected, h):
        return projected - torch.tanh(h)


@pytest.mark.parametrize(
    ("clock", "kind"),
    crossed(
        [ctrnn.AffineWarp(1.5), ctrnn.PiecewiseWarp([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])], [ctrnn.LinearPath, ctrnn.HermitePath]
    ),
)
def test_a_projection_that_bends_the_input_does_so_on_straight_clocks_too(kind, clock):
    field, path = Bent(), ctrnn.WarpedPath(kind(torch.randn(4, 5, 3)), clock)
    ts, h0 = torch.linspace(*path.interval, 4), torch.zeros(5, 4)
    assert path.map(torch.tanh).degree is None
    for speed in (None, clock.speed):
        mine, steps = (integrate(field, path, h0, ts, rtol=1e-9, atol=1e-9, speed=speed, fused=fused) for fused in (True, False))
        assert mine.stats["engine"] == "compiled", mine.stats
        assert_close(mine.hs, steps.hs, rtol=0, atol=1e-9)  # the same steps, off by 0.02 to 0.2 before


class Squared(ctrnn.VectorField):
    """dh/dt = x^2, whose square is the projection."""

    def __init__(self):
        super().__init__(1, 1)

    def project(self, x):
        return x * x

    def flow(self, projected, h):
        return projected + 0 * h


@pytest.mark.parametrize("fused", [False, "always"])
def test_a_projection_that_bends_a_straight_input_is_that_of_the_input_at_each_time(fused):
    path = ctrnn.LinearPath(torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)[:, None, None])
    start, ts = torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0.0, 1.0, 2.0])
    hs = integrate(Squared(), path, start, ts, fused=fused).hs
    # The integrals of t^2 over [0, 1], and of (2t - 1)^2 over [1, 2].
    assert_close(hs.flatten(), torch.tensor([0.0, 1 / 3, 1 / 3 + 26 / 6], dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("of", "times", "longest"), [("input", 2, 0.005), ("clock", 2, 0.005), ("input", 201, None)])
def test_a_pulse_that_short_steps_see_is_left_out_by_no_kernel(of, times, longest):
    """dh/dt = c'(t) x(t) - 0 h: what a pulse between the nodes of a polynomial adds is its area, 0.01 sqrt(pi)."""

    def value(t, width):
        return 1 + torch.exp(-(((t - 0.47) / width) ** 2))

    class Adds(ctrnn.VectorField):
        def flow(self, projected, h):
            return projected + 0 * h

    for width, engine in ((0.01, "steps"), (1.0, "compiled")):
        path = ctrnn.FunctionPath(lambda t, width=width: value(t, width).expand(2, 1), (0, 1), 1)
        speed = None
        if of == "clock":
            path, speed = ctrnn.HeldPath(torch.ones(1, 2, 1), torch.tensor([0.0, 1.0])), lambda t, width=width: value(t, width)
        ts = torch.linspace(0, 1, times)
        solved = integrate(Adds(1, 1), path, torch.zeros(2, 1), ts, speed=speed, max_step=longest, rtol=1e-3, atol=1e-3)
        area = math.sqrt(math.pi) / 2 * width * (math.erf(0.53 / width) + math.erf(0.47 / width))
        assert_close(solved.hs[-1], torch.full((2, 1), 1 + area), rtol=0, atol=1e-6)
        assert solved.stats["engine"] == engine, solved.stats["engine_why"]
        assert engine == "compiled" or "at times half as far apart as steps can be" in solved.stats["engine_why"]
