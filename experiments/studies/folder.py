r"""Write and read a study's folder: what was asked for, and the record of every run that is done.

    DIR/study.json               name, scale, commands, versions, machine, and the configuration of every run expected
    DIR/runs/KEY/                the training's own folder
    DIR/runs/KEY/rows.json       the record: it is there when the run is done, and then it is whole
    DIR/runs/KEY/error.txt       the traceback of a run that failed

One key has one configuration: where another one is found under it, it is refused, never mixed or overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ctrnn.storage.files import read_file, write_atomically
from experiments.files import MOST_JSON, check_no_links, read_json, write_json
from experiments.runs.code import check_same_code, digests_of
from experiments.runs.configuration import Configuration
from experiments.studies.study import KEY, Record, Run, RunMeasures
from experiments.usage import UsageError

__all__ = [
    "COMMIT",
    "PROCESSOR_SECONDS",
    "claimed",
    "configuration_of",
    "described",
    "fail",
    "keep",
    "kept",
    "opened",
    "place_of",
    "records_in",
]

PROCESSOR_SECONDS = "processor seconds"  # of a run, in what a record says of how it was made
COMMIT = "commit"  # of the code that a run was begun with, there too; none of an installed copy
MEASURED = "measured"  # what a run's configuration has beside those of `Configuration`
CLAIM = ".claim"  # held by the process that works on a run
PARTS: dict[str, type | tuple[type, ...]] = {
    "key": str,
    "point": dict,
    "configuration": dict,
    "measures": dict,
    "rows": list,
    "seconds": (int, float),
    "diverged": (int, type(None)),
    "made": dict,
}


def place_of(folder: Path, key: str) -> Path:
    """Return the folder of a run."""
    return folder / "runs" / key


def configuration_of(run: Run) -> dict[str, Any]:
    """Return a run's configuration as it is written, to be compared with what is read."""
    measured = {MEASURED: dict(run.measured)} if run.measured else {}
    plain: dict[str, Any] = json.loads(json.dumps(run.configuration.to_json() | measured))
    return plain


def opened(
    folder: Path, name: str, scale: str, runs: Sequence[Run], about: Mapping[str, object], plugins: Sequence[str] = ()
) -> None:
    """Write down what is asked for, or find that it is what was asked for before. Raises: UsageError where it is not."""
    expected = {run.key: configuration_of(run) for run in runs}
    command = about["command"]
    if not (folder / "study.json").exists():
        about = {**about, "code": digests_of(plugins)}
        write_json(folder / "study.json", {"study": name, "scale": scale, **about, "commands": [command], "runs": expected})
        return
    before = described(folder)
    if (before["study"], before["scale"]) != (name, scale):
        raise UsageError(
            f"{folder} holds the study {before['study']!r}{_at(before['scale'], 'scale ')}, not {name!r}{_at(scale)}; "
            "choose another folder with --out DIR."
        )
    check_same_code(folder / "study.json", plugins, before.get("code"))
    for key, configuration in before["runs"].items():
        _refuse_change(folder, key, configuration, expected.get(key))
    # Runs may come to those that are there, as when a recording is there at last; none may change or go.
    if command not in before["commands"] or expected != before["runs"]:
        commands = list(dict.fromkeys([*before["commands"], command]))
        write_json(folder / "study.json", {**before, "commands": commands, "runs": expected})


def _at(scale: str, before: str = "") -> str:
    return f" at {before}{scale!r}" if scale else ""  # a comparison has none


def described(folder: Path) -> dict[str, Any]:
    """Read study.json. Raises: UsageError."""
    try:
        description = json.loads(read_file(folder / "study.json", MOST_JSON))
        known = (("study", str), ("scale", str), ("commands", list), ("runs", dict))
        if not all(isinstance(description[name], kind) for name, kind in known) or not all(map(_is_key, description["runs"])):
            raise TypeError
    except FileNotFoundError:
        raise UsageError(f"{folder} is no study's folder: there is no study.json in it.") from None
    except OSError as error:
        raise UsageError(f"{folder / 'study.json'} cannot be read ({error.strerror or error}).") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(
            f"{folder / 'study.json'} is damaged; delete that file and repeat `ctrnn study run`: the runs that are done are kept."
        ) from None
    return dict(description)


def kept(folder: Path, key: str, configuration: Mapping[str, object]) -> Record | None:
    """Read the record of a run, None where there is none or it is damaged. Raises: UsageError for another configuration."""
    record = read_json(place_of(folder, key) / "rows.json") or {}
    if not all(name in record and isinstance(record[name], kind) for name, kind in PARTS.items()) or record["key"] != key:
        return None
    if _odd_cell(record) is not None:
        return None
    _refuse_change(folder, key, record["configuration"], configuration)
    return record


