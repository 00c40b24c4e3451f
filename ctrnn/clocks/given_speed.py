"""Speeds c'(t) given by the user, as a path or a function of time, checked at every evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn.clocks.warp import Speed, Warp
from ctrnn.inputs.path import Data, GatheredPath, Path, column
from ctrnn.inputs.samples import SampledPath
from ctrnn.inputs.splines import as_path, is_spline

__all__ = ["GivenSpeed", "as_speed"]


class GivenSpeed(GatheredPath):
    r"""A path or a bare function, which has no knots, as a speed.

    Args:    source: a path, or t (float64 scalar tensor) -> number; one number >= 0 for the whole batch.
    Raises:  TypeError, ValueError at the evaluation that gives anything else.
    Source:  this project.
    """

    own_times = False

    def __init__(self, source: Path | Callable[[Tensor], Tensor | float]) -> None:
        if isinstance(source, SampledPath) and not source.xs.requires_grad:
            # One number for the batch, at times that are on the CPU: each would be waited for.
            source = source.unchecked(source.xs.cpu(), source.knots)
        self.source = source
        whole = torch.tensor([-math.inf, math.inf], dtype=torch.float64)
        self.knots, self.degree = (source.knots, source.degree) if isinstance(source, Path) else (whole, None)

    def gather(self, k: int | Tensor) -> Data:
        return (column(k),)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        if t.dim() == 0:
            return self._number(int(data[0]), t)
        pieces = data[0].expand_as(t).flatten()
        speeds = [self._number(int(k), time) for k, time in zip(pieces, t.flatten(), strict=True)]
        return torch.stack(speeds).reshape(t.shape)

    def _number(self, k: int, t: Tensor) -> Tensor:
        given = self.source.at(k, t) if isinstance(self.source, Path) else self.source(t)
        try:
            speed = torch.as_tensor(given, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise TypeError(f"`speed` must give a number, got {given!r} at t = {float(t)}.") from error
        if speed.numel() != 1:
            raise ValueError(f"`speed` must give one number for the whole batch, got shape {tuple(speed.shape)}.")
        if not 0 <= float(speed.detach()) < math.inf:
            raise ValueError(f"`speed` must be finite and at least 0, got {float(speed.detach())} at t = {float(t)}.")
        return speed.reshape(())

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        if isinstance(self.source, Path):
            return self.source.slope(data[0], t)
        raise NotImplementedError("The derivative of a bare speed function is not known; use a warp's `speed`.")


def as_speed(speed: object) -> Path | None:
    """A warp's speed as it is, a path, a spline or a function as a speed that is checked; None for none."""
    if speed is None or isinstance(speed, Speed):  # positive by construction
        return speed
    if isinstance(speed, Warp):
        raise TypeError(f"`speed` must be how fast the clock runs, `warp.speed`; got the {type(speed).__name__} itself.")
    if is_spline(speed):
        return GivenSpeed(as_path(speed))
    if isinstance(speed, Path) or callable(speed):
        return GivenSpeed(speed)
    raise TypeError(f"`speed` must be a warp's `speed`, a path or a function of time, got {type(speed).__name__}.")
