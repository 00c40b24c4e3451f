r"""Inequalities on a region, proved by signs that SymPy reads, refuted by rational points."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any

from sympy import (
    Basic,
    Dummy,
    Expr,
    LessThan,
    Rational,
    S,
    StrictLessThan,
    Symbol,
    expand,
    factor,
    fraction,
    oo,
    powdenest,
    powsimp,
    simplify,
    together,
)

from derivations.prover.identity import DIFFERENCE, Identity, check
from derivations.prover.limits import limit_or_none
from derivations.prover.refutation import NOTICEABLE, certain_value, random_rational
from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, Verdict

__all__ = ["Less"]

# Points tried against an inequality, before its proof and in all.
POINTS_BEFORE, POINTS = 12, 200
Region = Mapping[Symbol, tuple[Expr | int, Expr | int]]


@dataclass(frozen=True)
class Less:
    r"""lower <= upper (lower < upper if strict) for all letters as their assumptions and `region` allow.

    The proof is one of sign: upper - lower, or the expression it is `rewritten` to, has a sign SymPy can read once letters
    from a bounded region are written with positive ones; or it starts at 0 or above and its derivative in a letter
    of `rising` is proved positive in the same way, again and again.

    Args:    lower, upper; strict; region: (from, to) for letters, ends not included; rewritten: an expression equal to
             upper - lower; rising: letters to take derivatives in, one after the other.
    Source:  this project.
    """

    lower: Expr
    upper: Expr
    strict: bool = False
    region: Region | None = None
    rewritten: Expr | None = None
    rising: tuple[Symbol, ...] = ()
    kind = "inequality on a region"

    def formulas(self) -> tuple[Basic, ...]:
        relation = StrictLessThan if self.strict else LessThan
        bounds = [
            StrictLessThan(a, b, evaluate=False)
            for letter, (low, high) in (self.region or {}).items()
            for a, b in ((S(low), letter), (letter, S(high)))
            if a != -oo and b != oo
        ]
        return (relation(self.lower, self.upper, evaluate=False), *bounds)

    def decide(self) -> Verdict:
        start = perf_counter()

        def verdict(word: str, evidence: str, numbers: Mapping[Expr, Any] | None = None) -> Verdict:
            return Verdict(word, perf_counter() - start, evidence, numbers)

        gap, points = self.upper - self.lower, self._points()
        # A few points before the costly proof, which a wrong inequality should not have to wait for; the rest after it failed.
        found = _negative(gap, islice(points, POINTS_BEFORE), self.strict)
        gap_as_read, how = gap if self.rewritten is None else self.rewritten, None
        if found is None:
            if self.rewritten is not None and not (same := check(Identity("", "", "", gap, self.rewritten))).holds:
                return verdict(UNDECIDED, f"upper - lower could not be rewritten: {same.evidence}")
            how = _sign(gap_as_read, dict(self.region or {}), self.strict, self.rising, 4)
            found = _negative(gap, points, self.strict) if how is None else None
        if found is not None:
            values, value = found
            return verdict(FAILS, f"upper - lower = {value.evalf(8)} at the counterexample", values or {DIFFERENCE: value})
        if how is None:
            return verdict(UNDECIDED, "SymPy does not find the sign of upper - lower, and no numbers refute it")
        return verdict(HOLDS, f"upper - lower is {'positive' if self.strict else 'not negative'}: {how}")

    def _points(self) -> Iterator[dict[Expr, Any]]:
        """Points of the region, the same in every run."""
        letters = (self.upper - self.lower).free_symbols | {
            u for pair in (self.region or {}).values() for end in pair for u in S(end).free_symbols
        }
        dice = random.Random(0)
        for _ in range(POINTS):
            values = {letter: _inside(letter, (self.region or {}).get(letter), dice) for letter in sorted(letters, key=str)}
            if None not in values.values() and self._ordered(values):
                yield values

    def _ordered(self, values: Mapping[Expr, Any]) -> bool:
        """Whether the values lie in regions whose ends are letters themselves."""
        for letter, (low, high) in (self.region or {}).items():
            if letter in values:
                ends = [S(end).subs(values) for end in (low, high)]
                inside = (ends[0] < values[letter], values[letter] < ends[1])
                if any(side != S.true and side is not True for side in inside):
                    return False
        return True


def _negative(gap: Expr, points: Iterable[dict[Expr, Any]], strict: bool) -> tuple[dict[Expr, Any], Expr] | None:
    """A point at which the gap is negative (or 0 if that is too little), and its value."""
    for values in points:
        value = certain_value(gap.subs(values))
        if value is not None and (value < -NOTICEABLE or (strict and value == 0)):
            return values, value
    return None


def _inside(letter: Symbol, bounds: tuple[Expr | int, Expr | int] | None, dice: random.Random) -> Rational | None:
    """A rational number the letter may stand for; ends that are letters are checked afterwards."""
    if bounds is None or not all(S(b).is_number for b in bounds):
        return random_rational(letter, letter, dice)
    low, high = S(bounds[0]), S(bounds[1])
    part = Rational(dice.randint(1, 96), 97)
    if low.is_finite and high.is_finite:
        return low + (high - low) * part
    far = part / (1 - part)
    return low + far if low.is_finite else high - far if high.is_finite else far - 1 / far


def _sign(e: Expr, region: dict[Symbol, tuple[Any, Any]], strict: bool, rising: tuple[Symbol, ...], depth: int) -> str | None:
    """How e is seen to be positive (or not negative) on the region; None if it is not seen."""
    if _reads(_in_positive_letters(e, region), strict):
        return "its sign shows" + (" in positive letters" if region else "")
    for letter in rising if depth else ():
        low, _ = region.get(letter, (0, oo))
        at_start = limit_or_none(e, letter, low, "+")
        if at_start is None or at_start == -oo:
            continue
        rest = {u: bounds for u, bounds in region.items() if u != letter}
        starts = at_start in (0, oo) or _sign(at_start, rest, False, rising, depth - 1)
        # Above its start a function with a positive derivative is positive even where it starts at 0.
        if starts and (rises := _sign(simplify(e.diff(letter)), region, strict, rising, depth - 1)):
            return f"not negative as {letter} -> {low}, and its derivative in {letter} is positive ({rises})"
    return None


def _in_positive_letters(e: Expr, region: Mapping[Symbol, tuple[Any, Any]]) -> Expr:
    for letter, (start, end) in region.items():
        low, high, u = S(start), S(end), Dummy(letter.name, positive=True)
        if low != -oo and high == oo:
            e = e.subs(letter, low + u)
        elif low == -oo and high != oo:
            e = e.subs(letter, high - u)
        elif low != -oo:
            e = e.subs(letter, (low + high * u) / (1 + u))
    return e


def _reads(e: Expr, strict: bool) -> bool:
    def shows(form: Expr) -> bool:
        return bool(form.is_positive if strict else form.is_nonnegative)

    for form in _forms(e):
        above, below = fraction(form)
        for top in (above, expand(above), factor(above)):
            for bottom in (below, expand(below)):
                if (shows(top) and bottom.is_positive) or (shows(-top) and bottom.is_negative):
                    return True
    return False


def _forms(e: Expr) -> Iterator[Expr]:
    yield e
    for form in (together, factor, powsimp, powdenest, simplify):
        yield together(form(e))
