r"""Results 10, 11 and 13 of our own: clocks that stop and go, repeated samples, and what RBPM's modulus is the mean of; and how
the additive network and its rate form are one.

gate multiplied by 0      h + 0 (f - h) = h: gated, GRU and power-decay cells wait; plain and leaky ones do not
x(floor c(t))             repeats symbol k ceil(c^-1(k+1)) - ceil(c^-1(k)) times
k repeats with alpha/k    (1 - 1/k)^k -> 1/e at the rate 1/k
v = W r + I               tau dr/dt = -r + f(v) becomes tau dv/dt = -v + W f(v) + I + tau dI/dt
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import isqrt

from sympy import Derivative, Expr, Function, Matrix, Rational, S, Symbol, exp, ones, tanh, zeros

from derivations.argument.gated import gate
from derivations.argument.gru import total
from derivations.argument.taylor import euler_step
from derivations.claim import Cases, Entry, Equal, Every, Fails, Mutation, Tends, changed
from derivations.closure import RESCALING, Closes
from derivations.prior_work import own
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.twins import fields
from derivations.twins.fields import SymbolicField, sigma

r, t = symbols.r, symbols.t
step = Symbol("step", real=True)
h, c, x, w, u, b = (Symbol(name, real=True) for name in ("h", "c", "x", "w", "u", "b"))


def gates_of(field: SymbolicField) -> list[Expr]:
    """The rates of the units: sigma(...) of a gated field, 1 - z of the GRU."""
    if field.name == "gru":
        return [1 - sigma(total(field, "W_xz", "W_hz", "b_z", i)) for i in range(len(field))]
    return [gate(field, i) for i in range(len(field))]


def stepped(field: SymbolicField) -> dict[Expr, Expr]:
    """Each gate of a field multiplied by the step; z stands in the GRU where 1 - its gate does."""
    if field.name == "gru":
        return {1 - rate: 1 - step * rate for rate in gates_of(field)}
    return {rate: step * rate for rate in gates_of(field)}


i, f = step * sigma(x), 1 - step * (1 - sigma(b))
cell = f * c + i * tanh(w * x)


def standing_still() -> Iterator[Entry]:
    """Result 10: at step 0 an invariant cell stays as it is, at step 1 it is the cell."""
    for name, field, words in (
        ("gated", fields.gated(), "gated RNN"),
        ("gru", fields.gru(), "GRU, its 1 - z the gate,"),
        ("gated, power decay", fields.gated(decay=fields.power_decay(r)), "gated power-decay cell"),
    ):
        state, cell = column(*field.state), euler_step(field)
        waits = state + field.flow.xreplace(stepped(field))
        # A decay that the step does not multiply: h still falls while the clock stands.
        falls = waits - (1 - step) * column(*(rate * h for rate, h in zip(gates_of(field), field.state, strict=True)))
        yield own(f"result 10, {name}", sizes="2 units, 1 input").says(
            f"The {words} is exactly invariant to a clock that stops and goes.",
            Equal(waits, state, {step: S.Zero}),
            Equal(waits, cell, {step: S.One}),
            mutation=changed("the decay not gated", lhs=falls),
            remark="its gates are multiplied by the step, 0 or 1; a cell without gates has none to multiply, and does not wait",
        )
    candidate = tanh(w * x + u * h + b)
    yield own("result 10, plain").says(
        "The plain RNN is not: it reads again at every step.",
        Fails(Equal(candidate, h)),
        Fails(Equal(candidate.subs(h, candidate), candidate)),
        mutation=Mutation("without weights", Fails(Equal(candidate.subs({w: 0, u: 0, b: 0}).subs(h, 0), S.Zero))),
    )
    a = Symbol("alpha", positive=True)

    def leaky(state: Expr) -> Expr:
        return (1 - a) * state + a * tanh(w * x + b)

    yield own("result 10, leaky").says(
        "The leaky cell with a fixed alpha is not: two steps on one sample forget more than one does.",
        Equal(Derivative(leaky(leaky(h)), h), (1 - a) ** 2),
        Fails(Equal(leaky(leaky(h)), leaky(h))),
        mutation=Mutation("alpha = 0 while it waits", Fails(Equal(leaky(leaky(h)).subs(a, 0), leaky(h).subs(a, 0)))),
        remark="without recurrent weights already",
    )
    gnn = tanh(w * h + b)
    yield own("result 10, GNN").says(
        "The GNN, a = s(sum tau_ijx a_i), is not: there is no weight for which tanh keeps every state.",
        Fails(Equal(gnn, h)),
        Fails(Equal(gnn.subs({w: 1, b: 0}), h)),
        mutation=Mutation("linear s", Fails(Equal((w * h + b).subs({w: 1, b: 0}), h))),
    )


def read_out_and_blanks() -> Iterator[Entry]:
    """Result 10: the LSTM and the GLNN."""
    output = sigma(x + u * h)

    def visible(previous: Expr) -> Expr:
        return output.subs(h, previous) * tanh(c)

    fixed = sigma(x) * tanh(c)
    yield own("result 10, LSTM").says(
        "The LSTM is invariant only without the recurrent weights of its output gate.",
        Equal(cell, c, {step: S.Zero}),
        Fails(Equal(visible(visible(h)), visible(h))),
        Equal(visible(h), fixed, {u: S.Zero}),
        Equal(visible(visible(h)), fixed, {u: S.Zero}),
        mutation=Mutation("with them", Equal(visible(visible(h)), visible(h))),
        remark="while the clock stands the input and c are the same; h = o tanh(c) is computed anew from the last h",
    )
    glnn = fields.glnn()
    silent = dict.fromkeys([*glnn.parameters["T_2"], *glnn.parameters["t_2"]], S.Zero)
    first, second = (dict(zip(glnn.inputs, one, strict=True)) for one in ((S.One, S.Zero), (S.Zero, S.One)))
    yield own("result 10, GLNN, blank", sizes="2 units, 2 symbols").says(
        "In a GLNN padding with a symbol of zero weights changes nothing, without any gate.",
        Equal(glnn.flow, column(0, 0), {**silent, **second}),
        mutation=changed("the other symbol", where={**silent, **first}),
        remark="V + 0 is V in floating point too",
    )
    rates = [Symbol("p_1", positive=True), Symbol("p_2", positive=True)]
    names = (1, 2)
    scaled = glnn.substitute(
        **{f"{letter}_{k}": rates[k - 1] * glnn.parameters[f"{letter}_{k}"] for k in names for letter in "Tt"}
    )
    reading = [dict(zip(glnn.inputs, one, strict=True)) for one in ((S.One, S.Zero), (S.Zero, S.One))]
    yield own("result 10, GLNN, rates", sizes="2 units, 2 symbols").says(
        "GLNN is linear in its transition weights, so that its ODE absorbs rescaling and rates that depend on the symbol.",
        Closes(glnn, RESCALING),
        *(Equal(scaled.flow, rates[k] * glnn.flow, one) for k, one in enumerate(reading)),
        mutation=Mutation(
            "the rate of the other symbol", Equal(scaled.flow.subs(reading[0]), rates[1] * glnn.flow.subs(reading[0]))
        ),
    )


def repeats(off: int) -> Cases:
    """Clocks c(t) = p t/q: how often floor c(t) is k, counted, against the formula."""

    for p, q, k in product(range(1, 7), range(1, 7), range(6)):
        counted = sum((p * n) // q == k for n in range(q * 7 + 1))
        formula = -(-(q * (k + 1)) // p) - -(-(q * k) // p) + off
        yield {"p": p, "q": q, "k": k}, (counted, "=", formula)


def bent_repeats(off: int) -> Cases:
    """Clocks c(t) = t^2/m, whose inverse is sqrt(m s): the same count."""

    for m, k in product(range(1, 12), range(8)):
        counted = sum(t * t // m == k for t in range(m * 9))
        first, after = (isqrt(m * n - 1) + 1 if n else 0 for n in (k, k + 1))
        yield {"m": m, "k": k}, (counted, "=", after - first + off)


def kept(most: int) -> Cases:
    """All clocks of six increments 0 to 3: every symbol up to the last is read iff no increment exceeds `most`."""

    for rises in product(range(4), repeat=6):
        read = [sum(rises[:n]) for n in range(7)]
        none_lost = (set(read), "=", set(range(read[-1] + 1)))
        yield {f"rise_{n}": rise for n, rise in enumerate(rises)}, (none_lost, "=", (max(rises), "<=", most))


def reproduced(gate_of: Callable[[tuple[int, ...], int], int]) -> Cases:
    """All clocks of seven increments 0 or 1, for the free cell: its state is the list of what it has read, so what holds for it
    holds for every cell.
    """

    def cell(state: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        return (*state, symbol)

    xs = [3, 1, 4, 1, 5, 9, 2, 6]
    for rises in product(range(2), repeat=7):
        unwarped: list[tuple[int, ...]] = [()]
        for symbol in xs:
            unwarped.append(cell(unwarped[-1], symbol))
        state, read, reached, wanted = unwarped[0], 0, [], []
        for n, rise in enumerate(rises):
            state = cell(state, xs[read]) if gate_of(rises, n) else state
            read += rise
            reached.append(state)
            wanted.append(unwarped[read])
        yield {f"rise_{n}": rise for n, rise in enumerate(rises)}, (reached, "=", wanted)


def sampling() -> Iterator[Entry]:
    """Result 11."""
    yield own("result 11, repeats", sizes="clocks p t/q and t^2/m").says(
        "x(floor c(t)) repeats symbol k exactly ceil(c^-1(k+1)) - ceil(c^-1(k)) times.",
        Every("c(t) = p t/q, p and q from 1 to 6, k from 0 to 5", partial(repeats, 0)),
        Every("c(t) = t^2/m, m from 1 to 11, k from 0 to 7", partial(bent_repeats, 0)),
        mutation=Mutation("one more", Every("c(t) = t^2/m", partial(bent_repeats, 1))),
        remark="floor c(t) = k is k <= c(t) < k + 1, that is c^-1(k) <= t < c^-1(k+1): the integers in it are "
        "counted by ceilings, for any increasing clock",
    )
    yield own("result 11, none lost", sizes="6 increments of up to 3").says(
        "No symbol is lost iff every floor c(t+1) - floor c(t) is 0 or 1.",
        Every("six increments of 0 to 3", partial(kept, 1)),
        mutation=Mutation("0, 1 or 2", Every("the same", partial(kept, 2))),
        remark="an increment above 1 leaves a symbol out, and only that does; counted from the first symbol read to the last",
    )
    yield own("result 11, gate", given="the cell waits where its gate is 0", sizes="7 increments").says(
        "The gate equal to that difference reproduces the unwarped trajectory exactly.",
        Every("seven increments of 0 or 1", partial(reproduced, lambda rises, n: rises[n])),
        mutation=Mutation(
            "the difference one step earlier", Every("the same", partial(reproduced, lambda rises, n: rises[n - 1] if n else 1))
        ),
        remark="each symbol is read once, at the last of its repetitions; the state is the list of what was read, "
        "and every cell's state is a function of that",
    )

    def causal(speeds: Callable[[tuple[int, ...], int], Rational]) -> Cases:
        """All pairs of sequences of runs up to 3 long: an equal past must give an equal speed."""

        for left, right in product(product((1, 2, 3), repeat=2), repeat=2):
            for n in range(min(sum(left), sum(right))):
                if played(left)[: n + 1] == played(right)[: n + 1]:
                    yield {"n": n, "left": left, "right": right}, (speeds(left, n), "=", speeds(right, n))

    def played(runs: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(k for k, times in enumerate(runs) for _ in range(times))

    def smooth(runs: tuple[int, ...], n: int) -> Rational:
        return Rational(1, runs[played(runs)[n]])

    def starts(runs: tuple[int, ...], n: int) -> Rational:
        return S(int(n == 0 or played(runs)[n] != played(runs)[n - 1]))

    yield own("result 11, causal").says(
        "For variable repeats the smooth c' = 1/k is no causal function of the data; a clock that goes at each new symbol is.",
        Fails(Every("two runs of 1 to 3", partial(causal, smooth))),
        Every("two runs of 1 to 3", partial(causal, starts)),
        mutation=Mutation("the smooth speed is causal", Every("the same", partial(causal, smooth))),
        remark="the clock that goes at the last repetition, as the gate above, knows "
        "the next symbol; going at the first is causal",
    )
    e = Symbol("e", positive=True)
    yield own("result 11, limit", given="the candidate is held").says(
        "A k-fold repeat with alpha = 1/k tends to the ODE's flow, not to the plain RNN, at the rate 1/k.",
        Tends((1 - e) ** (1 / e), e, 0, exp(-1)),
        Tends(((1 - e) ** (1 / e) - exp(-1)) / e, e, 0, -exp(-1) / 2),
        mutation=changed("to the plain RNN, which keeps nothing", value=S.Zero),
        remark="e = 1/k; what is kept of h is (1 - 1/k)^k = 1/e - 1/(2 e k) + ...; with a "
        "candidate that moves the rate is Euler's order, 1",
    )


def moduli() -> Iterator[Entry]:
    """Result 13: two steps, two symbols; the inputs are given, the targets drawn from the model."""
    p = [Symbol("p_1", positive=True), Symbol("p_2", positive=True)]
    gap = [Symbol("w_1", real=True), Symbol("w_2", real=True)]
    slope, through = Symbol("s'", real=True), Symbol("J", real=True)

    def excess(k: int, target: int) -> Expr:
        """s' (w_target - sum pi w), for symbols with weights w_k and 0."""
        return slope * ((gap[k] if target else S.Zero) - p[k] * gap[k])

    def chance(k: int, target: int) -> Expr:
        return p[k] if target else 1 - p[k]

    mean = sum(chance(0, i) * chance(1, j) * (excess(0, i) + through * excess(1, j)) ** 2 for i in (0, 1) for j in (0, 1))
    variance = [slope**2 * p[k] * (1 - p[k]) * gap[k] ** 2 for k in (0, 1)]
    modulus = variance[0] + through**2 * variance[1]
    yield own("result 13, one unit", given="the inputs are given, only the targets are drawn", sizes="2 steps, 2 symbols").says(
        "RBPM's modulus is the expectation of B^2 under targets drawn from the model, for one hidden unit.",
        Equal(mean, modulus),
        mutation=changed("J^2 read as J", rhs=variance[0] + through * variance[1]),
        remark="J = dV(t+1)/dV(t)",
    )
    paths = [Symbol("J_1", real=True), Symbol("J_2", real=True)]
    ends = [Symbol("v_1", real=True), Symbol("v_2", real=True)]
    last = [[(ends[j] if target else S.Zero) - p[1] * ends[j] for target in (0, 1)] for j in (0, 1)]
    several = sum(chance(1, k) * (paths[0] * last[0][k] + paths[1] * last[1][k]) ** 2 for k in (0, 1))
    squares = p[1] * (1 - p[1]) * (paths[0] ** 2 * ends[0] ** 2 + paths[1] ** 2 * ends[1] ** 2)
    yield own("result 13, several units", sizes="1 unit that reaches 2, 1 step").says(
        "For several units it is not: the expectation has cross terms, 2 J_1 J_2 cov(B_1, B_2), which the modulus leaves out.",
        Fails(Equal(several, squares)),
        Equal(several, squares + 2 * paths[0] * paths[1] * p[1] * (1 - p[1]) * ends[0] * ends[1]),
        mutation=Mutation("without cross terms", Equal(several, squares)),
    )


