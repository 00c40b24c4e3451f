r"""Tallec and Ollivier 2018, section 1 in discrete time, and section 2: gates, their range, and their biases.

(7) in steps of 1: (8), the gated RNN, with g = sigma(...) (9); a gate for each unit (10)
g in [1/Tmax, 1/Tmin]             b = -log(T - 1), for sigma(-log(T - 1)) = 1/T
LSTM (11)-(15)                    chrono (16): b_f = log u, u in [1, Tmax - 1], is T = u + 1 in [2, Tmax]
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Eq, Expr, Rational, S, Symbol, cosh, diff, exp, log, oo, tanh

from derivations.argument import gated, lstm
from derivations.argument.clocks import change_of_time
from derivations.argument.taylor import steps_to
from derivations.claim import Correction, Entry, Equal, Every, Expands, Fails, Less, Mutation, Source, Tends, changed
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.texts.tallec_ollivier import AT_TWO_UNITS, any_unit, from_identity, of_paper
from derivations.twins import fields
from derivations.twins.fields import sigma

paper = Source("tallec-ollivier-2018")
t = symbols.t
g, z = Symbol("g", positive=True), Symbol("z", real=True)
u, x = Symbol("u", positive=True), Symbol("x", positive=True)
T, LONGEST, SHORTEST = (Symbol(name, positive=True) for name in ("T", "T_max", "T_min"))
CENTRED = "x = h = 0"


def gates() -> Iterator[Entry]:
    """Eqs. (8) to (10)."""
    known = of_paper(gated.identities(), lstm.identities())
    eight, ten, cell = known["eq. 8"], known["eq. 10"], known["below eq. 10"]
    network, states = fields.gated(gate="network"), column(*fields.plain().state)
    (h, pull), rate = (any_unit()[0].lhs.expr, any_unit()[0].rhs + any_unit()[0].lhs.expr), symbols.g(t)
    gate = symbols.signal("G")(*pull.args)
    yield from_identity(
        eight,
        "1 - g read as 1 + g",
        eight.rhs + 2 * rate * states,
        Equal(**steps_to(any_unit(rate), [rate * pull + (1 - rate) * h])),
        quote=r"$$h_{t+1} = g_t \tanh(W_x x_t + W_h h_t + b) + (1 - g_t) h_t. \quad (8)$$",
    )
    own = own_gate(network)
    shared = change_of_time(fields.plain(), symbols.c(t))
    main = column(*(e.rhs.xreplace({symbols.c(t).diff(t): own}) for e in shared))
    yield paper("eq. 9", sizes=AT_TWO_UNITS).says(
        "(7) with g = sigma(Wgx x + Wgh h^g + b_g), h^g a recurrent network of its own, is the field on [h, h^g].",
        Equal(main, column(*network.flow[:2])),
        mutation=changed("g read as 1 - g", lhs=(1 / own - 1) * main),
        quote=r"$$g_t = \sigma(W_{gx} x_t + W_{gh} h_t^g + b_g) \quad (9)$$",
    )
    yield from_identity(
        ten,
        "1 - g^i read as 1 + g^i",
        ten.rhs + 2 * column(*(gated.gate(fields.gated(), i) * states[i] for i in range(2))),
        Equal(**steps_to(any_unit(gate), [gate * pull + (1 - gate) * h])),
        quote=r"$$h_{t+1}^i = g_t^i \tanh(W_x^i x_t + W_h^i h_t + b^i) + (1 - g_t^i) h_t^i \quad (10)$$",
    )
    f, i, before, new = (Symbol(letter, real=True) for letter in ("f", "i", "c", "n"))
    yield from_identity(
        cell,
        "the right side doubled",
        2 * cell.rhs,
        Equal(f * before + i * new, before + i * (new - before), {f: 1 - i}),
        quote="closely resembles the evolution equation of *cell* units in LSTMs, and of hidden units in GRUs",
    )


def own_gate(network: fields.SymbolicField) -> Expr:
    """sigma(Wgx x + Wgh h^g + b_g)."""
    p = network.parameters
    from_state = sum((p["W_gh"][0, j] * network.state[2 + j] for j in range(2)), S.Zero)
    return sigma(from_state + p["W_gx"][0, 0] * network.inputs[0] + p["b_g"][0])


def reused() -> Iterator[Entry]:
    """Which states the gate reads."""
    nine, network = of_paper(gated.identities())["eq. 9"], fields.gated(gate="network")
    yield paper("eq. 9, reused", sizes=AT_TWO_UNITS).says(
        "Current architectures reuse for h^g the states h of the main network.",
        Equal(nine.lhs, nine.rhs),
        mutation=changed("g read as 1 - g", rhs=nine.lhs - nine.rhs),
        remark="the global gated field",
        quote=r"Current architectures just reuse for $h^g$ the states $h$ of the main network",
    )
    own, gates_network = own_gate(network), column(*network.flow[2:])
    gate, (h, pull) = symbols.signal("G"), (any_unit()[0].lhs.expr, any_unit()[0].rhs + any_unit()[0].lhs.expr)
    mixed = gate(*pull.args)
    yield paper("eq. 9, union").says(
        "Calling the union of both networks h is equivalent: then h^g too moves by (7).",
        Equal(gates_network, own * gates_network),
        reading=Correction(
            "In form: with h for the union each unit moves by (8), with a gate that reads all of it. As a network it is another "
            "one: in (9) nothing slows h^g down, in the union its own gate does.",
            Equal(**steps_to(any_unit(mixed), [mixed * pull + (1 - mixed) * h])),
            Fails(Equal(gates_network, own * gates_network)),
        ),
        quote=r"or, equivalently, relabel $h \leftarrow (h, h^g)$ to be the union of both "
        r"recurrent networks and do not make the distinction",
    )


def too_fast() -> Iterator[Entry]:
    """How far (8) is from (7)."""
    kept, step, tenth = exp(-g), 1 - g, Rational(1, 10)
    yield paper("sec. 1, Taylor").says(
        "(8) and (7) are close for g up to 1: what a step keeps of h - candidate differs by less than a tenth.",
        Less(kept - step, tenth, region={g: (0, 1)}),
        reading=Correction(
            "For g well below 1: with the candidate held the difference is less than g^2/2, a tenth for g up to 0.44. At g = 1 "
            "(8) keeps nothing where (7) keeps 1/e, 37 %.",
            Less(S.Zero, kept - step, True, rising=(g,)),
            Less(kept - step, g**2 / 2, True, rising=(g,)),
            Expands(kept - step, g, g**2 / 2, 3),
            Less(g**2 / 2, tenth, region={g: (0, Rational(11, 25))}),
            Equal(kept - step, exp(-1), {g: S.One}),
        ),
        quote=r"say, when $\alpha \lesssim 1$ or $g_t \lesssim 1$ (then (8) and (7) are close)",
    )
    increment, speed = Symbol("dt", positive=True), Symbol("v", positive=True)
    yield paper("sec. 1, increment").says(
        "Data of the form sin(v t) change little in a step, v dt < 1, if the increment "
        "of time is smaller than their speed, dt < v.",
        Less(speed * increment, S.One, True, {increment: (0, speed)}),
        correction=Correction(
            "The increment must be smaller than the time in which the data change, dt < 1/v; an increment and a speed have "
            "different units, and as printed fast data would allow long steps.",
            Less(speed * increment, S.One, True, {increment: (0, 1 / speed)}),
        ),
        quote=r"should be smaller than the speed at which the data changes, otherwise the situation is hopeless",
    )
    yield paper("sec. 1, too fast").says(
        "Warpings that make things happen too fast are beyond discrete gated models: for g > 1 a step passes its candidate, and "
        "for g > 2 it ends further away than it began, where the field comes closer for every g.",
        Less(step, S.Zero, True, {g: (1, oo)}),
        Less(step, -S.One, True, {g: (2, oo)}),
        Less(kept, S.One, True, rising=(g,)),
        mutation=changed("g > 2 read as g > 1", upper=-S.One),
        quote="but obviously not to those that make things happen too fast for the model",
    )


def stretching() -> Iterator[Entry]:
    """Warpings that stretch time, and the range of g."""
    h, new = Symbol("h", real=True), Symbol("n", real=True)

    moved = g * new + (1 - g) * h
    yield paper(
        "sec. 1, stretching",
        given=(
            "the gate can tell a repeated input from a new one",
            "g = 0 is admitted, which a sigmoid reaches in the limit only",
        ),
    ).says(
        "Discrete gated models are invariant to warpings that stretch time: a gate that is 0 at repeated inputs holds the state.",
        Equal(moved, h, {g: S.Zero}),
        Tends(sigma(-u), u, oo, S.Zero),
        Less(S.Zero, sigma(z), True),
        mutation=changed("g = 0 read as g = 1", where={g: S.One}),
        remark="of (8) and (10), whose gates read the data; a constant gate, (5), is invariant to first order only",
        quote="So discrete-time gated models are invariant to time warpings that stretch time",
    )
    yield paper("sec. 1, blanks").says(
        "Interspersing data with blanks stretches time: on some clock hello reads h_e_l_l_o_.",
        Every("characters of h_e_l_l_o_: in hello", lambda: (({"character": k}, (k, "in", "hello")) for k in "h_e_l_l_o_")),
        reading=Correction(
            "Of data that have blanks: h_e_l_l_o_ read as h__e__l__l__o__, its gaps twice as long. A warping repeats what is "
            "there and puts in nothing new; a gate that is 0 at blanks holds the state at either.",
            Every(
                "characters of h__e__l__l__o__: in h_e_l_l_o_",
                lambda: (({"character": k}, (k, "in", "h_e_l_l_o_")) for k in "h__e__l__l__o__"),
            ),
            Equal(moved, h, {g: S.Zero}),
        ),
        remark="so with the zeros or whitespaces that section 1 begins with, which no rescaling puts in",
        quote="time warpings that stretch time (such as interspersing the data with blanks",
    )
    yield paper("sec. 1, sigmoid").says(
        "The constraints g > 0 and g < 1 square with a sigmoid.",
        Less(S.Zero, sigma(z), True),
        Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z))),
        mutation=Mutation("sigma read as tanh", Less(S.Zero, tanh(z))),
        quote=r"The two constraints $g_t > 0$ and $g_t < 1$ square nicely with the use of a sigmoid for the gate function $g$ .",
    )
    yield paper("intro, contraction").says(
        "Gate values are coefficients of time contraction, c' > 1, or of time dilation.",
        Fails(Less(sigma(z), S.One)),
        reading=Correction(
            "In continuous time, where g is any positive function. A sigmoid gate is below 1 and can only dilate.",
            Less(S.One, exp(u), True, rising=(u,)),
            Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z))),
        ),
        remark="e^u, u > 0, is such a function above 1",
        quote="gate values appear as time contraction or time dilation coefficients",
    )


def bias(scale: Expr) -> Expr:
    """-log(T - 1)."""
    return -log(scale - 1)


def ranges() -> Iterator[Entry]:
    """Section 2: from a range of times to a range of gates and of biases."""
    b, spread = Symbol("b_g", real=True), Symbol("s", positive=True)
    above, longer = SHORTEST + u, SHORTEST + u + x
    yield paper("sec. 2, range", given="0 < Tmin < T < Tmax").says(
        "A memory between Tmin and Tmax amounts to values of g in [1/Tmax, 1/Tmin].",
        Less(1 / longer, 1 / above, True),
        Less(1 / above, 1 / SHORTEST, True),
        mutation=changed("1/Tmin read as 1/Tmax", lower=1 / above, upper=1 / longer),
        remark="with T = Tmin + u and Tmax = T + x, u and x positive",
        quote=r"this amounts to having values of $g$ in the range $\left[\frac{1}{T_{\max}}, \frac{1}{T_{\min}}\right]$",
    )
    yield paper("sec. 2, biases", given="T > 1").says(
        "sigma(b_g) is in [1/Tmax, 1/Tmin] for b_g from -log(Tmax - 1) to -log(Tmin - 1).",
        Equal(sigma(b), 1 / (1 + u), {b: -log(u)}),
        Less(S.Zero, diff(sigma(z), z), True),
        mutation=changed("-log(T - 1) read as -log(T)", where={b: -log(1 + u)}),
        remark="T = 1 + u, u > 0; sigma increases, so that the ends go to the ends",
        quote=r"are obtained by choosing the biases $b_g$ between $-\log(T_{\max} - 1)$ and $-\log(T_{\min} - 1)$ .",
    )
    yield paper("sec. 2, shortest scale").says(
        "For every range of times the biases are -log(T - 1): T - 1 > 0 for all times T > 0.",
        Less(S.Zero, T - 1, True),
        reading=Correction(
            "Of times above 1: at T -> 1 the bias grows beyond all bounds, and a sigmoid is never 1/T for T below 1.",
            Tends(bias(T), T, 1, oo),
            Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z))),
            Less(S.Zero, T - 1, True, {T: (1, oo)}),
        ),
        quote=r"initialize the biases of $g$ as $-\log(\mathcal{U}([T_{\min}, T_{\max}]) - 1)$ "
        r"where $\mathcal{U}$ is the uniform distribution",
    )
    mean = (sigma(b + spread) + sigma(b - spread)) / 2
    B, E = Symbol("B", positive=True), Symbol("E", positive=True)
    lifted = (E / (E + B) + 1 / (1 + B * E)) / 2
    yield paper("sec. 2, centre").says(
        "With centred inputs and states, b_g + s or b_g - s by equal chance, the centre of g is sigma(b_g).",
        Equal(mean, sigma(b)),
        reading=Correction(
            "Their median is, if the gate's argument is symmetric about b_g: sigma increases and takes medians to medians. Their "
            "mean is larger for b_g < 0, where long memories are, and equal at 0.",
            Less(S.Zero, diff(sigma(z), z), True),
            Equal(mean.subs({b: -log(B), spread: log(E)}), lifted),
            Less(1 / (1 + B), lifted, True, {B: (1, oo), E: (1, oo)}),
            Equal(mean.subs(b, 0), Rational(1, 2)),
        ),
        remark="b_g = -log B and s = log E",
        quote=r"If the values of both inputs and hidden layers are centered over time, $g(t)$ will typically take values",
    )


def unknown_ranges() -> Iterator[Entry]:
    """Footnote 7."""
    b = Symbol("b", real=True)
    yield paper("footnote 7").says(
        "With T drawn at random the gates' biases are initialized to log(T).",
        Equal(sigma(b), 1 / (1 + u), {b: log(1 + u)}),
        correction=Correction(
            "A gate of time range T has bias -log(T - 1), as in the text; log(T) makes it T/(T + 1), which forgets at once. "
            "log(T - 1) is right for a forget gate, 1 - 1/T.",
            Equal(sigma(b), 1 / (1 + u), {b: -log(u)}),
            Equal(sigma(b), T / (1 + T), {b: log(T)}),
            Equal(sigma(b), 1 - 1 / (1 + u), {b: log(u)}),
        ),
        remark="T = 1 + u, u > 0",
        quote=r"and initialize biases to $\log(T)$ .",
    )
    law = 1 / (x * log(x) ** 2)
    yield paper("footnote 7, distribution", given="k >= 1").says(
        "P(T = k) proportional to 1/(k log(k + 1)^2) is a distribution with slow decay.",
        Equal(-Derivative(1 / log(x), x), law),
        Tends(1 / log(x), x, oo, S.Zero),
        Less(log(1 + x), log(2 + x), True, rewritten=log(1 + 1 / (1 + x))),
        Tends(x / log(x + 1), x, oo, oo),
        mutation=changed("log^2 read as log", rhs=1 / (x * log(x))),
        remark="it sums: each term from k = 2 on is less than 1/(k log(k)^2), whose integral is -1/log; and k P(T > k) is "
        "unbounded, as k/log(k + 1) is, so that T has no mean",
        quote=r"with slow decay (such as $\mathbb{P}(T = k) \propto \frac{1}{k \log(k+1)^2}$ )",
    )
    inverse = x * log(x + 1) ** 2
    yield paper("footnote 7, zero").says(
        "The weights 1/(k log(k + 1)^2) are a distribution on N = {0, 1, 2, ...}: what is divided by is positive at k = 0 too.",
        Less(S.Zero, inverse.subs(x, Symbol("k", nonnegative=True)), True),
        reading=Correction(
            "On {1, 2, 3, ...}: at k = 0 the weight is 1/0, and so is the bias log 0.",
            Less(S.Zero, inverse, True),
            Tends(1 / inverse, x, 0, oo),
        ),
        quote=r"a random time range $T$ according to some probability distribution on $\mathbb{N}$",
    )


def networks() -> Iterator[Entry]:
    """Eqs. (11) to (15)."""
    known = {identity.label: identity for identity in lstm.identities()}
    weights = {name: Symbol(name, real=True) for name in ("W_x", "W_h", "x", "h")}
    argument = weights["W_x"] * weights["x"] + weights["W_h"] * weights["h"]
    rest = {weights["x"]: 0, weights["h"]: 0}

    def gate(b: Expr) -> Expr:
        return sigma(argument + b).subs(rest)

    scale, b = 1 + u, Symbol("b_i", real=True)
    yield paper("eq. 11", given=(CENTRED, "T > 1")).says(
        "The input gate i = sigma(Wxi x + Whi h + b_i) lies around 1/T for b_i = -log(T - 1).",
        Equal(gate(b), 1 / T, {b: -log(u), T: scale}),
        mutation=changed("b_i = log(T - 1)", where={b: log(u), T: scale}),
        quote=r"$$i_t = \sigma(W_{xi} x_t + W_{hi} h_{t-1} + b_i) \quad (11)$$",
    )
    yield paper("eq. 12", given=(CENTRED, "T > 1")).says(
        "The forget gate f = sigma(Wxf x + Whf h + b_f) lies around 1 - 1/T for b_f = log(T - 1).",
        Equal(gate(log(scale - 1)), 1 - 1 / scale),
        mutation=changed("b_f = log(T)", lhs=gate(log(scale))),
        quote=r"$$f_t = \sigma(W_{xf} x_t + W_{hf} h_{t-1} + b_f) \quad (12)$$",
    )
    h, c, reads = (symbols.signal(letter)(t) for letter in "hcx")
    f, i, o, new = (symbols.signal(letter)(reads, h) for letter in "fion")
    display = {
        "eq. 13": (
            r"$$c_t = f_t c_{t-1} + i_t \tanh(W_{xc} x_t + W_{hc} h_{t-1} + b_c) \quad (13)$$",
            steps_to([Eq(c.diff(t), (f - 1) * c + i * tanh(new))], [f * c + i * tanh(new)]),
        ),
        "eq. 15": (
            r"$$h_t = o_t \tanh(c_t), \quad (15)$$",
            steps_to([Eq(h.diff(t), o * tanh(f * c + i * tanh(new)) - h)], [o * tanh(f * c + i * tanh(new))]),
        ),
    }
    for label, (quote, of_any) in display.items():
        yield from_identity(known[label], "the right side doubled", 2 * known[label].rhs, Equal(**of_any), quote=quote)
    cell = Symbol("c", real=True)
    yield paper("eq. 14").says(
        "The output gate o = sigma(...) keeps |h| = o |tanh(c)| below 1 in (15), whatever the cell.",
        Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z))),
        Less(S.Zero, 1 - tanh(cell) ** 2, True, rewritten=1 / cosh(cell) ** 2),
        mutation=Mutation("tanh(c) read as c", Less(sigma(z) * cell, S.One)),
        quote=r"$$o_t = \sigma(W_{xo} x_t + W_{ho} h_{t-1} + b_o) \quad (14)$$",
    )


def chrono() -> Iterator[Entry]:
    """The gates of (10) and of (13), and the chrono initialization (16)."""
    scale, b = u + 1, Symbol("b_f", real=True)
    yield paper("sec. 2, tied", given=CENTRED).says(
        "1 - g corresponds to f and g to i: with b_i = -b_f the two gates add to 1 at the start.",
        Equal(sigma(z) + sigma(-z), S.One),
        mutation=changed("b_i = b_f", lhs=2 * sigma(z)),
        quote=r"$1 - g_t$ corresponds to $f_t$ , and $g_t$ to $i_t$ .",
    )
    f, i, j, before, new = (Symbol(letter, real=True) for letter in ("f", "i", "j", "c", "n"))

    def twice(gate: Expr) -> Expr:
        return f * (f * before + gate * new) + gate * new

    yield paper("sec. 2, both gates").says(
        "For a time range T both gates must be set, f and i: the memory dc_t/dc_0 is another with another input gate.",
        Fails(Equal(Derivative(twice(i), before), Derivative(twice(j), before))),
        reading=Correction(
            "The time range is the forget gate's alone, f^n after n steps; i around 1/T = 1 - f besides keeps the cell in the "
            "range of what it takes in: a constant n is its own fixed point.",
            Equal(Derivative(twice(i), before), f**2),
            Equal(f * new + i * new, new, {i: 1 - f}),
        ),
        remark="two steps, gates held",
        quote=r"To obtain a time range around $T$ for unit $i$ , we must both ensure that $f_t^i$ lies around "
        r"$1 - 1/T$ , and that $i_t$ lies around $1/T$ .",
    )
    yield paper("eq. 16", given=("Tmax > 2", CENTRED)).says(
        "b_f = log(u), u uniform on [1, Tmax - 1], and b_i = -b_f give time ranges T = u + 1 from 2 to Tmax.",
        Equal(sigma(b), 1 - 1 / scale, {b: log(u)}),
        Equal(sigma(-b), 1 / scale, {b: log(u)}),
        Equal(scale, S(2), {u: S.One}),
        Equal(scale, LONGEST, {u: LONGEST - 1}),
        mutation=Mutation("[1, Tmax - 1] read as [1, Tmax]", Equal(scale, LONGEST, {u: LONGEST})),
        remark="the same draw as b_g = -log(U - 1) of the text with Tmin = 2",
        quote=r"b_f &\sim \log(\mathcal{U}([1, T_{\max} - 1])) \\ b_i &= -b_f",
    )
