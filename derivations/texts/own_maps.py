r"""Step maps of our own package, one by one: what gate each makes, what it multiplies a mode by, and what it drops.

h' = g (f - h), f and g held    h + G (f - h) with G = 1 - R(-g): the gate that a step map makes of a rate
h' = lambda h                   R(z), z = lambda dt, with l = L dt of what the map takes for the leak
exact - map                     order and leading term, for any F(h) and any leak L(h)
g > 0                           monotone, overshooting, marginal or divergent; what is left against e^-g
h' = -g |h|^r h                 y = g |h|^r: what is left against (1 + r y)^(-1/r)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from sympy import (
    Abs,
    CRootOf,
    Derivative,
    Eq,
    Expr,
    Function,
    I,
    ImmutableDenseMatrix,
    LambertW,
    Rational,
    S,
    Symbol,
    conjugate,
    diag,
    exp,
    expand,
    eye,
    log,
    oo,
    sinh,
    sstr,
    tanh,
)

from derivations.argument.taylor import euler_step
from derivations.claim import Entry, Mutation
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Expands, Fails, Rounds, Solves, Tends
from derivations.twins import step_maps
from derivations.twins.fields import sigma
from derivations.twins.step_maps import induced_factors, induced_gate, local_error, phi, stability_function

__all__ = ["entries"]

OWN = "this project"
dt = symbols.dt
h, f, z = (Symbol(name, real=True) for name in "hfz")
g, l, u, y = (Symbol(name, positive=True) for name in "gluy")
r = symbols.r
POWER = ("r > 0", "y > 0", "no input")
EXPONENTIAL = ("exponential_euler", "etd2", "etd_rk4", "exponential_rosenbrock")
FROZEN = "f and g are constant over the step"
# Words for the maps, in the order of the table.
NAMES = {
    "euler": "Euler", "taylor2": "the second-order Taylor step", "midpoint": "the midpoint rule", "heun": "Heun's rule",
    "runge_kutta4": "the classical Runge-Kutta step", "exponential_euler": "exponential Euler", "etd2": "ETD2",
    "etd_rk4": "ETD-RK4", "backward_euler": "backward Euler", "trapezoid": "the trapezoid",
    "frozen_backward_euler": "frozen backward Euler", "frozen_trapezoid": "the frozen trapezoid",
    "exponential_rosenbrock": "the exponential Rosenbrock step", "splitting": "Lie's splitting",
    "strang_splitting": "Strang's splitting",
}  # fmt: skip


def entries() -> Iterator[Entry]:
    return chain(
        gates(), fixed_points(), factors(), local_errors(), without_leak(), regions(), half_planes(), stiff(), power_factors(),
        power_long(), units(), lstm(), readings(),
    )  # fmt: skip


def _said(e: Expr) -> str:
    """As the words write it: g^2/2 - g for g**2/2 - g, e^-g for exp(-g)."""
    text = re.sub(r"exp\((-?\w)\)", r"e^\1", sstr(e, order="rev-lex")).replace("exp(", "e^(")
    text = re.sub(r"-(e\^-\w) \+ 1", r"1 - \1", text)
    return text.replace("**", "^").replace("*", " ")


def gates() -> Iterator[Entry]:
    """What a unit step makes of h' = g (f - h)."""
    second, exponential, backward, middle = g - g**2 / 2, 1 - exp(-g), g / (1 + g), g / (1 + g / 2)
    made = {
        "euler": (g, 1 - exp(-g)), "taylor2": (second, g), "midpoint": (second, g), "heun": (second, g + g**2 / 2),
        "runge_kutta4": (g - g**2 / 2 + g**3 / 6 - g**4 / 24, second), "exponential_euler": (exponential, g),
        "etd2": (exponential, second), "etd_rk4": (exponential, g - g**2 / 2 + g**3 / 6 - g**4 / 24),
        "backward_euler": (backward, exponential), "trapezoid": (middle, backward),
        "frozen_backward_euler": (backward, middle), "frozen_trapezoid": (middle, g / (2 + g)),
        "exponential_rosenbrock": (exponential, g),
    }  # fmt: skip
    step, G, R = map(Function, ("step", "G", "R"))
    for name, (gate, other) in made.items():
        yield Entry(
            OWN, f"step maps, gate of {NAMES[name]}",
            f"With f and g frozen and dt = 1, {NAMES[name]} is h + G (f - h) with G = {_said(gate)}, which is 1 - R(-g).",
            (Equal(step(h), h + gate * (f - h), {step(h): _step(name)}),
             Equal(G(g), gate, {G(g): induced_gate(name, g)}),
             Equal(1 - R(-g), gate, {R(-g): stability_function(name, -g, g)})), (FROZEN,),
            Mutation(f"{_said(gate)} read as {_said(other)}", Equal(_step(name), h + other * (f - h))),
        )  # fmt: skip
    for name, (keeps, writes) in {"splitting": (exp(-g), g), "strang_splitting": (exp(-g), exp(-g / 2) * g)}.items():
        yield Entry(
            OWN, f"step maps, gate of {NAMES[name]}",
            f"{NAMES[name].capitalize()} makes no gate: with f and g frozen and dt = 1 it keeps {_said(keeps)} of h "
            f"and writes {_said(writes)} of f.",
            (Equal(_step(name), keeps * h + writes * f), Equal(induced_factors(name, g)[0], keeps),
             Equal(induced_factors(name, g)[1], writes)), (FROZEN,),
            Mutation(f"{_said(writes)} read as 1 - {_said(keeps)}", Equal(_step(name), keeps * h + (1 - keeps) * f)),
        )  # fmt: skip


