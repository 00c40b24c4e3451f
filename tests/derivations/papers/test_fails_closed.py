r"""What is not read defines nothing and hides nothing: what uses its letters is undecided, wherever it stands."""

import pytest

from derivations.claim import decided
from derivations.papers.paper import read_paper
from derivations.papers.tokens import Unread

LETTERS = r"""---
x, y, z, w, b, g_t, h_t, x_t: real
a, p, D: positive
u: real
t: positive
h, v: function of t
c, k: positive function of t
F: function of x and y
G: function of h
g: function
\sigma: sigmoid
{}---
"""
HOLDS, FAILS, UNDECIDED = "holds", "does not hold as printed", "undecided"


def verdicts(text, front="", tex=False):
    """The verdicts of a paper's claims by their labels."""
    paper = read_paper(LETTERS.replace("{}", front) + text, "paper", tex)
    words = {"holds under the stated assumptions": HOLDS, "holds at the sizes computed": HOLDS}
    return {claim.label: words.get(claim.verdict, claim.verdict) for claim in map(decided, paper.entries)}


def shown(*formulas):
    return "\n\n".join(f"$$ {formula} $$" for formula in formulas)


def last(*formulas, front=""):
    return [*verdicts(shown(*formulas), front).values()][-1]


@pytest.mark.by_default(10)
@pytest.mark.parametrize(
    "unread",
    [
        r"u \triangleq x + 1", r"u \equiv x + 1", r"u \neq 2 x", r"u \gg x", r"u \geqq x", r"u \propto x", r"u \sim x",
        r"u \simeq x", r"u \overset{!}{=} x", r"u \stackrel{\text{def}}{=} x + 1", r"u \mathrel{=} x", r"u \mathrm{=} x",
        "u {=} x", r"\underbrace{u}_{x} = 2", "{u} = x + 1", "{} u = x", r"u = x + 1 \text{ if } x > 0", r"u \mapsto x",
        r"u \leftarrow x + 1", r"u \in [0, x]", "u = x!", r"\begin{cases} u = x + 1 \end{cases}", r"\boxed{u = x + 1}",
        "u = x + 1, x > 0", r"u \pm x = 1", r"u = \lfloor x \rfloor", r"\check{u} = x", "u_{(1)} + u = x",
        r"u = x + 1 \quad x > 0", r"\frac{u}{x", "u = x + é", "u == x", r"\hat{} u = x",
    ],
)  # fmt: skip
def test_what_uses_the_letters_of_a_line_that_is_not_read_is_undecided(unread, subtests):
    for before in (True, False):
        with subtests.test(before=before):
            lines = [rf"{unread}", r"u = 2 x \label{a}", r"u^2 = 4 x^2 \label{b}", r"y^2 \ge 0 \label{c}"]
            found = verdicts(shown(*lines) if before else shown(*lines[1:], lines[0]))
            assert found["b"] == UNDECIDED
            assert found["c"] == HOLDS
            assert len(found) >= 3  # the line that is not read is one of them


@pytest.mark.parametrize(
    "name", ["IEEEeqnarray", "empheq", "multline", "eqnarray", "dmath", "displaymath", "alignat", "math", "mine"]
)
def test_mathematics_in_an_environment_that_is_not_read_is_shown(name):
    text = rf"\begin{{{name}}} u = x + 1 \end{{{name}}} $$ u = 2 x \label{{a}} $$ $$ u^2 = 4 x^2 \label{{b}} $$"
    found = verdicts(text)
    assert len(found) == 2
    assert set(found.values()) == {UNDECIDED}
    assert verdicts(r"\begin{mine} text $x = 1$ $$ 2 x = x + x \label{a} $$ \end{mine}") == {"a": HOLDS}


