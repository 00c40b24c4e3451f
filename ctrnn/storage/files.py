r"""Files that are whole or not there, also when the process is killed or the machine loses power, and are what they seem.

bytes -> a file beside it -> fsync -> rename -> fsync of the folder

A file may come from somebody else: no symbolic link is followed, nothing is waited for, and only files are read.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["NO_LINK", "PART", "read_file", "write_all", "write_atomically"]

PART = ".part"  # the ending of a file that is not whole yet
AT_ONCE = 1 << 20
KINDS = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"))
# Not there on Windows, which has none of the files that they are for.
NO_LINK, NO_WAITING = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)


def write_atomically(path: Path, data: str | bytes, *, keep: Path | None = None) -> None:
    r"""Write the whole file, or leave what was there before, which becomes `keep`, if that is given.

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
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # a write names no file, and the part is of no use to who reads the message
        raise


def write_all(file: int, data: bytes) -> None:
    """Write every byte: `os.write` may take fewer than it is given, above all on a disk that is nearly full."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest[:AT_ONCE]) :]


def read_file(path: Path, most: int | None = None) -> bytes:
    r"""Read a file; a symbolic link is not followed, and a pipe not waited for.

    Args:    most: bytes, after which it is refused.
    Raises:  OSError, FileNotFoundError among them.
    """
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode):
        kind = next((words for test, words in KINDS if test(facts.st_mode)), "a device")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
    if most is not None and facts.st_size > most:
        raise OSError(errno.EFBIG, f"it has {facts.st_size:,} bytes, at most {most:,} are expected", str(path))
    with open(os.open(path, os.O_RDONLY | NO_LINK | NO_WAITING | getattr(os, "O_BINARY", 0)), "rb") as file:
        return file.read()


def _settle(folder: Path) -> None:
    """Flush the folder, so that a rename in it is safe; Windows has no way to say so, and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
