"""Smooth warps of [0, D] onto itself: the speed is a trigonometric sum, without corners."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.clocks.warp import Warp

__all__ = ["SmoothWarp"]


class SmoothWarp(Warp):
    r"""c(t) = t + sum_k D / (2 pi k) (a_k sin(w_k t) + b_k (1 - cos(w_k t))), w_k = 2 pi k / D: [0, D] onto itself.

    Its speed c'(t) = 1 + sum_k (a_k cos(w_k t) + b_k sin(w_k t)) must be positive throughout, which is checked by
    a fine grid and Bernstein's inequality. It has no corners; its knots stand half a period of the fastest
    harmonic apart, because a solver may step over a short burst of speed.

    Args:    duration: D > 0; cosines, sines: a_k and b_k for k = 1, 2, ..., equally many.
    Raises:  ValueError if the speed is not positive everywhere.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, duration: float, cosines: Tensor, sines: Tensor) -> None:
        duration = checks.positive_number("duration", duration)
        self.cosines, self.sines = _coefficients("cosines", cosines), _coefficients("sines", sines)
        if len(self.cosines) != len(self.sines):
            raise ValueError(f"`cosines` and `sines` differ in length: {len(self.cosines)} and {len(self.sines)}.")
        self._duration = duration
        self._harmonics = torch.arange(1, len(self.cosines) + 1, dtype=torch.float64, device="cpu")
        slowest, _ = _range_of_trigonometric_sum(self.cosines, self.sines)
        if slowest <= 0:
            raise ValueError(
                f"The clock would stand still or run back: its speed is not safely above 0 (down to {slowest:.3g}); "
                "make the coefficients smaller."
            )
        self.knots: Tensor = torch.linspace(0.0, duration, max(1, 2 * len(self.cosines)) + 1, dtype=torch.float64, device="cpu")
        self.images: Tensor = self.at(0, self.knots)

    @classmethod
    def random(cls, duration: float, max_speed: float, generator: torch.Generator | None = None) -> SmoothWarp:
        r"""Draw a smooth random clock on [0, duration] with 0 < c' <= max_speed.

        c' = 1 + m (w - 1) with w = |p|^2 / mean |p|^2 for a random trigonometric polynomial p, and m < 1 as large as
        `max_speed` allows; the mean speed is 1, as it must be on an interval that is mapped onto itself.

        Args:    duration: > 0; max_speed: >= 1, the mean; generator: as in torch.
        Raises:  ValueError if max_speed < 1: no clock gets to the end in time with less than its mean speed.
        """
        max_speed = checks.finite_number("max_speed", max_speed)
        checks.is_generator(generator)
        if max_speed < 1:
            raise ValueError(
                f"`max_speed` must be at least 1, got {max_speed}: [0, duration] is mapped onto itself, so the mean speed is 1."
            )
        degree = max(3, math.ceil(2 * max_speed))
        phase = 2 * math.pi * torch.rand((), dtype=torch.float64, generator=generator, device="cpu")
        noise = torch.randn(2, degree + 1, dtype=torch.float64, generator=generator, device="cpu")
        # One common phase makes p peak somewhere, the noise makes it wander elsewhere.
        p = (
            torch.polar(torch.ones(degree + 1, dtype=torch.float64, device="cpu"), phase * torch.arange(degree + 1, device="cpu"))
            + torch.complex(*noise) / 2
        )
        overlaps = torch.stack([(p[m:] * p[: degree + 1 - m].conj()).sum() for m in range(degree + 1)])
        overlaps = overlaps[1:] / overlaps[0].real
        cosines, sines = 2 * overlaps.real, -2 * overlaps.imag
        _, fastest = _range_of_trigonometric_sum(cosines, sines)
        modulation = min(0.95, (max_speed - 1) / (fastest - 1))
        return cls(duration, modulation * cosines, modulation * sines)

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        phases = self._phases(t)
        swings = checks.time_on(self.cosines, t.device) * phases.sin() + checks.time_on(self.sines, t.device) * (1 - phases.cos())
        return t + self._duration / (2 * math.pi) * (swings / checks.time_on(self._harmonics, t.device)).sum(-1)

    def inverse_at(self, k: int | Tensor, s: Tensor) -> Tensor:
        low, high = torch.zeros_like(s), torch.full_like(s, self._duration)
        t = s.clone()
        for _ in range(200):  # Newton inside a bracket that shrinks at every step: a dozen steps in practice
            excess = self.at(0, t) - s
            low, high = torch.where(excess <= 0, t, low), torch.where(excess >= 0, t, high)
            proposed = t - excess / self.speed_at(0, t)
            inside = (proposed >= low) & (proposed <= high)
            following = torch.where(inside, proposed, (low + high) / 2)
            if bool(((following - t).abs() <= 2 * torch.finfo(torch.float64).eps * self._duration).all()):
                return following
            t = following
        return t

    def speed_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        phases = self._phases(t)
        return 1 + (
            checks.time_on(self.cosines, t.device) * phases.cos() + checks.time_on(self.sines, t.device) * phases.sin()
        ).sum(-1)

    def acceleration_at(self, k: int | Tensor, t: Tensor) -> Tensor:
        phases = self._phases(t)
        turning = checks.time_on(self.sines, t.device) * phases.cos() - checks.time_on(self.cosines, t.device) * phases.sin()
        return 2 * math.pi / self._duration * (checks.time_on(self._harmonics, t.device) * turning).sum(-1)

    def _phases(self, t: Tensor) -> Tensor:
        """Return 2 pi k t / D less whole turns: the sine of 2 pi k is not 0 in float64, and c(D) would not be D."""
        turns = t[..., None] / self._duration * checks.time_on(self._harmonics, t.device)
        return 2 * math.pi * (turns - turns.round())

    def __repr__(self) -> str:
        return f"SmoothWarp(duration={self._duration:g}, {len(self.cosines)} harmonics)"


def _coefficients(name: str, values: Tensor) -> Tensor:
    try:
        values = checks.as_numbers(values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"`{name}` must be a vector of real numbers, got {values!r}.") from error
    if values.is_complex() or values.dim() != 1:
        raise ValueError(f"`{name}` must be a vector of real numbers, got {values.dtype} of shape {tuple(values.shape)}.")
    values = values.detach().to(device="cpu", dtype=torch.float64)
    checks.is_finite(name, values)
    return values


def _range_of_trigonometric_sum(cosines: Tensor, sines: Tensor) -> tuple[float, float]:
    """Bound 1 + q(theta), q = sum_k a_k cos(k theta) + b_k sin(k theta), from below and above, between grid points too.

    An extremum is at most half a grid step d/2 from a grid point, where q differs by at most d^2/8 max|q''|, and
    max|q''| <= n^2 max|q| for a sum of degree n (Bernstein).
    """
    degree = len(cosines)
    if degree == 0:
        return 1.0, 1.0
    points = 1024 * degree
    spectrum = torch.cat([torch.zeros(1, dtype=torch.complex128, device="cpu"), torch.complex(cosines, -sines) * (points / 2)])
    q = torch.fft.irfft(spectrum, n=points)
    missed = (2 * math.pi / 1024) ** 2 / 8
    slack = missed * float(q.abs().max()) / (1 - missed)
    return 1 + float(q.min()) - slack, 1 + float(q.max()) + slack
