"""Computes both sides of a refuted equation where they differ, by the checker's own rules, in as many digits as show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derivations.rules.numbers import Ball, ball, exact
from derivations.rules.quotients import NotShown

__all__ = ["both_sides"]

SIDES = {"differs": ("lhs", "rhs"), "not less": ("lower", "upper")}
LONGEST = 12  # of a fraction
DIGITS = (6, 10, 16, 30, 60)


def both_sides(steps: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Compute both sides at the numbers of the last step of a refutation; None where it is refuted otherwise."""
    step = steps[-1] if steps else {}
    names = SIDES.get(step.get("rule", ""))
    if names is None:
        return None
    try:
        sides = [(exact(step[name], step["numbers"]), ball(step[name], step["numbers"])) for name in names]
    except NotShown:
        return None
    pairs = [tuple(_number(value, found, digits) for value, found in sides) for digits in DIGITS]
    left, right = next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])  # x < x has equal ones
    return left, right


def _number(value: Any, found: Ball, digits: int) -> str:
    if value is not None and len(str(value)) <= LONGEST:
        return str(value)
    return found.str(digits, radius=False)
