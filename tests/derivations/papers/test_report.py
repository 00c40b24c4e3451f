"""The report of a paper: equations beside their lines as typed, what was assumed, both sides as numbers, what is lacking."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from derivations import prove_paper
from derivations.report import WORDS
from experiments.derive.page import page_of_report

TEXT = r"""---
t, tau: positive ms
h: function of t mV
h_0: real mV
F: function of x and h
x: function of t
p, s: real
g: function of t
---
$$ \frac{dh}{dt} = -\frac{h}{\tau} \tag{2} $$
$$ s^2 = 2 s + 2 \label{wrong} $$
$$ h(0) = h_0 $$
$$ s > s + 1 \label{turned} $$
$$ \frac{d}{dt} F(x(t), g(t)) = x'(t) \label{slopes} $$
$$ y + q = w p \label{lacks} $$
$$ 2 p = p + p \label{open} $$
$$ 2 \tau = \tau + \tau \label{fine} $$
$$ c: \mathbb{R} \to \mathbb{R} \label{map} $$
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    file = tmp_path_factory.mktemp("paper") / "note.md"
    file.write_text(TEXT)
    return prove_paper(file)


def rows(report, label):
    """What is said of an equation, by verdict: its words and its rows."""
    part = next(part for part in report.parts if part.excerpt.title.endswith(label))
    return {f.verdict: dict(f.shown) for f in part.findings if f.words != "its units agree"}


def test_equations_stand_in_the_order_of_lines_under_their_numbers_and_as_typed(report):
    titles = [part.excerpt.title for part in report.parts]
    assert titles[:4] == ["line 10, (2)", "line 11, wrong", "line 12", "line 13, turned"]
    assert [part.excerpt.typed for part in report.parts] == TEXT.splitlines()[9:]


def test_the_summary_counts_what_is_read_refuted_undecided_and_no_equation(report):
    assert report.summary[0].startswith("7 equations read, 2 of them to define or suppose something; 1 not read; 1 that is no")
    assert "do not hold as printed, with numbers" in report.summary[1]
    assert report.summary[2] == "Exit status 1: not all is proved."
    assert not report.proved


def test_what_is_refuted_shows_the_numbers_of_both_sides_as_they_are_printed(report):
    refuted = rows(report, "turned")["does not hold as printed"]
    left, right = (float(refuted[side][0]) for side in ("left side", "right side"))
    assert right == left + 1


def test_slopes_are_written_in_the_reader_s_notation(report):
    shown = str(report)
    assert "D_1 F(x(t), g(t)) = " in shown
    assert not any(word in shown for word in ("Derivative", "Subs(", "_xi", "d/d'", "**"))


def test_what_is_not_read_says_which_line_is_missing_and_what_it_leaves_open(report):
    (lacking,) = (dict(f.shown) for part in report.parts if part.excerpt.title.endswith("lacks") for f in part.findings)
    assert lacking["add"] == ["y, q, w: real"]
    assert "open" in lacking["leaves open"][0]
    assert rows(report, "open")["undecided"]["add"] == ["y, q, w: real"]
    assert "line 15, column 4" in rows(report, "open")["undecided"]["because"][0]


def test_a_line_that_was_added_as_asked_makes_the_rest_decided(report, tmp_path):
    (tmp_path / "note.md").write_text(TEXT.replace("p, s: real", "p, s, y, q, w: real"))
    assert rows(prove_paper(tmp_path / "note.md"), "open") == {"holds": {"for": ["p real"]}}


def test_a_terminal_of_80_columns_cuts_nothing_but_words_that_are_longer(report):
    assert max(map(len, report.lines())) <= 80
    marked = list(report.lines())
    place = next(k for k, line in enumerate(marked) if line.startswith("line 15"))
    assert marked[place + 2].index("^") == marked[place + 1].index("y + q")


