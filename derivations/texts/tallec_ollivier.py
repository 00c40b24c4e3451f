r"""Tallec and Ollivier 2018, introduction and section 1 in continuous time: from time warping invariance to a learned speed.

    h' = tanh(Wx x + Wh h + b) - h            (3)    unit Euler step: the RNN (2)
    on the clock alpha t: alpha (...)         (4)    the leaky RNN (5)
    on a clock c(t): c'(t) (...)              (6)    c' learned as g: (7)

The identities are those of `leaky`, `gated` and `clocks`, for two units with a letter for every weight; beside them the same
is said of a unit of a network of any size, which is pulled to any function of the input, of itself and of the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Eq, Expr, Integral, Rational, S, Subs, Symbol, exp, oo, tanh

from derivations.argument import clocks, gated, leaky
from derivations.argument.clocks import change_of_time, on_clock, right_sides
from derivations.argument.taylor import euler_step, steps_to
from derivations.claim import Correction, Entry, Equal, Fails, Less, Mutation, Rounds, Solves, Source, Tends, changed
from derivations.closure import EVERY_WARP, NONE, RESCALING, WITHIN_UNIT, Closes
from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.twins import fields

__all__ = ["AT_TWO_UNITS", "any_unit", "from_identity", "of_paper"]

paper = Source("tallec-ollivier-2018")
t, alpha, h0, u = symbols.t, symbols.alpha, symbols.h0, Symbol("u", positive=True)
POSITIVE = "alpha > 0"
AT_TWO_UNITS = "2 units, 1 input"
h, x, others = (symbols.signal(letter)(t) for letter in "hxk")
pull = symbols.flow(x, h, others)


def of_paper(*chapters: list[Identity]) -> dict[str, Identity]:
    return {identity.label: identity for chapter in chapters for identity in chapter if identity.source == paper.name}


def from_identity(identity: Identity, words: str, wrong: Expr, *any_size: Equal, quote: str) -> Entry:
    """The identity as an entry, a right side that must be refuted, and the same for networks of any size."""
    return paper(identity.label, given=identity.assumptions).says(
        identity.statement,
        Equal(identity.lhs, identity.rhs, identity.where),
        *any_size,
        mutation=changed(words, rhs=wrong),
        quote=quote,
    )


def any_unit(rate: Expr = S.One) -> list[Eq]:
    """h' = rate (F(x, h, others) - h): a unit of a network of any size."""
    return [Eq(h.diff(t), rate * (pull - h), evaluate=False)]


