"""Find numbers at which two terms differ, small ones first."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from flint import fmpq

from derivations.rules.numbers import HOLDS, Ball, differs
from derivations.rules.quotients import Facts, NotShown
from derivations.rules.terms import (
    BINDERS,
    Term,
    parts,
    taken,
)

__all__ = ["TRIALS", "free_quantities", "on_the_surface", "random_numbers", "refuted"]

TRIALS = 40
# Small numbers first: a counterexample is for reading.
SMALL = [fmpq(1), fmpq(2), fmpq(-1), fmpq(3), fmpq(1, 2), fmpq(-2), fmpq(0), fmpq(-1, 2)]


def free_quantities(terms: Iterable[Term]) -> list[Term]:
    """List the letters and values of undefined functions that no sum or integral binds."""
    return sorted({quantity for term in terms for quantity in _free(term, frozenset())}, key=str)


def _free(term: Term, bound: frozenset[str]) -> Iterator[Term]:
    if term[0] in BINDERS:
        bound |= {term[1]}
    if (term[0] == "v" and term[1] not in bound) or term[0] == "call":
        yield term
    for part in parts(term):
        yield from _free(part, bound)


def on_the_surface(term: Term) -> Iterator[Term]:
    """Yield letters and values in a term, but not those within the argument of an undefined function."""
    if term[0] in ("v", "call"):
        yield term
    else:
        for part in parts(term):
            yield from on_the_surface(part)


def random_numbers(quantities: Iterable[Term], facts: Facts, dice: random.Random, trial: int = TRIALS) -> dict[Term, fmpq] | None:
    """Draw a number for each as its facts allow, small ones in the first trials. Slopes are positive, as those of clocks are."""
    numbers = {}
    for quantity in quantities:
        allowed = [HOLDS[fact] for fact in facts.get(quantity, ())]
        slope = quantity[0] == "call" and any(quantity[2])
        for _ in range(200):
            value = _drawn(dice, trial)
            if "integer" in facts.get(quantity, ()):
                value = fmpq(int(value.p) // int(value.q))
            value = abs(value) + fmpq(1, 8) * (value == 0) if slope else value
            if all(holds(value) for holds in allowed):
                numbers[quantity] = value
                break
        else:
            return None
    return numbers


def _drawn(dice: random.Random, trial: int) -> fmpq:
    if trial % 3 == 2:  # between 0 and 1, where probabilities are
        return fmpq(dice.randint(1, 12), 13)
    if trial >= 12 and trial % 5 in (1, 3):  # negative numbers to whole powers: x^(2 a) at x = -1, a = 1/2
        return fmpq(dice.choice((-3, -2, -1, 1, 2, 3)), 2)
    if trial >= 12 and trial % 5 == 4:
        return fmpq(dice.randint(-1000, 1000))
    return dice.choice(SMALL) if trial < 12 else fmpq(dice.randint(-12, 12), dice.choice((4, 5, 6, 7)))


def refuted(
    lhs: Term, rhs: Term, facts: Facts, trials: Iterable[int] = range(TRIALS)
) -> tuple[dict[Term, fmpq], fmpq | Ball] | None:
    """Find numbers at which lhs - rhs is certainly not 0, and its value there; the same in every run."""
    try:
        lhs, rhs = taken(lhs), taken(rhs)
    except ValueError:
        return None
    quantities = free_quantities((lhs, rhs))
    for trial in trials:
        numbers = random_numbers(quantities, facts, random.Random(trial), trial)
        if numbers is None:
            return None
        try:
            return numbers, differs(lhs, rhs, facts, numbers)
        except NotShown:
            if not quantities:
                return None
    return None
