r"""Piecewise constant paths: each sample is held over its interval, which is what a discrete cell sees.

    forward    sample k acts on [ts[k], ts[k+1]]        output k is the state at ts[k+1], and depends on when that is
    backward   sample k acts on [ts[k-1], ts[k]]        output k is the state at ts[k], and on nothing that comes later

T stamps leave one interval open: forward that of the last sample, backward that of the first. T + 1 edges say all of them, and
then both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.path import Data
from ctrnn.inputs.samples import SampledPath, check_batch, checked_samples, rows_of

__all__ = ["FORWARD", "HeldPath", "Hold", "interval_edges"]

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class Hold:
    r"""Chooses how stamps become the edges of the intervals on which samples are held.

    Args:    direction: "forward" or "backward"; open_interval: length of the interval that stamps leave open, > 0. If it is not
             given, the last sample is held for as long as the one before it, and a single one among longer sequences for the
             median of their intervals. Refused are then one sample by one stamp, and backward stamps: nothing before the
             first one says since when its sample acts.
    Source:  backward is the elapsed time of Che et al. 2018 (GRU-D) and Rubanova et al. 2019 (ODE-RNN).
    """

    direction: str = "forward"
    open_interval: float | None = None

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f'`hold` must be "forward" or "backward", got {self.direction!r}.')
        if self.open_interval is not None:
            object.__setattr__(self, "open_interval", checks.positive_number("open_interval", self.open_interval))

    def edges(self, stamps: Tensor) -> Tensor:
        """Return the edges of stamps: (time,) -> (time + 1,), or (time, batch) -> (time + 1, batch)."""
        if self.direction == "forward":
            return torch.cat([stamps, self.end(stamps, len(stamps) - 1)])
        if self.open_interval is None:
            raise ValueError(
                f'`ts` has {len(stamps)} stamps, which do not say since when the first sample acts with `hold="backward"`; '
                f"give {len(stamps) + 1} edges, the first one the time of the state at the start, or `open_interval`, its length."
            )
        return torch.cat([self._moved(stamps[:1], -self.open_interval), stamps])

    def end(self, stamps: Tensor, last: int | Tensor) -> Tensor:
        """Return where the sample of the last stamp stops to act, (1, ...); `last`: its number, or (1, batch) of each column."""
        last = torch.as_tensor(last, device=stamps.device).expand(1, *stamps.shape[1:])
        end = stamps.gather(0, last)
        if self.direction == "backward":
            return end
        if self.open_interval is not None:
            return self._moved(end, self.open_interval)
        lengths = end - stamps.gather(0, (last - 1).clamp(min=0))
        if bool((last == 0).any()):
            lengths = torch.where(last > 0, lengths, _median_interval(stamps, last))
        return end + lengths

    def _moved(self, stamps: Tensor, by: float) -> Tensor:
        """Stamps moved by the open interval, which must be seen in them."""
        moved = stamps + by
        if bool((moved == stamps).any()):
            at = float(stamps.detach()[moved == stamps][0])
            raise ValueError(
                f"`open_interval` = {abs(by):g} is lost in rounding at the time {at!r}, in {stamps.dtype}; count time from the "
                "first stamp, `ts - ts[0]`, or in another unit."
            )
        return moved


def _median_interval(stamps: Tensor, last: Tensor) -> Tensor:
    """Return the median interval between the stamps (time, ...) of all sequences, up to the `last` of each, (1, ...)."""
    rows = torch.arange(len(stamps) - 1, device=stamps.device).reshape(-1, *[1] * (stamps.dim() - 1))
    intervals = stamps.diff(dim=0)[rows < last]
    if not len(intervals):
        raise ValueError(
            "`ts` has one stamp for one sample, which does not say how long it acts; give 2 edges, when it begins and when it "
            "ends: in a stream the next sample's stamp too, `ts[k : k + 2]`; or `open_interval`, its length."
        )
    return intervals.median()


FORWARD = Hold()


def interval_edges(samples: int, ts: Tensor | None, hold: Hold = FORWARD) -> Tensor:
    """Return the (samples + 1,) edges of the intervals on which samples are held, from edges, stamps or nothing."""
    if ts is None:
        return torch.arange(samples + 1, dtype=torch.float64, device="cpu")
    times = checks.are_stamps("ts", ts, 2)
    if len(times) == samples + 1:
        return times
    if len(times) != samples:
        raise ValueError(f"`ts` has {len(times)} times for {samples} samples; give {samples + 1} edges or {samples} stamps.")
    return hold.edges(times)


class HeldPath(SampledPath):
    r"""Sample k is held on [t_k, t_k+1): piecewise constant, right-continuous.

        >>> path = ctrnn.HeldPath(torch.tensor([[[1.0]], [[3.0]]]))  # samples at 0 and 1, each held for a unit
        >>> path(torch.tensor(1.5)).tolist()
        [[3.0]]

    Args:    xs: samples; ts: (time + 1,) edges of the intervals, or (time,) stamps. Default: 0, 1, ..., time. With a second
             axis, (.., batch), every sequence has its own. They may require a gradient.
             hold: "forward", a stamp is where its sample begins to act, or "backward", where it has acted since the stamp
             before; open_interval: how long the last one acts, or backward the first; see `Hold`.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError for samples that are not finite floating point (time, batch, feature), or times that
             do not increase or do not fit.
    Source:  "sample and hold".
    """

    steady: bool = True
    degree: int | None = 0
    equations: tuple[str, ...] = (r"x(t) = x_k, \quad t_k \leq t < t_{k+1}",)

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
