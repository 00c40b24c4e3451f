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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from sympy import Basic, Derivative, Eq, Expr, Function, Limit, MatrixBase, Rational, S, Symbol, simplify

from derivations.certificates.limits import find_coefficients, find_limit
from derivations.certificates.numbers import as_sympy, refuted
from derivations.certificates.reading import Reading, Unreadable
from derivations.checker.limits import approach, coefficients, limit_conditions
from derivations.checker.numbers import rounds
from derivations.checker.quotients import NotShown
from derivations.checker.statements.conclusions import guarded
from derivations.checker.terms import INFINITY, ONE, ZERO, Term, taken
from derivations.prover.identity import DIFFERENCE, Identity, check, check_terms, column, says
from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, Verdict

__all__ = ["Equal", "Expands", "Fails", "Rounds", "Solves", "Statement", "Tends"]

Side: TypeAlias = Expr | MatrixBase


class Statement(Protocol):
    """Something that can be decided: its kind in words, its formulas, what it says to the checker, and its verdict."""

    @property
    def kind(self) -> str: ...

    def formulas(self) -> tuple[Basic, ...]: ...

    def says(self) -> dict[str, Any] | None:
        """The statement as `concludes` takes it, read from its formulas and not from a proof; None if the checker has no rule."""
        ...

    def decide(self) -> Verdict: ...


