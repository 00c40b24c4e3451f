r"""Lend memory that holds what backward passes read, and what ensembles give, and take it back once no tensor uses it.

    up to MOST bytes that nobody uses   stay as they are
    beyond, up to SHARE of all memory   stay, and the system takes their pages back once it needs some (MADV_FREE)
    beyond that                         are given back, the oldest first

A block of many megabytes comes from the system page by page at every call, a fault each. Huge pages would be fewer faults, but
the system may compact memory first, for a second or more. Pages that the system may take cost a sixth of new ones. Of a block
that is lent again the system may join pages in the background, some ten seconds later: calls then take 2 to 3 % less.

Smaller blocks are malloc's. glibc's gives freed memory beyond a bound back to the system, which is twice the largest block that
was freed until then: where all are small, calls fetch a part of their memory anew each time, and it is luck which part. Of 32 MiB
and more it keeps none.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import os
import weakref
from functools import cache

import torch
from torch import Tensor

__all__ = ["keep_freed", "lent", "lent_if_large"]

LEAST, MOST = 1 << 22, 1 << 28  # bytes: of a block, below which malloc keeps memory itself; and of all that stay
SHARE = 0.25  # of the machine's memory
LOOSE = 2  # times the bytes asked for that a block may have
LARGEST = (1 << 25) - (1 << 16)  # bytes: of the largest block from which glibc learns its bounds, 32 MiB with what it adds

PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}  # from children of a fork


class _Pages:
    """Memory of the system, in whole pages."""

    def __init__(self, need: int) -> None:
        self.pages = mmap.mmap(-1, need, **PRIVATE)
        self.size, self.place = need, ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.stays, self.turn = True, 0  # whether its pages are not the system's to take; when it was used last
        self.times = 0  # that it was lent since its pages were new

    def leave(self) -> bool:
        """Let the system take the pages back once it needs some; whether it can be told."""
        if not self._advise("MADV_FREE"):
            return False
        self._advise("MADV_NOHUGEPAGE")  # those that it takes come one by one
        self.stays, self.times = False, 0
        return True

    def lend(self) -> None:
        """Count a use; let pages that have been written be joined."""
        if self.times == 1:
            self._advise("MADV_HUGEPAGE")
        self.times += 1

    def _advise(self, advice: str) -> bool:
        """Return whether the system takes it."""
        try:
            self.pages.madvise(getattr(mmap, advice))
        except (AttributeError, OSError):
            return False
        return True


_idle: dict[int, _Pages] = {}  # by address; threads need no lock to look at all or take one
_turns = itertools.count()


@cache
def keep_freed() -> None:
    """Have glibc's malloc keep up to 64 MiB that were freed, as it does once a program has freed a tensor of 32 MiB.

    Bounds that the user has set stay (MALLOC_TRIM_THRESHOLD_ and others of mallopt); other mallocs do nothing by it. No page is
    touched. Solves do without: what they keep grows as they go, and parts that it has left would stay, too.
    """
    torch.empty(LARGEST, dtype=torch.uint8, device="cpu")


def lent(like: Tensor, *sizes: int) -> Tensor:
    """A tensor of unset numbers of the dtype of `like`, a CPU tensor. Its memory is lent anew once its storage is gone,
    which torch cannot make larger."""
    count = math.prod(sizes)
    if (need := count * like.element_size()) < LEAST:
        return like.new_empty(sizes)
    block = _fitting(need) or _Pages(need)
    block.lend()
    held = (ctypes.c_char * need).from_buffer(block.pages)  # which the tensor's storage owns
    weakref.finalize(held, _returned, block).atexit = False
    storage = torch.frombuffer(held, dtype=like.dtype, count=count).untyped_storage()
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    # No view: autograd refuses to write into one that a Function returns.
    return like.new_empty(0).set_(storage, 0, sizes, strides)


def lent_if_large(like: Tensor, *sizes: int) -> Tensor:
    """Lend memory for a tensor that is larger than what malloc keeps; leave a smaller one to malloc."""
    return like.new_empty(sizes) if math.prod(sizes) * like.element_size() < LARGEST else lent(like, *sizes)


def _fitting(need: int) -> _Pages | None:
    """Take the smallest of the idle blocks that has so many bytes, and not many more, unless another thread is quicker."""
    fitting = [block for block in list(_idle.values()) if need <= block.size <= LOOSE * need]
    return _idle.pop(min(fitting, key=lambda block: block.size).place, None) if fitting else None


def _returned(block: _Pages) -> None:
    """Add a block to the idle ones; leave to the system, or free, those that were used longest ago, beyond what stays."""
    block.stays, block.turn = True, next(_turns)
    _idle[block.place] = block
    room, every = MOST, max(MOST, SHARE * _memory())
    for each in sorted(_idle.values(), key=lambda block: -block.turn):
        every -= each.size
        if each.stays and each.size <= room:
            room -= each.size
        elif (each.stays or every < 0) and _idle.pop(each.place, None) is each:
            if every >= 0 and each.leave():
                _idle[each.place] = each  # not before: no other thread may write while its pages are left
            else:
                every += each.size


def _memory() -> int:
    """Bytes of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
