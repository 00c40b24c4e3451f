r"""The rules of signs and inequalities on a region.

    sign       a term is positive (not negative): it shows, or it rises from a start that is not negative, factor by factor
    less       lower < upper (lower <= upper) on a region, by the sign of the difference
    not less   numbers of the region at which the difference is certainly negative (or 0)

Checks return the conditions, besides the facts, under which both sides are defined: what is proved is said there only.
"""

from __future__ import annotations

from flint import acb, fmpq

from derivations.rules.covering import Region, within
from derivations.rules.definedness import ALLOWED, Certificate, Conditions, agree, undefined
from derivations.rules.numbers import Ball, Numbers, ball, check_places, exact
from derivations.rules.positivity import NOT_NEGATIVE, POSITIVE, sign_of
from derivations.rules.quotients import Facts, NotShown
from derivations.rules.rational import Arithmetic, arithmetic_of
from derivations.rules.signs import OF_FACTS
from derivations.rules.terms import BINDERS, Term, add, neg, subterms, taken

__all__ = ["less", "not_less"]


def less(lower: Term, upper: Term, strict: bool, region: Region, facts: Facts, proof: Certificate) -> Conditions:
    r"""Check that lower < upper (lower <= upper if not strict) on the region, where the conditions returned are true.

    Raises:  NotShown where the certificate does not show it.
    """
    (low, high), known = within(region, facts, [taken(lower), taken(upper)])
    arithmetic = arithmetic_of(known, {"generators": _letters(low, high), **proof})
    _check_order(arithmetic, low, high)
    shown = sign_of(add(high, neg(low)), POSITIVE if strict else NOT_NEGATIVE, known, proof)
    conditions = tuple(dict.fromkeys([*undefined(arithmetic, low), *undefined(arithmetic, high), *shown]))
    agree(arithmetic_of(known, proof, {term: ALLOWED[relation] for relation, term in conditions}))
    return conditions


def _check_order(arithmetic: Arithmetic, *sides: Term) -> None:
    """Raise NotShown unless the sides have an order: of complex u, u < u + 1 says nothing."""
    bound = {part[1] for side in sides for part in subterms(side) if part[0] in BINDERS}
    for letter in _letters(*sides):
        if letter[1] not in bound and not arithmetic.facts.get(letter, frozenset()) & {"real", *OF_FACTS}:
            raise NotShown(f"{letter[1]} may not be real")
    if any(part == ("i",) for side in sides for part in subterms(side)) and not all(map(arithmetic.reads_real, sides)):
        raise NotShown("the sides may not be real")


def _letters(*terms: Term) -> list[Term]:
    return list(dict.fromkeys(part for term in terms for part in subterms(term) if part[0] in ("v", "call")))


def not_less(lower: Term, upper: Term, strict: bool, region: Region, facts: Facts, numbers: Numbers) -> fmpq | Ball:
    r"""Compute upper - lower at numbers of the region; it must be negative, or 0 if lower < upper is claimed.

    Raises:  NotShown otherwise.
    """
    lower, upper = taken(lower), taken(upper)
    check_places(numbers, facts)
    for letter, low, high in region:
        for below, above in ((low, letter), (letter, high)):
            if below != ("-oo",) and above != ("oo",) and not _is_less(ball(below, numbers), ball(above, numbers)):
                raise NotShown("the numbers are not in the region")
    gap = add(upper, neg(lower))
    value = exact(gap, numbers)
    if value is not None:
        if value < 0 or (strict and value == 0):
            return value
        raise NotShown("the inequality is true there")
    found = ball(gap, numbers)
    if isinstance(found, acb) or not found < 0:
        raise NotShown("the inequality may be true there")
    return found


def _is_less(a: Ball, b: Ball) -> bool:
    """What is not real has no order."""
    return not isinstance(a, acb) and not isinstance(b, acb) and bool(a < b)
