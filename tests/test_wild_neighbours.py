"""A sample, a unit or a tensor gives the same answer beside a wild one: up to 1e8 in size, and of other speeds."""

import pytest
import torch
from torch.testing import assert_close
from units import GRADIENTS, METHODS, Field, Late, Noisy, Scaled

import ctrnn
import discretize
from discretize.steps.catalog import step_names, stochastic_step_names
from discretize.torchdiffeq import odeint, odeint_adjoint

WILD = (1e8, 1e-8)  # beside states of about 1
TIGHT = {torch.float64: {"rtol": 1e-6, "atol": 1e-8}, torch.float32: {"rtol": 1e-5, "atol": 1e-7}}
BESIDE = ("sample", "unit")
XS = torch.randn(6, 1, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
H0 = torch.randn(1, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


class Bounded(Field):
    """Without the cube, which no explicit method follows from 1e8, and with leaks that are numbers."""

    def leak(self, projected, h):
        return torch.tensor([0.5, 1.0, 1.5], dtype=h.dtype).expand_as(h)

    def flow(self, projected, h):
        return torch.tanh(projected + h @ self.wh.mT) - self.leak(projected, h) * h


class Beside(ctrnn.VectorField):
    """A field, and units beside it that do not touch it: they fall to where they are held, fast, from any height."""

    def __init__(self, field, size, speed=5.0):
        super().__init__(field.input_size, field.hidden_size + 1, field.state_size + 1)
        self.field, self.size, self.speed = field, size, speed

    def project(self, x):
        return self.field.project(x)

    def leak(self, projected, h):
        rate = torch.full_like(h[..., :1], self.speed)
        return torch.cat([self.field.leak(projected, h[..., :-1]), rate], -1)

    def flow(self, projected, h):
        own = self.speed * (self.size * torch.cos(h[..., -1:] / self.size) - h[..., -1:])
        return torch.cat([self.field.flow(projected, h[..., :-1]), own], -1)


def beside(kind, size, field, h0, xs):
    """Return the field, h0 and xs with something wild beside, and the part of the states that are those of before."""
    if kind == "unit":
        return Beside(field, size), torch.cat([h0, torch.full_like(h0[:, :1], size)], -1), xs, lambda hs: hs[..., :-1]
    loud = torch.cat([xs, xs * 3], 1)
    return field, torch.cat([h0, h0.flip(-1) * size], 0), loud, lambda hs: hs[:, :1]


def compared(run, kind, size, rtol, field, dtype=torch.float64):
    h0, xs = H0.to(dtype), XS.to(dtype)
    alone = run(field, h0, xs, lambda hs: hs)
    assert_close(run(*beside(kind, size, field, h0, xs)), alone, rtol=rtol, atol=rtol)


# A large unit and a large sample by default, all pairs among the slow tests.
PAIRS = [(kind, size) for kind in BESIDE for size in WILD]
beside_pairs = pytest.mark.parametrize(
    ("kind", "size"), [pytest.param(*pair, marks=() if pair[1] > 1 else pytest.mark.slow) for pair in PAIRS]
)
sizes = pytest.mark.parametrize("size", [WILD[0], pytest.param(WILD[1], marks=pytest.mark.slow)])


def quick(names, chosen):
    """Return the names, all but the chosen ones for slow tests."""
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.slow) for name in names]


@beside_pairs
@pytest.mark.parametrize("method", quick(METHODS, ("dopri5",)))
def test_solves(method, size, kind):
    def run(field, h0, xs, mine):
        path, ts = ctrnn.LinearPath(xs, torch.arange(6.0)), torch.tensor([0.0, 1.5, 5.0])
        how = {"rtol": 1e-6, "atol": 1e-8, "max_step": 0.1 if method in ("euler", "rk4") or "2" in method else None}
        return mine(discretize.integrate(field, path, h0, ts, fused=False, **METHODS[method], **how).hs)

    compared(run, kind, size, 2e-5, Bounded())


@beside_pairs
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", quick([*step_names(), "unroll_parallel"], ("BackwardEuler", "ExponentialRosenbrock", "unroll_parallel"))
)
def test_steps(name, dtype, size, kind):
    if name == "SymplecticEuler":
        pytest.skip("its state has two halves, of as many units")

    def run(field, h0, xs, mine):
        step = discretize.Euler() if name == "unroll_parallel" else getattr(discretize, name)()
        cell = discretize.DiscreteCell(field, step=step, dt=0.2, allow_overshoot=True)
        return mine((discretize.unroll_parallel if name == "unroll_parallel" else discretize.unroll)(cell, xs, h0).hs)

    compared(run, kind, size, 1e-4 if dtype == torch.float32 else 1e-9, Bounded(dtype=dtype), dtype)


# Beside a sample alone: one more unit draws other numbers for all.
@sizes
@pytest.mark.parametrize("name", quick([*stochastic_step_names(), "StepDoubling"], ("SRA1",)))
def test_noise(name, size):
    def run(field, h0, xs, mine):
        keys = torch.arange(len(h0))
        if name == "StepDoubling":
            method = discretize.StepDoubling(discretize.SRA1())
            path, ts = ctrnn.HeldPath(xs), torch.tensor([0.0, 1.5, 5.0])
            return mine(discretize.integrate(field, path, h0, ts, method=method, rtol=1e-4, atol=1e-4, seed=keys).hs)
        rnn = discretize.DiscreteRNN(field, step=getattr(discretize, name)(), substeps=5, fused=False)
        return mine(rnn(xs, h0, seed=keys)[0])

    class Quiet(Noisy, Bounded):
        pass

    field = Quiet(sigma=0.3)
    compared(run, "sample", size, 5e-3 if name == "StepDoubling" else 1e-9, field)


