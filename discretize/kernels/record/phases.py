r"""Order the values of a sample in phases, each done for all samples at hand before the next begins.

    loop      functions of each unit, of one width: from memory to memory by way of registers
    affine    products with matrices, for many samples together, and several that can be computed at once
    others    slices that are read where they lie, values one after the other or in another order, sums

What several loops need, or a product, lies in memory; what the derivative needs of a step, in what is kept of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from discretize.kernels.record.functions import CHEAP
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import CALLS, GIVEN, LAYOUTS, READY, Value, ancestors

__all__ = ["Pair", "Phase", "ProgramValues", "phases"]

WIDE = 8  # times what a sample is given
Pair = tuple[Value, Value | None]  # whose sum over samples is sought, or that of the products of their units


@dataclass(frozen=True)
class ProgramValues:
    """The values of a recorded program, from which writers write a kernel.

    Args:    following: the state after a step, or the slope; gradients: the cotangents by "h", and by "x" and "dt" where they
             are wanted; sums: over samples, for the gradients of weights; units: of a derivative along the last so many numbers
             of "h", which is wanted along each of them as well.
    """

    following: Value
    gradients: dict[str, Value]
    sums: Sequence[Pair]
    units: int | None = None

    @cached_property
    def ends(self) -> list[Value]:
        """All that the backward pass computes."""
        return [*self.gradients.values(), *(side for pair in self.sums for side in pair if side is not None)]

    @cached_property
    def order(self) -> list[Value]:
        """All that the forward pass computes, each value after those it is made of."""
        return list(ancestors([self.following]))

    @cached_property
    def given(self) -> dict[str, Value]:
        """Which of x, h, dt and the cotangent are read."""
        return {value.operation: value for value in ancestors([self.following, *self.ends]) if value.operation in GIVEN}

    @cached_property
    def counted(self) -> int | None:
        """Which number of x is read as that of the substep, where increments are drawn."""
        for value in self.order:
            if value.operation == "increments":
                (place,) = value.of
                if place.operation != "slice" or place.of[0].operation != "x":
                    raise UnknownOperation("its code draws increments of what is not given with a sample")
                return int(place.settings[0]) + place.width - 1
        return None

    @cached_property
    def kept(self) -> list[Value]:
        """Values saved for the backward pass: neither cheap to compute again nor inputs.

        And of what the largest was taken: computed again with another rounding, it would be equal to none of the units.
        Functions of far more numbers than a sample is given are computed again, for they would take more room than time. What is
        made of random numbers alone is saved, for there are fewer of these than numbers.
        """
        most = WIDE * max((value.width for value in self.order if value.operation in GIVEN), default=1)
        done, values, seen = set(self.order), set[Value](), set[Value]()
        compared = {_read(value.of[0]) for value in self.order if value.operation == "amax"}
        drawn = _drawn(self.order)
        waiting = [*self.ends]
        while waiting:
            value = waiting.pop()
            if value in seen or value.operation in READY:
                continue
            seen.add(value)
            again = value.operation in (*CHEAP, *LAYOUTS) or (value.by_unit and value.width > most)
            if value in done and (value in compared or value in drawn or not again):
                values.add(value)
            else:
                waiting += value.of
        return [value for value in self.order if value in values]

    @property
    def areas(self) -> list[tuple[int, int]]:
        """Heights and widths of the sums."""
        return [(1, left.width) if right is None else (left.width, right.width) for left, right in self.sums]


@dataclass(frozen=True)
class Phase:
    """Values of one loop, in order, or affine maps, or one value of another kind; `stored`: those of a loop that go to memory."""

    values: tuple[Value, ...]
    stored: frozenset[Value] = frozenset()

    @property
    def is_loop(self) -> bool:
        return self.values[0].by_unit


def _read(value: Value) -> Value:
    return _read(value.of[0]) if value.operation in ("slice", "strided") else value


def _drawn(order: Iterable[Value]) -> set[Value]:
    """Random numbers, and functions of each of them and of what is given."""
    drawn = set[Value]()
    for value in order:
        parts = [part for part in value.of if part in drawn]
        others = all(part in drawn or _read(part).operation in READY for part in value.of)
        if value.operation == "increments" or (value.by_unit and parts and others):
            drawn.add(value)
    return drawn


def phases(wanted: Iterable[Value], known: frozenset[Value] = frozenset(), stored: frozenset[Value] = frozenset()) -> list[Phase]:
    r"""The phases that compute the wanted values, which come to lie in memory.

    Args:    known: in memory already, beside what is given; stored: further values that go to memory where they are computed.
    """
    wanted = list(wanted)
    order = [value for value in ancestors(wanted, known) if value not in known]
    ready = {value for value in order if value.operation in READY} | set(known)
    # What only a later call of a field needs is not computed before: it would wait in memory.
    calls = [value for value in order if value.operation in CALLS]
    needs = [list(ancestors([call], ready)) for call in calls] + [order]
    readers: dict[Value, list[Value]] = {}
    for value in order:
        for part in value.of:
            readers.setdefault(part, []).append(value)
    in_order: list[Phase] = []
    for needed in needs:
        while left := [value for value in needed if value not in ready]:
            # Products first: what a loop could compute before them may be needed behind them only, in the same registers.
            for group in _others(left, ready) or [_largest_loop(left, ready)]:
                inside = set(group)
                outward = {value for value in group if any(reader not in inside for reader in readers.get(value, []))}
                in_order.append(Phase(tuple(group), frozenset(outward | inside & ({*wanted} | stored))))
                ready |= inside
    return in_order


def _others(left: list[Value], ready: set[Value]) -> list[list[Value]]:
    """What is no function of each unit and can be computed now, affine maps in one group."""
    computable = [value for value in left if not value.by_unit and ready.issuperset(value.of)]
    maps = [value for value in computable if value.operation == "affine"]
    return [[value] for value in computable if value.operation != "affine"] + ([maps] if maps else [])


def _largest_loop(left: list[Value], ready: set[Value]) -> list[Value]:
    """The functions of each unit that can be computed now in one loop, narrow ones first, for wide ones may need them."""
    by_width: dict[int, list[Value]] = {}
    for width in sorted({value.width for value in left if value.by_unit}):
        inside: set[Value] = set()
        for value in left:
            if value.by_unit and value.width == width and all(part in ready or part in inside for part in value.of):
                inside.add(value)
                by_width.setdefault(width, []).append(value)
    return next(iter(by_width.values()), [])
