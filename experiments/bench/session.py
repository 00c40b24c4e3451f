r"""What all parts of a comparison share: peers, device, rounds, engines, a line of progress, and what was left out.

    ratio = median over rounds of (seconds of the candidate / seconds of the reference in the same round)

In a round every candidate runs once, in an order drawn anew. A machine that slows down for a while slows down a whole round, and
leaves the ratios within it alone. asv and pytest-benchmark time one function after another, all rounds of it: no ratios.

    compiled   DiscreteRNN(..., fused="always"), integrate(...)      where there is a compiler; on a GPU, Triton
    steps      fused=False, or CTRNN_FUSED=0                         every field and step, any of torch's transforms
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from derivations.processes.interruption import checkpoint
from experiments.bench.rows import Row

__all__ = ["COMPILED", "ENGINES", "STEPS", "Job", "Session", "interleaved", "wrong_engine"]

K = TypeVar("K", bound=Hashable)
COMPILED, STEPS = ENGINES = ("compiled", "steps")
KERNELS = {COMPILED: (COMPILED, "triton")}  # as `stats` tells them apart: those of the CPU, and of a GPU


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


def interleaved(
    candidates: Mapping[K, Callable[[], object]],
    rounds: int,
    *,
    warm: Collection[K] = (),
    patience: float = 60.0,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    before_each: Callable[[K], None] = lambda key: None,
) -> dict[K, list[float | None]]:
    """Time each candidate: its seconds in each round, None for rounds that it sat out.

    All run once before the first round, except those in `warm`; a candidate whose rounds have taken more than `patience`
    seconds sits out the rest.
    """
    times: dict[K, list[float | None]] = {key: [] for key in candidates}
    order, generator = list(candidates), random.Random(seed)
    with _without_garbage_collection():
        for key in order:
            if key not in warm:
                before_each(key)
                candidates[key]()
        for _ in range(rounds):
            generator.shuffle(order)
            for key in order:
                checkpoint()
                if sum(filter(None, times[key])) > patience:
                    times[key].append(None)
                    continue
                before_each(key)
                gc.collect()
                begin = clock()
                candidates[key]()
                times[key].append(clock() - begin)
    return times


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    collecting, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.collect()
    gc.freeze()  # so that collecting between the runs is quick
    try:
        gc.disable()
        yield
    finally:
        if not frozen:  # else what the caller had frozen would thaw with it
            gc.unfreeze()
        if collecting:
            gc.enable()


def wrong_engine(stats: Mapping[str, object], wanted: str) -> str | None:
    """Say which other engine ran, and why; None if the wanted one did."""
    if stats["engine"] in KERNELS.get(wanted, (wanted,)):
        return None
    return f"it ran by {stats['engine']!r}" + (f": {stats['engine_why']}" if stats["engine_why"] else "")
