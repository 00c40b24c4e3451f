r"""Slow directions and slow decays: what steps make of modes whose recurrence cancels their leak, and of power decays.

A mode without a leak is how a network keeps what it knows.

h' = -L h + (L + lambda) h, z = lambda dt near 0, l = L dt       the equation: e^z = 1 + z + ..., whatever l
a step                                                           R(z) = R(0) + R'(0) z + ...
    R(0) = 1      what is kept is kept
    R'(0) = 1     what moves slowly moves at its own speed; R'(0) = c is a clock that runs at speed c
    R(-l) = e^-l  what has no recurrence is forgotten as by the equation

h' = -g |h|^r h                 y = g |h|^r; what is left of h against (1 + r y)^(-1/r)
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Abs, Eq, Expr, Function, ImmutableDenseMatrix, Rational, S, Symbol, exp, log, oo, sqrt

from derivations.claim import Entry, Equal, Expands, Less, Mutation, Rounds, Solves, Tends, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.texts.own_maps import FROZEN, dt, f, g, own, r, titled, u, y
from derivations.twins.fields import sigma
from derivations.twins.step_maps import maps, power_forgetting, stability_function

z, l, s = Symbol("z", real=True), Symbol("l", positive=True), Symbol("D", positive=True)
theta, c = Symbol("theta", real=True), Symbol("c", real=True)
LINEAR = "one mode, h' = lambda h with the leak L; the pull (L + lambda) h is what recurrence gives back"
AT_SPEED = (
    "euler",
    "taylor2",
    "midpoint",
    "heun",
    "runge_kutta4",
    "fitted_midpoint",
    "backward_euler",
    "trapezoid",
    "exponential_rosenbrock",
)
ONCE = (1 - exp(-l)) / l
TWICE = (l - 1 + exp(-l)) / l**2


def kept(name: str) -> Expr:
    """R(0)."""
    return stability_function(name, z, l).subs(z, 0)


def speed(name: str) -> Expr:
    """R'(0)."""
    return stability_function(name, z, l).diff(z).subs(z, 0)


def expands(name: str, terms: Expr, order: int = 2) -> Expands:
    """R(z) = R(0) + R'(0) z + ..."""
    return Expands(stability_function(name, z, l), z, terms, order)


def speeds() -> Iterator[Entry]:
    yield own("slow directions, at their speed", given=LINEAR).says(
        "Runge-Kutta and Taylor steps, the implicit ones, the exponential Rosenbrock step and the fitted midpoint rule keep a "
        "mode that keeps, R(0) = 1, and move a slow one at its own speed, R'(0) = 1, whatever its leak.",
        *tuple(expands(name, 1 + z) for name in AT_SPEED),
        mutation=Mutation("exponential Euler among them", expands("exponential_euler", 1 + z)),
    )
    slowed = {
        "exponential_euler": ("phi_1(-l) = (1 - e^-l)/l", ONCE, "1, the equation's", S.One),
        "frozen_backward_euler": ("1/(1 + l)", 1 / (1 + l), "phi_1(-l)", ONCE),
        "frozen_trapezoid": ("1/(1 + l/2)", 1 / (1 + l / 2), "1/(1 + l)", 1 / (1 + l)),
        "etd2": ("1 - (1 - phi_1(-l))^2", 1 - (1 - ONCE) ** 2, "phi_1(-l)", ONCE),
    }
    for name, (words, found, wrong, other) in slowed.items():
        yield own(f"slow directions, speed of {titled(name)}", given=LINEAR).says(
            f"{titled(name)[0].upper()}{titled(name)[1:]} keeps a mode that keeps, R(0) = 1, and slows one that is slow: "
            f"R'(0) = {words}, below 1 for every leak.",
            expands(name, 1 + found * z),
            Less(found, S.One, True, None, _room(name), (l,)),
            mutation=changed(f"{words} read as {wrong}", terms=1 + other * z),
        )
    at = {1: "0.998", 2: "0.980", 4: "0.871", 8: "0.608"}
    yield own("slow directions, speed of ETD-RK4", given=LINEAR).says(
        "ETD-RK4 slows them too, and later: R'(0) is 0.998 at l = 1, 0.980 at 2, 0.871 at 4 and 0.608 at 8, "
        "where ETD2 has 0.234 and exponential Euler 0.125.",
        expands("etdrk4", S.One, 1),
        *(Rounds(speed("etdrk4").subs(l, at_l), words) for at_l, words in at.items()),
        Rounds(speed("etd2").subs(l, 8), "0.234"),
        Rounds(speed("exponential_euler").subs(l, 8), "0.125"),
        mutation=Mutation("0.608 read as 1.000", Rounds(speed("etdrk4").subs(l, 8), "1.000")),
    )


