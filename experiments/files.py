"""Checks folders and files before commands write them, for those that cannot be written or are links, and writes JSON."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctrnn.storage.files import read_file, write_atomically
from experiments.usage import UsageError

__all__ = [
    "MOST_JSON",
    "check_no_links",
    "check_output",
    "not_writable",
    "read_json",
    "ready_folder",
    "write_files",
    "write_json",
]

MOST_JSON = 1 << 26  # bytes; in memory they are up to thirty times as many, and records of studies have up to one megabyte


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON. Raises: OSError, as `write_atomically`."""
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write texts into a folder, each under its name. Raises: UsageError for a folder that cannot be written."""
    try:
        for name, text in texts.items():
            write_atomically(folder / name, text)
    except OSError as error:
        raise not_writable(folder, error) from None


def read_json(path: Path) -> dict[str, Any] | None:
    """Read the object in a file, None where there is none or it cannot be read."""
    try:
        found = json.loads(read_file(path, MOST_JSON))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def check_no_links(folder: Path, *inside: Path | str) -> None:
    """Refuse a folder in which what is to be written is a symbolic link: it leads elsewhere. Raises: UsageError."""
    for path in (folder / name for name in inside):
        if path.is_symlink():
            raise UsageError(
                f"{path} is a symbolic link to {os.readlink(path)}; nothing is written there. Put a file or folder in its "
                "place, or choose another --out DIR."
            )


def check_output(out: Path) -> None:
    """Refuse a file that cannot be written before minutes of work are lost. Raises: UsageError."""
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file in it.")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}.")
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise UsageError(f"--out {out}: cannot write to {out.parent} ({error.strerror or error}).") from None


def ready_folder(folder: Path) -> None:
    """Make the folder, and refuse one that cannot be written before a minute of work is lost. Raises: UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise not_writable(folder, error) from None


def not_writable(folder: Path, error: OSError) -> UsageError:
    """Return the error of a folder that cannot be written."""
    return UsageError(f"cannot write to {folder} ({error.strerror or error}); choose another folder with --out DIR.")
