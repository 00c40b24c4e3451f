r"""Files that are whole or not there, also when the process is killed or the machine loses power.

bytes -> a file beside it -> fsync -> rename -> fsync of the folder
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from experiments.usage import UsageError

__all__ = ["PART", "not_writable", "ready_folder", "write_all", "write_atomically"]

PART = ".part"  # the ending of a file that is not whole yet
AT_ONCE = 1 << 20


def write_atomically(path: Path, data: str | bytes, *, keep: Path | None = None) -> None:
    r"""The whole file or what was there before, which becomes `keep`, if that is given.

    Raises:  OSError, with what was there before untouched.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            write_all(file, data.encode() if isinstance(data, str) else data)
            os.fsync(file)
        finally:
            os.close(file)
        if keep is not None:
            with suppress(FileNotFoundError):
                os.replace(path, keep)
        os.replace(part, path)
        _settle(path.parent)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_all(file: int, data: bytes) -> None:
    """Every byte: a write may take fewer than it is given, above all on a disk that is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest[:AT_ONCE]) :]


def ready_folder(folder: Path) -> None:
    """Make the folder, and refuse one that cannot be written before a minute of work is lost. Raises: UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise not_writable(folder, error) from None


def not_writable(folder: Path, error: OSError) -> UsageError:
    """The error of a folder that cannot be written."""
    return UsageError(f"cannot write to {folder} ({error.strerror or error}); choose another folder with --out DIR.")


def _settle(folder: Path) -> None:
    """A rename is safe when its folder is; Windows has no way to say so, and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
