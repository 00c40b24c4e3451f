r"""Limits and Taylor series: statements in which a letter goes to a point.

    Tends      expression -> value as a letter -> a point
    Expands    expression = terms + O(letter^order), with what was dropped

Both are found and checked by `rules.limits`, which says where letters must be other than they may be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sympy import Basic, Dummy, Eq, Expr, Function, Limit, S, Symbol, simplify

from derivations.finding.limits import find_coefficients, find_limit
from derivations.prover.identity import DIFFERENCE, check_terms
from derivations.prover.reading import Reading, Unreadable
from derivations.prover.verdict import UNDECIDED, ReadStatement, Verdict
from derivations.rules.limits import approach
from derivations.rules.replay import replay
from derivations.rules.terms import INFINITY, ONE, ZERO, taken

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
            conditions |= dict.fromkeys(replay(steps[-1]))
        values = dict.fromkeys(step["value"] for step in steps)
        try:
            evidence = f"the limit is {' and '.join(str(reading.end_expression(v)) for v in values)}"
            others = [limit for limit in values if limit != value]
            infinite = any(limit in INFINITY or value in INFINITY for limit in others)
            pairs = [(ONE, ZERO)] if infinite else [(limit, value) for limit in others]
            same = check_terms(reading, pairs, conditions)
        except Unreadable as unknown:
            return Verdict(UNDECIDED, 0.0, f"{unknown} in the limit")
        if same.holds is False and set(same.counterexample or ()) <= {DIFFERENCE}:
            same = replace(same, counterexample={Symbol("limit"): reading.end_expression(others[0])})
        if infinite and not conditions:
            same = replace(same, certificate=())
        evidence = evidence if same else f"{evidence}; {same.evidence}"
        return replace(same, evidence=evidence, certificate=(*steps, *same.certificate))


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
            conditions |= dict.fromkeys(replay(steps[-1]))
        (*left, dropped_left), (*right, dropped_right) = (step["values"] for step in steps)
        pairs = list(zip(left, right, strict=True))
        same = check_terms(reading, pairs, conditions)
        if same.holds is False and set(same.counterexample or ()) <= {DIFFERENCE}:
            same = replace(same, counterexample={Symbol(f"coefficient_{k}"): reading.expression(c) for k, c in enumerate(left)})
        dropped = simplify(reading.expression(dropped_left) - reading.expression(dropped_right))
        before = f"coefficients 0 to {self.order - 1}; "
        # A dummy's name is another one in each run: what is dropped with one is proved as the rest is, and not displayed.
        if not dropped.has(Dummy):
            before += f"dropped: ({dropped}) {self.variable}^{self.order}; "
        return replace(same, evidence=before + same.evidence, certificate=(*steps, *same.certificate))
