"""Evaluates a path by segment index, data gathered once.

Segments follow one another in every sequence, but they need not begin or end together: which piece each reads is settled
before the solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from ctrnn.inputs.path import Data, Path

__all__ = ["Rows", "SegmentInput", "select"]

BLOCK = 256  # rows that are taken apart at once


class Rows:
    """Takes tensors of equal length apart into rows, a block of them when one is first read: kernels read none.

    A row at a time would cost a gradient of full size for each.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._parts = [x.split(BLOCK) for x in tensors]
        self._blocks: dict[int, list[Data]] = {}

    def __getitem__(self, j: int) -> Data:
        number, row = divmod(j, BLOCK)
        if number not in self._blocks:
            with torch.enable_grad():  # the first caller may want none
                self._blocks[number] = list(zip(*(parts[number].unbind(0) for parts in self._parts), strict=True))
        return self._blocks[number][row]


class SegmentInput:
    r"""Gives what `path.evaluate` reads by the number of a segment.

    Args:    path; pieces: the piece of each segment, (segments,) shared by the batch, or (segments, batch).
    """

    path: Path
    pieces: Tensor
    steady: bool
    own_times: bool
    _every: Data | None = None

    def __init__(self, path: Path, pieces: Tensor) -> None:
        self.path, self.pieces, self.steady, self.own_times = path, pieces, path.steady, path.own_times

    @cached_property
    def _rows(self) -> Rows:
        with torch.enable_grad():
            return Rows(self.path.gather(self.pieces))

    def whole(self, j: int) -> Data:
        """Return the data of segment j for all sequences."""
        return self._rows[j]

    def data(self, j: int, rows: Tensor | None = None) -> Data:
        """Return the data of segment j for these sequences, None: all."""
        return self.whole(j) if rows is None else [select(x, rows) for x in self.whole(j)]

    def data_at(self, numbers: Tensor, rows: Tensor, batch: int | None = None) -> Data:
        """Return the data of places in several segments: numbers, rows (m,); batch: of a path of sequences."""
        if self._every is None:
            as_is = batch is None or self.pieces.dim() > 1
            pieces = self.pieces if as_is else self.pieces[:, None].expand(-1, batch or 0)
            with torch.enable_grad():  # the first caller may want none
                self._every = self.path.gather(pieces)
        data = []
        for x in self._every:
            there, whose = numbers.to(x.device), rows.to(x.device)
            data.append(x[there, whose] if x.dim() > 1 and x.shape[1] > 1 else x[there, 0] if x.dim() > 1 else x[there, None])
        return data

    def learned(self, j: int) -> list[Tensor]:
        """Return the data of segment j that require a gradient."""
        return [x for x in self.whole(j) if x.requires_grad]


def select(x: Tensor, rows: Tensor | None) -> Tensor:
    """Choose rows of what has one for each sequence; what all share stays as it is."""
    return x if rows is None or x.dim() == 0 or len(x) == 1 else x.index_select(0, rows.to(x.device))
