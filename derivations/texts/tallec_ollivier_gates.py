r"""Tallec and Ollivier 2018, sections 2 and 3 and appendix A: gates, biases, and the tasks' own arithmetic.

g in [1/Tmax, 1/Tmin]             b = -log(T - 1), for sigma(-log(T - 1)) = 1/T
LSTM (11)-(15)                    chrono (16): b_f = log u, u in [1, Tmax - 1], is T = u + 1 in [2, Tmax]
copy: T + 20 characters           10 log 8/(T + 20) with one bit of memory, more without any
adding: variance of a sum         1/6 = 0.167
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Expr, Integral, Rational, S, Sum, Symbol, cosh, diff, exp, expand_log, log, oo, tanh

from derivations.argument import lstm
from derivations.claim import Correction, Entry, Mutation
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Fails, Rounds, Tends
from derivations.twins.fields import sigma

__all__ = ["entries"]

PAPER = "tallec-ollivier-2018"
T, u, x, z = Symbol("T", positive=True), Symbol("u", positive=True), Symbol("x", positive=True), Symbol("z", real=True)
LONGEST, SHORTEST = Symbol("T_max", positive=True), Symbol("T_min", positive=True)
CENTRED = "x = h = 0"


def entries() -> Iterator[Entry]:
    return chain(ranges(), networks(), copying(), adding(), appendix())


def bias(scale: Expr) -> Expr:
    """-log(T - 1)."""
    return -log(scale - 1)


def ranges() -> Iterator[Entry]:
    """Section 2 and footnote 7."""
    b, spread = Symbol("b_g", real=True), Symbol("s", positive=True)
    above, longer = SHORTEST + u, SHORTEST + u + x
    yield Entry(
        PAPER, "sec. 2, range", "A memory between Tmin and Tmax amounts to values of g in [1/Tmax, 1/Tmin].",
        (Less(1 / longer, 1 / above, True), Less(1 / above, 1 / SHORTEST, True)),
        ("0 < Tmin < T < Tmax",), Mutation("1/Tmin read as 1/Tmax", Less(1 / above, 1 / longer, True)),
        remark="with T = Tmin + u and Tmax = T + x, u and x positive",
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 2, biases", "sigma(b_g) is in [1/Tmax, 1/Tmin] for b_g from -log(Tmax - 1) to -log(Tmin - 1).",
        (Equal(sigma(bias(1 + u)), 1 / (1 + u)), Less(S.Zero, diff(sigma(z), z), True)), ("T > 1",),
        Mutation("-log(T - 1) read as -log(T)", Equal(sigma(-log(T)), 1 / T)),
        remark="T = 1 + u, u > 0; sigma increases, so that the ends go to the ends",
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 2, shortest scale", "The biases -log(T - 1) need T > 1: at T -> 1 the bias grows beyond all bounds.",
        (Tends(bias(T), T, 1, oo),), mutation=Mutation("T -> 1 read as T -> 2", Tends(bias(T), T, 2, oo)),
        remark="not said in print, where Tmin may be any time",
    )  # fmt: skip
    mean = (sigma(b + spread) + sigma(b - spread)) / 2
    B, E = Symbol("B", positive=True), Symbol("E", positive=True)
    lifted = (E / (E + B) + 1 / (1 + B * E)) / 2
    yield Entry(
        PAPER, "sec. 2, centre",
        "With centred inputs and states g(t) takes values centred around sigma(b_g): their median, not their mean.",
        (Less(S.Zero, diff(sigma(z), z), True), Fails(Equal(mean, sigma(b))), Equal(mean.subs({b: -log(B), spread: log(E)}),
         lifted),
         Less(1 / (1 + B), lifted, True, {B: (1, oo), E: (1, oo)}), Equal(mean.subs(b, 0), Rational(1, 2))),
        ("the gate's argument is symmetric about b_g",), Mutation("their mean", Equal(mean, sigma(b))),
        remark="sigma increases, so that it takes medians to medians. For an argument that is b + s or b - s with equal chance, "
               "b = -log B and s = log E, the mean is larger for b < 0, where long memories are, and equal at 0",
    )  # fmt: skip
    yield Entry(
        PAPER, "footnote 7", "With T drawn at random the gates' biases are initialized to log(T).",
        (Equal(sigma(log(1 + u)), 1 / (1 + u)),),
        correction=Correction(
            "A gate of time range T has bias -log(T - 1), as in the text; log(T) makes it T/(T + 1), which forgets at once. "
            "log(T - 1) is right for a forget gate, 1 - 1/T.",
            (Equal(sigma(bias(1 + u)), 1 / (1 + u)), Equal(sigma(log(T)), T / (1 + T)), Equal(sigma(log(u)), 1 - 1 / (1 + u))),
        ),
        remark="T = 1 + u, u > 0",
    )  # fmt: skip
    law = 1 / (x * log(x) ** 2)
    yield Entry(
        PAPER, "footnote 7, distribution", "P(T = k) proportional to 1/(k log(k + 1)^2) is a distribution with slow decay.",
        (Equal(-diff(1 / log(x), x), law), Tends(1 / log(x), x, oo, S.Zero), Less(log(1 + x), log(2 + x), True,
         rewritten=log(1 + 1 / (1 + x))), Tends(x / log(x + 1), x, oo, oo)),
        mutation=Mutation("log^2 read as log", Equal(-diff(1 / log(x), x), 1 / (x * log(x)))),
        remark="it sums: each term from k = 2 on is less than 1/(k log(k)^2), whose integral is -1/log; and k P(T > k) is "
               "unbounded, as k/log(k + 1) is, so that T has no mean",
    )  # fmt: skip


def networks() -> Iterator[Entry]:
    """Eqs. (11) to (16)."""
    known = {identity.label: identity for identity in lstm.identities()}
    weights = {name: Symbol(name, real=True) for name in ("W_x", "W_h", "x", "h")}
    argument = weights["W_x"] * weights["x"] + weights["W_h"] * weights["h"]
    rest = {weights["x"]: 0, weights["h"]: 0}

    def gate(b: Expr) -> Expr:
        return sigma(argument + b).subs(rest)

    scale = 1 + u
    yield Entry(
        PAPER, "eq. 11", "The input gate i = sigma(Wxi x + Whi h + b_i) lies around 1/T for b_i = -log(T - 1).",
        (Equal(gate(-log(scale - 1)), 1 / scale),), (CENTRED, "T > 1"),
        Mutation("b_i = log(T - 1)", Equal(gate(log(scale - 1)), 1 / scale)),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 12", "The forget gate f = sigma(Wxf x + Whf h + b_f) lies around 1 - 1/T for b_f = log(T - 1).",
        (Equal(gate(log(scale - 1)), 1 - 1 / scale),), (CENTRED, "T > 1"),
        Mutation("b_f = log(T)", Equal(gate(log(scale)), 1 - 1 / scale)),
    )  # fmt: skip
    for label in ("eq. 13", "eq. 15"):
        found = known[label]
        yield Entry(
            PAPER, label, found.statement, (Equal(found.lhs, found.rhs),), found.assumptions,
            Mutation("the right side doubled", Equal(found.lhs, 2 * found.rhs)),
        )  # fmt: skip
    cell = Symbol("c", real=True)
    yield Entry(
        PAPER, "eq. 14", "The output gate o = sigma(...) keeps |h| = o |tanh(c)| below 1 in (15), whatever the cell.",
        (Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z))), Less(S.Zero, 1 - tanh(cell) ** 2, True,
         rewritten=1 / cosh(cell) ** 2)),
        mutation=Mutation("tanh(c) read as c", Less(sigma(z) * cell, S.One)),
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 2, tied", "1 - g corresponds to f and g to i: with b_i = -b_f the two gates add to 1 at the start.",
        (Equal(sigma(z) + sigma(-z), S.One),), (CENTRED,), Mutation("b_i = b_f", Equal(2 * sigma(z), S.One)),
    )  # fmt: skip
    scale = u + 1
    yield Entry(
        PAPER, "eq. 16", "b_f = log(u), u uniform on [1, Tmax - 1], and b_i = -b_f give time ranges T = u + 1 from 2 to Tmax.",
        (Equal(sigma(log(u)), 1 - 1 / scale), Equal(sigma(-log(u)), 1 / scale), Equal(scale.subs(u, 1), S(2)),
         Equal(scale.subs(u, LONGEST - 1), LONGEST)),
        ("Tmax > 2", CENTRED), Mutation("[1, Tmax - 1] read as [1, Tmax]", Equal(scale.subs(u, LONGEST), LONGEST)),
        remark="the same draw as b_g = -log(U - 1) of the text with Tmin = 2",
    )  # fmt: skip


def copying() -> Iterator[Entry]:
    """The copy task: lengths, delays, baselines."""
    n, place = Symbol("T", integer=True, positive=True), Symbol("k", integer=True)
    yield Entry(
        PAPER, "sec. 3, copy", "Input and target have T + 20 characters: 10 + (T - 1) + 1 + 10, and (T + 10) + 10.",
        (Equal(10 + (n - 1) + 1 + 10, n + 20), Equal((n + 10) + 10, n + 20)),
        mutation=Mutation("T - 1 dummies read as T", Equal(10 + n + 1 + 10, n + 20)),
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 3, copy, delay",
        "The task is about remembering a sequence for exactly T timesteps: from its end to the signal.",
        (Equal((10 + n - 1) - 9, n), Equal((n + 10 + place) - place, n + 10)),
        mutation=Mutation("each character for T steps", Equal((n + 10 + place) - place, n)),
        remark="steps counted from 0: the last character is read at step 9, the signal at T + 9; each character itself is "
               "written T + 10 steps after it was read",
    )  # fmt: skip
    blind = ((T - 1) * log((T + 9) / (T - 1)) + 10 * log(8 * (T + 9) / 10)) / (T + 20)
    told = 10 * log(8) / (T + 20)
    later = 1 + u
    extra = (T - 1) * log((T + 9) / (T - 1)) + 10 * log((T + 9) / 10)
    yield Entry(
        PAPER, "sec. 3, copy, baseline", "The best that a memoryless model can do is a loss of 10 log(8)/(T + 20).",
        (Less(blind.subs(T, later), told.subs(T, later)),),
        correction=Correction(
            "That is the best of a model that remembers one bit, whether the signal has come: log 8 at 10 of T + 20 places. "
            "Without any memory the dummies before and after the signal look the same, and the best is more, by ((T - 1) log((T "
            "+ 9)/(T - 1)) + 10 log((T + 9)/10))/(T + 20).",
            (Equal(-Sum(Rational(1, 8) * log(Rational(1, 8)), (Symbol("k"), 1, 8)).doit() * 10 / (T + 20), told),
             Equal(expand_log(((blind - told) * (T + 20)).subs(T, later), force=True), expand_log(extra.subs(T, later),
             force=True)),
             Less(S.Zero, log((10 + u) / u), True, rewritten=log(1 + 10 / u)),
             Less(S.Zero, log((10 + u) / 10), True, rewritten=log(1 + u / 10))),
        ),
        remark="a memoryless model gives each input character a distribution; on the dummy, T - 1 targets are dummies and 10 are "
               "letters",
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 3, copy, T_max", "T_max = 3T/2 is a bit larger than the input length T + 20, for the T of the figure.",
        (Less(S(520), Rational(3 * 500, 2), True), Less(S(2020), Rational(3 * 2000, 2), True)), ("T > 40",),
        Mutation("T = 500 read as T = 30", Less(S(50), Rational(3 * 30, 2), True)),
    )  # fmt: skip


def adding() -> Iterator[Entry]:
    """The adding task's baseline."""
    y = Symbol("y", positive=True)

    def expected(e: Expr) -> Expr:
        return Integral(e, (x, 0, 1), (y, 0, 1))

    yield Entry(
        PAPER, "sec. 3, adding, mean", "The best a memoryless model can do on the adding task is to predict the mean, namely 1.",
        (Equal(expected(x + y), S.One), Equal(diff(expected((x + y - z) ** 2).doit(), z).subs(z, 1), S.Zero)),
        mutation=Mutation("1 read as 2", Equal(expected(x + y), S(2))),
        remark="printed as the mean of 2 x U([0, 1]); the sum of two draws is meant, see the error below",
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 3, adding, baseline", "Such a model reaches a mean squared error of 0.167.",
        (Equal(expected((x + y - 1) ** 2), Rational(1, 6)), Rounds(Rational(1, 6), "0.167")),
        mutation=Mutation("the sum of two draws read as twice one draw", Rounds(Rational(1, 3), "0.167")),
    )  # fmt: skip


