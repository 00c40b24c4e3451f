r"""Plays windows of UCI HAR at known speeds that change: eight stretches of 16 samples, each at a speed of its own.

slowness n     a stretch at speed c' = 1/n takes 16 n samples; every n comes as often, in an order of chance
sample         x(c(t)), linear between recorded samples; each window is played to its end
a class        said at the end of the window
delayed        x(c(t) - delay): so many recorded samples ago, at whatever speed they were played
shown          log2 c' is one more feature
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.data.stand_in import FIRST_TRY
from experiments.data.uci_har import ACTIVITIES, CHANNELS, WINDOW
from experiments.seeds import generator as generator_of
from experiments.settings import Count
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.recorded.har import HAR
from experiments.tasks.task import Batch, FromFiles, NumbersAtEverySample

__all__ = ["DelayedHAR", "HARAtSpeeds", "at_times"]

STRETCHES = 8
ASKED = 3  # of the channels: the accelerations of the body


@dataclass(frozen=True)
class HARAtSpeeds(FromFiles):
    r"""Say what a person does, by a window that is played at changing speeds.

    Args:    data: the folder with the files, or "stand-in"; slowness: whole numbers n, of speeds 1/n; shown: whether a model
             sees the speed; clock_given: whether batches say how long samples last.
    Raises:  ValueError for numbers below 1, or of which there are not 1, 2, 4 or 8.
    """

    holds, hint = "the recordings", FIRST_TRY
    output_size = len(ACTIVITIES)
    slowness: tuple[int, ...] = (1, 2, 4, 8)
    shown: bool = False
    clock_given: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.slowness) not in (1, 2, 4, 8) or min(self.slowness) < 1:
            raise ValueError(f"`slowness` must be 1, 2, 4 or 8 whole numbers from 1 on, got {self.slowness}.")

    @property
    def input_size(self) -> int:
        return len(CHANNELS) + self.shown

    @property
    def unwarped(self) -> HAR:
        """Return the task of the same windows as they were recorded."""
        return HAR(data=self.data)

    def fingerprint(self) -> str:
        return self.unwarped.fingerprint()

    def count(self, split: str) -> int:
        return self.unwarped.count(split)

    def target_counts(self) -> dict[str, TargetCounts]:
        return self.unwarped.target_counts()

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        which = torch.randint(self.count(split), (size,), generator=generator)
        return self._played(split, which, [torch.randperm(STRETCHES, generator=generator) for _ in which])

    def batch_of(self, split: str, which: Tensor) -> Batch:
        """Make a batch of these windows, each at speeds that were drawn for it once for all."""
        draws = [generator_of(0, "speeds", split, int(k)) for k in which]
        return self._played(split, which, [torch.randperm(STRETCHES, generator=draw) for draw in draws])

    def _played(self, split: str, which: Tensor, orders: list[Tensor]) -> Batch:
        slowness = torch.tensor(self.slowness)[torch.stack(orders) % len(self.slowness)]
        speeds = torch.stack([1 / n.repeat_interleave(n * (WINDOW // STRETCHES)).double() for n in slowness], 1)
        ts = torch.cat([torch.zeros_like(speeds[:1]), speeds.cumsum(0)])
        recordings = self.unwarped.recorded(split)
        xs = at_times(recordings.xs[:, which], ts[:-1])
        if self.shown:
            xs = torch.cat([xs, speeds[..., None].log2().to(xs)], -1)
        batch = Batch(xs.to(torch.get_default_dtype()), recordings.labels[which], ts=ts if self.clock_given else None)
        return self._asked(batch, recordings.xs[:, which], ts[:-1])

    def _asked(self, batch: Batch, recorded: Tensor, ts: Tensor) -> Batch:
        return batch


@dataclass(frozen=True)
class DelayedHAR(NumbersAtEverySample, HARAtSpeeds):  # type: ignore[misc] # judged as the first one says
    """Say the accelerations of the body some recorded samples ago, at every sample. Args: delay: how many samples ago."""

    measured = ("loss",)
    output_size = ASKED
    delay: Count = 4

    def target_counts(self) -> dict[str, TargetCounts]:
        return {}

    def _asked(self, batch: Batch, recorded: Tensor, ts: Tensor) -> Batch:
        targets = at_times(recorded[..., :ASKED], ts - self.delay).to(batch.xs)
        return Batch(batch.xs, targets, (ts >= self.delay).to(batch.xs), batch.ts)


def at_times(xs: Tensor, ts: Tensor) -> Tensor:
    """Read sequences (time, batch, feature) at times (n, batch), in samples, linearly; outside, the first and the last."""
    ts = ts.clamp(0, len(xs) - 1)
    before, each = ts.long().clamp(max=len(xs) - 2), torch.arange(xs.shape[1])
    return xs[before, each].lerp(xs[before + 1, each], (ts - before)[..., None].to(xs))
