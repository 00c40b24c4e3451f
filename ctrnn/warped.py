r"""A path on another clock: y(t) = x(c(t)), the input of the warped model.

Its knots are the corners of the clock and the times at which the clock shows a knot of the path. Each of its pieces knows
by number which piece of the path and which piece of the clock it is made of: c(t) is never rounded to find a sample.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn.paths import Path, piece_numbers
from ctrnn.warps import Warp

__all__ = ["WarpedPath"]


class WarpedPath(Path):
    r"""y(t) = x(c(t)) on the times at which the clock is inside the path's interval.

    Args:    path: x; warp: c.
    Shape:   as of `path`.
    Raises:  TypeError for what is not a path or a warp; ValueError if the clock never enters the path's interval.
    Source:  Tallec and Ollivier 2018, sec. 1, "input data x(c(t))".
    """

    def __init__(self, path: Path, warp: Warp) -> None:
        if not isinstance(path, Path):
            raise TypeError(f"`path` must be a ctrnn.Path, got {type(path).__name__}.")
        if not isinstance(warp, Warp):
            raise TypeError(f"`warp` must be a ctrnn.Warp, got {type(warp).__name__}.")
        self.path, self.warp = path, warp
        shown = path.knots.clamp(*_overlap(path, warp))
        entered = warp.inverse(shown)
        start, end = float(entered[0]), float(entered[-1])
        corners = warp.knots[(warp.knots > start) & (warp.knots < end)]
        self.knots = torch.cat([entered, corners]).unique()
        if len(self.knots) < 2:
            raise ValueError(
                f"The clock passes through the path's interval {path.interval} in no time: {warp} is too fast for float64."
            )
        begins = self.knots[:-1]
        self._path_pieces = piece_numbers(entered, begins)
        self._warp_pieces = piece_numbers(warp.knots, begins)

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        path_piece, warp_piece = self._pieces(k)
        return self.path.at(path_piece, self.warp.at(warp_piece, t))

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        path_piece, warp_piece = self._pieces(k)
        slope = self.path.slope(path_piece, self.warp.at(warp_piece, t))
        speed = self.warp.speed_at(warp_piece, t).to(slope.dtype)
        return slope * (speed if speed.dim() == 0 else speed.reshape(-1, *[1] * (slope.dim() - 1)).to(slope.device))

    def map(self, f: Callable[[Tensor], Tensor]) -> WarpedPath:
        mapped = copy.copy(self)
        mapped.path = self.path.map(f)
        return mapped

    def _pieces(self, k: int | Tensor) -> tuple[int | Tensor, int | Tensor]:
        if isinstance(k, int):
            return int(self._path_pieces[k]), int(self._warp_pieces[k])
        return self._path_pieces[k], self._warp_pieces[k]


def _overlap(path: Path, warp: Warp) -> tuple[float, float]:
    """The clock readings at which the clock runs and the path is defined."""
    start, end = max(path.interval[0], warp.image[0]), min(path.interval[1], warp.image[1])
    if not start < end:
        raise ValueError(
            f"The clock shows {warp.image}, and the path is defined on {path.interval}: they have no time in common."
        )
    return start, end
