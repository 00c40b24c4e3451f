r"""Files that are whole or not there, also when the process is killed or the machine loses power, and are what they seem.

bytes -> a file beside it -> fsync -> rename -> fsync of the folder

A folder of runs may come from somebody else: in it no symbolic link is followed, nothing is waited for, and only files are read.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.usage import UsageError

__all__ = [
    "MOST_JSON", "NO_LINK", "PART", "check_no_links", "check_output", "not_writable", "read_file", "read_json",
    "ready_folder", "write_all", "write_atomically", "write_json",
]  # fmt: skip

PART = ".part"  # the ending of a file that is not whole yet
AT_ONCE = 1 << 20
MOST_JSON = 1 << 28  # bytes
KINDS = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"))
# Not there on Windows, which has none of the files that they are for.
NO_LINK, NO_WAITING = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)


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


def write_json(path: Path, value: Any) -> None:
    """A value as JSON. Raises: OSError, as `write_atomically`."""
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_file(path: Path, most: int | None = None) -> bytes:
    r"""What is in a file; a symbolic link is not followed, and a pipe not waited for.

    Args:    most: bytes, after which it is refused.
    Raises:  OSError, FileNotFoundError among them.
    """
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        kind = next((words for test, words in KINDS if test(found.st_mode)), "a device")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file")
    if most is not None and found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, at most {most:,} are expected")
    with open(os.open(path, os.O_RDONLY | NO_LINK | NO_WAITING | getattr(os, "O_BINARY", 0)), "rb") as file:
        return file.read()


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, None where there is none or it cannot be read."""
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
