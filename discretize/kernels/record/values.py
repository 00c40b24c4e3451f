r"""Represent what a recorded step computes for one sample as values over units, from which kernels are written.

    x, h, dt, cotangent     given for each sample
    number, count, shared   the same for all samples: a constant; how many units; a vector that is made of weights
    affine                  a start and products of values with matrices that are made of weights
    slice, cat, spread      the layout: some of the units, values one after the other, one number for all units
    strided                 units by steps along axes: some of them out of their order, or more than once
    sum, amax               over the units, or over one axis of three
    call, pullback          a field's slope at a state, as a method calls it, and the cotangent of that slope back to the state
    jacobian, drift         a field's derivatives by the state and by the time at the start of a step: the first is a name
    jacobian_product        of that with a vector; or turned
    factored                a + b J; jacobian_solve: what it was multiplied with, or turned, from the product
    jacobian_outer          a product of two vectors that is a part of the cotangent of J
    pull_jacobian           the cotangent of J, a sum of such products, back to the state; pull_drift: that of the other one
    solution                of an equation u = a + tau F(u), of the input, a, tau and a guess; solution_pull: a cotangent's A^-T q
    increments              of a Brownian path over a part of a cell, `discretize.noise.operation`: W's, or those of its integral
    weighted_sum            of numbers of each unit, in double precision whatever these have
    any other name          a function of the numbers of each unit, `discretize.kernels.record.functions`

Equal values are one value: what two formulas share is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

__all__ = [
    "CALLS",
    "EQUATIONS",
    "GIVEN",
    "LAYOUTS",
    "READY",
    "REDUCTIONS",
    "Axes",
    "Value",
    "ValuePool",
    "ancestors",
    "is_zero",
    "row_major",
]

Axes = Sequence[tuple[int, int]]  # sizes and strides, the last axis fastest

GIVEN = ("x", "h", "dt", "cotangent")
READY = (*GIVEN, "slope", "jacobian", "drift", "number", "count", "shared")  # before anything is computed
REDUCTIONS = ("sum", "amax")
LAYOUTS = ("slice", "cat", "strided")
# Of a field, by a method: its slope at a state and its derivatives at the start, and the cotangents of these back to the state.
EQUATIONS = ("solution", "solution_pull")
CALLS = ("call", "pullback", "jacobian_product", "factored", "jacobian_solve", "pull_jacobian", "pull_drift")
WHOLE = (
    "affine",
    "increments",
    "jacobian_outer",
    *EQUATIONS,
    *CALLS,
    *LAYOUTS,
    *REDUCTIONS,
)  # whose numbers are not each of one unit of others


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
        return self.operation not in (*READY, *WHOLE)


@dataclass
class ValuePool:
    """All values of a program, each of them once."""

    made: dict[tuple[Any, ...], Value] = field(default_factory=dict)

    def make(self, operation: str, of: Iterable[Value] = (), width: int = 1, settings: tuple[object, ...] = ()) -> Value:
        of = tuple(of)
        if simpler := self._simpler(operation, of, width, settings):
            return simpler
        # repr: 0.0 and -0.0 are two numbers, and so are 1 and True
        key = (operation, tuple(map(id, of)), width, repr(settings))
        if key not in self.made:
            self.made[key] = Value(operation, of, width, settings)
        return self.made[key]

    def given(self, name: str, width: int) -> Value:
        """Return what each sample is given, by its name; of several of a kind by their number too, as "slope 3"."""
        kind, _, number = name.partition(" ")
        return self.make(kind, width=width, settings=(int(number),) if number else ())

    def number(self, value: float) -> Value:
        return self.make("number", settings=(float(value),))

    def slice(self, value: Value, first: int, width: int) -> Value:
        return self.make("slice", [value], width, (first,))

    def cat(self, parts: Iterable[Value]) -> Value:
        parts = [part for part in parts if part.width]
        return self.make("cat", parts, sum(part.width for part in parts))

    def strided(self, value: Value, first: int, axes: Axes) -> Value:
        """Its numbers from `first` on, by steps along axes."""
        axes = _joined(axes)
        width = prod(size for size, _ in axes)
        if value.width == 1 or not any(stride for _, stride in axes):
            return self.make("spread", [self.slice(value, first, 1)], width)
        if axes == [(width, 1)]:
            return self.slice(value, first, width)
        if value.operation == "spread":
            return self.make("spread", value.of, width)
        if value.operation == "slice":
            return self.strided(value.of[0], value.settings[0] + first, axes)
        if value.operation == "strided" and (steps := _composed((value.settings[0], value.settings[1]), first, axes)):
            return self.strided(value.of[0], *steps)
        return self.make("strided", [value], width, (first, tuple(axes)))

    def broadcast(self, value: Value, sizes: Sequence[int], to: Sequence[int]) -> Value:
        """As torch does it."""
        padded = [1] * (len(to) - len(sizes)) + [*sizes]
        axes = [(size, stride if old == size else 0) for size, (old, stride) in zip(to, row_major(padded), strict=True)]
        return self.strided(value, 0, axes)

    def over_axis(self, how: str, value: Value, outer: int, size: int, inner: int = 1) -> Value:
        """The sum or the largest along the middle one of three axes."""
        return self.make(how, [value], outer * inner, (outer, size, inner))

    def _simpler(self, operation: str, of: tuple[Value, ...], width: int, settings: tuple[Any, ...]) -> Value | None:
        """The same value without a detour through memory, where there is one."""
        if operation == "slice":
            return self._piece(of[0], settings[0], width)
        if operation in ("cat", "spread", *REDUCTIONS) and len(of) == 1 and of[0].width == width:
            return of[0]
        if operation == "add" and any(is_zero(value) for value in of):
            rest = of[1] if is_zero(of[0]) else of[0]
            return rest if rest.width == width else self.make("spread", [rest], width)
        layouts = {tuple(part.width for part in value.of) for value in of if value.operation == "cat"}
        if len(layouts) == 1 and operation not in WHOLE and all(map(_falls_apart, of)):
            pieces = list(layouts.pop())
            places = [sum(pieces[:k]) for k in range(len(pieces))]
            return self.cat(
                self.make(operation, [value if value.width == 1 else self.slice(value, at, size) for value in of], size, settings)
                for at, size in zip(places, pieces, strict=True)
            )
        return None

    def _piece(self, value: Value, first: int, width: int) -> Value | None:
        if first == 0 and width == value.width:
            return value
        if value.operation == "spread":
            return self.make("spread", value.of, width)
        if value.operation == "cat":
            return self.cat(self._pieces(value, first, width))
        if value.by_unit and all(map(_falls_apart, value.of)):
            parts = [of if of.width == 1 else self.slice(of, first, width) for of in value.of]
            return self.make(value.operation, parts, width, value.settings)
        piece: Value | None = None
        if value.operation == "slice":
            piece = self.slice(value.of[0], value.settings[0] + first, width)
        elif value.operation == "strided" and (inside := _within((value.settings[0], value.settings[1]), first, width)):
            piece = self.strided(value.of[0], *inside)
        return piece

    def _pieces(self, value: Value, first: int, width: int) -> Iterator[Value]:
        """Of the parts of a cat that a slice is of."""
        place = 0
        for part in value.of:
            start, end = max(first, place), min(first + width, place + part.width)
            if start < end:
                yield self.slice(part, start - place, end - start)
            place += part.width


def row_major(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Axes of numbers that lie one after the other."""
    return [(size, prod(sizes[k + 1 :])) for k, size in enumerate(sizes)]


