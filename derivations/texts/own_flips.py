r"""One unit with a recurrence, h' = g (tanh(w h + b) - h), and its steps: where they flip, and that the equation does not.

With y = g dt, s = sech^2(w h + b) and z = y (w s - 1) a step's multiplier at a point of rest of the equation is 1 - G + G w s
for the maps that hold the target, and R(z) for the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Derivative, Rational, S, Symbol, exp, tanh

from derivations.claim import Entry, Mutation, changed
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal
from derivations.texts.own_maps import NAMES, dt, g, h, own, z
from derivations.twins import step_maps
from derivations.twins.step_maps import stability_function

__all__ = ["entries"]

b = Symbol("b", real=True)
w = Symbol("w", real=True)
v, y = Symbol("v", positive=True), Symbol("y", positive=True)  # v = -w
G = Symbol("G", positive=True)
INPUT = "the input is held over the step"


def entries() -> Iterator[Entry]:
    return chain(equation(), flips_of_gates(), gates(), no_flip())


def equation() -> Iterator[Entry]:
    slope = tanh(b - v * h) - h
    yield own("unit, one point of rest", given=INPUT).says(
        "For w < 0 the right-hand side of h' = g (tanh(w h + b) - h) falls in h, is positive at h = -1 and negative at h = 1: it "
        "has one zero, and every state moves towards it.",
        Equal(Derivative(slope, h), -v * (1 - tanh(b - v * h) ** 2) - 1),
        Less(-v * (1 - tanh(b - v * h) ** 2) - 1, S.Zero, True),
        Less(S.Zero, slope.subs(h, -1), True),
        Less(slope.subs(h, 1), S.Zero, True),
        mutation=Mutation("w < 0 read as w > 0", Less(v * (1 - tanh(b + v * h) ** 2) - 1, S.Zero, True)),
        remark="v is -w; that a continuous function which falls and changes its sign has one zero is not proved here",
    )


def flips_of_gates() -> Iterator[Entry]:
    step, sech = h + G * (tanh(w * h + b) - h), Symbol("s", positive=True)
    yield own("unit, multiplier of a gate", given=INPUT).says(
        "h + G (tanh(w h + b) - h) multiplies a small difference by 1 - G + G w sech^2(w h + b); at a "
        "point of rest that is 1 - G + G w (1 - h^2).",
        Equal(Derivative(step, h), 1 - G + G * w * (1 - tanh(w * h + b) ** 2)),
        mutation=changed("G w sech^2 read as w sech^2", rhs=1 - G + w * (1 - tanh(w * h + b) ** 2)),
    )
    at = -(2 - G) / (G * sech)
    yield own("unit, flip of a gate", given=INPUT).says(
        "The multiplier 1 - G + G w s, s = sech^2(w h + b), is -1 just where w s = -(2 - G)/G, which is below -1 for every gate "
        "G in (0, 1): so a gate below 1 flips for some weight, and for none with |w| <= 1.",
        Equal(1 - G + G * at * sech, S.NegativeOne),
        Less(G, 2 - G, True, {G: (0, 1)}, 2 * (1 - G)),
        mutation=changed("(2 - G)/G read as (1 - G)/G", lhs=1 - G - G * (1 - G) / G),
    )


def gates() -> Iterator[Entry]:
    """The recurrence is in the target: what the step holds is all of tanh(w h + b)."""
    made = {
        "exponential_euler": (1 - exp(-g * dt), g * dt),
        "frozen_backward_euler": (g * dt / (1 + g * dt), 1 - exp(-g * dt)),
        "frozen_trapezoid": (g * dt / (1 + g * dt / 2), g * dt / (1 + g * dt)),
    }
    for name, (gate, other) in made.items():
        step = step_maps.MAPS[name](lambda x: g * (tanh(w * x + b) - x), lambda x: g, h, dt).doit()
        pull = tanh(w * h + b) - h
        said = {"exponential_euler": "1 - e^(-g dt)", "frozen_backward_euler": "g dt/(1 + g dt)"}.get(name, "g dt/(1 + g dt/2)")
        yield own(f"unit, gate of {NAMES[name]}", given=(INPUT, "g is constant")).says(
            f"On h' = g (tanh(w h + b) - h) {NAMES[name]} is the Euler map with the gate G = {said}, and flips where that does.",
            Equal(step, h + gate * pull),
            mutation=changed("another map's gate", rhs=h + other * pull),
        )


def no_flip() -> Iterator[Entry]:
    """1 + R(z) > 0 for every z that a step may have there."""
    second = ((z + 1) ** 2 + 3) / 2
    fourth = (z**2 + 2 * z) ** 2 / 24 + (z + Rational(3, 2)) ** 2 / 3 + Rational(5, 4)
    rewritten = {"taylor2": second, "midpoint": second, "heun": second, "runge_kutta4": fourth}
    for name, gap in rewritten.items():
        R = stability_function(name, z, S.Zero).doit()
        yield own(f"unit, no flip of {NAMES[name]}", given=INPUT).says(
            f"At a point of rest of the equation the multiplier R(z) of {NAMES[name]} is above -1 for every real z: "
            "no flip there.",
            Less(S.NegativeOne, R, True, None, gap),
            mutation=Mutation("-1 read as 1", Less(S.One, R, True)),
            remark="such maps have points of rest that the equation does not have, and those may flip",
        )
    falling = {
        "backward_euler": (1 / (1 + y), "1/(1 - z)"),
        "trapezoid": ((1 - y / 2) / (1 + y / 2), "(1 + z/2)/(1 - z/2)"),
        "exponential_rosenbrock": (exp(-y), "e^z"),
    }
    for name, (multiplier, said) in falling.items():
        R = stability_function(name, -y, y).doit()
        yield own(f"unit, no flip of {NAMES[name]}", given=INPUT).says(
            f"Where the equation's point of rest is stable, z < 0, the multiplier {said} of {NAMES[name]} is above -1 for every "
            "step: no flip.",
            Equal(R, multiplier),
            Less(S.NegativeOne, multiplier, True),
            mutation=Mutation("-1 read as 1", Less(S.One, multiplier, True)),
            remark="y is -z",
        )
