"""Limits, series, inequalities, solutions, printed decimals and refutations that tempt."""

import pytest
from sympy import (
    Abs,
    Eq,
    Function,
    Heaviside,
    I,
    Integral,
    LambertW,
    Max,
    Min,
    Piecewise,
    Rational,
    S,
    Symbol,
    atan,
    cos,
    cosh,
    erf,
    exp,
    expint,
    gamma,
    log,
    oo,
    pi,
    sign,
    sin,
    sqrt,
    symbols,
    tan,
    tanh,
)

from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Fails, Rounds, Solves

x, y, a, b, c, t = symbols("x y a b c t", real=True)
p, q = symbols("p q", positive=True)
z = Symbol("z")
n = Symbol("n", integer=True, positive=True)
k = Symbol("k", integer=True)
neg = Symbol("s", negative=True)
nn = Symbol("r", nonnegative=True)
f, h, g = (Function(name, real=True) for name in "fhg")
half = Rational(1, 2)
HIDDEN = sqrt(5 + 2 * sqrt(6)) - sqrt(2) - sqrt(3)  # 0


def table(allowed, kind, *rows):
    return [(allowed, kind(*row) if isinstance(row, tuple) else kind(**row)) for row in rows]


def test_limits(offenders):
    X = Symbol("x", positive=True)  # the same name as x, and another letter
    found = offenders(
        table(
            "fails?",
            Tends,
            ((p + a) / (b * p + 1), p, oo, 1 / b + 1),
            (sign(x), x, 0, S(0), "+-"),
            (sign(x), x, 0, S(1), "+-"),
            (Abs(x) / x, x, 0, S(1), "+-"),
            (Heaviside(x), x, 0, half, "+"),
            (1 / x, x, 0, oo, "+-"),
            (1 / x, x, 0, oo, "-"),
            (exp(1 / x), x, 0, S(0), "+"),
            (exp(1 / x), x, 0, oo, "+-"),
            (sin(1 / x), x, 0, S(0), "+"),
            (sin(x), x, oo, S(0)),
            (cos(x) ** 2, x, oo, half),
            (exp(a * x), x, oo, oo),
            (exp(a * x), x, oo, S(0)),
            (x**a, x, 0, S(0), "+"),
            (a * x, x, oo, oo),
            (a / x, x, 0, oo),
            (x * exp(expint(1, x)), x, 0, S(0), "+"),
            (X * exp(expint(1, X)), X, 0, S(0), "+"),
            (x / X, x, oo, S(1)),
            (x / X, x, 0, S(1), "+"),
            (x - X, x, oo, S(0)),
            (x + Symbol("x~", real=True), x, oo, -oo),
            (log(x) / x, x, 0, S(0), "+"),
            (x**x, x, 0, S(0), "+"),
            (0**x, x, 0, S(1), "+"),
            (h(x), x, 0, h(0), "+"),
            (h(x) / x, x, oo, S(0)),
            (tanh(a * x), x, oo, S(1)),
            (atan(x), x, oo, pi),
            (sqrt(x**2 + x) - x, x, oo, S(0)),
            ((1 + a / x) ** x, x, oo, S(1)),
            ((1 + 1 / x) ** x, x, oo, S(1)),
            ((c * x**2 + x) / (c * x**2 + 2 * x), x, oo, half),
            ((c * x**2 + x) / (c * x**2 + 2 * x), x, oo, S(1) + c),
            (sin(x) / x, x, 0, S(0), "+-"),
            (LambertW(x, -1), x, 0, S(0), "-"),
            (tan(x), x, pi / 2, S(0), "-"),
            (Max(x, 0) / x, x, 0, half, "+-"),
            (Piecewise((1, x >= 0), (0, True)), x, 0, S(1), "+-"),
            (x * sin(x), x, oo, oo),
            ((-1) ** n, n, oo, S(1)),
            (n * log(n), n, oo, S(0)),
            (1 / (x - a), x, a, S(0), "+"),
            (p ** (1 / x), x, 0, oo, "+"),
            (q**x, x, oo, oo),
            (log(log(x)), x, oo, S(1)),
            (log(x) ** 2 / log(x**2), x, oo, S(1)),
        )
        + table(
            "holds?",
            Tends,
            ((p + a) / (b * p + 1), p, oo, 1 / b),
            # An infinite limit for all but one value of a constant, which is the value that it has.
            ((x + HIDDEN) / x, x, 0, S(1), "+"),
            ((x + HIDDEN * x**2) / x, x, oo, S(1)),
            (x * HIDDEN, x, oo, S(0)),
            (x**2 * sin(1 / x), x, 0, S(0), "+-"),
            (exp(-x) * sin(x), x, oo, S(0)),
            (x**x, x, 0, S(1), "+"),
            (0**x, x, 0, S(0), "+"),
            (log(x) / x, x, oo, S(0)),
            (x * log(x), x, 0, S(0), "+"),
            (sqrt(x**2 + x) - x, x, oo, half),
            ((1 + a / x) ** x, x, oo, exp(a)),
            (p ** (1 / x), x, oo, S(1)),
            (log(log(x)) / log(x), x, oo, S(0)),
            (exp(1 / x), x, 0, S(0), "-"),
            (sign(x), x, 0, S(-1), "-"),
            (Max(x, 0), x, 0, S(0), "+-"),
            (atan(x), x, oo, pi / 2),
            (x * exp(x), x, -oo, S(0)),
            (gamma(x), x, 1, S(1), "+"),
            (erf(x), x, oo, S(1)),
        )
        + table(
            "holds",
            Tends,
            (sin(x) / x, x, 0, S(1), "+-"),
            ((exp(x) - 1) / x, x, 0, S(1), "+-"),
            (1 / x, x, 0, oo, "+"),
            (1 / x, x, 0, -oo, "-"),
            (tanh(x), x, oo, S(1)),
            (tanh(x), x, -oo, S(-1)),
            (exp(-p * x), x, oo, S(0)),
            (x**2 + a, x, a, a**2 + a, "+-"),
            ((1 - cos(x)) / x**2, x, 0, half, "+"),
            ((x + 1) / (2 * x + 3), x, oo, half),
            (log(1 + exp(x)) - x, x, oo, S(0)),
        )
        + table(
            "fails",
            Tends,
            ((x + 1) / (2 * x + 3), x, oo, S(1)),
            (1 / x, x, 0, S(0), "+"),
            (1 / x, x, 0, -oo, "+"),
            (tanh(x), x, oo, S(0)),
            (exp(-p * x), x, oo, S(1)),
            ((exp(x) - 1) / x, x, 0, S(2), "+"),
            (x**2, x, a, a + 1, "+"),
        )
    )
    assert not found, "\n".join(found)