def _room(name: str) -> Expr | None:
    """1 - R'(0), as its sign shows."""
    return {
        "frozen_backward_euler": l / (1 + l),
        "frozen_trapezoid": l / (2 + l),
        "etd2": (1 - ONCE) ** 2,
        "exponential_euler": l * TWICE,
    }[name]


def splittings() -> Iterator[Entry]:
    strang = kept("strang_splitting")
    yield own("slow directions, splittings", given=LINEAR).says(
        "A splitting does not keep a mode that keeps: Lie's multiplies it by e^-l + l > 1, so that memory grows, and Strang's by "
        "(1 + l) e^-l + l^2/2 e^(-l/2), which is 1.039 at l = 1 and 0.914 at l = 6. Lie's moves slow modes at their speed.",
        expands("splitting", exp(-l) + l + z),
        Less(S.One, exp(-l) + l, True, None, None, (l,)),
        Equal(strang, (1 + l) * exp(-l) + l**2 / 2 * exp(-l / 2)),
        Rounds(strang.subs(l, 1), "1.039"),
        Rounds(strang.subs(l, 6), "0.914"),
        mutation=changed("e^-l + l read as 1", terms=1 + z),
    )
    moved, needed = (1 - exp(-g * s)) / g, {g: u / (1 + u), s: log(1 + u) * (1 + u) / u}
    yield own("slow directions, a longer step of exponential Euler", given=(LINEAR, FROZEN)).says(
        "A step of length D of exponential Euler moves a slow mode as far as the equation does in phi_1(-g D) D = (1 - e^(-g "
        "D))/g: as in 1 unit for D = -log(1 - g)/g, which there is for g < 1 alone, for that "
        "time is below 1/g for every D, and tends to it.",
        Equal(moved, S.One, needed),
        Less(moved, 1 / g, True),
        Tends(moved, s, oo, 1 / g),
        mutation=changed("-log(1 - g)/g read as 1/(1 - g)", where={s: 1 / (1 - g)}),
        remark="g = u/(1 + u), -log(1 - g) = log(1 + u); so stretching time mends exponential Euler where g dt is below 1, and "
        "cannot beyond",
    )
    R = Function("R")(-l)
    yield own("slow directions, the fitted midpoint rule", given=LINEAR).says(
        "Of all R(z) = 1 + z + c z^2, with c a function of the leak, the one with R(-l) = e^-l has c = phi_2(-l) = (l - 1 + "
        "e^-l)/l^2: that of the fitted midpoint rule. Its weight 2 phi_2(-l) is between 0 and 1, so that its "
        "slope is a mean of F(h) and F(h + dt/2 F(h)).",
        Equal((1 - l + c * l**2) - exp(-l), l**2 * (c - TWICE)),
        Equal(R, exp(-l), {R: stability_function("fitted_midpoint", -l, l)}),
        Less(S.Zero, l - 1 + exp(-l), True, None, None, (l,)),
        Less(2 * (l - 1 + exp(-l)), l**2, True, None, None, (l,)),
        mutation=Mutation("phi_2(-l) read as 1/2, the midpoint rule's", Equal(1 - l + l**2 / 2, exp(-l))),
    )


