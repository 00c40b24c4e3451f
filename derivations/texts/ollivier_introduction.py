r"""Ollivier 2013, the introduction and section 1: what the examples need, and the models in words.

natural gradient      the penalty is 2 KL/(2 eta), not KL/(2 eta): 2 KL is the squared norm of (44)
a law of symbols      hidden states that decide the next symbol's law make it Markovian: examples 1 and 3 have finitely many
hidden Markov model   pi(x) = sum_i a_i w_ix/sum_i a_i over its states, without the always-activated unit 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from random import Random
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from sympy import Derivative, Expr, Rational, S, Subs, Symbol, exp, log, oo

from derivations.claim import Cases, Correction, Entry, Equal, Every, Expands, Fails, Less, Mutation, Tends, changed
from derivations.prover.symbols import product_of, together
from derivations.texts.ollivier_networks import paper

eta = Symbol("eta", positive=True)


def gradients() -> Iterator[Entry]:
    """The natural gradient and the tanh, as the introduction has them; one parameter."""
    g, delta, p = Symbol("g", positive=True), Symbol("delta", real=True), 1 / (1 + Symbol("u", positive=True))
    divergence, fisher = log(1 - p + p * exp(delta)) - p * delta, p * (1 - p)

    def penalized(factor: Expr) -> Expr:
        """The slope of g delta - factor KL/(2 eta) at twice, or once, the natural gradient step: 0 where it is largest."""
        gained = g * delta - factor * fisher * delta**2 / 2 / (2 * eta)
        return Subs(Derivative(gained, delta), delta, 2 / factor * eta * g / fisher)

    yield paper("intro., natural gradient", given="0 < p < 1").says(
        "Amari's natural gradient replaces |theta - theta'|^2 in (1) with the Kullback-Leibler divergence KL(Pr | Pr').",
        Expands(divergence, delta, fisher * delta**2, 3),
        correction=Correction(
            "With twice the divergence, the squared norm of (44): with KL itself the step is twice the natural gradient's.",
            Expands(2 * divergence, delta, fisher * delta**2, 3),
            Equal(penalized(S(2)), S.Zero),
            Equal(penalized(S.One), S.Zero),
        ),
        remark="one symbol of two, p = 1/(1 + u) its probability, delta the change of its "
        "log-odds, p (1 - p) delta^2 its squared norm",
        quote=r"which amounts to replacing \left\|\theta-\theta^{\prime}\right\|^{2} with the Kullback–Leibler divergence",
    )
    B, m, eps, kappa = (Symbol(name, positive=True) for name in ("B", "m", "eps", "kappa"))
    carried = (B / kappa) / (m / kappa**2 + eps)
    yield paper("sec. 1.2.1, same trajectory").says(
        "With the training procedures below, tanh instead of the logistic function results in the same learning trajectory.",
        Equal(carried.subs(kappa, 2), kappa.subs(kappa, 2) * B / (m + eps)),
        reading=Correction(
            "Without the dampening of section 2, which section 3.6 says breaks invariance, and with V_j(0) carried over.",
            Equal(carried, kappa * B / m, {eps: S.Zero}),
        ),
        remark="the step (29) of V_j(0) for tanh(V) = 2 s(2 V) - 1: V becomes kappa V, kappa = 2, B becomes B/kappa and the "
        "modulus m/kappa^2, so that the step should become kappa times as large",
        quote=r"using the \tanh function instead of the logistic function would result in the same learning trajectory",
    )


State = tuple[Any, ...]
Step = Callable[[State], dict[str, tuple[Rational, State]]]
LETTERS, DIGITS, CAPITALS = ascii_lowercase, "0123456789", ascii_uppercase


def inserted(state: State) -> dict[str, tuple[Rational, State]]:
    """Example 1 as a Markov chain: state -> symbol -> (probability, next state); `fresh` where a block may still open."""
    letter, digit, capital, fresh = state
    if capital is not None:
        if capital == 9:
            return {"]": (S.One, (letter, digit, None, False))}
        return {c: (Rational(1, 26), (letter, digit, capital + 1, False)) for c in CAPITALS}
    if digit is not None:
        opens = Rational(int(fresh), 5)
        rest = (DIGITS[digit], (letter, digit + 1, None, True)) if digit < 10 else (")", (letter, None, None, False))
        return {"[": (opens, (letter, digit, 0, False)), rest[0]: (1 - opens, rest[1])}
    opens = Rational(int(fresh), 26)
    rest = (LETTERS[letter], (letter + 1, None, None, True)) if letter < 26 else ("\n", (0, None, None, False))
    return {"(": (opens, (letter, 0, None, False)), rest[0]: (1 - opens, rest[1])}


def line(dice: Random) -> tuple[str, Rational]:
    """A line written as section 4 describes it, block by block, and its probability."""
    written, chance = "", S.One
    for letter in LETTERS:
        written, block = written + letter, dice.random() < 1 / 4
        chance *= Rational(1 if block else 25, 26)
        if block:
            written += "("
            for digit in DIGITS:
                written, inner = written + digit, dice.random() < 1 / 4
                chance *= Rational(1 if inner else 4, 5)
                if inner:
                    written += "[" + "".join(dice.choices(CAPITALS, k=9)) + "]"
                    chance *= Rational(1, 26**9)
            written += ")"
    return written + "\n", chance


# Example 3: a state is the place in the cycle of chords and the notes' values so far in the bar; `None` once it is full.
RHYTHMS = (("4", "4", "4"), ("2", "4"), ("4.", "8", "4"), ("2.",), ("4", "4", "8", "8"))
CYCLE = ("ceg", "cfa", "ceg", "gbd", "ceg", "cfa", "gbd", "ceg")


def played(state: State) -> dict[str, tuple[Rational, State]]:
    """Example 3 as a Markov chain over notes and bars."""
    place, values = state
    if values in RHYTHMS:
        return {"|": (S.One, ((place + 1) % 8, ()))}
    going = [r for r in RHYTHMS if r[: len(values)] == values]
    following = {r[len(values)] for r in going}
    return {
        pitch + value: (Rational(sum(r[len(values)] == value for r in going), 3 * len(going)), (place, (*values, value)))
        for value in following
        for pitch in CYCLE[place]
    }


def bars(dice: Random) -> tuple[list[str], Rational]:
    """Ten bars as section 4 describes them, and their probability."""
    notes, chance = [], S.One
    for place in range(10):
        rhythm = dice.choice(RHYTHMS)
        notes += [dice.choice(CYCLE[place % 8]) + value for value in rhythm] + ["|"]
        chance *= Rational(1, len(RHYTHMS) * 3 ** len(rhythm))
    return notes, chance


def chance_of(symbols: Iterable[str], state: State, step: Step) -> Rational:
    """The probability that the chain gives to what is written."""
    chance = S.One
    for symbol in symbols:
        part, state = step(state)[symbol]
        chance *= part
    return chance


def agreeing(draw: Callable[[Random], tuple[Iterable[str], Rational]], start: State, step: Step) -> Cases:
    for seed in range(20):
        symbols, chance = draw(Random(seed))
        yield {"seed": seed}, (chance_of(symbols, start, step), "=", chance)


def examples() -> Iterator[Entry]:
    """What examples 1, 3 and 4 need of a model, and example 2 of a correlation."""
    start: State = (0, None, None, False)
    same = Every("20 lines, their probability by the law and by the chain", partial(agreeing, line, start, inserted))
    yield paper("intro., example 1, Markovian").says(
        "Insertions of a subsequence, as in Example 1, are impossible to represent within a Markovian model.",
        Fails(same),
        reading=Correction(
            "Impossible for blocks nested without bound. Those of Example 1 are two deep, and 3,199 states represent it, the "
            "letters, digits and capitals written and whether a block may still open: 27 between letters, 26 after a block and, "
            "in that of each letter, 1 + 20 for its digits and 100 for capitals.",
            same,
            Equal(together(27, 26, product_of(26, 1 + 20 + 100)), S(3199)),
        ),
        remark="states of a chain that a hidden Markov model can have; to learn them from data is another matter",
        quote="This kind of structure is impossible to represent within a Markovian model",
    )
    music = Every("20 times ten bars, their probability by the law and by the chain", partial(agreeing, bars, (0, ()), played))
    combined = 8 * sum(3 ** len(rhythm) for rhythm in RHYTHMS)
    yield paper("intro., example 3, states").says(
        "Example 3 is a Markov chain only with a huge state space, one state for every combination of rhythm and pitches.",
        Less(S(combined), product_of(8, 12)),
        correction=Correction(
            "The place in the cycle of chords, one of 8, and the values so far in the bar, one of 12 beginnings, are enough, 96 "
            "states: the pitches of a bar are independent, and nothing depends on those played.",
            music,
            Equal(product_of(8, 12), S(96)),
        ),
        remark="1,176 combinations of a place, a rhythm and its pitches; a state's law is over whole "
        "notes, single characters need a few states each",
        quote="a Markov representation would essentially need to see every possible combination of rhythm and pitches",
    )

    def confused(read: Callable[[int], int]) -> Cases:
        """Every way in which an automaton of n states can move on an a: two numbers of a's that end in one state."""

        for n in range(1, 6):
            for moves in product(range(n), repeat=n):
                visited = [0]
                for _ in range(read(n)):
                    visited.append(moves[visited[-1]])
                yield {"states": n, "moves": moves}, (len(set(visited)), "<", len(visited))

    yield paper("intro., example 4, automata", sizes="automata of up to 5 states").says(
        "Sequences of the form a^n b^n cannot be represented by a finite automaton.",
        Every("automata of 1 to 5 states", partial(confused, lambda n: n)),
        mutation=changed("blocks shorter than the automaton has states", cases=partial(confused, lambda n: n - 1)),
        remark="after as many a's as it has states it is in one state for two numbers of them, and accepts b's alike; for n "
        "bounded, as between 1024 and 2047 in section 4, a finite automaton does it",
        quote="Example 4 is the textbook example of sequences that cannot be represented by a finite automaton",
    )
    bits = list(product((0, 1), repeat=2))

    both, alone = Symbol("E[x z]", real=True), Symbol("E[z]", real=True)

    def uncorrelated(result: Callable[[int, int], int]) -> Equal:
        """The mean of x z is that of x, 1/2, times that of z."""
        means = {both: sum(result(x, y) * x for x, y in bits), alone: sum(result(x, y) for x, y in bits)}
        return Equal(both, alone / 2, {letter: Rational(total, 4) for letter, total in means.items()})

    yield paper("intro., example 2, correlation").says(
        "The XOR of two random bits has no correlation with either of them.",
        uncorrelated(lambda x, y: x ^ y),
        mutation=Mutation("XOR read as AND", uncorrelated(lambda x, y: x & y)),
        remark="it is symmetric in the two bits",
        quote="Use of the XOR function prevents detecting a correlation between the XOR result and any one of the two arguments",
    )


