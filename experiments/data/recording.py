r"""Load the recording that the demo plays: matplotlib's EEG, or a .npy or .csv file of the user; channels standardized.

.npy   numbers, (time,) or (time, channels)
.csv   a row a sample, a column a channel; commas, semicolons, tabs or spaces; a row of names on top if you like
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.cbook import get_sample_data

from experiments.data.delimited import LOOKED_AT, open_lines
from experiments.data.numerals import is_numeral, marks_of, numeral
from experiments.data.untrusted import check_file, open_array, quoted, unreadable
from experiments.usage import UsageError

__all__ = ["MOST_SAMPLES", "Recording", "load"]

MOST_SAMPLES, FEWEST_SAMPLES = 800, 16
MOST_IN_A_LINE = 100_000  # characters
MOST_BYTES = 1 << 36  # of a file, of which all lines are counted
EEG_RATE, EEG_SHAPE = 80.0, (800, 4)
EEG_CREDIT = "EEG of four electrodes, 10 s, shipped with matplotlib as sample_data/eeg.dat."


@dataclass(frozen=True)
class Recording:
    r"""Holds samples with mean 0 and standard deviation 1 in every channel that is not constant.

    Shape:   xs (time, channels).
    """

    name: str
    xs: np.ndarray
    rate: float  # samples per second
    channels: tuple[str, ...]
    total: int  # samples in the file
    constant: tuple[str, ...]
    credit: str
    shipped: bool  # with matplotlib

    @property
    def seconds(self) -> float:
        return len(self.xs) / self.rate


def load(path: Path | None, rate: float | None) -> Recording:
    r"""Load the recording in a file, or the EEG.

    Args:    path: .npy or .csv, None for the EEG; rate: samples per second, for a file.
    Raises:  UsageError for what cannot be read as a recording.
    """
    if path is None or rate is None:
        xs, names, total, credit, name = *_eeg(), EEG_CREDIT, "an EEG"
        rate = EEG_RATE
    else:
        xs, names, total = _read(path)
        name, credit = path.name, f"your file {path.name}."
    standardized, constant = _standardize(xs)
    return Recording(name, standardized, rate, names, total, tuple(names[k] for k in constant), credit, path is None)


def _eeg() -> tuple[np.ndarray, tuple[str, ...], int]:
    path = Path(str(get_sample_data("eeg.dat", asfileobj=False)))
    size, expected = path.stat().st_size if path.is_file() else 0, 8 * EEG_SHAPE[0] * EEG_SHAPE[1]
    if size != expected:
        found = f"{size} bytes instead of {expected}" if path.is_file() else "no such file"
        raise UsageError(
            f"matplotlib's sample EEG is not what it should be ({path}: {found}); give --input FILE --sampling-rate HZ."
        )
    return np.fromfile(path, dtype="<f8").reshape(EEG_SHAPE), _numbered(EEG_SHAPE[1]), EEG_SHAPE[0]


def _read(path: Path) -> tuple[np.ndarray, tuple[str, ...], int]:
    readers = {".npy": _read_npy, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise UsageError(f"{path}: a recording is a .npy or .csv file, not {path.suffix or 'one without a suffix'}.")
    check_file(path)
    try:
        xs, names, total = readers[path.suffix.lower()](path)
    except OSError as error:
        raise unreadable(path, error) from None
    if xs.shape[1] > total:
        raise UsageError(f"{path}: {xs.shape[1]} channels and only {total} samples; transpose it, rows are samples.")
    if total < FEWEST_SAMPLES:
        raise UsageError(f"{path}: {total} samples, at least {FEWEST_SAMPLES} are needed.")
    if not np.isfinite(xs).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(xs))[0])
        raise UsageError(f"{path}: {xs[row, column]} in sample {row + 1}, channel {names[column]}; fill or drop such samples.")
    return xs, names, total


def _read_npy(path: Path) -> tuple[np.ndarray, tuple[str, ...], int]:
    values = open_array(path)
    if values.dtype.kind == "c":
        raise UsageError(f"{path}: complex numbers; give real and imaginary parts as channels of their own.")
    if values.dtype.kind not in "iufb":
        raise UsageError(f"{path}: not numeric, its values are of type {values.dtype}.")
    if values.ndim not in (1, 2) or 0 in values.shape:
        raise UsageError(f"{path}: shape {values.shape}; a recording is (time,) or (time, channels), and not empty.")
    table = values[:, None] if values.ndim == 1 else values
    return np.array(table[:MOST_SAMPLES], dtype=np.float64), _numbered(table.shape[1]), len(table)


def _read_csv(path: Path) -> tuple[np.ndarray, tuple[str, ...], int]:
    rows: list[tuple[int, list[str]]] = []
    names: tuple[str, ...] = ()
    total, header = 0, False
    try:
        for line, cells in _lines(path):
            if not names:
                header = not any(is_numeral(cell) or cell.lower() == "nan" for cell in cells)
                names = tuple(cell or str(k) for k, cell in enumerate(cells, 1)) if header else _numbered(len(cells))
                if header:
                    continue
            if total < MOST_SAMPLES:
                _check_cells(path, line, cells, len(names))
                rows.append((line, cells))
            total += 1
    except csv.Error:
        raise UsageError(f"{path}: cannot be read: it is not text with one row a sample.") from None
    if not rows:
        raise UsageError(f"{path}: no samples in it, at least {FEWEST_SAMPLES} are needed.")
    if not header and len(names) == 2:
        _check_no_decimal_commas(path, rows)
    return _numbers(path, rows), names, total


def _check_no_decimal_commas(path: Path, rows: Sequence[tuple[int, list[str]]]) -> None:
    """Refuse 0,036 without names: whole numbers of a second channel have no 0 in front. Raises: UsageError."""
    pairs = [(line, cells) for line, cells in rows if cells[1].isdecimal() and cells[1][0] == "0" and len(cells[1]) > 1]
    if pairs and all(cell.lstrip("+-").isdecimal() for _, cells in rows for cell in cells):
        line, cells = pairs[0]
        raise UsageError(
            f"{path}: {quoted(','.join(cells))} in line {line} is two channels, or one with a decimal comma; add a row of names, "
            "or write decimal points."
        )


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of every line that is not blank; a file without line ends is not read whole."""
    with open_lines(path, MOST_BYTES, most_in_a_line=MOST_IN_A_LINE) as lines:
        head = list(itertools.islice(lines, LOOKED_AT))
        reader = csv.reader(itertools.chain(head, lines), delimiter=_delimiter(head), skipinitialspace=True)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]


