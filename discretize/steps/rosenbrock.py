r"""The exponential Rosenbrock step: the exact solution of the field linearized at the start of the step.

dh/dt = F(h0) + J (h - h0), J = dF/dh at h0        h + dt phi_1(J dt) F(h)
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.steps.algebra.jacobian import jacobian, over_matrices
from discretize.steps.algebra.phi import phi_matrix
from discretize.steps.step import Step

__all__ = ["ExponentialRosenbrock"]


class ExponentialRosenbrock(Step):
    r"""h + dt phi_1(J dt) F(h) with the true Jacobian J, recurrence and gates included. R(z) = e^z, whatever the leak.

    Costs a Jacobian and the exponential of a matrix of state + 1 rows for each sample.

    Shape:   as `Step`.
    Source:  Hochbruck and Ostermann 2010, the exponential Rosenbrock-Euler method (Pope 1963).
    """

    title = "the exponential Rosenbrock step"
    family = "exponential"
    equation = "h' = h + dt phi1(F'(h) dt) F(h)"
    gate = "1 - exp(-g)"
    factor = "exp(z)"
    error = "dt^3/6 * F'' F^2"
    order = 2
    evaluations = 1
    jacobians = 1

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return h + phi_matrix(over_matrices(dt) * jacobian(field, projected, h), dt * field.flow(projected, h))

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return torch.exp(z)
