"""The report of code: its lines as typed, each with the mathematics that was read from it, and the numbers of both sides."""

import pytest
import torch
from torch import nn

import ctrnn
from derivations import Identity, check, gru_cell, symbolic, verify


class Leaky(nn.Module):
    input_size, hidden_size = 1, 2

    def __init__(self):
        super().__init__()
        self.rate, self.aim = nn.Parameter(torch.ones(2)), nn.Linear(1, 2)

    def mixed(self, u):
        doubled = 2 * u
        return doubled + 1

    def forward(self, x, h):
        rate = torch.sigmoid(self.rate)
        aim = torch.tanh(self.aim(x))
        for _ in range(2):
            aim = aim * aim
        first, second = h.chunk(2, -1)
        both = self.mixed(h) + self.mixed(rate)
        x = 3 * x
        scaled = x * rate
        return (1 - rate) * h + rate * aim + (both - both) * scaled + torch.cat([first, second], -1)


def mathematics(excerpt):
    return {line.text.strip(): [formula.words for formula in line.formulas] for line in excerpt.lines if line.text.strip()}


@pytest.fixture(scope="module")
def leaky():
    return Leaky()


@pytest.fixture(scope="module")
def beside(leaky):
    report = verify(leaky, list(symbolic(leaky).flow)).report()
    assert report.proved
    return mathematics(report.parts[0].excerpt)


KNOWN = {
    "rate = torch.sigmoid(self.rate)": ["rate_1 = 1/(1 + exp(-rate[0]))"],
    "aim = torch.tanh(self.aim(x))": ["aim_1 = tanh(aim.bias[0] + aim.weight[0,0]*x_1)"],
    "aim = aim * aim": [],  # several times
    "doubled = 2 * u": [],  # from two places
    "both = self.mixed(h) + self.mixed(rate)": ["both_1 = 2*h_1 + 2*rate_1 + 2"],
    "x = 3 * x": [],  # its name is that of an input
    "scaled = x * rate": ["scaled_1 = 3*rate_1*x_1"],
    "first, second = h.chunk(2, -1)": [],
    "return (1 - rate) * h + rate * aim + (both - both) * scaled + torch.cat([first, second], -1)": [
        "h_1' = h_1*(1 - rate_1) + h_1 + rate_1*tanh(aim.bias[0] + aim.weight[0,0]*x_1)^4"
    ],
}


@pytest.mark.by_default(3)
@pytest.mark.parametrize("line", KNOWN)
def test_a_line_stands_beside_what_it_computes_in_the_names_of_lines_before_it(beside, line):
    assert beside[line] == KNOWN[line]


def test_what_is_refuted_shows_the_numbers_of_torch_and_of_what_was_asked(leaky):
    flow = symbolic(leaky).flow
    shown = str(verify(leaky, [flow[0], flow[1] + 1]).report())
    assert "NOT SO" in shown
    assert "all letters 0" in shown
    assert "h_2: torch 0, asked 1" in shown
    assert "rate = torch.sigmoid(self.rate)" in shown
    assert max(map(len, shown.splitlines())) <= 80 or "return (1 - rate)" in max(shown.splitlines(), key=len)


@pytest.mark.slow
def test_a_field_of_the_library_and_a_cell_of_torch_have_reports():
    report = verify(ctrnn.gated(1, 1)).report()
    assert any("self.rate.flow(to_rate, h)" in line.text and line.formulas for line in report.parts[0].excerpt.lines)
    report = verify(nn.GRUCell(1, 2), gru_cell()).report()
    assert report.proved
    assert report.parts[0].excerpt is None  # torch's own lines are none of the user's
    assert "for weights of every width" in str(report)


def test_a_notebook_shows_the_code_and_a_verdict_of_no_code_has_no_report(leaky):
    shown = verify(leaky, list(symbolic(leaky).flow))._repr_html_()
    assert "rate = torch.sigmoid(self.rate)" in shown
    assert "<math" in shown

    h = symbolic(leaky).state[0]
    with pytest.raises(ValueError, match="no code to report of"):
        check(Identity("", "", "", h, h)).report()
