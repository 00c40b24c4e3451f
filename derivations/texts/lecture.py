r"""Huth's lecture: the leaky and the gated network from a change of time, and what a bias says about a time scale.

c(t) = floor(a t), 0 < a <= 1     repeats every symbol 1/a times, if 1/a is whole
h' = a g(...) - a h               unit Euler step: h_{t+1} = a g(...) + (1 - a) h_t, a convex combination for a in [0, 1]
r = sigma(b)                      b = -log(1/r - 1); for r = 1/50 that is -log 49 = -3.89, and log10 49 = 1.69
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from sympy import Eq, Expr, Function, Rational, S, Sum, Symbol, exp, log, tanh

from derivations.argument.clocks import change_of_time, right_sides
from derivations.argument.taylor import euler_step
from derivations.claim import Correction, Entry, Mutation
from derivations.prover import symbols
from derivations.prover.cases import Every
from derivations.prover.identity import column
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Rounds
from derivations.twins.fields import sigma

__all__ = ["entries"]

SLIDES = "huth-2020-lecture-slides"
t = symbols.t
a, rate = Symbol("a", positive=True), Symbol("r", positive=True)
activation = Function("g", real=True)
(h,), (x,) = symbols.state(1), symbols.inputs(1)
w_x, w_h, b = (Symbol(name, real=True) for name in ("W_x", "W_h", "b"))
pulled = activation(w_x * x + w_h * h + b)
plain = [Eq(h.diff(t), pulled - h, evaluate=False)]
RATE = {rate: (0, 1)}
LETTERS = "the extraction writes the digit 1 for the letter l"


def entries() -> Iterator[Entry]:
    return chain(words(), derivation(), gates(), biases())


def played(word: str, repeats: tuple[int, ...]) -> str:
    return "".join(letter * n for letter, n in zip(word, repeats, strict=True))


def floored(word: str, slowness: int) -> str:
    """x[floor(t / slowness)] until the word ends."""
    return "".join(word[n // slowness] for n in range(slowness * len(word)))


def same(what: str, pairs: tuple[tuple[str, str], ...]) -> Every:
    def cases() -> Iterator[tuple[Mapping[str, Any], bool]]:
        for found, printed in pairs:
            yield {"letters": len(found), "printed": len(printed)}, found == printed

    return Every(what, cases)


def words() -> Iterator[Entry]:
    """The repeated word."""
    twice = (2,) * 7
    uneven = (2, 3, 2, 1, 1, 4)
    yield Entry(
        SLIDES, "time scaling, task",
        "With every letter of [h e l l o t h] given twice the input is [h h e e l l l l o o t t h h], and the letter before it, "
        "[_ _ h h e e l l l l o o t t], is the same task.",
        (same("input and target", ((floored("helloth", 2), "hheellllootthh"), (played("_hellot", twice), "__hheelllloott"))),),
        mutation=Mutation("the target one step later only", same("target", (("_" + "hheelllloottt"[:13], "__hheelllloott"),))),
    )  # fmt: skip
    yield Entry(
        SLIDES, "time scaling, floor", "With c(t) = floor(a t) and a = 0.5, x[c(t)] of [h e l l o] is [h h e e l l o o].",
        (same("a = 1/2", ((floored("hello", 2), "hheelloo"),)),),
        correction=Correction(
            "It is [h h e e l l l l o o]: both letters l are doubled, and none is lost.",
            (same("a = 1/2", ((floored("hello", 2), "hheelllloo"),)),),
        ),
        remark=f"{LETTERS}; the slide before prints l l l l for the same doubling",
    )  # fmt: skip
    yield Entry(
        SLIDES, "time scaling, speeds", "With 0 < a <= 1 the clock floor(a t) repeats letters and leaves none out.",
        (Every("a = p/q, 1 <= p <= q <= 8, t < 64", lambda: increments(lambda p, q: p <= q, (0, 1))),), ("0 < a <= 1",),
        Mutation("a <= 1 read as a <= 2", Every("p <= 2 q", lambda: increments(lambda p, q: p <= 2 * q, (0, 1)))),
        remark="for a above 1 letters are lost",
    )  # fmt: skip
    yield Entry(
        SLIDES, "time warping, task",
        "[h h e e e l l l o t t t t] has letters repeated at random, and [_ _ h h h e e l l o o o o] is the letter before.",
        (same("repeated 2, 3, 2, 1, 1 and 4 times",
              ((played("hellot", uneven), "hheeelllotttt"), (played("_hello", uneven), "__hhheelloooo"))),),
        mutation=Mutation("repeated 2, 3, 1, 2, 1 and 4 times",
                          same("other repeats", ((played("_hello", (2, 3, 1, 2, 1, 4)), "__hhheelloooo"),))),
        remark=f"the word is [h e l l o t], its two l given twice and once; {LETTERS}",
    )  # fmt: skip


def increments(is_meant: Callable[[int, int], bool], allowed: tuple[int, ...]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    for q in range(1, 9):
        for p in range(1, 2 * q + 1):
            if is_meant(p, q):
                yield {"p": p, "q": q}, all((n + 1) * p // q - n * p // q in allowed for n in range(64))


def derivation() -> Iterator[Entry]:
    """From the recurrent network to the leaky and the gated one, for any activation g."""
    c, r = symbols.c(t), symbols.signal("r")(t)
    scaled, warped = change_of_time(plain, a * t), change_of_time(plain, c)
    learned = tuple(equation.xreplace({c.diff(t): r}) for equation in warped)

    def same_as(equations: Iterable[Eq], right: Expr) -> Equal:
        return Equal(right_sides(equations), column(right))

    yield Entry(
        SLIDES, "invariance, ODE", "h_{t+1} = g(Wx x_t + Wh h_t + b) is the unit Euler step of dh/dt = g(Wx x + Wh h + b) - h.",
        (Equal(euler_step(plain), column(pulled)),),
        mutation=Mutation("- h read as + h", Equal(euler_step([Eq(h.diff(t), pulled + h)]), column(pulled))),
    )  # fmt: skip
    yield Entry(
        SLIDES, "invariance, scaled", "Replacing t with a t gives dh/dt = a g(Wx x + Wh h + b) - a h.",
        (same_as(scaled, a * pulled - a * h),), ("a > 0",),
        Mutation("- a h read as - h", same_as(scaled, a * pulled - h)),
    )  # fmt: skip
    yield Entry(
        SLIDES, "invariance, leaky", "Its recurrence is h_{t+1} = a g(Wx x_t + Wh h_t + b) + (1 - a) h_t.",
        (Equal(euler_step(scaled), column(a * pulled + (1 - a) * h)),), ("a > 0",),
        Mutation("1 - a read as 1 + a", Equal(euler_step(scaled), column(a * pulled + (1 + a) * h))),
    )  # fmt: skip
    yield convexity()
    yield Entry(
        SLIDES, "warping, ODE", "With a replaced by dc(t)/dt the equation holds for any clock: dh/dt = c' g(...) - c' h.",
        (same_as(warped, c.diff(t) * pulled - c.diff(t) * h),),
        mutation=Mutation("c' read as c", same_as(warped, c * pulled - c * h)),
    )  # fmt: skip
    yield Entry(
        SLIDES, "warping, gated", "With c' learned as r_t its recurrence is h_{t+1} = r_t g(...) + (1 - r_t) h_t.",
        (Equal(euler_step(learned), column(r * pulled + (1 - r) * h)),),
        mutation=Mutation("1 - r_t read as r_t", Equal(euler_step(learned), column(r * pulled + r * h))),
    )  # fmt: skip


def convexity() -> Entry:
    """u is the update, h the last state, and the new state is between them: (new - h)(u - new) >= 0."""
    update, last = Symbol("u", real=True), Symbol("h", real=True)

    def new(a: Expr) -> Expr:
        return a * update + (1 - a) * last

    def between(a: Expr, form: Expr | None) -> Less:
        return Less(S.Zero, (new(a) - last) * (update - new(a)), rewritten=form)

    share = rate / (1 + rate)
    return Entry(
        SLIDES, "invariance, convex",
        "The new state is a convex combination of the update and the last state: it lies between them.",
        (between(share, share * (1 - share) * (update - last) ** 2), Equal(new(S.One), update)), ("0 < a <= 1",),
        Mutation("a < 1 read as any a > 0", between(rate, None)),
        remark="a is written r/(1 + r), r > 0, which is any number between 0 and 1",
    )  # fmt: skip


def gates() -> Iterator[Entry]:
    """The gated network beside the LSTM's cell."""
    f, i, previous, proposed = (Symbol(name, real=True) for name in ("f", "i", "c", "c~"))
    z, steps = Symbol("z", real=True), Symbol("n", positive=True)
    cell = f * previous + i * proposed
    tied = cell.subs({f: 1 - rate, i: rate})
    yield Entry(
        SLIDES, "warping, LSTM", "With f = 1 - r and i = r the LSTM's c_t = f c_{t-1} + i c~_t is the gated update.",
        (Equal(tied, previous + rate * (proposed - previous)),), ("the input and forget gates are tied",),
        Mutation("f = 1 - r read as f = r", Equal(cell.subs({f: rate, i: rate}), previous + rate * (proposed - previous))),
    )  # fmt: skip
    yield Entry(
        SLIDES, "warping, sigmoid", "A sigmoid ensures 0 <= r_t <= 1.",
        (Less(S.Zero, sigma(z)), Less(sigma(z), S.One, rewritten=1 / (1 + exp(z)))),
        mutation=Mutation("sigma read as tanh", Less(S.Zero, tanh(z))), remark="both ends are never reached",
    )  # fmt: skip
    yield Entry(
        SLIDES, "bias, forgetting time", "1/r_t is how many time steps pass until one un-warped step has passed.",
        (Equal(Sum(rate, (Symbol("k", integer=True), 1, steps)).doit().subs(steps, 1 / rate), S.One),), ("r_t is constant",),
        Mutation("1/r_t read as 1/(1 - r_t)", Equal(rate / (1 - rate), S.One)),
    )  # fmt: skip


