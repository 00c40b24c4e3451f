"""What proves signs on both sides of a point, by squares, in cases and by bounds: true statements, and forgeries held back."""

import json

import pytest
from flint import fmpq
from sympy import (
    Abs,
    Function,
    Integral,
    Max,
    Rational,
    Sum,
    acosh,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    erf,
    exp,
    log,
    oo,
    sin,
    sinh,
    sqrt,
    symbols,
    tanh,
)

from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal
from derivations.rules.conclusions import concludes
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data, replay
from derivations.rules.terms import ONE, ZERO, add, divide, mul, neg, number, power, variable

x, y, u, v, f, g, h = symbols("x y u v f g h", real=True)
a, b, c, p, q = symbols("a b c p q", positive=True)
w, z = symbols("w", nonnegative=True), symbols("z")
n, k = symbols("n k", integer=True, positive=True)
m = symbols("m", integer=True)
F, G = Function("F", real=True), Function("G", real=True)
sigma, softplus = 1 / (1 + exp(-x)), log(1 + exp(x))
UNIT = {h: (-1, 1), f: (-1, 1), g: (0, 1)}
MIXED = Abs(h + g * (f - h))
TRUE = {
    "means of two": Less(sqrt(a * b), (a + b) / 2),
    "means of three": Less((a * b * c) ** Rational(1, 3), (a + b + c) / 3),
    "three cubes": Less(3 * a * b * c, a**3 + b**3 + c**3),
    "products of three": Less(x * y + y * u + u * x, x**2 + y**2 + u**2),
    "tangent of exp": Less(1 + x, exp(x)),
    "parabola under exp": Less(1 + w + w**2 / 2, exp(w)),
    "tangent of exp at 1": Less(exp(1) * x, exp(x)),
    "tangent of log": Less(log(p), p - 1),
    "log below": Less(log(p), p, True),
    "log above": Less(1 - 1 / p, log(p)),
    "entropy": Less(-exp(-1), p * log(p)),
    "peak": Less(p * exp(-p), exp(-1)),
    "erf": Less(erf(x), 1, True),
    "size of erf": Less(Abs(erf(x)), 1, True),
    "size of tanh": Less(Abs(tanh(x)), 1, True),
    "tanh and its letter": Less(Abs(tanh(x)), Abs(x)),
    "x tanh x": Less(0, x * tanh(x)),
    "softplus and relu": Less(Max(x, 0), softplus),
    "softplus from above": Less(softplus, log(2) + Abs(x)),
    "sin": Less(sin(w), w),
    "size of sin": Less(Abs(sin(x)), 1),
    "cos": Less(1 - x**2 / 2, cos(x)),
    "atan": Less(atan(w), w),
    "cosh": Less(1 + x**2 / 2, cosh(x)),
    "Bernoulli": Less(1 + n * w, (1 + w) ** n),
    "Bernoulli from -1 on": Less(1 + n * x, (1 + x) ** n, region={x: (-1, oo)}),
    "Cauchy and Schwarz": Less(x * u + y * v, sqrt(x**2 + y**2) * sqrt(u**2 + v**2)),
    "triangle": Less(Abs(x + y), Abs(x) + Abs(y)),
    "convex combination": Less(MIXED, 1, region=UNIT),
    "gate": Less(sigma * (1 - sigma), Rational(1, 4)),
    "atanh": Equal(atanh(tanh(h)), h),
    "asinh": Equal(asinh(sinh(x)), x),
    "acosh": Equal(acosh(cosh(p)), p),
    "sum of k": Equal(Sum(k, (k, 1, n)), n * (n + 1) / 2),
    "powers of 2": Equal(Sum(2**k, (k, 0, n)), 2 ** (n + 1) - 1),
    "sum of two": Equal(Sum(F(k) + 2 * G(k), (k, 1, n)), Sum(F(k), (k, 1, n)) + 2 * Sum(G(k), (k, 1, n))),
    "last of a sum": Equal(Sum(F(k), (k, 1, n + 1)), Sum(F(k), (k, 1, n)) + F(n + 1)),
    "sum at a point": Equal(Sum(F(k), (k, 1, 2 * n)), Sum(F(k), (k, 1, n)) + Sum(F(k), (k, n + 1, 2 * n))),
    "integral of two": Equal(
        Integral(F(u) - p * G(u), (u, 0, 1)), Integral(F(u), (u, 0, 1)) - p * Integral(G(u), (u, 0, 1))),
    "integral at a point": Equal(Integral(F(u), (u, 0, p)), Integral(F(u), (u, 0, q)) + Integral(F(u), (u, q, p))),
    "integral reversed": Equal(Integral(F(u), (u, 0, p)), -Integral(F(u), (u, p, 0))),
}  # fmt: skip


