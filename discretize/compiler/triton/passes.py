"""The lines of one pass over a tile of samples, in Triton: values and pieces of them, each computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from discretize.compiler.triton.functions import FUNCTIONS, number
from discretize.compiler.values import READY, REDUCTIONS, Value
from discretize.compiler.zones import Unknown

__all__ = ["Needs", "Pass"]

TILE = 1 << 14  # numbers of a matrix in one product at most
PART = 1 << 13  # and of its parts, where it has more
RESIDENT = 1 << 14  # numbers of all matrices that are loaded once for the whole sequence
DOT = "tl.dot({}, {}, {}, input_precision=PRECISION, out_dtype=REAL)"


def padded(width: int) -> int:
    """Units of a tile: a power of 2, and enough for a product."""
    return 1 if width == 1 else max(16, 1 << (width - 1).bit_length())


@dataclass(frozen=True)
class Needs:
    """What a pass reads of the weights, by number, in the order of its arguments, and how much scratch a sample needs."""

    vectors: tuple[int, ...]
    matrices: tuple[int, ...]
    scratch: int


@dataclass
class Pass:
    """One pass: the lines before its loop and those of a step; where values lie in memory, by row; names of pieces."""

    places: dict[Value, str]
    dt: Value | None = None
    before: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    names: dict[tuple[Value, int, int], str] = field(default_factory=dict)
    operands: dict[str, str] = field(default_factory=dict)
    columns: dict[int, None] = field(default_factory=dict)
    vectors: dict[int, None] = field(default_factory=dict)
    matrices: dict[int, None] = field(default_factory=dict)
    scratch: int = 0
    resident: int = 0
    unread: bool = False  # whether something was stored that other threads may not see yet
    made: int = 0

    @property
    def needs(self) -> Needs:
        return Needs(tuple(self.vectors), tuple(self.matrices), self.scratch)

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
            return self._loaded(self.places[value], first, width)
        if value.operation == "cat":
            part = _part(value, first, width)
            return self.piece(*part, width) if part else self._loaded(self.memory(value), first, width)
        if value.by_unit or value.operation == "affine":
            return self._function(value, first, width) if value.by_unit else self._affine(value, first, width)
        return self._constant(value, first, width) if value.operation in READY else self._moved(value, first, width)

    def _constant(self, value: Value, first: int, width: int) -> str:
        if value.operation == "shared":
            return self._named(self._load(self._vector(value), first, width, "cP < W"), self.before)
        return self._named(f"tl.full([1, 1], {number(float(value.settings[0]))}, REAL)", self.before)

    def _moved(self, value: Value, first: int, width: int) -> str:
        if width != value.width:
            return self._loaded(self.memory(value), first, width)
        over_all = value.operation in REDUCTIONS and value.width == 1
        return self._reduced(value) if over_all else self._gathered(value)

    def memory(self, value: Value) -> str:
        """Where a value lies for every thread, once it is stored."""
        if value.operation == "slice":
            return f"{self.memory(value.of[0])} + {value.settings[0]}"
        if value.operation == "shared":
            return f"{self._vector(value)} + rows * 0"
        if value not in self.places:
            at, self.scratch = f"at_scratch + {self.scratch}", self.scratch + value.width
            self.store(value, at)
            self.places[value], self.unread = at, True
        return self.places[value]

    def store(self, value: Value, at: str) -> None:
        for part, first, place, size in _pieces(value):
            self.write(self.piece(part, first, size), f"{at} + {place}", size)

    def exchange(self, value: Value, old: Value, targets: Sequence[str]) -> None:
        """Store a value in place of the old one, of which a sample at rest keeps its own."""
        found = [
            (self.piece(part, first, size), self.piece(old, place, size), place, size)
            for part, first, place, size in _pieces(value)
        ]
        self.synchronize()  # others may still read the old one
        for new, before, place, size in found:
            name = self._named(f"tl.where(length == 0.0, {before}, {new}) if RESTS else {new}")
            for at in targets:
                self.write(name, f"{at} + {place}", size)
        self.synchronize()

    def write(self, name: str, at: str, width: int) -> None:
        columns, mask = self.columns_of(width)
        self.lines.append(f"tl.store({at}{columns}, {name} + tl.zeros([ROWS, {padded(width)}], REAL), mask={mask})")

    def leave(self, value: Value, at: str) -> None:
        """Store a gradient, 0 for a sample at rest."""
        for part, first, place, size in _pieces(value):
            name = self.piece(part, first, size)
            name = self._named(f"tl.where(length == 0.0, 0.0, {name}) if RESTS else {name}")
            self.write(name, f"{at} + {place}", size)

    def synchronize(self) -> None:
        self.lines.append("tl.debug_barrier()")
        self.unread = False

    def _named(self, expression: str, lines: list[str] | None = None) -> str:
        name, self.made = f"v{self.made}", self.made + 1
        (self.lines if lines is None else lines).append(f"{name} = {expression}")
        return name

    def columns_of(self, width: int) -> tuple[str, str]:
        """What is added to a row's address, and which numbers are there."""
        if width == 1:
            return "", "inside"
        self.columns[padded(width)] = None
        c = f"c{padded(width)}"
        return f" + {c}", "inside" if padded(width) == width else f"inside & ({c} < {width})"

    def _load(self, at: str, first: int, width: int, mask: str = "inside & (cP < W)") -> str:
        columns, _ = self.columns_of(width)
        mask = mask.replace("cP", f"c{padded(width)}").replace("W", str(width)) if width > 1 else mask.partition(" & ")[0]
        if width == 1 and "c" in mask:
            return f"tl.load({at} + {first} + tl.zeros([1, 1], tl.int32))"
        return f"tl.load({at} + {first}{columns}, mask={mask}, other=0.0)"

    def _loaded(self, at: str, first: int, width: int) -> str:
        if self.unread:
            self.synchronize()
        return self._named(self._load(at, first, width))

    def _vector(self, value: Value) -> str:
        self.vectors[value.settings[0]] = None
        return f"vector_{value.settings[0]}"

    def _function(self, value: Value, first: int, width: int) -> str:
        if value.operation not in FUNCTIONS:
            raise Unknown(f"its code uses {value.operation}, which no kernel for GPUs is written for")
        parts = [self.piece(part) if part.width == 1 else self.piece(part, first, width) for part in value.of]
        expression = FUNCTIONS[value.operation].format(**dict(zip("abc", parts, strict=False)))
        if width > 1 and all(part.width == 1 for part in value.of):
            expression = f"({expression}) + tl.zeros([1, {padded(width)}], REAL)"
        return self._named(expression)

    def _reduced(self, value: Value) -> str:
        (source,) = value.of
        name, (_, mask) = self.piece(source), self.columns_of(source.width)
        if value.operation == "sum":
            return self._named(f"tl.sum(tl.where({mask}, {name}, 0.0), 1, keep_dims=True)")
        return self._named(f'tl.max(tl.where({mask}, {name}, float("-inf")), 1, keep_dims=True)')

    def _gathered(self, value: Value) -> str:
        """By steps along axes in memory; or over the middle one of three axes."""
        at, size = self.memory(value.of[0]), padded(value.width)
        if self.unread:
            self.synchronize()
        self.columns_of(max(value.width, 2))
        c = f"c{size}" if value.width > 1 else "tl.zeros([1, 1], tl.int32)"
        mask = self.columns_of(value.width)[1]
        if value.operation == "strided":
            place, after = str(value.settings[0]), value.width
            for length, stride in value.settings[1]:
                after //= length
                place += f" + ({c} // {after} % {length}) * {stride}"
            return self._named(f"tl.load({at} + {place}, mask={mask}, other=0.0)")
        _, count, inner = value.settings
        is_sum = value.operation == "sum"
        start = "0.0" if is_sum else 'float("-inf")'
        name = self._named(f"tl.full([ROWS, {size}], {start}, REAL)")
        load = f"tl.load({at} + ({c} // {inner} * {count} + k) * {inner} + {c} % {inner}, mask={mask}, other=0.0)"
        total = f"{name} + {load}" if is_sum else f"tl.maximum({name}, {load})"
        self.lines += [f"for k in range({count}):", f"    {name} = {total}"]
        return name

    def _affine(self, value: Value, first: int, width: int) -> str:
        has_start, matrices = value.settings
        starts, read = (value.of[:1], value.of[1:]) if has_start else ((), value.of)
        begin = [self.piece(start) if start.width == 1 else self.piece(start, first, width) for start in starts]
        parts = [
            (matrix, *part) for source, matrix in zip(read, matrices, strict=True) for part in _pieces(source)
        ]  # each from a row of the matrix on
        large = {part for _, part, _, _, size in parts if padded(size) * padded(width) > TILE and min(size, width) > 1}
        operands = [self.memory(part) if part in large else self._operand(part, at, size) for _, part, at, _, size in parts]
        name = self._named(" + ".join([f"tl.zeros([ROWS, {padded(width)}], REAL)", *begin]))
        for operand, (matrix, part, _, row, depth) in zip(operands, parts, strict=True):
            if part in large:
                self._long_product(name, operand, matrix, row, depth, value.width, first, width)
                continue
            weights = self._matrix(matrix, row, depth, value.width, first, width)
            if depth == 1:
                self.lines.append(f"{name} += {operand} * {weights}")
            elif width == 1:
                self.lines.append(f"{name} += tl.sum({operand} * {weights}, 1, keep_dims=True)")
            else:
                self.lines.append(f"{name} = {DOT.format(operand, weights, name)}")
        return name

    def _long_product(self, name: str, at: str, matrix: int, row: int, depth: int, stride: int, first: int, width: int) -> None:
        """Some units after the other, from memory: all of them would not fit."""
        if self.unread:
            self.synchronize()
        some, across = max(16, PART // padded(width)), padded(width)
        self.columns |= {some: None, across: None}
        self.matrices[matrix] = None
        weights = f"matrix_{matrix} + ({row} + k + r{some}) * {stride} + {first} + c{across}"
        self.lines += [
            f"for k in range(0, {depth}, {some}):",
            f"    of_source = tl.load({at} + k + c{some}, mask=inside & (k + c{some} < {depth}), other=0.0)",
            f"    of_matrix = tl.load({weights}, mask=(k + r{some} < {depth}) & (c{across} < {width}), other=0.0)",
            f"    {name} = {DOT.format('of_source', 'of_matrix', name)}",
        ]

    def _operand(self, value: Value, first: int, width: int) -> str:
        name = self.piece(value, first, width)
        if padded(width) == width:
            return name
        if name not in self.operands:  # beyond the width there may be nan
            self.operands[name] = self._named(f"tl.where({self.columns_of(width)[1]}, {name}, 0.0)")
        return self.operands[name]

    def _matrix(self, matrix: int, row: int, depth: int, stride: int, first: int, width: int) -> str:
        """Some rows and columns of a matrix, (depth, width); of one row or one column, as a row."""
        self.matrices[matrix] = None
        down, across = padded(depth), padded(width)
        self.columns_of(depth), self.columns_of(width)
        if depth == 1 or width == 1:
            c, size, step = (f"c{across}", width, 1) if depth == 1 else (f"c{down}", depth, stride)
            if size == 1:
                return self._named(f"tl.load(matrix_{matrix} + {row * stride + first})", self.before)
            expression = f"tl.load(matrix_{matrix} + {row * stride + first} + {c} * {step}, mask={c} < {size}, other=0.0)"
            return self._named(expression, self.before)
        self.columns[down] = None
        rows = f"r{down}"
        expression = (
            f"tl.load(matrix_{matrix} + ({rows} + {row}) * {stride} + {first} + c{across}, "
            f"mask=({rows} < {depth}) & (c{across} < {width}), other=0.0)"
        )
        fits = self.resident + down * across <= RESIDENT
        self.resident += down * across if fits else 0
        return self._named(expression, self.before if fits else None)


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