def fixed_points() -> Iterator[Entry]:
    lie, strang, step = g * f / (1 - exp(-g)), f * (g / 2) / sinh(g / 2), Function("step")
    yield Entry(
        OWN, "step maps, fixed point of Lie's splitting",
        "Lie's splitting rests at g f/(1 - e^-g), further out than f for every g > 0.",
        (Equal(step(lie), lie, {step(lie): _step("splitting").subs(h, lie)}),
         Less(1 - exp(-g), g, True, rising=(g,))), (FROZEN,),
        Mutation("g f/(1 - e^-g) read as f", Equal(_step("splitting").subs(h, f), f)),
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, fixed point of Strang's splitting",
        "Strang's splitting rests at f (g/2)/sinh(g/2), nearer to 0 than f for every g > 0.",
        (Equal(step(strang), strang.rewrite(exp), {step(strang): _step("strang_splitting").subs(h, strang).rewrite(exp)}),
         Less(g / 2, sinh(g / 2), True, rising=(g,))), (FROZEN,),
        Mutation("sinh(g/2) read as tanh(g/2)", Less(g / 2, tanh(g / 2), True)),
    )  # fmt: skip


def _step(name: str) -> Expr:
    """The unit step of h' = g (f - h)."""
    return step_maps.MAPS[name](lambda u: g * (f - u), lambda u: g, h, S.One).doit()


def factors() -> Iterator[Entry]:
    """R(z), with l = L dt."""
    R = Function("R")
    once, half, rest = phi(1, -l), exp(-l / 2), z + l
    second = 1 + z + z**2 / 2
    # The stages of ETD-RK4 on h = 1, each by its own exact leak.
    weight = phi(1, -l / 2) / 2
    a = half + weight * rest
    b = half + weight * rest * a
    c = half * a + weight * rest * (2 * b - 1)
    end = 4 * phi(3, -l) - phi(2, -l)
    fourth = exp(-l) + rest * (
        phi(1, -l) - 3 * phi(2, -l) + 4 * phi(3, -l) + (2 * phi(2, -l) - 4 * phi(3, -l)) * (a + b) + end * c
    )
    found = {
        "euler": (1 + z, exp(z)), "taylor2": (second, 1 + z), "midpoint": (second, 1 + z), "heun": (second, 1 + z + z**2),
        "runge_kutta4": (second + z**3 / 6 + z**4 / 24, second + z**3 / 6),
        "exponential_euler": (1 + once * z, exp(z)),
        "etd2": (1 + once * z + phi(2, -l) * rest * once * z, 1 + once * z + phi(2, -l) * z**2),
        "etd_rk4": (fourth, exp(z)),
        "backward_euler": (1 / (1 - z), 1 / (1 + z)), "trapezoid": ((1 + z / 2) / (1 - z / 2), (1 + z) / (1 - z)),
        "frozen_backward_euler": (1 + z / (1 + l), 1 / (1 - z)),
        "frozen_trapezoid": (1 + z / (1 + l / 2), (1 + z / 2) / (1 - z / 2)),
        "exponential_rosenbrock": (exp(z), 1 + once * z),
        "splitting": (exp(-l) + z + l, exp(-l) + z),
        "strang_splitting": (half * (half + rest * (half + rest / 2)), half * (half + rest)),
    }  # fmt: skip
    for name, (value, other) in found.items():
        yield Entry(
            OWN, f"step maps, R of {NAMES[name]}",
            f"Of h' = lambda h = (lambda + L) h - L h, with z = lambda dt and l = L dt, {NAMES[name]} multiplies h by R(z).",
            (Equal(R(z), value, {R(z): stability_function(name, z, l)}),), (),
            Mutation(f"R(z) read as {_said(other)}", Equal(stability_function(name, z, l), other)),
        )  # fmt: skip


def local_errors() -> Iterator[Entry]:
    """Exact minus map; the letters are F and L at h, and their derivatives there."""
    F, F1, F2, F3, F4 = (Symbol("F" + "'" * k, real=True) for k in range(5))
    L = Symbol("L", real=True)
    runge = F**3 * F4 + 2 * F**2 * F1 * F3 - 6 * F**2 * F2**2 + 36 * F * F1**2 * F2 - 24 * F1**4
    leaks = L * (90 * F * F1 * F2 + 49 * F * F2 * L - 90 * F1**3 - 116 * F1**2 * L - 55 * F1 * L**2 - 5 * L**3)
    strang = F**2 * F2 + F * (4 * F1**2 + 6 * F1 * L + 3 * L**2) - L**2 * h * (3 * F1 + 2 * L)
    half, sixth = dt**2 / 2, dt**3 / 6
    dropped = {
        "euler": (1, half * F1 * F, half * (F1 + L) * F),
        "taylor2": (2, sixth * (F2 * F**2 + F1**2 * F), sixth * F2 * F**2),
        "midpoint": (2, dt**3 * (F2 * F**2 / 24 + F1**2 * F / 6), sixth * (F2 * F**2 + F1**2 * F)),
        "heun": (2, dt**3 * (F1**2 * F / 6 - F2 * F**2 / 12), dt**3 * (F1**2 * F / 6 + F2 * F**2 / 12)),
        "runge_kutta4": (4, -(dt**5) * F * runge / 2880, dt**5 * F * runge / 2880),
        "exponential_euler": (1, half * (F1 + L) * F, half * F1 * F),
        "etd2": (2, dt**3 * F * ((F1 + L) * (2 * F1 + 3 * L) - F2 * F) / 12, dt**3 * F * (2 * F1**2 - F2 * F) / 12),
        "etd_rk4": (4, -(dt**5) * F * (runge + leaks) / 2880, -(dt**5) * F * runge / 2880),
        "backward_euler": (1, -half * F1 * F, half * F1 * F),
        "trapezoid": (2, -(dt**3) * (F2 * F**2 + F1**2 * F) / 12, dt**3 * (F2 * F**2 + F1**2 * F) / 12),
        "frozen_backward_euler": (1, dt**2 * (F1 / 2 + L) * F, -half * F1 * F),
        "frozen_trapezoid": (1, half * (F1 + L) * F, dt**2 * (F1 / 2 + L) * F),
        "exponential_rosenbrock": (2, sixth * F2 * F**2, sixth * (F2 * F**2 + F1**2 * F)),
        "splitting": (1, half * (F1 * F - L**2 * h), half * (F1 + L) * F),
        "strang_splitting": (2, dt**3 * strang / 24, sixth * (F2 * F**2 + F1**2 * F)),
    }  # fmt: skip
    for name, (order, term, other) in dropped.items():
        missed = Function("missed")(dt)
        yield Entry(
            OWN, f"step maps, local error of {NAMES[name]}",
            f"Exact minus map, {NAMES[name]} drops a term in dt^{order + 1} first, and so is of order {order}.",
            (Equal(missed, term, {missed: local_error(name, order + 1)}),), ("the input is held over the step",),
            Mutation(f"the term read as {_said(other)}", Equal(missed, other, {missed: local_error(name, order + 1)})),
            remark="F, F', ... and L stand for their values at h: F and L are any functions of one unit, smooth at h"
                   + ("; what is forgotten is 1 - e^(-L dt), the rate held" if "splitting" in name else ""),
        )  # fmt: skip


