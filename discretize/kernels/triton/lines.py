"""The lines of a pass in Triton: numbers from and to memory, and products with weights, for a tile of samples."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["DOT", "WEIGHTS", "Lines", "fits_a_tile", "padded"]

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
