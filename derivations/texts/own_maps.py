r"""Step maps of our own package, one by one: what gate each makes, what it multiplies a mode by, and what it drops.

h' = g (f - h), f and g held    h + G (f - h) with G = 1 - R(-g): the gate that a step map makes of a rate
h' = lambda h                   R(z), z = lambda dt, with l = L dt of what the map takes for the leak
exact - map                     order and leading term, for any F(h) and any leak L(h), expanded by the checker
g > 0                           monotone, overshooting, marginal or divergent; what is left against e^-g
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sympy import (
    Abs,
    CRootOf,
    Derivative,
    Expr,
    Function,
    I,
    LambertW,
    Rational,
    S,
    Subs,
    Symbol,
    conjugate,
    exp,
    expand,
    fraction,
    log,
    oo,
    sinh,
    sstr,
    tanh,
    together,
)

from derivations.claim import Entry, Equal, Expands, Less, Mutation, Rounds, Tends, changed
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.twins.step_maps import induced_factors, induced_gate, local_error, maps, read, stability_function

__all__ = ["FROZEN", "own", "frozen_step", "titled", "dt", "f", "g", "h", "r", "u", "y", "z"]

dt = symbols.dt
h, f, z = (Symbol(name, real=True) for name in "hfz")
g, l, u, y = (Symbol(name, positive=True) for name in "gluy")
r = symbols.r
# Implicit steps solve for the new state: of h' = lambda h this has a solution but for one z.
SOLVABLE = {"backward_euler": "z is not 1", "trapezoid": "z is not 2"}
EXPONENTIAL = ("exponential_euler", "etd2", "etdrk4", "fitted_midpoint", "exponential_rosenbrock")
FROZEN = "f and g are constant over the step"


def _said(e: Expr) -> str:
    """As the words write it: g^2/2 - g for g**2/2 - g, e^-g for exp(-g)."""
    text = re.sub(r"exp\((-?\w)\)", r"e^\1", sstr(e, order="rev-lex")).replace("exp(", "e^(")
    text = re.sub(r"-(e\^-\w) \+ 1", r"1 - \1", text)
    return text.replace("**", "^").replace("*", " ")


def titled(name: str) -> str:
    """What a sentence calls the step map of that name."""
    return maps()[name].title


def _another(name: str, fact: str) -> Expr:
    """What the next step map says in that place, if it is something else: a mutation of what this one says."""
    names = [*maps()]
    texts = [getattr(maps()[other], fact) for other in names[names.index(name) :] + names]
    return _value(next(text for text in texts if text and text != texts[0]))


def _value(text: str) -> Expr:
    letters = {"F" + "'" * k: Symbol("F" + "'" * k, real=True) for k in range(5)} | {"L": Symbol("L", real=True)}
    return read(text, g=g, z=z, l=l, h=h, dt=dt, **letters)


def gates() -> Iterator[Entry]:
    """What a unit step makes of h' = g (f - h)."""
    R, G = Function("R"), Symbol("G")
    for name, made in maps().items():
        if made.gate:
            gate, other = _value(made.gate), _another(name, "gate")
            yield own(f"step maps, gate of {made.title}", given=FROZEN).says(
                f"With f and g frozen and dt = 1, {made.title} is h + G (f - h) with G = {_said(gate)}, which is 1 - R(-g).",
                takes(name, (1 - gate) * h + gate * f),
                Equal(R(-g) + G, S.One, {R(-g): stability_function(name, -g, g), G: gate}),
                mutation=Mutation(f"{_said(gate)} read as {_said(other)}", Equal(frozen_step(name), h + other * (f - h))),
            )
    for name, made in maps().items():
        if made.keeps_and_writes:
            keeps, writes = map(_value, made.keeps_and_writes)
            yield own(f"step maps, gate of {made.title}", given=FROZEN).says(
                f"{made.title.capitalize()} makes no gate: with f and g frozen and dt = 1 it keeps {_said(keeps)} of h "
                f"and writes {_said(writes)} of f.",
                Equal(frozen_step(name), keeps * h + writes * f),
                mutation=changed(f"{_said(writes)} read as 1 - {_said(keeps)}", rhs=keeps * h + (1 - keeps) * f),
            )
    lie, strang, step = g * f / (1 - exp(-g)), f * (g / 2) / sinh(g / 2), Function("step")
    yield own("step maps, fixed point of Lie's splitting", given=FROZEN).says(
        "Lie's splitting rests at g f/(1 - e^-g), further out than f for every g > 0.",
        Equal(step(lie), lie, {step(lie): frozen_step("splitting").subs(h, lie)}),
        Less(1 - exp(-g), g, True, rising=(g,)),
        mutation=Mutation("g f/(1 - e^-g) read as f", Equal(frozen_step("splitting").subs(h, f), f)),
    )
    yield own("step maps, fixed point of Strang's splitting", given=FROZEN).says(
        "Strang's splitting rests at f (g/2)/sinh(g/2), nearer to 0 than f for every g > 0.",
        Equal(step(strang), strang.rewrite(exp), {step(strang): frozen_step("strang_splitting").subs(h, strang).rewrite(exp)}),
        Less(g / 2, sinh(g / 2), True, rising=(g,)),
        mutation=Mutation("sinh(g/2) read as tanh(g/2)", Less(g / 2, tanh(g / 2), True)),
    )


