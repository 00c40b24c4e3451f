r"""Lend memory that holds what backward passes read, and take it back once no tensor uses it.

A block of many megabytes comes from the system page by page at every call, a fault each. Huge pages would be fewer faults, but
the system may compact memory first, for a second or more. So a few blocks stay: up to MOST bytes that nobody uses. Results of a
call never lie in one.
"""

from __future__ import annotations

import ctypes
import math
import weakref

import torch
from torch import Tensor

__all__ = ["lent"]

LEAST, MOST = 1 << 22, 1 << 28  # bytes: of a block, below which malloc keeps memory itself; and of all that stay

_idle: dict[int, Tensor] = {}  # by address, the last one returned at the end; threads need no lock to look at all or take one


def lent(like: Tensor, *sizes: int) -> Tensor:
    """A tensor of unset numbers of the dtype of `like`, a CPU tensor. Its memory is lent anew once its storage is gone."""
    count = math.prod(sizes)
    if (need := count * like.element_size()) < LEAST:
        return like.new_empty(sizes)
    block = _fitting(need)
    if block is None:
        block = torch.empty(need, dtype=torch.uint8, device="cpu")
    held = (ctypes.c_char * need).from_address(block.data_ptr())  # which the tensor's storage owns
    weakref.finalize(held, _returned, block).atexit = False
    return torch.frombuffer(held, dtype=like.dtype, count=count).view(sizes)


def _fitting(need: int) -> Tensor | None:
    """Take the smallest of the idle blocks that has so many bytes, unless another thread is quicker."""
    fitting = [block for block in list(_idle.values()) if block.numel() >= need]
    return _idle.pop(min(fitting, key=Tensor.numel).data_ptr(), None) if fitting else None


def _returned(block: Tensor) -> None:
    """Add a block to the idle ones, and free the oldest beyond MOST bytes."""
    _idle[block.data_ptr()] = block
    blocks = list(_idle.values())
    while sum(map(Tensor.numel, blocks)) > MOST:
        _idle.pop(blocks.pop(0).data_ptr(), None)
