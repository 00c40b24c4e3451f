r"""Limits and Taylor series: statements in which a letter goes to a point.

    Tends      expression -> value as a letter -> a point
    Expands    expression = terms + O(letter^order), with what was dropped

Both are found by `certificates.limits` and counted again by the checker, which says where letters must be other than they may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from sympy import Basic, Eq, Expr, Function, Limit, S, Symbol, simplify

from derivations.certificates.limits import find_coefficients, find_limit
from derivations.certificates.numbers import as_sympy, refuted
from derivations.certificates.reading import Reading, Unreadable
from derivations.checker.limits import approach, coefficients, limit_conditions
from derivations.checker.statements.conclusions import guarded
from derivations.checker.terms import INFINITY, ONE, ZERO, Term, taken
from derivations.prover.identity import DIFFERENCE, check_terms
from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, Verdict

__all__ = ["Expands", "Tends"]


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
        return replace(same, seconds=perf_counter() - start, evidence=before + same.evidence, defined_on=defined_on,
                       certificate=(*certificates, *same.certificate))  # fmt: skip


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