# They take two thirds of the time of all.
LONG = {
    "means of three",
    "three cubes",
    "tangent of exp at 1",
    "log above",
    "peak",
    "Bernoulli",
    "Bernoulli from -1 on",
    "triangle",
}


@pytest.mark.by_default(8)
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in TRUE])
def test_what_is_true_and_common_is_proved_and_checked_from_data_alone(name):
    verdict = TRUE[name].decide()
    assert verdict.holds, verdict.evidence
    says, steps = (from_data(json.loads(json.dumps(as_data(part)))) for part in (TRUE[name].says(), verdict.certificate))
    assert concludes(says, steps).true is True


NEARLY = [
    Less((a + b) / 2, sqrt(a * b)), Less(3 * x * y * u, x**3 + y**3 + u**3),
    Less(x * y + y * u + u * x, x**2 + y**2 + u**2, True), Less(1 + x, exp(x), True), Less(1 + x + x**2 / 2, exp(x)),
    Less(1 + Rational(101, 100) * x, exp(x)), Less(log(p), p - 1, True), Less(log(p), p - Rational(101, 100)),
    Less(1 - 1 / p, log(p), True), Less(-exp(-1), p * log(p), True), Less(exp(1) * x, exp(x), True),
    Less(Abs(erf(x)), Rational(99, 100)), Less(0, erf(x)), Less(Abs(sin(x)), 1, True), Less(sin(x) + cos(x), Rational(7, 5)),
    Less(sin(x), x), Less(1 - x**2 / 3, cos(x)), Less(Abs(tanh(x)), Abs(x), True), Less(tanh(x), x), Less(0, x * tanh(x), True),
    Less(Max(x, 0) + Rational(1, 10), softplus), Less(softplus, log(2) + x),
    Less(1 + m * w, (1 + w) ** m), Less(1 + q * w, (1 + w) ** q), Less(1 + n * w, (1 + w) ** n, True),
    Less(Abs(x + y), Abs(x) + Abs(y), True), Less(sqrt(a) + sqrt(b), sqrt(a + b)), Less(1, sqrt(1 + x)),
    Less(0, x + sqrt(x**2 - 1), True),
    Less(MIXED, 1, region={**UNIT, f: (-2, 1)}), Less(erf(z), 1), Less(Abs(sin(z)), 1), Less(0, z**2),
    Less(2 * z * x, z**2 + x**2),
    Equal(acosh(cosh(x)), x), Equal(atanh(2 * tanh(h)), 2 * h), Equal(Sum(k, (k, 1, n)), n * (n - 1) / 2),
    Equal(Sum(F(k), (k, 1, 2 * n)), Sum(F(k), (k, 1, n)) + Sum(F(k), (k, n, 2 * n))),
    Equal(Sum(F(k), (k, 1, n + 1)), Sum(F(k), (k, 1, n)) + F(n)), Equal(Sum(F(k + 1), (k, 1, n)), Sum(F(k), (k, 1, n))),
    Equal(Integral(F(u) * G(u), (u, 0, 1)), Integral(F(u), (u, 0, 1)) * Integral(G(u), (u, 0, 1))),
    Equal(Integral(F(u), (u, 0, p)), Integral(F(u), (u, 0, q)) + Integral(F(u), (u, p, q))),
    Equal(Integral(F(u), (u, 0, p)), Integral(F(u), (u, p, 0))),
    Equal(Integral(u * F(u), (u, 0, 1)), u * Integral(F(u), (u, 0, 1))),
]  # fmt: skip
# Each takes as long as all others.
LONG_NEARLY = [Less(sqrt(a * b), (a + b) / 2, True), Less(1 + n * x, (1 + x) ** n)]


@pytest.mark.by_default(12)
@pytest.mark.parametrize("statement", [*NEARLY, *(pytest.param(near, marks=pytest.mark.slow) for near in LONG_NEARLY)], ids=str)
def test_what_is_only_nearly_so_is_not_held(statement):
    assert statement.decide().holds is not True


# Forged certificates, made by hand.

