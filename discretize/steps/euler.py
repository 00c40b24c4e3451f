r"""The Taylor step, cut after its first term: h(t + dt) = h(t) + dt dh/dt + O(dt^2).

With dt = 1 it turns a field into the familiar discrete cell: dh/dt = g (f - h) becomes h <- g f + (1 - g) h.
"""

from __future__ import annotations

from torch import Tensor

from ctrnn import VectorField
from discretize.steps.step import Step

__all__ = ["Euler"]


class Euler(Step):
    r"""h + dt field(x, h).

    Shape:   as `Step`.
    Source:  Tallec and Ollivier 2018, "the Taylor expansion with discretization step dt = 1", eqs. (2), (5), (8), (10).
    """

    order = 1
    evaluations = 1

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return h + dt * field.flow(projected, h)
