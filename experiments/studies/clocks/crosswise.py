r"""Runs the same weights in several ways, at several speeds of the test: each way crosswise with each speed.

way        an integrator, and the steps it reads a sample in; a step is a share dt = 1, 1/2, ... of how long its sample lasts
summary    what a study makes of one way at one speed, batch by batch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

import ctrnn
from ctrnn.inputs.held import Hold
from discretize import SequenceModel
from experiments.models.integrators import IntegratorSettings, under
from experiments.runs.configuration import TrainingSettings
from experiments.runs.evaluation import noise_of
from experiments.studies.clocks.rollout import FINE, Rollout, roll_out
from experiments.studies.study import Row
from experiments.tasks.task import Batch, Task

__all__ = ["Summary", "Way", "crosswise", "own_time_of", "ways_to_run"]

BATCH = 512  # sequences at once in the test


@dataclass(frozen=True, order=True)
class Way:
    """Names a way to run: an integrator, by so many equal steps a sample; a solve chooses its own, and has one."""

    integrator: str
    substeps: int = 1

    def __str__(self) -> str:
        """Write "euler", "euler dt=1/2", "exact"."""
        return self.integrator if self.substeps == 1 else f"{self.integrator} dt=1/{self.substeps}"

    @property
    def key(self) -> str:
        """Return it in the letters that keys of runs are made of."""
        return self.integrator if self.substeps == 1 else f"{self.integrator}-1-{self.substeps}"


class Summary(Protocol):
    """Sums up one way to run, batch by batch; a batch's run is None where its solver cannot go on, or there is none."""

    def add(self, batch: Batch, found: Rollout | None, reference: Rollout | None) -> None: ...
    def row(self) -> Row: ...


def ways_to_run(model: SequenceModel, ways: Sequence[Way], settings: IntegratorSettings = FINE) -> dict[str, SequenceModel]:
    """Put the same weights under each way; solves are as fine as `settings`, and steps have what theirs take."""
    return {str(way): under(model, way.integrator, replace(settings, substeps=way.substeps)) for way in ways}


def crosswise(
    task: Task,
    ways: Mapping[str, SequenceModel],
    training: TrainingSettings,
    summary: Callable[[Task, SequenceModel], Summary],
    speeds: Sequence[float | None] = (None,),
    clocks: Sequence[bool] = (True,),
    reference: SequenceModel | None = None,
) -> list[Row]:
    r"""Run every way on the test at every speed, and return a row of each: by clocks, then ways, then speeds.

    Args:    summary: makes what sums up a way on a task;  speeds: None for the task as it is;  clocks: whether batches say how
             long samples last, at speeds;  reference: whose states the others are compared with.
    """
    found: list[Row] = []
    device = next(iter(ways.values())).read_out.weight.device
    for given in clocks:
        rows: dict[str, list[Row]] = {name: [] for name in ways}
        for speed in speeds:
            played = task if speed is None else task.at_speed(speed, given)
            sums = {name: summary(played, model) for name, model in ways.items()}
            for k, batch in enumerate(played.evaluation("test", training.evaluation, BATCH, training.seed)):
                if played.weight(batch):
                    _run_all(batch.to(device), ways, sums, reference, training.seed, k)
            for name, one in sums.items():
                rows[name].append({"way": name, "clock_given": given, "clock": speed, **one.row()})
        found += [row for same in rows.values() for row in same]
    return found


def _run_all(
    batch: Batch,
    ways: Mapping[str, SequenceModel],
    sums: Mapping[str, Summary],
    reference: SequenceModel | None,
    seed: int,
    k: int,
) -> None:
    known: dict[int, Rollout | None] = {}

    def run(model: SequenceModel) -> Rollout | None:
        if id(model) not in known:
            noise = noise_of(model, batch.size, seed, "test", k)
            timed = isinstance(model.rnn.field, ctrnn.Relaxation)
            own_time = own_time_of(batch, model.rnn.hold) if timed else None
            known[id(model)] = roll_out(model, batch, own_time, **noise)
        return known[id(model)]

    base = None if reference is None else run(reference)
    for name, model in ways.items():
        sums[name].add(batch, run(model), base)


def own_time_of(batch: Batch, hold: Hold) -> Any:
    """Return how long samples last: 1 without stamps, else (time, batch or 1, 1); None where stamps leave that open."""
    ts: Tensor | None = batch.ts
    if ts is None:
        return 1.0
    lasting = (ts if ts.dim() == 2 else ts[:, None]).diff(dim=0)
    if len(ts) == len(batch.xs):
        if hold.open_interval is None:
            return None
        left_open = torch.full_like(ts[:1].reshape(1, -1), hold.open_interval)
        lasting = torch.cat([left_open, lasting] if hold.direction == "backward" else [lasting, left_open])
        if hold.direction == "forward" and batch.lengths is not None:  # beyond the last sample of each stamps stand still
            lasting = lasting.where(torch.arange(len(ts), device=ts.device)[:, None] != batch.lengths - 1, hold.open_interval)
    return lasting[..., None].to(batch.xs)
