r"""Triton source of what a method computes with a Jacobian J of each sample: a + b J factored, solves by its factors, products.

Gaussian elimination solves for the matrices of a tile at once, each with its own pivots. What a column takes from all others is
one block (samples, rows, columns) in registers, which bounds the units.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MATRICES", "MOST_UNITS", "OPERATIONS", "factoring", "units_of"]

MOST_UNITS = 32


def units_of(width: int) -> int:
    """Return the rows of a block: a power of 2."""
    return max(2, 1 << (width - 1).bit_length())


MATRICES = '''
@triton.jit
def shifted(to, jacobian, a, b, mask, SIZE: tl.constexpr, UNITS: tl.constexpr):
    """Write the transpose of a + b J, of a J that lies column by column.

    So rounding is relative to the largest number of a row of J, and a slow unit keeps its digits beside a stiff one."""
    down, across = tl.arange(0, UNITS)[None, :, None], tl.arange(0, UNITS)[None, None, :]
    inner = mask[:, :, None] & (down < SIZE) & (across < SIZE)
    turned = tl.load(jacobian[:, :, None] + down * SIZE + across, mask=inner, other=0.0)
    diagonal = tl.where(down == across, a[:, :, None], 0.0)
    tl.store(to[:, :, None] + down * SIZE + across, diagonal + b[:, :, None] * turned, mask=inner)
    tl.debug_barrier()


@triton.jit
def factored(at, order, mask, SIZE: tl.constexpr, UNITS: tl.constexpr):
    """Factor P M = L U in the place of M; `order`: which row of M is which of P M. A singular one gives what is not finite."""
    c = tl.arange(0, UNITS)[None, :]
    down, across = tl.arange(0, UNITS)[None, :, None], tl.arange(0, UNITS)[None, None, :]
    unit = mask & (c < SIZE)
    tl.store(order + c, tl.where(unit, c, 0).to(REAL), mask=unit)
    tl.debug_barrier()
    for k in range(SIZE):
        column = tl.load(at + c * SIZE + k, mask=unit & (c >= k), other=0.0)
        size = tl.where((c >= k) & (c < SIZE) & (column == column), tl.abs(column), -1.0)
        pivot = tl.max(tl.where(size == tl.max(size, 1, keep_dims=True), c, -1), 1, keep_dims=True)
        pivot = tl.where((pivot >= k) & (pivot < SIZE), pivot, k)  # where all are nan
        above = tl.load(at + k * SIZE + c, mask=unit, other=0.0)
        chosen = tl.load(at + pivot * SIZE + c, mask=unit, other=0.0)
        here, there = tl.load(order + k, mask=mask, other=0.0), tl.load(order + pivot, mask=mask, other=0.0)
        tl.debug_barrier()
        tl.store(at + pivot * SIZE + c, above, mask=unit)
        tl.store(at + k * SIZE + c, chosen, mask=unit)
        tl.store(order + pivot, here, mask=mask)
        tl.store(order + k, there, mask=mask)
        tl.debug_barrier()
        divisor = tl.sum(tl.where(c == k, chosen, 0.0), 1, keep_dims=True)
        below = tl.load(at + c * SIZE + k, mask=unit & (c > k), other=0.0) / divisor
        inner = mask[:, :, None] & (down > k) & (down < SIZE) & (across > k) & (across < SIZE)
        rest = at[:, :, None] + down * SIZE + across
        left = tl.load(rest, mask=inner, other=0.0) - below[:, :, None] * chosen[:, None, :]
        tl.debug_barrier()
        tl.store(at + c * SIZE + k, below, mask=unit & (c > k))
        tl.store(rest, left, mask=inner)
        tl.debug_barrier()


@triton.jit
def solved(at, order, v, to, mask, SIZE: tl.constexpr, UNITS: tl.constexpr, TURNED: tl.constexpr):
    """Solve M u = v by the factors of M, or for TURNED with its transpose; `to` may be the place of v."""
    c = tl.arange(0, UNITS)[None, :]
    unit = mask & (c < SIZE)
    places = tl.load(order + c, mask=unit, other=0.0).to(tl.int32)
    found = tl.load(v + (c if TURNED else places), mask=unit, other=0.0)
    for k in range(SIZE):
        this = tl.sum(tl.where(c == k, found, 0.0), 1, keep_dims=True)
        if TURNED:
            this = this / tl.load(at + k * SIZE + k, mask=mask, other=1.0)
        part = tl.load(at + (k * SIZE + c if TURNED else c * SIZE + k), mask=unit & (c > k), other=0.0)
        found = tl.where(c == k, this, tl.where(c > k, found - part * this, found))
    for j in range(SIZE):
        k = SIZE - 1 - j
        this = tl.sum(tl.where(c == k, found, 0.0), 1, keep_dims=True)
        if not TURNED:
            this = this / tl.load(at + k * SIZE + k, mask=mask, other=1.0)
        part = tl.load(at + (k * SIZE + c if TURNED else c * SIZE + k), mask=unit & (c < k), other=0.0)
        found = tl.where(c == k, this, tl.where(c < k, found - part * this, found))
    tl.debug_barrier()
    tl.store(to + (places if TURNED else c), found, mask=unit)
    tl.debug_barrier()


@triton.jit
def multiplied(jacobian, v, to, times, mask, SIZE: tl.constexpr, UNITS: tl.constexpr, TURNED: tl.constexpr):
    """Compute J v times a number of each sample, or for TURNED J^T v times it."""
    c = tl.arange(0, UNITS)[None, :]
    unit = mask & (c < SIZE)
    total = tl.where(unit, 0.0, 0.0).to(REAL)
    for k in range(SIZE):
        part = tl.load(jacobian + (c * SIZE + k if TURNED else k * SIZE + c), mask=unit, other=0.0)
        total += part * tl.load(v + k, mask=mask, other=0.0)
    tl.store(to + c, times * total, mask=unit)
    tl.debug_barrier()

'''

# J is that by the time of the segment.
FASTER = [
    "faster = tl.where(inside, 1.0, 0.0).to(REAL)",
    "if SPEEDS > 0:",
    "    faster = speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL)",
]


def factoring(place: int, width: int, a: str, b: str) -> list[str]:
    """Return lines that make the transpose of a + b J, the matrix at that place, and factor it."""
    factors = f"at_matrix + {place * (width + 1) * width}"
    return [
        *FASTER,
        f"shifted({factors}, at_jacobian, tl.broadcast_to({a}, [ROWS, 1]), {b} * faster, inside, {width}, {units_of(width)})",
        f"factored({factors}, {factors} + {width * width}, inside, {width}, {units_of(width)})",
    ]


def _solving(read: str, width: int, turned: bool) -> list[str]:
    factors = f"at_matrix + place * {(width + 1) * width}"
    return [f"solved({factors}, {factors} + {width * width}, {read}, at_slope, inside, {width}, {units_of(width)}, {not turned})"]


def _multiplying(read: str, width: int, turned: bool) -> list[str]:
    return [*FASTER, f"multiplied(at_jacobian, {read}, at_slope, faster, inside, {width}, {units_of(width)}, {turned})"]


# Lines of operations, of a vector that lies somewhere, turned or not.
OPERATIONS: dict[str, Callable[[str, int, bool], list[str]]] = {"jacobian_solve": _solving, "jacobian_product": _multiplying}
