r"""Asking for a piece by time alone: a function or a spline knows no numbers of pieces, and at a knot two of them meet."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Inside"]


class Inside:
    r"""Times one ulp inside of their piece where they stand at one of its inner knots.

    For what is asked by time alone: at a knot it answers for one of two pieces, and which of them is not ours to say.

    Args:    name: what the user calls the knots; knots: (pieces + 1,), in the precision in which they are compared.
    Shape:   inside(k, t): k and t both scalars, or both (n,) -> t, moved by no more than that; its gradient stays.
    Raises:  ValueError for two knots with no time between them.
    Source:  this project.
    """

    def __init__(self, name: str, knots: Tensor) -> None:
        start, end = knots.detach()[:-1], knots.detach()[1:]
        low, high = torch.nextafter(start, end), torch.nextafter(end, start)
        low[0], high[-1] = start[0], end[-1]  # outside of the whole there is no one else to answer
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
