"""The lines of one pass over a tile of samples, in Triton: values and pieces of them, each computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from discretize.kernels.record.values import READY, REDUCTIONS, Value
from discretize.kernels.record.zones import Unknown
from discretize.kernels.triton.functions import FUNCTIONS, number
from discretize.kernels.triton.lines import Lines, fits_a_tile, padded

__all__ = ["Needs", "Pass"]


@dataclass(frozen=True)
class Needs:
    """What a pass reads of the weights, by number, in the order of its arguments, and how much scratch a sample needs."""

    vectors: tuple[int, ...]
    matrices: tuple[int, ...]
    scratch: int


@dataclass
class Pass:
    """One pass: where values lie in memory, by row; names of pieces, and of those that products read."""

    places: dict[Value, str]
    dt: Value | None = None
    out: Lines = field(default_factory=Lines)
    names: dict[tuple[Value, int, int], str] = field(default_factory=dict)
    operands: dict[str, str] = field(default_factory=dict)
    scratch: int = 0

    @property
    def needs(self) -> Needs:
        return Needs(tuple(self.out.vectors), tuple(self.out.matrices), self.scratch)

    def piece(self, value: Value, first: int = 0, width: int | None = None) -> str:
        """The name of some of a value's units: numbers of rows by columns, or of one row or column that all share."""
        width = value.width if width is None else width
        if value is self.dt:
            return "length"
        key = value, first, width
        if key not in self.names:
            self.names[key] = self._made(value, first, width)
        return self.names[key]

    def _made(self, value: Value, first: int, width: int) -> str:
        if value.operation == "slice":
            return self.piece(value.of[0], first + value.settings[0], width)
        if value in self.places:
            return self.out.load(self.places[value], first, width)
        if value.operation == "cat":
            part = _part(value, first, width)
            return self.piece(*part, width) if part else self.out.load(self.memory(value), first, width)
        if value.by_unit or value.operation == "affine":
            return self._function(value, first, width) if value.by_unit else self._affine(value, first, width)
        return self._constant(value, first, width) if value.operation in READY else self._moved(value, first, width)

    def _constant(self, value: Value, first: int, width: int) -> str:
        if value.operation == "shared":
            return self.out.load_row(self.out.vector(value.settings[0]), first, width)
        return self.out.named(f"tl.full([1, 1], {number(float(value.settings[0]))}, REAL)", once=True)

    def _moved(self, value: Value, first: int, width: int) -> str:
        if width != value.width:
            return self.out.load(self.memory(value), first, width)
        over_all = value.operation in REDUCTIONS and value.width == 1
        return self._reduced(value) if over_all else self._gathered(value)

    def memory(self, value: Value) -> str:
        """Where a value lies for every thread, once it is stored."""
        if value.operation == "slice":
            return f"{self.memory(value.of[0])} + {value.settings[0]}"
        if value.operation == "shared":
            return f"{self.out.vector(value.settings[0])} + rows * 0"
        if value not in self.places:
            at, self.scratch = f"at_scratch + {self.scratch}", self.scratch + value.width
            self.store(value, at)
            self.places[value], self.out.unread = at, True
        return self.places[value]

    def store(self, value: Value, at: str) -> None:
        for part, first, place, size in _pieces(value):
            self.out.store(self.piece(part, first, size), f"{at} + {place}", size)

    def exchange(self, value: Value, old: Value, targets: Sequence[str]) -> None:
        """Store a value in place of the old one, of which a sample at rest keeps its own."""
        found = [
            (self.piece(part, first, size), self.piece(old, place, size), place, size)
            for part, first, place, size in _pieces(value)
        ]
        self.out.synchronize()  # others may still read the old one
        for new, before, place, size in found:
            name = self.out.named(f"tl.where(length == 0.0, {before}, {new}) if RESTS else {new}")
            for at in targets:
                self.out.store(name, f"{at} + {place}", size)
        self.out.synchronize()

    def leave(self, value: Value, at: str) -> None:
        """Store a gradient, 0 for a sample at rest."""
        for part, first, place, size in _pieces(value):
            name = self.piece(part, first, size)
            name = self.out.named(f"tl.where(length == 0.0, 0.0, {name}) if RESTS else {name}")
            self.out.store(name, f"{at} + {place}", size)

    def _function(self, value: Value, first: int, width: int) -> str:
        if value.operation not in FUNCTIONS:
            raise Unknown(f"its code uses {value.operation}, which no kernel for GPUs is written for")
        parts = [self.piece(part) if part.width == 1 else self.piece(part, first, width) for part in value.of]
        expression = FUNCTIONS[value.operation].format(**dict(zip("abc", parts, strict=False)))
        if width > 1 and all(part.width == 1 for part in value.of):
            expression = f"({expression}) + tl.zeros([1, {padded(width)}], REAL)"
        return self.out.named(expression)

    def _reduced(self, value: Value) -> str:
        (source,) = value.of
        name, (_, mask) = self.piece(source), self.out.columns_of(source.width)
        if value.operation == "sum":
            return self.out.named(f"tl.sum(tl.where({mask}, {name}, 0.0), 1, keep_dims=True)")
        return self.out.named(f'tl.max(tl.where({mask}, {name}, float("-inf")), 1, keep_dims=True)')

    def _gathered(self, value: Value) -> str:
        """By steps along axes in memory; or over the middle one of three axes."""
        at, size = self.memory(value.of[0]), padded(value.width)
        self.out.see_all()
        self.out.columns_of(max(value.width, 2))
        c = f"c{size}" if value.width > 1 else "tl.zeros([1, 1], tl.int32)"
        mask = self.out.columns_of(value.width)[1]
        if value.operation == "strided":
            place, after = str(value.settings[0]), value.width
            for length, stride in value.settings[1]:
                after //= length
                place += f" + ({c} // {after} % {length}) * {stride}"
            return self.out.named(f"tl.load({at} + {place}, mask={mask}, other=0.0).to(REAL)")
        _, count, inner = value.settings
        is_sum = value.operation == "sum"
        start = "0.0" if is_sum else 'float("-inf")'
        name = self.out.named(f"tl.full([ROWS, {size}], {start}, REAL)")
        load = f"tl.load({at} + ({c} // {inner} * {count} + k) * {inner} + {c} % {inner}, mask={mask}, other=0.0).to(REAL)"
        total = f"{name} + {load}" if is_sum else f"tl.maximum({name}, {load})"
        self.out.step += [f"for k in range({count}):", f"    {name} = {total}"]
        return name

    def _affine(self, value: Value, first: int, width: int) -> str:
        has_start, matrices = value.settings
        starts, read = (value.of[:1], value.of[1:]) if has_start else ((), value.of)
        begin = [self.piece(start) if start.width == 1 else self.piece(start, first, width) for start in starts]
        parts = [(matrix, *part) for source, matrix in zip(read, matrices, strict=True) for part in _pieces(source)]
        large = {part for _, part, _, _, size in parts if not fits_a_tile(size, width)}
        operands = [self.memory(part) if part in large else self._operand(part, at, size) for _, part, at, _, size in parts]
        name = self.out.named(" + ".join([f"tl.zeros([ROWS, {padded(width)}], REAL)", *begin]))
        for operand, (matrix, part, _, row, depth) in zip(operands, parts, strict=True):
            add = self.out.add_long_product if part in large else self.out.add_product
            add(name, operand, matrix, row * value.width + first, value.width, depth, width)
        return name

    def _operand(self, value: Value, first: int, width: int) -> str:
        name = self.piece(value, first, width)
        if padded(width) == width:
            return name
        if name not in self.operands:  # beyond the width there may be nan
            self.operands[name] = self.out.named(f"tl.where({self.out.columns_of(width)[1]}, {name}, 0.0)")
        return self.operands[name]


def _pieces(value: Value) -> list[tuple[Value, int, int, int]]:
    """The parts that a value is put together of: which units of what, from a first on, to which place, how many."""
    if value.operation == "cat":
        found, place = [], 0
        for part in value.of:
            found += [(one, first, place + at, size) for one, first, at, size in _pieces(part)]
            place += part.width
        return found
    return [(value, 0, 0, value.width)] if value.width else []


def _part(value: Value, first: int, width: int) -> tuple[Value, int] | None:
    place = 0
    for part in value.of:
        if place <= first and first + width <= place + part.width:
            return part, first - place
        place += part.width
    return None
