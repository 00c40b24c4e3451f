"""The symbolic step maps, against numbers: mpmath's integrator, orders by halving dt, and what they print as equal."""

import math
from functools import cache

import mpmath
import numpy
import pytest
import torch
from sympy import Float, Function, Rational, S, Symbol, exp, expand, lambdify, log, tanh

import ctrnn
import discretize
from derivations.prover import symbols
from derivations.prover.formulas import written
from derivations.texts.own_noise import DROPS
from derivations.twins.step_maps import (
    induced_factors,
    induced_gate,
    leading_error,
    maps,
    phi,
    power_forgetting,
    read,
    stability_function,
    stochastic_maps,
)

MAPS, NOISY = maps(), stochastic_maps()
EXPLICIT = [name for name, step in MAPS.items() if not step.is_implicit]
START = Rational(3, 5)


# A gate and a candidate that read the state: h' = g(h) (f(h) - h), of leak g(h).
def rate(u):
    return 2 / (1 + exp(-u))


def field(u):
    return rate(u) * (tanh(Rational(3, 2) * u + Rational(1, 4)) - u)


def by_numbers(function):
    """A number of 45 digits for a number, lest expressions nest."""
    return lambda u: function(u).evalf(45) if u.is_number else function(u)


def one_step(name, dt):
    return mpmath.mpf(str(MAPS[name](by_numbers(field), by_numbers(rate), START.evalf(45), dt).doit().evalf(45)))


@cache
def flow(elapsed):
    speed = lambdify(Symbol("u"), field(Symbol("u")), "mpmath")
    return mpmath.odefun(lambda _, h: speed(h), 0, mpmath.mpf(3) / 5)(elapsed)


@pytest.fixture(autouse=True)
def many_digits():
    with mpmath.workdps(30):
        yield


@pytest.mark.by_default(4)
@pytest.mark.parametrize("name", EXPLICIT)
def test_halving_dt_divides_the_local_error_by_2_to_the_order_and_one_more(name):
    errors = [flow(mpmath.mpf(1) / n) - one_step(name, Rational(1, n)) for n in (64, 128)]
    assert abs(mpmath.log(errors[0] / errors[1], 2) - MAPS[name].order - 1) < 0.1


EVERYDAY = ("taylor2", "exponential_euler", "frozen_trapezoid", "strang_splitting")


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", [n if n in EVERYDAY else pytest.param(n, marks=pytest.mark.slow) for n in EXPLICIT])
def test_the_leading_term_is_the_error_of_a_short_step(name):
    u, step = Symbol("u"), Rational(1, 512)
    slopes = {letter + "'" * k: known(u).diff(u, k).subs(u, START)
              for letter, known in (("F", field), ("L", rate)) for k in range(5)}  # fmt: skip
    term = read(MAPS[name].error, h=START, dt=step, **slopes).evalf(30)
    error = flow(mpmath.mpf(1) / 512) - one_step(name, step)
    assert abs(error / mpmath.mpf(str(term)) - 1) < 0.02


@pytest.mark.parametrize("name", [n if n != "etdrk4" else pytest.param(n, marks=pytest.mark.slow) for n in MAPS])
def test_the_leading_term_follows_from_the_equation(name):
    letters = {letter + "'" * k: Symbol(letter + "'" * k) for letter in "FL" for k in range(5)}
    assert expand(leading_error(name) - read(MAPS[name].error, h=Symbol("h", real=True), dt=symbols.dt, **letters)) == 0


@pytest.mark.parametrize(("name", "coefficient"), [("backward_euler", -mpmath.mpf(1) / 2), ("trapezoid", -mpmath.mpf(1) / 12)])
def test_an_implicit_step_found_numerically_misses_by_its_leading_term(name, coefficient):
    speed, dt, h = lambdify(Symbol("u"), field(Symbol("u")), "mpmath"), mpmath.mpf(1) / 512, mpmath.mpf(3) / 5
    residual = MAPS[name].residual
    after = mpmath.findroot(lambda u: residual(speed, h, u, dt), h)
    # F'F, and its derivative along the solution times F for the second order.
    bend = mpmath.diff(speed, h) * speed(h)
    if name == "trapezoid":
        bend = mpmath.diff(lambda u: mpmath.diff(speed, u) * speed(u), h) * speed(h)
    assert abs((flow(dt) - after) / (coefficient * bend * dt ** (MAPS[name].order + 1)) - 1) < 0.02


@pytest.mark.parametrize("k", [1, 2, 3])
def test_phi_is_its_integral(k):
    # phi_k(z) = integral over (0, 1) of e^((1 - s) z) s^(k - 1)/(k - 1)!
    for z in (mpmath.mpf(-7) / 3, mpmath.mpf(1) / 50, mpmath.mpf(2)):
        integral = mpmath.quad(lambda s, z=z: mpmath.exp((1 - s) * z) * s ** (k - 1), [0, 1]) / mpmath.factorial(k - 1)
        exact = phi(k, Rational(str(mpmath.nstr(z, 25)))).evalf(25)
        assert abs(mpmath.mpf(str(exact)) - integral) < 1e-18


def test_phi_is_known_at_0_and_its_slope_is_that_of_its_closed_form():
    z = Symbol("z")
    assert [phi(k, 0) for k in range(4)] == [1, 1, S.Half, Rational(1, 6)]
    for k in (1, 2, 3):
        assert (phi(k, z).diff(z).doit() - phi(k, z).doit().diff(z)).subs(z, Rational(2, 3)).evalf(30) < 1e-25
        assert phi(k, z).diff(z).subs(z, 0) == Rational(1, k + 1) / phi(k, 0) ** -1