def test_series(offenders):
    found = offenders(
        table(
            "fails?",
            Expands,
            (sign(x), x, S(0), 1),
            (Heaviside(x), x, S(0), 1),
            (Abs(x), x, x, 2),
            (sqrt(z**2), z, z, 3),
            (sqrt(z**2), z, -z, 3),
            (sqrt(z**6), z, z**3, 5),
            ((z**4) ** Rational(1, 4), z, z, 3),
            (Max(x, 0), x, x / 2, 2),
            (Piecewise((1 + x, x > 0), (1, True)), x, S(1), 2),
            (Piecewise((x, x >= 0), (1, True)), x, x, 2),
            (exp(-1 / x), x, S(0), 3),
            (exp(-1 / x**2), x, S(1), 3),
            (x * log(x), x, S(0), 1),
            (x**2 * log(x), x, S(0), 2),
            (x**2 * expint(1, x), x, S(0), 2),
            (expint(1, x), x, S(0), 1),
            (sqrt(x), x, S(0), 1),
            (x ** Rational(3, 2), x, S(0), 2),
            (1 / x, x, S(0), 1),
            (sin(x) / x, x, 1 + x, 2),
            (h(x), x, S(0), 1),
            (h(x) * x, x, S(0), 2),
            (exp(a * x), x, 1 + x, 2),
            (1 / (a + x), x, S(0), 1),
            (sqrt(x**2 + a**2), x, a, 1),
            (x**a, x, S(0), 1),
            (LambertW(x), x, S(1), 1),
            (gamma(x), x, S(1), 1),
            (atan(1 / x), x, pi / 2, 1),
            (x**3 * sin(1 / x), x, S(0), 4),
        )
        + table(
            "holds?",
            Expands,
            (h(x), x, h(0), 1),  # a function of which nothing is known has its derivatives, as wherever one is taken
            (sqrt(z**4), z, z**2, 4),
            (log(1 + x), x, x - x**2 / 2, 3),
            (1 / (a + x), x, 1 / a - x / a**2, 2),
            ((1 + x) ** a, x, 1 + a * x, 2),
            (p**x, x, 1 + x * log(p), 2),
            (sqrt(p + x), x, sqrt(p) + x / (2 * sqrt(p)), 2),
            (atan(x), x, x, 3),
            (erf(x), x, 2 * x / sqrt(pi), 3),
            (x * Abs(x), x, S(0), 2),
            (sin(x) / x, x, 1 - x**2 / 6, 4),
        )
        + table(
            "holds",
            Expands,
            (exp(x), x, 1 + x + x**2 / 2, 3),
            (tanh(x), x, x - x**3 / 3, 5),
            (1 / (1 - x), x, 1 + x + x**2, 3),
            (sqrt(1 + x), x, 1 + x / 2, 2),
            (cos(x), x, 1 - x**2 / 2, 4),
            (x**2, x, 1 + 2 * (x - 1), 2, 1),
        )
        + table(
            "fails",
            Expands,
            (exp(x), x, 1 + x, 3),
            (tanh(x), x, x, 4),
            (1 / (1 - x), x, 1 - x, 2),
            (sqrt(1 + x), x, 1 + x, 2),
            (cos(x), x, S(1), 3),
        )
    )
    assert not found, "\n".join(found)


