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


def test_an_operation_that_a_paper_redefines_is_refused():
    with pytest.raises(Unread, match="is given a meaning of its own"):
        read_paper(f"{FRONT}\\renewcommand{{\\max}}{{x = }}\n$$ y = \\max 2 $$\n", "note", False)
