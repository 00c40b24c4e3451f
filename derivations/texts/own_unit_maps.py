r"""Step maps of our own package for several units, for the LSTM, and as they are read; and where steps flip.

One unit with a recurrence, h' = g (tanh(w h + b) - h), does not flip, but its steps do. With y = g dt, s = sech^2(w h + b)
and z = y (w s - 1) a step's multiplier at a point of rest of the equation is 1 - G + G w s for the maps that hold the target,
and R(z) for the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import (
    Derivative,
    Expr,
    Function,
    I,
    ImmutableDenseMatrix,
    Rational,
    S,
    Symbol,
    conjugate,
    exp,
    expand,
    eye,
    log,
    tanh,
)

from derivations.claim import Entry, Equal, Fails, Less, Mutation, changed
from derivations.texts.own_maps import FROZEN, dt, f, frozen_step, g, h, own, titled, u, z
from derivations.twins.fields import sigma
from derivations.twins.step_maps import induced_gate, maps, stability_function

b = Symbol("b", real=True)
w = Symbol("w", real=True)
v, y = Symbol("v", positive=True), Symbol("y", positive=True)  # v = -w
G = Symbol("G", positive=True)
INPUT = "the input is held over the step"


def units() -> Iterator[Entry]:
    """The size of the Jacobian of Euler's step for two units, by its rows."""
    p, q, away, short = (Symbol(name, nonnegative=True) for name in ("p", "q", "e", "s"))
    # An eigenvector (1, x + i v) of a row (m, n), with |x + i v|^2 = 1 - short and m n x = p q (1 - away).
    m, n, x, v = (Symbol(name, real=True) for name in "mnxv")
    value = m + n * (x + I * v)
    grown = p**2 + 2 * p * q * (1 - away) + q**2 * (1 - short)
    k, slow = Symbol("kappa", positive=True), {g: (0, 1)}

    def modes(on: Expr, off: Expr) -> Expr:
        return (eye(2) * (z - 1 + g) - g * ImmutableDenseMatrix([[on, off], [0, 0]])).det()

    yield own("step maps, row bound", given=("G is constant", "d_i = f_i' >= 0, as for tanh")).says(
        "Every eigenvalue of I - G + G D W is at most max_i(|1 - g_i| + g_i d_i sum_j |W_ij|) in size.",
        Equal(expand(value * conjugate(value)), m**2 + 2 * m * n * x + n**2 * (x**2 + v**2)),
        Less(grown, (p + q) ** 2, False, None, 2 * p * q * away + q**2 * short),
        Less((p - q) ** 2, (p + q) ** 2, False, None, 4 * p * q),
        mutation=Mutation("|m| + |n| read as the larger of them", Less(grown.subs({away: 0, short: 0, p: q + u}), (q + u) ** 2)),
        remark="for 2 units: of an eigenvector the larger entry is put to 1, and its row is (m, n): the eigenvalue is m + n (x + "
        "i v) with |x + i v|^2 = 1 - s and m n x = |m| |n| (1 - e), e and s >= 0, p = |m|, q = |n|. By the third "
        "statement |1 - g + g d W| <= |1 - g| + g d |W|",
    )
    yield own("step maps, row bound below 1", given="G is constant").says(
        "That bound is below 1 where every unit has d_i sum_j |W_ij| <= kappa < 1 and g_i < 2/(1 + kappa).",
        Less((1 - g) + g * k, S.One, True, {**slow, k: (0, 1)}),
        Less((g - 1) + g * k, S.One, True, {g: (1, 2 / (1 + k)), k: (0, 1)}),
        mutation=changed("kappa < 1 read as kappa < 2", region={**slow, k: (0, 2)}),
        remark="|1 - g| in its two cases, g = 1 being in between; result 3, contracting rates, unit by unit",
    )
    yield own("step maps, row bound is not reached", given="g_1 = g_2 and d = 1").says(
        "The bound may be far above the largest eigenvalue: for W with one entry, off the diagonal, the "
        "eigenvalues are 1 - g_i, whatever that entry.",
        Equal(Function("det")(z), (z - 1 + g) ** 2, {Function("det")(z): modes(0, p)}),
        mutation=Mutation("off the diagonal read as on it", Equal(modes(p, 0), (z - 1 + g) ** 2)),
    )


