r"""Carry out `ctrnn study run`: what is missing in a folder, by worker processes; then write the page of what is there.

A run is a function of its configuration, so order and number of workers change no bit; only the number of threads may change
the last ones, unless the configuration has it. Without `--workers` there is one for each core, with one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from derivations.processes.interruption import Interrupted, checkpoint
from derivations.processes.pool import End, Work
from experiments.files import ready_folder
from experiments.reports.machine import facts
from experiments.runs.places import WorkPlace, place
from experiments.studies.cost import check_budget, cost_of
from experiments.studies.folder import configuration_of, kept, opened
from experiments.studies.html_page import write
from experiments.studies.registry import loaded
from experiments.studies.study import Record, Run, Study
from experiments.studies.worker import BUSY, FAILED, Ended
from experiments.usage import UsageError

__all__ = ["INSIDE", "run", "tell_cost"]

INSIDE = "inside"


def run(
    address: str,
    scale: str,
    folder: Path,
    command: str,
    workers: int | None = None,
    shard: tuple[int, int] = (1, 1),
    plugins: Sequence[str] = (),
    budget: float | None = None,
    on: str = "here",
) -> bool:
    r"""Carry out what is missing; False if a run failed.

    Args:    address: the study's module:class;  scale: one of SCALES;  folder: its folder, perhaps begun;  command: what was
             typed;  workers: processes, None for one a core;  shard: (I, N) takes the runs I, I + N, ..., counted from 1;
             plugins: files of the user's, which each worker runs first; budget: seconds that all may take; on: "here", "ray",
             "ray:ADDRESS", "slurm", or `INSIDE` for one run after another in this process.
    Raises:  UsageError for a folder that cannot be written or holds something else, where there is nothing to run, and for what
             will take longer than its budget.
    """
    study = loaded(address)
    runs = _runs(study, scale)
    where = WorkPlace(InThisProcess, 1, 1) if on == INSIDE else place(on, workers, folder)
    size, threads = where.size, where.threads
    ready_folder(folder)
    made, mine = _made(threads), runs[shard[0] - 1 :: shard[1]]
    missing = [run.key for run in mine if kept(folder, run.key, configuration_of(run)) is None]
    if budget is not None and missing:
        cost, _ = cost_of(address, scale, missing, size, threads, plugins)
        check_budget(cost, budget)
        _say(str(cost))
    opened(folder, study.name, scale, runs, {"command": command, "machine": made}, plugins)
    _say(_plan(study, scale, runs, mine, missing, min(size, len(missing)), threads))
    if study.left_out():
        _say(study.left_out())
    progress = _Progress(folder, study, {run.key: run for run in mine}, len(missing))
    arguments = (address, scale, folder.resolve(), tuple(made.items()), tuple(plugins))
    pool = where.pool(
        size, Work("experiments.studies.worker:begin", arguments, threads), progress.tick, 1.0 if sys.stderr.isatty() else None
    )
    try:
        with progress.bar, closing(pool.carry_out(missing)) as ends:
            for end in ends:
                progress.report(end)
    except Interrupted:
        done = sum(kept(folder, run.key, configuration_of(run)) is not None for run in mine)
        print(f"{done} of {len(mine)} runs are done and kept, those begun are saved. To go on: {command}", file=sys.stderr)
        raise
    progress.conclude()
    _say(write(folder, study))
    return not progress.failed


def tell_cost(
    address: str, scale: str, workers: int | None = None, shard: tuple[int, int] = (1, 1), plugins: Sequence[str] = ()
) -> None:
    """Print what the runs will cost, a line a kind and one for all. Raises: UsageError where there is nothing to run."""
    study = loaded(address)
    mine = _runs(study, scale)[shard[0] - 1 :: shard[1]]
    here = place("here", workers, Path())
    size, threads = here.size, here.threads
    cost, _ = cost_of(address, scale, [run.key for run in mine], size, threads, plugins, _say)
    _say(str(cost))
    if study.left_out():
        _say(study.left_out())


def _runs(study: Study, scale: str) -> list[Run]:
    runs = study.runs(scale)
    if not runs:
        raise UsageError(f"{study.name} has nothing to run. {study.left_out()}")
    return runs


@dataclass
class InThisProcess:
    """Hands out work as `WorkerPool` does, to this process: one piece after another."""

    size: int
    work: Work
    tick: Callable[[list[Any]], None] = lambda keys: None
    every: float | None = None

    def carry_out(self, keys: Sequence[object]) -> Generator[End, None, None]:
        do = self.work.begun() if keys else None
        for key in keys:
            self.tick([key])
            assert do is not None
            yield End(key, do(key))


class _Progress:
    """Prints a line a run on stdout, and a bar on stderr where that is a terminal."""

    def __init__(self, folder: Path, study: Study, runs: Mapping[str, Run], missing: int) -> None:
        self.folder, self.study, self.runs = folder, study, runs
        self.busy: list[str] = []
        self.failed: dict[str, str] = {}
        self.bar = tqdm(total=len(runs), initial=len(runs) - missing, unit="run", leave=False, disable=None)

    def report(self, end: End) -> None:
        ended: Ended = (FAILED, end.lost) if end.lost else end.result
        what, words = ended
        if what == FAILED:
            self.failed[end.key] = words
            _say(f"{end.key}  FAILED: {words}")
        elif what == BUSY:
            self.busy.append(end.key)
        else:
            record = kept(self.folder, end.key, configuration_of(self.runs[end.key]))
            headline = _headline(self.study, record) if record else ""
            _say("  ".join(filter(None, [end.key, headline, f"{record['seconds']:.3g} s" if record else ""])))
            self.bar.update()

    def tick(self, running: Sequence[str]) -> None:
        checkpoint()
        self.bar.set_postfix_str(", ".join(running) or "starting")

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
    words = f"{', '.join(filter(None, (study.name, scale)))}: {which}"
    if not missing:
        return f"{words}, all done before."
    if len(missing) < len(mine):
        words += f", {len(mine) - len(missing)} done before, {len(missing)} missing"
    return f"{words}; {size} worker{'s' * (size > 1)} with {threads} thread{'s' * (threads > 1)} each."


def _headline(study: Study, record: Record) -> str:
    return study.headline(record) if record["diverged"] is None else f"training diverged at step {record['diverged']}"


def _made(threads: int) -> dict[str, str]:
    """Return machine and versions, in words."""
    machine = facts()
    names = ("processor", "vectors", "cores", "python", "ctrnn", "torch", "torchdiffeq", "compiler", "date")
    return {**{name: machine[name] for name in names}, "threads": str(threads)}


def _say(line: str) -> None:
    """Print a line above the bar, if there is one."""
    checkpoint()
    tqdm.write(line)
    sys.stdout.flush()