def introduction() -> Iterator[Entry]:
    """What stability costs, and what invariance needs."""
    c, k = symbols.c(t), Symbol("k", positive=True)
    slow = h0 / (1 + 2 * h0**2 * u) ** Rational(1, 2)
    memory = (1 + 2 * h0**2 * u) ** Rational(-3, 2)
    yield paper("intro, stability").says(
        "In a stable system gradients decay exponentially: faster than some e^(-k t), k > 0.",
        Tends(memory.subs(h0, 1) * exp(k * u), u, oo, S.Zero),
        reading=Correction(
            "Of exponential stability, as h' = -k h has it. h' = -h^3 is stable too, and its gradient "
            "(1 + 2 h0^2 t)^(-3/2) decays as a power of t.",
            Tends(exp(-2 * k * u) * exp(k * u), u, oo, S.Zero),
            Equal(Derivative(slow, u), -(slow**3)),
            Equal(Derivative(slow, h0), memory),
            Tends(slow.subs(h0, 1), u, oo, S.Zero),
        ),
        quote="stability of a dynamical system comes at the price of exponential decay of the gradient signals used for learning",
    )
    level = symbols.signal("x")
    driven, played = Eq(h.diff(t), h * level(t).diff(t)), Eq(h.diff(t), h * level(c).diff(t))
    yield paper("intro, necessarily").says(
        "Invariance necessarily leads to gates: a model without them does not follow its input to another clock.",
        Fails(Solves((played,), {h: h0 * exp(level(c))})),
        reading=Correction(
            "Of fields dh/dt = F(x, h), which read the input and not its rate of change: on a clock they become c' F, and a "
            "class that has F must have c' F. Without a gate dh/dt = h dx/dt is "
            "invariant: h0 e^x solves it, h0 e^x(c) on any clock.",
            Equal(**on_clock(any_unit(), c, [c.diff(t) * (pull - h)])),
            Closes(fields.plain(), NONE),
            Solves((driven,), {h: h0 * exp(level(t))}),
            Solves((played,), {h: h0 * exp(level(c))}),
        ),
        quote="postulating invariance to time transformations in the data (taking invariance to time warping as an axiom) "
        "necessarily leads to a gate-like mechanism in recurrent models",
    )
    yield paper("intro, forget biases", given="inputs and states are 0").says(
        "Forget gate biases 1 and 2 are reasonable for medium term dependencies and fail for long ones: their times are "
        "1 + e = 3.7 and 1 + e^2 = 8.4 steps, and of what is kept less than 1/300,000 is left after 100.",
        Equal(1 / (1 - fields.sigma(u)), 1 + exp(u)),
        Rounds(1 + exp(S.One), "3.7"),
        Rounds(1 + exp(S(2)), "8.4"),
        Less(fields.sigma(S(2)) ** 100, Rational(1, 300000)),
        mutation=changed("bias 2 read as 3", value=1 + exp(S(3))),
        remark='the appendix says of text8, with T_max = 8, that "short term dependencies dominate"',
        quote="explains why this is reasonable in most cases, when facing medium term dependencies, "
        "but fails when facing long to very long term dependencies.",
    )