def lstm() -> Iterator[Entry]:
    """Gates frozen: c' = (f - 1) c + i g of leak 1 - f, and h' = o tanh(f c + i g) - h of leak 1."""
    c, given, target, past = (Symbol(name, real=True) for name in ("c", "v", "w", "h"))
    forget, part = Symbol("f", positive=True), Symbol("dt", positive=True)
    cell = (lambda a: (forget - 1) * a + given, lambda a: 1 - forget, c)
    shown = (lambda a: target - a, lambda a: S.One, past)
    euler, exponential = maps()["euler"], maps()["exponential_euler"]
    by_euler, by_flow = euler(*cell, part).expand().diff(c), exponential(*cell, part).doit().expand().diff(c)
    held = ("gates are constant over the step", "0 < f < 1")
    yield own("step maps, LSTM's cell by Euler", given=held).says(
        "Euler with step dt multiplies the LSTM's c by 1 - (1 - f) dt: monotone for every dt <= 1 and every gate f, "
        "and f itself at dt = 1, as in torch.nn.LSTM.",
        Equal(by_euler, 1 - (1 - forget) * part),
        Less(S.Zero, by_euler, True, {part: (0, 1), forget: (0, 1)}),
        Less(by_euler, S.One, True, {forget: (0, 1)}),
        Equal(by_euler, forget, {part: S.One}),
        Equal(euler(*cell, S.One), forget * c + given),
        mutation=changed("dt <= 1 read as dt <= 2", region={part: (0, 2), forget: (0, 1)}),
    )
    yield own("step maps, LSTM's cell by exponential Euler", given=held).says(
        "Exponential Euler multiplies c by e^(-(1 - f) dt), at dt = 1 not by f but by more.",
        Equal(by_flow, exp(-(1 - forget) * part)),
        Less(1 - u, exp(-u), True, rising=(u,)),
        mutation=Mutation("more read as less", Less(exp(forget - 1), forget, True, {forget: (0, 1)})),
        remark="with f = 1 - u",
    )
    kept = exponential(*shown, S.One).doit()
    yield own("step maps, LSTM's output", given=held).says(
        "Euler at dt = 1 replaces h altogether; exponential Euler keeps e^-1 of it, and so the exponential "
        "map of the LSTM's field is not torch.nn.LSTM.",
        Equal(euler(*shown, part), target, {part: S.One}),
        Equal(kept, exp(-1) * past + (1 - exp(-1)) * target),
        Fails(Equal(kept, target)),
        mutation=changed("exponential Euler for Euler", lhs=kept),
        remark="w = o tanh(f c + i g), v = i g",
    )


def readings() -> Iterator[Entry]:
    """What a step map makes of the gates of cells that are there: GRU, liquid time constants, the sigmoid."""
    N, A, T, gain = Function("N"), Symbol("A", real=True), Symbol("tau", positive=True), Symbol("f", positive=True)
    D, rate = Function("D"), Symbol("z", positive=True)
    frozen = maps()["frozen_backward_euler"]
    yield own("step maps, GRU", given=(FROZEN, "0 < z < 1")).says(
        "With its gate and candidate frozen torch's GRU, (1 - z) n + z h, is the Euler step of the gated cell with rate 1 - z; "
        "exponential Euler makes of it the gate 1 - e^-(1 - z), below 1 - 1/e, backward Euler (1 - z)/(2 - z), below 1/2.",
        Equal(frozen_step("euler").subs(g, 1 - rate), (1 - rate) * f + rate * h),
        *(
            Equal(frozen_step(name).subs(g, 1 - rate), h + gate * (f - h))
            for name, gate in (("exponential_euler", 1 - exp(rate - 1)), ("backward_euler", (1 - rate) / (2 - rate)))
        ),
        Less(1 - exp(rate - 1), 1 - exp(-1), True, rising=(rate,)),
        Less((1 - rate) / (2 - rate), S.Half, True, {rate: (0, 1)}),
        mutation=changed("1 - z read as z", lhs=frozen_step("euler").subs(g, rate)),
        remark="f is n; a sigmoid gate used as a rate cannot replace the state in one exponential or backward Euler step",
    )
    yield own("step maps, sigmoid gate as backward Euler", given=FROZEN).says(
        "The gate sigma(z) is backward Euler's of the rate e^z, as it is the exact step's of the rate log(1 + e^z).",
        Equal(induced_gate("backward_euler", g).subs(g, exp(z)), sigma(z)),
        Equal(induced_gate("exponential_euler", g).subs(g, log(1 + exp(z))), sigma(z)),
        mutation=changed("e^z read as log(1 + e^z)", lhs=induced_gate("backward_euler", g).subs(g, log(1 + exp(z)))),
    )
    fused = (h + dt * N(h)) / (1 + dt * D(h))
    ltc = (h + dt * gain * A) / (1 + dt * (1 / T + gain))
    yield own("step maps, fused step", given=("1 + dt D(h) is not 0", "1 + dt (1/tau + f) is not 0")).says(
        "The fused step of liquid time-constant networks, (h + dt N)/(1 + dt D) for h' = N - D h, is the frozen backward "
        "Euler step; theirs has N = f A and D = 1/tau + f.",
        Equal(frozen(lambda a: N(a) - D(a) * a, D, h, dt), fused),
        Equal(frozen(lambda a: gain * A - (1 / T + gain) * a, lambda a: 1 / T + gain, h, dt), ltc),
        mutation=changed("the frozen trapezoid for it", lhs=maps()["frozen_trapezoid"](lambda a: N(a) - D(a) * a, D, h, dt)),
        remark="Hasani et al. 2021, the fused solver; f is their gate at the state and input of the step",
    )


