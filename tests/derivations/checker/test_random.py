"""What the prover says of random statements is so, in numbers of 200 digits that share nothing with it."""

from collections import Counter
from functools import partial

import mpmath
import pytest
import sympy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from mpmath import mp
from sympy import (
    Abs,
    Heaviside,
    Max,
    Min,
    Piecewise,
    Rational,
    S,
    Symbol,
    cos,
    cosh,
    exp,
    log,
    oo,
    pi,
    sign,
    sin,
    sinh,
    sqrt,
    tanh,
)

from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Rounds

DIGITS, MOST_OPERATIONS, LARGEST = 200, 30, 1e60
CLOSE = mpmath.mpf(10) ** -25
KINDS = {"real": (-3, 3), "positive": (0, 3), "nonnegative": (0, 3), "negative": (-3, 0), "nonpositive": (-3, 0),
         "nonzero": (-3, 3)}  # fmt: skip
INSIDE = {"real": lambda v: True, "positive": lambda v: v > 0, "nonnegative": lambda v: v >= 0, "negative": lambda v: v < 0,
          "nonpositive": lambda v: v <= 0, "nonzero": lambda v: v != 0}  # fmt: skip
PLACES = [Rational(k, 2) for k in range(-4, 5)] + [Rational(-17, 13), Rational(29, 12), Rational(1, 100), Rational(-1, 99)]
NUMBERS = st.sampled_from([S(k) for k in (0, 1, 2, 3, -1, -2)] + [Rational(1, 2), Rational(-1, 3), Rational(3, 2)])
SMOOTH = (exp, tanh, sin, cos, cosh, sinh)
UNARY = (*SMOOTH, log, sqrt, Abs, sign, Heaviside)


class Undefined(Exception):  # noqa: N818 - no error: there is nothing to compare there
    """A formula that has no real number as its value at a point, or none to be trusted."""


def number_of(e, point):
    """The value of an expression at numbers for its letters, real or not at all."""
    if e in point:
        return mp.mpf(point[e].p) / point[e].q if isinstance(point[e], Rational) else point[e]
    if e.is_Rational:
        return mp.mpf(e.p) / e.q
    if isinstance(e, Piecewise):
        return next((number_of(value, point) for value, condition in e.args if is_true(condition, point)), None) or mp.mpf(0)
    if e.func not in NUMERIC and e not in CONSTANTS:
        raise Undefined
    found = CONSTANTS[e]() if e in CONSTANTS else NUMERIC[e.func](*(number_of(part, point) for part in e.args))
    if not mp.isfinite(found) or abs(found) > LARGEST:
        raise Undefined
    return found


def is_true(condition, point):
    if condition in (sympy.true, sympy.false):
        return bool(condition)
    left, right = (number_of(side, point) for side in condition.args)
    if left != right and abs(left - right) < CLOSE:
        raise Undefined  # it may be 0
    return {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right, "==": left == right,
            "!=": left != right}[condition.rel_op]  # fmt: skip


def _power(base, exponent):
    whole = exponent == int(exponent)
    if (base < 0 and not whole) or (base == 0 and exponent < 0) or abs(exponent) > 200 or 0 < abs(base) < CLOSE**2:
        raise Undefined
    return mp.mpf(1) if exponent == 0 else mp.power(base, int(exponent) if whole else exponent)


def _log(a):
    if a <= 0:
        raise Undefined
    return mp.log(a)


def _exp(a):
    if a > 50:
        raise Undefined
    return mp.exp(a)


def _corner(function, a):
    if a != 0 and abs(a) < CLOSE:
        raise Undefined  # it may be 0
    return function(a)


NUMERIC = {
    sympy.Add: lambda *a: mp.fsum(a), sympy.Mul: lambda *a: mp.fprod(a), sympy.Pow: _power, log: _log, exp: _exp, tanh: mp.tanh,
    sin: mp.sin, cos: mp.cos, cosh: mp.cosh, sinh: mp.sinh, Abs: abs, sign: partial(_corner, mp.sign),
    Heaviside: lambda a, at: _corner(lambda u: mp.mpf(u > 0) if u else at, a), Max: max, Min: min,
    sympy.tan: mp.tan, sympy.cot: mp.cot, sympy.coth: mp.coth, sympy.sech: mp.sech, sympy.csch: mp.csch,
}  # fmt: skip
CONSTANTS = {pi: lambda: +mp.pi, sympy.E: lambda: mp.e}


