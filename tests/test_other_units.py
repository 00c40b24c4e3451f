"""The same model in other units gives the same answer: h -> s h and t -> c t, to the bit where s and c are powers of two."""

import math

import pytest
import torch
from torch.testing import assert_close
from units import GRADIENTS, METHODS, OF_TORCHDIFFEQ, Field, Late, Noisy, in_units

import ctrnn
import discretize
from discretize.steps.catalog import step_names, stochastic_step_names
from discretize.torchdiffeq import odeint, odeint_adjoint

# s of three units, and c; of noise c is a power of four, so that its root is one of two.
BINARY = {
    "small": ((2.0**-30,) * 3, 1.0),
    "large": ((2.0**30,) * 3, 1.0),
    "fast": ((1.0,) * 3, 2.0**-30),
    "slow": ((1.0,) * 3, 2.0**30),
    "small and slow": ((2.0**-20,) * 3, 2.0**20),
}
MIXED = {
    "each its own": ((2.0**-30, 1.0, 2.0**20), 2.0**-10),
    "decimal": ((1e-9, 1e-9, 1e-9), 1e9),
    "mol/l": ((1e-7, 1e-3, 1e4), 1.0),
}
UNITS = BINARY | MIXED
STEPS = {"BackwardEuler": "mol/l", "Trapezoid": "small", "ExponentialRosenbrock": "each its own", "unroll_parallel": "mol/l"}
DTYPES = [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)]


def quick(names, **chosen):
    """Return (name, units) of every pair; by default run those in `chosen`, name=units."""
    return [
        pytest.param(name, unit, marks=() if chosen.get(name) == unit else pytest.mark.slow, id=f"{name}-{unit}")
        for name in names
        for unit in UNITS
    ]


def quick_units(*chosen):
    return [pytest.param(unit, marks=() if unit in chosen else pytest.mark.slow) for unit in UNITS]


def of_both(solve, unit, dtype=torch.float64):
    """Return what `solve(s, c)` gives in the model's units and in others, taken back."""
    s, c = UNITS[unit]
    s = torch.tensor(s, dtype=dtype)
    return solve(torch.ones_like(s), 1.0), solve(s, c)


def same(one, other, unit, rtol=1e-9, bits=True):
    if bits and unit in BINARY:
        assert torch.equal(one, other), (one - other).abs().max()
    else:
        assert_close(other, one, rtol=rtol, atol=rtol)


