r"""Statements that a claim can make, and how each kind is decided.

    Equal      lhs = rhs                                   identity
    Tends      expression -> value as a letter -> a point  limit
    Expands    expression = terms + O(letter^order)        series, with what was dropped
    Solves     a path satisfies its ODE and starts right   solution of an ODE
    Rounds     a printed decimal is a number, rounded      number
    Fails      another statement is refuted                refutation

and elsewhere:

    Less       lower <= upper on a region                  inequality, by a proof of sign (inequalities.py)
    Every      a finite set of cases, all of them          enumeration (cases.py)
    Measured   a mean, with a confidence interval          statistics, for what is random by nature (cases.py)
    Closes     a class of fields absorbs a group of warps  closure (derivations/closure.py)

Every kind answers with a `Verdict`: proved, refuted by numbers, or undecided. Only `Measured` samples; elsewhere numbers
refute and never prove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from sympy import (
    Basic,
    Derivative,
    Eq,
    Expr,
    Function,
    Limit,
    MatrixBase,
    Rational,
    S,
    Symbol,
    factorial,
    nan,
    oo,
    simplify,
    zoo,
)

from derivations.prover.identity import DIFFERENCE, Identity, check, column
from derivations.prover.limits import limit_or_none
from derivations.prover.refutation import certain_value
from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, Verdict

__all__ = ["Equal", "Expands", "Fails", "Rounds", "Solves", "Statement", "Tends"]

Side: TypeAlias = Expr | MatrixBase


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
        return check(Identity("", "", "", self.lhs, self.rhs))


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
        found = limit_or_none(self.expression, self.variable, self.point, self.direction)
        if found is None:
            return Verdict(UNDECIDED, perf_counter() - start, "SymPy does not find the limit")
        if found == self.value:
            return Verdict(HOLDS, perf_counter() - start, f"the limit is {found}")
        if found.is_infinite or self.value.is_infinite:
            return Verdict(FAILS, perf_counter() - start, f"the limit is {found}", {Symbol("limit"): found})
        verdict = check(Identity("", "", "", found, self.value))
        if verdict.holds is False and set(verdict.counterexample or ()) <= {DIFFERENCE}:
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
        verdict = check(Identity("", "", "", column(*ours[:-1]), column(*theirs[:-1])))
        if verdict.holds is False and set(verdict.counterexample or ()) <= {DIFFERENCE}:
            found = {Symbol(f"coefficient_{k}"): c for k, c in enumerate(ours[:-1])}
            verdict = Verdict(FAILS, verdict.seconds, verdict.evidence, found)
        dropped = simplify(ours[-1] - theirs[-1])
        return _within(start, verdict, f"coefficients 0 to {self.order - 1}; dropped: ({dropped}) {self.variable}^{self.order}; ")

    def _at_point(self, derivative: Expr, k: int) -> Expr | None:
        value = derivative.subs(self.variable, self.point)
        found = limit_or_none(derivative, self.variable, self.point, "+") if value.has(nan, zoo, oo, -oo) else value
        return None if found is None or found.is_infinite else found / factorial(k)


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
        verdict = check(Identity("", "", "", column(*lhs), column(*rhs)))
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
        value = certain_value(self.value)
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


def _entries(side: Side) -> list[Expr]:
    return list(side) if isinstance(side, MatrixBase) else [side]


def _within(start: float, verdict: Verdict, before: str) -> Verdict:
    return Verdict(verdict.verdict, perf_counter() - start, before + verdict.evidence, verdict.counterexample)
