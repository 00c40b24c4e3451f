r"""States in half precision, to a tolerance: a kernel for GPUs computes in float32, and stores as the caller does.

weights, samples, h0     read as they are, and carried in float32 from the first step to the last, as time and error are
states                   rounded where they are given back, never from step to step
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ctrnn import Path, TimePath, VectorField
from ctrnn.fields.field import check_input, check_state
from discretize.kernels.eligibility import HALF, takes_triton
from discretize.settings import Settings
from discretize.trajectory import Trajectory

__all__ = ["in_float32", "rounded", "stored_dtype"]


def stored_dtype(settings: Settings, h0: object) -> torch.dtype | None:
    """In which a solve in float32 is to store; None where it is a solve like others, or there are no such kernels."""
    if not settings.steps_alone or not isinstance(h0, Tensor) or h0.dtype not in HALF:
        return None
    return h0.dtype if takes_triton(h0.device) else None


def in_float32(field: VectorField, path: Path, h0: Tensor) -> tuple[VectorField, Path, Tensor]:
    """The same numbers. Raises TypeError, ValueError where field, path and state are not of one dtype."""
    from discretize.kernels.record.program import weights_of, with_weights  # noqa: PLC0415 - of kernels

    check_state(field, h0, "h0")
    check_input(field, path(path.knots[:1].detach())[0], "path")
    wide = with_weights(field, [w.float() if w.dtype in HALF else w for w in weights_of(field)])
    if isinstance(path, TimePath):  # time itself is not rounded
        return wide, TimePath(path.knots, path.batch, torch.float32, h0.device), h0.float()
    return wide, path.map(Tensor.float, affine=True), h0.float()


def rounded(solved: Trajectory, dtype: torch.dtype | None) -> Trajectory:
    """The states in that dtype, also between."""
    if dtype is None:
        return solved
    between = solved.between
    return replace(solved, hs=solved.hs.to(dtype), between=None if between is None else lambda t: between(t).to(dtype))
