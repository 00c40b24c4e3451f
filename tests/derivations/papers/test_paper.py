"""A paper's displays as claims: definitions prove nothing, steps are judged one by one, false ones by numbers."""

import pytest

from derivations.claim import decided
from derivations.papers.paper import read_paper
from derivations.papers.tokens import Unread

LETTERS = r"""---
x, y, z, w, b, h_0: real
a: real in [0, 1]
g: real in (0, 1)
n, k: integer
tau, \tau_2: positive ms
t, T: real ms
alpha: positive 1/ms
V: real mV
I: real mV/ms
h, c, u, v: function of t
q: positive function of t
F: function of x and y
\sigma: sigmoid
\mathrm{relu}: relu
{}---
"""
TRUE = r"""
(x + y)^2 = x^2 + 2 x y + y^2
(x + y)(x - y) = x^2 - y^2
\frac{x}{2} + \frac12 \cdot 2 = \dfrac{x + 2}{2}
2x y = x \cdot y \times 2
-x^2 + (-x)^2 = x - x
e^{x + y} = e^x e^y
e^{-t/\tau} = \exp(-\frac{t}{\tau})
\ln(e^x) = x
\tanh x = 2 \sigma(2 x) - 1
\sigma(x) + \sigma(-x) = 1
\sin^2(x) + \cos(x)^2 = 1
\cosh^2(x) - \sinh^2 (x) = 1
\sqrt{x^2} = |x|
|x y| = |x||y|
\left| x - y \right| = \lvert y - x \rvert
|1 - g| = 1 - g
a^2 \le a
0 < g (1 - g)
x^2 \leq x^2 + 1
e^x \ge 0
\frac{\partial}{\partial x}(x^2 y) = 2 x y
\frac{d}{dx}(\sigma(x)) = \sigma(x)(1 - \sigma(x))
\frac{d}{dt} (h^2) = 2 h \dot h
\frac{d^2}{dt^2}(h^2) = 2 \dot h^2 + 2 h \ddot h
\frac{d}{dt}(h v) = \frac{dh}{dt} v + h v'
\frac{d(h v)}{dt} = h'(t) v(t) + h(t) \dot{v}(t)
\frac{\partial^2 F}{\partial x \partial y} = \frac{\partial^2 F}{\partial y \partial x}
\frac{d}{dg}(g (1 - g)) = 1 - 2 g
\int_0^\infty e^{-s/\tau} ds = \tau
\int_0^t e^{-s/\tau} \, \mathrm{d} s = \tau (1 - e^{-t/\tau})
\int_0^1 \int_0^1 r s dr ds = \frac14
\sum_{k=1}^{3} k x = 6 x
\sum_{j=0}^{2} x^{j + 1} = x + x^2 + x^3
\lim_{x \to 0} \frac{\sin(x)}{x} = 1
\lim_{x \to \infty} \tanh x = 1
\lim_{x \to 0^+} \frac{1}{x} = \infty
\lim_{x \to -\infty} e^x = 0
e^x = 1 + x + \frac{x^2}{2} + O(x^3)
\frac{1}{1 + x} = 1 - x + O(x^2)
x^3 = O(x^2)
1 - e^{-1} \approx 0.632
\pi \approx 3.14
q > 0
\mathrm{relu}(x) - \mathrm{relu}(-x) = x
""".strip().splitlines()
FALSE = r"""
(x + y)^2 = x^2 + y^2
x (y + 1) = x y + 1
e^{x y} = e^x e^y
\ln(x^2 + 1) = 2 \ln(|x| + 1)
\tanh x = \sigma(2 x) - 1
\sigma(x) - \sigma(-x) = 1
\sin(x)^2 - \cos(x)^2 = 1
\sqrt{x^2} = x
|x + y| = |x| + |y|
|1 - x| = 1 - x
g = g^2
x^2 \le x
x < |x|
g < 1 - g
\frac{d}{dx}(\sigma(x)) = \sigma(x)(1 + \sigma(x))
\frac{d}{dt} (h^2) = 2 h + \dot h
\frac{d}{dt}(h v) = \dot h \dot v
\sum_{k=1}^{3} k x = 5 x
\lim_{x \to 0} \frac{\sin(x)}{x} = 0
\lim_{x \to 0} \frac{1}{x} = \infty
e^x = 1 + x + x^2 + O(x^3)
x = O(x^2)
1 - e^{-1} \approx 0.633
1 - e^{-1} = 0.632
\frac{x}{y} = x (-y)
\frac{1}{2} + \frac{1}{3} = \frac{2}{5}
""".strip().splitlines()
UNITS = {
    r"V := I \alpha": False,
    r"z := \alpha + t": False,
    r"\tau \alpha = \alpha \tau": True,
    r"e^{t} = e^{t}": False,
    r"e^{\alpha t} = e^{\alpha t}": True,
    r"t^2 + \tau t = t (t + \tau)": True,
    r"t^2 + t = t (t + 1)": False,
    r"T = 1": False,
    r"\frac{d}{dt}(\alpha t) = \alpha": True,
    r"\frac{d}{dt}(\alpha t^2) = \alpha": False,
    r"\int_0^t \alpha ds = \alpha t": True,
    r"I t + V = V + t I": True,
    r"I + V = V + I": False,
    r"\sqrt{t^2} = |t|": True,
    r"2^{t} = 2^{t}": False,
    r"t < \tau + \alpha": False,
    r"h(\alpha t) = h(t \alpha)": False,
    r"h(t + \tau) = h(\tau + t)": True,
    r"\sqrt{t} \sqrt{\tau} = \sqrt{\tau} \sqrt{t}": True,
}


