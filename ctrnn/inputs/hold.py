r"""When held samples act: from their stamps on, or up to them.

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

__all__ = ["FORWARD", "Hold"]

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class Hold:
    r"""How stamps become the edges of the intervals on which samples are held.

    Args:    direction: "forward" or "backward"; open_interval: length of the interval that stamps leave open, > 0. If it is not
             given, the last sample is held for as long as the one before it (a single one: for 1), and backward stamps are
             refused: nothing before the first one says since when its sample acts.
    Source:  this project; backward is the elapsed time of Che et al. 2018 (GRU-D) and Rubanova et al. 2019 (ODE-RNN).
    """

    direction: str = "forward"
    open_interval: float | None = None

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f'`hold` must be "forward" or "backward", got {self.direction!r}.')
        if self.open_interval is not None:
            object.__setattr__(self, "open_interval", checks.positive_number("open_interval", self.open_interval))

    def edges(self, stamps: Tensor) -> Tensor:
        """(time,) -> (time + 1,), or (time, batch) -> (time + 1, batch)."""
        if self.direction == "forward":
            return torch.cat([stamps, self.end(stamps, len(stamps) - 1)])
        if self.open_interval is None:
            raise ValueError(
                f'`ts` has {len(stamps)} stamps, which do not say since when the first sample acts with `hold="backward"`; '
                f"give {len(stamps) + 1} edges, the first one the time of the state at the start, or `open_interval`, its length."
            )
        return torch.cat([stamps[:1] - self.open_interval, stamps])

    def end(self, stamps: Tensor, last: int | Tensor) -> Tensor:
        """Where the sample of the last stamp stops to act, (1, ...); `last`: its number, or (1, batch) of each column."""
        last = torch.as_tensor(last).expand(1, *stamps.shape[1:])
        end = stamps.gather(0, last)
        if self.direction == "backward":
            return end
        if self.open_interval is not None:
            return end + self.open_interval
        return end + torch.where(last > 0, end - stamps.gather(0, (last - 1).clamp(min=0)), torch.ones_like(end))


FORWARD = Hold()
