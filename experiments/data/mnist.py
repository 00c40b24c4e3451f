r"""MNIST: handwritten digits, 28 x 28 pixels of 0 to 255.

    train-images-idx3-ubyte  train-labels-idx1-ubyte      60,000 in the originals
    t10k-images-idx3-ubyte   t10k-labels-idx1-ubyte       10,000

Plain, or packed as they are distributed: .gz. Other images of ten kinds in the same four files are read, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from experiments.data.idx import read_idx
from experiments.usage import UsageError

__all__ = ["CLASSES", "SIDE", "Images", "read_mnist"]

SIDE, CLASSES = 28, 10
MOST = 100_000  # images in a file
NAMES = {"train": "train", "test": "t10k"}


@dataclass(frozen=True, eq=False)
class Images:
    """Images in the order of the file: xs (n, 28, 28), uint8; labels (n,), 0 to 9."""

    xs: Tensor
    labels: Tensor


def read_mnist(folder: str | Path, split: str = "train") -> Images:
    r"""The images of a split.

    Args:    folder: holds the four files; of a plain and a packed one, the plain one is read; split: "train" or "test".
    Raises:  UsageError for a file that is not there or not what it should be; ValueError for another split.
    Source:  LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document recognition.
    """
    if split not in NAMES:
        raise ValueError(f'`split` must be "train" or "test", got {split!r}.')
    of_images, of_labels = (_file(Path(folder), f"{NAMES[split]}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
    labels = torch.from_numpy(read_idx(of_labels, "uint8", (None,), MOST)).long()
    if int(labels.max()) >= CLASSES:
        k = int((labels >= CLASSES).int().argmax())
        raise UsageError(f"{of_labels}: label {k + 1} is {int(labels[k])}, from 0 to {CLASSES - 1} is expected.")
    images = torch.from_numpy(read_idx(of_images, "uint8", (None, SIDE, SIDE), MOST))
    if len(images) != len(labels):
        raise UsageError(f"{of_images}: {len(images):,} images, and {len(labels):,} labels in {of_labels.name}.")
    return Images(images, labels)


def _file(folder: Path, name: str) -> Path:
    plain, packed = folder / name, folder / f"{name}.gz"
    if not plain.exists() and not packed.exists():
        raise UsageError(f"{folder}: holds neither {plain.name} nor {packed.name}.")
    return plain if plain.exists() else packed
