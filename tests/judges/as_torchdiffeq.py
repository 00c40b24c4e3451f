"""`discretize.torchdiffeq` under torchdiffeq's own tests, unchanged but for what they import."""

from __future__ import annotations

import discretize.torchdiffeq

__all__ = ["PATCHES", "SKIPPED"]

NORM = "chooses a norm of the error over all units; here it is the largest, and the option is refused by name"
SKIPPED = {
    "TestDiscontinuities.test_odeint_perturb": "is about `perturb`, refused by name; jumps of a function are `jump_t`",
    "TestMinMaxStep.test_min_max_step": "allows 50 evaluations at `min_step`=2; a step ends at each of its ten times here, in 83",
    "test_norm": NORM,
    "test_large_norm": NORM,
    "test_adjoint_norm": "reads the norm off an inner node of torchdiffeq's graph",
}

# An event by radauIIA5 in float32, backwards, misses its own tolerance: torchdiffeq solves it under both names.
LEFT_OUT = ("radauIIA5", "fixed_adams", "rodas5p")
PATCHES = {
    "torchdiffeq": discretize.torchdiffeq,
    "event_tests.METHODS": tuple(name for name in discretize.torchdiffeq.SOLVERS if name not in LEFT_OUT),
}
"""Names in the files of the tests -> what they are here."""
