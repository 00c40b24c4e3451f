"""The cell of the page: one gated field, the same weights in every section."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

import ctrnn
from experiments.data.recording import Recording

__all__ = ["SEED", "TOLERANCE", "UNITS", "field_for", "samples"]

UNITS = 16
SEED = 0
TOLERANCE = 1e-7  # rtol and atol of every solve


@cache
def field_for(channels: int) -> ctrnn.VectorField:
    """A gated field with weights drawn from a fixed seed."""
    return ctrnn.gated(channels, UNITS, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))


def samples(recording: Recording) -> Tensor:
    """(time, 1, channels)."""
    return torch.from_numpy(recording.xs)[:, None]
