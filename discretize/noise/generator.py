r"""Draw standard normal numbers that are functions of a key and of counters alone, by Philox.

    words = philox(counter, key)                 four words of 32 bits of four, by ten rounds of products and exclusive ors
    n0 = sqrt(-2 log u0) cos(2 pi u1), n1 = sqrt(-2 log u0) sin(2 pi u1), and n2, n3 likewise      u = (word + 1/2) / 2^32

A number depends on neither the batch, nor the order of calls, nor the device; kernels compute the same to rounding.

Source:  Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", Philox4x32-10; Box and Muller 1958.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks

__all__ = [
    "KEY_COLUMNS",
    "Seed",
    "check_no_seed",
    "fresh_keys",
    "key_columns",
    "keys_of",
    "noise_keys",
    "normals",
    "normals_of_columns",
    "other_keys",
    "philox",
]

Word = Any  # a tensor, an array or a number
Seed = int | Tensor | None  # (batch,) keys, or what they are made of; None: drawn from torch's generator

WORD = (1 << 32) - 1
PRODUCTS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
MIXED = 3  # rounds, after which each word is made of all, and has the shape to which they broadcast
KEYS, LAYERS = 1, 2  # the last word of a counter: of keys made of a seed, and of a key for a layer; 0 is of normal numbers
# A key of 63 bits as numbers that float32 holds exactly.
KEY_BITS = 21
KEY_COLUMNS = 3


def philox(counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]) -> tuple[Word, Word, Word, Word]:
    """Return four words of 32 bits; words are int64 tensors from 0 to 2^32 - 1, which broadcast, uint64 arrays, or numbers."""
    a, b, c, d = counter
    low, high = key
    for turn in range(ROUNDS):
        # Products wrap at 2^64, and the shift copies the sign: the mask leaves the upper word, and of b and d what counts.
        one, two = a * PRODUCTS[0], c * PRODUCTS[1]
        a, c = two >> 32, one >> 32
        if turn < MIXED:
            a, c = a ^ b ^ low, c ^ d ^ high
        else:  # in place, in half the time
            a ^= b
            a ^= low
            c ^= d
            c ^= high
        b, d = two, one
        a &= WORD
        c &= WORD
        low, high = low + WEYL[0], high + WEYL[1]
    return a, b & WORD, c, d & WORD


def noise_keys(seed: int, batch: int) -> Tensor:
    r"""Return the keys of the samples of a batch, which `seed=seed` stands for: sample k has `noise_keys(seed, k + 1)[k]`.

    Args:    seed: a whole number, of which the last 64 bits count; batch: how many samples.
    Shape:   -> (batch,), int64, from 0 to 2^63 - 1.
    Raises:  TypeError, ValueError for what is no whole number, or a negative size.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"`seed` must be a whole number, got {seed!r}; keys, one for each sample, are an int64 tensor.")
    number = np.arange(checks.size("batch", batch), dtype=np.uint64)  # of so few, NumPy's operations take a third of torch's time
    a, b, *_ = philox((number, 0, 0, KEYS), (seed & WORD, seed >> 32 & WORD))
    return torch.from_numpy((a << 31 | b >> 1).astype(np.int64))


def fresh_keys(seed: Seed, batch: int) -> Tensor:
    """Return (batch,) keys: those of a seed, those given, or without either drawn from torch's generator.

    Raises:  TypeError, ValueError for what is neither a whole number nor (batch,) whole numbers of at least 0.
    """
    if seed is None:
        try:
            return torch.randint(1 << 62, (batch,), device="cpu")
        except RuntimeError as error:  # of `vmap`, which has to be told how
            raise ValueError(
                "Under `torch.func.vmap` noise needs a `seed`, which gives all calls the same noise, or keys, (batch,) for each "
                "call, that go through `vmap`; or `vmap(..., randomness='different')`, or 'same', under which they are drawn."
            ) from error
    if not isinstance(seed, Tensor):
        return noise_keys(seed, batch)
    if seed.dtype != torch.int64:
        raise TypeError(f"`seed` must be a whole number or a tensor of int64 keys, one for each sample, got {seed.dtype}.")
    if seed.shape != (batch,):
        raise ValueError(f"`seed` must have a key for each sample, shape ({batch},), got {tuple(seed.shape)}.")
    if not checks.holds(seed >= 0):
        raise ValueError(f"`seed` must have keys of at least 0, got {int(seed.min())}.")
    return seed


def check_no_seed(seed: object) -> None:
    """Refuse a seed where nothing is drawn."""
    if seed is not None:
        raise ValueError("`seed` is of noise, and here is none; a field has it by `ctrnn.Noisy(field, ctrnn.Noise(sigma))`.")


def key_columns(keys: Tensor) -> Tensor:
    """Cut keys (...) into three whole numbers each, (..., 3), which float32 holds exactly."""
    mask = (1 << KEY_BITS) - 1
    return torch.stack([keys & mask, keys >> KEY_BITS & mask, keys >> 2 * KEY_BITS & mask], -1)


def keys_of(columns: Tensor) -> Tensor:
    """Return the keys (...) of columns (..., 3), on the CPU."""
    low, middle, high = columns.detach().cpu().to(torch.int64).unbind(-1)
    return low + (middle << KEY_BITS) + (high << 2 * KEY_BITS)


def other_keys(keys: Tensor, place: int) -> Tensor:
    """Return other keys of the same samples, those of a layer."""
    low, high, *_ = philox((place, 0, 0, LAYERS), (keys & WORD, keys >> 32))
    return low << 31 | high >> 1


def normals(keys: Tensor, cell: Tensor, node: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    r"""Return standard normal numbers of the counters (cell, node), whole numbers from 0 to 2^32 - 1.

    Shape:   keys, cell, node (...), int64, which broadcast -> (..., width).
    """
    return _in_order(_quarters(keys[..., None], cell[..., None], node[..., None], _units(width, keys.device), dtype), width)


def normals_of_columns(columns: Tensor, node: Tensor, width: int) -> Tensor:
    r"""Return the numbers of `normals` in the dtype of the columns, which hold a key, see `key_columns`, and a cell.

    Shape:   columns (..., 4), node (..., 1) -> (..., width).
    """
    low, middle, high, cell = columns.to(torch.int64).split(1, -1)
    keys = low + (middle << KEY_BITS) + (high << 2 * KEY_BITS)
    return _in_order(_quarters(keys, cell, node.to(torch.int64), _units(width, columns.device), columns.dtype), width)


def _units(width: int, device: torch.device) -> Tensor:
    return torch.arange(-(-width // 4), device=device)


def _in_order(quarters: tuple[Tensor, ...], width: int) -> Tensor:
    """Four parts of all units, one after the other."""
    return torch.cat(quarters, -1)[..., :width]


def _quarters(keys: Tensor, cell: Tensor, node: Tensor, unit: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    words = philox((unit, cell, node, 0), (keys & WORD, keys >> 32))
    quarters = list[Tensor]()
    for one, other in (words[:2], words[2:]):
        size, angle = (-2 * torch.log(_uniform(one, dtype))).sqrt(), 2 * math.pi * _uniform(other, dtype)
        quarters += [size * torch.cos(angle), size * torch.sin(angle)]
    return tuple(quarters)


def _uniform(word: Tensor, dtype: torch.dtype) -> Tensor:
    # In float32 the largest are rounded to 1, whose logarithm is 0.
    return word.to(dtype) * 2.0**-32 + 2.0**-33
