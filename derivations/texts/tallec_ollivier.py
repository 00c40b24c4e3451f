r"""Tallec and Ollivier 2018, section 1: from time warping invariance to gating.

    h' = tanh(Wx x + Wh h + b) - h            (3)    unit Euler step: the RNN (2)
    on the clock alpha t: alpha (...)         (4)    the leaky RNN (5)
    on a clock c(t): c'(t) (...)              (6)    c' learned as g: (7), the gated RNN (8), with g = sigma(...) (9)
    a gate for each unit                             (10)

The identities are those of `leaky`, `gated` and `clocks`; here each gets what must turn its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Eq, Expr, Integral, Rational, S, Symbol, exp, oo, sqrt, tanh

from derivations.argument import clocks, gated, leaky, lstm
from derivations.argument.clocks import change_of_time, right_sides
from derivations.argument.taylor import euler_step
from derivations.claim import Entry, Mutation
from derivations.closure import EVERY_WARP, NONE, RESCALING, Closes
from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Expands, Solves
from derivations.twins import fields
from derivations.twins.fields import sigma

__all__ = ["entries"]

PAPER = "tallec-ollivier-2018"
t, alpha, dt, h0 = symbols.t, symbols.alpha, symbols.dt, symbols.h0
g, z, f = Symbol("g", positive=True), Symbol("z", real=True), Symbol("f", real=True)
POSITIVE = "alpha > 0"


def entries() -> Iterator[Entry]:
    return chain(rescaling(), warping(), gates(), discrete_time())


def of_paper(*chapters: list[Identity]) -> dict[str, Identity]:
    return {identity.label: identity for chapter in chapters for identity in chapter if identity.source == PAPER}


def from_identity(identity: Identity, words: str, wrong: Expr) -> Entry:
    """The identity as an entry, and a right side that must be refuted."""
    return Entry(
        PAPER, identity.label, identity.statement, (Equal(identity.lhs, identity.rhs),), identity.assumptions,
        Mutation(words, Equal(identity.lhs, wrong)),
    )  # fmt: skip


def rescaling() -> Iterator[Entry]:
    """Eqs. (1) to (5), footnotes 2 and 3."""
    known = of_paper(leaky.identities(), clocks.identities())
    plain, half = fields.plain(), Rational(1, 2)
    clock, n = clocks.clock(alpha * t), Symbol("n", positive=True)
    h = column(*plain.state)
    leaky_step = known["eq. 5"]
    yield Entry(
        PAPER, "eq. 1", "c(t) = alpha t maps [0, oo) onto itself and increases; a character every 10 steps is alpha = 0.1.",
        (Less(S.Zero, clock.speed, True), Equal(alpha * clock.inverse, t), Equal((alpha * t).subs({alpha: Rational(1, 10),
         t: 10 * n}), n)),
        (POSITIVE,), Mutation("alpha = 0.1 read as alpha = 10", Equal((alpha * t).subs({alpha: 10, t: 10 * n}), n)),
    )  # fmt: skip
    yield from_identity(known["eq. 2"], "with half a step", euler_step(plain, half))
    yield Entry(
        PAPER, "eq. 3", "(3) is the field of which (2) is the Taylor expansion with dt = 1: (2) minus h_t, per unit of time.",
        (Equal(plain.flow, column(*(leaky.candidate(plain, i) for i in range(2))) - h),),
        mutation=Mutation("- h read as + h", Equal(plain.flow, column(*(leaky.candidate(plain, i) for i in range(2))) + h)),
    )  # fmt: skip
    yield from_identity(known["footnote 2"], "c'(t) left out", known["footnote 2"].rhs / symbols.c(t).diff(t))
    yield from_identity(known["eq. 4"], "alpha before tanh only", known["eq. 4"].rhs + (alpha - 1) * h)
    yield from_identity(leaky_step, "1 - alpha read as 1 + alpha", leaky_step.rhs + 2 * alpha * h)
    yield from_identity(
        known["below eq. 5"], "alpha beta read as alpha + beta", fields.leaky(1, 2).substitute(alpha=alpha + symbols.beta).flow
    )
    yield from_identity(known["footnote 3"], "the rate doubled", column(1, 1) * h0)
    yield Entry(
        PAPER, "sec. 1, ordinary RNNs", "The class of ordinary recurrent networks is not invariant to time rescaling.",
        (Closes(plain, NONE),), mutation=Mutation("not invariant read as invariant", Closes(plain, RESCALING)),
        remark="decided for the fields (3), as the paper does",
    )  # fmt: skip
    slower = 1 - sqrt(1 / (1 + g))
    yield Entry(
        PAPER, "sec. 1, leaky RNNs", "The class of leaky RNNs (5) is invariant to time rescaling, as that of the fields (4) is.",
        (Closes(fields.leaky(), RESCALING), Equal((1 - slower) ** 2, 1 - g / (1 + g)), Less(S.Zero, slower, True,
         rising=(g,))),
        ("in continuous time", "of (5) itself: an input given a whole number of times, and Wh = 0"),
        Mutation("alpha/2 for an input given twice", Equal((1 - g / (1 + g) / 2) ** 2, 1 - g / (1 + g))),
        remark="alpha = g/(1 + g); given twice, (5) with 1 - sqrt(1 - alpha) keeps and takes in as much as alpha does once. With "
               "recurrence the candidate moves between the two steps, and (5) follows (4) to first order only",
    )  # fmt: skip


def warping() -> Iterator[Entry]:
    """Eqs. (6) and (7), footnotes 4 and 6."""
    known = of_paper(gated.identities())
    c, s = symbols.c, Symbol("s", real=True)
    plain = fields.plain()
    six, seven = known["eq. 6"], known["eq. 7"]
    speed = symbols.g
    yield from_identity(six, "the decay not multiplied", six.rhs + column(*((c(t).diff(t) - 1) * h for h in plain.state)))
    yield from_identity(seven, "g before tanh only", seven.rhs + column(*((speed(t) - 1) * h for h in plain.state)))
    learned = Integral(speed(s), (s, 0, t))
    yield Entry(
        PAPER, "footnote 4",
        "Learning the speed g or the clock itself is equivalent: the clock is the integral of g from 0 to t.",
        (Equal(learned.diff(t), speed(t)), Equal(learned.subs(t, 0), S.Zero), Equal((alpha * t).diff(t), alpha)),
        mutation=Mutation("the integral of g read as that of g^2", Equal(Integral(speed(s) ** 2, (s, 0, t)).diff(t), speed(t))),
        remark="a rescaling is the clock of constant speed",
    )  # fmt: skip
    free, (h, *_), rate = Symbol("h_0", real=True), symbols.state(1), symbols.g
    memory = free * exp(-learned)
    yield Entry(
        PAPER, "sec. 1, local forgetting",
        "1/g(t0) is the local forgetting time: what is kept of the past decays at the rate g(t).",
        (Solves((Eq(h.diff(t), -rate(t) * h),), {h: memory}, (S.Zero, {h: free})), Equal(-memory.diff(t) / memory, rate(t))),
        ("x = 0", "b = 0", "Wh = 0"), Mutation("1/g read as g", Equal(-memory.diff(t) / memory, 1 / rate(t))),
    )  # fmt: skip
    warped = right_sides(change_of_time(plain, c(t)))
    yield Entry(
        PAPER, "footnote 6", "The weights (Wx, Wh, b) are the same for h(t) in (3) and h(c(t)) in (6).",
        (Equal(warped / c(t).diff(t), plain.flow),), ("c' > 0",),
        Mutation("c' taken into the weights", Equal(warped, column(*(leaky.candidate(plain, i).subs(plain.parameters["b"][i],
                 c(t).diff(t) * plain.parameters["b"][i]) - u for i, u in enumerate(plain.state))))),
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 1, ordinary RNNs, warps", "A fortiori the class of ordinary networks is not invariant to time warpings.",
        (Closes(plain, NONE),), mutation=Mutation("none read as every warp", Closes(plain, EVERY_WARP)),
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 1, quasi-invariance", "The class (7) is invariant to time warpings as far as g can learn their speed.",
        (Closes(fields.gated(gate="global"), EVERY_WARP),),
        ("c' is a function of the data so far", "g may be any function of the data in its range", "c' g < 1 for a sigmoid g"),
        Mutation("every warp read as rescaling", Closes(fields.gated(gate="global"), RESCALING)),
    )  # fmt: skip


def gates() -> Iterator[Entry]:
    """Eqs. (8) to (10)."""
    known = of_paper(gated.identities())
    eight, nine, ten = known["eq. 8"], known["eq. 9"], known["eq. 10"]
    network = fields.gated(gate="network")
    units, states = range(2), column(*fields.plain().state)
    rate = symbols.g(t)
    yield from_identity(eight, "1 - g read as 1 + g", eight.rhs + 2 * rate * states)
    own = sigma(sum(
        (network.parameters["W_gh"][0, j] * network.state[2 + j] for j in units),
        network.parameters["W_gx"][0, 0] * network.inputs[0] + network.parameters["b_g"][0],
    ))  # fmt: skip
    shared = change_of_time(fields.plain(), symbols.c(t))
    main = column(*(e.rhs.xreplace({symbols.c(t).diff(t): own}) for e in shared))
    yield Entry(
        PAPER, "eq. 9",
        "(7) with g = sigma(Wgx x + Wgh h^g + b_g), h^g a recurrent network of its own, is the field on [h, h^g].",
        (Equal(main, column(*network.flow[:2])),),
        mutation=Mutation("g read as 1 - g", Equal((1 / own - 1) * main, column(*network.flow[:2]))),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 9, reused", "Current architectures reuse for h^g the states h of the main network.",
        (Equal(nine.lhs, nine.rhs),), mutation=Mutation("g read as 1 - g", Equal(nine.lhs, nine.lhs - nine.rhs)),
        remark="the global gated field",
    )  # fmt: skip
    yield from_identity(
        ten, "1 - g^i read as 1 + g^i", ten.rhs + 2 * column(*(gated.gate(fields.gated(), i) * states[i] for i in units))
    )
    cell = of_paper(lstm.identities())["below eq. 10"]
    yield from_identity(cell, "the right side doubled", 2 * cell.rhs)


def discrete_time() -> Iterator[Entry]:
    """How far (8) is from (7), and the range of g."""
    kept, step = exp(-g), 1 - g
    yield Entry(
        PAPER, "sec. 1, Taylor",
        "The Taylor expansion is valid, and (8) close to (7), when g is not much above 1: with the candidate held, what a step "
        "keeps differs by less than g^2/2, and by 1/e at g = 1.",
        (Less(S.Zero, kept - step, True, rising=(g,)), Less(kept - step, g**2 / 2, True, rising=(g,)),
         Expands(kept - step, g, g**2 / 2, 3), Equal((kept - step).subs(g, 1), exp(-1))),
        ("g > 0", "the candidate is constant over the step"),
        Mutation("g^2/2 read as g^3/2", Less(kept - step, g**3 / 2)),
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 1, too fast",
        "Warpings that make things happen too fast are beyond discrete gated models: for g > 1 a step passes its candidate, and "
        "for g > 2 it ends further away than it began, where the field comes closer for every g.",
        (Less(step, S.Zero, True, {g: (1, oo)}), Less(step, -S.One, True, {g: (2, oo)}), Less(kept, S.One, True, rising=(g,))),
        mutation=Mutation("g > 2 read as g > 1", Less(step, -S.One, True, {g: (1, oo)})),
    )  # fmt: skip
    u = Symbol("u", positive=True)
    yield Entry(
        PAPER, "sec. 1, stretching",
        "Discrete gated models are invariant to warpings that stretch time: where c' <= 1, c' g is a sigmoid gate again.",
        (Less(u * g, S.One, True, {u: (0, 1), g: (0, 1)}), Less(S.Zero, u * g, True)),
        ("c' <= 1", "0 < g < 1"), Mutation("c' <= 1 read as c' <= 2", Less(u * g, S.One, True, {u: (0, 2), g: (0, 1)})),
        remark="of the gate's range; a discrete sequence is stretched by repeating, see result 11 of this project",
    )  # fmt: skip
    yield Entry(
        PAPER, "sec. 1, sigmoid", "The constraints g > 0 and g < 1 square with a sigmoid.",
        (Less(S.Zero, sigma(z), True), Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z)))),
        mutation=Mutation("sigma read as tanh", Less(S.Zero, tanh(z))),
    )  # fmt: skip
