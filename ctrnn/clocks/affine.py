"""Affine warps: the same recording slower or faster, and shifted."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.clocks.warp import Warp

__all__ = ["AffineWarp"]


class AffineWarp(Warp):
    r"""c(t) = speed t + offset, on all of time.

    Args:    speed: > 0, clock time per unit of time; offset: clock time at 0.
    Raises:  ValueError if the speed is not positive and finite.
    Source:  Tallec and Ollivier 2018, eq. (1), with an offset.
    """

    straight = True

    def __init__(self, speed: float, offset: float = 0.0) -> None:
        self._speed = checks.positive_number("speed", speed)
        self.offset = checks.finite_number("offset", offset)
        self.knots = self.images = torch.tensor([-math.inf, math.inf], dtype=torch.float64)

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._speed * t + self.offset

    def inverse_at(self, k: int | Tensor, s: Tensor) -> Tensor:
        return (s - self.offset) / self._speed

    def speed_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return torch.full_like(t, self._speed)

    def acceleration_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return torch.zeros_like(t)

    def __repr__(self) -> str:
        return f"AffineWarp(speed={self._speed:g}, offset={self.offset:g})"
