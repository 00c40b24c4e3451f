r"""What a trained model does on a clock that it was perhaps not trained on: outputs, states, and how fast its gates made it go.

    pace    c' g    c' the own time that a sample takes, g(x, h) the rate of a unit where the sample begins

A Taylor step of dh = g (f - h) keeps 1 - c' g of a state: below 0 from a pace of 1 on, larger than 1 from 2 on.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

import ctrnn
from discretize import SolverError, SolverWarning, StepError
from experiments.tasks.task import Batch

if TYPE_CHECKING:
    from experiments.models.sequence_model import SequenceModel

__all__ = ["Rollout", "passed", "right"]


@dataclass(frozen=True)
class Rollout:
    """Shape:  outputs (time, batch, outputs); states (time, batch, hidden); paces (n,), over samples, sequences and units."""

    outputs: Tensor
    states: Tensor
    paces: Tensor

    @property
    def finite(self) -> bool:
        return bool(self.outputs.isfinite().all())


@torch.no_grad()
def passed(model: SequenceModel, batch: Batch, own_time: float) -> Rollout | None:
    """The model over a batch of which each sample takes so much own time; None where its solver cannot go on."""
    field = model.field
    if not isinstance(field, ctrnn.Relaxation):
        raise TypeError(f"the pace of a {type(field).__name__} is not known; it takes a ctrnn.Relaxation.")
    xs = batch.xs.to(model.read_out.weight)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SolverWarning)  # of costs, which are not measured here
            states, _ = model.rnn(xs, ts=batch.ts, lengths=batch.lengths)
    except (SolverError, StepError):
        return None
    before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
    paces = own_time * field.rate(xs, before).expand_as(states)
    if batch.lengths is not None:
        paces = paces[torch.arange(len(xs))[:, None] < batch.lengths]
    return Rollout(model.read_out(states), states, paces.flatten())


def right(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether the largest output is the target's; of outputs that are not finite none is."""
    return (outputs.argmax(-1) == targets) & outputs.isfinite().all(-1)