X, Y, UP, N, T = map(variable, ("x", "y", "x+", "n", "$0"))
REAL = {letter: frozenset({"real"}) for letter in (X, Y)}
ABOVE = {letter: frozenset({"real", "positive"}) for letter in (X, Y)}
WHOLE = {**REAL, N: frozenset({"real", "integer", "positive"})}
TWO, HALF, MINUS = number(2), number(1, 2), number(-1)
SIZE = ("piece", X, neg(X), ZERO, X)
CALL, PLACE = ("call", "h", (0,), T), ("call", "h", (0,), X)


def less(lower, upper, proof, facts=REAL, strict=False):
    return {"rule": "less", "lower": lower, "upper": upper, "strict": strict, "region": (), "facts": facts, "proof": proof}


def not_less(lower, upper, ends, number_of_x):
    return {"rule": "not less", "lower": lower, "upper": upper, "strict": False, "region": ((X, *ends),), "facts": REAL,
            "numbers": {X: fmpq(number_of_x)}}  # fmt: skip


def shows(*generators, lines=()):
    return {"how": "shows", "generators": generators, "lines": lines}


def way(*generators, proof=None):
    return {"generators": generators, "lines": [], "proof": proof or shows(*generators)}


def covers(by, *ways, generators=(X, UP), **more):
    return {"how": "covers", "letter": X, "by": by, "ways": ways, "generators": generators, "lines": [], **more}


def sides(*ways, point=ZERO, scaled=False, **more):
    return covers("sides", *ways, point=point, scaled=scaled, **more)


def cases(of, *ways, generators=(X, Y)):
    return {"how": "cases", "of": of, "ways": ways, "generators": generators, "lines": []}


def total(*parts, generators=(X, Y)):
    return {"how": "sum", "parts": [(part, positive, shows(*generators)) for part, positive in parts],
            "generators": generators, "lines": []}  # fmt: skip


def squares(greater, less_, generators=(X, Y)):
    inner = shows(*generators)
    return {"how": "squares", "greater": greater, "less": less_, "of greater": inner, "of squares": inner,
            "generators": generators, "lines": []}  # fmt: skip


def same(lhs, rhs, lines, facts=REAL, generators=()):
    case = {"signs": (), "generators": generators, "lines": lines}
    return {"rule": "equal", "lhs": lhs, "rhs": rhs, "facts": facts, "proof": {"split": (), "cases": [case]}}


def integral(body, low, high):
    return ("int", "$0", body, low, high)


def summed(body, low, high):
    return ("sum", "$0", body, low, high)


