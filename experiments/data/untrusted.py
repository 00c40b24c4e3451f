r"""Reads files that somebody else may have made: up to a bound on their bytes, and without running anything in them.

    a bound     so many bytes in all, said by the reader; packed, also so many times the bytes on the disk, MOST_UNPACKED
    .gz .xz .bz2 .zip    unpacked as they are read, by their name; a .zip has a single file in it
    .npy .npz   headers are read first: their numbers must be in the file

What is wrong is a UsageError that names the file, and the line where there is one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from experiments.usage import UsageError

__all__ = [
    "PACKINGS",
    "check_file",
    "check_two_splits",
    "check_unpacked",
    "lines",
    "number",
    "open_array",
    "open_bounded",
    "plain_or_packed",
    "quoted",
    "read_arrays",
    "read_bytes",
    "unreadable",
]

PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
ARCHIVE = ".zip"
PACKINGS = (*PACKED, ARCHIVE)
MOST_UNPACKED = 100  # times the bytes on the disk; measured values shrink to a fifth, and a line over and over to a thousandth
ALWAYS = 1 << 20  # bytes that any file may unpack to
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
MOST_SHOWN = 32  # characters of a file, in a message


class _Bounded(io.RawIOBase):
    """Hands on a file's bytes, and refuses more of them than allowed."""

    def __init__(self, path: Path, file: IO[bytes], most: int, packed: int | None) -> None:
        self._path, self._file, self._most, self._packed, self._count = path, file, most, packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(len(buffer))
        self._count += len(piece)
        if self._count > self._most:
            raise UsageError(f"{self._path}: more than {self._most:,} bytes in it; this is not the file it is named after.")
        if self._packed is not None:
            check_unpacked(self._path, self._packed, self._count)
        buffer[: len(piece)] = piece
        return len(piece)


def check_unpacked(path: Path, packed: int, unpacked: int) -> None:
    """Refuse what unpacks to very much more than it has on the disk. Raises: UsageError."""
    if unpacked > max(ALWAYS, MOST_UNPACKED * packed):
        raise UsageError(
            f"{path}: has {packed:,} bytes and unpacks to more than {MOST_UNPACKED} times as many, {unpacked:,} or more, as no "
            "measured values do; if they are yours, unpack them, and give the file that is not packed."
        )


@contextmanager
def open_bounded(path: Path, most: int) -> Iterator[IO[bytes]]:
    """Open a file to be read, unpacked if its name ends in .gz, .xz, .bz2 or .zip; damage and bounds are told as it is read.

    Raises:  UsageError for one that cannot be read or unpacked, is cut off, or holds more than `most` bytes.
    """
    check_file(path)
    suffix = path.suffix.lower()
    try:
        with open(path, "rb") as plain:
            if suffix not in PACKINGS:
                yield io.BufferedReader(_Bounded(path, plain, most, None))
                return
            with _member(path, plain) if suffix == ARCHIVE else PACKED[suffix](plain, "rb") as file:
                yield io.BufferedReader(_Bounded(path, file, most, path.stat().st_size))
    except DAMAGED as error:
        raise _damaged(path, error) from None
    except OSError as error:
        if suffix == ".bz2" and error.errno is None:  # bz2 reports damaged data by an OSError without errno
            raise _damaged(path, error) from None
        raise unreadable(path, error) from None


def _member(path: Path, file: IO[bytes]) -> IO[bytes]:
    """Open the single file of a .zip archive."""
    with zipfile.ZipFile(file) as archive:
        names = [member for member in archive.infolist() if not member.is_dir() and not member.filename.startswith("__MACOSX/")]
        if len(names) != 1:
            raise UsageError(f"{path}: has {len(names)} files in it, and one is read; unpack it, and give the file.")
        try:
            return archive.open(names[0])
        except (RuntimeError, NotImplementedError) as error:  # a password, another way to pack
            raise UsageError(f"{path}: cannot be unpacked ({error}).") from None


def read_bytes(path: Path, most: int) -> bytes:
    """Read a file, unpacked if its name ends as those that `open_bounded` unpacks.

    Raises:  UsageError for one that cannot be read or unpacked, is cut off, or holds more than `most` bytes.
    """
    with open_bounded(path, most) as file:
        return file.read()


