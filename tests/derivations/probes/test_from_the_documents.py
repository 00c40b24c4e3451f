r"""Statements written from the documents alone, by somebody who had not seen the code: those that once got a wrong answer.

Expected answers were derived by hand; `tests/derivations/papers` has the reader's own tests.
"""

import math

import pytest
import torch
from sympy import (
    Derivative,
    Dummy,
    Eq,
    Function,
    Heaviside,
    ImmutableDenseMatrix,
    Integral,
    MatrixSymbol,
    Max,
    Rational,
    Sum,
    Symbol,
    exp,
    floor,
    log,
    pi,
    sign,
    sin,
    symbols,
    tanh,
)
from torch import nn

import derivations
from derivations.claim import decided
from derivations.papers.paper import read_paper
from derivations.papers.tokens import Unread

# ---- papers: True must be proved, False must not be, None must be neither proved nor refuted
REALS = "x, y, a: real\n"
OF_TWO = REALS + "F: function of x and y\n"
OF_TIME = "t: real\nx, h: function of t\na, b, w, x_t, h_t: real\n\\alpha: positive\n"
LATER = "t: positive\nx, h: function of t\na: real\nc: positive function of t\n"
LEAK, DRIVEN, TANH = r"\frac{dh}{dt} = -a h", r"\frac{dh}{dt} = x - h", r"\frac{dh}{dt} = \tanh(w x + b) - h \label{1}"
STEP, FAST = "equations: 2 is a step of 1\n", "equations: 2 is 1 at \\alpha t\n"
PAPERS = [
    # arguments are put in at once
    (True, OF_TWO, r"F := \tanh(x) - y", r"F(y, x) = \tanh(y) - x"),
    (True, OF_TWO, r"F := \tanh(x) - y", "F(y, F(y, x)) = x"),
    (False, OF_TWO, r"F := \tanh(x) - y", r"F(y, x) = \tanh(x) - x"),
    (False, OF_TWO, r"F := \tanh(x) - y", r"F(2y, x + y) = \tanh(2x + 2y) - x - y"),
    # a bound letter is its own, and a derivative is taken before its letter is put in
    (True, REALS, "k := 5", r"\sum_{k=1}^{2} k = 3"),
    (True, REALS, "G(x) := x^2", "G'(2x) = 4x"),
    (False, REALS, "G(x) := x^2", "G'(2x) = 8x"),
    # what is not read defines nothing, and nothing of it vanishes
    (None, REALS, r"u \triangleq x + 1", "u = 2x", "u^2 = 4x^2"),
    (None, REALS, r"u \gets x + 1", "u = 2x", "u^2 = 4x^2"),
    (None, REALS, r"\begin{cases} v = x + 1 \\ u = v \end{cases}", "v = x^2", "v + x = x^2 + x"),
    (None, OF_TIME, r"\frac{dh}{dt} = \begin{cases} -h & h > 0 \\ 0 & h \le 0 \end{cases}", LEAK, r"\frac{d^2h}{dt^2} = a^2 h"),
    (None, "x, t: real\n", "u := x t", r"\frac{du}{dt} = x \label{1}", "x := t^2", r"\frac{du}{dt} = x"),
    (False, REALS, r"6x = x \;\;\; (6)"),
    (False, REALS, "6x = x ~~~~ (6)"),
    (False, REALS, r"2\boxed{x + 1} = 2x + 1"),
    (False, REALS, r"x \not= x"),
    (None, REALS, r"\let\nonumber=\not x + 1 \nonumber= x + 1"),
    (None, REALS, r"\catcode`\+=\active \def+{-} x + x = 2x"),
    # a supposed equation elsewhere in time
    (True, LATER, LEAK, r"\frac{d}{dt}(h(2t)) = -2 a h(2t)"),
    (True, LATER, LEAK, r"\frac{d}{dt}(h(t^2)) = -2 a t h(t^2)"),
    (True, LATER, LEAK, r"\frac{d}{dt}(e^{a t} h) = 0"),
    (True, LATER, DRIVEN, r"\frac{d}{dt}(h(c(t))) = c'(t) \cdot (x(c(t)) - h(c(t)))"),
    (True, LATER, r"\frac{dh}{dt} = \frac{dx}{dt} - h", r"\frac{d}{dt}(h(2t)) = \frac{d}{dt}(x(2t)) - 2 h(2t)"),
    (False, LATER, LEAK, r"\frac{d}{dt}(h(2t)) = -a h(2t)"),
    (False, LATER, DRIVEN, r"\frac{d}{dt}(h(c(t))) = c'(t) \cdot (x(t) - h(c(t)))"),
    (False, LATER, LEAK, r"\frac{d}{dt}(h(-t)) = a h(-t)"),  # of positive times alone
    (False, LATER, LEAK, "h'(t - 1) = -a h(t - 1)"),
    (False, LATER, LEAK, r"\frac{d}{dt}(h(a t)) = -a^2 h(a t)"),
    # steps, and other clocks, of equations that are named
    (True, OF_TIME + STEP, TANH, r"h_{t+1} = \tanh(w x_t + b) \label{2}"),
    (False, OF_TIME + STEP, TANH, r"h_{t+1} = \tanh(w x_{t+1} + b) + x_t - x_{t+1} \label{2}"),
    (False, OF_TIME + STEP, r"\frac{dh}{dt} = -h \label{1}", r"h_{t+2} = 0 \label{2}"),
    (True, OF_TIME + FAST, r"\frac{dh}{dt} = -t h \label{1}", r"\frac{dh}{dt} = -\alpha^2 t h \label{2}"),
    (False, OF_TIME + FAST, r"\frac{dh}{dt} = -t h \label{1}", r"\frac{dh}{dt} = -\alpha t h \label{2}"),
    (False, OF_TIME + FAST, r"\frac{dh}{dt} = x(1) - h \label{1}", r"\frac{dh}{dt} = \alpha x(1) - \alpha h \label{2}"),
    (None, REALS + "equations: 1 is by 1\n", r"2 = 2 x \label{1}"),
    # units
    (True, "v: real mV\nt: positive ms\nC: positive nF\nI: real nA\n", r"\frac{C v}{t} + I = I + \frac{C v}{t}"),
    (False, "v: real mV\nt: positive ms\nC: positive nF\nI: real nA\n", r"\frac{C v}{t} + t = t + \frac{C v}{t}"),
]