@pytest.mark.parametrize(
    "text",
    [
        r"\let\nonumber=\not", r"\def\,{+}", r"\renewcommand{\quad}{+}", r"\DeclareMathOperator{\tanh}{sinh}",
        r"\catcode`\+=\active", r"\iffalse $$ u := 1 $$ \fi", r"\ifdraft x \fi", r"\RenewDocumentCommand{\tanh}{}{1}",
        r"\renewenvironment{align}{}{}", r"\let\\=+", r"\DeclareRobustCommand\cdot{+}", r"\csname input\endcsname",
        r"\RenewCommandCopy{\tanh}{\sin}", r"\letcs\tanh{sin}", r"\ExplSyntaxOn \cs_set_eq:NN \tanh \sin", r"\mathcode`x=`y",
        "\\renewcommand{%\n\\tanh}{\\sin}", r"\let~\tanh", r"\def~{+1}",
    ],
)  # fmt: skip
def test_a_text_that_gives_signs_another_meaning_is_refused(text):
    with pytest.raises(Unread):
        verdicts(text + " $$ x = x $$")


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ((r"F := \tanh(x) - y", r"F(y, x) = \tanh(x) - x"), FAILS),
        ((r"F := \tanh(x) - y", r"F(y, x) = \tanh(y) - x"), HOLDS),
        ((r"F := \tanh(x) - y", r"F(2 y, F(y, x)) = \tanh(2 y) - \tanh(y) + x"), HOLDS),
        (("f(x, y) = x^2 y", "f(y, x) = y^2 x"), HOLDS),
        (("f(x, y) = x^2 y", "f(y, x) = x^3"), FAILS),
        ((r"f(x, y) = \frac{\partial}{\partial x}(x^2 y)", "f(y, x) = 2 y x"), HOLDS),
        ((r"f(x, y) = \frac{\partial}{\partial x}(x^2 y)", "f(y, x) = 2 x^2"), FAILS),
        ((r"f(x) = \int_0^x s y ds", r"f(y) = \frac{y^3}{2}"), HOLDS),
        (("f(x) = x + w", "w = 2 x", "f(3) = 9"), UNDECIDED),
        (("k(t) = t + w", "w := 2 t", "k(3) = 3 + 2 t"), UNDECIDED),
    ],
)
def test_arguments_are_put_in_at_once(lines, verdict):
    assert last(*lines) == verdict


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (r"2 x &= x + x \\ -x &= x - 2 x", [HOLDS, HOLDS]),
        (r"2 x &= x + x \\ -x &= x", [HOLDS, FAILS]),
        (r"2 x &= x + x \\ &= 3 x - x", [HOLDS, HOLDS]),
        (r"2 x &= x \\ &\quad + x".replace(r"\quad", ""), [HOLDS]),
        (r"2 x &= x + \\ & x", [HOLDS]),
        (r"2 x &= (x \\ & + x)", [HOLDS]),
        (r"2 x &= x + x \\ &- x = x - 2 x", [UNDECIDED]),
        (r"& 2 x = x + x \\ & -x = x - 2 x", [HOLDS, HOLDS]),
        (r"2 x &= x + x \\ y", [HOLDS]),
        (r"2 x &= 2 \\ & x", [UNDECIDED]),
        (r"2 x &= x + x \\ & \equiv y", [UNDECIDED]),
        (r"2 x &= x + x & y &= y", [UNDECIDED]),
        (r"2 x &= x \\* x", [FAILS]),
    ],
)
def test_rows_with_a_left_side_of_their_own_are_equations_of_their_own(rows, found):
    assert [*verdicts(rf"\begin{{align}} {rows} \end{{align}}").values()] == found


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (r"\frac{d}{dt}(h(a t)) = a (\tanh(w v(a t)) - h(a t))", HOLDS),
        (r"\frac{d}{dt}(h(a t)) = \tanh(w v(a t)) - h(a t)", FAILS),
        (r"\frac{d}{dt}(h(t/a)) = (\tanh(w v(t/a)) - h(t/a))/a", HOLDS),
        (r"\frac{d}{dt}(h(t/a)) = a (\tanh(w v(t/a)) - h(t/a))", FAILS),
        (r"\frac{d}{dt}(h(c(t))) = \frac{dc}{dt} \cdot (\tanh(w v(c(t))) - h(c(t)))", HOLDS),
        (r"\frac{d}{dt}(h(c(t))) = \tanh(w v(c(t))) - h(c(t))", FAILS),
        (r"\frac{d}{dt}(h(c(k(t)))) = c'(k(t)) k'(t) \cdot (\tanh(w v(c(k(t)))) - h(c(k(t))))", HOLDS),
        (r"\frac{d}{dt}(e^{a t} h) = e^{a t} (a h + \tanh(w v) - h)", HOLDS),
        (r"\frac{d}{dt}(e^{a t} h) = e^{a t} (\tanh(w v) - h)", FAILS),
        (r"\frac{d^2}{dt^2}(h(a t)) = a^2 (w v'(a t) \cdot (1 - \tanh^2(w v(a t))) - \tanh(w v(a t)) + h(a t))", HOLDS),
        (r"\frac{d^2}{dt^2}(t h) = 2 \dot h + t \ddot h", HOLDS),
        (r"\frac{d^2}{dt^2}(t h) = \dot h + t \ddot h", FAILS),
        (r"\frac{d}{dt}(G(h)) = 0 \cdot 1", UNDECIDED),
    ],
)
def test_a_supposed_equation_is_used_at_other_times_and_within_what_is_differentiated(claim, verdict):
    assert last(r"\frac{dh}{dt} = \tanh(w v) - h", claim) == verdict


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ((r"\dot h = -h", r"\frac{d}{dt}(h(-t)) = h(-t)"), UNDECIDED),
        ((r"\dot h = -h", "h'(t - 1) = -h(t - 1)"), UNDECIDED),
        ((r"\dot h = -h", "h'(t + 1) = -h(t + 1)"), HOLDS),
        ((r"\dot h = -h", "h'(-1) = -h(-1)"), UNDECIDED),
        ((r"\dot h = -h", "h'(0) = -h(0)"), HOLDS),
        ((r"\dot h = -h", r"\frac{d}{dt}(h(w t)) = -w h(w t)"), UNDECIDED),
        ((r"\dot h = -h", r"\frac{d}{dt}(h(v(t))) = -\dot v h(v(t))"), UNDECIDED),
        ((r"\dot h = -h", r"\int_{-1}^0 h'(s) ds = -\int_{-1}^0 h(s) ds"), UNDECIDED),
        ((r"\dot m = -m", "m'(2 s) = -m(2 s)"), UNDECIDED),
        ((r"\dot m = -m", r"\frac{d}{ds}(m(s^2)) = -2 s m(s^2)"), HOLDS),
        (("f(p) = p^2", "f(x) = x^2"), UNDECIDED),
        (("f(r) = r^2", "f(0) = 0 + 0"), UNDECIDED),
        (("f(r) = r^2", "f(2) = 4"), HOLDS),
        (("f(p) = p^2", "f(a + 1) = a^2 + 2 a + 1"), HOLDS),
    ],
)
def test_an_equation_says_nothing_of_times_that_are_not_declared(lines, verdict):
    assert last(*lines, front="s: real in (0, 1)\nm: function of s\nr: nonzero\n") == verdict


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (r"\frac{d}{dt}(\dot h) = -a h - w \dot h", HOLDS),
        (r"\frac{d}{dt}(\dot h^2 + a h^2) = -2 w \dot h^2", HOLDS),
        (r"\frac{d}{dt}(\dot h^2 + a h^2) = 2 w \dot h^2", FAILS),
        (r"\dddot h = -a \dot h - w \ddot h", HOLDS),
    ],
)
def test_an_equation_of_second_order_with_friction_is_read(claim, verdict):
    assert last(r"\ddot h = -a h - w \dot h", claim) == verdict


