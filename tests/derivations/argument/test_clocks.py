"""Changing time, against solutions that can be written down."""

import re

import pytest
from sympy import (
    Abs,
    Derivative,
    Eq,
    Function,
    I,
    ImmutableDenseMatrix,
    Integral,
    Limit,
    Max,
    Mod,
    Piecewise,
    Rational,
    S,
    Subs,
    Sum,
    Symbol,
    acos,
    arg,
    asin,
    cos,
    cosh,
    exp,
    floor,
    frac,
    log,
    pi,
    simplify,
    sin,
    sqrt,
    tan,
    tanh,
)

import ctrnn
import derivations
from derivations import change_of_time, symbolic
from derivations.argument.increasing import clock_conditions
from derivations.prover import symbols
from derivations.twins import fields

t, alpha, beta = symbols.t, symbols.alpha, symbols.beta
h, k = symbols.state(2)
(x,) = symbols.inputs(1)
c, d = symbols.c, symbols.d


def residual(equation, solutions):
    """The equation's two sides apart, with solutions in place of functions."""
    gap = (equation.lhs - equation.rhs).subs(solutions).doit()
    return simplify(gap)


@pytest.mark.parametrize(
    "clock",
    [alpha * t + 1, t**2, log(1 + t), *(pytest.param(c, marks=pytest.mark.slow) for c in (2 * t, exp(t), t + sin(t) / 2))],
)
def test_a_solution_played_on_a_clock_solves_the_warped_equation(clock):
    drive = exp(-t)
    solutions = {
        -h: exp(-t),  # autonomous
        -h + x: exp(-t) * (t + 1),  # driven by x(t) = exp(-t)
        -h + x.diff(t): -t * exp(-t),  # by its slope
        -h + x.diff(t, 2): t * exp(-t),
        2 * t * h: exp(t**2),  # with a time of its own
        -(h**2): 1 / (2 + t),  # nonlinear
    }
    for rate, solution in solutions.items():
        assert residual(Eq(h.diff(t), rate), {h: solution, x: drive}) == 0
        (warped,) = change_of_time([Eq(h.diff(t), rate)], clock)
        assert residual(warped, {h: solution.subs(t, clock), x: drive.subs(t, clock)}) == 0, rate


def test_coupled_units_stay_coupled_on_a_clock():
    circle = [Eq(h.diff(t), -k), Eq(k.diff(t), h)]
    for warped in change_of_time(circle, t**2):
        assert residual(warped, {h: cos(t**2), k: sin(t**2)}) == 0


def test_on_a_clock_that_shows_the_time_nothing_changes():
    equations = [Eq(h.diff(t), -h + tanh(x) + t)]
    assert change_of_time(equations, t) == tuple(equations)


def test_explicit_time_is_read_on_the_clock_and_signals_are_renamed():
    (warped,) = change_of_time([Eq(h.diff(t), t * x + h)], alpha * t + 1)
    assert simplify(warped.rhs - alpha * ((alpha * t + 1) * x + h)) == 0


def test_two_clocks_compose():
    equations = [Eq(h.diff(t), t * h + x)]
    twice = change_of_time(change_of_time(equations, t**2), 3 * t + 1)
    once = change_of_time(equations, (3 * t + 1) ** 2)
    assert simplify(twice[0].rhs - once[0].rhs) == 0


def test_a_speed_that_is_there_already_is_read_on_the_new_clock():
    (warped,) = change_of_time(change_of_time([Eq(h.diff(t), -h)], c(t)), d(t))
    assert warped.rhs == -h * d(t).diff(t) * Derivative(c(d(t)), d(t))


def test_a_slope_is_played_on_both_of_two_clocks():
    equations = [Eq(h.diff(t), t * x.diff(t) - h)]
    twice = change_of_time(change_of_time(equations, t**2), 3 * t + 1)
    once = change_of_time(equations, (3 * t + 1) ** 2)
    assert simplify(twice[0].rhs - once[0].rhs) == 0
    assert change_of_time(change_of_time(equations, c(t)), d(t)) == change_of_time(equations, c(d(t)))


def test_an_input_that_is_called_c_is_no_clock():
    (driven,) = symbols.signals("c", 1)
    drive = c(t)
    field = fields.SymbolicField("driven", "", (h,), (drive, driven), {}, ImmutableDenseMatrix([drive.diff(t) - h]))
    assert change_of_time(field, 2 * t)[0].rhs.expand() == drive.diff(t) - 2 * h


