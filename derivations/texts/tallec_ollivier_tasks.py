r"""Tallec and Ollivier 2018, section 3 and appendix A: the tasks' own arithmetic, and words against words.

warping: letters repeated, the same in input and output, which must then be a function of the input
copy: T + 20 characters           10 log 8/(T + 20) with one bit of memory, more without any
adding: variance of a sum         1/6 = 0.167, and less for who reads the last number
Fig. 5: caption against text; 90M + 5M + 5M characters; bits per character; log(U(1, 11)) is 1.64 on average;
6.54 is 65.4 elsewhere
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from typing import Any

from sympy import Expr, ImmutableDenseMatrix, Integral, Rational, S, Sum, Symbol, diff, exp, expand_log, log, oo

from derivations.claim import Cases, Correction, Entry, Equal, Every, Fails, Less, Mutation, Rounds, Source, Tends, changed
from derivations.prover.symbols import product_of, together
from derivations.twins.fields import sigma

paper = Source("tallec-ollivier-2018")
T, u, x, z = Symbol("T", positive=True), Symbol("u", positive=True), Symbol("x", positive=True), Symbol("z", real=True)
SENTENCE = "All human beings are born free and equal"
EXTRACTED = "the extraction writes the digit 1 for the letter l and one blank for several"
Rows = tuple[tuple[Mapping[str, Any], Any], ...]


def every(what: str, *rows: tuple[Mapping[str, object], Any]) -> Every:
    return Every(what, lambda: rows)


def overview() -> Iterator[Entry]:
    """What section 3 says of all its experiments."""
    better = ("outperforms", "=", "outperforms")
    tasks: Rows = (
        ({"task": "copy", "T": 500}, better),
        ({"task": "copy", "T": 2000}, better),
        ({"task": "adding", "T": 200}, better),
        ({"task": "adding", "T": 750}, better),
        ({"task": "variable copy", "T": 1000}, better),
    )
    even = ({"task": "variable copy", "T": 500}, ("even with", "=", "outperforms"))
    yield paper("sec. 3, all synthetic tasks").says(
        "Chrono initialization heavily outperforms the standard one on all synthetic tasks.",
        every("tasks of Figs. 3 and 4: outperformed, by their captions and the text", *tasks, even),
        correction=Correction(
            'On all but one: on the variable copy task with T = 500 it is "even with standard initialization", and in Fig. '
            '3 "both perform well".',
            every("tasks of Figs. 3 and 4 but the variable copy task with T = 500", *tasks),
        ),
        quote="It heavily outperforms standard LSTM initialization on all synthetic tasks",
    )
    others = ("copy", "variable copy", "adding", "MNIST", "pMNIST", "text8")
    lstms: Rows = tuple(({"task": task}, ("LSTM", "in", ("LSTM",))) for task in others)
    warping: Rows = (({"task": "warping and padding"}, ("LSTM", "in", ("RNN", "leaky RNN", "gated RNN"))),)
    yield paper("sec. 3, architectures").says(
        "LSTMs of a single layer are used for all experiments but the word level prediction.",
        every("experiments other than word prediction: with LSTMs", *warping, *lstms),
        correction=Correction(
            "And but warping and padding, where RNNs, leaky RNNs and gated RNNs (10) are compared, and no LSTM.",
            every("experiments other than word prediction and warping: with LSTMs", *lstms),
        ),
        quote="Single layer LSTMs with various layer sizes are used for all experiments, except for the word level prediction",
    )


def played(word: str, repeats: tuple[int, ...]) -> str:
    """The word with its letters repeated, as it is extracted."""
    return extracted("".join(letter * n for letter, n in zip(word, repeats, strict=True)))


def extracted(line: str) -> str:
    return " ".join(line.replace("l", "1").split())


def same(what: str, *pairs: tuple[str, str]) -> Every:
    return Every(what, lambda: (({"found": found, "printed": printed}, (found, "=", printed)) for found, printed in pairs))


def examples() -> Iterator[Entry]:
    """Figure 2."""
    late, human = (" " + SENTENCE)[:-1], "All human"
    yield paper("fig. 2, unwarped").says(
        "The output is the input one character later: All human beings are born free and equa.",
        same("one character later", (extracted(late), extracted("All human beings are born free and equa"))),
        mutation=Mutation(
            "two characters later", same("two", (extracted(SENTENCE[:-2]), extracted("All human beings are born free and equa")))
        ),
        remark=EXTRACTED,
        quote="Output: All human beings are born free and equa",
    )
    four = (4,) * len(human)
    yield paper("fig. 2, uniform").says(
        "With each character 4 times the input is AAAAllllllll hhhhuuuummmmaaaannnn, the output 4 later.",
        same(
            "4 times",
            (played(human, four), "AAAA11111111 hhhhuuuummmmaaaannnn"),
            (played((" " + human)[:-1], four), "AAAA11111111 hhhhuuuummmmaaaa"),
        ),
        mutation=Mutation("4 read as 3", same("3 times", (played(human, (3,) * 9), "AAAA11111111 hhhhuuuummmmaaaannnn"))),
        remark=EXTRACTED,
        quote="Input: AAAA11111111 hhhhuuuummmmaaaannnn",
    )
    some, repeats = "All human beings", (1, 2, 4, 2, 3, 1, 3, 2, 3, 1, 4, 2, 3, 1, 1, 4)
    variable = ("A111111 hhhummmaannn bbbbeeiiingssss", "AA111111 huuummaaan bbeeeingggg")
    yield paper("fig. 2, variable").says(
        "Input and output of the variable example have the same warping, between 1 and 4 times.",
        same(
            "repeated 1, 2, 4, 2, 3, 1, 3, 2, 3, 1, 4, 2, 3, 1, 1 and 4 times",
            (played(some, repeats), variable[0]),
            (played((" " + some)[:-1], repeats), variable[1]),
        ),
        Every("between 1 and 4", lambda: (({"times": n}, (n, "in", (1, 2, 3, 4))) for n in repeats)),
        mutation=Mutation("the two l repeated 4 and 2 times", same("4 and 2", (played((" All")[:-1], (1, 4, 2)), "AA111111"))),
        remark=EXTRACTED,
        quote="Output: AA111111 huuummaaan bbeeeingggg",
    )
    pairs: Rows = tuple(({"place": k, "letter": a}, (a, "!=", b)) for k, (a, b) in enumerate(pairwise(SENTENCE)))
    yield paper("fig. 2, illustration").says(
        "Fig. 2 illustrates the data: an alphabet of size 10, and contiguous characters differ.",
        every("letters of the example: no more than 10", ({"letters": len(set(SENTENCE))}, (len(set(SENTENCE)), "<=", 10))),
        every("letters of the example beside one another: they differ", *pairs),
        reading=Correction(
            "It illustrates the repetition only: the sentence has 18 different "
            "characters, and the same one twice in All and free.",
            Equal(S(len(set(SENTENCE))), S(18)),
            every("the same letter twice", *(({"letters": pair}, (pair, "in", SENTENCE)) for pair in ("ll", "ee"))),
        ),
        quote="Fig. 2 gives an illustration.",
    )


def warps() -> Iterator[Entry]:
    """What the warped tasks are."""
    yield paper("sec. 3, function of the input").says(
        "With one warping for both, the output is a function of the input, in Fig. 2 too: All.",
        Every("warpings of All by 1 to 4 with one input: one output", lambda: one_output(("All",), 4)),
        reading=Correction(
            "Where contiguous characters differ, as the data are said to: in All nobody can tell where the first l ends.",
            Every(
                "words of 3 letters from a, b, c, none beside itself, repeated 1 to 3 times",
                lambda: one_output(tuple("".join(w) for w in product("abc", repeat=3) if w[0] != w[1] != w[2]), 3),
            ),
        ),
        quote="The same warping is used for the input and output sequence (so that the "
        "desired output is indeed a function of the input).",
    )
    before, after = Rational(1, 2), Rational(1, 3)
    yield paper("sec. 3, piecewise affine").says(
        "The random piecewise affine c is a time warping, that is differentiable: its slopes left and right of a break are one.",
        Equal(before, after),
        reading=Correction(
            "But for its breaks: c is increasing and continuous, a letter repeated n times is a piece of slope 1/n, and on each "
            "piece (6) holds. Held inputs change at the breaks only.",
            Less(S.Zero, 1 / x, True),
            Every("slope 1/2, then 1/3: the character read at each of 5 steps", slopes),
        ),
        remark="the character at step t is number floor(c(t)), counted from 0",
        quote=r"This exactly corresponds to transforming input $x(t)$ into $x(c(t))$ with "
        r"$c$ a random, piecewise affine time warping.",
    )
    width = Symbol("w", positive=True)
    taken_up = 1 - exp(-width)
    yield paper("sec. 3, padding").says(
        "A field reads an input that is nonzero at points in time only: what it adds to h does not vanish.",
        Fails(Tends(taken_up, width, 0, S.Zero)),
        reading=Correction(
            "Nonzero for some time w each: then (3) with Wh = b = 0 takes up 1 - e^(-w) of tanh(Wx x), and a padded sequence is "
            "one whose clock runs slower in the gaps. At points in time alone nothing is taken up.",
            Less(S.Zero, taken_up, True, rising=(width,)),
            Tends(taken_up, width, 0, S.Zero),
        ),
        quote="in continuous-time, this amounts to a time warping of a continuous-time input sequence "
        "that is nonzero at certain points in time only",
    )
    yield paper("fig. 1, loss 0").says(
        "Leaky and gated RNNs reach loss 0: the cross entropy log(1 + e^(-z)) is 0 for a score z.",
        Less(log(1 + exp(-z)), S.Zero),
        reading=Correction(
            "0 to the eye: the cross entropy of finite scores is positive, and tends to 0 as they grow.",
            Less(S.Zero, log(1 + u), True),
            Tends(log(1 + exp(-u)), u, oo, S.Zero),
        ),
        remark="u = e^(-z) > 0",
        quote="(For uniform padding/warpings, the leaky RNN and gated RNN curves overlap, with loss 0.)",
    )

    flow = ImmutableDenseMatrix([Symbol("F_1", real=True), Symbol("F_2", real=True)])
    rates = Symbol("a_1", positive=True), Symbol("a_2", positive=True)
    per_unit = ImmutableDenseMatrix([rates[0] * flow[0], rates[1] * flow[1]])
    yield paper("sec. 3, leaky RNNs").says(
        "In (5) each unit has a constant of its own: one alpha does for all units, as in (4).",
        Equal(per_unit, rates[0] * flow),
        reading=Correction(
            "(5) with a constant for each unit, between 0 and 1: (5) has one for all, alpha > 0. On a clock of constant "
            "speed c such fields have constants c a_i again.",
            Equal(u * per_unit, per_unit.subs({rate: u * rate for rate in rates}, simultaneous=True)),
        ),
        quote="leaky RNNs (Eq. (5), where each unit has a constant learnable “gate” between 0 and 1)",
    )


def one_output(sentences: tuple[str, ...], longest: int) -> Cases:
    for word in sentences:
        seen: dict[str, str] = {}
        for repeats in product(range(1, longest + 1), repeat=len(word)):
            given = "".join(letter * n for letter, n in zip(word, repeats, strict=True))
            wanted = "".join(letter * n for letter, n in zip("_" + word[:-1], repeats, strict=True))
            first = seen.setdefault(given, wanted)
            yield {"input": given, "output": wanted, "other output": first}, (first, "=", wanted)


def slopes() -> Cases:
    """Two characters, repeated 2 and 3 times, are read where the clock of slopes 1/2 and 1/3 shows 0 and 1."""
    read = [n // 2 if n < 2 else 1 + (n - 2) // 3 for n in range(5)]
    for step, (found, wanted) in enumerate(zip(read, (0, 0, 1, 1, 1), strict=True)):
        yield {"step": step, "character": found}, (found, "=", wanted)


def copying() -> Iterator[Entry]:
    """The copy task: lengths, delays, baselines."""
    n, place = Symbol("T", integer=True, positive=True), Symbol("k", integer=True)
    yield paper("sec. 3, copy").says(
        "Input and target have T + 20 characters: 10 + (T - 1) + 1 + 10, and (T + 10) + 10.",
        Equal(together(10, n - 1, 1, 10), n + 20),
        Equal(together(n + 10, 10), n + 20),
        mutation=changed("T - 1 dummies read as T", lhs=together(10, n, 1, 10)),
        quote="For a given $T$ , input sequences consist of $T + 20$ characters.",
    )
    yield paper("sec. 3, copy, alphabet").says(
        "The alphabet of 10 is 8 letters, a dummy and a signal character.",
        Equal(together(8, 1, 1), S(10)),
        mutation=changed("8 read as 9", lhs=together(9, 1, 1)),
        quote="Consider an alphabet of 10 characters.",
    )
    yield paper("sec. 3, copy, delay").says(
        "What is read must be remembered for exactly T timesteps: character k of the input is due at T + k.",
        Equal(together(n + 10 + place, -place), n),
        reading=Correction(
            "From the end of the sequence, step 9, to the signal, step T + 9, it is T. Each "
            "character is written T + 10 steps after it was read.",
            Equal(together(10 + n - 1, -9), n),
            Equal(together(n + 10 + place, -place), n + 10),
        ),
        remark="steps and characters counted from 0",
        quote="This dataset is thus about remembering an input sequence for exactly $T$ timesteps.",
    )
    yield baseline()
    ratios = Rational(750, 520), Rational(3000, 2020)
    yield paper("sec. 3, copy, T_max").says(
        "T_max = 3T/2 is a bit larger than the input length T + 20, by a tenth at most, for T = 500 and 2000.",
        *tuple(Less(ratio, Rational(11, 10)) for ratio in ratios),
        reading=Correction(
            "It is larger, by 44 % and 49 %.",
            *(Less(S.One, ratio, True) for ratio in ratios),
            Rounds(ratios[0], "1.44"),
            Rounds(ratios[1], "1.49"),
        ),
        quote=r"with $T_{\max} = \frac{3T}{2}$ for the copy task, thus a bit larger than input length",
    )


def baseline() -> Entry:
    """What is best without memory, and with one bit of it."""
    blind = ((T - 1) * log((T + 9) / (T - 1)) + 10 * log(8 * (T + 9) / 10)) / (T + 20)
    told = 10 * log(8) / (T + 20)
    later = 1 + u
    extra = (T - 1) * log((T + 9) / (T - 1)) + 10 * log((T + 9) / 10)
    return paper("sec. 3, copy, baseline").says(
        "The best that a memoryless model can do is a loss of 10 log(8)/(T + 20).",
        Less(blind.subs(T, later), told.subs(T, later)),
        correction=Correction(
            "That is the best of a model that remembers one bit, whether the signal has come: log 8 at 10 of T + 20 places. "
            "Without any memory the dummies before and after the signal look the same, and the best is more, by ((T - 1) log((T "
            "+ 9)/(T - 1)) + 10 log((T + 9)/10))/(T + 20).",
            Equal(-Sum(Rational(1, 8) * log(Rational(1, 8)), (Symbol("k"), 1, 8)).doit() * 10 / (T + 20), told),
            Equal(
                expand_log(((blind - told) * (T + 20)).subs(T, later), force=True), expand_log(extra.subs(T, later), force=True)
            ),
            Less(S.Zero, log((10 + u) / u), True, rewritten=log(1 + 10 / u)),
            Less(S.Zero, log((10 + u) / 10), True, rewritten=log(1 + u / 10)),
        ),
        remark="a memoryless model gives each input character a distribution; on the dummy, "
        "T - 1 targets are dummies and 10 are letters",
        quote=r"The best that a memoryless model can do on the copy task is to predict at random from among possible characters, "
        r"yielding a loss of $\frac{10 \log(8)}{T+20}$",
    )


def adding() -> Iterator[Entry]:
    """The adding task's baseline."""
    y = Symbol("y", positive=True)

    def expected(e: Expr) -> Expr:
        return Integral(e, (x, 0, 1), (y, 0, 1))

    yield paper("sec. 3, adding, mean").says(
        "The mean of 2 x U([0, 1]) is 1, and 1 is the best of all constants.",
        Equal(expected(2 * x), S.One),
        Equal(diff(expected((2 * x - z) ** 2).doit(), z).subs(z, 1), S.Zero),
        Equal(diff(expected((x + y - z) ** 2).doit(), z).subs(z, 1), S.Zero),
        mutation=changed("2 x U read as U", lhs=expected(x)),
        remark="of the sum of two draws, too, which is meant",
        quote=r"to predict the mean of $2 \times \mathcal{U}([0, 1])$ , namely 1",
    )
    yield paper("sec. 3, adding, baseline").says(
        "Predicting 1 for 2 x U([0, 1]) has a mean squared error of 0.167.",
        Equal(expected((2 * x - 1) ** 2), Rational(1, 3)),
        Rounds(Rational(1, 3), "0.167"),
        reading=Correction(
            "For the sum of two independent draws, U + U', 1/6. Twice one draw, as printed, has 1/3 = 0.333.",
            Equal(expected((x + y - 1) ** 2), Rational(1, 6)),
            Rounds(Rational(1, 6), "0.167"),
        ),
        quote="Such a model reaches a mean squared error of 0.167.",
    )
    yield paper("sec. 3, adding, memoryless").says(
        "1 is the best a memoryless model can predict: with T = 200 its error is 0.167.",
        Rounds(Rational(1, 6) - Rational(2, 200) * (Rational(1, 6) - Rational(1, 12)), "0.167"),
        reading=Correction(
            "The best of a model that does not look at its input. Without memory one still sees the last number and its mark: "
            "where it is marked, with probability 2/T, the number plus 1/2 has the error 1/12, and the mean is 1/6 - 1/(6 T).",
            Equal(expected((x + y - (x + S.Half)) ** 2), Rational(1, 12)),
            Rounds(Rational(1, 6), "0.167"),
            Equal((1 - 2 / T) / 6 + 2 / T / 12, Rational(1, 6) - 1 / (6 * T)),
        ),
        remark="if the second mark is uniform on the second half, which the text does not say",
        quote="The best a memoryless model can do on this task is to predict the mean",
    )