CORNERS = [
    lambda a, b, c: Max(a, b), lambda a, b, c: Min(a, b), lambda a, b, c: Piecewise((a, c > 0), (b, True)),
    lambda a, b, c: Piecewise((a, sympy.Eq(c, 0)), (b, c < 1), (c, True)),
]  # fmt: skip


@st.composite
def letters(draw):
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3))
    return {Symbol(name, **({kind: True, "real": True})): kind for name, kind in zip("xyz", kinds, strict=False)}


@st.composite
def expressions(draw, atoms, unary=UNARY, depth=3):
    """A small formula."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(NUMBERS if draw(st.integers(0, 3)) == 0 else st.sampled_from(list(atoms)))
    inner = partial(expressions, atoms, unary, depth - 1)
    match draw(st.integers(0, 8)):
        case 0 | 1 | 2 | 3 as way:
            return draw(inner()) + draw(inner()) if way < 2 else draw(inner()) * draw(inner())
        case 4:
            return draw(inner()) ** draw(st.sampled_from([S(2), S(3), S(-1), S(-2), S(2)]))
        case 5 if unary is UNARY:
            exponents = [Rational(1, 2), Rational(3, 2), Rational(-1, 2), Rational(1, 3), Rational(2, 3), *atoms]
            return draw(inner()) ** draw(st.sampled_from(exponents))
        case 6 if unary is UNARY:
            return tried(draw(st.sampled_from(CORNERS)), *(draw(inner()) for _ in range(3)))
    return tried(draw(st.sampled_from(unary)), draw(inner()))


def _swapped(e, draw):
    """One part of a formula changed."""
    part = draw(st.sampled_from(sorted(e.atoms(Symbol, Rational) or {e}, key=str)))
    return e.xreplace({part: draw(st.sampled_from([-part, part + 1, S(0), Abs(part), 2 * part]))})


# Some of these are wrong for some letters: what is forced is what tempts.
REWRITTEN = [
    sympy.expand, sympy.factor, sympy.together, lambda e: e.rewrite(exp), lambda e: e.rewrite(Piecewise), lambda e: 1 / (1 / e),
    lambda e: exp(log(e)), lambda e: log(exp(e)), lambda e: sqrt(e**2), lambda e: sqrt(e) ** 2, lambda e: Abs(e) * sign(e),
    partial(sympy.expand_log, force=True), partial(sympy.logcombine, force=True), partial(sympy.powdenest, force=True),
    partial(sympy.expand_power_base, force=True), sympy.expand_power_exp, lambda e: e * e / e, lambda e: e + 0 * e,
    lambda e: Max(e, -e), Abs, lambda e: (e**3) ** Rational(1, 3), lambda e: (e**2) ** Rational(1, 2),
]  # fmt: skip


@st.composite
def points(draw, kinds):
    return {x: draw(st.sampled_from([p for p in PLACES if INSIDE[kind](p)])) for x, kind in kinds.items()}


def small(*es):
    assume(all(S(e).count_ops() <= MOST_OPERATIONS and not S(e).has(sympy.I, sympy.nan, sympy.zoo, oo, -oo) for e in es))


def tried(make, *args):
    try:
        return make(*args)
    except (TypeError, ValueError, ZeroDivisionError, NotImplementedError, AttributeError, RecursionError):
        assume(False)


def where_defined(points_, conditions, *sides):
    """The sides' values at the points at which they have one and the conditions are true."""
    for point in points_:
        try:
            if all(is_true(condition, point) for condition in conditions):
                yield point, [number_of(S(side), point) for side in sides]
        except (Undefined, ZeroDivisionError, OverflowError):
            continue


def near(a, b):
    return abs(a - b) <= CLOSE * (1 + abs(a) + abs(b))


