r"""Ohno and Kumagai 2021, sections V and VI: slow forgetting.

    h' = -|h|^r h                                (19)    dh(t)/dh(t0) = (1 + r h0^r (t - t0))^(-(r+1)/r): (21) lacks the r
    h' = alpha (tanh(U h + W x + b) - |h|^r h)   (22)    with a held input it forgets exponentially again

Where r is larger or t later, "slower" is a matter of how late.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Abs, Derivative, Eq, Rational, S, Subs, Symbol, exp, log, oo

from derivations.argument import power_decay
from derivations.argument.taylor import euler_step, steps_to
from derivations.claim import Correction, Entry, Equal, Less, Mutation, Solves, Source, Tends, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.texts.ohno_kumagai import AT_TWO_UNITS, BELOW_ONE, leaky_candidate
from derivations.twins import fields

paper = Source("ohno-kumagai-2021")
t, r, s, h0 = symbols.t, symbols.r, symbols.s, symbols.positive_h0
a, u = Symbol("alpha", positive=True), Symbol("u", positive=True)
# Unit h of a network of any size: it is pulled to any function of the input, of itself and of the others.
h, x, others = (symbols.signal(letter)(t) for letter in "hxk")
pull = symbols.flow(x, h, others)
POWER = Abs(h) ** r * h
memory = (1 + r * h0**r * s) ** (-(r + 1) / r)


def leaky_unit() -> list[Eq]:
    return [Eq(h.diff(t), a * (pull - h), evaluate=False)]


def slow_unit() -> list[Eq]:
    return [Eq(h.diff(t), a * (pull - POWER), evaluate=False)]


def exponential() -> Iterator[Entry]:
    """Eqs. (16) to (18)."""
    dt, after = symbols.dt, Symbol("h_t", real=True)
    leaky = {after: (1 - a) * h + a * pull}
    yield paper("eq. 16", given=BELOW_ONE).says(
        "h_t - h_{t-1} = alpha (tanh(U h_{t-1} + W x_t + b) - h_{t-1}).",
        Equal(after - h, a * (pull - h), leaky),
        Equal(**steps_to(leaky_unit(), [leaky[after]])),
        mutation=changed("- h read as + h", rhs=a * (pull + h)),
        quote=r"\displaystyle\mathbf{h}_{t}-\mathbf{h}_{t-1}=\alpha\bigl{(}\tanh(\mathbf{U}\mathbf{h}_{t-1}+\mathbf{W}"
        r"\mathbf{x}_{t}+\mathbf{b})-\mathbf{h}_{t-1}\bigr{)}. (16)",
    )
    slope = (after - h) / dt
    following = {after: h + dt * (leaky_unit()[0].rhs)}
    yield paper("eq. 17", given="alpha > 0").says(
        "For a small time step that is the ODE dh/dt = alpha (tanh(U h + W x + b) - h).",
        Equal(slope, a * (pull - h), following),
        mutation=changed("alpha before tanh only", rhs=a * pull - h),
        quote="Considering a sufficiently small time step, we get an ODE",
    )
    start, v, shift = Symbol("h_0", real=True), Symbol("v", real=True), symbols.signal("v")(t)
    held = v + (start - v) * exp(-a * t)
    yield paper("eq. 18", given=("U = 0", "alpha > 0")).says(
        "With U = 0, dh(t)/dh(t0) = e^(-alpha (t - t0)) I.",
        Solves((Eq(h.diff(t), a * (v - h)),), {h: held}, (S.Zero, {h: start})),
        Equal(Derivative(held, start), exp(-a * t)),
        Equal(Derivative(start * exp(-a * t) + shift, start), exp(-a * t)),
        Equal(Derivative(start * exp(-a * t) + shift, t) + a * (start * exp(-a * t) + shift), shift.diff(t) + a * shift),
        mutation=changed("alpha read as 1/alpha", rhs=exp(-t / a)),
        remark="for a held input, and for any: h0 e^(-alpha t) is added to what the input does by itself, here v(t)",
        quote=r"=e^{-\alpha(t-t_{0})}\mathbf{I}. (18)",
    )


def polynomial() -> Iterator[Entry]:
    """Eqs. (19) to (21)."""
    known = {identity.label: identity for identity in power_decay.identities()}
    solution, same, limit_ = known["eq. 19"], known["eq. 20"], known["eq. 20, r to 0"]
    printed, path = power_decay.misprints()[0], power_decay.closed_form(h0, r, s)
    yield paper("eq. 19", given=solution.assumptions).says(
        solution.statement,
        Equal(solution.lhs, solution.rhs),
        mutation=Mutation("r t read as t", Equal(h0 * (1 + h0**r * s) ** (-1 / r), power_decay.closed_form(h0, r, s))),
        quote=r"\displaystyle\frac{\mathrm{d}h}{\mathrm{d}t}=-|h|^{r}h, (19)",
    )
    level, other = Symbol("h", real=True), Symbol("h'", real=True)
    yield paper("eq. 19, symmetric").says(
        "The ODE is symmetric about h = 0: the rate of -h is that of h with the other sign.",
        Equal(-(Abs(other) ** r) * other, Abs(level) ** r * level, {other: -level}),
        mutation=changed("|h|^r h read as |h|^r", lhs=-(Abs(other) ** r), rhs=Abs(level) ** r),
        quote="Since this ODE is symmetric with respect to the origin",
    )
    yield paper("eq. 20", given=same.assumptions).says(
        same.statement,
        Equal(same.lhs, same.rhs),
        mutation=changed("1/h0^r read as h0^r", rhs=(r * s + h0**r) ** (-1 / r)),
        quote=r"\displaystyle h(t)=\bigl{(}r(t-t_{0})+\frac{1}{h(t_{0})^{r}}\bigr{)}^{-1/r}. (20)",
    )
    yield paper("eq. 20, r to 0", given=limit_.assumptions).says(
        limit_.statement,
        Tends(path, r, 0, limit_.rhs),
        mutation=changed("the rate doubled", value=h0 * exp(-2 * s)),
        quote="this ODE has an exponential decaying solution, as discussed earlier",
    )
    yield paper("eq. 21", given=printed.assumptions).says(
        "dh(t)/dh(t0) = (1 + h(t0)^r (t - t0))^(-(r+1)/r).",
        Equal(printed.lhs, printed.rhs),
        correction=Correction(
            "A factor r is missing: (1 + r h(t0)^r (t - t0))^(-(r+1)/r). Only for r = 1 the print is right.",
            Equal(printed.lhs, memory),
            Equal(printed.lhs, printed.rhs, {r: S.One}),
        ),
        quote=r"=\bigl{(}1+h(t_{0})^{r}(t-t_{0})\bigr{)}^{-\frac{r+1}{r}}, (21)",
    )


def compared() -> Iterator[Entry]:
    """What decays more slowly than what, and from when on."""
    power, cube = (r + 1) / r, (1 + 2 * u) ** Rational(-3, 2)
    yield paper("eq. 21, order", given=("h(t0) > 0", "r > 0")).says(
        "The memory decays polynomially, as (t - t0)^(-(r+1)/r).",
        Equal(memory.subs(s, 1 / u), u**power * (u + r * h0**r) ** (-power)),
        Tends(u + r * h0**r, u, 0, r * h0**r),
        mutation=changed("(r + 1)/r read as 1/r", rhs=u ** (1 / r) * (u + r * h0**r) ** (-power)),
        remark="with the factor r; t - t0 = 1/u, and (u + r h0^r)^(-(r+1)/r) tends to a constant as u -> 0",
        quote="leads to a polynomial decaying solution",
    )
    yield paper("eq. 21, slower").says(
        "Its memory decays more slowly than e^(-(t - t0)): for h(t0) = 1 and r = 2 it is larger at all times.",
        Less(exp(-u), cube),
        reading=Correction(
            "In the end, not from the start: at first it falls r + 1 times as fast, and at t - t0 = 1 it is 0.19, where e^(-1) "
            "is 0.37. It is larger from 3 on, as (3/2) log(1 + 2 u) < u there; for smaller h(t0) from later.",
            Equal(Subs(Derivative(memory.subs(h0, 1), s), s, 0), -(r + 1)),
            Less(cube.subs(u, 1), exp(-1), True),
            Less(Rational(3, 2) * log(1 + 2 * (3 + u)), 3 + u, True, rising=(u,)),
            Tends(exp(-u) / cube, u, oo, S.Zero),
        ),
        remark="u = t - t0",
        quote="which indicates a much slower decay of memory of the state",
    )
    p = Symbol("p", positive=True)
    faster, slower = power, power.subs(r, r + p)
    less, more = memory.subs(h0, 1), memory.subs({h0: 1, r: r + p})
    yield paper("sec. VI-D, larger r").says(
        "A larger r is a slower decay: with r + p in place of r more is kept, for every p > 0 and at all times.",
        Less(less, more),
        reading=Correction(
            "In the end, for every r and p: the memory of r is (t - t0)^(-(r+1)/r) times what tends to a number, and that power "
            "beside that of r + p is (t - t0)^(-p/(r (r + p))), which tends to 0. Before, it may be the other way round: from "
            "h(t0) = 1, at t - t0 = 1, there are 0.25 with r = 1 and 0.13 with r = 4.",
            Equal(more.subs(s, 1 / u), u**slower * (u + r + p) ** (-slower)),
            Equal(faster - slower, p / (r * (r + p))),
            Tends(u ** (p / (r * (r + p))), u, 0, S.Zero),
            Less(memory.subs({h0: 1, r: 4, s: 1}), memory.subs({h0: 1, r: 1, s: 1}), True),
        ),
        remark='h(t0) = 1, t - t0 = 1/u; for r itself see "eq. 21, order"',
        quote="corresponds to modeling the memory decaying more slowly",
    )
    rest, rate = Symbol("k", positive=True), Symbol("h", positive=True)
    speed = (a * (rest ** (r + 1) - rate ** (r + 1))).diff(rate).subs(rate, rest)
    near = (h, {h: exp(speed * t)})
    yield paper("sec. V, replacing").says(
        "Replacing the linear decay in (17), with its inputs, makes the memory decay more slowly than e^(-alpha t): near the "
        "rest h = k under a held input, for r = 2, it falls at a lower rate.",
        Less(3 * a * rest**2, a, region={rest: (0, 1)}),
        correction=Correction(
            "Without input only, as in (19). Where an input holds the state at h = k the memory of a change is exponential "
            "again, e^(-alpha (r + 1) k^r t), and for r = 2 faster than before as soon as k is above 0.58.",
            Equal(speed, -a * (r + 1) * rest**r),
            Solves((Eq(h.diff(t), speed * h),), near[1]),
            Less(a, 3 * a * rest**2, True, {rest: (Rational(58, 100), 1)}),
        ),
        remark="U = 0; h = k is at rest for tanh(W x + b) = k^(r+1). Section IV-A asks for a theory with inputs",
        quote="is achieved by simply replacing a linear decay term",
    )


def added() -> Iterator[Entry]:
    """Judge that memory decays more slowly where the higher degree term is added, and the linear one stays."""
    past, kept = Symbol("k", positive=True), (1 + h0**2 * (1 - exp(-2 * t))) ** Rational(-1, 2)
    path = h0 * exp(-t) * kept
    yield paper("intro, added").says(
        "The higher degree term is added to existing models: with the linear term beside it, dh/dt = -h - h^3, the memory decays "
        "more slowly than e^(-(t - t0)).",
        Less(1, (1 + h0**2 * past) ** Rational(-3, 2), region={past: (0, 1)}),
        reading=Correction(
            "It takes the place of the linear term, as section V has it. Beside it the memory is e^(-(t - t0)) times "
            "(1 + h0^2 (1 - e^(-2 (t - t0))))^(-3/2), which is below 1: exponential still, and less than without the new term.",
            Solves((Eq(h.diff(t), -h - h**3),), {h: path}, (S.Zero, {h: h0})),
            Equal(Derivative(path, h0), exp(-t) * kept**3),
            Less((1 + h0**2 * past) ** Rational(-3, 2), 1, True, {past: (0, 1)}),
        ),
        remark="k = 1 - e^(-2 (t - t0)), t0 = 0",
        quote="We add the higher degree term into existing RNNs to derive a new family of models",
    )


def cells() -> Iterator[Entry]:
    """Eqs. (22) to (24)."""
    slowly, twin = fields.leaky(decay=fields.power_decay(r)).substitute(alpha=a), fields.leaky().substitute(alpha=a)
    state, tanhs = column(*twin.state), column(*(leaky_candidate(twin, i) for i in range(2)))
    powers = column(*(Abs(k) ** r * k for k in state))
    yield paper("eq. 22", given=("alpha > 0", "r > 0"), sizes=AT_TWO_UNITS).says(
        "With |h|^r h in place of h in (17): for r -> 0 it is (17) again, for h not 0.",
        Equal(slowly.flow, a * (tanhs - powers)),
        Tends(u**r * u, r, 0, u),
        mutation=changed("|h|^r h read as |h|^r", rhs=a * (tanhs - column(*(Abs(k) ** r for k in state)))),
        quote=r"-|\mathbf{h}(t)|^{r}\mathbf{h}(t)\bigr{)}. (22)",
    )
    scaled = memory.subs(s, a * s)
    yield paper("eq. 22, memory", given=("alpha > 0", "r > 0", "h(t0) > 0")).says(
        "Without its candidate (22) has the memory (1 + alpha r h(t0)^r (t - t0))^(-(r+1)/r): that of (21), with its factor r, "
        "on the clock alpha t, as that of (17) is (18).",
        Equal(Derivative(power_decay.closed_form(h0, r, a * s), s), -a * power_decay.closed_form(h0, r, a * s) ** (r + 1)),
        Equal(Derivative(power_decay.closed_form(h0, r, a * s), h0), scaled),
        mutation=Mutation("alpha left out", Equal(Derivative(power_decay.closed_form(h0, r, a * s), h0), memory)),
        remark="(19) to (21) are written without alpha, (18) has it",
        quote="Adopting this idea into (17) leads to",
    )
    yield paper("eq. 23", given=("alpha > 0", "r > 0")).says(
        "h_t = h_{t-1} + alpha (h~_t - |h_{t-1}|^r h_{t-1}) is the unit Euler step of (22).",
        Equal(**steps_to(slow_unit(), [h - a * POWER + a * pull])),
        Equal(**steps_to(slowly, state + a * (tanhs - powers))),
        mutation=Mutation("- |h|^r h read as - h", Equal(**steps_to(slow_unit(), [h + a * (pull - h)]))),
        quote=r"\displaystyle=\mathbf{h}_{t-1}+\alpha(\tilde{\mathbf{h}}_{t}-|\mathbf{h}_{t-1}|^{r}\mathbf{h}_{t-1}), (23)",
    )
    found = (euler_step(slowly) - state) / a + powers
    letters = dict(zip(twin.parameters["W_h"], twin.parameters["W_h"].T, strict=True))
    yield paper("eq. 24", given=("alpha > 0", "r > 0"), sizes=AT_TWO_UNITS).says(
        "h~_t in (23) is the candidate (3), with the same U, W and b.",
        Equal(found, tanhs),
        mutation=changed("U read as its transpose", rhs=tanhs.xreplace(letters)),
        remark="solved for h~_t",
        quote=r"\displaystyle=\tanh(\mathbf{U}\mathbf{h}_{t-1}+\mathbf{W}\mathbf{x}_{t}+\mathbf{b}). (24)",
    )
    yield paper("sec. VI-D, r to 0", given="h is not 0").says(
        "In the limit r -> 0 the method is the conventional model, (23) is (2).",
        Tends(u**r * u, r, 0, u),
        Equal((h + a * (pull - POWER)).subs(r, 0), (1 - a) * h + a * pull),
        mutation=changed("r -> 0 read as r -> 1", point=1),
        remark="at h = 0 both decays are 0",
        quote="our method reduces to conventional models",
    )


def gated() -> Iterator[Entry]:
    """In gated networks, with r = 2, and operations of a step."""
    f, one = Symbol("f", positive=True), Symbol("h", real=True)
    yield paper("sec. V, gated").says(
        "In gated RNNs f h is replaced by h - (1 - f) |h|^r h, which is f h for r = 0.",
        Equal(one - (1 - f) * Abs(one) ** r * one, f * one, {r: S.Zero}),
        mutation=changed("1 - f read as f", lhs=one - f * Abs(one) ** r * one),
        quote=r"\mathbf{h}_{t-1}-(\mathbf{1}-\mathbf{f}_{t})\odot|\mathbf{h}_{t-1}|^{r}\mathbf{h}_{t-1}",
    )
    step, size = Symbol("w", positive=True), Symbol("h", positive=True)
    yield paper("sec. V, extends").says(
        "It naturally extends to gated RNNs: as f h does, h - (1 - f) |h|^r h comes nearer to 0, or stays, for r = 2.",
        Less((size - (1 - f) * size**3) ** 2, size**2, region={f: (0, 1), size: (0, 4)}),
        reading=Correction(
            "For states below (2/(1 - f))^(1/r): the factor is 1 - (1 - f) |h|^r, and beyond that size each step throws a state "
            "further out. A GRU's states, which are below 1 as it stands, get there: from 1/2, with f = 0 and candidates near 1 "
            "and then near -1, to 11/8 and -2.2, whose square is above 2.",
            Equal(size - (1 - f) * size**r * size, (1 - (1 - f) * size**r) * size),
            Less((1 - step) ** 2, 1, True, {step: (0, 2)}),
            Less(1, (1 - (2 + u)) ** 2, True),
            Equal(size - size**3 + 1, Rational(11, 8), {size: Rational(1, 2)}),
            Equal(size - size**3 - 1, Rational(-1139, 512), {size: Rational(11, 8)}),
            Less(2, Rational(1139, 512) ** 2, True),
        ),
        remark='see "result 6, diverges" of this project',
        quote="it naturally extends to general gated RNNs",
    )
    yield paper("sec. VI-A, r = 2").says(
        "With r = 2 the term |h|^r h is h^3.",
        Equal(Abs(one) ** r * one, one**3, {r: S(2)}),
        mutation=changed("r = 2 read as r = 1", where={r: S.One}),
        quote=r"|\mathbf{h}_{t-1}|^{r}\mathbf{h}_{t-1}=\mathbf{h}_{t-1}^{3}",
    )
    n, d = Symbol("n", positive=True), Symbol("d", positive=True)
    extra = 3 * n / (n * (n + d))
    yield paper("sec. V, cost").says(
        "Absolute values and powers of the state are few beside the matrix products: 3 n beside n (n + d).",
        Tends(extra, n, oo, S.Zero),
        Less(extra.subs({n: 64, d: 9}), Rational(1, 20)),
        Less(extra.subs({n: 128, d: 1}), Rational(1, 20)),
        mutation=changed("n (n + d) read as n", lower=S(3 * 64) / 64),
        remark="three operations a unit, |h|, its power, and a product; n units and d inputs as in table I",
        quote="since the computational cost for such operations is relatively small compared to the matrix multiplication",
    )
