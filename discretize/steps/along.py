"""The loop over time: the state after each of many samples, step by step in torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.steps.step import Step

__all__ = ["step_along"]


def step_along(
    field: VectorField,
    step: Step,
    projected: Tensor,
    h: Tensor,
    dt: float | Tensor,
    substeps: int,
    look: Callable[[], object],
    count: Callable[[int, int], object],
) -> Tensor:
    r"""Take so many steps of each sample, one sample after another.

    Args:    look: called before each sample; count: called with the evaluations of each step, and the samples of the batch.
    Shape:   projected (time, batch, projected), h (batch, state), dt a number, or (time, 1, 1) or (time, batch, 1)
             -> (time, batch, state).
    """
    states, lengths = [], [dt] * len(projected)
    if isinstance(dt, Tensor):
        lengths = list((dt if dt.shape[1] > 1 else dt[:, 0, 0]).unbind(0))
    for x, length in zip(projected.unbind(0), lengths, strict=True):
        look()
        for _ in range(substeps):
            h, cost = step.counted(field, x, h, length / substeps)
            count(cost, len(h))
        states.append(h)
    return torch.stack(states)
