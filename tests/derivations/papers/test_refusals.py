"""What a paper's LaTeX is refused for, with line and column: nothing is guessed, nothing hangs, no file is read or run."""

import pytest

from derivations.claim import decided
from derivations.papers.paper import read_paper
from derivations.papers.tokens import Unread

LETTERS = """x, y, a, b, c, k: real
tau: positive ms
t: real ms
h, v: function of t
F: function of x and y
sigma: sigmoid
g: real in (0, 1)
"""
AMBIGUOUS = {
    r"\sin x y = 1": "how far does the argument of a function reach",
    r"\sin x^2 = 1": "how far does the argument of a function reach",
    r"\sin{x} y = 1": "how far does the argument of a function reach",
    r"\exp x / y = 1": "how far does the argument of a function reach",
    r"\sigma x y = 1": "how far does the argument of a function reach",
    "a/b c = 1": "several factors follow the /",
    "a/b/c = 1": "several factors follow the /",
    r"a/b \cdot c = 1": "several factors follow the /",
    "a/{b c} = 1": "braces do not show in print",
    "{a + b} c = 1": "braces do not show in print",
    "x^2^3 = 1": "a second exponent",
    "x^10 = 1": "LaTeX takes the first digit only",
    r"\frac123 = 1": "LaTeX takes the first digit only",
    "x 2 = 1": "the number stands behind a factor",
    "2 3 = 6": "the number stands behind a factor",
    "(x + 2|y| 3)^2 = 1": "the number stands behind a factor",
    r"\cos(y \sin x x) = 1": "how far does the argument of a function reach",
    r"x \cdot \cdot y = 1": "a value is missing before it",
    r"\boxed{x, y} = 1": "} is missing before it",
    r"x \top y = x y": "is not read",
    r"x \sum = 1": "sums and integrals are read from one end to another",
    "(x y + \\infty) = 1": "a value is missing before it",
    "x = 1e-3": "a power of ten, or e",
    "x = 2.5e6 y": "a power of ten, or e",
    "E = x + 1E-5": "a power of ten, or E",
    "x_10 = 1": "an index of several signs needs braces",
    "x^{(k)} = 1": "an index in brackets is no power",
    "h(1 - h) = 1": "is this h at another place, or a product",
    "h(a + b) = 1": "is this h at another place, or a product",
    "h^2(t) = 1": "is this a value at another place, or a product",
    r"\frac{dh}{dt}(1 - h) = 1": "is this the derivative at a place, or a product",
    r"\frac{d}{dt} h v = 1": "how far does the derivative reach",
    r"\frac{d}{dt} (h)^2 = 1": "how far does the derivative reach",
    r"\frac{dF}{dx} = 1": r"d or \partial",
    r"\frac{\partial}{\partial t}(t h) = 1": r"\partial by t of what holds functions of t",
    r"\sum_{k=1}^3 k + 1 = 7": "how far does the sum or limit reach",
    r"\lim_{x \to 0} x + 1 = 1": "how far does the sum or limit reach",
    r"\sum_{k=1}^3 x_k = 1": "x_k at the bound k is no letter",
    "|x|y|b| = 1": "which | opens and which closes",
    "x = 1, y = 2": ", is not read here: write one formula a row",
    r"x = 1 \quad y = 2": r"\quad is not read",
    r"x = y & a = b": "& is not read here",
    r"x = y \text{ for } x > 0": r"\text says words",
    r"\sin^{-1}(x) = 1": "an inverse function has its own name",
    r"\log_2(x) = 1": "without an index",
    r"0 \log(x) = 0": "a factor 0 would hide",
    "x^0 = 1": "the exponent 0 would hide",
    r"\sqrt[3]{x} = 1": "roots other than the square root",
}
HOSTILE = {
    r"\frac{x}{y = 1": "is missing",
    "(x + y = 1": ") is missing",
    "x + y) = 1": ") is not read here",
    "{" * 100 + "x" + "}" * 100 + " = 1": "more than 40 brackets",
    "(" * 1000 + "x" + ")" * 1000 + " = 1": "more than 40 brackets",
    "(" * 50 + "x" + ")" * 50 + " = 1": "more than 40 brackets",
    r"\sin" * 900 + " x = 1": "sin is not read here",
    r"\sqrt{" * 900 + "x" + "}" * 900 + " = 1": "more than 40 brackets",
    r"\frac{" * 60 + "x" + "}{2}" * 60 + " = 1": "more than 40 brackets",
    "x^{10^{10^{10}}} = 1": "an exponent beyond 1000",
    "10^{10^{10^{10}}} = 1": "an exponent beyond 1000",
    "((((10^{1000})^{1000})^{1000})^{1000}) = 1": "an exponent beyond 1000",
    r"\exp(\exp(\exp(\exp(10)))) = 1": "an exponent beyond 1000",
    "x^{-1001} = 1": "an exponent beyond 1000",
    "1" * 31 + " = x": "more than 30 digits",
    "z = z + 1": "z is defined by itself",
    "x + z = 1": "z is not declared",
    r"\alpha x = 1": "alpha is not declared",
    "d x = 1": "d is read in derivatives and integrals only",
    r"\undefined x = 1": r"\undefined is not read",
    r"\begin{cases} x = 1": r"\begin is not read",
    "x = ": "a value is missing at the end",
    "= x": "= is not read",
    "x == y": "= is not read",
    r"x \ne y = 1": r"\ne is not read",
    "x! = 1": "! is not read here",
    r"\int x dx = 1": "from one end to another",
    r"\int_0^1 x = 1": "the d of the integral is missing",
    r"\int_0^1 \int_0^1 x dx dx = 1": "x is bound twice",
    r"\frac{x}{0} = 1": "a division by 0",
    r"x/0 = 1": "a division by 0",
    r"\dot x = 1": r"\dot is read over a function of one letter",
    r"\frac{dx}{dy} = a + b": "not declared as a function of y",
    r"\frac{d^2h}{dt} = 1": "the orders above and below the line differ",
    "x é = 1": "é is not read here",
}
OTHERS = {
    r"x + y \approx 3": r"\approx is checked between a number without letters and its decimals",
    r"\pi \approx 3.14 a": r"\approx is checked between a number without letters and its decimals",
    r"x + O(x^2) = x": "O(...) is read as the last term of a right side",
    r"x + \infty = \infty": r"\infty is not read",
    r"\infty = x": r"\infty is read as the end of an integral",
    r"z := x + O(x^2)": "is nothing that a letter is defined as",
    r"z := \infty": "is nothing that a letter is defined as",
    "g = x": "is declared, and defined here",
    "x + 1 = y": "y stands alone, and was used before",
    r"\dot h + h = a": "an equation of h is read where its derivative stands alone",
    r"\dot h = a - \dot h": "an equation of h is read where one derivative",
    r"a := b + a": "a is defined by itself",
    r"\frac{d}{dt} x = 0": "not declared as a function of t",
}