def frozen_step(name: str) -> Expr:
    """The unit step of h' = g (f - h)."""
    return maps()[name](lambda u: g * (f - u), lambda u: g, h, S.One).doit()


def takes(name: str, value: Expr) -> Equal:
    """The unit step of h' = g (f - h) takes h to a value: that satisfies the equation of the map, if that is implicit."""
    return Equal(maps()[name].after(lambda u: g * (f - u), lambda u: g, h, S.One, {"h'": value}).doit(), value)


def factors() -> Iterator[Entry]:
    """R(z), with l = L dt."""
    rate, leak, length = Symbol("lambda", real=True), Symbol("L", positive=True), Symbol("dt", positive=True)
    modes = {z: rate * length, l: leak * length}
    for name, made in maps().items():
        other, value = _another(name, "factor"), _value(made.factor) * h
        after = made.after(lambda u: rate * u, lambda _: leak, h, length, {"h'": value}).doit()
        yield own(f"step maps, R of {made.title}", given=SOLVABLE.get(name, ())).says(
            f"Of h' = lambda h = (lambda + L) h - L h, with z = lambda dt and l = L dt, {made.title} multiplies h by R(z).",
            Equal(after, value, modes),
            mutation=Mutation(f"R(z) read as {_said(other)}", Equal(stability_function(name, z, l), other)),
            remark="R(z) h satisfies the map's equation" if made.is_implicit else "",
        )


def local_errors() -> Iterator[Entry]:
    """Exact minus map, of any smooth F and L."""
    F, G, x, t = Function("F", real=True), Function("G", real=True), Function("h", real=True), symbols.t
    slope = Subs(Derivative(G(u), u), u, x(t))
    yield own("step maps, solution").says(
        "Along a solution of h' = F(h) any G(h) moves with F G'. So the k-th derivative is (F d/dh)^k h, and h(t + dt) the sum "
        "of dt^k/k! (F d/dh)^k h.",
        Equal(Derivative(G(x(t)), t), F(x(t)) * slope, {x(t).diff(t): F(x(t))}),
        mutation=changed("G' read as G", rhs=F(x(t)) * G(x(t))),
    )
    names = list(maps())
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        made, (missed, leading) = maps()[name], local_error(name)
        implicit = "; an implicit map's equation with the solution put in for h', of which the step differs by dt^(p + 2) only"
        held = "; what is forgotten is 1 - e^(-L dt), the rate held"
        yield own(f"step maps, local error of {made.title}", given="the input is held over the step").says(
            f"Exact minus map, {made.title} drops a term in dt^{made.order + 1} first, and so is of order {made.order}.",
            Expands(missed, symbols.dt, leading, made.order + 2),
            mutation=changed(f"the term read as that of {titled(other)}", terms=local_error(other)[1]),
            remark="F and L are any functions of one unit, smooth at h"
            + (held if made.keeps_and_writes else "")
            + (implicit if made.is_implicit else ""),
        )


