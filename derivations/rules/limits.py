r"""The rules of limits and Taylor coefficients.

continuous    the value at the point, where the term is defined there and has no corners
change        x = y^p, 1/y^p or L/a, then the leading power of y -> 0+, and its coefficient as L -> oo
sum           limits of the parts, all finite
"""

from __future__ import annotations

from typing import Any

from derivations.rules.definedness import ALLOWED, Certificate, Conditions, agree, needed, undefined
from derivations.rules.quotients import Facts, NotShown, Quotient
from derivations.rules.rational import Arithmetic, arithmetic_of
from derivations.rules.series import LOG, Expansion, Series, signs_of
from derivations.rules.signs import OF_FACTS
from derivations.rules.terms import (
    BINDERS,
    INFINITY,
    ZERO,
    Term,
    add,
    divide,
    neg,
    number,
    power,
    substitute,
    subterms,
    taken,
)

__all__ = ["Y", "approach", "changed", "coefficients", "limit", "limit_conditions", "tends"]

Y: Term = ("v", "0+")


def approach(term: Term, x: Term, point: Term, side: str, facts: Facts) -> tuple[Term, Term, Facts]:
    r"""Write a term in a letter that tends to 0 from above, or to infinity; return it, the letter, and the facts with it.

    Raises:  NotShown where the facts do not let the letter come to the point from that side.
    """
    u = ("v", f"{x[1]}~")
    if u in facts or {u, LOG, Y} & {*subterms(term)}:
        raise NotShown(f"the name {u[1]} is taken")
    known = {**facts, u: frozenset({"real", "positive"})}
    own = facts.get(x, frozenset())
    if point in INFINITY:
        way = frozenset({1 if point == ("oo",) else -1})
    else:
        way = Arithmetic(facts, [part for part in subterms(point) if part[0] in ("v", "call")], {}).signs(point)
        way = frozenset({1 if side == "+" else -1}) if way == {0} else way
        if own & {"integer", "other"}:
            raise NotShown(f"{x[1]} takes no values near {point}")
    if not way <= frozenset({-1, 0, 1}).intersection(*(OF_FACTS[fact] for fact in own & OF_FACTS.keys())):
        raise NotShown(f"{x[1]} does not come to {point} from that side")
    if point in INFINITY:
        return substitute(term, {x: u if point == ("oo",) else neg(u)}), u, known
    return substitute(term, {x: add(point, u if side == "+" else neg(u))}), u, known


def limit_conditions(term: Term, x: Term, point: Term, side: str, value: Term, facts: Facts, proof: Certificate) -> Conditions:
    r"""Check that a term tends to a value as x tends to a point from one side, or to an infinity; return the conditions.

    Raises:  NotShown where the certificate does not show it.
    """
    there, letter, known = approach(taken(term), x, point, side, facts)
    conditions = tends(there, letter, ("oo",) if point in INFINITY else ZERO, value, known, proof)
    if any(letter in subterms(part) for part in (value, *(term for _, term in conditions))):
        raise NotShown("the value or a condition holds the letter of the limit")
    return conditions


def tends(term: Term, x: Term, to: Term, value: Term, facts: Facts, proof: Certificate) -> Conditions:
    r"""Check that a term tends to a value as x > 0 tends to 0 or to infinity (`to`), where the conditions returned are true.

    Raises:  NotShown where the certificate does not show it.
    """
    if any(part[0] in ("piece", *BINDERS) for part in subterms(term)):
        raise NotShown(f"{term} may have corners")
    if any(x in subterms(part) for part in subterms(term) if part[0] in ("call", "known")):
        raise NotShown(f"{term} holds a function of which nothing is known")
    match proof["how"]:
        case "continuous":
            return _continuous(term, x, to, value, facts, proof)
        case "sum":
            return _of_sum(term, x, to, value, facts, proof)
        case "change":
            return _changed(term, x, to, value, facts, proof)
    raise NotShown("there is no such proof of a limit")


def _continuous(term: Term, x: Term, to: Term, value: Term, facts: Facts, proof: Certificate) -> Conditions:
    if to != ZERO or value in INFINITY:
        raise NotShown("nothing is continuous at infinity")
    arithmetic, there = arithmetic_of(facts, proof), substitute(term, {x: ZERO})
    for part in subterms(term):  # b^e is not continuous at 0^0
        if part[0] == "^" and x in subterms(part[2]):
            arithmetic.require(substitute(part[1], {x: ZERO}), {1}, "the base of a power may be 0")
    for part in (there, value):
        for condition in undefined(arithmetic, part):
            raise NotShown(f"{part} may not be defined: {condition}")
    letters = [part for part in subterms(term) if part[0] in ("v", "call")]
    around = Arithmetic(facts, list(dict.fromkeys(letters)), {})
    for relation, base in filter(None, (needed(around, part) for part in subterms(term))):
        # Inside of where it is defined, or at its edge and on the right side of that.
        inside = arithmetic.signs(substitute(base, {x: ZERO})) <= ALLOWED[relation] - {0}
        if not inside and not around.signs(base) <= ALLOWED[relation]:
            raise NotShown(f"{term} may not be defined on the way to the point")
    arithmetic.equal(there, value)
    return ()


