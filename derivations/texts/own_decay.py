r"""Results 5, 7, 8 and 9 of our own: slow forgetting as a flow, its monotonicity, its memory under input, and its origin.

h' = -g(t) |h|^r h        phi_S(h) = h (1 + r S |h|^r)^(-1/r),  S = integral of g;   phi^-r = h^-r + r S
(|a|^r a - |b|^r b)(a - b) >= 2^-r |a - b|^(r + 2)
dh(t)/dh(0) = exp(-alpha (r + 1) integral of |h|^r)
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import (
    Derivative,
    Eq,
    Expr,
    ImmutableDenseMatrix,
    Integral,
    Rational,
    S,
    Symbol,
    diag,
    diff,
    exp,
    eye,
    gamma,
    log,
    oo,
    tanh,
)

from derivations.argument import power_decay
from derivations.claim import Correction, Entry, Equal, Less, Mutation, Solves, Tends, changed
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.prover.identity import jacobian

t, r = symbols.t, symbols.r
h, g, alpha = symbols.positive_h0, Symbol("g", positive=True), symbols.alpha
first, second = Symbol("S_1", positive=True), Symbol("S_2", positive=True)
a, b, q = Symbol("a", positive=True), Symbol("b", positive=True), Symbol("q", positive=True)
DECAYING = ("r > 0", "h > 0")


def phi(elapsed: Expr, start: Expr = h, exponent: Expr = r) -> Expr:
    """h (1 + r S h^r)^(-1/r) for h > 0."""
    return start * (1 + exponent * elapsed * start**exponent) ** (-1 / exponent)


def flow() -> Iterator[Entry]:
    """Result 5."""
    known = {identity.label: identity for identity in power_decay.identities()}
    clock = symbols.c(t)
    speed = clock.diff(t)
    solution, lost, half = known["eq. 19"], known["eq. 21, corrected"], known["half-life"]
    yield own("result 5, flow", given=("r > 0", "S >= 0")).says(
        "phi_S(h) = h (1 + r S |h|^r)^(-1/r) solves dh/dS = -|h|^r h from h, for either sign.",
        Equal(solution.lhs, solution.rhs),
        mutation=Mutation(
            "without the r", Equal(diff(h * (1 + first * h**r) ** (-1 / r), first).subs(first, 0), -(h ** (r + 1)) * r)
        ),
    )
    base = Symbol("B", positive=True)
    slope = diff(phi(clock), t)
    there = 1 + r * clock * h**r
    yield own("result 5, clocks", given=DECAYING).says(
        "On a clock the flow is the same with S = c(t): it is exactly warp-covariant, dh/dt = -c' |h|^r h.",
        Equal(slope.subs(there, base), -speed * h ** (r + 1) * base ** (-1 / r - 1)),
        Equal((h * base ** (-1 / r)) ** (r + 1), h ** (r + 1) * base ** (-1 / r - 1)),
        mutation=changed("c' left out", rhs=-(h ** (r + 1)) * base ** (-1 / r - 1)),
        remark="B = 1 + r c(t) h^r is positive; -|phi|^r phi is the second equation's left side, negated",
    )
    yield own("result 5, semigroup", given=DECAYING).says(
        "phi is a semigroup in S: phi_S2(phi_S1(h)) = phi_(S1 + S2)(h), for phi^-r = h^-r + r S.",
        Equal(phi(first) ** (-r), h ** (-r) + r * first),
        Equal(phi(second, phi(first)) ** (-r), h ** (-r) + r * (first + second)),
        mutation=Mutation("S1 + S2 read as S1 S2", Equal(phi(second, phi(first)) ** (-r), h ** (-r) + r * first * second)),
        remark="for positive h the power -r loses nothing",
    )
    yield own("result 5, derivative", given=lost.assumptions).says(
        "The derivative of phi_S in h is (1 + r S |h|^r)^(-(r+1)/r).",
        Equal(lost.lhs, lost.rhs),
        mutation=changed("as Ohno and Kumagai print it", rhs=(1 + h**r * symbols.s) ** (-(r + 1) / r)),
    )
    inner = q / (1 + q)  # any exponent between 0 and 1
    yield own("result 5, derivative at 0", given=("0 < r < 1", "h > 0")).says(
        "The derivative (r + 1) |h|^r of |h|^r h tends to 0 at h = 0; the product rule makes it of |h|^r and h times r "
        "|h|^(r-1), which grows without bound there for r < 1: a machine has 0 times infinity.",
        Equal(diff(h ** (r + 1), h), (r + 1) * h**r),
        Equal(h**r + h * (r * h ** (r - 1)), (r + 1) * h**r),
        Tends((inner + 1) * exp(-inner * first), first, oo, S.Zero),
        Tends(inner * exp((1 - inner) * first), first, oo, oo),
        mutation=changed("r > 1", expression=(1 + q) * exp(-q * first), value=oo),
        remark="r = q/(1 + q), q > 0, and h = exp(-S_1) in the limits",
    )
    left = (2**r - 1) / (r * g * h**r)
    yield own("result 5, half-life", given=(*DECAYING, "g is constant")).says(
        "Half of h is left after (2^r - 1)/(r g |h|^r).",
        Equal(half.lhs, half.rhs, half.where),
        Equal(phi(g * symbols.s), h / 2, {symbols.s: left}),
        mutation=Mutation("2^r - 1 read as 2^r", Equal(phi(g * 2**r / (r * g * h**r)), h / 2)),
    )
    shrunk, at_start = (1 + q) ** (-1 / r), Symbol("h_0", real=True)
    yield own("result 5, splitting").says(
        "The split step h <- phi_g(h) + g f never overshoots: driven by f = 1 from 0 it stays below the rest point 1.",
        Less(phi(g, S.Zero, S(2)) + g, S.One),
        correction=Correction(
            "Its decay alone never overshoots: phi_g(h) has the sign of h and is smaller. The drive g f is not bounded by it: "
            "from 0 the step ends at g f, beyond the rest point f^(1/(r+1)) as soon as g is large.",
            Less(S.Zero, shrunk, True),
            Less(S.Zero, log(1 + q) / r, True),
            Equal(log(shrunk) + log(1 + q) / r, S.Zero),
            Equal(phi(g, at_start, S(2)) + g, g, {at_start: S.Zero}),
        ),
        remark="r = 2 in the counterexample; q = r g |h|^r is positive, and the logarithm of the factor is negative",
    )


def monotone() -> Iterator[Entry]:
    """Result 7: opposite signs by Bernoulli's inequality, equal signs by superadditivity; a >= b by symmetry."""
    y, m, d = Symbol("y", positive=True), Symbol("m", positive=True), Symbol("d", positive=True)
    power = r + 1

    def bernoulli(x: Expr) -> Expr:
        return x**power - 1 - power * (x - 1)

    both = ((m * y) ** power + (m * (2 - y)) ** power) * 2 * m - 2 ** (-r) * (2 * m) ** (power + 1)
    same = (1 + q) ** power - q**power - 1
    yield own("result 7, inequality", given="r > 0").says(
        "(|a|^r a - |b|^r b)(a - b) >= 2^-r |a - b|^(r+2), with equality for a = -b.",
        Less(S.Zero, bernoulli(1 + q), True, rising=(q,)),
        Less(S.Zero, 1 - (1 + q) ** power + power * q * (1 + q) ** r, True, rising=(q,)),
        Equal((1 + q) ** power * bernoulli(1 / (1 + q)), 1 - (1 + q) ** power + power * q * (1 + q) ** r),
        Equal(bernoulli(y) + bernoulli(2 - y), y**power + (2 - y) ** power - 2),
        Equal(both.subs(y, 1), S.Zero),
        Equal(both, 2 * m ** (power + 1) * (y**power + (2 - y) ** power - 2)),
        Equal(same, S.Zero, {q: S.Zero}),
        Equal(diff(same, q), power * q**r * ((1 + 1 / q) ** r - 1)),
        Less(S.Zero, (1 + q) ** r - 1, True, rising=(q,)),
        Equal(((q * d + d) ** power - (q * d) ** power) * d - d ** (power + 1), d ** (power + 1) * same),
        mutation=Mutation(
            "2^-r read as 2^(1-r)", Equal((both + (2 ** (-r) - 2 ** (1 - r)) * (2 * m) ** (power + 1)).subs(y, 1), S.Zero)
        ),
        remark="opposite signs, a = m y, b = -m (2 - y), 0 < y < 2: x^(r+1) >= 1 + (r+1)(x - 1) for x = 1 + q and x = 1/(1 + q) "
        "gives y^(r+1) + (2 - y)^(r+1) >= 2. Equal signs, b = q d, a = b + d: (1 + q)^(r+1) - q^(r+1) - 1 is 0 at q = 0 and "
        "rises, and (1 + q)^r > 1 says at q = 1 that 2^-r < 1. The pieces are decided, these sentences join them",
    )
    for exponent in (1, 2):
        wide = (a ** (exponent + 1) + b ** (exponent + 1)) * (a + b) - Rational(1, 2**exponent) * (a + b) ** (exponent + 2)
        near = ((a + b) ** (exponent + 1) - b ** (exponent + 1)) * a - Rational(1, 2**exponent) * a ** (exponent + 2)
        square = (a + b) * (a - b) ** 2 * (Rational(1, 2) if exponent == 1 else Rational(3, 4) * (a + b))
        yield own(f"result 7, r = {exponent}").says(
            f"For r = {exponent} the inequality holds for a > 0 > b, where the difference is a square, and for a > b > 0.",
            Equal(wide, square),
            Less(S.Zero, near, True),
            mutation=Mutation("2^-r read as 1", Less(S.Zero, wide - (1 - Rational(1, 2**exponent)) * (a + b) ** (exponent + 2))),
            remark="b stands for -b and for a - b",
        )
    (H,), start = symbols.state(1), Symbol("delta_0", positive=True)
    for exponent in (1, 2):
        speed = exponent * Rational(1, 2**exponent) * alpha
        bound = (start ** (-exponent) + speed * t) ** Rational(-1, exponent)
        yield own(f"result 7, approach, r = {exponent}", given=("U = 0", "t >= 0")).says(
            f"Two trajectories under one input approach: |delta| <= (|delta_0|^-r + r 2^-r alpha t)^(-1/r), the solution of y' "
            f"= -2^-r alpha y^(r+1), r = {exponent}.",
            Solves((Eq(H.diff(t), -alpha * Rational(1, 2**exponent) * H ** (exponent + 1)),), {H: bound}, (S.Zero, {H: start})),
            mutation=Mutation(
                "r 2^-r read as 2^-r",
                Equal(
                    diff((start ** (-exponent) + 3 * speed * t) ** Rational(-1, exponent), t).subs(t, 0),
                    -alpha * Rational(1, 2**exponent) * start ** (exponent + 1),
                ),
            ),
            remark="by the comparison theorem, from |delta|' <= -2^-r alpha |delta|^(r+1)",
        )


