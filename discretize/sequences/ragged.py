r"""Run sequences of different lengths in one batch: after its own last sample a sequence's clock stands still.

    lengths 3, 1       x  a b c        read  1 1 1        samples gone by  0 1 2 3
                          d . .              1 0 0                         0 1 1 1

What stands in x beyond an end is never looked at, a step over no time leaves a state as it is, and outputs there are 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

__all__ = ["Ragged", "RaggedCall", "gone_by", "packed_as", "padded"]


@dataclass(frozen=True)
class Ragged:
    """Lengths (batch,) on the CPU, and whether a sequence still reads: (time, batch) on the samples' device. `packed`: the
    samples were packed, the longest sequence first."""

    lengths: Tensor
    read: Tensor
    packed: bool = False

    @classmethod
    def of(cls, lengths: object, xs: Tensor) -> Ragged:
        """The user's lengths of sequences padded to (time, batch, input)."""
        time, batch = xs.shape[:2]
        checked = _checked(lengths, time, batch)
        return cls(checked, (torch.arange(time, device="cpu")[:, None] < checked).to(xs.device))

    def samples(self, xs: Tensor) -> Tensor:
        """(time, batch, input) with each sequence's last sample, without gradient, in place of what comes after it."""
        return torch.where(self.read[..., None], xs, self.final(xs.detach()))

    def dropout(self, xs: Tensor, p: float, training: bool) -> Tensor:
        """Drop numbers as torch's modules do: of what is packed, numbers are drawn for samples that are there alone."""
        if not (self.packed and training and p):
            return dropout(xs, p, training)
        rows = self.read.flatten().nonzero()[:, 0]
        flat = xs.flatten(0, 1)
        return flat.index_copy(0, rows, dropout(flat.index_select(0, rows), p)).view_as(xs)

    def output(self, visible: Tensor) -> Tensor:
        """(time, batch, hidden), 0 beyond the end of a sequence."""
        return torch.where(self.read[..., None], visible, visible.new_zeros(()))

    def final(self, states: Tensor) -> Tensor:
        """At each sequence's own last sample: (time, batch, ...) -> (1, batch, ...)."""
        last = (self.lengths - 1).to(states.device)
        return states[last, torch.arange(len(last), device=states.device)][None]

    def turned(self, xs: Tensor) -> Tensor:
        """Each sequence from its own end to its start, what comes after it where it was: (time, batch, ...) likewise."""
        time, batch = self.read.shape
        steps = torch.arange(time, device="cpu")[:, None]
        rows = torch.where(steps < self.lengths, self.lengths - 1 - steps, steps) * batch + torch.arange(batch, device="cpu")
        # Not by two indices: whole rows, of which gradients are added up faster.
        return xs.flatten(0, 1).index_select(0, rows.flatten().to(xs.device)).unflatten(0, (time, batch))


def gone_by(xs: Tensor, ragged: Ragged | None) -> Tensor:
    """How many samples a sequence has read, before each and after the last: (time + 1,), or (time + 1, batch), float64."""
    if ragged is None:
        return torch.arange(len(xs) + 1, dtype=torch.float64, device="cpu")
    return torch.minimum(torch.arange(len(xs) + 1, device="cpu")[:, None], ragged.lengths).to(torch.float64)


def padded(packed: PackedSequence) -> tuple[Tensor, Ragged]:
    """The packed sequences in the order in which they lie there: (time, batch, input), 0 beyond the ends."""
    if packed.data.dim() != 2:
        raise ValueError(f"`x` must pack sequences (time, input), got values of shape {tuple(packed.data.shape)}.")
    xs, lengths = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))
    return xs, replace(Ragged.of(lengths, xs), packed=True)


def packed_as(packed: PackedSequence, output: Tensor, ragged: Ragged) -> PackedSequence:
    """(time, batch, hidden), the sequences as they lie in `packed`, packed like these."""
    return packed._replace(data=pack_padded_sequence(output, ragged.lengths).data)


def _checked(lengths: object, time: int, batch: int) -> Tensor:
    try:
        given = torch.as_tensor(lengths, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"`lengths` must be whole numbers, one for each sequence, got {type(lengths).__name__}.") from error
    if given.numel() and (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool):
        raise TypeError(f"`lengths` must be whole numbers, got {given.dtype}; convert them, for instance with `lengths.long()`.")
    if given.shape != (batch,):
        raise ValueError(f"`lengths` must have shape (batch,) = ({batch},), one for each sequence, got {tuple(given.shape)}.")
    given = given.detach().to(device="cpu", dtype=torch.int64)
    wrong = (given < 1) | (given > time)
    if bool(wrong.any()):
        k = int(torch.nonzero(wrong)[0])
        raise ValueError(f"`lengths` must be from 1 to the {time} samples of `x`, got {int(given[k])} for sequence {k}.")
    return given


class RaggedCall(NamedTuple):
    """A call that has been checked: samples (time, batch, input), starts (num_states, batch, state), and as `sample_edges`
    and `Ragged` have them when samples begin and end and which sequences are over."""

    xs: Tensor
    h0: Tensor
    edges: Tensor | None
    ragged: Ragged | None