@dataclass(frozen=True)
class Equal:
    r"""lhs = rhs, entry by entry where both are matrices; see `Identity`.

    Args:    lhs, rhs: expressions or matrices of one shape, without floats; where: what letters in them stand for, so that
             long parts of a formula have names.
    Source:  this project.
    """

    lhs: Side
    rhs: Side
    where: Mapping[Expr, Expr] = field(default_factory=dict)
    kind = "identity"

    def formulas(self) -> tuple[Basic, ...]:
        pairs = zip(*map(_entries, (self.lhs, self.rhs)), strict=True)
        # Where SymPy has made both sides one letter or number, there is nothing left to read.
        sides = (pair for pair in pairs if pair[0] != pair[1] or not pair[0].is_Atom)
        return tuple(Eq(left, right, evaluate=False) for left, right in (*sides, *self.where.items()))

    def says(self) -> dict[str, Any]:
        return says(self._identity())

    def decide(self) -> Verdict:
        return check(self._identity())

    def _identity(self) -> Identity:
        return Identity("", "", "", self.lhs, self.rhs, where=self.where)


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

    def __post_init__(self) -> None:
        if self.direction not in ("+", "-", "+-"):
            raise ValueError(f"`direction` must be '+', '-' or '+-', got {self.direction!r}.")
        if self.variable in S(self.point).free_symbols | S(self.value).free_symbols:
            raise ValueError(f"`point` and `value` must be free of {self.variable}.")

    def formulas(self) -> tuple[Basic, ...]:
        return (Eq(Limit(self.expression, self.variable, self.point, self.direction), self.value, evaluate=False),)

    def says(self) -> dict[str, Any] | None:
        reading = Reading()
        try:
            term, x, point, value = self._read(reading)
        except (Unreadable, ValueError):
            return None
        return {"kind": "limit", "term": term, "letter": x, "point": point, "sides": self.direction, "value": value,
                "facts": reading.facts}  # fmt: skip

    def _read(self, reading: Reading) -> tuple[Term, Term, Term, Term]:
        term, x = taken(reading.term(S(self.expression))), reading.term(self.variable)
        return term, x, reading.end(S(self.point)), reading.end(S(self.value))

    def decide(self) -> Verdict:
        start, reading = perf_counter(), Reading()

        def verdict(word: str, evidence: str, **more: Any) -> Verdict:
            return Verdict(word, perf_counter() - start, evidence, **more)

        try:
            term, x, point, value = self._read(reading)
        except (Unreadable, ValueError) as unknown:
            return verdict(UNDECIDED, f"{unknown} is not read by the checker")
        certificates: list[dict[str, Any]] = []
        found: list[Any] = []
        for side in self.direction:
            there, letter, facts = approach(term, x, point, side, reading.facts)
            shown = find_limit(there, letter, ("oo",) if point in INFINITY else ZERO, facts)
            if shown is None:
                return verdict(UNDECIDED, "the limit is not found, or not for all values of the letters")
            certificates.append({"rule": "limit", "term": term, "letter": x, "point": point, "side": side, "value": shown[0],
                                 "facts": reading.facts, "proof": shown[1]})  # fmt: skip
            found.append(shown[0])
        conditions = dict.fromkeys(
            condition
            for c in certificates
            for condition in limit_conditions(c["term"], x, point, c["side"], c["value"], reading.facts, c["proof"])
        )
        try:
            evidence = f"the limit is {' and '.join(dict.fromkeys(str(reading.end_expression(v)) for v in found))}"
            defined_on = tuple(reading.relation(*condition) for condition in conditions)
        except Unreadable as unknown:
            return verdict(UNDECIDED, f"{unknown} in the limit")
        more = []
        for limit in found:
            if limit == value:
                continue
            if limit in INFINITY or value in INFINITY:
                at = _numbers_where(conditions, ONE, ZERO, reading)
                if at is None:
                    return verdict(UNDECIDED, f"{evidence}, where no numbers are seen to be")
                numbers = {Symbol("limit"): reading.end_expression(limit), **at[0]}
                certificates += at[1]
                return verdict(FAILS, evidence, counterexample=numbers, certificate=tuple(certificates))
            same = check_terms(reading, [(limit, value)])
            if not same:
                at = _numbers_where(conditions, limit, value, reading) if same.holds is False else ({}, [])
                if at is None:
                    return verdict(UNDECIDED, f"{evidence}, where no numbers are seen to be")
                numbers, against = at[0] or dict(same.counterexample or {}), at[1] or same.certificate
                if set(numbers) <= {DIFFERENCE}:
                    numbers = {Symbol("limit"): reading.expression(limit)}
                return replace(same, seconds=perf_counter() - start, evidence=f"{evidence}; {same.evidence}",
                               counterexample=numbers or None, certificate=(*certificates, *against))  # fmt: skip
            more += list(same.certificate)
        return verdict(HOLDS, evidence, defined_on=defined_on, certificate=(*certificates, *more))


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

    def says(self) -> dict[str, Any] | None:
        reading = Reading()
        try:
            sides, x, point = self._read(reading)
        except (Unreadable, ValueError):
            return None
        return {"kind": "series", "sides": sides, "letter": x, "point": point, "order": self.order, "facts": reading.facts}

    def _read(self, reading: Reading) -> tuple[tuple[Term, ...], Term, Term]:
        sides = tuple(taken(reading.term(S(side))) for side in (self.expression, self.terms))
        return sides, reading.term(self.variable), reading.term(S(self.point))

    def decide(self) -> Verdict:
        start, reading = perf_counter(), Reading()
        try:
            sides, x, point = self._read(reading)
        except (Unreadable, ValueError) as unknown:
            return Verdict(UNDECIDED, perf_counter() - start, f"{unknown} is not read by the checker")
        certificates: list[dict[str, Any]] = []
        found: list[Any] = []
        for side in sides:
            shown = find_coefficients(side, x, point, reading.facts, self.order + 1)
            if shown is None:
                evidence = f"it is not seen that both sides have a Taylor series in {self.variable} at {self.point}"
                return Verdict(UNDECIDED, perf_counter() - start, evidence)
            certificates.append({"rule": "series", "term": side, "letter": x, "point": point, "values": shown[0],
                                 "facts": reading.facts, "proof": shown[1]})  # fmt: skip
            found.append(shown[0])
        same = check_terms(reading, list(zip(found[0][:-1], found[1][:-1], strict=True)))
        if same.holds is False and set(same.counterexample or ()) <= {DIFFERENCE}:
            same = replace(
                same, counterexample={Symbol(f"coefficient_{k}"): reading.expression(c) for k, c in enumerate(found[0][:-1])}
            )
        counted = [
            coefficients(side, x, point, reading.facts, c["proof"], self.order + 1)
            for side, c in zip(sides, certificates, strict=True)
        ]
        conditions = dict.fromkeys(condition for *_, found_there in counted for condition in found_there)
        if same.holds is False and conditions:
            differing = (_numbers_where(conditions, a, b, reading) for a, b in zip(found[0][:-1], found[1][:-1], strict=True))
            numbers = next((there for there in differing if there is not None), None)
            if numbers is None:
                return Verdict(UNDECIDED, perf_counter() - start, "the coefficients differ where no numbers are seen to be")
            same = replace(same, counterexample=numbers[0] or same.counterexample, certificate=tuple(numbers[1]))
        dropped = simplify(reading.expression(found[0][-1]) - reading.expression(found[1][-1]))
        before = f"coefficients 0 to {self.order - 1}; dropped: ({dropped}) {self.variable}^{self.order}; "
        defined_on = tuple(dict.fromkeys([*same.defined_on, *(reading.relation(*condition) for condition in conditions)]))
        return replace(_within(start, same, before), defined_on=defined_on, certificate=(*certificates, *same.certificate))


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

    def says(self) -> dict[str, Any] | None:
        identity = self._put_in()
        return None if self._is_left_in(identity) else says(identity)

    def decide(self) -> Verdict:
        start, identity = perf_counter(), self._put_in()
        if self._is_left_in(identity):
            return Verdict(UNDECIDED, perf_counter() - start, "the equations hold the path at another time")
        before = "put into the equation" + ("" if self.initial is None else " and the start") + "; "
        return _within(start, check(identity), before)

    def _put_in(self) -> Identity:
        sides = [(self._on_path(e.lhs), self._on_path(e.rhs)) for e in self.equations]
        if self.initial is not None:
            t0, values = self.initial
            (t,) = {e.lhs.variables[0] for e in self.equations if isinstance(e.lhs, Derivative)}
            sides += [(self.path[h].subs(t, t0), value) for h, value in values.items()]
        lhs, rhs = zip(*sides, strict=True)
        return Identity("", "", "", column(*lhs), column(*rhs))

    def _is_left_in(self, identity: Identity) -> bool:
        return any(side.has(*(h.func for h in self.path)) for side in (identity.lhs, identity.rhs))

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

    def says(self) -> dict[str, Any] | None:
        try:
            return self._read()
        except Unreadable:
            return None

    def _read(self) -> dict[str, Any]:
        reading, digits = Reading(), Decimal(self.printed).as_tuple()
        margin = Rational(10) ** int(digits.exponent) / 2 if self.within is None else self.within
        low, high = (reading.term(Rational(self.printed) + sign * margin) for sign in (-1, 1))
        # A tie goes away from 0, or to the even digit: neither prints an odd digit for what is half a unit beyond it.
        beyond = (low if digits.sign else high) if self.within is None and digits.digits[-1] % 2 else None
        return {"kind": "rounds", "value": reading.term(S(self.value)), "low": low, "high": high, "beyond": beyond}

    def decide(self) -> Verdict:
        start = perf_counter()
        try:
            read = self._read()
            value, beyond = read["value"], read["beyond"]
            certificate = {"rule": "rounds", "value": value, "low": read["low"], "high": read["high"]}
            right = rounds(value, read["low"], read["high"])
            if right and beyond is not None and rounds(value, beyond, beyond):
                certificate |= {"low": beyond, "high": beyond}
                return Verdict(FAILS, perf_counter() - start, f"the number is {self.value}, half a unit beyond {self.printed}",
                               {Symbol("number"): self.value}, certificate=({**certificate, "right": True},))  # fmt: skip
            shown = self.value.evalf(len(self.printed) + 4)
        except (Unreadable, NotShown) as unknown:
            return Verdict(UNDECIDED, perf_counter() - start, f"the digits of the number are not certain: {unknown}")
        numbers = None if right else {Symbol("number"): self.value.evalf(12)}
        evidence = f"the number is {shown}, printed {self.printed}"
        word = HOLDS if right else FAILS
        return Verdict(word, perf_counter() - start, evidence, numbers, certificate=({**certificate, "right": right},))


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

    def says(self) -> dict[str, Any] | None:
        inner = self.statement.says()
        return None if inner is None else {"kind": "not", "of": inner}

    def decide(self) -> Verdict:
        inner = self.statement.decide()
        if inner.holds is None:
            return inner
        if inner.holds:
            return Verdict(FAILS, inner.seconds, f"what should fail holds: {inner.evidence}", {Symbol("difference"): S.Zero},
                           inner.defined_on, inner.certificate)  # fmt: skip
        numbers = ", ".join(f"{k} = {v}" for k, v in (inner.counterexample or {}).items())
        evidence = f"refuted, {inner.evidence}" + (f" ({numbers})" if numbers else "")
        return Verdict(HOLDS, inner.seconds, evidence, certificate=inner.certificate)


def _numbers_where(conditions: Iterable[Any], lhs: Term, rhs: Term, reading: Reading) -> tuple[dict[Any, Any], list[Any]] | None:
    """Numbers at which the conditions are true and two sides differ, with their certificate; none without conditions."""
    if not conditions:
        return {}, []
    term = guarded(lhs, conditions)
    found = refuted(term, rhs, reading.facts)
    if found is None:
        return None
    certificate = {"rule": "differs", "lhs": term, "rhs": rhs, "facts": reading.facts, "numbers": found[0]}
    return {reading.expression(letter): as_sympy(number) for letter, number in found[0].items()}, [certificate]


def _entries(side: Side) -> list[Expr]:
    return list(side) if isinstance(side, MatrixBase) else [side]


def _within(start: float, verdict: Verdict, before: str) -> Verdict:
    return replace(verdict, seconds=perf_counter() - start, evidence=before + verdict.evidence)
