"""What operations are read with: the values of their arguments, and words for what no kernel is written for."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx import Node

from discretize.compiler.recording import operation_name, source_line
from discretize.compiler.values import Value, Values
from discretize.compiler.zones import Unknown, Zones

__all__ = ["Reader"]


@dataclass(frozen=True)
class Reader:
    """For one operation, whose result is `node`."""

    zones: Zones
    dtype: torch.dtype
    node: Node

    @property
    def values(self) -> Values:
        return self.zones.values

    @property
    def width(self) -> int:
        """How many numbers of a sample the result has."""
        return prod(self.tail())

    def unknown(self, why: str) -> Unknown:
        name = operation_name(self.node)
        return Unknown(f"its code uses {name}, and {why}: {source_line(self.node)}")

    def tail(self, node: Node | None = None) -> tuple[int, ...]:
        """The sizes beyond the batch, which must come first; of the result, or of another node."""
        shape = (node or self.node).meta["val"].shape
        if not shape:
            return ()
        first, *rest = shape
        if not isinstance(first, torch.SymInt) or not first.node.expr.is_symbol or any(isinstance(n, torch.SymInt) for n in rest):
            raise self.unknown(f"its result of shape {tuple(shape)} has the batch not as its first axis")
        return tuple(rest)

    def own(self, given: Any) -> Any:
        """What each sample has of an argument; None where it is the same for all."""
        return self.zones.rows.get(given) if isinstance(given, Node) else None

    def value(self, given: Any, like: tuple[int, ...] | None = None) -> Value:
        """An argument; what is made of weights in the shape `like`."""
        if isinstance(given, Value):
            return given
        if isinstance(given, bool | int | float):
            return self.values.number(given)
        if not isinstance(given, Node):
            raise self.unknown(f"its argument {given} is no tensor and no number")
        if given in self.zones.rows:
            found = self.own(given)
            if not isinstance(found, Value):
                raise self.unknown("it mixes samples or changes the order of axes")
            return found
        return self._shared(given, like)

    def _shared(self, given: Node, like: tuple[int, ...] | None) -> Value:
        tensor = given.meta["val"]
        if tensor.dtype != self.dtype and tensor.is_floating_point():
            raise self.unknown(f"it reads {tensor.dtype}")
        shape = () if tensor.numel() == 1 or like is None else like
        if (given, shape) not in self.zones.vectors:
            self.zones.vectors.append((given, shape))
        width = prod(shape) if shape else tensor.numel()
        return self.values.make("shared", width=width, settings=(self.zones.vectors.index((given, shape)),))

    def matrix(self, given: Node, turned: bool = False) -> int:
        if (given, turned) not in self.zones.matrices:
            self.zones.matrices.append((given, turned))
        return self.zones.matrices.index((given, turned))

    def by_unit(self, name: str, *arguments: Any) -> Value:
        """A function of the numbers of each unit."""
        tail = self.tail()
        values = [self.value(given, tail) for given in arguments]
        if any(value.width not in (1, prod(tail)) for value in values):
            raise self.unknown("it repeats some of a sample's numbers")
        return self.values.make(name, values, prod(tail))

    def between(self, value: Value, first: int, last: int) -> Value:
        return self.values.slice(value, first, last - first)

    def filled(self, number: float) -> Value:
        value = self.values.number(number)
        return self.values.make("spread", [value], self.width) if self.node.meta["val"].dim() else value
