r"""Measure what the runs of a study cost, from a slice of each kind of run: hours of one core, memory, bytes on the disk.

    seconds of a run     start + steps * a step + evaluations * one of them + what is measured afterwards
    of each process      imports, and what its first run takes beyond the others, as kernels are loaded and compared

Twice: by the clock, as the machine is, and by the processor's time, which does not count what others do on it meanwhile.

Runs are of one kind if they differ in seed, rate, clip and the start of their weights only. A slice is a training of a few steps,
in a process of its own, with the threads that the runs will have; whatever is compiled is compiled before the clock is read.
Trained weights may take longer than new ones: exact solves become stiffer. A run with a goal may end
before its last step, and is counted to that.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from derivations.processes.pool import Work, run_alone
from experiments.plugins import use
from experiments.runs.configuration import Configuration
from experiments.studies.registry import loaded
from experiments.studies.study import Run, Study
from experiments.usage import UsageError

__all__ = ["Cost", "Slice", "check_budget", "cost_of", "seconds_in"]

LIKE_SEED = ("seed", "lr", "clip")  # of the training, and of the field:
STARTS = ("alpha", "init", "t_max", "t_min", "recurrent_gain")
FEW, MORE, SHORT = 3, 12, 1.0  # steps of a slice; more where one takes less than so many seconds
BATCHES = 2  # of an evaluation that is timed
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Times:
    """Holds the seconds of one kind of run: to start, of a step, of an evaluation, of what is measured afterwards."""

    start: float
    step: float
    evaluation: float
    measures: float

    def seconds(self, configuration: Configuration) -> float:
        training = configuration.training
        evaluations = training.steps // training.evaluate_every + 1  # the test is one evaluation more
        return self.start + training.steps * self.step + evaluations * self.evaluation + self.measures


@dataclass(frozen=True)
class Slice:
    """Holds the costs of one kind of run.

    Times by the clock and of the processor; seconds in which a process imports, and that its first run takes more; memory and
    disk in bytes, without and with each step.
    """

    clock: Times
    processor: Times
    imports: float
    first: float
    memory: int
    disk: int
    row: float

    def __str__(self) -> str:
        step, evaluation, measures = 1e3 * self.clock.step, self.clock.evaluation, self.clock.measures
        return f"{step:.3g} ms a step, {evaluation:.3g} s an evaluation, {measures:.3g} s measured after it"


@dataclass(frozen=True)
class Cost:
    """Holds the cost of so many runs.

    Seconds of one worker after another, of the longest run, of all by that many workers; bytes; and seconds of the processor,
    all of a worker's threads together.
    """

    runs: int
    kinds: int
    workers: int
    seconds: float
    longest: float
    memory: int
    disk: int
    processor: float

    @property
    def wall(self) -> float:
        return max(self.seconds / self.workers, self.longest)

    def __str__(self) -> str:
        measured = f", with {self.memory / 1e9:.1f} GB of memory each; {self.disk / 1e6:.0f} MB written" if self.memory else ""
        return (
            f"{self.runs} run{'s' * (self.runs != 1)} of {self.kinds} kind{'s' * (self.kinds != 1)}: {in_words(self.seconds)} "
            f"of one worker, {in_words(self.processor)} of them the processor's, the longest {in_words(self.longest)}; "
            f"{in_words(self.wall)} by {self.workers} worker{'s' * (self.workers != 1)}{measured}."
        )


def cost_of(
    address: str,
    scale: str,
    keys: Sequence[str],
    workers: int,
    threads: int,
    plugins: Sequence[str] = (),
    told: Callable[[str], object] = lambda line: None,
) -> tuple[Cost, dict[str, Slice]]:
    """Measure the runs with these keys, by workers with so many threads each; the slices are by the key of a kind's first run.

    Args:    told: gets a line for each kind as soon as it is measured.
    """
    study = loaded(address)
    runs = {run.key: run for run in study.runs(scale) if run.key in set(keys)}
    asked = ((key, study.seconds(run)) for key, run in runs.items())
    given: dict[str, float] = {key: seconds for key, seconds in asked if seconds is not None}
    kinds: dict[str, list[Run]] = {}
    for run in (run for key, run in runs.items() if key not in given):
        kinds.setdefault(kind_of(run.configuration), []).append(run)
    slices: dict[str, Slice] = {}
    work = Work("experiments.studies.cost:begin", (address, scale, threads, tuple(plugins)), threads)
    for key in (same[0].key for same in kinds.values()):
        slices[key] = run_alone(work, key).result  # a process for each, whose memory is that of the slice
        told(f"{key}  {slices[key]}")
    by_run = [(slices[same[0].key], run.configuration) for same in kinds.values() for run in same]
    seconds = [*given.values(), *(each.clock.seconds(configuration) for each, configuration in by_run)]
    size = max(1, min(workers, len(runs)))
    # Imports of the command itself, too, which ends with a page.
    once = max((size * (each.imports + each.first) + each.imports for each in slices.values()), default=0.0)
    processor = once + sum(given.values()) + sum(each.processor.seconds(configuration) for each, configuration in by_run)
    disk = sum(each.disk + each.row * configuration.training.steps for each, configuration in by_run)
    memory = max((each.memory for each in slices.values()), default=0)
    count, longest = len(kinds) + len(set(given.values())), max(seconds, default=0.0)
    return Cost(len(runs), count, size, once + sum(seconds), longest, memory, round(disk), processor), slices


def kind_of(configuration: Configuration) -> str:
    """Return a text that is equal for runs that cost the same."""
    values = configuration.to_json()
    training = {name: value for name, value in values["training"].items() if name not in LIKE_SEED}
    field = {name: value for name, value in values["field_settings"].items() if name not in STARTS}
    return json.dumps(values | {"training": training, "field_settings": field}, sort_keys=True)


def check_budget(cost: Cost, budget: float) -> None:
    """Refuse runs that will take longer than so many seconds. Raises: UsageError."""
    if cost.wall > budget:
        raise UsageError(
            f"--budget is {in_words(budget)}, and these runs will take {in_words(cost.wall)}: {cost} Nothing was begun; "
            "take another scale, more workers, or a --shard."
        )


def seconds_in(words: str) -> float:
    """Read "3h", "45min", "90s" or "2d" as seconds. Raises: UsageError for other words."""
    for unit in sorted(UNITS, key=len, reverse=True):
        number = words.removesuffix(unit)
        if number != words and number.replace(".", "", 1).isdecimal() and float(number) > 0:
            return float(number) * UNITS[unit]
    raise UsageError(f"--budget is a time such as 3h, 45min, 90s or 2d; got {words!r}.")


def in_words(seconds: float) -> str:
    for unit, length in (("d", 2 * UNITS["d"]), ("h", 2 * UNITS["h"]), ("min", 2 * UNITS["min"])):
        if seconds >= length:
            return f"{seconds / UNITS[unit]:.3g} {unit}"
    return f"{seconds:.3g} s"


def begin(address: str, scale: str, threads: int, plugins: Sequence[str]) -> Callable[[str], Slice]:
    """Return a function that measures a slice of a run, in this process, which does nothing else before."""
    import torch  # noqa: PLC0415

    use(plugins)
    torch.set_num_threads(threads)
    study = loaded(address)
    runs = {run.key: run for run in study.runs(scale)}
    return lambda key: _slice(study, runs[key])


def _slice(study: Study, run: Run) -> Slice:
    importlib.import_module("experiments.runs.training")
    times = [time.process_time()]
    with tempfile.TemporaryDirectory() as folder:
        _trained(study, run, FEW, Path(folder) / "first")  # compiles, in processes of their own, and reads recordings into memory
        times.append(time.process_time())
        (clock, _), _ = _trained(study, run, FEW, Path(folder) / "few")
        times.append(time.process_time())
        steps = FEW if clock["step"] > SHORT else MORE
        (clock, processor), last = _trained(study, run, steps, Path(folder) / "slice", measured=True)
        rows = (last / "metrics.csv").stat().st_size
        disk = sum(file.stat().st_size for file in last.rglob("*") if file.is_file()) - rows
    imports, first = times[0], max(0.0, (times[1] - times[0]) - (times[2] - times[1]))
    return Slice(Times(**clock), Times(**processor), imports, first, _most_memory(), disk, rows / steps)


def _trained(study: Study, run: Run, steps: int, folder: Path, measured: bool = False) -> tuple[list[dict[str, float]], Path]:
    """Train a few steps; return the parts of its times by the clock and of the processor, and its folder."""
    from experiments.runs.evaluation import evaluate  # noqa: PLC0415
    from experiments.runs.training import train  # noqa: PLC0415

    given = run.configuration.training
    short: dict[str, Any] = {"steps": steps, "evaluate_every": steps, "evaluation": given.batch, "checkpoint_every": steps}
    configuration = dataclasses.replace(run.configuration, training=dataclasses.replace(given, **short))
    times = [_now()]
    outcome = train(configuration, folder, progress=lambda *_: times.append(_now()))
    ended, sequences = [_now()], min(given.evaluation, BATCHES * given.batch)
    if measured:
        evaluate(outcome.model, configuration.task, "validation", sequences, batch=given.batch)
        ended.append(_now())
        study.measure(dataclasses.replace(run, configuration=configuration), outcome.model, folder)
        ended.append(_now())
    lines = []
    for steps_at, ended_at in zip(zip(*times, strict=True), zip(*ended, strict=True), strict=True):
        took, after = ([later - earlier for earlier, later in pairwise(at)] for at in (steps_at, ended_at))
        step = statistics.median(took[1:-1] or took)  # neither the first, nor the last, which evaluates
        evaluation, measures = (after[0] * given.evaluation / sequences, after[1]) if measured else (0.0, 0.0)
        lines.append({"start": max(0.0, took[0] - step), "step": step, "evaluation": evaluation, "measures": measures})
    return lines, folder


def _now() -> tuple[float, float]:
    """Return the time by the clock, and of this process."""
    return time.perf_counter(), time.process_time()


def _most_memory() -> int:
    import resource  # noqa: PLC0415 - not on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