def agree(what: str, *pairs: tuple[str, str]) -> Every:
    return Every(what, lambda: (({"text": text, "caption": caption}, (text, "=", caption)) for text, caption in pairs))


def generalization() -> Iterator[Entry]:
    """Figure 5, its caption and the text beside it."""
    yield paper("fig. 5, warps").says(
        "The networks of Fig. 5 are trained on variable warps, as the text says, and its caption.",
        agree("warps in text and caption", ("variable", "uniform")),
        correction=Correction(
            "The caption has uniform warps: one of the two is wrong. They agree on the ranges.",
            agree("ranges in text and caption", ("between 1 and 50", "between 1 and 50"), ("from 100", "from 100")),
        ),
        quote="is trained for 3 epochs on a variable warping task with warps between 1 and 50",
    )
    yield paper("fig. 5, all networks").says(
        "The accuracy of all networks goes from 100 % to around 75 %, that of plain RNNs too: it is below 80 %.",
        Less(S(100), S(80)),
        correction=Correction(
            "Of gated and perhaps of leaky RNNs: the next sentence has plain RNNs below 80 % everywhere, and they "
            "lose less than 5 points if they end at 75 % too.",
            Less(S(75), S(80), True),
            Less(S(80) - 75, S(100) - 75, True),
        ),
        quote="Even with warps 10 times longer than the training set warps, the networks still have decent "
        "accuracy, decreasing from 100% to around 75%.",
    )
    yield paper("fig. 5, training range").says(
        "Fig. 5 shows accuracies within the training range: its warps, from 100 on, are at most 50.",
        Less(S(100), S(50)),
        correction=Correction(
            "Its warps begin at twice the longest warp of training: the range 1 to 50 is not in it.",
            Less(S(50), S(100), True),
            Equal(S(100) / 50, S(2)),
        ),
        quote="while plain RNN never have perfect accuracy, below 80% even within the training set range",
    )
    yield paper("fig. 5, ten times").says(
        "Warps ten times as long as those of training are warps of 500.",
        Equal(product_of(10, 50), S(500)),
        mutation=changed("50 read as 100", lhs=product_of(10, 100)),
        remark="if these sequences too are cut to length 500, as in section 3, one is then a single character",
        quote="with warps eight to ten times longer than those seen during training",
    )


