"""Kernels along inputs that bend, on clocks that run unevenly: the steps, states and gradients of the engine in torch."""

import pytest
import torch
import torchcde
from cases import each
from own_fields import Own
from torch.testing import assert_close

import ctrnn
from ctrnn.fields.parts import affine
from ctrnn.inputs.splines import as_path
from discretize import Checkpointed, ContinuousRNN, integrate

TS = torch.tensor([0.0, 0.4, 1.0, 1.5, 2.5, 3.0], dtype=torch.float64)
SMOOTH = ctrnn.SmoothWarp(3.0, torch.tensor([0.3, 0.1]), torch.tensor([-0.2, 0.15]))
STRAIGHT = ctrnn.PiecewiseWarp(TS, TS**2 / 3)


def spline(xs):
    return as_path(torchcde.CubicSpline(torchcde.natural_cubic_coeffs(xs.transpose(0, 1), TS.to(xs)), TS.to(xs)))


def moved(xs, own=False):
    """Times that are learned; to stamp each sequence by itself, or all alike."""
    ts = TS + xs[:, 0, 0].double().tanh() / 20
    return ts[:, None] * torch.tensor([1.0, 0.5, 0.7, 1.0]) if own else ts


def rate(xs):
    return xs[:, :1, :1].double().exp()


# The path of samples (time, batch, 3), and the speed; what is learned is made of the samples.
INPUTS = {
    "hermite": lambda xs: (ctrnn.HermitePath(xs, TS), None),
    "hermite, times of their own": lambda xs: (ctrnn.HermitePath(xs, TS[:, None] * torch.tensor([1.0, 0.5, 0.7, 1.0])), None),
    "spline": lambda xs: (spline(xs.detach()), None),
    "straight clock": lambda xs: (ctrnn.WarpedPath(ctrnn.LinearPath(xs, TS), STRAIGHT), STRAIGHT.speed),
    "smooth clock": lambda xs: (ctrnn.WarpedPath(ctrnn.HermitePath(xs, TS), SMOOTH), SMOOTH.speed),
    "smooth clock, held": lambda xs: (ctrnn.WarpedPath(ctrnn.HeldPath(xs[1:], TS), SMOOTH), SMOOTH.speed),
    "warped, and not told": lambda xs: (ctrnn.WarpedPath(ctrnn.LinearPath(xs, TS), SMOOTH), None),
    "told, and not warped": lambda xs: (ctrnn.LinearPath(xs, TS), lambda t: 1 + 0.5 * torch.sin(3 * t)),
    "function": lambda xs: (ctrnn.FunctionPath(lambda t: torch.sin(t + xs.detach()[0]), (0.0, 3.0), 3, TS[1:-1]), None),
    "learned times": lambda xs: (ctrnn.HermitePath(xs, moved(xs)), None),
    "learned times, held": lambda xs: (ctrnn.HeldPath(xs[1:], moved(xs)), None),
    "learned times of their own": lambda xs: (ctrnn.LinearPath(xs, moved(xs, own=True)), None),
    "learned speed": lambda xs: (ctrnn.LinearPath(xs, TS), ctrnn.HeldPath(rate(xs)[1:], TS)),
    "learned clock": lambda xs: (ctrnn.LinearPath(xs, moved(xs)), ctrnn.LinearPath(rate(xs), moved(xs))),
}


SHARED = (
    "spline",
    "told, and not warped",
    "function",
    "learned speed",
    "learned clock",
)  # in torch all samples take the same steps there


def solved(field, name, fused, method="dopri5", dtype=torch.float64, ts=TS[[0, 2, 3, 5]], **settings):
    """States, gradients to the field, h0 and the samples, and the steps that were taken."""
    torch.manual_seed(1)
    xs, h0 = torch.randn(len(TS), 4, 3, dtype=dtype), torch.randn(4, field.state_size, dtype=dtype) / 2
    xs.requires_grad_()
    h0.requires_grad_()
    path, speed = INPUTS[name](xs)
    ts = path.knots if path.knots.dim() > 1 or path.knots.requires_grad else ts
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if name in SHARED else {"rtol": 1e-6, "atol": 1e-6}
    found = integrate(field, path, h0, ts, speed=speed, method=method, fused=fused, **tolerance, **settings)
    assert found.stats["engine"] == ("compiled" if fused else "steps"), found.stats["engine_why"]
    targets = [h0, *field.parameters(), xs]
    gradients = torch.autograd.grad(found.hs.sin().sum(), targets, allow_unused=True, materialize_grads=True)
    return [found.hs, *gradients], None if name in SHARED else found.stats["num_steps"]


