r"""A look at g dt in cells and sequence modules: a step that multiplies what it should forget by more than 1 is warned of.

    dh/dt = (something) - g h, g the field's leak         a step multiplies the distance to a held target by R(-g dt)
    Euler: R = 1 - g dt, which is below -1 where g dt > 2, and grows without bound

Looked at are the first call of a module and every thousandth: `Monitor` looks at all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from discretize.errors import StepWarning, warn_user
from discretize.fused.eligibility import tracing_reason
from discretize.steps.step import Step

__all__ = ["OvershootWatch"]

EVERY = 1_000  # calls
ROUNDING = 1e-3  # of |R| and of gates in float32


class OvershootWatch:
    """Counts calls, looks at some, warns once; `largest`: the largest g dt seen, None before the first look."""

    def __init__(self, allow_overshoot: bool) -> None:
        self.allowed = checks.is_flag("allow_overshoot", allow_overshoot)
        self.calls, self.warned, self.largest = 0, False, None  # type: int, bool, float | None

    def due(self) -> bool:
        """Whether this call is one to look at."""
        if torch.compiler.is_compiling():  # which would compile anew for each number of calls
            return False
        self.calls += 1
        return self.calls % EVERY == 1 and tracing_reason() is None

    @torch.no_grad()
    def look(self, step: Step, field: VectorField, xs: Tensor, h0: Tensor, states: Tensor, dt: float | Tensor) -> None:
        """At the steps of a sequence, xs (time, batch, input), from h0 (batch, state) to the states (time, batch, state)."""
        h = torch.cat([h0[None], states[:-1]])
        self.look_at(step, field, field.project(xs), h, dt)

    @torch.no_grad()
    def look_at(self, step: Step, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> None:
        """At steps from the states h (..., state) with these inputs."""
        try:
            g_dt = float((dt * field.leak(projected, h)).max()) if h.numel() else 0.0
        except RuntimeError:  # values that cannot be read, as those of meta tensors
            return
        self.largest = g_dt if self.largest is None else max(self.largest, g_dt)
        if self.allowed or self.warned or g_dt <= 1 or not _growth(step, g_dt) > 1 + ROUNDING:
            return
        self.warned = True
        warn_user(
            f"{step!r} takes steps with g dt up to {g_dt:.4g}, rate times length, where it multiplies the distance to what the "
            f"state is pulled to by {_growth(step, g_dt):.3g}: states oscillate and grow where those of the equation approach. "
            "Take more substeps, a shorter dt, or a step that follows any rate, such as ExponentialEuler; `allow_overshoot=True` "
            "silences this.",
            StepWarning,
        )


def _growth(step: Step, g_dt: float) -> float:
    """|R(-g dt)|; 0 for a step of one's own that is no map of single units."""
    try:
        return float(step.stability(torch.tensor([-g_dt], dtype=torch.float64)).abs())
    except Exception:
        return 0.0
