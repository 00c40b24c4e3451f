r"""Gaussian elimination in Triton, for the matrices of a tile of samples at once, each with pivots of its own.

A matrix lies in memory, row by row: what a column takes from all others is one block (samples, rows, columns) in registers. So
there is a bound on the units; beyond it a block would not fit there.
"""

from __future__ import annotations

__all__ = ["ELIMINATION", "MOST_UNITS", "units_of"]

MOST_UNITS = 32


def units_of(width: int) -> int:
    """Rows of a block: a power of 2."""
    return max(2, 1 << (width - 1).bit_length())


ELIMINATION = '''
@triton.jit
def shifted(to, jacobian, step, mask, SIZE: tl.constexpr, UNITS: tl.constexpr):
    """1 - step J, of a J that lies column by column."""
    down, across = tl.arange(0, UNITS)[None, :, None], tl.arange(0, UNITS)[None, None, :]
    inner = mask[:, :, None] & (down < SIZE) & (across < SIZE)
    turned = tl.load(jacobian[:, :, None] + across * SIZE + down, mask=inner, other=0.0)
    one = tl.where(down == across, 1.0, 0.0).to(REAL)
    tl.store(to[:, :, None] + down * SIZE + across, one - step[:, :, None] * turned, mask=inner)
    tl.debug_barrier()


@triton.jit
def factored(at, order, mask, SIZE: tl.constexpr, UNITS: tl.constexpr):
    """P M = L U in the place of M; `order`: which row of M is which of P M. A singular one gives what is not finite."""
    c = tl.arange(0, UNITS)[None, :]
    down, across = tl.arange(0, UNITS)[None, :, None], tl.arange(0, UNITS)[None, None, :]
    unit = mask & (c < SIZE)
    places = tl.where(mask, c, c)
    for k in range(SIZE):
        column = tl.load(at + c * SIZE + k, mask=unit & (c >= k), other=0.0)
        size = tl.where((c >= k) & (c < SIZE) & (column == column), tl.abs(column), -1.0)
        pivot = tl.max(tl.where(size == tl.max(size, 1, keep_dims=True), c, -1), 1, keep_dims=True)
        pivot = tl.where((pivot >= k) & (pivot < SIZE), pivot, k)  # where all are nan
        above = tl.load(at + k * SIZE + c, mask=unit, other=0.0)
        chosen = tl.load(at + pivot * SIZE + c, mask=unit, other=0.0)
        tl.debug_barrier()
        tl.store(at + pivot * SIZE + c, above, mask=unit)
        tl.store(at + k * SIZE + c, chosen, mask=unit)
        tl.debug_barrier()
        here = tl.sum(tl.where(c == k, places, 0), 1, keep_dims=True)
        there = tl.sum(tl.where(c == pivot, places, 0), 1, keep_dims=True)
        places = tl.where(c == k, there, tl.where(c == pivot, here, places))
        divisor = tl.sum(tl.where(c == k, chosen, 0.0), 1, keep_dims=True)
        below = tl.load(at + c * SIZE + k, mask=unit & (c > k), other=0.0) / divisor
        inner = mask[:, :, None] & (down > k) & (down < SIZE) & (across > k) & (across < SIZE)
        rest = at[:, :, None] + down * SIZE + across
        left = tl.load(rest, mask=inner, other=0.0) - below[:, :, None] * chosen[:, None, :]
        tl.debug_barrier()
        tl.store(at + c * SIZE + k, below, mask=unit & (c > k))
        tl.store(rest, left, mask=inner)
        tl.debug_barrier()
    tl.store(order + c, places.to(REAL), mask=unit)
    tl.debug_barrier()


@triton.jit
def solved(at, order, v, mask, SIZE: tl.constexpr, UNITS: tl.constexpr, TURNED: tl.constexpr):
    """M u = v by the factors of M, or for TURNED by its transpose, in the place of v."""
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
    tl.store(v + (places if TURNED else c), found, mask=unit)
    tl.debug_barrier()

'''
