r"""Load the recording that the demo plays: matplotlib's EEG, or a .npy or .csv file of the user; channels standardized.

.npy   numbers, (time,) or (time, channels)
.csv   a row a sample, a column a channel, as `table.py` reads it; a row of names on top if you like
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.cbook import get_sample_data

from experiments.data.columns import Columns, Notation
from experiments.data.numerals import is_numeral, marks_of
from experiments.data.table import TEXTS, kind_of, read_rows
from experiments.data.untrusted import check_file, open_array, quoted, unreadable
from experiments.settings import Checked, assignments, settings_from
from experiments.usage import UsageError, nearest

__all__ = ["MOST_SAMPLES", "Recording", "load"]

MOST_SAMPLES, FEWEST_SAMPLES = 800, 16
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}  # of the units of stamps
SAME_RATE = 0.01  # by which a rate may differ from that of the stamps
MOST_BYTES = 1 << 36  # of a file, of which all lines are counted
EEG_RATE, EEG_SHAPE = 80.0, (800, 4)
EEG_CREDIT = "EEG of four electrodes, 10 s, shipped with matplotlib as sample_data/eeg.dat."


@dataclass(frozen=True)
class RecordingSettings(Notation, Checked):
    r"""Says how a table is read as a recording: its channels, () for all columns, the column of stamps, and what cells mean, as
    the settings of the same names of the task `csv`."""

    inputs: tuple[str, ...] = ()
    time: str = ""


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


def load(path: Path | None, rate: float | None, words: Sequence[str] = ()) -> Recording:
    r"""Load the recording in a file, or the EEG.

    Args:    path: .npy or .csv, None for the EEG; rate: samples per second, for a file, None where a column of stamps says it;
             words: `KEY=VALUE` settings of a table.
    Raises:  UsageError for what cannot be read as a recording.
    """
    settings = settings_from(RecordingSettings, assignments(words), as_text=True)
    if path is None:
        xs, names, total, credit, name = *_eeg(), EEG_CREDIT, "an EEG"
        rate = EEG_RATE
    else:
        xs, names, total, said = _read(path, settings)
        rate = _agreed(path, rate, said)
        name, credit = path.name, f"your file {path.name}."
    standardized, constant = _standardize(xs)
    return Recording(name, standardized, rate, names, total, tuple(names[k] for k in constant), credit, path is None)


def _agreed(path: Path, rate: float | None, said: float | None) -> float:
    """Return the rate that is given, or that the stamps say. Raises: UsageError for none, and for two."""
    if rate is None and said is None:
        raise UsageError("--input needs --sampling-rate too: how many samples per second is it? Its stamps have no unit.")
    if rate is not None and said is not None and not math.isclose(rate, said, rel_tol=SAME_RATE):
        raise UsageError(f"{path}: --sampling-rate is {rate:g}, and by its stamps it has {said:.4g} samples per second.")
    return said if rate is None else rate  # type: ignore[return-value]


def _eeg() -> tuple[np.ndarray, tuple[str, ...], int]:
    path = Path(str(get_sample_data("eeg.dat", asfileobj=False)))
    size, expected = path.stat().st_size if path.is_file() else 0, 8 * EEG_SHAPE[0] * EEG_SHAPE[1]
    if size != expected:
        found = f"{size} bytes instead of {expected}" if path.is_file() else "no such file"
        raise UsageError(
            f"matplotlib's sample EEG is not what it should be ({path}: {found}); give --input FILE --sampling-rate HZ."
        )
    return np.fromfile(path, dtype="<f8").reshape(EEG_SHAPE), _numbered(EEG_SHAPE[1]), EEG_SHAPE[0]


def _read(path: Path, settings: RecordingSettings) -> tuple[np.ndarray, tuple[str, ...], int, float | None]:
    """Return samples, names of channels, how many samples there are, and the rate that a column of stamps says."""
    rate = None
    if path.suffix.lower() != ".npy" and kind_of(path) not in TEXTS:
        raise UsageError(f"{path}: a recording is a .npy or .csv file, not {path.suffix or 'one without a suffix'}.")
    check_file(path)
    try:
        if path.suffix.lower() == ".npy":
            if settings != RecordingSettings():
                raise UsageError(f"{path}: --set is for tables; an array has no columns by name, and its numbers one meaning.")
            xs, names, total = _read_npy(path)
        else:
            xs, names, total, rate = _read_table(path, settings)
    except OSError as error:
        raise unreadable(path, error) from None
    if xs.shape[1] > max(total, FEWEST_SAMPLES - 1):
        rows = "1 sample" if total == 1 else f"{total} samples"
        raise UsageError(f"{path}: {xs.shape[1]} channels and only {rows}; transpose it, rows are samples.")
    if total < FEWEST_SAMPLES:
        raise UsageError(f"{path}: {total} sample{'s' * (total != 1)}, at least {FEWEST_SAMPLES} are needed.")
    if not np.isfinite(xs).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(xs))[0])
        raise UsageError(f"{path}: {xs[row, column]} in sample {row + 1}, channel {names[column]}; fill or drop such samples.")
    return xs, names, total, rate


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


def _read_table(path: Path, settings: RecordingSettings) -> tuple[np.ndarray, tuple[str, ...], int, float | None]:
    table, total = read_rows(path, settings, MOST_SAMPLES, MOST_BYTES, unnamed=True)
    for name in [*settings.inputs, *filter(None, [settings.time])]:
        if name not in table:
            raise UsageError(f"{path}: there is no column {nearest(name, table.names)}")
    names = settings.inputs or tuple(name for name in table.names if name != settings.time)
    if not names:
        raise UsageError(f"{path}: has no column beside {settings.time}.")
    if not settings.decimal and _is_open_alike(table, names):
        table = Columns(table.frame, path, replace(settings, decimal="point"), cut=table.cut)
    if not (settings.separator or settings.time):
        _check_no_decimal_commas(table)
    if words := [name for name in names if not table.is_numbers(name)]:
        raise UsageError(f"{table.where(words[0])} holds words, and a channel is of numbers; name the channels by inputs=....")
    rate = _rate_of(table, settings.time) if settings.time else None
    return np.stack([table.numbers(name) for name in names], 1), names, total, rate


def _rate_of(table: Columns, time: str) -> float | None:
    """Return the samples per second that stamps say, None where they have no unit. Raises: UsageError for irregular ones."""
    stamps = table.stamps(time)
    gaps = np.diff(stamps.times)
    if not len(gaps):
        return None
    if not (gaps > 0).all():
        raise UsageError(f"{table.where(time)}: row {int((gaps <= 0).argmax()) + 2} is not later than the row before it.")
    if not np.allclose(gaps, median := float(np.median(gaps)), rtol=1e-3, atol=0):
        raise UsageError(
            f"{table.where(time)}: rows are {gaps.min():.4g} to {gaps.max():.4g} apart, and a recording has one rate; "
            "resample it, or train on it as it is by ctrnn train --task csv."
        )
    return 1 / (median * SECONDS[stamps.unit]) if stamps.unit else None


def _is_open_alike(table: Columns, names: Sequence[str]) -> bool:
    """Return whether no cell says what 1.000 is, and both readings are the same once standardized: all of a channel are so."""
    cells = [[cell for cell in table.frame[name] if isinstance(cell, str) and is_numeral(cell)] for name in names]
    if marks_of(itertools.chain(*cells))[0]:
        return False
    some = [[marks_of([cell])[1] for cell in column] for column in cells]
    return any(map(any, some)) and all(all(each) or not any(each) for each in some)


def _check_no_decimal_commas(table: Columns) -> None:
    """Refuse 0,036 without names. Raises: UsageError.

    Whole numbers of a second channel have no 0 in front, and of more than nine of them some end in 0 or have more digits; of
    fractions all have as many, or none ends in 0.
    """
    if table.names != ["1", "2"] or table.cut != "," or len(table.frame) < FEWEST_SAMPLES:
        return
    one, two = ([str(cell) for cell in table.frame[name]] for name in table.names)
    if not all(cell.lstrip("+-").isdecimal() for cell in one) or not all(map(str.isdecimal, two)):
        return
    row = next((k for k, cell in enumerate(two) if cell[0] == "0" and len(cell) > 1), None)
    if row is not None or len({*map(len, two)}) == 1 or not any(cell[-1] == "0" for cell in two if len(cell) > 1):
        row = row or 0
        raise UsageError(
            f"{table.path}: {quoted(f'{one[row]},{two[row]}')} in row {row + 1} is two channels, or one with a decimal comma; "
            "say separator=comma for two, or separator=none and decimal=comma for one."
        )


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
