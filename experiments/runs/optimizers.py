"""Makes the optimizer of a run: what it learns, at which rate at each step, and by how many threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch
from torch import nn

from experiments.runs.configuration import TrainingSettings
from experiments.usage import UsageError

__all__ = ["factor", "learned", "optimizer", "threads_for"]

ONE_THREAD = 2**20  # multiplications of the largest product of a step, below which one thread makes it


def learned(model: nn.Module, frozen: str) -> list[nn.Parameter]:
    """Freeze the parameters whose names match, and return the others. Raises: UsageError where none is left, or none matches."""
    named = dict(model.named_parameters())
    still = [name for name in named if fnmatchcase(name, frozen)]
    if frozen and not still:
        raise UsageError(f"frozen is {frozen!r}, and no parameter is called so; there is {', '.join(named)}.")
    for name in still:
        named[name].requires_grad_(False)
    if learned := [parameter for parameter in named.values() if parameter.requires_grad]:
        return learned
    raise UsageError(f"frozen is {frozen!r}, and no parameter is left to learn.")


def optimizer(settings: TrainingSettings, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Return the optimizer of these parameters; AdamW decays matrices only, for a bias or a rate at 0 is another time scale."""
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, settings.lr)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, settings.lr, momentum=0.9)
    if settings.optimizer == "adamw":
        matrices = [parameter for parameter in parameters if parameter.dim() > 1]
        others = [parameter for parameter in parameters if parameter.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW([group for group in groups if group["params"]], settings.lr)
    return torch.optim.RMSprop(parameters, settings.lr, alpha=0.9)


def threads_for(parameters: Sequence[nn.Parameter], batch: int) -> int:
    """Return as many threads as torch takes, or 1 where products are so small that handing them out costs more than they do.

    It is a function of sizes, and not of how long steps take here, for the same run is to give the same bits again.
    """
    return 1 if batch * max(parameter.numel() for parameter in parameters) < ONE_THREAD else torch.get_num_threads()


def factor(settings: TrainingSettings, step: int) -> float:
    """Return what the schedule makes of the rate at a step, counted from 0."""
    rising = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
    if settings.schedule == "halved-twice":
        return rising / (1, 1, 2, 4)[4 * step // settings.steps]
    if settings.schedule == "cosine" and step >= settings.warmup:
        return (1 + math.cos(math.pi * (step - settings.warmup) / (settings.steps - settings.warmup))) / 2
    return rising
