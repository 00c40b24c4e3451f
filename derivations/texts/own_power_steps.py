r"""Result 6 of our own: the Euler step on the power decay, h' = -g |h|^r h + g f.

step         h (1 - y),   y = g |h|^r            flips iff y > 1, shrinks iff y < 2, 2-cycle at y = 2
beyond       |h| grows by y - 1, and y -> y (y - 1)^r grows too: faster than any exponential
gradient     1 - (r + 1) y                       amplifies iff y > 2/(r + 1)
|f| <= 1     [-1, 1] is invariant iff alpha <= 1/(r + 1)
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Expr, S, Subs, Symbol, log, oo

from derivations.argument.leaky import free
from derivations.argument.taylor import euler_step
from derivations.claim import Entry, Equal, Fails, Less, Mutation, Tends, changed
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.twins import fields

r = symbols.r
g, u, w, y = (Symbol(name, positive=True) for name in "guwy")
RATES = ("g > 0", "r > 0", "no input")


def step(h: Expr) -> Expr:
    """The unit Euler step of h' = -g |h|^r h: that of the leaky field with power decay, without input, W and b."""
    field = free(fields.leaky(hidden_size=1, decay=fields.power_decay(r)).substitute(alpha=g))
    return euler_step(field)[0].xreplace({field.state[0]: h})


def size(y: Expr) -> Expr:
    """The |h| at which g |h|^r = y."""
    return (y / g) ** (1 / r)


def free_steps() -> Iterator[Entry]:
    """Sign and size of one step, for h > 0; the step is odd in h."""
    factor = step(size(y)) / size(y)
    h = symbols.positive_h0
    yield own("result 6, step", given=RATES).says(
        "Euler on the power decay is h (1 - g |h|^r), for either sign of h.",
        Equal(column(step(h), step(-h)), column(h * (1 - g * h**r), -h * (1 - g * h**r))),
        mutation=Mutation("|h|^r read as |h|^(r + 1)", Equal(step(h), h * (1 - g * h ** (r + 1)))),
    )
    yield own("result 6, flips sign", given=RATES).says(
        "It flips the sign iff g |h|^r > 1: with y = g |h|^r the factor is 1 - y.",
        Equal(factor, 1 - y),
        Less(1 - y, S.Zero, True, {y: (1, oo)}),
        Less(S.Zero, 1 - y, True, {y: (0, 1)}),
        mutation=changed("> 1 read as > 1/2", region={y: (S.Half, oo)}),
        remark="at y = 1 the step is to 0",
    )
    yield own("result 6, shrinks", given=(*RATES, "h is not 0")).says(
        "It shrinks |h| iff g |h|^r < 2: what h^2 loses is h^2 y (2 - y).",
        Equal(size(y) ** 2 - step(size(y)) ** 2, size(y) ** 2 * y * (2 - y)),
        mutation=changed("< 2 read as < 1", rhs=size(y) ** 2 * y * (1 - y)),
    )


def two_cycle() -> Iterator[Entry]:
    """What happens at y = 2 and beyond."""
    n, far = Symbol("n", positive=True), size(2 + u)
    cycle = (2 / g) ** (1 / r)
    at = symbols.positive_h0
    slope = Subs(Derivative(step(at), at), at, cycle)
    yield own("result 6, 2-cycle", given=RATES).says(
        "There is a 2-cycle at |h| = (2/g)^(1/r).",
        Equal(step(at), -at, {at: cycle}),
        Equal(step(-at), at, {at: cycle}),
        Fails(Equal(step(cycle), cycle)),
        mutation=Mutation("(2/g)^(1/r) read as (1/g)^(1/r)", Equal(step((1 / g) ** (1 / r)), -((1 / g) ** (1 / r)))),
    )
    yield own("result 6, 2-cycle repels", given=RATES).says(
        "The 2-cycle repels: the slope of the step there is -(2 r + 1).",
        Equal(slope, -(2 * r + 1)),
        Less(S.One, 2 * r + 1, True),
        mutation=Mutation("2 r + 1 read as 2 r - 1", Equal(slope, -(2 * r - 1))),
        remark="new here",
    )
    yield own("result 6, diverges", given=RATES).says(
        "Beyond the 2-cycle |h| diverges faster than exponentially: its factor y - 1 > 1 grows without bound, for y steps to y "
        "(y - 1)^r, at least y times the first (y - 1)^r.",
        Equal(-step(far) / far, 1 + u),
        Equal(log(size((2 + u) * (1 + u) ** r)), log(far * (1 + u))),
        Less(S.One, (1 + u) ** r, True, rising=(u,)),
        Tends((2 + u) * (1 + w) ** n, n, oo, oo),
        mutation=Mutation("y (y - 1)^r read as y (y - 1)", Equal(log(size((2 + u) * (1 + u))), log(far * (1 + u)))),
        remark="with y = 2 + u; the size at y (y - 1)^r is y - 1 times the size at y, compared by logarithms; in the last "
        "statement 1 + w is the first (y - 1)^r, which grows with y",
    )