def ranges() -> Iterator[Entry]:
    """z = -theta l: recurrence gives back 1 - theta of what is forgotten; theta = 0 keeps all of it."""
    end, share = 4 + 2 * sqrt(2), l / (2 * (l - 1))
    least = 1 - l**2 / (4 * (l - 1))
    P = Function("P")
    quadratic = 1 - theta * l + c * theta**2
    yield own("slow directions, range of the fitted midpoint rule", given=(LINEAR, "l is not 1, where there is no square")).says(
        "Where recurrence gives back any share of what is forgotten, z = -theta l with theta from 0 to 1, |R| <= 1 for the "
        "fitted midpoint rule up to l = 4 + 2 sqrt(2), which is 6.83; Euler's step and the midpoint rule have 2.",
        Equal(1 - theta * l + theta**2 * (l - 1), (l - 1) * (theta - share) ** 2 + least),
        Equal((1 + least) * 4 * (l - 1), -(l**2 - 8 * l + 8)),
        Equal(end**2 - 8 * end + 8, S.Zero),
        Rounds(end, "6.83"),
        Equal(1 - stability_function("fitted_midpoint", -theta * l, l), theta * (l * (1 - theta) + theta * (1 - exp(-l)))),
        Less(exp(-l), S.One, True, None, None, (l,)),
        Equal(stability_function("euler", -l, l), S.NegativeOne, {l: S(2)}),
        Equal(stability_function("midpoint", -l, l), S.One, {l: S(2)}),
        mutation=Mutation("4 + 2 sqrt(2) read as 8", Equal((l**2 - 8 * l + 8).subs(l, 8), S.Zero)),
        remark="R is above the first quadratic by theta^2 e^-l, which is at least -1 between its roots 4 - 2 sqrt(2) and 4 + 2 "
        "sqrt(2); below l = 4 - 2 sqrt(2) it is above 1 - theta l. 1 - R is a sum of what is not negative",
    )
    yield own("slow directions, what two evaluations can do", given=LINEAR).says(
        "No step of two evaluations that moves slow modes at their speed, R = 1 + z + c(l) z^2, has |R| <= 1 for all z from -l "
        "to 0 beyond l = 8, nor one of a single evaluation, R = 1 + z, beyond l = 2.",
        Equal(
            4 * P(Rational(1, 2)) - P(1) - 3 * P(0),
            -l,
            {P(at): quadratic.subs(theta, at) for at in (S.Zero, Rational(1, 2), S.One)},
        ),
        Equal(1 - theta * l + theta**2 * l**2 / 8, 2 * (1 - theta * l / 4) ** 2 - 1),
        Less(stability_function("euler", -l, l), S.NegativeOne, True, {l: (2, oo)}),
        mutation=Mutation(
            "4 P(1/2) read as 2 P(1/2)", Equal(2 * quadratic.subs(theta, Rational(1, 2)) - quadratic.subs(theta, 1) - 3, -l)
        ),
        remark="P(theta) = R(-theta l): P(1/2) >= -1 and P(1) <= 1 with P(0) = 1 give -l >= -8; c = 1/8 reaches it at l = 8, "
        "Chebyshev's polynomial. In general Markov's inequality gives l <= 2 p^2 for p evaluations: to forget fast and keep slow "
        "modes at their speed at every l takes an implicit step, or the Jacobian",
    )


POWER = ("r > 0", "y > 0", "no input")


def _power(name: str) -> Expr:
    """What a unit step leaves of h > 0, for h' = -rate |h|^r h with rate h^r = y."""
    start = symbols.positive_h0
    rate = y / start**r
    return maps()[name](lambda u: -rate * Abs(u) ** r * u, lambda u: rate * Abs(u) ** r, start, S.One).doit() / start


