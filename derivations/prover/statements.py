r"""What a claim can say, and how each kind is decided.

    Equal      lhs = rhs                                   identity
    Tends      expression -> value as a letter -> a point  limit
    Expands    expression = terms + O(letter^order)        series, with what was dropped
    Less       lower <= upper on a region                  inequality, by a proof of sign
    Solves     a path satisfies its ODE and starts right   solution of an ODE
    Rounds     a printed decimal is a number, rounded      number
    Every      a finite set of cases, all of them          enumeration
    Measured   a mean, with a confidence interval          statistics, for what is random by nature
    Fails      another statement is refuted                refutation

Every kind answers with a `Verdict`: proved, refuted by numbers, or undecided. Only `Measured` samples; elsewhere numbers
refute and never prove.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import stats
from sympy import (
    AccumBounds,
    Basic,
    Derivative,
    Dummy,
    Eq,
    Expr,
    Float,
    Function,
    LessThan,
    Limit,
    MatrixBase,
    PoleError,
    Rational,
    S,
    StrictLessThan,
    Symbol,
    expand,
    factor,
    factorial,
    fraction,
    limit,
    nan,
    oo,
    powdenest,
    powsimp,
    simplify,
    together,
    zoo,
)

from derivations.prover import identity
from derivations.prover.identity import FAILS, HOLDS, UNDECIDED, Identity, Verdict

__all__ = ["Equal", "Every", "Expands", "Fails", "Less", "Measured", "Rounds", "Solves", "Statement", "Tends"]

Side: TypeAlias = Expr | MatrixBase
# Points tried against an inequality, before its proof and in all.
POINTS_BEFORE, POINTS = 12, 200
Region = Mapping[Symbol, tuple[Expr | int, Expr | int]]


class Statement(Protocol):
    """Something that can be decided: its kind in words, its formulas, and its verdict."""

    @property
    def kind(self) -> str: ...

    def formulas(self) -> tuple[Basic, ...]: ...

    def decide(self) -> Verdict: ...


@dataclass(frozen=True)
class Equal:
    r"""lhs = rhs, entry by entry where both are matrices; see `Identity`.

    Args:    lhs, rhs: expressions or matrices of one shape, without floats; shown: what the page shows instead, where the
             sides are long.
    Source:  this project.
    """

    lhs: Side
    rhs: Side
    shown: Basic | None = None
    kind = "identity"

    def formulas(self) -> tuple[Basic, ...]:
        if self.shown is not None:
            return (self.shown,)
        pairs = zip(*map(_entries, (self.lhs, self.rhs)), strict=True)
        # Where SymPy has made both sides one letter or number, there is nothing left to read.
        return tuple(Eq(left, right, evaluate=False) for left, right in pairs if left != right or not left.is_Atom)

    def decide(self) -> Verdict:
        return identity.check(Identity("", "", "", self.lhs, self.rhs))


@dataclass(frozen=True)
class Tends:
    r"""expression -> value as variable -> point, from above ("+"), from below ("-") or both ("+-").

    Source:  this project.
    """

    expression: Expr
    variable: Symbol
    point: Expr | int
    value: Expr
    direction: str = "+"
    kind = "limit"

    def formulas(self) -> tuple[Basic, ...]:
        return (Eq(Limit(self.expression, self.variable, self.point, self.direction), self.value, evaluate=False),)

    def decide(self) -> Verdict:
        start = perf_counter()
        found = _limit(self.expression, self.variable, self.point, self.direction)
        if found is None:
            return Verdict(UNDECIDED, perf_counter() - start, "SymPy does not find the limit")
        if found == self.value:
            return Verdict(HOLDS, perf_counter() - start, f"the limit is {found}")
        if found.is_infinite or self.value.is_infinite:
            return Verdict(FAILS, perf_counter() - start, f"the limit is {found}", {Symbol("limit"): found})
        verdict = identity.check(Identity("", "", "", found, self.value))
        if verdict.holds is False and set(verdict.counterexample or ()) <= {identity.DIFFERENCE}:
            verdict = Verdict(FAILS, verdict.seconds, verdict.evidence, {Symbol("limit"): found})
        return _within(start, verdict, f"the limit is {found}; ")


@dataclass(frozen=True)
class Expands:
    r"""expression = terms + O((variable - point)^order): Taylor's coefficients below `order`, each compared.

    Args:    expression; variable; terms: a polynomial in variable - point; order: the power of the first term dropped,
             which the evidence names; point: where the series is taken.
    Source:  this project.
    """

    expression: Expr
    variable: Symbol
    terms: Expr
    order: int
    point: Expr | int = 0
    kind = "series"

    def formulas(self) -> tuple[Basic, ...]:
        rest = Function("O")((self.variable - self.point) ** self.order)
        return (Eq(self.expression, self.terms + rest, evaluate=False),)

    def decide(self) -> Verdict:
        start = perf_counter()
        ours: list[Any] = []  # None where there is no coefficient
        theirs: list[Any] = []
        for side, coefficients in ((self.expression, ours), (self.terms, theirs)):
            for k in range(self.order + 1):
                coefficients.append(self._at_point(side, k))
                side = side.diff(self.variable)  # noqa: PLW2901
        if None in ours or None in theirs:
            return Verdict(UNDECIDED, perf_counter() - start, "SymPy does not find every coefficient")
        verdict = identity.check(Identity("", "", "", identity.column(*ours[:-1]), identity.column(*theirs[:-1])))
        if verdict.holds is False and set(verdict.counterexample or ()) <= {identity.DIFFERENCE}:
            found = {Symbol(f"coefficient_{k}"): c for k, c in enumerate(ours[:-1])}
            verdict = Verdict(FAILS, verdict.seconds, verdict.evidence, found)
        dropped = simplify(ours[-1] - theirs[-1])
        return _within(start, verdict, f"coefficients 0 to {self.order - 1}; dropped: ({dropped}) {self.variable}^{self.order}; ")

    def _at_point(self, derivative: Expr, k: int) -> Expr | None:
        value = derivative.subs(self.variable, self.point)
        found = _limit(derivative, self.variable, self.point, "+") if value.has(nan, zoo, oo, -oo) else value
        return None if found is None or found.is_infinite else found / factorial(k)


@dataclass(frozen=True)
class Less:
    r"""lower <= upper (lower < upper if strict) for all letters as their assumptions and `region` allow.

    The proof is one of sign: upper - lower, or the expression it is `rewritten` to, has a sign SymPy can read once letters
    from a bounded region are written with positive ones; or it starts at 0 or above and its derivative along a letter
    of `along` is proved positive in the same way, again and again.

    Args:    lower, upper; strict; region: (from, to) for letters, ends not included; rewritten: an expression equal to
             upper - lower; along: letters of `region` to take derivatives in.
    Source:  this project.
    """

    lower: Expr
    upper: Expr
    strict: bool = False
    region: Region | None = None
    rewritten: Expr | None = None
    along: tuple[Symbol, ...] = ()
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
            if self.rewritten is not None and not (same := identity.check(Identity("", "", "", gap, self.rewritten))).holds:
                return verdict(UNDECIDED, f"upper - lower could not be rewritten: {same.evidence}")
            how = _sign(gap_as_read, dict(self.region or {}), self.strict, self.along, 4)
            found = _negative(gap, points, self.strict) if how is None else None
        if found is not None:
            values, value = found
            return verdict(
                FAILS, f"upper - lower = {value.evalf(8)} at the counterexample", values or {identity.DIFFERENCE: value}
            )
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


@dataclass(frozen=True)
class Solves:
    r"""The path satisfies the equations, and starts where it should.

    Args:    equations: Eq(h(t).diff(t), F) for each unit; path: h(t) -> an expression in t; initial: (t0, h(t) -> value).
    Source:  this project.
    """

    equations: tuple[Eq, ...]
    path: Mapping[Expr, Expr]
    initial: tuple[Expr, Mapping[Expr, Expr]] | None = None
    kind = "solution of an ODE"

    def formulas(self) -> tuple[Basic, ...]:
        return (*self.equations, *(Eq(h, value, evaluate=False) for h, value in self.path.items()))

    def decide(self) -> Verdict:
        start = perf_counter()
        sides = [(self._on_path(e.lhs).doit(), self._on_path(e.rhs)) for e in self.equations]
        if self.initial is not None:
            t0, values = self.initial
            (t,) = {e.lhs.variables[0] for e in self.equations if isinstance(e.lhs, Derivative)}
            sides += [(self.path[h].subs(t, t0), value) for h, value in values.items()]
        lhs, rhs = zip(*sides, strict=True)
        verdict = identity.check(Identity("", "", "", identity.column(*lhs), identity.column(*rhs)))
        return _within(start, verdict, "put into the equation" + ("" if self.initial is None else " and the start") + "; ")

    def _on_path(self, side: Expr) -> Expr:
        return side.subs(dict(self.path))


@dataclass(frozen=True)
class Rounds:
    r"""The printed decimal is the number to the digits printed: within half a unit of its last place.

    Args:    value: a number, exact; printed: as in the text, "0.167"; within: another margin, where the text says
             "roughly" (state it in the claim's words).
    Source:  this project.
    """

    value: Expr
    printed: str
    within: Expr | None = None
    kind = "number"

    def formulas(self) -> tuple[Basic, ...]:
        return (Eq(self.value, Symbol(self.printed), evaluate=False),)

    def decide(self) -> Verdict:
        start = perf_counter()
        places = len(self.printed.partition(".")[2])
        margin = Rational(1, 2 * 10**places) if self.within is None else self.within
        value = identity._value(self.value)
        if value is None:
            return Verdict(UNDECIDED, perf_counter() - start, "the digits of the number are not certain")
        right = abs(value - Rational(self.printed)) <= margin
        evidence = f"the number is {value.evalf(len(self.printed) + 4)}, printed {self.printed}"
        return (
            Verdict(HOLDS, perf_counter() - start, evidence)
            if right
            else Verdict(FAILS, perf_counter() - start, evidence, {Symbol("number"): value.evalf(12)})
        )


@dataclass(frozen=True)
class Every:
    r"""All cases of a finite set, each computed: a proof for these cases, and said to be for no more.

    Args:    words: which cases; cases: gives (case as numbers by name, whether it is as claimed), one at a time; shown:
             the formula that each case checks.
    Source:  this project.
    """

    words: str
    cases: Callable[[], Iterable[tuple[Mapping[str, Any], bool]]]
    shown: Basic | None = None
    kind = "enumeration"

    def formulas(self) -> tuple[Basic, ...]:
        return () if self.shown is None else (self.shown,)

    def decide(self) -> Verdict:
        start, n = perf_counter(), 0
        for n, (case, right) in enumerate(self.cases(), 1):
            if not right:
                found = {Symbol(name): value for name, value in case.items()}
                return Verdict(FAILS, perf_counter() - start, f"case {n} of {self.words} is otherwise", found)
        word = HOLDS if n else UNDECIDED
        return Verdict(word, perf_counter() - start, f"all {n} cases: {self.words}")


@dataclass(frozen=True)
class Measured:
    r"""The mean of what is drawn is the claimed value to within a tolerance: statistics, for what is random by nature.

    Holds if the whole confidence interval of the mean (Student's t) lies within the tolerance of the claimed value, fails
    if it lies outside, and is undecided otherwise.

    Args:    words: what is drawn; draw: (generator, n) -> n independent numbers; claimed; tolerance: absolute; n: sample
             size; significance: 1 - level of the interval; seed.
    Source:  this project.
    """

    words: str
    draw: Callable[[np.random.Generator, int], Any]
    claimed: Expr
    tolerance: Rational
    n: int = 100_000
    significance: Rational = field(default_factory=lambda: Rational(1, 1000))
    seed: int = 0
    shown: Basic | None = None
    kind = "statistics"

    def formulas(self) -> tuple[Basic, ...]:
        return () if self.shown is None else (self.shown,)

    def decide(self) -> Verdict:
        start = perf_counter()
        sample = np.asarray(self.draw(np.random.default_rng(self.seed), self.n), dtype=float)
        spread = stats.t.ppf(1 - float(self.significance) / 2, self.n - 1) * sample.std(ddof=1) / np.sqrt(self.n)
        mean, claimed, tolerance = sample.mean(), float(self.claimed), float(self.tolerance)
        evidence = (
            f"mean of {self.n} draws ({self.words}) {mean:.6g}, {100 * (1 - float(self.significance)):g} % interval "
            f"+-{spread:.2g} (Student's t); claimed {claimed:.6g} +- {tolerance:g}"
        )
        if abs(mean - claimed) + spread <= tolerance:
            return Verdict(HOLDS, perf_counter() - start, evidence)
        if abs(mean - claimed) - spread > tolerance:
            return Verdict(FAILS, perf_counter() - start, evidence, {Symbol("mean"): Float(mean, 6)})
        return Verdict(UNDECIDED, perf_counter() - start, evidence)


@dataclass(frozen=True)
class Fails:
    r"""The other statement is false, by concrete numbers: what "is not", "need not" and "no longer" say.

    Source:  this project.
    """

    statement: Statement

    @property
    def kind(self) -> str:
        article = "an" if self.statement.kind[0] in "aei" else "a"
        return f"refutation of {article} {self.statement.kind}"

    def formulas(self) -> tuple[Basic, ...]:
        return tuple(Function("not")(formula) if isinstance(formula, Expr) else ~formula for formula in self.statement.formulas())

    def decide(self) -> Verdict:
        inner = self.statement.decide()
        if inner.holds is None:
            return inner
        if inner.holds:
            return Verdict(FAILS, inner.seconds, f"what should fail holds: {inner.evidence}", {Symbol("difference"): S.Zero})
        numbers = ", ".join(f"{k} = {v}" for k, v in (inner.counterexample or {}).items())
        return Verdict(HOLDS, inner.seconds, f"refuted, {inner.evidence}" + (f" ({numbers})" if numbers else ""))


def _limit(expression: Expr, variable: Symbol, point: Expr | int, direction: str) -> Expr | None:
    """The limit, from one side or from both; None where SymPy finds none."""
    try:
        found = [limit(expression, variable, point, side) for side in direction]
    except (NotImplementedError, PoleError, ValueError):
        return None
    if any(value.has(Limit, AccumBounds, nan, zoo) for value in found):
        return None
    return found[0] if len({*found}) == 1 or simplify(found[0] - found[1]) == 0 else None


def _entries(side: Side) -> list[Expr]:
    return list(side) if isinstance(side, MatrixBase) else [side]


def _within(start: float, verdict: Verdict, before: str) -> Verdict:
    return Verdict(verdict.verdict, perf_counter() - start, before + verdict.evidence, verdict.counterexample)


def _negative(gap: Expr, points: Iterable[dict[Expr, Any]], strict: bool) -> tuple[dict[Expr, Any], Expr] | None:
    """A point at which the gap is negative (or 0 if that is too little), and its value."""
    for values in points:
        value = identity._value(gap.subs(values))
        if value is not None and (value < -identity.NOTICEABLE or (strict and value == 0)):
            return values, value
    return None


def _inside(letter: Symbol, bounds: tuple[Expr | int, Expr | int] | None, dice: random.Random) -> Rational | None:
    """A rational number the letter may stand for; ends that are letters are checked afterwards."""
    if bounds is None or not all(S(b).is_number for b in bounds):
        return identity._rational(letter, letter, dice)
    low, high = S(bounds[0]), S(bounds[1])
    part = Rational(dice.randint(1, 96), 97)
    if low.is_finite and high.is_finite:
        return low + (high - low) * part
    far = part / (1 - part)
    return low + far if low.is_finite else high - far if high.is_finite else far - 1 / far


def _sign(e: Expr, region: dict[Symbol, tuple[Any, Any]], strict: bool, along: tuple[Symbol, ...], depth: int) -> str | None:
    """How e is seen to be positive (or not negative) on the region; None if it is not seen."""
    if _reads(_in_positive_letters(e, region), strict):
        return "its sign shows" + (" in positive letters" if region else "")
    for letter in along if depth else ():
        low, _ = region.get(letter, (0, oo))
        at_start = _limit(e, letter, low, "+")
        if at_start is None or at_start == -oo:
            continue
        rest = {u: bounds for u, bounds in region.items() if u != letter}
        starts = at_start in (0, oo) or _sign(at_start, rest, False, along, depth - 1)
        # Above its start a function with a positive derivative is positive even where it starts at 0.
        if starts and (rises := _sign(simplify(e.diff(letter)), region, strict, along, depth - 1)):
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
