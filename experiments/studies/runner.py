r"""`ctrnn study run`: what is missing in a folder, carried out by worker processes, and the page of what is there then.

A run is a function of its configuration, so order and number of workers change no bit; only the number of threads may change
the last ones, unless the configuration has it. Without `--workers` there is one for each core, with one thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from experiments.files import ready_folder
from experiments.interruption import Interrupted, checkpoint
from experiments.studies.folder import configuration_of, kept, opened
from experiments.studies.registry import loaded
from experiments.studies.results import Record
from experiments.studies.study import Run, Study
from experiments.studies.worker import BUSY, FAILED
from experiments.studies.workers import RunEnd, WorkerPool
from experiments.usage import UsageError

__all__ = ["cores", "run"]


def run(
    address: str, scale: str, folder: Path, command: str, workers: int | None = None, shard: tuple[int, int] = (1, 1)
) -> bool:
    r"""Carry out what is missing; False if a run failed.

    Args:    address: the study's module:class;  scale: one of SCALES;  folder: its folder, perhaps begun;  command: what was
             typed;  workers: processes, None for one a core;  shard: (I, N) takes the runs I, I + N, ..., counted from 1.
    Raises:  UsageError for a folder that cannot be written or holds something else, and where there is nothing to run.
    """
    study = loaded(address)
    runs = study.runs(scale)
    if not runs:
        raise UsageError(f"{study.name} has nothing to run. {study.left_out()}")
    ready_folder(folder)
    size = workers or cores()
    threads = max(1, cores() // size)
    made = _made(threads)
    opened(folder, study.name, scale, runs, {"command": command, "machine": made})
    mine = runs[shard[0] - 1 :: shard[1]]
    missing = [run.key for run in mine if kept(folder, run.key, configuration_of(run)) is None]
    _say(_plan(study, scale, runs, mine, missing, min(size, len(missing)), threads))
    if study.left_out():
        _say(study.left_out())
    progress = _Progress(folder, study, {run.key: run for run in mine}, len(missing), min(size, len(missing)))
    pool = WorkerPool(size, (address, scale, folder, made, threads), progress.tick, 1.0 if sys.stderr.isatty() else None)
    try:
        with closing(pool.carry_out(missing)) as ends:
            for end in ends:
                progress.report(end)
    except Interrupted:
        progress.clear()
        done = sum(kept(folder, run.key, configuration_of(run)) is not None for run in mine)
        print(f"{done} of {len(mine)} runs are done and kept, those begun are saved. To go on: {command}", file=sys.stderr)
        raise
    finally:
        progress.clear()
    progress.conclude()
    from experiments.studies.html_page import write  # noqa: PLC0415

    _say(write(folder, study))
    return not progress.failed


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class _Progress:
    """A line a run on stdout, and the state of all on stderr where that is a terminal."""

    folder: Path
    study: Study
    runs: Mapping[str, Run]
    missing: int
    workers: int
    done: int = 0
    busy: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def report(self, end: RunEnd) -> None:
        self.clear()
        if end.what == FAILED:
            self.failed[end.key] = end.words
            _say(f"{end.key}  FAILED: {end.words}")
        elif end.what == BUSY:
            self.busy.append(end.key)
        else:
            self.done += 1
            record = kept(self.folder, end.key, configuration_of(self.runs[end.key]))
            headline = _headline(self.study, record) if record else ""
            _say("  ".join(filter(None, [end.key, headline, f"{record['seconds']:.3g} s" if record else ""])))

    def tick(self, running: Sequence[str]) -> None:
        checkpoint()
        if not sys.stderr.isatty():
            return
        ahead = len(self.runs) - self.missing
        words = f"{ahead + self.done}/{len(self.runs)} runs done, at work: {', '.join(running) or 'starting'}{self._left()}"
        print(f"\r\x1b[K{words[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]}", end="", file=sys.stderr, flush=True)

    def _left(self) -> str:
        """From the mean time of the runs that are done."""
        rest = self.missing - self.done - len(self.failed) - len(self.busy)
        if not self.done or not rest:
            return ""
        seconds = (time.monotonic() - self.began) * rest / (self.done + len(self.failed))
        return f", about {_duration(seconds)} left"

    def clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def conclude(self) -> None:
        for key, words in self.failed.items():
            error = self.folder / "runs" / key / "error.txt"
            _say(f"FAILED  {key}: {words}{f' (see {error})' if error.exists() else ''}")
        if self.failed:
            _say("The other runs are kept; the same command tries these again.")
        if self.busy:
            _say(f"Left to another call on this folder, which is at work on them: {', '.join(self.busy)}.")


def _plan(
    study: Study, scale: str, runs: Sequence[Run], mine: Sequence[Run], missing: Sequence[str], size: int, threads: int
) -> str:
    which = f"{len(mine)} of its {len(runs)} runs" if len(mine) < len(runs) else f"{len(runs)} runs"
    words = f"{study.name}, {scale}: {which}"
    if not missing:
        return f"{words}, all done before."
    if len(missing) < len(mine):
        words += f", {len(mine) - len(missing)} done before, {len(missing)} missing"
    return f"{words}; {size} worker{'s' * (size > 1)} with {threads} thread{'s' * (threads > 1)} each."


def _headline(study: Study, record: Record) -> str:
    return study.headline(record) if record["diverged"] is None else f"training diverged at step {record['diverged']}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _made(threads: int) -> dict[str, str]:
    """The machine and versions, in words."""
    from experiments.reports.machine import facts  # noqa: PLC0415

    found = facts()
    names = ("processor", "vectors", "cores", "python", "ctrnn", "torch", "torchdiffeq", "compiler", "date")
    return {**{name: found[name] for name in names}, "threads": str(threads)}


def _say(line: str) -> None:
    checkpoint()
    print(line, flush=True)