def generative_models() -> Iterator[Entry]:
    """Section 1.1 and 1.2."""
    n, k, w = Symbol("n", positive=True), Symbol("k", positive=True), Symbol("w", real=True)
    yield paper("sec. 1.1, infinite sequences", given="each symbol has a probability of at most e^-k, k > 0").says(
        "Of an infinite training sequence (x_t), t = 0, 1, ..., the probability is to be maximized, as (2) has it.",
        Fails(Tends(exp(-k * n), n, oo, S.Zero)),
        reading=Correction(
            "Of its first T symbols, as in (7): of an infinite one it is 0, and all theta are alike.",
            Tends(exp(-k * n), n, oo, S.Zero),
        ),
        remark="n symbols have at most the probability e^(-k n); section 1.1 begins with models of infinite sequences",
        quote=r"the goal of learning is to find the value of \theta that maximizes the probability "
        r"of the training sequence (x_{t})",
    )
    meeting, apart = exp(2 * w) / (2 * exp(w) + exp(2 * w)), exp(w) / (2 * exp(w) + 1)
    yield paper("sec. 1.2, non-linear voting").says(
        "If two active units put high weight on two subsets of the alphabet, only the symbols in both have high probability.",
        Tends(meeting, w, oo, S.One),
        Tends(apart, w, oo, S.Zero),
        reading=Correction(
            "If there is an intersection: else the symbols of the subsets keep it, here 1/2 for each.",
            Tends(meeting, w, oo, S.One),
            Tends(apart, w, oo, S.Half),
        ),
        remark="subsets {a, b} and {b, c} of {a, b, c}, where b is meant; then {a} and {c}, where b is not; activities 1",
        quote="only the symbols in the intersection of these subsets will have high probability",
    )
    a1, a2, k1, k2 = (Symbol(name, real=True) for name in ("a_1", "a_2", "k_1", "k_2"))
    m, eps = Symbol("m", positive=True), Symbol("epsilon", positive=True)
    form = m * (a1 * k1 + a2 * k2) ** 2
    yield paper("sec. 1.2, positive definite").says(
        "The metrics M(theta) are symmetric positive-definite matrices.",
        Less(S.Zero, Subs(form, (k1, k2), (a2, -a1)), True),
        correction=Correction(
            "They are not negative: of one step the matrix has rank one, and with w_iy = 0, as at startup, it is 0. "
            "With the dampening they are positive definite.",
            Less(S.Zero, form),
            Equal(Subs(form, (k1, k2), (a2, -a1)), S.Zero),
            Less(S.Zero, form + eps * (k1**2 + 1), True, rewritten=form + eps * k1**2 + eps),
        ),
        remark="two incoming weights, one step: the change (k_1, k_2) = (a_2, -a_1) has length 0; k_2 = 1 in the last statement",
        quote=r"given by a symmetric, positive-definite matrix M(\theta)",
    )


