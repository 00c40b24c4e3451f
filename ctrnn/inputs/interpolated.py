r"""Interpolation between samples that stand at the knots: by straight lines, or by causal cubics that are once differentiable.

The slope of Hermite's cubics at knot k is m_k = (x_k - x_{k-1}) / (t_k - t_{k-1}), a backward difference, and m_0 = m_1. Piece
k begins with slope m_k and ends with m_{k+1}, the slope of its own chord. So it is the chord and a bend that vanishes at both
ends: with s = (t - t_k) / (t_{k+1} - t_k),

    x(t) = (1 - s) x_k + s x_{k+1} + s (1 - s)^2 b_k,      b_k = m_k (t_{k+1} - t_k) - (x_{k+1} - x_k)

and its first piece is straight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.path import Data, across
from ctrnn.inputs.samples import SampledPath, ends_of, rows_of, stamped

__all__ = ["HermitePath", "LinearPath"]


class LinearPath(SampledPath):
    r"""Straight lines between samples that stand at the knots; continuous.

        >>> path = ctrnn.LinearPath(torch.tensor([[[1.0]], [[3.0]]]))
        >>> path(torch.tensor(0.5)).tolist()
        [[2.0]]

    Args:    xs: samples, at least two; ts: (time,) their stamps, or (time, batch), for every sequence its own; they may
             require a gradient. Default: 0, 1, ..., time - 1.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError as `HeldPath`, and for fewer than two samples.
    """

    degree: int | None = 1
    equations: tuple[str, ...] = (r"x(t) = (1 - s) x_k + s x_{k+1}, \quad s = \frac{t - t_k}{t_{k+1} - t_k}",)

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        self._set(*stamped(xs, ts, "linear"))

    def gather(self, k: int | Tensor) -> Data:
        """Return the samples and the knots at both ends."""
        return rows_of(self.xs, k), rows_of(self.xs, k + 1), *ends_of(self, k)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        left, right, *ends = data
        # In float64 until here: a float32 time of 1e4 knows its place in a unit piece to three digits only.
        return torch.lerp(left, right, across(self.share(ends, t)[0], left))

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        left, right, *ends = data
        return (right - left) / across(self.share(ends, t)[1], left)

    @staticmethod
    def share(ends: Data, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far t is through the piece, as a share of its width, and the width."""
        start, end = ends
        width = end - start
        # A sequence that is over stands in a piece of no width.
        width = torch.where(width > 0, width, 1.0)
        return (checks.time_on(t, width.device) - start) / width, width


class HermitePath(SampledPath):
    r"""Cubics through samples that stand at the knots; once differentiable. Causal: after x_k is known, so is piece k - 1.

    Args:    xs: samples, at least two; ts: (time,) their stamps, or (time, batch), for every sequence its own; they may
             require a gradient. Default: 0, 1, ..., time - 1.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError as `LinearPath`, and for a piece so much longer than the one before it that its bend is
             not finite.
    Source:  torchcde 0.2.5, `hermite_cubic_coefficients_with_backward_differences`; Morrill, Kidger, Yang and Lyons 2022.
    """

    degree: int | None = 3
    equations: tuple[str, ...] = (
        r"b_k = \frac{t_{k+1} - t_k}{t_k - t_{k-1}} (x_k - x_{k-1}) - (x_{k+1} - x_k), \quad s = \frac{t - t_k}{t_{k+1} - t_k}",
        r"x(t) = (1 - s) x_k + s x_{k+1} + s (1 - s)^2 b_k",
    )

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        self._set(*stamped(xs, ts, "Hermite"))
        advice = f"in {xs.dtype}, knots so near to each other make slopes that reach too far"
        checks.is_finite("(x[k] - x[k-1]) / (t[k] - t[k-1])", self.bends, advice)

    def _set(self, xs: Tensor, knots: Tensor, bends: Tensor | None = None) -> None:
        super()._set(xs, knots)
        self.line: LinearPath = LinearPath.unchecked(xs, knots)
        self.bends: Tensor = _bends(xs, knots) if bends is None else bends

    def through(self, f: Callable[[Tensor], Tensor], knots: Tensor) -> Self:
        # Not the bends of f(x): where a piece is short they are made of differences that the rounding of A x + b hides.
        mapped, bends, offset = f(torch.cat([self.xs, self.bends, torch.zeros_like(self.xs[:1])])).tensor_split(
            (len(self.xs), 2 * len(self.xs) - 1)
        )
        path = type(self).__new__(type(self))
        path._set(mapped, knots, bends - offset)
        return path

    def gather(self, k: int | Tensor) -> Data:
        return *self.line.gather(k), rows_of(self.bends, k)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        left, right, *ends, bend = data
        share, _ = self.line.share(ends, t)
        return torch.lerp(left, right, across(share, left)) + across(share * (1 - share) ** 2, bend) * bend

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        *chord, bend = data
        share, width = self.line.share(chord[2:], t)
        return self.line.differentiate(chord, t) + across((1 - share) * (1 - 3 * share) / width, bend) * bend


def _bends(xs: Tensor, knots: Tensor) -> Tensor:
    """Return b_k of every piece: (time, batch, feature), knots (time,) or (time, batch) -> (time - 1, batch, feature)."""
    rises, widths = xs.diff(dim=0), knots.diff(dim=0)
    # Ratios of widths, in float64, and not slopes: of knots an ulp apart these may be more than a float32 holds.
    # A sequence that is over stands in pieces of no width.
    longer = (widths[1:] / torch.where(widths[:-1] > 0, widths[:-1], 1.0)).to(device=xs.device, dtype=xs.dtype)
    longer = longer[..., None] if longer.dim() > 1 else longer[:, None, None]
    return torch.cat([torch.zeros_like(rises[:1]), longer * rises[:-1] - rises[1:]])
