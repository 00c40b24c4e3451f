r"""Euler's step with g dt capped: each unit takes the Taylor step, but never with more than `cap` of rate times length.

    h + dt F(h) / max(1, L dt/cap)        L = field.leak at the start of the step; the gate min(g dt, cap) of dh/dt = g (f - h)

The equation stays what it is: the cap belongs to the step, and where L dt <= cap in all units this is Euler's step to the bit.
Beyond, a unit moves as far as in the time cap/L, so its own clock falls behind. The tamed Euler step of Hutzenthaler, Jentzen and
Kloeden 2012, h + dt F/(1 + dt |F|), bounds how far a step goes; this one bounds its gate.
"""

from __future__ import annotations

from torch import Tensor

from ctrnn import VectorField, checks
from discretize.steps.step import Step, mode

__all__ = ["CappedEuler"]


class CappedEuler(Step):
    r"""h + dt F(h) / max(1, L dt/cap). R(z) = 1 + z / max(1, l/cap) with l = L dt: 1 - min(g dt, cap) where all is leak.

    For training fields whose rates have no bound, as `SoftplusRate`: Euler's step overshoots from g dt = 1 on and grows from 2
    on. With a cap up to 1 a unit goes at most to its target, and below 2 it never goes away from it. Where the cap is at work
    the step does not follow its equation, and does not depend on the rate: of dh/dt = g (f - h) the gradient in g is 0 there,
    so nothing that is learned at such samples makes the rate smaller. For a field that declares no leak it is Euler's step.

    Args:    cap: the largest g dt of a step, > 0, without unit; of each substep where there are several.
    Shape:   as `Step`.
    Raises:  TypeError, ValueError for a cap that is no positive, finite number. A rate that is infinite gives nan, as in Euler's.
    Source:  this project; the region of Euler's step is Tallec and Ollivier's "alpha <~ 1 or g_t <~ 1", sec. 1.
    """

    title = "capped Euler"
    written = "h + dt F(h)/max(1, L dt/cap)"
    gate = "min(g, cap)"
    factor = "1 + z/max(1, l/cap)"
    order = 1
    evaluations = 1
    cap: float

    def __init__(self, cap: float = 1.0) -> None:
        self.cap = checks.positive_number("cap", cap)

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        slope, leak = field.flow_and_leak(projected, h)
        # Not cap/(L dt), whose derivative underflows in single precision from L dt = 1e19 on.
        return h + dt * slope / (dt * leak / self.cap).clamp(min=1.0)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        return 1 + z / (leak / self.cap).clamp(min=1.0)

    def __repr__(self) -> str:
        return f"CappedEuler(cap={self.cap:g})"