def without_leak() -> Iterator[Entry]:
    """Every map that asks for the leak, beside the one that does not and is the same where there is none."""
    F, leak = Function("F", real=True), Symbol("L", real=True)
    old = {"exponential_euler": "euler", "frozen_backward_euler": "euler", "frozen_trapezoid": "euler", "splitting": "euler",
           "etd2": "heun", "etdrk4": "runge_kutta4", "fitted_midpoint": "midpoint", "strang_splitting": "midpoint"}  # fmt: skip
    steps = {name: maps()[name].after(F, lambda _: leak, h, dt, {}).doit() for names in old.items() for name in names}
    yield own("step maps, without a leak", given="L goes to 0").says(
        "As L goes to 0 the exponential, the frozen and the split maps become old ones, for any F: Euler, Heun (ETD2), the "
        "classical Runge-Kutta step (ETD-RK4) and the midpoint rule (Strang, and the fitted one).",
        *(Expands(steps[name], leak, steps[other], 1) for name, other in old.items()),
        mutation=Mutation("ETD2 read as the midpoint rule", Expands(steps["etd2"], leak, steps["midpoint"], 1)),
    )


def regions() -> Iterator[Entry]:
    """R(-g) for g > 0; Euler's regions are result 3."""
    second, third = (1 + (1 - g) ** 2) / 2, g**3 - 4 * g**2 + 12 * g - 24
    fourth = 1 - g + g**2 / 2 - g**3 / 6 + g**4 / 24
    middle, R = (1 - g / 2) / (1 + g / 2), Function("R")(-g)
    yield own("step maps, second order in g", given=FROZEN).says(
        "The Taylor step, the midpoint rule and Heun's never overshoot, for their R(-g) = (1 + (1 - g)^2)/2 is at least 1/2: no "
        "gate of theirs is above 1/2. They approach f for g < 2, keep their distance at g = 2, and diverge beyond.",
        *(Equal(R, second, {R: stability_function(name, -g, g)}) for name in ("taylor2", "midpoint", "heun")),
        Less(S.Half, second),
        Less(second, S.One, True, {g: (0, 2)}, g * (2 - g) / 2),
        Equal(second, S.One, {g: S(2)}),
        Less(S.One, second, True, {g: (2, oo)}, g * (g - 2) / 2),
        mutation=Mutation("g < 2 read as g < 3", Less(second, S.One, True, {g: (0, 3)})),
    )
    yield own("step maps, fourth order in g", given=FROZEN).says(
        "The classical Runge-Kutta step never overshoots, R(-g) > 0, and approaches f up to the one real root of g^3 - 4 g^2 + "
        "12 g - 24, which is 2.785; there it keeps its distance, and beyond it diverges.",
        Equal(R, fourth, {R: stability_function("runge_kutta4", -g, g)}),
        Equal(1 - fourth, -g * third / 24),
        Less(S.Zero, fourth, True, None, ((g**2 - 2 * g) ** 2 + 8 * (g - Rational(3, 2)) ** 2 + 6) / 24),
        Less(S.Zero, third.diff(g), True, None, 3 * (g - Rational(4, 3)) ** 2 + Rational(20, 3)),
        Rounds(CRootOf(third, 0), "2.785"),
        mutation=changed("2.785 read as 2.875", printed="2.875"),
        remark="the cubic increases, so it is negative before its root and positive beyond, and 1 - R the other way round",
    )
    yield own("step maps, monotone for every g", given=FROZEN).says(
        "Backward Euler, its frozen form and the exponential maps approach f monotonically for "
        "every g > 0: 1/(1 + g) and e^-g are in (0, 1).",
        *(takes(name, (h + g * f) / (1 + g)) for name in ("backward_euler", "frozen_backward_euler")),
        *(takes(name, exp(-g) * h + (1 - exp(-g)) * f) for name in EXPONENTIAL),
        Less(S.Zero, 1 / (1 + g), True),
        Less(1 / (1 + g), S.One, True),
        Less(S.Zero, exp(-g), True),
        Less(exp(-g), S.One, True, rising=(g,)),
        mutation=Mutation("Euler's factor for theirs", Less(S.Zero, induced_factors("euler", g)[0], True)),
    )
    yield own("step maps, trapezoid in g", given=FROZEN).says(
        "The trapezoid and its frozen form are monotone up to g = 2; beyond, they alternate about f and still approach it, for "
        "every g, ever more slowly: R tends to -1, and the gate g/(1 + g/2) not to 1 but to 2.",
        *(takes(name, (h * (1 - g / 2) + g * f) / (1 + g / 2)) for name in ("trapezoid", "frozen_trapezoid")),
        Less(S.Zero, middle, True, {g: (0, 2)}),
        Equal(middle, S.Zero, {g: S(2)}),
        Less(middle, S.Zero, True, {g: (2, oo)}),
        Less(S.NegativeOne, middle, True),
        Less(middle, S.One, True),
        Tends(middle, g, oo, S.NegativeOne),
        Tends(induced_gate("trapezoid", g), g, oo, S(2)),
        mutation=Mutation("2 read as 1", Tends(induced_gate("trapezoid", g), g, oo, S.One)),
    )