def equation() -> Iterator[Entry]:
    slope = tanh(b - v * h) - h
    yield own("unit, one point of rest", given=INPUT).says(
        "For w < 0 the right-hand side of h' = g (tanh(w h + b) - h) falls in h, is positive at h = -1 and negative at h = 1: it "
        "has one zero, and every state moves towards it.",
        Equal(Derivative(slope, h), -v * (1 - tanh(b - v * h) ** 2) - 1),
        Less(-v * (1 - tanh(b - v * h) ** 2) - 1, S.Zero, True),
        Less(S.Zero, slope.subs(h, -1), True),
        Less(slope.subs(h, 1), S.Zero, True),
        mutation=changed("w < 0 read as w > 0", lower=v * (1 - tanh(b + v * h) ** 2) - 1),
        remark="v is -w; that a continuous function which falls and changes its sign has one zero is not proved here",
    )
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
        Equal(1 - G + G * w * sech, S.NegativeOne, {w: at}),
        Less(G, 2 - G, True, {G: (0, 1)}, 2 * (1 - G)),
        mutation=changed("(2 - G)/G read as (1 - G)/G", where={w: -(1 - G) / (G * sech)}),
    )


def gates() -> Iterator[Entry]:
    """The recurrence is in the target: what the step holds is all of tanh(w h + b)."""
    made = {
        "exponential_euler": (1 - exp(-g * dt), g * dt),
        "frozen_backward_euler": (g * dt / (1 + g * dt), 1 - exp(-g * dt)),
        "frozen_trapezoid": (g * dt / (1 + g * dt / 2), g * dt / (1 + g * dt)),
    }
    for name, (gate, other) in made.items():
        step = maps()[name](lambda x: g * (tanh(w * x + b) - x), lambda x: g, h, dt).doit()
        pull = tanh(w * h + b) - h
        said = {"exponential_euler": "1 - e^(-g dt)", "frozen_backward_euler": "g dt/(1 + g dt)"}.get(name, "g dt/(1 + g dt/2)")
        yield own(f"unit, gate of {titled(name)}", given=(INPUT, "g is constant", "dt > 0")).says(
            f"On h' = g (tanh(w h + b) - h) {titled(name)} is the Euler map with the gate G = {said}, and flips where that does.",
            Equal(step, (1 - gate) * h + gate * (pull + h)),
            mutation=changed("another map's gate", rhs=h + other * pull),
        )


def no_flip() -> Iterator[Entry]:
    """1 + R(z) > 0 for every z that a step may have there."""
    second = ((z + 1) ** 2 + 3) / 2
    fourth = (z**2 + 2 * z) ** 2 / 24 + (z + Rational(3, 2)) ** 2 / 3 + Rational(5, 4)
    rewritten = {"taylor2": second, "midpoint": second, "heun": second, "runge_kutta4": fourth}
    for name, gap in rewritten.items():
        R = stability_function(name, z, S.Zero).doit()
        yield own(f"unit, no flip of {titled(name)}", given=INPUT).says(
            f"At a point of rest of the equation the multiplier R(z) of {titled(name)} is above -1 for every real z: "
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
        R = stability_function(name, z, y).doit()
        yield own(f"unit, no flip of {titled(name)}", given=INPUT).says(
            f"Where the equation's point of rest is stable, z < 0, the multiplier {said} of {titled(name)} is above -1 for every "
            "step: no flip.",
            Equal(multiplier / R, S.One, {z: -y}),
            Less(S.NegativeOne, multiplier, True),
            mutation=changed("-1 read as 1", lower=S.One),
            remark="y is -z",
        )