def without_leak() -> Iterator[Entry]:
    F = Function("F")
    same = {
        "exponential_euler": "euler", "frozen_backward_euler": "euler", "frozen_trapezoid": "euler", "splitting": "euler",
        "etd2": "heun", "etd_rk4": "runge_kutta4", "strang_splitting": "midpoint",
    }  # fmt: skip

    def step(name: str) -> Expr:
        return step_maps.MAPS[name](lambda u: F(expand(u)), lambda _: S.Zero, h, dt).doit()

    yield Entry(
        OWN, "step maps, without a leak",
        "With L = 0 the exponential, the frozen and the split maps are old ones, for any F: Euler, Heun (ETD2), the classical "
        "Runge-Kutta step (ETD-RK4) and the midpoint rule (Strang).",
        tuple(Equal(Symbol(name), step(other), {Symbol(name): step(name)}) for name, other in same.items()), ("L = 0",),
        Mutation("ETD2 read as the midpoint rule", Equal(step("etd2"), step("midpoint"))),
    )  # fmt: skip


def regions() -> Iterator[Entry]:
    """R(-g) for g > 0; Euler's regions are result 3."""
    second, third = (1 + (1 - g) ** 2) / 2, g**3 - 4 * g**2 + 12 * g - 24
    fourth = 1 - g + g**2 / 2 - g**3 / 6 + g**4 / 24
    middle, R = (1 - g / 2) / (1 + g / 2), Function("R")(-g)
    yield Entry(
        OWN, "step maps, second order in g",
        "The Taylor step, the midpoint rule and Heun's never overshoot, for their R(-g) = (1 + (1 - g)^2)/2 is at least 1/2: no "
        "gate of theirs is above 1/2. They approach f for g < 2, keep their distance at g = 2, and diverge beyond.",
        (*(Equal(R, second, {R: stability_function(name, -g, g)}) for name in ("taylor2", "midpoint", "heun")),
         Less(S.Half, second), Less(second, S.One, True, {g: (0, 2)}, g * (2 - g) / 2), Equal(second.subs(g, 2), S.One),
         Less(S.One, second, True, {g: (2, oo)}, g * (g - 2) / 2)), (FROZEN,),
        Mutation("g < 2 read as g < 3", Less(second, S.One, True, {g: (0, 3)})),
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, fourth order in g",
        "The classical Runge-Kutta step never overshoots, R(-g) > 0, and approaches f up to the one real root of g^3 - 4 g^2 + "
        "12 g - 24, which is 2.785; there it keeps its distance, and beyond it diverges.",
        (Equal(R, fourth, {R: stability_function("runge_kutta4", -g, g)}), Equal(1 - fourth, -g * third / 24),
         Less(S.Zero, fourth, True, None, ((g**2 - 2 * g) ** 2 + 8 * (g - Rational(3, 2)) ** 2 + 6) / 24),
         Less(S.Zero, third.diff(g), True, None, 3 * (g - Rational(4, 3)) ** 2 + Rational(20, 3)),
         Rounds(CRootOf(third, 0), "2.785")), (FROZEN,),
        Mutation("2.785 read as 2.875", Rounds(CRootOf(third, 0), "2.875")),
        remark="the cubic increases, so it is negative before its root and positive beyond, and 1 - R the other way round",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, monotone for every g",
        "Backward Euler, its frozen form and the exponential maps approach f monotonically for every g > 0: 1/(1 + g) and e^-g "
        "are in (0, 1).",
        (*(Equal(induced_factors(name, g)[0], 1 / (1 + g)) for name in ("backward_euler", "frozen_backward_euler")),
         *(Equal(induced_factors(name, g)[0], exp(-g)) for name in EXPONENTIAL),
         Less(S.Zero, 1 / (1 + g), True), Less(1 / (1 + g), S.One, True), Less(S.Zero, exp(-g), True),
         Less(exp(-g), S.One, True, rising=(g,))), (FROZEN,),
        Mutation("Euler's factor for theirs", Less(S.Zero, induced_factors("euler", g)[0], True)),
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, trapezoid in g",
        "The trapezoid and its frozen form are monotone up to g = 2; beyond, they alternate about f and still approach it, for "
        "every g, ever more slowly: R tends to -1, and the gate g/(1 + g/2) not to 1 but to 2.",
        (*(Equal(induced_factors(name, g)[0], middle) for name in ("trapezoid", "frozen_trapezoid")),
         Less(S.Zero, middle, True, {g: (0, 2)}), Equal(middle.subs(g, 2), S.Zero), Less(middle, S.Zero, True, {g: (2, oo)}),
         Less(S.NegativeOne, middle, True), Less(middle, S.One, True), Tends(middle, g, oo, S.NegativeOne),
         Tends(induced_gate("trapezoid", g), g, oo, S(2))), (FROZEN,),
        Mutation("2 read as 1", Tends(induced_gate("trapezoid", g), g, oo, S.One)),
    )  # fmt: skip


