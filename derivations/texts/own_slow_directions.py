r"""Slow directions: what a step makes of a mode whose recurrence cancels its leak, which is how a network keeps what it knows.

h' = -L h + (L + lambda) h, z = lambda dt near 0, l = L dt       the equation: e^z = 1 + z + ..., whatever l
a step                                                           R(z) = R(0) + R'(0) z + ...
    R(0) = 1      what is kept is kept
    R'(0) = 1     what moves slowly moves at its own speed; R'(0) = c is a clock that runs at speed c
    R(-l) = e^-l  what has no recurrence is forgotten as by the equation
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Expr, Function, Rational, S, Symbol, exp, log, oo, sqrt

from derivations.claim import Entry, Mutation, changed
from derivations.prover.inequalities import Less
from derivations.prover.limits import Tends
from derivations.prover.statements import Equal, Rounds
from derivations.texts.own_maps import FROZEN, NAMES, g, own
from derivations.twins.step_maps import stability_function

__all__ = ["entries"]

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


def entries() -> Iterator[Entry]:
    return chain(speeds(), splittings(), longer(), fitted(), ranges())


def kept(name: str) -> Expr:
    """R(0)."""
    return stability_function(name, z, l).subs(z, 0)


def speed(name: str) -> Expr:
    """R'(0)."""
    return stability_function(name, z, l).diff(z).subs(z, 0)


