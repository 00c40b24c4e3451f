"""Find a proof that one term is less than another on a region, or numbers at which it is not."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flint import fmpq

from derivations.finding.equality import Antiderivative, prove_equal
from derivations.finding.numbers import free_quantities, random_numbers
from derivations.finding.positivity import Search, prove_sign
from derivations.rules.covering import Region, within
from derivations.rules.inequalities import less, not_less
from derivations.rules.numbers import Ball, exact
from derivations.rules.positivity import NOT_NEGATIVE, POSITIVE
from derivations.rules.quotients import Facts, NotShown
from derivations.rules.terms import Term, add, neg

__all__ = ["not_less_at", "prove_less"]


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
        search = Search(known, (*(("v", f"{x[1]}+") for x in rising), *rising))
        proof = prove_sign(there, wanted, search) or prove_sign(there, wanted, replace(search, wide=True))
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
