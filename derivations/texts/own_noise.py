r"""What steps make of noise, dh = F dt + G dW: variance at rest, order, calculus; the tree of Brownian bridges; usual mistakes.

w = W(dt) - W(0)       E w^2 = dt,   E w z = dt^2/2,   E z^2 = dt^3/3,   z = int_0^dt (W - W(0)) ds
a linear step          h' = R h + noise of variance s:   v = R^2 v + s at rest, and R^n v n steps apart
one step's error       of size dt^(p + 1/2) and mean dt^(p + 1): strong order p
white noise            inside of a bounded nonlinearity its mean goes to that of a sign: it has no limit of its own
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from itertools import product

from flint import acb, arb
from sympy import (
    Derivative,
    Eq,
    Expr,
    Function,
    ImmutableDenseMatrix,
    Integral,
    Rational,
    S,
    Symbol,
    cosh,
    diag,
    exp,
    expand,
    log,
    oo,
    pi,
    simplify,
    sinh,
    sqrt,
    tanh,
)

from derivations.claim import Cases, Entry, Equal, Every, Expands, Less, Mutation, Solves, Tends, changed
from derivations.prior_work import own
from derivations.twins.step_maps import (
    dt,
    expected,
    expected_increment,
    h,
    in_s,
    maps,
    missed,
    read,
    s,
    slopes,
    stationary_variance,
    stochastic_maps,
    w,
    z,
)

step = Symbol("dt", positive=True)
u, r, t = (Symbol(name, real=True) for name in "urt")
sigma, alpha, leak = (Symbol(name, positive=True) for name in ("sigma", "alpha", "L"))
KEPT: dict[
    str, tuple[str, str | tuple[str, ...]]
] = {  # R of a step of dh = -h dt + ..., and up to which dt it is inside of (-1, 1)
    "EulerMaruyama": ("1 - dt", "dt < 2"),
    "Milstein": ("1 - dt", "dt < 2"),
    "StratonovichHeun": ("1 - dt + dt^2/2", "dt < 2"),
    "SRA1": ("1 - dt + dt^2/2", "dt < 2"),
    "ExponentialEulerMaruyama": ("exp(-dt)", ()),
}
POWERS = {1: "dt^(1/2)", 2: "dt", 3: "dt^(3/2)", 4: "dt^2"}
ONE = "dh = -h dt + sqrt(2) dW, whose variance at rest is 1 and autocovariance e^-t"
THEOREM = "a map whose error in a step is of size dt^(p + 1/2), and of mean O(dt^(p + 1)), has strong order p (Milstein)"
SMOOTH = "F and G are smooth at h"


def moments() -> Iterator[Entry]:
    whole = Integral(2 * Integral(r, (r, 0, t)), (t, 0, step))
    ww, wz, zz = (Symbol(f"E {name}", real=True) for name in ("w^2", "w z", "z^2"))
    means = {ww: step, wz: step**2 / 2, zz: step**3 / 3}
    yield own("noise, increments", given="W is Brownian motion: E W(s) W(t) = min(s, t)").says(
        "Of a step's w and z, E w^2 = dt, E w z = dt^2/2 and E z^2 = dt^3/3; z - w dt/2 has variance dt^3/12 and covariance 0 "
        "with w.",
        Equal(Integral(r, (r, 0, step)), step**2 / 2),
        Equal(whole, step**3 / 3),
        Equal(zz - step * wz + step**2 / 4 * ww, step**3 / 12, means),
        Equal(wz - step / 2 * ww, S.Zero, means),
        mutation=Mutation("E w z read as dt^2", Equal(wz - step / 2 * ww, S.Zero, {**means, wz: step**2})),
        remark="the square of an integral is a double one, twice that over s < t",
    )


def rests() -> Iterator[Entry]:
    """v = R^2 v + s, of every step."""
    V = Symbol("v")
    names = list(stochastic_maps())
    for name, made in stochastic_maps().items():
        kept, added = (e.subs(dt, step) for e in stationary_variance(name))
        text, until = KEPT[name]
        region = {step: (0, 2)} if until else None
        after = made.driven(lambda a: -a, lambda a: sqrt(2), lambda a: S.One, h, step, w, z).doit()
        variance, other = (read(stochastic_maps()[each].variance, dt=step) for each in (name, _other(name, names)))
        yield own(f"noise, variance of {name}", given=until).says(
            f"{name} gives {ONE}, the variance {made.variance}, and n steps apart R^n times that, R = "
            f"{text}, {f'for {until}' if until else 'for every dt'}.",
            Equal(V, kept**2 * V + added, {V: variance}),
            Equal(Derivative(after, h), read(text, dt=step)),
            Less(S.NegativeOne, kept, True, region),
            Less(kept, S.One, True, region),
            *([Equal(kept**2, S.One, {step: S(2)})] if region else []),
            mutation=Mutation("another step's variance", Equal(V, kept**2 * V + added, {V: other})),
            remark="R and s are those of the step's equation; beyond, |R| >= 1" if region else "exactly that of the equation",
        )
    found = {name: read(made.variance, dt=step) for name, made in stochastic_maps().items()}
    yield own("noise, errors of the variance").says(
        "At rest Euler's and Milstein's variances are too large by dt/2, Heun's is too small by dt^2/4, and SRA1's by dt^2/6, to "
        "leading order.",
        Expands(found["EulerMaruyama"], step, 1 + step / 2, 2),
        Expands(found["Milstein"], step, 1 + step / 2, 2),
        Expands(found["StratonovichHeun"], step, 1 - step**2 / 4, 3),
        Expands(found["SRA1"], step, 1 - step**2 / 6, 3),
        mutation=changed("dt/2 read as dt", terms=1 + step),
    )


def _other(name: str, names: list[str]) -> str:
    """A step with another variance."""
    found = stochastic_maps()
    return next(each for each in names if found[each].variance != found[name].variance)


DROPS = {  # what a step drops first, of the solution
    "EulerMaruyama": "G G' (w^2 - dt)/2",
    "ExponentialEulerMaruyama": "G G' (w^2 - dt)/2",
    "Milstein": "F' G z + (F G' + G^2 G''/2) (w dt - z) + G (G'^2 + G G'') (w^3 - 3 w dt)/6",
    "StratonovichHeun": "(F' G - F G') (z - w dt/2) + G (2 G'^2 - G G'') w^3/12",
}


def orders() -> Iterator[Entry]:
    letters = {**slopes("F"), **slopes("G")}
    F, G, G1 = (letters[name] for name in ("F", "G", "G'"))
    for name, made in stochastic_maps().items():
        halves, drops = int(2 * made.strong_order), DROPS.get(name)
        exact, mean = expected_increment(name)
        shown = min(halves + 1, 3)
        term = in_s(read(drops, w=w, z=z, dt=dt, **letters)) if drops else S.Zero
        tells = f"drops a term of {POWERS[halves + 1]} first" if drops else "the mean is right up to dt^2"
        yield own(f"noise, order of {name}", given=(SMOOTH, THEOREM)).says(
            f"{name} is the expansion of {made.calculus}'s equation up to {POWERS[halves]}, with w "
            f"of dt^(1/2) and z of dt^(3/2), and {tells}: of strong order {made.strong_order:g}; its mean is right up to "
            f"{POWERS[2 * made.order]}.",
            Expands(missed(name, shown), s, term, shown + 1),
            Expands(mean - exact, s, S.Zero, 2 * made.order + 1),
            mutation=changed("half of G G' (w^2 - dt)/2 left out", terms=term + G * G1 * s**2 * (w**2 - 1) / 4),
            remark="exact minus map; s = sqrt(dt), w and z in units of s and s^3; "
            + ("G is constant" if made.of == "additive" else "one unit, one Brownian motion")
            + "; its mean by values with a normal's moments, see noise, mean of a polynomial",
        )
    x, k, p, q = Symbol("x", real=True), Symbol("k", integer=True, positive=True), Symbol("p"), Symbol("q")
    density, three = exp(-(x**2) / 2), {p: S.One / 6, q: sqrt(3)}
    yield own("noise, mean of a polynomial", given="k is at least 1").says(
        "0 with weight 2/3, sqrt(3) and -sqrt(3) with 1/6 each have a normal variable's moments up to the fifth, 1 and 3 for the "
        "second and fourth, so that the mean of any polynomial of degree five is right.",
        Equal(Derivative(x**k * density, x), (k * x ** (k - 1) - x ** (k + 1)) * density),
        Equal(2 * p * q**2, S.One, three),
        Equal(2 * p * q**4, S(3), three),
        mutation=Mutation("of degree six", Equal(2 * p * q**6, S(15), three)),
        remark="by the slope, whose integral is 0, E x^(k + 1) = k E x^(k - 1): 1, 3 and 15; odd moments are 0 by symmetry",
    )
    (_, ito), (_, heun) = (expected_increment(name) for name in ("EulerMaruyama", "StratonovichHeun"))
    yield own("noise, two calculi", given=SMOOTH).says(
        "The mean of a short step by Euler and Maruyama is F dt: its limit is Ito's equation. That of Heun's is (F + G G'/2) dt: "
        "its limit is Stratonovich's, which is Ito's with that drift.",
        Expands(ito - h, s, F * s**2, 3),
        Expands(heun - h, s, (F + G * G1 / 2) * s**2, 3),
        mutation=changed("Heun's for Euler's", terms=(F + G * G1 / 2) * s**2),
        remark="s = sqrt(dt)",
    )


def without_noise() -> Iterator[Entry]:
    F, G = Function("F", real=True), Symbol("G", real=True)
    pairs = {
        "EulerMaruyama": "euler",
        "Milstein": "euler",
        "StratonovichHeun": "heun",
        "ExponentialEulerMaruyama": "exponential_euler",
    }

    def driven(name: str) -> Expr:
        return stochastic_maps()[name].driven(F, lambda a: G, lambda a: leak, h, step, w, z).doit()

    def old(name: str) -> Expr:
        return maps()[name](F, lambda a: leak, h, step).doit()

    yield own("noise, none").says(
        "With G = 0 Euler and Maruyama's step and Milstein's are Euler's, Stratonovich's Heun is Heun's, SRA1 is Ralston's, of "
        "second order, and the exponential one is exponential Euler.",
        *(Equal(driven(name), old(other), {G: S.Zero}) for name, other in pairs.items()),
        Equal(driven("SRA1"), h + step / 3 * (F(h) + 2 * F(h + Rational(3, 4) * step * F(h))), {G: S.Zero}),
        mutation=Mutation("Heun read as Euler", Equal(driven("StratonovichHeun"), old("euler"), {G: S.Zero})),
        remark="of noise that does not depend on h, G is put in",
    )


def exact_in_law() -> Iterator[Entry]:
    made, v = stochastic_maps()["ExponentialEulerMaruyama"], Function("v", real=True)(t)
    after = made.driven(lambda a: -leak * a, lambda a: sigma, lambda a: leak, h, dt, w, z).doit()
    kept = simplify(after.diff(h))
    spread = simplify(expected(expand((after - kept * h) ** 2))).subs(dt, t)
    variance = sigma**2 * (1 - exp(-2 * leak * t)) / (2 * leak)
    yield own(
        "noise, an exact step", given="the solution is normal, of mean m and variance v: m' = -L m, v' = sigma^2 - 2 L v"
    ).says(
        "Of dh = -L h dt + sigma dW the exponential step has mean and variance of the solution, e^(-L t) h and sigma^2 "
        "(1 - e^(-2 L t))/(2 L), at any length t: it is exact in law.",
        Solves((Eq(v.diff(t), sigma**2 - 2 * leak * v),), {v: variance}, (S.Zero, {v: S.Zero})),
        Equal(Symbol("variance"), variance, {Symbol("variance"): spread}),
        Equal(Derivative(after.subs(dt, t), h), exp(-leak * t)),
        mutation=Mutation("2 L read as L", Equal(spread, sigma**2 * (1 - exp(-leak * t)) / leak)),
    )


def bridges() -> Iterator[Entry]:
    """The tree of discretize.steps.BrownianPath: of a cell of length D the increment w and H = z/D - w/2."""
    D, r, q = (Symbol(name, positive=True) for name in "Drq")
    w, H, Z, N = normal = [Symbol(name, real=True) for name in "wHZN"]
    variances = dict(zip(normal, (D, D / 12, D / 16, D / 12), strict=True))
    left, right = (w / 2 + Rational(3, 2) * H + Z, H / 4 - Z / 2 + N / 2), (w / 2 - Rational(3, 2) * H - Z, H / 4 - Z / 2 - N / 2)
    halves = ImmutableDenseMatrix([*left, *right])
    wanted = diag(D / 2, D / 24, D / 2, D / 24)
    w1, H1, w2, H2 = names = [Symbol(name, real=True) for name in ("w_1", "H_1", "w_2", "H_2")]
    parts = dict(zip(names, halves, strict=True))

    def covariances(of: ImmutableDenseMatrix) -> ImmutableDenseMatrix:
        shared = [[[Derivative(a, n) * Derivative(b, n) * v for n, v in variances.items()] for b in of] for a in of]
        return ImmutableDenseMatrix([[sum(terms, S.Zero) for terms in row] for row in shared])

    yield own("noise, halves of a cell", given="w, H, Z, N are normal and independent, of variances D, D/12, D/16, D/12").says(
        "By the midpoint rule of BrownianPath the halves' (w, H) are independent of each other, of the variances D/2 and D/24 of "
        "cells half as long, and add up to the cell's w and integral D (w/2 + H).",
        Equal(covariances(halves), ImmutableDenseMatrix(wanted)),
        Equal(w1 + w2, w, parts),
        Equal(D / 2 * (w1 / 2 + H1 + w1 + w2 / 2 + H2), D * (w / 2 + H), parts),
        mutation=changed("Z of twice the size", lhs=covariances(halves.subs(Z, 2 * Z))),
        remark="so the halves have the law that they have in Brownian motion, given the whole",
    )
    with_w, with_H = Symbol("E W w", real=True), Symbol("E W H", real=True)
    shared = {with_w: r * D, with_H: r * (1 - r) * D / 2}
    yield own("noise, inside of the last cells", given="0 < r < 1, E W(s) W(t) = min(s, t)").says(
        "Given w and H, W at a part r of a cell has the mean r w + 6 r (1 - r) H and the variance D (q - 3 q^2) about it, with "
        "q = r (1 - r): at most D/12.",
        Equal((D * r * D - (r * D) ** 2 / 2) / D - r * D / 2, with_H, shared),
        Equal(with_w / D * w + with_H / (D / 12) * H, r * w + 6 * r * (1 - r) * H, shared),
        Equal(r * D - with_w**2 / D - with_H**2 / (D / 12), D * (q - 3 * q**2), {**shared, q: r * (1 - r)}),
        Less(D * (q - 3 * q**2), D / 12, False, None, 3 * D * (q - Rational(1, 6)) ** 2),
        mutation=Mutation(
            "D/12 read as D/16, which it is in the middle", Less(D * (q - 3 * q**2), D / 16, False, {q: (0, S.One / 4)})
        ),
        remark="the first statement is the covariance of W and H, which is E W z/D - E W w/2",
    )
    yield own("noise, halves of a cell, as coded").says(
        "The increments w and z over 1, 2, 4 and 8 equal parts of a cell of length 1, as BrownianPath and the steps draw them, "
        "have the covariances of Brownian motion, to the rounding of their coefficients.",
        Every("covariances of the parts' w and z, to 2^-50", _covariances),
        mutation=Mutation("of Brownian motion of twice the variance", Every("twice", lambda: _covariances(Fraction(2)))),
    )


def _covariances(variance: Fraction = Fraction(1)) -> Cases:
    bridge_coefficients = import_module("derivations.agreement").bridge_coefficients  # loads torch
    for parts in (1, 2, 4, 8):
        terms, long = bridge_coefficients(parts), Fraction(1, parts)
        kinds = (("w w", 0, 0, long), ("w z", 0, 1, long**2 / 2), ("z z", 1, 1, long**3 / 3))
        for (i, one), (j, other) in product(enumerate(terms), repeat=2):
            for words, a, b, own_covariance in kinds:
                found = sum((x * other[b].get(node, 0) for node, x in one[a].items()), Fraction(0))
                off = abs(found - variance * own_covariance * (i == j))
                yield {"parts": parts, words: i, "and": j}, (Rational(off.numerator, off.denominator), "<=", Rational(1, 2**50))


def nonlinearities() -> Iterator[Entry]:
    """White noise inside of one: 1 + n xi, n = s sqrt(2/dt)."""
    a, n = Symbol("a", real=True), Symbol("n", positive=True)
    both, rise = (tanh(1 + a) + tanh(1 - a)) / 2, (log(cosh(u + 1)) - log(cosh(u - 1))) / 2
    size = sigma * sqrt(2 / step)
    bound = sqrt(step / pi) / sigma
    yield own(
        "noise, inside of a nonlinearity", given="xi is normal, of variance 1, so that its density is at most 1/sqrt(2 pi)"
    ).says(
        "White noise inside of a nonlinearity has no limit as steps get shorter: E tanh(1 + s sqrt(2/dt) xi) is between 0 and "
        "sqrt(dt/pi)/s, and goes to 0 whatever s > 0 is; with s = 0.3 it is 0.66, 0.47, 0.12 at dt 0.5, 0.1, 0.004.",
        Equal(both, sinh(2) / (cosh(2) + cosh(2 * a))),
        Less(S.Zero, sinh(2) / (cosh(2) + cosh(2 * a)), True),
        Equal(rise.diff(u), both.subs(a, u)),
        Tends(rise, u, oo, S.One),
        Tends(rise, u, -oo, S.NegativeOne),
        Equal(2 / (sqrt(2 * pi) * n), bound, {n: size}),
        Tends(bound, step, 0, S.Zero),
        Every("means by quadrature in balls, at dt 0.5, 0.1, 0.004", lambda: _means("0.66", "0.47", "0.12")),
        mutation=Mutation("0.12 read as 0.42", Every("means", lambda: _means("0.66", "0.47", "0.42"))),
        remark="xi and -xi are as likely; with u = n xi the integral of their half sum is 2/n, n = s sqrt(2/dt), times the "
        "density",
    )


def _means(*printed: str) -> Cases:
    for length, text in zip(("0.5", "0.1", "0.004"), printed, strict=True):
        size = acb(3) / 10 * (2 / acb(arb(length))).sqrt()
        # What lies beyond 9 is below 10^-18.
        inner = acb.integral(lambda x, _: (1 + size * x).tanh() * (-x * x / 2).exp(), -9, 9)  # noqa: B023 - called at once
        mean = (inner / (2 * acb.pi()).sqrt()).real
        off = float(abs(mean - arb(text)).upper())
        yield {"dt": Rational(length)}, (Rational(off), "<=", Rational(1, 200))


def scaled() -> Iterator[Entry]:
    """tau dv = -v dt + sqrt(2 tau) sigma dW, alpha = dt/tau."""
    tau, xi, v = Symbol("tau", positive=True), Symbol("xi", real=True), Symbol("v", real=True)
    made, V = stochastic_maps()["EulerMaruyama"], Symbol("V")
    length = alpha * tau
    after = made.driven(lambda a: -a / tau, lambda a: sqrt(2 / tau) * sigma, lambda a: S.Zero, v, length, sqrt(length) * xi, z)
    sizes = {"sqrt(2 alpha) sigma": sqrt(2 * alpha), "sqrt(alpha) sigma": sqrt(alpha), "alpha sigma": alpha}
    left = {"sqrt(2 alpha) sigma": 2 / (2 - alpha), "sqrt(alpha) sigma": 1 / (2 - alpha), "alpha sigma": alpha / (2 - alpha)}
    yield own("noise, its scale in Euler's step", given="xi is normal, of variance 1; 0 < alpha < 2").says(
        "Euler's step of tau dv = -v dt + sqrt(2 tau) sigma dW, whose deviation at rest is sigma, is v + alpha (-v) + "
        "sqrt(2 alpha) sigma xi with alpha = dt/tau, and leaves sigma sqrt(2/(2 - alpha)). Code that adds sqrt(alpha) sigma xi "
        "leaves sigma/sqrt(2 - alpha), and with alpha sigma xi it is sigma sqrt(alpha/(2 - alpha)), which goes to 0 with dt.",
        Equal(after, (1 - alpha) * v + sizes["sqrt(2 alpha) sigma"] * sigma * xi),
        *(Equal(V, (1 - alpha) ** 2 * V + (size * sigma) ** 2, {V: sigma**2 * left[words]}) for words, size in sizes.items()),
        Tends(left["sqrt(2 alpha) sigma"], alpha, 0, S.One),
        Tends(left["sqrt(alpha) sigma"], alpha, 0, S.Half),
        Tends(left["alpha sigma"], alpha, 0, S.Zero),
        mutation=Mutation("alpha for sqrt(2 alpha)", Equal(after, (1 - alpha) * v + alpha * sigma * xi)),
    )
