r"""Lines of a kernel in Triton: loads and stores of a tile of samples, and of weights, and what they need named before."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["PART", "RESIDENT", "TILE", "WEIGHTS", "Lines", "Needs", "fits_a_tile", "padded"]

TILE = 1 << 14  # numbers of a matrix in one product at most
PART = 1 << 13  # and of its parts, where it has more
RESIDENT = 1 << 14  # numbers of all matrices that are loaded once for the whole sequence
WEIGHTS = 1 << 16  # numbers for the weights of a program


def padded(width: int) -> int:
    """Units of a tile: a power of 2, and enough for a product."""
    return 1 if width == 1 else max(16, 1 << (width - 1).bit_length())


def fits_a_tile(depth: int, width: int, tile: int) -> bool:
    """Whether a matrix of these sizes is multiplied at once."""
    return padded(depth) * padded(width) <= tile or min(depth, width) == 1


@dataclass
class Lines:
    """Those before the loop and those of a step; which weights they read; which columns they name.

    unread: whether something was stored that other threads may not see yet; resident, streamed: numbers of matrices that are
    loaded before the loop, and at every step; room: for how many before the loop; tile: how many of one matrix at once; made:
    how many names there are; program: which of several programs in one kernel, whose weights have numbers from
    program * `WEIGHTS` on; first, ahead, turn: loads of what the first step reads, of what the next one does, and names handed
    on, by how often: every "sample", every "step".
    """

    before: list[str] = field(default_factory=list)
    step: list[str] = field(default_factory=list)
    columns: dict[int, None] = field(default_factory=dict)
    vectors: dict[int, None] = field(default_factory=dict)
    matrices: dict[int, None] = field(default_factory=dict)
    unread: bool = False
    resident: int = 0
    streamed: int = 0
    room: int = RESIDENT
    tile: int = TILE
    made: int = 0
    program: int = 0
    first: list[str] = field(default_factory=list)
    ahead: dict[str, list[str]] = field(default_factory=lambda: {"sample": [], "step": []})
    turn: dict[str, list[str]] = field(default_factory=lambda: {"sample": [], "step": []})

    def named(self, expression: str, once: bool = False) -> str:
        """A new name for an expression, `once` before the loop."""
        name, self.made = f"v{self.made}", self.made + 1
        (self.before if once else self.step).append(f"{name} = {expression}")
        return name

    def columns_of(self, width: int, inside: str = "inside") -> tuple[str, str]:
        """What is added to a row's address, and which numbers are there, of rows that are inside."""
        if width == 1:
            return "", inside
        self.columns[padded(width)] = None
        c = f"c{padded(width)}"
        return f" + {c}", inside if padded(width) == width else f"{inside} & ({c} < {width})"

    def load(self, at: str, first: int, width: int) -> str:
        """Some numbers of every row."""
        self.see_all()
        columns, mask = self.columns_of(width)
        return self.named(f"tl.load({at} + {first}{columns}, mask={mask}, other=0.0).to(REAL)")

    def load_ahead(self, at: str, first: int, width: int, often: str, stride: str) -> str:
        """The same of what no step of the kernel stores, while the one before is computed; `stride` to the next one's."""
        name, self.made = f"p{self.made}", self.made + 1
        columns, mask = self.columns_of(width)
        self.first.append(f"{name} = tl.load({at} + {first}{columns}, mask={mask}, other=0.0).to(REAL)")
        _, mask = self.columns_of(width, f"after_{often}")
        load = f"tl.load({at} + {stride} + {first}{columns}, mask={mask}, other=0.0).to(REAL)"
        self.ahead[often].append(f"{name}_next = {load}")
        self.turn[often].append(f"{name} = {name}_next")
        return name

    def load_row(self, at: str, first: int, width: int, step: int = 1) -> str:
        """Numbers of the weights, which all rows share."""
        self.columns_of(width)
        if width == 1:
            return self.named(f"tl.load({at} + {first} + tl.zeros([1, 1], tl.int32)).to(REAL)", once=True)
        c = f"c{padded(width)}"
        return self.named(f"tl.load({at} + {first} + {c} * {step}, mask={c} < {width}, other=0.0).to(REAL)", once=True)

    def store(self, name: str, at: str, width: int, when: str = "") -> None:
        columns, mask = self.columns_of(width)
        self.step.append(f"{when}tl.store({at}{columns}, {name} + tl.zeros([ROWS, {padded(width)}], REAL), mask={mask})")

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

    def holds(self, numbers: int) -> bool:
        """Whether so many more of a matrix are loaded before the loop; which counts them."""
        held = self.resident + numbers <= self.room
        self.resident += numbers if held else 0
        self.streamed += 0 if held else numbers
        return held


@dataclass(frozen=True)
class Needs:
    """What a pass reads of the weights, by number, in the order of its arguments; how much scratch a sample needs; and how many
    numbers of matrices stay in registers, and how many are read at every step."""

    vectors: tuple[int, ...]
    matrices: tuple[int, ...]
    scratch: int
    resident: int = 0
    streamed: int = 0
