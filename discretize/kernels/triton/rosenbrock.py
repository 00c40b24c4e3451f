r"""Triton source of a step of a Rosenbrock pair and of its backward pass, as discretize/solvers/rodas.py has it.

    (1 - gamma dt J) u_i = gamma (dt (f(t + c_i dt, h + sum_j a_ij u_j) + d_i dt df/dt) + sum_j C_ij u_j)
    h_1 = h + sum_j a_8j u_j + u_8          error = u_8

J is made column by column, by derivatives of the field's code along each unit, when a state is new; 1 - gamma dt J is factored
for each step that is tried. `on`: the samples that try one; `fresh`: those of them whose Jacobian is not known.

    table    (stages + 1, 2 stages + 2): a, C, c and d of each stage; and gamma, and the cost of a Jacobian in evaluations
    slopes   of a sample, one after the other: at the start, every u, and last the slope of a stage

Backwards, with w = (1 - gamma dt J)^-T of the cotangent of u_i, that of the stage's slope is

    q = gamma dt w        and J has the part q u_i^T: it gives the cotangent of q . J u_i

so the derivative along u_i is pulled back, as the slope is; and once a step that by the time, of an input that moves.

Gaussian elimination solves for the matrices of a tile at once, each with its own pivots. What a column takes from all others is
one block (samples, rows, columns) in registers, which bounds the units.
"""

from __future__ import annotations

from discretize.kernels.triton.adaptive import SPEED

__all__ = [
    "DRIFT",
    "ELIMINATION",
    "GIVE_RISE",
    "MOST_UNITS",
    "RATE",
    "RATES",
    "ROSENBROCK",
    "ROSENBROCK_BACK",
    "ROWS_IN_TIME",
    "ROWS_KEPT",
    "TIME_BACK",
    "units_of",
]


RATES = '''
@triton.jit
def changing(at, apart, through, rate, mask, TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr):
    """How fast the sum of the rows of a piece changes."""
    total = tl.where(mask, 0.0, 0.0).to(REAL)
    z = 2.0 * through - 1.0
    last, before = z * 0.0 + 1.0, z * 0.0  # of the second kind: T_d' = d U_(d-1)
    for d in range(1, TERMS):
        if CHEBYSHEV:
            total += (2.0 * rate * d * last).to(REAL) * tl.load(at + d * apart, mask=mask, other=0.0).to(REAL)
        else:
            rise = tl.load(at + apart, mask=mask, other=0.0).to(REAL) - tl.load(at, mask=mask, other=0.0).to(REAL)
            total += rate.to(REAL) * rise
        following = 2.0 * z * last - before
        before = last
        last = following
    return total


@triton.jit
def give_changing(at, apart, through, rate, of, mask, TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr):
    """The cotangent of that, to its rows."""
    z = 2.0 * through - 1.0
    last, before = z * 0.0 + 1.0, z * 0.0
    for d in range(1, TERMS):
        share = 2.0 * rate * d * last if CHEBYSHEV else rate
        so_far = tl.load(at + d * apart, mask=mask, other=0.0)
        tl.store(at + d * apart, so_far + share.to(REAL) * of, mask=mask)
        if not CHEBYSHEV:
            tl.store(at, tl.load(at, mask=mask, other=0.0) - share.to(REAL) * of, mask=mask)
        following = 2.0 * z * last - before
        before = last
        last = following


@triton.jit
def change_of_clock(at, terms, tau, length, mask):
    """How fast the speed of a clock changes."""
    through = tau / length
    z = 2.0 * tl.where(through > 1.0, 1.0, tl.where(through < 0.0, 0.0, through)) - 1.0
    total, last, before = z * 0.0, z * 0.0 + 1.0, z * 0.0
    for d in range(1, terms):
        total += tl.load(at + d, mask=mask, other=0.0) * d * last
        following = 2.0 * z * last - before
        before = last
        last = following
    return 2.0 / length * total

'''

# Behind what a kernel has of its own; `at_input` is the input, and behind it how fast that changes.
BUFFERS = """
at_flow = at_slopes + (stages + 2) * STATE
at_drift = at_flow + STATE
at_along = at_drift + STATE
at_jacobian = at_along + 2 * STATE
at_matrix = at_jacobian + STATE * STATE
at_order = at_matrix + STATE * STATE
at_us = at_slopes + STATE
numbers_of_method = table + stages * (2 * stages + 2)
gamma = tl.load(numbers_of_method)
"""

