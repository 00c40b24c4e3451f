r"""Limits of expressions, where SymPy finds them."""

from __future__ import annotations

from sympy import AccumBounds, Expr, Limit, PoleError, Symbol, limit, nan, simplify, zoo

__all__ = ["limit_or_none"]


def limit_or_none(expression: Expr, variable: Symbol, point: Expr | int, direction: str) -> Expr | None:
    """The limit, from one side or from both; None where SymPy finds none."""
    try:
        found = [limit(expression, variable, point, side) for side in direction]
    except (NotImplementedError, PoleError, ValueError):
        return None
    if any(value.has(Limit, AccumBounds, nan, zoo) for value in found):
        return None
    return found[0] if len({*found}) == 1 or simplify(found[0] - found[1]) == 0 else None
