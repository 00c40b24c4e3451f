"""The loop over time: the state after each of many samples, step by step in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.steps.step import Step

__all__ = ["HeldProblem", "step_along"]


class HeldProblem(NamedTuple):
    r"""Poses steps over held samples, handed on whole: h_k+1 = step^n(x_k, h_k, dt_k / n), n the `substeps` of a sample that
    lasts dt_k, 0 where steps are chosen by their error.

    Shape:   xs (time, batch, input), h0 (batch, state), dt a number, or (time, 1, 1) or (time, batch, 1).
    """

    field: VectorField
    step: Step
    xs: Tensor
    h0: Tensor
    dt: float | Tensor
    substeps: int = 1

    @property
    def evaluations(self) -> int:
        """Count the evaluations of the field in all steps."""
        return len(self.xs) * self.substeps * self.step.cost(self.field)


def step_along(problem: HeldProblem, look: Callable[[], object], count: Callable[[int, int], object]) -> Tensor:
    r"""Take the steps of each sample, one sample after another.

    Args:    look: called before each sample; count: called with the evaluations of each step, and the samples of the batch.
    Shape:   -> (time, batch, state).
    """
    field, step, xs, h, dt, substeps = problem
    states, lengths = [], [dt] * len(xs)
    if isinstance(dt, Tensor):
        lengths = list((dt if dt.shape[1] > 1 else dt[:, 0, 0]).unbind(0))
    for x, length in zip(field.project(xs).unbind(0), lengths, strict=True):
        look()
        for _ in range(substeps):
            h, cost = step.counted(field, x, h, length / substeps)
            count(cost, len(h))
        states.append(h)
    return torch.stack(states)
