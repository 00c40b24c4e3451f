r"""Read the folder of a run, lock it, and load the trained model in it.

config.json                   configuration, digests of data and of the user's code, command, threads, versions, machine, commit
metrics.csv                   a row a step, to the step that was reached
checkpoint.pt, previous.pt    see checkpoints.py
result.json                   once it is completed: measures on the split "test", seconds, steps, engines, largest g dt
stopped.json, index.html      where it diverged: why, at which step, and the page of it; gone when the run goes on
logs.json                     of --log: how each tracker knows the run, and up to which step it has the rows
.lock                         held by the process that trains here
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from discretize import SequenceModel
from experiments.files import check_no_links, not_writable, read_json
from experiments.models.fields import FIELDS
from experiments.registry import add_from
from experiments.runs.checkpoints import NEWEST, PREVIOUS, Checkpoints
from experiments.runs.code import check_same_code
from experiments.runs.configuration import Configuration
from experiments.runs.stopping import StoppedError
from experiments.settings import words_of
from experiments.tasks.registry import TASKS
from experiments.usage import UsageError

__all__ = [
    "CONFIG",
    "LOGS",
    "METRICS",
    "PAGE",
    "RESULT",
    "STOPPED",
    "check_same_run",
    "held_folder",
    "load",
    "read_configuration",
    "read_result",
    "refuse_run",
    "refused_misfits",
]

CONFIG, METRICS, RESULT, LOCK = "config.json", "metrics.csv", "result.json", ".lock"
STOPPED, PAGE, LOGS = "stopped.json", "index.html", "logs.json"
FILES = (CONFIG, METRICS, RESULT, STOPPED, LOCK, LOGS, NEWEST, PREVIOUS)


def load(folder: Path | str, plugins: Iterable[str] = ()) -> tuple[SequenceModel, Configuration]:
    r"""Load the trained model of a run, or what its newest checkpoint has of it, and its configuration.

    Args:    plugins: your files with the task or the field of the run, those of its --plugin; they are run.
    Raises:  UsageError for a folder without a run or without a checkpoint, and for a task or field of a file that is not among
             `plugins`; StoppedError where all of them are damaged, or do not fit the configuration.
    """
    folder = Path(folder)
    add_from(plugins, {"TASKS": TASKS, "FIELDS": FIELDS})
    configuration, state = read_configuration(folder), Checkpoints(folder).load()
    if configuration is None or state is None:
        missing = CONFIG if configuration is None else NEWEST
        raise UsageError(f"{folder} holds no trained model: there is no {missing}.")
    model = configuration.untrained_model()
    with refused_misfits(folder):
        model.load_state_dict(state["kept"] if "kept" in state else state["model"])
    return model, configuration


@contextmanager
def refused_misfits(folder: Path) -> Iterator[None]:
    """Turn errors of loading a checkpoint into a model into a StoppedError: it does not fit."""
    try:
        yield
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
        raise StoppedError(
            f"the checkpoint in {folder} does not fit the model that {CONFIG} describes ({why}). Nothing was deleted; "
            "begin again with another --out DIR.",
            "damaged",
        ) from error


def read_result(folder: Path) -> dict[str, Any] | None:
    """Read result.json; None for a run that is not completed, or where that cannot be read."""
    found = read_json(folder / RESULT) or {}
    measures = found.get("measures")
    if not isinstance(measures, dict):
        return None
    numbers = [found.get("seconds"), found.get("steps"), *measures.values()]
    return found if all(type(number) in (int, float) for number in numbers) else None


def read_configuration(folder: Path) -> Configuration | None:
    """Read the configuration of the run in a folder, None where there is none. Raises: UsageError where it cannot be read."""
    check_no_links(folder, *FILES)
    path = folder / CONFIG
    if not path.exists():
        if any((folder / name).exists() for name in (NEWEST, PREVIOUS, METRICS, RESULT)):
            raise UsageError(f"{folder} holds parts of a run, but no {CONFIG} to know it by; choose another --out DIR.")
        return None
    found = read_json(path)
    if found is None:
        raise UsageError(f"{path} cannot be read; choose another --out DIR.")
    try:
        return Configuration.from_json(found.get("configuration"))
    except UsageError as error:
        raise UsageError(f"{path}: {error}{_of_plugins(found)}") from error


def _of_plugins(found: dict[str, Any]) -> str:
    """Say which files of the user's a run was begun with, if it was."""
    words = shlex.split(command) if isinstance(command := found.get("command"), str) else []
    files = [file for word, file in pairwise(words) if word == "--plugin"]
    if not files:
        return ""
    options = " ".join(f"--plugin {shlex.quote(file)}" for file in files)
    return f" The run was begun with {' and '.join(files)}: add {options}; in Python, load(folder, plugins={files})."


@contextmanager
def held_folder(folder: Path, configuration: Configuration, resume: bool) -> Iterator[None]:
    r"""Hold a folder, new or of a run of the same configuration, for this process alone.

    The kernel holds the lock, and lets it go when the process ends, however it ends.

    Raises:  UsageError for a folder that holds a run already (without `resume`), or of other settings, or that another process
             trains in, or that cannot be written, and for data that cannot be read.
    """
    configuration.to_json()  # raises for settings that cannot be written
    configuration.task.fingerprint()  # raises for files that are not there
    check_no_links(folder, *FILES)
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise UsageError(f"another process trains in {folder}; wait for it, or choose another --out DIR.") from None
    except OSError as error:
        raise not_writable(folder, error) from None
    try:
        if not resume:
            refuse_run(folder)
        if (before := read_configuration(folder)) is not None:
            check_same_run(folder, before, configuration)
        yield
    finally:
        lock.release()


def refuse_run(folder: Path) -> None:
    """Refuse a folder that holds a run. Raises: UsageError."""
    if read_configuration(folder) is not None:
        raise UsageError(f"{folder} holds a run already; go on with it by --resume, or choose another --out DIR.")


def check_same_run(folder: Path, before: Configuration, configuration: Configuration) -> None:
    """Refuse a recorded configuration that differs, by the names of its keys, unless this one is longer; other code; other data.

    Raises:  UsageError.
    """
    if (keys := before.differences(configuration)) and not configuration.extends(before):
        ours, theirs = configuration.named(), before.named()
        differences = ", ".join(f"{key} ({words_of(theirs.get(key))} there, {words_of(ours.get(key))} here)" for key in keys)
        raise UsageError(f"{folder} holds a run of other settings: {differences}. Give the same, or choose another --out DIR.")
    found = read_json(folder / CONFIG) or {}
    check_same_code(folder / CONFIG, configuration.files(), found.get("code"))
    data = found.get("data")
    if data is not None and data != configuration.task.fingerprint():
        raise UsageError(
            f"{folder} holds a run on other data: what {configuration.task_name} reads is not what it was when the run was "
            "begun. Give the same, or choose another --out DIR."
        )
