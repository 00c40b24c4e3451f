r"""Asks which digit an image shows (MNIST), read one pixel at a time.

    rows       from left to right, line by line from the top
    permuted   in another order, the same for all images: pixel k is read the sooner, the smaller sha256("seed k") is
    side       28: every pixel; 14 or 7: means of blocks of 2 x 2 or 4 x 4, before they are permuted

A sample is one number, from 0 to 1. The order is a function of `permutation` on every machine, and of no generator's version.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from experiments.data.mnist import CLASSES, SIDE, Images, read_mnist
from experiments.data.stand_in import FIRST_TRY, STAND_IN, digits
from experiments.digests import digest
from experiments.settings import Bounds, Count
from experiments.tasks.recorded.recordings import Recorded, Sequences
from experiments.usage import UsageError

__all__ = ["Pixels", "permutation"]

SIDES = (28, 14, 7)
PART = 6  # of the training images the last sixth is held out: of 60,000 the last 10,000
WHITE = 255


@dataclass(frozen=True)
class Pixels(Recorded):
    r"""Say the digit (sequential MNIST): ten classes at the last of 784 pixels, or of 196 or 49 blocks of them.

    Args:    order: "rows" or "permuted"; permutation: seed of that order; side: 28, 14 or 7.
    Source:  Le, Jaitly and Hinton 2015, A simple way to initialize recurrent networks of rectified linear units, as in Ohno
             and Kumagai 2021, sec. VI-B and Table I: 50,000 images to train, 10,000 for validation, 10,000 to test. Which are
             held out, the scale of a pixel and the permutation are not printed; they are this project's. So are the blocks.
    """

    input_size, output_size, hint = 1, CLASSES, FIRST_TRY
    order: Literal["rows", "permuted"] = "rows"
    side: Count = SIDE
    permutation: Annotated[int, Bounds(0)] = 0

    def __post_init__(self) -> None:
        if self.side not in SIDES:  # before the speed, which is bounded by it
            raise ValueError(f"`side` must be 28, 14 or 7, got {self.side}.")
        super().__post_init__()
        if self.permutation and self.order != "permuted":
            raise ValueError(f"`permutation` = {self.permutation} changes nothing here: it is for order=permuted. Leave it out.")

    @property
    def shortest(self) -> int:
        return self.side**2

    def read(self) -> tuple[dict[str, Sequences], str]:
        return _images(self.data)

    def numbers(self, xs: Tensor) -> Tensor:
        block = SIDE // self.side
        images = super().numbers(xs).reshape(self.side, block, self.side, block, *xs.shape[1:])
        pixels = images.mean((1, 3)).flatten(0, 1) / WHITE
        return pixels[permutation(len(pixels), self.permutation)] if self.order == "permuted" else pixels


@functools.cache
def permutation(count: int, seed: int) -> Tensor:
    """Return which of so many pixels is read first, second, ...: (count,)."""
    return torch.tensor(sorted(range(count), key=lambda k: hashlib.sha256(f"{seed} {k}".encode()).digest()))


@functools.cache
def _images(folder: str) -> tuple[dict[str, Sequences], str]:
    """Read the splits, pixels as bytes, (784, n, 1); and the digest of the files."""
    read_split = digits if folder == STAND_IN else functools.partial(read_mnist, folder)
    given, test = read_split("train"), read_split("test")
    kept = len(given.labels) - len(given.labels) // PART
    if kept == len(given.labels):
        raise UsageError(f"{folder}: {kept} training images; the last sixth is held out, so {PART} are needed.")
    parts = {"train": slice(kept), "validation": slice(kept, None)}
    splits = {split: _sequences(Images(given.xs[part], given.labels[part])) for split, part in parts.items()}
    return {**splits, "test": _sequences(test)}, digest({"read": [given.xs, given.labels, test.xs, test.labels]})


def _sequences(images: Images) -> Sequences:
    return Sequences(images.xs.flatten(1).T[..., None], images.labels)