# What a stage is solved for, its slope being known: the Jacobian and its factors first, at the first stage.
STAGE = """
if stage == 0:
    inside = fresh
    time = tau
    $READ
    tl.debug_barrier()
    tl.store(at_along + C_STATE, h, mask=inside & unit)
    for column in range(tl.where(tl.max(inside.to(tl.int32)) > 0, STATE, 0)):
        tl.debug_barrier()
        tl.store(at_along + STATE + C_STATE, tl.where(inside & (C_STATE == column), 1.0, 0.0).to(REAL), mask=inside & unit)
        at_column = at_jacobian + column * STATE
        tl.debug_barrier()
        $ALONG
    tl.debug_barrier()
    $DRIFT
    if SPEEDS > 0:
        change = change_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL)
        drift = change * tl.load(at_flow + C_STATE, mask=inside & unit, other=0.0)
        if MOVES:
            faster = speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL)
            drift += faster * tl.load(at_drift + C_STATE, mask=inside & unit, other=0.0)
        tl.debug_barrier()
        tl.store(at_drift + C_STATE, drift, mask=inside & unit)
        tl.debug_barrier()
    inside = on
    turned = (gamma * dt).to(REAL)
    if SPEEDS > 0:
        turned = turned * speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL)
    shifted(at_matrix, at_jacobian, turned, inside, STATE, UNITS)
    factored(at_matrix, at_order, inside, STATE, UNITS)
inside = on
value = tl.load(at_slope + C_STATE, mask=inside & unit, other=0.0)
if MOVES or SPEEDS > 0:
    of_time = (dt * tl.load(row + 2 * stages + 1)).to(REAL)
    value += tl.where(of_time == 0.0, 0.0, of_time * tl.load(at_drift + C_STATE, mask=inside & unit, other=0.0))
value = dt.to(REAL) * value + weighted(row + stages, stage, at_us + C_STATE, STATE, inside & unit)
at_u = at_us + stage * STATE
tl.debug_barrier()
tl.store(at_u + C_STATE, gamma.to(REAL) * value, mask=inside & unit)
tl.debug_barrier()
solved(at_matrix, at_order, at_u, inside, STATE, UNITS, False)
"""

# How fast an input that moves changes the slope, and the cotangent of its rows.
RATE = "rate = tl.load(rates + here, mask=inside, other=0.0)"
DRIFT = f"""
{RATE}
rise = changing(projected + first_row, batch * COLUMNS, through, rate, seen, TERMS, CHEBYSHEV)
tl.store(at_input + COLUMNS + C_COLUMNS, rise, mask=seen)
tl.debug_barrier()
$IN_TIME
tl.debug_barrier()
"""
GIVE_RISE = """
of_x = tl.load(at_of_x + COLUMNS + C_COLUMNS, mask=seen, other=0.0)
give_changing(of_projected + first_row, batch * COLUMNS, through, rate, of_x, seen, TERMS, CHEBYSHEV)
tl.debug_barrier()
"""
# The slope by the time of the clock stays beside that by the time of the segment, at the first stage.
FLOW = "tl.store(at_flow + C_STATE, slope, mask=inside & unit & (stage == 0))"
SPEED_KEPT = SPEED.replace("tl.debug_barrier()", f"tl.debug_barrier()\n    {FLOW}", 1)

ROSENBROCK = {
    "$ROWS": "",
    "$STAGE": STAGE,
    "$SPEED": SPEED_KEPT,
    "$BUFFERS": "at_slopes = at_input + 2 * COLUMNS\n" + BUFFERS + "cost = tl.load(numbers_of_method + 1).to(tl.int64)\n",
    "$ATTEMPT": """
on = alive
fresh = alive & ~differentiated
for stage in range(tl.where(mode == 1, 1, 0), tl.where(mode == 2, stages, mode + 1)):
    inside = tl.where(mode == 2, alive, guessing) & ((stage > 0) | ~known)
    row = table + stage * (2 * stages + 2)
    ahead_of_start = dt.to(REAL) * tl.load(at_slopes + C_STATE, mask=inside & unit & (stage > 0), other=0.0)
    y = h + tl.where(mode == 1, ahead_of_start, weighted(row, stage, at_us + C_STATE, STATE, inside & unit))
    time = tau + tl.where(mode == 1, 1.0, tl.load(row + 2 * stages)) * dt
    tl.debug_barrier()
    tl.store(at_y + C_STATE, y, mask=inside & unit)
    $READ
    at_slope = at_slopes + tl.where(stage == 0, 0, tl.where(mode == 1, 1, stages + 1)) * STATE
    tl.debug_barrier()
    $FLOW
    tl.debug_barrier()
    $SPEED
    evaluations += inside.to(tl.int64)
    if mode == 2:
        $STAGE
evaluations += tl.where((mode == 2) & fresh, cost, 0)
differentiated = tl.where(mode == 2, differentiated | fresh, differentiated)
""",
    "$END": """
y = y + tl.load(at_us + (stages - 1) * STATE + C_STATE, mask=inside & unit, other=0.0)
""",
    "$ERROR": """
error = tl.load(at_us + (stages - 1) * STATE + C_STATE, mask=inside & unit, other=0.0)
""",
}


# What is kept of each program.
ROWS_KEPT = "flow_kept, flow_operands, along_kept, along_operands,"
ROWS_IN_TIME = " time_kept, time_operands,"