def half_planes() -> Iterator[Entry]:
    """Modes of any kind: z = -a + i b with a >= 0, and modes within kappa l of the leak."""
    a, b, k = Symbol("a", nonnegative=True), Symbol("b", real=True), Symbol("kappa", positive=True)
    w = Symbol("w", real=True)
    R = Function("R")

    def square(name: str) -> Expr:
        found = stability_function(name, -a + I * b, l)
        return found * conjugate(found)

    once, twice = (a * (2 + a) + b**2) / ((1 + a) ** 2 + b**2), 2 * a / ((1 + a / 2) ** 2 + b**2 / 4)
    size = Abs(R(-a + I * b)) ** 2
    yield Entry(
        OWN, "step maps, left half-plane",
        "|R(z)| <= 1 wherever Re z <= 0, for backward Euler and for the trapezoid, here with z = -a + i b; on the imaginary axis "
        "the trapezoid has |R| = 1.",
        (Equal(1 - size, once, {size: square("backward_euler")}), Less(S.Zero, once),
         Equal(1 - size, twice, {size: square("trapezoid")}), Less(S.Zero, twice)), (),
        Mutation("Euler for backward Euler", Less(expand(square("euler")), S.One)),
    )  # fmt: skip
    gate, n = 1 - exp(-l), "|N'| <= kappa L at the state, with kappa < 1"
    sides = {"exponential_euler": (exp(-l), gate / l, gate), "frozen_backward_euler": (1 / (1 + l), 1 / (1 + l), l / (1 + l))}
    for name, (keeps, adds, room) in sides.items():
        yield Entry(
            OWN, f"step maps, contraction by {NAMES[name]}",
            f"Where recurrence is weaker than the leak, |N'| <= kappa L with kappa < 1, {NAMES[name]} contracts at any length of "
            f"the step. With w = N' dt = z + l its factor is R = {_said(keeps)} + w ({_said(adds)}), and 1 - |R| is at least "
            f"(1 - kappa) ({_said(room)}).",
            (Equal(R(w - l), keeps + adds * w, {R(w - l): stability_function(name, w - l, l)}),
             Less(S.Zero, keeps, True, None, None, (l,)), Less(S.Zero, adds * l, True, None, room, (l,)),
             Equal(1 - (keeps + adds * k * l), room * (1 - k))), ("L is constant, or held", n),
            Mutation("kappa < 1 read as kappa < 2", Less(keeps + adds * k * l, S.One, True, {k: (0, 2)})),
            remark="|R| <= keeps + adds |w|, since both are positive",
        )  # fmt: skip
    yield Entry(
        OWN, "step maps, no contraction by the frozen trapezoid",
        "The frozen trapezoid does not contract at every length where |N'| <= kappa L with kappa < 1: for w = -kappa l its "
        "R is below -1 once kappa l > 2.",
        (Less(stability_function("frozen_trapezoid", -k * l - l, l).subs(k, (2 + g) / l), S.NegativeOne, True),), (),
        Mutation("kappa l > 2 read as kappa l > 1",
                 Less(stability_function("frozen_trapezoid", -k * l - l, l).subs(k, (1 + g) / l), S.NegativeOne, True)),
        remark="with kappa l = 2 + g, g > 0; kappa < 1 asks for l > 2",
    )  # fmt: skip


