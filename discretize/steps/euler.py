r"""The Taylor step: h(t + dt) = h(t) + dt dh/dt + dt^2/2 d2h/dt2 + ..., cut after its first or its second term.

With dt = 1 the first turns a field into the familiar discrete cell: dh/dt = g (f - h) becomes h <- g f + (1 - g) h.
The symplectic one moves the two parts of a state one after the other, as published oscillators do.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.forward import jvp
from discretize.steps.runge_kutta import ExplicitRungeKutta
from discretize.steps.step import Step

__all__ = ["Euler", "SymplecticEuler", "Taylor2"]


class Euler(ExplicitRungeKutta):
    r"""h + dt F(h), F(h) = field(x, h). Gate g; R(z) = 1 + z.

        >>> field, x, h = ctrnn.plain(1, 3), torch.randn(2, 1), torch.zeros(2, 3)
        >>> discretize.DiscreteCell(field, Euler(), dt=0.1)(x, h).allclose(h + 0.1 * field(x, h))
        True

    Shape:   as `Step`.
    Source:  Tallec and Ollivier 2018, "the Taylor expansion with discretization step dt = 1", eqs. (2), (5), (8), (10).
    """

    name = "euler"
    title = "Euler"
    family = "Taylor and Runge-Kutta"
    equation = "h' = h + dt F(h)"
    gate = "g"
    factor = "1 + z"
    error = "dt^2/2 * F' F"
    order = 1
    evaluations = 1
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((),)
    weights: ClassVar[tuple[float, ...]] = (1,)

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return h + dt * field.flow(projected, h)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return 1 + z


class Taylor2(Step):
    r"""h + dt F + dt^2/2 F'F, the derivative of F along F by forward-mode differentiation. R(z) = 1 + z + z^2/2.

    Gate g - g^2/2, at most 1/2, and negative beyond g = 2.

    Shape:   as `Step`.
    Source:  the expansion of Tallec and Ollivier 2018, below eq. (3), cut one term later.
    """

    title = "the second-order Taylor step"
    family = "Taylor and Runge-Kutta"
    equation = "h' = h + dt F(h) + dt^2/2 * F'(h) F(h)"
    gate = "g - g^2/2"
    factor = "1 + z + z^2/2"
    error = "dt^3/6 * (F'' F^2 + F'^2 F)"
    order = 2
    evaluations = 1
    tangents = 1

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        slope = field.flow(projected, h)
        bend = jvp(lambda u: field.flow(projected, u), (h,), (slope,))[1]
        return h + dt * (slope + dt / 2 * bend)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return 1 + z * (1 + z / 2)


class SymplecticEuler(Step):
    r"""u + dt F_u(y, u) for the hidden part u of a state [y, u], then y + dt F_y(y, u), which reads the new u.

    On oscillators, dy/dt = z and dz/dt = f(y), it keeps areas of the (y, z) plane, and so neither damps nor drives, where
    Euler's step drives; on y'' = -w^2 y it is stable up to w dt = 2. Without hidden units it is Euler's step.

    Shape:   as `Step`.
    Source:  Hairer, Lubich and Wanner 2006, "Geometric numerical integration", sec. I.1.
    """

    title = "symplectic Euler"
    written = "Euler, the hidden part of the state first"
    gate = "g"
    factor = "1 + z"
    order = 1
    evaluations = 2

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        # Not `field.visible`, a read-out, which may scale and shift.
        y, hidden = h[..., : field.hidden_size], (h + dt * field.flow(projected, h))[..., field.hidden_size :]
        slope = field.flow(projected, torch.cat([y, hidden], -1))[..., : field.hidden_size]
        return torch.cat([y + dt * slope, hidden], -1)