def claims(text, front=""):
    """The claims of a paper, decided, and the paper."""
    paper = read_paper(LETTERS.replace("{}", front) + text, "paper", tex=False)
    return [decided(entry) for entry in paper.entries], paper


def displayed(*formulas):
    return "\n\n".join(f"$$ {formula} $$" for formula in formulas)


def verdicts(*formulas, front=""):
    return [claim.verdict for claim in claims(displayed(*formulas), front)[0] if ", units" not in claim.label]


@pytest.mark.by_default(15)
@pytest.mark.parametrize("formula", TRUE)
def test_what_is_true_is_proved(formula):
    (verdict,) = verdicts(formula)
    assert verdict in ("holds", "holds under the stated assumptions")


@pytest.mark.parametrize("formula", FALSE)
def test_what_is_false_is_refuted(formula):
    assert verdicts(formula) == ["does not hold as printed"]


def test_a_chain_of_relations_is_judged_step_by_step():
    rows = (r"(x - y)^2 &= x^2 - 2 x y + y^2 \label{first}", r"&= x^2 + y^2 \label{second}", r"&\le 2 x^2 + 2 y^2")
    found, _ = claims(r"\begin{align}" + r"\\".join(rows) + r"\end{align}")
    assert [(c.label, c.verdict) for c in found] == [
        ("first", "holds"),
        ("second", "does not hold as printed"),
        ("first, step 3", "holds"),
    ]
    assert found[1].quote == "x^2-2xy+y^2 = x^2+y^2"
    assert found[1].counterexample


def test_a_line_that_goes_on_is_one_formula_with_the_line_before():
    rows = r"\begin{align} (x + y)^2 &= x^2 + 2 x y \\ &\quad + y^2 \end{align}"
    assert [c.verdict for c in claims(rows.replace(r"\quad", ""))[0]] == ["holds"]


def test_a_definition_proves_nothing_and_is_used_from_then_on():
    found, paper = claims(displayed(r"s := \sigma(x)", "s = 1 - s", r"1 - s = \sigma(-x)"))
    assert [c.verdict for c in found] == ["does not hold as printed", "holds"]
    assert [(d.label, str(d.left), d.supposed) for d in paper.said] == [("line 17", "s", False)]
    assert ", by line 17" in found[1].words


def test_the_first_mention_on_the_left_is_a_definition_and_later_ones_are_claims():
    assert verdicts("x = y + 1", "x = y + 1", "x - 1 = y + 2") == ["holds", "does not hold as printed"]
    assert verdicts("f(x) = x^2", "f(y + 1) = y^2 + 2 y + 1", "f'(x) = 2 x", "f(2) = 5") == [
        "holds",
        "holds",
        "does not hold as printed",
    ]


def test_a_definition_may_follow_another_that_uses_it_but_no_claim_that_does():
    assert verdicts("p = r^2", "r = x + 1", "p = x^2 + 2 x + 1") == ["holds"]
    assert verdicts("p = r^2", "p - r = x", "r = x + 1") == ["undecided"]
    assert verdicts("z = w^2", "w = x + 1", "z = x^2 + 2 x + 1") == ["holds"]
    assert verdicts("w + w = 2 w", "w = x + 1") == ["holds", "undecided"]
    assert verdicts("z = w", "w = z") == ["holds"]
    assert verdicts("z = w", "w := z") == ["undecided"]


def test_a_limit_may_be_a_definition_and_a_constant_an_input():
    assert verdicts(r"z := \lim_{x \to \infty} \frac{x}{1 + x}", "z = 1", "z = 2") == ["holds", "does not hold as printed"]
    assert verdicts("u = b", r"\dot h = u", r"\ddot h = 0") == ["holds under the stated assumptions"]


def test_a_bound_letter_is_not_the_one_in_a_definition():
    assert verdicts("z = x + y", r"\int_0^1 z dx = y + \frac12") == ["undecided"]
    assert verdicts("z = x", r"\lim_{x \to 0} z = 0") == ["undecided"]
    assert verdicts(r"\int_0^x 2 x dx = x^2") == ["holds"]


def test_definitions_that_double_again_and_again_are_refused_at_once():
    doubled = [f"z_{{{n + 1}}} := z_{{{n}}} + z_{{{n}}}" for n in range(60)]
    (claim,) = claims(displayed("z_{0} := x", *doubled, "z_{60} = x"))[0]
    assert "more than 20000 parts" in claim.evidence