def stiff() -> Iterator[Entry]:
    """One step of h' = -g h against e^-g."""
    backward, middle = (stability_function(name, -g, g) for name in ("backward_euler", "trapezoid"))
    missed, rises = backward - exp(-g), 1 + g - exp(g / 2)
    w, height = Symbol("w", real=True), g / (1 + g) ** 2
    worst = -1 - 2 * LambertW(-exp(-S.Half) / 2, -1)
    yield Entry(
        OWN, "step maps, backward Euler forgets too little", "Backward Euler leaves more than is right: 1/(1 + g) > e^-g.",
        (Less(1 + g, exp(g), True, rising=(g,)), Equal(backward, 1 / (1 + g))), (FROZEN,),
        Mutation("1/(1 + g) read as Euler's 1 - g", Less(exp(-g), 1 - g, True)),
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, backward Euler's largest error",
        "Its error 1/(1 + g) - e^-g is largest at the one g > 0 with e^(g/2) = 1 + g, at g = -1 - 2 w with w e^w = -e^(-1/2)/2, "
        "which is 2.5129, and is g/(1 + g)^2 there, 0.2036.",
        (Equal(missed.diff(g), exp(-g) / (1 + g) ** 2 * (1 + g + exp(g / 2)) * rises), Equal(rises.subs(g, 0), S.Zero),
         Less(rises.diff(g, 2), S.Zero, True), Less(S.Zero, rises.diff(g).subs(g, 0), True), Tends(rises, g, oo, -oo),
         Equal(-exp(w) * rises.subs(g, -1 - 2 * w), exp(-S.Half) + 2 * w * exp(w)),
         Equal(missed - height, -missed.diff(g)), Rounds(worst, "2.5129"), Rounds(height.subs(g, worst), "0.2036")), (FROZEN,),
        Mutation("g/(1 + g)^2 read as g/(1 + g^2)", Rounds((g / (1 + g**2)).subs(g, worst), "0.2036")),
        remark="the derivative has the sign of 1 + g - e^(g/2), which is 0 at 0, rises there, is concave and falls in the end",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, trapezoid forgets too much", "The trapezoid's R is below e^-g, for every g > 0.",
        (Less(middle, exp(-g), True, {g: (2, oo)}), Less(g, log((1 + g / 2) / (1 - g / 2)), True, {g: (0, 2)}, rising=(g,))),
        (FROZEN,), Mutation("below read as above", Less(exp(-g), middle, True)),
        remark="for g < 2 by logarithms: e^g < (1 + g/2)/(1 - g/2); from g = 2 on R is not positive",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, errors of long steps",
        "Of a very long step backward Euler's error tends to 0 and the trapezoid's to -1, in size as much as there was to "
        "forget; exponential Euler has none, of any length.",
        (Tends(missed, g, oo, S.Zero), Tends(middle - exp(-g), g, oo, S.NegativeOne),
         Equal(stability_function("exponential_euler", -g, g), exp(-g))), (FROZEN,),
        Mutation("-1 read as 0", Tends(middle - exp(-g), g, oo, S.Zero)), remark="an error is map minus exact, for h = 1, f = 0",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, long steps of backward Euler",
        "Backward Euler's gate misses 1 by 1/(1 + g), where e^-g is right: to leave 1/100 takes it g = 99, and not 4.605.",
        (Equal(1 - induced_gate("backward_euler", g), 1 / (1 + g)), Equal(backward.subs(g, 99), Rational(1, 100)),
         Rounds(log(100), "4.605")), (FROZEN,),
        Mutation("99 read as 9", Equal(backward.subs(g, 9), Rational(1, 100))),
    )  # fmt: skip


def _power(name: str) -> Expr:
    """What a unit step leaves of h > 0, for h' = -rate |h|^r h with rate h^r = y."""
    start = symbols.positive_h0
    rate = y / start**r
    return step_maps.MAPS[name](lambda u: -rate * Abs(u) ** r * u, lambda u: rate * Abs(u) ** r, start, S.One).doit() / start


def power_factors() -> Iterator[Entry]:
    """y = g |h|^r dt. The exact factor is (1 + r y)^(-1/r), and larger where less is forgotten."""
    exact, start = (1 + r * y) ** (-1 / r), symbols.positive_h0
    H, rate = symbols.signal("h")(symbols.s), Symbol("g", positive=True)
    path = start * (1 + r * rate * start**r * symbols.s) ** (-1 / r)
    logs = Less(log(1 + r * y), r * y, True, rising=(y,))
    yield Entry(
        OWN, "step maps, power decay", "Of h' = -g |h|^r h there is left (1 + r y)^(-1/r), with y = g |h|^r t.",
        (Solves((Eq(H.diff(symbols.s), -rate * H**r * H),), {H: path}, (S.Zero, {H: start})),
         Equal((path / start).subs(symbols.s, y / (rate * start**r)), exact)), POWER,
        Mutation("-1/r read as -1", Equal((path / start).subs(symbols.s, y / (rate * start**r)), 1 / (1 + r * y))),
        remark="for h > 0; the equation is odd in h",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, power decay by exponential Euler",
        "Exponential Euler leaves e^-y of it, less than the exact step for every y > 0: it forgets too much.",
        (Equal(_power("exponential_euler"), exp(-y)), logs), POWER,
        Mutation("e^-y read as Euler's 1 - y", Equal(_power("exponential_euler"), 1 - y)),
        remark="by logarithms: -y < -log(1 + r y)/r; it holds the rate while it should fall",
    )  # fmt: skip
    above, below, middle = 1 + u, Symbol("rho", positive=True), (1 - y / 2) / (1 + y / 2)
    yield Entry(
        OWN, "step maps, power decay by frozen backward Euler",
        "Frozen backward Euler leaves 1/(1 + y): at r = 1 that is exact, for r > 1 it forgets too much, for r < 1 too little.",
        (Equal(_power("frozen_backward_euler"), 1 / (1 + y)), Equal(exact.subs(r, 1), 1 / (1 + y)),
         Less(log(1 + above * y), above * log(1 + y), True, rising=(y,)),
         Less(below * log(1 + y), log(1 + below * y), True, {below: (0, 1)}, rising=(y,))), POWER,
        Mutation("r > 1 and r < 1 exchanged", Less(above * log(1 + y), log(1 + above * y), True)),
        remark="by logarithms, with r = 1 + u, and with rho < 1 for r",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, power decay by the frozen trapezoid",
        "The frozen trapezoid leaves (1 - y/2)/(1 + y/2), and flips the sign iff y > 2.",
        (Equal(_power("frozen_trapezoid"), middle), Less(S.Zero, middle, True, {y: (0, 2)}),
         Less(middle, S.Zero, True, {y: (2, oo)})), POWER,
        Mutation("y > 2 read as y > 1", Less(middle, S.Zero, True, {y: (1, oo)})),
    )  # fmt: skip
    rosenbrock = 1 + (exp(-(r + 1) * y) - 1) / (r + 1)
    yield Entry(
        OWN, "step maps, power decay by Rosenbrock",
        "The exponential Rosenbrock step leaves 1 + (e^(-(r + 1) y) - 1)/(r + 1): more than r/(r + 1), to which it tends, "
        "however long the step.",
        (Equal(_power("exponential_rosenbrock"), rosenbrock),
         Less(r / (r + 1), rosenbrock, True, None, exp(-(r + 1) * y) / (r + 1)), Tends(rosenbrock, y, oo, r / (r + 1))), POWER,
        Mutation("r/(r + 1) read as 1/(r + 1)", Tends(rosenbrock, y, oo, 1 / (r + 1))),
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, power decay by Rosenbrock, too little",
        "It forgets too little at every y > 0, not only at large ones: both factors start at 1, and the exact one falls faster, "
        "by (1 + r y)^(-(r + 1)/r) against e^(-(r + 1) y).",
        (Equal(exact.diff(y), -((1 + r * y) ** (-(r + 1) / r))), Equal(rosenbrock.diff(y), -exp(-(r + 1) * y)),
         Equal(rosenbrock.subs(y, 0), exact.subs(y, 0)), logs,
         Expands(rosenbrock - exact, y, r * (r + 1) * y**3 / 6, 4)), POWER,
        Mutation("r (r + 1) y^3/6 read as with a minus", Expands(rosenbrock - exact, y, -r * (r + 1) * y**3 / 6, 4)),
        remark="by log(1 + r y) < r y; the last statement says by how much at small y",
    )  # fmt: skip


