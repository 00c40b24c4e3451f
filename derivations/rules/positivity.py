r"""The rule of signs: a term is positive (not negative), by what shows, by its parts, or case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flint import acb, fmpq

from derivations.rules.covering import covering, settled
from derivations.rules.definedness import Certificate, Conditions, undefined
from derivations.rules.equality import equal
from derivations.rules.limits import tends
from derivations.rules.numbers import ball, exact
from derivations.rules.quotients import Facts, NotShown, Signs
from derivations.rules.rational import Arithmetic, arithmetic_of
from derivations.rules.terms import (
    BINDERS,
    ZERO,
    Term,
    add,
    differentiate,
    mul,
    neg,
    number,
    power,
    substitute,
    subterms,
)

__all__ = ["NOT_NEGATIVE", "POSITIVE", "fmpq_sign", "put", "sign_of"]

POSITIVE, NOT_NEGATIVE = frozenset({1}), frozenset({0, 1})


def sign_of(
    term: Term, wanted: Signs, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs] | None = None
) -> Conditions:
    r"""Check that a term's sign is one of those wanted, wherever it is defined and the conditions returned are true.

    shows      by its quotient, or by its structure
    number     by a ball around its value
    same       as another term's, which is equal to it
    product    of factors, each with its own proof: (factor, exponent, sign, proof)
    sum        of real parts, none of them negative: (part, whether it is positive, proof)
    squares    as greater - less, where greater is not negative, and its square exceeds that of less
    exponent   as that of e^term - 1, where the term is real
    rises      in a letter x > 0, all of it in its domain, from a start that is not negative, with a positive slope
    covers     in all that a letter may be put to, see `covering`
    cases      in each case of the sign of a real term

    Args:    assumed: signs of terms, in the case that is proved.
    Raises:  NotShown.
    """
    conditions: Conditions = ()
    assumed = dict(assumed or {})
    match proof["how"]:
        case "shows":
            shown = arithmetic_of(facts, proof, assumed).signs(term) <= wanted
        case "number":
            value = exact(term, {})
            found = fmpq_sign(value) if value is not None else _ball_sign(term)
            shown = found in wanted
        case "product":
            conditions, signs = _of_product(term, facts, proof, assumed)
            shown = signs <= wanted
        case "sum":
            conditions, signs = _of_sum(term, facts, proof, assumed)
            shown = signs <= wanted
        case "squares":
            conditions, shown = _of_squares(term, wanted, facts, proof, assumed), wanted in (POSITIVE, NOT_NEGATIVE)
        case "same":
            conditions = equal(term, proof["other"], facts, proof["equal"])
            conditions += sign_of(proof["other"], wanted, facts, proof["proof"], assumed)
            shown = True
        case "falls":
            conditions = sign_of(neg(term), frozenset(-s for s in wanted), facts, proof["proof"], assumed)
            shown = True
        case "exponent":
            if not arithmetic_of(facts, proof).is_real(term):
                raise NotShown(f"{term} may not be real")
            conditions = sign_of(add(("exp", term), number(-1)), wanted, facts, proof["proof"], assumed)
            shown = True
        case "rises":
            _rises(term, facts, proof, assumed)
            shown = wanted >= (POSITIVE if proof["strictly"] else NOT_NEGATIVE)
        case "covers":
            conditions, shown = _covers(term, wanted, facts, proof, assumed), True
        case "cases":
            conditions, shown = _in_cases(term, wanted, facts, proof, assumed), True
        case _:
            shown = False
    if not shown:
        raise NotShown(f"the sign of {term} is not shown")
    return conditions


def _of_product(term: Term, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> tuple[Conditions, Signs]:
    arithmetic, conditions, total = arithmetic_of(facts, proof), list[Any](), frozenset({1})
    arithmetic.equal(term, mul(*(power(f, number(k)) for f, k, _, _ in proof["factors"])))
    _in_lowest_terms(arithmetic, [(f, k) for f, k, _, _ in proof["factors"]])
    for factor, k, signs, inner in proof["factors"]:
        if not arithmetic.is_real(factor):
            raise NotShown(f"{factor} may not be real")
        conditions += sign_of(factor, frozenset(signs), facts, inner, assumed)
        own = frozenset(s**2 if k % 2 == 0 else s for s in signs) - (frozenset({0}) if k < 0 else frozenset())
        total = frozenset(a * b for a in total for b in own)
    return tuple(conditions), total


def _of_sum(term: Term, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> tuple[Conditions, Signs]:
    _is_sum(term, [part for part, _, _ in proof["parts"]], facts, proof)
    conditions = [
        condition
        for part, positive, inner in proof["parts"]
        for condition in sign_of(part, POSITIVE if positive else NOT_NEGATIVE, facts, inner, assumed)
    ]
    return tuple(conditions), POSITIVE if any(positive for _, positive, _ in proof["parts"]) else NOT_NEGATIVE


def _of_squares(term: Term, wanted: Signs, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> Conditions:
    greater, less = proof["greater"], proof["less"]
    _is_sum(term, [greater, neg(less)], facts, proof)
    gap = add(power(greater, number(2)), neg(power(less, number(2))))
    return (
        *sign_of(greater, NOT_NEGATIVE, facts, proof["of greater"], assumed),
        *sign_of(gap, wanted, facts, proof["of squares"], assumed),
    )


def _covers(term: Term, wanted: Signs, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> Conditions:
    conditions: Conditions = ()
    for (way, more), inner in zip(covering([term], facts, proof, assumed), proof["ways"], strict=True):
        there, known, case = put(term, proof["letter"], way, facts, more, assumed)
        sign = _settled_sign(there, wanted, known, inner, case)
        if any(letter in subterms(of) for _, of in sign for letter in more):
            raise NotShown("a condition holds a letter that runs through all its values")
        conditions += sign
    return conditions


def put(
    term: Term, x: Term, way: Term, facts: Facts, more: Facts, assumed: Mapping[Term, Signs]
) -> tuple[Term, Facts, dict[Term, Signs]]:
    """Put a term in place of a letter, in what is assumed too; return the term, the facts and the assumptions that follow."""
    case = {substitute(of, {x: way}): signs for of, signs in assumed.items()}
    return substitute(term, {x: way}), {**facts, **more}, case


def _settled_sign(term: Term, wanted: Signs, facts: Facts, inner: Certificate, assumed: Mapping[Term, Signs]) -> Conditions:
    return sign_of(settled(term, arithmetic_of(facts, inner, assumed)), wanted, facts, inner["proof"], assumed)


def _is_sum(term: Term, parts: Sequence[Term], facts: Facts, proof: Certificate) -> None:
    """Raise NotShown unless a term is the sum of these, all real, and defined everywhere."""
    arithmetic = arithmetic_of(facts, proof)
    arithmetic.equal(term, add(*parts))
    for part in parts:
        for condition in undefined(arithmetic, part):
            raise NotShown(f"a part may not be defined: {condition}")
        if not arithmetic.is_real(part):
            raise NotShown(f"{part} may not be real")


def _in_cases(term: Term, wanted: Signs, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> Conditions:
    of, arithmetic = proof["of"], arithmetic_of(facts, proof, assumed)
    if not arithmetic.is_real(of) or any(undefined(arithmetic, of)):
        raise NotShown(f"{of} may have no sign")
    signs = sorted(arithmetic.signs(of))
    conditions: Conditions = ()
    for sign, inner in zip(signs, proof["ways"], strict=True):
        conditions += _settled_sign(term, wanted, facts, inner, {**assumed, of: frozenset({sign})})
    return conditions


def _in_lowest_terms(arithmetic: Arithmetic, factors: Sequence[tuple[Term, int]]) -> None:
    """Raise NotShown unless all factors are polynomials and none cancels: else one may be 0 where the product is not."""
    ways = [[arithmetic.value(f) for f, k in factors if k * way > 0] for way in (1, -1)]
    if any(not value.below.is_constant() for way in ways for value in way):
        raise NotShown("a factor is no polynomial")
    if any(not a.above.gcd(b.above).is_constant() for a in ways[0] for b in ways[1]):
        raise NotShown("a factor cancels")


def _always(term: Term, wanted: Signs, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> None:
    if conditions := sign_of(term, wanted, facts, proof, assumed):
        raise NotShown(f"the sign of {term} is shown only where {conditions}")


def _rises(term: Term, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> None:
    x = proof["letter"]
    assumed = {of: signs for of, signs in assumed.items() if x not in subterms(of)}  # on the way it may have another sign
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
        _always(start, NOT_NEGATIVE, facts, proof["start"], assumed)
    else:
        value = proof["limit"]
        if conditions := tends(term, x, ZERO, value, facts, proof["start"]):
            raise NotShown(f"the start is shown only where {conditions}")
        if value != ("oo",):
            _always(value, NOT_NEGATIVE, facts, proof["value"], assumed)
    slope = differentiate(term, x[1])
    for condition in undefined(arithmetic_of(facts, proof["slope"]), slope):
        raise NotShown(f"the slope may not be defined: {condition}")
    _always(slope, POSITIVE if proof["strictly"] else NOT_NEGATIVE, facts, proof["slope"], assumed)


def fmpq_sign(x: fmpq) -> int:
    return int(x > 0) - int(x < 0)


def _ball_sign(term: Term) -> int | None:
    value = ball(term, {})
    if isinstance(value, acb):
        return None
    return 1 if value > 0 else -1 if value < 0 else None
