r"""Back through a step of a Rosenbrock pair, as text in Triton.

With w = (1 - gamma dt J)^-T of the cotangent of u_i, that of the stage's slope is

    q = gamma dt w        and J has the part q u_i^T: what it gives is the cotangent of q . J u_i

so the derivative along u_i is pulled back, as the slope is; and once a step that by the time, of an input that moves.
"""

from __future__ import annotations

from discretize.kernels.triton.solving.rosenbrock import BUFFERS

__all__ = ["ROSENBROCK_BACK", "TIME_BACK", "rows_kept"]


def rows_kept(moves: bool) -> str:
    """The names of what is kept of each program; moves: whether the input does."""
    return ", ".join(f"{name}kept, {name}operands" for name in ("flow_", "along_", "time_")[: 2 + moves]) + ","


ROSENBROCK_BACK = {
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
    if SPEEDS > 0:
        speed = speed_of_clock(speeds + here * SPEEDS, SPEEDS, time, length, inside).to(REAL)
        slope = tl.load(at_slope + C_STATE, mask=inside & unit, other=0.0)
        tl.debug_barrier()
        tl.store(at_flow + C_STATE, slope, mask=inside & unit & (stage == 0))
        tl.store(at_slope + C_STATE, speed * slope, mask=inside & unit)
        tl.debug_barrier()
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