def only(formula, letters=LETTERS, wrap="$$ {} $$"):
    """The claim that a display of one formula is, decided."""
    (entry,) = (
        e
        for e in read_paper(f"---\n{letters}---\n" + wrap.format(formula), "paper", tex=False).entries
        if ", units" not in e.label
    )
    return decided(entry)


@pytest.mark.by_default(1)
@pytest.mark.parametrize("formulas", [AMBIGUOUS, HOSTILE, OTHERS], ids=["ambiguous", "hostile", "others"])
def test_what_is_not_read_is_undecided_with_its_place_and_reason(formulas, subtests):
    for formula, reason in formulas.items():
        with subtests.test(formula=formula[:60]):
            claim = only(formula)
            assert claim.verdict == "undecided"
            assert claim.evidence.startswith(("not read: line ", "not an equation: line "))
            assert ", column " in claim.evidence
            assert reason in claim.evidence


def test_what_is_not_read_is_refused_with_the_line_and_column_of_the_file():
    claim = only("x &= y \\\\\n  \\label{eq:bad} a + \\foo &= b", wrap="\\begin{{align}}\n{}\n\\end{{align}}")
    assert claim.label == "eq:bad"
    assert "line 12, column 22: \\foo is not read" in claim.evidence


def test_a_hundred_thousand_braces_are_refused_at_once():
    claim = only("{" * 100_000 + "x" + "}" * 100_000 + " = 1")
    assert "more than 4000 signs" in claim.evidence


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\nx: real\n$$ x = 1 $$", "does not end"),
        ("---\nx real\n---", "is not of the form `name: words`"),
        ("---\nx: real\nx: positive\n---", "x is declared twice"),
        ("---\nalpha: real\n\\alpha: positive\n---", "alpha is declared twice"),
        ("---\nx: postive\n---", "did you mean 'positive'"),
        ("---\nx: ms positive\n---", "a unit stands last"),
        ("---\nx: positive ms in\n---", "'in' is no word and no unit"),
        ("---\nx: positive m/s/2\n---", "a unit is written as"),
        ("---\nx: complex\n---", "'complex' is no word and no unit"),
        ("---\nn: even\n---", "'even' is no word and no unit"),
        ("---\nx: > 0\n---", "is no word and no unit"),
        ("---\nx: positive negative\n---", "x is not positive and negative"),
        ("---\nd: real\n---", "d is kept"),
        ("---\nword: real\n---", "is not one letter"),
        ("---\nx: real in (1, 0)\n---", "no interval"),
        ("---\nx: real in [0, oo]\n---", "no interval"),
        ("---\nx: positive in (0, 1)\n---", "the interval is enough"),
        ("---\nf: function of g\ng: function of h\nh: function of t\n---", "functions of functions of functions"),
        ("---\nf: function of f\n---", "function"),
        ("$$ x = 1", "$$ has no $$"),
        ("\\begin{align} x = 1", "has no \\end{align}"),
        ("\\input{other}", "what stands in another file, or is not printed, is not read"),
        ("\\def\\alpha{2}", "\\alpha is given a meaning of its own"),
        ("\\renewcommand{\\tanh}{\\sin}", "\\tanh is given a meaning of its own"),
        ("\\let\\le=\\ge", "\\le is given a meaning of its own"),
    ],
)
def test_text_that_misleads_is_refused_whole(text, reason):
    with pytest.raises(Unread, match=r"^line \d+, column \d+: ") as refused:
        read_paper(text, "paper", tex=False)
    assert reason in str(refused.value)