def memory() -> Iterator[Entry]:
    """Result 8."""
    v, x = Symbol("v", real=True), Symbol("x", positive=True)
    J = symbols.signal("J")(t)
    size = symbols.signal("m")
    w = Symbol("w", real=True)
    path = exp(-alpha * (r + 1) * Integral(size(w), (w, 0, t)))
    yield own("result 8, Jacobian", given=("U = 0", "r > 0")).says(
        "Without recurrence dh(t)/dh(0) = exp(-alpha (r+1) integral of |h|^r): exponential memory under input.",
        Equal(diff(alpha * (v - x ** (r + 1)), x), -alpha * (r + 1) * x**r),
        Solves((Eq(J.diff(t), -alpha * (r + 1) * size(t) * J),), {J: path}, (S.Zero, {J: S.One})),
        mutation=changed("r + 1 read as r", rhs=-alpha * r * x**r),
        remark="m(t) stands for |h(t)|^r; h > 0 in the slope",
    )
    k, noise = Symbol("k", positive=True), Symbol("sigma", positive=True)
    level, order = Symbol("w", positive=True), Symbol("a", positive=True)
    for exponent in (1, 2):
        power = exponent + 2
        density, place = exp(-k * x**power), (level / k) ** Rational(1, power)
        current = -alpha * x ** (exponent + 1) * density - noise**2 / 2 * Derivative(density, x)
        share = {m: Rational(m + 1, power) for m in (0, exponent)}
        yield own(f"result 8, white input, r = {exponent}", given=("U = 0", "dh = -alpha |h|^r h dt + sigma dW")).says(
            f"For white input the rate has a closed form with Gamma functions: r = {exponent}, density e^(-k |h|^{power}), k = "
            f"2 alpha/({power} sigma^2), and E|h|^r = k^(-{exponent}/{power}) Gamma({share[exponent]})/Gamma(1/{power}).",
            Equal(current, S.Zero, {k: 2 * alpha / (power * noise**2)}),
            *(Equal(Derivative(place ** (m + 1) / (m + 1), level), level ** (a - 1) * k**-a / power) for m, a in share.items()),
            Equal(Integral(level ** (order - 1) * exp(-level), (level, 0, oo)), gamma(order)),
            mutation=changed("k = alpha/((r+2) sigma^2)", where={k: alpha / (power * noise**2)}),
            remark="the stationary density has no current; the rate is alpha (r+1) E|h|^r, both halves of the line being alike; "
            f"with w = k h^{power} its integrals become Gamma functions",
        )