def pixels() -> Iterator[Entry]:
    """MNIST and its permutation, and text8."""
    yield paper("app. A, MNIST").says(
        "T_max = 784 is the length of an image of 28 by 28 pixels read one by one.",
        Equal(product_of(28, 28), S(784)),
        mutation=changed("784 read as 748", rhs=S(748)),
        quote=r"set to the length of the input sequences, $T_{\max} = 784$ .",
    )
    yield paper("app. A, pMNIST").says(
        "96.3 % is better than 95.4 %, by nine in a thousand.",
        Less(Rational(954, 10), Rational(963, 10), True),
        Equal(Rational(963 - 954, 1000), Rational(9, 1000)),
        mutation=changed("96.3 read as 93.6", upper=Rational(936, 10)),
        remark="best validation results, not test results",
        quote="with a best validation result of 96.3%, while standard initialization obtains a best validation result of 95.4%",
    )
    ours, standard, theirs = Rational(137, 100), Rational(138, 100), Rational(136, 100)
    yield paper("app. A, text8").says(
        "The 100M characters are split into 90M, 5M and 5M.",
        Equal(together(90, 5, 5), S(100)),
        mutation=changed("the next 5M read as 50M", lhs=together(90, 50, 5)),
        quote="the first 90M characters are used as training set, the next 5M as validation set and the last 5M as test set",
    )
    yield paper("app. A, text8, rate").says(
        "1.37 is a compression rate: the compressed text is not longer than the text, 1.37 <= 1.",
        Less(ours, S.One),
        reading=Correction(
            "Bits per character, as the summary of the paper says: of 8 bits, a rate of 0.171.",
            Rounds(ours / 8, "0.171"),
            Less(ours / 8, S.One),
        ),
        quote="the compression rate is 1.37 with chrono initialization, versus 1.38 for standard initialization",
    )
    yield paper("footnote 8").says(
        "Both results, 1.37 and 1.38, are slightly below the 1.36 reported elsewhere.",
        Less(ours, theirs, True),
        Less(standard, theirs, True),
        reading=Correction(
            "They are slightly worse: the numbers are above, and less is better.",
            Less(theirs, ours, True),
            Less(theirs, standard, True),
            Less(standard / theirs, Rational(102, 100)),
        ),
        quote="Both those results are slightly below the 1.36 reported in (Cooijmans et al., 2016)",
    )


