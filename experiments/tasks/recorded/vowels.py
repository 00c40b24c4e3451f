r"""Asks who speaks a vowel (JapaneseVowels), by series of natural lengths.

Features are standardized by mean and deviation of "train", the originals' training split without "validation".
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from experiments.data.japanese_vowels import DIMENSIONS, SPEAKERS, read_japanese_vowels
from experiments.digests import digest
from experiments.tasks.recorded.recordings import Recorded, Sequences, scale_of
from experiments.usage import UsageError

__all__ = ["Vowels"]

EVERY = 5  # series of the training split of which the last is held out: 6 of the 30 of each speaker
SHORTEST = 7  # frames, in both splits


@dataclass(frozen=True)
class Vowels(Recorded):
    r"""Say who of nine speaks, by 7 to 29 frames (JapaneseVowels).

    Source:  Kudo, Toyama and Shimbo 1999. "validation" is every fifth series of the training split, as it has the same nine
             speakers; "test" is the originals'.
    """

    input_size, output_size, shortest = DIMENSIONS, len(SPEAKERS), SHORTEST

    def read(self) -> tuple[dict[str, Sequences], str]:
        return _vowels(self.data)


@functools.cache
def _vowels(folder: str) -> tuple[dict[str, Sequences], str]:
    """Read the splits, and the digest of the files."""
    given = read_japanese_vowels(folder, "train")
    parts = {
        "train": [pair for k, pair in enumerate(given) if k % EVERY != EVERY - 1],
        "validation": given[EVERY - 1 :: EVERY],
        "test": read_japanese_vowels(folder, "test"),
    }
    if not parts["validation"]:
        raise UsageError(f"{folder}: {len(given)} series in the training split; every fifth is held out, so 5 are needed.")
    if any(len(xs) < SHORTEST for series in parts.values() for xs, _ in series):
        raise UsageError(f"{folder}: a series has fewer than {SHORTEST} frames; these data have at least as many.")
    mean, deviation = scale_of(torch.cat([xs for xs, _ in parts["train"]]), folder)
    splits = {split: _padded([((xs - mean) / deviation, label) for xs, label in series]) for split, series in parts.items()}
    return splits, digest({"read": [given, parts["test"]]})


def _padded(series: list[tuple[Tensor, int]]) -> Sequences:
    xs = [xs for xs, _ in series]
    return Sequences(pad_sequence(xs), torch.tensor([label for _, label in series]), torch.tensor([len(x) for x in xs]))