def networks() -> Iterator[Entry]:
    """Section 1.2.2 and footnote 6."""
    p, *q = (1 / (1 + Symbol(f"u_{i}", positive=True)) for i in range(3))  # probabilities
    prior, moves = [p, 1 - p], [[q[0], 1 - q[0]], [q[1], 1 - q[1]]]
    emits = [[1 / (1 + Symbol(f"v_{i}", positive=True)), 1 - 1 / (1 + Symbol(f"v_{i}", positive=True))] for i in (1, 2)]
    states = range(2)

    def printed(activities: list[Expr], x: int, always_on: int) -> Expr:
        """The linear output, with the unit 0 in its sums or without."""
        weight = Symbol(f"w_0{x}", positive=True)
        total = sum(activities, S.Zero) + always_on
        return (sum((activities[i] * emits[i][x] for i in states), S.Zero) + always_on * weight) / total

    def by_network(always_on: int) -> Expr:
        """The probability of the symbols 0 and 1 by a GNN with linear activation and output."""
        after = [sum((prior[i] * (emits[i][0] * moves[i][j]) for i in states), S.Zero) for j in states]
        return printed(prior, 0, always_on) * printed(after, 1, always_on)

    by_paths = sum((prior[i] * emits[i][0] * moves[i][j] * emits[j][1] for i in states for j in states), S.Zero)
    yield paper("sec. 1.2.2, linear output").says(
        "With a linear output pi(x) = sum_i a_i w_ix/sum_i a_i in place of the softmax (6) the GNN is exactly the HMM.",
        Equal(by_network(1), by_paths),
        reading=Correction(
            "With the sums over the states of the HMM only, not over the always-activated unit 0 of (6) and (10).",
            Equal(by_network(0), by_paths),
        ),
        remark="2 states, 2 symbols, 2 steps: the probability by the network against the sum over all paths of the "
        "HMM; 1/(1 + u) and 1/(1 + v) are probabilities",
        quote="then the GNN model exactly reduces to the HMM model",
    )
    emitted = [[sum((prior[i] * emits[i][x] * moves[i][j] for i in states), S.Zero) for x in (0, 1)] for j in states]
    heard = [sum((prior[i] * (emits[i][0] * moves[i][j]) for i in states), S.Zero) for j in states]
    yield paper("footnote 4").says(
        "a_i(t) becomes the probability to have emitted y_0, ..., y_(t-1) and be in state i at time t.",
        *(Equal(heard[j], emitted[j][1]) for j in states),
        reading=Correction(
            "To have emitted x_0, ..., x_(t-1): the network reads what was written, and no y is defined.",
            Equal(sum(heard), sum(prior[i] * emits[i][0] for i in states)),
            *(Equal(sum(emitted[j]), sum(prior[i] * moves[i][j] for i in states)) for j in states),
        ),
        remark="t = 1, x_0 the first symbol and y_0 the other: over the states it adds to the probability of x_0, and with "
        "that of y_0 to the probability of the state; the footnote itself goes on with x_t",
        quote=r"More precisely a^{t}_{i} becomes the probability to have emitted y_{0},\ldots,y_{t-1} and be in state i",
    )
    tau = [[Symbol(f"tau_{{{i}{j}}}", real=True) for j in (1, 2)] for i in (1, 2)]
    shared = [Symbol(f"tau_{i}", real=True) for i in (1, 2)]
    g = [Symbol(f"g_{i}", real=True) for i in (1, 2)]
    by_unit = [sum((tau[i][j] * g[i] for i in states), S.Zero) for j in states]
    basic = [Symbol(f"F_{j}", positive=True) for j in (1, 2)]
    slopes = [Symbol(f"dV_{j}/da_{j}", positive=True) for j in (1, 2)]
    chart = {slope: 1 / field for slope, field in zip(slopes, basic, strict=True)}

    def in_chart(weights: list[list[Expr]], j: int) -> Expr:
        """dV_j/dt = dV_j/da_j da_j/dt, in the chart in which the basic vector field is constant: dV_j/da_j = 1/F_j^0."""
        return slopes[j] * (sum((weights[i][j] * g[i] for i in states), S.Zero) * basic[j])

    alike = [in_chart([[each, each] for each in shared], j) for j in states]
    yield paper("footnote 6, index").says(
        "With F_j = (sum_i f_i(a_i, x)) F_j^0, f_i = tau_i(x) g_i(a_i) one obtains (12), dV_j/dt = sum_i tau_ijx a_i.",
        *tuple(Equal(alike[j], by_unit[j], chart) for j in states),
        correction=Correction(
            "With f_ij and tau_ij(x): as printed V_j changes alike for all j that hear the same units.",
            *(Equal(in_chart(tau, j), by_unit[j], chart) for j in states),
            Equal(alike[0], alike[1], chart),
        ),
        remark="two units",
        quote="and that the latter decomposes as a sum of the influences of individual units i",
    )
