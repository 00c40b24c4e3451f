r"""Ollivier 2013, section 4: the laws of the synthetic data, and what they cost in bits.

insertions, a line    26 h(1/26) + 10 h(1/5) + 2 * 9 log2 26 = 97.9 bits on the mean, h the binary entropy
a^n b^n               10 bits a pair; log2 1536 + 1535 log2(1536/1535) = 12.03 by the geometric law of that mean
mixing with 1/(t + 2) at most log2(T + 1) bits lost over T symbols
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

from sympy import Derivative, Expr, Integer, Rational, S, Symbol, log, oo, sqrt

from derivations.claim import Cases, Correction, Entry, Equal, Every, Less, Mutation, Rounds, Source, Tends, changed
from derivations.prover.symbols import product_of, together

__all__ = ["paper", "log2"]

paper = Source("ollivier-2013-riemannian-metrics-ii")
p, q, t, T = (Symbol(name, positive=True) for name in "pqtT")
A, N, d = (Symbol(name, positive=True) for name in "ANd")


def log2(x: Expr | int) -> Expr:
    return log(S(x)) / log(2)


def entropy(p: Expr) -> Expr:
    """Of one choice of probability p, in bits."""
    return -p * log2(p) - (1 - p) * log2(1 - p)


def mixing() -> Iterator[Entry]:
    """How the networks are set up and mixed."""
    frequency, scale, gain, weight = (Symbol(name, positive=True) for name in ("nu", "c", "G", "r"))
    moved, normed = scale * Derivative(gain * (scale * weight), weight), {scale: 1 / sqrt(frequency)}
    yield paper("footnote 12").says(
        "A learning rate for rho_ix inversely proportional to the frequency of x is the same as scaling "
        "the input of x to a given L2 norm over time.",
        Equal(moved, gain / frequency, normed),
        Equal(T * frequency * scale**2, T, normed),
        mutation=changed("L2 norm read as L1 norm", lhs=T * frequency * scale, rhs=T),
        remark="an input c 1[x_t = x] has weight rho/c, so that gradient c G moves rho by c^2 G; with c^2 = 1/nu the "
        "input's square sum over T nu times is T for every x",
        quote=r"If \rho_{ix} is seen as the weight from an input unit activated when symbol x occurs, then this is equivalent to "
        r"scaling the input unit signals to a given L^{2} norm over time",
    )
    mixed = (1 - 1 / (t + 2)) * p + 1 / (t + 2) / A
    lost = [log(S(k + 2) / (k + 1)) for k in range(6)]
    yield paper("sec. 4, mixing, distribution", sizes="2 symbols").says(
        "With (1 - 1/(t + 2)) pi + 1/(t + 2) unif no symbol has probability 0 and they still sum to 1.",
        Equal(mixed.subs(A, 2) + mixed.subs(A, 2).subs(p, 1 - p), S.One),
        Less(1 / ((t + 2) * A), mixed, True),
        mutation=changed(
            "the factor of pi read as 1 - 1/(t + 1)",
            lhs=(mixed + p / (t + 2) - p / (t + 1)).subs(A, 2) + (mixed + p / (t + 2) - p / (t + 1)).subs(A, 2).subs(p, 1 - p),
        ),
        remark="at t = 0 half of it is uniform",
        quote=r"was replaced with (1-\frac{1}{t+2})\pi_{t}+\frac{1}{t+2}",
    )
    yield paper("sec. 4, mixing, cost").says(
        "The mixing has some backing from information theory: over T symbols it loses at most log2(T + 1) bits against pi, and a "
        "symbol never costs more than log2((t + 2) A).",
        Less(p * (t + 1) / (t + 2), mixed, True),
        Equal(sum(lost, S.Zero), log(S(7))),
        Equal(log((T + 2) / (T + 1)) + log(T + 1), log(T + 2)),
        mutation=changed("1/(t + 2) read as 2/(t + 2)", upper=(1 - 2 / (t + 2)) * p + 2 / (t + 2) / A),
        remark="a bound of ours: the losses log((t + 2)/(t + 1)) telescope, shown for 6 symbols and one more at any T",
        quote="This kind of regularization has some backing from information theory",
    )


def network_sizes() -> Iterator[Entry]:
    """Units, parameters and edges."""
    gated, plain = (d + 1) * N * A + (N + 1) * A, d * N + N * A + N + (N + 1) * A
    yield paper("sec. 4, number of parameters", given=("more than one symbol", "more than one edge a unit")).says(
        "For a given size GLNNs have more parameters than RNNs: an edge has as many as there are symbols.",
        Less(S.Zero, gated - plain, True, {A: (2, oo), d: (1, oo)}),
        mutation=Mutation("more parameters with one symbol too", Less(S.Zero, (gated - plain).subs(A, 1), True)),
        remark="with biases, input and writing weights counted: d N A + N A against d N + N A + N, so N ((A "
        "- 1) d - 1) more; with two symbols N (d - 1)",
        quote=r"Note that for a given network size, GLNNs have more parameters (because each edge has as many "
        r"parameters as symbols in the alphabet \mathcal{A})",
    )
    yield paper("sec. 4, semi-sparse").says(
        "d = sqrt(2 #A) for GLNNs and d = #A for RNNs balance the contributions to the costs of "
        "section 2, O(N T (d^2 + A)) and O(N T (d + A)).",
        Tends((d**2 / A).subs(d, sqrt(2 * A)), A, oo, S.One),
        Equal(d / A, S.One, {d: A}),
        reading=Correction(
            "So it is for RNNs, and for GLNNs if the d (d + 1)/2 entries of a symmetric matrix are counted once; d^2 is "
            "balanced by sqrt(#A), which section 2 suggests.",
            Tends((d * (d + 1) / 2 / A).subs(d, sqrt(2 * A)), A, oo, S.One),
            Equal(d**2 / A, S.One, {d: sqrt(A)}),
            Equal(d / A, S.One, {d: A}),
        ),
        quote="this latter choice balances the various contributions to algorithmic complexity (see Section 2)",
    )
    x, y = Symbol("x", positive=True), Symbol("y", positive=True)
    z = 1 - x - y
    det = (1 / x + 1 / z) * (1 / y + 1 / z) - 1 / z**2
    yield paper("footnote 16", given="no probability is 0", sizes="3 edges").says(
        "Jeffreys' prior on the edges from a node is Dirichlet(1/2, ..., 1/2): the root of the determinant of the "
        "Fisher matrix is the product of the p^(-1/2).",
        Equal(det, 1 / (x * y * z)),
        mutation=changed("1/2 read as 0: the determinant is the product of the p^-2", rhs=1 / (x * y * z) ** 2),
        quote=r"Initialization of the transition probabilities is by a Dirichlet(1/2,\ldots,1/2) "
        r"(i.e., Jeffreys) prior on the edges from a node",
    )


def insertions() -> Iterator[Entry]:
    """The alphabet with insertions. A line has 26 places for a block, a block 10 places for nine random capitals."""
    inner, outer = Rational(1, 5), Rational(1, 26)
    block = 10 * (entropy(inner) + inner * 9 * log2(26))
    line = 26 * entropy(outer) + 26 * outer * block
    # Given its number of insertions a part costs an affine function of it; variances of sums of a random number of parts.
    slope = 9 * log2(26) + log2(1 - inner) - log2(inner)
    inner_spread = 10 * inner * (1 - inner) * slope**2
    variance = 26 * outer * inner_spread + 26 * outer * (1 - outer) * (block + log2(1 - outer) - log2(outer)) ** 2
    shorter = 9 * (entropy(inner) + inner * 9 * log2(26))
    nine = 26 * entropy(outer) + 26 * outer * shorter
    of_nine = (
        26 * outer * inner_spread * Rational(9, 10) + 26 * outer * (1 - outer) * (shorter + log2(1 - outer) - log2(outer)) ** 2
    )
    yield paper("sec. 4, insertions, one a line").says(
        "A model that resumes at a random letter after a block loses log2(26), about 4.7 bits, for each line.",
        Equal(26 * outer * (1 - outer) ** 25, S.One),
        Rounds(log2(26), "4.7"),
        reading=Correction(
            "On the mean: each of the 26 places has a block with probability 1/26; 36 % of the lines have none.",
            Equal(product_of(26, outer), S.One),
            Rounds(log2(26), "4.7"),
            Rounds((1 - outer) ** 26, "0.36"),
        ),
        remark="the probability that a line has exactly one block; said of the lines of the training "
        "sequence, where the validation sequence is meant",
        quote="this would be the log-likelihood difference, for each line of the training sequence",
    )
    yield paper("sec. 4, insertions, true model").says(
        "Under the law described, the log-likelihood of 1000 lines is -88,482 bits: at the level of 1 %.",
        Rounds(1000 * line, "88482", Rational("2.576") * sqrt(1000 * variance)),
        correction=Correction(
            "That law costs 97,942 bits with a standard deviation of 3,477, 2.7 deviations more. With the capitals inserted "
            "after nine of the ten digits only, between them, it costs 88,760: then the print's number is within one deviation.",
            Rounds(1000 * line, "97942"),
            Rounds(sqrt(1000 * variance), "3477"),
            Rounds(1000 * nine, "88760"),
            Rounds(1000 * nine, "88482", sqrt(1000 * of_nine)),
        ),
        remark="beyond 2.576 deviations are 1 % of sums of many lines, beyond 2.72 are 0.7 %: it might be chance",
        quote="compared to -88,482 bits for the true model",
    )
    true, ours, theirs = 88482, 89126, 96099
    yield paper("sec. 4, insertions, difference").says(
        "The best GLNN is more than ten times closer to the true model than the best RNN, by roughly 7,000 bits, 7 a line; RNNs "
        "that run for 4 hours are seven times farther. The regrets are those of Table 1, 644.2 and 7616.8.",
        Less(S(10 * (ours - true)), S(theirs - true), True),
        Rounds(Rational(theirs - true - 2810, ours - true), "7"),
        Rounds(S(theirs - ours), "7000", S(50)),
        Rounds(S(ours - true), "644.2", Rational(1, 2)),
        Rounds(S(theirs - true), "7616.8", Rational(1, 2)),
        mutation=Mutation("ten read as twelve", Less(S(12 * (ours - true)), S(theirs - true))),
        remark="after 4 hours, 2,810 bits better, the RNN is 7.5 times farther, as printed to one digit; Table 1 gives tenths of "
        "bits, the text whole bits; the text says lines of the training sequence, for those of the validation sequence",
        quote="Such a difference of roughly 7,000 bits represents roughly 7 bits per line of the training sequence",
    )


RHYTHMS = {"4-4-4": (4, 4, 4), "2-4": (2, 4), "4.-8-4": (Rational(8, 3), 8, 4), "2.": (Rational(4, 3),), "4-4-8-8": (4, 4, 8, 8)}
CHORDS = {"I": set("ceg"), "IV": set("cfa"), "V": set("gbd")}
CYCLE = ("I", "IV", "I", "V", "I", "IV", "V", "I")


def music() -> Iterator[Entry]:
    shown = ("c", "fac", "gbgd", "ggg", "ecc")

    def fits(bars: tuple[str, ...]) -> Cases:
        for phase in range(8):
            agrees = all(set(bar) <= CHORDS[CYCLE[(phase + k) % 8]] for k, bar in enumerate(bars))
            yield {"first_bar": Integer(phase + 1)}, (int(agrees), "=", int(phase == 4))

    def whole(length: Rational) -> Cases:
        for k, values in enumerate(RHYTHMS.values()):
            found = sum(1 / S(v) for v in values)
            yield {"rhythm": Integer(k + 1), "length": found}, (found, "=", length)

    yield paper("sec. 4, music, rhythms").says(
        "The five rhythms are those of waltzes: each fills three quarters.",
        Every("the five rhythms", lambda: whole(Rational(3, 4))),
        mutation=changed("three quarters read as four", cases=lambda: whole(S.One)),
        remark="a dot makes a note half as long again",
        quote="namely: 4-4-4; 2-4; 4.-8-4; 2.; 4-4-8-8",
    )
    yield paper("sec. 4, music, example 3").says(
        "Example 3 follows the cycle I-IV-I-V-I-IV-V-I: it can start at its fifth bar and nowhere else.",
        Every("the eight bars of the cycle as the first", lambda: fits(shown)),
        mutation=changed("third bar g b g d read as g e g d", cases=lambda: fits(("c", "fac", "gegd", "ggg", "ecc"))),
        quote="an 8-bar-long cycle I-IV-I-V-I-IV-V-I as encountered in simple tunes",
    )


def example() -> Iterator[Entry]:
    """Example 2."""
    lines = ("1 1 1 0 0X1 1X1 1 1 1 1 0 0 1 0 1 0 0 0 1 0 1 0 0 1=0", "X0X1X0 1 1 0 1 0 1 1 1 0 1 0 1 0 0 1 0 0 1 0 0 1 0 0=1")

    def marks(line: str) -> tuple[list[int], list[int]]:
        """Where the X are, among the bits, and all the bits."""
        cells = line.partition("=")[0].replace("X", " X").replace("  X", " X").split()
        return [k for k, cell in enumerate(cells) if cell[0] == "X"], [int(cell[-1]) for cell in cells]

    def two_marks(checked: tuple[str, ...]) -> Cases:
        for k, line in enumerate(checked, 1):
            where, bits = marks(line)
            yield {"line": Integer(k), "marks": Integer(len(where)), "bits": Integer(len(bits))}, (len(where), "=", 2)

    def placed(checked: tuple[str, ...], whole: bool = False) -> Cases:
        for k, line in enumerate(checked, 1):
            where, bits = marks(line)
            first, tenth = where[0], len(bits) if whole else Rational(len(bits), 10)
            yield {"line": Integer(k), "first_mark": Integer(first), "tenth": tenth}, (first, "<", tenth)

    def truth(checked: tuple[str, ...]) -> Cases:
        for k, line in enumerate(checked, 1):
            where, bits = marks(line)
            yield {"line": Integer(k)}, ((bits[where[0]] + bits[where[1]]) % 2, "=", int(line[-1]))

    yield paper("sec. 4, XOR, two marks").says(
        "In Example 2, a typical sequence, two of the bits of each line are preceded by an X.",
        Every("the two lines of Example 2", lambda: two_marks(lines)),
        correction=Correction(
            "The second line has three marks; the first two give its result, and so for the first line.",
            Every("the two lines of Example 2, results", lambda: truth(lines)),
            Every("the first line", lambda: two_marks(lines[:1])),
        ),
        remark="if the extraction shows the line as it is printed, X0X1X0",
        quote="Two of these random bits are preceded by a special symbol X instead of a whitespace",
    )
    yield paper("sec. 4, XOR, first mark").says(
        "The first X of a line of T' bits is among the first T'/10, as in Example 2.",
        Every("the two lines of Example 2", lambda: placed(lines)),
        correction=Correction(
            "In the first line of Example 2, of 26 bits, it is at the sixth: the example is of a law with the mark anywhere.",
            Every("the two lines of Example 2, marks within the line", lambda: placed(lines, whole=True)),
            Every("the second line", lambda: placed(lines[1:])),
        ),
        remark="positions counted from 0 in [0, T'/10[, [T'/10, T'/2[",
        quote=r"The positions of these two special symbols are taken at random from the intervals \llbracket "
        r"0;T^{\prime}/10\llbracket and \llbracket T^{\prime}/10;T^{\prime}/2\llbracket respectively",
    )


def runs() -> Iterator[Entry]:
    """Errors, samples, hours and passes."""
    u = Symbol("u", positive=True)
    yield paper("sec. 4, XOR, errors and bits", given="the log-likelihood is in base 2, as the section says").says(
        "The classification error, 1 where the right bit has probability 1/2 or less, "
        "is always bounded by the log-likelihood error.",
        Less(S.One, log2(2) + log(1 + u) / log(2), True),
        Less(S.Zero, log(1 + u), True, rising=(u,)),
        mutation=Mutation("base 2 read as base e", Less(S.One, log(2) + u)),
        remark="with probability 1/(2 (1 + u)) of the right bit, u >= 0",
        quote="this is always bounded by the log-likelihood error",
    )
    tail = sum((comb(8, k) * Rational(1, 4) ** k * Rational(3, 4) ** (8 - k) for k in range(4, 9)), S.Zero)
    six = sum((comb(8, k) * Rational(1, 4) ** k * Rational(3, 4) ** (8 - k) for k in range(6, 9)), S.Zero)
    yield paper("sec. 4, XOR, sample size", given=("for sure means at the level of 5 %", "the rate of 25 % is exact")).says(
        "The sample is too small to tell for sure that 4 of 8 runs, or 6 within 2,000 passes, are better than a rate of 25 %.",
        Less(Rational(5, 100), tail, True),
        Less(Rational(5, 100), six, True),
        reading=Correction(
            "For the 4 of 8, which chance gives with probability 0.114. For 6 of 8 it is 0.0042: one can tell.",
            Less(Rational(5, 100), tail, True),
            Rounds(tail, "0.114"),
            Rounds(six, "0.0042"),
        ),
        remark="the sentence before has both numbers; the 25 % are of runs of up to 50 million examples, 2,000 passes are 20",
        quote="The sample size is too small to tell for sure that this is better than the success rate in [MS11]",
    )
    yield paper("sec. 5, state of the art").says(
        "Better than state-of-the-art performance has been obtained on difficult synthetic problems.",
        Less(tail, Rational(5, 100)),
        reading=Correction(
            "On one of them, if 25 % is exact, by the 6 of 8 runs within 2,000 passes. By the 4 of 8 of the runs as described "
            "one cannot tell, as section 4 says; the other examples are compared with no result in print.",
            Rounds(six, "0.0042"),
            Less(Rational(5, 100), tail, True),
        ),
        remark="the probability that 4 of 8 or more succeed by chance, at a rate of 25 %; section 4, on all of these runs: the "
        "sample size is too small to tell for sure",
        quote="Better than state-of-the-art performance has been obtained on difficult synthetic problems",
    )
    yield paper("sec. 4, XOR, hours").says(
        "1,500 passes over 10,000 lines, a run of the experiment, are roughly 12 hours of computation, and "
        "slightly above 4 hours of CPU time on one core.",
        Less(S(12), S(4) * Rational(3, 2)),
        correction=Correction(
            "The two numbers for one run are a factor 3 apart; not both can be meant.", Equal(S(12), product_of(3, 4))
        ),
        remark="slightly above is read as at most half as much again; there was no parallelism; 12 hours "
        "may be the clock time of several runs at once",
        quote="Optimization was run for 1,500 gradient passes over the training sequence "
        "(amounting to roughly 12 hours of computation",
    )
    yield paper("sec. 4, XOR, passes").says(
        "1,500 passes are 750 steps for each kind of weight; 15 million lines read are "
        "fewer than the 50 million of the other method.",
        Equal(S(1500), product_of(2, 750)),
        Less(S(1500) * 10000, S(50000) * 1000, True),
        mutation=changed("fewer read as a tenth", upper=S(50000) * 100),
        remark="the success rates 25 % here and the failure rate 75 % of the introduction agree",
        quote="Still, the algorithm is simpler and uses fewer training examples",
    )


def blocks() -> Iterator[Entry]:
    """a^n b^n."""
    mean = S(1536)
    geometric, shorter = (log2(m) + (m - 1) * log2(m / (m - 1)) for m in (mean, S(1024)))
    x = Symbol("x", positive=True)
    general = -log(x) - (1 / x - 1) * log(1 - x)
    of_uniform = log2(mean) + (Rational(1024 + 2047, 2) - 1) * log2(mean / (mean - 1))
    yield paper("sec. 4, a^n b^n, geometric law").says(
        "n of 1024 to 2047 costs 10 bits. The geometric law of mean (1024 + 2048)/2 = 1536 has an entropy of about 12 bits, so a "
        "reasonable model needs about 120 for ten blocks and 240 if it does not see that lengths are equal.",
        Equal(log2(2048 - 1024), S(10)),
        Equal(together(1024, 2048), product_of(2, 1536)),
        Rounds(geometric, "12.03"),
        Rounds(10 * of_uniform, "120", S.Half),
        Rounds(20 * of_uniform, "240", S.One),
        Equal(general.subs(x, 1 / mean), geometric * log(2)),
        mutation=changed("mean 1536 read as mean 1024", value=shorter),
        remark="the cost of lengths uniform on 1024 ... 2047 under that law: 12.03 bits a block too, as their mean is 1535.5",
        quote=r"The geometric law with mean \frac{1024+2048}{2}=1536 has an entropy of about 12 bits instead of 10",
    )
    pairs = {"-129.7": "29.7", "-129.98": "30.0", "-222.4": "122.4", "-243.5": "143.5"}
    yield paper("sec. 4, a^n b^n, regrets").says(
        "The regrets of Table 1 are the log-likelihoods -129.7, -129.98, -222.4 and -243.5 less the 100 bits of the true model.",
        *tuple(Rounds(-Rational(bits) - 100, regret) for bits, regret in pairs.items()),
        mutation=Mutation("100 bits read as 110", Rounds(Rational("129.7") - 110, "29.7")),
        remark="each run has a sequence of its own; all cost 100",
        quote="It is defined as the difference between the log-likelihood of the validation data sequence under the true model",
    )