def _joined(axes: Axes) -> list[tuple[int, int]]:
    """Without axes of one number, and those in one that are walked as one."""
    joined = list[tuple[int, int]]()
    for size, stride in axes:
        if size != 1 and joined and joined[-1][1] == size * stride:
            joined[-1] = joined[-1][0] * size, stride
        elif size != 1:
            joined.append((size, stride))
    return joined


def _within(of: tuple[int, Axes], first: int, width: int) -> tuple[int, Axes] | None:
    """Where a slice of strided numbers lies in what they are taken from, if it is some of the first axis."""
    start, ((_, stride), *rest) = of
    block = prod(size for size, _ in rest)
    start, place = start + first // block * stride, first % block
    if place == 0 and width % block == 0:
        return start, [(width // block, stride), *rest]
    return _within((start, rest), place, width) if rest and place + width <= block else None


def _composed(of: tuple[int, Axes], first: int, axes: Axes) -> tuple[int, Axes] | None:
    """Steps along axes of strided numbers as steps in what they are taken from, where each is along one of those axes."""
    start, inside = of
    places = [place for _, place in row_major([size for size, _ in inside])]
    reached = [first // place % size for place, (size, _) in zip(places, inside, strict=True)]
    start += sum(index * stride for index, (_, stride) in zip(reached, inside, strict=True))
    steps_inside = list[tuple[int, int]]()
    for size, stride in axes:
        k = next((k for k, place in enumerate(places) if stride >= 0 and stride % place == 0), None)
        if k is None:
            return None
        steps = stride // places[k]
        reached[k] += (size - 1) * steps
        steps_inside.append((size, steps * inside[k][1]))
    return (start, steps_inside) if all(index < size for index, (size, _) in zip(reached, inside, strict=True)) else None


def is_zero(value: Value) -> bool:
    return (value.operation == "number" and value.settings == (0.0,)) or (value.operation == "spread" and is_zero(value.of[0]))


def _falls_apart(value: Value) -> bool:
    """Whether a part of it is read where it lies, or computed as well as the whole."""
    if value.width == 1 or value.operation in (*GIVEN, *CALLS, *EQUATIONS, "slope", "drift", "cat", "shared"):
        return True
    return (value.by_unit or value.operation == "slice") and all(map(_falls_apart, value.of))


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
