"""Integrals, sums, and clamped quotients: what is true is proved, what is false is refuted by their values."""

import pytest
from sympy import (
    ITE,
    Abs,
    I,
    Integral,
    Max,
    Min,
    Piecewise,
    Product,
    Rational,
    S,
    Sum,
    Symbol,
    atan,
    cosh,
    exp,
    log,
    oo,
    pi,
    sin,
    sqrt,
    tanh,
)

from derivations import Identity, check
from derivations.prover.identity import says
from derivations.rules.conclusions import concludes
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data

pytestmark = pytest.mark.usefixtures("read_alone")

a, b, s = (Symbol(name, real=True) for name in "abs")
p = Symbol("p", positive=True)
n, i, j = Symbol("n", integer=True, positive=True), Symbol("i", integer=True), Symbol("j", integer=True)
quotient, beside = a / (1 + b**2), a / (1 + Abs(b))

# Code that asks for the size of a value that has cases itself, as torch's softplus has, asks one question or the other.
asked = Piecewise((1, ITE(a > 0, b > 0, s > 0)), (0, True))

TRUE = {
    "a condition with cases": (asked, Piecewise((1, (a > 0) & (b > 0)), (1, (a <= 0) & (s > 0)), (0, True))),
    "clamped quotient": (Max(0, Min(1, quotient)), Min(1, Max(0, quotient))),
    "by cases": (Max(0, Min(1, quotient)), Piecewise((0, quotient < 0), (1, quotient > 1), (quotient, True))),
    "to -1": (Max(-1, Min(1, quotient)), Min(1, Max(-1, quotient))),
    "below |b|": (Max(-1, Min(1, beside)), Min(1, Max(-1, beside))),
    "below b": (Max(0, Min(1, a / b)), Min(1, Max(0, a / b))),
    "numbers": (Sum(i * j, (i, 1, 2), (j, 1, 3)), S(18)),
    "two sums": (Sum(Sum(i * j, (i, 1, n)), (j, 1, n)), (n * (n + 1) / 2) ** 2),
    "power": (Integral(s**p, (s, 0, 1)), 1 / (p + 1)),
    "softly": (Integral(tanh(p * s), (s, 0, 1)), log(cosh(p)) / p),
}
FALSE = {
    "a condition with cases": (asked, Piecewise((1, (a > 0) & (s > 0)), (1, (a <= 0) & (b > 0)), (0, True))),
    "clamped quotient": (Max(0, Min(1, quotient)), Min(1, Max(0, 2 * quotient))),
    "bounds exchanged": (Max(1, Min(0, quotient)), Min(1, Max(0, quotient))),
    "to -1": (Max(-1, Min(1, quotient)), Min(1, Max(0, quotient))),
    "numbers": (Sum(i * j, (i, 1, 2), (j, 1, 3)), S(19)),
    "two sums": (Sum(Sum(i * j, (i, 1, n)), (j, 1, n)), n * (n + 1) / 2),
    "geometric": (Sum(a**i, (i, 0, n)), 1 / (1 - a)),
    "product": (Product(i, (i, 1, n)), n**2),
    "sign": (Integral(exp(-s), (s, 0, a)), 1 - exp(a)),
    "no closed form": (Integral(sin(s) / s, (s, 1, 2)), Rational(66, 100)),
    "bell": (Integral(exp(-(s**2)), (s, 0, 1)), Rational(747, 1000)),
    "with a letter": (Integral(1 / (1 + s**4), (s, 0, a)), atan(a)),
    "root": (Integral(sqrt(s), (s, 1, 2)), Rational(122, 100)),
    "complex": (Integral(exp(I * s), (s, 0, 1)), S(2)),
    "to infinity": (Integral(exp(-p * s**2), (s, 0, oo)), sqrt(pi) / sqrt(p)),
    "from a root's end": (Integral(s**p, (s, 0, 1)), 1 / (p + 2)),
}
# Neither: they have no value, or none that is found.
OPEN = {
    "through a pole": (Integral(1 / s, (s, -1, 1)), S(0)),
    "a square's pole": (Integral(1 / s**2, (s, -1, 1)), S(-2)),
    "from a pole": (Integral(1 / s, (s, 0, 1)), S(5)),
    "backwards": (Sum(i, (i, 5, 1)), S(0)),
}


def identity(sides):
    return Identity("", "", "", *sides)


@pytest.mark.by_default(4)
@pytest.mark.parametrize("name", TRUE)
def test_what_is_true_of_clamps_sums_and_integrals_is_proved(name):
    found = check(identity(TRUE[name]))
    assert found
    assert concludes(says(identity(TRUE[name])), from_data(as_data(found.certificate))).true
    assert [str(c) for c in found.defined_on] == (["Ne(b, 0)"] if name == "below b" else [])


@pytest.mark.by_default(5)
@pytest.mark.parametrize("name", FALSE)
def test_what_is_false_is_refuted_and_the_checker_sees_it_of_no_other_statement(name):
    claim = identity(FALSE[name])
    found = check(claim)
    assert found.holds is False, found.evidence
    steps = from_data(as_data(found.certificate))
    assert not concludes(says(claim), steps).true
    with pytest.raises(NotShown):
        concludes(says(identity(FALSE["sign" if name != "sign" else "root"])), steps)
    with pytest.raises(NotShown):
        concludes(says(claim), steps[:-1])


@pytest.mark.parametrize("name", OPEN)
def test_what_has_no_value_is_neither_proved_nor_refuted(name):
    assert check(identity(OPEN[name])).holds is None