def agree(ours, theirs, tolerance=1e-9):
    assert ours[1] == theirs[1]
    tolerance = tolerance if ours[1] is not None else max(tolerance, 1e-7)
    for mine, other in zip(ours[0], theirs[0], strict=True):
        assert_close(mine, other, rtol=tolerance, atol=tolerance * (1 + float(other.detach().abs().max())))


def made(kind, dtype=torch.float64):
    return kind(3, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))


@each("name", INPUTS)
def test_named_fields_run_compiled_along_every_input(name):
    field = made(ctrnn.gated)
    agree(solved(field, name, True), solved(field, name, False))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dopri5", "tsit5", "dopri8"])
@pytest.mark.parametrize("field", [ctrnn.plain, ctrnn.gated, ctrnn.gru, ctrnn.lstm])
def test_so_does_every_named_field_by_every_method(subtests, field, method):
    for name in INPUTS:
        with subtests.test(name):
            agree(solved(made(field), name, True, method), solved(made(field), name, False, method))


@each("name", ["hermite", "smooth clock", "told, and not warped", "function", "learned times of their own", "learned clock"])
def test_fields_of_ones_own_run_compiled_along_them(name):
    torch.manual_seed(2)
    field = Own().double()
    agree(solved(field, name, True), solved(field, name, False))


@each("name", [*SHARED[:-1], "smooth clock", "hermite, times of their own"])
def test_states_between_are_on_the_steps_of_each_sample(name):
    field, exact = made(ctrnn.gated), {"rtol": 1e-7, "atol": 1e-7}
    for batch in (4, 1):
        xs, found = torch.randn(len(TS), 4, 3, dtype=torch.float64), []
        for fused in (True, False):
            path, speed = INPUTS[name](xs if "own" in name else xs[:, :batch])
            with torch.no_grad():
                ran = integrate(field, path, xs.new_zeros(path.batch, 5), TS[[0, 1, 3]], speed=speed, fused=fused, **exact)
                found.append(ran(torch.tensor([1.4, 0.3], dtype=torch.float64)))
            assert ran.stats["engine"] == ("compiled" if fused else "steps"), ran.stats["engine_why"]
        assert_close(*found, rtol=1e-5, atol=1e-5)


class Bent(ctrnn.VectorField):
    """Its projection bends straight lines, so that it is a part of the flow."""

    def __init__(self):
        super().__init__(3, 5)
        self.of_x, self.of_h = torch.nn.Linear(3, 5).double(), torch.nn.Linear(5, 5).double()

    def project(self, x):
        return torch.tanh(self.of_x(x))

    def flow(self, projected, h):
        return torch.sin(projected + self.of_h(h)) - h


class Forgets(ctrnn.VectorField):
    def flow(self, projected, h):
        return -h


class Soft(Bent):
    """The same, read as it is."""

    @affine
    def project(self, x):
        return self.of_x(x)


@each("name", ["hermite", "smooth clock", "function", "learned clock"])
def test_a_projection_that_bends_the_input_becomes_a_part_of_the_flow(name):
    torch.manual_seed(2)
    field = Bent()
    agree(solved(field, name, True), solved(field, name, False))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "smooth clock" else pytest.mark.slow) for name in INPUTS]
)
def test_the_stiff_method_takes_the_derivatives_of_input_and_clock(name):
    torch.manual_seed(2)
    field = Soft()
    agree(solved(field, name, True, "rodas5p"), solved(field, name, False, "rodas5p"), 1e-8)