def power_factors() -> Iterator[Entry]:
    """y = g |h|^r dt. The exact factor is (1 + r y)^(-1/r), and larger where less is forgotten."""
    exact, start = (1 + r * y) ** (-1 / r), symbols.positive_h0
    H, rate = symbols.signal("h")(symbols.s), Symbol("g", positive=True)
    path = start * (1 + r * rate * start**r * symbols.s) ** (-1 / r)
    logs = Less(log(1 + r * y), r * y, True, rising=(y,))
    yield own("step maps, power decay", given=POWER).says(
        "Of h' = -g |h|^r h there is left (1 + r y)^(-1/r), with y = g |h|^r t.",
        Solves((Eq(H.diff(symbols.s), -rate * H**r * H),), {H: path}, (S.Zero, {H: start})),
        Equal(path / start, exact, {symbols.s: y / (rate * start**r)}),
        mutation=changed("-1/r read as -1", rhs=1 / (1 + r * y)),
        remark="for h > 0; the equation is odd in h",
    )
    yield own("step maps, power decay by exponential Euler", given=POWER).says(
        "Exponential Euler leaves e^-y of it, less than the exact step for every y > 0: it forgets too much.",
        Equal(_power("exponential_euler"), exp(-y)),
        logs,
        mutation=changed("e^-y read as Euler's 1 - y", rhs=1 - y),
        remark="by logarithms: -y < -log(1 + r y)/r; it holds the rate while it should fall",
    )
    above, below, middle = 1 + u, Symbol("rho", positive=True), (1 - y / 2) / (1 + y / 2)
    yield own("step maps, power decay by frozen backward Euler", given=POWER).says(
        "Frozen backward Euler leaves 1/(1 + y): at r = 1 that is exact, for r > 1 it forgets too much, for r < 1 too little.",
        Equal(_power("frozen_backward_euler"), 1 / (1 + y)),
        Equal(exact, 1 / (1 + y), {r: S.One}),
        Less(log(1 + above * y), above * log(1 + y), True, rising=(y,)),
        Less(below * log(1 + y), log(1 + below * y), True, {below: (0, 1)}, rising=(y,)),
        mutation=Mutation("r > 1 and r < 1 exchanged", Less(above * log(1 + y), log(1 + above * y), True)),
        remark="by logarithms, with r = 1 + u, and with rho < 1 for r",
    )
    yield own("step maps, power decay by the frozen trapezoid", given=POWER).says(
        "The frozen trapezoid leaves (1 - y/2)/(1 + y/2), and flips the sign iff y > 2.",
        Equal(_power("frozen_trapezoid"), middle),
        Less(S.Zero, middle, True, {y: (0, 2)}),
        Less(middle, S.Zero, True, {y: (2, oo)}),
        mutation=changed("y > 2 read as y > 1", lower=middle, upper=S.Zero, region={y: (1, oo)}),
    )
    rosenbrock = 1 + (exp(-(r + 1) * y) - 1) / (r + 1)
    yield own("step maps, power decay by Rosenbrock", given=POWER).says(
        "The exponential Rosenbrock step leaves 1 + (e^(-(r + 1) y) - 1)/(r + 1): more than r/(r + "
        "1), to which it tends, however long the step.",
        Equal(_power("exponential_rosenbrock"), rosenbrock),
        Less(r / (r + 1), rosenbrock, True, None, exp(-(r + 1) * y) / (r + 1)),
        Tends(rosenbrock, y, oo, r / (r + 1)),
        mutation=changed("r/(r + 1) read as 1/(r + 1)", value=1 / (r + 1)),
    )
    yield own("step maps, power decay by Rosenbrock, too little", given=POWER).says(
        "It forgets too little at every y > 0, not only at large ones: both factors start at 1, and the exact one falls faster, "
        "by (1 + r y)^(-(r + 1)/r) against e^(-(r + 1) y).",
        Equal(exact.diff(y), -((1 + r * y) ** (-(r + 1) / r))),
        Equal(rosenbrock.diff(y), -exp(-(r + 1) * y)),
        *(Equal(factor, S.One, {y: S.Zero}) for factor in (rosenbrock, exact)),
        logs,
        Expands(rosenbrock - exact, y, r * (r + 1) * y**3 / 6, 4),
        mutation=Mutation("r (r + 1) y^3/6 read as with a minus", Expands(rosenbrock - exact, y, -r * (r + 1) * y**3 / 6, 4)),
        remark="by log(1 + r y) < r y; the last statement says by how much at small y",
    )


def to_second(e: Expr) -> ImmutableDenseMatrix:
    """Value, slope and second derivative in dt at 0."""
    return column(*(e.diff(dt, k).subs(dt, 0) for k in range(3)))


