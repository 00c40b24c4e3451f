r"""Triton source of adaptive solves: one loop for a tile of samples, each with its own steps, until the last of them is done.

The rule of steps is that of discretize/solvers/control.py. A program evaluates the field for all samples of its tile at once,
stage by stage; a sample that is done, or failed, is masked. Each is in a segment of its own, `here` among the numbers of
segments, at a `time` since its begin. Times, steps and errors are float64 whatever the states are. The backward kernel goes back
through some of the steps each sample took: it computes a step's stages again, from the state before it that was kept, then their
cotangents, from the last stage to the first. One turn beyond a sample's first step adds what is wanted at its start.

    $WEIGHTS, $COLUMNS, $BEFORE     what the field reads, and the lines before its loop
    $BUFFERS, $ROWS                 where the numbers of a sample lie; where those kept of each stage do, and what a method reads
    $ATTEMPT, $END, $ERROR          the stages of a step or of the guess of a first one, the state after a step, and its error
    $READ, $FLOW, $SPEED, $REPORT   the input at a time, an evaluation, the clock's speed, and the counts of each sample
    $STEP, $KEEP, $REPLAY           back through a step: the input of a stage, and an evaluation, with values kept for $BACK
    $BACK, $GIVE                    the derivative of an evaluation, and the cotangent of the input
    $STATES, $COTANGENTS, ...       of a method: what attempts.py writes
    C_, M_ and a width's name       a row's columns of that width, and which of them there are
"""

from __future__ import annotations

__all__ = [
    "ARGUMENT_TYPES",
    "BACKWARD",
    "EVALUATION",
    "EXPLICIT",
    "EXPLICIT_BACK",
    "FORWARD",
    "GIVE",
    "HELPERS",
    "KEEP",
    "PULL",
    "READ",
    "REPLAY",
    "SPEED",
]

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
        last, before = 2.0 * z * last - before, last
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
        last, before = 2.0 * z * last - before, last


@triton.jit
def speed_of_clock(at, terms, tau, length, mask):
    """Clenshaw's sum of a segment's Chebyshev polynomials."""
    through = tau / length
    z = 2.0 * tl.where(through > 1.0, 1.0, tl.where(through < 0.0, 0.0, through)) - 1.0
    last, before = z * 0.0, z * 0.0
    for k in range(1, terms):
        last, before = tl.load(at + (terms - k), mask=mask, other=0.0) + 2.0 * z * last - before, last
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

# A slope by the time of a segment, from that by the time of its clock.
SPEED = """
if SPEEDS > 0:
    speed = speed_of_clock(speeds + here * SPEEDS, SPEEDS, time, length, inside).to(REAL)
    slope = tl.load(at_slope + C_STATE, mask=inside & unit, other=0.0)
    tl.debug_barrier()
    tl.store(at_slope + C_STATE, speed * slope, mask=inside & unit)
    tl.debug_barrier()
"""

# Triton's types of the arguments of both kernels, by name; all others are pointers to the states' dtype.
ARGUMENT_TYPES = {
    **dict.fromkeys(("batch", "segments", "room", "of_segment", "of_sample", "width", "first", "many"), "i32"),
    **dict.fromkeys(("lengths", "shares", "rates", "speeds", "table", "settings", "steps", "numbers", "first_steps"), "*fp64"),
    **dict.fromkeys(("pieces", "places", "limits", "counts", "edges", "steps_before"), "*i64"),
}

