r"""A step of a Rosenbrock pair as text in Triton, as discretize/solvers/rodas.py has it.

    (1 - gamma dt J) u_i = gamma (dt (f(t + c_i dt, h + sum_j a_ij u_j) + d_i dt df/dt) + sum_j C_ij u_j)
    h_1 = h + sum_j a_8j u_j + u_8          error = u_8

J is made column by column, by derivatives of the field's code along each unit, when a state is new; 1 - gamma dt J is factored
for each step that is tried. `on`: the samples that try one; `fresh`: those of them whose Jacobian is not known.

    table    (stages + 1, 2 stages + 2): a, C, c and d of each stage; and gamma, and what a Jacobian costs in evaluations
    slopes   of a sample, one after the other: at the start, every u, and last the slope of a stage
"""

from __future__ import annotations

__all__ = ["BUFFERS", "RATES", "ROSENBROCK", "STAGE"]

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

ROSENBROCK = {
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
    if SPEEDS > 0:
        speed = speed_of_clock(speeds + here * SPEEDS, SPEEDS, time, length, inside).to(REAL)
        slope = tl.load(at_slope + C_STATE, mask=inside & unit, other=0.0)
        tl.debug_barrier()
        tl.store(at_flow + C_STATE, slope, mask=inside & unit & (stage == 0))
        tl.store(at_slope + C_STATE, speed * slope, mask=inside & unit)
        tl.debug_barrier()
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