def test_one_equation_may_be_put_on_a_clock_without_a_list():
    assert change_of_time(Eq(h.diff(t), -h), 2 * t)[0].rhs == -2 * h


def test_a_unit_alone_takes_the_others_for_signals_on_its_own_clock():
    # Not what gates per unit do: there, unit 1 reads k on the clock of k.
    (warped,) = change_of_time([Eq(h.diff(t), k - h)], 2 * t)
    assert simplify(warped.rhs - 2 * (k - h)) == 0


@pytest.mark.slow
def test_the_traced_code_can_be_warped_too():
    field = ctrnn.plain(1, 2)
    warped = change_of_time(symbolic(field), alpha * t)
    assert all(simplify(w.rhs - alpha * e.rhs) == 0 for w, e in zip(warped, symbolic(field), strict=True))


@pytest.mark.parametrize(
    "field",
    [fields.plain(), fields.leaky(2, 1), fields.gated(1, 1), fields.gru(1, 1), fields.lstm(1, 1)],
    ids=lambda field: field.name,
)
def test_every_named_field_is_multiplied_by_the_speed(field):
    for warped, equation in zip(change_of_time(field, beta * t), field, strict=True):
        assert (warped.rhs - beta * equation.rhs).expand() == 0


corners = [Abs(t - 1), Max(t, 2 * t - 1), Piecewise((t, t < 1), (2 * t, True)), floor(t) + t]


def shown(value):
    return str(value)[:60]


