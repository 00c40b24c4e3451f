r"""Functions in Triton that adaptive solves are made of, and the lines that read the input of a tile of samples.

Each sample is in a segment of its own, `here` among the numbers of segments, at a `time` since its begin, in float64.
"""

from __future__ import annotations

__all__ = ["GIVE", "HELPERS", "KEEP", "READ", "WHERE"]

HELPERS = '''
@triton.jit
def weighted(weights, count, at, apart, mask):
    """Of numbers that lie so far apart, by the weights that are not 0."""
    total = tl.where(mask, 0.0, 0.0).to(REAL)
    for j in range(count):
        weight = tl.load(weights + j).to(REAL)
        if weight != 0.0:
            total += weight * tl.load(at + j * apart, mask=mask, other=0.0)
    return total


@triton.jit
def largest(values, mask):
    """Of the sizes of a row, times the margin; nan where one is."""
    size = tl.where(mask, tl.abs(values), 0.0).to(tl.float64)
    wrong = tl.max((size != size).to(tl.int32), 1, keep_dims=True) > 0
    return tl.where(wrong, float("nan"), ERROR_MARGIN * tl.max(tl.where(size != size, 0.0, size), 1, keep_dims=True))


@triton.jit
def ahead(segment, landed, h, hs, places, at_length, of_segment, apart, segments, mask):
    """On to the next segment with a length, and the states at edges on the way to where they are wanted."""
    while tl.max(landed.to(tl.int32)) > 0:
        segment += landed.to(tl.int64)
        place = tl.load(places + segment, mask=landed, other=-1)
        tl.store(hs + place * apart, h, mask=landed & (place >= 0) & mask)
        before = landed & (segment < segments)
        landed = before & (tl.load(at_length + segment * of_segment, mask=before, other=1.0) <= 0.0)
    return segment


@triton.jit
def through_piece(share, rate, length, tau):
    """How far through its piece of the input a time is: beyond the ends of a segment the input stands still."""
    inside = tl.where(tau > length, length, tl.where(tau < 0.0, 0.0, tau))
    return share + inside * rate


@triton.jit
def sampled(at, apart, through, mask, TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr):
    """The sum of the rows of a piece: of a straight one, where it is and where it goes, or of a polynomial."""
    total = tl.where(mask, 0.0, 0.0).to(REAL)
    z = 2.0 * through - 1.0
    last, before = z * 0.0 + 1.0, z
    for d in range(TERMS):
        share = last if CHEBYSHEV else tl.where(d == 0, 1.0 - through, through)
        total += share.to(REAL) * tl.load(at + d * apart, mask=mask, other=0.0).to(REAL)
        following = 2.0 * z * last - before
        before = last
        last = following
    return total


@triton.jit
def give_rows(at, apart, through, of, mask, TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr):
    """The cotangent of that sum, to its rows."""
    z = 2.0 * through - 1.0
    last, before = z * 0.0 + 1.0, z
    for d in range(TERMS):
        share = last if CHEBYSHEV else tl.where(d == 0, 1.0 - through, through)
        so_far = tl.load(at + d * apart, mask=mask, other=0.0)
        tl.store(at + d * apart, so_far + share.to(REAL) * of, mask=mask)
        following = 2.0 * z * last - before
        before = last
        last = following


@triton.jit
def speed_of_clock(at, terms, tau, length, mask):
    """Clenshaw's sum of a segment's Chebyshev polynomials."""
    through = tau / length
    z = 2.0 * tl.where(through > 1.0, 1.0, tl.where(through < 0.0, 0.0, through)) - 1.0
    last, before = z * 0.0, z * 0.0
    for k in range(1, terms):
        following = tl.load(at + (terms - k), mask=mask, other=0.0) + 2.0 * z * last - before
        before = last
        last = following
    return tl.load(at, mask=mask, other=0.0) + z * last - before

'''

WHERE = """
piece = tl.load(pieces + here, mask=inside, other=0)
first_row = (piece * batch + rows) * COLUMNS + C_COLUMNS
seen = inside & M_COLUMNS
through = time * 0.0
if TERMS > 1:
    share = tl.load(shares + here, mask=inside, other=0.0)
    through = through_piece(share, tl.load(rates + here, mask=inside, other=0.0), length, time)
"""

READ = (
    WHERE
    + """
if TERMS > 1:
    at_x = at_input
    tl.store(at_x + C_COLUMNS, sampled(projected + first_row, batch * COLUMNS, through, seen, TERMS, CHEBYSHEV), mask=seen)
else:
    at_x = projected + (piece * batch + rows) * COLUMNS
"""
)

KEEP = (
    WHERE
    + """
x = sampled(projected + first_row, batch * COLUMNS, through, seen, TERMS, CHEBYSHEV)
tl.store(at_kept + INPUT_PLACE + C_COLUMNS, x, mask=seen)
"""
)

GIVE = (
    WHERE
    + """
of_x = tl.load(at_of_x + C_COLUMNS, mask=seen, other=0.0)
give_rows(of_projected + first_row, batch * COLUMNS, through, of_x, seen, TERMS, CHEBYSHEV)
tl.debug_barrier()
"""
)
