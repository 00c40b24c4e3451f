r"""Sums as quotients: by a term whose steps are what is summed, by parts of them, or without their last terms.

    the sum of T(k + 1) - T(k) from a to b is T(b + 1) - T(a)
    the sum of c f + d g is c times that of f and d times that of g
    from a to b it is from m to b less from m to a - 1, and up to b - j with the last j terms

Both ends are whole numbers, and none of these sums ends before it starts: an empty one ends one before.
"""

from __future__ import annotations

from typing import Any

from derivations.rules.definedness import undefined
from derivations.rules.integrals import linear
from derivations.rules.quotients import LONGEST, Case, NotShown, Quotient
from derivations.rules.terms import INFINITY, ONE, Term, add, free_letters, neg, number, substitute, subterms

__all__ = ["summation"]


def summation(case: Case, term: Term, line: Any) -> Quotient:
    """Return the value of a sum, as a line of the certificate has it."""
    low, high = term[3:]
    _is_counted(case, low, high)
    match line:
        case ("steps", steps, generators, lines):
            return _by_steps(case, _inside(case, term, generators, lines), term, steps)
        case ("linear", parts, generators, lines):
            return linear(case, _inside(case, term, generators, lines), term, parts)
        case ("from", m, before, end):
            return _from(case, term, m, before, end)
        case ("last", end, count):
            return _last(case, term, end, count)
    raise NotShown("there is no such reading of a sum")


def _is_counted(case: Case, low: Term, high: Term) -> None:
    """Raise NotShown unless both ends are whole numbers, and there are not less than no terms between."""
    if {low, high} & set(INFINITY) or not case.is_integer(low) or not case.is_integer(high):
        raise NotShown("an end of a sum may be no whole number")
    if low != add(high, ONE):
        case.require(add(high, neg(low), ONE), {0, 1}, "a sum may end before it starts")


def _inside(case: Case, term: Term, generators: Term, lines: Term) -> Case:
    """Return the case of the letter between the ends."""
    letter, low = ("v", term[1]), term[3]
    at_start = case.signs(low)
    sign = {"positive"} if at_start <= {1} else {"nonnegative"} if at_start <= {0, 1} else set()
    facts = {**case.facts, letter: frozenset({"real", "integer", *sign})}
    assumed = {of: signs for of, signs in case.assumed.items() if letter not in subterms(of)}
    return case.other(facts, generators, dict(lines), assumed)


def _by_steps(case: Case, inside: Case, term: Term, steps: Term) -> Quotient:
    _, x, body, low, high = term
    letter = ("v", x)
    after = substitute(steps, {letter: add(letter, ONE)})
    inside.equal(add(after, neg(steps)), body)
    for part in (body, steps, after):
        for condition in undefined(inside, part):
            raise NotShown(f"what is summed may not be defined: {condition}")
    ends = [substitute(steps, {letter: end}) for end in (add(high, ONE), low)]
    for end in ends:
        for condition in undefined(case, end):
            raise NotShown(f"an end may not be defined: {condition}")
    return case.value(ends[0]) - case.value(ends[1])


def _from(case: Case, term: Term, m: Term, before: Term, end: Term) -> Quotient:
    _, x, body, low, high = term
    case.equal(high, end)
    case.equal(add(low, number(-1)), before)
    if x in free_letters(m) or not case.is_integer(m):
        raise NotShown(f"{m} is no start for a sum")
    if low != m:
        case.require(add(low, neg(m)), {0, 1}, "a sum may start later")
    first = case.constant(0) if low == m else case.value(("sum", x, body, m, before))
    return case.value(("sum", x, body, m, end)) - first


def _last(case: Case, term: Term, end: Term, count: int) -> Quotient:
    _, x, body, low, high = term
    if type(count) is not int or not 0 < count < LONGEST:
        raise NotShown(f"{count} is no number of last terms")
    case.equal(add(end, number(count)), high)
    _is_counted(case, low, end)
    last = [substitute(body, {("v", x): add(end, number(k))}) for k in range(1, count + 1)]
    for part in last:
        for condition in undefined(case, part):
            raise NotShown(f"a last term may not be defined: {condition}")
    rest = case.constant(0) if add(end, ONE) == low else case.value(("sum", x, body, low, end))
    return sum((case.value(part) for part in last), start=rest)