past = Symbol("s", real=True)
ELSEWHERE = [
    Integral(x.func(past), (past, 0, t)), Integral(x, (t, 0, t)), Integral(x, t), x.func(0), Limit(x, t, 1),
    Subs(x, t, t - 1), Derivative(x**2, t), Sum(x.func(past), (past, 0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("clock", "why"),
    [
        (-t, "does not increase"),
        (-exp(t), "does not increase"),
        (-alpha * t, "does not increase"),
        (S(3), "must run"),
        (alpha, "must run"),
        (t - t, "must run"),
        (sin(t), "runs backwards"),
        (t**2 - t, "runs backwards"),
        (t - 2 * sin(t), "runs backwards"),
        *((corner, "corners") for corner in corners),
        (I * t, "not real"),
        (2 * Symbol("u", real=True), "does not depend on"),
    ],
    ids=shown,
)
def test_what_is_no_clock_is_refused(clock, why):
    with pytest.raises(ValueError, match=why):
        change_of_time([Eq(h.diff(t), -h)], clock)


@pytest.mark.parametrize(
    ("equations", "clock", "error", "words"),
    [
        ([Eq(h.diff(t), -h)], "2*t", TypeError, "SymPy expression"),
        ([-h], 2 * t, TypeError, "SymPy equations"),
        ([], 2 * t, ValueError, "empty"),
        ([Eq(h.diff(t, 2), -h)], 2 * t, ValueError, "first derivative"),
        ([Eq(h.diff(t), -h), Eq(h.diff(t), h)], 2 * t, ValueError, "one equation for each unit"),
        ([Eq(h.diff(t), -h.subs(t, t - 1))], 2 * t, ValueError, "another time"),
        ([Eq(h.diff(t), Function("x", real=True)(t - 1) - h)], 2 * t, ValueError, "another time"),
        ([Eq(h.diff(t), -k.diff(t)), Eq(k.diff(t), h)], 2 * t, ValueError, "derivative"),
        *(([Eq(h.diff(t), read - h)], 2 * t, ValueError, "can be a unit") for read in ELSEWHERE),
    ],
    ids=shown,
)
def test_what_is_no_system_of_equations_is_not_put_on_a_clock(equations, clock, error, words):
    with pytest.raises(error, match=words):
        change_of_time(equations, clock)


@pytest.mark.by_default(2)
@pytest.mark.parametrize(
    ("reading", "speed", "inverse"),
    [
        (symbols.alpha * t, symbols.alpha, t / symbols.alpha),
        (exp(t) - 1, exp(t), log(t + 1)),
        (t + t**2, 2 * t + 1, (sqrt(4 * t + 1) - 1) / 2),
        (symbols.c(t), symbols.c(t).diff(t), Function("c^-1", real=True)(t)),
        (t + sin(t) / 2, 1 + cos(t) / 2, None),
    ],
    ids=shown,
)
def test_a_clock_knows_its_speed_and_its_inverse(reading, speed, inverse):
    found = derivations.clock(reading)
    assert simplify(found.speed - speed) == 0
    assert found.inverse == inverse if inverse is None else simplify(found.inverse - inverse) == 0


def test_a_clock_states_what_makes_it_one():
    a = Symbol("a", real=True)
    assert derivations.clock(a * t).conditions == (a > 0,)
    assert derivations.clock(symbols.alpha * t).conditions == ()
    assert derivations.clock(exp(t) - 1).conditions == ()


def test_an_increasing_clock_may_stand_still_at_single_moments():
    assert derivations.clock(symbols.c(t)).conditions == (symbols.c(t).diff(t) >= 0,)
    with pytest.raises(ValueError, match="runs backwards"):
        derivations.clock(t - t**2)


@pytest.mark.by_default(6)
@pytest.mark.parametrize(
    ("reading", "why"),
    [
        (t + sin(14 * pi * t), "backwards: its speed at t = "),
        (t - t**2 / 10**4, "backwards"),
        (t**3 - 3 * t**2 + Rational(299, 100) * t, "backwards"),  # between 0.94 and 1.06 only
        (t * (2 + sin(t)), "backwards"),
        (2 * t + asin(sin(t)), "corners"),
        (t + acos(1 / (1 + t)), "corners"),
        (2 * t + arg(t - 1), "corners"),
        (t + frac(t), "corners"),
        (t + Mod(t, 1), "corners"),
        (t + sqrt((t - 1) ** 2), "corners"),
        (1 / (2 - t), "pole"),
        (tan(t), "corners"),
        (log(t - 1), "not real"),
        (sqrt(t - 1), "not real"),
        (t + sqrt(t) * sqrt(-t), "not real"),
        (t - exp(t / 1000) / 1000, "backwards"),  # after 13000 only
        (t + sin(1 / t), "backwards"),
        (sin(t) ** 2 + cos(t) ** 2, "does not increase"),
        (-exp(symbols.alpha * t), "does not increase"),
    ],
)
def test_what_runs_backwards_or_has_a_corner_anywhere_is_no_clock(reading, why):
    with pytest.raises(ValueError, match=why):
        derivations.clock(reading)


@pytest.mark.slow
def test_what_runs_backwards_for_a_moment_is_no_clock():
    with pytest.raises(ValueError, match="backwards"):
        derivations.clock(t - exp(-40 * (t - 3) ** 2) / 2)  # between 2.7 and 2.9 only


@pytest.mark.parametrize("clock", [t**2, sqrt(1 + t), t**3 / 3, 1 - exp(-t)], ids=shown)
def test_clocks_need_to_increase_on_positive_times_only(clock):
    (warped,) = change_of_time([Eq(h.diff(t), -h)], clock)
    assert simplify(warped.rhs + clock.diff(t) * h) == 0


@pytest.mark.parametrize(
    "reading", [t**3, (t - 1) ** 3, t + sin(t), t - sin(t), t + cos(t), log(cosh(t)), -1 / t, log(t)], ids=shown
)
def test_a_clock_may_stand_still_at_single_moments(reading):
    assert clock_conditions(reading, t) == ()


a, other = Symbol("a", real=True), symbols.c(t)


@pytest.mark.by_default(2)
@pytest.mark.parametrize(
    "reading",
    [a**2 * t, t + a * sin(t), sqrt(t**2 - 2 * t + 1) + t, t + log(other), t + 1 / (t + a), t + cos(sqrt(a) * t)],
    ids=shown,
)
def test_what_is_neither_proved_nor_refuted_of_a_clock_is_a_condition(reading):
    assert clock_conditions(reading, t)


def test_that_a_logarithm_is_defined_is_a_condition_of_its_clock():
    assert (other > 0) in clock_conditions(t + log(other), t)


def test_the_moment_named_for_a_clock_that_runs_backwards_is_one():
    with pytest.raises(ValueError, match="backwards") as refused:
        derivations.clock(t - t**2 / 10**4)
    moment = Rational(re.search(r"at t = (\S+) is", str(refused.value))[1])
    assert (1 - moment / 5000) < 0