@pytest.mark.by_default(10)
@pytest.mark.parametrize(("answer", "letters", "displays"), [(row[0], row[1], row[2:]) for row in PAPERS])
def test_a_paper_is_answered_as_by_hand_or_not_at_all(answer, letters, displays):
    text = f"---\n{letters}---\n" + "\n\n".join(f"$$ {display} $$" for display in displays)
    try:
        said = [decided(claim).verdict for claim in read_paper(text, "paper", False).entries]
    except Unread:  # refused as a whole
        said = []
    proved = bool(said) and all(verdict.startswith("holds") for verdict in said)
    assert proved is (answer is True)
    if answer is not False:
        assert "does not hold as printed" not in said


# ---- closures: what reads another time is refused; else the group
t = Symbol("t", real=True)
h_of, x_of = Function("h_1", real=True), Function("x_1", real=True)
H, X = h_of(t), x_of(t)
a, b, k, p, q, r, v, w, s = symbols("a b k p q r v w s", real=True)
DELAY = Symbol("d", positive=True)
GATE, AIM = 1 / (1 + exp(-p * X - q * H - r)), tanh(w * X + v * H + b)


def closed(flow):
    letters = {letter.name: ImmutableDenseMatrix([[letter]]) for letter in flow.free_symbols - {t, s}}
    return derivations.closed_under(derivations.SymbolicField("f", "f", (H,), (X,), letters, ImmutableDenseMatrix([[flow]])))


OTHER_TIMES = {
    "sin t": a * sin(t) - k * H,
    "t in the candidate, gated": GATE * (tanh(w * X + k * t) - H),
    "x'(t)": a * (tanh(w * X + X.diff(t)) - H),
    "x'(t) under a gate": GATE * (tanh(w * X + p * X.diff(t)) - H),
    "x''(t)": a * X.diff(t, 2) - k * H,
    "a step in time": a * Heaviside(t - 1) - k * H,
    "floor of t": a * floor(t) - k * H,
    "x(t - 1)": GATE * (tanh(w * X + p * x_of(t - 1)) - H),
    "h(t - d)": a * (tanh(v * h_of(t - DELAY)) - H),
    "x(1)": a * x_of(1) - k * H,
    "an integral": a * Integral(x_of(s), (s, 0, t)) - k * H,
    "a kernel": a * Integral(exp(s - t) * x_of(s), (s, 0, t)) - k * H,
}


