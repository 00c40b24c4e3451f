r"""The way back of adaptive solves as text in Triton: a few of the steps that each sample of a tile took, from the last one on.

Each step's stages are computed again, from the state before it that was kept; then their cotangents, from the last stage to the
first. One turn beyond a sample's first step takes in what is wanted at its start.

    $ROWS, $BUFFERS    where numbers are kept, of each stage of a step, and of a sample
    $STEP              a step: its stages, and back through them
    $KEEP, $REPLAY     the input of a stage, and an evaluation, with what the way back reads kept
    $BACK, $GIVE       the derivative of an evaluation, and the cotangent of the input
"""

from __future__ import annotations

__all__ = ["BACKWARD", "EXPLICIT_BACK"]

BACKWARD = """

@triton.jit
def backward(
    projected, lengths, pieces, shares, rates, speeds, places, table, columns, of_hs, counts, steps, kept,
    of_projected, of_h, edges, scratch,
    $ROWS
    $WEIGHTS
    batch, used, table_width, first, many, of_segment, of_sample, width,
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
    $BUFFERS
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
        $STEP
    tl.store(of_h + rows * STATE + C_STATE, of_end, mask=there & unit)
    tl.store(edges + rows, edge, mask=there)
"""

EXPLICIT_BACK = {
    "$ROWS": """
stages_kept, operands,
""",
    "$BUFFERS": """
at_slopes = at_of_x + COLUMNS
at_of_ys = at_slopes + used * STATE
""",
    "$STEP": """
for stage in range(used):
    row = table + stage * table_width
    at_kept = stages_kept + ((turn * used + stage) * batch + rows) * KEPT
    y = h + dt.to(REAL) * weighted(row, stage, at_slopes + C_STATE, STATE, inside & unit)
    time = tau + tl.load(row + table_width - 1) * dt
    tl.store(at_kept + C_STATE, y, mask=inside & unit)
    $KEEP
    at_slope = at_slopes + stage * STATE
    tl.debug_barrier()
    $REPLAY
    tl.debug_barrier()
    if SPEEDS > 0:
        speed = speed_of_clock(speeds + here * SPEEDS, SPEEDS, time, length, inside).to(REAL)
        slope = tl.load(at_slope + C_STATE, mask=inside & unit, other=0.0)
        tl.debug_barrier()
        tl.store(at_slope + C_STATE, speed * slope, mask=inside & unit)
        tl.debug_barrier()
tl.store(at_of_ys + used * STATE + C_STATE, of_end, mask=inside & unit)
for back in range(used):
    stage = used - 1 - back
    at_kept = stages_kept + ((turn * used + stage) * batch + rows) * KEPT
    at_operands = operands + ((turn * used + stage) * batch + rows) * OPERANDS
    tl.debug_barrier()
    q = weighted(columns + stage * (used + 1), used + 1, at_of_ys + C_STATE, STATE, inside & unit)
    q = dt.to(REAL) * q
    time = tau + tl.load(table + stage * table_width + table_width - 1) * dt
    if SPEEDS > 0:
        q = speed_of_clock(speeds + here * SPEEDS, SPEEDS, time, length, inside).to(REAL) * q
    tl.store(at_q + C_STATE, q, mask=inside & unit)
    at_of_y = at_of_ys + stage * STATE
    tl.debug_barrier()
    $BACK
    tl.debug_barrier()
    $GIVE
    of_end += tl.load(at_of_y + C_STATE, mask=inside & unit, other=0.0)
""",
}
