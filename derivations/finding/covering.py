"""Find points at which a term may touch 0."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

from flint import acb

from derivations.finding.numbers import free_quantities, random_numbers
from derivations.rules.numbers import ball
from derivations.rules.quotients import Facts, NotShown
from derivations.rules.terms import (
    ONE,
    ZERO,
    Term,
    differentiate,
    free_letters,
    number,
    substitute,
    subterms,
)

__all__ = ["likely_points"]

POINTS = (ZERO, ONE, number(-1), number(2), number(1, 2), ("exp", ONE), ("exp", number(-1)))
PLACES = 3


def likely_points(term: Term, x: Term, facts: Facts) -> Iterator[Term]:
    """Yield points at which a term may touch 0: where it has a corner, an end, or no slope. Other letters are points too."""
    others = [u for u in sorted(facts) if u[0] == "v" and u != x and u[1] in free_letters(term)]
    for m in (*POINTS, *others):
        if _may_be(x, m, facts) and _may_touch(term, x, m, facts):
            yield m


def _may_be(x: Term, m: Term, facts: Facts) -> bool:
    if m[0] == "v":
        return facts[m] >= facts[x] - {"nonzero"} and "integer" not in facts[m]
    return m[0] == "exp" or all(
        {"positive": m[1] > 0, "nonnegative": m[1] >= 0, "negative": m[1] < 0, "nonpositive": m[1] <= 0}.get(word, True)
        for word in facts[x]
    )


def _may_touch(term: Term, x: Term, m: Term, facts: Facts) -> bool:
    if m == ZERO and facts[x] & {"nonnegative", "nonpositive"}:
        return True
    subjects = [part[1] for part in subterms(term) if part[0] == "piece" and x in subterms(part[1])]
    if any(_vanishes(subject, x, m, facts) for subject in subjects):
        return True
    try:
        slope = differentiate(term, x[1])
    except ValueError:
        return False
    return not subjects and _vanishes(slope, x, m, facts)


def _vanishes(term: Term, x: Term, m: Term, facts: Facts) -> bool:
    """Return whether a term is 0 at a point, as far as numbers for the other letters show."""
    for trial in range(PLACES):
        there = substitute(term, {x: m})
        numbers = random_numbers(free_quantities([there]), facts, random.Random(trial), trial)
        if numbers is None:
            return False
        with suppress(NotShown):
            value = ball(there, numbers)
            if isinstance(value, acb) or not value.contains(0):
                return False
    return True