def test_code_comments_and_words_are_no_displays():
    code = "".join(f"```{word}\n1 = 2\n```\n" for word in ("text", "python", "tex-log"))  # text begins as tex does
    markdown = f"```\n$$ 1 = 2 $$\n```\n{code}`$$` <!-- $$ 1 = 2 $$ -->\n$$ 1 + 1 = 2 $$"
    tex = "% \\[ 1 = 2 \\]\n\\begin{verbatim} $$ 1 = 2 $$ \\end{verbatim}\\[ 1 + 1 = 2 \\] % $$"
    for text, is_tex in ((markdown, False), (tex, True)):
        assert [decided(e).verdict for e in read_paper(text, "paper", is_tex).entries] == ["holds"]


@pytest.mark.parametrize("word", ["math", "tex", "latex", "math display"])
def test_a_fence_of_mathematics_is_a_display(word):
    assert [decided(e).verdict for e in read_paper(f"```{word}\n1 + 1 = 2\n```", "paper", tex=False).entries] == ["holds"]


def test_an_environment_that_is_not_read_is_undecided_and_one_without_relations_skipped():
    paper = read_paper("\\begin{multline} 1 = 2 \\end{multline} $$ 1 + 1 $$ $$ \\sum_{k=1}^3 k $$", "paper", tex=True)
    assert "the environment multline is not read" in decided(paper.entries[0]).evidence
    assert (len(paper.entries), paper.skipped) == (1, 2)


def test_a_label_of_a_paper_is_given_once():
    paper = read_paper("$$ 1 = 1 \\label{a} $$ $$ 2 = 2 \\label{a} $$", "paper", tex=False)
    assert [decided(e).verdict for e in paper.entries] == ["holds", "undecided"]


def test_an_expression_of_a_paper_stays_as_it_is_written():
    assert only("e^{\\log x} = x").verdict != "holds"  # not where x < 0
    found = only("\\frac{x}{x} = 1")
    assert (found.verdict, found.defined_on) == ("holds under the stated assumptions", ("x != 0",))
