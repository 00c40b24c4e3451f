"""Warps made of straight lines: one for all of time, or lines between points (ts_k, cs_k)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.clocks.warp import Warp

__all__ = ["AffineWarp", "PiecewiseWarp"]


class AffineWarp(Warp):
    r"""c(t) = speed t + offset, on all of time.

    Args:    speed: > 0, clock time per unit of time; offset: clock time at 0.
    Raises:  ValueError if the speed is not positive and finite.
    Source:  Tallec and Ollivier 2018, eq. (1), with an offset.
    """

    knots: Tensor
    images: Tensor

    straight = True

    def __init__(self, speed: float, offset: float = 0.0) -> None:
        self._speed = checks.positive_number("speed", speed)
        self.offset: float = checks.finite_number("offset", offset)
        self.knots = self.images = torch.tensor([-math.inf, math.inf], dtype=torch.float64, device="cpu")

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


class PiecewiseWarp(Warp):
    r"""Straight lines through (ts_k, cs_k).

    Args:    ts: (n,) times, strictly increasing; cs: (n,) c at these times, strictly increasing; n >= 2.
    Raises:  TypeError, ValueError for times or values that do not increase or do not match.
    Source:  Tallec and Ollivier 2018, sec. 3, "c a random, piecewise affine time warping".
    """

    knots: Tensor
    images: Tensor

    straight = True

    def __init__(self, ts: Tensor, cs: Tensor) -> None:
        self.knots, self.images = checks.are_times("ts", ts), checks.are_times("cs", cs)
        if len(self.knots) != len(self.images):
            raise ValueError(f"`ts` and `cs` must be as long as one another, got {len(self.knots)} and {len(self.images)}.")
        if len(self.knots) < 2:
            raise ValueError("A piecewise clock needs at least two points, got 1; use `AffineWarp` for one speed throughout.")
        self._speeds = self.images.diff() / self.knots.diff()
        if not bool((torch.isfinite(self._speeds) & (self._speeds > 0)).all()):
            raise ValueError("`ts` and `cs` give a speed that is 0 or infinite in float64; spread the points more evenly.")

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return _straight(self.knots, self.images, k, t)

    def inverse_at(self, k: int | Tensor, s: Tensor) -> Tensor:
        return _straight(self.images, self.knots, k, s)

    def speed_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return checks.time_on(self._speeds[k], t.device)

    def acceleration_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return torch.zeros_like(t)

    def __repr__(self) -> str:
        return f"PiecewiseWarp({len(self.knots)} points, interval={self.interval}, image={self.image})"


def _straight(xs: Tensor, ys: Tensor, k: int | Tensor, x: Tensor) -> Tensor:
    """Evaluate the line of piece k through (xs, ys), exact at both of its ends (lerp works from the nearer one)."""
    left, right = checks.time_on(xs[k], x.device), checks.time_on(xs[k + 1], x.device)
    return torch.lerp(checks.time_on(ys[k], x.device), checks.time_on(ys[k + 1], x.device), (x - left) / (right - left))