@pytest.mark.by_default(9)
@pytest.mark.parametrize(
    ("front", "lines", "verdict"),
    [
        ("m is a step of f", (r"\dot h = w v - h", "h_{t+1} = w v_t"), HOLDS),
        ("m is a step of f", (r"\dot h = w v - h", "h_{t+1} = w v_{t+1}"), HOLDS),
        ("m is a step of f", (r"\dot h = w v - h", "h_{t+1} = w v_t - h_t"), FAILS),
        ("m is a step of f", (r"\dot h = w v - h", "h_{n} = w v_n + h_{n-1} - h_{n-1}"), HOLDS),
        ("m is a step of f", (r"\dot h = w v - h", "v_{t+1} = w v_t"), UNDECIDED),
        ("m is a step of f", (r"\dot h = -h", "h_{t+1} = x - x"), HOLDS),
        ("m is a step of f", (r"\dot h = -h", "h_t = x - x"), UNDECIDED),
        ("m is a step of f", (r"\dot h = -h", "h_{t+2} = x - x"), UNDECIDED),
        ("m is a step of f", (r"\dot h = -h", "h_{t+1} = h_{n-1} - h_{n-1}"), UNDECIDED),
        ("m is f at a t", (r"\dot h = w v - h", r"\dot h = a w v - a h"), HOLDS),
        ("m is f at t - 1", (r"\dot h = w v - h", r"\dot h = w v - h"), UNDECIDED),
        ("m is f at t + 1", (r"\dot h = w v - h", r"\dot h = w v - h"), HOLDS),
        ("m is f at a t", (r"\dot h = w v - h", r"\dot h = w v - a h"), FAILS),
        ("m is f at a t", (r"\dot h = t - h", r"\dot h = a^2 t - a h"), HOLDS),
        ("m is f at c(t)", (r"\dot h = g(w v + h) - h", r"\dot h = \dot c \cdot (g(w v + h) - h)"), HOLDS),
        ("m is f at c(t)", (r"\dot h = g(w v + h) - h", r"\dot h = g(\dot c w v + h) - h"), FAILS),
        ("m is f at c(t)", (r"\dot h = v(t - 1) - h", r"\dot h = \dot c \cdot (v(t - 1) - h)"), FAILS),
        ("m is f at c(t)", (r"\dot h = \dot v - h", r"\dot h = \dot v - \dot c h"), HOLDS),
        ("m is f at c(t)", (r"\dot h = c - h", r"\dot h = \dot c \cdot (c - h)"), UNDECIDED),
        ("m is f at c(t)", (r"\dot h = F(v, h)", r"\dot h = F(v, h) \dot c"), HOLDS),
        ("m is f at c(t)", (r"\dot h = F(v, h)", r"\dot h = F(\dot c v, h)"), FAILS),
        ("m is f at c(t)", (r"\dot h = F(v, h)", r"\dot h = F(h, v) \dot c"), FAILS),
        ("m is by f", ("z = x^2", "1 - z = (1 - x)(1 + x)"), HOLDS),
        ("m is by f", ("z = x^2", "1 - z = 1 + x^2"), FAILS),
        ("m solves f", (r"\dot h = -a h", "h(t) = p e^{-a t}"), HOLDS),
        ("m solves f from 1", (r"\dot h = -1", "h(t) = |t - 1| - 2 t"), HOLDS),
        ("m solves f from 1", (r"\dot h = 1", "h(t) = |t - 1|"), HOLDS),
        ("m solves f from 1", (r"\dot h = 1", "h(t) = |t - 2|"), FAILS),
    ],
)
def test_what_the_front_matter_says_of_equations_is_judged(front, lines, verdict):
    first, second = lines
    front = f"v_t, v_{{t+1}}, v_n, h_{{n-1}}: real\nequations: {front}\n"
    assert verdicts(shown(rf"{first} \label{{f}}", rf"{second} \label{{m}}"), front)["m"] == verdict