ROSENBROCK_BACK = {
    "$STAGE": STAGE,
    "$SPEED": SPEED_KEPT,
    "$BUFFERS": """
at_input = at_of_x + 2 * COLUMNS
at_slopes = at_input + 2 * COLUMNS
stages = used
"""
    + BUFFERS
    + """
at_of_along = at_order + STATE
at_of_ys = at_of_along + 2 * STATE
""",
    "$STEP": """
on = inside
fresh = inside
for stage in range(stages):
    inside = on
    row = table + stage * (2 * stages + 2)
    at_kept = flow_kept + ((turn * stages + stage) * batch + rows) * KEPT
    y = h + weighted(row, stage, at_us + C_STATE, STATE, inside & unit)
    time = tau + tl.load(row + 2 * stages) * dt
    tl.store(at_kept + C_STATE, y, mask=inside & unit)
    $KEEP
    at_slope = at_slopes + tl.where(stage == 0, 0, stages + 1) * STATE
    tl.debug_barrier()
    $REPLAY
    tl.debug_barrier()
    $SPEED
    $STAGE
of_drift = tl.where(inside & unit, 0.0, 0.0).to(REAL)
total = of_drift
for back in range(stages):
    inside = on
    stage = stages - 1 - back
    row = table + stage * (2 * stages + 2)
    at_stage = (turn * stages + stage) * batch + rows
    of_u = weighted(columns + stage * 2 * stages, 2 * stages, at_of_ys + C_STATE, STATE, inside & unit)
    tl.debug_barrier()
    tl.store(at_q + C_STATE, of_u + tl.where(stage == stages - 1, of_end, 0.0), mask=inside & unit)
    tl.debug_barrier()
    solved(at_matrix, at_order, at_q, inside, STATE, UNITS, True)
    of_right = gamma.to(REAL) * tl.load(at_q + C_STATE, mask=inside & unit, other=0.0)
    of_slope = dt.to(REAL) * of_right
    of_drift += tl.load(row + 2 * stages + 1).to(REAL) * of_slope
    time = tau + tl.load(row + 2 * stages) * dt
    q = of_slope
    if SPEEDS > 0:
        change = change_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside)
        q = speed_of_clock(speeds + here * SPEEDS, SPEEDS, time, length, inside).to(REAL) * of_slope
        q += tl.where(stage == 0, (change * dt).to(REAL) * of_drift, 0.0)
    tl.debug_barrier()
    tl.store(at_of_ys + (stages + stage) * STATE + C_STATE, of_right, mask=inside & unit)
    tl.store(at_q + C_STATE, q, mask=inside & unit)
    at_kept = flow_kept + at_stage * KEPT
    at_operands = flow_operands + at_stage * OPERANDS
    at_of_h = at_of_ys + stage * STATE
    tl.debug_barrier()
    $BACK
    tl.debug_barrier()
    $GIVE
    # The end of a step is where its last stage is taken, and its last u.
    of_y = tl.load(at_of_h + C_STATE, mask=inside & unit, other=0.0) + tl.where(stage == stages - 1, of_end, 0.0)
    total += of_y
    q = of_slope
    if SPEEDS > 0:
        q = speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL) * of_slope
    time = tau
    at_kept = along_kept + at_stage * KEPT_ALONG
    at_operands = along_operands + at_stage * OPERANDS_ALONG
    u = tl.load(at_us + stage * STATE + C_STATE, mask=inside & unit, other=0.0)
    tl.debug_barrier()
    tl.store(at_of_h + C_STATE, of_y, mask=inside & unit)
    tl.store(at_q + C_STATE, q, mask=inside & unit)
    tl.store(at_kept + C_STATE, h, mask=inside & unit)
    tl.store(at_kept + STATE + C_STATE, u, mask=inside & unit)
    $KEEP_ALONG
    at_slope = at_flow
    at_of_h = at_of_along
    tl.debug_barrier()
    $REPLAY_ALONG
    tl.debug_barrier()
    $BACK_ALONG
    tl.debug_barrier()
    $GIVE_ALONG
    total += tl.load(at_of_h + C_STATE, mask=inside & unit, other=0.0)
$TIME_BACK
of_end = tl.where(inside, total, of_end)
""",
}

TIME_BACK = """
time = tau
at_kept = time_kept + (turn * batch + rows) * KEPT_IN_TIME
at_operands = time_operands + (turn * batch + rows) * OPERANDS_IN_TIME
q = dt.to(REAL) * of_drift
if SPEEDS > 0:
    q = speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL) * q
tl.debug_barrier()
tl.store(at_q + C_STATE, q, mask=inside & unit)
tl.store(at_kept + C_STATE, h, mask=inside & unit)
$KEEP_IN_TIME
rise = changing(projected + first_row, batch * COLUMNS, through, rate, seen, TERMS, CHEBYSHEV)
tl.store(at_kept + STATE + COLUMNS + C_COLUMNS, rise, mask=seen)
at_slope = at_flow
at_of_h = at_of_along
tl.debug_barrier()
$REPLAY_IN_TIME
tl.debug_barrier()
$BACK_IN_TIME
tl.debug_barrier()
$GIVE_IN_TIME
total += tl.load(at_of_h + C_STATE, mask=inside & unit, other=0.0)
"""


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
