r"""A summary of Tallec and Ollivier 2018: its formulas against the equations, its numbers against the paper's.

b_g = -log(U([Tmin, Tmax]) - 1)           b_f = log(U([1, Tmax - 1])), b_i = -b_f
perplexity 65.4 here, 6.54 in the paper   65.4 is right: 6.0 bits a word

What it repeats of the paper's sentences is judged as there; what it says of results and of how to repeat them, against them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Eq, Rational, S, Symbol, exp, log, oo

from derivations import book
from derivations.argument import gated, leaky
from derivations.argument.clocks import change_of_time, on_clock, right_sides
from derivations.argument.taylor import steps_to
from derivations.claim import Correction, Entry, Equal, Fails, Less, Mutation, Rounds, Solves, Source, changed, printed, said
from derivations.closure import EVERY_WARP, NONE, RESCALING, Closes
from derivations.contents import SOURCES
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.symbols import together
from derivations.texts.tallec_ollivier import AT_TWO_UNITS, any_unit
from derivations.twins import fields
from derivations.twins.fields import sigma

summary = Source("tallec-ollivier-2018-summary")
t, alpha = symbols.t, symbols.alpha
u, g, z = Symbol("u", positive=True), Symbol("g", positive=True), Symbol("z", real=True)
(unit,) = any_unit()
h, pull = unit.lhs.expr, unit.rhs + unit.lhs.expr


def restated() -> Iterator[Entry]:
    """Sentences of the paper in other words."""
    paper = {entry.label: entry for name in SOURCES["tallec-ollivier-2018"] for entry in book.chapter(name)}
    yield summary("why, stability").repeats(
        paper["intro, stability"], "stability of the dynamical system causes these signals to decay exponentially"
    )
    yield summary("linear rescaling, closed").repeats(
        paper["sec. 1, leaky RNNs"], "Leaky RNNs are invariant to global time rescalings"
    )
    yield summary("linear rescaling, required").repeats(
        paper["intro, necessarily"],
        "Full gating (where $g_t$ depends on the input) is required for invariance to general time warpings.",
    )
    yield summary("limitations, Taylor").repeats(
        paper["sec. 1, Taylor"],
        r"This approximation holds when the derivative of the time warping is not too large ($g_t \lesssim 1$).",
    )
    yield summary("limitations, stretching").repeats(
        paper["sec. 1, stretching"], "Discrete-time gated models are therefore invariant to time warpings that stretch time"
    )
    yield summary("limitations, blanks").repeats(
        paper["sec. 1, blanks"], "that stretch time (such as interspersing data with blanks"
    )
    yield summary("results, gated RNNs").repeats(
        paper["sec. 3, perfect robustness"],
        "Gated RNNs achieve perfect performance under both uniform and variable warpings for all tested warping factors",
    )


def fields_of_the_derivation() -> Iterator[Entry]:
    """The derivation in continuous time."""
    plain = fields.plain()
    state, tanhs = column(*plain.state), column(*(leaky.candidate(plain, i) for i in range(2)))
    c, learned = symbols.c(t), symbols.g(t)
    of_any = right_sides(change_of_time(any_unit(), c))
    yield summary("deriving, closed", sizes=AT_TWO_UNITS).says(
        "The class of functions of an ordinary RNN is not closed under time rescaling.",
        Closes(plain, NONE),
        mutation=changed("closed", group=RESCALING),
        remark="decided for the continuous-time formulation, and with a given number of units, "
        "which the paper says and the summary leaves out",
        quote="the class of functions representable by an ordinary RNN is not closed under time rescaling",
    )
    yield summary("deriving, continuous").says(
        "The continuous-time formulation is dh/dt = tanh(Wx x + Wh h + b) - h.",
        Equal(**steps_to(plain, tanhs)),
        Equal(**steps_to(any_unit(), [pull])),
        mutation=Mutation("- h left out", Equal(state + tanhs, tanhs)),
        remark="its unit Euler step is the RNN",
        quote=r"$$\frac{\mathrm{d}h(t)}{\mathrm{d}t} = \tanh(W_x x(t) + W_h h(t) + b) - h(t)$$",
    )
    yield summary("deriving, warped").says(
        "A warping multiplies both terms by dc/dt.",
        Equal(**on_clock(plain, c, c.diff(t) * tanhs - c.diff(t) * state)),
        Equal(**on_clock(any_unit(), c, [c.diff(t) * pull - c.diff(t) * h])),
        mutation=Mutation("the first only", Equal(**on_clock(plain, c, c.diff(t) * tanhs - state))),
        quote=r"The derivative $\frac{\mathrm{d}c(t)}{\mathrm{d}t}$ of the time warping appears as a multiplicative factor.",
    )
    replaced = of_any.xreplace({c.diff(t): learned})
    yield summary("deriving, gated", given=("g may be any positive function of the data", "c' g < 1 for a sigmoid g")).says(
        "For any warping a learnable g replaces the unknown derivative: dh/dt = g tanh(...) - g h.",
        Equal(replaced, column(learned * pull - learned * h)),
        Equal(**on_clock(any_unit(learned), c, right_sides(any_unit(c.diff(t) * learned)))),
        Closes(fields.gated(gate="global"), EVERY_WARP),
        mutation=changed("g h read as h", rhs=column(learned * pull - h)),
        quote="a learnable function $g(t)$ must replace the unknown derivative",
    )
    yield summary("deriving, sigmoid").says(
        "A sigmoid represents the derivative of any warping: also one above 1.",
        Fails(Less(sigma(z), S.One)),
        reading=Correction(
            "Of warpings slower than their input, c' < 1: a sigmoid takes every value between 0 and 1, and no other.",
            Less(sigma(z), S.One, True, rewritten=1 / (1 + exp(z))),
            Less(S.Zero, sigma(z), True),
            Equal(sigma(log(u)), u / (1 + u)),
        ),
        remark="u/(1 + u), u > 0, is any number between 0 and 1",
        quote="where $g_t$ is computed by a sigmoid function of the inputs",
    )
    (H,), start = symbols.state(1), Symbol("h_0", real=True)
    kept = start * exp(-g * t)
    yield summary("deriving, forgetting", given=("x = 0", "b = 0", "Wh = 0")).says(
        "1/g(t0) is the local forgetting time: where g is constant the state falls to 1/e in it.",
        Solves((Eq(H.diff(t), -g * H),), {H: kept}),
        Equal(kept, start * exp(-1), {t: 1 / g}),
        mutation=changed("1/g read as g", where={t: g}),
        quote="The value $1/g(t_0)$ represents the local forgetting time of the network at time $t_0$.",
    )


def discrete() -> Iterator[Entry]:
    """The cells in steps of 1."""
    learned, gate = symbols.g(t), symbols.signal("G")(*pull.args)
    per_unit, scaled = fields.gated(), change_of_time(any_unit(), alpha * t)
    yield summary("deriving, discrete").says(
        "With dt = 1 it is h_{t+1} = g tanh(...) + (1 - g) h_t.",
        Equal(**steps_to(any_unit(learned), [learned * pull + (1 - learned) * h])),
        mutation=Mutation("1 - g read as 1 + g", Equal(**steps_to(any_unit(learned), [learned * pull + (1 + learned) * h]))),
        quote=r"$$h_{t+1} = g_t \tanh(W_x x_t + W_h h_t + b) + (1 - g_t) h_t$$",
    )
    yield summary("linear rescaling", given="alpha > 0").says(
        "For c(t) = alpha t the derivation gives h_{t+1} = alpha tanh(...) + (1 - alpha) h_t.",
        Equal(**steps_to(scaled, [alpha * pull + (1 - alpha) * h])),
        mutation=Mutation("1 - alpha read as 1", Equal(**steps_to(scaled, [alpha * pull + h]))),
        quote=r"$$h_{t+1} = \alpha \tanh(W_x x_t + W_h h_t + b) + (1 - \alpha) h_t$$",
    )
    yield summary("linear rescaling, limits", given="in continuous time", sizes=AT_TWO_UNITS).says(
        "Leaky networks do not absorb variable warpings: rescalings, and no more.",
        Closes(fields.leaky(), RESCALING),
        mutation=changed("every warping", group=EVERY_WARP),
        quote="but fail with variable warpings.",
    )
    gates = [gated.gate(per_unit, i) for i in range(2)]
    units = column(*(gates[i] * leaky.candidate(per_unit, i) + (1 - gates[i]) * per_unit.state[i] for i in range(2)))
    wrong = units + column(*((2 * gates[i] - 1) * per_unit.state[i] for i in range(2)))
    yield summary("per-unit gates").says(
        "With gates g^i the update is g^i tanh(...) + (1 - g^i) h^i.",
        Equal(**steps_to(per_unit, units)),
        Equal(**steps_to(any_unit(gate), [gate * pull + (1 - gate) * h])),
        mutation=Mutation("1 - g read as g", Equal(**steps_to(per_unit, wrong))),
        quote=r"$$h_{t+1}^i = g_t^i \tanh(W_x^i x_t + W_h^i h_t + b^i) + (1 - g_t^i) h_t^i$$",
    )
    f, i, before, new = (Symbol(letter, real=True) for letter in ("f", "i", "c", "n"))
    cell = f * before + i * new
    yield summary("per-unit gates, LSTM").says(
        "With 1 - g for f and g for i the LSTM's cell is updated as (10), and f + i = 1.",
        Equal(cell, g * new + (1 - g) * before, {f: 1 - g, i: g}),
        Equal(f + i, S.One, {f: 1 - g, i: g}),
        mutation=changed("f and i exchanged", where={f: g, i: 1 - g}),
        quote=r"$(1 - g_t^i)$ corresponds to the forget gate $f_t$ and $g_t^i$ corresponds to the input gate $i_t$.",
    )


def biases() -> Iterator[Entry]:
    """The chrono initialization."""
    b, w, mean, longest, T = (Symbol(name, real=True) for name in ("b_g", "w", "m", "T_max", "T"))
    yield summary("chrono, gates").says(
        "A memory between Tmin and Tmax has gates between 1/Tmax and 1/Tmin: 1/T falls as T grows.",
        Less(1 / (u + g), 1 / u, True),
        mutation=Mutation("the ends exchanged", Less(1 / u, 1 / (u + g))),
        remark="T = u, and a longer time u + g",
        quote=r"then gate values $g$ should lie in $[1/T_{\text{max}}, 1/T_{\text{min}}]$.",
    )
    yield summary("chrono, centre").says(
        "Gate values centre around sigma(b_g) when the inputs are centred, whatever the mean m of the states.",
        Equal(sigma(w * mean + b), sigma(b)),
        reading=Correction(
            "When inputs and hidden states are centred, as the paper says: a mean m of the states adds w m to the bias.",
            Equal(sigma(w * mean + b), sigma(b), {mean: S.Zero}),
            Equal(sigma(w * mean + b), sigma(z), {z: b + w * mean}),
        ),
        quote=r"gate values center around $\sigma(b_g)$ when inputs are centered",
    )
    yield summary("chrono, biases", given="T > 1").says(
        "b_g = -log(T - 1) puts sigma(b_g) at 1/T.",
        Equal(sigma(b), 1 / T, {b: -log(u), T: 1 + u}),
        mutation=changed("-log(T)", where={b: -log(1 + u), T: 1 + u}),
        remark="T = 1 + u",
        quote=r"$$b_g \sim -\log(\mathcal{U}([T_{\text{min}}, T_{\text{max}}]) - 1)$$",
    )
    yield summary("chrono, LSTM", given="x = h = 0").says(
        "b_f = log(U([1, Tmax - 1])) and b_i = -b_f: forget gates 1 - 1/T and input gates 1/T, T up to Tmax.",
        Equal(sigma(log(u)), 1 - 1 / (1 + u)),
        Equal(sigma(-log(u)), 1 / (1 + u)),
        Equal(1 + u, longest, {u: longest - 1}),
        mutation=changed("b_i = b_f", rhs=1 / (1 + u)),
        quote=r"$$b_f \sim \log(\mathcal{U}([1, T_{\text{max}} - 1]))$$ $$b_i = -b_f$$",
    )


def limitations() -> Iterator[Entry]:
    """What it cannot do."""
    yield summary("limitations").says(
        "Warpings that compress events beyond the model's step cannot be handled: above g = 1 a step passes its target.",
        Less(1 - g, S.Zero, True, {g: (1, oo)}),
        mutation=changed("above 1/2", region={g: (Rational(1, 2), oo)}),
        quote="but they cannot handle warpings that compress events faster than the model’s time step",
    )
    law = 1 / (u * log(1 + u) ** 2)
    yield summary("limitations, T_max").says(
        "Biases need a longest time: every law to draw T from is 0 beyond some T_max.",
        Fails(Less(S.Zero, law, True)),
        reading=Correction(
            "(16) needs one. Where times are unknown the paper's footnote 7 draws T from a law without a longest time, "
            "proportional to 1/(k log(k + 1)^2) for every k.",
            Less(S.Zero, law, True),
        ),
        quote=r"the chrono initialization requires specifying $T_{\text{max}}$, the expected range of long-term dependencies",
    )


def numbers() -> Iterator[Entry]:
    """The numbers of the paper."""
    here = log(Rational(654, 10)) / log(S(2))
    yield summary("results, Penn Treebank").says(
        "The test perplexity is 65.4: 6.0 bits a word, less than its five characters would cost at the 1.37 bits of text8, and "
        "more than two.",
        Rounds(here, "6.0"),
        Less(2 * Rational(137, 100), here),
        Less(here, 5 * Rational(137, 100)),
        mutation=changed("65.4 read as 6.54", value=log(Rational(654, 100)) / log(S(2))),
        remark="the end of the paper's appendix A has 6.54, which is wrong; in its Fig. 2 a word with its blank has five "
        "characters",
        quote="Comparable results to the baseline (65.4 test perplexity)",
    )
    standard, better = Rational(954, 10), Rational(138 - 137, 138)
    yield summary("results, pMNIST").says(
        "96.3 % is better than 95.4 %, by 0.9 points, and 1.37 bits per character than 1.38, by less than one percent.",
        Equal(together(Rational(963, 10), -standard), Rational(9, 10)),
        Less(S.Zero, better, True),
        Less(better, Rational(1, 100), True),
        mutation=changed("96.3 read as 93.6", lhs=together(Rational(936, 10), -standard)),
        remark="appendix A of the paper has 96.3 and 95.4 as the best validation results, and no test results",
        quote="Chrono achieves 96.3% vs. 95.4% for standard initialization",
    )
    yield summary("results, copy").says(
        "On the copy task standard initialization plateaus at the memoryless baseline, by the paper.",
        said(("summary", "plateaus at the memoryless baseline", "section 3 of the paper", "does better than random prediction")),
        correction=Correction(
            "Section 3 of the paper has it the other way round: its LSTM with standard initialization does better than that of "
            'Arjovsky et al., "which did not outperform random prediction". That chrono initialization does not plateau there '
            "is all that it says of plateaus.",
            said(("of chrono, summary", "does not plateau", "of chrono, section 3 of the paper", "does not plateau")),
        ),
        quote="Chrono initialization converges to the solution while standard initialization plateaus at the memoryless baseline",
    )
    yield summary("results, vanilla RNNs").says(
        "Vanilla RNNs fail with moderate warpings: they are right no more often than a guess of one character in eight.",
        Less(Rational(75, 100), Rational(1, 8)),
        reading=Correction(
            'They are outperformed: "gated architectures significantly outperform RNNs as soon as moderate warping coefficients '
            'are involved" (section 3 of the paper), and all networks are right in around 75 % at warps of ten times the longest '
            "of training (its appendix A). Leaky RNNs, too, do not fail there, but fail to be optimal.",
            Less(Rational(1, 8), Rational(75, 100), True),
        ),
        remark="of an alphabet of 10 one is a dummy, and the character before is another one than that now",
        quote="Vanilla RNNs fail with even moderate warping coefficients",
    )


def reproducibility() -> Iterator[Entry]:
    """What it says of how to repeat the paper's experiments."""
    given = ("RMSprop", "learning rate of 0.001", "moving average of 0.9", "no gradient clipping")
    yield summary("reproducibility, hyperparameters").says(
        "The paper describes all hyperparameters, of the synthetic tasks too: the batch size.",
        printed("section 3 of the paper, synthetic tasks", given, "batch size"),
        correction=Correction(
            "It does not, see sec. 3, learning rate, there: that of the warped tasks is missing, batch size and length of "
            "training of the copy and adding tasks, and of MNIST the optimizer with all that belongs to it. Those of text8 are "
            "there.",
            printed("appendix A of the paper, text8", ("Adam", "learning rate of 0.001", "batches of size 128"), "Adam"),
        ),
        remark="three lines before it says: partially reproducible",
        quote="The paper describes all hyperparameters, architectures, and training procedures in sufficient detail",
    )
    yield summary("reproducibility, prior work").says(
        "The synthetic tasks follow setups from prior work: copy, adding, and time warping.",
        printed("section 3 of the paper, with a source", ("copy", "variable copy", "adding"), "copy", "adding", "time warping"),
        correction=Correction(
            "Copy and adding do. The warped and padded tasks are the paper's own, and are no part of what it calls synthetic "
            "tasks.",
            printed("section 3 of the paper, with a source", ("copy", "variable copy", "adding"), "copy", "adding"),
        ),
        quote="The synthetic tasks (copy, adding, time warping) follow standard setups from prior work with clearly specified "
        "parameters.",
    )
