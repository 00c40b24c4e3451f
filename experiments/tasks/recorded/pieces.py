r"""Holds the sequences of a table, and plays them at other speeds.

rows        0        1        2        3        their places; between them a clock runs on evenly
speed 2     0                 2                 a sample every second row
speed 1/2   0   .5   1  1.5   2  2.5   3        two samples a row, up to the last row

held        sample p shows row floor(p), the last one that was seen
backward    row ceil(p): what acts up to its stamp, as with hold=backward
linear      values between both rows, words as held
asked       the target of a row is asked once, at the last sample that shows it: at the same time of the recording at speeds of 1,
            1/2, 1/3, ..., whose samples lie on every row; at others a row is shown from the first sample after it on
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from experiments.data.samples import NO_CLASS

__all__ = ["RecordedPiece", "factors_of", "places"]

STRETCHES = 8  # of a sequence that is warped, each with a speed of its own


@dataclass(frozen=True, eq=False)
class RecordedPiece:
    """Holds stamps (n,), values (n, features), nan where missing, and the target, of the whole or (n,) or (n, numbers); where the
    next value is asked for, also the present one, in the first row the last that was seen."""

    ts: Tensor
    xs: Tensor
    target: Tensor
    now: Tensor | None = None

    def played(self, at: Tensor, between: str, words: Tensor, at_the_end: bool) -> RecordedPiece:
        r"""Return samples at places `at` between rows, as `places` gives them.

        Args:    between: "held", "backward" or "linear"; words: which features are of words (features,); at_the_end: whether the
                 target is of the whole.
        """
        rows, after = at.floor().long(), at.ceil().long()
        shown, share = after if between == "backward" else rows, at - rows
        xs = self.xs[shown]
        if between == "linear":  # on a row both are that row
            xs = torch.where(words, xs, self.xs[rows].lerp(self.xs[after], share[:, None].to(xs)))
        ts = self.ts[rows].lerp(self.ts[after], share)
        if at_the_end:
            return RecordedPiece(ts, xs, self.target)
        following = torch.cat([shown[1:], torch.tensor([len(self.ts)])])
        last = following > shown
        if self.now is None:
            return RecordedPiece(ts, xs, self._only(self.target[shown], last))
        last[-1] &= bool(shown[-1] + 1 == len(self.ts))  # what the next sample would show is not in this piece
        return RecordedPiece(ts, xs, self._only(self.target[following - 1], last), self.now[shown])

    @property
    def before(self) -> Tensor | None:
        """Return at each sample the value that was seen last, of what is asked for next."""
        return None if self.now is None else torch.tensor(pd.DataFrame(self.now.numpy()).ffill().to_numpy())

    @staticmethod
    def _only(target: Tensor, asked: Tensor) -> Tensor:
        """Return the target where it is asked for, and elsewhere none."""
        if target.dim() == 1:
            return target.where(asked, NO_CLASS)
        return target.where(asked[:, None], torch.nan)


def places(rows: int, speed: float, factors: Tensor) -> Tensor:
    r"""Return at which places between rows samples lie, from 0 up to the last row.

    Args:    factors: of the speed, one for each of as many equal stretches.
    """
    bounds = torch.linspace(0, rows - 1, len(factors) + 1, dtype=torch.float64)
    ends = torch.cat([bounds[:1], (bounds.diff() / (speed * factors)).cumsum(0)])
    samples = torch.arange(math.floor(float(ends[-1]) * (1 + 1e-12) + 1e-9) + 1, dtype=torch.float64)
    k = (torch.searchsorted(ends, samples, right=True) - 1).clamp(max=len(factors) - 1)
    rows_at = (bounds[k] + (samples - ends[k]) * speed * factors[k]).clamp(max=rows - 1)
    whole = rows_at.round()
    return whole.where((rows_at - whole).abs() < 1e-9, rows_at)  # a row that is missed by rounding alone


def factors_of(warp: float, generator: torch.Generator) -> Tensor:
    """Draw a factor of the speed for each stretch of a sequence, between 1 / warp and warp; one factor of 1 without a warp."""
    if warp == 1:
        return torch.ones(1, dtype=torch.float64)
    return warp ** (2 * torch.rand(STRETCHES, generator=generator, dtype=torch.float64) - 1)
