"""What is not proved: one refuted unit refutes all, what is undecided names its unit, and no answer takes forever."""

import pytest
import torch
from ncps.torch.ltc_cell import LTCCell
from ncps.wirings import FullyConnected
from sympy import Max, ceiling, exp, log, symbols
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from derivations import symbolic, verify, verify_gradient
from derivations.prover.identity import Identity
from derivations.prover.timelimit import OutOfTime
from derivations.tracing import decision

# Out of time within a destructor or a callback of the garbage collector is printed and lost: it comes again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

h = symbols("h_1:3", real=True)


class Cell(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.input_size, self.hidden_size, self.code = 2, 2, code

    def forward(self, x, h):
        return self.code(x, h)


half_open = Cell(lambda x, h: torch.stack([torch.floor(h[:, 0]), h[:, 1].clamp(min=22)], -1))


@pytest.mark.parametrize("second", [h[1] + 100, 22])  # at any numbers, and at few alone
def test_an_undecided_unit_hides_no_refuted_one(second):
    verdict = verify(half_open, [-ceiling(-h[0]), second])
    assert verdict.holds is False
    assert "entry 2" in verdict.evidence
    assert verdict.replay().differs


def test_undecided_says_of_which_unit_and_what_its_sides_are():
    verdict = verify(half_open, [-ceiling(-h[0]), Max(h[1], 22)])
    assert verdict.holds is None
    assert (
        "unit 1: neither proved equal nor found different where both are defined: floor(h_1) and -ceiling(-h_1)"
        in verdict.evidence
    )
    assert "unit 2" not in verdict.evidence


def test_a_verdict_says_that_softplus_is_linear_above_20():
    verdict = verify(Cell(lambda x, h: F.softplus(h, threshold=10)), [log(1 + exp(u)) for u in h])
    assert verdict.holds is False  # with torch's own threshold it holds but for rounding
    assert "softplus is x itself where x > 20" in verdict.evidence


def test_what_both_sides_share_need_not_be_read():
    normed = Cell(lambda x, h: torch.tanh(x + torch.relu(F.layer_norm(h, (2,)))))
    system = symbolic(normed)
    assert verify(normed, system).verdict == "holds"
    assert verify(normed, [2 * f for f in system.flow]).holds is False


def forever(x, h):
    while True:
        pass


@pytest.mark.parametrize("prove", [lambda cell: verify(cell, h, seconds=0.05), lambda cell: verify_gradient(cell, seconds=0.05)])
def test_no_verdict_takes_longer_than_asked_for(prove):
    verdict = prove(Cell(forever))
    assert verdict.verdict == "undecided"
    assert verdict.evidence.startswith("out of time, after 0.05 s, while torch recorded the code; fewer units take less")


def test_reading_code_takes_no_longer_than_asked_for():
    with pytest.raises(TimeoutError, match=r"out of time, after 0\.05 s, while torch recorded the code"):
        symbolic(Cell(forever), seconds=0.05)


def test_the_unit_at_which_time_is_up_is_named(monkeypatch):
    checks = iter([decision.check(Identity("h", "this project", "", h[0], h[0])), OutOfTime])

    def checked(identity):
        if (answer := next(checks)) is OutOfTime:
            raise OutOfTime
        return answer

    monkeypatch.setattr(decision, "check", checked)
    assert "at unit 2 of 2, while it was proved equal" in verify(Cell(lambda x, h: h), h).evidence


@pytest.mark.slow
def test_three_steps_of_a_published_cell_are_proved_by_the_functions_that_both_sides_share():
    cell = LTCCell(FullyConnected(1, 1), 1, ode_unfolds=3)
    system = symbolic(cell)
    verdict = verify(cell, system, seconds=None)
    assert verdict, verdict.evidence
    assert "whatever the functions are that they share" in verdict.evidence
    assert set(system.defined_on) <= set(verdict.defined_on)
    refuted = verify(cell, [system.flow[0] + system.state[0] / 1000], seconds=None)
    assert refuted.holds is False
    assert refuted.replay().differs
