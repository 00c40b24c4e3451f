r"""Read arrays larger than memory: rows of a .npy file, when they are asked for, whose pages are given back at once.

    file  ->  pages that hold the rows asked for  ->  a tensor of these rows; the pages are given back at once

A map counts as memory of the process for as long as its pages are there: without giving them back, a run would grow with every
row that it has seen, up to the size of the file. What stays is the system's cache of files, which it takes back when it likes.
"""

from __future__ import annotations

import functools
import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from experiments.data.untrusted import open_array
from experiments.usage import UsageError

__all__ = ["PIECE", "MappedRows", "digest_of", "drawn_rows"]

KINDS = {"f": "numbers with a point, as float32", "iu": "whole numbers, as int64 or uint8", "fiu": "numbers"}
PIECE = 1 << 20  # of rows or bytes at a time
WHOLE = 1 << 30  # bytes up to which a digest is of all of them


class MappedRows:
    r"""Gives the rows of a .npy file as tensors of their own: `rows[2:5]`, `rows[torch.tensor([7, 1])]`.

    Args:    path: the file; dims: axes, the first that of the rows; kinds: "f", "iu" or "fiu", of its numbers; least, most:
             bounds on whole numbers, all of which are looked at, once, in pieces.
    Raises:  UsageError for a file that cannot be read, is no array of such numbers, has others within, or of which a part is
             missing; at reading, for numbers that are not finite. IndexError for a row that is not there.
    """

    def __init__(self, path: Path, dims: int, kinds: str = "fiu", least: int | None = None, most: int | None = None) -> None:
        self.path, self._first = path, 0
        self._values, self._map, self._offset = _opened(path, dims, kinds)
        if least is not None or most is not None:
            _check_bounds(self, least, most)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._values.shape

    def part(self, start: int, stop: int) -> Self:
        """Return the rows from `start` up to `stop` as an array of their own."""
        found = type(self).__new__(type(self))
        found.path, found._first, found._map, found._offset = self.path, self._first + start, self._map, self._offset
        found._values = self._values[start:stop]
        return found

    def __getitem__(self, which: slice | Tensor) -> Tensor:
        index = which if isinstance(which, slice) else which.numpy()
        self._ask_for(index)
        found = np.array(self._values[index], dtype=_torchs(self._values.dtype))
        self._release()
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise UsageError(f"{self.path}: {self._not_finite(which, found)}; fill or drop such rows.")
        return torch.from_numpy(found)

    def pieces(self) -> Iterator[Tensor]:
        """Yield all rows, some at a time."""
        for start in range(0, len(self), PIECE):
            yield self[start : start + PIECE]

    def _ask_for(self, index: slice | np.ndarray) -> None:
        """Have the disk look for all rows at once, and for no others: one after the other each would be waited for, and by
        itself the system reads what lies around each, which is many times as much where rows are few and far between."""
        if not hasattr(mmap, "MADV_WILLNEED"):
            return
        width, page = self._values.strides[0], mmap.PAGESIZE
        for first, last in self._runs(index):
            start, stop = (self._offset + (self._first + row) * width for row in (first, last + 1))
            self._map.madvise(mmap.MADV_WILLNEED, start // page * page, stop - start // page * page)

    def _runs(self, index: slice | np.ndarray) -> list[tuple[int, int]]:
        """Return first and last of rows that follow each other; none where one is asked for that is not there."""
        if isinstance(index, slice):
            found = range(len(self))[index]
            return [(min(found[0], found[-1]), max(found[0], found[-1]))] if found else []
        rows = np.unique(index)
        if not len(rows) or rows[0] < 0 or rows[-1] >= len(self):
            return []
        ends = np.flatnonzero(np.diff(rows) > 1)
        return list(zip(rows[np.r_[0, ends + 1]].tolist(), rows[np.r_[ends, -1]].tolist(), strict=True))

    def _release(self) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):  # Linux and others; elsewhere the system takes pages back when it needs them
            self._map.madvise(mmap.MADV_DONTNEED)

    def _not_finite(self, which: slice | Tensor, found: np.ndarray) -> str:
        rows = torch.tensor(range(len(self))[which]) if isinstance(which, slice) else which
        place = np.argwhere(~np.isfinite(found))[0]
        row = rows[tuple(place[: rows.dim()])]
        return f"{found[tuple(place)]} in row {self._first + int(row)}, counted from 0"


def drawn_rows(count: int, size: int, generator: torch.Generator, block: int = 1) -> Tensor:
    r"""Draw which of so many rows a batch has, (size,): one by one, or in blocks of rows that lie next to each other.

    Blocks make few places of many, which is what a disk is fast at; what lies next to each other should then be no more alike
    than what does not. The last block begins earlier where the rows are no multiple of it.
    """
    block = min(checks.positive_size("block", block), count)
    starts = torch.randint(-(-count // block), (-(-size // block),), generator=generator) * block
    return (starts.clamp(max=count - block)[:, None] + torch.arange(block)).flatten()[:size]


def digest_of(path: Path) -> str:
    """Digest a file's size and bytes; of more than a gigabyte, 1024 pieces of 1 MiB, evenly spread, the ends among them.

    Raises:  UsageError for a file that cannot be read.
    """
    try:
        about = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}).") from None
    return _digest(path, about.st_size, about.st_mtime_ns)


@functools.cache
def _digest(path: Path, size: int, changed: int) -> str:
    hashed = hashlib.sha256(f"{size} ".encode())
    last, pieces = size - PIECE, WHOLE // PIECE
    starts = range(0, size, PIECE) if size <= WHOLE else (last * k // (pieces - 1) for k in range(pieces))
    with path.open("rb") as file:
        for start in starts:
            file.seek(start)
            hashed.update(file.read(PIECE))
    return hashed.hexdigest()


def _opened(path: Path, dims: int, kinds: str) -> tuple[np.ndarray, mmap.mmap, int]:
    """Open a file; return its numbers, their map, and where in the file they begin."""
    values = open_array(path)
    if values.dtype.kind not in kinds:
        raise UsageError(f"{path}: has values of type {values.dtype}; {KINDS[kinds]} are needed.")
    if values.ndim != dims or 0 in values.shape:
        raise UsageError(f"{path}: has shape {values.shape}; {dims} axes are needed, none of them empty.")
    if not values.flags.c_contiguous:
        raise UsageError(f"{path}: is stored column by column, so that a row is all over the file; save numpy.ascontiguousarray.")
    pages = values.base
    assert isinstance(pages, mmap.mmap)
    if hasattr(mmap, "MADV_RANDOM"):
        pages.madvise(mmap.MADV_RANDOM)
    return values, pages, values.offset % mmap.ALLOCATIONGRANULARITY


def _torchs(kind: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that torch can compute with: in this machine's order of bytes; whole numbers without a sign are bytes."""
    return np.dtype(np.int64) if kind.kind == "u" and kind.itemsize > 1 else kind.newbyteorder("=")


def _check_bounds(rows: MappedRows, least: int | None, most: int | None) -> None:
    for k, piece in enumerate(rows.pieces()):
        low, high = int(piece.min()), int(piece.max())
        if (least is not None and low < least) or (most is not None and high > most):
            wrong = low if least is not None and low < least else high
            row = k * PIECE + int((piece == wrong).nonzero()[0, 0])
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise UsageError(f"{rows.path}: has {wrong} in row {row}, counted from 0; numbers {bounds} are needed.")
