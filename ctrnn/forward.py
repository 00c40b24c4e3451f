"""Derivatives in forward mode: `torch.func.jvp`, without what torch warns of itself when it first loads it, and Jacobians."""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ctrnn.rewriting import TWICE, Exchangeable, Rewritten

__all__ = ["JVP", "jacobian_of", "jvp"]

# Of functions of one tensor: (f, at, direction) -> (f(at), (df/dat) direction).
JVP: Exchangeable[Callable[[Any, Any, Any], tuple[Tensor, Tensor]]] = Exchangeable("jvp")


def jvp(f: Any, primals: tuple[object, ...], tangents: tuple[Any, ...], **settings: Any) -> Any:
    """Call `torch.func.jvp`, with derivatives of the result that are right where torch's are not; one thread after another."""
    if len(primals) == 1 and not settings and (other := JVP.other) is not None:
        return other(f, *primals, *tangents)
    if torch.compiler.is_compiling():
        return torch.func.jvp(f, primals, tangents, **settings)
    _load()
    with _one_thread, Rewritten(TWICE):
        return torch.func.jvp(f, primals, tangents, **settings)


def jacobian_of(f: Callable[[Tensor], Tensor], h: Tensor, bandwidths: tuple[int, int] | None = None) -> Tensor:
    """Compute df_i/dh_k: (..., state) -> (..., state, state), or (..., state), the diagonal, where the bandwidths are (0, 0).

    `bandwidths`, lower and upper, are how far below and above the diagonal there are entries. Columns further apart than that
    share no row, and so one direction serves them all: lower + upper + 1 directions (Curtis, Powell and Reid 1974, On the
    estimation of sparse Jacobian matrices, J. Inst. Maths Applics 13), one for each unit without them.
    """
    if bandwidths == (0, 0):
        return jvp(f, (h,), (torch.ones_like(h),))[1]

    def along(direction: Tensor) -> Tensor:
        return jvp(f, (h,), (direction.expand_as(h),))[1]

    one = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device)
    if bandwidths is None:
        return torch.func.vmap(along)(one).movedim(0, -1)
    (lower, upper), units = bandwidths, torch.arange(h.shape[-1], device=h.device)
    directions = min(lower + upper + 1, len(units))
    shared = units % directions  # the direction that each column is in
    sums = torch.func.vmap(along)(one.new_zeros(directions, len(units)).index_add(0, shared, one)).movedim(0, -1)
    below = units[:, None] - units
    return torch.where((below <= lower) & (-below <= upper), sums[..., shared], 0.0)


# torch counts the levels of forward mode for all threads together: one that leaves takes the tangents of the others with it,
# which then are 0 without a word.
_one_thread = threading.RLock()


def _after_fork() -> None:
    global _one_thread  # noqa: PLW0603 - the thread that held it is not in the child
    _one_thread = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def _load() -> None:
    # torch.autograd.forward_ad scripts its decompositions at the first use, and torch.jit.script is deprecated: with -W error
    # the first stiff solve of a process would fail.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.func.jvp(torch.sin, (torch.zeros((), device="cpu"),), (torch.ones((), device="cpu"),))