def test_phi_is_printed_with_its_index():
    formula = written(phi(2, -Symbol("l")) ** 2)
    assert formula.latex == r"\phi_{2}^{2}{\left(- l \right)}"
    assert "<msubsup><mi>&#x003D5;</mi><mrow><mn>2</mn></mrow><mrow><mn>2</mn></mrow></msubsup>" in formula.mathml


def test_a_gate_is_what_an_affine_field_is_relaxed_by():
    g = Symbol("g", positive=True)
    assert expand(induced_gate("exponential_euler", g) - 1 + exp(-g)) == 0
    keeps, writes = induced_factors("strang_splitting", g)
    assert (keeps + writes - 1).subs(g, 1).evalf() < -0.02
    with pytest.raises(ValueError, match="splitting is no gate: it keeps"):
        induced_gate("splitting")


def test_stability_functions_are_right_on_the_leak_and_to_their_order_on_all_else():
    for name, step in MAPS.items():
        errors = []
        for size in (Rational(1, 64), Rational(1, 128)):
            found = stability_function(name, z=-3 * size, leak=size)
            errors.append(mpmath.mpf(str((exp(-3 * size) - found).evalf(30))))
        if name == "exponential_rosenbrock":
            assert max(map(abs, errors)) < 1e-25
        else:
            assert abs(mpmath.log(errors[0] / errors[1], 2) - step.order - 1) < 0.1, name


def test_implicit_steps_of_a_curved_field_have_no_closed_form():
    with pytest.raises(ValueError, match="F is not affine"):
        MAPS["trapezoid"](tanh, lambda u: S.One, START, S.Half)


def test_a_power_decay_is_split_exactly_for_either_sign():
    r, dt = Rational(1, 2), S(3)
    forgetting = power_forgetting(lambda u: S(2), r)
    exact = mpmath.odefun(lambda _, h: -2 * abs(h) ** 0.5 * h, 0, mpmath.mpf(-3) / 5)(3)
    for step in (MAPS["splitting"], MAPS["strang_splitting"]):
        after = step(lambda u: -2 * abs(u) ** r * u, lambda u: 2 * abs(u) ** r, -START, dt, forgetting)
        assert abs(mpmath.mpf(str(after.evalf(30))) - exact) < 1e-20


def test_without_a_leak_etdrk4_is_the_classical_step():
    F, h, dt = Function("F"), Symbol("h"), symbols.dt
    theirs = MAPS["runge_kutta4"](F, None, h, dt)
    assert expand(MAPS["etdrk4"](F, lambda u: S.Zero, h, dt) - theirs) == 0


def test_a_sigmoid_gate_is_backward_euler_of_its_odds():
    z = Rational(4, 3)
    odds = induced_gate("backward_euler").subs(Symbol("g", positive=True), exp(z))
    clock = induced_gate("exponential_euler").subs(Symbol("g", positive=True), log(1 + exp(z)))
    assert abs((odds - 1 / (1 + exp(-z))).evalf(30)) < 1e-25
    assert abs((clock - odds).evalf(30)) < 1e-25


class Linear(ctrnn.VectorField):
    """dh = -a h dt + G dW, of leak a, with G = s, or s h."""

    def __init__(self, a, s, additive=True):
        super().__init__(0, 1)
        self.a, self.s, self.additive = a, s, additive

    def flow(self, projected, h):
        return -self.a * h

    def leak(self, projected, h):
        return self.a * torch.ones_like(h)

    def diffusion(self, projected, h):
        return self.s * (torch.ones_like(h) if self.additive else h)


def one_noisy_step(name, field, h, dt, w, z):
    step = getattr(discretize.steps, name)()
    given = [torch.tensor([[value]], dtype=torch.float64) for value in (h, w, z)]
    return float(step(field, torch.zeros(1, 0, dtype=torch.float64), given[0], dt, *given[1 : 3 if step.reads_integral else 2]))


@pytest.mark.parametrize("dt", [0.3, 1.5])
@pytest.mark.parametrize("name", NOISY)
def test_a_noisy_step_leaves_the_variance_that_its_class_says(name, dt):
    kept, of_w, of_z = (one_noisy_step(name, Linear(1.0, 2**0.5), *unit[:1], dt, *unit[1:]) for unit in numpy.eye(3).tolist())
    added = of_w**2 * dt + 2 * of_w * of_z * dt**2 / 2 + of_z**2 * dt**3 / 3
    said = eval(NOISY[name].variance.replace("^", "**").replace(" (", " * (").replace("- * (", "- ("), {}, {"dt": dt})
    assert added / (1 - kept**2) == pytest.approx(said, rel=1e-12)


@pytest.mark.parametrize("name", DROPS)
def test_what_a_noisy_step_drops_first_is_its_error_of_geometric_brownian_motion(name):
    a, s, h, calculus = 0.7, 0.4, 0.8, NOISY[name].calculus
    letters = {"F": -a * h, "F'": -a, "G": s * h, "G'": s, "G''": 0.0}
    ratios = []
    for dt in (1e-4, 1e-6):
        w = 1.3 * dt**0.5
        exact = h * math.exp(-(a + (s**2 / 2 if calculus == "Ito" else 0)) * dt + s * w)
        numbers = {**letters, "dt": dt, "w": w, "z": 0.0}  # of any z: the field and the noise commute
        term = float(read(DROPS[name], **{letter: Float(value) for letter, value in numbers.items()}))
        ratios.append((exact - one_noisy_step(name, Linear(a, s, additive=False), h, dt, w, 0.0)) / term)
    assert abs(ratios[1] - 1) < 0.01
    assert abs(ratios[1] - 1) < abs(ratios[0] - 1) / 3  # the next term is of half a power of dt more
