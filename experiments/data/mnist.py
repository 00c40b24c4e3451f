r"""MNIST: handwritten digits, 28 x 28 pixels of 0 to 255.

    train-images-idx3-ubyte  train-labels-idx1-ubyte      60,000 in the originals
    t10k-images-idx3-ubyte   t10k-labels-idx1-ubyte       10,000

    bytes 0 to 3     0 0 8 n      unsigned bytes in n dimensions
    4 bytes each     sizes of the dimensions, big end first
    ..               the numbers, the last index fastest

Plain, or packed as they are distributed: .gz. Other images of ten kinds in the same four files are read, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from experiments.data.untrusted import check_two_splits, plain_or_packed, read_bytes
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
    r"""Read the images of a split.

    Args:    folder: holds the four files; of a plain and a packed one, the plain one is read; split: "train" or "test".
    Raises:  UsageError for a file that is not there or not what it should be; ValueError for another split.
    Source:  LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document recognition.
    """
    check_two_splits(split)
    of_images, of_labels = (
        plain_or_packed(Path(folder), f"{NAMES[split]}-{kind}-ubyte", ".gz") for kind in ("images-idx3", "labels-idx1")
    )
    labels, images = _read_idx(of_labels).long(), _read_idx(of_images, SIDE, SIDE)
    if int(labels.max()) >= CLASSES:
        k = int((labels >= CLASSES).int().argmax())
        raise UsageError(f"{of_labels}: label {k + 1} is {int(labels[k])}, from 0 to {CLASSES - 1} is expected.")
    if len(images) != len(labels):
        raise UsageError(f"{of_images}: {len(images):,} images, and {len(labels):,} labels in {of_labels.name}.")
    return Images(images, labels)


def _read_idx(path: Path, *shape: int) -> Tensor:
    """Read the array of a file, (n, *shape), uint8. Raises: UsageError."""
    begin, header = bytes((0, 0, 8, 1 + len(shape))), 8 + 4 * len(shape)
    data = read_bytes(path, header + MOST * math.prod(shape))
    if data[:4] != begin:
        raise UsageError(f"{path}: begins with the bytes {data[:4].hex(' ')}, {begin.hex(' ')} is expected; is it another file?")
    sizes = tuple(int.from_bytes(data[k : k + 4], "big") for k in range(4, header, 4))
    if sizes[1:] != shape or not sizes[0] or len(data) != header + math.prod(sizes):
        raise UsageError(
            f"{path}: says that it holds {' x '.join(map(str, sizes))} numbers, and has {len(data) - header:,} of them; expected "
            f"is {' x '.join(map(str, ('n', *shape)))}. Is it cut off?"
        )
    return torch.from_numpy(np.frombuffer(bytearray(data), np.uint8, offset=header).reshape(sizes))
