r"""Write what a run leaves: its configuration, a row of metrics a step, checkpoints and the result.

Rows are whole up to the newest checkpoint before that is written, and cut back to it when a run goes on: so the table is the
same, wall-clock seconds aside, whether the run was interrupted or not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from ctrnn.storage.files import NO_LINK, PART, read_file, write_all, write_atomically
from experiments.files import read_json, write_json
from experiments.reports.machine import cores, facts
from experiments.runs import rates
from experiments.runs.checkpoints import Checkpoints, State
from experiments.runs.code import digests_of
from experiments.runs.configuration import MOST_THREADS, Configuration
from experiments.runs.folder import CONFIG, METRICS, PAGE, RESULT, STOPPED
from experiments.runs.stopping import StoppedError
from experiments.usage import UsageError

__all__ = ["NoRecord", "RunRecord"]

COLUMNS = ("step", "seconds", "rate", "loss", "gradient_norm", "evaluation_loss", "evaluation_accuracy")
MOST_DIGITS = 20  # of a step
PACKAGES = ("python", "ctrnn", "torch", "torchdiffeq", "numpy")
MACHINE = ("machine", "processor", "vectors", "torch's vectors", "cores", "compiler", "device")


class RunRecord:
    r"""Writes the folder of a run, which this process holds; a context in which the table of metrics is open.

    Args:    threads: of a run that begins; device: of torch, "cpu" or "cuda"; processes: that share each batch.
    Raises:  UsageError for threads that are no number; StoppedError for a disk that is full.
    """

    def __init__(self, folder: Path, configuration: Configuration, threads: int, device: str, processes: int = 1) -> None:
        self.folder, self.configuration, self.device, self.processes = folder, configuration, device, processes
        self._checkpoints, self._metrics = Checkpoints(folder), folder / METRICS
        measured = (f"evaluation_{name}" for name in configuration.task.measured)
        self._columns = tuple(dict.fromkeys([*COLUMNS, *measured, *rates.COLUMNS]))
        self._rows: int | None = None
        self._kept = 0  # the step of the newest checkpoint
        record = read_json(folder / CONFIG)
        self.threads = self._threads(record or {}) or threads
        with self._writing():
            for left in folder.glob(f".*{PART}"):  # a process that was killed leaves its temporary file
                left.unlink()
            if (folder / STOPPED).exists():  # the run goes on, and its page is of what was
                (folder / STOPPED).unlink()
                (folder / PAGE).unlink(missing_ok=True)
            if record is None:
                self._write_config()
            elif configuration.extends(Configuration.from_json(record["configuration"])):  # a longer run has no result yet
                (folder / RESULT).unlink(missing_ok=True)
                longer = {"configuration": configuration.to_json(), "command": configuration.command(folder)}
                write_json(folder / CONFIG, record | longer)
        if record is not None:
            self._compare(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rows is not None:
            os.close(self._rows)
            self._rows = None

    def restore(self) -> State | None:
        """Read the state to go on from, None at the start, and cut off the rows after it. Raises: StoppedError."""
        state = self._checkpoints.load()
        self._kept = int(state["step"]) if state else 0
        with self._writing():
            self._cut_back()
            self._rows = os.open(self._metrics, os.O_WRONLY | os.O_APPEND | NO_LINK)
        return state

    def write_row(self, step: int, seconds: float, row: Mapping[str, float], found: Mapping[str, float]) -> None:
        """Write the row of a step; `found` is what was measured after it, {} where nothing was. Raises: StoppedError."""
        values = {"step": step, "seconds": f"{seconds:.3f}", **row, **{f"evaluation_{name}": x for name, x in found.items()}}
        with self._writing():
            write_all(self._open_rows(), (",".join(str(values.get(name, "")) for name in self._columns) + "\n").encode())

    def save(self, state: State) -> None:
        """Save a checkpoint, once the rows before it are safe, if there is none of that step. Raises: StoppedError."""
        if int(state["step"]) <= self._kept:
            return
        with self._writing():
            os.fsync(self._open_rows())
            self._checkpoints.save(state)
        self._kept = int(state["step"])

    def write_result(self, result: Mapping[str, object]) -> None:
        """Write result.json. Raises: StoppedError."""
        with self._writing():
            write_json(self.folder / RESULT, result)

    def write_stopped(self, stopped: Mapping[str, object]) -> None:
        """Write stopped.json, which says why there is no result. Raises: StoppedError."""
        with self._writing():
            write_json(self.folder / STOPPED, stopped)

    def _write_config(self) -> None:
        known = facts(self.device)
        config = {
            "configuration": self.configuration.to_json(),
            "data": self.configuration.task.fingerprint(),
            "code": digests_of(self.configuration.files()),
            "command": self.configuration.command(self.folder),
            "threads": self.threads,
            **({"processes": self.processes} if self.processes > 1 else {}),
            "versions": {name: known[name] for name in PACKAGES},
            "machine": {name: known[name] for name in MACHINE if name in known},
            "commit": _commit(),
            "begun": known["date"],
        }
        write_json(self.folder / CONFIG, config)

    def _threads(self, found: Mapping[str, object]) -> int | None:
        """Return the recorded number of threads. Raises: UsageError for what is no such number."""
        threads = found.get("threads")
        if threads is not None and (type(threads) is not int or not 1 <= threads <= MOST_THREADS):
            raise UsageError(
                f"{self.folder / CONFIG}: threads is a whole number from 1 to {MOST_THREADS}, got {threads!r}. Mend it, or "
                "choose another --out DIR."
            )
        return threads

    def _compare(self, found: Mapping[str, object]) -> None:
        """Print what else than the configuration has changed: the last bits may depend on it."""
        if self.threads > (here := cores()):
            print(f"The run was begun with {self.threads} threads and goes on with as many, on {here} core(s).", file=sys.stderr)
        if (before := found.get("processes", 1)) != self.processes:
            print(
                f"The run was begun by {before} process(es), these are {self.processes}: last bits may differ.", file=sys.stderr
            )
        if (commit := found.get("commit")) and (now_at := _commit()) and commit != now_at:
            print(f"The run was begun at the commit {commit}, this is {now_at}: its code may differ.", file=sys.stderr)
        then, now = found.get("versions"), facts()
        for name in PACKAGES:
            if isinstance(then, dict) and then.get(name, now[name]) != now[name]:
                print(f"The run was begun with {name} {then[name]}, this is {now[name]}: last bits may differ.", file=sys.stderr)

    def _cut_back(self) -> None:
        lines = read_file(self._metrics).splitlines(keepends=True) if self._metrics.exists() else []
        kept = [k for k, line in enumerate(lines) if k and 1 <= _step_of(line) <= self._kept]
        for k in range(kept[-1] + 1 if kept else 0):  # cuts off whatever stands behind the last whole row
            if not lines[k].isascii():
                raise StoppedError(
                    f"{self._metrics} is damaged (line {k + 1} is not text). Nothing was changed; mend that line, or move the "
                    f"file away, then go on with: {self.configuration.command(self.folder, resume=True)}",
                    "damaged",
                )
        if len(kept) != self._kept:
            print(f"{self._metrics} has {len(kept)} of the {self._kept} rows before; it goes on from there.", file=sys.stderr)
        write_atomically(self._metrics, b"".join([(",".join(self._columns) + "\n").encode(), *(lines[k] for k in kept)]))

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
                f"cannot write to {self.folder} ({error.strerror or error}); {kept}. Make room or the folder writable, and "
                f"go on with: {self.configuration.command(self.folder, resume=True)}",
                "not writable",
            ) from error


class NoRecord:
    """Takes the place of a `RunRecord` where nothing is written, as in a process whose run another one writes."""

    threads = None

    def restore(self) -> State | None:
        return None

    def write_row(self, *_: object) -> None:
        pass

    save = write_result = write_stopped = write_row


def _step_of(line: bytes) -> int:
    """Return the step of a row, 0 for what is none or was torn."""
    digits = line.partition(b",")[0]
    return int(digits) if digits.isdigit() and len(digits) < MOST_DIGITS and line.endswith(b"\n") else 0


def _commit() -> str | None:
    """Return the commit of the repository that this code stands in; None for an installed copy."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    with suppress(OSError, subprocess.SubprocessError):
        git = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(git, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    return None
