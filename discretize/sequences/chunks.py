r"""Say once where a sequence is read in chunks whose stamps do not meet: time was taken to pass, or not to, that nobody gave.

    ts[0:10], ts[10:20]     held forward    when sample 9 ends is ts[10], which the first chunk was not given
                            held backward   since when sample 10 acts is ts[9], which the second was not given; so of jumps
    ts[0:11], ts[10:21]     edges: they meet

A chunk goes on where its h_0 is what the last call ended with and it begins after that call's last stamp.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from ctrnn import checks
from discretize.errors import StampWarning, warn_user
from discretize.kernels.eligibility import tracing_reason

__all__ = ["end_of_call", "keep_end", "look_at_batch", "look_at_past", "look_at_start"]

NEAR = 1e-3  # of the interval that was taken: stamps of a steady clock, rounded


def look_at_batch(module: nn.Module, x: Tensor, batch: int) -> None:
    """Look at a call with (time, input), of a module whose last batch had as many sequences as there are samples."""
    if batch < 2 or module in _read_alone or tracing_reason() is not None or len(x) != batch:
        return
    _read_alone.add(module)
    warn_user(
        f"`x` has two axes, and is read as one sequence of {batch} samples, (time, input); the batch before had {batch} "
        "sequences. If this is one sample of each, give it a time axis: `x.unsqueeze(1)` where batch_first, else `x[None]`.",
        UserWarning,
    )


class _CallEnd(NamedTuple):
    """Keep the states at the end of a call and how often they had been written into, the last time that was given, the time at
    which the call ends, and whether that time was inferred."""

    h_n: Tensor
    version: int
    given: Tensor
    end: Tensor
    taken: bool


_ends: WeakKeyDictionary[nn.Module, _CallEnd] = WeakKeyDictionary()
_told: WeakSet[nn.Module] = WeakSet()
_read_alone: WeakSet[nn.Module] = WeakSet()


def look_at_start(module: nn.Module, h0: Tensor, edges: Tensor, taken: bool, joined: str) -> None:
    """Look at a call that begins with the states h0 at the first of these edges, `taken` where nobody said when; `joined`: what
    to give then."""
    before = _ends.get(module)
    if before is None or module in _told or not (taken or before.taken):
        return
    if tracing_reason() is not None or checks.is_captured(h0.device):
        return
    start = edges[0].detach()
    if start.dim() and before.end.dim() and start.shape != before.end.shape:
        return
    apart = (start - before.end).abs() > NEAR * (before.end - before.given).abs()
    goes_on = start > before.given
    if before.h_n._version != before.version:  # set to 0 in place, say, where another sequence begins
        return
    if not bool((apart & goes_on).any()) or before.h_n.shape != h0.shape or not torch.equal(before.h_n, h0.detach()):
        return
    _told.add(module)
    k = int((apart & goes_on).reshape(-1).long().argmax())
    ended, begins = (float(each.reshape(-1)[min(k, each.numel() - 1)]) for each in (before.end, start))
    warn_user(
        f"This call goes on from the states that the last one ended with, at the time {ended:.6g}, and begins at {begins:.6g}: "
        + (
            f"its stamps do not say how long ago that was. {joined}"
            if taken
            else "the last sample of a chunk was held for as long as the one before it. Give the first stamp of the next chunk "
            "too: edges, `ts[k : k + n + 1]`."
        ),
        StampWarning,
    )


_states: WeakKeyDictionary[nn.Module, tuple[Tensor, int]] = WeakKeyDictionary()  # at the ends of calls, of fields with delays


def look_at_past(module: nn.Module, h0: Tensor) -> None:
    """Look at a call of a field with delays that begins with the states h0: what was before them is not known."""
    h_n, version = _states.get(module, (None, 0))
    if h_n is None or module in _told or tracing_reason() is not None or checks.is_captured(h0.device):
        return
    if h_n._version != version or h_n.shape != h0.shape or not torch.equal(h_n, h0.detach()):
        return
    _told.add(module)
    warn_user(
        "This call goes on from the states that the last one ended with, and its field has delays: what was before is taken to "
        "be these states, held, and not what the last call passed. Read the sequence in one call, or solve on by "
        "`ContinuousRNN.trajectory(x, h_0, ts, history=...)` or `integrate(..., history=...)` from the trajectory before.",
        UserWarning,
    )


def keep_end(module: nn.Module, h_n: Tensor) -> None:
    """Keep the states at the end of a call, for `look_at_past`."""
    if tracing_reason() is None and not h_n.is_inference():
        _states[module] = (h_n.detach(), h_n._version)


def end_of_call(module: nn.Module, h_n: Tensor, edges: Tensor, taken: bool) -> None:
    """Keep how a call ended, for the next one; `taken`: the last edge was."""
    if tracing_reason() is None and not h_n.is_inference():  # which counts no writes
        last = edges[-2 if taken else -1].detach()
        _ends[module] = _CallEnd(h_n.detach(), h_n._version, last, edges[-1].detach(), taken)