def rescaling() -> Iterator[Entry]:
    """Eqs. (1) to (5), footnotes 2 and 3."""
    known = of_paper(leaky.identities(), clocks.identities())
    plain, half = fields.plain(), Rational(1, 2)
    clock, n, shown = clocks.clock(alpha * t), Symbol("n", positive=True), Symbol("s", real=True)
    states = column(*plain.state)
    leaky_step, closed, one = known["eq. 5"], known["below eq. 5"], {symbols.dt: S.One}
    after = column(*(Symbol(f"h_{{{i},t+1}}", real=True) for i in (1, 2)))
    rnn = one | {unit: leaky.candidate(plain, i) for i, unit in enumerate(after)}
    scaled = change_of_time(any_unit(), alpha * t)
    yield paper("eq. 1", given=POSITIVE).says(
        "c(t) = alpha t maps [0, oo) onto itself and increases; a character every 10 steps is alpha = 0.1.",
        Less(S.Zero, clock.speed, True),
        Equal(alpha * shown, t, {shown: clock.inverse}),
        Equal(alpha * t, n, {alpha: Rational(1, 10), t: 10 * n}),
        mutation=Mutation("alpha = 0.1 read as alpha = 10", Equal(alpha * t, n, {alpha: S(10), t: 10 * n})),
        quote=r"receiving a new input character every 10 time steps only, would correspond to $\alpha = 0.1$",
    )
    yield from_identity(
        known["eq. 2"],
        "with half a step",
        euler_step(plain, half),
        Equal(**steps_to(any_unit(), [pull])),
        quote=r"$$h_{t+1} = \tanh(W_x x_t + W_h h_t + b) \tag{2}$$",
    )
    yield paper("eq. 3").says(
        "(3) is the field of which (2) is the Taylor expansion with dt = 1: (2) minus h_t, per unit of time.",
        Equal((after - states) / symbols.dt, plain.flow, rnn),
        Equal((after[0] - h) / symbols.dt, pull - h, one | {after[0]: pull}),
        mutation=changed("- h read as + h", lhs=(after + states) / symbols.dt),
        quote=r"namely, (2) is the Taylor expansion $h(t + \delta t) \approx h(t) + \delta t "
        r"\frac{dh(t)}{dt}$ with discretization step $\delta t = 1$",
    )
    yield from_identity(
        known["footnote 2"],
        "c'(t) left out",
        known["footnote 2"].rhs / symbols.c(t).diff(t),
        quote=r"set the model and data with variable $T$ to $H(T) := h(c(T))$ and $X(T) := x(c(T))$ .",
    )
    yield from_identity(
        known["eq. 4"],
        "alpha before tanh only",
        known["eq. 4"].rhs + (alpha - 1) * column(*symbols.signals("H", 2)),
        Equal(**on_clock(any_unit(), alpha * t, [alpha * pull - alpha * h])),
        quote=r"$$\frac{dh(t)}{dt} = \alpha \tanh(W_x x(t) + W_h h(t) + b) - \alpha h(t). \tag{4}$$",
    )
    yield from_identity(
        leaky_step,
        "1 - alpha read as 1 + alpha",
        leaky_step.rhs + 2 * alpha * states,
        Equal(**steps_to(scaled, [alpha * pull + (1 - alpha) * h])),
        quote=r"$$h_{t+1} = \alpha \tanh(W_x x_t + W_h h_t + b) + (1 - \alpha)h_t \tag{5}$$",
    )
    yield from_identity(
        closed,
        "alpha beta read as alpha + beta",
        closed.rhs.xreplace({alpha: alpha + symbols.beta}),
        Equal(**on_clock(any_unit(alpha), symbols.beta * t, right_sides(any_unit(alpha * symbols.beta)))),
        quote=r"is to take a leaky model in which $\alpha > 0$ is a learnable parameter, "
        r"corresponding to the coefficient of the time rescaling",
    )
    weight = Symbol("W_h", real=True)
    yield paper("sec. 1, forgetting time", given="alpha > 0").says(
        "1/alpha is the characteristic forgetting time of the network: with any Wh a small state falls at the rate alpha.",
        Equal(alpha * (tanh(weight * u) - u).diff(u).subs(u, 0), -alpha),
        reading=Correction(
            "With Wh = 0, as in footnote 3. A unit with the recurrent weight Wh forgets a small state at the rate alpha (1 - "
            "Wh), for Wh = 1/2 in twice the time, see sec. IV-B, enough, of Ohno and Kumagai 2021.",
            Equal(alpha * (tanh(weight * u) - u).diff(u).subs(u, 0), -alpha * (1 - weight)),
            Equal(1 / (alpha * (1 - weight)), 2 / alpha, {weight: half}),
        ),
        remark="one unit, h = u, without input and bias",
        quote=r"$1/\alpha$ ought to be interpreted as the characteristic forgetting time of the neural network",
    )
    yield from_identity(
        known["footnote 3"],
        "the rate doubled",
        2 * known["footnote 3"].rhs,
        quote=r"the solution of (4) is $h(t) = e^{-\alpha(t-t_0)}h(t_0)$",
    )


def invariant_classes() -> Iterator[Entry]:
    """Which of the classes (2) and (5) are invariant to time rescaling."""
    plain = fields.plain()
    yield paper("sec. 1, ordinary RNNs", sizes=AT_TWO_UNITS).says(
        "The class of ordinary recurrent networks is not invariant to time rescaling.",
        Closes(plain, NONE),
        mutation=changed("not invariant read as invariant", group=RESCALING),
        remark="decided for the fields (3), with a given number of units, as the paper does; its summary leaves that out",
        quote="the class of ordinary recurrent networks is not invariant to time rescaling",
    )
    kept, state, half = 1 / (1 + Symbol("u", positive=True)), Symbol("h", real=True), Rational(1, 2)

    def step(a: Expr, before: Expr, weight: Expr = S.One) -> Expr:
        return a * tanh(weight * before) + (1 - a) * before

    once = step(Rational(3, 4), state)
    candidates = ((half, S.One), (half, S(-3)), (3 * half, S.One), (3 * half, -Rational(1, 3)))

    yield paper("sec. 1, leaky RNNs").says(
        "The class of leaky RNNs (5) is invariant to time rescaling: with every input given "
        "twice, 1 - sqrt(1 - alpha) does as alpha did.",
        Equal(step(1 - kept, step(1 - kept, state)), step(1 - kept**2, state)),
        reading=Correction(
            "The class of the fields (4) is, in continuous time. Of (5) itself no alpha and no weight do in two steps what alpha "
            "= 3/4 and weight 1 do in one, not even for one unit without input and bias.",
            Equal(**on_clock(any_unit(alpha), symbols.beta * t, right_sides(any_unit(alpha * symbols.beta)))),
            *(Fails(Equal(step(a, step(a, state, w), w), once)) for a, w in candidates),
        ),
        remark="alpha = 1 - k^2, k = 1/(1 + u); without recurrence, Wh = 0, 1 - sqrt(1 - alpha) is exact. In two steps (1 - "
        "alpha)^2 of a large h is kept, which must be 1/4, and the slope at 0 is (1 - alpha + alpha w)^2, which must be 1: that "
        "leaves four",
        quote="while the class of leaky RNNs (5) is.",
    )


