"""A solve is a chain of segments: between two of them lies a knot of the input or its clock, or a requested time.

Within one the right-hand side is smooth, and it is asked for by the number of its piece: no solver ever has to find out
from a rounded time which sample is being read. Solvers run on the segment's own clock, tau = t - start, where a short
segment late in a long recording has as many digits as an early one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import Driven
from ctrnn.paths import piece_numbers

__all__ = ["Segment", "segments"]


@dataclass(frozen=True)
class Segment:
    """[start, end], inside piece `piece` of `driven`; `requested` if a state is wanted at its end."""

    driven: Driven
    piece: int
    start: float
    end: float
    requested: bool

    @property
    def length(self) -> float:
        return self.end - self.start

    def flow(self) -> Callable[[Tensor, Tensor], Tensor]:
        """(tau, h) -> dh/dt. Beyond the end, where solvers look when they guess a first step, the input stands still."""

        def at(tau: Tensor, h: Tensor) -> Tensor:
            return self.driven.at(self.piece, self.time(tau), h)

        return at

    def time(self, tau: Tensor) -> Tensor:
        """The time at tau, which solvers may put an ulp outside of the segment."""
        return (self.start + tau.to(torch.float64)).clamp(self.start, self.end)


def segments(driven: Driven, ts: Tensor) -> list[Segment]:
    """The segments from ts[0] to ts[-1], cut at every time of `ts` and every knot between them."""
    knots = driven.knots
    edges = torch.cat([ts, knots[(knots > ts[0]) & (knots < ts[-1])]]).unique()
    pieces = piece_numbers(knots, edges[:-1]).tolist()
    wanted = torch.isin(edges[1:], ts).tolist()
    times = edges.tolist()
    return [Segment(driven, *row) for row in zip(pieces, times[:-1], times[1:], wanted, strict=True)]
