r"""Linearly implicit steps: dh/dt = N - L h with N and L held at what they are when the step begins, and only h implicit.

    backward Euler   h + dt F(h) / (1 + L dt)          gate g/(1 + g) of dh/dt = g (f - h), in (0, 1) for every g
    trapezoid        h + dt F(h) / (1 + L dt/2)        gate g/(1 + g/2), in (0, 2)

No equation is left to solve, and the order is 1: recurrence and gates are held over the step. `BackwardEuler` and
`Trapezoid` solve for them too.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ctrnn import VectorField
from discretize.steps.step import Step, mode

__all__ = ["FrozenBackwardEuler", "FrozenTrapezoid"]


class _Frozen(Step):
    """h + dt F(h)/(1 + theta L dt). R = 1 + z/(1 + theta l) with l = L dt."""

    order = 1
    evaluations = 1
    theta: ClassVar[float]

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        slope, leak = field.flow_and_leak(projected, h)
        return h + dt * slope / (1 + self.theta * dt * leak)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        return 1 + z / (1 + self.theta * leak)


class FrozenBackwardEuler(_Frozen):
    r"""h + dt F(h)/(1 + L dt) = (h + dt N)/(1 + L dt). R = 1/(1 - z) where all is leak.

    The fused step of liquid time-constant networks is this one, for their field and its leak.

    Shape:   as `Step`.
    Source:  this project; Hasani et al. 2021, "Liquid time-constant networks", the fused solver.
    """

    title = "frozen backward Euler"
    family = "implicit and frozen"
    equation = "h' = h + dt F(h)/(1 + L dt)"
    gate = "g/(1 + g)"
    factor = "1 + z/(1 + l)"
    error = "dt^2 (F'/2 + L) F"

    theta: ClassVar[float] = 1.0


class FrozenTrapezoid(_Frozen):
    r"""h + dt F(h)/(1 + L dt/2). R = (1 + z/2)/(1 - z/2) where all is leak.

    Shape:   as `Step`.
    Source:  this project.
    """

    title = "the frozen trapezoid"
    family = "implicit and frozen"
    equation = "h' = h + dt F(h)/(1 + L dt/2)"
    gate = "g/(1 + g/2)"
    factor = "1 + z/(1 + l/2)"
    error = "dt^2/2 * (F' + L) F"

    theta: ClassVar[float] = 0.5
