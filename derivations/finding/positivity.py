"""Find a proof that a term is positive, or not negative."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from flint import acb, fmpq

from derivations.finding.covering import likely_points
from derivations.finding.equality import prove_equal
from derivations.finding.generators import Explained, as_term, explained, written
from derivations.finding.limits import find_limit
from derivations.finding.numbers import free_quantities, random_numbers
from derivations.rules.covering import covering, settled
from derivations.rules.numbers import ball, exact
from derivations.rules.positivity import NOT_NEGATIVE, POSITIVE, fmpq_sign, put, sign_of
from derivations.rules.quotients import Facts, NotShown, Quotient, Signs
from derivations.rules.signs import ANY
from derivations.rules.terms import (
    ZERO,
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

__all__ = ["Search", "prove_sign"]

DEPTH, MOST_SIDES, MOST_PLACES, MOST_FAILED = 5, 3, 8, 150


@dataclass(frozen=True)
class Search:
    """Holds what a proof is looked for with: letters to take derivatives in first, steps left, and what a case assumes.

    `wide` tries what takes longer too: squares, roots, cases, and the two sides of a point; what failed is not tried again.
    """

    facts: Facts
    rising: tuple[Term, ...] = ()
    depth: int = DEPTH
    sides: int = MOST_SIDES
    wide: bool = False
    assumed: Mapping[Term, Signs] = field(default_factory=dict)
    failed: set[Any] = field(default_factory=set)

    @property
    def deeper(self) -> Search:
        return replace(self, depth=self.depth - 1)

    def key(self, term: Term, wanted: Signs) -> Any:
        """Return a key that is the same where the same is looked for."""
        return term, wanted, frozenset(self.facts.items()), frozenset(self.assumed.items()), self.depth, self.sides, self.wide

    def explained(self, *terms: Term) -> Explained:
        return explained(terms, self.facts, self.assumed)


def prove_sign(term: Term, wanted: Signs, search: Search) -> dict[str, Any] | None:
    """Find a proof for `sign_of`, None if none is found."""
    if search.wide and (
        len(search.failed) > MOST_FAILED or search.key(term, wanted) in search.failed or _is_otherwise(term, wanted, search)
    ):
        return None
    for proof in _proofs(term, wanted, search):
        with suppress(NotShown):
            sign_of(term, wanted, search.facts, proof, search.assumed)
            return proof
    search.failed.add(search.key(term, wanted))
    return None


def _is_otherwise(term: Term, wanted: Signs, search: Search) -> bool:
    """Return whether numbers show another sign than is wanted."""
    quantities = free_quantities([term, *search.assumed])
    for trial in range(MOST_PLACES):
        numbers = random_numbers(quantities, search.facts, random.Random(trial), trial)
        if numbers is None:
            return False
        with suppress(NotShown):
            if all(_sign_at(of, numbers) in signs for of, signs in search.assumed.items()):
                sign = _sign_at(term, numbers)
                if sign is not None and sign not in wanted:
                    return True
    return False


def _sign_at(term: Term, numbers: Mapping[Term, fmpq]) -> int | None:
    value = exact(term, numbers)
    if value is not None:
        return fmpq_sign(value)
    found = ball(term, numbers)
    return None if isinstance(found, acb) else 1 if found > 0 else -1 if found < 0 else None


def _proofs(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    yield {"how": "shows", **search.explained(term).case()}
    if not free_letters(term):
        yield {"how": "number"}
    if search.depth == 0:
        return
    wide = search.wide and wanted in (POSITIVE, NOT_NEGATIVE)
    for attempt in (_without_roots, _next, _squared, _root) if wide else ():
        yield from attempt(term, wanted, search)
    if (product := _product(term, search)) is not None:
        yield product
    for attempt in (_completed, _exponent, _pieces, _risen, _sides) if wide else ():
        yield from attempt(term, wanted, search)


def _product(term: Term, search: Search) -> dict[str, Any] | None:
    """Find a proof factor by factor; a factor whose sign does not show may rise, or fall."""
    found = search.explained(term)
    arithmetic = found.arithmetic()
    try:
        value = arithmetic.value(term)
    except NotShown:
        return None
    factors, several = [], _factors(found, value)
    if search.wide:
        arithmetic = search.explained(term, *(factor for factor, _ in several)).arithmetic()
        if not all(arithmetic.reads_real(factor) for factor, _ in several):
            return None
    for factor, k in several:
        signs = arithmetic.signs(factor)
        proof = {"how": "shows", **search.explained(factor).case()} if signs != ANY else None
        if proof is None:
            for direction in (1, -1):
                proof = _rises_or_falls(factor, direction, search)
                if proof is not None:
                    strictly = proof.get("proof", proof)["strictly"]
                    signs = frozenset({direction}) if strictly else frozenset({0, direction})
                    break
        if proof is None and search.wide and len(several) > 1:
            proof, signs = _of_factor(factor, search.deeper)
        if proof is None:
            return None
        factors.append((factor, k, tuple(signs), proof))
    return {"how": "product", "factors": factors, **search.explained(term, *(f for f, *_ in factors)).case()}


def _of_factor(factor: Term, search: Search) -> tuple[dict[str, Any] | None, Signs]:
    for wanted in (POSITIVE, NOT_NEGATIVE):
        for direction in (1, -1):
            proof = prove_sign(factor if direction == 1 else neg(factor), wanted, search)
            if proof is not None:
                signs = frozenset(direction * s for s in wanted)
                return (proof if direction == 1 else {"how": "falls", "proof": proof}), signs
    return None, ANY


def _factors(found: Explained, value: Quotient) -> list[tuple[Term, int]]:
    result = []
    for polynomial, way in ((value.above, 1), (value.below, -1)):
        constant, factors = polynomial.factor()
        if constant != 1:
            result.append((number(int(constant.p), int(constant.q)), way))
        result += [(written(as_term(found, f)), way * int(k)) for f, k in factors]
    return result


def _rises_or_falls(term: Term, direction: int, search: Search) -> dict[str, Any] | None:
    letters = [
        u
        for u in (*search.rising, *sorted(search.facts))
        if u[0] == "v" and u[1] in free_letters(term) and "positive" in search.facts.get(u, ())
    ]
    whole = term if direction == 1 else neg(term)
    if search.wide and _is_otherwise(whole, NOT_NEGATIVE, search):
        return None
    for x in dict.fromkeys(letters):
        proof = _find_rise(whole, x, search)
        if proof is not None:
            return proof if direction == 1 else {"how": "falls", "proof": proof}
    return None


def _find_rise(term: Term, x: Term, search: Search) -> dict[str, Any] | None:
    search = replace(search.deeper, assumed={of: signs for of, signs in search.assumed.items() if x not in subterms(of)})
    start = substitute(term, {x: ZERO})
    at_start = None
    with suppress(NotShown, ZeroDivisionError):
        at_start = prove_sign(start, NOT_NEGATIVE, search)
    limit: Term | None = None
    more: dict[str, Any] = {}
    if at_start is None:
        found = find_limit(term, x, ZERO, search.facts)
        if found is None or found[0] == ("-oo",):
            return None
        limit, at_start = found
        if limit != ("oo",):
            of_value = prove_sign(limit, NOT_NEGATIVE, search)
            if of_value is None:
                return None
            more = {"value": of_value}
    try:
        slope = differentiate(term, x[1])
    except ValueError:
        return None
    for strictly, wanted in ((True, POSITIVE), (False, NOT_NEGATIVE)):
        proof = prove_sign(slope, wanted, search)
        if proof is not None:
            return {"how": "rises", "letter": x, "strictly": strictly, "start": at_start, "limit": limit,
                    "slope": proof, **more, **search.explained(term).case()}  # fmt: skip
    return None


def _risen(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Find a rise of the whole, where factors are not real: sines are written with i."""
    if any(part[0] in ("sin", "cos") for part in subterms(term)) and (proof := _rises_or_falls(term, 1, search)) is not None:
        yield proof


