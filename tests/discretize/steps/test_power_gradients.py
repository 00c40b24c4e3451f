"""Gradients through |h|^r h at 0, near it and far from it, by every way there is, against derivatives that SymPy takes."""

import functools
import math

import mpmath
import problems
import pytest
import sympy
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st
from torch.testing import assert_close

import ctrnn
import discretize

EXPONENTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
STEPS = {"euler": discretize.Euler(), "exponential": discretize.ExponentialEuler(), "splitting": discretize.Splitting()}
PULL, RATE, DT = 0.75, 0.5, 0.5  # exact in binary

h, f, r = sympy.Symbol("h", positive=True), sympy.Symbol("f"), sympy.Symbol("r", nonnegative=True)
flow, leak = RATE * (f - h ** (r + 1)), RATE * h**r
CLOSED = {  # of h > 0; the maps are odd in (h, f)
    "euler": h + DT * flow,
    "exponential": h + (1 - sympy.exp(-DT * leak)) / leak * flow,
    "splitting": h * (1 + r * DT * leak) ** (-1 / r) + DT * RATE * f,
}


class Pull(ctrnn.Part):
    """The input itself."""

    projected_size = input_size = hidden_size = 1

    def project(self, x):
        return x

    def flow(self, projected, h):
        return projected


def field_of(exponent):
    return ctrnn.Relaxation(Pull(), ctrnn.FixedRate(RATE), ctrnn.PowerDecay(exponent))


@functools.cache
def derivative(name, order, zero):
    expression = CLOSED[name].subs(r, 0) if zero and name != "splitting" else CLOSED[name]
    expression = h * sympy.exp(-DT * RATE) + DT * RATE * f if zero and name == "splitting" else expression
    return sympy.lambdify((h, f, r), sympy.diff(expression, h, order), "mpmath")


def exact(name, order, at, exponent):
    sign = math.copysign(1.0, at)
    digits = 60 + int(4 * (exponent + 1) * abs(math.log10(abs(at))))  # 1 - exp(-z) over z^3, of tiny z
    with mpmath.workdps(digits):
        found = derivative(name, order, exponent == 0)(mpmath.mpf(abs(at)), sign * mpmath.mpf(PULL), mpmath.mpf(exponent))
        return float(found) * (sign if order == 2 else 1)


def gradients(name, at, exponent, dtype):
    field, state = field_of(exponent), torch.full((1, 1), at, dtype=dtype, requires_grad=True)
    stepped = STEPS[name].advance(field, torch.full((1, 1), PULL, dtype=dtype), state, DT)
    (first,) = torch.autograd.grad(stepped, state, create_graph=True)
    second = torch.autograd.grad(first, state)[0] if first.requires_grad else torch.zeros(1, 1)
    return first.item(), second.item()


