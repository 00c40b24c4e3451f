"""Plain equations, several states, one path for many, backward time and controlled equations: closed forms and one another."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
from ctrnn import ControlledField, DerivativePath, TimePath
from discretize import Adjoint, Checkpointed, ContinuousRNN, ExponentialEuler, SolverError, integrate

TIGHT = {"rtol": 1e-6, "atol": 1e-6}
FINE = {"method": "dopri8", **TIGHT}  # a third of the steps where the method is not what is tested
NEAR = {"rtol": 0, "atol": 1e-4}  # a hundred tolerances
TIMES = torch.linspace(0.0, 3.0, 4, dtype=torch.float64)


def pulled(t, h):
    return torch.sin(t) - h


def of_pulled(h0, t):
    return (h0 + 0.5) * math.exp(-t) + 0.5 * (math.sin(t) - math.cos(t))


class Pulled(nn.Module):
    def __init__(self, rate=2.0):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(rate))

    def forward(self, t, h):
        return -self.rate * h + 0 * t


@pytest.mark.parametrize(("method", "own"), [("dopri5", True), ("dopri8", False), ("rodas5p", False)])
def test_a_function_of_time_and_state_is_solved_as_its_closed_form(method, own):
    h0 = torch.randn(4, 2)
    ts = TIMES[:, None] * torch.tensor([1.0, 0.5, 0.9, 0.1]) if own else TIMES
    solved = integrate(pulled, None, h0, ts, method=method, **TIGHT)
    for k, t in enumerate(ts):
        expected = torch.stack([of_pulled(h0[i], float(t[i] if own else t)) for i in range(4)])
        assert_close(solved.hs[k], expected, **NEAR)


@pytest.mark.parametrize("method", ["rk4", "euler"])
def test_methods_of_fixed_steps_take_it_too(method):
    h0 = torch.randn(4, 2)
    errors = [
        (integrate(pulled, None, h0, TIMES, method=method, max_step=dt).hs[-1] - of_pulled(h0, 3.0)).abs().max()
        for dt in (0.1, 0.05)
    ]
    assert 0.8 * 2 ** {"rk4": 4, "euler": 1}[method] < errors[0] / errors[1] < 1.3 * 2 ** {"rk4": 4, "euler": 1}[method]


@pytest.mark.parametrize(
    ("gradient", "ts"), [(None, TIMES.flip(0)[::2]), (Checkpointed(1), TIMES[::2]), (Adjoint(), TIMES.flip(0)[::2])]
)
def test_a_modules_parameters_have_their_gradients(gradient, ts):
    equation, h0 = Pulled(), torch.ones(1, 1, requires_grad=True)
    end = integrate(equation, None, h0, ts, gradient=gradient, **FINE).hs[-1]
    span = float(ts[-1] - ts[0])
    to_rate, to_h0 = torch.autograd.grad(end.sum(), (equation.rate, h0))
    size = math.exp(-2.0 * span)
    assert_close(to_rate, torch.tensor(-span * size), rtol=1e-4, atol=1e-5)
    assert_close(to_h0, torch.full((1, 1), size), rtol=1e-4, atol=1e-5)


def test_several_tensors_are_one_state_and_come_back_in_their_shapes():
    q, p = torch.randn(3, 2), torch.randn(3, 1, 2)
    solved = integrate(lambda t, h: (h[1][:, 0], -h[0][:, None]), None, (q, p), TIMES, **FINE)
    found, momentum = solved.parts
    assert_close(found[-1], q * math.cos(3) + p[:, 0] * math.sin(3), **NEAR)
    assert_close(momentum[-1], (p[:, 0] * math.cos(3) - q * math.sin(3))[:, None], **NEAR)
    assert_close(solved.split(solved(1.3))[1], (p[:, 0] * math.cos(1.3) - q * math.sin(1.3))[:, None], **NEAR)
    (whole,) = integrate(pulled, None, q, TIMES).parts
    assert whole.shape == (4, 3, 2)


@pytest.mark.parametrize("kind", [ctrnn.HeldPath, ctrnn.LinearPath])
def test_one_path_of_times_of_its_own_is_read_by_many(kind):
    field, xs, h0, ts = ctrnn.gated(2, 3), torch.randn(5, 1, 2), torch.randn(4, 3), torch.arange(5.0)[:, None]
    one = integrate(field, kind(xs, ts), h0, ts.expand(-1, 4), **FINE)
    assert_close(one.hs, integrate(field, kind(xs, ts[:, 0]), h0, ts[:, 0], **FINE).hs, **NEAR)


def test_a_field_without_input_needs_no_path():
    field, h0 = ctrnn.gated(0, 3), torch.randn(2, 3)
    solved = integrate(field, None, h0, TIMES, **FINE)
    fed = ctrnn.gated(1, 3)
    fed.load_state_dict(
        {k: torch.zeros_like(fed.state_dict()[k]) if "weight_x" in k else v for k, v in field.state_dict().items()}
    )
    assert_close(solved.hs, integrate(fed, ctrnn.HeldPath(torch.ones(3, 2, 1)), h0, TIMES, **FINE).hs, **NEAR)
    stepped = integrate(field, None, h0, TIMES, method=ExponentialEuler(), max_step=2e-2)
    assert_close(stepped.hs, solved.hs, rtol=0, atol=2e-2)


def test_time_is_an_input_like_any():
    field, h0 = ctrnn.gated(1, 3), torch.randn(2, 3)
    by_time = integrate(field, TimePath((0.0, 3.0), batch=2), h0, TIMES, **FINE)
    by_function = integrate(field, ctrnn.FunctionPath(lambda t: t.expand(2, 1), (0.0, 3.0), 1), h0, TIMES, **FINE)
    assert_close(by_time.hs, by_function.hs, **NEAR)
    path = TimePath((0.0, 3.0), batch=2)
    assert_close(path(torch.tensor([0.5, 2.0])), torch.tensor([0.5, 2.0])[:, None, None].expand(-1, 2, 1))
    assert_close(path.derivative(1.0), torch.ones(2, 1))


def test_a_batch_without_samples_is_solved_too():
    assert integrate(pulled, None, torch.zeros(0, 2), TIMES).hs.shape == (4, 0, 2)
    assert integrate(ctrnn.gated(0, 2), None, torch.zeros(0, 2), TIMES).hs.shape == (4, 0, 2)
    assert isinstance(ContinuousRNN(ctrnn.gated(1, 2))(torch.zeros(3, 0, 1))[0], torch.Tensor)


def warped(xs):
    return ctrnn.WarpedPath(ctrnn.LinearPath(xs, 1.5 * torch.arange(5.0)), ctrnn.AffineWarp(1.5))


PATHS = {
    "held": ctrnn.HeldPath,
    "linear": ctrnn.LinearPath,
    "hermite": ctrnn.HermitePath,
    "warped": warped,
    "function": lambda xs: ctrnn.FunctionPath(lambda t: xs[0] * torch.sin(t) + xs[1], (0.0, 4.0), 2, knots=[1.0, 2.0]),
}
each_path = pytest.mark.parametrize("name", PATHS)


@each_path
@pytest.mark.parametrize("speed", [None, lambda t: 1 + 0.5 * torch.sin(t)])
def test_backwards_a_solve_goes_the_way_it_came(name, speed):
    field, path = ctrnn.gru(2, 3), PATHS[name](torch.randn(5, 2, 2))
    there = integrate(field, path, torch.randn(2, 3), TIMES, speed=speed, **FINE)
    back = integrate(field, path, there.hs[-1].detach(), TIMES.flip(0), speed=speed, **FINE)
    # What forgets at up to 1 a unit of time is driven apart, backwards, by up to e^3.
    assert_close(back.hs, there.hs.flip(0), rtol=0, atol=1e-3)
    assert_close(back.ts, TIMES.flip(0))
    assert_close(back(torch.tensor([0.3, 1.7])), there(torch.tensor([0.3, 1.7])), rtol=0, atol=1e-3)


def test_backwards_in_time_gradients_flow_to_samples_and_times():
    field, h0 = ctrnn.gated(1, 2), torch.randn(2, 2)

    def end(xs, last):
        ts = torch.stack([torch.tensor(2.5), torch.tensor(1.0), last])
        return integrate(field, ctrnn.LinearPath(xs), h0, ts, rtol=1e-7, atol=1e-7).hs[-1]

    xs, last = torch.randn(4, 2, 1, requires_grad=True), torch.tensor(0.25, requires_grad=True)
    assert torch.autograd.gradcheck(end, (xs, last), eps=1e-5, atol=1e-5, fast_mode=True)


def test_backwards_in_time_a_failure_and_the_counts_say_the_time_of_the_user():
    with pytest.raises(SolverError, match=r"stopped at t = (1|0\.9999)") as caught:  # h = 1 / (t - 1) backwards from t = 2
        integrate(lambda t, h: -(h**2), None, torch.ones(1, 1), [2.0, 0.5])
    assert caught.value.time == pytest.approx(1.0, abs=1e-3)
    assert_close(caught.value.trajectory.ts, torch.tensor([2.0]))
    with pytest.raises(SolverError, match=r"stopped at t = (2|1\.9999)"):
        integrate(lambda t, h: h**2, None, torch.ones(1, 1), [1.0, 3.0])
    assert 0 <= integrate(pulled, None, torch.ones(1, 1), TIMES.flip(0)).stats["smallest_step_at"] <= 3


@each_path
def test_one_path_is_read_by_many_as_if_repeated(name):
    field, xs, h0 = ctrnn.gated(2, 3), torch.randn(5, 1, 2), torch.randn(4, 3)
    one = integrate(field, PATHS[name](xs), h0, TIMES, **FINE)
    many = integrate(field, PATHS[name](xs.expand(-1, 4, -1).contiguous()), h0, TIMES, **FINE)
    assert_close(one.hs, many.hs, **NEAR)
    assert one.stats["engine"] == many.stats["engine"]
    wanted = [*field.parameters()]
    for ours, theirs in zip(*(torch.autograd.grad(s.hs.sum(), wanted) for s in (one, many)), strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", [ctrnn.LinearPath, ctrnn.HermitePath])
def test_a_controlled_equation_hangs_on_where_its_path_leads_and_not_on_its_clock(kind):
    xs = torch.randn(4, 2, 1)
    field = ControlledField(lambda h: h[..., None], 1, 1)  # dh = h dx: h0 exp(x(t) - x(0))
    solved = integrate(field, DerivativePath(kind(xs)), torch.ones(2, 1), torch.arange(4.0), **FINE)
    assert_close(solved.hs, (xs - xs[0]).exp(), **NEAR)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6))
    deep, h0 = ControlledField(net, 2, 3), torch.randn(2, 3)
    path, warp = kind(torch.randn(3, 2, 2)), ctrnn.SmoothWarp.random(2.0, 3.0, generator=torch.Generator().manual_seed(0))
    ends = torch.tensor([0.0, 2.0])
    straight = integrate(deep, DerivativePath(path), h0, ends, **FINE).hs[-1]
    assert_close(integrate(deep, DerivativePath(ctrnn.WarpedPath(path, warp)), h0, ends, **FINE).hs[-1], straight, **NEAR)


PARTS = (torch.zeros(1, 3), torch.zeros(1, 2))
WRONG = {
    "no path": (lambda: integrate(ctrnn.gru(2, 3), None, torch.zeros(1, 3), TIMES), ValueError, "the field has 2 inputs"),
    "no field": (lambda: integrate(3, None, torch.zeros(1, 3), TIMES), TypeError, "got int; .* takes `path` None"),
    "path for a function": (
        lambda: integrate(pulled, TimePath((0, 3)), torch.zeros(1, 3), TIMES), TypeError, "got function; .* takes `path` None",
    ),
    "speed for a function": (
        lambda: integrate(pulled, None, torch.zeros(1, 3), TIMES, speed=lambda t: 1.0), TypeError, "has the clock in it already",
    ),
    "one state": (lambda: integrate(pulled, None, torch.zeros(3), TIMES), ValueError, "one state is a batch of 1"),
    "batches apart": (
        lambda: integrate(pulled, None, (torch.zeros(1, 3), torch.zeros(2, 3)), TIMES), ValueError, "one batch for all",
    ),
    "states of a field": (
        lambda: integrate(ctrnn.lstm(1, 2), None, (torch.zeros(1, 2), torch.zeros(1, 2)), TIMES), TypeError, "`h0` is several",
    ),
    "a number for a derivative": (lambda: integrate(lambda t, h: 1.0, None, torch.zeros(1, 3), TIMES), TypeError, "got float"),
    "a part missing": (
        lambda: integrate(lambda t, h: h[:1], None, PARTS, TIMES), TypeError, "each of the 2 parts",
    ),
    "a part of another shape": (
        lambda: integrate(lambda t, h: h[::-1], None, PARTS, TIMES), ValueError, "for part 0 of h",
    ),
    "there and back": (lambda: integrate(pulled, None, torch.zeros(1, 3), [0.0, 2.0, 1.0]), ValueError, "goes back at index 2"),
    "a held slope": (lambda: DerivativePath(ctrnn.HeldPath(torch.ones(3, 1, 1))), ValueError, "its derivative is 0"),
    "a matrix of another shape": (
        lambda: integrate(
            ControlledField(lambda h: h, 2, 3), DerivativePath(ctrnn.LinearPath(torch.ones(4, 1, 2))), torch.zeros(1, 3), TIMES
        ),
        ValueError, r"`f` must give \(1, 3, 2\)",
    ),
    "own times back": (
        lambda: integrate(
            ctrnn.gru(2, 3), ctrnn.HeldPath(torch.ones(3, 1, 2), torch.arange(4.0)[:, None]), torch.zeros(1, 3), [2.0, 1.0]
        ),
        ValueError, "goes back in time",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_equation_is_refused_in_words(name):
    call, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        call()