def _of_sum(term: Term, x: Term, to: Term, value: Term, facts: Facts, proof: Certificate) -> Conditions:
    values = [part["value"] for part in proof["parts"]]
    if term[0] != "+" or len(term) - 1 != len(values) or any(v in INFINITY for v in (*values, value)):
        raise NotShown("a sum of limits needs finite parts")
    parts = zip(term[1:], proof["parts"], strict=True)
    conditions = [c for part, inner in parts for c in tends(part, x, to, inner["value"], facts, inner["proof"])]
    arithmetic_of(facts, proof["equal"]).equal(add(*values), value)
    return tuple(conditions)


def changed(term: Term, x: Term, to: Term, change: tuple[str, Any]) -> Term:
    """Write a term in y -> 0+: x = y^p, or 1/y^p, or x = L/a with L = -log y."""
    kind, by = change
    if ({LOG, Y} - {x}) & {*subterms(term)}:
        raise NotShown("the name of the new letter is taken")
    if kind == "power" and by >= 1:
        return substitute(term, {x: power(Y, number(by if to == ZERO else -by))})
    if kind == "exponential" and to != ZERO and not {x, LOG, Y} & {*subterms(by)}:
        return substitute(term, {x: divide(LOG, by)})
    raise NotShown(f"there is no change of variable {change}")


def _assumed(proof: Certificate) -> Conditions:
    """Return the conditions on which a proof by series rests: leading coefficients that are not 0, or positive."""
    return tuple((relation, term) for relation, term in proof.get("where", ()))


def expanded(term: Term, facts: Facts, proof: Certificate, analytic: bool = False) -> tuple[Arithmetic, Series, Conditions]:
    """Expand a term in y; return the arithmetic, the series, and the conditions for it."""
    known = {**facts, LOG: frozenset({"real", "positive"}), Y: frozenset({"real", "positive"})}
    conditions = _assumed(proof)
    if any({Y, LOG} & {*subterms(condition)} for _, condition in conditions):
        raise NotShown("a condition holds the letter of the limit")
    arithmetic = arithmetic_of(known, proof, {condition: ALLOWED[relation] for relation, condition in conditions})
    agree(arithmetic)
    expansion = Expansion(arithmetic, Y, proof["order"], analytic)
    series = expansion.trimmed(expansion.of(term))
    return arithmetic, series, (*conditions, *expansion.conditions)


def limit(term: Term, x: Term, to: Term, facts: Facts, proof: Certificate) -> tuple[Arithmetic, int, Quotient, Conditions]:
    """Return the arithmetic, the leading power of y and its coefficient, whose sign is known where it matters."""
    if proof["change"][0] == "exponential" and not arithmetic_of(facts, proof).signs(proof["change"][1]) <= {1}:
        raise NotShown("the rate of an exponential may not be positive")
    arithmetic, series, conditions = expanded(changed(taken(term), x, to, proof["change"]), facts, proof)
    return arithmetic, series.start, series.coefficients[0], conditions


def _changed(term: Term, x: Term, to: Term, value: Term, facts: Facts, proof: Certificate) -> Conditions:
    arithmetic, start, leading, conditions = limit(term, x, to, facts, proof)
    slow = [k for k, g in enumerate(arithmetic.generators) if {LOG, Y} & {*subterms(g)}]
    holds_slow = any(p.degrees()[k] for p in (leading.above, leading.below) for k in slow if not p.is_constant())
    if start > 0 or arithmetic.reduced(leading.above).is_zero():
        if start <= 0:
            raise NotShown("the series is too short to show the limit")
        if holds_slow and 0 in arithmetic.of_polynomial(leading.below):
            raise NotShown("a coefficient may be infinite")
        if not arithmetic.is_zero(value):
            raise NotShown("the limit is 0")
        return conditions
    if start < 0:
        if value not in INFINITY or not signs_of(arithmetic, leading) <= {1 if value == ("oo",) else -1}:
            raise NotShown("the sign of the leading coefficient is not known")
        return conditions
    if holds_slow:
        inner = proof["then"]
        if Y in subterms(inner["term"]) or not (arithmetic.value(inner["term"]) - leading).above.is_zero():
            raise NotShown("the coefficient is another one")
        known = {**facts, LOG: frozenset({"real", "positive"})}
        return (*conditions, *tends(inner["term"], LOG, ("oo",), value, known, inner["proof"]))
    if value in INFINITY or not arithmetic.reduced((arithmetic.value(value) - leading).above).is_zero():
        raise NotShown("the limit is another one")
    return (*conditions, *undefined(arithmetic, value))


def coefficients(
    term: Term, x: Term, point: Term, facts: Facts, proof: Certificate, count: int
) -> tuple[Arithmetic, list[Quotient], Conditions]:
    r"""Return the Taylor coefficients 0 to count - 1 of a term about a point at which it is analytic.

    Raises:  NotShown where it is not seen to be.
    """
    if {LOG, Y} & {*subterms(term), *subterms(point)}:
        raise NotShown("the name of the new letter is taken")
    term = substitute(taken(term), {x: add(point, Y)})
    if any(part[0] in ("piece", *BINDERS) for part in subterms(term)):
        raise NotShown(f"{term} may have corners")
    if any({LOG, Y} & {*subterms(g)} for g in proof["generators"]):
        raise NotShown("a logarithm has no Taylor series at 0")
    arithmetic, series, conditions = expanded(term, facts, proof, analytic=True)
    if series.start < 0 or series.end < count:
        raise NotShown("the term has no Taylor series, or the proof is too short")
    return arithmetic, [series.at(k) or arithmetic.constant(0) for k in range(count)], conditions
