r"""Train one run by several processes, each with a share of every batch, as torchrun starts them.

    loss, gradients      sums over the processes of (what counts in the share / what counts in the batch) * (those of the share)

Every process draws the whole batch and reads its share, so a step is the step of one process, to the rounding of those sums,
whatever their number. They start from the weights of the first process, which alone writes; evaluations each makes whole.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from experiments.runs.configuration import TrainingSettings
from experiments.runs.stopping import StoppedError
from experiments.usage import UsageError

T = TypeVar("T")
__all__ = ["ALONE", "Processes", "device_for", "is_first", "joined"]


@dataclass(frozen=True)
class Processes:
    """Says which of `size` processes this one is, number `rank`; alone, nothing is sent, and no bit changes."""

    rank: int = 0
    size: int = 1

    def share(self, sequences: int) -> slice:
        """Return which sequences of a batch this process reads: as many as each other one, but for one."""
        return slice(self.rank * sequences // self.size, (self.rank + 1) * sequences // self.size)

    def summed(self, values: Tensor) -> Tensor:
        """Sum over all processes, with the same bits in each."""
        if self.size > 1:
            with _others_needed():
                torch.distributed.all_reduce(values)
        return values

    def any(self, here: bool) -> bool:
        return here if self.size == 1 else bool(self.summed(torch.tensor(float(here))))

    def sum_gradients(self, parameters: Sequence[nn.Parameter], loss: Tensor) -> Tensor:
        """Sum gradients over all processes, 0 where a parameter is not used; return the sum of the losses."""
        if self.size == 1:
            return loss
        slopes = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        total = self.summed(torch.cat([loss.detach().view(1), *(slope.flatten() for slope in slopes)]))
        for parameter, part in zip(parameters, total[1:].split([slope.numel() for slope in slopes]), strict=True):
            parameter.grad = part.view_as(parameter).clone()
        return total[0]

    def agree(self, error: StoppedError | None, begun: float, step: int, largest: float | None) -> tuple[Tensor, float | None]:
        """Stop all processes if one has to. Return how long each has waited for the slowest since `begun`, (size,), and the
        largest of all numbers. Raises: StoppedError."""
        gathered = torch.zeros(3, self.size, dtype=torch.float64)
        gathered[:, self.rank] = torch.tensor([time.perf_counter() - begun, largest or 0.0, error is not None])
        seconds, numbers, failed = self.summed(gathered)
        if error is not None:
            raise error
        if failed.any():
            raise StoppedError(f"step {step}: another of the {self.size} processes stopped, and says why.", "interrupted", step)
        return seconds.max() - seconds, largest and float(numbers.max())

    def from_first(self, value: T) -> T:
        """Send the first process's value to all: rates follow from evaluations, and must be the same on all machines."""
        if self.size == 1:
            return value
        sent = [value]
        with _others_needed():
            torch.distributed.broadcast_object_list(sent, 0)
        return sent[0]


ALONE = Processes()


def is_first() -> bool:
    """Return whether this process is the one that writes and prints."""
    return _size() == 1 or os.environ.get("RANK", "0") == "0"


def joined(batch: int) -> Processes:
    """Connect the processes that torchrun has started, for batches of so many sequences; ALONE without it.

    Raises:  UsageError for more processes than sequences in a batch; StoppedError where the others do not come.
    """
    if (size := _size()) == 1:
        return ALONE
    if size > batch:
        raise UsageError(f"{size} processes are more than the {batch} sequences of a batch; take fewer, or --set batch=...")
    if not torch.distributed.is_initialized():
        with _others_needed():
            torch.distributed.init_process_group("gloo")
        atexit.register(torch.distributed.destroy_process_group)
    return Processes(torch.distributed.get_rank(), size)


def _size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def _others_needed() -> Iterator[None]:
    """Turn errors of sending into a StoppedError: another process is gone."""
    try:
        yield
    except RuntimeError as error:
        why = "another process of this training is gone; what was saved is kept, and the same command goes on with --resume"
        raise StoppedError(f"{why} ({str(error).splitlines()[0]}).", "interrupted") from error


def device_for(settings: TrainingSettings, processes: Processes) -> torch.device:
    """Return the device of model and batches. Raises: UsageError where there is none, and for several processes on it."""
    if settings.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() and processes.size == 1 else "cpu")
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("device is cuda, and torch finds no GPU here; leave it out to train on the CPU.")
    if settings.device != "cpu" and processes.size > 1:
        raise UsageError(f"device is {settings.device}, and several processes share a batch on the CPU only; take one process.")
    return torch.device(settings.device)
