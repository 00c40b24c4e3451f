r"""Huth's lecture: the leaky and the gated network from a change of time, and what a bias says about a time scale.

c(t) = floor(a t), 0 < a <= 1     repeats every symbol 1/a times, if 1/a is whole
h' = a g(...) - a h               unit Euler step: h_{t+1} = a g(...) + (1 - a) h_t, a convex combination for a in [0, 1]
r = sigma(b)                      b = -log(1/r - 1); for r = 1/50 that is -log 49 = -3.89, and log10 49 = 1.69
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from sympy import Derivative, Eq, Expr, Function, Rational, S, Subs, Symbol, exp, floor, log, oo, tanh

from derivations.argument.clocks import change_of_time, on_clock
from derivations.argument.taylor import steps_to
from derivations.claim import Cases, Correction, Entry, Equal, Every, Fails, Less, Mutation, Rounds, Source, Tends, changed
from derivations.prover import symbols
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
    yield slides("recap, severity", given="0 < w < 1").says(
        "A gradient that vanishes, as w^n with w < 1, does so the more the greater the depth n.",
        Less((1 + part) ** (-n - 1), (1 + part) ** (-n), True, rewritten=part * (1 + part) ** (-n - 1)),
        mutation=Mutation("w < 1 read as w = 1", Less(S.One ** (n + 1), S.One**n, True)),
        remark="w = 1/(1 + u), u > 0",
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
            "U (1 - tanh(U tanh(c))^2)(1 - tanh(c)^2), in one unit with o = 1 and gates held, i = 1/(1 + u).",
            Equal(Derivative(read, before), f + i * weight * (1 - tanh(weight * output) ** 2) * (1 - output**2)),
            Equal(Derivative(f * before + i * new, before), f),
        ),
        quote="propagated across time without passing through nonlinearities or being multiplied by a weight matrix",
    )


def played(word: str, repeats: tuple[int, ...]) -> str:
    return "".join(letter * n for letter, n in zip(word, repeats, strict=True))


def floored(word: str, slowness: int) -> str:
    """x[floor(t / slowness)] until the word ends."""
    return "".join(word[n // slowness] for n in range(slowness * len(word)))


def same(what: str, *pairs: tuple[str, str]) -> Every:
    def cases() -> Cases:
        for found, printed in pairs:
            yield {"found": found, "printed": printed}, (found, "=", printed)

    return Every(what, cases)


def words() -> Iterator[Entry]:
    """The repeated word."""
    twice, half = (2,) * 7, Rational(1, 2)
    yield slides("time scaling, letters").says(
        "[_ h e l l o t h e r e] is the letter before in [h e l l o t h e r e g].",
        same("letter before", ("_" + "hellothereg"[:-1], "_hellothere")),
        mutation=Mutation("the letter itself", same("letter itself", ("hellothereg", "_hellothere"))),
        quote=r"$x = [\text{h e l l o t h e r e g}]$ $y = [_ \text{h e l l o t h e r e}]$",
    )
    yield slides("time scaling, task").says(
        "With every letter of [h e l l o t h] given twice the input is [h h e e l l l l o o t t h h], and the letter before it, "
        "[_ _ h h e e l l l l o o t t], is the same task.",
        same("input and target", (floored("helloth", 2), "hheellllootthh"), (played("_hellot", twice), "__hheelllloott")),
        mutation=Mutation("the target one step later only", same("target", ("_" + "hheelllloottt"[:13], "__hheelllloott"))),
        quote="x = [h h e e l l l l o o t t h h] y = [_ _ h h e e l l l l o o t t]",
    )
    yield slides("time scaling, floor").says(
        "With c(t) = floor(a t) and a = 0.5, x[c(t)] of [h e l l o] is [h h e e l l o o].",
        same("a = 1/2", (floored("hello", 2), "hheelloo")),
        correction=Correction(
            "It is [h h e e l l l l o o]: both letters l are doubled, and none is lost.",
            same("a = 1/2", (floored("hello", 2), "hheelllloo")),
        ),
        remark=f"{LETTERS}; the slide before prints l l l l for the same doubling",
        quote=r"$x[c(t)] = [h \ h \ e \ e \ 1 \ 1 \ o \ o]$",
    )
    a, place = Symbol("a", positive=True), Symbol("f", positive=True)
    within = {place: (0, 1), a: (0, 1)}
    yield slides("time scaling, clock").says(
        "floor(a t) with 0 < a <= 1 is a time warping, which increases: from t = 0 to 1 for a = 1/2.",
        Less(floor(half * 0), floor(half * 1), True),
        reading=Correction(
            "It is one read at whole times: it never runs back, and from one t to the next it goes on by 0 or 1, so that letters "
            "are repeated and none is left out. A warping of the paper, increasing and differentiable, is a t.",
            Less(S.Zero, place + a, True, within),
            Less(place + a, S(2), True, within),
            Every("a = p/q, 1 <= p <= q <= 8, t < 64", lambda: increments(lambda p, q: p <= q, {0, 1})),
        ),
        remark="a t = k + f with 0 <= f < 1: the next floor is k + floor(f + a), and f + a < 2; for a above 1 letters are lost",
        quote=r"We can define a **time warping function**: $$c(t) = \text{floor}(a * t), \text{ with } 0 < a \leq 1$$",
    )
    given, wanted = "hheeelllotttt", "__hhheelloooo"
    yield slides("time warping, task").says(
        "[h h e e e l l l o t t t t] is [h e l l o t] with letters repeated at random, and [_ _ h h h e e l l o o "
        "o o] the letter before, by the same repeats.",
        Every("of all repeats by 1 to 4: one has this input and this target", lambda: found_once(given, wanted)),
        mutation=Mutation("h h h read as h h", Every("the same with another target", lambda: found_once(given, "__hheeelloooo"))),
        remark=f"the repeats are 2, 3, 2, 1, 1 and 4; with 1 and 2 for the two l the input is the same and the target is "
        f"not, so that no network can tell them apart. {LETTERS}",
        quote="x = [h h e e e l l l o t t t t] y = [_ _ h h h e e l l o o o o]",
    )


def found_once(given: str, wanted: str) -> Cases:
    """How often the input, and the input with the target, come up among all repeats of hellot."""
    everything = list(product(range(1, 5), repeat=6))
    inputs = [repeats for repeats in everything if played("hellot", repeats) == given]
    both = [repeats for repeats in inputs if played("_hello", repeats) == wanted]
    yield {"repeats with this input": len(inputs)}, (len(inputs), "=", 2)
    yield {"of these with this target": len(both)}, (len(both), "=", 1)


def increments(is_meant: Callable[[int, int], bool], allowed: set[int]) -> Cases:
    for q in range(1, 9):
        for p in range(1, 2 * q + 1):
            if is_meant(p, q):
                found = {(n + 1) * p // q - n * p // q for n in range(64)}
                yield {"p": p, "q": q}, (found | allowed, "=", allowed)


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
    yield slides("invariance, quickly").says(
        "The parameter a, 0 < a <= 1, lets time pass quickly for some a: at a speed above 1.",
        Fails(Less(a, S.One, region={a: (0, 1)})),
        reading=Correction(
            "It lets time pass slowly, and at a = 1 as it does; quickly would be a > 1, where letters are left out.",
            Less(a, S.One, region={a: (0, 1)}),
            Less(S.One, a, True, {a: (1, oo)}),
        ),
        quote="Here the parameter a controls how slowly or quickly time passes for the RNN",
    )
    yield convexity()
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
        Equal(new(S.One), update),
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
    count, n = Symbol("k", integer=True, positive=True), Symbol("n", positive=True)
    yield slides("bias, time constant").says(
        "1/r is the time constant of the network: what a step keeps, 1 - r, is e^(-r).",
        Equal(1 - rate, exp(-rate)),
        reading=Correction(
            "In continuous time, and in steps for small r: then (1 - r)^(1/r) tends to 1/e. In steps the time "
            "constant is -1/log(1 - r), 49.5 for r = 1/50.",
            Equal(part ** (1 / rate), exp(-1), {part: exp(-rate)}),
            Tends((1 - rate) ** (1 / rate), rate, 0, exp(-1)),
            Rounds(-1 / log(1 - Rational(1, 50)), "49.5"),
        ),
        quote="We can interpret $1/r_t$ as the **forgetting time** or **time constant** of the network",
    )
    passed = rate * n
    yield slides("bias, forgetting time", given="r_t is constant, one over a whole number").says(
        "r_t being the rate at which time passes, 1/r_t steps make one un-warped step.",
        Equal(passed, S.One, {n: 1 / rate}),
        Equal(passed, S.One, {rate: 1 / count, n: count}),
        mutation=changed("1/r_t read as 1/r_t + 1", where={rate: 1 / count, n: count + 1}),
        remark="n steps at the rate r; and r = 1/k",
        quote="how many time steps does it take until the equivalent of 1 un-warped time step has passed?",
    )
    slope = Derivative(t / count, t)
    yield slides("bias, repeats", given="r_t is the slope of the clock").says(
        "Where an element is repeated n times the clock has the slope 1/n, so that 1/r_t is n.",
        Equal(1 / slope, count),
        Equal(Subs(t / count, t, t + count) - t / count, S.One),
        mutation=changed("1/r_t read as r_t", lhs=slope),
        quote="Here $1/r_t$ should be roughly the number of times each element is repeated",
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
    yield slides("bias, rate").says(
        "1/r_t = 50 is r_t = 0.02.",
        Rounds(Rational(1, 50), "0.02"),
        mutation=changed("50 read as 5", value=Rational(1, 5)),
        quote=r"So if we want $r_t \approx 0.02$",
    )
    fifty = inverse.subs(rate, Rational(1, 50))
    yield slides("bias, value").says(
        "For r_t = 0.02 the bias is -log(1/r_t - 1) = -1.69.",
        Rounds(fifty, "-1.69"),
        correction=Correction(
            "It is -log 49 = -3.89 with the natural logarithm that sigma needs; 1.69 is the logarithm of 49 to base 10, and "
            "sigma(-1.69) = 0.156 forgets in 6 steps, not in 50.",
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