@st.composite
def equalities(draw):
    kinds = draw(letters())
    lhs = draw(expressions(kinds))
    way = draw(st.integers(0, 3))
    rhs = tried(_swapped, lhs, draw) if way == 0 else tried(draw(st.sampled_from(REWRITTEN)), lhs)
    rhs = tried(draw(st.sampled_from(REWRITTEN)), rhs) if way > 1 else rhs
    small(lhs, rhs)
    assume(lhs != rhs)
    return Equal(lhs, rhs), draw(st.lists(points(kinds), min_size=12, max_size=12))


def check_equality(statement, tests):
    found = statement.decide()
    if found.holds:
        for point, (left, right) in where_defined(tests, found.defined_on, statement.lhs, statement.rhs):
            assert near(left, right), (statement, point, found)
    elif found.holds is False:
        check_witness(statement.lhs, statement.rhs, found, lambda left, right: abs(left - right) > CLOSE)
    return found.holds


def check_witness(lhs, rhs, found, differ):
    point = {x: v for x, v in found.counterexample.items() if isinstance(v, Rational)}
    for _, (left, right) in where_defined([point], (), lhs, rhs) if lhs.free_symbols | rhs.free_symbols <= point.keys() else ():
        assert differ(left, right), (lhs, rhs, found)


@st.composite
def inequalities(draw):
    kinds = draw(letters())
    term = draw(expressions(kinds))
    other = draw(
        st.sampled_from(
            [S(0), term**2, term + 1, exp(term) - 1, Abs(term), 1 + term**2, log(1 + term), tanh(term), draw(NUMBERS)]
        )
    )
    lower, upper = (term, other) if draw(st.booleans()) else (other, term)
    small(lower, upper)
    return Less(lower, upper, draw(st.booleans())), draw(st.lists(points(kinds), min_size=12, max_size=12))


def check_inequality(statement, tests):
    found = statement.decide()
    if found.holds:
        for point, (low, high) in where_defined(tests, found.defined_on, statement.lower, statement.upper):
            assert low < high or (not statement.strict and low == high) or near(low, high), (statement, point, found)
    elif found.holds is False:
        check_witness(S(statement.lower), S(statement.upper), found, lambda low, high: low > high or near(low, high))
    return found.holds


@st.composite
def limits(draw):
    kinds = {Symbol("x", real=True): "real", Symbol("p", positive=True): "positive"}
    x, p = kinds
    e = draw(expressions([x, x, p], (exp, log, sqrt, tanh, sin, cos)))
    point = draw(st.sampled_from([S(0), S(1), oo, -oo]))
    plain = tried(e.subs, x, point)
    value = draw(st.sampled_from([S(0), S(1), oo, plain, plain, p]))
    small(e)
    assume(e.has(x) and not S(value).has(x, sympy.nan, sympy.zoo, sympy.I, sympy.AccumBounds))
    return Tends(e, x, point, S(value), draw(st.sampled_from("+-"))), draw(
        st.lists(points({p: "positive"}), min_size=2, max_size=2)
    )


def places(found, tests):
    """Where a limit or series that was decided is tried: for a refuted one at the counterexample."""
    there = {x: v for x, v in (found.counterexample or {}).items() if isinstance(v, Rational)}
    return [] if found.holds is None else [{**point, **{x: there[x] for x in point if x in there}} for point in tests]


def gap(value, target, point):
    """How far a value is from a limit, or its inverse from 0 where that is infinite; None where the limit has no value."""
    if target in (oo, -oo):
        return 1 / abs(value) if value * (1 if target == oo else -1) > 0 else mp.inf
    return next((abs(value - there) for _, (there,) in where_defined([point], (), target)), None)


