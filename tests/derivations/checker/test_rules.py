"""Each rule of the checker holds back a falsehood that would pass without it."""

import pytest
from flint import fmpq

from derivations.rules.quotients import NotShown
from derivations.rules.replay import replay
from derivations.rules.terms import ONE, ZERO, add, divide, mul, neg, number, power, variable

X, Y, Z, N, T = map(variable, ("x", "y", "z", "n", "$0"))
REAL = {letter: frozenset({"real"}) for letter in (X, Y)}
ABOVE = {letter: frozenset({"real", "positive"}) for letter in (X, Y)}
WHOLE = {**REAL, N: frozenset({"real", "integer", "positive"})}
NO_SIGN = frozenset({"real", "nonnegative"})
OO, TWO, LOG = ("oo",), number(2), variable("-log")


def same(lhs, rhs, facts=ABOVE, generators=(), lines=(), split=(), signs=((),)):
    cases = [{"signs": s, "generators": generators, "lines": lines} for s in signs]
    return {"rule": "equal", "lhs": lhs, "rhs": rhs, "facts": facts, "proof": {"split": split, "cases": cases}}


def less(lower, upper, proof, facts=ABOVE, strict=True):
    return {"rule": "less", "lower": lower, "upper": upper, "strict": strict, "region": (), "facts": facts, "proof": proof}


def shows(*generators, lines=()):
    return {"how": "shows", "generators": generators, "lines": lines}


def rises(upper, start, slope, facts=ABOVE):
    return less(ZERO, upper, {"how": "rises", "letter": X, "strictly": True, "generators": [X], "lines": [], "start": start,
                              "slope": slope}, facts)  # fmt: skip


def product(*factors):
    return {"how": "product", "factors": factors, "generators": [X], "lines": []}


def differs(lhs, rhs, numbers, facts=REAL):
    return {"rule": "differs", "lhs": lhs, "rhs": rhs, "facts": facts, "numbers": {k: fmpq(v) for k, v in numbers.items()}}


def limit(term, value, point=ZERO, facts=REAL, how="change", change=("power", 1), generators=(), lines=()):
    proof = {"how": how, "change": change, "order": 3, "generators": generators, "lines": lines}
    return {
        "rule": "limit",
        "term": term,
        "letter": X,
        "point": point,
        "side": "+",
        "value": value,
        "facts": facts,
        "proof": proof,
    }


def series(term, *values, generators=(), lines=()):
    proof = {"order": 4, "generators": generators, "lines": lines}
    return {"rule": "series", "term": term, "letter": X, "point": ZERO, "values": values, "facts": REAL, "proof": proof}


def integral(body, low, high, by, value, facts=REAL, generators=(), inside=(T, X, Y)):
    term = ("int", "$0", body, low, high)
    return same(term, value, facts, generators, [(term, ("antiderivative", by, inside, []))])


def root(term, n=2):
    return ("^", term, number(1, n))


def call(argument):
    return ("call", "h", (0,), argument)


