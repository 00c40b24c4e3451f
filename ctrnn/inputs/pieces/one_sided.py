r"""One-sided limits at knots: the time is nudged one ulp into the piece.

A function or a spline finds its piece from the time alone, and at a knot takes one of two.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["OneSidedTimes"]


class OneSidedTimes:
    r"""Times moved one ulp into their piece where they stand at one of its inner knots.

    Args:    name: what the user calls the knots; knots: (pieces + 1,), in the precision in which they are compared.
    Shape:   times(k, t): k and t both scalars, or both (n,) -> t, moved by no more than an ulp; its gradient stays.
    Raises:  ValueError for two knots with no time between them.
    Source:  this project.
    """

    def __init__(self, name: str, knots: Tensor) -> None:
        start, end = knots.detach()[:-1], knots.detach()[1:]
        low, high = torch.nextafter(start, end), torch.nextafter(end, start)
        low[0], high[-1] = start[0], end[-1]  # the first and the last knot belong to one piece only
        if bool((low > high).any()):
            k = int((low > high).nonzero()[0])
            raise ValueError(
                f"`{name}`: no time lies between {float(start[k])!r} and {float(end[k])!r}, where the input could be asked; "
                "drop one of them."
            )
        self.low, self.high = low.double(), high.double()

    def __call__(self, k: int | Tensor, t: Tensor) -> Tensor:
        moved = torch.minimum(torch.maximum(t.detach(), self.low[k]), self.high[k])
        return t + (moved - t.detach())  # an ulp either way: exact