def speeds() -> Iterator[Entry]:
    R0, R1 = Function("R")(0), Function("R'")(0)
    yield own("slow directions, at their speed", given=LINEAR).says(
        "Runge-Kutta and Taylor steps, the implicit ones, the exponential Rosenbrock step and the fitted midpoint rule keep a "
        "mode that keeps, R(0) = 1, and move a slow one at its own speed, R'(0) = 1, whatever its leak.",
        *tuple(Equal(R, S.One, {R: found(name)}) for name in AT_SPEED for R, found in ((R0, kept), (R1, speed))),
        mutation=Mutation("exponential Euler among them", Equal(speed("exponential_euler"), S.One)),
    )
    slowed = {
        "exponential_euler": ("phi_1(-l) = (1 - e^-l)/l", ONCE, "1, the equation's", S.One),
        "frozen_backward_euler": ("1/(1 + l)", 1 / (1 + l), "phi_1(-l)", ONCE),
        "frozen_trapezoid": ("1/(1 + l/2)", 1 / (1 + l / 2), "1/(1 + l)", 1 / (1 + l)),
        "etd2": ("1 - (1 - phi_1(-l))^2", 1 - (1 - ONCE) ** 2, "phi_1(-l)", ONCE),
    }
    for name, (words, found, wrong, other) in slowed.items():
        yield own(f"slow directions, speed of {NAMES[name]}", given=LINEAR).says(
            f"{NAMES[name][0].upper()}{NAMES[name][1:]} keeps a mode that keeps, R(0) = 1, and slows one that is slow: "
            f"R'(0) = {words}, below 1 for every leak.",
            Equal(R0, S.One, {R0: kept(name)}),
            Equal(R1, found, {R1: speed(name)}),
            Less(found, S.One, True, None, _room(name), (l,)),
            mutation=Mutation(f"{words} read as {wrong}", Equal(R1, other, {R1: speed(name)})),
        )
    at = {1: "0.998", 2: "0.980", 4: "0.871", 8: "0.608"}
    yield own("slow directions, speed of ETD-RK4", given=LINEAR).says(
        "ETD-RK4 slows them too, and later: R'(0) is 0.998 at l = 1, 0.980 at 2, 0.871 at 4 and 0.608 at 8, "
        "where ETD2 has 0.234 and exponential Euler 0.125.",
        Equal(R0, S.One, {R0: kept("etd_rk4")}),
        *(Rounds(speed("etd_rk4").subs(l, at_l), words) for at_l, words in at.items()),
        Rounds(speed("etd2").subs(l, 8), "0.234"),
        Rounds(speed("exponential_euler").subs(l, 8), "0.125"),
        mutation=Mutation("0.608 read as 1.000", Rounds(speed("etd_rk4").subs(l, 8), "1.000")),
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
    lie, strang = kept("splitting"), kept("strang_splitting")
    yield own("slow directions, splittings", given=LINEAR).says(
        "A splitting does not keep a mode that keeps: Lie's multiplies it by e^-l + l > 1, so that memory grows, and Strang's by "
        "(1 + l) e^-l + l^2/2 e^(-l/2), which is 1.039 at l = 1 and 0.914 at l = 6. Lie's moves slow modes at their speed.",
        Equal(lie, exp(-l) + l),
        Less(S.One, exp(-l) + l, True, None, None, (l,)),
        Equal(speed("splitting"), S.One),
        Equal(strang, (1 + l) * exp(-l) + l**2 / 2 * exp(-l / 2)),
        Rounds(strang.subs(l, 1), "1.039"),
        Rounds(strang.subs(l, 6), "0.914"),
        mutation=changed("e^-l + l read as 1", rhs=S.One),
    )


def longer() -> Iterator[Entry]:
    moved, needed = (1 - exp(-g * s)) / g, -log(1 - g) / g
    yield own("slow directions, a longer step of exponential Euler", given=(LINEAR, FROZEN)).says(
        "A step of length D of exponential Euler moves a slow mode as far as the equation does in phi_1(-g D) D = (1 - e^(-g "
        "D))/g: as in 1 unit for D = -log(1 - g)/g, which there is for g < 1 alone, for that "
        "time is below 1/g for every D, and tends to it.",
        Equal(moved.subs(s, needed), S.One),
        Less(moved, 1 / g, True),
        Tends(moved, s, oo, 1 / g),
        mutation=changed("-log(1 - g)/g read as 1/(1 - g)", lhs=moved.subs(s, 1 / (1 - g))),
        remark="so stretching time mends exponential Euler where g dt is below 1, and cannot beyond",
    )


def fitted() -> Iterator[Entry]:
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
    yield own("slow directions, range of the fitted midpoint rule", given=LINEAR).says(
        "Where recurrence gives back any share of what is forgotten, z = -theta l with theta from 0 to 1, |R| <= 1 for the "
        "fitted midpoint rule up to l = 4 + 2 sqrt(2), which is 6.83; Euler's step and the midpoint rule have 2.",
        Equal(1 - theta * l + theta**2 * (l - 1), (l - 1) * (theta - share) ** 2 + least),
        Equal((1 + least) * 4 * (l - 1), -(l**2 - 8 * l + 8)),
        Equal(end**2 - 8 * end + 8, S.Zero),
        Rounds(end, "6.83"),
        Equal(1 - stability_function("fitted_midpoint", -theta * l, l), theta * (l * (1 - theta) + theta * (1 - exp(-l)))),
        Less(exp(-l), S.One, True, None, None, (l,)),
        Equal(stability_function("euler", -l, l).subs(l, 2), S.NegativeOne),
        Equal(stability_function("midpoint", -l, l).subs(l, 2), S.One),
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
        Equal(stability_function("euler", -l, l), 1 - l),
        mutation=Mutation(
            "4 P(1/2) read as 2 P(1/2)", Equal(2 * quadratic.subs(theta, Rational(1, 2)) - quadratic.subs(theta, 1) - 3, -l)
        ),
        remark="P(theta) = R(-theta l): P(1/2) >= -1 and P(1) <= 1 with P(0) = 1 give -l >= -8; c = 1/8 reaches it at l = 8, "
        "Chebyshev's polynomial. In general Markov's inequality gives l <= 2 p^2 for p evaluations: to forget fast and keep slow "
        "modes at their speed at every l takes an implicit step, or the Jacobian",
    )