def test_equations_that_follow_from_one_another_are_refused():
    for front in ("m is by m", "m is by f; f is by m"):
        with pytest.raises(Unread, match="follows from itself"):
            verdicts(shown(r"x = 1 \label{f}", r"x = 1 \label{m}"), f"equations: {front}\n")


def test_a_letter_that_is_given_apart_is_not_free_elsewhere():
    lines = (r"z = x^2 \label{f}", r"1 - z = 1 - x^2 \label{m}", r"z \ge 0 \label{n}")
    assert verdicts(shown(*lines), "equations: m is by f\n") == {"m": HOLDS, "n": UNDECIDED}
    lines = (r"\dot h = -h \label{f}", r"\dot h = -a h \label{m}", r"h^2 = 2 h \label{n}")
    assert verdicts(shown(*lines), "equations: m is f at a t\n") == {"m": HOLDS, "n": UNDECIDED}


def test_a_letter_given_again_is_another_one_or_asked_about():
    again = ("z = x + 1", "z = x + 2", "2 z = z + z")
    assert [*verdicts(shown(*again)).values()] == [UNDECIDED, UNDECIDED]
    assert [*verdicts(shown("z = x + 1", "z = 1 + x", "2 z = z + z")).values()] == [HOLDS, HOLDS]
    assert [*verdicts(shown("z = x^2", "x = z^2", "x = 3 x")).values()] == [UNDECIDED, UNDECIDED]
    assert [*verdicts(shown("z := x + 1", "z = x + 2", "2 z = z + z")).values()] == [FAILS, HOLDS]
    assert [*verdicts(shown(r"\dot h = v", r"\dot h = -v", r"\ddot h = \dot v")).values()] == [UNDECIDED, UNDECIDED]


