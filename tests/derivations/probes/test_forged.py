"""Certificates made by hand for falsehoods: the checker refuses them, also when they come as data."""

import json
from itertools import product

import pytest
from flint import fmpq, fmpz_poly

from derivations.rules.equality import equal
from derivations.rules.grammar import check_terms
from derivations.rules.numbers import differs
from derivations.rules.positivity import POSITIVE, sign_of
from derivations.rules.quotients import NotShown, real_roots
from derivations.rules.replay import as_data, from_data, replay
from derivations.rules.terms import ONE, ZERO, add, differentiate, mul, neg, number, power, substitute, variable

X, Y, Z, BOUND, I = variable("x"), variable("y"), variable("z"), variable("$0"), ("i",)
REAL = {X: frozenset({"real"}), Y: frozenset({"real"})}
POSITIVE_LETTER = frozenset({"real", "positive"})
INFINITE = ("oo",)
BY_SERIES = {"how": "change", "change": ("power", 1), "order": 3, "generators": [], "lines": []}


def shows(*generators, lines=()):
    return {"how": "shows", "generators": list(generators), "lines": list(lines)}


def less(lower, upper, proof, facts=None, region=(), strict=True):
    claim = {"lower": lower, "upper": upper, "strict": strict, "region": region, "facts": facts or {}}
    return {"rule": "less", **claim, "proof": proof}


def same(lhs, rhs, generators=(), lines=(), split=(), facts=None):
    cases = [{"signs": s, "generators": generators, "lines": lines} for s in product((-1, 0, 1), repeat=len(split))]
    return {"rule": "equal", "lhs": lhs, "rhs": rhs, "facts": facts or {}, "proof": {"split": split, "cases": cases}}


def limit(term, value, facts=REAL, **proof):
    return {"rule": "limit", "term": term, "letter": X, "point": number(3), "side": "+", "value": value, "facts": facts,
            "proof": {**BY_SERIES, **proof}}  # fmt: skip


def root(term):
    return ("^", term, number(1, 2))


def square(term, *generators):
    """Not negative, if the sign of what is squared can be any."""
    return {"how": "product", "generators": generators, "factors": [(term, 2, (-1, 0, 1), shows(*generators))]}


def falls_from(name):
    """A letter of this name below 2 x for all x > 0, by the limit at 0."""
    b = variable(name)
    proof = {"how": "rises", "letter": X, "strictly": True, "generators": [X, b], "lines": [], "limit": ZERO, "value": shows(),
             "start": {**BY_SERIES, "generators": [b]}, "slope": shows(X, b)}  # fmt: skip
    return less(b, mul(number(2), X), proof, {X: POSITIVE_LETTER, b: POSITIVE_LETTER})


def at_zero(term):
    return ("at", "x", ("diff", "x", term), ZERO)


