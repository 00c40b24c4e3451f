r"""Huth's lecture: the leaky and the gated network from a change of time, and what a bias says about a time scale.

c(t) = floor(a t), 0 < a <= 1     repeats every symbol 1/a times, if 1/a is whole
h' = a g(...) - a h               unit Euler step: h_{t+1} = a g(...) + (1 - a) h_t, a convex combination for a in [0, 1]
r = sigma(b)                      b = -log(1/r - 1); for r = 1/50 that is -log 49 = -3.89, and log10 49 = 1.69
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Derivative, Eq, Expr, Function, Rational, S, Subs, Symbol, exp, floor, log, oo, tanh

from derivations.argument.clocks import change_of_time, on_clock
from derivations.argument.taylor import steps_to
from derivations.claim import Correction, Entry, Equal, Fails, Less, Mutation, Rounds, Source, Tends, changed, spelt
from derivations.closure import NONE, Closes
from derivations.prover import symbols
from derivations.prover.symbols import product_of, together
from derivations.twins import fields
from derivations.twins.fields import sigma

slides = Source("huth-2020-lecture-slides")
t = symbols.t
a, rate = Symbol("a", positive=True), Symbol("r", positive=True)
activation = Function("g", real=True)
part = Symbol("u", positive=True)
# Unit h of a network of any size: what g is taken of is any function of the input, of itself and of the others.
h, x, others = (symbols.signal(letter)(t) for letter in "hxk")
pulled = activation(symbols.flow(x, h, others))
plain = [Eq(h.diff(t), pulled - h, evaluate=False)]
RATE = {rate: (0, 1)}
LETTERS = "the extraction writes the digit 1 for the letter l"


def recap() -> Iterator[Entry]:
    """What an LSTM keeps."""
    f, i, new, before, weight = (Symbol(name, real=True) for name in ("f", "i", "n", "c", "U"))
    n, scale, output = Symbol("n", positive=True), Symbol("T", positive=True), tanh(before)
    yield slides("recap, severity", given="w is not 1").says(
        "A gradient that vanishes, as w^n with w < 1, or explodes, with w > 1, does so the more the greater the depth n.",
        Less((1 + part) ** (-n - 1), (1 + part) ** (-n), True, rewritten=part * (1 + part) ** (-n - 1)),
        Less((1 + part) ** n, (1 + part) ** (n + 1), True, rewritten=part * (1 + part) ** n),
        mutation=Mutation("w < 1 read as w = 1", Less(S.One ** (n + 1), S.One**n, True)),
        remark="w = 1/(1 + u) and w = 1 + u, u > 0",
        quote="severity grows with the length (depth) of the network",
    )
    yield slides("recap, vanishing").says(
        "LSTMs avoid vanishing gradients: what a forget gate below 1 keeps does not vanish with time.",
        Fails(Tends(exp(-n / scale), n, oo, S.Zero)),
        reading=Correction(
            "They put it off: along the cell state the gradient is the product of the forget gates, e^(-n/T) with a time T of "
            "their own, which may be as long as one likes.",
            Tends(exp(-n / scale), n, oo, S.Zero),
            Tends(exp(-n / scale), scale, oo, S.One),
            Equal(Derivative(f * (f * before + i * new) + i * new, before), f**2),
        ),
        remark="the gates f = e^(-1/T) are held",
        quote="LSTMs avoid vanishing & exploding gradients by keeping a **cell state**",
    )
    i = 1 / (1 + part)  # a gate
    read = f * before + i * tanh(weight * output)
    yield slides("recap, cell state").says(
        "From one step to the next the cell is multiplied by f only, not by a weight: dc_t/dc_{t-1} = f.",
        Equal(Derivative(read, before), f),
        reading=Correction(
            "Along the cell itself. It is read, h = o tanh(c), and comes back through the weights: the whole derivative is f + i "
            "U (1 - tanh(U tanh(c))^2)(1 - tanh(c)^2), in one unit with o = 1 and gates held, i = 1/(1 + u). It may explode: at "
            "c = 0, with U = 1/i, it is f + 1.",
            Equal(Derivative(read, before), f + i * weight * (1 - tanh(weight * output) ** 2) * (1 - output**2)),
            Equal(Derivative(f * before + i * new, before), f),
            Equal(Subs(Derivative(read, before), before, 0), f + 1, {weight: 1 + part}),
        ),
        quote="propagated across time without passing through nonlinearities or being multiplied by a weight matrix",
    )


def floored(word: str, slowness: int) -> str:
    """x[floor(t / slowness)] until the word ends."""
    return "".join(word[n // slowness] for n in range(slowness * len(word)))


def words() -> Iterator[Entry]:
    """The repeated word."""
    half, weight = Rational(1, 2), Symbol("w", positive=True)
    task = spelt(
        ("by the repeats", floored("helloth", 2), "printed", "hheellllootthh"),
        ("by the repeats", floored("_hellot", 2), "printed", "__hheelllloott"),
    )
    yield slides("time scaling, task").says(
        "With every letter of [h e l l o t h] given twice the input is [h h e e l l l l o o t t h h], and the letter before it, "
        "[_ _ h h e e l l l l o o t t], is the same task.",
        task,
        mutation=Mutation("one step later only", spelt(("late by 1", "_hheelllloottt"[:14], "printed", "__hheelllloott"))),
        quote="x = [h h e e l l l l o o t t h h] y = [_ _ h h e e l l l l o o t t]",
    )
    yield slides("time scaling, floor").says(
        "With c(t) = floor(a t) and a = 0.5, x[c(t)] of the five letters [h e l l o] is [h h e e l l o o], of eight.",
        Equal(product_of(2, 5), S(8)),
        correction=Correction(
            "It is [h h e e l l l l o o]: both letters l are doubled, and none is lost.",
            Equal(product_of(2, 5), S(10)),
            spelt(("by the clock", floored("hello", 2), "right", "hheelllloo")),
        ),
        remark=f"{LETTERS}; the slide before prints l l l l for the same doubling",
        quote=r"$x[c(t)] = [h \ h \ e \ e \ 1 \ 1 \ o \ o]$",
    )
    place = Symbol("f", positive=True)
    within = {place: (0, 1), a: (0, 1)}
    yield slides("time scaling, clock").says(
        "floor(a t) with 0 < a <= 1 is a time warping, which increases: from t = 0 to 1 for a = 1/2.",
        Less(floor(half * 0), floor(half * 1), True),
        reading=Correction(
            "It is one read at whole times: it never runs back, and from one t to the next it goes on by 0 or 1, so that letters "
            "are repeated and none is left out. A warping of Tallec and Ollivier 2018, section 1, is increasing and "
            "differentiable; theirs is a t.",
            Less(S.Zero, place + a, True, within),
            Less(place + a, S(2), True, within),
        ),
        remark="a t = k + f with 0 <= f < 1: the next floor is k + floor(f + a), and f + a < 2; for a above 1 letters are lost",
        quote=r"We can define a **time warping function**: $$c(t) = \text{floor}(a * t), \text{ with } 0 < a \leq 1$$",
    )
    yield slides("time scaling, not invariant").says(
        "That simple RNNs do not learn the repeated task shows that they are not invariant: no weights give the letter of two "
        "steps ago.",
        Fails(Less(S.Zero, tanh(weight * tanh(weight * part)), True)),
        reading=Correction(
            "Networks of a given number of units are not, as Tallec and Ollivier 2018, section 1, say. With one unit more for "
            "each letter and repeat a simple RNN does the task, tanh(w tanh(w x)) having the sign of x two steps ago; that it is "
            "hard to learn says nothing of what the class contains.",
            Less(S.Zero, tanh(weight * tanh(weight * part)), True),
            Closes(fields.plain(), NONE),
        ),
        remark="x = u > 0; tanh is odd",
        quote="this means that **simple RNNs are not invariant to time scaling**",
    )
    yield slides("time warping, task").says(
        "[_ _ h h h e e l l o o o o] is the letter before in [h h e e e l l l o t t t t], a function of it: with the first of "
        "the letters l given once and the second twice, too.",
        spelt(("l given twice, then once", "__hhheelloooo", "l given once and twice", "__hhhellloooo")),
        reading=Correction(
            "By the repeats 2, 3, 2, 1, 1 and 4; by 2, 3, 1, 2, 1 and 4 the input is the same and the output is not, and no "
            "network can tell. In Tallec and Ollivier 2018, section 3, contiguous characters differ. a b read twice and once is "
            "another input than once and twice.",
            spelt(
                ("printed", "hheeelllotttt", "by 2, 3, 2, 1, 1, 4", repeated("hellot", (2, 3, 2, 1, 1, 4))),
                ("printed", "hheeelllotttt", "by 2, 3, 1, 2, 1, 4", repeated("hellot", (2, 3, 1, 2, 1, 4))),
                ("printed", "__hhheelloooo", "by 2, 3, 2, 1, 1, 4", repeated("_hello", (2, 3, 2, 1, 1, 4))),
            ),
            Fails(spelt(("a twice", "aab", "b twice", "abb"))),
        ),
        remark=LETTERS,
        quote="x = [h h e e e l l l o t t t t] y = [_ _ h h h e e l l o o o o]",
    )


def repeated(word: str, repeats: tuple[int, ...]) -> str:
    return "".join(letter * n for letter, n in zip(word, repeats, strict=True))


def derivation() -> Iterator[Entry]:
    """From the recurrent network to the leaky and the gated one, for any activation g."""
    c, r = symbols.c(t), symbols.signal("r")(t)
    scaled = change_of_time(plain, a * t)
    learned = tuple(equation.xreplace({c.diff(t): r}) for equation in change_of_time(plain, c))

    yield slides("invariance, ODE").says(
        "h_{t+1} = g(Wx x_t + Wh h_t + b) is the unit Euler step of dh/dt = g(Wx x + Wh h + b) - h.",
        Equal(**steps_to(plain, [pulled])),
        mutation=Mutation("- h read as + h", Equal(**steps_to([Eq(h.diff(t), pulled + h)], [pulled]))),
        quote=r"h_{t+1} = g(W_x x_t + W_h h_t + b)$$ $$\rightarrow \frac{dh(t)}{dt} = g(W_x x(t) + W_h h(t) + b) - h(t)$$",
    )
    yield slides("invariance, scaled", given="a > 0").says(
        "Replacing t with a t gives dh/dt = a g(Wx x + Wh h + b) - a h.",
        Equal(**on_clock(plain, a * t, [a * pulled - a * h])),
        mutation=Mutation("- a h read as - h", Equal(**on_clock(plain, a * t, [a * pulled - h]))),
        quote=r"replace t with at and expand, giving an equivalent model: "
        r"$$\frac{dh(t)}{dt} = ag(W_x x(t) + W_h h(t) + b) - ah(t)$$",
    )
    yield slides("invariance, leaky", given="a > 0").says(
        "Its recurrence is h_{t+1} = a g(Wx x_t + Wh h_t + b) + (1 - a) h_t.",
        Equal(**steps_to(scaled, [a * pulled + (1 - a) * h])),
        mutation=Mutation("1 - a read as 1 + a", Equal(**steps_to(scaled, [a * pulled + (1 + a) * h]))),
        quote=r"$$\rightarrow h_{t+1} = ag(W_x x_t + W_h h_t + b) + (1 - a)h_t$$",
    )
    n = Symbol("n", positive=True)
    yield slides("invariance, solves").says(
        "The leaky network solves the repeated task if a is known: in n steps with a = 1/n it does what the RNN does in one, "
        "which keeps nothing of the old state.",
        Equal((1 - 1 / n) ** n, S.Zero, {n: S(2)}),
        reading=Correction(
            "In continuous time: of (1 - a) h a part (1 - 1/n)^n is left after n steps, 1/4 for n = 2, and 1/e for many. The "
            "equation dh/dt = ... - h keeps 1/e in a time of 1, the RNN, its Euler step, nothing; see sec. 1, leaky RNNs, of "
            "Tallec and Ollivier 2018.",
            Equal((1 - 1 / n) ** n, Rational(1, 4), {n: S(2)}),
            Tends((1 - rate) ** (1 / rate), rate, 0, exp(-1)),
        ),
        remark="a held input; r = 1/n",
        quote="We can use this leaky RNN to solve our earlier task, as long as we know a (or can learn it)",
    )
    yield convexity()
    yield slides("warping, derivative").says(
        "With a replaced by dc/dt, c(t) = floor(a t) of the slides before has dc/dt = a: from t = 0 to 1/2, for a = 1/2, the "
        "clock goes on by a t.",
        Equal(floor(Rational(1, 4)) - floor(S.Zero), Rational(1, 4)),
        reading=Correction(
            "Of c(t) = a t, which floor(a t) is read from at whole times. The derivative of floor(a t) is 0 between its jumps: "
            "nothing would move.",
            Equal(Derivative(a * t, t), a),
        ),
        quote="replacing a with $dc(t)/dt$",
    )
    yield slides("warping, ODE").says(
        "With a replaced by dc(t)/dt the equation holds for any clock: dh/dt = c' g(...) - c' h.",
        Equal(**on_clock(plain, c, [c.diff(t) * pulled - c.diff(t) * h])),
        mutation=Mutation("c' read as c", Equal(**on_clock(plain, c, [c * pulled - c * h]))),
        quote=r"$$\frac{dh(t)}{dt} = \frac{dc(t)}{dt} g(W_x x(t) + W_h h(t) + b) - \frac{dc(t)}{dt} h(t)$$",
    )
    yield slides("warping, gated").says(
        "With c' learned as r_t its recurrence is h_{t+1} = r_t g(...) + (1 - r_t) h_t.",
        Equal(**steps_to(learned, [r * pulled + (1 - r) * h])),
        mutation=Mutation("1 - r_t read as r_t", Equal(**steps_to(learned, [r * pulled + r * h]))),
        quote=r"$$h_{t+1} = r_t g(W_x x_t + W_h h_t + b) + (1 - r_t)h_t$$",
    )


def convexity() -> Entry:
    """u is the update, h the last state, and the new state is between them: (new - h)(u - new) >= 0."""
    update, last = Symbol("u", real=True), Symbol("h", real=True)

    def new(a: Expr) -> Expr:
        return a * update + (1 - a) * last

    def between(a: Expr, form: Expr | None) -> Less:
        return Less(S.Zero, (new(a) - last) * (update - new(a)), rewritten=form)

    share = rate / (1 + rate)
    return slides("invariance, convex", given="0 < a <= 1").says(
        "The new state is a convex combination of the update and the last state: it lies between them.",
        between(share, share * (1 - share) * (update - last) ** 2),
        Equal(new(rate), update, {rate: S.One}),
        mutation=Mutation("a < 1 read as any a > 0", between(rate, None)),
        remark="a is written r/(1 + r), r > 0, which is any number between 0 and 1",
        quote="the new hidden state is a convex combination of the **normal RNN state update** and the **last hidden state**",
    )


def gates() -> Iterator[Entry]:
    """The gated network beside the LSTM's cell."""
    f, i, previous, proposed = (Symbol(name, real=True) for name in ("f", "i", "c", "c~"))
    z = Symbol("z", real=True)
    cell = f * previous + i * proposed
    tied = {f: 1 - rate, i: rate}
    yield slides("warping, LSTM", given="the input and forget gates are tied").says(
        "With f = 1 - r and i = r the LSTM's c_t = f c_{t-1} + i c~_t is the gated update.",
        Equal(cell, previous + rate * (proposed - previous), tied),
        mutation=changed("f = 1 - r read as f = r", where=tied | {f: rate}),
        quote=r"c_t = f_t \circ c_{t-1} + i_t \circ \tilde{c}_t",
    )
    slower = Symbol("r", real=True)
    yield slides("warping, LSTMs are").says(
        "LSTMs are RNNs whose time is warped: their cell moves by r (c~ - c) for some r, whatever its two gates.",
        Equal(cell, previous + i * (proposed - previous)),
        reading=Correction(
            "With tied gates, as the slide before has it. The cell otherwise does not stay with its candidate, where a warped "
            "network does: a cell c = c~ becomes (f + i) c~.",
            Equal(cell, (f + i) * proposed, {previous: proposed}),
            Equal(previous + slower * (proposed - previous), proposed, {previous: proposed}),
            Equal(cell, previous + i * (proposed - previous), {f: 1 - i}),
        ),
        quote="**LSTMs are RNNs that have learned that time can be warped**",
    )
    yield slides("warping, sigmoid").says(
        "A sigmoid ensures 0 <= r_t <= 1.",
        Less(S.Zero, sigma(z)),
        Less(sigma(z), S.One, rewritten=1 / (1 + exp(z))),
        mutation=changed("sigma read as tanh", upper=tanh(z)),
        remark="both ends are never reached",
        quote=r"We use a sigmoid here to ensure that $0 \leq r_t \leq 1$",
    )


