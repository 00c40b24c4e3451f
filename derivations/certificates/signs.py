r"""Find proofs of sign: what shows, factors one by one, and what rises from a start that is not negative."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from derivations.certificates.generators import Explained, as_term, explained, written
from derivations.certificates.limits import find_limit
from derivations.checker.quotients import Facts, NotShown, Quotient
from derivations.checker.rules import NOT_NEGATIVE, POSITIVE, sign_of
from derivations.checker.signs import ANY
from derivations.checker.terms import ZERO, Term, differentiate, free_letters, neg, number, substitute

__all__ = ["prove_sign"]

DEPTH = 5


def prove_sign(
    term: Term, wanted: frozenset[int], facts: Facts, rising: tuple[Term, ...] = (), depth: int = DEPTH
) -> dict[str, Any] | None:
    """A proof that the sign of a term is one of those wanted, which the checker accepts; None if none is found."""
    for attempt in (_shows, _number, _product):
        proof = attempt(term, wanted, facts, rising, depth)
        if proof is not None and _accepted(term, wanted, facts, proof):
            return proof
    return None


def _accepted(term: Term, wanted: frozenset[int], facts: Facts, proof: dict[str, Any]) -> bool:
    try:
        sign_of(term, wanted, facts, proof)
        return True
    except NotShown:
        return False


def _case(term: Term, facts: Facts) -> dict[str, Any]:
    found = explained([term], facts)
    return {"generators": found.generators, "lines": list(found.lines.items())}


def _shows(term: Term, wanted: frozenset[int], facts: Facts, rising: tuple[Term, ...], depth: int) -> dict[str, Any] | None:
    return {"how": "shows", **_case(term, facts)}


def _number(term: Term, wanted: frozenset[int], facts: Facts, rising: tuple[Term, ...], depth: int) -> dict[str, Any] | None:
    return None if free_letters(term) else {"how": "number"}


def _product(term: Term, wanted: frozenset[int], facts: Facts, rising: tuple[Term, ...], depth: int) -> dict[str, Any] | None:
    """Factor by factor; a factor whose sign does not show may rise, or fall."""
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
        proof = {"how": "shows", **_case(factor, facts)} if signs != ANY else None
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
    both = explained([term, *(f for f, *_ in factors)], facts)
    return {"how": "product", "factors": factors, "generators": both.generators, "lines": list(both.lines.items())}


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
        proof = _rises(whole, x, facts, rising, depth)
        if proof is not None:
            return proof if direction == 1 else {"how": "falls", "proof": proof}
    return None


def _rises(term: Term, x: Term, facts: Facts, rising: tuple[Term, ...], depth: int) -> dict[str, Any] | None:
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
                    "slope": proof, **more, **_case(term, facts)}  # fmt: skip
    return None