def appendix() -> Iterator[Entry]:
    """Appendix A: images and highway networks."""
    yield Entry(
        PAPER, "app. A, MNIST", "T_max = 784 is the length of an image of 28 by 28 pixels read one by one.",
        (Equal(S(28) ** 2, S(784)),), mutation=Mutation("28 read as 27", Equal(S(27) ** 2, S(784))),
    )  # fmt: skip
    yield Entry(
        PAPER, "app. A, RHN, average", "T_max = 11 gives an average bias log(U(1, T_max)) close to 2.",
        (Equal(Integral(log(x), (x, 1, 11)) / 10, (11 * log(11) - 10) / 10), Rounds((11 * log(11) - 10) / 10, "2")),
        mutation=Mutation("close to 2 read as 2.0", Rounds((11 * log(11) - 10) / 10, "2.0")),
        remark="it is 1.64, which is 2 to the digit printed",
    )  # fmt: skip
    yield Entry(
        PAPER, "app. A, RHN", "With b = log(u), u in (1, T_max), carry gates get the bias -b and transform gates b.",
        (Less(Rational(1, 2), sigma(-log(u)), region={u: (1, oo)}),),
        correction=Correction(
            "The signs are exchanged: the carry gate keeps the state and must be near 1, u/(u + 1) with bias b; the transform "
            "gate writes, 1/(u + 1) with bias -b. As printed more than half is forgotten at every step.",
            (Equal(sigma(log(u)), u / (u + 1)), Equal(sigma(-log(u)), 1 / (u + 1)),
             Less(Rational(1, 2), u / (u + 1), True, {u: (1, oo)})),
        ),
        remark="in a highway step s = t (new) + c s the carry gate c multiplies the old state; such a sign convention may be "
               "hidden in the code that was used",
    )  # fmt: skip
