"""A formula that is not read leaves open what it could define, and what it could not define is decided."""

import pytest

from derivations.papers.paper import read_paper
from derivations.papers.report import decided_within
from derivations.papers.tokens import Unread

FRONT = "---\nx, w, y, a: real\nt: positive\nh: function of t\ntau: positive\n---\n"
CLAIMS = r"""
$$ (x + w)^2 = x^2 + 2 w x + w^2 \label{of x} $$
$$ 2 y = y + y \label{of y} $$
$$ \frac{d}{dt}(h^2) = 2 h h' \label{of h} $$
$$ t^2 + 1 > t \label{of t} $$
"""


def open_of(display):
    """The labels of the claims that a display leaves open."""
    paper = read_paper(f"{FRONT}\n$$ {display} $$\n{CLAIMS}", "note", False)
    claims = [decided_within(entry, 20.0) for entry in paper.entries]
    assert {claim.verdict for claim in claims} <= {"holds", "undecided"}
    return {claim.label for claim in claims if claim.verdict == "undecided" and claim.label.startswith("of ")}


DEFINES = {
    r"y = \max(w x, 0)": {"of y"},
    r"y := \max(w x, 0)": {"of y"},
    r"y = w x + q": {"of y"},
    r"g(x, w) = \max(w x, 0)": set(),
    r"y = \begin{cases} x & x > 0 \\ w & x \le 0 \end{cases}": {"of y"},
    r"\tau \dot h = \max(x, 0) - h": {"of h"},
    r"\frac{dh}{dt} = \lVert x \rVert": {"of h"},
    r"x \le \max(x, y)": set(),
    r"y = \prod_{k=1}^{3} x": {"of y"},
}
MAY_SAY_MORE = {  # of every letter
    r"x \triangleq \max(w, 0)": {"of x"},
    r"y \neq \max(x, 0)": {"of x", "of y"},
    r"0 = \max(x, 0) - y": {"of x", "of y"},
    r"\max(x, 0) = y": {"of x", "of y"},
    r"2 y = \max(x, 0)": {"of x", "of y"},
    r"y = \max(a, 0) = x": {"of x", "of y"},
    r"y = \max(a, 0), x = 2": {"of x", "of y"},
    r"y = \max(a, 0) \text{ for } x = 3": {"of x", "of y"},
    r"y = \max(a, 0) \quad \text{where } x \text{ is } 2": {"of x", "of y"},
    r"y {=} \max(x, 0)": {"of y"},
    r"y \mathrel{=} \max(x, 0)": {"of x", "of y"},
    r"a = \underset{x = 2}{\max}\, w": {"of x"},
    r"a = \left. \max(w, 0) \right|_{x = 2}": {"of x"},
    r"a = \max(w, 0) \\ x = 2 \cdot \max(w, 0)": {"of x"},
    r"a = \begin{cases} w \\ x = 2 \end{cases}": {"of x"},
    r"x \approx \max(w, 0)": {"of x"},
    r"h(0) = \max(x, 0)": {"of x", "of h"},
}


@pytest.mark.parametrize("display", DEFINES)
def test_an_equation_that_is_not_read_leaves_open_what_stands_on_its_left(display):
    assert open_of(display) == DEFINES[display]


@pytest.mark.parametrize("display", MAY_SAY_MORE)
def test_where_more_may_be_said_every_letter_is_left_open(display):
    assert open_of(display) >= MAY_SAY_MORE[display]


RESTRICTS = [  # a formula that is not read; what a reader of it takes to be true; the same of all numbers is false
    (r"x \ge \max(w, a)", r"x \ge a"),
    (r"\lVert x \rVert \le 1", r"x^2 \le 1"),
    (r"0 < \min(w, a) \le x", r"x > 0"),
    (r"\begin{cases} x > 0 \\ w > \max(0, x) \end{cases}", r"x > 0"),
    (r"y = \begin{cases} a & w \ge 0 \\ -a & w < 0 \end{cases}, w > 0", r"w > 0"),
    (r"y = \max(x, 0) \operatorname{for} \operatorname{positive} x", r"x > 0"),
    (r"t = \max(x, 0)", r"x > 0"),
    (r"y = \max(x, 0) $$ $$ y = 2", r"x^2 = 4"),
    (r"y = \min(x, 1) $$ $$ y = \max(2, w)", r"w < 2"),
    (r"h_{t+1} = \max(h_t, 0)", r"h_t \ge 0"),
    (r"x_k = \max(a_k, 0)", r"x_1 \ge 0"),
    (r"2 x_k = \max(a_k, 0)", r"x_1 \ge 0"),
    (r"\min(x_k, 1) \ge 0", r"x_1 \ge 0"),
    (r"h(t) = \lVert x \rVert", r"h_t \ge 0"),
    (r"x_1' = \max(x_1, 0)", r"x_1 \ge 0"),
    (r"\dot h = \max(x, 0) - h $$ $$ \frac{dh}{dt} = -h", r"x \le 0"),
]


@pytest.mark.parametrize(("display", "claim"), RESTRICTS)
def test_no_numbers_refute_a_claim_about_letters_that_a_formula_restricts(display, claim):
    front = FRONT.replace("x, w", "x, w, h_t, x_1, x_1'")
    true = r"$$ (x + w + h_t + x_1)^2 \ge 0 \label{true} $$"

    def verdict(*displays):
        paper = read_paper("\n".join([front, *displays, rf"$$ {claim} \label{{claim}} $$", true]), "note", False)
        found = {claim.label: claim.verdict for claim in (decided_within(entry, 20.0) for entry in paper.entries)}
        return found["claim"], found["true"]

    assert verdict() == ("does not hold as printed", "holds")
    alone, true_of_all = verdict(f"$$ {display} $$")
    assert alone == "undecided"
    assert true_of_all == "holds" or "positive" in display