@pytest.mark.parametrize(
    ("declared", "formula", "verdict"),
    [
        ("C: nF\nV: function of t mV\nI: nA\nt: ms", r"C \frac{dV}{dt} + I = I + C \frac{dV}{dt}", HOLDS),
        ("m: uS\nV: mV\nI: nA", "m V + I = I + m V", HOLDS),
        ("m: uS\nV: mV\nI: uA", "m V + I = I + m V", UNDECIDED),
        ("m: uS\nV: mV\nI: nF mV/ms", "m V + I = I + m V", HOLDS),
        ("m: uS\nV: mV\nI: nF mV", "m V + I = I + m V", FAILS),
        ("m: kHz\nV: 1/ms", "m + V = V + m", HOLDS),
        ("m: ms\nV: s", "m + V = V + m", UNDECIDED),
        ("m: MOhm\nV: mV\nI: nA", "m I + V = V + m I", HOLDS),
        ("m: spikes/s\nV: Hz", "m + V = V + m", FAILS),
        ("m: rad/ms\nt: ms", r"\sin(m t) = 2 \sin(m t) - \sin(m t)", HOLDS),
        ("m: degree\nV: 1", r"V + \sin(m) = V + \sin(m)", UNDECIDED),
        ("m: percent\nV: 1", "m + V = V + m", UNDECIDED),
    ],
)
def test_units_are_compared_as_pint_has_them(declared, formula, verdict):
    paper = read_paper(f"---\n{declared}\n---\n{shown(formula)}", "paper", tex=False)
    (units,) = (claim for claim in map(decided, paper.entries) if claim.label.endswith(", units"))
    assert units.verdict == verdict


@pytest.mark.parametrize("unit", ["J/kg K", "mV/ms*s", "1/ms mV", "mV/", "/ms", "mV//ms", "mV/ *ms"])
def test_a_unit_whose_words_may_be_above_or_below_the_line_is_refused(unit):
    with pytest.raises(Unread, match=r"above or below the line|no unit that is read"):
        read_paper(f"---\nx: {unit}\n---\n", "paper", tex=False)


@pytest.mark.parametrize("unit", ["degC", "celsius", "pi", "alpha", "c", "k", "pH", "dB", "mV, ms", "A, B", "mV,ms"])
def test_constants_scales_with_an_offset_and_lists_are_no_units(unit):
    with pytest.raises(Unread, match=r"no unit that is read|a comma follows it"):
        read_paper(f"---\nx: {unit}\n---\n", "paper", tex=False)


@pytest.mark.parametrize(
    "said", ["F: function of x, t", "F: function of x,t", "F: function of x, t mV", "F: function of x t\nt: ms"]
)
def test_an_argument_behind_a_comma_is_no_unit(said):
    with pytest.raises(Unread, match="line 2, column 1: is 't' an argument of F, or its unit"):
        read_paper(f"---\n{said}\n---\n", "paper", tex=False)


@pytest.mark.parametrize(
    "said", ["F: function of x and t, positive t", "F: function of x positive, t", "F: function of x 1*t\nt: ms"]
)
def test_a_unit_that_is_no_argument_is_read(said):
    assert str(read_paper(f"---\n{said}\n---\n", "paper", tex=False).front.letters["F"].unit) == "t"


def test_the_letter_of_an_integral_or_a_sum_is_none_that_is_declared():
    declared = "t: positive ms\ns: real mV\nn: real ms\nh: function of t mV"
    for formula, verdict in {
        r"\int_0^t 2 h(s) ds = 2 \int_0^t h(s) ds": HOLDS,
        r"\sum_{n=1}^{2} n s = 3 s": HOLDS,
        r"\int_0^t h(s) ds + t = t + \int_0^t h(s) ds": FAILS,
    }.items():
        paper = read_paper(f"---\n{declared}\n---\n{shown(formula)}", "paper", tex=False)
        assert {claim.verdict for claim in map(decided, paper.entries) if claim.label.endswith(", units")} <= {verdict}