def biases() -> Iterator[Entry]:
    """The bias for letters repeated about 50 times."""
    z = Symbol("b_r", real=True)
    inverse = -log(1 / rate - 1)
    part = Symbol("u", positive=True)
    yield Entry(
        SLIDES, "bias, inverse", "r_t = sigma(b_r) for average input and state 0, so b_r = -log(1/r_t - 1).",
        (Equal(sigma(inverse.subs(rate, part / (1 + part))), part / (1 + part)),), ("0 < r < 1", "x = h = 0"),
        Mutation("1/r - 1 read as 1/r + 1", Equal(sigma(-log(1 / rate + 1)), rate)),
        remark="r is written u/(1 + u), u > 0, which is any number between 0 and 1",
    )  # fmt: skip
    yield Entry(
        SLIDES, "bias, rate", "1/r_t = 50 is r_t = 0.02.", (Rounds(Rational(1, 50), "0.02"),),
        mutation=Mutation("50 read as 5", Rounds(Rational(1, 5), "0.02")),
    )  # fmt: skip
    fifty = inverse.subs(rate, Rational(1, 50))
    yield Entry(
        SLIDES, "bias, value", "For r_t = 0.02 the bias is -log(1/r_t - 1) = -1.69.", (Rounds(fifty, "-1.69"),),
        correction=Correction(
            "It is -log 49 = -3.89 with the natural logarithm that sigma needs; 1.69 is the logarithm of 49 to base 10, and "
            "sigma(-1.69) = 0.156 forgets in 6 steps, not in 50.",
            (Rounds(fifty, "-3.89"), Rounds(-log(49) / log(10), "-1.69"), Rounds(sigma(Rational(-169, 100)), "0.156"),
             Rounds(1 / sigma(Rational(-169, 100)), "6")),
        ),
    )  # fmt: skip
    yield Entry(
        SLIDES, "bias, forget gate", "By similar arguments the bias on the forget gate is the negative, b_f = 1.69.",
        (Equal(1 - sigma(z), sigma(-z)), Rounds(-fifty, "1.69")),
        correction=Correction("It is the negative, but of the right number: b_f = 3.89.",
                              (Equal(1 - sigma(z), sigma(-z)), Rounds(-fifty, "3.89"))),
        remark="1 - sigma(b) = sigma(-b) holds; the number is the one printed before",
    )  # fmt: skip
