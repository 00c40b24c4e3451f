r"""Ohno and Kumagai 2021: time scales as Jacobians, and slow forgetting.

    h_t = (1 - a) h_{t-1} + a h~_t               (2)     dh_t/dh_{t-1} = (1 - a) I + a D U: (10) prints a minus
    tau = -1/log(1 - a) = 1/a - 1/2 - ...        footnote 2
    dh_t/dh_{t-1} of the GRU                     (15)
    h' = -|h|^r h                                (19)    dh(t)/dh(t0) = (1 + r h0^r (t - t0))^(-(r+1)/r): (21) lacks the r

Jacobians are checked for two units with unequal weights, in the usual layout (rows: what is differentiated).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sympy import Abs, Eq, Expr, ImmutableDenseMatrix, Rational, S, Symbol, diag, exp, eye, log, oo, sqrt, tanh

from derivations.argument import power_decay
from derivations.argument.taylor import euler_step
from derivations.claim import Correction, Entry, Mutation
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Expands, Fails, Rounds, Solves, Tends
from derivations.twins import fields
from derivations.twins.fields import sigma

__all__ = ["entries"]

PAPER = "ohno-kumagai-2021"
t, r, s, h0 = symbols.t, symbols.r, symbols.s, symbols.positive_h0
a, u, n = Symbol("alpha", positive=True), Symbol("u", positive=True), Symbol("n", integer=True, nonnegative=True)
c, z = Symbol("c", positive=True), Symbol("z", real=True)
# Two units and one input; h is the state before the step.
h = ImmutableDenseMatrix([Symbol("h_1", real=True), Symbol("h_2", real=True)])
x = Symbol("x", real=True)
BELOW_ONE = "0 < alpha < 1"
FREE = ("x = 0 after t0", "U = 0", "b = 0")


def entries() -> Iterator[Entry]:
    return chain(leaky(), gated(), jacobians(), slow(), experiments())


def affine(name: str, of: ImmutableDenseMatrix = h) -> ImmutableDenseMatrix:
    """U h + W x + b, with letters of its own."""
    return symbols.weights(f"U_{name}", 2, 2) * of + symbols.weights(f"W_{name}", 2, 1) * x + symbols.biases(f"b_{name}", 2)


def candidate(of: ImmutableDenseMatrix = h) -> ImmutableDenseMatrix:
    return affine("h", of).applyfunc(tanh)


def gate(name: str) -> ImmutableDenseMatrix:
    return affine(name).applyfunc(sigma)


def leaky_step(new: ImmutableDenseMatrix) -> ImmutableDenseMatrix:
    return (1 - a) * h + a * new


def leaky() -> Iterator[Entry]:
    """Eqs. (1) to (5), footnote 2, eq. (9)."""
    (H,), start = symbols.state(1), Symbol("h_0", real=True)
    twin = fields.leaky().substitute(alpha=a)
    yield Entry(
        PAPER, "eq. 1", "h(t) = e^(-c (t - t0)) h(t0) is the solution of dh/dt = -c h.",
        (Solves((Eq(H.diff(t), -c * H),), {H: start * exp(-c * t)}, (S.Zero, {H: start})),), ("c > 0",),
        Mutation("e^(-c t) read as e^(-t/c)", Solves((Eq(H.diff(t), -c * H),), {H: start * exp(-t / c)})),
        remark="t0 = 0",
    )  # fmt: skip
    tanhs = column(*(leaky_candidate(twin, i) for i in range(2)))
    state = column(*twin.state)
    yield Entry(
        PAPER, "eq. 2", "The leaky RNN h_t = (1 - alpha) h_{t-1} + alpha h~_t is the unit Euler step of the leaky field.",
        (Equal(euler_step(twin), (1 - a) * state + a * tanhs),), (BELOW_ONE,),
        Mutation("1 - alpha read as 1", Equal(euler_step(twin), state + a * tanhs)),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 3", "With h~_t = tanh(U h_{t-1} + W x_t + b) and alpha = 1 the state is replaced by the new state.",
        (Equal(leaky_step(candidate()).subs(a, 1), candidate()),),
        mutation=Mutation("alpha = 1 read as alpha = 0", Equal(leaky_step(candidate()).subs(a, 0), candidate())),
    )  # fmt: skip
    ignored = {**dict.fromkeys(symbols.weights("U_h", 2, 2), 0), **dict.fromkeys(symbols.biases("b_h", 2), 0), x: 0}
    free = leaky_step(candidate()).subs(ignored)
    yield Entry(
        PAPER, "eq. 4", "With x_t = 0, U = 0 and b = 0, (2) reduces to h_t = (1 - alpha) h_{t-1}.",
        (Equal(free, (1 - a) * h),), FREE, Mutation("1 - alpha read as alpha", Equal(free, a * h)),
    )  # fmt: skip
    kept = (1 - a) ** n
    yield Entry(
        PAPER, "eq. 5", "So h_t = (1 - alpha)^(t - t0) h_{t0}.",
        (Equal(kept.subs(n, n + 1), (1 - a) * kept), Equal(kept.subs(n, 0), S.One)), (*FREE, BELOW_ONE),
        Mutation("the exponent t - t0 + 1", Equal(((1 - a) ** (n + 1)).subs(n, 0), S.One)), remark="by induction over t",
    )  # fmt: skip
    share = u / (1 + u)
    tau = -1 / log(1 - share)
    yield Entry(
        PAPER, "eq. 5, characteristic time",
        "The state decays by a constant factor, e, after every tau = -1/log(1 - alpha) steps.",
        (Equal(tau * log(1 - share), -S.One), Equal(exp(tau * log(1 - share)), exp(-1))), (*FREE, BELOW_ONE),
        Mutation("tau = 1/alpha", Equal(log(1 - share) / share, -S.One)), remark="alpha = u/(1 + u), u > 0",
    )  # fmt: skip
    yield Entry(
        PAPER, "footnote 2", "For small alpha tau and the continuous 1/alpha are equivalent, since -log(1 - alpha) = alpha + ...",
        (Expands(-log(1 - a), a, a, 2), Tends(-a / log(1 - a), a, 0, S.One), Tends(-1 / log(1 - a) - 1 / a, a, 0, -Rational(1,
         2))),
        ("alpha -> 0",), Mutation("alpha read as 2 alpha", Expands(-log(1 - a), a, 2 * a, 2)),
        remark="equivalent in the sense that the ratio tends to 1; tau is shorter by half a step",
    )  # fmt: skip
    driven = leaky_step((symbols.weights("W_h", 2, 1) * x + symbols.biases("b_h", 2)).applyfunc(tanh))
    yield Entry(
        PAPER, "eq. 9", "With inputs and bias, but U = 0, still dh_t/dh_{t0} = (1 - alpha)^(t - t0) I.",
        (Equal(driven.jacobian(h), (1 - a) * eye(2)), Equal(driven.jacobian(h) ** 3, (1 - a) ** 3 * eye(2))), ("U = 0",),
        Mutation("1 - alpha read as alpha", Equal(driven.jacobian(h), a * eye(2))), remark=
        "by the chain rule; three steps checked",
    )  # fmt: skip


def leaky_candidate(twin: fields.SymbolicField, i: int) -> Expr:
    p = twin.parameters
    return tanh((p["W_x"] * column(*twin.inputs) + p["W_h"] * column(*twin.state) + p["b"])[i])


def gated() -> Iterator[Entry]:
    """Eqs. (6) to (8)."""
    f, i, new = gate("f"), gate("i"), candidate()
    step = diag(*f) * h + diag(*i) * new
    fixed = symbols.biases("f", 2)
    held = diag(*fixed) * h
    tied = {**dict(zip(symbols.weights("U_i", 2, 2), -symbols.weights("U_f", 2, 2), strict=True)),
            **dict(zip(symbols.weights("W_i", 2, 1), -symbols.weights("W_f", 2, 1), strict=True)),
            **dict(zip(symbols.biases("b_i", 2), -symbols.biases("b_f", 2), strict=True))}  # fmt: skip
    yield Entry(
        PAPER, "eq. 6", "h_t = f h_{t-1} + i h~ is, with i = 1 - f, the unit Euler step of dh/dt = i (h~ - h).",
        (Equal(step.subs(tied), (h + diag(*i) * (new - h)).subs(tied)),), ("i = 1 - f",),
        Mutation("i = 1 - f read as i = f", Equal(diag(*f) * h + diag(*f) * new, h + diag(*f) * (new - h))),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 6, constant gate", "Ignoring h~ and with f_t = f constant, h_t = f^(t - t0) h_{t0}, unit by unit.",
        (Equal(diag(*fixed) * (diag(*fixed) * held), diag(*(k**3 for k in fixed)) * h),), ("h~ = 0", "f is constant"),
        Mutation("f^3 read as f^2", Equal(diag(*fixed) * (diag(*fixed) * held), diag(*(k**2 for k in fixed)) * h)),
        remark="checked for 3 steps",
    )  # fmt: skip
    rest = {h[0]: 0, h[1]: 0, x: 0}
    yield Entry(
        PAPER, "eq. 7", "f_t = sigma(U_f h + W_f x + b_f) is near sigma(b_f) when the terms that vary are near zero.",
        (Equal(f.subs(rest), symbols.biases("b_f", 2).applyfunc(sigma)),), ("U_f h + W_f x = 0",),
        Mutation("b_f read as -b_f", Equal(f.subs(rest), (-symbols.biases("b_f", 2)).applyfunc(sigma))),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 7, large bias", "Large entries of b_f make a long memory: the time -1/log(f) grows as e^b.",
        (Tends(-exp(-u) / log(sigma(u)), u, oo, S.One), Less(S.Zero, sigma(z).diff(z), True)), ("U_f h + W_f x = 0",),
        Mutation("e^b read as e^(2 b)", Tends(-exp(-2 * u) / log(sigma(u)), u, oo, S.One)),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 8", "i_t = sigma(U_i h + W_i x + b_i) is 1 - f_t for weights and bias of the other sign.",
        (Equal(i.subs(tied), column(1, 1) - f),), mutation=Mutation("of the same sign", Equal(f, column(1, 1) - f)),
    )  # fmt: skip


def jacobians() -> Iterator[Entry]:
    """Section IV: eqs. (10) to (15) and the product of gates."""
    U, new = symbols.weights("U_h", 2, 2), candidate()
    D = diag(*(1 - k**2 for k in new))
    step, share = leaky_step(new), u / (1 + u)
    truth = step.jacobian(h).subs(a, share)
    yield Entry(
        PAPER, "eq. 10", "dh_t/dh_{t-1} of the leaky RNN is (1 - alpha) I - alpha U^T D.",
        (Equal(truth.T, (1 - share) * eye(2) - share * U.T * D),),
        correction=Correction(
            "The sign is +: (1 - alpha) I + alpha U^T D in the layout of the paper's chain rule (transposed), which is (1 - "
            "alpha) I + alpha D U with rows for what is differentiated.",
            (Equal(truth.T, (1 - share) * eye(2) + share * U.T * D), Equal(truth, (1 - share) * eye(2) + share * D * U)),
        ),
        remark="read in the transposed layout, the one in which U^T D can be right; alpha = u/(1 + u)",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 10, D", "D_t = diag(tanh'(U h_{t-1} + W x_t + b)) = diag(1 - h_t^2).",
        (Equal(D, diag(*(1 - k**2 for k in step))),),
        correction=Correction(
            "It is diag(1 - h~_t^2), of the candidate: h_t is the candidate only for alpha = 1.",
            (Equal(diag(*(affine("h").applyfunc(tanh).jacobian(list(symbols.biases("b_h", 2))).diagonal())), D),
             Equal(diag(*(1 - k**2 for k in step)).subs(a, 1), D)),
        ),
        remark="a tilde may have been lost in the extraction",
    )  # fmt: skip
    large = {U[0, 0]: c, U[1, 1]: c, U[0, 1]: 0, U[1, 0]: 0}
    at_rest = {**dict.fromkeys(symbols.weights("W_h", 2, 1), 0), **dict.fromkeys(symbols.biases("b_h", 2), 0), h[0]: 0, h[1]: 0}
    yield Entry(
        PAPER, "sec. IV-B, large U", "For U = c I with c large the term (1 - alpha) I no longer controls the time scale.",
        (Equal(truth.subs(large).subs(at_rest), (1 - share + share * c) * eye(2)), Less(S.One, 1 - a + a * (1 + u), True)),
        ("at h = 0, without input",), Mutation("c > 1 read as c < 1", Less(S.One, 1 - a + a * (1 - u))),
        remark="the factor of a step is 1 - alpha + alpha c, which is above 1, no decay at all, as soon as c = 1 + u is",
    )  # fmt: skip
    gates = [symbols.biases(f"b_{k}", 2).applyfunc(sigma) for k in (1, 2, 3)]
    state = h
    for k, f in enumerate(gates, 1):
        state = diag(*f) * state + symbols.biases(f"v_{k}", 2)
    product = diag(*(gates[0][j] * gates[1][j] * gates[2][j] for j in range(2)))
    yield Entry(
        PAPER, "sec. IV-A, gates", "Ignoring recurrent weights, dh_t/dh_{t0} of a gated RNN is the product over s of f_t.",
        (Equal(state.jacobian(h), diag(*(gates[2][j] ** 3 for j in range(2)))),),
        correction=Correction("The product of diag(f_s), s from t0 + 1 to t: each step has its own gate.",
        (Equal(state.jacobian(h), product),)),
        remark="checked for 3 steps; the index in print, or in the extraction, is t for s",
    )  # fmt: skip
    yield from gru()
    second = candidate()
    loss = symbols.biases("l", 2)
    through = (second.T * loss)[0]
    yield Entry(
        PAPER, "sec. IV-A, chain rule", "dL/dh_{t0} is dh_t/dh_{t0} times dL/dh_t.",
        (Equal(ImmutableDenseMatrix([through]).jacobian(h).T, second.jacobian(h).T * loss),), ("the Jacobian is transposed",),
        Mutation("not transposed", Equal(ImmutableDenseMatrix([through]).jacobian(h).T, second.jacobian(h) * loss)),
        remark="columns for gradients; in this layout (15) would have its factors in the other order, so that the paper uses "
               "both",
    )  # fmt: skip


def gru() -> Iterator[Entry]:
    """Eqs. (11) to (15)."""
    z_t, reset = gate("z"), gate("r")
    new = candidate(diag(*reset) * h)
    step = h - diag(*z_t) * h + diag(*z_t) * new
    yield Entry(
        PAPER, "eq. 11", "The GRU's h_t = (1 - z) h_{t-1} + z h~ is the unit Euler step of dh/dt = z (h~ - h).",
        (Equal(step, h + diag(*z_t) * (new - h)),), mutation=Mutation("z read as 1 - z", Equal(step,
         new + diag(*z_t) * (h - new))),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 12", "The update gate z is in (0, 1), so that h_t lies between h_{t-1} and h~.",
        (Less(S.Zero, sigma(z), True), Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z)))),
        mutation=Mutation("sigma read as 2 sigma", Less(2 * sigma(z), S.One)),
    )  # fmt: skip
    U = symbols.weights("U_h", 2, 2)
    inner = U * (diag(*reset) * h)
    yield Entry(
        PAPER, "eq. 13", "h~ = tanh(U (r h_{t-1}) + W x + b) resets before the product: another cell than torch's r (U h_{t-1}).",
        (Fails(Equal(inner, diag(*reset) * (U * h))), Equal(U * (sigma(z) * h), sigma(z) * (U * h))),
        mutation=Mutation("one reset gate for all units", Fails(Equal(U * (sigma(z) * h), sigma(z) * (U * h)))),
        remark="the two agree where all units share one reset gate",
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 14", "The reset gate cuts the past: at r = 0 the candidate does not read h_{t-1}.",
        (Equal(candidate(0 * h).jacobian(h), 0 * eye(2)), Tends(sigma(-u), u, oo, S.Zero)),
        mutation=Mutation("r = 0 read as r = 1", Equal(candidate(h).jacobian(h), 0 * eye(2))),
    )  # fmt: skip
    right = diag(*(1 - k for k in z_t)) + diag(*z_t) * new.jacobian(h) + diag(*(new - h)) * z_t.jacobian(h)
    wrong = diag(*(1 - k for k in z_t)) + diag(*z_t) * new.jacobian(h) - diag(*(new - h)) * z_t.jacobian(h)
    yield Entry(
        PAPER, "eq. 15", "dh_t/dh_{t-1} of the GRU is diag(1 - z) + diag(z) dh~/dh + diag(h~ - h) dz/dh.",
        (Equal(step.jacobian(h), right),), mutation=Mutation("h~ - h read as h - h~", Equal(step.jacobian(h), wrong)),
        remark="in the usual layout, where (10) is in the transposed one",
    )  # fmt: skip


def slow() -> Iterator[Entry]:
    """Section V: eqs. (16) to (24)."""
    known = {identity.label: identity for identity in power_decay.identities()}
    field, slowly = fields.leaky().substitute(alpha=a), fields.leaky(decay=fields.power_decay(r)).substitute(alpha=a)
    state = column(*field.state)
    tanhs = column(*(leaky_candidate(field, i) for i in range(2)))
    yield Entry(
        PAPER, "eq. 16", "h_t - h_{t-1} = alpha (tanh(U h_{t-1} + W x_t + b) - h_{t-1}).",
        (Equal(leaky_step(candidate()) - h, a * (candidate() - h)),), (BELOW_ONE,),
        Mutation("- h read as + h", Equal(leaky_step(candidate()) - h, a * (candidate() + h))),
    )  # fmt: skip
    dt = symbols.dt
    yield Entry(
        PAPER, "eq. 17", "For a small time step that is the ODE dh/dt = alpha (tanh(U h + W x + b) - h).",
        (Equal((euler_step(field, dt) - state) / dt, a * (tanhs - state)),), ("alpha > 0",),
        Mutation("alpha before tanh only", Equal((euler_step(field, dt) - state) / dt, a * tanhs - state)),
    )  # fmt: skip
    (H,), v, start = symbols.state(1), Symbol("v", real=True), Symbol("h_0", real=True)
    path = v + (start - v) * exp(-a * t)
    yield Entry(
        PAPER, "eq. 18", "With U = 0, dh(t)/dh(t0) = e^(-alpha (t - t0)) I.",
        (Solves((Eq(H.diff(t), a * (v - H)),), {H: path}, (S.Zero, {H: start})), Equal(path.diff(start), exp(-a * t))),
        ("U = 0", "alpha > 0"), Mutation("alpha read as 1/alpha", Equal(path.diff(start), exp(-t / a))),
        remark="shown for a held input, v = tanh(W x + b); the difference of two solutions under any one input solves (1)",
    )  # fmt: skip
    solution, same, limit_ = known["eq. 19"], known["eq. 20"], known["eq. 20, r to 0"]
    yield Entry(
        PAPER, "eq. 19", solution.statement, (Equal(solution.lhs, solution.rhs),), solution.assumptions,
        Mutation("r t read as t", Equal(h0 * (1 + h0**r * s) ** (-1 / r), power_decay.closed_form(h0, r, s))),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 20", same.statement, (Equal(same.lhs, same.rhs),), same.assumptions,
        Mutation("1/h0^r read as h0^r", Equal(same.lhs, (r * s + h0**r) ** (-1 / r))),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 20, r to 0", limit_.statement, (Equal(limit_.lhs, limit_.rhs),), limit_.assumptions,
        Mutation("the rate doubled", Equal(limit_.lhs, h0 * exp(-2 * s))),
    )  # fmt: skip
    printed = power_decay.misprints()[0]
    yield Entry(
        PAPER, "eq. 21", "dh(t)/dh(t0) = (1 + h(t0)^r (t - t0))^(-(r+1)/r).", (Equal(printed.lhs, printed.rhs),),
        correction=Correction(
            "A factor r is missing: (1 + r h(t0)^r (t - t0))^(-(r+1)/r). Only for r = 1 the print is right.",
            (Equal(printed.lhs, (1 + r * h0**r * s) ** (-(r + 1) / r)), Equal((printed.lhs - printed.rhs).subs(r, 1), S.Zero)),
        ),
        assumptions=printed.assumptions,
    )  # fmt: skip
    memory = (1 + r * h0**r * s) ** (-(r + 1) / r)
    far = memory * (r * s) ** ((r + 1) / r) * h0 ** (r + 1)
    yield Entry(
        PAPER, "eq. 21, order", "The memory decays polynomially, as (t - t0)^(-(r+1)/r), much slower than exponentially.",
        (Equal(far.subs(r, 2), ((2 * h0**2 * s) / (1 + 2 * h0**2 * s)) ** Rational(3, 2)),
         Tends((2 * u) / (1 + 2 * u), u, oo, S.One), Tends(exp(-u) * u ** Rational(3, 2), u, oo, S.Zero)),
        ("r = 2", "h(t0) > 0"), Mutation("3/2 read as 1/2", Equal((memory * (r * s) ** Rational(1, 2) * h0).subs(r, 2),
                                           ((2 * h0**2 * s) / (1 + 2 * h0**2 * s)) ** Rational(1, 2))),
    )  # fmt: skip
    powers = column(*(Abs(k) ** r * k for k in state))
    yield Entry(
        PAPER, "eq. 22", "With |h|^r h in place of h in (17): for r -> 0 it is (17) again, for h not 0.",
        (Equal(slowly.flow, a * (tanhs - powers)), Tends(u**r * u, r, 0, u)), ("alpha > 0", "r > 0"),
        Mutation("r -> 0 read as r -> 1", Tends(u**r * u, r, 1, u)),
    )  # fmt: skip
    step = euler_step(slowly)
    yield Entry(
        PAPER, "eq. 23", "h_t = h_{t-1} + alpha (h~_t - |h_{t-1}|^r h_{t-1}) is the unit Euler step of (22).",
        (Equal(step, state + a * (tanhs - powers)),), ("alpha > 0", "r > 0"),
        Mutation("- |h|^r h read as - h", Equal(step, state + a * (tanhs - state))),
    )  # fmt: skip
    yield Entry(
        PAPER, "eq. 24", "h~_t keeps (3): with r = 0 in (23) the step is the leaky RNN (2).",
        (Equal(h + a * (candidate() - h), leaky_step(candidate())),), (BELOW_ONE,),
        Mutation("r = 0 read as r = 2", Equal(h + a * (candidate() - h.applyfunc(lambda k: k**3)), leaky_step(candidate()))),
    )  # fmt: skip
    f = Symbol("f", positive=True)
    one = Symbol("h", real=True)
    yield Entry(
        PAPER, "sec. V, gated", "In gated RNNs f h is replaced by h - (1 - f) |h|^r h, which is f h for r = 0.",
        (Equal((one - (1 - f) * Abs(one) ** r * one).subs(r, 0), f * one),),
        mutation=Mutation("1 - f read as f", Equal((one - f * Abs(one) ** r * one).subs(r, 0), f * one)),
    )  # fmt: skip


def experiments() -> Iterator[Entry]:
    """Numbers of section VI and its tables."""
    one = Symbol("h", real=True)
    yield Entry(
        PAPER, "sec. VI-A, r = 2", "With r = 2 the term |h|^r h is h^3.", (Equal(Abs(one) ** 2 * one, one**3),),
        mutation=Mutation("r = 2 read as r = 1", Equal(Abs(one) * one, one**2)),
    )  # fmt: skip
    yield Entry(
        PAPER, "table I",
        "Images of 28 by 28 pixels are sequences of 784, and 70000 of them are split into 50000, 10000 and 10000.",
        (Equal(S(28) * 28, S(784)), Equal(S(50000) + 10000 + 10000, S(70000))), ("the set has 70000 images",),
        Mutation("28 read as 27", Equal(S(27) * 27, S(784))),
    )  # fmt: skip
    size = S(2947)
    ours, theirs = Rational(921, 1000), Rational(914, 1000)
    error = sqrt(ours * (1 - ours) / size + theirs * (1 - theirs) / size)
    limit_ = Rational(196, 100)
    yield Entry(
        PAPER, "table II, HAR", "92.1 % against 91.4 % of 2947 test sequences demonstrates an improvement.",
        (Less(limit_ * error, ours - theirs),),
        correction=Correction(
            "The difference, 0.7 points, is 0.98 standard errors: within chance at the 5 % level of a two-sided test of two "
            "proportions, each of n = 2947, taken as independent.",
            (Less(ours - theirs, limit_ * error, True), Rounds((ours - theirs) / error, "0.98")),
        ),
        remark="a paired test on the same sequences may be sharper; its counts are not printed",
    )  # fmt: skip
    large = S(10000)
    mnist, shuffled = (Rational(946, 1000), Rational(924, 1000)), (Rational(917, 1000), Rational(907, 1000))

    def apart(high: Rational, low: Rational) -> Less:
        return Less(limit_ * sqrt((high * (1 - high) + low * (1 - low)) / large), high - low, True)

    yield Entry(
        PAPER, "table II, pixels",
        "The baseline is better on sMNIST (94.6 against 92.4) and Ours on psMNIST (91.7 against 90.7).",
        (apart(*mnist), apart(*shuffled)), ("n = 10000 each, independent", "5 % level, two-sided test of two proportions"),
        Mutation("91.7 read as 91.2", apart(Rational(912, 1000), Rational(907, 1000))),
        remark="of one trained model each; chance in training is not in it",
    )  # fmt: skip
