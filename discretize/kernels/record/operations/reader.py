"""What operations are read with: the values of their arguments, and words for what no kernel is written for."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx import Node

from discretize.kernels.record.recording import operation_name, source_line
from discretize.kernels.record.values import Value, Values
from discretize.kernels.record.zones import Unknown, Zones

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
        return prod(self.sizes())

    def unknown(self, why: str) -> Unknown:
        name = operation_name(self.node)
        return Unknown(f"its code uses {name}, and {why}: {source_line(self.node)}")

    def sizes(self, node: Node | None = None) -> tuple[int, ...]:
        """Of a sample's numbers, in torch's axes: 1 where the batch is, or how many lie along that axis too."""
        return tuple(size for size, _ in self._axes(node))

    def batch(self, node: Node | None = None) -> int:
        """In which axis the samples are."""
        return [batch for _, batch in self._axes(node)].index(True)

    def outside(self, node: Node) -> int:
        """How many of a sample's numbers are in the axes before that of the batch."""
        return prod(self.sizes(node)[: self.batch(node)])

    def inside(self, node: Node) -> int:
        """How many of a sample's numbers along the batch's own axis are further apart than the samples."""
        return self.zones.inside.get(node, 1)

    def _axes(self, node: Node | None) -> list[tuple[int, bool]]:
        shape, found = (node or self.node).meta["val"].shape, list[tuple[int, bool]]()
        for size in shape:
            times, batch = size.node.expr.as_coeff_Mul() if isinstance(size, torch.SymInt) else (size, None)
            if batch is not None and not batch.is_symbol:
                raise self.unknown(f"its result of shape {tuple(shape)} is no batch of samples")
            found.append((int(times), batch is not None))
        if shape and sum(batch for _, batch in found) != 1:
            raise self.unknown(f"its result of shape {tuple(shape)} has more or less than one axis of samples")
        return found

    def own(self, given: Any) -> Any:
        """What each sample has of an argument; None where it is the same for all."""
        return self.zones.rows.get(given) if isinstance(given, Node) else None

    def value(self, given: Any, like: tuple[int, ...] | None = None) -> Value:
        """An argument; of the sizes `like` where it is more than one number."""
        if isinstance(given, Value):
            return given
        if isinstance(given, bool | int | float):
            return self.values.number(given)
        if not isinstance(given, Node):
            raise self.unknown(f"its argument {given} is no tensor and no number")
        if given not in self.zones.rows:
            return self._shared(given, like)
        found = self.own(given)
        if not isinstance(found, Value):
            raise self.unknown("it mixes samples")
        return found if like is None or found.width == 1 else self.values.broadcast(found, self.sizes(given), like)

    def _shared(self, given: Node, like: tuple[int, ...] | None) -> Value:
        tensor = given.meta["val"]
        if tensor.dtype != self.dtype and tensor.is_floating_point():
            raise self.unknown(f"it reads {tensor.dtype}")
        shape = () if tensor.numel() == 1 or like is None else like
        if (given, shape) not in self.zones.vectors:
            self.zones.vectors.append((given, shape))
        width = prod(shape) if shape else tensor.numel()
        return self.values.make("shared", width=width, settings=(self.zones.vectors.index((given, shape)),))

    def matrix(self, given: Node, turned: bool = False, place: int | None = None) -> int:
        """The number of a matrix, or of that in one place of a stack."""
        if (given, turned, place) not in self.zones.matrices:
            self.zones.matrices.append((given, turned, place))
        return self.zones.matrices.index((given, turned, place))

    def by_unit(self, name: str, *arguments: Any) -> Value:
        """A function of the numbers of each unit."""
        sizes = self.sizes()
        return self.values.make(name, [self.value(given, sizes) for given in arguments], prod(sizes))

    def between(self, value: Value, first: int, last: int) -> Value:
        return self.values.slice(value, first, last - first)

    def filled(self, number: float) -> Value:
        value = self.values.number(number)
        return self.values.make("spread", [value], self.width) if self.node.meta["val"].dim() else value
