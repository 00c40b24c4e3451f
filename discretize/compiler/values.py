r"""What a recorded step computes for one sample, as values over units: what kernels are written out from.

    x, h, dt, cotangent     given for each sample
    number, count, shared   the same for all samples: a constant; how many units; a vector that is made of weights
    affine                  a start and products of values with matrices that are made of weights
    slice, cat, spread      the layout: some of the units, values one after the other, one number for all units
    sum, amax               over the units
    any other name          a function of the numbers of each unit, `discretize.compiler.functions`

Equal values are one value: what two formulas share is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["GIVEN", "READY", "REDUCTIONS", "Value", "Values", "ancestors"]

GIVEN = ("x", "h", "dt", "cotangent")
READY = (*GIVEN, "number", "count", "shared")  # before anything is computed
REDUCTIONS = ("sum", "amax")


@dataclass(frozen=True, eq=False)
class Value:
    """`operation` of other values; `settings`: a number, the place of a slice, which vector or which matrices."""

    operation: str
    of: tuple[Value, ...]
    width: int
    settings: tuple[Any, ...] = ()

    @property
    def by_unit(self) -> bool:
        """Whether each of its units is a function of the same unit of others."""
        return self.operation not in (*READY, "affine", "slice", "cat", *REDUCTIONS)


@dataclass
class Values:
    """All values of a program, each of them once."""

    made: dict[tuple[Any, ...], Value] = field(default_factory=dict)

    def make(self, operation: str, of: Iterable[Value] = (), width: int = 1, settings: tuple[Any, ...] = ()) -> Value:
        of = tuple(of)
        if simpler := self._simpler(operation, of, width, settings):
            return simpler
        # repr: 0.0 and -0.0 are two numbers, and so are 1 and True
        key = (operation, tuple(map(id, of)), width, repr(settings))
        if key not in self.made:
            self.made[key] = Value(operation, of, width, settings)
        return self.made[key]

    def number(self, value: float) -> Value:
        return self.make("number", settings=(float(value),))

    def slice(self, value: Value, first: int, width: int) -> Value:
        return self.make("slice", [value], width, (first,))

    def cat(self, parts: Iterable[Value]) -> Value:
        parts = [part for part in parts if part.width]
        return self.make("cat", parts, sum(part.width for part in parts))

    def _simpler(self, operation: str, of: tuple[Value, ...], width: int, settings: tuple[Any, ...]) -> Value | None:
        """The same value without a detour through memory, where there is one."""
        if operation == "slice":
            return self._piece(of[0], settings[0], width)
        if operation in ("cat", "spread", *REDUCTIONS) and len(of) == 1 and of[0].width == width:
            return of[0]
        if operation == "add" and any(_is_zero(value) for value in of):
            rest = of[1] if _is_zero(of[0]) else of[0]
            return rest if rest.width == width else self.make("spread", [rest], width)
        layouts = {tuple(part.width for part in value.of) for value in of if value.operation == "cat"}
        whole = all(value.operation == "cat" or value.width == 1 for value in of)
        if len(layouts) == 1 and whole and operation not in ("affine", "cat", *REDUCTIONS):
            pieces = list(layouts.pop())
            return self.cat(self.make(operation, [_part(value, k) for value in of], size) for k, size in enumerate(pieces))
        return None

    def _piece(self, value: Value, first: int, width: int) -> Value | None:
        if first == 0 and width == value.width:
            return value
        if value.operation == "slice":
            return self.slice(value.of[0], value.settings[0] + first, width)
        if value.operation == "spread":
            return self.make("spread", value.of, width)
        if value.operation == "cat":
            place, found = 0, []
            for part in value.of:
                start, end = max(first, place), min(first + width, place + part.width)
                if start < end:
                    found.append(self.slice(part, start - place, end - start))
                place += part.width
            return self.cat(found)
        return None


def _is_zero(value: Value) -> bool:
    return (value.operation == "number" and value.settings == (0.0,)) or (value.operation == "spread" and _is_zero(value.of[0]))


def _part(value: Value, k: int) -> Value:
    return value.of[k] if value.operation == "cat" else value


def ancestors(values: Iterable[Value], known: frozenset[Value] | set[Value] = frozenset()) -> Iterator[Value]:
    """These values and all that they are made of, each after what it is made of, down to those that are known."""
    done: set[Value] = set()
    waiting = [(value, False) for value in reversed(list(values))]
    while waiting:
        value, ready = waiting.pop()
        if value in done:
            continue
        if ready or value in known:
            done.add(value)
            yield value
        else:
            waiting.append((value, True))
            waiting += [(part, False) for part in reversed(value.of)]
