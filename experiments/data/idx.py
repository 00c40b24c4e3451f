r"""Arrays in idx files, the format of MNIST: numbers of one type, big end first.

    bytes 0 1      0
    byte 2         type: 8 uint8, 9 int8, 11 int16, 12 int32, 13 float32, 14 float64
    byte 3         how many dimensions
    4 bytes each   sizes of the dimensions
    ..             the numbers, the last index fastest

What a file says of its size is compared with what is expected before any number is read, and those are read piece by piece, so
that no memory is taken for bytes that are not there.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.data.untrusted import LimitedFile
from experiments.usage import UsageError

__all__ = ["read_idx"]

TYPES = {8: "uint8", 9: "int8", 11: "int16", 12: "int32", 13: "float32", 14: "float64"}
GZIP = b"\x1f\x8b"


def read_idx(path: Path, dtype: str, shape: tuple[int | None, ...], most: int) -> NDArray[np.generic]:
    r"""The array of a file.

    Args:    path: the file, unpacked on the way if its name ends in .gz; dtype: one of the format's six, as NumPy calls it;
             shape: as it must be, None for any size from 1 to `most`.
    Raises:  UsageError for a file that cannot be read, or holds another array, or less or more than it says.
    Source:  the format as LeCun, Cortes and Burges describe it beside the MNIST database.
    """
    numbers = np.dtype(dtype).newbyteorder(">")
    largest = numbers.itemsize * int(np.prod([most if n is None else n for n in shape], dtype=object))
    with LimitedFile(path, 4 + 4 * len(shape) + largest) as file:
        start = file.exactly(4)
        if start[:2] == GZIP and path.suffix != ".gz":
            raise UsageError(f"{path}: is packed; let its name end in .gz, or unpack it.")
        if start[:2] != b"\0\0" or start[2] not in TYPES:
            raise UsageError(f"{path}: is no idx file, it begins with the bytes {start.hex(' ')}.")
        found, dimensions = TYPES[start[2]], start[3]
        if (found, dimensions) != (dtype, len(shape)):
            wanted = f"{dtype} in {len(shape)}"
            raise UsageError(f"{path}: holds {found} in {dimensions} dimensions, expected is {wanted}; is it another file?")
        sizes = struct.unpack(f">{dimensions}I", file.exactly(4 * dimensions))
        if not all(m == n or (n is None and 1 <= m <= most) for n, m in zip(shape, sizes, strict=True)):
            wanted = " x ".join(f"1 to {most:,}" if n is None else str(n) for n in shape)
            raise UsageError(f"{path}: says that it holds {' x '.join(map(str, sizes))} numbers, expected is {wanted}.")
        data = file.exactly(numbers.itemsize * int(np.prod(sizes, dtype=object)))
        if file.read(1):  # which also checks what is packed to its end
            raise UsageError(f"{path}: goes on after the {' x '.join(map(str, sizes))} numbers that it says it holds.")
    return np.frombuffer(data, numbers).reshape(sizes).astype(dtype)
