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
        "a clock's `speed` as polynomials of up to 32 terms between its knots or requested times, which do not": lambda t: (
            1 / (1e-4 + (t - 2) ** 2)
        ),
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


SHORT_STEPS = [("input", 2, 1, 0.005), ("clock", 2, 1, 0.005), ("input", 201, 1, None), ("input", 201, 20, None)]


class Adds(ctrnn.VectorField):
    def flow(self, projected, h):
        return projected + 0 * h


@pytest.mark.parametrize(("of", "times", "until", "longest"), SHORT_STEPS)
def test_a_pulse_that_short_steps_see_is_left_out_by_no_kernel(of, times, until, longest):
    """dh/dt = c'(t) x(t) - 0 h: what a pulse between the nodes of a polynomial adds is its area, 0.01 sqrt(pi).

    Steps end at requested times, and are short where these are, however far the last one is.
    """

    def value(t, width):
        return 1 + torch.exp(-(((t - 0.47) / width) ** 2))

    for width, engine in ((0.01, "steps"), (until, "compiled")):
        path = ctrnn.FunctionPath(lambda t, width=width: value(t, width).expand(2, 1), (0, until), 1)
        speed = None
        if of == "clock":
            path, speed = ctrnn.HeldPath(torch.ones(1, 2, 1), torch.tensor([0.0, 1.0])), lambda t, width=width: value(t, width)
        ts = torch.linspace(0, 1, times)
        ts = ts if until == 1 else torch.cat([ts, ts.new_tensor([until])])
        solved = integrate(Adds(1, 1), path, torch.zeros(2, 1), ts, speed=speed, max_step=longest, rtol=1e-3, atol=1e-3)
        area = math.sqrt(math.pi) / 2 * width * (math.erf(0.53 / width) + math.erf(0.47 / width))
        assert_close(solved.hs[times - 1], torch.full((2, 1), 1 + area), rtol=0, atol=1e-6)
        assert solved.stats["engine"] == engine, solved.stats["engine_why"]
        assert engine == "compiled" or "1 at t = 0.47, where" in solved.stats["engine_why"]


def test_a_pulse_at_a_requested_time_which_steps_read_is_left_out_by_no_kernel():
    """Between times 0.1 apart this one, 0.001 wide, is seen by nothing that is read a quarter of that from each."""
    path = ctrnn.FunctionPath(lambda t: (1 + torch.exp(-(((t - 0.3) / 0.001) ** 2))).reshape(1, 1), (0, 1), 1)
    solved = integrate(Adds(1, 1), path, torch.zeros(1, 1), torch.linspace(0, 1, 11), rtol=1e-5, atol=1e-5)
    assert_close(float(solved.hs[-1]), 1 + 0.001 * math.sqrt(math.pi), rtol=0, atol=1e-3)
    assert solved.stats["engine"] == "steps"


class Relaxes(ctrnn.VectorField):
    def flow(self, projected, h):
        return projected - h


def test_what_grows_by_more_than_a_float_has_digits_is_read_as_it_is():
    """dh/dt = e^t - h: of a polynomial whose last values are 2e5 the first ones were off by 1e-2 in float32."""
    path = ctrnn.FunctionPath(lambda t: t.exp().float().reshape(1, 1), (0, 12), 1)
    solved = integrate(Relaxes(1, 1), path, torch.zeros(1, 1, dtype=torch.float32), torch.tensor([0.0, 1.0]))
    assert_close(float(solved.hs[-1]), math.sinh(1), rtol=1e-4, atol=0)
    assert solved.stats["engine"] == "steps"


class Forgetful(ctrnn.VectorField):
    def flow(self, projected, h):
        return projected - 100 * h


def test_what_falls_by_more_than_a_float_has_digits_is_read_as_it_is():
    """dh/dt = e^(12 - t) - 100 h: of a polynomial whose first values are 2e5 the last states were off by 3e-2 in float32."""
    path = ctrnn.FunctionPath(lambda t: (12 - t).exp().float().reshape(1, 1), (0, 12), 1)
    h0 = torch.full((1, 1), math.exp(12) / 99, dtype=torch.float32)
    solved = integrate(Forgetful(1, 1), path, h0, torch.tensor([0.0, 12.0]), rtol=1e-4)
    assert_close(float(solved.hs[-1]), 1 / 99, rtol=1e-3, atol=0)
    assert solved.stats["engine"] == "steps"


def test_a_quiet_sample_beside_a_wild_one_has_as_many_terms_as_alone():
    def quiet(t):
        return torch.sin(3 * t).float().reshape(1, 1)

    def beside(t):
        return torch.cat([quiet(t), torch.full((1, 1), 1e8, dtype=torch.float32)])

    alone, both = (
        integrate(Adds(1, 1), ctrnn.FunctionPath(f, (0, 2), 1), torch.zeros(n, 1, dtype=torch.float32), TS[:3])
        for f, n in ((quiet, 1), (beside, 2))
    )
    assert alone.stats["engine"] == both.stats["engine"] == "compiled", both.stats["engine_why"]
    assert_close(both.hs[:, :1], alone.hs, rtol=1e-5, atol=1e-6)