@pytest.mark.parametrize("line", ["e = y - x", r"\pi = \tanh(x)", "e := y - x", r"\frac{de}{dt} = 0", r"\dot e = 0"])
def test_e_and_pi_on_the_left_may_be_letters_that_are_not_declared(line):
    letter = r"\pi" if "pi" in line else "e"
    assert [*verdicts(shown(line, rf"\tanh({letter}) < 1")).values()][:1] == [UNDECIDED]
    if "d" not in line:
        assert last(line, rf"{letter} > 2") == UNDECIDED
    assert last(r"e = \exp(1)", "e > 2") == HOLDS
    assert last("e = y - x", "e + x = y", front="e: real\n") == HOLDS


def test_limits_are_taken_from_within_what_is_declared_and_expansions_of_letters_without_an_interval():
    within = "m: real in (0, 1)\nn: negative\n"
    for limit in (r"\lim_{m \to 0} 1/m = \infty", r"\lim_{m \to 1} 1/(1 - m) = \infty", r"\lim_{n \to 0} 1/n = -\infty"):
        assert last(limit, front=within) == HOLDS, limit
        assert last(limit.replace("= ", "= -").replace("--", ""), front=within) == FAILS, limit
    assert last(r"\lim_{x \to 0} 1/x = \infty") == FAILS
    assert last("e^m = 1 + m + O(m^2)", front=within) == UNDECIDED


def test_the_expansion_of_a_function_of_which_nothing_is_known_assumes_that_it_is_smooth():
    paper = read_paper(LETTERS.replace("{}", "") + shown(r"g(x + u) = g(x) + u \cdot g'(x) + O(u^2)"), "paper", tex=False)
    (claim,) = map(decided, paper.entries)
    assert claim.verdict == "holds under the stated assumptions"
    assert claim.assumptions == ("g is smooth",)


def test_words_that_are_called_as_other_letters_are_refused():
    front = r"\Delta x, \tilde x, \beta: real" + "\n"
    for claim in (r"\Delta x = \mathrm{dx}", r"\tilde x = \mathrm{xtilde}", r"\beta = \operatorname{beta}"):
        assert last(claim, front=front) == UNDECIDED


def test_only_what_ends_a_line_in_tex_ends_a_comment():
    for sign in ("\u2028", "\x85", "\x0c"):
        text = "% ctrnn: x: real\n\\[ x = x + 1 %" + sign + " - 1\n\\]"
        (claim,) = map(decided, read_paper(text, "paper", tex=True).entries)
        assert claim.verdict == FAILS


def test_a_number_written_by_hand_is_that_of_the_equation_and_no_factor():
    assert verdicts(r"$$ 2 x = x + x \quad (6) $$ $$ 6 x = x \qquad (7) $$") == {"(6)": HOLDS, "(7)": FAILS}
    assert set(verdicts(r"$$ 6 x = x \;\;\; (6) $$ $$ 6 x = x ~~ (6) $$ $$ 6 x = x (6) $$").values()) == {UNDECIDED}


def test_a_bracket_behind_a_letter_that_may_be_an_argument_is_refused():
    assert [*verdicts(shown("a(t) = a t", r"a \cdot (t) = a t")).values()] == [UNDECIDED, UNDECIDED]  # of a and t, too
    assert last("a (t + 1) = a t + a") == HOLDS
    assert last(r"h(c(t)) + G(h + D G(h)) = G(h + D G(h)) + h(c(t))") == HOLDS


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (("f(r) = r", "f(0) = 0"), UNDECIDED),
        (("f(r) = r", "f(1) = 1"), UNDECIDED),
        (("f(r) = 1", "f(0) = 0"), UNDECIDED),  # which another line may define
        (("f(r) = r", "f'(0) = 1"), UNDECIDED),
        (("f(r) = r", r"f(1/2) = \frac{1}{2}"), HOLDS),
        (("f(r) = r", "f(q) = q"), UNDECIDED),
        (("m(q) = 2 q", "m(0) = 1 - 1"), HOLDS),
        (("m(q) = 2 q", "m(1) = 2"), UNDECIDED),
        (("m(q) = 2 q", "m(r) = 2 r"), HOLDS),
        (("f(a) = a", "f(0) = 0"), UNDECIDED),
        (("f(u) = u", "f(0) = 0 + 0"), HOLDS),
    ],
)
def test_a_definition_says_nothing_of_an_end_that_is_not_in_its_interval(lines, verdict):
    assert last(*lines, front="r: real in (0, 1)\nq: real in [0, 1)\n") == verdict
