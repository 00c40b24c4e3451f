"""The Jacobian of a field in its state, by forward-mode differentiation: one direction for each unit."""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import VectorField

__all__ = ["jacobian"]


def jacobian(field: VectorField, projected: Tensor, h: Tensor) -> Tensor:
    """dF_i/dh_k, itself differentiable: (..., projected), (..., state) -> (..., state, state)."""

    def along(direction: Tensor) -> Tensor:
        return torch.func.jvp(lambda u: field.flow(projected, u), (h,), (direction.expand_as(h),))[1]

    columns = torch.func.vmap(along)(torch.eye(h.shape[-1], dtype=h.dtype, device=h.device))
    return columns.movedim(0, -1)