XS = torch.randn(6, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
H0 = torch.randn(2, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
ATOL = 1e-7


@pytest.mark.parametrize(("method", "unit"), quick(METHODS | OF_TORCHDIFFEQ, dopri5="slow", rodas5p="each its own"))
def test_solves(method, unit):
    solver = (METHODS | OF_TORCHDIFFEQ)[method]

    def solve(s, c):
        path, ts = ctrnn.LinearPath(XS, torch.arange(6.0) * c), torch.tensor([0.0, 1.5, 2.5]) * c
        field, how = in_units(Field(), s, c), {"rtol": 1e-4, "atol": ATOL * s, "max_step": 0.5 * c, "fused": False, **solver}
        return discretize.integrate(field, path, H0 * s, ts, **how).hs / s

    # torchdiffeq's first step depends on the unit of time.
    theirs = method.startswith("torchdiffeq")
    same(*of_both(solve, unit), unit, rtol=1e-4 if theirs else 1e-6, bits=not theirs)


@pytest.mark.parametrize(("method", "unit"), quick(["dopri5", "rodas5p"]))
@pytest.mark.slow
@pytest.mark.kernels
def test_solves_by_kernels(method, unit):
    def solve(s, c):
        path, ts = ctrnn.HeldPath(XS, torch.arange(7.0) * c), torch.tensor([0.0, 1.5, 5.0]) * c
        found = discretize.integrate(in_units(Field(), s, c), path, H0 * s, ts, atol=ATOL * s, method=method, fused="always")
        assert found.stats["engine"] == "compiled"
        return found.hs / s

    same(*of_both(solve, unit), unit, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "unit"), quick([*step_names(), "unroll_parallel"], **STEPS))
def test_steps(name, unit, dtype):
    exact = torch.float64 if dtype == torch.float32 and unit == "decimal" else dtype  # 1e-9 cubed is none of float32's

    def run(s, c):
        step = discretize.Euler() if name == "unroll_parallel" else getattr(discretize, name)()
        field = in_units(Field(4 if name == "SymplecticEuler" else 3, dtype=exact), s[0] if name == "SymplecticEuler" else s, c)
        h0 = H0.to(exact) * s if name != "SymplecticEuler" else torch.cat([H0, H0], -1)[:, :4].to(exact) * s[0]
        cell = discretize.DiscreteCell(field, step=step, dt=0.7 * c, allow_overshoot=True)
        run = discretize.unroll_parallel if name == "unroll_parallel" else discretize.unroll
        return run(cell, XS.to(exact), h0).hs / (s if name != "SymplecticEuler" else s[0])

    implicit = name in ("BackwardEuler", "Trapezoid", "ExponentialRosenbrock", "unroll_parallel")
    s, _ = UNITS[unit]
    found = of_both(run, unit, exact)
    same(*found, unit, rtol=2e-3 if exact == torch.float32 else 1e-9, bits=not implicit or len(set(s)) == 1)


@pytest.mark.parametrize(("name", "unit"), quick([*stochastic_step_names(), "StepDoubling"], SRA1="small"))
def test_noise(name, unit):
    def run(s, c):
        if name == "StepDoubling":
            path, ts = ctrnn.HeldPath(XS, torch.arange(7.0) * c), torch.tensor([0.0, 1.5, 5.0]) * c
            how = {"method": discretize.StepDoubling(discretize.SRA1()), "rtol": 1e-2, "atol": 1e-3 * s}
            return discretize.integrate(in_units(Noisy(sigma=0.3), s, c), path, H0 * s, ts, seed=3, **how).hs / s
        step = getattr(discretize, name)()
        rnn = discretize.DiscreteRNN(in_units(Noisy(sigma=0.3), s, c), step=step, substeps=2, fused=False)
        return rnn(XS, H0 * s, ts=torch.arange(7.0) * c, seed=3)[0] / s

    same(*of_both(run, unit), unit, rtol=1e-6)


@pytest.mark.parametrize(("kind", "unit"), quick(GRADIENTS, plain="fast"))
def test_gradients_of_solves(kind, unit):
    def solve(s, c):
        ts = (torch.tensor([0.0, 1.5, 5.0]) * c).requires_grad_(kind == "plain")
        field, h0, xs = in_units(Field(), s, c), (H0 * s).requires_grad_(), XS.clone().requires_grad_()
        path = ctrnn.LinearPath(xs, torch.arange(6.0) * c)
        hs = discretize.integrate(field, path, h0, ts, atol=ATOL * s, gradient=GRADIENTS[kind], rtol=1e-7, fused=False).hs / s
        loss = (hs * torch.arange(hs.numel()).reshape(hs.shape)).sum()
        loss.backward()
        of_ts = [] if ts.grad is None else [ts.grad * c]
        return torch.cat([g.flatten() for g in (field.field.wh.grad, xs.grad, h0.grad * s, *of_ts)])

    same(*of_both(solve, unit), unit, rtol=1e-4, bits=kind != "adjoint")


@pytest.mark.parametrize(
    ("kind", "unit"),
    quick(["numbers", "learned", "of time", "of time, learned"], learned="fast", **{"of time, learned": "mol/l"}),
)
def test_delays_and_their_gradients(kind, unit):
    # The history does not end in h0, so that dh/dt jumps where a delay has passed, and the gradient counts it.
    def solve(s, c):
        s, number = s[:2], torch.tensor(0.9, dtype=torch.float64, requires_grad="learned" in kind)
        if kind.startswith("of time"):
            field = Late([lambda t: (number + 0.3 * torch.sin(2 * t / c)) * c], s, c)
        else:
            field = Late([0.9 * c], s, c, learn=kind == "learned")
        path = ctrnn.LinearPath(XS[..., :1], torch.arange(6.0) * c)
        ts, history = torch.tensor([0.0, 1.5, 2.5]) * c, 0.3 * s.expand(2, 2)
        hs = discretize.integrate(field, path, H0[:, :2] * s, ts, atol=ATOL * s, rtol=1e-7, history=history).hs / s
        if "learned" not in kind:
            return hs
        (hs[-1] * torch.tensor([1.0, 2.0])).sum().backward()
        return torch.cat([hs.detach().flatten(), (number.grad if kind != "learned" else field.delays.grad * c).reshape(-1)])

    same(*of_both(solve, unit), unit, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unit", quick_units("mol/l"))
def test_times_of_events(unit, dtype):
    def solve(s, c):
        path = ctrnn.LinearPath(XS.to(dtype), torch.arange(6.0) * c)
        event = discretize.Event(lambda t, h: h[:, 0] - 0.1 * h[:, 1] * s[0] / s[1])
        field, ts = in_units(Field(dtype=dtype), s, c), torch.tensor([0.0, 5.0]) * c
        (found,) = discretize.integrate(field, path, H0.to(dtype) * s, ts, atol=ATOL * s, events=event).events
        assert len(found.times)
        return found.times / c

    same(*of_both(solve, unit, dtype), unit, rtol=1e-6 if dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize("unit", quick_units("fast"))
def test_a_clock(unit):
    def solve(s, c):
        path, ts = ctrnn.LinearPath(XS, torch.arange(6.0) * c), torch.tensor([0.0, 1.5, 5.0]) * c

        def speed(t):
            return 1 + 0.5 * torch.sin(3 * t / c)

        return discretize.integrate(in_units(Field(), s, c), path, H0 * s, ts, atol=ATOL * s, speed=speed, fused=False).hs / s

    same(*of_both(solve, unit), unit, rtol=1e-6)


@pytest.mark.parametrize("unit", quick_units("slow"))
def test_sequences(unit):
    def solve(s, c):
        ts = torch.arange(7.0) * c
        solved = discretize.ContinuousRNN(in_units(Field(), s, c), atol=ATOL * s, fused=False)(XS, H0 * s, ts=ts)[0] / s
        stepped = discretize.DiscreteRNN(in_units(Field(), s, c), substeps=2, fused=False)(XS, H0 * s, ts=ts)[0] / s
        return torch.stack([solved, stepped])

    same(*of_both(solve, unit), unit, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("solver", [odeint, pytest.param(odeint_adjoint, marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", quick_units("mol/l"))
def test_the_drop_in(unit, solver, dtype):
    def solve(s, c):
        field = Field(input_size=0, dtype=dtype)

        class F(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.field = in_units(field, s, c)

            def forward(self, t, y):
                return self.field.flow(torch.zeros_like(y), y)

        h0, t = (H0.to(dtype) * s).requires_grad_(), torch.tensor([0.0, 1.5, 5.0], dtype=torch.float64) * c
        hs = solver(F(), h0, t, rtol=1e-5, atol=ATOL * s) / s
        hs.sum().backward()
        return torch.cat([hs.detach().flatten(), (h0.grad * s).flatten(), field.wh.grad.flatten()])

    same(*of_both(solve, unit, dtype), unit, rtol=1e-4 if dtype == torch.float64 else 1e-2, bits=False)


def test_a_solve_that_stays_below_its_atol_says_so_and_others_do_not():
    def solve(size, **how):
        field = in_units(Field(), torch.full((3,), size))
        path = ctrnn.HeldPath(XS)
        return discretize.integrate(field, path, how.pop("h0", H0) * size, torch.tensor([0.0, 3.0]), **how)

    with pytest.warns(discretize.SolverWarning, match=r"All states of this solve stay below `atol`=1e-07"):
        solve(1e-9)
    solve(1e-9, atol=1e-16)
    solve(1e-9, atol=torch.tensor([1e-16, 1.0, 1.0], dtype=torch.float64))
    solve(1.0, h0=torch.zeros(2, 3))
    solve(1e-9, method="rk4")  # whose steps are of one length, whatever errors are
    rest = discretize.integrate(Field(input_size=0), None, torch.zeros(1, 3), torch.tensor([0.0, 1.0]))
    assert math.isclose(float(rest.hs.detach().abs().max()), 0.0)