def origin() -> Iterator[Entry]:
    """Result 9, two units, r = 2."""
    states = ImmutableDenseMatrix(symbols.state(2))
    W, leak = symbols.weights("W_h", 2, 2), Symbol("lambda", positive=True)
    field = alpha * ((W * states + symbols.biases("b", 2)).applyfunc(tanh) - states.applyfunc(lambda k: k**3))
    still = dict.fromkeys(states, S.Zero)
    D = diag(*(1 - tanh(k) ** 2 for k in symbols.biases("b", 2)))
    linear = jacobian(field, states)
    yield own("result 9, linearization", given="r > 0", sizes="2 units, r = 2").says(
        "Under power decay the field linearizes at the origin to alpha D W: there is no leak in it.",
        Equal(linear, alpha * D * W, still),
        mutation=changed("alpha (D W - I)", rhs=alpha * (D * W - eye(2))),
    )
    lam, H = Symbol("lambda_W", positive=True), symbols.state(1)[0]
    yield own("result 9, instability", given=("x = 0", "b = 0")).says(
        "With zero input the origin is unstable as soon as W has an eigenvalue with positive real part.",
        Solves((Eq(H.diff(t), alpha * lam * H),), {H: Symbol("h_0") * exp(alpha * lam * t)}),
        Tends(exp(alpha * lam * q), q, oo, oo),
        mutation=changed("negative real part", expression=exp(-alpha * lam * q)),
        remark="along an eigenvector, a real eigenvalue; D = I at b = 0",
    )
    cured = jacobian(field - leak * states, states)
    yield own("result 9, leak", sizes="2 units, r = 2").says(
        "A small linear leak lambda h cures it: it moves every eigenvalue of the linearization by -lambda.",
        Equal(cured, alpha * D * W - leak * eye(2), still),
        mutation=changed("by -lambda alpha", rhs=alpha * D * W - alpha * leak * eye(2)),
        remark="small is: above alpha times the largest real part",
    )
