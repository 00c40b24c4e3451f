r"""Asks which of a few frequencies is heard, at any sampling rate.

    x(k) = sin(2 pi k / period + phase) + noise        the phase is drawn, the noise normal: no single sample tells the class
    speed s        the mean of s samples is one sample, or every sample comes 1 / s times; at s / period = 1/2 a tone is lost

Said at the end. A cell has to carry the rhythm itself, so that a change of its own speed is a change of what it hears.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ctrnn import checks
from experiments.settings import Count
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.recorded.recordings import MOST_REPEATS, played
from experiments.tasks.task import Batch, ClassOfTheSequence

__all__ = ["Tones"]


@dataclass(frozen=True)
class Tones(ClassOfTheSequence):
    r"""Say at the end which period is heard: one feature, a class for each.

    Args:    T: samples of a sequence at speed 1; periods: of the tones, in these samples, above 2; deviation: of the noise;
             speed: a whole number, or one over one; clock_given: whether batches say how long samples last.
    """

    input_size = 1
    T: Count = 48
    periods: tuple[float, ...] = (10.0, 15.0, 24.0)
    deviation: float = 0.1
    speed: float = 1.0
    clock_given: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= checks.finite_number("deviation", self.deviation) <= 1e6:
            raise ValueError(f"`deviation` must be from 0 to 1e6, beside tones of size 1, got {self.deviation}.")
        if len(self.periods) < 2 or min(checks.positive_number("periods", period) for period in self.periods) <= 2:
            raise ValueError(f"`periods` must be at least two, each above 2 samples, got {self.periods}.")
        speed = checks.positive_number("speed", self.speed)
        factor = max(speed, 1 / speed)
        if factor > (self.T if speed > 1 else MOST_REPEATS) or abs(factor - round(factor)) > 1e-9 * factor:
            raise ValueError(
                f"`speed` must be a whole number up to `T` = {self.T}, or one over one up to {MOST_REPEATS}, got {self.speed}."
            )

    @property
    def output_size(self) -> int:
        return len(self.periods)

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        targets = torch.randint(len(self.periods), (size,), generator=generator)
        phases = torch.rand(size, generator=generator, dtype=torch.float64)
        noise = torch.randn(self.T, size, generator=generator, dtype=torch.float64)
        turns = torch.arange(self.T, dtype=torch.float64)[:, None] / torch.tensor(self.periods, dtype=torch.float64)[targets]
        xs = ((2 * math.pi * (turns + phases)).sin() + self.deviation * noise)[..., None]
        xs, _ = played(xs.to(torch.get_default_dtype()), None, self.speed)
        ts = self.speed * torch.arange(len(xs) + 1, dtype=torch.float64) if self.clock_given else None
        return Batch(xs, targets, ts=ts)

    def target_counts(self) -> dict[str, TargetCounts]:
        return {"blind": [[1.0] * len(self.periods)]}
