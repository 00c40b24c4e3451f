"""Identities that tempt: bound variables, roots, logarithms, corners, poles, values and derivatives of functions."""

import pytest
from sympy import (
    Abs,
    Derivative,
    Dummy,
    Eq,
    Function,
    Heaviside,
    I,
    Integral,
    LambertW,
    Limit,
    Max,
    Min,
    Ne,
    Piecewise,
    Product,
    Rational,
    S,
    Subs,
    Sum,
    Symbol,
    atan,
    cos,
    cosh,
    erf,
    exp,
    expint,
    floor,
    gamma,
    log,
    oo,
    pi,
    sign,
    sin,
    sinh,
    sqrt,
    symbols,
    tan,
    tanh,
)

from derivations.prover.statements import Equal

x, y, a, b, t, u = symbols("x y a b t u", real=True)
p, q = symbols("p q", positive=True)
z, w = symbols("z w")  # complex
k, m = symbols("k m", integer=True)
n, j = symbols("n j", integer=True, positive=True)
n0 = Symbol("n0", integer=True, nonnegative=True)
neg = Symbol("s", negative=True)
nn = Symbol("r", nonnegative=True)
f, g, h = (Function(name, real=True) for name in "fgh")
F, P = Function("F"), Function("P", positive=True)
A, B = symbols("A B", commutative=False)
even, prime, imaginary = Symbol("e", even=True), Symbol("p0", prime=True), Symbol("v", imaginary=True)
half = Rational(1, 2)


def diff(e, *v):
    return Derivative(e, *v, evaluate=False)


def table(allowed, *pairs):
    return [(allowed, Equal(S(lhs), S(rhs))) for lhs, rhs in pairs]


def int01(e, v=t):
    return Integral(e, (v, 0, 1))


def test_bound_variables_are_not_constants(offenders):
    I1 = int01(h(t))
    found = offenders(
        table(
            "fails?",
            (int01(h(t) ** 2), I1**2),
            (int01(h(t)), h(t)),
            (Sum(f(k) ** 2, (k, 1, n)), Sum(f(k), (k, 1, n)) ** 2 / n),
            (Sum(f(k), (k, 1, n)), n * f(k)),
            (Product(h(k), (k, 1, n)), h(k) ** n),
            (Product(h(k), (k, 1, n)), h(n) ** n),
            (Limit(h(x), x, 0), h(x)),
            (Limit(h(x) ** 2, x, 0), Limit(h(x), x, 0)),
            (Sum(k, (k, 1, n)), n**2),
            (Sum(k, (k, 0, n)), n * k),
            (Sum(1, (k, 1, n)), 1),
            (Product(2, (k, 1, n)), 2),
            (Integral(x * y, (x, 0, 1)), x * y),
            (Integral(x * y, (x, 0, 1)), x / 2),
            (Integral(x * y, (x, 0, y)), y**2 / 2),
            (Integral(x, (x, 0, y), (y, 0, 1)), half),
            (Integral(h(x), (x, 0, a)), Integral(h(x), (x, 0, b))),
            (Integral(h(x), (x, 0, a)), Integral(h(x), (x, a, 0))),
            (Integral(Abs(x), (x, 0, -1)), half),
            (Integral(Abs(x), (x, 0, a)), a**2 / 2),
            (Integral(Max(x, 0), (x, 0, a)), a**2 / 2),
            (Integral(sqrt(x**2), (x, 0, a)), a**2 / 2),
            (Integral(sign(t), (t, -1, 2)), 3),
            (Integral(sign(t), (t, -1, 2)), -3),
            (Integral(sign(t), (t, -1, 2)) ** 3, 9 * Integral(sign(t), (t, -1, 2))),
            (Derivative(Integral(Heaviside(x - t), (t, 0, 1)), x), 0),
            (Integral(1 / x**2, (x, -1, 1)), -2),
            (Integral(1 / x, (x, -1, 2)), log(2)),
            (Integral(exp(-x), (x, 0, oo)), 2),
            (Integral(exp(-(x**2)), (x, -oo, 0)), sqrt(pi)),
            (Integral(exp(-(x**2)), (x, 0, oo)), sqrt(pi)),
            (Integral(exp(-(x**2)), (x, -oo, oo)), sqrt(pi) / 2),
            (Integral(exp(-x * y), (x, 0, oo)), 1 / y + 1),
            (Integral(1 / (1 + x**2), (x, -oo, oo)), pi / 2),
            (Integral(t * Symbol("$0", real=True), (t, 0, 1)), Rational(1, 3)),
        )
        + table(
            "holds?",
            (int01(h(t)), int01(h(u), u)),
            (int01(h(t)), int01(h(p), p)),
            (Sum(f(k), (k, 1, n)), Sum(f(m), (m, 1, n))),
            (Limit(h(x), x, 0), Limit(h(y), y, 0)),
            (Product(h(k), (k, 1, n)), Product(h(m), (m, 1, n))),
            (int01(2 * h(t)), 2 * int01(h(t))),
            (Sum(k, (k, 1, n)), n * (n + 1) / 2),
            (Integral(x, (x, 0, a)), a**2 / 2),
            (Integral(x, (x, 1, -1)), 0),
            (Integral(Abs(x), (x, 0, -1)), -half),
            (Integral(exp(-p * x), (x, 0, oo)), 1 / p),
            (Integral(1 / x, (x, 1, p)), log(p)),
            (Integral(x * exp(-x), (x, 0, oo)), 1),
            (Integral(exp(-(x**2)), (x, -oo, oo)), sqrt(pi)),
            (Integral(exp(-(x**2)), (x, -oo, 0)), sqrt(pi) / 2),
            (diff(Integral(h(t), (t, 0, x)), x), h(x)),
            (diff(Integral(h(t) * x, (t, 0, x)), x), x * h(x) + Integral(h(t), (t, 0, x))),
            (int01(h(t)) + int01(h(Dummy("t", real=True)), t), int01(h(t)) + int01(h(Dummy("t", real=True)), t)),
        )
        + table("holds", (int01(h(t)), int01(h(u), u)), (Integral(x, (x, 0, 1)), half), (int01(p * t), p / 2))
    )
    assert not found, "\n".join(found)