UNBOUNDED = ("exp", neg(power(X, MINUS)))
SUM_OF_H, TO_ONE = summed(CALL, ONE, N), integral(CALL, ZERO, ONE)
FALSE = {
    # Bounds.
    "erf reaches no less than 1": less(erf_ := ("erf", X), HALF, shows(X, erf_)),
    "sin is 1 somewhere": less(("sin", X), ONE, shows(X), strict=True),
    "two sines reach 2": less(add(("sin", X), ("sin", Y)), ONE, shows(X, Y)),
    "tanh of what is not real has no bounds": less(("tanh", X), ONE, shows(X), {}),
    "sin of what is not real has no bounds": less(("sin", X), ONE, shows(X), {}),
    "a positive number is not 1 or more": less(ONE, X, shows(X), ABOVE),
    "a whole number may be negative": less(ONE, N, shows(N), {N: frozenset({"real", "integer"})}),
    "a product of bounds": less(mul(TWO, ("sin", X), ("sin", Y)), ONE, shows(X, Y)),
    "a root of less than its letter's square": less(
        ZERO, add(X, power(add(power(X, TWO), MINUS), HALF)), shows(X), strict=True),
    # Numbers that are to refute.
    "numbers above the region": not_less(X, ONE, (HALF, TWO), number_of_x=3),
    "numbers below the region": not_less(ONE, X, (TWO, number(3)), number_of_x=0),
    # Both sides of a point.
    "below a point it is negative": less(ZERO, X, sides(way(UP), way(UP), way(UP))),
    "below is left out": less(ZERO, X, sides(way(UP), way(UP))),
    "the point is left out": less(ZERO, SIZE, sides(way(UP), way(UP)), strict=True),
    "at the point it is 0": less(ZERO, SIZE, sides(way(UP), way(UP), way(UP)), strict=True),
    "another point": less(ONE, X, sides(way(UP), point=ONE), ABOVE),
    "a point that is the letter": less(ZERO, add(X, MINUS), sides(way(UP), point=X, generators=(X, UP)), strict=True),
    "a point that is nowhere": less(ZERO, X, sides(way(UP), point=("log", MINUS))),
    "a point that is not real": less(ZERO, X, sides(way(UP), way(UP), way(UP), point=("i",), generators=(X, ("i",)))),
    "a letter that is not real": less(ZERO, power(X, TWO), sides(way(UP), way(UP), way(UP)), {}),
    "steps by a point that is not positive": less(ONE, X, sides(way(UP), point=MINUS, scaled=True)),
    "steps of a letter that is not positive": less(
        ZERO, X, sides(way(UP), way(UP), way(UP), point=ONE, scaled=True), strict=True),
    "a name that is taken": less(
        ZERO, add(X, neg(UP)), sides(way(UP)), {**ABOVE, UP: ABOVE[X]}, strict=True),
    # A power of another letter, or a whole number from 1 on.
    "a square of what is negative": less(ZERO, X, covers("root", way(UP), degree=2)),
    "a power of degree 0": less(X, ONE, covers("root", way(UP), degree=0), ABOVE),
    "a power of no degree": less(ZERO, X, covers("root", way(UP), degree="2")),
    "a positive number is not 1 and more": less(ONE, X, covers("next", way(UP)), ABOVE),
    "a whole number that is negative": less(ONE, X, covers("next", way(UP)), {X: frozenset({"real", "integer"})}),
    "another way": less(ZERO, X, covers("faith", way(UP))),
    # Cases.
    "a case is left out": less(ZERO, X, cases(X, way(X), way(X))),
    "in a case it is negative": less(ZERO, X, cases(X, way(X), way(X), way(X))),
    "what is not real has no cases": less(ZERO, power(X, TWO), cases(X, way(X), way(X), way(X), generators=[X]), {}),
    "what is undefined has no cases": less(
        ZERO, power(X, TWO), cases(power(X, MINUS), way(X), way(X), generators=[X]), {X: frozenset({"real", "nonzero", "other"})},
        strict=True) | {"upper": mul(MINUS, power(X, TWO))},
    "a case does not hold on the way": less(
        ZERO, ("piece", add(X, MINUS), ONE, ONE, add(mul(HALF, power(X, TWO)), neg(X))), cases(
            add(X, MINUS), way(X), way(X), way(
                X, proof={"how": "rises", "letter": X, "strictly": True, "generators": [X], "lines": [], "start": shows(X),
                          "slope": shows(X)}), generators=[X]), ABOVE),
    # Sums and squares.
    "parts that are not all": less(ZERO, add(X, MINUS), total((X, False)), ABOVE),
    "a part that is negative": less(ZERO, add(X, MINUS), total((X, True), (MINUS, False)), ABOVE),
    "no part is positive": less(ZERO, power(X, TWO), total((power(X, TWO), True)), strict=True),
    "a square of what is not real": less(ZERO, power(X, TWO), total((power(X, TWO), False)), {}),
    "a part that is infinite": less(
        ZERO, MINUS, total((power(X, number(-2)), False), (neg(add(ONE, power(X, number(-2)))), False), generators=[X])),
    "squares of what is negative": less(ZERO, neg(X), squares(neg(X), ZERO, [X]), ABOVE),
    "squares without a sign": less(ONE, X, squares(X, ONE)),
    "squares of what is not real": less(X, ONE, squares(ONE, X), {}),
    "squares of others": less(X, ONE, squares(ONE, ZERO), ABOVE),
    "an exponential of what is not real": less(
        ZERO, X, {"how": "exponent", "proof": shows(X, ("exp", X)), "generators": [X], "lines": []}, {}),
    "an exponential that is less than 1": less(
        ZERO, X, {"how": "exponent", "proof": shows(X, ("exp", X)), "generators": [X], "lines": []}),
    # Parts of integrals.
    "a constant that is none": same(integral(ZERO, ZERO, ONE), ONE, [
        (integral(ZERO, ZERO, ONE), ("linear", [(T, ONE), (neg(T), ONE)], [T], []))], {}, [T, integral(ONE, ZERO, ONE)]),
    "another sum of parts": same(TO_ONE, mul(TWO, integral(PLACE, ZERO, ONE)), [
        (TO_ONE, ("linear", [(TWO, PLACE)], [CALL, PLACE], []))], REAL, [integral(PLACE, ZERO, ONE)]),
    "a part that may not be defined": same(integral(ZERO, MINUS, ONE), add(integral(power(T, MINUS), MINUS, ONE), ONE), [
        (integral(ZERO, MINUS, ONE), ("linear", [(ONE, power(T, MINUS)), (MINUS, power(T, MINUS))], [T], []))], {},
        [integral(power(T, MINUS), MINUS, ONE)]),
    "an integral from another start": same(TO_ONE, integral(CALL, TWO, ONE), [(TO_ONE, ("from", TWO, TWO, ONE))], {},
                                           [integral(CALL, TWO, ONE)]),
    "an integral to another end": same(TO_ONE, integral(CALL, ZERO, TWO), [(TO_ONE, ("from", ZERO, ZERO, TWO))], {},
                                       [integral(CALL, ZERO, TWO)]),
    "an integral from what is nowhere": same(TO_ONE, ZERO, [(TO_ONE, ("from", ("log", MINUS), ZERO, ONE))], {},
                                             [integral(CALL, ("log", MINUS), ZERO)]),
    # Parts of sums.
    "steps of something else": same(summed(T, ONE, N), N, [(summed(T, ONE, N), ("steps", T, [T], []))], WHOLE, [N]),
    "a sum to what is not whole": same(summed(ONE, ONE, X), X, [(summed(ONE, ONE, X), ("steps", T, [T], []))], REAL, [X]),
    "a sum that ends before it starts": same(
        summed(ONE, ONE, N), N, [(summed(ONE, ONE, N), ("steps", T, [T], []))], {N: frozenset({"real", "integer"})}, [N]),
    "a sum over a pole": same(
        summed(neg(power(mul(add(T, number(-3)), add(T, number(-2))), MINUS)), ONE, number(5)), ONE,
        [(summed(neg(power(mul(add(T, number(-3)), add(T, number(-2))), MINUS)), ONE, number(5)),
          ("steps", power(add(T, number(-3)), MINUS), [T], []))], {}),
    "another last term": same(
        SUM_OF_H, summed(CALL, ONE, add(N, MINUS)), [(SUM_OF_H, ("last", add(N, MINUS), 0))], WHOLE,
        [N, summed(CALL, ONE, add(N, MINUS))]),
    "last terms of a shorter sum": same(
        SUM_OF_H, add(summed(CALL, ONE, add(N, number(-2))), ("call", "h", (0,), N), ("call", "h", (0,), add(N, MINUS))),
        [(SUM_OF_H, ("last", add(N, number(-2)), 2))], WHOLE,
        [N, summed(CALL, ONE, add(N, number(-2))), ("call", "h", (0,), N), ("call", "h", (0,), add(N, MINUS))]),
    "two last terms of a sum that may have one": same(
        summed(ONE, ONE, N), add(summed(ONE, ONE, add(N, number(-2))), TWO),
        [(summed(ONE, ONE, N), ("last", add(N, number(-2)), 2))], WHOLE, [N, summed(ONE, ONE, add(N, number(-2)))]),
    "a sum from a later start": same(
        SUM_OF_H, neg(summed(CALL, number(3), ZERO)), [(SUM_OF_H, ("from", number(3), ZERO, N))], WHOLE,
        [N, summed(CALL, number(3), ZERO), summed(CALL, number(3), N)]),
    "a sum without its first terms": same(
        SUM_OF_H, summed(CALL, ZERO, N), [(SUM_OF_H, ("from", ZERO, MINUS, N))], WHOLE, [N, summed(CALL, ZERO, N)]),
    "a constant of a sum that is none": same(
        summed(ZERO, ONE, N), ONE, [(summed(ZERO, ONE, N), ("linear", [(T, ONE), (neg(T), ONE)], [T], []))], WHOLE,
        [T, N, summed(ONE, ONE, N)]),
    # Roots of squares.
    "a root of a square without a sign": same(
        power(power(X, TWO), HALF), X, [(power(power(X, TWO), HALF), ("root", [(X, 2)]))], REAL, [X]),
    "a logarithm of a factor that cancels": same(
        ("log", divide(add(X, MINUS), add(X, MINUS))), ZERO, [(("log", divide(add(X, MINUS), add(X, MINUS))), [(X, 1)])], REAL,
        [X, ("logabs", X)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_forged_certificate_is_refused(name):
    with pytest.raises((NotShown, LookupError, TypeError, ValueError)):
        replay(FALSE[name])
