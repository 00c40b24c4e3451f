"""Measures a model on the evaluation batches of a task, without dropout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from discretize import noise_keys
from experiments.seeds import generator
from experiments.tasks.task import Batch, MeasuresOfBatches, Task

__all__ = ["answers", "evaluate", "noise_of", "torch_defaults"]


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, split: str = "validation", sequences: int = 1000, seed: int = 0, batch: int = 32
) -> dict[str, float]:
    r"""Measure a model on the task's evaluation batches, which the seed alone determines, as it does the noise of a model that
    has some: means over what counts.

    Args:    model: called model(xs, ts=, lengths=); split, sequences, seed, batch: as for `Task.evaluation`.
    """
    sums = MeasuresOfBatches(task)
    with torch_defaults(torch.get_num_threads(), next(model.parameters()).dtype):
        for examples, outputs in answers(model, task, split, sequences, seed, batch):
            sums.add(outputs, examples)
    return sums.measures()


@torch.no_grad()
def answers(model: nn.Module, task: Task, split: str, sequences: int, seed: int, batch: int) -> Iterator[tuple[Batch, Tensor]]:
    """Yield the evaluation batches in which anything counts, a mean over nothing being no number, and the outputs for each, after
    `eval()`."""
    device, trains = next(model.parameters()).device, model.training
    try:
        for k, drawn in enumerate(task.evaluation(split, sequences, batch, seed)):
            examples = drawn.to(device)
            if task.weight(examples):
                noise = noise_of(model, examples.size, seed, split, k)
                yield examples, model.eval()(examples.xs, ts=examples.ts, lengths=examples.lengths, **noise)
    finally:
        model.train(trains)


def noise_of(model: nn.Module, size: int, seed: int, *names: str | int) -> dict[str, Tensor]:
    """Return the keys of the noise of a batch, where the model has noise: a function of the run's seed and of names."""
    if not any(isinstance(part, VectorField) and part.noise_channels for part in model.modules()):
        return {}
    return {"seed": noise_keys(generator(seed, "noise", *names).initial_seed(), size)}


@contextmanager
def torch_defaults(threads: int, dtype: torch.dtype) -> Iterator[None]:
    """Set torch's number of threads, on which bits depend, and its default dtype, and set them back at the end."""
    before = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_default_dtype(before[1])
