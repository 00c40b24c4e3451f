r"""Name the group of clocks that a class of fields absorbs, by the rates that must move with the clock.

every warp                                            all of them read all data, and take any positive multiple
warps that keep its gates in (0, 1)                   some may not leave their range
warps of what its gates read                          some read a part of the data: c' may depend on that alone
rescaling, or rescaling that keeps its rates in ...   c' is a constant
rescaling, at least                                   that is absorbed, and perhaps more
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["AT_LEAST", "EVERY_WARP", "NONE", "RESCALING", "WITHIN_UNIT", "group_name"]

EVERY_WARP, RESCALING, NONE = "every warp", "rescaling", "none"
AT_LEAST = ", at least"


def group_name(constant: bool, ranges: Iterable[str], reads_all: bool) -> str:
    """Name a group: of constant speeds only or not, the ranges that rates may leave, whether each gate reads all data."""
    kept = " and ".join(dict.fromkeys(ranges))
    if constant:
        return f"{RESCALING} that keeps its rates in {kept}" if kept else RESCALING
    if reads_all:
        return f"warps that keep its gates in {kept}" if kept else EVERY_WARP
    return "warps of what its gates read" + (f" that keep these in {kept}" if kept else "")


WITHIN_UNIT = group_name(constant=False, ranges=["(0, 1)"], reads_all=True)
