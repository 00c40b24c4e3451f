"""Verdicts, claims and systems show themselves in notebooks: as tables whose tags close, with every name escaped."""

import re
from html.parser import HTMLParser

import pytest
import torch
from sympy import Symbol
from torch import nn

import derivations
from derivations import check, symbolic, verify
from derivations.claim import Entry, Mutation, decided
from derivations.prover.identity import Identity
from derivations.prover.statements import Equal
from derivations.twins import fields

a, b = Symbol("a", real=True), Symbol("b", real=True)
ODD = '<script>alert("&")</script> $x^2$ \\frac{'


class Page(HTMLParser):
    """Every tag that opens closes; text by cell, and attributes that run code are none."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text = [], set(), []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def __contains__(self, words):
        return words in " ".join(self.text)


class Cell(nn.Module):
    """x sqrt(h) with a weight of any name."""

    input_size, hidden_size = 1, 1

    def __init__(self, name):
        super().__init__()
        self.name = name
        self.register_parameter(name, nn.Parameter(torch.ones(1)))

    def forward(self, x, h):
        return x * h.sqrt() * self.get_parameter(self.name)


def test_a_proof_shows_what_is_proved_where_and_how_much_is_to_be_checked():
    page = Page(verify(Cell("w"), symbolic(Cell("w")))._repr_html_())
    for words in ("holds under the stated assumptions", "The code of Cell is the equations", "defined on", "1 certificate, "):
        assert words in page
    assert "math" in page.tags


def test_a_refutation_shows_its_numbers():
    verdict = check(Identity("sum", "this project", "a = b.", a, b))
    assert "counterexample" in Page(verdict._repr_html_())
    rows = verdict._repr_latex_().splitlines()
    assert r"\text{verdict} & \text{does not hold as printed} \\" in rows
    assert any(row.startswith(r"\text{counterexample} & a = ") for row in rows)


def test_a_claim_shows_its_words_its_formulas_and_what_it_is_for():
    wrong = Mutation("a minus", Equal(a + b, a - b))
    entry = Entry("this project", "<label>", "Sums & <sums>", (Equal(a + b, b + a),), ("a < b",), wrong)
    page = Page(decided(entry)._repr_html_())
    for words in ("holds under the stated assumptions", "<label>", "Sums & <sums>", "a < b", "certificate"):
        assert words in page
    assert not page.tags & {"label", "sums"}


def test_an_empty_row_of_a_notebook_is_left_out():
    assert "counterexample" not in Page(check(Identity("same", "this project", "", a, a))._repr_html_())


def test_names_of_the_user_are_text_and_no_commands():
    cell = Cell(ODD)
    system = symbolic(cell)
    refuted = verify(cell, [2 * system.flow[0]])
    for shown in (system, refuted):
        page = Page(shown._repr_html_())
        assert not page.tags & {"script", "b", "img"}
        assert ODD in page
        latex = shown._repr_latex_()
        assert not re.search(r"(?<!\\)(\$x|&\"|frac\{)|x\^", latex.replace("\\frac{\\mathtt", ""))
        written = latex.replace("\\{", "").replace("\\}", "")
        assert written.count("{") == written.count("}")


def test_a_primed_letter_in_the_equations_of_a_cell_is_not_an_index():
    class Doubling(torch.nn.Module):
        input_size, hidden_size = 1, 1

        def forward(self, x, h):
            return 2 * h + x

    assert derivations.symbolic(Doubling()).latex() == r"{h_{1}'} &= 2 h_{1} + x_{1}"


UNITS = {"rnn": derivations.rnn_cell, "gru": derivations.gru_cell, "lstm": derivations.lstm_cell}


@pytest.mark.parametrize("name", list(UNITS))
def test_equations_of_each_unit_show_one_line_for_each_part_of_the_state(name):
    equations = UNITS[name]()
    assert Page(equations._repr_html_()).tags >= {"math", "table"}
    assert equations._repr_latex_().count(" = ") >= len(equations.units)


def test_what_a_class_of_fields_absorbs_is_shown_as_text_and_as_a_table():
    found = derivations.closed_under(fields.leaky(1, 1))
    assert str(found).splitlines()[:2] == ["absorbs             rescaling", "for                 c' is a constant"]
    assert "by                  alpha' = alpha*c'" in str(found)
    page = Page(found._repr_html_())
    assert "rescaling" in page
    assert "math" in page.tags