def warping() -> Iterator[Entry]:
    """Eqs. (6) and (7), footnote 4."""
    known = of_paper(gated.identities())
    plain, c, speed = fields.plain(), symbols.c(t), symbols.g
    six, seven = known["eq. 6"], known["eq. 7"]
    warped = change_of_time(any_unit(), c)
    yield from_identity(
        six,
        "the decay not multiplied",
        six.rhs + (c.diff(t) - 1) * column(*symbols.signals("H", 2)),
        Equal(**on_clock(any_unit(), c, [c.diff(t) * pull - c.diff(t) * h])),
        quote=r"$$\frac{dh(t)}{dt} = \frac{dc(t)}{dt} \tanh(W_x x(t) + W_h h(t) + b) - \frac{dc(t)}{dt} h(t). \quad (6)$$",
    )
    learned = column(*(equation.rhs.xreplace({c.diff(t): speed(t)}) for equation in warped))
    yield from_identity(
        seven,
        "g before tanh only",
        seven.rhs + column(*((speed(t) - 1) * unit for unit in plain.state)),
        Equal(learned, column(speed(t) * pull - speed(t) * h)),
        quote=r"$$\frac{dh(t)}{dt} = g(t) \tanh(W_x x(t) + W_h h(t) + b) - g(t) h(t) \quad (7)$$",
    )
    yield paper("sec. 1, ordinary RNNs, warps", sizes=AT_TWO_UNITS).says(
        "A fortiori the class of ordinary networks is not invariant to time warpings.",
        Closes(plain, NONE),
        mutation=changed("none read as every warp", group=EVERY_WARP),
        quote="A fortiori, this model class is not invariant to time warpings either.",
    )
    s, late = Symbol("s", real=True), t + 1
    shown = Integral(speed(s), (s, 0, t))
    yield paper("footnote 4").says(
        "Learning the speed of a clock or the clock itself is equivalent: the speed gives the clock.",
        Equal(Integral(S.One, (s, 0, t)), late),
        reading=Correction(
            "Of clocks that start at c(0) = 0: the integral of g from 0 to t. t and t + 1 are warpings of one speed.",
            Equal(Derivative(shown, t), speed(t)),
            Equal(Subs(shown, t, 0), S.Zero),
            Equal(Derivative(late, t), Derivative(t, t, evaluate=False)),
        ),
        quote=r"algebraically equivalent to introduce a function $g$ that learns the derivative of $c$ , "
        r"or to introduce a function $G$ that learns $c$",
    )
    p, q = Symbol("p", real=True), Symbol("q", positive=True)
    yield paper("footnote 4, positive").says(
        "A clock that increases has a positive speed, at t = 1 too: c(t) = 1 + (t - 1)^3.",
        Less(S.Zero, Subs(Derivative(1 + (t - 1) ** 3, t), t, 1), True),
        reading=Correction(
            "g >= 0: an increasing differentiable clock may stand still for a moment, as "
            "this one does at t = 1 and nowhere turns back.",
            Less(S.Zero, (1 + (t - 1) ** 3).diff(t)),
            Less(p**3, (p + q) ** 3, True, rewritten=q * (3 * (p + q / 2) ** 2 + q**2 / 4)),
        ),
        quote=r"Time warpings $c$ are increasing by definition: this translates as $g > 0$ .",
    )


