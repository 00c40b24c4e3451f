r"""Arrays: sequences and their classes in .npy files, which may be larger than memory.

    DATA/train-xs.npy         (sequences, time, feature)     as float32 or uint8, say
    DATA/train-labels.npy     (sequences,)                   whole numbers from 0 on
    DATA/train-lengths.npy    (sequences,)                   where there is one: how many samples each has, the first ones
    and the same of validation and test

A batch reads its own sequences and no others, so that memory holds a batch, whatever the files hold.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ctrnn import checks
from experiments.data.mapped import MappedRows, digest_of, drawn_rows
from experiments.settings import check_whole
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import SPLITS, Batch, ClassOfTheSequence, check_split
from experiments.usage import UsageError

__all__ = ["Arrays"]


@dataclass(frozen=True, eq=False)
class _Split:
    xs: MappedRows
    labels: MappedRows
    lengths: MappedRows | None


@dataclass(frozen=True)
class Arrays(ClassOfTheSequence):
    r"""The class of a sequence, of as many sequences as the disk holds.

    Args:    data: the folder with the files; classes: how many; block: of a batch, so many sequences lie next to each other in
             the files, and are read together.
    Raises:  UsageError for a file that cannot be read or does not fit the others, when the split is first needed.
    Source:  this project.
    """

    data: str = ""
    classes: int = 2
    block: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.data, str) or not self.data:
            raise ValueError(f"`data` must name the folder with train-xs.npy, train-labels.npy and so on, got {self.data!r}.")
        check_whole("classes", self.classes, 2, "of one class there is nothing to tell")
        check_whole("block", self.block)

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

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        found = _split(self.data, self.classes, split)
        return self._read(found, drawn_rows(len(found.xs), size, generator, self.block))

    def evaluation(self, split: str, sequences: int, size: int, seed: int) -> Iterator[Batch]:
        """The split in order, each sequence once, at most so many; `seed` changes nothing."""
        check_split(split)
        found = _split(self.data, self.classes, split)
        most, size = min(checks.positive_size("sequences", sequences), len(found.xs)), checks.positive_size("size", size)
        for start in range(0, most, size):
            yield self._read(found, torch.arange(start, min(start + size, most)))

    def target_counts(self) -> dict[str, TargetCounts]:
        """How frequent the classes of "train" are, all that is known without the input."""
        labels = _split(self.data, self.classes, "train").labels
        counts = (torch.bincount(piece.long(), minlength=self.classes) for piece in labels.pieces())
        return {"blind": [functools.reduce(torch.add, counts).tolist()]}

    @staticmethod
    def _read(split: _Split, which: Tensor) -> Batch:
        xs, labels = split.xs[which].to(torch.get_default_dtype()).movedim(0, 1).contiguous(), split.labels[which].long()
        if split.lengths is None:
            return Batch(xs, labels)
        lengths = split.lengths[which].long()
        return Batch(xs[: int(lengths.max())], labels, lengths=lengths)


@functools.cache
def _split(data: str, classes: int, split: str) -> _Split:
    """The files of a split, opened and looked at once in a process."""
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