@beside_pairs
@pytest.mark.parametrize("way", quick(GRADIENTS, ("plain",)))
def test_gradients_of_solves(way, size, kind):
    def run(field, h0, xs, mine):
        h0, xs, field = h0.clone().requires_grad_(), xs.clone().requires_grad_(), field.requires_grad_()
        path, ts = ctrnn.LinearPath(xs, torch.arange(6.0)), torch.tensor([0.0, 1.5, 5.0])
        how = {"rtol": 1e-7, "atol": 1e-9, "gradient": GRADIENTS[way], "fused": False}
        mine(discretize.integrate(field, path, h0, ts, **how).hs).sum().backward()
        own = getattr(field, "field", field)
        gradient, own.wh.grad = own.wh.grad, None  # which the next run would add to
        return torch.cat([gradient.flatten(), xs.grad[:, :1].flatten(), h0.grad[:1, :3].flatten()])

    compared(run, kind, size, 1e-5, Bounded())


@sizes
@pytest.mark.parametrize("learned", ["a number", "a function of time"])
def test_delays_and_their_gradients(learned, size):
    def run(samples):
        number = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
        s = torch.tensor([1.0, 1.0])
        of_time = Late([lambda t: number + 0.3 * torch.sin(2 * t)], s)
        field = Late([0.9], s, learn=True) if learned == "a number" else of_time
        loud = torch.tensor([1.0, size])[:samples].reshape(-1, 1)
        path = ctrnn.HeldPath(torch.ones(3, samples, 1) * loud)
        h0 = H0[:, :2] * loud
        history = torch.cat([torch.full((1, 2), 0.3), h0[1:]])  # the neighbour's dh/dt does not jump
        ts = torch.tensor([0.0, 1.5, 2.5])
        hs = discretize.integrate(field, path, h0, ts, history=history, rtol=1e-6, atol=1e-8).hs[:, :1]
        hs[-1].sum().backward()
        gradient = field.delays.grad if learned == "a number" else number.grad
        return torch.cat([hs.detach().flatten(), gradient.reshape(-1)])

    assert_close(run(2), run(1), rtol=1e-5, atol=1e-5)


@beside_pairs
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)])
def test_times_of_events(dtype, size, kind):
    def run(field, h0, xs, mine):
        event = discretize.Event(lambda t, h: h[:, 0] - 0.1 * h[:, 1])
        path = ctrnn.LinearPath(xs, torch.arange(6.0))
        (found,) = discretize.integrate(field, path, h0, torch.tensor([0.0, 5.0]), events=event, **TIGHT[dtype]).events
        return found.times[found.samples == 0]

    compared(run, kind, size, 1e-5 if dtype == torch.float64 else 1e-4, Bounded(dtype=dtype), dtype)


@beside_pairs
def test_sequences(size, kind):
    def run(field, h0, xs, mine):
        solved = discretize.ContinuousRNN(field, rtol=1e-7, atol=1e-9, fused=False)(xs, h0)[0]
        return solved[:, :1, :3]

    compared(run, kind, size, 1e-5, Bounded())


@sizes
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", [odeint, pytest.param(odeint_adjoint, marks=pytest.mark.slow)])
@pytest.mark.parametrize("of", ["tensors of a tuple", "samples that step alone"])
def test_the_drop_in(of, solver, dtype, size):
    class Turning(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = torch.nn.Parameter(torch.ones((), dtype=dtype))

        def forward(self, t, y):
            if isinstance(y, tuple):
                return self(t, y[0]), -y[1]
            return self.rate * torch.stack([y[..., 1], -y[..., 0]], -1)

    y, loud = torch.tensor([[1.0, 0.0]], dtype=dtype), torch.full((1, 2), size, dtype=dtype)
    func, t = Turning(), torch.tensor([0.0, 6.0], dtype=torch.float64)
    cos, sin = torch.tensor(6.0, dtype=torch.float64).cos(), torch.tensor(6.0, dtype=torch.float64).sin()
    exact = torch.stack([cos, -sin])[None]  # (cos(rate t), -sin(rate t))
    if of == "tensors of a tuple":
        end = solver(func, (y, loud), t)[0][-1]
    else:
        end = solver(func, torch.cat([loud, y]), t, options={"per_sample": True})[-1][1:]
    end.sum().backward()
    assert_close(end.detach().double(), exact, rtol=0, atol=1e-5)
    assert_close(func.rate.grad.double(), -6 * (sin + cos), rtol=0, atol=1e-4)


def test_a_small_unit_keeps_its_own_scale():
    # In calcium's mol/l beside a unit of 1e4, each as alone.
    field = Scaled(Field(dtype=torch.float32), torch.tensor([1e-7, 1.0, 1e4]))
    path, s = ctrnn.LinearPath(XS.float(), torch.arange(6.0)), field.s
    ts = torch.tensor([0.0, 5.0])
    found = discretize.integrate(field, path, H0.float() * s, ts, rtol=1e-5, atol=1e-7 * s.double()).hs / s
    expected = discretize.integrate(field.field, path, H0.float(), ts, rtol=1e-5, atol=1e-7).hs
    assert_close(found, expected, rtol=1e-4, atol=1e-4)