def test_roots_and_powers_have_branches(offenders):
    third = Rational(1, 3)
    found = offenders(
        table(
            "fails",
            (sqrt(x**2), x),
            ((x**2) ** Rational(1, 4), x),
            (sqrt(x + y), sqrt(p) + sqrt(q)),
            (sqrt(p + q), sqrt(p) + sqrt(q)),
            (2**x * 3**x, 5**x),
            (p**x * q**x, (p + q) ** x),
            ((p**x) ** y, p ** (x + y)),
        )
        + table(
            "fails?",
            (sqrt(z**2), z),
            ((z**9) ** third, z**3),
            ((z**3) ** third, z),
            ((z**2) ** half * z, z**2),
            (sqrt(z * w), sqrt(z) * sqrt(w) * (-1)),
            (sqrt(neg**2), neg),
            (sqrt(-neg) ** 2, neg),
            (Abs(z) ** 2, z**2),
            (Abs(cosh(z)), cosh(z)),
            (Abs(exp(z)), exp(z)),
            (Max(z, -z) ** 2, 1),
            ((x * y) ** half, -sqrt(x) * sqrt(y)),
            (p**z, p**x),
            (x**m, 1),
            ((-1) ** k, 1),
            ((-1) ** (k * m), (-1) ** (k + m)),
            (x**n0 * 0**n0, 0),
            (0**nn, 0),
            (0**nn, 1),
            (Piecewise((0**n0, Eq(x, 0)), (0, True)), 0),
            (Piecewise(((x - y) ** n0, Eq(x, y)), (0, True)), 0),
            (Piecewise((gamma(x - y + 1), Eq(x, y)), (0, True)), 0),
            (A * B, B * A),
            ((A + B) ** 2, A**2 + 2 * A * B + B**2),
            (LambertW(x) * exp(LambertW(x)), -x),
            (floor(x), x),
            (gamma(p), p * gamma(p)),
            (gamma(p + 1), gamma(p) * (p + 1)),
            (gamma(p + 2), gamma(p) * p**2),
        )
        + table(
            "holds",
            (sqrt(p**2 * q), p * sqrt(q)),
            (sqrt(x**2), Abs(x)),
            (sqrt(8), 2 * sqrt(2)),
            (sqrt(6), sqrt(2) * sqrt(3)),
            ((sqrt(2) + 1) * (sqrt(2) - 1), 1),
            (p**x * p**y, p ** (x + y)),
            ((p * q) ** x, p**x * q**x),
            (4**x, 2 ** (2 * x)),
            ((1 + sqrt(p)) ** 2, 1 + 2 * sqrt(p) + p),
            (1 / (sqrt(2) - 1), sqrt(2) + 1),
            (gamma(p + 1), p * gamma(p)),
            (gamma(p + 2), (p + 1) * p * gamma(p)),
        )
        + table(
            "holds?",
            (sqrt(x) ** 2, x),
            (sqrt(neg**2), -neg),
            (Abs(x) ** 2, x**2),
            (Abs(x * y), Abs(x) * Abs(y)),
            (x**n * x**j, x ** (n + j)),
            ((x**2) ** n, x ** (2 * n)),
            ((-1) ** (2 * k), 1),
            ((-1) ** even, 1),
            (prime, prime),
            (imaginary**2, imaginary * imaginary),
            (A * B - A * B, 0),
            (sqrt(5 + 2 * sqrt(6)), sqrt(2) + sqrt(3)),
            (2**100000 - 2**100000 + 1, 1),
        )
    )
    assert not found, "\n".join(found)