def times() -> Iterator[Entry]:
    """1/r as a time."""
    count = Symbol("n", positive=True)
    yield slides("bias, time constant").says(
        "1/r is the time constant of the network: what a step keeps, 1 - r, is e^(-r).",
        Equal(1 - rate, exp(-rate)),
        reading=Correction(
            "In continuous time, and in steps for small r: then (1 - r)^(1/r) tends to 1/e. In steps the time "
            "constant is -1/log(1 - r), 49.5 for r = 1/50, as in footnote 2 of Ohno and Kumagai 2021.",
            Equal(part ** (1 / rate), exp(-1), {part: exp(-rate)}),
            Tends((1 - rate) ** (1 / rate), rate, 0, exp(-1)),
            Rounds(-1 / log(1 - Rational(1, 50)), "49.5"),
        ),
        quote="We can interpret $1/r_t$ as the **forgetting time** or **time constant** of the network",
    )
    yield slides("bias, repeats").says(
        "1/r is the number of times an element is repeated, at each of its steps: when h begins r is known, in h h e as in h h h "
        "e.",
        Equal(Rational(1, 2), Rational(1, 4)),
        reading=Correction(
            "Where elements are repeated equally often, n times: n steps at r = 1/n make one. Of random repeats a network sees "
            "the number when they are over, see footnote 5 of Tallec and Ollivier 2018; r = 1 at a new letter and 0 at a "
            "repeated one makes one, too.",
            Equal(product_of(count, 1 / count), S.One),
            Equal(together(1, product_of(count - 1, 0)), S.One),
        ),
        quote="Here $1/r_t$ should be roughly the number of times each element is repeated",
    )
    lag, scale = Symbol("n", positive=True), Symbol("T", positive=True)
    yield slides("scales, long").says(
        "Units of a long time scale T are equally affected by inputs n steps old and new ones: e^(-n/T) is 1, for n = T too.",
        Equal(exp(-lag / scale), S.One, {lag: scale}),
        reading=Correction(
            "By inputs much younger than T. An input as old as T has 1/e of the effect, and much older ones none. Neither the "
            "time scales nor n nor how states are compared are printed.",
            Equal(exp(-lag / scale), exp(-1), {lag: scale}),
            Tends(exp(-lag / scale), scale, oo, S.One),
            Tends(exp(-lag / scale), lag, oo, S.Zero),
        ),
        remark="cells that keep e^(-1/T) in a step",
        quote="*long time scale units are ~equally affected by both ancient and recent inputs*",
    )