def less(lower, upper, strict=False, **region):
    letters = {s.name: s for s in (x, y, a, b, p, q, n, k, neg)}
    return (S(lower), S(upper), strict, {letters[name]: ends for name, ends in region.items()} or None)


def test_inequalities(offenders):
    primes = Symbol("e", prime=True)
    m = Symbol("m", integer=True, positive=True)
    found = offenders(
        table(
            "fails",
            Less,
            less(0, x + sqrt(x**2 - 1), True),
            less(0, x + sqrt(y**2 + 1), True),
            less(0, x + 4),
            less(x, x**2),
            less(x**2, x, x=(0, 2)),
            less(0, x**3),
            less(0, x**2, True),
            less(x, Abs(x), True),
            less(1, exp(x)),
            less(p, 1),
            less(1, p),
            less(a, b),
            less(x, b, x=(a, oo)),
            less(tanh(x), x),
            less(0, sin(x)),
            less(x * y, 0),
            less(Max(x, 0), x),
            less(log(p), 0),
            less(0, k),
            less(1, n, True),
            less(x, y, x=(0, 1), y=(0, 1)),
            less(p, q),
            less(0, neg),
            less(0, (x - 1) * (x - 2), x=(0, 3)),
            less(1, 1, True),
            less(2, 1),
        )
        + table(
            "fails?",
            Less,
            less(0, x ** (2 * n), True),
            less(0, 1 / x),
            less(0, cosh(z), True),
            less(0, z**2),
            less(0, LambertW(x) ** 2),
            less(0**nn, half),
            less(0, I),
            less(0, x - 1, x=(0, oo)),
            less(0, cos(x), x=(0, 3)),
            less(0, tan(x), x=(0, 3)),
            less(x, 1, x=(0, p)),
            less(0, h(x)),
            less(h(x), h(y), x=(0, 1), y=(1, 2)),
            less(0, log(x), x=(0, 2)),
            less(gamma(p), 1),
            less(0, a * b),
            less(x**2, 1, x=(-1, 2)),
            less(x, 0, x=(-oo, 1)),
            less(Abs(x), 1, x=(-2, 1)),
            less(x, a, x=(a, b)),
            less(0, n - 1, True),
            less(n, 10**6),
            less(sqrt(x), x, x=(0, oo)),
            less(x + Symbol("x", negative=True), 0, x=(0, oo)),
        )
        + table(
            "holds?",
            Less,
            less(5, 1, x=(1, 0)),  # of an empty region all is true
            less(x, b, x=(a, b)),
            less(a, x, x=(a, b)),
            less(0, x, x=(p, p + 1)),
            less(2, primes),
            less(1, m),
            less(tanh(p), p),
            less(0, HIDDEN),
            less(2 * x * y, x**2 + y**2),
            less(sin(p), p),
            less(log(p), p),
            less(1 + x, exp(x)),
            less(0, gamma(p), True),
            less(x, Max(x, y)),
            less(Min(x, y), x),
            less(Abs(tanh(x)), 1),
            less(0, sqrt(x)),
            less(0, n - 1),
            less(0, x ** (2 * n)),
            less(1, n**2),
            less(k, k**2),
            less(0, erf(p)),
            less(x, 1, True, x=(-oo, 1)),
        )
        + table(
            "holds",
            Less,
            less(0, x + sqrt(x**2 + 1), True),
            less(0, x**2),
            less(0, x**2 + 1, True),
            less(0, exp(x), True),
            less(x**2, x, x=(0, 1)),
            less(1, exp(p), True),
            less(1 - p, exp(-p)),
            less(0, p * q, True),
            less(0, 1 - x, True, x=(0, 1)),
            less(neg, 0, True),
            less(0, (x - 1) ** 2),
            less(tanh(x), 1, True),
            less(1, 2, True),
        )
    )
    assert not found, "\n".join(found)


# Two thirds of the time of all probes of inequalities: a 0 that does not show, and two corners that cross.
@pytest.mark.slow
def test_inequalities_that_take_long(offenders):
    found = offenders(table("fails?", Less, less(0, HIDDEN, True)) + table("holds?", Less, less(Abs(x + y), Abs(x) + Abs(y))))
    assert not found, "\n".join(found)