def test_logarithms_and_exponentials(offenders):
    found = offenders(
        table(
            "fails",
            (log(p + q), log(p) + log(q)),
            (log(p) * log(q), log(p * q)),
            (log(p) ** 2, log(p**2)),
            (exp(x) * exp(y), exp(x * y)),
            (exp(x) + exp(y), exp(x + y)),
            (log(x**2), 2 * log(p)),
            (log(1 + exp(x)), x),
            (exp(-x), -exp(x)),
            (log(p) / log(q), log(p / q)),
            (exp(p * log(2)), 3**p),
        )
        + table(
            "fails?",
            (log(exp(z)), z),
            (exp(z), exp(-z)),
            (exp(I * x), cos(x) - I * sin(x)),
            (log(-p), log(p)),
            (log(x * y), log(-x) - log(y)),
            (log(8), 4 * log(2)),
        )
        + table(
            "holds",
            (exp(log(p)), p),
            (log(p * q), log(p) + log(q)),
            (log(p / q), log(p) - log(q)),
            (log(sqrt(p)), log(p) / 2),
            (exp(x + y), exp(x) * exp(y)),
            (exp(2 * x), exp(x) ** 2),
            (log(8), 3 * log(2)),
            (log(6), log(2) + log(3)),
            (exp(p * log(q)), q**p),
            (log(1 + exp(x)), x + log(1 + exp(-x))),
            (1 / (1 + exp(-x)), (1 + tanh(x / 2)) / 2),
            (exp(I * x), cos(x) + I * sin(x)),
            (log(exp(x)), x),
            (log(x**2 + 1) * 2, log((x**2 + 1) ** 2)),
        )
        + table(
            "holds?",
            (exp(log(z)), z),
            (log(x**2), 2 * log(Abs(x))),
            (log(x), log(2 * x) - log(2)),
            (log(-x), log(-2 * x) - log(2)),
        )
    )
    assert not found, "\n".join(found)


def test_hyperbolic_and_trigonometric(offenders):
    found = offenders(
        table(
            "fails",
            (sin(2 * x), 2 * sin(x)),
            (cos(x) ** 2 - sin(x) ** 2, 1),
            (tanh(2 * x), 2 * tanh(x)),
            (tanh(x + y), tanh(x) + tanh(y)),
            (sinh(x), cosh(x)),
            (sin(x), x),
            (atan(x), x),
            (erf(x), tanh(x)),
            (cosh(x) ** 2 + sinh(x) ** 2, 1),
        )
        + table(
            "fails?",
            (tan(x) * cos(x), cos(x)),
            (atan(tan(x)), x + 1),
            (sin(x) ** 2, 1 - cos(x)),
            (sin(z), cos(z)),
            (expint(1, p), expint(2, p)),
        )
        + table(
            "holds",
            (sin(x) ** 2 + cos(x) ** 2, 1),
            (sin(2 * x), 2 * sin(x) * cos(x)),
            (cosh(x) ** 2 - sinh(x) ** 2, 1),
            (tanh(x), sinh(x) / cosh(x)),
            (tanh(2 * x), 2 * tanh(x) / (1 + tanh(x) ** 2)),
            (tan(x) * cos(x), sin(x)),
            (sin(x + y), sin(x) * cos(y) + cos(x) * sin(y)),
            (1 - tanh(x) ** 2, cosh(x) ** -2),
        )
        + table("holds?", (cos(3 * x), 4 * cos(x) ** 3 - 3 * cos(x)), (tan(atan(x)), x), (sin(pi / 3), sqrt(3) / 2))
    )
    assert not found, "\n".join(found)