FORWARD = """
@triton.jit
def forward(
    projected, h0, lengths, pieces, shares, rates, speeds, places, table, settings, atols, limits, first_steps, steps_before,
    hs, kept, steps, numbers, counts, ends, scratch,
    $FORWARD_WEIGHTS
    $WEIGHTS
    batch, segments, room, of_segment, of_sample, width,
    TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr, SPEEDS: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    there = rows < batch
    inside = there
    $COLUMNS
    $BEFORE
    unit = M_STATE
    rtol, inverse_order = tl.load(settings), tl.load(settings + 1)
    min_step, max_step = tl.load(settings + 2), tl.load(settings + 3)
    most_tried, most_taken = tl.load(limits), tl.load(limits + 1)
    at_scratch = scratch + rows * width
    at_y = at_scratch + SCRATCH
    at_input = at_y + STATE
    $BUFFERS
    $FORWARD
    at_length, at_hs = lengths + rows * of_sample, hs + rows * STATE + C_STATE
    h = tl.load(h0 + rows * STATE + C_STATE, mask=there & unit, other=0.0)
    y = h
    none, zero, never = rows * 0, (rows * 0).to(tl.float64), rows < 0
    tried, accepted, rejected, evaluations, forced = none, none, none, none, none
    smallest_segment, forced_segment, cause = none, none, none
    step, taken = tl.load(first_steps + rows, mask=there, other=1.0), tl.load(steps_before + rows, mask=there, other=0)
    tau, dt, parts = zero, zero, zero + 1.0
    smallest, smallest_tau, forced_tau, forced_error, fast = zero, zero, zero, zero, zero
    known, held_back, differentiated = never, never, never
    segment = ahead(none - 1, there, h, at_hs, places, at_length, of_segment, batch * STATE, segments, unit)
    alive = there & (segment < segments)
    guessing = alive & (step <= 0.0)
    mode = tl.where(tl.max(guessing.to(tl.int32)) > 0, 0, 2)  # 0, 1: the guess of a first step; 2: steps
    going = tl.max(alive.to(tl.int32))
    while going > 0:
        here = segment * of_segment + rows * of_sample
        length = tl.load(lengths + here, mask=alive, other=1.0)
        if mode == 2:
            stuck = ~(tau + step > tau) | (held_back & (step < SHORTEST_STEP * length))
            why = tl.where(stuck, 2, none)
            why = tl.where(taken + accepted + rejected >= most_taken, 3, why)
            why = tl.where(tried >= most_tried, 1, why)
            cause = tl.where(alive, why, cause)
            alive = alive & (why == 0)
            remaining = length - tau
            parts = tl.ceil(remaining / step * 0.999)
            parts = tl.where(parts > 1.0, parts, 1.0)
            bound = tl.ceil(remaining / max_step * 0.999999999999)
            parts = tl.where(bound > parts, bound, parts)
            dt = tl.where(alive, remaining / parts, dt)
        length_of_step = dt.to(REAL)
        first = tl.where(mode == 2, 1 - READS_START * tl.max((alive & ~known).to(tl.int32)), mode)
        last = tl.where(mode == 2, ROUNDS, mode + 1)
        for number in range(first, last):
            call = tl.where(mode == 1, ROUNDS, number)
            at_round = table + ROW * call
            inside = tl.where(mode == 2, alive, guessing) & ((number > 0) | ~known)
            $DIFFERENTIATE
            if mode == 1:
                slope = tl.load(at_slopes + C_STATE, mask=inside & unit, other=0.0)
                tl.store(at_y + C_STATE, h + length_of_step * slope, mask=inside & unit)
            $STATES
            at_slope = at_slopes + number * STATE
            $ROUND
        inside = alive
        if mode == 2:
            $END
            $ERROR
            # y - y is nan where a step went to infinity, which by its own measure would be no error at all.
            error = error + (y - y)
            size = tl.where(tl.abs(y) > tl.abs(h), tl.abs(y), tl.abs(h))
            q = largest(error / (tl.load(atols + C_STATE) + rtol.to(REAL) * size), inside & unit)
            q = tl.where(q != q, float("inf"), q)
            finite = q < float("inf")
            takes = alive & ((q <= 1.0) | (finite & (dt <= min_step)))
            factor = SAFETY * tl.exp(-inverse_order * tl.log(q))
            factor = tl.where(factor > GROW, GROW, tl.where(factor < SHRINK, SHRINK, factor))
            factor = tl.where(held_back & takes & (factor > 1.0), 1.0, factor)
            following = dt * factor
            following = tl.where(finite & (following < min_step), min_step, following)
            # A step cut short by landing says little when its error is nothing; the one proposed before it still holds.
            following = tl.where(takes & (factor >= GROW) & (step > following), step, following)
            at = accepted * batch + rows
            keeps = takes & (accepted < room)
            tl.store(kept + at * STATE + C_STATE, h, mask=keeps & unit)
            tl.store(steps + at * 3, segment.to(tl.float64), mask=keeps)
            tl.store(steps + at * 3 + 1, tau, mask=keeps)
            tl.store(steps + at * 3 + 2, dt, mask=keeps)
            smaller = takes & ((accepted == 0) | (dt < smallest))
            smallest = tl.where(smaller, dt, smallest)
            smallest_tau = tl.where(smaller, tau, smallest_tau)
            smallest_segment = tl.where(smaller, segment, smallest_segment)
            forces = takes & (q > 1.0)
            earliest = forces & (forced == 0)
            forced_tau = tl.where(earliest, tau, forced_tau)
            forced_error = tl.where(earliest, q, forced_error)
            forced_segment = tl.where(earliest, segment, forced_segment)
            forced += forces.to(tl.int64)
            accepted += takes.to(tl.int64)
            rejected += (alive & ~takes).to(tl.int64)
            tried += alive.to(tl.int64)
            h = tl.where(takes, y, h)
            if SLOPE_AT_END > 0:
                slope = tl.load(at_slopes + SLOPE_AT_END * STATE + C_STATE, mask=takes & unit, other=0.0)
                tl.debug_barrier()
                tl.store(at_slopes + C_STATE, slope, mask=takes & unit)
                tl.debug_barrier()
                known = alive
            else:
                known = alive & ~takes
            tau = tl.where(takes, tl.where(parts == 1.0, length, tau + dt), tau)
            differentiated = differentiated & ~takes
            step = tl.where(alive, following, step)
            held_back = tl.where(alive, ~takes, held_back)
            landed = takes & (tau >= length)
            segment = ahead(segment, landed, h, at_hs, places, at_length, of_segment, batch * STATE, segments, unit)
            tau = tl.where(landed, 0.0, tau)
            tried = tl.where(landed, 0, tried)
            known = known & ~landed
            alive = alive & (segment < segments)
        else:
            scale = tl.load(atols + C_STATE) + rtol.to(REAL) * tl.abs(h)
            slope = tl.load(at_slopes + C_STATE, mask=inside & unit, other=0.0)
            if mode == 0:
                fast = largest(slope / scale, inside & unit)
                far = largest(h / scale, inside & unit)
                near = 1e-3 * length
                guess = tl.where((far > 1e-5) & (fast * length > 1e-5), 0.01 * far / fast, near)
                dt = tl.where((guess > 0.0) & (guess < float("inf")), guess, near)
                known = guessing
            else:
                there_slope = tl.load(at_slopes + STATE + C_STATE, mask=inside & unit, other=0.0)
                bend = largest((there_slope - slope) / scale, inside & unit) / dt
                bend = bend * length
                steepest = tl.where((bend > fast) | (fast != fast), bend, fast) * length
                by_error = tl.where(steepest > 1e-15, tl.exp(inverse_order * tl.log(0.01 / steepest)) * length, dt)
                by_error = tl.where(by_error < 100.0 * dt, by_error, 100.0 * dt)
                by_error = tl.where(by_error > 0.0, by_error, dt)
                step = tl.where(guessing, tl.where(by_error < min_step, min_step, by_error), step)
            mode += 1
        going = tl.max(alive.to(tl.int32))
    inside = there
    $ERROR
    tl.store(ends + rows * STATE + C_STATE, h, mask=there & unit)
    tl.store(ends + (batch + rows) * STATE + C_STATE, error, mask=there & unit)
    $REPORT
"""