def two_forms() -> Iterator[Entry]:
    """The additive network, its rate form, and Beer's."""
    tau, inputs = Symbol("tau", positive=True), column(*(Function(f"I_{k}")(t) for k in (1, 2)))
    rates, theta = (column(*(Symbol(f"{name}_{k}", real=True) for k in (1, 2))) for name in ("r", "theta"))
    weights = Matrix(2, 2, lambda i, k: Symbol(f"W_{i + 1}{k + 1}", real=True))
    potentials = weights * rates + inputs
    moved = weights * (potentials.applyfunc(tanh) - rates) + tau * inputs.diff(t)  # tau dv/dt, by tau dr/dt = f(v) - r
    sent = weights * potentials.applyfunc(tanh)
    yield own("additive and rate form", given="one tau for all units", sizes="2 units").says(
        "Of tau dr/dt = -r + f(v), v = W r + I, the potentials follow the additive network with the input I + tau dI/dt, "
        "which is I where it is held.",
        Equal(moved, -potentials + sent + inputs + tau * inputs.diff(t)),
        mutation=changed("tau dI/dt left out", rhs=-potentials + sent + inputs),
        remark="f is tanh here, and any function; back from v to r only where v - I is in the range of W",
    )
    shown = column(*(Symbol(f"y_{k}", real=True) for k in (1, 2)))
    beer = -shown + weights * (shown + theta).applyfunc(sigma) + inputs  # tau dy/dt
    v = column(*(Symbol(f"v_{k}", real=True) for k in (1, 2)))
    shifted, at_rest = dict(zip(v, shown + theta, strict=True)), dict.fromkeys(v, S.Zero)
    yield own("Beer's network", sizes="2 units").says(
        "tau dy/dt = -y + W sigma(y + theta) + I is the additive network of v = y + theta with the bias theta.",
        Equal(beer, -v + weights * v.applyfunc(sigma) + inputs + theta, shifted),
        mutation=changed("the bias left out", rhs=-v + weights * v.applyfunc(sigma) + inputs),
    )
    middle = weights * v.applyfunc(sigma) - v - weights * ones(2, 1) / 2  # tau dv/dt
    yield own("Beer's biases", given="no input", sizes="2 units").says(
        "With the biases -(sum of W_ij over j)/2 an additive network of sigmoids rests where all its units are at 1/2.",
        Equal(middle, zeros(2, 1), at_rest),
        mutation=changed("the sum itself", lhs=middle - weights * ones(2, 1) / 2),
        remark="centre-crossing, Beer 1995, and Mathayomchan and Beer 2002; whether it stays there hangs on W",
    )


