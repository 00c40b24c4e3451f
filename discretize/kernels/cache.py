r"""Keep compiled libraries, and the programs they are written from, in a folder of the user's, and load the bytes of a library.

    entry   FOLDER/KEY-DIGEST.so or .json, DIGEST the SHA-256 of the entry itself

FOLDER is CTRNN_CACHE, else $XDG_CACHE_HOME/ctrnn, else ~/Library/Caches/ctrnn on macOS, ~/.cache/ctrnn elsewhere. To load code
from a folder is to run the code of whoever can write there: a folder or file of another user, or one that others can write, is
not used, and neither is one below a folder that somebody other than the user and root owns, or that others can write (a sticky
one, as /tmp is, aside). The bytes that are loaded are those that were compared with the name, for they are read once: half a
library can crash the process, and a file can be exchanged between two looks at it.

An entry is written under another name and renamed, so that processes which build at once need not know of each other: one file,
one rename, and the last one wins. Entries that are no longer used, and what killed processes leave, stay: they are small, and
the folder may be emptied at any time. Without a folder, everything is built anew in each process.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Cache", "loaded", "private_folder"]

PART = ".part"
PRIVATE = ".ctrnn-build-"
OTHERS = stat.S_IWGRP | stat.S_IWOTH
NAMED = "CTRNN_CACHE can name a folder to keep it in"
_number = itertools.count()


class Cache:
    r"""The folder of entries, made if need be.

    folder is None where there is no such place, or others could put theirs in it; `why` says so.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.why: str = NAMED
        if (place := _place()) is None:
            return
        try:
            for missing in reversed([above for above in (place, *place.parents) if not above.exists()]):
                missing.mkdir(mode=0o700, exist_ok=True)  # parents too, whatever the umask
            folder = place.resolve()
            untrusted = [] if _is_ours(folder.stat()) else [folder]
            if untrusted := [*untrusted, *filter(_is_exchangeable, folder.parents)]:
                self.why = f"others can change what is in {untrusted[0]}; {NAMED}"
            else:
                self.folder = folder
        except (OSError, RuntimeError) as error:
            self.why = f"{place} cannot be used ({error}); {NAMED}"

    def library(self, key: str) -> ctypes.CDLL | None:
        """The library of that key, if its file is what its name says, and can be loaded."""
        for content in self.contents(key):
            with suppress(OSError):
                return loaded(content)
        return None

    def contents(self, key: str, suffix: str = ".so") -> Iterator[bytes]:
        """Entries of that key whose files are what their names say."""
        if self.folder is None:
            return
        with suppress(OSError):
            for path in sorted(self.folder.glob(f"{key}-*{suffix}")):
                with suppress(OSError):
                    content = _read(path)
                    if path.name == _name(key, content, suffix):
                        yield content

    def keep(self, content: bytes, key: str, suffix: str = ".so") -> None:
        """Write an entry, unless the folder is full or cannot be written."""
        if self.folder is None:
            return
        with suppress(OSError):
            handle, part = tempfile.mkstemp(dir=self.folder, suffix=PART)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(part, self.folder / _name(key, content, suffix))
            except BaseException:
                Path(part).unlink(missing_ok=True)
                raise


def loaded(content: bytes) -> ctypes.CDLL:
    """Load a library from its bytes, and leave no file. Raises: OSError."""
    if sys.platform == "linux":
        with suppress(OSError), open(os.memfd_create("ctrnn kernel"), "wb") as file:
            file.write(content)
            file.flush()
            # The loader takes a path that it has seen before for the library that it found there: every path is a new one.
            return ctypes.CDLL(f"/proc/self/fd/{'./' * next(_number)}{file.fileno()}")
    with private_folder() as place:
        (place / "library.so").write_bytes(content)
        return ctypes.CDLL(str(place / "library.so"))


@contextmanager
def private_folder(instead: Path | None = None) -> Iterator[Path]:
    r"""A new folder for temporary files that nobody else can change, removed at the end; in `instead` where others could.

    Raises:  PermissionError where there is no such place.
    """
    usual = Path(tempfile.gettempdir()).resolve()
    trusted = not any(map(_is_exchangeable, (usual, *usual.parents)))
    if not trusted and instead is None:
        raise PermissionError(f"others can change what is in {usual}, the folder for temporary files; TMPDIR can name another")
    with tempfile.TemporaryDirectory(prefix=PRIVATE, dir=usual if trusted else instead, ignore_cleanup_errors=True) as made:
        yield Path(made)


def _place() -> Path | None:
    if given := os.environ.get("CTRNN_CACHE"):
        return Path(given).expanduser()
    if os.path.isabs(given := os.environ.get("XDG_CACHE_HOME", "")):  # a relative one means nothing, says its specification
        return Path(given) / "ctrnn"
    home = os.environ.get("HOME", "")
    if not (os.path.isabs(home) and os.path.isdir(home)):
        return None
    return Path(home) / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "ctrnn"


def _name(key: str, content: bytes, suffix: str) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()}{suffix}"


def _read(path: Path) -> bytes:
    """Read a file of ours. Raises: OSError for a link, a pipe, or a file that others have written or can write."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not _is_ours(os.fstat(file.fileno())):
            raise PermissionError(f"{path} is not ours alone")
        return file.read()


def _is_ours(found: os.stat_result) -> bool:
    """Nobody else can have put it there, or write to it. (Nor is it a link or a pipe.)"""
    kind = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return kind and found.st_uid == os.geteuid() and not found.st_mode & OTHERS


def _is_exchangeable(folder: Path) -> bool:
    """Whether others could put something else in the place of what is in it; in a sticky one, as /tmp is, only owners may."""
    facts = folder.stat()
    return facts.st_uid not in (0, os.geteuid()) or (bool(facts.st_mode & OTHERS) and not facts.st_mode & stat.S_ISVTX)
