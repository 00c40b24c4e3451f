r"""Train one run by several processes, each with a share of every batch, as torchrun starts them.

    loss of a share      size * (what counts in the share / what counts in the batch) * (mean over the share)
    gradients            their mean over the processes, by torch's DistributedDataParallel

Every process draws the whole batch and reads its share, so a step is the step of one process, to the rounding of that mean,
whatever their number; but masks of dropout are each process's own. They start from the weights of the first process, which alone
writes; evaluations each makes whole.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from experiments.runs.configuration import TrainingSettings
from experiments.runs.stopping import StoppedError
from experiments.usage import UsageError

T = TypeVar("T")
__all__ = ["ALONE", "MeanGradients", "Processes", "connect", "device_for", "is_first", "joined", "leave"]


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

    def agree(
        self, error: StoppedError | None, begun: float, step: int, largest: float | None, loss: float
    ) -> tuple[Tensor, float | None, float]:
        """Stop all processes if one has to. Return how long each has waited for the slowest since `begun`, (size,), the largest
        of all numbers, and the mean of all losses. Raises: StoppedError."""
        gathered = torch.zeros(4, self.size, dtype=torch.float64)
        here = [time.perf_counter() - begun, largest or 0.0, float(error is not None), loss]
        gathered[:, self.rank] = torch.tensor(here, dtype=torch.float64)
        seconds, numbers, failed, losses = self.summed(gathered)
        if error is not None:
            raise error
        if failed.any():
            raise StoppedError(f"step {step}: another of the {self.size} processes stopped, and says why.", "interrupted", step)
        return seconds.max() - seconds, largest and float(numbers.max()), float(losses.mean())

    def from_first(self, value: T) -> T:
        """Send the first process's value to all: rates follow from evaluations, and must be the same on all machines."""
        if self.size == 1:
            return value
        sent = [value]
        with _others_needed():
            torch.distributed.broadcast_object_list(sent, 0)
        return sent[0]

    def by_first(self, work: Callable[[], T]) -> T | None:
        """Let the first process do what is its own, and have all refuse what it refuses; None in the others.

        Raises:  UsageError, in all processes with the same words.
        """
        done, error = None, None
        if not self.rank:
            try:
                done = work()
            except UsageError as refused:
                error = refused
        if why := self.from_first(error and str(error)):
            raise error or UsageError(why)
        return done


ALONE = Processes()


_sending: WeakSet[MeanGradients] = WeakSet()


class MeanGradients:
    r"""Takes the mean of gradients over all processes, once each has those of its share; a parameter that no process has used
    keeps None.

    DistributedDataParallel sends gradients as they become known, in the backward pass. Here it is called once more after that
    pass, when all processes have said that theirs went well: a solve that fails, or a memory that is full, in one of them leaves
    no other waiting. Gradients of recurrent weights are known at the end of a pass only, so little is lost.

    Args:    model: whose parameters are learned, on its device; buffers become those of the first process at each call, but
             for those that its `_ddp_params_and_buffers_to_ignore` names.
    """

    def __init__(self, model: nn.Module) -> None:
        # Else a parameter that a share does not read is an error. It also keeps buckets as they are: made anew after the first
        # step, they would give three processes other sums in a run that goes on. What it costs is a walk over one sum.
        with _others_needed():
            self.sent = DistributedDataParallel(_Zero(model), find_unused_parameters=True)
        _sending.add(self)

    def __call__(self) -> None:
        with _others_needed():
            self.sent().backward()


class _Zero(nn.Module):
    """Returns 0, whose gradient adds 0 to each gradient that is there. `read` always has one, for a sum over nothing has no
    backward pass; `unread` never, for torch warns where all parameters are used."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        zero = torch.zeros((), device=next(model.parameters()).device)
        self.model, self.read, self.unread = model, nn.Parameter(zero), nn.Parameter(zero.clone())
        kept = getattr(model, "_ddp_params_and_buffers_to_ignore", ())  # as DistributedDataParallel reads it
        self._ddp_params_and_buffers_to_ignore = [f"model.{name}" for name in kept]

    def forward(self) -> Tensor:
        used = (parameter for parameter in self.model.parameters() if parameter.grad is not None)
        return sum((0 * parameter.sum() for parameter in used), start=0 * self.read)


def is_first() -> bool:
    """Return whether this process is the one that writes and prints."""
    return _size() == 1 or os.environ.get("RANK", "0") == "0"


def joined(batch: int) -> Processes:
    """Connect the processes that torchrun has started, for batches of so many sequences; ALONE without it.

    Raises:  UsageError for more processes than sequences in a batch, and without what torchrun says; StoppedError where the
             others do not come.
    """
    if (size := _size()) == 1:
        return ALONE
    if size > batch:
        raise UsageError(f"{size} processes are more than the {batch} sequences of a batch; take fewer, or --set batch=...")
    if not torch.distributed.is_initialized():
        if lacking := [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]:
            why = f"WORLD_SIZE is {size} in the environment, and {' and '.join(lacking)} not"
            raise UsageError(f"{why}; start {size} processes by torchrun, which sets them all, or unset WORLD_SIZE.")
        several = torch.cuda.is_available() and torch.distributed.is_nccl_available()
        with _others_needed():
            connect("cpu:gloo,cuda:nccl" if several else "gloo")
        atexit.register(leave)
    return Processes(torch.distributed.get_rank(), size)


def connect(backend: str, **how: Any) -> None:
    """Connect to the other processes, so that `leave` can end it: torch's compiler, which DistributedDataParallel loads, would
    keep for good a connection that is there at its import."""
    import torch._dynamo  # noqa: PLC0415 - takes a second

    torch.distributed.init_process_group(backend, **how)


def leave() -> None:
    """Disconnect from the other processes, and end the threads that send. One that asks for Python's lock while Python ends would
    abort the process, which torchrun takes for a failure."""
    for each in list(_sending):
        del each.sent  # it has the connection too
    gc.collect()  # modules are in rings
    torch.distributed.destroy_process_group()


def _size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def _others_needed() -> Iterator[None]:
    """Turn errors of sending into a StoppedError: another process is gone."""
    try:
        yield
    except RuntimeError as error:
        why = "another process of this training is gone; what was saved is kept, and the same command goes on with --resume"
        line = re.sub(r"^\[[^]]*\] ", "", str(error).splitlines()[0])  # without gloo's place in its source
        cause = line.partition(". ")[0]  # without advice
        raise StoppedError(f"{why} ({cause}).", "interrupted") from error


def device_for(settings: TrainingSettings, processes: Processes) -> torch.device:
    """Return the device of model and batches, of several processes each one's own. Raises: UsageError where there is none."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if processes.size > 1 else 1
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if settings.device == "cpu" or (settings.device == "auto" and processes.any(gpus < here)):
        return torch.device("cpu")
    if not gpus:
        raise UsageError("device is cuda, and torch finds no GPU here; leave it out to train on the CPU.")
    if gpus < here:
        raise UsageError(f"device is cuda, and {here} processes share {gpus} GPU(s) of this machine; take {gpus} process(es).")
    if processes.size == 1:
        return torch.device("cuda")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda", torch.cuda.current_device())