def power_long() -> Iterator[Entry]:
    """Splitting, backward Euler, and a gate as the rate of a power decay."""
    start, q, rho = symbols.positive_h0, Symbol("q", positive=True), Symbol("rho", positive=True)
    rate = y / start**r
    forgetting = power_forgetting(lambda _: rate, r)
    field = (lambda u: -rate * Abs(u) ** r * u, lambda u: rate * Abs(u) ** r, start, S.One)
    exact, left = (1 + r * y) ** (-1 / r), (start**-r + r * rate) ** (-1 / r)  # h0 times the exact factor
    residual = maps()["backward_euler"].residual(field[0], start, rho * start, S.One) / start
    yield own("step maps, power decay by splitting", given=POWER).says(
        "The splittings leave (1 + r y)^(-1/r): without input they are exact, at any length of the step.",
        Equal(maps()["splitting"](*field, forgetting), left),
        Equal(maps()["strang_splitting"](*field, forgetting), left),
        mutation=changed("the leak's rate held too, e^-y", lhs=maps()["splitting"](*field)),
        remark="of a decay |h|^r h only the rate that multiplies it is held, and not |h|^r",
    )
    yield own("step maps, power decay by backward Euler", given=POWER).says(
        "Backward Euler leaves the rho with rho + y rho^(r + 1) = 1. It is in (0, 1) and above the exact factor, for every y > 0 "
        "and r > 0: never a flip, and too little forgotten.",
        Equal(residual, rho + y * rho ** (r + 1) - 1),
        Less(S.Zero, residual.diff(rho), True),
        Tends(rho + y * rho ** (r + 1) - 1, rho, 0, S.NegativeOne),
        Equal(residual, y, {rho: S.One}),
        Equal(exact * (1 + y / (1 + r * y)), exact + y * exact ** (r + 1)),
        Less(log(1 + (r + 1) * y), (r + 1) / r * log(1 + r * y), True, rising=(y,)),
        mutation=changed("above read as below", lower=(r + 1) / r * log(1 + r * y), upper=log(1 + (r + 1) * y)),
        remark="the left side rises with rho and is below 1 at the exact factor, by logarithms, "
        "with 1 + y/(1 + r y) = (1 + (r + 1) y)/(1 + r y)",
    )
    given, driven = g * f, g * (f - start ** (r + 1))
    taylor = start + dt * driven + dt**2 / 2 * driven.diff(start) * driven
    pulled = (lambda u: given - g * Abs(u) ** r * u, lambda u: g * Abs(u) ** r, start, dt)
    by_power = power_forgetting(lambda _: g, r)
    lie, strang = (by(*pulled, by_power) for by in (maps()["splitting"], maps()["strang_splitting"]))
    more = dt**2 / 2 * (r + 1) * g * start**r * given
    yield own("step maps, splitting a driven power decay", given=("r > 0", "h > 0", FROZEN)).says(
        "Driven, h' = g (f - |h|^r h), Lie's splitting exceeds the exact step by dt^2/2 (r + 1) g |h|^r g f first, "
        "nothing where f = 0, and Strang's is right in dt^2.",
        Equal(to_second(lie), to_second(taylor + more)),
        Equal(to_second(strang), to_second(taylor)),
        mutation=changed("r + 1 read as r", rhs=to_second(taylor + more * r / (r + 1))),
    )
    H, softplus = symbols.signal("h")(symbols.s), log(1 + exp(z))
    path = start * (1 + r * g * start**r * symbols.s) ** (-1 / r)
    forgets = power_forgetting(lambda _: softplus, r)
    unit = forgets(start, start, S.One)
    flow = (lambda u: -softplus * Abs(u) ** r * u, lambda u: softplus * Abs(u) ** r, start, S.One)
    yield own("step maps, gate on a power decay", given=("r > 0", "no input")).says(
        "A gate sigma(z) read as the rate sp(z) = log(1 + e^z): with power decay the unit step is h (1 + r sp(z) |h|^r)^(-1/r), "
        "the exact flow, and what the splitting does.",
        Solves((Eq(H.diff(symbols.s), -g * H**r * H),), {H: path}, (S.Zero, {H: start})),
        Equal(path, unit, {symbols.s: S.One, g: softplus}),
        Equal(maps()["splitting"](*flow, forgets), (start**-r + r * softplus) ** (-1 / r)),
        mutation=Mutation("sp(z) read as sigma(z)", Equal(unit, start * (1 + r * sigma(z) * start**r) ** (-1 / r))),
    )
    yield own("step maps, gate on a power decay, r to 0", given=("r > 0", "no input")).says(
        "As r -> 0 that is (1 - sigma(z)) h, the gated step; for every r it stays between 0 and h.",
        Tends((1 + r * q) ** (-1 / r), r, 0, exp(-q)),
        Equal(exp(-softplus), 1 - sigma(z)),
        Less((1 + r * q) ** (-1 / r), S.One, True, None, None, (q,)),
        mutation=changed("e^-q read as 1 - q", value=1 - q),
        remark="with q = sp(z) |h|^r, of which the limit is sp(z)",
    )