def to_second(e: Expr) -> ImmutableDenseMatrix:
    """Value, slope and second derivative in dt at 0."""
    return column(*(e.diff(dt, k).subs(dt, 0) for k in range(3)))


def power_long() -> Iterator[Entry]:
    """Splitting, backward Euler, and a gate as the rate of a power decay."""
    start, q, rho = symbols.positive_h0, Symbol("q", positive=True), Symbol("rho", positive=True)
    rate = y / start**r
    forgetting = step_maps.power_forgetting(lambda _: rate, r)
    field = (lambda u: -rate * Abs(u) ** r * u, lambda u: rate * Abs(u) ** r, start, S.One)
    exact = (1 + r * y) ** (-1 / r)
    residual = step_maps.backward_euler_residual(field[0], start, rho * start, S.One) / start
    yield Entry(
        OWN, "step maps, power decay by splitting",
        "The splittings leave (1 + r y)^(-1/r): without input they are exact, at any length of the step.",
        (Equal(step_maps.splitting(*field, forgetting) / start, exact),
         Equal(step_maps.strang_splitting(*field, forgetting) / start, exact)), POWER,
        Mutation("the leak's rate held too, e^-y", Equal(step_maps.splitting(*field) / start, exact)),
        remark="of a decay |h|^r h only the rate that multiplies it is held, and not |h|^r",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, power decay by backward Euler",
        "Backward Euler leaves the rho with rho + y rho^(r + 1) = 1. It is in (0, 1) and above the exact factor, for every y > 0 "
        "and r > 0: never a flip, and too little forgotten.",
        (Equal(residual, rho + y * rho ** (r + 1) - 1),
         Less(S.Zero, residual.diff(rho), True), Tends(rho + y * rho ** (r + 1) - 1, rho, 0, S.NegativeOne),
         Equal(residual.subs(rho, 1), y),
         Equal(exact * (1 + y / (1 + r * y)), exact + y * exact ** (r + 1)),
         Less(log(1 + (r + 1) * y), (r + 1) / r * log(1 + r * y), True, rising=(y,))), POWER,
        Mutation("above read as below", Less((r + 1) / r * log(1 + r * y), log(1 + (r + 1) * y), True)),
        remark="the left side rises with rho and is below 1 at the exact factor, by logarithms, with 1 + y/(1 + r y) = (1 + (r + "
               "1) y)/(1 + r y)",
    )  # fmt: skip
    given, driven = g * f, g * (f - start ** (r + 1))
    taylor = start + dt * driven + dt**2 / 2 * driven.diff(start) * driven
    pulled = (lambda u: given - g * Abs(u) ** r * u, lambda u: g * Abs(u) ** r, start, dt)
    by_power = step_maps.power_forgetting(lambda _: g, r)
    lie, strang = (by(*pulled, by_power) for by in (step_maps.splitting, step_maps.strang_splitting))
    more = dt**2 / 2 * (r + 1) * g * start**r * given
    yield Entry(
        OWN, "step maps, splitting a driven power decay",
        "Driven, h' = g (f - |h|^r h), Lie's splitting exceeds the exact step by dt^2/2 (r + 1) g |h|^r g f first, nothing where "
        "f = 0, and Strang's is right in dt^2.",
        (Equal(to_second(lie), to_second(taylor + more)), Equal(to_second(strang), to_second(taylor))),
        ("r > 0", "h > 0", FROZEN),
        Mutation("r + 1 read as r", Equal(to_second(lie), to_second(taylor + more * r / (r + 1)))),
    )  # fmt: skip
    H, softplus = symbols.signal("h")(symbols.s), log(1 + exp(z))
    path = start * (1 + r * g * start**r * symbols.s) ** (-1 / r)
    forgets = step_maps.power_forgetting(lambda _: softplus, r)
    unit = forgets(start, start, S.One)
    flow = (lambda u: -softplus * Abs(u) ** r * u, lambda u: softplus * Abs(u) ** r, start, S.One)
    yield Entry(
        OWN, "step maps, gate on a power decay",
        "A gate sigma(z) read as the rate sp(z) = log(1 + e^z): with power decay the unit step is h (1 + r sp(z) |h|^r)^(-1/r), "
        "the exact flow, and what the splitting does.",
        (Solves((Eq(H.diff(symbols.s), -g * H**r * H),), {H: path}, (S.Zero, {H: start})),
         Equal(path.subs({symbols.s: 1, g: softplus}), unit), Equal(step_maps.splitting(*flow, forgets), unit)),
        ("r > 0", "no input"),
        Mutation("sp(z) read as sigma(z)", Equal(unit, start * (1 + r * sigma(z) * start**r) ** (-1 / r))),
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, gate on a power decay, r to 0",
        "As r -> 0 that is (1 - sigma(z)) h, the gated step; for every r it stays between 0 and h.",
        (Tends((1 + r * q) ** (-1 / r), r, 0, exp(-q)), Equal(exp(-softplus), 1 - sigma(z)),
         Less((1 + r * q) ** (-1 / r), S.One, True, None, None, (q,))), ("r > 0", "no input"),
        Mutation("e^-q read as 1 - q", Tends((1 + r * q) ** (-1 / r), r, 0, 1 - q)),
        remark="with q = sp(z) |h|^r, of which the limit is sp(z)",
    )  # fmt: skip


