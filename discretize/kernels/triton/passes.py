r"""Write the lines of one pass over a tile of samples in Triton: values, and pieces of them, once each.

What is known of a pass only when it is written, a `Draft` of it tells: which pieces are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt

from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import READY, REDUCTIONS, Value, ancestors
from discretize.kernels.triton.functions import FUNCTIONS, expression, number
from discretize.kernels.triton.lines import Lines, Needs, padded
from discretize.kernels.triton.products import Product, write_dots, write_sums

__all__ = ["Draft", "Pass", "parts_of"]

MOST_PARTS = 8  # of a state in registers
Piece = tuple[Value, int, int]  # so many of a value's units, from a first one on


@dataclass(frozen=True)
class Draft:
    """Of a pass that was written once: which pieces it reads, by value."""

    pieces: Mapping[Value, set[tuple[int, int]]] = field(default_factory=dict)

    def cuts(self, old: Value, following: Value) -> list[tuple[int, int]]:
        """Firsts and sizes of the parts in which a state stays in registers: as it is computed, or as it is read too."""
        own = [(place, size) for _, _, place, size in parts_of(following)]
        read = self.pieces.get(old, set())
        ends = sorted({end for first, size in (*own, *read) for end in (first, first + size)})
        finer = [(first, end - first) for first, end in pairwise(ends)]
        return finer if len(finer) <= MOST_PARTS and read <= {*finer} else own


@dataclass
class Pass:
    """One pass: where values lie in memory, by row; names of pieces, and of those that products read.

    sums: whether products are sums, of fewer than 16 rows; draft: of the same pass; carried: a value's parts that stay in
    registers from step to step, None for all that are asked for, in a draft; ahead: how often values are given that are read a
    step ahead, and what leads from one to the next; outside: columns of products that are ready in `at_projected`, by the affine
    value, the matrix, and the row; from_memory: values that the pass reads from there.
    """

    places: dict[Value, str]
    dt: Value | None = None
    out: Lines = field(default_factory=Lines)
    names: dict[Piece, str] = field(default_factory=dict)
    operands: dict[str, str] = field(default_factory=dict)
    scratch: int = 0
    sums: bool = False
    draft: Draft = field(default_factory=Draft)
    carried: dict[Value, dict[tuple[int, int], str] | None] = field(default_factory=dict)
    ahead: Mapping[Value, tuple[str, str]] = field(default_factory=dict)
    outside: Mapping[tuple[Value, int, int], int] = field(default_factory=dict)
    from_memory: set[Value] = field(default_factory=set)

    @property
    def needs(self) -> Needs:
        return Needs(tuple(self.out.vectors), tuple(self.out.matrices), self.scratch, self.out.resident, self.out.streamed)

    @property
    def as_draft(self) -> Draft:
        """Of this pass, for the one that is written next."""
        pieces = dict[Value, set[tuple[int, int]]]()
        for value, first, width in self.names:
            pieces.setdefault(value, set()).add((first, width))
        return Draft(pieces)

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
        if value in self.carried or value in self.places:
            return self._there(value, first, width)
        if value.operation == "cat":
            part = _part(value, first, width)
            return self.piece(*part, width) if part else self.out.load(self.memory(value), first, width)
        if value.operation == "increments":
            return self._increments(value, first, width)
        if value.by_unit or value.operation == "affine":
            return self._function(value, first, width) if value.by_unit else self._affine(value, first, width)
        return self._constant(value, first, width) if value.operation in READY else self._moved(value, first, width)

    def _there(self, value: Value, first: int, width: int) -> str:
        """A piece of what is carried, or lies in memory."""
        if value in self.carried:
            parts = self.carried[value]
            name = self.out.named("0.0") if parts is None else parts.get((first, width))
            if name is not None:
                return name
        elif value in self.ahead:
            return self.out.load_ahead(self.places[value], first, width, *self.ahead[value])
        return self.out.load(self.memory(value), first, width)

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
        self.from_memory.add(value)
        if value not in self.places:
            at, self.scratch = f"at_scratch + {self.scratch}", self.scratch + value.width
            if self.carried.get(value, {}) is not None:
                self.store(value, at)
            self.places[value], self.out.unread = at, True
        return self.places[value]

    def store(self, value: Value, at: str, when: str = "") -> None:
        for part, first, place, size in self._parts(value):
            self.out.store(self.piece(part, first, size), f"{at} + {place}", size, when)

    def _parts(self, value: Value) -> list[tuple[Value, int, int, int]]:
        return [(value, first, first, size) for first, size in self.carried.get(value) or ()] or parts_of(value)

    def carry(self, value: Value, name: str, following: Value) -> dict[tuple[int, int], str]:
        """Keep a value in registers from step to step, by names that begin so; `following` comes in its place."""
        cuts = self.draft.cuts(value, following)
        self.carried[value] = names = {(first, size): f"{name}_{k}" for k, (first, size) in enumerate(cuts)}
        return names

    def exchange(self, value: Value, old: Value, targets: Mapping[str, str]) -> None:
        """Put a value in place of the carried one, of which a sample at rest keeps its own; targets: where it is stored, and what
        begins the lines that store it."""
        if (parts := self.carried[old]) is None:
            self.store(value, "at_scratch")
            return
        following = {part: self.piece(value, *part) for part in parts}
        for (first, size), name in parts.items():
            new = following[first, size]
            new = self.out.named(f"tl.where(length == 0.0, {name}, {new}) if RESTS else {new}")
            following[first, size] = self.out.named(f"{new} + tl.zeros([ROWS, {padded(size)}], REAL)")
            for at, when in targets.items():
                self.out.store(following[first, size], f"{at} + {first}", size, when)
        self.out.step += [f"{name} = {following[part]}" for part, name in parts.items()]

    def leave(self, value: Value, at: str) -> None:
        """Store a gradient, 0 for a sample at rest."""
        for part, first, place, size in parts_of(value):
            name = self.piece(part, first, size)
            name = self.out.named(f"tl.where(length == 0.0, 0.0, {name}) if RESTS else {name}")
            self.out.store(name, f"{at} + {place}", size)

    def _function(self, value: Value, first: int, width: int) -> str:
        if value.operation not in (*FUNCTIONS, "weighted_sum"):
            raise UnknownOperation(f"its code uses {value.operation}, which no kernel for GPUs is written for")
        parts = [self.piece(part) if part.width == 1 else self.piece(part, first, width) for part in value.of]
        text = expression(value.operation, parts, value.settings)
        if width > 1 and all(part.width == 1 for part in value.of):
            text = f"({text}) + tl.zeros([1, {padded(width)}], REAL)"
        return self.out.named(text)

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
        own = self._begun(value, first, width)
        others = {read: self._begun(*read) for read in self._others_like(value, first, width)} if self.sums else {}
        products = [product for _, some in (own, *others.values()) for product in some]
        (write_sums if self.sums else write_dots)(self, products)
        for read, (name, _) in others.items():  # not before: what these products read may be made of one another
            self.names.setdefault(read, name)
        return own[0]

    def _begun(self, value: Value, first: int, width: int) -> tuple[str, list[Product]]:
        """The name of a piece of an affine value, which has all but its products, and these."""
        has_start, matrices = value.settings
        starts, read = (value.of[:1], value.of[1:]) if has_start else ((), value.of)
        begin = [self.piece(start) if start.width == 1 else self.piece(start, first, width) for start in starts]
        parts = [(matrix, *part) for source, matrix in zip(read, matrices, strict=True) for part in parts_of(source)]
        products = []
        for matrix, part, at, row, depth in parts:
            column = self.outside.get((value, matrix, row))
            if column is not None:
                stride = "batch * PROJECTED"
                begin.append(self.out.load_ahead("at_projected", column + first, width, "sample", stride))
            else:
                products.append(Product("", part, at, matrix, row * value.width + first, value.width, depth, width))
        name = self.out.named(" + ".join([f"tl.zeros([ROWS, {padded(width)}], REAL)", *begin]))
        return name, [product._replace(name=name) for product in products]

    def _others_like(self, value: Value, first: int, width: int) -> Iterator[Piece]:
        """Other pieces of products, as wide, that are read later and can be computed now."""
        for other, read in self.draft.pieces.items():
            if other.operation == "affine" and other not in self.places and self._is_ready(other):
                for piece in sorted(read):
                    if piece[1] == width and (other, *piece) not in ((value, first, width), *self.names):
                        yield other, *piece

    def _is_ready(self, value: Value) -> bool:
        """Whether a value is made of what is there, by functions of each unit."""

        def there(part: Value) -> bool:
            if part in self.places or part in self.carried or part.by_unit or part.operation in (*READY, "slice", "cat"):
                return True
            read = self.draft.pieces.get(part)
            return read is not None and all((part, *piece) in self.names for piece in read)

        return all(map(there, ancestors(value.of, {*self.places, *self.carried})))

    def operand(self, value: Value, first: int, width: int) -> str:
        """A piece as products read it: 0 beyond its width, where there may be nan."""
        name = self.piece(value, first, width)
        if padded(width) == width:
            return name
        if name not in self.operands:
            self.operands[name] = self.out.named(f"tl.where({self.out.columns_of(width)[1]}, {name}, 0.0)")
        return self.operands[name]


def parts_of(value: Value) -> list[tuple[Value, int, int, int]]:
    """The parts that a value is put together of: which units of what, from a first on, to which place, how many."""
    if value.operation == "cat":
        found, place = [], 0
        for part in value.of:
            found += [(one, first, place + at, size) for one, first, at, size in parts_of(part)]
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
