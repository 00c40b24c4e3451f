r"""Results 1 to 3 of our own: gates as exact integrators, their calibration, and the stability of one step.

h' = g (f - h), f held        h(t + 1) = e^-g h + (1 - e^-g) f = h + G (f - h),   G = 1 - e^-g,   g = -log(1 - G)
sigma(z) = 1 - e^-sp(z)       sp(z) = log(1 + e^z), which is Theorem 1 of Gu and Dao 2023
gate 1/T                      e^-1 is left after 1/log(T/(T - 1)) = T - 1/2 - 1/(12 T) - ... steps
Euler h + g (f - h)           contracts iff |1 - g| + g L < 1
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import (
    Derivative,
    E,
    Eq,
    Expr,
    Function,
    Integral,
    Rational,
    S,
    Symbol,
    exp,
    log,
    oo,
    pi,
    sqrt,
    tanh,
)

from derivations.claim import Correction, Entry, Equal, Expands, Fails, Less, Mutation, Solves, Tends, changed
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.twins.fields import sigma

__all__ = ["exact_step", "relaxed"]

t, h0 = symbols.t, symbols.h0
h, f, z, b, w = (Symbol(name, real=True) for name in "hfzbw")
g, L, k, u = (Symbol(name, positive=True) for name in "gLku")
# A gate, a time scale above 1, an inverse time scale: bounded where they are used, by `region`.
G, T, x = Symbol("G", positive=True), Symbol("T", positive=True), Symbol("x", positive=True)
FROZEN = "f is constant over the step"
ON = {"slow": {g: (0, 1)}, "fast": {g: (1, oo)}}


def relaxed(h: Expr, f: Expr, gate: Expr) -> Expr:
    """h + G (f - h): the gated step, which is the Euler step for the rate G."""
    return h + gate * (f - h)


def exact_step(h: Expr, f: Expr, rate: Expr) -> Expr:
    """e^-g h + (1 - e^-g) f."""
    return exp(-rate) * h + (1 - exp(-rate)) * f


def softplus(z: Expr) -> Expr:
    return log(1 + exp(z))


def exact_integrators() -> Iterator[Entry]:
    """Result 1."""
    H, c, zs, fs = symbols.state(1)[0], symbols.c, [Symbol(f"z_{i}", real=True) for i in (1, 2, 3)], [f, w, b]
    path = f + (h0 - f) * exp(-g * t)
    same, driven = h0, h0
    for each, target in zip(zs, fs, strict=True):
        same, driven = relaxed(same, f, sigma(each)), relaxed(driven, target, sigma(each))
    elapsed = sum((softplus(each) for each in zs), S.Zero)
    yield own("result 1, exact flow", given=(FROZEN, "g > 0, constant over the step")).says(
        "With f frozen over the step, h(t + 1) = e^-g h(t) + (1 - e^-g) f solves h' = g (f - h).",
        Solves((Eq(H.diff(t), g * (f - H)),), {H: path}, (S.Zero, {H: h0})),
        Equal(path.subs(t, 1), exact_step(h0, f, g)),
        mutation=changed("1 - e^-g read as g", rhs=exp(-g) * h0 + g * f),
    )
    clocked = f + (h0 - f) * exp(c(0) - c(t))
    yield own("result 1, varying rate", given=FROZEN).says(
        "Of a rate g(t) = c'(t) that varies within the step only its integral c(t) - c(0) counts.",
        Solves((Eq(H.diff(t), c(t).diff(t) * (f - H)),), {H: clocked}, (S.Zero, {H: h0})),
        mutation=Mutation("c(t) - c(0) read as c(t)", Equal((clocked * exp(-c(0)) + f * (1 - exp(-c(0)))).subs(t, 0), h0)),
        remark="new here; c is any differentiable clock",
    )
    yield own("result 1, gate as rate", given=("0 < G < 1", FROZEN)).says(
        "h + G (f - h) with G in (0, 1) is the exact flow for the rate -log(1 - G) > 0.",
        Equal(exact_step(h, f, -log(1 - G)), relaxed(h, f, G)),
        Less(S.Zero, -log(1 - G), True, {G: (0, 1)}, rising=(G,)),
        mutation=changed("-log(1 - G) read as log(1 + G)", lhs=exact_step(h, f, log(1 + G))),
    )
    yield own("result 1, softplus").says(
        "sigma(z) = 1 - e^-sp(z), with sp(z) = log(1 + e^z).",
        Equal(sigma(z), 1 - exp(-softplus(z))),
        mutation=changed("sp(z) read as sp(-z)", rhs=1 - exp(-softplus(-z))),
    )
    yield own("result 1, sigmoid gate", given=FROZEN).says(
        "The sigmoid gate h + sigma(z) (f - h) is zero-order-hold integration of the rate sp(z).",
        Equal(exact_step(h, f, softplus(z)), relaxed(h, f, sigma(z))),
        Less(S.Zero, softplus(z), True),
        mutation=changed("the rate sp(z) read as sigma(z)", lhs=exact_step(h, f, sigma(z))),
    )
    yield own("result 1, elapsed", given="f is constant over the steps").says(
        "Time elapsed on the learned clock is the sum of sp(z_t): gated steps are the flow of h' = f - h for that long.",
        Equal(same, exact_step(h0, f, elapsed)),
        mutation=changed("the last step not counted", rhs=exact_step(h0, f, elapsed - softplus(zs[-1]))),
        remark="checked for 3 steps; each further step is the same composition",
    )
    yield own("result 1, retained", given="f_t does not depend on the state").says(
        "What is retained of the start is the negative exponential of the sum of sp(z_t), whatever f_t.",
        Equal(driven.diff(h0), exp(-elapsed)),
        mutation=changed("sp(z_t) read as sigma(z_t)", rhs=exp(-sum(sigma(each) for each in zs))),
        remark="checked for 3 steps, with another f_t at each; with recurrence f_t carries some of the start itself",
    )
    yield own("result 1, no limit of gating").says(
        "That g should not be much above 1 is a limit of the Taylor step, whose factor 1 - g turns negative there; the exact "
        "factor e^-g is in (0, 1) for every g > 0, and 1 - e^-g is a gate.",
        Less(1 - g, S.Zero, True, ON["fast"]),
        Less(S.Zero, exp(-g), True),
        Less(exp(-g), S.One, True, rising=(g,)),
        mutation=Mutation("the Taylor step's factor for the exact one", Less(S.Zero, 1 - g, True)),
    )
    yield own("result 1, slow gates").says(
        "A slow gate is nearly its own rate: -log(1 - G) = G + G^2/2 + G^3/3 + O(G^4).",
        Expands(-log(1 - G), G, G + G**2 / 2 + G**3 / 3, 4),
        mutation=changed("+ G^2/2 read as - G^2/2", terms=G - G**2 / 2 + G**3 / 3),
        remark="new here",
    )


def calibration() -> Iterator[Entry]:
    """Result 2: from a time scale to a gate and back. With T = 1 + u, u > 0, every T > 1 is meant."""
    steps, exact_bias, chrono_bias = 1 / log((1 + u) / u), log(exp(1 / T) - 1), -log(T - 1)
    rate, sp = -log(1 - x), Function("sp")
    quotient = (x * exp(exact_bias - chrono_bias).subs(T, 1 / x)).expand()
    yield own("result 2, forgetting time", given="T > 1").says(
        "A gate 1/T forgets to 1/e in 1/log(T/(T - 1)) steps; here T = 1 + u.",
        Equal(steps * log(1 - 1 / (1 + u)), S.NegativeOne),
        mutation=changed("T/(T - 1) read as (T + 1)/T", lhs=log(1 - 1 / (1 + u)) / log((2 + u) / (1 + u))),
        remark="(1 - 1/T)^n = 1/e by its logarithm",
    )
    yield own("result 2, expansion", given="T > 1").says(
        "1/log(T/(T - 1)) = T - 1/2 - 1/(12 T) - ...; here with x = 1/T, both sides times x and the logarithm.",
        Expands((1 - x / 2 - x**2 / 12) * rate, x, x, 4),
        mutation=changed("- 1/(12 T) read as + 1/(12 T)", expression=(1 - x / 2 + x**2 / 12) * rate),
        remark="the dropped x^4/24 makes the next term -1/(24 T^2)",
    )
    yield own("result 2, between", given="T > 1").says(
        "The forgetting time 1/log(T/(T - 1)) is above T - 1 and below T - 1/2; here u = 1/(T - 1).",
        Less(log(1 + u), u, True, rising=(u,)),
        Less(1 / (1 / u + S.Half), log(1 + u), True, rising=(u,)),
        mutation=Mutation("below T - 1/2 read as below T - 1", Less(u, log(1 + u), True)),
        remark="new here",
    )
    yield own("result 2, exact bias", given="T > 0").says(
        "The bias for exactly T is log(e^(1/T) - 1): its gate leaves e^-1 after T steps.",
        Equal(T * sp(exact_bias), S.One, {sp(exact_bias): softplus(exact_bias)}),
        Equal((1 - sigma(exact_bias)) ** T, exp(-1)),
        mutation=Mutation("log(e^(1/T) - 1) read as -log(T - 1)", Equal(softplus(chrono_bias) * T, S.One)),
        remark="sp increases, so there is no other",
    )
    yield own("result 2, chrono bias", given="T > 1").says(
        "The exact bias is below -log(T - 1) by 1/(2 T) + O(1/T^2); with x = 1/T.",
        Expands(quotient, x, x * (1 - x / 2), 3),
        mutation=changed("1/(2 T) read as 1/T", terms=x * (1 - x)),
        remark="new here; the series is x times the quotient of e^bias, which is 1 - x/2 + O(x^2), its logarithm -x/2 + O(x^2)",
    )


def normal(z: Expr) -> Expr:
    """The density of the normal distribution of mean 0 and spread 1."""
    return exp(-(z**2) / 2) / sqrt(2 * pi)


def means() -> Iterator[Entry]:
    """Result 2: median and mean of a gate. A letter B for e^b and X for e^z, y for e^(b + Z)."""
    v, y = Symbol("v", positive=True), Symbol("y", positive=True)
    B, X = Symbol("B", positive=True), Symbol("X", positive=True)
    gap = (X / (B + X) + 1 / (B * X + 1)) / 2 - 1 / (B + 1)
    lower, upper = sqrt(E) / 49 - exp(2) / 49**2, sqrt(E) / 49 - exp(2) / 49**2 + exp(Rational(9, 2)) / 49**3
    m = Symbol("m", positive=True)
    moment = Equal(exp(m * z) * normal(z), exp(m**2 / 2) * normal(z - m))
    yield own("result 2, median").says(
        "sigma(b) is the median of a gate sigma(b + Z) with centred input Z.",
        Equal(Integral(v**k, (v, 0, 1)), 1 / (k + 1)),
        Equal((k + 1) ** (-1 / k), S.Half),
        correction=Correction(
            "The input must have median 0, as one symmetric about 0 has, a normal one of any spread k among them: then sigma, "
            "which increases, carries the median 0 to sigma(b).",
            Equal(Integral(normal(z / k) / k, (z, -oo, 0)), S.Half),
            Less(S.Zero, sigma(z).diff(z), True),
        ),
        remark="centred is read as of mean 0; the counterexample is Z = V^k - 1/(k + 1) with V uniform on (0, 1): its mean is 0, "
        "and P(Z <= 0) = P(V <= (k + 1)^(-1/k)) is not 1/2",
    )
    yield own("result 2, not the mean", given=("the input is symmetric about 0", "b < 0, as for T > 2")).says(
        "sigma(b) is not the mean of a gate with centred input: it is below the mean.",
        Less(S.Zero, gap, True, {B: (1, oo), X: (1, oo)}, (B - 1) * (X - 1) ** 2 * B / (2 * (B + 1) * (B + X) * (B * X + 1))),
        mutation=Mutation("b < 0 read as b > 0", Less(S.Zero, gap, True, {B: (0, 1), X: (1, oo)})),
        remark="for each pair z, -z of inputs, with B = e^-b and X = e^|z|; at b = 0 mean and median are both 1/2",
    )
    yield own(
        "result 2, mean at T = 50",
        given=("b = -log 49, the bias of the gate 1/50", "the input is normal, of mean 0 and spread 1"),
    ).says(
        "For T = 50 and input of unit spread the mean gate is 0.031.",
        Less(y - y**2, y / (1 + y)),
        Less(y / (1 + y), y - y**2 + y**3),
        moment,
        Less(Rational(305, 10000), lower, True),
        Less(upper, Rational(315, 10000), True),
        mutation=Mutation("0.031 read as 0.030", Less(lower, Rational(305, 10000))),
        remark="with y = e^(b + Z) the gate is y/(1 + y), enclosed by y - y^2 and y - y^2 + y^3, whose means are exact: E y^m = "
        "e^(m^2/2)/49^m, a shift of the density; so the mean is between 0.03057 and 0.03134",
    )
    yield own("result 2, mean clock", given="the input is symmetric about 0").says(
        "Under input symmetric about 0 the learned clock runs faster on the mean than sp(b), whatever b: softplus is convex.",
        Less((1 + B) ** 2, (1 + B * X) * (1 + B / X), True, {X: (1, oo)}, B * (X - 1) ** 2 / X),
        mutation=Mutation("faster read as slower", Less((1 + B * X) * (1 + B / X), (1 + B) ** 2, True, {X: (1, oo)})),
        remark="new here; for each pair z, -z of inputs, 2 sp(b) < sp(b + z) + sp(b - z), exponentiated: B = e^b and X = e^|z|",
    )
    yield own("result 2, mean retention").says(
        "What gates retain on the mean is at least what the mean clock would: E e^-S >= e^-E(S), by Jensen.",
        Less(1 - u, exp(-u), rising=(u,)),
        Less(1 + u, exp(u), rising=(u,)),
        mutation=Mutation(">= read as <=", Less((B + X) / 2, sqrt(B * X))),
        remark="new here; by e^-(S - E S) >= 1 - (S - E S), of mean 1, for both signs of S - E "
        "S = +-u; the mutation has two values of e^-S",
    )


def frozen_stability() -> Iterator[Entry]:
    """Result 3, with f frozen."""
    n = Symbol("n", positive=True)
    once = relaxed(h, f, g)
    twice = relaxed(once, f, g)
    yield own("result 3, factor", given=FROZEN).says(
        "With f frozen, h + g (f - h) multiplies the distance to f by 1 - g.",
        Equal(once - f, (1 - g) * (h - f)),
        Equal(relaxed(twice, f, g) - f, (1 - g) ** 3 * (h - f)),
        mutation=changed("1 - g read as 1 + g", rhs=(1 + g) * (h - f)),
    )
    yield own("result 3, monotone", given=FROZEN).says(
        "For g in (0, 1] the approach to f is monotone: the factor 1 - g is in [0, 1).",
        Less(S.Zero, 1 - g, False, ON["slow"]),
        Less(1 - g, S.One, True, ON["slow"]),
        mutation=changed("(0, 1] read as (0, 2]", region={g: (0, 2)}),
        remark="at g = 1 it is f at once",
    )
    yield own("result 3, alternating", given=FROZEN).says(
        "For g in (1, 2) it alternates about f and approaches it: the factor is in (-1, 0).",
        Less(1 - g, S.Zero, True, {g: (1, 2)}),
        Less(S.NegativeOne, 1 - g, True, {g: (1, 2)}),
        mutation=changed("(1, 2) read as (1, 3)", lower=S.NegativeOne, upper=1 - g, region={g: (1, 3)}),
    )
    yield own("result 3, 2-cycle", given=FROZEN).says(
        "At g = 2 there is a 2-cycle: h and 2 f - h, whatever h.",
        Equal(twice, h, {g: S(2)}),
        Equal(once, 2 * f - h, {g: S(2)}),
        Fails(Equal(once.subs(g, 2), h)),
        mutation=Mutation("g = 2 read as g = 3/2", Equal(twice.subs(g, Rational(3, 2)), h)),
    )
    yield own("result 3, divergent", given=(FROZEN, "h is not f at the start")).says(
        "Beyond g = 2 the distance to f grows without bound.",
        Less(S.One, g - 1, True, {g: (2, oo)}),
        Tends((1 + u) ** n, n, oo, oo),
        mutation=changed("beyond 2 read as beyond 1", region=ON["fast"]),
        remark="with u = g - 2, and |1 - g| = 1 + u",
    )


def boxes() -> Iterator[Entry]:
    """Result 3: what |f| <= 1 makes of |h|, by |h + g (f - h)| <= |1 - g| |h| + g |f|. Sizes fall short by p and c."""
    n, q = Symbol("n", positive=True), Symbol("q", positive=True)
    p, c = Symbol("p", nonnegative=True), Symbol("c", nonnegative=True)
    inside = (1 - g) * (1 - p) + g * (1 - c)
    H = g / (2 - g)
    worst = H.subs(g, 1 + q)
    other = (1 + q) / (2 - q)
    size = worst - (worst - 1) * q**n
    tends = size.subs(q, 1 / (1 + u))
    yield own("result 3, invariant box", given="|f| <= 1, as for tanh").says(
        "|h| <= 1 is invariant for g in [0, 1], whatever the weights: (1 - g) |h| + g |f| <= 1.",
        Less(inside, S.One, False, ON["slow"], (1 - g) * p + g * c),
        mutation=Mutation("[0, 1] read as [0, 2]", Less((g - 1) * (1 - p) + g * (1 - c), S.One, False, {g: (1, 2)})),
        remark="with |h| = 1 - p and |f| = 1 - c; f and g are any numbers of their ranges, so they may depend on state and "
        "input, unit by unit; g = 0 and g = 1 leave h or f",
    )
    yield own("result 3, worst case", given="|f| <= 1").says(
        "For g in (0, 2) and |h| <= 1 at the start |h| stays below max(1, g/(2 - g)).",
        Equal(1 - H, 2 * (1 - g) / (2 - g)),
        Less(q * (worst - p) + (1 + q) * (1 - c), worst, False, None, q * p + (1 + q) * c),
        mutation=Mutation("g/(2 - g) read as g/(3 - g)", Less(q * (other - p) + (1 + q) * (1 - c), other, False, {q: (0, 1)})),
        remark="g/(2 - g) > 1 iff g > 1; then, with g = 1 + q, |h| = H - p and |f| = 1 - c step to at most H = (1 + q)/(1 - q)",
    )
    yield own("result 3, worst case, reached", given="f is free to alternate").says(
        "No smaller bound will do: for g in (1, 2) an f that alternates between 1 and -1 "
        "brings |h| as near to g/(2 - g) as one likes.",
        Equal(relaxed(-size, S.One, 1 + q), size.subs(n, n + 1)),
        Tends(tends, n, oo, worst.subs(q, 1 / (1 + u))),
        mutation=changed("f alternating read as f held at 0", lhs=relaxed(-size, S.Zero, 1 + q)),
        remark="a supremum, not attained: with g = 1 + q the sizes are H - (H - 1) q^n from n "
        "= 0 on; q = 1/(1 + u) is any number of (0, 1)",
    )


def contractions() -> Iterator[Entry]:
    """Result 3: with slopes s = f' between -L and L."""
    s = Symbol("s", real=True)
    slow, fast = ({s: (-L, L), **region} for region in ON.values())
    factor, bound = 1 - g + g * s, 1 - G + G * L
    up, down = (relaxed(h, tanh(sign * L * h), g) for sign in (1, -1))
    sloped = Derivative(tanh(L * h), h)
    yield own("result 3, contraction", given=("g > 0 does not depend on h", "a contraction has a factor below 1")).says(
        "With f' in [-L, L] the step h + g (f - h) is a contraction, whatever such f, iff |1 - g| + g L < 1: that is the largest "
        "slope it can have, and f = tanh(L h) or tanh(-L h) has it.",
        Less(factor**2, ((1 - g) + g * L) ** 2, False, slow, g * (L - s) * (2 * (1 - g) + g * (L + s))),
        Less(factor**2, ((g - 1) + g * L) ** 2, False, fast, g * (L + s) * (2 * (g - 1) + g * (L - s))),
        Equal(up.diff(h).subs(h, 0), (1 - g) + g * L),
        Equal(-down.diff(h).subs(h, 0), (g - 1) + g * L),
        Equal(sloped, L * (1 - tanh(L * h) ** 2)),
        mutation=Mutation("g L read as g L/2", Less(factor**2, ((1 - g) + g * L / 2) ** 2, False, slow)),
        remark="|1 - g| in its two cases g < 1 and g > 1; for several units L bounds D W in the norm used",
    )
    yield own("result 3, contracting rates", given="g > 0").says(
        "|1 - g| + g L < 1 iff L < 1 and 0 < g < 2/(1 + L).",
        Equal(1 - ((1 - g) + g * L), g * (1 - L)),
        Equal(1 - ((g - 1) + g * L), (1 + L) * (2 / (1 + L) - g)),
        Equal(2 / (1 + L) - 1, (1 - L) / (1 + L)),
        mutation=Mutation("2/(1 + L) read as 2/L", Equal(1 - ((g - 1) + g * L), (1 + L) * (2 / L - g))),
        remark="new here; the first statement is for g <= 1, the second for g >= 1, "
        "where by the third 2/(1 + L) > 1 asks for L < 1",
    )
    yield own("result 3, exponential Euler", given=("g does not depend on h", "f is any function with f' in [-L, L]")).says(
        "Exponential Euler, e^-g h + (1 - e^-g) f, contracts for every g > 0 iff L < 1.",
        Equal(exact_step(h, f, -log(1 - G)), relaxed(h, f, G)),
        Equal(1 - bound, G * (1 - L)),
        Equal(relaxed(h, tanh(L * h), G).diff(h).subs(h, 0), bound),
        mutation=Mutation("L < 1 read as L < 2", Equal(1 - bound, G * (2 - L))),
        remark="by 'result 3, contraction' with the gate G = 1 - e^-g, which takes every value of (0, 1), for its g; for L "
        ">= 1 and f = tanh(L h) it contracts for no g",
    )
