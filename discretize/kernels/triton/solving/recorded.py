"""A recorded evaluation of a field, or of its derivative along a direction, as passes of a solve's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from discretize.kernels.record.phases import kept_values
from discretize.kernels.record.values import GIVEN, Value, ancestors
from discretize.kernels.triton.lines import Lines
from discretize.kernels.triton.passes import Pass
from discretize.kernels.triton.writing import Pair, Place, operands_of

__all__ = ["Recorded", "Sums"]


@dataclass(frozen=True)
class Sums:
    """Of a program: numbers that are kept of an evaluation, and what its sums over samples are made of."""

    kept: int
    operands: int
    sums: tuple[tuple[Place, Place | None], ...]


@dataclass(frozen=True)
class Recorded:
    """A program's values, as `record.program.Writer` is given them; `number`: which of a kernel's programs. What an
    evaluation keeps for the way back: the state, the input, and values that it makes."""

    slope: Value
    gradients: dict[str, Value]
    sums: Sequence[Pair]
    units: int | None
    number: int = 0

    @property
    def columns(self) -> int:
        """Of the input, 0 where it is not read."""
        return self.given["x"].width if "x" in self.given else 0

    @property
    def state(self) -> int:
        return self.gradients["h"].width

    @cached_property
    def given(self) -> dict[str, Value]:
        found = {value.operation: value for value in ancestors([self.slope, *self._ends]) if value.operation in GIVEN}
        for name, like in (("h", self.gradients["h"]), ("cotangent", self.slope)):
            found.setdefault(name, Value(name, (), like.width))
        return found

    @cached_property
    def kept(self) -> dict[Value, int]:
        """Where each value lies."""
        found, total = {self.given["h"]: 0}, self.state
        for value in (*([self.given["x"]] if self.columns else []), *kept_values(self._order, self._ends)):
            found[value], total = total, total + value.width
        return found

    @property
    def width(self) -> int:
        return sum(value.width for value in self.kept)

    def evaluation(self, at_h: str, at_x: str, at_slope: str, behind: Pass | None = None) -> Pass:
        """behind: the pass of the same kernel whose names go before."""
        found = self._pass({self.given["h"]: at_h} | ({self.given["x"]: at_x} if self.columns else {}), behind)
        found.store(self.slope, at_slope)
        return found

    def replay(self, at_kept: str, at_slope: str, behind: Pass | None = None) -> Pass:
        """An evaluation of the state and the input that are kept, with the other values kept."""
        places = {value: f"{at_kept} + {self.kept[value]}" for value in self.given.values() if value in self.kept}
        found = self._pass(places, behind)
        for value in self._order:
            if value in self.kept and value not in found.places:
                found.store(value, f"{at_kept} + {self.kept[value]}")
                found.out.unread, found.places[value] = True, f"{at_kept} + {self.kept[value]}"
        found.store(self.slope, at_slope)
        return found

    def back(self, at_kept: str, at_q: str, at_of_h: str, at_of_x: str, behind: Pass) -> tuple[Pass, Sums]:
        """The cotangents of the state and of the input, and operands of sums at `at_operands`."""
        places = {self.given["cotangent"]: at_q} | {value: f"{at_kept} + {place}" for value, place in self.kept.items()}
        found = self._pass(places, behind)
        known = {value: Place("kept", place, value.width) for value, place in self.kept.items()}
        sums, operands = operands_of(found, known, self.sums)
        found.store(self.gradients["h"], at_of_h)
        if "x" in self.gradients and self.columns:
            found.store(self.gradients["x"], at_of_x)
        return found, Sums(self.width, operands, sums)

    @property
    def _ends(self) -> list[Value]:
        return [*self.gradients.values(), *(side for pair in self.sums for side in pair if side is not None)]

    @property
    def _order(self) -> list[Value]:
        return list(ancestors([self.slope]))

    def _pass(self, places: dict[Value, str], behind: Pass | None) -> Pass:
        if behind is None:
            return Pass(places, out=Lines(program=self.number))
        # The same names before the loop.
        out = replace(behind.out, step=[], unread=False, program=self.number)
        return Pass(places, out=out, scratch=behind.scratch)