def populations() -> Iterator[Entry]:
    """Wilson and Cowan's two populations, and the power law of a supralinear network."""
    e, i, tau, p, r_e = (Symbol(name, positive=True) for name in ("E", "I", "tau", "P", "r_e"))
    slope, threshold, c_1, c_2 = (Symbol(name, positive=True) for name in ("a", "theta", "c_1", "c_2"))
    came = c_1 * e - c_2 * i + p

    def response(y: Expr) -> Expr:
        return 1 / (1 + exp(-slope * (y - threshold))) - 1 / (1 + exp(slope * threshold))

    most = exp(slope * threshold) / (1 + exp(slope * threshold))  # of the response, as its input grows
    printed = (-e + (most - r_e * e) * response(came)) / tau  # eq. (11), with the k_e of eq. (15) and its S_e
    bias = -slope * threshold
    argument = slope * c_1 * e - slope * c_2 * i + slope * p + bias
    ours = ((1 - sigma(bias) - r_e * e) * (sigma(argument) - sigma(bias)) - e) / tau
    yield own("Wilson and Cowan, populations", sizes="2 populations, the one that excites").says(
        "Wilson and Cowan's equation, their response with slope a and threshold theta, is ctrnn's with the weights a c, a for "
        "the input, and the bias -a theta.",
        Equal(ours, printed),
        mutation=changed(
            "a bias of theta", lhs=((1 - sigma(threshold) - r_e * e) * (sigma(argument) - sigma(threshold)) - e) / tau
        ),
        remark="their eqs. (11), (12) and (15); k is the largest value of the response",
    )
    yield own("Wilson and Cowan, rest", given="no input").says(
        "A response that is 0 where nothing comes in keeps populations that are silent at rest; the logistic function itself "
        "would not.",
        Equal(ours, S.Zero, dict.fromkeys((p, e, i), S.Zero)),
        Fails(Equal((sigma(argument) / tau).subs({p: 0, e: 0, i: 0}), S.Zero)),
        mutation=Mutation("without what is subtracted", Equal((sigma(argument) / tau).subs({p: 0, e: 0, i: 0}), S.Zero)),
    )
    k, n, weight, drive = (Symbol(name, positive=True) for name in ("k", "n", "w", "I"))
    yield own("supralinear network, gain", given="the argument is above 0").says(
        "The gain of a unit of the supralinear network, d r/d I of r = k I^n, grows with its rate, n k^(1/n) r^((n - 1)/n): so "
        "that weights that are the same act more strongly the more is going on.",
        Equal((k * drive**n).diff(drive), n * k ** (1 / n) * (k * drive**n) ** ((n - 1) / n)),
        mutation=changed("a gain of n r", rhs=n * k * drive**n),
        remark="Rubin, Van Hooser and Miller 2015; why inhibition has to take over at some rate",
    )
    yield own("supralinear network, one unit", given="n = 2, w > 0").says(
        "One unit that excites itself, r = k (w r + I)^2, rests nowhere once 4 k w I > 1: without inhibition it runs away.",
        Equal((1 - 2 * k * weight * drive) ** 2 - 4 * (k * weight**2) * (k * drive**2), 1 - 4 * k * weight * drive),
        mutation=changed("twice the bound", rhs=1 - 2 * k * weight * drive),
        remark="the discriminant of k w^2 r^2 + (2 k w I - 1) r + k I^2",
    )
