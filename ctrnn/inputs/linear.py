"""Linear interpolation: straight from each sample to the next."""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn.inputs.path import Data, across
from ctrnn.inputs.samples import SampledPath, ends_of, rows_of, stamped

__all__ = ["LinearPath"]


class LinearPath(SampledPath):
    r"""Straight lines between samples that stand at the knots; continuous.

    Args:    xs: samples, at least two; ts: (time,) their stamps, or (time, batch), for every sequence its own; they may
             require a gradient. Default: 0, 1, ..., time - 1.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError as `HeldPath`, and for fewer than two samples.
    Source:  this project.
    """

    degree = 1
    equations = (r"x(t) = (1 - s) x_k + s x_{k+1}, \quad s = \frac{t - t_k}{t_{k+1} - t_k}",)

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        self._set(*stamped(xs, ts, "linear"))

    def gather(self, k: int | Tensor) -> Data:
        """The samples and the knots at both ends."""
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
        """How far t is through the piece, as a share of its width; and the width."""
        start, end = ends
        width = end - start
        # A sequence that is over stands in a piece of no width.
        width = torch.where(width > 0, width, 1.0)
        return (t.to(width.device, non_blocking=True) - start) / width, width