def _slope(read: str, evaluate: str) -> str:
    """Write a slope of a round: the input at its time, an evaluation, and the speed of the clock."""
    parts = ("time = tau + tl.load(at_round + 1) * dt", read, "tl.debug_barrier()", evaluate, "tl.debug_barrier()", "$SPEED")
    return "\n".join(parts) + "\n"


# EVALUATION computes the slope at y in a round of an attempt; REPLAY computes it again on the way back.
EVALUATION = _slope("$READ", "$FLOW") + "evaluations += inside.to(tl.int64)\n"
REPLAY = _slope("$KEEP", "$REPLAY")

BACKWARD = """

@triton.jit
def backward(
    projected, lengths, pieces, shares, rates, speeds, places, table, of_hs, counts, steps, kept,
    of_projected, of_h, edges, scratch,
    $ROWS
    $BACKWARD_WEIGHTS
    $WEIGHTS
    batch, first, many, of_segment, of_sample, width,
    TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr, SPEEDS: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    there = rows < batch
    inside = there
    $COLUMNS
    $BEFORE
    unit = M_STATE
    at_scratch = scratch + rows * width
    at_q = at_scratch + SCRATCH
    at_of_x = at_q + STATE
    at_y = at_q
    $BUFFERS
    $BACKWARD
    index = tl.load(counts + rows * REPORTED, mask=there, other=0) - first
    edge = tl.load(edges + rows, mask=there, other=0)
    of_end = tl.load(of_h + rows * STATE + C_STATE, mask=there & unit, other=0.0)
    for turn in range(many):
        index -= 1
        inside = there & (index >= 0)
        at = index * batch + rows
        segment = tl.load(steps + at * 3, mask=inside, other=-1.0).to(tl.int64)
        tau = tl.load(steps + at * 3 + 1, mask=inside, other=0.0)
        dt = tl.load(steps + at * 3 + 2, mask=inside, other=0.0)
        h = tl.load(kept + at * STATE + C_STATE, mask=inside & unit, other=0.0).to(REAL)
        above = there & (edge > segment + 1)
        while tl.max(above.to(tl.int32)) > 0:
            edge -= above.to(tl.int64)
            place = tl.load(places + edge, mask=above, other=-1)
            wanted = above & (place >= 0) & unit
            of_end += tl.load(of_hs + (place * batch + rows) * STATE + C_STATE, mask=wanted, other=0.0).to(REAL)
            above = there & (edge > segment + 1)
        here = segment * of_segment + rows * of_sample
        length = tl.load(lengths + here, mask=inside, other=1.0)
        length_of_step = dt.to(REAL)
        for call in range(REPLAYED):
            at_round = table + ROW * (ROUNDS + 1 + call)
            place = tl.load(at_round + 2).to(tl.int64)
            at_kept = stages_kept + ((turn * EVALUATIONS + place) * batch + rows) * KEPT
            $DIFFERENTIATE
            $STATES_BACK
            at_slope = at_slopes + call * STATE
            $ROUND
        at_of_end = at_of_ys + PULLED * STATE + C_STATE
        tl.store(at_of_end, of_end, mask=there & unit)
        for call in range(PULLED):
            at_round = table + ROW * (ROUNDS + 1 + REPLAYED + call)
            place = tl.load(at_round + 2).to(tl.int64)
            tl.debug_barrier()
            $COTANGENTS
            at_of_y = at_of_ys + call * STATE
            $PULL
        tl.debug_barrier()
        $PULL_DERIVATIVES
        $START
        of_end = tl.where(inside, of_start, tl.load(at_of_end, mask=there & unit, other=0.0))
    tl.store(of_h + rows * STATE + C_STATE, of_end, mask=there & unit)
    tl.store(edges + rows, edge, mask=there)
"""

