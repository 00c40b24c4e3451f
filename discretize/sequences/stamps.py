r"""Compute when samples begin and end, for a batch or for each sequence.

    edges    t_0 t_1 ... t_n       sample k is held on [t_k, t_k+1)
    stamps   t_0 t_1 ... t_n-1     from there, or up to there: see `ctrnn.inputs.held`

A sequence that is over keeps its last edge: its clock stands still.
"""

from __future__ import annotations

from weakref import WeakSet

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.inputs.held import Hold, interval_edges
from discretize.errors import StampWarning, warn_user
from discretize.sequences.ragged import Ragged

__all__ = ["number_of_times", "reversed_edges", "sample_edges", "sample_stamps"]

_guessed: WeakSet[nn.Module] = WeakSet()  # modules of which it was said that an interval was taken from others


def sample_edges(
    ts: object, xs: Tensor, ragged: Ragged | None, batched: bool, batch_first: bool, hold: Hold, module: nn.Module
) -> Tensor:
    r"""The user's `ts` as edges, (time + 1,) where the batch shares them, or else (time + 1, batch); float64, on the CPU.

    Times beyond a sequence's end are not looked at. Gradients of `ts` go through. Where a sequence of one stamp lasts as long as
    others of its batch, that is said once for a module.

    Shape:   xs (time, batch, input); ts (time,) or (time + 1,), or (time, batch) or (time + 1, batch), turned if batch-first.
    Raises:  TypeError, ValueError for times that do not fit, are not finite, or do not increase strictly.
    """
    given = _given_times(ts)
    if given.dim() == 1 and ragged is None:
        return interval_edges(len(xs), ts, hold)  # type: ignore[arg-type]
    time, batch = xs.shape[:2]
    times = _in_columns(given, time, batch, batched, batch_first)
    lengths = torch.full((batch,), time, device="cpu") if ragged is None else ragged.lengths
    edges, end = _own_times(times, lengths if len(times) > time else lengths - 1)
    if len(times) == time:
        edges, end = hold.edges(edges), hold.end(edges, (lengths - 1)[None])
        if hold.open_interval is None and bool((lengths == 1).any()) and module not in _guessed:
            _guessed.add(module)
            k = int((lengths == 1).nonzero()[0])
            lasts = float((end[0, k] - times[0, k]).detach())
            warn_user(
                f"Sequence {k} has one sample by one stamp, which does not say how long it acts: here for {lasts:.3g}, the "
                "median interval of its batch. Say it by `open_interval`, or give edges, one more than stamps.",
                StampWarning,
            )
    return torch.where(torch.arange(time + 1, device="cpu")[:, None] < lengths, edges, end)


def sample_stamps(ts: object, xs: Tensor, ragged: Ragged | None, batched: bool, batch_first: bool) -> Tensor:
    r"""The user's `ts` as stamps, for paths that have a sample at each knot: (time,), or (time, batch), as `sample_edges`."""
    given, (time, batch) = _given_times(ts), xs.shape[:2]
    columns = _in_columns(given, time, batch, batched, batch_first)
    if len(columns) != time:
        raise ValueError(f"`ts` has {len(columns)} times for {time} samples; a path through the samples has one stamp for each.")
    if given.dim() == 1 and ragged is None:
        return checks.are_stamps("ts", ts)
    last = torch.full((batch,), time - 1, device="cpu") if ragged is None else ragged.lengths - 1
    stamps, end = _own_times(columns, last)
    return torch.where(torch.arange(time, device="cpu")[:, None] < last, stamps, end)


def reversed_edges(edges: Tensor, lengths: Tensor | None) -> Tensor:
    """Edges of the samples read backwards, each for as long as before: -t_n, ..., -t_0; (time + 1,) or (time + 1, batch)."""
    if lengths is None:
        return -edges.flip(0)
    return -edges.gather(0, (lengths - torch.arange(len(edges), device="cpu")[:, None]).clamp(min=0))


def _own_times(given: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Times (n, batch) in float64, checked up to each sequence's `last`, and that one, (1, batch)."""
    rows, last = torch.arange(len(given), device="cpu")[:, None], last[None]
    checks.evaluation_times("ts", torch.where(rows <= last, given, given[:1]).detach(), 2)
    times = given.to(torch.float64)
    end = times.gather(0, last)
    if given.is_floating_point():
        checks.say_if_rounded("ts", torch.where(rows <= last, times, end).detach(), given.dtype)
    # Beyond an end anything that increases will do, by more than a rounding.
    beyond = end + (rows - last) * (1 + 1e-12 * end.abs())
    checks.are_times("ts", torch.where(rows <= last, times, beyond).detach(), 2)
    return times, end


def _in_columns(given: Tensor, time: int, batch: int, batched: bool, batch_first: bool) -> Tensor:
    """Shared or not, batch-first or not -> (time or time + 1, batch)."""
    if given.dim() == 2 and not batched:
        raise ValueError(f"`x` is one sequence, which takes `ts` of shape ({time},) or ({time + 1},), got {tuple(given.shape)}.")
    columns = given.mT if given.dim() == 2 and batch_first else given
    columns = columns[:, None].expand(-1, batch) if columns.dim() == 1 else columns
    if columns.shape not in ((time, batch), (time + 1, batch)):
        own = [(batch, time), (batch, time + 1)] if batch_first else [(time, batch), (time + 1, batch)]
        raise ValueError(
            f"`ts` must be ({time},) stamps or ({time + 1},) edges, or {own[0]} or {own[1]} for every sequence its own, "
            f"got shape {tuple(given.shape)}."
        )
    return columns


def number_of_times(ts: object, batch_first: bool) -> int:
    """How many times the user's `ts` has, of each sequence."""
    shape = _given_times(ts).shape
    return shape[-1 if batch_first else 0]


def _given_times(ts: object) -> Tensor:
    """The user's `ts` as a tensor, not yet checked for more."""
    try:
        given = checks.as_numbers(ts)
        return given if given.device.type == "meta" else given.cpu()  # refused by the checks of times
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise checks.not_times("ts", ts) from error