def words() -> Iterator[Entry]:
    """Penn Treebank, with a recurrent highway network."""
    average = Integral(log(x), (x, 1, 11)) / 10
    yield paper("app. A, RHN, average").says(
        "T_max = 11 gives an average bias log(U(1, T_max)) close to 2, to a tenth of it.",
        Equal(average, (11 * log(11) - 10) / 10),
        Rounds((11 * log(11) - 10) / 10, "2", Rational(1, 5)),
        reading=Correction(
            "To the one digit printed: it is 1.64, short of 2 by 18 %. T_max = 17 gives 2.01.",
            Rounds((11 * log(11) - 10) / 10, "2"),
            Rounds((11 * log(11) - 10) / 10, "1.64"),
            Rounds((17 * log(17) - 16) / 16, "2.01"),
        ),
        quote=r"$T_{\max}$ is chosen to be 11 (because this gives an average bias initialization close to the value 2",
    )
    yield paper("app. A, RHN, range").says(
        "Chrono initialization is b = log(U(1, T_max)): the longest time range is 1 + T_max = T_max.",
        Equal(1 / sigma(-log(T)), T),
        correction=Correction(
            "By (16) it is log(U([1, T_max - 1])). A bias log(u) is the time range 1 + u, "
            "which goes up to T_max + 1, 12 for T_max = 11.",
            Equal(1 / sigma(-log(T)), T + 1),
            Equal(1 / sigma(-log(u)).subs(u, 10), S(11)),
        ),
        quote=r"For the chrono bias initialization, a single bias vector $b$ is sampled "
        r"according to $b \sim \log(\mathcal{U}(1, T_{\max}))$",
    )
    yield paper("app. A, RHN").says(
        "With b = log(u), u in (1, T_max), carry gates get the bias -b and transform gates b.",
        Less(Rational(1, 2), sigma(-log(u)), region={u: (1, oo)}),
        correction=Correction(
            "The signs are exchanged: the carry gate keeps the state and must be near 1, u/(u + 1) with bias b; the transform "
            "gate writes, 1/(u + 1) with bias -b. As printed more than half is forgotten at every step.",
            Equal(sigma(log(u)), u / (u + 1)),
            Equal(sigma(-log(u)), 1 / (u + 1)),
            Less(Rational(1, 2), u / (u + 1), True, {u: (1, oo)}),
        ),
        remark="in a highway step s = t (new) + c s the carry gate c multiplies the old state; such a sign "
        "convention may be hidden in the code that was used",
        quote="the carry gate bias vectors of all layers are initialized to $-b$ , and the transform gate biases to $b$ .",
    )
    layers, kept, step, scale = (Symbol(name, positive=True) for name in ("D", "f", "step", "T"))
    yield paper("footnote 9", given="gates are constant").says(
        "With D updates in every timestep the timescales are divided by D.",
        Equal(-1 / log(step**layers), scale / layers, {step: exp(-kept), scale: 1 / kept}),
        mutation=changed("divided read as multiplied", rhs=layers * scale),
        remark="an update keeps e^(-f), its timescale is 1/f",
        quote="RHNs stack $D$ update steps in every timestep, where $D$ is the depth "
        "of the RHN, so timescales are divided by $D$ .",
    )
    printed, elsewhere = Rational(654, 100), Rational(654, 10)
    yield paper("app. A, Penn Treebank").says(
        "The test perplexity is 6.54, as it is in the summary of the paper.",
        Equal(printed, elsewhere),
        correction=Correction(
            "It is 65.4 there, ten times as much. A word costs 6.0 bits then; with 6.54 it would cost 2.7, less "
            "than two characters of text8 at 1.37 bits each.",
            Equal(elsewhere, 10 * printed),
            Rounds(log(elsewhere) / log(S(2)), "6.0"),
            Rounds(log(printed) / log(S(2)), "2.7"),
            Less(log(printed) / log(S(2)), 2 * Rational(137, 100)),
        ),
        quote="we obtain test results similar to (Zilly et al., 2016), with a test perplexity of 6.54",
    )
