r"""Bits that a model needs for the symbols of a sequence, and its regret: how many more than the true law needs.

    bits         -log2 pi'_t(x_t) where chi_t = 1
    mixed        pi'_t = (1 - 1/(t + 2)) pi_t + 1/(t + 2) / A       over T symbols at most log2(T + 1) bits more than pi_t
    regret       sum of bits - bits of the true law
    frequencies  nu_y = how often y is among the symbols to be predicted, at least a floor

The mixing is for models that were trained on one sequence: they may give a symbol the probability 0 that does come in another
one, above all near its start. t counts all symbols from 0, those too that are not to be predicted.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["bits", "check_symbols", "log_frequencies", "missed", "regret"]

UNIT = 1e-3  # by how much probabilities may miss a sum of 1: those of float32 and half precision are let through


def bits(log_probs: Tensor, symbols: Tensor, counts: Tensor | None = None, *, mixed: bool = True) -> Tensor:
    r"""Compute what each symbol of a validation sequence costs, in bits; the sum over time is the score.

    Args:    log_probs: log pi_t(y), in nats, of the model that has seen the symbols before t; counts: chi_t, None for all 1;
             mixed: with a share 1/(t + 2) of the uniform law, without which a symbol of probability 0 costs inf.
    Shape:   log_probs (time, ..., A) of one model or many; symbols, counts (time,) or (time, ...) -> (time, ...) float64, with 0
             where nothing is to be predicted.
    Raises:  ValueError for other shapes, for symbols that are not 0 .. A - 1, and where the probabilities do not sum to 1.
    Source:  Ollivier 2013, eq. (4), and section 4, "Regularization".
    """
    symbols, counts = _checked(log_probs, symbols, counts)
    chosen = log_probs.gather(-1, symbols[..., None])[..., 0].double()
    if mixed:
        share = 1 / (torch.arange(len(chosen), dtype=torch.float64, device=chosen.device) + 2)
        share = share.view(-1, *[1] * (chosen.dim() - 1))
        chosen = torch.logaddexp(torch.log1p(-share) + chosen, (share / log_probs.shape[-1]).log())
    return torch.where(counts, -chosen / math.log(2), torch.zeros_like(chosen))


def regret(model_bits: Tensor, true_bits: Tensor) -> Tensor:
    r"""Sum the regret over time; the last row is that of the sequence. On one sequence it may be negative.

    Shape:   model_bits (time, ...), true_bits (time,) -> (time, ...).
    Source:  Ollivier 2013, Table 1.
    """
    if true_bits.dim() != 1 or model_bits.shape[:1] != true_bits.shape:
        raise ValueError(
            f"`model_bits` must be (time, ...), `true_bits` (time,), got {tuple(model_bits.shape)}, {tuple(true_bits.shape)}."
        )
    return (model_bits - true_bits.view(-1, *[1] * (model_bits.dim() - 1))).cumsum(0)


def missed(log_probs: Tensor, symbols: Tensor, counts: Tensor | None = None) -> Tensor:
    r"""Mark where a symbol that is to be predicted has no more than probability 1/2: each such costs at least one bit.

    Shape:   as in `bits` -> (time, ...) bool.
    Source:  Ollivier 2013, section 4, "Distant XOR": the classification error.
    """
    symbols, counts = _checked(log_probs, symbols, counts)
    return counts & (log_probs.gather(-1, symbols[..., None])[..., 0] <= -math.log(2))


def log_frequencies(symbols: Tensor, counts: Tensor | None, size: int, floor: float = 1e-9) -> Tensor:
    r"""Compute log nu_y, from which the writing weights of the always active unit start.

    Args:    size: of the alphabet; floor: the least frequency, above 0.
    Shape:   symbols, counts (time,) -> (size,), in nats, of torch's default dtype.
    Source:  Ollivier 2013, eq. (30), which is for symbols that are to be predicted somewhere. For the others nu_y = 0, and where
             the paper's log nu_y is -oo the ledger has a large negative number: log `floor`.
    """
    if not 0 < floor < 1:
        raise ValueError(f"`floor` must be between 0 and 1, got {floor}.")
    counted = symbols if counts is None else symbols[counts]
    if not counted.numel():
        raise ValueError("no symbol is to be predicted: `counts` is false everywhere.")
    frequencies = torch.bincount(counted, minlength=size).to(torch.get_default_dtype()) / counted.numel()
    if len(frequencies) > size:
        raise ValueError(f"`symbols` must be less than `size`, {size}, got {len(frequencies) - 1}.")
    return frequencies.clamp_min(floor).log()


def check_symbols(symbols: Tensor, size: int, least: int = 0) -> Tensor:
    """Return a sequence, int64 of shape (time,), of an alphabet of that size. Raises: ValueError for anything else."""
    if symbols.dtype != torch.int64 or symbols.dim() != 1:
        raise ValueError(f"`symbols` must be int64 of shape (time,), got {symbols.dtype} of shape {tuple(symbols.shape)}.")
    if len(symbols) < least:
        raise ValueError(f"`symbols` must be at least {least}, got {len(symbols)}.")
    if len(symbols) and not 0 <= int(symbols.min()) <= int(symbols.max()) < size:
        raise ValueError(f"`symbols` must be from 0 to {size - 1}, got {int(symbols.min())} to {int(symbols.max())}.")
    return symbols


def _checked(log_probs: Tensor, symbols: Tensor, counts: Tensor | None) -> tuple[Tensor, Tensor]:
    """Symbols and counts in the shape (time, ...) of the models."""
    shape = log_probs.shape[:-1]
    counts = torch.ones_like(symbols, dtype=torch.bool) if counts is None else counts
    for name, given, kind in (("symbols", symbols, torch.int64), ("counts", counts, torch.bool)):
        if given.dtype != kind or given.shape not in (shape[:1], shape):
            raise ValueError(
                f"`{name}` must be {kind} of shape {tuple(shape[:1])}, the time of `log_probs` {tuple(log_probs.shape)}, "
                f"got {given.dtype} of shape {tuple(given.shape)}."
            )
    size = log_probs.shape[-1]
    if symbols.numel() and not 0 <= int(symbols.min()) <= int(symbols.max()) < size:
        raise ValueError(f"`symbols` must be from 0 to {size - 1}, got {int(symbols.min())} to {int(symbols.max())}.")
    sums = log_probs.detach().logsumexp(-1).exp()
    if not bool(((sums - 1).abs() < UNIT).all()):  # also where a sum is nan
        raise ValueError(f"`log_probs` must be logarithms of probabilities, as of log_softmax; these sum to {_worst(sums)}.")
    ones = [1] * (len(shape) - 1)
    symbols, counts = (given if given.shape == shape else given.view(-1, *ones) for given in (symbols, counts))
    return symbols.expand(shape), counts.expand(shape)


def _worst(sums: Tensor) -> float:
    flat = sums.flatten()
    return float(flat[(flat - 1).abs().nan_to_num(math.inf).argmax()])