def units() -> Iterator[Entry]:
    """The size of the Jacobian of Euler's step for two units, by its rows."""
    states, W = ImmutableDenseMatrix(symbols.state(2)), symbols.weights("W_h", 2, 2)
    candidates = (W * states + symbols.biases("b", 2)).applyfunc(tanh)
    D, G = diag(*(1 - candidate**2 for candidate in candidates)), diag(*symbols.biases("g", 2))
    step = euler_step([Eq(one.diff(symbols.t), rate) for one, rate in zip(states, G * (candidates - states), strict=True)])
    jacobian = ImmutableDenseMatrix(2, 2, lambda i, j: Derivative(step[i], states[j]))
    p, q, away, short = (Symbol(name, nonnegative=True) for name in ("p", "q", "e", "s"))
    # An eigenvector (1, x + i v) of a row (m, n), with |x + i v|^2 = 1 - short and m n x = p q (1 - away).
    m, n, x, v = (Symbol(name, real=True) for name in "mnxv")
    value = m + n * (x + I * v)
    grown = p**2 + 2 * p * q * (1 - away) + q**2 * (1 - short)
    k, slow = Symbol("kappa", positive=True), {g: (0, 1)}

    def modes(on: Expr, off: Expr) -> Expr:
        return (eye(2) * (z - 1 + g) - g * ImmutableDenseMatrix([[on, off], [0, 0]])).det()

    yield Entry(
        OWN, "step maps, Jacobian of Euler", "With a constant gate for each unit Euler's Jacobian is I - G + G D W.",
        (Equal(jacobian, eye(2) - G + G * D * W),), ("G is constant", "the input is held over the step"),
        Mutation("G D W read as D W", Equal(jacobian, eye(2) - G + D * W)), remark="checked for 2 units",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, row bound",
        "Every eigenvalue of I - G + G D W is at most max_i(|1 - g_i| + g_i d_i sum_j |W_ij|) in size.",
        (Equal(expand(value * conjugate(value)), m**2 + 2 * m * n * x + n**2 * (x**2 + v**2)),
         Less(grown, (p + q) ** 2, False, None, 2 * p * q * away + q**2 * short),
         Less((p - q) ** 2, (p + q) ** 2, False, None, 4 * p * q)),
        ("G is constant", "d_i = f_i' >= 0, as for tanh"),
        Mutation("|m| + |n| read as the larger of them", Less(grown.subs({away: 0, short: 0, p: q + u}), (q + u) ** 2)),
        remark="for 2 units: of an eigenvector the larger entry is put to 1, and its row is (m, n): the eigenvalue is m + n (x + "
               "i v) with |x + i v|^2 = 1 - s and m n x = |m| |n| (1 - e), e and s >= 0, p = |m|, q = |n|. By the third "
               "statement |1 - g + g d W| <= |1 - g| + g d |W|",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, row bound below 1",
        "That bound is below 1 where every unit has d_i sum_j |W_ij| <= kappa < 1 and g_i < 2/(1 + kappa).",
        (Equal(1 - ((1 - g) + g * k), g * (1 - k)), Equal(1 - ((g - 1) + g * k), (1 + k) * (2 / (1 + k) - g)),
         Less((1 - g) + g * k, S.One, True, {**slow, k: (0, 1)})), ("G is constant",),
        Mutation("kappa < 1 read as kappa < 2", Less((1 - g) + g * k, S.One, True, {**slow, k: (0, 2)})),
        remark="|1 - g| in its two cases; result 3, contracting rates, unit by unit",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, row bound is not reached",
        "The bound may be far above the largest eigenvalue: for W with one entry, off the diagonal, the eigenvalues are 1 - g_i, "
        "whatever that entry.",
        (Equal(Function("det")(z), (z - 1 + g) ** 2, {Function("det")(z): modes(0, p)}),),
        ("g_1 = g_2 and d = 1",),
        Mutation("off the diagonal read as on it", Equal(modes(p, 0), (z - 1 + g) ** 2)),
    )  # fmt: skip


