"""Certificates made by hand for falsehoods: the checker refuses them."""

import pytest
from flint import fmpq

from derivations.checker.numbers import differs
from derivations.checker.quotients import NotShown
from derivations.checker.rules import POSITIVE, equal, sign_of
from derivations.checker.terms import ONE, ZERO, add, mul, neg, number, power, variable

X, Y = variable("x"), variable("y")
REAL = {X: frozenset({"real"}), Y: frozenset({"real"})}


def test_a_pole_of_a_factor_hides_no_zero():
    inner = {"how": "shows", "generators": [X]}
    proof = {"how": "product", "generators": [X], "factors": [(power(X, number(-1)), -2, (-1, 1), inner)]}
    with pytest.raises(NotShown):
        sign_of(power(X, number(2)), POSITIVE, REAL, proof)


def test_only_letters_and_values_of_functions_are_given_numbers():
    with pytest.raises(NotShown):
        differs(ONE, ONE, {}, {("int", "$0", ONE, ZERO, ONE): fmpq(2), ONE: fmpq(3)})


def test_an_integral_with_reversed_ends_has_no_positive_letter():
    t = variable("$0")
    body, half = ("piece", t, neg(t), ZERO, t), number(1, 2)
    term = ("int", "$0", body, ZERO, number(-1))
    line = ("antiderivative", mul(half, power(t, number(2))), [t], [])
    with pytest.raises(NotShown):
        equal(term, half, {}, {"split": [], "cases": [{"signs": (), "generators": [t], "lines": [(term, line)]}]})


def test_a_pole_of_gamma_is_no_zero():
    gap = add(X, neg(Y))
    above, at = ("gamma", add(gap, ONE)), ("gamma", gap)
    lhs = ("piece", gap, ZERO, above, ZERO)
    cases = [{"signs": (s,), "generators": [X, Y, at], "lines": [(above, (at, 1))]} for s in (-1, 0, 1)]
    with pytest.raises(NotShown):
        equal(lhs, ZERO, REAL, {"split": [gap], "cases": cases})
