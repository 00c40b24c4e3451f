"""What all parts of a comparison share: peers, device, rounds, a line of progress, and what was left out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from experiments.bench.interleaved import interleaved
from experiments.bench.rows import Row

__all__ = ["Job", "Session"]


@dataclass(frozen=True)
class Job:
    """A run to be timed: a candidate's work, what else its row says, and whether it needs no warm-up."""

    candidate: str
    work: str
    run: Callable[[], object]
    facts: dict[str, Any] = field(default_factory=dict)
    warm: bool = False


@dataclass
class Session:
    """One comparison. `skipped` has a reason for each name left out."""

    peers: Sequence[str] = ()
    device: str = "cpu"
    rounds: int = 1
    skipped: dict[str, str] = field(default_factory=dict)

    def skip(self, name: str, why: str) -> None:
        self.skipped.setdefault(name, why)

    def show(self, line: str = "") -> None:
        """Replace the line of progress, on a terminal only."""
        if sys.stderr.isatty():
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            print(f"\r\x1b[K{line[:width]}", end="", file=sys.stderr, flush=True)

    def rows(self, part: str, problem: str, jobs: Sequence[Job], patience: float) -> Iterator[Row]:
        """Time all jobs in the same rounds."""

        def timed(job: Job) -> Callable[[], object]:
            def run() -> None:
                self._wait()
                job.run()
                self._wait()

            return run

        def show(k: int) -> None:
            self.show(f"{part}: {problem}: {jobs[k].candidate}, {jobs[k].work}")

        times = interleaved(
            {k: timed(job) for k, job in enumerate(jobs)},
            self.rounds,
            patience=patience,
            before_each=show,
            warm=[k for k, job in enumerate(jobs) if job.warm],
        )
        for job, values in zip(jobs, times.values(), strict=True):
            yield Row(part, problem, job.candidate, job.work, values, facts=job.facts)

    def _wait(self) -> None:
        """Until the device has done all that it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()
