r"""Files that survive: whole or not there, also when the process is killed or the machine loses power.

bytes -> a file beside it -> fsync -> rename -> fsync of the folder
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["settle", "write_all", "write_durably"]

AT_ONCE = 1 << 20


def write_durably(path: Path, data: bytes, *, keep: Path | None = None) -> None:
    r"""The whole file or what was there before, which becomes `keep`, if that is given.

    One process writes to a folder, so the name of the file beside it is fixed, and one that a kill left behind is overwritten.

    Raises:  OSError, with what was there before untouched.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        if keep is not None:
            with suppress(FileNotFoundError):
                os.replace(path, keep)
        os.replace(part, path)
        settle(path.parent)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


def write_all(file: int, data: bytes) -> None:
    """Every byte: a write may take fewer than it is given, above all on a disk that is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest[:AT_ONCE]) :]


def settle(folder: Path) -> None:
    """A rename is safe when its folder is; Windows has no way to say so, and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
