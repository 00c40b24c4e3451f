r"""Explicit Runge-Kutta steps on a held input: k_i = F(h + dt sum_j a_ij k_j), h <- h + dt sum_i b_i k_i.

R(z) is the exponential series cut at the order. As gates, with G = 1 - R(-g): g - g^2/2 at order 2, and at order 4
g - g^2/2 + g^3/6 - g^4/24. They never overshoot, and diverge beyond g = 2 and g = 2.785.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.steps.step import Step

__all__ = ["ExplicitRungeKutta", "Heun", "Heun3", "Midpoint", "RungeKutta4", "ThreeEighths"]


class ExplicitRungeKutta(Step):
    """Steps by a tableau: `stages`, the rows a_i (the first, empty one included), and `weights` b."""

    family = "Taylor and Runge-Kutta"
    stages: ClassVar[tuple[tuple[float, ...], ...]]
    weights: ClassVar[tuple[float, ...]]

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return self.along(lambda share, u: field.flow(projected, u), h, dt)

    def along(self, slope: Callable[[float, Tensor], Tensor], h: Tensor, dt: float | Tensor) -> Tensor:
        """Step dh/dt = slope(share, h), share in [0, 1] the fraction of the step that has passed."""
        slopes: list[Tensor] = []
        for row in self.stages:
            slopes.append(slope(sum(row), _moved(h, dt, row, slopes)))
        return _moved(h, dt, self.weights, slopes)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        factor = torch.ones_like(z)
        for n in reversed(range(1, self.order + 1)):
            factor = 1 + factor * z / n
        return factor


def _moved(h: Tensor, dt: float | Tensor, weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    terms = [slope if weight == 1 else weight * slope for weight, slope in zip(weights, slopes, strict=True) if weight]
    return h + dt * sum(terms[1:], terms[0]) if terms else h


class Midpoint(ExplicitRungeKutta):
    r"""h + dt F(h + dt/2 F(h)).

    Shape:   as `Step`.
    Source:  Hairer, Norsett and Wanner 1993, sec. II.1 (Runge 1895).
    """

    name = "midpoint"
    title = "the midpoint rule"
    equation = "h' = h + dt F(h + dt/2 * F(h))"
    gate = "g - g^2/2"
    factor = "1 + z + z^2/2"
    error = "dt^3 (F'' F^2/24 + F'^2 F/6)"
    order = 2
    evaluations = 2
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (1 / 2,))
    weights: ClassVar[tuple[float, ...]] = (0, 1)


class Heun(ExplicitRungeKutta):
    r"""h + dt/2 (F(h) + F(h + dt F(h))), the explicit trapezoid.

    Shape:   as `Step`.
    Source:  Hairer, Norsett and Wanner 1993, sec. II.1 (Heun 1900).
    """

    name = "heun2"
    title = "Heun's rule"
    equation = "h' = h + dt/2 * (F(h) + F(h + dt F(h)))"
    gate = "g - g^2/2"
    factor = "1 + z + z^2/2"
    error = "dt^3 (F'^2 F/6 - F'' F^2/12)"
    order = 2
    evaluations = 2
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (1,))
    weights: ClassVar[tuple[float, ...]] = (1 / 2, 1 / 2)


class RungeKutta4(ExplicitRungeKutta):
    r"""The classical Runge-Kutta step; `method="rk4"` of `integrate` is the 3/8 rule, as torchdiffeq's.

    Shape:   as `Step`.
    Source:  Hairer, Norsett and Wanner 1993, sec. II.1, table 1.2 (Kutta 1901).
    """

    title = "the classical Runge-Kutta step"
    equation = "h' = h + dt/6 * (p + 2 q + 2 r + s)\np = F(h)\nq = F(h + dt/2 * p)\nr = F(h + dt/2 * q)\ns = F(h + dt r)"
    gate = "g - g^2/2 + g^3/6 - g^4/24"
    factor = "1 + z + z^2/2 + z^3/6 + z^4/24"
    error = "-dt^5 F (F^3 F'''' + 2 F^2 F' F''' - 6 F^2 F''^2 + 36 F F'^2 F'' - 24 F'^4)/2880"
    order = 4
    evaluations = 4
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (1 / 2,), (0, 1 / 2), (0, 0, 1))
    weights: ClassVar[tuple[float, ...]] = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


class Heun3(ExplicitRungeKutta):
    r"""Heun's step of order 3, `method="heun3"` of `integrate`.

    Shape:   as `Step`.
    Source:  Hairer, Norsett and Wanner 1993, sec. II.1, table 1.1 (Heun 1900).
    """

    name = "heun3"
    order = 3
    evaluations = 3
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (1 / 3,), (0, 2 / 3))
    weights: ClassVar[tuple[float, ...]] = (1 / 4, 0, 3 / 4)


class ThreeEighths(ExplicitRungeKutta):
    r"""The 3/8 rule, `method="rk4"` of `integrate`.

    Shape:   as `Step`.
    Source:  Hairer, Norsett and Wanner 1993, sec. II.1, table 1.2 (Kutta 1901).
    """

    name = "rk4"
    order = 4
    evaluations = 4
    stages: ClassVar[tuple[tuple[float, ...], ...]] = ((), (1 / 3,), (-1 / 3, 1), (1, -1, 1))
    weights: ClassVar[tuple[float, ...]] = (1 / 8, 3 / 8, 3 / 8, 1 / 8)
