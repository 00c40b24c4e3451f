"""Compute gradients by the steps in torch: second derivatives, and gradients under transforms.

Kernels have a first-order backward pass of their own. Where it is itself differentiated, or its cotangent belongs to a
transform, the same states are computed again in torch, with a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from discretize.kernels.eligibility import is_plain

__all__ = ["gradients", "needs_graph"]


def needs_graph(cotangent: Tensor) -> bool:
    """Whether a backward pass has to be made of torch's own operations."""
    return torch.is_grad_enabled() or not is_plain(cotangent)


def gradients(
    states_of: Callable[..., Tensor], inputs: Sequence[Any], needed: Sequence[bool], cotangent: Tensor
) -> list[Tensor | None]:
    """Of states_of(*inputs), by autograd; with a graph of their own, if grad mode is on."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # A view: else autograd.grad follows an edge between two inputs and counts it twice.
        views = [given.view_as(given) if isinstance(given, Tensor) else given for given in inputs]
        sought = [view for view, need in zip(views, needed, strict=True) if need]
        found = iter(torch.autograd.grad(states_of(*views), sought, cotangent, create_graph=again, allow_unused=True))
    return [next(found) if need else None for need in needed]
