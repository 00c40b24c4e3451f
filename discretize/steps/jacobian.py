"""The Jacobian of a field in its state, by forward-mode differentiation, one direction for each unit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.forward import jvp

__all__ = ["jacobian", "jacobian_of", "over_matrices"]


def jacobian(field: VectorField, projected: Tensor, h: Tensor) -> Tensor:
    """dF_i/dh_k, itself differentiable: (..., projected), (..., state) -> (..., state, state)."""
    return jacobian_of(lambda u: field.flow(projected, u), h)


def jacobian_of(f: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
    """df_i/dh_k of a function of the state: (..., state) -> (..., state, state)."""

    def column(direction: Tensor) -> Tensor:
        return jvp(f, (h,), (direction.expand_as(h),))[1]

    columns = torch.func.vmap(column)(torch.eye(h.shape[-1], dtype=h.dtype, device=h.device))
    return columns.movedim(0, -1)


def over_matrices(dt: float | Tensor) -> float | Tensor:
    """dt as a factor of matrices: a number or a scalar as it is, a length for each sample (..., 1) -> (..., 1, 1)."""
    return dt.unsqueeze(-1) if isinstance(dt, Tensor) and dt.dim() else dt
