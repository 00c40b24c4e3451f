"""Slow forgetting, against numerical integration and the paper's own formula."""

import mpmath
import pytest
from sympy import Abs, Rational, S, exp, simplify

from derivations import Identity, check, misprints
from derivations.argument.leaky import free, residual
from derivations.argument.power_decay import closed_form, half_life
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.twins.fields import leaky, power_decay

h0, r, s = symbols.h0, symbols.r, symbols.s


@pytest.mark.parametrize("start", [Rational(3, 2), Rational(-1, 2)])
@pytest.mark.parametrize("exponent", [Rational(1, 2), S(1), S(2)])
def test_the_closed_form_is_what_an_integrator_finds(start, exponent):
    flow = mpmath.odefun(lambda _, h: -(abs(h) ** float(exponent)) * h, 0, mpmath.mpf(float(start)))
    for elapsed in (S(1) / 2, S(3)):
        assert abs(flow(float(elapsed)) - mpmath.mpf(float(closed_form(start, exponent, elapsed)))) < 1e-12


def test_half_is_left_at_the_half_life_of_either_sign():
    for start in (Rational(7, 3), Rational(-7, 3)):
        assert abs(closed_form(start, S(3), half_life(start, S(3))) - start / 2).evalf(30) < 1e-25


def test_equation_21_as_printed_fails():
    (printed,) = misprints()
    verdict = check(printed)
    assert printed.label == "eq. 21"
    assert verdict.verdict == "does not hold as printed"
    left, right = (side.doit().xreplace(verdict.counterexample).evalf(30) for side in (printed.lhs, printed.rhs))
    assert abs(left - right) > 1e-6


def test_equation_21_as_printed_is_right_for_r_of_1_only():
    (printed,) = misprints()
    assert simplify((printed.lhs.doit() - printed.rhs).subs(r, 1)) == 0
    assert simplify((printed.lhs.doit() - printed.rhs).subs(r, 2)) != 0


@pytest.mark.parametrize(
    "wrong",
    [
        h0 * (1 + Abs(h0) ** r * s) ** (-1 / r),  # the r of eq. (21) again
        h0 * (1 + r * Abs(h0) ** r * s) ** (1 / r),
        h0 * (1 - r * Abs(h0) ** r * s) ** (-1 / r),
        h0 * (1 + r * h0**r * s) ** (-1 / r),  # right for h0 > 0, meaningless for h0 < 0
        h0 * exp(-s),
    ],
)
def test_another_formula_does_not_solve_the_equation(wrong):
    field = free(leaky(1, 1, decay=power_decay(r)).substitute(alpha=S.One))
    gap = residual(field, column(wrong), s)
    assert check(Identity("wrong", "this project", "No.", gap, column(0))).holds is not True
