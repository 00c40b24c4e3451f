"""Piecewise constant paths: each sample is held over its interval, which is what a discrete cell sees."""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn.inputs.hold import Hold
from ctrnn.inputs.path import Data
from ctrnn.inputs.samples import SampledPath, check_batch, checked_samples, interval_edges, rows_of

__all__ = ["HeldPath"]


class HeldPath(SampledPath):
    r"""Sample k is held on [t_k, t_k+1): piecewise constant, right-continuous.

    Args:    xs: samples; ts: (time + 1,) edges of the intervals, or (time,) stamps. Default: 0, 1, ..., time. With a second
             axis, (.., batch), every sequence has its own. They may require a gradient.
             hold: "forward", a stamp is where its sample begins to act, or "backward", where it has acted since the stamp
             before; open_interval: how long the last one acts, or backward the first; see `Hold`.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError for samples that are not finite floating point (time, batch, feature), or times that
             do not increase or do not fit.
    Source:  this project; "sample and hold".
    """

    steady, degree = True, 0
    equations = (r"x(t) = x_k, \quad t_k \leq t < t_{k+1}",)

    def __init__(
        self, xs: Tensor, ts: Tensor | None = None, *, hold: str = "forward", open_interval: float | None = None
    ) -> None:
        checked_samples(xs)
        self._set(xs, check_batch(xs, interval_edges(len(xs), ts, Hold(hold, open_interval))))

    def gather(self, k: int | Tensor) -> Data:
        return (rows_of(self.xs, k),)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        return data[0]

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        return torch.zeros_like(data[0])