@pytest.mark.parametrize("name", STEPS)
@given(
    at=st.floats(-2, 2).filter(lambda at: abs(at) >= 1e-150),
    exponent=st.sampled_from(EXPONENTS),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
@example(at=1e-12, exponent=0.1, dtype=torch.float32)
@example(at=-1e-30, exponent=1.0, dtype=torch.float32)
@example(at=-1e-150, exponent=4.0, dtype=torch.float64)
def test_first_and_second_derivatives_are_those_of_the_closed_form(name, at, exponent, dtype):
    at = torch.tensor(at, dtype=dtype).item()
    numbers = torch.finfo(dtype)
    assume(abs(at) >= numbers.tiny)
    for order, found in enumerate(gradients(name, at, exponent, dtype), 1):
        # Second derivatives of a leak, which is in all but Euler's step, pass through |h|^(r - 2).
        if (
            order == 2
            and name != "euler"
            and 0 < exponent < 2
            and (2 - exponent) * -math.log2(abs(at)) > math.log2(numbers.max) - 4
        ):
            continue
        expected = exact(name, order, at, exponent)
        # A few dozen roundings; phi_1 is differentiated by its series, where it would cancel.
        assert found == pytest.approx(expected, rel=2000 * numbers.eps, abs=2000 * numbers.eps), order


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_gradients_are_finite_at_rest_and_where_floats_end(name, exponent, dtype):
    numbers = torch.finfo(dtype)
    for at in (0.0, -0.0, numbers.tiny, -numbers.tiny / 2, numbers.tiny * numbers.eps):
        first, second = gradients(name, at, exponent, dtype)
        assert math.isfinite(first), at
        if at == 0:
            forgotten = {"euler": RATE * DT, "exponential": -math.expm1(-RATE * DT), "splitting": -math.expm1(-RATE * DT)}[name]
            assert first == pytest.approx(1 if exponent else 1 - forgotten, rel=4 * numbers.eps)
            assert math.isfinite(second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_what_is_left_is_right_where_the_power_overflows(exponent, dtype):
    numbers, decay = torch.finfo(dtype), ctrnn.PowerDecay(exponent)
    for at in (numbers.max**0.25, -(numbers.max**0.9), numbers.max):
        state = torch.tensor(at, dtype=dtype, requires_grad=True)
        left = decay.after(state, torch.tensor(0.25, dtype=dtype))
        with mpmath.workdps(60):
            s, r, size = mpmath.mpf(0.25), mpmath.mpf(exponent), mpmath.mpf(abs(state.item()))
            expected = size * (mpmath.exp(-s) if not exponent else (1 + r * s * size**r) ** (-1 / r))
            slope = mpmath.exp(-s) if not exponent else (1 + r * s * size**r) ** (-1 / r - 1)
            expected, slope = math.copysign(float(expected), at), float(slope)
        # The power and its root: their error is that of the logarithm, of up to 710.
        assert left.item() == pytest.approx(expected, rel=2000 * numbers.eps), at
        share = abs(expected / state.item())  # of which the slope is a difference
        found = torch.autograd.grad(left, state)[0].item()
        assert found == pytest.approx(slope, rel=2000 * numbers.eps, abs=2000 * numbers.eps * share + numbers.tiny), at


@functools.cache
def by_exponent(name):
    return sympy.lambdify((h, f, r), sympy.diff(CLOSED[name], r), "mpmath")


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("exponent", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_a_learned_exponent_has_the_gradient_of_the_closed_form(name, exponent):
    for at in (0.7, -1.5, 1e-3, -1e-40, 0.0):
        decay = ctrnn.PowerDecay(exponent, learnable=True, hidden_size=1, dtype=torch.float64)
        field = ctrnn.Relaxation(Pull(), ctrnn.FixedRate(RATE), decay)
        stepped = STEPS[name].advance(field, torch.full((1, 1), PULL), torch.full((1, 1), at), DT)
        (found,) = torch.autograd.grad(stepped.sum(), decay.exponent_argument)
        with mpmath.workdps(400):
            sign, numbers = math.copysign(1, at), (mpmath.mpf(abs(at)), math.copysign(1, at) * mpmath.mpf(PULL))
            exact = sign * by_exponent(name)(*numbers, mpmath.mpf(decay.exponent.item())) if at else 0
            of_argument = exact * -mpmath.expm1(-decay.exponent.item())  # softplus' = 1 - e^-softplus
        assert found.item() == pytest.approx(float(of_argument), rel=1e-11, abs=1e-15), at


@pytest.mark.parametrize("size", [None, 3])
def test_a_learned_exponent_is_finite_with_its_gradients_where_every_sequence_starts(size):
    decay = ctrnn.PowerDecay(0.25, learnable=True, hidden_size=size, dtype=torch.float64)
    state = torch.zeros(2, 3, requires_grad=True)
    for of in (decay, decay.leak, lambda h: decay.after(h, torch.ones_like(h))):
        first = torch.autograd.grad(of(state).sum(), [state, decay.exponent_argument], create_graph=True)
        second = torch.autograd.grad(sum(g.sum() for g in first), [state, decay.exponent_argument], allow_unused=True)
        assert all(bool(g.isfinite().all()) for g in (*first, *second) if g is not None)
        assert bool((first[1] == 0).all())


@pytest.mark.parametrize("exponent", [0.5, 2.0])
def test_an_exact_solve_has_the_gradient_of_the_closed_form(exponent):
    h0 = torch.tensor([[0.0, 5e-324, -1e-30, 0.4, -1.5]], requires_grad=True)
    field = ctrnn.Relaxation(problems.Nowhere(1, 5), ctrnn.FixedRate(1.0), ctrnn.PowerDecay(exponent))
    path = ctrnn.HeldPath(torch.zeros(1, 1, 1), torch.tensor([0.0, 3.0]))
    end = discretize.integrate(field, path, h0, torch.tensor([0.0, 3.0]), method="dopri8", rtol=1e-10, atol=1e-12).hs[-1]
    (found,) = torch.autograd.grad(end.sum(), h0)
    expected = (1 + exponent * 3 * h0.detach().abs() ** exponent) ** (-1 / exponent - 1)
    assert_close(found, expected, rtol=1e-7, atol=0)
