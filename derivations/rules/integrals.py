r"""Integrals as quotients: by an antiderivative, by parts of them, or one of two that are known to infinity.

the integral of F' from a to b is F(b) - F(a), where F has no corners between, and is defined at both or has a limit
c x^(a - 1) e^-x over x > 0 is c Gamma(a)          c e^(-a x^2) over all x is c (pi/a)^(1/2), over half of them half that
the integral of a f + b g is a times that of f and b times that of g; from a to b it is from m to b less from m to a
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from derivations.rules.definedness import undefined
from derivations.rules.quotients import Case, NotShown, Quotient
from derivations.rules.terms import (
    INFINITY,
    Term,
    add,
    differentiate,
    free_letters,
    mul,
    neg,
    number,
    power,
    substitute,
    subterms,
)

__all__ = ["integral", "linear"]

# A letter between two ends, whichever is the greater: positive if neither is negative, negative if neither is positive.
BETWEEN = (("positive", {0, 1}), ("negative", {-1, 0}))


def integral(case: Case, term: Term, line: Any) -> Quotient:
    """Return the value of an integral, as a line of the certificate has it."""
    x, body, low, high = term[1:]
    if low == high:
        return case.constant(0)
    if line[0] == "linear":
        return linear(case, _between(case, term, line[2], dict(line[3])), term, line[1])
    if line[0] == "from":
        return _from(case, term, *line[1:])
    kind, antiderivative, generators, lines, *limits = line
    if any(part[0] in ("piece", "call") for part in subterms(antiderivative)):
        raise NotShown(f"{antiderivative} may have corners")
    if low == INFINITY[0] or high == INFINITY[1]:
        raise NotShown("the ends of an integral are reversed")
    between = _between(case, term, generators, dict(lines))
    if kind in ("gamma", "gauss"):
        return _known(case, term, between, kind, antiderivative, limits[0])
    between.equal(differentiate(antiderivative, x), body)
    for part in (body, antiderivative):
        for condition in undefined(between, part):
            raise NotShown(f"what is integrated may not be defined: {condition}")
    return _end(case, antiderivative, ("v", x), high, limits) - _end(case, antiderivative, ("v", x), low, limits)


def linear(case: Case, inside: Case, term: Term, parts: Sequence[tuple[Term, Term]]) -> Quotient:
    """Return a sum or integral of sum c_i f_i as sum c_i times that of f_i, where c_i do not hold its letter."""
    kind, x, body, low, high = term
    inside.equal(body, add(*(mul(c, f) for c, f in parts)))
    for c, f in parts:
        if x in free_letters(c):
            raise NotShown(f"{c} is no constant")
        for condition in (*undefined(inside, c), *undefined(inside, f)):
            raise NotShown(f"a part may not be defined: {condition}")
    found = (case.value(c) * case.value((kind, x, f, low, high)) for c, f in parts)
    return sum(found, start=case.constant(0))


def _from(case: Case, term: Term, m: Term, low: Term, high: Term) -> Quotient:
    """Return an integral as one from m to its upper end less one from m to its lower end; its ends may be written anew."""
    x, body, *ends = term[1:]
    for end, new in zip(ends, (low, high), strict=True):
        if end != new:
            case.equal(end, new)
    if low in INFINITY or high == ("-oo",) or x in free_letters(m) or not case.reads_real(m) or any(undefined(case, m)):
        raise NotShown(f"{m} is no end for an integral")
    from_m = [case.constant(0) if m == end else case.value(("int", x, body, m, end)) for end in (high, low)]
    return from_m[0] - from_m[1]


def _between(case: Case, term: Term, generators: Sequence[Term], lines: dict[Term, Any]) -> Case:
    """Return the case between the ends, where the letter has the signs that both leave it."""
    x, _, low, high = term[1:]
    letter = ("v", x)
    ends = [{1} if e == INFINITY[0] else {-1} if e == INFINITY[1] else case.signs(e) for e in (low, high)]
    known = {fact for fact, allowed in BETWEEN if all(signs <= allowed for signs in ends)}
    ordered = set(INFINITY) & {low, high} or case.signs(add(high, neg(low))) <= {0, 1}
    gaps = [(add(letter, neg(low)), low), (add(high, neg(letter)), high)] if ordered else []
    within = {gap: frozenset({1}) for gap, end in gaps if end not in INFINITY}
    assumed = {of: signs for of, signs in case.assumed.items() if letter not in subterms(of)}
    return case.other({**case.facts, letter: frozenset({"real", *known})}, generators, lines, {**assumed, **within})


def _known(case: Case, term: Term, between: Case, kind: str, a: Term, c: Term) -> Quotient:
    x, body, low, high = term[1:]
    letter = ("v", x)
    if x in free_letters(a) | free_letters(c):
        raise NotShown("a constant of an integral holds its letter")
    case.require(a, {1}, "a constant of an integral may not be positive")
    if kind == "gamma" and (low, high) == (number(0), ("oo",)):
        between.equal(body, mul(c, power(letter, add(a, number(-1))), ("exp", neg(letter))))
        return case.value(mul(c, ("gamma", a)))
    if kind == "gauss" and (low, high) in ((number(0), ("oo",)), (("-oo",), number(0)), (("-oo",), ("oo",))):
        between.equal(body, mul(c, ("exp", mul(number(-1), a, power(letter, number(2))))))
        whole = case.value(mul(c, ("^", ("pi",), number(1, 2)), ("^", a, number(-1, 2))))
        return whole * case.constant(1, 1 if low == ("-oo",) and high == ("oo",) else 2)
    raise NotShown("another integral than those known")


def _end(case: Case, antiderivative: Term, letter: Term, end: Term, limits: Sequence[Any]) -> Quotient:
    """Return the antiderivative at an end, or its limit at infinity."""
    if end in INFINITY:
        value, proof = dict(limits[0])[end]
        if value in INFINITY:
            raise NotShown("an integral is infinite")
        if case.tends is None or case.tends(antiderivative, letter, end, "+", value, case.facts, proof):
            raise NotShown("a limit at infinity is not shown here")
        return case.value(value)
    there = substitute(antiderivative, {letter: end})
    for condition in undefined(case, there):
        raise NotShown(f"an antiderivative may not be defined at an end: {condition}")
    return case.value(there)
