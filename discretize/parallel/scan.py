r"""A scan computes a linear recurrence over a whole sequence in about 2 log2(T) rounds of products and sums.

    h_k+1 = a_k h_k + b_k        two steps are one: a_2 a_1, a_2 b_1 + b_2

Every second state comes from the recurrence of pairs, half as long; the others follow in one more step. That is 2 T products
in all, and no division: a may be 0. torch's `associative_scan` is private (`torch._higher_order_ops`) and generates code for GPUs
only, so it is not used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from ctrnn import checks

__all__ = ["linear_recurrence", "recurrence", "reversed_recurrence"]

SHORT = 8  # below that a loop over time is faster than further pairs


def linear_recurrence(a: Tensor, b: Tensor, h0: Tensor | None = None) -> Tensor:
    r"""Return h_1, ..., h_T of h_k+1 = a_k h_k + b_k, each unit by itself; differentiable as often as wanted.

    Args:    a: factors; b: what is added; h0: the state before the first, zero if not given.
    Shape:   a and b (time, batch, units), h0 (batch, units) -> (time, batch, units).
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Blelloch 1990, Prefix sums and their applications, sec. 1.4; backward the same recurrence, reversed.
    """
    a, b = checks.is_tensor("a", a), checks.is_tensor("b", b)
    h0 = torch.zeros_like(b[0]) if h0 is None else checks.is_tensor("h0", h0)
    if a.shape != b.shape or b.dim() != 3 or not len(b):
        raise ValueError(f"`a` and `b` must both be (time, batch, units), got {tuple(a.shape)} and {tuple(b.shape)}.")
    if h0.shape != b.shape[1:]:
        raise ValueError(f"`h0` must be (batch, units), {tuple(b.shape[1:])}, got shape {tuple(h0.shape)}.")
    if not a.dtype == b.dtype == h0.dtype or not b.is_floating_point():
        raise TypeError(f"`a`, `b` and `h0` must have one floating dtype, got {a.dtype}, {b.dtype} and {h0.dtype}.")
    return _Recurrence.apply(a, b, h0)


class _Recurrence(torch.autograd.Function):
    """dL/db_k = dL/dh_k+1 + a_k+1 dL/db_k+1; written with itself, so that its derivative has one too."""

    @staticmethod
    def forward(ctx: FunctionCtx, a: Tensor, b: Tensor, h0: Tensor) -> Tensor:
        hs = recurrence(a, b, h0)
        ctx.save_for_backward(a, h0, hs)
        return hs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, h0, hs = ctx.saved_tensors
        factors = torch.cat([a[1:], torch.zeros_like(a[:1])]).flip(0)
        db = _Recurrence.apply(factors, grad.flip(0), torch.zeros_like(h0)).flip(0)
        return db * torch.cat([h0[None], hs[:-1]]), db, a[0] * db[0]


def recurrence(a: Tensor, b: Tensor, h0: Tensor) -> Tensor:
    """Return the states after each sample; a (time, batch, n) diagonal or (time, batch, n, n), b (time, batch, n)."""
    if len(b) <= SHORT:
        states = []
        for factor, added in zip(a, b, strict=True):
            h0 = _on(factor, h0) + added
            states.append(h0)
        return torch.stack(states)
    even = len(b) - len(b) % 2
    first, second = a[0:even:2], a[1:even:2]
    pairs = second @ first if a.dim() > b.dim() else second * first
    odd = recurrence(pairs, _on(second, b[0:even:2]) + b[1:even:2], h0)
    hs = torch.empty_like(b)
    hs[1::2] = odd
    hs[0::2] = _on(a[0::2], torch.cat([h0[None], odd])[: len(a[0::2])]) + b[0::2]
    return hs


def reversed_recurrence(a: Tensor, g: Tensor) -> Tensor:
    """Solve the adjoint: l_k = g_k + a_k+1^T l_k+1, nothing after the last."""
    factors = (a.transpose(-1, -2) if a.dim() > g.dim() else a).roll(-1, 0).flip(0)
    return recurrence(factors, g.flip(0), torch.zeros_like(g[0])).flip(0)


def _on(a: Tensor, h: Tensor) -> Tensor:
    return (a @ h.unsqueeze(-1)).squeeze(-1) if a.dim() > h.dim() else a * h
