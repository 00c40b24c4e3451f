"""Says where runs are carried out: by processes of this machine, by Ray, or by Slurm; one word for train, compare and study."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.usage import UsageError

__all__ = ["WorkPlace", "check_place", "place"]


@dataclass(frozen=True)
class WorkPlace:
    """Holds what makes a pool, called with size, work, tick and every; how many runs it holds at a time, and threads of each."""

    pool: Callable[..., Any]
    size: int
    threads: int


def check_place(on: str) -> None:
    """Refuse what is no place to run. Raises: UsageError."""
    if on not in ("here", "ray", "slurm") and not (on.startswith("ray:") and len(on) > len("ray:")):
        raise UsageError(f"--on is here, ray, ray:ADDRESS or slurm; got {on!r}.")


def place(on: str, workers: int | None, folder: Path) -> WorkPlace:
    r"""Return the place of this name.

    Args:    on: "here", "ray", "ray:ADDRESS" or "slurm"; workers: runs at a time, None for as many as there is room for: one a
             core here, those of the cluster's processors with Ray, with Slurm as many as it takes; folder: of the runs, in which
             Slurm's logs are kept.
    Raises:  UsageError for a word that is none of these, where Ray or Slurm does not answer, and in a process of torchrun, each
             of which would hand out all runs.
    """
    check_place(on)
    if (count := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise UsageError(f"torchrun's {count} processes train one run together, and --workers and --on runs apart; take one way.")
    if on == "here":
        from derivations.processes.pool import WorkerPool  # noqa: PLC0415
        from experiments.reports.machine import cores  # noqa: PLC0415 (torch)

        size = workers or cores()
        return WorkPlace(WorkerPool, size, max(1, cores() // size))
    if on == "slurm":
        from experiments.runs.on_slurm import SlurmPool, check_slurm  # noqa: PLC0415

        check_slurm()
        return WorkPlace(partial(SlurmPool, folder=folder.resolve() / "slurm"), workers or 1000, 1)
    from experiments.runs.on_ray import RayPool, connected  # noqa: PLC0415

    room = connected(on.partition(":")[2] or None, 1)
    return WorkPlace(RayPool, min(workers or room, room), 1)
