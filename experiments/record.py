r"""A run is a folder.

    config.json                   configuration, command, threads, versions, machine, commit
    metrics.csv                   a row a step, to the step that was reached
    checkpoint.pt, previous.pt    see checkpoints.py
    result.json                   once it is finished: measures on the split "test", seconds, steps
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from experiments.bench.machine import facts
from experiments.checkpoints import NEWEST, PREVIOUS, Checkpoints, State
from experiments.configuration import Configuration
from experiments.durability import write_all, write_durably
from experiments.locking import locked
from experiments.model import SequenceModel, built_model
from experiments.stopping import StoppedError
from experiments.usage import UsageError
from experiments.writing import not_writable

__all__ = ["CONFIG", "METRICS", "RESULT", "RunFolder", "check_same", "finished", "load", "opened", "recorded"]

CONFIG, METRICS, RESULT = "config.json", "metrics.csv", "result.json"
COLUMNS = ("step", "seconds", "rate", "loss", "gradient_norm", "evaluation_loss", "evaluation_accuracy")
PACKAGES = ("ctrnn", "torch", "torchdiffeq", "numpy")


def load(folder: Path) -> tuple[SequenceModel, Configuration]:
    r"""The trained model of a run, or what its newest checkpoint has of it, and what it was trained as.

    Raises:  UsageError for a folder without a run or without a checkpoint; StoppedError where all of them are damaged.
    """
    configuration, state = recorded(folder), Checkpoints(folder).load()
    if configuration is None or state is None:
        missing = CONFIG if configuration is None else NEWEST
        raise UsageError(f"{folder} holds no trained model: there is no {missing}.")
    model = built_model(configuration)
    model.load_state_dict(state["model"])
    return model, configuration


def finished(folder: Path) -> dict[str, Any] | None:
    """What result.json says; None for a run that is not finished."""
    found = _read_json(folder / RESULT)
    return found if found is not None and found.keys() >= {"measures", "seconds", "steps"} else None


def recorded(folder: Path) -> Configuration | None:
    """The configuration of the run in a folder, None where there is none. Raises: UsageError where it cannot be read."""
    path = folder / CONFIG
    if not path.exists():
        if any((folder / name).exists() for name in (NEWEST, PREVIOUS, METRICS)):
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
        self.threads = int((found or {}).get("threads") or configuration.training.threads or torch.get_num_threads())
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
            "command": self.configuration.command(self.folder),
            "threads": self.threads,
            "versions": _versions(),
            "machine": {name: told[name] for name in ("machine", "processor", "vectors", "torch's vectors", "cores", "compiler")},
            "commit": _commit(),
            "begun": told["date"],
        }
        with self._writing():
            write_durably(self.folder / CONFIG, _as_json(about))

    def _compare(self, found: Mapping[str, Any]) -> None:
        """Say what else than the configuration is not as it was: the last bits may depend on it."""
        cores = _cores()
        if self.threads > cores:
            print(f"The run was begun with {self.threads} threads and goes on with as many, on {cores} core(s).", file=sys.stderr)
        then = found.get("versions") or {}
        for name, now in _versions().items():
            if then.get(name, now) != now:
                print(f"The run was begun with {name} {then[name]}, this is {now}: last bits may differ.", file=sys.stderr)

    def _cut_back(self) -> None:
        lines = self._metrics.read_text().splitlines(keepends=True) if self._metrics.exists() else []
        whole = [line for line in lines[1:] if line.endswith("\n") and line.partition(",")[0].isdecimal()]
        rows = [line for line in whole if int(line.partition(",")[0]) <= self._kept]
        if len(rows) != self._kept:
            print(f"{self._metrics} has {len(rows)} of the {self._kept} rows before; it goes on from there.", file=sys.stderr)
        write_durably(self._metrics, "".join([",".join(COLUMNS) + "\n", *rows]).encode())

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
                f"{self.configuration.command(self.folder, resume=True)}"
            ) from error


@contextmanager
def opened(folder: Path, configuration: Configuration, resume: bool) -> Iterator[RunFolder]:
    r"""The folder, held by this process alone, new or of the same configuration.

    Raises:  UsageError for a folder that holds a run already (without `resume`), or of other settings, or that another process
             trains in, or that cannot be written; StoppedError for a disk that is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from None
    configuration.to_json()  # refused before anything is written
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
    """Raises: UsageError that names the keys in which the recorded configuration is another."""
    if keys := before.differences(configuration):
        ours, theirs = configuration.named(), before.named()
        told = ", ".join(f"{key} ({theirs.get(key)} there, {ours.get(key)} here)" for key in keys)
        raise UsageError(f"{folder} holds a run of other settings: {told}. Give the same, or choose another --out DIR.")


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


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
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    with suppress(OSError, subprocess.SubprocessError):
        asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return None