def _delimiter(head: Sequence[str]) -> str:
    """Return what cuts all of the first lines into as many numbers each, or else what is in the first of them."""
    lines = [line for line in head if line.strip()]
    for sign in ",;\t| ":
        rows = [list(map(str.strip, row)) for row in csv.reader(lines, delimiter=sign, skipinitialspace=True)]
        below = [cell for row in rows[1:] for cell in row]
        if len({len(row) for row in rows}) == 1 and len(rows[0]) > 1 and below and all(map(is_numeral, below)):
            return sign
    return next((sign for sign in ",;\t" if lines and sign in lines[0]), ",")


def _check_cells(path: Path, line: int, cells: list[str], width: int) -> None:
    if len(cells) != width:
        raise UsageError(f"{path}: line {line} has {len(cells)} columns, the lines before it {width}.")
    for column, cell in enumerate(cells, 1):
        read = numeral(cell, "")
        if cell.lower() == "nan" or (read is not None and not math.isfinite(float(read.text))):
            raise UsageError(f"{path}: {cell} in row {line}, column {column}; fill or drop such samples.")
        if read is None:
            raise UsageError(f"{path}: line {line}, column {column}: {cell!r} is not a number.")


def _numbers(path: Path, rows: Sequence[tuple[int, list[str]]]) -> np.ndarray:
    """Return the numbers of rows, by the decimal mark that their cells say."""
    marks, _ = marks_of({cell for _, cells in rows for cell in cells})
    mark = marks.pop() if len(marks) == 1 else ""
    channels = list(zip(*(cells for _, cells in rows), strict=True))
    unclear = [not mark and any(map(_is_open, cells)) and not all(map(_is_open, cells)) for cells in channels]
    found = []
    for line, cells in rows:
        read = [numeral(cell, mark or ".") for cell in cells]
        for column, (cell, number) in enumerate(zip(cells, read, strict=True), 1):
            if number is None or marks or (unclear[column - 1] and _is_open(cell)):
                raise UsageError(
                    f"{path}: line {line}, column {column}: {quoted(cell)} may be read with a decimal point or a decimal comma; "
                    "write all numbers with decimal points and without marks between thousands."
                )
        found.append([float(number.text) for number in read if number is not None])
    return np.array(found)


def _is_open(cell: str) -> bool:
    """Return whether a cell is like 1.000: where all of a channel are, both readings are the same once standardized."""
    read = numeral(cell, "")
    return read is not None and read.open


def _numbered(channels: int) -> tuple[str, ...]:
    return tuple(str(k) for k in range(1, channels + 1))


def _standardize(xs: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Bring each channel to mean 0 and deviation 1; return the numbers of the constant ones too, which become 0."""
    scale = np.abs(xs).max(axis=0)
    scaled = xs / np.where(scale > 0, scale, 1.0)  # squares of very large numbers would overflow
    centred = scaled - scaled.mean(axis=0)
    spread = centred.std(axis=0)
    # Of a constant channel, the mean leaves rounding errors, which must not be blown up.
    constant = spread <= 16 * np.finfo(np.float64).eps
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, spread)), np.flatnonzero(constant).tolist()
