r"""Readers for untrusted files: a bound on the bytes, and strict lines and numbers.

Nothing is believed that a file says of its own size, and nothing in it is run. What is wrong is a UsageError that names the
file, and the line where there is one.
"""

from __future__ import annotations

import io
import lzma
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from experiments.usage import UsageError

__all__ = ["MOST_IN_A_LINE", "LimitedFile", "lines", "number", "quoted"]

MOST_IN_A_LINE = 100_000  # characters; a line of JapaneseVowels has about 3000
MOST_IN_A_NUMBER = 32
PIECE = 1 << 16
MEMORY = 128 << 20  # for unpacking; `xz -9` asks for 65 MiB
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class GzipUnpacker:
    """One member of a .gz file, piece by piece, with the methods of `lzma.LZMADecompressor`."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        self._pending = False

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    @property
    def needs_input(self) -> bool:
        return not (self._pending or self._stream.unconsumed_tail)

    def decompress(self, packed: bytes, size: int) -> bytes:
        data = self._stream.decompress(self._stream.unconsumed_tail + packed, size)
        self._pending = len(data) == size  # then zlib may hold more back than it shows
        return data


class LimitedFile:
    r"""The bytes of a file, or those packed in it if its name ends in .xz or .gz, read once from front to end.

    Args:    path: the file; most: bytes, unpacked, after which it is refused; `left` are those still allowed.
    Raises:  UsageError for a file that cannot be read or unpacked, is cut off, or holds more.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path, self.left = path, most
        self._most = most
        self._unpacker = _unpacker(path.suffix)
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UsageError(f"{path}: cannot be read (not a file).")
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise self._unreadable(error) from None

    def __enter__(self) -> LimitedFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """At most `size` bytes, and none only at the end."""
        try:
            data = self._file.read(size) if self._unpacker is None else self._unpacked(self._unpacker, size)
        except OSError as error:
            raise self._unreadable(error) from None
        except (lzma.LZMAError, zlib.error) as error:
            kind = f"{self.path.suffix} file ({error})"
            raise UsageError(f"{self.path}: cannot be unpacked, it is damaged or not an {kind}.") from None
        self.left -= len(data)
        if self.left < 0:
            raise UsageError(f"{self.path}: more than {self._most:,} bytes in it; this is not the file it is named after.")
        return data

    def exactly(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        pieces, missing = [], size
        while missing:
            pieces.append(self.read(min(missing, PIECE)))
            missing -= len(pieces[-1])
            if not pieces[-1]:
                raise UsageError(f"{self.path}: cut off, {missing:,} bytes are missing at its end; fetch it again.")
        return b"".join(pieces)

    def whole(self) -> bytes:
        """All that is left of it."""
        return b"".join(iter(lambda: self.read(PIECE), b""))

    def _unpacked(self, unpacker: Unpacker, size: int) -> bytes:
        while not unpacker.eof:
            packed = self._file.read(PIECE) if unpacker.needs_input else b""
            if unpacker.needs_input and not packed:
                raise UsageError(f"{self.path}: cut off, its packed data do not end; fetch it again.")
            if data := unpacker.decompress(packed, size):
                return data
        if unpacker.unused_data or self._file.read(1):
            raise UsageError(f"{self.path}: something follows the end of its packed data; fetch it again.")
        return b""

    def _unreadable(self, error: OSError) -> UsageError:
        return UsageError(f"{self.path}: cannot be read ({error.strerror or error}).")


Unpacker = lzma.LZMADecompressor | GzipUnpacker


def _unpacker(suffix: str) -> Unpacker | None:
    if suffix == ".gz":
        return GzipUnpacker()
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY) if suffix == ".xz" else None


def lines(data: bytes, name: object) -> Iterator[tuple[str, str]]:
    """Where it stands, for messages, and text, of every line that is not blank; lines end as in Unix or Windows."""
    try:
        text = io.StringIO(data.decode("utf-8-sig"), newline="\n")
    except UnicodeDecodeError:
        raise UsageError(f"{name}: is not text.") from None
    for count, line in enumerate(text, 1):
        where = f"{name}: line {count}"
        if len(line) > MOST_IN_A_LINE:
            raise UsageError(f"{where}: {len(line):,} characters, at most {MOST_IN_A_LINE:,} are expected.")
        if stripped := line.strip():
            yield where, stripped


def number(text: str, where: str) -> float:
    """A finite decimal number; not nan, nor the underscores and foreign digits that Python would take."""
    if len(text) > MOST_IN_A_NUMBER or not NUMBER.fullmatch(text):
        raise UsageError(f"{where}: {quoted(text)} is not a number.")
    value = float(text)
    if not math.isfinite(value):
        raise UsageError(f"{where}: {quoted(text)} is too large a number.")
    return value


def quoted(text: str) -> str:
    """What a message may show of a file: short, in quotes, without control characters."""
    return repr(text if len(text) <= MOST_IN_A_NUMBER else text[:MOST_IN_A_NUMBER] + "…")
