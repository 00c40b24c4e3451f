r"""Lay out the sums over samples of a kernel, so that one product makes all sums of the same rows and columns.

The gradient of a weight is a sum over samples, of a value or of products of each unit of one value (left) with each of another
(right). Lefts that are multiplied with the same rights stand side by side: their sums are one area.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from discretize.kernels.record.phases import Pair
from discretize.kernels.record.values import Value

__all__ = ["SumAreas"]

Padded = Callable[[Iterable[int]], str]  # the numbers of values of such widths side by side, in C++


@dataclass
class SumAreas:
    """Sums of products laid out: what stands on either side, and blocks (from, to) of lefts and (from, to) of rights, each summed
    in one; sums of values alone, by the numbers of their areas; and where each pair's sum lies."""

    lefts: list[Value]
    rights: list[Value]
    blocks: list[tuple[int, int, int, int]]
    alone: dict[int, Value]
    places: list[tuple[int, Value, Value | None]]

    @classmethod
    def of(cls, sums: Sequence[Pair]) -> SumAreas:
        """Lefts that are multiplied with the same rights, side by side."""
        rights_of: dict[Value, dict[Value, None]] = {}
        for left, right in sums:
            if right is not None:
                rights_of.setdefault(left, {})[right] = None
        groups: dict[tuple[Value, ...], list[Value]] = {}
        rights = list(dict.fromkeys(right for found in rights_of.values() for right in found))
        for left, found in rights_of.items():
            groups.setdefault(tuple(sorted(found, key=rights.index)), []).append(left)
        blocks, area_of, lefts = list[tuple[int, int, int, int]](), dict[tuple[Value, Value], int](), list[Value]()
        for read, some in groups.items():
            places = [rights.index(right) for right in read]
            runs = [k for k, place in enumerate(places) if not k or place != places[k - 1] + 1]
            for begin, end in zip(runs, [*runs[1:], len(places)], strict=True):
                area_of |= {(left, right): len(blocks) for left in some for right in read[begin:end]}
                blocks.append((len(lefts), len(lefts) + len(some), places[begin], places[end - 1] + 1))
            lefts += some
        alone: dict[int, Value] = {}
        places_of = list[tuple[int, Value, Value | None]]()
        for left, right in sums:
            if right is not None:
                places_of.append((area_of[left, right], left, right))
            else:
                alone[len(blocks) + len(alone)] = left
                places_of.append((len(blocks) + len(alone) - 1, left, None))
        return cls(lefts, rights, blocks, alone, places_of)

    def made(self, padded: Padded) -> list[str]:
        """Room for the sums, and their places."""
        areas = [
            f"areas.emplace_back(({self._across(padded, self.lefts[a:b])}) * ({self._across(padded, self.rights[c:d])}));"
            for a, b, c, d in self.blocks
        ]
        areas += [f"areas.emplace_back({padded([value.width])});" for value in self.alone.values()]
        return [*areas, *(f"sums.push_back({self._place(padded, *place)});" for place in self.places)]

    def summed(self, padded: Padded) -> list[str]:
        lines = []
        for k, (a, b, c, d) in enumerate(self.blocks):
            left, right = (
                f"left[0]{self._behind(padded, self.lefts, a)}, left.stride",
                f"right[0]{self._behind(padded, self.rights, c)}, right.stride",
            )
            height, width = self._across(padded, self.lefts[a:b]), self._across(padded, self.rights[c:d])
            lines.append(f"    shared.program.outer(depth, {height}, {width}, {left}, {right}, areas[{k}].data(), {width});")
        return ["void sum_up(std::size_t depth) override {", *(lines or ["    (void)depth;"]), "}"]

    def _place(self, padded: Padded, area: int, left: Value, right: Value | None) -> str:
        if right is None:
            return f"{{{area}, 0, 0}}"
        a, _, c, d = self.blocks[area]
        rows, width = self._across(padded, self.lefts[a : self.lefts.index(left)]), self._across(padded, self.rights[c:d])
        return f"{{{area}, ({rows}) * ({width}) + {self._across(padded, self.rights[c : self.rights.index(right)])}, {width}}}"

    @staticmethod
    def _across(padded: Padded, values: Sequence[Value]) -> str:
        return padded(value.width for value in values)

    @classmethod
    def _behind(cls, padded: Padded, values: Sequence[Value], k: int) -> str:
        return f" + {cls._across(padded, values[:k])}" if k else ""
