r"""Plays recorded sequences, as these tasks have in common.

    speed c      the mean of c samples after one another is one sample; what is left over at the end is dropped
    speed 1/c    every sample c times
    clock_given  batch.ts says that a sample lasts `speed` units of the original; else one unit each
    kept         the first sample and this share of the others, drawn once for all; batch.ts then are the stamps of those kept

Means and not every c-th sample: what is faster than the new rate would be folded into slow waves by leaving samples out, and
the mean keeps the integral of what a field reads over that time.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ctrnn import checks
from experiments.data.scales import CONSTANT
from experiments.seeds import generator as generator_of
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import Batch, FromFiles
from experiments.usage import UsageError

__all__ = ["MOST_REPEATS", "Recorded", "Sequences", "played", "scale_of", "thinned"]

MOST_REPEATS = 1000


@dataclass(frozen=True, eq=False)
class Sequences:
    """Holds one split: xs (time, n, feature), labels (n,), lengths (n,) or None."""

    xs: Tensor
    labels: Tensor
    lengths: Tensor | None = None


@dataclass(frozen=True)
class Recorded(FromFiles):
    r"""Say the class of a recorded sequence, played at some speed.

    Args:    data: the folder with the files, or "stand-in" where one is built in; speed: a whole number, or one over a whole
             number; clock_given: whether batches say how long their samples last; kept: share of the samples not lost.
    Raises:  UsageError for a file that cannot be read, when it is first needed. A folder is read once in a process.
    """

    holds = "the recordings"
    speed: float = 1.0
    clock_given: bool = False
    kept: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.kept <= 1:
            raise ValueError(f"`kept` must be a share above 0 and up to 1, got {self.kept}.")
        speed = checks.positive_number("speed", self.speed)
        factor = max(speed, 1 / speed)
        if not math.isfinite(factor) or abs(factor - round(factor)) > 1e-9 * factor or 1 / speed > MOST_REPEATS + 0.5:
            raise ValueError(f"`speed` must be a whole number, or one over one that is at most {MOST_REPEATS}, got {self.speed}.")
        if speed > self.shortest:
            raise ValueError(f"`speed` must be at most {self.shortest}, the samples of the shortest sequence, got {self.speed}.")

    @property
    @abstractmethod
    def shortest(self) -> int:
        """Return the samples of the shortest sequence."""

    @abstractmethod
    def read(self) -> tuple[dict[str, Sequences], str]:
        """Read the splits, standardized, and a digest of what the files say.

        The digest is of what was read before anything was computed of it: sums may end on other bits elsewhere.
        """

    def recorded(self, split: str) -> Sequences:
        """Return a split at its own speed."""
        return self.read()[0][split]

    def numbers(self, xs: Tensor) -> Tensor:
        """Return samples as a model reads them, of those that are kept in memory."""
        return xs.to(torch.get_default_dtype())

    def fingerprint(self) -> str:
        return self.read()[1]

    def count(self, split: str) -> int:
        return len(self.recorded(split).labels)

    def target_counts(self) -> dict[str, TargetCounts]:
        """Count how frequent the classes of "train" are, all that is known without the input."""
        return {"blind": [torch.bincount(self.recorded("train").labels, minlength=self.output_size).tolist()]}

    def batch_of(self, split: str, which: Tensor) -> Batch:
        recordings = self.recorded(split)
        lengths = None if recordings.lengths is None else recordings.lengths[which]
        xs = self.numbers(recordings.xs[: None if lengths is None else int(lengths.max()), which])
        xs, lengths = played(xs, lengths, self.speed)
        ts = torch.arange(len(xs) + 1, dtype=torch.float64)
        if self.kept < 1:
            samples = [len(xs)] * len(which) if lengths is None else lengths.tolist()
            dice = [generator_of(0, "kept", split, int(k)) for k in which]
            # In float32, so that the same ones are kept in either dtype.
            draws = [torch.rand(n, generator=die, dtype=torch.float32) for n, die in zip(samples, dice, strict=True)]
            xs, ts, lengths = thinned(xs, pad_sequence(draws, padding_value=1.0) < self.kept)
        return Batch(xs, recordings.labels[which], ts=self.speed * ts if self.clock_given else None, lengths=lengths)


def played(xs: Tensor, lengths: Tensor | None, speed: float) -> tuple[Tensor, Tensor | None]:
    """Play sequences (time, batch, feature) and their lengths `speed` times as fast."""
    if speed <= 1:
        repeats = round(1 / speed)
        return xs.repeat_interleave(repeats, 0), None if lengths is None else lengths * repeats
    together = round(speed)
    whole = len(xs) // together
    return xs[: whole * together].unflatten(0, (whole, together)).mean(1), None if lengths is None else lengths // together


def thinned(xs: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keep the first sample of each sequence and those of `kept`, (time, batch); return them, their numbers, how many."""
    kept = kept.index_fill(0, torch.tensor([0]), True)
    lengths = kept.sum(0)
    order = (~kept).long().argsort(dim=0, stable=True)[: int(lengths.max())]
    return xs.gather(0, order[..., None].expand(-1, -1, xs.shape[-1])), order.double(), lengths


def scale_of(samples: Tensor, folder: str) -> tuple[Tensor, Tensor]:
    """Compute mean and deviation of each feature, over samples (n, feature)."""
    deviation, mean = torch.std_mean(samples.double(), dim=0, correction=0)
    same = deviation <= CONSTANT * samples.double().abs().amax(0)
    if bool(same.any()):
        raise UsageError(f"{folder}: feature {int(same.long().argmax())} is the same in every sample of the training split.")
    return mean.to(samples), deviation.to(samples)
