r"""The rule of equality: two terms are one quotient of polynomials in every case of some signs.

A certificate names what to split by, and for each case of signs the generators and lines of `rational.py`. Checking it finds
anew in which cases both sides are defined, and multiplies out there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from derivations.rules.definedness import ALLOWED, Certificate, Conditions, undefined
from derivations.rules.limits import limit_conditions
from derivations.rules.quotients import Facts, NotShown
from derivations.rules.rational import Arithmetic, arithmetic_of
from derivations.rules.terms import (
    BINDERS,
    ZERO,
    Term,
    add,
    free_letters,
    neg,
    substitute,
    subterms,
    taken,
)

__all__ = ["equal", "in_cases", "possible_signs"]


def in_cases(terms: Sequence[Term], split: Sequence[Term], signs: Sequence[int]) -> tuple[list[Term], dict[Term, frozenset[int]]]:
    """Put the terms into one case: letters that are 0 are replaced by 0, other signs are assumed."""
    zeros = {u: ZERO for u, sign in zip(split, signs, strict=True) if sign == 0 and u[0] in ("v", "call")}
    assumed = {u: frozenset({sign}) for u, sign in zip(split, signs, strict=True) if u not in zeros}
    return [substitute(term, zeros) for term in terms], {substitute(u, zeros): s for u, s in assumed.items()}


def equal(lhs: Term, rhs: Term, facts: Facts, certificate: Certificate) -> Conditions:
    r"""Check that lhs = rhs wherever the facts and the conditions returned are true.

    Raises:  NotShown where the certificate does not show it.
    """
    lhs, rhs, split = taken(lhs), taken(rhs), certificate["split"]
    cases = {tuple(case["signs"]): case for case in certificate["cases"]}
    conditions: dict[tuple[str, Term], None] = {}
    bound = {part[1] for side in (lhs, rhs) for part in subterms(side) if part[0] in BINDERS}
    somewhere = False
    if any(bound & free_letters(u) for u in split):
        raise NotShown("a bound letter has not one sign")
    for signs in possible_signs(facts, split):
        (left, right), assumed = in_cases((lhs, rhs), split, signs)
        if signs not in cases:
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
        if impossible:  # a side is not defined in this case: it is excluded, if it is not already
            zeros = [("!=", u) for k, u in enumerate(split) if signs[k] == 0 and len(_open_signs(facts, split, signs[:k])) > 1]
            conditions.update({} if conditions.keys() & {*zeros} else dict.fromkeys(zeros or impossible))
            continue
        somewhere = True
        conditions.update(dict.fromkeys(open_here))
        if not arithmetic.is_zero(add(left, neg(right))):
            raise NotShown("the quotients differ")
    if not somewhere:
        raise NotShown("the sides are not both defined anywhere")
    return tuple(conditions)


def possible_signs(facts: Facts, split: Sequence[Term], before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield the signs of the terms split by, without those that contradict the facts or the signs of the terms before."""
    if len(before) == len(split):
        yield before
        return
    for sign in _open_signs(facts, split, before):
        yield from possible_signs(facts, split, (*before, sign))


def _open_signs(facts: Facts, split: Sequence[Term], before: tuple[int, ...]) -> list[int]:
    """Return the signs that the next of the terms split by can have after those before."""
    (u,), assumed = in_cases([split[len(before)]], split[: len(before)], before)
    letters = dict.fromkeys(part for term in (u, *assumed) for part in subterms(term) if part[0] in ("v", "call"))
    return sorted(Arithmetic(facts, list(letters), {}, assumed).signs(u))
