r"""Reads sequences and their classes from .npy files, which may be larger than memory.

    DATA/train-xs.npy         (sequences, time, feature)     as float32 or uint8, say
    DATA/train-labels.npy     (sequences,)                   whole numbers from 0 on
    DATA/train-lengths.npy    (sequences,)                   where there is one: how many samples each has, the first ones
    and the same of validation and test

A batch reads its own sequences and no others, so that memory holds a batch, whatever the files hold.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from experiments.data.mapped import MappedRows, digest_of, drawn_rows
from experiments.settings import Bounds, Count
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import SPLITS, Batch, FromFiles
from experiments.usage import UsageError

__all__ = ["Arrays"]


@dataclass(frozen=True, eq=False)
class _Split:
    xs: MappedRows
    labels: MappedRows
    lengths: MappedRows | None


@dataclass(frozen=True)
class Arrays(FromFiles):
    r"""Say the class of a sequence, of as many sequences as the disk holds.

    Args:    data: the folder with the files; classes: how many; block: of a batch, so many sequences lie next to each other in
             the files, and are read together.
    Raises:  UsageError for a file that cannot be read or does not fit the others, when the split is first needed.
    """

    holds = "train-xs.npy, train-labels.npy and so on"
    classes: Annotated[int, Bounds(2, "of one class there is nothing to tell")] = 2
    block: Count = 1

    @property
    def input_size(self) -> int:
        return _split(self.data, self.classes, "train").xs.shape[2]

    @property
    def output_size(self) -> int:
        return self.classes

    def fingerprint(self) -> str:
        for split in SPLITS:  # what is wrong is told before a run begins
            _split(self.data, self.classes, split)
        files = sorted(file for split in SPLITS for file in Path(self.data).glob(f"{split}-*.npy"))
        digests = [f"{file.name} {digest_of(file)}" for file in files]
        return hashlib.sha256("\n".join(digests).encode()).hexdigest()

    def count(self, split: str) -> int:
        return len(_split(self.data, self.classes, split).xs)

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        return self.batch_of(split, drawn_rows(self.count(split), size, generator, self.block))

    def target_counts(self) -> dict[str, TargetCounts]:
        """Count how frequent the classes of "train" are, all that is known without the input."""
        labels = _split(self.data, self.classes, "train").labels
        counts = (torch.bincount(piece.long(), minlength=self.classes) for piece in labels.pieces())
        return {"blind": [functools.reduce(torch.add, counts).tolist()]}

    def batch_of(self, split: str, which: Tensor) -> Batch:
        recordings = _split(self.data, self.classes, split)
        xs, labels = (
            recordings.xs[which].to(torch.get_default_dtype()).movedim(0, 1).contiguous(),
            recordings.labels[which].long(),
        )
        if recordings.lengths is None:
            return Batch(xs, labels)
        lengths = recordings.lengths[which].long()
        return Batch(xs[: int(lengths.max())], labels, lengths=lengths)


@functools.cache
def _split(data: str, classes: int, split: str) -> _Split:
    """Return the files of a split, opened and looked at once in a process."""
    folder = Path(data)
    xs = MappedRows(folder / f"{split}-xs.npy", 3)
    labels = MappedRows(folder / f"{split}-labels.npy", 1, "iu", 0, classes - 1)
    place = folder / f"{split}-lengths.npy"
    lengths = MappedRows(place, 1, "iu", 1, xs.shape[1]) if place.exists() else None
    for other in filter(None, (labels, lengths)):
        if len(other) != len(xs):
            raise UsageError(f"{other.path}: has {len(other):,} rows, and {xs.path.name} has {len(xs):,}; one each is needed.")
    if split != "train" and xs.shape[2] != (features := _split(data, classes, "train").xs.shape[2]):
        raise UsageError(f"{xs.path}: has {xs.shape[2]} features a sample, and train-xs.npy has {features}.")
    return _Split(xs, labels, lengths)