def test_blocks_of_a_checkpointed_solve_read_their_pieces():
    field = made(ctrnn.gated)
    for name in ("hermite", "smooth clock", "learned speed"):
        whole = solved(field, name, True)
        blocks = solved(field, name, True, gradient=Checkpointed(40_000))
        agree(blocks, whole, 1e-12)


def test_float32_agrees_to_its_rounding():
    field = made(ctrnn.gated, torch.float32)
    for name in ("hermite", "smooth clock", "learned times"):
        ours, theirs = (solved(field, name, fused, dtype=torch.float32)[0] for fused in (True, False))
        for mine, other in zip(ours, theirs, strict=True):
            assert_close(mine, other, rtol=1e-4, atol=1e-4)


@each("name", ["smooth clock", "learned clock"])
def test_second_derivatives_are_those_of_the_engine_in_torch(name):
    field, given = made(ctrnn.gated), torch.randn(len(TS), 2, 3, dtype=torch.float64)
    found = []
    for fused in (True, False):
        xs = given.clone().requires_grad_()
        path, speed = INPUTS[name](xs)
        h0, tolerance = torch.zeros(2, 5, dtype=torch.float64), 1e-4 if name not in SHARED else 1e-9
        hs = integrate(field, path, h0, TS[[1, 3]], speed=speed, rtol=tolerance, atol=tolerance, fused=fused).hs
        (first,) = torch.autograd.grad(hs.square().sum(), xs, create_graph=True)
        found.append(torch.autograd.grad(first.sin().sum(), xs)[0])
    assert_close(*found, rtol=1e-8, atol=1e-8 if name not in SHARED else 1e-6)


@each("method", ["dopri5", "rodas5p"])
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
    """h(c(t)) of the theorem, from the input as it is: Tallec and Ollivier 2018, eq. (6)."""
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


@each("learned", [False, True])
def test_a_speed_below_0_at_an_end_is_refused_as_by_steps(learned):
    path = ctrnn.LinearPath(torch.randn(6, 4, 3), TS)
    speeds = torch.tensor([-0.001, 1.0, 1.0, 1.0, 1.0, 1.0])[:, None, None].requires_grad_(learned)
    for fused in (True, False):
        with pytest.raises(ValueError, match=r"`speed` must be finite and at least 0, got -0\.001 at t = 0\.0"):
            integrate(made(ctrnn.gated), path, torch.zeros(4, 5), TS, speed=ctrnn.LinearPath(speeds, TS), fused=fused)


def test_a_module_along_hermite_cubics_runs_compiled():
    torch.manual_seed(0)
    rnn = ContinuousRNN(ctrnn.gru(3, 5), path="hermite", method="dopri5")
    rnn(torch.randn(6, 4, 3))
    assert rnn.stats["engine"] == "compiled"


class Bent(ctrnn.VectorField):
    """Whose projection is no A x + b, so that a straight input is a curve to its flow."""

    def __init__(self):
        super().__init__(3, 4)
        self.weight = torch.nn.Linear(3, 4)

    def project(self, x):
        return torch.tanh(3 * self.weight(x))

    def flow(self, projected, h):
        return projected - torch.tanh(h)


@pytest.mark.parametrize("kind", [ctrnn.LinearPath, ctrnn.HermitePath])
@pytest.mark.parametrize("clock", [ctrnn.AffineWarp(1.5), ctrnn.PiecewiseWarp([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])])
def test_a_projection_that_bends_the_input_does_so_on_straight_clocks_too(kind, clock):
    field, path = Bent(), ctrnn.WarpedPath(kind(torch.randn(4, 5, 3)), clock)
    ts, h0 = torch.linspace(*path.interval, 4), torch.zeros(5, 4)
    assert path.map(torch.tanh).degree is None
    for speed in (None, clock.speed):
        mine, steps = (integrate(field, path, h0, ts, rtol=1e-9, atol=1e-9, speed=speed, fused=fused) for fused in (True, False))
        assert mine.stats["engine"] == "compiled", mine.stats
        assert_close(mine.hs, steps.hs, rtol=0, atol=1e-9)  # the same steps, off by 0.02 to 0.2 before
