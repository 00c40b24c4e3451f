r"""Implicit steps: the state after the step is the solution u of an equation, found by Newton's method.

    backward Euler   u = h + dt F(u)                    gate g/(1 + g) of dh/dt = g (f - h), f held
    trapezoid        u = h + dt/2 (F(h) + F(u))         gate g/(1 + g/2)

Where F is affine in h, the first iteration gives the solution in closed form.
"""

from __future__ import annotations

from torch import Tensor

from ctrnn import VectorField
from discretize.steps.algebra.newton import solve_step
from discretize.steps.step import Step

__all__ = ["BackwardEuler", "Trapezoid"]


class BackwardEuler(Step):
    r"""u = h + dt F(u). R(z) = 1/(1 - z): bounded by 1 for every z with Re z <= 0, and 0 at infinity.

    Of several solutions the one that h grows to: where det(1 - dt F'(h)) < 0, du/ds = h + dt F(u) - u is followed from h.

    Shape:   as `Step`.
    Raises:  StepError where no solution is found.
    Source:  Hairer and Wanner 1996, sec. IV.3.
    """

    title = "backward Euler"
    family = "implicit and frozen"
    equation = "h' = h + dt F(h')"
    gate = "g/(1 + g)"
    factor = "1/(1 - z)"
    error = "-dt^2/2 * F' F"
    order = 1
    evaluations = 5
    jacobians = 3

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return BackwardEuler.counted(self, field, projected, h, dt)[0]

    def counted(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> tuple[Tensor, int]:
        return solve_step(field, projected, h, dt, h)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return 1 / (1 - z)


class Trapezoid(Step):
    r"""u = h + dt/2 (F(h) + F(u)). R(z) = (1 + z/2)/(1 - z/2): bounded by 1 for Re z <= 0, and -1 at infinity.

    Shape:   as `Step`.
    Raises:  StepError where no solution is found.
    Source:  Hairer and Wanner 1996, sec. IV.3.
    """

    title = "the trapezoid"
    family = "implicit and frozen"
    equation = "h' = h + dt/2 * (F(h) + F(h'))"
    gate = "g/(1 + g/2)"
    factor = "(1 + z/2)/(1 - z/2)"
    error = "-dt^3 (F'' F^2 + F'^2 F)/12"
    order = 2
    evaluations = 6
    jacobians = 3

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return Trapezoid.counted(self, field, projected, h, dt)[0]

    def counted(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> tuple[Tensor, int]:
        slope = field.flow(projected, h)
        u, cost = solve_step(field, projected, h + dt / 2 * slope, dt / 2, h)
        return u, cost + 1

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return (1 + z / 2) / (1 - z / 2)
