"""Keep the steps that a model takes on its data: g dt of every unit, and the places in state space of a few sequences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.sequences.cell import put_step
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.step import Step

__all__ = ["SampledSteps", "StepsTaken", "stepping", "watched"]

SEQUENCES = 16  # whose places are kept


class SampledSteps(NamedTuple):
    """Holds what one step of a few sequences reads and gives: (sequences, ...); dt (sequences, 1), 0 of one that is over."""

    projected: Tensor
    h: Tensor
    dt: Tensor
    after: Tensor


@dataclass
class StepsTaken:
    """Holds the steps of one module in their order: g dt of each (batch, state), nan for a sequence that is over; its places."""

    g_dt: list[Tensor] = field(default_factory=list)
    places: list[SampledSteps] = field(default_factory=list)

    def add(self, of: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor, after: Tensor) -> None:
        lengths = torch.as_tensor(dt, dtype=h.dtype, device=h.device).detach().reshape(-1, 1).expand(len(h), 1)
        self.g_dt.append((lengths * of.leak(projected, h).detach()).masked_fill(lengths <= 0, torch.nan))
        few = (each.detach()[:SEQUENCES].double() for each in (projected.expand(len(h), -1), h, lengths, after))
        self.places.append(SampledSteps(*few))


class _Watched(Step):
    """A step map that keeps what each of its steps reads and gives."""

    def __init__(self, step: Step, taken: StepsTaken) -> None:
        self.step, self.taken = step, taken
        self.order, self.evaluations = step.order, step.evaluations  # type: ignore[misc]
        self.tangents, self.jacobians = step.tangents, step.jacobians  # type: ignore[misc]

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        after = self.step.advance(field, projected, h, dt)
        self.taken.add(field, projected, h, dt, after)
        return after


@contextmanager
def watched(part: DiscreteRNN) -> Iterator[StepsTaken]:
    """Within, keep the steps that a module takes."""
    taken = StepsTaken()
    with stepping(part, _Watched(part.step, taken)):
        yield taken


@contextmanager
def stepping(part: DiscreteRNN, step: Step) -> Iterator[None]:
    """Give a module another step within, of which no warning is raised: this report says it."""
    own, allowed = part.step, part.watch.allowed
    put_step(part, step)
    part.watch.allowed = True
    try:
        yield
    finally:
        put_step(part, own)
        part.watch.allowed = allowed