@pytest.mark.parametrize(
    "display",
    [
        r"y = \max(x, 0)", r"y = \begin{cases} x & x > 0 \\ 0 & x \le 0 \end{cases}", r"\tau \dot h = \max(x, 0) - h",
        r"y = \mathrm{ReLU}(x)", r"y_{\mathrm{in}} = \max(x_1, 0)",
    ],
)  # fmt: skip
def test_what_a_formula_does_not_restrict_is_refuted(display):
    text = f"{FRONT.replace('x, w', 'x, w, x_1')}$$ {display} $$\n$$ x > 0 \\label{{x}} $$\n$$ x_1 > 0 \\label{{x_1}} $$"
    paper = read_paper(text, "note", False)
    found = {claim.label: claim.verdict for claim in (decided_within(entry, 20.0) for entry in paper.entries)}
    assert found["x"] == found["x_1"] == "does not hold as printed"


ROWS = {  # an equation that is read, a claim, and whether the equation gives the claim's letter for another index
    (r"x_k = a_k^2", r"x_1 \ge 0"): True,
    (r"x_k = a_k^2", r"x_1 + 1 = a_1^2 + 1"): True,
    (r"x_k = a_k^2", r"x_{k+1} \ge 0"): True,
    (r"x_k = a_k^2", r"x_j \ge 0"): True,
    (r"x_k = a_k^2", r"x_l \ge 0"): True,
    (r"x_k = a_k^2", r"x_K \ge 0"): True,
    (r"x_k = a_k^2", r"x_{N-1} \ge 0"): True,
    (r"x_n = w^2", r"x_m \ge 0"): True,
    (r"h_t = a^2", r"h_s \ge 0"): True,
    (r"h_t = a^2", r"h_T \ge 0"): True,
    (r"x_{ij} = w^2", r"x_{kl} \ge 0"): True,
    (r"x_{ij} = w^2", r"x_{12} \ge 0"): True,
    (r"x_k = a_k^2", r"x_E \ge 0"): False,
    (r"x_{k+1} = a_k^2", r"x_1 \ge 0"): True,
    (r"x_k = a_k^2", r"a_1 \ge 0"): False,
    (r"x_k = a_k^2", r"x \ge 0"): False,
    (r"x_k = a_k^2 $$ $$ x_1 = w", r"x_1 + 1 \ge 1"): False,
    (r"V_s = w^2", r"V_m \ge 0"): False,
    (r"h_{t+1} = h_t^2", r"h_t \ge 0"): False,
    (r"h_t = h_{t-1}^2", r"h_0 \ge 0"): False,
    (r"h_t = a^2", r"h_0 \ge 0"): True,
}


@pytest.mark.parametrize(("display", "claim"), ROWS)
def test_no_numbers_refute_what_an_equation_says_for_another_index(display, claim):
    letters = "x, w, x_1, x_j, x_l, x_m, x_K, x_E, x_{N-1}, x_{kl}, x_{12}, x_{k+1}, a_1, a_k, h_t, h_{t-1}, h_0, h_s, h_T, V_m"

    def verdict(*displays):
        text = "\n".join([FRONT.replace("x, w", letters.replace("h_t, ", "") if "h_t =" in display else letters), *displays])
        paper = read_paper(f"{text}\n$$ {claim} \\label{{claim}} $$", "note", False)
        return {claim.label: claim.verdict for claim in (decided_within(entry, 20.0) for entry in paper.entries)}["claim"]

    assert verdict() == "does not hold as printed"
    assert verdict(f"$$ {display} $$") == ("undecided" if ROWS[display, claim] else "does not hold as printed")


@pytest.mark.parametrize("number", [r"\pi", "e"])
def test_a_formula_that_is_not_read_leaves_open_the_number_that_stands_on_its_left(number):
    paper = read_paper(f"{FRONT}$$ {number} = \\max(x, 0) $$\n$$ {number} > 2 \\label{{claim}} $$", "note", False)
    (verdict,) = (decided_within(entry, 20.0).verdict for entry in paper.entries if entry.label == "claim")
    assert verdict == "undecided"


def test_the_name_of_cases_is_no_letters():
    display = r"y = \begin{cases} x & x > 0 \\ 0 & \text{otherwise} \end{cases}"
    paper = read_paper(f"{FRONT}$$ {display} $$\n$$ a + a = 2 a \\label{{claim}} $$", "note", False)
    (verdict,) = (decided_within(entry, 20.0).verdict for entry in paper.entries if entry.label == "claim")
    assert verdict == "holds"


def test_a_value_of_a_function_that_no_line_gives_says_what_is_missing():
    paper = read_paper(f"{FRONT}$$ q(x) = \\max(x, 0) $$\n$$ q(2) = w \\label{{claim}} $$", "note", False)
    (claim,) = (decided_within(entry, 20.0) for entry in paper.entries if entry.label == "claim")
    assert (claim.verdict, "q is not declared, and no line before gives it" in claim.evidence) == ("undecided", True)


def test_an_operation_that_a_paper_redefines_is_refused():
    with pytest.raises(Unread, match="is given a meaning of its own"):
        read_paper(f"{FRONT}\\renewcommand{{\\max}}{{x = }}\n$$ y = \\max 2 $$\n", "note", False)