def read_arrays(path: Path, most: int, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    r"""Read arrays of a .npz file; no other is looked at, and all headers are before any number is.

    Args:    most: bytes of all arrays together; names: which arrays, all where it is None.
    Raises:  UsageError for what is no such file, is damaged, has no such array, holds Python objects, says that it has other
             numbers than are in it, or unpacks to more than allowed.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            wanted = list(members) if names is None else list(names)
            if missing := [name for name in wanted if name not in members]:
                raise ValueError(f"it has no {missing[0]}; there is {', '.join(members) or 'none'}")
            sizes = [members[name].file_size for name in wanted]
            if sum(sizes) > most:
                one = f"an array has {max(sizes):,}" if max(sizes) > most else f"its arrays have {sum(sizes):,}"
                raise UsageError(f"{path}: {one} bytes, at most {most:,} are expected.")
            check_unpacked(path, path.stat().st_size, sum(sizes))
            for name in wanted:
                _check_header(path, archive, members[name])
            found = {}
            for name in wanted:
                with archive.open(members[name]) as file:
                    found[name] = np.lib.format.read_array(file, allow_pickle=False)
            return found
    except OSError as error:
        raise unreadable(path, error) from None
    except (*DAMAGED, ValueError, RuntimeError, NotImplementedError, MemoryError) as error:
        with_them = "" if names is None else f" with {', '.join(names)}"
        raise UsageError(
            f"{path}: cannot be read: it is damaged, or no .npz file{with_them} ({' '.join(str(error).split())})."
        ) from None


def _check_header(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse an array of objects, and one whose header says that there are other numbers than are there."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(file)
        there = member.file_size - file.tell()
    if kind.hasobject:
        raise ValueError(f"{member.filename}: Object arrays cannot be loaded when allow_pickle=False")
    if (claimed := math.prod(shape) * kind.itemsize) != there:
        raise UsageError(
            f"{path}: {member.filename} says that it has {' x '.join(f'{n:,}' for n in shape) or 'one'} values of {kind}, which "
            f"are {claimed:,} bytes, and {there:,} are there; it is damaged, or was made to do harm."
        )


def open_array(path: Path) -> np.memmap[Any, Any]:
    """The array in a .npy file, left on the disk. Raises: UsageError for what is no array, or one of Python objects."""
    check_file(path)
    try:
        with path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise UsageError(f"{path}: cannot be read: it is not a .npy file; save one array by numpy.save.")
        found: np.memmap[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, EOFError, OverflowError) as error:
        reason = "it holds Python objects, not numbers" if "object" in str(error).lower() else "it is empty or cut off"
        raise UsageError(f"{path}: cannot be read: {reason}.") from None
    return found


def _damaged(path: Path, error: Exception) -> UsageError:
    """Return the error of a packed file that cannot be unpacked."""
    return UsageError(f"{path}: cannot be unpacked, it is cut off, damaged or no {path.suffix} file ({error}).")


def check_file(path: Path) -> None:
    """Refuse what is there and no file: a pipe would be waited for. Raises: UsageError."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: cannot be read (not a file).")


def unreadable(path: Path, error: OSError) -> UsageError:
    """Return the error of a file that cannot be read."""
    return UsageError(f"{path}: cannot be read ({error.strerror or error}).")


def plain_or_packed(folder: Path, name: str, suffix: str) -> Path:
    """The file of that name, or the same packed, where there is no plain one. Raises: UsageError where there is neither."""
    plain, packed = folder / name, folder / f"{name}{suffix}"
    if not plain.exists() and not packed.exists():
        raise UsageError(f"{folder}: holds neither {plain.name} nor {packed.name}.")
    return plain if plain.exists() else packed


def check_two_splits(split: str) -> None:
    """Refuse a split that the originals do not have. Raises: ValueError."""
    if split not in ("train", "test"):
        raise ValueError(f'`split` must be "train" or "test", got {split!r}.')


def lines(data: bytes, name: object) -> Iterator[tuple[str, str]]:
    """Where it stands, for messages, and text, of every line that is not blank. Raises: UsageError for what is not text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: is not text.") from None
    for count, line in enumerate(text.split("\n"), 1):
        if stripped := line.strip():
            yield f"{name}: line {count}", stripped


def number(text: str, where: str) -> float:
    """A finite number. Raises: UsageError."""
    try:
        value = math.nan if "_" in text else float(text)  # Python reads 1_000 as 1000
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{where}: {quoted(text)} is not a number.")
    return value


def quoted(text: str) -> str:
    """What a message may show of a file: short, in quotes, without control characters."""
    return repr(text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…")
