r"""Warps, or clocks: c(t) increasing, its inverse, and its speed c'(t) > 0 as a path of its own.

A speed below 1 stretches the input played on the clock, a speed above 1 compresses it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.inputs.path import Data, GatheredPath, column, piece_numbers

__all__ = ["Speed", "Warp"]


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
        """c on piece k at time t, of shapes that broadcast."""

    @abstractmethod
    def inverse_at(self, k: int | Tensor, s: Tensor) -> Tensor:
        """c^-1 on piece k, as `at`."""

    @abstractmethod
    def speed_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        """c' on piece k, as `at`."""

    @abstractmethod
    def acceleration_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        """c'' on piece k, as `at`."""

    def __call__(self, t: float | Tensor) -> Tensor:
        times = checks.within("t", checks.evaluation_times("t", t), *self.interval)
        return self.at(piece_numbers(self.knots, times), times)

    def inverse(self, s: float | Tensor) -> Tensor:
        """The time t at which c(t) = s."""
        images = checks.within("s", checks.evaluation_times("s", s), *self.image)
        return self.inverse_at(piece_numbers(self.images, images), images)

    @property
    def speed(self) -> Speed:
        """c'(t), a path: callable, with knots and pieces."""
        return Speed(self)

    @property
    def interval(self) -> tuple[float, float]:
        return float(self.knots[0]), float(self.knots[-1])

    @property
    def image(self) -> tuple[float, float]:
        return float(self.images[0]), float(self.images[-1])


class Speed(GatheredPath):
    r"""c'(t) > 0 of a clock, which multiplies a field whose input is played on that clock.

    Shape:   speed(t): () -> (), (n,) -> (n,), float64.
    Source:  Tallec and Ollivier 2018, eq. (6).
    """

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