def test_printed_decimals(offenders):
    third = Rational(1, 3)
    found = offenders(
        table(
            "holds",
            Rounds,
            (third, "0.3"),
            (third, "0.333"),
            (2 * third, "0.67"),
            (Rational(3, 2), "2"),
            (Rational(3, 2), "1.5"),
            (Rational(5, 2), "2.5"),
            (pi, "3.14"),
            (pi, "3.1416"),
            (-pi, "-3.14"),
            (S(0), "0"),
            (S(0), "0.00"),
            (sqrt(2), "1.414"),
            (exp(1), "2.718"),
            (Rational(7, 4), "1.8"),
        )
        + table(
            "holds?",
            Rounds,
            (Rational(5, 2), "2"),
            (Rational(5, 2), "3"),
            (Rational(1, 8), "0.13"),
            (Rational(1, 8), "0.12"),
            (Rational(1, 1000), "1e-3"),
            (S(1500), "1.5e3"),
            (Rational(-5, 2), "-2"),
            (Rational(-5, 2), "-3"),
            (HIDDEN, "0"),
        )
        + table(
            "fails",
            Rounds,
            (Rational(3, 2), "1"),
            (Rational(-3, 2), "-1"),
            (Rational(7, 2), "3"),
            (Rational(1, 4), "0.1"),
            (Rational(7, 4), "1.7"),
            (third, "0.34"),
            (third, "0.3333334"),
            (third, "0.30"),
            (2 * third, "0.66"),
            (pi, "3.15"),
            (pi, "3.1415"),
            (pi, "3.142000"),
            (sqrt(2), "-1.414"),
            (S(1), "1.1"),
            (S(10), "1"),
        )
        + table("fails?", Rounds, (third, "1e-3"), (S(1), "1.5e3"), (I, "0"), (x, "0"), (S(2), "1e0"))
    )
    assert not found, "\n".join(found)


def test_solutions(offenders):
    dh = h(t).diff(t)
    found = offenders(
        table(
            "fails",
            Solves,
            ((Eq(dh, -h(t)),), {h(t): exp(t)}),
            ((Eq(dh, -h(t)),), {h(t): exp(-t)}, (S(0), {h(t): S(2)})),
            ((Eq(dh, h(t) ** 2),), {h(t): 1 / (1 + t)}),
            ((Eq(dh, g(t)), Eq(g(t).diff(t), -h(t))), {h(t): cos(t), g(t): sin(t)}),
            ((Eq(h(t).diff(t, 2), h(t)),), {h(t): sin(t)}),
            ((Eq(dh, a * h(t)),), {h(t): exp(t)}),
        )
        + table(
            "fails?",
            Solves,
            ((Eq(dh, sign(t)),), {h(t): t}),
            ((Eq(dh, h(t - 1)),), {h(t): S(1)}),
            ((Eq(dh, S(1)),), {h(t): Abs(t)}),
            ((Eq(dh, h(t)),), {h(t): I * exp(t)}),
            ((Eq(dh, g(x)), Eq(g(x).diff(x), h(t))), {h(t): exp(t), g(x): exp(x)}),
            ((Eq(dh, h(t)),), {h(t): exp(t) * sqrt(-2 - cos(t))}),
        )
        + table(
            "holds?",
            Solves,
            ((Eq(dh, h(t - 1)),), {h(t): S(0)}),
            ((Eq(dh, S(1)),), {h(t): Piecewise((0, Eq(t, 0)), (t, True))}),
            ((Eq(dh, 1 / (2 * h(t))),), {h(t): sqrt(t)}),
        )
        + table(
            "holds",
            Solves,
            ((Eq(dh, -h(t)),), {h(t): a * exp(-t)}, (S(0), {h(t): a})),
            ((Eq(dh, g(t)), Eq(g(t).diff(t), -h(t))), {h(t): sin(t), g(t): cos(t)}),
            ((Eq(h(t).diff(t, 2), -h(t)),), {h(t): sin(t)}),
        )
    )
    assert not found, "\n".join(found)


def test_refutations(offenders):
    false, true = Equal(x + 1, x), Equal((x + 1) ** 2, x**2 + 2 * x + 1)
    unknown = Equal(HIDDEN, S(0))
    found = offenders(
        table(
            "holds",
            Fails,
            (false,),
            (Less(S(0), x),),
            (Rounds(S(2), "1"),),
            (Tends(1 / x, x, 0, S(0)),),
            (Expands(exp(x), x, S(2), 1),),
            (Fails(true),),
        )
        + table("fails", Fails, (true,), (Fails(false),), (Less(S(0), x**2),), (Rounds(S(1), "1"),), (Tends(1 / x, x, 0, oo),))
        + table(
            "undecided",
            Fails,
            (Equal(Function("K")(x), Integral(f(x), (x, 0, 1))),),
            (Fails(Less(f(x), Integral(f(x), (x, 0, 1)))),),
        )
        + table("fails?", Fails, (unknown,), (Tends(x * HIDDEN, x, oo, S(0)),))
    )
    assert not found, "\n".join(found)
