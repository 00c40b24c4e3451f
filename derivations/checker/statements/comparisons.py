r"""Comparisons of numbers, texts and lists: what a case of an enumeration says.

    (a, "=", b)  (a, "!=", b)  (a, "<", b)  (a, "<=", b)     of numbers; the first two also of texts, lists and comparisons
    (a, "in", (b, c, ...))                                   a is one of these; or a text that stands in another

A number is an integer, or a fraction; a comparison that is compared counts as true or false.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from derivations.checker.quotients import NotShown

__all__ = ["RELATIONS", "is_true"]

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "in": lambda a, b: a in b,
}


def is_true(comparison: Any) -> bool:
    r"""Whether a comparison is true.

    Raises:  NotShown for what is none.
    """
    if not _is_comparison(comparison):
        raise NotShown(f"{comparison} is no comparison")
    left, relation, right = comparison
    left, right = _value(left), _value(right)
    if relation in ("<", "<=") and isinstance(left, str | tuple):
        raise NotShown(f"{left} and {right} have no order")
    return RELATIONS[relation](left, right)


def _value(x: Any) -> Any:
    if _is_comparison(x):
        return is_true(x)
    return tuple(map(_value, x)) if isinstance(x, tuple) else x


def _is_comparison(x: Any) -> bool:
    return isinstance(x, tuple) and len(x) == 3 and isinstance(x[1], str) and x[1] in RELATIONS
