r"""One process a folder: the kernel holds the lock, and lets it go when the process ends, however it ends.

Where Python has no `fcntl`, on Windows, and on file systems that cannot lock, nothing is held: there the user sees to it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.reports.writing import not_writable
from experiments.usage import UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK", "locked"]

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder. Raises: UsageError where another process does, or where nothing can be written."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise not_writable(folder, error) from None
    try:
        _hold(file, folder)
        yield
    finally:
        os.close(file)


def _hold(file: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise UsageError(f"another process trains in {folder}; wait for it, or choose another --out DIR.") from None
