r"""Write the lines of one pass over a tile of samples in Triton.

`Lines` moves numbers from and to memory and multiplies with weights; `Pass` computes values, and pieces of them, once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

from discretize.kernels.record.values import READY, REDUCTIONS, Value
from discretize.kernels.record.zones import Unknown
from discretize.kernels.triton.functions import FUNCTIONS, number

__all__ = ["DOT", "WEIGHTS", "Lines", "Needs", "Pass", "fits_a_tile", "padded"]


TILE = 1 << 14  # numbers of a matrix in one product at most
PART = 1 << 13  # and of its parts, where it has more
RESIDENT = 1 << 14  # numbers of all matrices that are loaded once for the whole sequence
WEIGHTS = 1 << 16  # numbers for the weights of a program
DOT = "tl.dot({}, {}, {}, input_precision=PRECISION, out_dtype=REAL)"


def padded(width: int) -> int:
    """Units of a tile: a power of 2, and enough for a product."""
    return 1 if width == 1 else max(16, 1 << (width - 1).bit_length())


def fits_a_tile(depth: int, width: int) -> bool:
    """Whether a matrix of these sizes is multiplied at once."""
    return padded(depth) * padded(width) <= TILE or min(depth, width) == 1


@dataclass
class Lines:
    """Those before the loop and those of a step; which weights they read; which columns they name.

    unread: whether something was stored that other threads may not see yet; resident: numbers of weights loaded before the loop;
    made: how many names there are; program: which of several programs in one kernel, whose weights have numbers from
    program * `WEIGHTS` on.
    """

    before: list[str] = field(default_factory=list)
    step: list[str] = field(default_factory=list)
    columns: dict[int, None] = field(default_factory=dict)
    vectors: dict[int, None] = field(default_factory=dict)
    matrices: dict[int, None] = field(default_factory=dict)
    unread: bool = False
    resident: int = 0
    made: int = 0
    program: int = 0

    def named(self, expression: str, once: bool = False) -> str:
        """A new name for an expression, `once` before the loop."""
        name, self.made = f"v{self.made}", self.made + 1
        (self.before if once else self.step).append(f"{name} = {expression}")
        return name

    def columns_of(self, width: int) -> tuple[str, str]:
        """What is added to a row's address, and which numbers are there."""
        if width == 1:
            return "", "inside"
        self.columns[padded(width)] = None
        c = f"c{padded(width)}"
        return f" + {c}", "inside" if padded(width) == width else f"inside & ({c} < {width})"

    def load(self, at: str, first: int, width: int) -> str:
        """Some numbers of every row."""
        self.see_all()
        columns, mask = self.columns_of(width)
        return self.named(f"tl.load({at} + {first}{columns}, mask={mask}, other=0.0).to(REAL)")

    def load_row(self, at: str, first: int, width: int, step: int = 1) -> str:
        """Numbers of the weights, which all rows share."""
        self.columns_of(width)
        if width == 1:
            return self.named(f"tl.load({at} + {first} + tl.zeros([1, 1], tl.int32)).to(REAL)", once=True)
        c = f"c{padded(width)}"
        return self.named(f"tl.load({at} + {first} + {c} * {step}, mask={c} < {width}, other=0.0).to(REAL)", once=True)

    def store(self, name: str, at: str, width: int) -> None:
        columns, mask = self.columns_of(width)
        self.step.append(f"tl.store({at}{columns}, {name} + tl.zeros([ROWS, {padded(width)}], REAL), mask={mask})")

    def see_all(self) -> None:
        """What was stored, by every thread."""
        if self.unread:
            self.synchronize()

    def synchronize(self) -> None:
        self.step.append("tl.debug_barrier()")
        self.unread = False

    def vector(self, number: int) -> str:
        number += self.program * WEIGHTS
        self.vectors[number] = None
        return f"vector_{number}"

    def matrix(self, number: int) -> str:
        number += self.program * WEIGHTS
        self.matrices[number] = None
        return f"matrix_{number}"

    def add_product(self, name: str, operand: str, matrix: int, first: int, stride: int, depth: int, width: int) -> None:
        """To `name`, of an operand with so many rows and columns of a matrix, from a first number on."""
        at = self.matrix(matrix)
        if depth == 1:
            self.step.append(f"{name} += {operand} * {self.load_row(at, first, width)}")
        elif width == 1:
            self.step.append(f"{name} += tl.sum({operand} * {self.load_row(at, first, depth, stride)}, 1, keep_dims=True)")
        else:
            down, across = padded(depth), padded(width)
            self.columns |= {down: None, across: None}
            mask = f"(r{down} < {depth}) & (c{across} < {width})"
            once = self.resident + down * across <= RESIDENT
            self.resident += down * across if once else 0
            load = f"tl.load({at} + {first} + r{down} * {stride} + c{across}, mask={mask}, other=0.0).to(REAL)"
            weights = self.named(load, once)
            self.step.append(f"{name} = {DOT.format(operand, weights, name)}")

    def add_long_product(self, name: str, source: str, matrix: int, first: int, stride: int, depth: int, width: int) -> None:
        """The same of numbers in memory, some after the other, where all of them would not fit."""
        self.see_all()
        at, some, across = self.matrix(matrix), max(16, PART // padded(width)), padded(width)
        self.columns |= {some: None, across: None}
        weights, mask = (
            f"{at} + {first} + (k + r{some}) * {stride} + c{across}",
            f"(k + r{some} < {depth}) & (c{across} < {width})",
        )
        self.step += [
            f"for k in range(0, {depth}, {some}):",
            f"    of_source = tl.load({source} + k + c{some}, mask=inside & (k + c{some} < {depth}), other=0.0).to(REAL)",
            f"    of_matrix = tl.load({weights}, mask={mask}, other=0.0).to(REAL)",
            f"    {name} = {DOT.format('of_source', 'of_matrix', name)}",
        ]


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
        if value.operation == "increments":
            return self._increments(value, first, width)
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

    def _increments(self, value: Value, first: int, width: int) -> str:
        """By the bridge of one halving after the other, as `discretize/noise/brownian.py`."""
        (columns,), (parts, _, of_integral) = value.of, value.settings
        address = [self.piece(columns, k, 1) for k in range(columns.width - 1)]
        self.out.columns_of(width)
        units = f"{first} + c{padded(width)}" if width > 1 else f"{first} + tl.zeros([1, 1], tl.int32)"

        def normal(node: str, deviation: float) -> str:
            drawn = f"normal({', '.join(address)}, {node}, {units}, {-(-value.width // 4)})"
            return self.out.named(f"{drawn} * {deviation!r}")

        named, size, length = self.out.named, parts, 1.0
        w, h = normal("0", 1.0), normal("1", sqrt(1 / 12)) if parts > 1 or of_integral else "0.0"
        place = named(f"substep + {parts}")
        while size > 1:
            z, n = normal(f"2 * ({place} // {size})", sqrt(length) / 4), "0.0"
            if size > 2 or of_integral:
                n = normal(f"2 * ({place} // {size}) + 1", sqrt(length / 12) / 2)
            size, length = size // 2, length / 2
            side = named(f"1.0 - 2.0 * ({place} // {size} % 2).to(REAL)")
            w, h = named(f"0.5 * {w} + {side} * (1.5 * {h} + {z})"), named(f"0.25 * {h} - 0.5 * {z} + {side} * {n}")
        return named(f"{length!r} * (0.5 * {w} + {h})") if of_integral else w

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