def test_corners_edges_and_poles(offenders):
    relu = Max(x, 0)
    found = offenders(
        table(
            "fails",
            (relu, x),
            (relu, Abs(x)),
            (sign(x) ** 2, 1),
            (sign(x) * Abs(x), Abs(x)),
            (Max(x, y), (x + y) / 2),
            (Heaviside(x), (1 + sign(x + 1)) / 2),
            (Piecewise((0, x > 0), (1, True)), Piecewise((0, x >= 0), (1, True))),
            (Piecewise((0, x < 0), (1, True)), Piecewise((0, x <= 0), (1, True))),
            (Piecewise((1, x >= y), (0, True)), Piecewise((1, x > y), (0, True))),
            (Piecewise((1, Eq(x, 0)), (0, True)), 0),
            (Piecewise((1, Ne(x, 2)), (0, True)), 1),
            (Piecewise((1, (x > 0) & (y > 0)), (0, True)), Piecewise((1, x * y > 0), (0, True))),
            (Piecewise((1, (x > 0) | (y > 0)), (0, True)), Piecewise((1, x + y > 0), (0, True))),
            (Abs(x + y), Abs(x) + Abs(y)),
            (Abs(x - 1), 1 - x),
            (Min(Max(x, 0), 1), Max(x, 0)),
            (Max(x, -x, 1), Abs(x)),
            (1 / (x + 1), 1 / x + 1),
            (x / (x + y), 1 / (1 + y)),
        )
        + table(
            "fails?",
            (diff(Abs(x), x), 1),
            (diff(Abs(x), x) + diff(Abs(-x), x), 3),
            (diff(Max(x, 0), x), Heaviside(-x)),
            (Heaviside(0 * x), 1),
            (Subs(diff(Abs(x), x), x, 0), 0),
            (Subs(diff(Abs(x), x), x, 0), 1),
            (Piecewise((1, x**2 > 0), (0, True)), 1),
            (Piecewise((z, z > 0), (-z, True)), Abs(z) + 1),
            (Piecewise((1, x < oo), (0, True)), 0),
        )
        + table(
            "holds",
            (relu, (x + Abs(x)) / 2),
            (sign(x) * Abs(x), x),
            (sign(x * y) * Abs(x * y), x * y),
            (Max(x, y) + Min(x, y), x + y),
            (Max(x, y), (x + y + Abs(x - y)) / 2),
            (Piecewise((x, x > 0), (0, True)), relu),
            (Piecewise((x, x >= 0), (0, True)), relu),
            (Piecewise((x, x < 0), (0, True)), Min(x, 0)),
            (Abs(x) * sign(x) ** 2, Abs(x)),
            (Abs(p * x), p * Abs(x)),
            (sign(p * x), sign(x)),
            (Max(p, 0), p),
            (Abs(neg), -neg),
            (x / x, 1),
            ((x**2 - 1) / (x - 1), x + 1),
            (1 / (1 - x) - 1, x / (1 - x)),
        )
        + table(
            "holds?",
            # Derivatives at a corner: what stands there as a value is not the slope.
            (diff(Piecewise((0, Eq(x, 0)), (x, True)), x), 1),
            (diff(Piecewise((x**2, Eq(x, 0)), (x, True)), x), 1),
            (diff(Piecewise((x**2, Eq(x, 2)), (4 * x - 4, True)), x), 4),
            (diff(Abs(x), x), sign(x)),
            (diff(Abs(x) * x, x), 2 * Abs(x)),
            (diff(Piecewise((x**2, x > 0), (0, True)), x), 2 * Max(x, 0)),
            (Max(Max(x, y), u), Max(x, Max(y, u))),
            (Piecewise((1, x**2 >= 0), (0, True)), 1),
            (Abs(x**2 + 1), x**2 + 1),
            (Max(x, x + 1), x + 1),
            (Min(x, y), -Max(-x, -y)),
        )
    )
    assert not found, "\n".join(found)