def lstm() -> Iterator[Entry]:
    """Gates frozen: c' = (f - 1) c + i g of leak 1 - f, and h' = o tanh(f c + i g) - h of leak 1."""
    c, given, target, past = (Symbol(name, real=True) for name in ("c", "v", "w", "h"))
    forget, part = Symbol("f", positive=True), Symbol("dt", positive=True)
    cell = (lambda a: (forget - 1) * a + given, lambda a: 1 - forget, c)
    shown = (lambda a: target - a, lambda a: S.One, past)
    euler, exponential = step_maps.euler, step_maps.exponential_euler
    by_euler, by_flow = euler(*cell, part).expand().diff(c), exponential(*cell, part).doit().expand().diff(c)
    held = ("gates are constant over the step", "0 < f < 1")
    yield Entry(
        OWN, "step maps, LSTM's cell by Euler",
        "Euler with step dt multiplies the LSTM's c by 1 - (1 - f) dt: monotone for every dt <= 1 and every gate f, and f itself "
        "at dt = 1, as in torch.nn.LSTM.",
        (Equal(by_euler, 1 - (1 - forget) * part), Less(S.Zero, by_euler, True, {part: (0, 1), forget: (0, 1)}),
         Less(by_euler, S.One, True, {forget: (0, 1)}), Equal(by_euler.subs(part, 1), forget),
         Equal(euler(*cell, S.One), forget * c + given)), held,
        Mutation("dt <= 1 read as dt <= 2", Less(S.Zero, by_euler, True, {part: (0, 2), forget: (0, 1)})),
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, LSTM's cell by exponential Euler",
        "Exponential Euler multiplies c by e^(-(1 - f) dt), at dt = 1 not by f but by more.",
        (Equal(by_flow, exp(-(1 - forget) * part)), Less(1 - u, exp(-u), True, rising=(u,))), held,
        Mutation("more read as less", Less(exp(forget - 1), forget, True, {forget: (0, 1)})), remark="with f = 1 - u",
    )  # fmt: skip
    kept = exponential(*shown, S.One).doit()
    yield Entry(
        OWN, "step maps, LSTM's output",
        "Euler at dt = 1 replaces h altogether; exponential Euler keeps e^-1 of it, and so the exponential map of the LSTM's "
        "field is not torch.nn.LSTM.",
        (Equal(euler(*shown, S.One), target), Equal(kept, exp(-1) * past + (1 - exp(-1)) * target), Fails(Equal(kept, target))),
        held, Mutation("exponential Euler for Euler", Equal(kept, target)), remark="w = o tanh(f c + i g), v = i g",
    )  # fmt: skip


def readings() -> Iterator[Entry]:
    """What a step map makes of the gates of cells that are there: GRU, liquid time constants, the sigmoid."""
    N, A, T, gain = Function("N"), Symbol("A", real=True), Symbol("tau", positive=True), Symbol("f", positive=True)
    D, rate = Function("D"), Symbol("z", positive=True)
    frozen = step_maps.frozen_backward_euler
    yield Entry(
        OWN, "step maps, GRU",
        "With its gate and candidate frozen torch's GRU, (1 - z) n + z h, is the Euler step of the gated cell with rate 1 - z; "
        "exponential Euler makes of it the gate 1 - e^-(1 - z), below 1 - 1/e, backward Euler (1 - z)/(2 - z), below 1/2.",
        (Equal(_step("euler").subs(g, 1 - rate), (1 - rate) * f + rate * h),
         *(Equal(_step(name).subs(g, 1 - rate), h + gate * (f - h))
           for name, gate in (("exponential_euler", 1 - exp(rate - 1)), ("backward_euler", (1 - rate) / (2 - rate)))),
         Less(1 - exp(rate - 1), 1 - exp(-1), True, rising=(rate,)), Less((1 - rate) / (2 - rate), S.Half, True, {rate: (0, 1)})),
        (FROZEN, "0 < z < 1"), Mutation("1 - z read as z", Equal(_step("euler").subs(g, rate), (1 - rate) * f + rate * h)),
        remark="f is n; a sigmoid gate used as a rate cannot replace the state in one exponential or backward Euler step",
    )  # fmt: skip
    yield Entry(
        OWN, "step maps, sigmoid gate as backward Euler",
        "The gate sigma(z) is backward Euler's of the rate e^z, as it is the exact step's of the rate log(1 + e^z).",
        (Equal(induced_gate("backward_euler", g).subs(g, exp(z)), sigma(z)),
         Equal(induced_gate("exponential_euler", g).subs(g, log(1 + exp(z))), sigma(z))), (FROZEN,),
        Mutation("e^z read as log(1 + e^z)", Equal(induced_gate("backward_euler", g).subs(g, log(1 + exp(z))), sigma(z))),
    )  # fmt: skip
    fused = (h + dt * N(h)) / (1 + dt * D(h))
    ltc = (h + dt * gain * A) / (1 + dt * (1 / T + gain))
    yield Entry(
        OWN, "step maps, fused step",
        "The fused step of liquid time-constant networks, (h + dt N)/(1 + dt D) for h' = N - D h, is the frozen backward Euler "
        "step; theirs has N = f A and D = 1/tau + f.",
        (Equal(frozen(lambda a: N(a) - D(a) * a, D, h, dt), fused),
         Equal(frozen(lambda a: gain * A - (1 / T + gain) * a, lambda a: 1 / T + gain, h, dt), ltc)), (),
        Mutation("the frozen trapezoid for it", Equal(step_maps.frozen_trapezoid(lambda a: N(a) - D(a) * a, D, h, dt), fused)),
        remark="Hasani et al. 2021, the fused solver; f is their gate at the state and input of the step",
    )  # fmt: skip