LOG_X, LOG_Y, SIZE = ("log", X), ("log", Y), ("logabs", X)
POWERS = mul(N, SIZE)
BOTH = [(LOG_X, [(X, 1)]), (("log", neg(X)), [(X, 1)])]
HALF_SQUARE, GAP = mul(number(1, 2), power(add(T, neg(Y)), TWO)), add(T, neg(Y))
GAMMA_BODY = mul(power(T, add(X, number(-1))), ("exp", neg(T)))
SIZES = ("int", "$0", ("piece", T, neg(T), ZERO, T), number(-1), ONE)
IMPROPER = ("int", "$0", GAMMA_BODY, ZERO, OO)
FALSE = {
    "a root is of its radicand": same(
        root(X), root(Y), ABOVE, [X, Y, ("root", Y, 2)], [(root(k), ("root", [(Y, 1)])) for k in (X, Y)]),
    "a root of a square has no sign": same(root(power(X, TWO)), X, REAL, [X, ("root", X, 2)],
                                           [(root(power(X, TWO)), ("root", [(X, 2)]))]),
    "a root of a product is none of its factors": same(
        root(mul(X, Y)), mul(root(X), root(Y)), REAL, [X, Y, ("root", X, 2), ("root", Y, 2)],
        [(root(mul(X, Y)), ("root", [(X, 1), (Y, 1)])), (root(X), ("root", [(X, 1)])), (root(Y), ("root", [(Y, 1)]))]),
    "one factor may be negative where another is 0": same(
        root(mul(X, Y)), mul(root(X), root(Y)), {**REAL, Y: NO_SIGN}, [X, Y, ("root", X, 2), ("root", Y, 2)],
        [(root(mul(X, Y)), ("root", [(X, 1), (Y, 1)])), (root(X), ("root", [(X, 1)])), (root(Y), ("root", [(Y, 1)]))]),
    "a power of a negative base": same(
        ("^", X, N), ("^", neg(X), N), WHOLE, [X, N, SIZE, ("exp", POWERS)],
        [*BOTH, (("^", X, N), ("exp",)), (("^", neg(X), N), ("exp",)),
         *((("exp", mul(N, ("log", k))), ([(POWERS, 1)], [])) for k in (X, neg(X)))]),
    "a power with another exponent": same(
        ("^", X, add(N, ONE)), ("^", X, N), WHOLE, [X, N, ("power", X, N)],
        [(("^", X, m), ("integer", X, 0, [(N, 1)])) for m in (N, add(N, ONE))]),
    "a power of a power that is not whole": same(
        ("^", X, mul(TWO, Y)), mul(("^", X, Y), ("^", X, Y)), REAL, [X, Y, ("power", X, Y)],
        [(("^", X, Y), ("integer", X, 0, [(Y, 1)])), (("^", X, mul(TWO, Y)), ("integer", X, 0, [(Y, 2)]))]),
    "a power of a factor that may be negative": same(
        ("^", mul(X, Y), N), mul(("^", X, N), ("^", neg(Y), N)), WHOLE,
        [X, Y, N, ("power", X, N), ("logabs", Y), ("exp", mul(N, ("logabs", Y)))],
        [(("^", mul(X, Y), N), ("split", X, [(Y, 1)])), (("^", neg(Y), N), ("split", ONE, [(neg(Y), 1)])),
         (("^", ONE, N), ("exp",)), (("log", ONE), []), (("exp", mul(N, ("log", ONE))), ([], [])),
         (("^", X, N), ("integer", X, 0, [(N, 1)])), (LOG_Y, [(Y, 1)]), (("log", neg(Y)), [(Y, 1)]),
         *((("exp", mul(N, ("log", k))), ([(mul(N, ("logabs", Y)), 1)], [])) for k in (Y, neg(Y)))]),
    "an exponential of something else": same(
        ("exp", X), ("exp", Y), REAL, [X, Y, ("exp", X)], [(("exp", Y), ([(X, 1)], []))]),
    "an exponential of the logarithm of what is negative": same(
        ("exp", ("log", neg(X))), X, REAL, [X, SIZE], [*BOTH, (("exp", ("log", neg(X))), ([], [(X, (1, 1))]))]),
    "a logarithm of what is not real": same(("log", Z), ("log", neg(Z)), {}, [Z, ("logabs", Z)],
                                            [(("log", k), [(Z, 1)]) for k in (Z, neg(Z))]),
    "a logarithm of other factors": same(LOG_X, LOG_Y, ABOVE, [X, Y, SIZE], [(LOG_X, [(X, 1)]), (LOG_Y, [(X, 1)])]),
    "a logarithm with factors that cancel": same(
        LOG_X, add(LOG_X), REAL, [X, Y, SIZE, ("logabs", Y)], [(LOG_X, [(X, 1), (Y, 1), (Y, -1)])],
        split=[power(LOG_X, TWO)], signs=[(-1,), (0,), (1,)]),
    "gamma a step further": same(("gamma", add(X, TWO)), mul(X, ("gamma", X)), ABOVE, [X, ("gamma", X)],
                                 [(("gamma", add(X, TWO)), (("gamma", X), 1))]),
    "a function at another place": same(call(X), call(Y), REAL, [X, Y, call(Y)], [(call(X), call(Y))]),
    "0 to what may be 0": same(("^", ZERO, X), ZERO, {X: NO_SIGN}, [X]),
    "an integral by another antiderivative": integral(T, ZERO, ONE, T, ONE),
    "an integral across a pole": integral(
        power(T, number(-2)), number(-1), ONE, neg(power(T, number(-1))), number(-2)),
    "an integral whose ends may be reversed": integral(
        ("piece", GAP, neg(GAP), ZERO, GAP), Y, X, HALF_SQUARE, mul(number(1, 2), power(add(X, neg(Y)), TWO)), REAL, [X, Y]),
    "a gamma integral that is infinite": same(
        IMPROPER, ("gamma", X), REAL, [X, ("gamma", X)], [(IMPROPER, ("gamma", X, [T, X], [], ONE))]),
    "an integral of a slope that may jump": integral(
        ("call", "h", (1,), T), ZERO, ONE, call(T), add(call(ONE), neg(call(ZERO))), REAL, [call(ONE), call(ZERO)],
        [("call", "h", (1,), T)]),
    "a bound letter split by its sign": {
        "rule": "equal", "lhs": SIZES, "rhs": ZERO, "facts": {T: frozenset({"real"})},
        "proof": {"split": [("+", T)], "cases": [
            {"signs": (s,), "generators": [T], "lines": [(SIZES, ("antiderivative", mul(number(s, 2), power(T, TWO)), [T], []))]}
            for s in (-1, 1)] + [{"signs": (0,), "generators": [T], "lines": [(SIZES, ("antiderivative", ONE, [T], []))]}]}},
    "another quotient": same(X, Y, REAL, [X, Y]),
    "what is positive has an opposite that is not": same(
        ("piece", add(ONE, neg(X)), ZERO, ZERO, ONE), ("piece", add(X, number(-1)), ZERO, ZERO, ONE), REAL, [X], (),
        [add(X, number(-1))], [(-1,), (0,), (1,)]),
    "a limit that is 0": limit(X, ONE),
    "what is not real has no absolute value by sign": same(
        power(("piece", Z, neg(Z), ZERO, Z), TWO), power(Z, TWO), {}, [Z], (), [Z], [(-1,), (0,), (1,)]),
    "a case is missing": same(("piece", X, neg(X), ZERO, X), X, REAL, [X], (), [X], [(0,), (1,)]),
    "what is 0 in a case is not everything": same(
        ("piece", add(X, neg(Y)), ONE, X, ONE), ("piece", add(X, neg(Y)), ONE, ZERO, ONE), REAL, [X, Y], (),
        [add(X, neg(Y))], [(-1,), (0,), (1,)]),
    "a product of other factors": less(ZERO, number(-1), product((ONE, 1, (1,), shows()))),
    "a factor of another sign": less(ZERO, number(-1), product((number(-1), 1, (1,), shows()))),
    "it starts below 0": rises(add(X, number(-1)), shows(), shows()),
    "it falls": rises(add(ONE, neg(X)), shows(), shows()),
    "it rises in a letter that may be negative": rises(X, shows(), shows(), REAL),
    "it is infinite on the way": rises(neg(power(add(X, number(-1)), number(-1))), shows(), shows(X)),
    "numbers outside of the region": {
        "rule": "not less", "lower": add(ONE, neg(X)), "upper": ZERO, "strict": False, "region": [(X, ONE, OO)], "facts": ABOVE,
        "numbers": {X: fmpq(1, 2)}},
    "a limit by continuity is the value": limit(X, ONE, how="continuous", generators=[X]),
    "a limit at infinity by continuity": limit(power(X, number(-1)), ONE, OO, how="continuous", generators=[X]),
    "a limit from a side that the letter is not on": limit(X, ZERO, facts={**REAL, X: frozenset({"real", "negative"})}),
    "a limit of the other sign": limit(neg(power(X, number(-1))), OO),
    "a limit of an exponential that may grow": limit(
        ("exp", neg(mul(X, Y))), ZERO, OO, change=("exponential", Y), generators=[Y, LOG]),
    "an exponential that grows faster than powers": limit(
        mul(power(X, number(5)), ("exp", power(LOG_X, TWO))), ZERO, generators=[LOG, ("exp", power(LOG, TWO))],
        lines=[(("exp", power(LOG, TWO)), ([(power(LOG, TWO), 1)], []))]),
    "a limit where a leading coefficient may be 0": limit(divide(Y, add(X, Y)), ONE, generators=[Y]),
    "a limit that is another one": limit(add(X, Y), X, generators=[X, Y]),
    "a logarithm has no Taylor series": series(mul(X, LOG_X), ZERO, generators=[LOG]),
    "the size of x has no Taylor series": series(root(power(X, TWO)), ZERO, ONE),
    "a Taylor coefficient is another one": series(("exp", X), ONE, TWO),
    "a series that is too short": series(X, ZERO, ONE, ZERO, ZERO, ZERO, ZERO, ONE),
    "numbers against the facts": differs(("piece", X, neg(X), ZERO, X), X, {X: -1}, ABOVE),
    "no difference": differs(X, X, {X: 1}),
    "two values of a function at one place": differs(call(X), call(Y), {X: 1, Y: 1, call(X): 1, call(Y): 2}),
    "a difference from what is infinite": differs(("gamma", ZERO), ONE, {}),
    "a difference from 0 times what is not defined": differs(mul(X, LOG_Y), ONE, {X: 0, Y: -1}),
    "a power of what is not real has no sign": less(ZERO, ("^", TWO, Z), shows(Z), {}),
    "0^0 is 1": less(
        ("^", X, Y), ZERO, shows(X, Y), {X: frozenset({"real", "nonnegative", "nonpositive"}), Y: NO_SIGN}, strict=False),
    "a polynomial between its roots": less(ZERO, add(power(X, TWO), mul(number(-5), X), number(6)), shows(X)),
    "a denominator has a sign": less(ZERO, divide(X, Y), shows(X, Y), {**REAL, X: ABOVE[X]}),
    "a decimal on the other side": {"rule": "rounds", "value": ("pi",), "low": number(3), "high": number(4), "right": False},
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_falsehood_is_held_back(name):
    with pytest.raises(NotShown):
        replay(FALSE[name])


DEFINED = [
    (LOG_X, (">", X)), (power(X, number(-1)), ("!=", X)), (root(X), (">=", X)), (power(X, number(-1, 2)), (">", X)),
    (("^", X, Y), (">", X)), (("gamma", X), (">", X)), (("expint", ONE, X), (">", X)), (("tanh", Z), ("!=", ("cosh", Z))),
    (("atan", Z), ("!=", add(ONE, power(Z, TWO)))), (("lambertw", ZERO, X), (">=", add(X, ("exp", number(-1))))),
]  # fmt: skip


@pytest.mark.parametrize(("term", "condition"), DEFINED)
def test_what_is_not_defined_everywhere_carries_its_condition(term, condition):
    others = [("gamma", X), ("expint", ONE, X), ("atan", Z), ("exp", Z), ("lambertw", ZERO, X)]
    generators = [X, Y, Z, SIZE, ("root", X, 2), ("power", X, Y), *others]
    roots = [(power(X, number(k, 2)), ("root", [(X, 1)])) for k in (1, -1)]
    lines = [(LOG_X, [(X, 1)]), *roots, (("^", X, Y), ("integer", X, 0, [(Y, 1)]))]
    assert condition in replay(same(term, term, REAL, generators, lines))


def test_a_case_in_which_a_side_is_not_defined_becomes_a_condition():
    sign = ("piece", X, number(-1), ZERO, ONE)
    found = replay(same(divide(ONE, sign), sign, REAL, [X], (), [X], [(-1,), (0,), (1,)]))
    assert ("!=", X) in found


def test_cases_whose_signs_contradict_each_other_may_be_left_out_and_no_others():
    split, possible = [add(X, number(-1)), add(X, number(-2))], [(-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]
    assert replay(same(X, X, REAL, [X], (), split, possible)) == ()
    for k in range(len(possible)):
        with pytest.raises(NotShown, match="no case"):
            replay(same(X, X, REAL, [X], (), split, possible[:k] + possible[k + 1 :]))


def test_a_rule_that_is_none_is_refused():
    with pytest.raises(NotShown, match="no rule 'faith'"):
        replay({"rule": "faith"})