def keep(folder: Path, run: Run, measured: RunMeasures, made: Mapping[str, str]) -> None:
    """Write the record of a run that is done; `made` says by which machine and versions, and in how much time.

    Raises: TypeError for what was measured and is no cell of a table: it could not be read again.
    """
    place = place_of(folder, run.key)
    record = {
        "key": run.key,
        "point": run.point,
        "configuration": configuration_of(run),
        "measures": dict(measured.measures),
        "rows": [dict(row) for row in measured.rows],
        "seconds": float(measured.seconds),
        "diverged": measured.diverged,
        "made": {**made, **_begun_with(place)},
    }
    if (odd := _odd_cell(record)) is not None:
        raise TypeError(f"a measured value must be a number, words, a truth value, None or a list of numbers, got {odd}.")
    write_json(place / "rows.json", record)
    (place / "error.txt").unlink(missing_ok=True)


def _begun_with(place: Path) -> dict[str, str]:
    """Return the threads and the commit that a training was begun with, whatever this call has; nothing of what is not known."""
    found = read_json(place / "config.json") or {}
    threads, commit = found.get("threads"), found.get(COMMIT)
    return {
        **({"threads": str(threads)} if isinstance(threads, int) else {}),
        **({COMMIT: commit} if isinstance(commit, str) else {}),
    }


def fail(folder: Path, key: str, traceback: str) -> None:
    """Keep why a run failed, as far as the folder can still be written."""
    with suppress(OSError):
        place_of(folder, key).mkdir(parents=True, exist_ok=True)
        write_atomically(place_of(folder, key) / "error.txt", traceback)


def records_in(folder: Path) -> tuple[dict[str, Any], list[Record]]:
    """Read what was asked for, and the records that are there, in the order of the study. Raises: UsageError."""
    asked = described(folder)
    records = (kept(folder, key, configuration) for key, configuration in asked["runs"].items())
    return asked, [record for record in records if record is not None]


def _odd_cell(record: Mapping[str, Any]) -> str | None:
    """Return the first value that is no cell of a table, with its column; None where all are."""
    rows = [(record["measures"], _is_number), (record["point"], _is_plain), *((row, _is_cell) for row in record["rows"])]
    for row, fits in rows:
        if not isinstance(row, dict):
            return repr(row)
        for column, value in row.items():
            if not fits(value):
                return f"{value!r} for {column!r}"
    return None


def _is_number(value: object) -> bool:
    return value is None or type(value) in (int, float)


def _is_plain(value: object) -> bool:
    """Return whether it is None, a truth value, a number or words."""
    return isinstance(value, bool | str) or _is_number(value)


def _is_cell(value: object) -> bool:
    """Return whether a cell of a table may be this: plain, or a list of numbers."""
    return _is_plain(value) or (isinstance(value, list) and all(map(_is_number, value)))


def _is_key(name: str) -> bool:
    """Return whether it can name a folder beside the others, as the keys of runs do."""
    return KEY.fullmatch(name) is not None


@contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Yield whether this process is the one that works on a run; the claim ends with the process, however that ends."""
    runs = place.parent
    check_no_links(runs.parent, runs.name, runs / place.name, place / CLAIM)
    place.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place / CLAIM, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
    except (OSError, NotImplementedError):  # no locks in this file system: two calls may do the same work, and write the same
        yield True
    else:
        try:
            yield True
        finally:
            lock.release()


def _refuse_change(folder: Path, key: str, before: object, now: object) -> None:
    if before != now and _as_of_now(before) != _as_of_now(now):
        path, old, new = _difference(_as_of_now(before), _as_of_now(now))
        changed = f"{path} is {new!r} and was {old!r}" if path else "it is asked for no more"
        raise UsageError(
            f"{folder} holds run {key!r} of another configuration ({changed}); results are not mixed: choose another folder "
            "with --out DIR."
        )


def _as_of_now(configuration: object) -> Any:
    """Add the settings that came since it was written, as they are by default, and those that nothing reads; return it as it is
    if it is no configuration."""
    if not isinstance(configuration, dict):
        return configuration
    trained = {name: value for name, value in configuration.items() if name != MEASURED}
    try:
        plain = json.loads(json.dumps(Configuration.from_json(trained).as_read().to_json()))
    except UsageError:
        return configuration
    return configuration | plain


def _difference(before: object, now: object, path: str = "") -> tuple[str, Any, Any]:
    """Return the first setting in which two configurations differ."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            if before.get(name) != now.get(name) or (name in before) != (name in now):
                return _difference(before.get(name), now.get(name), f"{path}.{name}".strip("."))
    return path, before, now
