"""The constant clock: what else one could write is refuted."""

import pytest
from sympy import exp

from derivations import Identity, check
from derivations.argument.leaky import free, residual
from derivations.prover import symbols
from derivations.prover.identity import column
from derivations.twins import fields

alpha, s, h0 = symbols.alpha, symbols.s, symbols.h0


def verdict_on(solution, **kinds):
    field = free(fields.leaky(1, 1, **kinds))
    return check(Identity("free regime", "this project", "h' = flow.", residual(field, column(solution), s), column(0)))


def test_free_forgetting_is_exponential():
    assert verdict_on(h0 * exp(-alpha * s)).holds is True


def test_slow_forgetting_is_not_exponential():
    assert verdict_on(h0 * exp(-alpha * s), decay=fields.power_decay(symbols.r)).holds is False


def test_the_free_regime_has_no_letters_but_the_rate():
    assert free(fields.leaky(2, 2)).flow.free_symbols == {alpha, symbols.t}


@pytest.mark.parametrize("wrong", [h0 * exp(-s), h0 * exp(alpha * s), h0 * exp(-alpha * s) + 1, h0 * exp(-(alpha**2) * s)])
def test_nothing_else_is(wrong):
    verdict = verdict_on(wrong)
    assert verdict.verdict == "does not hold as printed"
    assert verdict.counterexample[alpha] > 0
