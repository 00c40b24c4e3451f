"""Adjusts the levels of a study's comparisons by Holm's step-down method: at least one of all answers is wrong by chance in one
study of twenty at most.

    the surest of n at 1 - 0.05/n, the next at 1 - 0.05/(n - 1), ...; from the first that is undecided on, all at its level
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["LEVEL", "chance", "levels"]

LEVEL = 0.95
HALVINGS = 50


def levels(chances: Sequence[float]) -> list[float]:
    """Return the level of each difference, from the chances at which they would be decided."""
    found, failed = [LEVEL] * len(chances), False
    level = LEVEL
    for place, k in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        level = level if failed else 1 - (1 - LEVEL) / (len(chances) - place)
        failed = failed or chances[k] > 1 - level
        found[k] = level
    return found


def chance(decides: Callable[[float], bool]) -> float:
    """Find the least chance of error at which an interval decides: `decides(level)` turns from yes to no as the level rises."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = low + (high - low) / 2
        low, high = (low, middle) if decides(1 - middle) else (middle, high)
    return high