def _without_roots(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Write powers of roots as what they are roots of."""
    found = search.explained(term)
    if not any(g[0] == "root" for g in found.generators):
        return
    with suppress(NotShown):
        arithmetic = found.arithmetic()
        value = arithmetic.value(term)
        plain = arithmetic.without_powers(value)
        if plain.above != value.above or plain.below != value.below:
            other = written(as_term(found, plain))
            same, proof = prove_equal(term, other, search.facts, lambda _: None), prove_sign(other, wanted, search)
            if same is not None and proof is not None:
                yield {"how": "same", "other": other, "equal": same[0], "proof": proof, **search.explained(term).case()}


def _completed(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Complete a square: a x^2m + b x^m + c = a (x^m + b/2a)^2 + rest, a > 0 a number."""
    found = search.explained(term)
    with suppress(NotShown):
        value = found.arithmetic().value(term)
        if not value.below.is_constant():
            return
        whole = value.above / value.below
        for k in range(len(found.generators)):
            by_power: dict[int, Any] = {}
            for powers, coefficient in whole.terms():
                rest = tuple(0 if j == k else int(e) for j, e in enumerate(powers))
                by_power.setdefault(int(powers[k]), {})[rest] = coefficient
            top, ring = max(by_power, default=0), whole.context()
            if not top or top % 2 or not by_power.keys() <= {0, top // 2, top} or top // 2 not in by_power:
                continue
            first, b = (ring.from_dict(by_power[power]) for power in (top, top // 2))
            if not first.is_constant() or first.leading_coefficient() < 0:
                continue
            a = first.leading_coefficient()
            root = ring.gens()[k] ** (top // 2) + b / (2 * a)
            square = mul(number(int(a.p), int(a.q)), power(written(as_term(found, root)), number(2)))
            rest = written(as_term(found, whole - a * root**2))
            proof = prove_sign(rest, wanted, search.deeper)
            if proof is not None:
                shows = {"how": "shows", **search.explained(square).case()}
                parts = [(square, False, shows), (rest, wanted == POSITIVE, proof)]
                yield {"how": "sum", "parts": parts, **search.explained(term, square, rest).case()}


def _squared(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Compare squares, where a root stands among what is not negative or what is subtracted."""
    if term[0] != "+" or not any(part[0] == "^" and part[2] == number(1, 2) for part in subterms(term)):
        return
    arithmetic = search.explained(term).arithmetic()
    positive = [part for part in term[1:] if arithmetic.signs(part) <= {0, 1}]
    others = [part for part in term[1:] if part not in positive]
    if positive and others:
        greater, less = add(*positive), neg(add(*others))
        gap = add(power(greater, number(2)), neg(power(less, number(2))))
        of_greater = prove_sign(greater, NOT_NEGATIVE, search.deeper)
        of_squares = prove_sign(gap, wanted, search.deeper) if of_greater is not None else None
        if of_squares is not None:
            yield {"how": "squares", "greater": greater, "less": less, "of greater": of_greater, "of squares": of_squares,
                   **search.explained(term, greater, less).case()}  # fmt: skip


def _exponent(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Compare exponentials, where a logarithm is a part of a sum."""
    if term[0] == "+" and any(part[0] == "log" or (part[0] == "*" and any(f[0] == "log" for f in part)) for part in term[1:]):
        inner = replace(search.deeper, wide=False)
        proof = prove_sign(add(("exp", term), number(-1)), wanted, inner)
        if proof is not None:
            yield {"how": "exponent", "proof": proof, **search.explained(term).case()}


def _next(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Write a positive whole number in an exponent as 1 + u."""
    for x in _letters(term, search, "integer", "positive"):
        if any(part[0] == "^" and x in subterms(part[2]) for part in subterms(term)):
            yield from _covered(term, wanted, {"letter": x, "by": "next"}, search)


def _root(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Write a letter under a root as a power."""
    for part in subterms(term):
        if part[0] == "^" and part[2][0] == "q" and part[2][2] > 1:
            for x in (*_letters(part[1], search, "positive"), *_letters(part[1], search, "nonnegative")):
                if power(x, number(part[2][2])) not in subterms(part[1]):
                    by = {"letter": x, "by": "root", "degree": part[2][2]}
                    yield from _covered(term, wanted, by, replace(search, depth=search.depth + 1))
                    return


def _letters(term: Term, search: Search, *words: str) -> list[Term]:
    names = free_letters(term)
    return [x for x in sorted(search.facts) if x[0] == "v" and x[1] in names and search.facts[x] >= {"real", *words}]


def _pieces(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Go through the cases of a piece."""
    subjects = [part[1] for part in subterms(term) if part[0] == "piece"]
    for of in dict.fromkeys(subjects[-1:]):
        if len(free_letters(of)) != 1 or search.sides == 0:
            of_case, ways = search.explained(of), list[dict[str, Any] | None]()
            for sign in sorted(of_case.arithmetic().signs(of)):
                case = {**search.assumed, of: frozenset({sign})}
                ways.append(_settled(term, wanted, replace(search.deeper, assumed=case)))
            if None not in ways:
                yield {"how": "cases", "of": of, "ways": ways, **of_case.case()}


def _settled(term: Term, wanted: Signs, search: Search) -> dict[str, Any] | None:
    found = search.explained(term)
    proof = prove_sign(settled(term, found.arithmetic()), wanted, search)
    return None if proof is None else {**found.case(), "proof": proof}


def _sides(term: Term, wanted: Signs, search: Search) -> Iterator[dict[str, Any]]:
    """Go away from a point in both directions."""
    if search.sides == 0:
        return
    closer = replace(search, sides=search.sides - 1)
    for x in _letters(term, search):
        for m in likely_points(term, x, search.facts):
            scaled = "positive" in search.facts[x] and m != ZERO
            yield from _covered(term, wanted, {"letter": x, "by": "sides", "point": m, "scaled": scaled}, closer)


def _covered(term: Term, wanted: Signs, by: dict[str, Any], search: Search) -> Iterator[dict[str, Any]]:
    proof = {
        "how": "covers",
        **by,
        **search.explained(*([by["point"], add(by["letter"], neg(by["point"]))] if "point" in by else [])).case(),
    }
    with suppress(NotShown):
        ways = []
        for way, more in covering([term], search.facts, proof, search.assumed):
            there, facts, case = put(term, by["letter"], way, search.facts, more, search.assumed)
            ways.append(_settled(there, wanted, replace(search.deeper, facts=facts, assumed=case)))
            if ways[-1] is None:
                return
        yield {**proof, "ways": ways}
