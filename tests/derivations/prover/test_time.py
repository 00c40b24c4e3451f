"""What takes too long is undecided, and says so: statements, changes of time and closed classes."""

import pytest
from sympy import exp, symbols

import derivations
import derivations.argument.clocks
import derivations.closure
import derivations.prover.identity
import derivations.prover.inequalities
import derivations.prover.limits
from derivations.prover import symbols as letters
from derivations.prover.cases import Every
from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal
from derivations.prover.verdict import UNDECIDED
from derivations.twins import fields

# Out of time within a destructor or a callback of the garbage collector is printed and lost: it comes again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

x, t = symbols("x", real=True), letters.t
A_MOMENT = 0.05


def endless(*_, **__):
    while True:
        pass


def cases():
    while True:
        yield {}, (0, "=", 0)


HARD = {
    "prover.identity.prove_equal": Equal(x + x, 2 * x),
    "prover.inequalities.prove_less": Less(x, exp(x)),
    "prover.limits.find_limit": Tends(x, x, 0, 0),
    "prover.limits.find_coefficients": Expands(exp(x), x, 1 + x, 2),
    "": Every("all numbers", cases),
}


@pytest.mark.parametrize("name", HARD)
def test_a_statement_that_takes_longer_than_it_may_is_undecided_and_says_so(name, monkeypatch):
    if name:
        monkeypatch.setattr(f"derivations.{name}", endless)
    verdict = HARD[name].decide(seconds=A_MOMENT)
    assert verdict.verdict == UNDECIDED
    assert verdict.evidence.startswith(f"out of time after 0.05 s, while a proof of this {HARD[name].kind} was looked for")


def test_an_identity_a_clock_and_a_class_of_fields_say_that_time_is_up(monkeypatch):
    monkeypatch.setattr(derivations.prover.identity, "prove_equal", endless)
    assert "out of time" in derivations.check(derivations.Identity("i", "s", "", x + x, 2 * x), seconds=A_MOMENT).evidence
    monkeypatch.setattr(derivations.argument.clocks, "clock_conditions", endless)
    with pytest.raises(ValueError, match=r"out of time after 0\.05 s, while it was looked for whether it increases"):
        derivations.clock(t + t**2, seconds=A_MOMENT)
    monkeypatch.setattr(derivations.closure, "_readings", endless)
    with pytest.raises(derivations.UnknownRate, match=r"out of time after 0\.05 s"):
        derivations.closed_under(fields.gru(), seconds=A_MOMENT)


@pytest.mark.slow
def test_the_inverse_of_a_steep_clock_is_not_solved_for():
    clock = derivations.clock(t - exp(-((t - 50) ** 2) * 10**4) / 100)
    assert clock.inverse is None
    assert len(clock.conditions) == 1
