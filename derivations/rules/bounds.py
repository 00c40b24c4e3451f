r"""Bounds of a term by those of its parts: sin and cos stay within -1 and 1, tanh and erf between them, whole numbers from 1 on.

A bound is a rational number and whether it is reached, or None where there is none: (low, high), each (number, reached).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from flint import fmpq

from derivations.rules.quotients import Case, Signs
from derivations.rules.terms import Term, subterms

__all__ = ["Bounds", "bounds", "signs_within"]

End: TypeAlias = tuple[fmpq, bool] | None
Bounds: TypeAlias = tuple[End, End]
NOWHERE: Bounds = (None, None)
BOUNDED = ("sin", "cos", "tanh", "erf")


def bounds(case: Case, term: Term) -> Bounds | None:
    """Return the bounds of a real sum; None where nothing in it has bounds that its sign does not tell."""
    whole = any({"integer", "positive"} <= case.facts.get(part, frozenset()) for part in term[1:])
    if not whole and not any(part[0] in BOUNDED for part in subterms(term)):
        return None
    return _of(case, term)


def signs_within(ends: Bounds) -> Signs:
    """Return the signs of numbers between two bounds."""
    low, high = ends
    return _above(low) & frozenset(-s for s in _above(high and (-high[0], high[1])))


def _above(end: End) -> Signs:
    if end is None or end[0] < 0:
        return frozenset({-1, 0, 1})
    return frozenset({0, 1}) if end == (0, True) else frozenset({1})


def _of(case: Case, term: Term) -> Bounds:
    match term[0]:
        case "q":
            return ((fmpq(term[1], term[2]), True),) * 2
        case "+":
            return _sum([_of(case, part) for part in term[1:]])
        case "*":
            return _product([_of(case, part) for part in term[1:]])
        case "sin" | "cos" if case.reads_real(term[1]):
            return (fmpq(-1), True), (fmpq(1), True)
        case "tanh" | "erf" if case.reads_real(term[1]):
            return _meet(((fmpq(-1), False), (fmpq(1), False)), _by_signs(case.signs(term)))
        case "piece" if case.reads_real(term[1]):
            return _join([_of(case, term[3 + sign]) for sign in sorted(case.signs(term[1]))])
    if {"integer", "positive"} <= case.facts.get(term, frozenset()):
        return (fmpq(1), True), None
    return _by_signs(case.signs(term))


def _by_signs(signs: Signs) -> Bounds:
    """Return the bounds that signs are; {-1, 1}, which says of what may not be real that it is not 0, gives none."""
    zero = fmpq(0), 0 in signs
    return (zero if signs <= {0, 1} else None), (zero if signs <= {-1, 0} else None)


def _sum(parts: Sequence[Bounds]) -> Bounds:
    low, high = ([part[k] for part in parts] for k in (0, 1))
    return _total(low), _total(high)


def _total(ends: Sequence[End]) -> End:
    known = [end for end in ends if end is not None]
    return (sum((n for n, _ in known), start=fmpq(0)), all(r for _, r in known)) if len(known) == len(ends) else None


def _product(parts: Sequence[Bounds]) -> Bounds:
    product = parts[0]
    for part in parts[1:]:
        product = _times(product, part)
    return product


def _times(a: Bounds, b: Bounds) -> Bounds:
    """Multiply by a number, or two finite intervals; nothing is known of other products."""
    for scaled, by in ((a, b), (b, a)):
        if by[0] is not None and by[0] == by[1]:
            c = by[0][0]
            if c == 0:
                return by
            low, high = ((end[0] * c, end[1]) if end is not None else None for end in scaled)
            return (low, high) if c > 0 else (high, low)
    if None in (*a, *b):
        return NOWHERE
    corners = [u[0] * v[0] for u in a for v in b if u is not None and v is not None]
    return (min(corners), True), (max(corners), True)


def _join(all_bounds: Sequence[Bounds]) -> Bounds:
    """Return bounds of what lies within one or another."""
    lows, highs = ([ends[k] for ends in all_bounds] for k in (0, 1))
    low = None if None in lows or not lows else min((end for end in lows if end), key=lambda end: (end[0], not end[1]))
    high = None if None in highs or not highs else max((end for end in highs if end), key=lambda end: (end[0], end[1]))
    return low, high


def _meet(a: Bounds, b: Bounds) -> Bounds:
    """Return bounds of what lies within both."""
    low = a[0] if b[0] is None else b[0] if a[0] is None or b[0][0] > a[0][0] else a[0]
    high = a[1] if b[1] is None else b[1] if a[1] is None or b[1][0] < a[1][0] else a[1]
    return low, high