def half_planes() -> Iterator[Entry]:
    """Modes of any kind: z = -a + i b with a >= 0, and modes within kappa l of the leak."""
    a, b, k = Symbol("a", nonnegative=True), Symbol("b", real=True), Symbol("kappa", positive=True)
    w = Symbol("w", real=True)
    R = Function("R")

    def square(name: str) -> Expr:
        """|R|^2, above and below multiplied out: the real number below is positive, and no case is left out."""
        parts = fraction(together(stability_function(name, -a + I * b, l)))
        above, below = (expand(part * conjugate(part)) for part in parts)
        return above / below

    once, twice = (a * (2 + a) + b**2) / ((1 + a) ** 2 + b**2), 2 * a / ((1 + a / 2) ** 2 + b**2 / 4)
    size = Abs(R(-a + I * b)) ** 2
    yield own("step maps, left half-plane").says(
        "|R(z)| <= 1 wherever Re z <= 0, for backward Euler and for the trapezoid, here with z = -a + i b; on "
        "the imaginary axis the trapezoid has |R| = 1.",
        Equal(1 - size, once, {size: square("backward_euler")}),
        Less(S.Zero, once),
        Equal(1 - size, twice, {size: square("trapezoid")}),
        Less(S.Zero, twice),
        mutation=Mutation("Euler for backward Euler", Less(expand(square("euler")), S.One)),
    )
    gate, n = 1 - exp(-l), "|N'| <= kappa L at the state, with kappa < 1"
    sides = {"exponential_euler": (exp(-l), gate / l, gate), "frozen_backward_euler": (1 / (1 + l), 1 / (1 + l), l / (1 + l))}
    for name, (keeps, adds, room) in sides.items():
        yield own(f"step maps, contraction by {titled(name)}", given=("L is constant, or held", n)).says(
            f"Where recurrence is weaker than the leak, |N'| <= kappa L with kappa < 1, {titled(name)} contracts at any length "
            f"of the step. With w = N' dt = z + l its factor is R = {_said(keeps)} + w ({_said(adds)}), and 1 - |R| is at least "
            f"(1 - kappa) ({_said(room)}).",
            Equal(R(w - l), keeps + adds * w, {R(w - l): stability_function(name, w - l, l)}),
            Less(S.Zero, keeps, True, None, None, (l,)),
            Less(S.Zero, adds * l, True, None, room, (l,)),
            Equal(1 - (keeps + adds * k * l), room * (1 - k)),
            mutation=Mutation("kappa < 1 read as kappa < 2", Less(keeps + adds * k * l, S.One, True, {k: (0, 2)})),
            remark="|R| <= keeps + adds |w|, since both are positive",
        )
    yield own("step maps, no contraction by the frozen trapezoid").says(
        "The frozen trapezoid does not contract at every length where |N'| <= kappa L with kappa < 1: for w = "
        "-kappa l its R is below -1 once kappa l > 2.",
        Less(stability_function("frozen_trapezoid", -k * l - l, l).subs(k, (2 + g) / l), S.NegativeOne, True),
        mutation=changed(
            "kappa l > 2 read as kappa l > 1", lower=stability_function("frozen_trapezoid", -k * l - l, l).subs(k, (1 + g) / l)
        ),
        remark="with kappa l = 2 + g, g > 0; kappa < 1 asks for l > 2",
    )


