r"""A run is a folder.

    config.json                   configuration, digest of the data, command, threads, versions, machine, commit
    metrics.csv                   a row a step, to the step that was reached
    checkpoint.pt, previous.pt    see checkpoints.py
    result.json                   once it is finished: measures on the split "test", seconds, steps, engines
    .lock                         held by the process that trains here

Rows are whole up to the newest checkpoint before that is written, and cut back to it when a run goes on: so the table is the
same, wall-clock seconds aside, whether the run was interrupted or not.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from experiments.models.sequence_model import SequenceModel
from experiments.reports.machine import facts
from experiments.reports.writing import not_writable
from experiments.runs.checkpoints import NEWEST, PREVIOUS, Checkpoints, State
from experiments.runs.configuration import MOST_THREADS, Configuration
from experiments.runs.durability import write_all, write_durably
from experiments.runs.locking import locked
from experiments.runs.stopping import StoppedError
from experiments.tasks.task import Task
from experiments.usage import UsageError

__all__ = ["CONFIG", "METRICS", "RESULT", "RunFolder", "check_same", "finished", "fitting", "load", "opened", "recorded"]

CONFIG, METRICS, RESULT = "config.json", "metrics.csv", "result.json"
COLUMNS = ("step", "seconds", "rate", "loss", "gradient_norm", "evaluation_loss", "evaluation_accuracy")
MOST_DIGITS = 20  # of a step
PACKAGES = ("ctrnn", "torch", "torchdiffeq", "numpy")


def load(folder: Path) -> tuple[SequenceModel, Configuration]:
    r"""The trained model of a run, or what its newest checkpoint has of it, and what it was trained as.

    Raises:  UsageError for a folder without a run or without a checkpoint; StoppedError where all of them are damaged, or do
             not fit the configuration.
    """
    configuration, state = recorded(folder), Checkpoints(folder).load()
    if configuration is None or state is None:
        missing = CONFIG if configuration is None else NEWEST
        raise UsageError(f"{folder} holds no trained model: there is no {missing}.")
    model = configuration.untrained_model()
    with fitting(folder):
        model.load_state_dict(state["model"])
    return model, configuration


@contextmanager
def fitting(folder: Path) -> Iterator[None]:
    """A state that is loaded into what a configuration builds. Raises: StoppedError where it does not fit."""
    try:
        yield
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
        raise StoppedError(
            f"the checkpoint in {folder} does not fit the model that {CONFIG} describes ({why}). Nothing was deleted; "
            "begin again with another --out DIR.",
            "damaged",
        ) from error


def finished(folder: Path) -> dict[str, Any] | None:
    """What result.json says; None for a run that is not finished, or where that cannot be read."""
    found = _read_json(folder / RESULT) or {}
    measures = found.get("measures")
    if not isinstance(measures, dict):
        return None
    return found if all(map(_is_number, [found.get("seconds"), found.get("steps"), *measures.values()])) else None


def recorded(folder: Path) -> Configuration | None:
    """The configuration of the run in a folder, None where there is none. Raises: UsageError where it cannot be read."""
    path = folder / CONFIG
    if not path.exists():
        if any((folder / name).exists() for name in (NEWEST, PREVIOUS, METRICS, RESULT)):
            raise UsageError(f"{folder} holds parts of a run, but no {CONFIG} to know it by; choose another --out DIR.")
        return None
    found = _read_json(path)
    if found is None:
        raise UsageError(f"{path} cannot be read; choose another --out DIR.")
    try:
        return Configuration.from_json(found.get("configuration"))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


class RunFolder:
    """A folder that this process trains in."""

    def __init__(self, folder: Path, configuration: Configuration) -> None:
        self.folder, self.configuration = folder, configuration
        self._checkpoints, self._metrics = Checkpoints(folder), folder / METRICS
        self._rows: int | None = None
        self._kept = 0  # the step of the newest checkpoint
        found = _read_json(folder / CONFIG)
        self.threads = self._threads(found or {}) or configuration.training.threads or torch.get_num_threads()
        if found is None:
            self._begin()
        else:
            self._compare(found)

    def restore(self) -> State | None:
        """The state to go on from, None at the start; the rows after it are cut off. Raises: StoppedError."""
        state = self._checkpoints.load()
        self._kept = int(state["step"]) if state else 0
        with self._writing():
            self._cut_back()
            self._rows = os.open(self._metrics, os.O_WRONLY | os.O_APPEND)
        return state

    def row(self, step: int, seconds: float, rate: float, loss: float, norm: float, found: Mapping[str, float]) -> None:
        """One step; `found` is what an evaluation after it measured, {} where there was none. Raises: StoppedError."""
        values = [step, f"{seconds:.3f}", rate, loss, norm, found.get("loss", ""), found.get("accuracy", "")]
        with self._writing():
            write_all(self._open_rows(), (",".join(map(str, values)) + "\n").encode())

    def keep(self, state: State) -> None:
        """A checkpoint, once the rows before it are safe; if there is none of that step. Raises: StoppedError."""
        if int(state["step"]) <= self._kept:
            return
        with self._writing():
            os.fsync(self._open_rows())
            self._checkpoints.save(state)
        self._kept = int(state["step"])

    def finish(self, result: Mapping[str, Any]) -> None:
        """Raises: StoppedError."""
        with self._writing():
            write_durably(self.folder / RESULT, _as_json(result))

    def close(self) -> None:
        if self._rows is not None:
            os.close(self._rows)
            self._rows = None

    def _begin(self) -> None:
        told = facts()
        about = {
            "configuration": self.configuration.to_json(),
            "data": _data(self.configuration.task),
            "command": self.configuration.command(self.folder),
            "threads": self.threads,
            "versions": _versions(),
            "machine": {name: told[name] for name in ("machine", "processor", "vectors", "torch's vectors", "cores", "compiler")},
            "commit": _commit(),
            "begun": told["date"],
        }
        with self._writing():
            write_durably(self.folder / CONFIG, _as_json(about))

    def _threads(self, found: Mapping[str, Any]) -> int | None:
        """As many as recorded. Raises: UsageError for what is no number of threads."""
        told = found.get("threads")
        if told is not None and (type(told) is not int or not 1 <= told <= MOST_THREADS):
            raise UsageError(
                f"{self.folder / CONFIG}: threads is a whole number from 1 to {MOST_THREADS}, got {told!r}. Mend it, or choose "
                "another --out DIR."
            )
        return told

    def _compare(self, found: Mapping[str, Any]) -> None:
        """Say what else than the configuration is not as it was: the last bits may depend on it."""
        cores = _cores()
        if self.threads > cores:
            print(f"The run was begun with {self.threads} threads and goes on with as many, on {cores} core(s).", file=sys.stderr)
        then = found.get("versions")
        for name, now in _versions().items():
            if isinstance(then, dict) and then.get(name, now) != now:
                print(f"The run was begun with {name} {then[name]}, this is {now}: last bits may differ.", file=sys.stderr)

    def _cut_back(self) -> None:
        lines = self._metrics.read_bytes().splitlines(keepends=True) if self._metrics.exists() else []
        kept = [k for k, line in enumerate(lines) if k and 1 <= _step_of(line) <= self._kept]
        for k in range(kept[-1] + 1 if kept else 0):  # what comes after is cut off, whatever it is
            if not lines[k].isascii():
                raise StoppedError(
                    f"{self._metrics} is damaged (line {k + 1} is not text). Nothing was changed; mend that line, or move the "
                    f"file away, then go on with: {self.configuration.command(self.folder, resume=True)}",
                    "damaged",
                )
        if len(kept) != self._kept:
            print(f"{self._metrics} has {len(kept)} of the {self._kept} rows before; it goes on from there.", file=sys.stderr)
        write_durably(self._metrics, b"".join([(",".join(COLUMNS) + "\n").encode(), *(lines[k] for k in kept)]))

    def _open_rows(self) -> int:
        if self._rows is None:
            raise RuntimeError("`restore` comes before the first row.")
        return self._rows

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kept = f"the run is kept up to step {self._kept}" if self._kept else "no step is kept yet"
            raise StoppedError(
                f"cannot write to {self.folder} ({error.strerror or error}); {kept}. Make room, or writable, then go on with: "
                f"{self.configuration.command(self.folder, resume=True)}",
                "not writable",
            ) from error


@contextmanager
def opened(folder: Path, configuration: Configuration, resume: bool) -> Iterator[RunFolder]:
    r"""The folder, held by this process alone, new or of the same configuration.

    Raises:  UsageError for a folder that holds a run already (without `resume`), or of other settings, or that another process
             trains in, or that cannot be written, and for data that cannot be read; StoppedError for a disk that is full.
    """
    configuration.to_json()  # refused before anything is written,
    _data(configuration.task)  # and so are files that are not there
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from None
    with locked(folder):
        _check(folder, configuration, resume)
        run = RunFolder(folder, configuration)
        try:
            yield run
        finally:
            run.close()


def _check(folder: Path, configuration: Configuration, resume: bool) -> None:
    before = recorded(folder)
    if before is None:
        return
    if not resume:
        raise UsageError(f"{folder} holds a run already; go on with it by --resume, or choose another --out DIR.")
    check_same(folder, before, configuration)


def check_same(folder: Path, before: Configuration, configuration: Configuration) -> None:
    """Raises: UsageError that names the keys in which the recorded configuration is another, and for other data."""
    if keys := before.differences(configuration):
        ours, theirs = configuration.named(), before.named()
        told = ", ".join(f"{key} ({theirs.get(key)} there, {ours.get(key)} here)" for key in keys)
        raise UsageError(f"{folder} holds a run of other settings: {told}. Give the same, or choose another --out DIR.")
    data = (_read_json(folder / CONFIG) or {}).get("data")
    if data is not None and data != _data(configuration.task):
        raise UsageError(
            f"{folder} holds a run on other data: what {configuration.task_name} reads is not what it was when the run was "
            "begun. Give the same, or choose another --out DIR."
        )


def _data(task: Task) -> str | None:
    """A digest of the files that a task reads, by which others are noticed; None for a task that reads none."""
    fingerprint: Callable[[], str | None] | None = getattr(task, "fingerprint", None)
    return fingerprint() if fingerprint is not None else None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _step_of(line: bytes) -> int:
    """The step of a row, 0 for what is none or was torn."""
    digits = line.partition(b",")[0]
    return int(digits) if digits.isdigit() and len(digits) < MOST_DIGITS and line.endswith(b"\n") else 0


def _as_json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _commit() -> str | None:
    """Of the repository that this code stands in; None for an installed copy."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    with suppress(OSError, subprocess.SubprocessError):
        asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return None
