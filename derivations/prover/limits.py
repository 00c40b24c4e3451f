r"""Limits and Taylor series: statements in which a letter goes to a point.

    Tends      expression -> value as a letter -> a point
    Expands    expression = terms + O(letter^order), with what was dropped

Both are found and checked by `rules.limits`, which says where letters must be other than they may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sympy import Basic, Eq, Expr, Function, Limit, S, Symbol, simplify

from derivations.prover.identity import DIFFERENCE, check_terms
from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, ReadStatement, Verdict
from derivations.rules.conclusions import guarded
from derivations.rules.limits import approach, coefficients, find_coefficients, find_limit, limit_conditions
from derivations.rules.numbers import refuted
from derivations.rules.reading import Reading, Unreadable
from derivations.rules.terms import INFINITY, ONE, ZERO, Term, taken

__all__ = ["Expands", "Tends"]


@dataclass(frozen=True)
class Tends(ReadStatement):
    r"""expression -> value as variable -> point, from above ("+"), from below ("-") or both ("+-")."""

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

    def _read(self, reading: Reading) -> dict[str, Any]:
        term, x = taken(reading.term(S(self.expression))), reading.term(self.variable)
        return {"kind": "limit", "term": term, "letter": x, "point": reading.end(S(self.point)), "sides": self.direction,
                "value": reading.end(S(self.value)), "facts": reading.facts}  # fmt: skip

    def _decided(self, reading: Reading, says: dict[str, Any]) -> Verdict:
        term, x, point, value = (says[key] for key in ("term", "letter", "point", "value"))
        steps, conditions = list[dict[str, Any]](), dict[Any, None]()
        for side in self.direction:
            there, letter, facts = approach(term, x, point, side, reading.facts)
            shown = find_limit(there, letter, ("oo",) if point in INFINITY else ZERO, facts)
            if shown is None:
                return Verdict(UNDECIDED, 0.0, "the limit is not found, or not for all values of the letters")
            steps.append({"rule": "limit", "term": term, "letter": x, "point": point, "side": side, "value": shown[0],
                          "facts": reading.facts, "proof": shown[1]})  # fmt: skip
            conditions |= dict.fromkeys(limit_conditions(term, x, point, side, shown[0], reading.facts, shown[1]))
        found = [step["value"] for step in steps]
        try:
            evidence = f"the limit is {' and '.join(dict.fromkeys(str(reading.end_expression(v)) for v in found))}"
            defined_on = tuple(reading.relation(*condition) for condition in conditions)
        except Unreadable as unknown:
            return Verdict(UNDECIDED, 0.0, f"{unknown} in the limit")
        more = list[Any]()
        for limit in found:
            if limit == value:
                continue
            infinite = limit in INFINITY or value in INFINITY
            sides = (ONE, ZERO) if infinite else (limit, value)
            same = None if infinite else check_terms(reading, [sides])
            if same:
                more += same.certificate
                continue
            at = _numbers_where(conditions, sides, reading) if same is None or same.holds is False else ({}, ())
            if at is None:
                return Verdict(UNDECIDED, 0.0, f"{evidence}, where no numbers are seen to be")
            if same is None:
                numbers = {Symbol("limit"): reading.end_expression(limit), **at[0]}
                return Verdict(FAILS, 0.0, evidence, numbers, certificate=(*steps, *at[1]))
            numbers = at[0] or dict(same.counterexample or {})
            if set(numbers) <= {DIFFERENCE}:
                numbers = {Symbol("limit"): reading.expression(limit)}
            return replace(same, evidence=f"{evidence}; {same.evidence}", counterexample=numbers or None,
                           certificate=(*steps, *(at[1] or same.certificate)))  # fmt: skip
        return Verdict(HOLDS, 0.0, evidence, None, defined_on, (*steps, *more))


@dataclass(frozen=True)
class Expands(ReadStatement):
    r"""expression = terms + O((variable - point)^order): Taylor's coefficients below `order`, each compared.

    Args:    expression; variable; terms: a polynomial in variable - point; order: the power of the first term dropped,
             which the evidence names; point: where the series is taken.
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

    def _read(self, reading: Reading) -> dict[str, Any]:
        sides = tuple(taken(reading.term(S(side))) for side in (self.expression, self.terms))
        return {"kind": "series", "sides": sides, "letter": reading.term(self.variable), "point": reading.term(S(self.point)),
                "order": self.order, "facts": reading.facts}  # fmt: skip

    def _decided(self, reading: Reading, says: dict[str, Any]) -> Verdict:
        x, point, count = says["letter"], says["point"], self.order + 1
        steps, conditions = list[dict[str, Any]](), dict[Any, None]()
        for side in says["sides"]:
            shown = find_coefficients(side, x, point, reading.facts, count)
            if shown is None:
                evidence = f"it is not seen that both sides have a Taylor series in {self.variable} at {self.point}"
                return Verdict(UNDECIDED, 0.0, evidence)
            steps.append({"rule": "series", "term": side, "letter": x, "point": point, "values": shown[0],
                          "facts": reading.facts, "proof": shown[1]})  # fmt: skip
            conditions |= dict.fromkeys(coefficients(side, x, point, reading.facts, shown[1], count)[2])
        (*left, dropped_left), (*right, dropped_right) = (step["values"] for step in steps)
        pairs = list(zip(left, right, strict=True))
        same = check_terms(reading, pairs)
        if same.holds is False and set(same.counterexample or ()) <= {DIFFERENCE}:
            same = replace(same, counterexample={Symbol(f"coefficient_{k}"): reading.expression(c) for k, c in enumerate(left)})
        if same.holds is False and conditions:
            differing = (_numbers_where(conditions, pair, reading) for pair in pairs)
            numbers = next((there for there in differing if there is not None), None)
            if numbers is None:
                return Verdict(UNDECIDED, 0.0, "the coefficients differ where no numbers are seen to be")
            same = replace(same, counterexample=numbers[0] or same.counterexample, certificate=tuple(numbers[1]))
        dropped = simplify(reading.expression(dropped_left) - reading.expression(dropped_right))
        before = f"coefficients 0 to {self.order - 1}; dropped: ({dropped}) {self.variable}^{self.order}; "
        defined_on = tuple(dict.fromkeys([*same.defined_on, *(reading.relation(*condition) for condition in conditions)]))
        return replace(same, evidence=before + same.evidence, defined_on=defined_on, certificate=(*steps, *same.certificate))


def _numbers_where(
    conditions: Iterable[Any], pair: tuple[Term, Term], reading: Reading
) -> tuple[dict[Any, Any], list[Any]] | None:
    """Find numbers at which the conditions are true and two sides differ, with their certificate; none without conditions."""
    if not conditions:
        return {}, []
    lhs, rhs = guarded(pair[0], conditions), pair[1]
    found = refuted(lhs, rhs, reading.facts)
    if found is None:
        return None
    return reading.numbers(found[0]), [{"rule": "differs", "lhs": lhs, "rhs": rhs, "facts": reading.facts, "numbers": found[0]}]