def biases() -> Iterator[Entry]:
    """The bias for letters repeated about 50 times."""
    z = Symbol("b_r", real=True)
    inverse, share = -log(1 / rate - 1), part / (1 + part)
    yield slides("bias, inverse", given=("0 < r < 1", "x = h = 0")).says(
        "r_t = sigma(b_r) for average input and state 0, so b_r = -log(1/r_t - 1).",
        Equal(sigma(z), rate, {z: -log(1 / share - 1), rate: share}),
        mutation=changed("1/r - 1 read as 1/r + 1", where={z: -log(1 / share + 1), rate: share}),
        remark="r is written u/(1 + u), u > 0, which is any number between 0 and 1",
        quote=r"$$r_t = \sigma(b_r)$$ $$b_r = \sigma^{-1}(r_t)$$ $$b_r = -\log(r_t^{-1} - 1)",
    )
    fifty = inverse.subs(rate, Rational(1, 50))
    yield slides("bias, value").says(
        "For r_t = 0.02 the bias is -log(1/r_t - 1) = -1.69.",
        Rounds(fifty, "-1.69"),
        correction=Correction(
            "It is -log 49 = -3.89 with the natural logarithm that sigma needs; 1.69 is the logarithm of 49 to base 10, and "
            "sigma(-1.69) = 0.156 forgets in 6 steps, not in 50. Tallec and Ollivier 2018, section 2, has -log(T - 1), too.",
            Rounds(fifty, "-3.89"),
            Rounds(-log(49) / log(10), "-1.69"),
            Rounds(sigma(Rational(-169, 100)), "0.156"),
            Rounds(1 / sigma(Rational(-169, 100)), "6"),
        ),
        quote=r"$$b_r = -\log(r_t^{-1} - 1) \approx -1.69$$",
    )
    yield slides("bias, forget gate").says(
        "By similar arguments the bias on the forget gate is the negative, b_f = 1.69.",
        Equal(1 - sigma(z), sigma(-z)),
        Rounds(-fifty, "1.69"),
        correction=Correction(
            "It is the negative, but of the right number: b_f = 3.89.", Equal(1 - sigma(z), sigma(-z)), Rounds(-fifty, "3.89")
        ),
        remark="1 - sigma(b) = sigma(-b) holds; the number is the one printed before",
        quote=r"By similar arguments the bias on the **forget gate** is simply the negative, $b_f = 1.69$",
    )