def learned_speed() -> Iterator[Entry]:
    """What a gate must know: the quasi-invariance of (7) and footnote 6; and 1/g as a forgetting time."""
    plain, c, g = fields.plain(), symbols.c(t), symbols.g(t)
    yield paper(
        "sec. 1, quasi-invariance",
        given=("c' is a function of the data so far", "g may be any positive function of the data", "c' g < 1 for a sigmoid g"),
    ).says(
        "The class (7) is perfectly invariant to time warpings if g may be any function of the data: c' g is a gate again.",
        Equal(**on_clock(any_unit(g), c, right_sides(any_unit(c.diff(t) * g)))),
        Closes(fields.gated(gate="global"), WITHIN_UNIT),
        mutation=Mutation("c' g read as g", Equal(**on_clock(any_unit(g), c, right_sides(any_unit(g))))),
        quote=r"a function $g$ that can represent any function of the data would define a class of recurrent models "
        r"that is perfectly invariant to time warpings",
    )
    warped = right_sides(change_of_time(plain, c))
    biased = column(
        *(
            leaky.candidate(plain, i).subs(plain.parameters["b"][i], c.diff(t) * plain.parameters["b"][i]) - unit
            for i, unit in enumerate(plain.state)
        )
    )
    speed = Symbol("c'", positive=True)
    yield paper("footnote 6", given="c' > 0").says(
        "The weights (Wx, Wh, b) are the same for h(t) in (3) and h(c(t)) in (6).",
        Equal(warped / speed, plain.flow, {speed: c.diff(t)}),
        Equal(right_sides(change_of_time(any_unit(), c)) / speed, right_sides(any_unit()), {speed: c.diff(t)}),
        mutation=Mutation("c' taken into the weights", Equal(warped, biased)),
        quote=r"the weights $(W_x, W_h, b)$ are the same for $h(t)$ in (3) and $h(c(t))$ in (6)",
    )
    ramp = symbols.signal("x")(c)
    yield paper("footnote 6, same model").says(
        "The same model does before and after warping: without input, h is e^(-t) and must be e^(-2 t) on the clock 2 t.",
        Equal(h0 * exp(-t), h0 * exp(-2 * t)),
        reading=Correction(
            "Where the data tell the speed of the clock, as a ramp x = t does: played on c, its slope is c'. Data that are "
            "constant are the same on every clock, and one model cannot forget at two speeds.",
            Equal(Derivative(ramp, t), c.diff(t), {Derivative(ramp, c): S.One}),
            Solves((Eq(h.diff(t), -2 * h),), {h: h0 * exp(-2 * t)}, (S.Zero, {h: h0})),
            Solves((Eq(h.diff(t), -h),), {h: h0 * exp(-t)}, (S.Zero, {h: h0})),
        ),
        remark="footnote 5 says that the warping is learned from the data seen so far",
        quote="the definition of time warping invariance could be strengthened to use the *same* model before and after warping",
    )
    s, free, rate = Symbol("s", real=True), Symbol("h_0", real=True), symbols.g
    memory = free * exp(-Integral(rate(s), (s, 0, t)))
    yield paper("sec. 1, local forgetting", given=("x = 0", "b = 0", "Wh = 0")).says(
        "1/g(t0) is the local forgetting time: what is kept of the past decays at the rate g(t).",
        Solves((Eq(h.diff(t), -rate(t) * h),), {h: memory}, (S.Zero, {h: free})),
        Equal(-Derivative(memory, t) / memory, rate(t)),
        mutation=Mutation("1/g read as g", Equal(-memory.diff(t) / memory, 1 / rate(t))),
        quote=r"$1/g(t_0)$ represents the local forgetting time of the network at time $t_0$",
    )
