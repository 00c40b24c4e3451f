r"""Triton source of a field's derivatives at the start of a step, for methods that read them, and of the way back through them.

J is made column by column, by derivatives of the field's code along each unit, when a state is new. The derivative by the time is
that of an input that moves, along how fast it does, and on a clock of its speed, times the slope there.

Backwards J has the cotangent sum_k q_k u_k^T: what it gives is the cotangent of sum_k q_k . J u_k, so the derivative along each
u_k is pulled back, as a slope is; and once a step that by the time.
"""

from __future__ import annotations

from discretize.kernels.triton.adaptive import EVALUATION, PULL, REPLAY, SPEED

__all__ = ["DRIFT", "GIVE_RISE", "IMPLICIT", "IMPLICIT_BACK", "PULL_DRIFT", "RATE", "RATES", "ROWS_IN_TIME"]

RATES = '''
@triton.jit
def changing(at, apart, through, rate, mask, TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr):
    """Compute how fast the sum of the rows of a piece changes."""
    total = tl.where(mask, 0.0, 0.0).to(REAL)
    z = 2.0 * through - 1.0
    last, before = z * 0.0 + 1.0, z * 0.0  # of the second kind: T_d' = d U_(d-1)
    for d in range(1, TERMS):
        if CHEBYSHEV:
            total += (2.0 * rate * d * last).to(REAL) * tl.load(at + d * apart, mask=mask, other=0.0).to(REAL)
        else:
            rise = tl.load(at + apart, mask=mask, other=0.0).to(REAL) - tl.load(at, mask=mask, other=0.0).to(REAL)
            total += rate.to(REAL) * rise
        last, before = 2.0 * z * last - before, last
    return total


@triton.jit
def give_changing(at, apart, through, rate, of, mask, TERMS: tl.constexpr, CHEBYSHEV: tl.constexpr):
    """Add the cotangent of that to its rows."""
    z = 2.0 * through - 1.0
    last, before = z * 0.0 + 1.0, z * 0.0
    for d in range(1, TERMS):
        share = 2.0 * rate * d * last if CHEBYSHEV else rate
        so_far = tl.load(at + d * apart, mask=mask, other=0.0)
        tl.store(at + d * apart, so_far + share.to(REAL) * of, mask=mask)
        if not CHEBYSHEV:
            tl.store(at, tl.load(at, mask=mask, other=0.0) - share.to(REAL) * of, mask=mask)
        last, before = 2.0 * z * last - before, last


@triton.jit
def change_of_clock(at, terms, tau, length, mask):
    """Compute how fast the speed of a clock changes."""
    through = tau / length
    z = 2.0 * tl.where(through > 1.0, 1.0, tl.where(through < 0.0, 0.0, through)) - 1.0
    total, last, before = z * 0.0, z * 0.0 + 1.0, z * 0.0
    for d in range(1, terms):
        total += tl.load(at + d, mask=mask, other=0.0) * d * last
        last, before = 2.0 * z * last - before, last
    return 2.0 / length * total

'''

# Behind the slopes; `at_input` is the input, and behind it how fast that changes.
BUFFERS = """
at_drift = at_flow + STATE
at_along = at_drift + STATE
at_jacobian = at_along + 2 * STATE
at_matrix = at_jacobian + STATE * STATE
"""

DERIVATIVES = """
if call == DIFFERENTIATED:
    on = inside
    $FRESH
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
    if READS_DRIFT:
        drift = tl.where(inside & unit, 0.0, 0.0).to(REAL)
        $DRIFT
        if SPEEDS > 0:
            change = change_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL)
            faster = speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL)
            drift = faster * drift + change * tl.load(at_flow + C_STATE, mask=inside & unit, other=0.0)
        tl.debug_barrier()
        tl.store(at_drift + C_STATE, drift, mask=inside & unit)
        tl.debug_barrier()
    inside = on
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
drift = tl.load(at_drift + C_STATE, mask=inside & unit, other=0.0)
"""
GIVE_RISE = """
of_x = tl.load(at_of_x + COLUMNS + C_COLUMNS, mask=seen, other=0.0)
give_changing(of_projected + first_row, batch * COLUMNS, through, rate, of_x, seen, TERMS, CHEBYSHEV)
tl.debug_barrier()
"""
# The slope by the time of the clock stays beside that by the time of the segment, of the first call.
FLOW = "tl.store(at_flow + C_STATE, slope, mask=inside & unit & (rows * 0 + call == 0))"
SPEED_KEPT = SPEED.replace("tl.debug_barrier()", f"tl.debug_barrier()\n    {FLOW}", 1)


def _of_field(lines: str) -> str:
    """Put lines under the condition that a round evaluates a field."""
    return "kind = tl.load(at_round)\nif kind == 0.0:\n" + "\n".join(f"    {line}" for line in lines.splitlines() if line)


