"""Numbers for expressions, certain to 30 digits: those of mpmath, or none."""

import mpmath
from cases import each
from sympy import (
    Abs,
    And,
    Integer,
    Max,
    Min,
    Ne,
    Not,
    Or,
    Piecewise,
    Rational,
    atan,
    cos,
    cosh,
    erf,
    exp,
    gamma,
    lambdify,
    log,
    pi,
    sign,
    sin,
    sinh,
    sqrt,
    symbols,
    tanh,
)  # fmt: skip

from derivations.prover.refutation import certain_value

x, y = symbols("x y", real=True)
POINT = {x: Rational(-7, 4), y: Rational(12, 5)}
VALUES = [
    x**3 / y - Rational(1, 3),
    exp(x) + tanh(x * y) - sinh(y) / cosh(x),
    sin(x) * cos(y) + atan(x) * erf(y) + log(y) * sqrt(y) + pi,
    Abs(x) ** Rational(1, 3) * sign(x) + Max(x, y, 1) * Min(x, y, -3),
    y**x + gamma(y),
    Piecewise((exp(x), And(x < 0, y > 3)), (tanh(y), Or(Ne(x, y), x > y)), (0, True)),
    Piecewise((1, Not(x < 0)), (x, x <= y), (y, True)),
]
NONE = [
    log(x), sqrt(x), 1 / (x + Rational(7, 4)), (y - y**2) ** Rational(1, 2), Integer(0), sin(y) ** 2 + cos(y) ** 2 - 1,
    Piecewise((1, sin(y) ** 2 + cos(y) ** 2 < 1), (2, True)), sign(sin(y) ** 2 + cos(y) ** 2 - 1),
]  # fmt: skip


@each("e", VALUES)
def test_a_value_is_mpmath_s(e):
    with mpmath.workdps(40):
        wanted = lambdify([x, y], e, "mpmath")(*(mpmath.mpf(int(u.p)) / int(u.q) for u in POINT.values()))
        assert abs(certain_value(e, POINT)._to_mpmath(130) - wanted) < mpmath.mpf(10) ** -27


@each("e", NONE)
def test_what_is_not_real_or_not_certain_has_none(e):
    assert not certain_value(e, POINT)


def test_parts_that_stand_in_parts_many_times_are_computed_once():
    e = x
    for _ in range(9):
        e = e * exp(-e) + e / 2
    assert certain_value(e, {x: Rational(1, 2)}) > 0
