r"""JapaneseVowels: nine speakers say two vowels; 12 cepstral coefficients a frame, series of natural lengths.

@problemName JapaneseVowels
@classLabel true 1 2 3 4 5 6 7 8 9
@data
1.86,1.89,1.93:-0.20,-0.19,-0.23: .. :1        twelve dimensions of as many values, and the speaker
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from experiments.data.untrusted import check_two_splits, lines, number, plain_or_packed, quoted, read_bytes
from experiments.usage import UsageError

__all__ = ["DIMENSIONS", "SPEAKERS", "read_japanese_vowels"]

DIMENSIONS = 12
SPEAKERS = tuple("123456789")
MOST_BYTES = 8 << 20  # the larger of the two files has 0.65 MB
HEADER = {"@problemname japanesevowels", "@classlabel true 1 2 3 4 5 6 7 8 9"}  # by which the data are known


def read_japanese_vowels(folder: str | Path, split: str = "train") -> list[tuple[Tensor, int]]:
    r"""Read every series of a split with its speaker, in the order of the file.

    Args:    folder: holds JapaneseVowels_TRAIN.ts or JapaneseVowels_TEST.ts, or the same packed, .ts.xz; of both, the plain
             one is read; split: "train" or "test".
    Shape:   a list of (xs, label): xs (time, 12), float64, time from 7 to 29; label 0 to 8.
    Raises:  UsageError for a file that is not there or not what it should be; ValueError for another split.
    Source:  Kudo, Toyama and Shimbo 1999, "Multidimensional curve classification using passing-through regions"; the format
             is that of the UEA archive.
    """
    check_two_splits(split)
    path = plain_or_packed(Path(folder), f"JapaneseVowels_{split.upper()}.ts", ".xz")
    rows = [(where, line) for where, line in lines(read_bytes(path, MOST_BYTES), path) if not line.startswith("#")]
    texts = [" ".join(line.lower().split()) for _, line in rows]
    if "@data" not in texts or not set(texts[: texts.index("@data")]) >= HEADER:
        raise UsageError(f"{path}: lines {' and '.join(sorted(HEADER))} are expected before @data; this is another file.")
    series = [_series(where, line) for where, line in rows[texts.index("@data") + 1 :]]
    if not series:
        raise UsageError(f"{path}: no series in it.")
    return series


def _series(where: str, line: str) -> tuple[Tensor, int]:
    *dimensions, label = line.split(":")
    if label not in SPEAKERS:
        raise UsageError(f"{where}: the label is {quoted(label)}, speakers are 1 to {len(SPEAKERS)}.")
    rows = [[number(text, f"{where}, dimension {k}") for text in row.split(",")] for k, row in enumerate(dimensions, 1)]
    if len(rows) != DIMENSIONS or len({len(row) for row in rows}) > 1:
        raise UsageError(
            f"{where}: dimensions of {', '.join(str(len(row)) for row in rows)} values, {DIMENSIONS} equal ones are expected."
        )
    return torch.tensor(rows, dtype=torch.float64).T.contiguous(), SPEAKERS.index(label)
