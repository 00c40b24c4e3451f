r"""A summary of Tallec and Ollivier 2018: its formulas against the equations, its numbers against the paper's.

b_g = -log(U([Tmin, Tmax]) - 1)           b_f = log(U([1, Tmax - 1])), b_i = -b_f
perplexity 65.4 here, 6.54 in the paper   one of the two has its point misplaced
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Eq, Rational, S, Symbol, exp, log, oo

from derivations.argument import gated, leaky
from derivations.argument.clocks import change_of_time, right_sides
from derivations.argument.taylor import euler_step
from derivations.claim import Correction, Entry, Mutation
from derivations.closure import EVERY_WARP, NONE, RESCALING, Closes
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal, Rounds, Solves
from derivations.twins import fields
from derivations.twins.fields import sigma

__all__ = ["entries"]

SUMMARY = "tallec-ollivier-2018-summary"
t, alpha = symbols.t, symbols.alpha
u, g = Symbol("u", positive=True), Symbol("g", positive=True)


def entries() -> Iterator[Entry]:
    yield from formulas()
    yield from numbers()


def formulas() -> Iterator[Entry]:
    """The derivation, retold."""
    plain, per_unit = fields.plain(), fields.gated()
    state = column(*plain.state)
    tanhs = column(*(leaky.candidate(plain, i) for i in range(2)))
    c, learned = symbols.c(t), symbols.g(t)
    warped, scaled = change_of_time(plain, c), change_of_time(plain, alpha * t)
    yield Entry(
        SUMMARY, "deriving, closed", "The class of functions of an ordinary RNN is not closed under time rescaling.",
        (Closes(plain, NONE),),
        mutation=Mutation("closed", Closes(plain, RESCALING)), remark="decided for the continuous-time formulation",
    )  # fmt: skip
    yield Entry(
        SUMMARY, "deriving, continuous", "The continuous-time formulation is dh/dt = tanh(Wx x + Wh h + b) - h.",
        (Equal(euler_step(plain), tanhs),), mutation=Mutation("- h left out", Equal(state + tanhs, tanhs)),
         remark="its unit Euler step is the RNN",
    )  # fmt: skip
    yield Entry(
        SUMMARY, "deriving, warped", "A warping multiplies both terms by dc/dt.", (Equal(right_sides(warped),
        c.diff(t) * tanhs - c.diff(t) * state),),
        mutation=Mutation("the first only", Equal(right_sides(warped), c.diff(t) * tanhs - state)),
    )  # fmt: skip
    replaced = column(*(e.rhs.xreplace({c.diff(t): learned}) for e in warped))
    yield Entry(
        SUMMARY, "deriving, gated", "For any warping a learnable g replaces the unknown derivative: dh/dt = g tanh(...) - g h.",
        (Equal(replaced, learned * tanhs - learned * state), Closes(fields.gated(gate="global"), EVERY_WARP)),
        ("g may be any function of the data in its range", "c' g < 1 for a sigmoid g"), Mutation("g h read as h",
         Equal(replaced, learned * tanhs - state)),
    )  # fmt: skip
    stepped = euler_step([Eq(h.diff(t), rate) for h, rate in zip(plain.state, replaced, strict=True)])
    yield Entry(
        SUMMARY, "deriving, discrete", "With dt = 1 it is h_{t+1} = g tanh(...) + (1 - g) h_t.", (Equal(stepped,
        learned * tanhs + (1 - learned) * state),),
        mutation=Mutation("1 - g read as 1 + g", Equal(stepped, learned * tanhs + (1 + learned) * state)),
    )  # fmt: skip
    (H,), start = symbols.state(1), Symbol("h_0", real=True)
    yield Entry(
        SUMMARY, "deriving, forgetting",
        "1/g(t0) is the local forgetting time: where g is constant the state falls to 1/e in it.",
        (Solves((Eq(H.diff(t), -g * H),), {H: start * exp(-g * t)}), Equal((start * exp(-g * t)).subs(t, 1 / g),
         start * exp(-1))),
        ("x = 0", "b = 0", "Wh = 0"), Mutation("1/g read as g", Equal((start * exp(-g * t)).subs(t, g), start * exp(-1))),
    )  # fmt: skip
    yield Entry(
        SUMMARY, "linear rescaling", "For c(t) = alpha t the derivation gives h_{t+1} = alpha tanh(...) + (1 - alpha) h_t.",
        (Equal(euler_step(scaled), alpha * tanhs + (1 - alpha) * state),), ("alpha > 0",),
        Mutation("1 - alpha read as 1", Equal(euler_step(scaled), alpha * tanhs + state)),
    )  # fmt: skip
    yield Entry(
        SUMMARY, "linear rescaling, limits", "Leaky networks are invariant to global rescalings but not to variable warpings.",
        (Closes(fields.leaky(), RESCALING),), ("in continuous time",), Mutation("to every warping", Closes(fields.leaky(),
         EVERY_WARP)),
    )  # fmt: skip
    gates = [gated.gate(per_unit, i) for i in range(2)]
    units = column(*(gates[i] * tanhs[i] + (1 - gates[i]) * state[i] for i in range(2)))
    yield Entry(
        SUMMARY, "per-unit gates", "With gates g^i the update is g^i tanh(...) + (1 - g^i) h^i; input and forget gate add to 1.",
        (Equal(euler_step(per_unit), units), Equal(gates[0] + (1 - gates[0]), S.One)),
        mutation=Mutation("1 - g read as g", Equal(euler_step(per_unit),
        units + column(*((2 * gates[i] - 1) * state[i] for i in range(2))))),
    )  # fmt: skip
    yield Entry(
        SUMMARY, "chrono, gates", "b_g = -log(T - 1) puts sigma(b_g) at 1/T, in [1/Tmax, 1/Tmin] for T in [Tmin, Tmax].",
        (Equal(1 / sigma(-log(u)), 1 + u),), ("T > 1",), Mutation("-log(T)", Equal(1 / sigma(-log(1 + u)), 1 + u)),
         remark="T = 1 + u",
    )  # fmt: skip
    yield Entry(
        SUMMARY, "chrono, LSTM",
        "b_f = log(U([1, Tmax - 1])) and b_i = -b_f: forget gates 1 - 1/T and input gates 1/T, T up to Tmax.",
        (Equal(sigma(log(u)), 1 - 1 / (1 + u)), Equal(sigma(-log(u)), 1 / (1 + u))), ("x = h = 0",),
        Mutation("b_i = b_f", Equal(sigma(log(u)), 1 / (1 + u))),
    )  # fmt: skip
    yield Entry(
        SUMMARY, "limitations",
        "Warpings that compress time beyond the model's step cannot be handled: above g = 1 a step passes its target.",
        (Less(1 - g, S.Zero, True, {g: (1, oo)}),), mutation=Mutation("above 1/2", Less(1 - g, S.Zero, True, {g: (Rational(1,
         2), oo)})),
    )  # fmt: skip


def numbers() -> Iterator[Entry]:
    """Where the two documents print one number."""
    paper, here = Rational(654, 100), Rational(654, 10)
    yield Entry(
        SUMMARY, "results, Penn Treebank", "The test perplexity is 65.4, as in the paper.", (Equal(here, paper),),
        correction=Correction(
            "The paper prints 6.54, a tenth of it; both have the digits of the other, and one point is misplaced. Per word, 6.54 "
            "is 2.7 bits and 65.4 is 6.0.",
            (Equal(here, 10 * paper), Rounds(log(paper) / log(S(2)), "2.7"), Rounds(log(here) / log(S(2)), "6.0")),
        ),
        remark="which of the two is meant cannot be decided from these texts",
    )  # fmt: skip
    yield Entry(
        SUMMARY, "results, pMNIST", "96.3 % against 95.4 %, as in the paper: 19.6 % fewer errors.",
        (Rounds((Rational(46, 10) - Rational(37, 10)) / Rational(46, 10) * 100, "19.6"),),
        mutation=Mutation("of the correct answers", Rounds(Rational(9, 10) / Rational(954, 10) * 100, "19.6")),
        remark="the percentage of errors is added here",
    )  # fmt: skip