# PULL takes the cotangent q of a slope to what that was computed from, in a round of the way back.
PULL = """
time = tau + tl.load(at_round + 1) * dt
at_kept = stages_kept + ((turn * EVALUATIONS + place) * batch + rows) * KEPT
at_operands = operands + ((turn * EVALUATIONS + place) * batch + rows) * OPERANDS
tl.debug_barrier()
if SPEEDS > 0:
    q = tl.load(at_q + C_STATE, mask=inside & unit, other=0.0)
    q = speed_of_clock(speeds + here * SPEEDS, SPEEDS, time, length, inside).to(REAL) * q
    $OF_FLOW
    tl.debug_barrier()
    tl.store(at_q + C_STATE, q, mask=inside & unit)
    tl.debug_barrier()
$BACK
tl.debug_barrier()
$GIVE
"""

# The words of methods that read no derivatives of a field; derivatives.py has those of others.
EXPLICIT = {
    "$BUFFERS": "at_slopes = at_input + COLUMNS\nat_method = at_slopes + (ROUNDS + 1) * STATE",
    "$DIFFERENTIATE": "",
    "$ROUND": EVALUATION,
    "$SPEED": SPEED,
}
EXPLICIT_BACK = {
    "$BUFFERS": """
at_slopes = at_of_x + COLUMNS
at_of_ys = at_slopes + REPLAYED * STATE
at_method = at_of_ys + (PULLED + 1) * STATE
""",
    "$DIFFERENTIATE": "",
    "$OF_FLOW": "",
    "$PULL": PULL,
    "$PULL_DERIVATIVES": "",
    "$ROUND": REPLAY,
    "$ROWS": "stages_kept, operands,",
    "$SPEED": SPEED,
}
