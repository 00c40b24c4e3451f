r"""Reads files that somebody else may have made: up to a bound on their bytes, and without running anything in them.

What is wrong is a UsageError that names the file, and the line where there is one.
"""

from __future__ import annotations

import gzip
import lzma
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.usage import UsageError

__all__ = [
    "OPENED",
    "check_file",
    "check_two_splits",
    "lines",
    "number",
    "open_array",
    "plain_or_packed",
    "quoted",
    "read_bytes",
    "unreadable",
]

OPENED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
MOST_SHOWN = 32  # characters of a file, in a message


def read_bytes(path: Path, most: int) -> bytes:
    """Read a file, unpacked if its name ends in .xz or .gz.

    Raises:  UsageError for one that cannot be read or unpacked, is cut off, or holds more than `most` bytes.
    """
    check_file(path)
    try:
        with OPENED.get(path.suffix, open)(path, "rb") as file:
            data: bytes = file.read(most + 1)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be unpacked, it is cut off, damaged or no {path.suffix} file ({error}).") from None
    except OSError as error:
        raise unreadable(path, error) from None
    if len(data) > most:
        raise UsageError(f"{path}: more than {most:,} bytes in it; this is not the file it is named after.")
    return data


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
    except (ValueError, EOFError) as error:
        reason = "it holds Python objects, not numbers" if "object" in str(error).lower() else "it is empty or cut off"
        raise UsageError(f"{path}: cannot be read: {reason}.") from None
    return found


def check_file(path: Path) -> None:
    """Refuse what is there and no file: a pipe would be waited for. Raises: UsageError."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: cannot be read (not a file).")


def unreadable(path: Path, error: OSError) -> UsageError:
    """The error of a file that cannot be read."""
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
