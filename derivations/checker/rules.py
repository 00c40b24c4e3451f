r"""The rules of proof: what each kind of certificate must show, and what it then proves.

    equal        lhs = rhs, case by case of the signs of some terms: equal quotients in the generators that the certificate names
    differs      numbers for the letters at which lhs and rhs are certainly different
    sign         a term is positive (not negative): it shows, or it rises from a start that is not negative, or by bisection
    limit        a term tends to a value; series: it has these Taylor coefficients
    rounds       a printed decimal is a number, rounded

Each returns the conditions, besides the facts, under which both sides are defined: what is proved is said there only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from flint import acb, fmpq

from derivations.checker.definedness import ALLOWED, agree, undefined
from derivations.checker.limits import limit_conditions, tends
from derivations.checker.numbers import Numbers, ball, check_places, exact
from derivations.checker.quotients import Facts, NotShown
from derivations.checker.rational import Arithmetic, arithmetic_of
from derivations.checker.terms import (
    BINDERS,
    ONE,
    ZERO,
    Term,
    add,
    differentiate,
    divide,
    free_letters,
    mul,
    neg,
    number,
    power,
    substitute,
    subterms,
    taken,
)

__all__ = ["NOT_NEGATIVE", "POSITIVE", "Conditions", "Region", "equal", "in_cases", "less", "not_less", "sign_of", "within"]

Conditions = tuple[tuple[str, Term], ...]


def in_cases(terms: Sequence[Term], split: Sequence[Term], signs: Sequence[int]) -> tuple[list[Term], dict[Term, frozenset[int]]]:
    """The terms in one case: letters that are 0 are put in as 0, other signs are assumed."""
    zeros = {u: ZERO for u, sign in zip(split, signs, strict=True) if sign == 0 and u[0] in ("v", "call")}
    assumed = {u: frozenset({sign}) for u, sign in zip(split, signs, strict=True) if u not in zeros}
    return [substitute(term, zeros) for term in terms], {substitute(u, zeros): s for u, s in assumed.items()}


def equal(lhs: Term, rhs: Term, facts: Facts, certificate: Mapping[str, Any]) -> Conditions:
    r"""lhs = rhs wherever the facts and the conditions returned are true.

    Raises:  NotShown where the certificate does not show it.
    """
    lhs, rhs, split = taken(lhs), taken(rhs), certificate["split"]
    cases = {tuple(case["signs"]): case for case in certificate["cases"]}
    conditions: dict[tuple[str, Term], None] = {}
    bound = {part[1] for side in (lhs, rhs) for part in subterms(side) if part[0] in BINDERS}
    somewhere = False
    if any(bound & free_letters(u) for u in split):
        raise NotShown("a bound letter has not one sign")
    for signs in product((-1, 0, 1), repeat=len(split)):
        (left, right), assumed = in_cases((lhs, rhs), split, signs)
        if any(not s <= Arithmetic(facts, [], {}).by_structure(u) for u, s in assumed.items()) or signs not in cases:
            if _cannot_be(facts, split, signs):
                continue
            raise NotShown(f"no case for the signs {signs} of {split}")
        arithmetic = arithmetic_of(facts, cases[signs], assumed, limit_conditions)
        # Where what is split by is not defined, it has none of the three signs.
        conditions.update(dict.fromkeys(c for u in assumed for c in undefined(arithmetic_of(facts, cases[signs]), u)))
        for u in assumed:  # what is not real has none of the three signs, and some case has a sign other than 0
            if not arithmetic.is_real(u):
                raise NotShown(f"{u} may not be real")
        if not all(map(arithmetic.signs, assumed)):
            continue  # the signs of this case contradict each other
        open_here = [*undefined(arithmetic, left), *undefined(arithmetic, right)]
        impossible = [(relation, term) for relation, term in open_here if not arithmetic.signs(term) & ALLOWED[relation]]
        if impossible:  # a side is not defined in this case: it is excluded
            zeros = [u for u, sign in zip(split, signs, strict=True) if sign == 0]
            conditions.update({("!=", u): None for u in zeros} if zeros else dict.fromkeys(impossible))
            continue
        somewhere = True
        conditions.update(dict.fromkeys(open_here))
        if not arithmetic.is_zero(add(left, neg(right))):
            raise NotShown("the quotients differ")
    if not somewhere:
        raise NotShown("the sides are not both defined anywhere")
    return tuple(conditions)


def _cannot_be(facts: Facts, split: Sequence[Term], signs: Sequence[int]) -> bool:
    """Whether the facts about a letter exclude the sign that it has in a case."""
    bare = Arithmetic(facts, [], {})
    return any(sign not in bare.by_structure(u) for u, sign in zip(split, signs, strict=True))


Region = Sequence[tuple[Term, Term, Term]]
POSITIVE, NOT_NEGATIVE = frozenset({1}), frozenset({0, 1})


def within(region: Region, facts: Facts, terms: Sequence[Term]) -> tuple[list[Term], Facts]:
    r"""Terms on a region (letter, from, to), each letter written with a positive one, or left real where it has no ends.

    low + u, high - u, or (low + high u)/(1 + u), which runs through all between. Ends may hold other letters.
    """
    listed, known = list(terms), dict(facts)
    for place, (letter, low, high) in enumerate(region):
        if letter[0] != "v":
            raise NotShown(f"{letter} is no letter to run through a region")
        u = ("v", f"{letter[1]}+")
        infinite = (low == ("-oo",), high == ("oo",))
        if u in known or any(u in subterms(term) for term in (*listed, *(end for _, *ends in region for end in ends))):
            raise NotShown(f"the name {u[1]} is taken")
        known[u] = frozenset({"real"}) if all(infinite) else frozenset({"real", "positive"})
        between = (
            u if all(infinite) else add(high, neg(u)) if infinite[0] else add(low, u) if infinite[1]
            else divide(add(low, mul(high, u)), add(ONE, u))
        )  # fmt: skip
        for _, *ends in region[place + 1 :]:
            if letter in (part for end in ends for part in subterms(end)):
                raise NotShown(f"the ends of a later letter hold {letter}")
        listed = [substitute(term, {letter: between}) for term in listed]
        put = {letter: between}
        region = [(x, substitute(start, put), substitute(end, put)) for x, start, end in region]
    return listed, known


def less(lower: Term, upper: Term, strict: bool, region: Region, facts: Facts, proof: Mapping[str, Any]) -> Conditions:
    r"""lower < upper (lower <= upper if not strict) on the region, where the conditions returned are true.

    Raises:  NotShown where the certificate does not show it.
    """
    (low, high), known = within(region, facts, [taken(lower), taken(upper)])
    arithmetic = arithmetic_of(known, proof)
    shown = sign_of(add(high, neg(low)), POSITIVE if strict else NOT_NEGATIVE, known, proof)
    conditions = tuple(dict.fromkeys([*undefined(arithmetic, low), *undefined(arithmetic, high), *shown]))
    agree(arithmetic_of(known, proof, {term: ALLOWED[relation] for relation, term in conditions}))
    return conditions


def sign_of(term: Term, wanted: frozenset[int], facts: Facts, proof: Mapping[str, Any]) -> Conditions:
    r"""The sign of a term is one of those wanted, wherever it is defined and the conditions returned are true.

    shows      by its quotient, or by its structure
    number     by a ball around its value
    same       as another term's, which is equal to it
    product    of factors, each with its own proof: (factor, exponent, sign, proof)
    rises      in a letter x > 0, all of it in its domain, from a start that is not negative, with a positive slope

    Raises:  NotShown.
    """
    conditions: Conditions = ()
    match proof["how"]:
        case "shows":
            shown = arithmetic_of(facts, proof).signs(term) <= wanted
        case "number":
            value = exact(term, {})
            found = fmpq_sign(value) if value is not None else _ball_sign(term)
            shown = found in wanted
        case "product":
            arithmetic = arithmetic_of(facts, proof)
            arithmetic.equal(term, mul(*(power(f, number(k)) for f, k, _, _ in proof["factors"])))
            _in_lowest_terms(arithmetic, [(f, k) for f, k, _, _ in proof["factors"]])
            total = frozenset({1})
            for factor, k, signs, inner in proof["factors"]:
                if not arithmetic.is_real(factor):
                    raise NotShown(f"{factor} may not be real")
                conditions += sign_of(factor, frozenset(signs), facts, inner)
                own = frozenset(s**2 if k % 2 == 0 else s for s in signs) - (frozenset({0}) if k < 0 else frozenset())
                total = frozenset(a * b for a in total for b in own)
            shown = total <= wanted
        case "same":
            conditions = equal(term, proof["other"], facts, proof["equal"])
            conditions += sign_of(proof["other"], wanted, facts, proof["proof"])
            shown = True
        case "falls":
            conditions = sign_of(neg(term), frozenset(-s for s in wanted), facts, proof["proof"])
            shown = True
        case "rises":
            _rises(term, facts, proof)
            shown = wanted >= (POSITIVE if proof["strictly"] else NOT_NEGATIVE)
        case _:
            shown = False
    if not shown:
        raise NotShown(f"the sign of {term} is not shown")
    return conditions


def _in_lowest_terms(arithmetic: Arithmetic, factors: Sequence[tuple[Term, int]]) -> None:
    """No factor is infinite, or 0 in a denominator, where their product is defined: they are polynomials, and none cancels."""
    ways = [[arithmetic.value(f) for f, k in factors if k * way > 0] for way in (1, -1)]
    if any(not value.below.is_constant() for way in ways for value in way):
        raise NotShown("a factor is no polynomial")
    if any(not a.above.gcd(b.above).is_constant() for a in ways[0] for b in ways[1]):
        raise NotShown("a factor cancels")


def _always(term: Term, wanted: frozenset[int], facts: Facts, proof: Mapping[str, Any]) -> None:
    if conditions := sign_of(term, wanted, facts, proof):
        raise NotShown(f"the sign of {term} is shown only where {conditions}")


def _rises(term: Term, facts: Facts, proof: Mapping[str, Any]) -> None:
    x = proof["letter"]
    if "positive" not in facts.get(x, ()) or "integer" in facts[x] or x[0] != "v":
        raise NotShown(f"{x} does not run through the positive numbers")
    if any(part[0] in ("piece", *BINDERS) for part in subterms(term)):
        raise NotShown(f"{term} may have corners")
    if any(x in subterms(part) for part in subterms(term) if part[0] in ("call", "known")):
        raise NotShown(f"{term} holds a function of which nothing is known")
    for condition in undefined(arithmetic_of(facts, proof), term):
        raise NotShown(f"{term} may not be defined: {condition}")
    if proof.get("limit") is None:
        start = substitute(term, {x: ZERO})
        for condition in undefined(arithmetic_of(facts, proof["start"]), start):
            raise NotShown(f"the start may not be defined: {condition}")
        _always(start, NOT_NEGATIVE, facts, proof["start"])
    else:
        value = proof["limit"]
        if conditions := tends(term, x, ZERO, value, facts, proof["start"]):
            raise NotShown(f"the start is shown only where {conditions}")
        if value != ("oo",):
            _always(value, NOT_NEGATIVE, facts, proof["value"])
    slope = differentiate(term, x[1])
    for condition in undefined(arithmetic_of(facts, proof["slope"]), slope):
        raise NotShown(f"the slope may not be defined: {condition}")
    _always(slope, POSITIVE if proof["strictly"] else NOT_NEGATIVE, facts, proof["slope"])


def fmpq_sign(x: fmpq) -> int:
    return int(x > 0) - int(x < 0)


def _ball_sign(term: Term) -> int | None:
    found = ball(term, {})
    if isinstance(found, acb):
        return None
    return 1 if found > 0 else -1 if found < 0 else None


def not_less(lower: Term, upper: Term, strict: bool, region: Region, facts: Facts, numbers: Numbers) -> Any:
    r"""upper - lower at numbers of the region, certainly negative, or 0 where lower < upper is claimed.

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


def _is_less(a: Any, b: Any) -> bool:
    """What is not real has no order."""
    return not isinstance(a, acb) and not isinstance(b, acb) and bool(a < b)
