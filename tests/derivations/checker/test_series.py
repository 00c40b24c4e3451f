"""Expansions of functions of which nothing is known but that they are smooth, against SymPy's series of known ones."""

import json

import pytest
from sympy import Derivative, Function, Symbol, exp, factorial, series, sin, tanh

from derivations.finding.limits import find_coefficients
from derivations.prover.limits import Expands, Tends
from derivations.prover.reading import Reading
from derivations.rules.conclusions import concludes
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data
from derivations.rules.terms import ZERO, taken

a, x, u = (Symbol(name, real=True) for name in "axu")
F, G, K = (Function(name, real=True) for name in "FGK")
KNOWN = {F: sin, G: lambda v: v + tanh(v)}


def known(e):
    """The expression of two functions that are known, at a = 3/10."""
    for function, value in KNOWN.items():
        e = e.replace(function, value)
    return e.doit().subs(a, 0.3)


@pytest.mark.by_default(2)
@pytest.mark.parametrize("e", [
    F(a + x), F(a + x * G(a + x)), exp(x * F(a)) * G(a - 2 * x**2), F(a + x * F(a) / 2) - 2 * F(a + x * G(a + x * F(a))),
    G(a + (exp(x * G(a)) - 1) / (G(a) ** 2 + 1)), (F(x) - F(0)) / x, F(a + x).diff(x, 2) * G(x),
])  # fmt: skip
def test_the_coefficients_of_unknown_functions_are_those_of_known_ones(e):
    reading = Reading()
    term, letter = taken(reading.term(e)), reading.term(x)
    values, _ = find_coefficients(term, letter, ZERO, reading.facts, 4)
    expected = series(known(e), x, 0, 4).removeO()
    for k, value in enumerate(values):
        assert float(known(reading.expression(value))) == pytest.approx(float(expected.coeff(x, k)), abs=1e-12)


def taylor(count):
    return F(a) + sum(Derivative(F(a), (a, k)) * x**k / factorial(k) for k in range(1, count))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_taylors_series_holds_and_another_does_not(count):
    statement = Expands(F(a + x), x, taylor(count), count)
    found = statement.decide()
    assert found.holds
    says, steps = (from_data(json.loads(json.dumps(as_data(part)))) for part in (statement.says(), found.certificate))
    assert concludes(says, steps).true
    wrong = taylor(count).subs(x, 2 * x) if count > 1 else 2 * taylor(count)
    assert Expands(F(a + x), x, wrong, count).decide().holds is False


@pytest.mark.parametrize("e", [K(x, x), F(1 / x), F(abs(x)), F(x) / x, F(a + x) ** a], ids=str)
def test_nothing_is_said_where_no_expansion_is_known(e):
    assert Expands(e, x, x - x, 1).decide().holds is None


def test_a_limit_of_an_unknown_function_is_still_undecided():
    assert Tends(F(x), x, 0, F(0)).decide().holds is None  # it may jump, for all that is said of it


def test_a_slope_at_another_place_is_refused():
    statement = Expands(F(a + x), x, taylor(2), 2)
    says, steps = statement.says(), statement.decide().certificate
    moved = json.loads(json.dumps(as_data(steps)).replace('["call", "F", [1], ["v", "a"]]', '["call", "F", [1], ["v", "x"]]'))
    with pytest.raises(NotShown):
        concludes(says, from_data(moved))
