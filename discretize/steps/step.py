r"""What a step is: a map (projected input, h, dt) -> h that approximates the flow of dh/dt = field(x, h), x held, over dt.

step(field, x, h, dt) = step.advance(field, field.project(x), h, dt)        local error O(dt^(order + 1))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from ctrnn import VectorField, checks

__all__ = ["Step"]


class Step(ABC):
    r"""A one-step map; subclasses give `order`, `evaluations` (of `flow`, a step) and `advance`.

    It keeps nothing between steps and never touches the field's weights.

    Shape:   x (..., input), h (..., state), dt > 0 a number in units of time -> h (..., state).
    Raises:  TypeError, ValueError for x, h or dt that do not fit.
    Source:  this project.
    """

    order: ClassVar[int]
    evaluations: ClassVar[int]

    def __call__(self, field: VectorField, x: Tensor, h: Tensor, dt: float) -> Tensor:
        checks.is_input(checks.is_field(field), x)
        checks.is_state(field, h)
        checks.same_leading_axes(x, h)
        return self.advance(field, field.project(x), h, checks.positive_number("dt", dt))

    @abstractmethod
    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        """The step on what `field.project` made of the input; unchecked, for loops. dt is a number or a scalar tensor."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
