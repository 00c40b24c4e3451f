r"""Ohno and Kumagai 2021, sections I and III: time scales of leaky and gated networks.

    h_t = (1 - a) h_{t-1} + a h~_t               (2)
    tau = -1/log(1 - a) = 1/a - 1/2 - ...        footnote 2
    h_t = f h_{t-1} + i h~_t                     (6)

What is said unit by unit is proved for one unit, p, which reads any others.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Eq, Expr, ImmutableDenseMatrix, Rational, S, Symbol, diag, exp, eye, log, oo, tanh

from derivations.argument.taylor import steps_to
from derivations.claim import Correction, Entry, Equal, Expands, Fails, Less, Mutation, Solves, Source, Tends, changed
from derivations.prover import symbols
from derivations.prover.identity import column, jacobian
from derivations.twins import fields
from derivations.twins.fields import sigma

__all__ = ["AT_TWO_UNITS", "BELOW_ONE", "affine", "any_candidate", "candidate", "gate", "h", "leaky_candidate", "leaky_step"]

paper = Source("ohno-kumagai-2021")
t = symbols.t
a, u, n = Symbol("alpha", positive=True), Symbol("u", positive=True), Symbol("n", integer=True, nonnegative=True)
c, z = Symbol("c", positive=True), Symbol("z", real=True)
# Two units and one input; h is the state before the step.
h = ImmutableDenseMatrix([Symbol("h_1", real=True), Symbol("h_2", real=True)])
x = Symbol("x", real=True)
# A unit of any network, and another one.
p, q = Symbol("p", real=True), Symbol("q", real=True)
BELOW_ONE, AT_TWO_UNITS = "0 < alpha < 1", "2 units, 1 input"
FREE = ("x = 0 after t0", "U = 0", "b = 0")


def affine(name: str, of: ImmutableDenseMatrix = h) -> ImmutableDenseMatrix:
    """U h + W x + b, with letters of its own."""
    return symbols.weights(f"U_{name}", 2, 2) * of + symbols.weights(f"W_{name}", 2, 1) * x + symbols.biases(f"b_{name}", 2)


def candidate(of: ImmutableDenseMatrix = h) -> ImmutableDenseMatrix:
    return affine("h", of).applyfunc(tanh)


def gate(name: str) -> ImmutableDenseMatrix:
    return affine(name).applyfunc(sigma)


def leaky_step(new: ImmutableDenseMatrix) -> ImmutableDenseMatrix:
    return (1 - a) * h + a * new


def leaky_candidate(twin: fields.SymbolicField, i: int) -> Expr:
    letters = twin.parameters
    return tanh((letters["W_x"] * column(*twin.inputs) + letters["W_h"] * column(*twin.state) + letters["b"])[i])


def any_candidate(*units: Expr) -> Expr:
    """h~ of a unit: any function of the units given; the input and the others are part of the function."""
    return symbols.signal("n")(*units)


def leaky() -> Iterator[Entry]:
    """Eqs. (1) to (3)."""
    (H,), start, t0 = symbols.state(1), Symbol("h_0", real=True), Symbol("t_0", real=True)
    path = start * exp(-c * (t - t0))
    yield paper("eq. 1", given="c > 0").says(
        "h(t) = e^(-c (t - t0)) h(t0) is the solution of dh/dt = -c h.",
        Solves((Eq(H.diff(t), -c * H),), {H: path}, (t0, {H: start})),
        mutation=Mutation("e^(-c t) read as e^(-t/c)", Solves((Eq(H.diff(t), -c * H),), {H: start * exp(-t / c)})),
        quote=r"\displaystyle\frac{\mathrm{d}h}{\mathrm{d}t}(t)=-ch(t) (1)",
    )
    twin = fields.leaky().substitute(alpha=a)
    tanhs, state = column(*(leaky_candidate(twin, i) for i in range(2))), column(*twin.state)
    new = any_candidate(p, q)
    yield paper("eq. 2", given=BELOW_ONE).says(
        "The leaky RNN h_t = (1 - alpha) h_{t-1} + alpha h~_t is the unit Euler step of the leaky field.",
        Equal(**steps_to(twin, (1 - a) * state + a * tanhs)),
        Equal(p + a * (new - p), (1 - a) * p + a * new),
        mutation=Mutation("1 - alpha read as 1", Equal(**steps_to(twin, state + a * tanhs))),
        quote=r"\displaystyle=(1-\alpha)\mathbf{h}_{t-1}+\alpha\tilde{\mathbf{h}}_{t}, (2)",
    )
    U, slopes = symbols.weights("U_h", 2, 2), diag(*(1 - unit**2 for unit in candidate()))
    yield paper("eq. 3", sizes=AT_TWO_UNITS).says(
        "h~_t = tanh(U h_{t-1} + W x_t + b), the product of a matrix: unit i reads h_j with the slope (1 - h~_i^2) U_ij.",
        Equal(jacobian(candidate(), h), slopes * U),
        mutation=changed("U read as its transpose", rhs=slopes * U.T),
        quote=r"\displaystyle=\tanh(\mathbf{U}\mathbf{h}_{t-1}+\mathbf{W}\mathbf{x}_{t}+\mathbf{b}), (3)",
    )
    step = (1 - a) * p + a * z
    yield paper("sec. III, alpha", given=BELOW_ONE).says(
        "For alpha near 1 the state is replaced by the new one, for small alpha it is almost unchanged.",
        Equal(step - z, (1 - a) * (p - z)),
        Tends(step, a, 1, z, "-"),
        Tends(step, a, 0, p),
        mutation=Mutation("near 1 and small exchanged", Tends(step, a, 0, z)),
        remark="h~ = z is held",
        quote="is small, the state is almost unchanged and information is retained",
    )


def free() -> Iterator[Entry]:
    """Eqs. (4) and (5), footnote 2, eq. (9)."""
    weight, bias = Symbol("U", real=True), Symbol("b", real=True)
    step, quiet = (1 - a) * p + a * tanh(weight * q + x + bias), dict.fromkeys((weight, bias, x), S.Zero)
    yield paper("eq. 4", given=FREE).says(
        "With x_t = 0, U = 0 and b = 0, (2) reduces to h_t = (1 - alpha) h_{t-1}.",
        Equal(step, (1 - a) * p, quiet),
        mutation=changed("1 - alpha read as alpha", rhs=a * p),
        quote=r"\displaystyle\mathbf{h}_{t}=(1-\alpha)\mathbf{h}_{t-1}, (4)",
    )
    kept = (1 - a) ** n
    yield paper("eq. 5", given=(*FREE, BELOW_ONE)).says(
        "So h_t = (1 - alpha)^(t - t0) h_{t0}.",
        Equal(kept.subs(n, n + 1), (1 - a) * kept),
        Equal(kept, S.One, {n: S.Zero}),
        mutation=Mutation("the exponent t - t0 + 1", Equal((1 - a) ** (n + 1), S.One, {n: S.Zero})),
        remark="by induction over t",
        quote=r"\displaystyle\mathbf{h}_{t}=(1-\alpha)^{t-t_{0}}\mathbf{h}_{t_{0}}. (5)",
    )
    rate, steps = Symbol("r", positive=True), Symbol("t", positive=True)
    tau = -1 / log(exp(-rate))
    yield paper("eq. 5, characteristic time", given=(*FREE, BELOW_ONE)).says(
        "The state decays by a constant factor, e, after every tau = -1/log(1 - alpha) steps: from step t to step t + tau.",
        Equal(exp(-rate) ** (steps + tau) / exp(-rate) ** steps, exp(-1)),
        mutation=changed("tau = 1/alpha", lhs=exp(-rate) ** (steps + 1 / (1 - exp(-rate))) / exp(-rate) ** steps),
        remark="1 - alpha = e^(-r), r > 0; tau is not a whole number of steps",
        quote="This formula indicates that the state decays by a constant factor after every",
    )
    yield paper("footnote 2", given="alpha -> 0").says(
        "For small alpha tau and the continuous 1/alpha are equivalent, since -log(1 - alpha) = alpha + ...",
        Expands(-log(1 - a), a, a, 2),
        Tends(-a / log(1 - a), a, 0, S.One),
        Tends(-1 / log(1 - a) - 1 / a, a, 0, -Rational(1, 2)),
        mutation=changed("alpha read as 2 alpha", terms=2 * a),
        remark="equivalent in the sense that the ratio tends to 1; tau is shorter by half a step",
        quote="is small, these two are equivalent since we have",
    )
    driven = leaky_step((symbols.weights("W_h", 2, 1) * x + symbols.biases("b_h", 2)).applyfunc(tanh))
    of_any = kept * p + symbols.signal("v")(n)
    following = (1 - a) * of_any + a * tanh(x)
    yield paper("eq. 9", given="U = 0").says(
        "With inputs and bias, but U = 0, still dh_t/dh_{t0} = (1 - alpha)^(t - t0) I.",
        Equal(jacobian(driven, h), (1 - a) * eye(2)),
        Equal(Derivative(following, p), kept.subs(n, n + 1)),
        Equal(Derivative(of_any.subs(n, 0), p), S.One),
        mutation=changed("1 - alpha read as alpha", rhs=a * eye(2)),
        remark="by induction over t: h_t = (1 - alpha)^n p + v(n), in which v holds what has come in",
        quote="Note that this equation holds even when we admit inputs after",
    )


def gated() -> Iterator[Entry]:
    """Eqs. (6) to (8)."""
    f, i, new, bias, spread = (Symbol(letter, real=True) for letter in ("f", "i", "n", "b_f", "v"))
    step = f * p + i * new
    yield paper("eq. 6", given="i = 1 - f").says(
        "h_t = f h_{t-1} + i h~ is, with i = 1 - f, the unit Euler step of dh/dt = i (h~ - h).",
        Equal(step, p + i * (new - p), {f: 1 - i}),
        mutation=changed("i = 1 - f read as i = f", where={f: i}),
        quote=r"\displaystyle=\mathbf{f}_{t}\odot\mathbf{h}_{t-1}+\mathbf{i}_{t}\odot\tilde{\mathbf{h}}_{t}, (6)",
    )
    output, weight = Symbol("o", real=True), Symbol("U", real=True)
    yield paper("eqs. 6 to 8, LSTM").says(
        "An LSTM is of the form (6) to (8): its forget gate reads the state that it keeps.",
        Equal(sigma(weight * output * tanh(p) + z), sigma(weight * p + z)),
        reading=Correction(
            "In (6), with its cell as the state, and gates that are any functions: they read its output h = o tanh(c), see (11) "
            "to (15) of Tallec and Ollivier 2018, and o is the output gate of the step before, which the cell does not tell.",
            Equal(sigma(weight * output * tanh(p) + z), sigma(weight * q + z), {q: output * tanh(p)}),
            Fails(Equal(output * tanh(p), p)),
        ),
        remark="one unit, cell p; a GRU is, with z = 1 - f",
        quote="The above insight can also be applied to RNNs with gating mechanism such as an LSTM [8] or GRU [9], which is "
        "written in a general form as",
    )
    kept = f**n
    yield paper("eq. 6, constant gate", given=("h~ = 0", "f is constant")).says(
        "Ignoring h~ and with f_t = f constant, h_t = f^(t - t0) h_{t0}, unit by unit.",
        Equal(f * (kept * p), kept.subs(n, n + 1) * p),
        Equal(kept * p, p, {n: S.Zero}),
        mutation=Mutation("f^(t - t0) read as f^(2 (t - t0))", Equal(f * (f ** (2 * n) * p), f ** (2 * (n + 1)) * p)),
        remark="by induction over t",
        quote="to be constant, we see the same exponential decay structure",
    )
    unit, learned = symbols.signal("h")(t), 1 / (1 + u)
    yield paper("intro, larger order").says(
        "A leaky or gated RNN cannot represent memory of the order of 1/(1 + t), whatever its gates: (1 + t) times its memory "
        "tends to 0.",
        Tends((1 + u) * learned, u, oo, S.Zero),
        reading=Correction(
            "With constant gates, whose memory is exponential. With the gate g = 1/(1 + t) of (7) in Tallec and Ollivier 2018, "
            "which is to learn the speed of a clock, here log(1 + t), it is 1/(1 + t): slower than the power (r + 1)/r > 1 of "
            "(21), for every r.",
            Solves((Eq(unit.diff(t), -unit / (1 + t)),), {unit: p / (1 + t)}, (S.Zero, {unit: p})),
            Equal((1 - 1 / (n + 2)) / (n + 1), 1 / (n + 2)),
            Equal(u ** ((1 + c) / c) / u, u ** (1 / c)),
            Tends(u ** (1 / c), u, 0, S.Zero),
        ),
        remark="in steps the forget gates 1/2, 2/3, 3/4, ... multiply to 1/(n + 1); t = 1/u and r = c in the last limit",
        quote="which can represent a larger order time scale than conventional leaky or gated RNNs",
    )
    opened = sigma(z + bias)
    yield paper("eq. 7", given="U_f h + W_f x = 0").says(
        "f_t = sigma(U_f h + W_f x + b_f) is sigma(b_f) when the terms that vary are zero.",
        Equal(opened, sigma(bias), {z: S.Zero}),
        mutation=changed("b_f read as -b_f", lhs=sigma(z - bias)),
        quote=r"\displaystyle=\sigma(\mathbf{U}_{f}\mathbf{h}_{t-1}+\mathbf{W}_{f}\mathbf{x}_{t}+\mathbf{b}_{f}), (7)",
    )
    half = (sigma(z) - Rational(1, 2)) ** 2
    yield paper("eq. 7, centred").says(
        "When the terms that vary are centered around zero, v or -v by equal chance, "
        "f_t is near sigma(b_f), on average equal to it.",
        Equal((sigma(bias + spread) + sigma(bias - spread)) / 2, sigma(bias)),
        reading=Correction(
            "When they are small: the slope of sigma is at most 1/4, and f_t differs by at most |v|/4. Centred "
            "terms may be large, and f_t then is near 0 or 1.",
            Less(sigma(z).diff(z), Rational(1, 4), rewritten=half),
            Tends(sigma(u), u, oo, S.One),
            Tends(sigma(-u), u, oo, S.Zero),
        ),
        quote="are centered around zero",
    )
    yield paper("eq. 7, large bias", given="U_f h + W_f x = 0").says(
        "Large entries of b_f make a long memory: the time -1/log(f) grows as e^b.",
        Tends(-exp(-u) / log(sigma(u)), u, oo, S.One),
        Less(S.Zero, sigma(z).diff(z), True),
        mutation=changed("e^b read as e^(2 b)", expression=-exp(-2 * u) / log(sigma(u))),
        quote="for a gated RNN to learn long-term dependencies efficiently, one can impose some entries in",
    )
    yield paper("eq. 8").says(
        "i_t = sigma(U_i h + W_i x + b_i) is 1 - f_t for weights and bias of the other sign.",
        Equal(sigma(-z), 1 - sigma(z)),
        mutation=changed("of the same sign", lhs=sigma(z)),
        quote=r"\displaystyle=\sigma(\mathbf{U}_{i}\mathbf{h}_{t-1}+\mathbf{W}_{i}\mathbf{x}_{t}+\mathbf{b}_{i}). (8)",
    )