def test_an_equation_of_a_derivative_is_supposed_and_said_so():
    found, paper = claims(
        displayed(
            r"\tau \frac{dh}{dt} = u - h",
            r"\frac{d}{dt}(h^2) = \frac{2 h \cdot (u - h)}{\tau}",
            r"\dot h = \frac{2 u - 2 h}{\tau}",
        )
    )
    assert [c.verdict for c in found if "units" not in c.label] == [
        "holds under the stated assumptions",
        "undecided",  # it may be another equation, of another h
    ]
    assert next(c for c in found if "units" not in c.label).assumptions == ("h'(t) = (-h(t) + u(t))/tau, line 17",)
    assert [d.supposed for d in paper.said] == [True]


def test_a_path_solves_its_equation_and_starts_where_it_says():
    ode = r"$$ \tau \dot h = b - h \label{ode} $$ $$ h(0) = h_0 \label{start} $$"
    front = "solves: path is ode, start\n"
    right = r"$$ h(t) = b + (h_0 - b) e^{-t/\tau} \label{path} $$ $$ h(T) - b = (h_0 - b) e^{-T/\tau} $$"
    found = [c.verdict for c in claims(ode + right, front)[0] if "units" not in c.label]
    assert found == ["holds", "holds"]
    for wrong in (r"b + (h_0 - b) e^{t/\tau}", r"b + (h_0 + b) e^{-t/\tau}"):
        (claim,) = (c for c in claims(ode + rf"$$ h(t) = {wrong} \label{{path}} $$", front)[0] if "units" not in c.label)
        assert claim.verdict == "does not hold as printed"
    assert [c.verdict for c in claims(ode + r"$$ h(t) = b $$")[0] if "units" not in c.label] == ["undecided"]


def test_what_is_false_of_every_function_may_be_true_of_the_one_that_is_supposed():
    oscillator = (r"\ddot c = -c", "c(0) = 1")
    assert verdicts(*oscillator, r"c^2 + \dot c^2 = 1") == ["undecided"]
    assert verdicts(*oscillator, r"p = \dot c", "p^2 = 1 - c^2") == ["undecided"]
    assert verdicts(*oscillator, r"p = c + 1", "p = p^2") == ["undecided"]
    assert verdicts(r"\dot h = -h", "h(t + T) = h(t) e^{-T}") == ["undecided"]
    assert verdicts(r"\dot h = -h", "h = h^2") == ["does not hold as printed"]


def test_a_function_that_obeys_an_equation_starts_once():
    assert verdicts(r"\dot h = 1", "h(0) = 0", "h(1) = 5") == ["undecided"]
    assert verdicts("h(0) = 0", "h(1) = 5", r"\dot h = 1") == ["undecided"]


def test_what_solves_an_equation_is_a_function_with_a_label_that_is_there():
    ode = r"$$ \dot h = -h \label{ode} $$"
    for path in (r"$$ h^2 = 1 \label{path} $$", r"$$ 2 h = 1 \label{path} $$", r"$$ \dot h = 1 \label{path} $$"):
        (claim,) = claims(ode + path, "solves: path is ode\n")[0]
        assert "what solves an equation is a function alone on the left" in claim.evidence
    (claim,) = claims(ode + r"$$ v(t) = e^{-t} \label{path} $$", "solves: path is ode\n")[0]
    assert "solves equations of v" in claim.evidence
    with pytest.raises(Unread, match="there is no equation with the label path"):
        claims(ode, "solves: path is ode\n")


def test_numbers_that_refute_are_those_of_the_letters_of_the_paper():
    (claim,) = claims(displayed("g = g^2"))[0]
    assert {str(letter): 0 < value < 1 for letter, value in claim.counterexample.items()} == {"g": True}


def test_a_letter_without_a_unit_agrees_with_all_and_no_unit_says_nothing():
    assert [c.label for c in claims(displayed("x + t = t + x", "x = x + y - y"))[0]] == [
        "line 17, units",
        "line 17",
        "line 19",
    ]


def test_tex_declares_its_letters_in_comments():
    text = "% ctrnn: x: real\n% ctrnn: \\tau: positive ms\n\\begin{document}\n\\[ x^2 \\ge 0 \\] % x\n\\end{document}"
    (entry,) = read_paper(text, "paper", tex=True).entries
    assert (decided(entry).verdict, entry.label) == ("holds", "line 4")


@pytest.mark.parametrize("formula", UNITS)
def test_units_of_terms_sides_and_arguments_agree_or_are_refuted(formula):
    found = [c for c in claims(displayed(formula))[0] if c.label.endswith(", units")]
    assert [c.verdict for c in found] == ["holds" if UNITS[formula] else "does not hold as printed"]
    assert all("unit of" in str(c.counterexample) for c in found if not UNITS[formula])
