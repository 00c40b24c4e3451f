"""Which gradient a solve gives where it is not that of all steps kept: in bounded memory, or by the adjoint equation."""

from __future__ import annotations

from dataclasses import dataclass

from ctrnn import checks

__all__ = ["Adjoint", "Checkpointed", "Gradient"]


@dataclass(frozen=True)
class Checkpointed:
    r"""The gradient of the steps taken, in bounded memory: blocks of steps are computed again in the backward pass.

    No second derivatives, and no gradients to the times of samples; to those asked for of adaptive methods.

    Args:    bytes: > 0, what the steps kept for gradients may take at any moment, beside one state a block.
    Raises:  TypeError, ValueError for anything but a number above 0.
    Source:  Chen et al. 2016, Training deep nets with sublinear memory cost.
    """

    bytes: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", checks.positive_number("bytes", self.bytes))


@dataclass(frozen=True)
class Adjoint:
    r"""The gradient of the exact solution, to the tolerance: the adjoint equation solved backwards, no steps kept.

    For explicit adaptive methods; no second derivatives, and no gradients to times.

    Source:  Chen et al. 2018, Neural ordinary differential equations, app. B.
    """


Gradient = Checkpointed | Adjoint | None  # None: that of the steps taken, all of them kept
