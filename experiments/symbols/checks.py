"""What a sequence of symbols must be: int64, one axis, numbers of an alphabet."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_symbols"]


def check_symbols(symbols: Tensor, size: int, least: int = 0) -> Tensor:
    """The sequence (time,), at least so long, of an alphabet of that size. Raises: ValueError for what is none."""
    if symbols.dtype != torch.int64 or symbols.dim() != 1:
        raise ValueError(f"`symbols` must be int64 of shape (time,), got {symbols.dtype} of shape {tuple(symbols.shape)}.")
    if len(symbols) < least:
        raise ValueError(f"`symbols` must be at least {least}, got {len(symbols)}.")
    if len(symbols) and not 0 <= int(symbols.min()) <= int(symbols.max()) < size:
        raise ValueError(f"`symbols` must be from 0 to {size - 1}, got {int(symbols.min())} to {int(symbols.max())}.")
    return symbols
