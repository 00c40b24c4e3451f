r"""A path on another clock: y(t) = x(c(t)), the input of the warped model.

Its knots are the corners of the clock and the times at which the clock shows a knot of the path. Each of its pieces knows
by number which piece of the path and which piece of the clock it is made of: c(t) is never rounded to find a sample.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn.clocks.warps import Warp
from ctrnn.inputs.along import Along, Pieces, changed, only
from ctrnn.inputs.paths import Path, piece_numbers
from ctrnn.inputs.splines import Spline, as_path

__all__ = ["WarpedPath"]


class WarpedPath(Path):
    r"""y(t) = x(c(t)) on the times at which the clock is inside the path's interval.

    Args:    path: x, or a torchcde spline; warp: c.
    Shape:   as of `path`.
    Raises:  TypeError for what is not a path or a warp; ValueError if the clock never enters the path's interval.
    Source:  Tallec and Ollivier 2018, sec. 1, "input data x(c(t))".
    """

    def __init__(self, path: Path | Spline, warp: Warp) -> None:
        path = as_path(path)
        if not isinstance(warp, Warp):
            raise TypeError(f"`warp` must be a ctrnn.Warp, got {type(warp).__name__}.")
        if path.knots.dim() > 1 or path.knots.requires_grad:
            raise ValueError(
                "`path` has times for every sequence, or times to be learned; a warp is one clock for all of them. Warp the "
                "samples' times instead: `ctrnn.HeldPath(xs, warp.inverse(ts))`."
            )
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

    def along(self, pieces: Pieces) -> Along:
        return _WarpedAlong(self, pieces)

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> WarpedPath:
        mapped = copy.copy(self)
        mapped.path = self.path.map(f, affine)
        return mapped

    def _pieces(self, k: int | Tensor) -> tuple[int | Tensor, int | Tensor]:
        if isinstance(k, int):
            return int(self._path_pieces[k]), int(self._warp_pieces[k])
        return self._path_pieces[k], self._warp_pieces[k]


class _WarpedAlong(Along):
    """The path's own pieces and the clock's, segment by segment."""

    def __init__(self, warped: WarpedPath, pieces: Pieces) -> None:
        path_pieces, self.warp_pieces = (_chosen(own, pieces) for own in (warped._path_pieces, warped._warp_pieces))
        self.warp, self.inner = warped.warp, warped.path.along(path_pieces)
        self.steady, self.own_times = self.inner.steady, self.inner.own_times

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        if self.steady:
            return self.inner.at(j, t, rows)
        piece = self.warp_pieces[j]
        return self.inner.at(j, self.warp.at(piece if isinstance(piece, int) else only(piece[:, None], rows), t), rows)

    def tensors(self, j: int) -> list[Tensor]:
        return self.inner.tensors(j)

    def on(self, j: int, tensors: list[Tensor]) -> Along:
        return changed(self, inner=self.inner.on(j, tensors))


def _chosen(own: Tensor, pieces: Pieces) -> Pieces:
    return own[pieces] if isinstance(pieces, Tensor) else own[torch.tensor(pieces, dtype=torch.long)].tolist()


def _overlap(path: Path, warp: Warp) -> tuple[float, float]:
    """The clock readings at which the clock runs and the path is defined."""
    start, end = max(path.interval[0], warp.image[0]), min(path.interval[1], warp.image[1])
    if not start < end:
        raise ValueError(
            f"The clock shows {warp.image}, and the path is defined on {path.interval}: they have no time in common."
        )
    return start, end