def stiff() -> Iterator[Entry]:
    """One step of h' = -g h against e^-g."""
    backward, middle = (stability_function(name, -g, g) for name in ("backward_euler", "trapezoid"))
    missed, rises = backward - exp(-g), 1 + g - exp(g / 2)
    w, height = Symbol("w", real=True), g / (1 + g) ** 2
    worst = -1 - 2 * LambertW(-exp(-S.Half) / 2, -1)
    yield own("step maps, backward Euler forgets too little", given=FROZEN).says(
        "Backward Euler leaves more than is right: 1/(1 + g) > e^-g.",
        Less(1 + g, exp(g), True, rising=(g,)),
        takes("backward_euler", (h + g * f) / (1 + g)),
        mutation=Mutation("1/(1 + g) read as Euler's 1 - g", Less(exp(-g), 1 - g, True)),
    )
    yield own("step maps, backward Euler's largest error", given=FROZEN).says(
        "Its error 1/(1 + g) - e^-g is largest at the one g > 0 with e^(g/2) = 1 + g, at g = -1 - 2 w with w e^w = -e^(-1/2)/2, "
        "which is 2.5129, and is g/(1 + g)^2 there, 0.2036.",
        Equal(missed.diff(g), exp(-g) / (1 + g) ** 2 * (1 + g + exp(g / 2)) * rises),
        Equal(rises, S.Zero, {g: S.Zero}),
        Less(rises.diff(g, 2), S.Zero, True),
        Less(S.Zero, rises.diff(g).subs(g, 0), True),
        Tends(rises, g, oo, -oo),
        Equal(-exp(w) * rises.subs(g, -1 - 2 * w), exp(-S.Half) + 2 * w * exp(w)),
        Equal(missed - height, -missed.diff(g)),
        Rounds(worst, "2.5129"),
        Rounds(height.subs(g, worst), "0.2036"),
        mutation=Mutation("g/(1 + g)^2 read as g/(1 + g^2)", Rounds((g / (1 + g**2)).subs(g, worst), "0.2036")),
        remark="the derivative has the sign of 1 + g - e^(g/2), which is 0 at 0, rises there, is concave and falls in the end",
    )
    yield own("step maps, trapezoid forgets too much", given=FROZEN).says(
        "The trapezoid's R is below e^-g, for every g > 0.",
        Less(middle, exp(-g), True, {g: (2, oo)}),
        Less(g, log((1 + g / 2) / (1 - g / 2)), True, {g: (0, 2)}, rising=(g,)),
        mutation=Mutation("below read as above", Less(exp(-g), middle, True)),
        remark="for g < 2 by logarithms: e^g < (1 + g/2)/(1 - g/2); from g = 2 on R is not positive",
    )
    yield own("step maps, errors of long steps", given=FROZEN).says(
        "Of a very long step backward Euler's error tends to 0 and the trapezoid's to -1, in size as much as there was to "
        "forget; exponential Euler has none, of any length.",
        Tends(missed, g, oo, S.Zero),
        Tends(middle - exp(-g), g, oo, S.NegativeOne),
        takes("exponential_euler", exp(-g) * h + (1 - exp(-g)) * f),
        mutation=changed("-1 read as 0", expression=middle - exp(-g)),
        remark="an error is map minus exact, for h = 1, f = 0",
    )
    yield own("step maps, long steps of backward Euler", given=FROZEN).says(
        "Backward Euler's gate misses 1 by 1/(1 + g), where e^-g is right: to leave 1/100 takes it g = 99, and not 4.605.",
        takes("backward_euler", h / (1 + g) + f * (1 - 1 / (1 + g))),
        Equal(backward, Rational(1, 100), {g: S(99)}),
        Rounds(log(100), "4.605"),
        mutation=Mutation("99 read as 9", Equal(backward.subs(g, 9), Rational(1, 100))),
    )