GAMMA_OF_ONE, NEARLY_ONE = ("gamma", ("+", ZERO, ONE)), add(power(root(number(2)), number(2)), number(-2))
GAMMA_OF_ROOTS = ("gamma", add(NEARLY_ONE, ONE))
ONE_LONG = ("int", "$0", ONE, ZERO, ONE)
IMPROPER = ("int", "$0", mul(power(X, number(3)), ("exp", mul(number(-1), power(X, number(2)), BOUND))), ZERO, INFINITE)
SIGN_OF_BOUND = ("piece", BOUND, number(-1), ZERO, ONE)
STEP = ("piece", ("piece", X, number(-1), ONE, ONE), ZERO, ZERO, number(5))
OUTER = ("+", X)
HELD = ("int", "$0", BOUND, ZERO, ONE)
LARGE = ("int", "$0", add(number(9), variable("$0+")), ZERO, ONE)
CALL = ("call", "f", (0,), X)
FORGED = {
    "a fraction with a negative denominator": less(ZERO, ("q", 1, -2), shows()),
    "0^0 has no sign": less(ZERO, ("*", number(-1), ("^", ZERO, ZERO)), shows()),
    "i^2 is a square": less(ZERO, power(I, number(2)), square(I, I), strict=False),
    "the square of what is not real": less(ZERO, power(Z, number(2)), square(Z, Z), strict=False),
    "the end of a region is the letter that runs through it": less(
        X, Y, shows(variable("x+"), variable("y+")), REAL, [(X, ZERO, INFINITE), (Y, variable("x+"), INFINITE)]),
    "a region for a number": less(number(4), ONE, shows(variable("1+")), {}, [(ONE, number(5), INFINITE)]),
    "a region for a bound letter": less(
        number(4), HELD,
        shows(variable("$0+"), lines=[(LARGE, ("antiderivative", mul(BOUND, LARGE[2]), [BOUND, variable("$0+")], []))]),
        {BOUND: frozenset({"real"})}, [(BOUND, number(9), INFINITE)]),
    "a product that begins at a pole of gamma": same(
        GAMMA_OF_ONE, ZERO, [("gamma", ZERO)], [(GAMMA_OF_ONE, (("gamma", ZERO), 1))]),
    "a product that begins at a hidden pole of gamma": same(
        GAMMA_OF_ROOTS, ZERO, [("root", number(2), 2), ("gamma", NEARLY_ONE)],
        [(GAMMA_OF_ROOTS, (("gamma", NEARLY_ONE), 1)), (root(number(2)), ("root", [(number(2), 1)]))]),
    "a derivative by a bound letter": same(
        ("diff", "$0", HELD), ONE, [], [(ONE_LONG, ("antiderivative", BOUND, [BOUND], []))]),
    "a derivative under an integral to infinity": same(at_zero(IMPROPER), ZERO),
    "a derivative by an end where the body jumps": same(at_zero(("int", "$0", SIGN_OF_BOUND, ZERO, X)), ZERO),
    "a derivative where what a piece goes by jumps": same(at_zero(STEP), ZERO),
    "the letter of a series is taken": falls_from("0+"),
    "the letter of a logarithm is taken": falls_from("-log"),
    "a limit of a derivative that was put in": limit(("diff", "x", power(X, number(2))), ZERO),
    "a limit where -1 > 0": limit(X, number(3), where=[(">", number(-1))]),
    "a limit where x > 0 > x": limit(X, number(3), where=[(">", Y), (">", neg(Y))], generators=[Y]),
    "a limit on a condition on its letter": limit(X, number(3), where=[("!=", variable("x~"))], generators=[variable("x~")]),
    "infinity less infinity": same(("+", INFINITE, ("*", number(-1), INFINITE)), ZERO, [INFINITE]),
    "facts that contradict each other": less(ZERO, neg(X), shows(X), {X: frozenset({"positive", "negative"})}),
    "facts about a number": less(ZERO, ONE, shows(), {number(1, 2): frozenset({"integer"})}),
    "a logarithm of -1": less(
        ("log", number(-1)), add(("log", number(-1)), ONE),
        shows(("logabs", number(-1)), lines=[(("log", number(-1)), [(number(-1), 1)])])),
    "an unknown function is real": less(
        ZERO, power(("noise", X), number(2)), square(("noise", X), ("noise", X)), REAL, strict=False),
    "the slope of a function with whole values": {
        "rule": "differs", "lhs": ("call", "f", (1,), X), "rhs": ZERO, "facts": {CALL: frozenset({"real", "integer"})},
        "numbers": {X: fmpq(0), CALL: fmpq(1), ("call", "f", (1,), X): fmpq(1)}},
    "zero has no side": same(
        ("piece", OUTER, ZERO, ZERO, ("log", ONE)), ("piece", ("^", ZERO, number(-1)), ONE, ONE, ONE), split=[OUTER]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_certificates_are_refused(name):
    with pytest.raises((NotShown, ValueError)):
        replay(from_data(json.loads(json.dumps(as_data(FORGED[name])))))


@pytest.mark.parametrize("number_", [("q", 2, 4), ("q", 1, 0), ("q", 0, 2), ("q", True, 1), ("q", 1.0, 1), ("q", 1)])
def test_a_fraction_has_one_way_to_be_written(number_):
    with pytest.raises(NotShown):
        replay(same(number_, number_))


@pytest.mark.parametrize(
    "term",
    [("tanh", X, Y), ("*", "x"), ("call", "f", (0, 0), X), ("call", "f", ("x",), X), ("int", "$0", ONE, ZERO, BOUND),
     ("+", BOUND, HELD), ("int", "$0", HELD, ZERO, ONE), ("piece", X, ONE, ONE), ("lim", "$0", ONE, ZERO, "up"), ("oo",),
     ("exp", INFINITE), ("croot", (-2, 0, 1), -1), ("sine", X)],
)  # fmt: skip
def test_what_is_no_term_is_refused(term):
    with pytest.raises(NotShown):
        check_terms([("+", ONE, term)])


def test_real_roots_of_a_polynomial_are_in_order_however_close():
    large = 10**30
    roots = real_roots(fmpz_poly([-large, 1]) * fmpz_poly([-(large**2) - 1, large]) * fmpz_poly([-2 * large, 1]))
    assert roots[0] < roots[1] < roots[2]


def test_a_case_where_the_split_is_not_defined_is_none():
    lines = [(root(X), ("root", [(X, 1)]))]
    seven = same(("piece", OUTER, ZERO, ZERO, ZERO), ("piece", OUTER, number(7), ZERO, ZERO), [X, ("root", X, 2)], lines,
                 [OUTER, root(X)], REAL)  # fmt: skip
    assert (">=", X) in replay(seven)  # where the root of x is, and below 0 the sides are 0 and 7


def test_a_pole_of_a_factor_hides_no_zero():
    proof = {"how": "product", "generators": [X], "factors": [(power(X, number(-1)), -2, (-1, 1), shows(X))]}
    with pytest.raises(NotShown):
        sign_of(power(X, number(2)), POSITIVE, REAL, proof)


def test_only_letters_and_values_of_functions_are_given_numbers():
    with pytest.raises(NotShown):
        differs(ONE, ONE, {}, {("int", "$0", ONE, ZERO, ONE): fmpq(2), ONE: fmpq(3)})
    with pytest.raises(NotShown):
        differs(add(X, Y, neg(X)), Y, REAL, {X: 1e16, Y: 1.0})


def test_an_integral_with_reversed_ends_has_no_positive_letter():
    body, half = ("piece", BOUND, neg(BOUND), ZERO, BOUND), number(1, 2)
    term = ("int", "$0", body, ZERO, number(-1))
    line = ("antiderivative", mul(half, power(BOUND, number(2))), [BOUND], [])
    with pytest.raises(NotShown):
        equal(term, half, {}, {"split": [], "cases": [{"signs": (), "generators": [BOUND], "lines": [(term, line)]}]})


def test_a_pole_of_gamma_is_no_zero():
    gap = add(X, neg(Y))
    above, at = ("gamma", add(gap, ONE)), ("gamma", gap)
    lhs = ("piece", gap, ZERO, above, ZERO)
    cases = [{"signs": (s,), "generators": [X, Y, at], "lines": [(above, (at, 1))]} for s in (-1, 0, 1)]
    with pytest.raises(NotShown):
        equal(lhs, ZERO, REAL, {"split": [gap], "cases": cases})


def test_a_table_with_a_key_twice_is_refused():
    with pytest.raises(NotShown, match="twice"):
        from_data({"pairs": [[["v", "x"], {"set": ["real"]}], [["v", "x"], {"set": ["positive"]}]]})


def test_nothing_that_is_put_in_is_captured_by_a_bound_letter():
    assert substitute(HELD, {BOUND: X}) == HELD
    with pytest.raises(ValueError, match="bound"):
        substitute(("int", "$0", mul(X, BOUND), ZERO, ONE), {X: BOUND})
    assert differentiate(HELD, "$0") == ZERO


def test_a_power_too_high_to_be_multiplied_out_is_refused_at_once():
    tower = power(number(2), number(10**12))
    with pytest.raises(NotShown, match="too high"):
        replay(same(("+", tower, ZERO), tower))