def gradient() -> Iterator[Entry]:
    h = symbols.positive_h0
    slope = step(h).diff(h)
    threshold = (2 / (g * (r + 1))) ** (1 / r)
    at = slope.subs(h, size(y))
    yield own("result 6, gradient amplifies", given=RATES).says(
        "The gradient amplifies for |h| > (2/(g (r + 1)))^(1/r): its square less 1 is (r + 1) y ((r + 1) y - 2) at "
        "y = g |h|^r, and -1 is its value at that |h|.",
        Equal(at**2 - 1, (r + 1) * y * ((r + 1) * y - 2)),
        Equal(slope.subs(h, threshold), S.NegativeOne),
        mutation=Mutation("r + 1 read as r", Equal(slope.subs(h, (2 / (g * r)) ** (1 / r)), S.NegativeOne)),
    )
    yield own("result 6, already", given=RATES).says(
        "That is already so where the step still shrinks: the threshold is below the 2-cycle.",
        Equal(g * h**r, 2 / (r + 1), {h: threshold}),
        Less(2 / (r + 1), S(2), True),
        mutation=changed("2/(r + 1) read as 2 (r + 1)", lower=2 * (r + 1)),
        remark="compared by y = g |h|^r, which grows with |h|",
    )


def driven() -> Iterator[Entry]:
    """|f| <= 1. The step is odd in (h, f) together, so its largest value, at f = 1, is all that matters."""
    h, alpha = symbols.positive_h0, symbols.alpha
    top = step(h).subs(g, alpha) + alpha
    slope = step(h).subs(g, alpha).diff(h)
    turn = (1 / (alpha * (r + 1))) ** (1 / r)
    # At the turn, with alpha = (1 + w)/(r + 1): 1/alpha (r + 1) is 1/(1 + w).
    p = Symbol("p", nonnegative=True)
    at = {h: (1 + p) ** (-1 / r), alpha: w / (r + 1)}
    over = (r * (1 + w) ** (-1 / r) - (r - w)) / (r + 1)
    yield own(
        "result 6, invariant interval",
        given=("alpha > 0", "r > 0", "h + alpha (f - |h|^r h), with f of any value between -1 and 1"),
    ).says(
        "[-1, 1] is invariant under |f| <= 1 iff alpha <= 1/(r + 1): then the step rises in h all the way to 1, which it maps to "
        "1 if f = 1; beyond, it turns at an h < 1, where it is above 1.",
        Equal(top, S.One, {h: S.One}),
        Equal(slope.subs(at), 1 - w / (1 + p)),
        Less(w / (1 + p), S.One, True, {w: (0, 1)}),
        Equal(Derivative(step(-h), h), -Derivative(step(h), h)),
        Equal(slope.subs(h, turn), S.Zero),
        Equal((top.subs(h, turn) - 1).subs(alpha, (1 + w) / (r + 1)), over),
        Less(r - w, r * (1 + w) ** (-1 / r), True, rising=(w,)),
        mutation=changed("1/(r + 1) read as 2/(r + 1)", lower=top.subs(alpha, 2 / (r + 1)), strict=False, region={h: (0, 1)}),
        remark="the slope is positive for |h|^r = 1/(1 + p) <= 1 and alpha = w/(r + 1), w < 1 (and w = 1, but at |h| = 1), for h "
        "< 0 by the fourth statement; beyond, alpha = (1 + w)/(r + 1)",
    )
    yield own("result 6, monotone interval", given=("alpha > 0", "r > 0")).says(
        "The same alpha <= 1/(r + 1) is where the step is monotone in h on all of [-1, 1].",
        Equal(slope.subs(at), 1 - w / (1 + p)),
        Less(w / (1 + p), S.One, True, {w: (0, 1)}),
        Equal(slope.subs({h: 1, alpha: (1 + w) / (r + 1)}), -w),
        mutation=changed("1/(r + 1) read as 1", lower=(r + 1) * w / (1 + p)),
        remark="new here",
    )
