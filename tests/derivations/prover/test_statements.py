"""Each kind of statement proves what is so, refutes what is not by numbers, and leaves the rest undecided."""

import numpy as np
import pytest
from sympy import Abs, Eq, Function, ImmutableDenseMatrix, Integral, Rational, S, Symbol, exp, floor, log, oo, sin, symbols

from derivations.prover.cases import Every, Measured
from derivations.prover.formulas import written
from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Fails, Rounds, Solves
from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED

g, a, b = symbols("g a b", positive=True)
x, y = symbols("x y", real=True)
t = Symbol("t", real=True)
h = Function("h", real=True)


def halves(expected):
    def draw(dice, n):
        return dice.random(n)

    return Measured("uniform on (0, 1)", draw, expected, Rational(1, 100))


# More of each kind is among the probes.
RIGHT = {
    "a limit far out": Tends((1 + a / g) ** g, g, oo, exp(a)),
    "a sign by two derivatives": Less(g / (1 + g), 1 - exp(-g)),
    "a series at another point": Expands(log(x), x, x - 1, 2, point=1),
    "a series through a removable point": Expands(sin(x) / x, x, 1 - x**2 / 6, 3),
    "concave": Less(1 - g, exp(-g), strict=True, rising=(g,)),
    "below a bound": Less(x, x**2, strict=True, region={x: (-oo, 0)}),
    "rewritten": Less(4 * a * b, (a + b) ** 2, rewritten=(a - b) ** 2),
    "an expectation": Equal(Integral(x * exp(-x), (x, 0, oo)), S.One),
    "forgetting": Solves((Eq(h(t).diff(t), -a * h(t)),), {h(t): x * exp(-a * t)}, (S.Zero, {h(t): x})),
    "a negative decimal": Rounds(-log(49), "-3.89"),
    "bits": Every("bits", lambda: (({"n": n}, (n * n, "=", n)) for n in (0, 1))),
    "a mean": halves(Rational(1, 2)),
    "a mean of one value": Measured("ones", lambda dice, n: np.ones(n), S.One, Rational(1, 100)),
    "not equal": Fails(Equal(g, g**2)),
    "a corner": Equal(Abs(x) ** 2, x**2),
    "nothing of a floor": Equal(floor(g) * 0, S.Zero),
}
WRONG = {
    "a series of another order": Expands(exp(-g), g, 1 - g, 3),
    "rewritten": Less(2 * x * y, x**2, rewritten=(x - y) ** 2),
    "another start": Solves((Eq(h(t).diff(t), -a * h(t)),), {h(t): x * exp(-a * t)}, (S.Zero, {h(t): 2 * x})),
    "a decimal": Rounds(-log(49), "-1.69"),
    "an end of a region that is a letter": Less(x, a, region={x: (a, b)}),
    "bits": Every("digits", lambda: (({"n": n}, (n * n, "=", n)) for n in range(10))),
    "a mean": halves(Rational(2, 5)),
    "not equal": Fails(Equal(g + g, 2 * g)),
}
OPEN = {
    "a sign that does not show": Less((exp(x) + exp(-x)) / 2, exp(x**2 / 2)),
    # Below 0 only between 10^6 and 10^6 + 1: no trial finds that, and no proof of sign may either.
    "a dip": Less(S.Zero, (x - 10**6) * (x - 10**6 - 1), region={x: (0, oo)}),
    "a limit that is none": Tends(sin(1 / g), g, 0, S.Zero),
    "a series where there is none": Expands(log(x), x, x, 2),
    "too coarse a sample": Measured("uniform", lambda dice, n: dice.random(n), Rational(1, 2), Rational(1, 100), n=100),
    "the refutation of what is open": Fails(Less((exp(x) + exp(-x)) / 2, exp(x**2 / 2))),
    "no cases": Every("nothing", lambda: iter(())),
}


@pytest.mark.parametrize("name", RIGHT)
def test_statements_that_are_so_hold(name):
    verdict = RIGHT[name].decide()
    assert verdict.verdict == HOLDS, verdict.evidence
    assert verdict.evidence
    assert verdict.seconds > 0


@pytest.mark.parametrize("name", WRONG)
def test_statements_that_are_not_so_are_refuted_by_numbers(name):
    verdict = WRONG[name].decide()
    assert verdict.verdict == FAILS, verdict.evidence
    assert verdict.counterexample


@pytest.mark.parametrize("name", OPEN)
def test_statements_that_cannot_be_decided_are_not_held_for_true(name):
    assert OPEN[name].decide().verdict == UNDECIDED


def test_a_derivative_that_changes_sign_proves_nothing():
    assert Less(S.Zero, g * (g - 10**6) ** 2 - g, rising=(g,)).decide().holds is not True


def test_the_counterexample_of_an_inequality_lies_in_its_region():
    verdict = Less(x, S.One, region={x: (Rational(1, 2), 2)}).decide()
    ((letter, value),) = verdict.counterexample.items()
    assert letter == x
    assert 1 < value < 2


def test_a_rounded_number_is_displayed_beside_its_print_and_not_as_equal_to_it():
    (formula,) = Rounds(S(1843), "2000", within=S(200)).formulas()
    shown = written(formula)
    assert shown.text == "1843, printed 2000 (within 200)"
    assert shown.latex == r"1843,\ \text{printed } 2000\ (\text{within } 200)"
    assert "<mo>&#x0003D;</mo>" not in shown.mathml
    assert "=" not in written(Rounds(-log(49), "-1.69").formulas()[0]).latex


def test_the_evidence_of_a_series_names_what_was_dropped():
    assert "(-1/6) g^3" in Expands(exp(-g), g, 1 - g + g**2 / 2, 3).decide().evidence


def test_the_evidence_of_a_mean_names_test_size_and_level():
    evidence = halves(Rational(1, 2)).decide().evidence
    assert evidence == halves(Rational(1, 2)).decide().evidence  # the same in every run
    for word in ("100000 draws", "99.9 %", "Student's t"):
        assert word in evidence


def test_formulas_are_what_is_claimed():
    (entry, other) = Equal(ImmutableDenseMatrix([x, y]), ImmutableDenseMatrix([y, x])).formulas()
    assert (entry, other) == (Eq(x, y), Eq(y, x))
    assert str(Tends(1 / g, g, 0, oo).formulas()[0]) == "Eq(Limit(1/g, g, 0, dir='+'), oo)"
    assert [str(formula) for formula in Less(x, y, region={x: (0, y)}).formulas()] == ["x <= y", "0 < x", "x < y"]
    assert str(Expands(exp(g), g, 1 + g, 2).formulas()[0]) == "Eq(exp(g), g + O(g**2) + 1)"
    assert str(Rounds(Rational(1, 6), "0.167").formulas()[0]) == "1/6, rounded 0.167"
    assert str(Fails(Rounds(S(2), "1")).formulas()[0]) == "not(2, rounded 1)"
    assert str(Fails(Equal(x, y)).formulas()[0]) == "Ne(x, y)"