def check_limit(statement, tests):
    found = statement.decide()
    x, side = statement.variable, 1 if statement.direction == "+" else -1
    for point in places(found, tests):
        for _ in where_defined([point], found.defined_on):
            gaps = []
            for k in (8, 40):
                far = mp.mpf(10) ** (k if statement.point in (oo, -oo) else -k)
                place = far * (1 if statement.point == oo else -1 if statement.point == -oo else side)
                start = 0 if statement.point in (oo, -oo) else int(statement.point)
                for _, (value,) in where_defined([{**point, x: start + place}], (), statement.expression):
                    gaps += [gap(value, statement.value, point)]
            if len(gaps) == 2 and None not in gaps:
                closer = gaps[1] <= gaps[0] * 0.9 + mp.mpf(10) ** -20
                assert closer if found.holds else gaps[1] > mp.mpf(10) ** -15 or found.defined_on, (statement, gaps, found)
    return found.holds


@st.composite
def series(draw):
    x, p = Symbol("x", real=True), Symbol("p", positive=True)
    e = draw(expressions([x, x, p], (*SMOOTH, log, sqrt)))
    order = draw(st.integers(1, 3))
    point = draw(st.sampled_from([S(0), S(1)]))
    small(e)
    assume(e.has(x))
    slopes = [tried(lambda k=k: e.diff(x, k).subs(x, point)) for k in range(order)]
    small(*slopes)
    terms = sum((slope * (x - point) ** k / sympy.factorial(k) for k, slope in enumerate(slopes)), S(0))
    if draw(st.booleans()):
        terms += draw(NUMBERS) * (x - point) ** draw(st.integers(0, order))
    return Expands(e, x, terms, order, point), draw(st.lists(points({p: "positive"}), min_size=2, max_size=2))


def check_series(statement, tests):
    """What is dropped shrinks as its order says, or, if a term is wrong, more slowly."""
    found = statement.decide()
    x = statement.variable
    for point in places(found, tests):
        for side in (1, -1):
            rests = []
            for h in (mp.mpf(10) ** -6, mp.mpf(10) ** -9):
                there = [{**point, x: int(statement.point) + side * h}]
                for _, (value, terms) in where_defined(there, found.defined_on, statement.expression, statement.terms):
                    rests.append(abs(value - terms) / h**statement.order)
            if len(rests) == 2:
                shrinks = rests[1] <= 2 * rests[0] + CLOSE
                assert shrinks if found.holds else rests[1] > 100 * rests[0] > 0 or found.defined_on, (
                    statement,
                    point,
                    rests,
                    found,
                )
    return found.holds


@st.composite
def decimals(draw):
    value = draw(expressions([S(2), S(3), pi, Rational(7, 10)], (exp, log, sqrt, tanh, sin, cos)))
    small(value)
    number = [v for _, (v,) in where_defined([{}], (), value)]
    assume(number and 1e-3 < abs(number[0]) < 1e6 and value.is_real)
    places = draw(st.integers(0, 6))
    digits = int(mp.nint(number[0] * 10**places)) + draw(st.sampled_from([0, 0, 1, -1, 10]))
    whole = f"{abs(digits):0{places + 1}d}"
    text = ("-" if digits < 0 else "") + (f"{whole[:-places]}.{whole[-places:]}" if places else whole)
    return Rounds(value, text), [number[0], places, digits]


def check_decimal(statement, tests):
    found, (number, places, digits) = statement.decide(), tests
    off = abs(number * 10**places - digits)
    if found.holds is not None and abs(off - 0.5) > 1e-20:
        assert found.holds == (off < 0.5), (statement, found)
    return found.holds


CHECKS = {"equal": (equalities(), check_equality), "less": (inequalities(), check_inequality), "tends": (limits(), check_limit),
          "expands": (series(), check_series), "rounds": (decimals(), check_decimal)}  # fmt: skip


def run(kind, count):
    found, (strategy, check) = Counter(), CHECKS[kind]

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def one(drawn):
        with mpmath.workdps(DIGITS):
            found[check(*drawn)] += 1

    one()
    print(kind, {"holds": found[True], "refuted": found[False], "undecided": found[None]})
    assert found[True] or found[False]
    assert count < 100 or (found[True] and found[False])


@pytest.mark.by_default(2)
@pytest.mark.parametrize("kind", CHECKS)
def test_a_verdict_is_so_in_numbers(kind):
    run(kind, 10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHECKS)
def test_many_verdicts_are_so_in_numbers(kind):
    run(kind, 400)