def test_values_and_derivatives_of_functions(offenders):
    N, Q = Function("N", integer=True), Function("Q", nonnegative=True)
    found = offenders(
        table(
            "fails",
            (f(x + y), f(x) + f(y)),
            (f(2 * x), 2 * f(x)),
            (f(x) * g(x), f(x)),
            (f(-x), f(x)),
            (f(x), f(y)),
            (diff(f(x), x), f(x)),
            (diff(f(2 * x), x), Subs(diff(f(t), t), t, 2 * x)),
            (diff(f(x) * g(x), x), diff(f(x), x) * diff(g(x), x)),
            (f(P(x)), P(f(x))),
            (diff(f(x, y), x), diff(f(x, y), y)),
            (F(x) ** 2, F(x)),
            (P(x), 1),
        )
        + table(
            "fails?",
            (f(x) - f(0), f(x)),
            (f(sqrt(2) ** 2), f(3)),
            (f(floor(x)), f(x)),
            (diff(h(t) * diff(h(t), t), h(t)), 0),
            (diff(diff(h(t), t) ** 2, h(t)), 1),
            (diff(N(x), x), 1),
            (Abs(F(x)), F(x)),
            (Abs(F(x)) ** 2, F(x) ** 2),
        )
        + table(
            "holds?",
            (f(sin(x) ** 2 + cos(x) ** 2), f(1)),
            (f(x - x + 2), f(2)),
            (diff(f(x) ** 2, x), 2 * f(x) * diff(f(x), x)),
            (diff(f(g(x)), x), Subs(diff(f(t), t), t, g(x)) * diff(g(x), x)),
            (diff(f(x, x), x), Subs(diff(f(t, x), t), t, x) + Subs(diff(f(x, t), t), t, x)),
            (diff(h(t) * diff(h(t), t), h(t)), diff(h(t), t)),
            (diff(N(x), x), 0),
            (Piecewise((diff(Q(x), x), Eq(Q(x), 0)), (0, True)), 0),
            (Abs(P(x)), P(x)),
            (diff(diff(f(x, y), x), y), diff(diff(f(x, y), y), x)),
            (f(sqrt(6)), f(sqrt(2) * sqrt(3))),
            (f(log(6)), f(log(2) + log(3))),
            (f(2) + f(3) - f(4 - 1), f(2)),
        )
        + table(
            "holds",
            (f((x + 1) ** 2), f(x**2 + 2 * x + 1)),
            (diff(f(x) ** 2, x), 2 * f(x) * diff(f(x), x)),
            (diff(x**3, x), 3 * x**2),
        )
    )
    assert not found, "\n".join(found)


# A third of the time of all probes of equalities: functions in other places of an integral than in the square above.
@pytest.mark.slow
def test_integrals_of_unknown_functions_are_no_products(offenders):
    found = offenders(
        table(
            "fails?",
            (int01(t * h(t)), int01(h(t)) / 2),
            (int01(exp(h(t))), exp(int01(h(t)))),
            (int01(f(t) * g(t)), int01(f(t)) * int01(g(t))),
            (Integral(Heaviside(x - t), (t, 0, 1)), Heaviside(x)),
        )
    )
    assert not found, "\n".join(found)


def test_letters_with_a_name_in_common_are_two(offenders):
    X, Y = Symbol("x", real=True), Symbol("x", positive=True)
    found = offenders(
        table("fails", (X, Y), (X / Y, 1), (sqrt(X**2), Y), (Symbol("x~", real=True), Y))
        + table(
            "fails?", (Symbol("-log"), 1), (Symbol("$0", real=True) * int01(t), Rational(1, 3)), (Symbol("c", irrational=True), 1)
        )
    )
    assert not found, "\n".join(found)