def test_a_pulse_after_a_wild_piece_is_judged_by_its_own_piece():
    """dh/dt = -100 h + x, from 1e7 down to 1 at t = 1: what was large is forgotten, and h is x / 100 where the pulse is."""

    def value(t):
        later = 1 + 10 * torch.exp(-(((t - 1.47) / 0.01) ** 2))
        return torch.where(t < 1, torch.full_like(t, 1e7), later).float().reshape(1, 1)

    path, ts = ctrnn.FunctionPath(value, (0, 2), 1, knots=[1.0]), torch.linspace(0, 2, 201)
    by = [integrate(Forgetful(1, 1), path, torch.zeros(1, 1, dtype=torch.float32), ts, fused=fused) for fused in (True, False)]
    assert_close(by[0].hs[147:149], by[1].hs[147:149], rtol=1e-3, atol=0)


def test_a_clock_that_was_fast_is_judged_by_what_it_is_later():
    """dh/dt = c'(t) from t = 1 on, where c' is 1e-4, and a thousandth of that more in a pulse; before, 1e6."""

    def speed(t):
        return torch.where(t < 1, 1e6, 1e-4 * (1 + 1e-3 * torch.exp(-(((t - 1.47) / 0.01) ** 2))))

    path, h0 = ctrnn.HeldPath(torch.tensor([0.0, 1.0]).double()[:, None, None], [0.0, 1.0, 2.0]), torch.zeros(1, 1).double()
    solved = integrate(Adds(1, 1), path, h0, [0.0, 1.0, 2.0], speed=speed, max_step=0.005, rtol=1e-9, atol=1e-15)
    assert_close(float(solved.hs[-1]), 1e-4 * (1 + 1e-5 * math.sqrt(math.pi)), rtol=1e-7, atol=0)
    assert "a clock's `speed` as polynomials" in solved.stats["engine_why"]


@pytest.mark.parametrize(("rtol", "engine"), [(1e-3, "compiled"), (1e-7, "steps")])
def test_a_function_is_compared_at_as_many_times_as_a_tolerance_has_steps(rtol, engine):
    # A 48th of the solve, between a 32nd and the next: of tight steps every second one saw such a pulse, of kernels none.
    path = ctrnn.FunctionPath(lambda t: torch.clamp(1 - ((t - 0.578) / 0.009) ** 2, min=0).reshape(1, 1) + 1, (0, 1), 1)
    solved = integrate(Relaxes(1, 1), path, torch.zeros(1, 1), [0.0, 1.0], rtol=rtol, atol=rtol)
    assert solved.stats["engine"] == engine, solved.stats["engine_why"]


def test_refusing_a_function_says_where_it_is_no_polynomial_and_what_would_help():
    path = ctrnn.FunctionPath(lambda t: (1 + torch.exp(-(((t - 0.25) / 0.001) ** 2))).expand(2, 1), (0, 1), 1)
    words = (
        r"kernels read a FunctionPath as polynomials of up to 32 terms between its knots, which are off by 1 at t = 0\.25, where"
    )
    with pytest.raises(ValueError, match=words + r".*; knots where it changes fast, or by powers of ten, would"):
        integrate(Adds(1, 1), path, torch.zeros(2, 1), torch.linspace(0, 1, 201), fused="always")


@pytest.mark.parametrize("of", ["input", "clock"])
def test_a_function_is_read_no_more_often_than_steps_are_short(of):
    """Of 32 sequences with times of their own, and where steps are short in a part of a long solve only."""
    calls = 0

    def value(t):
        nonlocal calls
        calls += 1
        return (2 + torch.sin(t / 2)).reshape(1, 1)

    ts = torch.linspace(0, 1, 101, dtype=torch.float64)
    if of == "input":
        ts = (ts[:, None] + torch.arange(32) * 1e-4).clamp(0, 1)
        path, speed, longest = ctrnn.FunctionPath(lambda t: value(t).expand(32, 1), (0, 1), 1), None, None
    else:
        path, ts = ctrnn.HeldPath(torch.ones(1, 32, 1), torch.tensor([0.0, 4.0])), torch.cat([ts, ts.new_tensor([4.0])])
        speed, longest = value, 0.01
    solved = integrate(Adds(1, 1), path, torch.zeros(32, 1), ts, speed=speed, max_step=longest)
    assert solved.stats["engine"] == "compiled", solved.stats["engine_why"]
    assert calls < 6000  # 6,500 where each sequence is compared, 120,000 where each part is as the longest
