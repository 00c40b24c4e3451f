r"""The rules of signs and inequalities on a region, and the search for their proofs.

    sign       a term is positive (not negative): it shows, or it rises from a start that is not negative, factor by factor
    less       lower < upper (lower <= upper) on a region, by the sign of the difference
    not less   numbers of the region at which the difference is certainly negative (or 0)

Checks return the conditions, besides the facts, under which both sides are defined: what is proved is said there only. What
finds the proofs is below, and is used by no check.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from flint import acb, fmpq

from derivations.rules.definedness import ALLOWED, Certificate, Conditions, agree, undefined
from derivations.rules.equality import Antiderivative, equal, prove_equal
from derivations.rules.generators import Explained, as_term, explained, written
from derivations.rules.limits import find_limit, tends
from derivations.rules.numbers import Ball, Numbers, ball, check_places, exact, free_quantities, random_numbers
from derivations.rules.quotients import Facts, NotShown, Quotient
from derivations.rules.rational import Arithmetic, arithmetic_of
from derivations.rules.signs import ANY
from derivations.rules.terms import (
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

__all__ = ["NOT_NEGATIVE", "POSITIVE", "Region", "less", "not_less", "not_less_at", "prove_less", "sign_of"]

Region = Sequence[tuple[Term, Term, Term]]
POSITIVE, NOT_NEGATIVE = frozenset({1}), frozenset({0, 1})


def within(region: Region, facts: Facts, terms: Sequence[Term]) -> tuple[list[Term], Facts]:
    r"""Write terms on a region (letter, from, to) in positive letters, in real ones where it has no ends.

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


def less(lower: Term, upper: Term, strict: bool, region: Region, facts: Facts, proof: Certificate) -> Conditions:
    r"""Check that lower < upper (lower <= upper if not strict) on the region, where the conditions returned are true.

    Raises:  NotShown where the certificate does not show it.
    """
    (low, high), known = within(region, facts, [taken(lower), taken(upper)])
    arithmetic = arithmetic_of(known, {"generators": _letters(low, high), **proof})
    shown = sign_of(add(high, neg(low)), POSITIVE if strict else NOT_NEGATIVE, known, proof)
    conditions = tuple(dict.fromkeys([*undefined(arithmetic, low), *undefined(arithmetic, high), *shown]))
    agree(arithmetic_of(known, proof, {term: ALLOWED[relation] for relation, term in conditions}))
    return conditions


def _letters(*terms: Term) -> list[Term]:
    return list(dict.fromkeys(part for term in terms for part in subterms(term) if part[0] in ("v", "call")))


