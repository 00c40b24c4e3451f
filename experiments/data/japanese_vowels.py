r"""JapaneseVowels: nine speakers say two vowels; 12 cepstral coefficients a frame, series of natural lengths.

@problemName JapaneseVowels
@classLabel true 1 2 3 4 5 6 7 8 9
@data
1.86,1.89,1.93:-0.20,-0.19,-0.23: .. :1        twelve dimensions of as many values, and the speaker
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from experiments.data.untrusted import LimitedFile, lines, number, quoted
from experiments.usage import UsageError

__all__ = ["DIMENSIONS", "SPEAKERS", "read_japanese_vowels"]

DIMENSIONS = 12
SPEAKERS = tuple("123456789")
MOST_BYTES = 8 << 20  # the larger of the two files has 0.65 MB
# What the header may say, where it says it; other entries do not change how the data are written.
HEADER = {
    "@problemname": "JapaneseVowels",
    "@timestamps": "false",
    "@missing": "false",
    "@univariate": "false",
    "@dimensions": str(DIMENSIONS),
    "@classlabel": " ".join(("true", *SPEAKERS)),
}
REQUIRED = ("@problemname", "@classlabel")


def read_japanese_vowels(folder: str | Path, split: str = "train") -> list[tuple[Tensor, int]]:
    r"""Every series of a split with its speaker, in the order of the file.

    Args:    folder: holds JapaneseVowels_TRAIN.ts or JapaneseVowels_TEST.ts, or the same packed, .ts.xz; of both, the plain
             one is read; split: "train" or "test".
    Shape:   a list of (xs, label): xs (time, 12), float64, time from 7 to 29; label 0 to 8.
    Raises:  UsageError for a file that is not there or not what it should be; ValueError for another split.
    Source:  Kudo, Toyama and Shimbo 1999, "Multidimensional curve classification using passing-through regions"; the format
             is that of the UEA archive.
    """
    if split not in ("train", "test"):
        raise ValueError(f'`split` must be "train" or "test", got {split!r}.')
    path = Path(folder) / f"JapaneseVowels_{split.upper()}.ts"
    packed = path.with_name(f"{path.name}.xz")
    if not path.exists() and not packed.exists():
        raise UsageError(f"{folder}: holds neither {path.name} nor {packed.name}.")
    path = path if path.exists() else packed
    with LimitedFile(path, MOST_BYTES) as file:
        rows = lines(file.whole(), path)
    _read_header(rows, path)
    series = [_series(where, line) for where, line in rows if not line.startswith("#")]
    if not series:
        raise UsageError(f"{path}: no series in it.")
    return series


def _read_header(rows: Iterator[tuple[str, str]], path: Path) -> None:
    """Take the lines up to @data, and look whether they are of these data."""
    missing = list(REQUIRED)
    for where, line in rows:
        if line.startswith("#"):
            continue
        key, *words = line.split()
        if not key.startswith("@"):
            raise UsageError(f"{where}: {quoted(line)} stands before @data; header lines start with @.")
        if key.lower() == "@data":
            if missing:
                raise UsageError(f"{where}: the header ends without {' and '.join(missing)}.")
            return
        said, expected = " ".join(words), HEADER.get(key.lower())
        if expected is not None and said.lower() != expected.lower():
            raise UsageError(f"{where}: {key} is {quoted(said)}, for these data it is {expected!r}.")
        missing = [name for name in missing if name != key.lower()]
    raise UsageError(f"{path}: no line @data; this is not a .ts file, or it is cut off.")


def _series(where: str, line: str) -> tuple[Tensor, int]:
    if line.count(":") != DIMENSIONS:
        raise UsageError(f"{where}: {line.count(':')} dimensions and a label, {DIMENSIONS} are expected.")
    *dimensions, label = line.split(":")
    if label not in SPEAKERS:
        raise UsageError(f"{where}: the label is {quoted(label)}, speakers are 1 to {len(SPEAKERS)}.")
    rows = [[number(text, f"{where}, dimension {k}") for text in row.split(",")] for k, row in enumerate(dimensions, 1)]
    for k, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise UsageError(f"{where}: {len(row)} values in dimension {k}, {len(rows[0])} in dimension 1.")
    return torch.tensor(rows, dtype=torch.float64).T.contiguous(), SPEAKERS.index(label)
