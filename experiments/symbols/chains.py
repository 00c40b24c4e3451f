r"""Markov chains of a fixed order, and compressors: what costs next to nothing to compare with.

order k    p(y | last k symbols) = (n_y + alpha)/(n + alpha A), counted on the training sequence; order 0 are frequencies
bytes      compressed(training + validation) - compressed(training), 8 bits each
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable

import torch
from torch import Tensor

from experiments.settings import check_whole
from experiments.symbols.checks import check_symbols

__all__ = ["COMPRESSORS", "chain_log_probs", "compressed_bits"]

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "bzip2": lambda data: bz2.compress(data, 9),
    "lzma": lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME),
    "zlib": lambda data: zlib.compress(data, 9),
}


def chain_log_probs(train: Tensor, symbols: Tensor, size: int, order: int, alpha: float = 0.5) -> Tensor:
    r"""What a chain that was counted on `train` says of each symbol of another sequence.

    Args:    order: k; size: A; alpha: added to each count.
    Shape:   train, symbols (time,) int64 -> (time, A), in nats, float64. Before the first symbol stands one of its own.
    """
    check_whole("order", order, 0)
    for given in (train, symbols):
        check_symbols(given, size)
    if not alpha > 0:
        raise ValueError(f"`alpha` must be above 0, got {alpha}: else what was never seen has probability 0.")
    contexts = torch.cat([_contexts(train, size, order), _contexts(symbols, size, order)])
    rows = torch.unique(contexts, dim=0, return_inverse=True)[1] if order else torch.zeros(len(contexts), dtype=torch.int64)
    counts = torch.zeros(int(rows.max()) + 1, size, dtype=torch.float64) + alpha
    counts.index_put_((rows[: len(train)], train), torch.ones(len(train), dtype=torch.float64), accumulate=True)
    return (counts / counts.sum(-1, keepdim=True)).log()[rows[len(train) :]]


def _contexts(symbols: Tensor, size: int, order: int) -> Tensor:
    """The last symbols before each, (time, order)."""
    padded = torch.cat([symbols.new_full((order,), size), symbols])
    return padded.unfold(0, order + 1, 1)[:, :order]


def compressed_bits(name: str, train: str, validation: str) -> float:
    """Bits by which a file of `train` grows with `validation` behind it; text of a byte a symbol."""
    compress = COMPRESSORS[name]
    return 8.0 * (len(compress((train + validation).encode("ascii"))) - len(compress(train.encode("ascii"))))