def sign_of(term: Term, wanted: frozenset[int], facts: Facts, proof: Certificate) -> Conditions:
    r"""Check that a term's sign is one of those wanted, wherever it is defined and the conditions returned are true.

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
    """Raise NotShown unless all factors are polynomials and none cancels: else one may be 0 where the product is not."""
    ways = [[arithmetic.value(f) for f, k in factors if k * way > 0] for way in (1, -1)]
    if any(not value.below.is_constant() for way in ways for value in way):
        raise NotShown("a factor is no polynomial")
    if any(not a.above.gcd(b.above).is_constant() for a in ways[0] for b in ways[1]):
        raise NotShown("a factor cancels")


def _always(term: Term, wanted: frozenset[int], facts: Facts, proof: Certificate) -> None:
    if conditions := sign_of(term, wanted, facts, proof):
        raise NotShown(f"the sign of {term} is shown only where {conditions}")


def _rises(term: Term, facts: Facts, proof: Certificate) -> None:
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


# Finding

DEPTH = 5


def prove_less(
    lower: Term, upper: Term, strict: bool, region: Region, facts: Facts, *, rewritten: Term | None, rising: Sequence[Term],
    hint: Antiderivative,
) -> dict[str, Any] | None:  # fmt: skip
    r"""Find a proof for `less`, None if none is found.

    Args:    rewritten: a term equal to upper - lower, whose sign is proved instead; rising: letters to take derivatives in first;
             hint: gives antiderivatives.
    """
    wanted = POSITIVE if strict else NOT_NEGATIVE
    gap = add(upper, neg(lower))
    try:
        (there, given), known = within(region, facts, [gap if rewritten is None else rewritten, gap])
        proof = prove_sign(there, wanted, known, (*(("v", f"{x[1]}+") for x in rising), *rising))
        if proof is not None and there != given:
            same = prove_equal(given, there, known, hint)
            proof = None if same is None else {"how": "same", "other": there, "equal": same[0], "proof": proof}
        if proof is not None:
            less(lower, upper, strict, region, facts, proof)
        return proof
    except NotShown:
        return None


def not_less_at(
    lower: Term, upper: Term, strict: bool, region: Region, facts: Facts, trials: Iterable[int]
) -> tuple[dict[Term, fmpq], fmpq | Ball] | None:
    """Find numbers of the region at which the inequality is certainly false, and upper - lower there; the same in every run."""
    quantities = free_quantities([lower, upper, *(end for _, *ends in region for end in ends), *(x for x, *_ in region)])
    for trial in trials:
        dice = random.Random(trial)
        numbers = random_numbers(quantities, facts, dice, trial)
        if numbers is None:
            return None
        with suppress(NotShown):
            _move_inside(numbers, region, dice)
            return numbers, not_less(lower, upper, strict, region, facts, numbers)
    return None


def _move_inside(numbers: dict[Term, fmpq], region: Region, dice: random.Random) -> None:
    for letter, low, high in region:
        below = None if low == ("-oo",) else exact(low, numbers)
        above = None if high == ("oo",) else exact(high, numbers)
        part = fmpq(dice.randint(1, 12), 13)
        if below is not None and above is not None:
            numbers[letter] = below + (above - below) * part
        elif below is not None:
            numbers[letter] = below + part / (1 - part)
        elif above is not None:
            numbers[letter] = above - part / (1 - part)


def prove_sign(
    term: Term, wanted: frozenset[int], facts: Facts, rising: tuple[Term, ...] = (), depth: int = DEPTH
) -> dict[str, Any] | None:
    """Find a proof for `sign_of`, None if none is found."""
    for proof in _proofs(term, facts, rising, depth):
        with suppress(NotShown):
            sign_of(term, wanted, facts, proof)
            return proof
    return None


def _proofs(term: Term, facts: Facts, rising: tuple[Term, ...], depth: int) -> Iterator[dict[str, Any]]:
    yield _shown(term, facts)
    if not free_letters(term):
        yield {"how": "number"}
    if (product := _product(term, facts, rising, depth)) is not None:
        yield product


def _shown(term: Term, facts: Facts) -> dict[str, Any]:
    return {"how": "shows", **explained([term], facts).case()}


def _product(term: Term, facts: Facts, rising: tuple[Term, ...], depth: int) -> dict[str, Any] | None:
    """Find a proof factor by factor; a factor whose sign does not show may rise, or fall."""
    if depth == 0:
        return None
    found = explained([term], facts)
    arithmetic = found.arithmetic()
    try:
        value = arithmetic.value(term)
    except NotShown:
        return None
    factors = []
    for factor, k in _factors(found, value):
        signs = arithmetic.signs(factor)
        proof = _shown(factor, facts) if signs != ANY else None
        if proof is None:
            for direction in (1, -1):
                proof = _rises_or_falls(factor, direction, facts, rising, depth)
                if proof is not None:
                    strictly = proof.get("proof", proof)["strictly"]
                    signs = frozenset({direction}) if strictly else frozenset({0, direction})
                    break
        if proof is None:
            return None
        factors.append((factor, k, tuple(signs), proof))
    return {"how": "product", "factors": factors, **explained([term, *(f for f, *_ in factors)], facts).case()}


def _factors(found: Explained, value: Quotient) -> list[tuple[Term, int]]:
    result = []
    for polynomial, way in ((value.above, 1), (value.below, -1)):
        constant, factors = polynomial.factor()
        if constant != 1:
            result.append((number(int(constant.p), int(constant.q)), way))
        result += [(written(as_term(found, f)), way * int(k)) for f, k in factors]
    return result


def _rises_or_falls(term: Term, direction: int, facts: Facts, rising: tuple[Term, ...], depth: int) -> dict[str, Any] | None:
    letters = [
        u for u in (*rising, *sorted(facts)) if u[0] == "v" and u[1] in free_letters(term) and "positive" in facts.get(u, ())
    ]
    whole = term if direction == 1 else neg(term)
    for x in dict.fromkeys(letters):
        proof = _find_rise(whole, x, facts, rising, depth)
        if proof is not None:
            return proof if direction == 1 else {"how": "falls", "proof": proof}
    return None


def _find_rise(term: Term, x: Term, facts: Facts, rising: tuple[Term, ...], depth: int) -> dict[str, Any] | None:
    start = substitute(term, {x: ZERO})
    at_start = None
    with suppress(NotShown, ZeroDivisionError):
        at_start = prove_sign(start, NOT_NEGATIVE, facts, rising, depth - 1)
    limit: Term | None = None
    more: dict[str, Any] = {}
    if at_start is None:
        found = find_limit(term, x, ZERO, facts)
        if found is None or found[0] == ("-oo",):
            return None
        limit, at_start = found
        if limit != ("oo",):
            of_value = prove_sign(limit, NOT_NEGATIVE, facts, rising, depth - 1)
            if of_value is None:
                return None
            more = {"value": of_value}
    try:
        slope = differentiate(term, x[1])
    except ValueError:
        return None
    for strictly, wanted in ((True, POSITIVE), (False, NOT_NEGATIVE)):
        proof = prove_sign(slope, wanted, facts, rising, depth - 1)
        if proof is not None:
            return {"how": "rises", "letter": x, "strictly": strictly, "start": at_start, "limit": limit,
                    "slope": proof, **more, **explained([term], facts).case()}  # fmt: skip
    return None