class Tags(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.open, self.text = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("write", [page_of_report, lambda report, _: report._repr_html_()], ids=["page", "notebook"])
def test_a_page_and_a_notebook_show_the_lines_and_the_verdicts_and_close_their_tags(report, write):
    page = Tags(write(report, "ctrnn prove note.md"))
    assert not page.open
    text = "".join(page.text)
    for part in report.parts:
        assert part.excerpt.title in text
        assert all(finding.verdict in text for finding in part.findings)


def test_names_and_lines_of_a_paper_are_text_and_no_markup(tmp_path):
    (tmp_path / "note.md").write_text("---\nx: real\n---\n$$ x < \\max(x, 1) \\label{<script>*a*} $$\n")
    report = prove_paper(tmp_path / "note.md")
    assert "<script>" not in report._repr_html_() + page_of_report(report, "<script>")
    assert r"## line 4, \<script\>\*a\*" in report.markdown()  # below it, in a fence, as it is typed


def test_markdown_has_a_heading_for_each_line_and_formulas_between_dollars(report):
    text = report.markdown()
    assert "## line 10, (2)\n\n```\n" + TEXT.splitlines()[9] + "\n```\n" in text
    assert r"**supposed**: $\frac{d}{d t} h{\left(t \right)} = - \frac{h{\left(t \right)}}{\tau}$" in text


def test_every_verdict_has_words_for_one_and_for_several():
    assert {words.single for words in WORDS.values()} >= {"holds", "does not hold as printed", "undecided"}


def test_a_file_that_is_not_there_or_says_nothing_on_top_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        prove_paper(tmp_path / "none.md")
    Path(tmp_path / "bad.md").write_text("---\nx is real\n---\n")
    with pytest.raises(ValueError, match="line 2, column 1"):
        prove_paper(tmp_path / "bad.md")


CHAIN = r"""---
a, b: positive
---
\begin{align}
(a + b)^2 &= a^2 + 2 a b + b^2 \\
 &\ge 4 a b > 4 a^2
\end{align}
$$ \ln(2) \approx 0.70 $$
$$ \sin(a) = a + a^2 + O(a^3) $$
$$ 1 = 2 $$
"""


def test_steps_and_relations_stand_as_they_are_printed_with_their_sides(tmp_path):
    (tmp_path / "note.md").write_text(CHAIN)
    steps, digits, series, numbers = (part.findings for part in prove_paper(tmp_path / "note.md").parts)
    assert [(f.verdict, f.words, dict(f.shown)["read as"][0].rel_op) for f in steps[1:]] == [
        ("holds", "step 2 of 3", ">="),
        ("does not hold as printed", "step 3 of 3", ">"),
    ]
    assert str(digits[0].words) == "log(2), rounded 0.70"
    assert dict(digits[0].shown)["because"] == ["number = 0.693147180560"]
    assert {"a coefficient", "as printed"} <= dict(series[0].shown).keys()
    assert dict(numbers[0].shown) == {"left side": ["1"], "right side": ["2"]}


LEFT_OPEN = r"""---
x, w, b: real
{}---
$$ z = w x + b \tag{1} $$
$$ 2 w = \max(z, 0) $$
$$ z - b = w x \tag{3} $$
"""


def test_what_a_line_on_top_is_said_to_decide_it_decides(tmp_path):
    file = tmp_path / "note.md"
    file.write_text(LEFT_OPEN.replace("{}", ""))
    (line,) = rows(prove_paper(file), "(3)")["undecided"]["add"]
    assert line == "equations: (3) is by (1)"
    file.write_text(LEFT_OPEN.replace("{}", f"{line}\n"))
    assert rows(prove_paper(file), "(3)").keys() == {"holds"}


PATH = r"""---
t: positive
h: nonnegative function of t
solves: (3) is (1), (2)
---
$$ r := 2 $$
$$ \frac{dh}{dt} = r \sqrt{h} \tag{1} $$
$$ h(0) = 0 \tag{2} $$
$$ h(t) = t^2 \tag{3} $$
$$ h(2) = 4 \tag{4} $$
"""


def test_a_path_is_shown_with_each_of_its_equations_once_and_stands_for_its_function(tmp_path):
    (tmp_path / "note.md").write_text(PATH)
    path = rows(prove_paper(tmp_path / "note.md"), "(3)")["holds"]
    assert [formula.words for formula in path["read as"]] == ["h(t) = t^2", "h'(t) = r*sqrt(h(t))", "h(0) = 0"]
    then = rows(prove_paper(tmp_path / "note.md"), "(4)")["holds"]
    assert then["by"] == ["(3): h(t) = t^2"]  # though h = 0 solves (1) and (2), too: no path is shown to be the only one
