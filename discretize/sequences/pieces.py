r"""Cut sequences where they begin anew, as episodes of reinforcement learning do, and read the pieces as a batch.

    x      a b c d e          pieces   a b c        each from 0, but the first, which goes on from h_0,
    reset  0 0 0 1 0                   d e          unless it is reset too

What a piece is read by, kernel, solver or step, need not know; pieces do not wait for one another.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import checks
from discretize.sequences.ragged import Ragged

__all__ = ["SequencePieces"]


class SequencePieces:
    r"""The pieces of a batch, sequence by sequence.

    Args:    reset: the user's, where a sequence begins anew before it reads that sample; xs: (time, batch, input); ragged: the
             lengths of sequences, if they have any of their own; what stands in `reset` beyond an end is not looked at.
    Shape:   reset (time, batch), or (batch, time) with `batch_first`, or (time,) of one sequence that is no batch.
    Raises:  TypeError, ValueError for what does not fit.
    """

    sequence: Tensor
    start: Tensor

    def __init__(self, reset: object, xs: Tensor, ragged: Ragged | None, batched: bool, batch_first: bool) -> None:
        reset = _checked(reset, xs, batched, batch_first)
        time, batch = reset.shape
        lengths = torch.full((batch,), time, device="cpu") if ragged is None else ragged.lengths
        begins = reset & (torch.arange(time, device="cpu")[:, None] < lengths)
        self.keeps_start: Tensor = ~begins[0]  # (batch,)
        begins[0] = True
        self.sequence, self.start = begins.mT.nonzero().unbind(1)  # of each piece
        self.goes_on: Tensor = self.keeps_start[self.sequence] & (self.start == 0)  # from h_0
        self.last: Tensor = torch.cat([self.sequence.diff() > 0, torch.ones(1, dtype=torch.bool, device="cpu")])
        self.lengths: Tensor = torch.where(self.last, lengths[self.sequence], self.start.roll(-1)) - self.start
        self.number: Tensor = (
            begins.cumsum(0) + begins.sum(0).cumsum(0) - begins.sum(0) - 1
        )  # (time, batch): the piece of each sample

    def __len__(self) -> int:
        return len(self.start)

    def samples(self, xs: Tensor) -> Tensor:
        """(time, batch, input) -> (longest, pieces, input)."""
        return _rows(xs, self._at(int(self.lengths.max()), self.lengths - 1), self.sequence)

    def ragged(self, xs: Tensor) -> Ragged | None:
        """The pieces' lengths; None if they are all the same."""
        return None if bool((self.lengths == self.lengths[0]).all()) else Ragged.of(self.lengths, xs)

    def edges(self, edges: Tensor | None, at_the_end: bool = False) -> Tensor | None:
        """Edges (time + 1,) or (time + 1, batch) -> (longest + 1, pieces); stamps (time, ..) -> (longest, pieces).

        at_the_end: whether a sample is read at the end of its interval; then one that begins anew has none before it.
        """
        if edges is None:
            return None
        more = len(edges) - len(self.number)
        at = self._at(int(self.lengths.max()) + more, self.lengths - 1 + more)
        cut = edges[at] if edges.dim() == 1 else edges[at, self.sequence]
        return torch.cat([torch.where(self.goes_on, cut[:1], cut[1:2]), cut[1:]]) if at_the_end else cut

    def starts(self, h0: Tensor) -> Tensor:
        """(states, batch, width) -> (states, pieces, width)."""
        there = h0.index_select(1, self.sequence.to(h0.device))
        return torch.where(self.goes_on.to(h0.device)[:, None], there, there.new_zeros(()))

    def joined(self, output: Tensor) -> Tensor:
        """(longest, pieces, features) -> (time, batch, features)."""
        rows = torch.arange(len(self.number), device="cpu")[:, None] - self.start[self.number]
        return _rows(output, rows.clamp(max=len(output) - 1), self.number)

    def ends(self, h_n: Tensor) -> Tensor:
        """(states, pieces, width) -> (states, batch, width)."""
        return h_n[:, self.last.to(h_n.device)]

    def _at(self, rows: int, most: Tensor) -> Tensor:
        return self.start + torch.minimum(torch.arange(rows, device="cpu")[:, None], most)


def _rows(x: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """x[row, column] of (rows, columns, features), as whole rows, of which gradients are added up faster."""
    places = row * x.shape[1] + column
    return x.flatten(0, 1).index_select(0, places.flatten().to(x.device)).unflatten(0, places.shape)


def _checked(reset: object, xs: Tensor, batched: bool, batch_first: bool) -> Tensor:
    given = checks.is_tensor("reset", reset)
    if given.dtype != torch.bool:
        raise TypeError(f"`reset` must hold booleans, got {given.dtype}; convert it, for instance with `reset.bool()`.")
    time, batch = xs.shape[:2]
    shape = ((batch, time) if batch_first else (time, batch)) if batched else (time,)
    if tuple(given.shape) != shape:
        raise ValueError(f"`reset` must have shape {shape}, one for each sample of each sequence, got {tuple(given.shape)}.")
    return (given.T if batched and batch_first else given.reshape(time, batch)).cpu()