IMPLICIT = {
    "$BUFFERS": f"""
at_slopes = at_input + 2 * COLUMNS
at_flow = at_slopes + (ROUNDS + 1) * STATE
{BUFFERS}
at_method = at_matrix + FACTORS * (STATE + 1) * STATE
cost = tl.load(settings + 4).to(tl.int64)
""",
    "$DIFFERENTIATE": DERIVATIVES
    + """
    evaluations += tl.where(alive & ~differentiated, cost, 0)
    differentiated = differentiated | alive
""",
    "$FRESH": "inside = alive & ~differentiated",
    "$ROUND": f"""
{_of_field(EVALUATION)}
place = tl.load(at_round + 2).to(tl.int32)
$OPERATIONS
""",
    "$SPEED": SPEED_KEPT,
}

IMPLICIT_BACK = {
    "$BUFFERS": f"""
at_input = at_of_x + 2 * COLUMNS
at_slopes = at_input + 2 * COLUMNS
at_of_ys = at_slopes + REPLAYED * STATE
at_of_along = at_of_ys + (PULLED + 1) * STATE
at_of_drift = at_of_along + 2 * STATE
at_flow = at_of_drift + STATE
{BUFFERS}
at_method = at_matrix + FACTORS_BACK * (STATE + 1) * STATE
""",
    "$DIFFERENTIATE": DERIVATIVES.replace("DIFFERENTIATED", "DIFFERENTIATED_BACK"),
    "$FRESH": "",
    "$OF_FLOW": """
if GIVES_DRIFT:
    change = change_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL)
    at_start = inside & unit & (rows * 0 + call == PULLED - 1)  # the slope there is a part of the derivative by the time
    q += change * tl.load(at_of_drift + C_STATE, mask=at_start, other=0.0)
""",
    "$PULL": f"""
{_of_field(PULL)}
at_slope = at_of_y
$OPERATIONS_BACK
""",
    "$PULL_DERIVATIVES": """
of_jacobian = tl.where(inside & unit, 0.0, 0.0).to(REAL)
of_time = of_jacobian
for pair in range(PAIRS):
    time = tau
    at_round = table + ROW * (ROUNDS + 1 + REPLAYED + PULLED + pair)
    at_kept = along_kept + ((turn * PAIRS + pair) * batch + rows) * KEPT_ALONG
    at_operands = along_operands + ((turn * PAIRS + pair) * batch + rows) * OPERANDS_ALONG
    tl.debug_barrier()
    $SIDES
    tl.store(at_kept + C_STATE, h, mask=inside & unit)
    $KEEP_ALONG
    at_slope = at_flow
    at_of_y = at_of_along
    tl.debug_barrier()
    if SPEEDS > 0:
        q = tl.load(at_q + C_STATE, mask=inside & unit, other=0.0)
        q = speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL) * q
        tl.debug_barrier()
        tl.store(at_q + C_STATE, q, mask=inside & unit)
        tl.debug_barrier()
    $REPLAY_ALONG
    tl.debug_barrier()
    $BACK_ALONG
    tl.debug_barrier()
    $GIVE_ALONG
    of_jacobian += tl.load(at_of_y + C_STATE, mask=inside & unit, other=0.0)
$PULL_DRIFT
tl.debug_barrier()
""",
    "$ROUND": f"""
{_of_field(REPLAY)}
$OPERATIONS_AGAIN
""",
    "$ROWS": "stages_kept, operands, along_kept, along_operands,\n$ROWS_IN_TIME",
    "$SPEED": SPEED_KEPT,
}
ROWS_IN_TIME = "time_kept, time_operands,"

PULL_DRIFT = """
if GIVES_DRIFT:
    of_drift = tl.load(at_of_drift + C_STATE, mask=inside & unit, other=0.0)
    time = tau
    at_kept = time_kept + (turn * batch + rows) * KEPT_IN_TIME
    at_operands = time_operands + (turn * batch + rows) * OPERANDS_IN_TIME
    if SPEEDS > 0:
        of_drift = speed_of_clock(speeds + here * SPEEDS, SPEEDS, tau, length, inside).to(REAL) * of_drift
    tl.debug_barrier()
    tl.store(at_q + C_STATE, of_drift, mask=inside & unit)
    tl.store(at_kept + C_STATE, h, mask=inside & unit)
    $KEEP_IN_TIME
    rise = changing(projected + first_row, batch * COLUMNS, through, rate, seen, TERMS, CHEBYSHEV)
    tl.store(at_kept + STATE + COLUMNS + C_COLUMNS, rise, mask=seen)
    at_slope = at_flow
    at_of_y = at_of_along
    tl.debug_barrier()
    $REPLAY_IN_TIME
    tl.debug_barrier()
    $BACK_IN_TIME
    tl.debug_barrier()
    $GIVE_IN_TIME
    of_time = tl.load(at_of_y + C_STATE, mask=inside & unit, other=0.0)
"""
