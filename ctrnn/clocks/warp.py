r"""Warps, or clocks: c(t) increasing, its inverse, and its speed c'(t), a path that may also be given by the user.

A speed below 1 stretches the input played on the clock, a speed above 1 compresses it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.inputs.path import Data, GatheredPath, Path, column, piece_numbers
from ctrnn.inputs.samples import SampledPath
from ctrnn.inputs.splines import as_path, is_spline

__all__ = ["GivenSpeed", "Speed", "Warp", "as_speed"]


class Warp(AnsweredInit, ABC):
    r"""A clock: an increasing c from `interval` onto `image`, smooth between its knots.

    Shape:   warp(t), warp.inverse(s): () -> (), (n,) -> (n,), float64.
    Raises:  ValueError for times outside the interval, or outside the image for the inverse.
    Source:  Tallec and Ollivier 2018, sec. 1, "Invariance to time warpings".
    """

    knots: Tensor  # (pieces + 1,) times at which c has corners, the ends included
    images: Tensor  # c of them
    straight = False  # c is a straight line between its knots

    @abstractmethod
    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        """Evaluate c on piece k at time t, of shapes that broadcast."""

    @abstractmethod
    def inverse_at(self, k: int | Tensor, s: Tensor) -> Tensor:
        """Evaluate c^-1 on piece k, as `at`."""

    @abstractmethod
    def speed_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        """Evaluate c' on piece k, as `at`."""

    @abstractmethod
    def acceleration_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        """Evaluate c'' on piece k, as `at`."""

    def __call__(self, t: float | Tensor) -> Tensor:
        times = checks.within("t", checks.evaluation_times("t", t), *self.interval)
        return self.at(piece_numbers(self.knots, times), times)

    def inverse(self, s: float | Tensor) -> Tensor:
        """Return the time t at which c(t) = s."""
        images = checks.within("s", checks.evaluation_times("s", s), *self.image)
        return self.inverse_at(piece_numbers(self.images, images), images)

    @property
    def speed(self) -> Speed:
        """c'(t), a path: callable, with knots and pieces."""
        return Speed(self)

    @property
    def interval(self) -> tuple[float, float]:
        """First and last time t."""
        return float(self.knots[0]), float(self.knots[-1])

    @property
    def image(self) -> tuple[float, float]:
        """c at the first and at the last time."""
        return float(self.images[0]), float(self.images[-1])


class Speed(GatheredPath):
    r"""c'(t) > 0 of a clock, which multiplies a field whose input is played on that clock.

    Shape:   speed(t): () -> (), (n,) -> (n,), float64.
    Source:  Tallec and Ollivier 2018, eq. (6).
    """

    warp: Warp
    knots: Tensor

    def __init__(self, warp: Warp) -> None:
        self.warp, self.knots, self.degree = warp, warp.knots, 0 if warp.straight else None

    def gather(self, k: int | Tensor) -> Data:
        return (column(k),)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        return self.warp.speed_at(data[0], t)

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        return self.warp.acceleration_at(data[0], t)

    def __call__(self, t: float | Tensor) -> Tensor:
        return self.at(*self._find(checks.evaluation_times("t", t)))


class GivenSpeed(GatheredPath):
    r"""A path or a bare function, which has no knots, as a speed.

    Args:    source: a path, or t (float64 scalar tensor) -> number; one number >= 0 for the whole batch.
    Raises:  TypeError, ValueError at the evaluation that gives anything else.
    """

    knots: Tensor
    degree: int | None

    own_times = False

    def __init__(self, source: Path | Callable[[Tensor], Tensor | float]) -> None:
        if isinstance(source, SampledPath) and source.is_made_of_samples and not source.xs.requires_grad:
            # One number for the batch, at times that are on the CPU: each would be waited for.
            source = source.unchecked(source.xs.cpu(), source.knots)
        self.source = source
        whole = torch.tensor([-math.inf, math.inf], dtype=torch.float64, device="cpu")
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
            speed = torch.as_tensor(given, dtype=checks.time_dtype(t.device), device=t.device)
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
    """Return a warp's speed as it is, and a path, a spline or a function as a speed that is checked; None for none."""
    if speed is None or isinstance(speed, Speed):  # positive by construction
        return speed
    if isinstance(speed, Warp):
        raise TypeError(f"`speed` must be how fast the clock runs, `warp.speed`; got the {type(speed).__name__} itself.")
    if is_spline(speed):
        return GivenSpeed(as_path(speed))
    if isinstance(speed, Path) or callable(speed):
        return GivenSpeed(speed)
    raise TypeError(f"`speed` must be a warp's `speed`, a path or a function of time, got {type(speed).__name__}.")
