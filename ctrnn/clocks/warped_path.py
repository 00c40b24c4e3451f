r"""A path on a warped clock: y(t) = x(c(t)), the input of the warped model.

Its knots are the corners of the clock and the times t at which c(t) is a knot of the path. Each of its pieces stores the
number of its piece of the path and of the clock: c(t) is never rounded to find a sample.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.clocks.warp import Warp
from ctrnn.inputs.path import Data, GatheredPath, Path, across, column, piece_numbers
from ctrnn.inputs.polynomial import PolynomialPath
from ctrnn.inputs.splines import Spline, as_path

__all__ = ["WarpedPath"]


class WarpedPath(GatheredPath):
    r"""y(t) = x(c(t)) on the times at which the clock is inside the path's interval.

    Args:    path: x, or a torchcde spline; warp: c.
    Shape:   as of `path`.
    Raises:  TypeError for what is not a path or a warp; ValueError if c(t) is never in the path's interval.
    Source:  Tallec and Ollivier 2018, sec. 1, "input data x(c(t))".
    """

    path: Path
    warp: Warp
    steady: bool
    own_times: bool

    def __init__(self, path: Path | Spline, warp: Warp) -> None:
        path = as_path(path)
        checks.instance("warp", warp, Warp)
        if path.knots.dim() > 1 or path.knots.requires_grad:
            raise ValueError(
                "`path` has times for every sequence, or times to be learned; a warp is one clock for all of them. Warp the "
                "samples' times instead: `ctrnn.HeldPath(xs, warp.inverse(ts))`."
            )
        self.path, self.warp = path, warp
        self.steady, self.own_times = path.steady, path.own_times
        self.degree: int | None = path.degree if warp.straight or path.steady else None
        path_knots = warp.inverse(path.knots.clamp(*_overlap(path, warp)))  # the times at which they are passed
        start, end = float(path_knots[0]), float(path_knots[-1])
        corners = warp.knots[(warp.knots > start) & (warp.knots < end)]
        self.knots: Tensor = torch.cat([path_knots, corners]).unique()
        if len(self.knots) < 2:
            raise ValueError(
                f"The clock passes through the path's interval {path.interval} in no time: {warp} is too fast for float64."
            )
        begins = self.knots[:-1]
        self.equations: tuple[str, ...] = path.made_into(lambda x: rf"{x}(c(t)), \quad c = \text{{{warp!r}}}")
        self._path_pieces = piece_numbers(path_knots, begins)
        self._warp_pieces = piece_numbers(warp.knots, begins)

    def probe(self) -> Path:
        if self.path.degree is None:
            return self
        twin = copy.copy(self)
        twin.path = PolynomialPath.highest(self.path.knots, self.path.degree)
        return twin

    def _made_of(self) -> str:
        return f"{self.path!r}, {self.warp!r}"

    def gather(self, k: int | Tensor) -> Data:
        return column(self._warp_pieces[k]), *self.path.gather(self._path_pieces[k])

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        clock, *rest = data
        return self.path.evaluate(rest, t if self.steady else self.warp.at(clock, t))

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        clock, *rest = data
        slope = self.path.differentiate(rest, self.warp.at(clock, t))
        return slope * across(self.warp.speed_at(clock, t), slope)

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> WarpedPath:
        mapped = copy.copy(self)
        mapped.path = self.path.map(f, affine)
        # Of another degree, or none, where f bends the input.
        mapped.degree = mapped.path.degree if self.warp.straight or self.steady else None
        return mapped


def _overlap(path: Path, warp: Warp) -> tuple[float, float]:
    """Return the part of the path's interval that the clock passes through."""
    start, end = max(path.interval[0], warp.image[0]), min(path.interval[1], warp.image[1])
    if not start < end:
        raise ValueError(
            f"The clock shows {warp.image}, and the path is defined on {path.interval}: they have no time in common."
        )
    return start, end