@pytest.mark.parametrize("flow", OTHER_TIMES.values(), ids=OTHER_TIMES)
def test_no_clocks_are_named_for_a_field_that_reads_another_time(flow):
    with pytest.raises(ValueError, match="another"):
        closed(flow)


@pytest.mark.parametrize(
    ("flow", "group"),
    [
        (a * (Max(0, w * X + v * H + b) - H), "rescaling"),
        (a * (log(1 + exp(w * X + v * H + b)) - H), "rescaling"),
        (-(a + GATE) * H + GATE * b, "rescaling"),
        (GATE * (AIM - H), "warps"),
        (GATE * AIM - H, "none"),
        (AIM - H, "none"),
    ],
)
def test_a_class_is_closed_under_the_clocks_found_by_hand(flow, group):
    assert closed(flow).group.startswith(group)


@pytest.mark.parametrize(
    ("flow", "clock", "warped"),
    [
        (X.diff(t) - H, 2 * t, X.diff(t) - 2 * H),
        (X.diff(t) - H, t**2, X.diff(t) - 2 * t * H),
        (X * X.diff(t) - H, 2 * t, X * X.diff(t) - 2 * H),
        (tanh(X.diff(t)) - H, 2 * t, 2 * tanh(X.diff(t) / 2) - 2 * H),
    ],
)
def test_the_derivative_of_an_input_is_divided_by_the_speed(flow, clock, warped):
    ((_, found),) = [each.args for each in derivations.change_of_time([Eq(Derivative(H, t), flow)], clock)]
    assert (found - warped).simplify() == 0


# ---- code: "every width" only where nothing was made from the width, and rounding is no jump
class Scaled(nn.Module):
    def __init__(self, input_size, hidden_size, made):
        super().__init__()
        self.input_size, self.hidden_size, self.made = input_size, hidden_size, made
        self.w = nn.Parameter(torch.eye(hidden_size))
        self.k = made(hidden_size)

    def forward(self, x, h):
        return self.k * torch.tanh(h @ self.w.T) + 0 * x.sum(-1, keepdim=True)


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    "made", [lambda width: 1 / width, lambda width: width - 1, lambda width: 0.5], ids=["1/H", "H - 1", "1/2"]
)
def test_every_width_is_said_only_where_no_number_was_made_from_the_width(made):
    part, index = derivations.rnn_cell().units, derivations.rnn_cell().index
    (column,), inputs = part, derivations.rnn_cell().inputs
    n, other = column.shape[0], Dummy("k", integer=True)
    weights = MatrixSymbol("w", n, n)
    right = Rational(made(2)) * tanh(Sum(weights[index, other] * column[other, 0], (other, 0, n - 1)))
    made_of_two = type("Scaled", (Scaled,), {"__init__": lambda self, i, h: Scaled.__init__(self, i, h, made)})(2, 2)
    verdict = derivations.verify(made_of_two, derivations.UnitEquations({column: right}, index, inputs))
    every = "for weights of every width" in verdict.evidence and "numbers of this module" not in verdict.evidence
    assert verdict.verdict.startswith("holds")
    assert every is (made(2) == made(3))


class Unit(nn.Module):
    input_size, hidden_size = 1, 1

    def __init__(self, code):
        super().__init__()
        self.code = code

    def forward(self, x, h):
        return self.code(x + h)


x1, h1 = symbols("x_1 h_1", real=True)
u = x1 + h1


@pytest.mark.by_default(2)
@pytest.mark.parametrize(
    ("code", "equation", "verdict"),
    [
        (lambda u: torch.tanh(math.pi * u), tanh(pi * u), "holds but for rounding"),
        (lambda u: torch.tanh(3.1416 * u), tanh(pi * u), "does not hold as printed"),
        (nn.functional.softplus, log(1 + exp(u)), "holds but for rounding"),
        (nn.Softplus(threshold=5), log(1 + exp(u)), "does not hold as printed"),
        (lambda u: (u / (1 + u**2)).clamp(-0.25, 0.25), u / (1 + u**2), "does not hold as printed"),
        (lambda u: u + torch.relu(u - 1e5), u, "does not hold as printed"),
        (lambda u: torch.sign(nn.functional.softplus(u) - u), sign(log(1 + exp(u)) - u), None),
    ],
)
def test_rounding_is_told_from_another_number_and_from_a_jump(code, equation, verdict):
    found = derivations.verify(Unit(code), {h1: equation})
    assert found.verdict == verdict if verdict else not found.verdict.startswith("holds")
