r"""Reads a table of anybody's, a row a sample and a column a variable, into columns by name.

.csv .tsv .txt     names in the first row; commas, semicolons, tabs or bars between; packed too, as .csv.gz or .csv.xz
.npz               an array (rows,) for each name
.parquet           where pyarrow is installed
"""

from __future__ import annotations

import csv
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from ctrnn import checks
from experiments.data.untrusted import OPENED, check_file, quoted, unreadable
from experiments.usage import UsageError

__all__ = ["NO_CLASS", "features", "in_order", "is_numbers", "read_table", "scales_of", "target_of"]

MISSING = ("", "?", "nan", "NaN", "NA", "N/A", "n/a", "null", "NULL")
TEXTS = (".csv", ".tsv", ".txt")
MOST_WORDS = 100  # of a column that is no number
CONSTANT = 1e-9  # of the largest number, which is rounding
NO_CLASS = -1  # where the target is missing
SAMPLE = 1 << 16  # bytes by which the separator is found


def read_table(path: Path) -> pd.DataFrame:
    r"""Read a table; cells that say that nothing is there are missing, truth values are 0 and 1, and spaces around words go.

    Raises:  UsageError for what is no table.
    """
    check_file(path)
    kind = next((suffix for suffix in reversed(path.suffixes) if suffix not in (".gz", ".xz")), "")
    try:
        if kind == ".parquet":
            found = pd.read_parquet(path)
        elif kind == ".npz":
            found = _arrays(path)
        elif kind in TEXTS:
            found = _text(path)
        else:
            raise UsageError(f"{path}: a table is a .csv, .tsv, .npz or .parquet file.")
    except OSError as error:
        raise unreadable(path, error) from None
    except ImportError as error:
        raise UsageError(f"{path}: a .parquet file is read by pyarrow: pip install pyarrow.") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not text in UTF-8; save it as that.") from None
    except (ValueError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:  # pandas' own are ValueErrors
        raise UsageError(f"{path}: cannot be read as a table: {' '.join(str(error).split())}.") from None
    if found.empty:
        raise UsageError(f"{path}: has no rows below the names of its columns.")
    found = found.rename(columns=lambda name: str(name).strip())
    if len(set(found.columns)) < len(found.columns):
        raise UsageError(f"{path}: two columns have one name; all: {', '.join(found.columns)}.")
    return found.apply(_plain)


def _plain(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column
    if pd.api.types.is_datetime64_any_dtype(column):
        return column
    if column.map(lambda value: isinstance(value, bool | np.bool_), na_action="ignore").dropna().all() and column.notna().any():
        return column.map(float, na_action="ignore").astype(float)
    return column.map(lambda value: str(value).strip(), na_action="ignore")


def _text(path: Path) -> pd.DataFrame:
    with OPENED.get(path.suffix, open)(path, "rb") as file:
        first = file.read(SAMPLE).decode("utf-8-sig", "replace")
    header = next((line for line in first.splitlines() if line.strip()), "")
    try:
        separator = csv.Sniffer().sniff(header, ",;\t|").delimiter
    except csv.Error:
        separator = "\t" if path.suffix == ".tsv" else ","  # a single column
    names = [name.strip() for name in next(csv.reader([header], delimiter=separator, skipinitialspace=True), [])]
    if numbers := [name for name in names if _is_number(name)]:
        raise UsageError(f"{path}: the first row names the columns, and {quoted(numbers[0])} is a number; add a row of names.")
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise UsageError(f"{path}: two columns are called {quoted(twice[0])}; rename one of them.")
    how: dict[str, Any] = {
        "sep": separator, "na_values": list(MISSING), "keep_default_na": False, "skipinitialspace": True,
        "encoding": "utf-8-sig", "low_memory": False, "index_col": False,
    }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            found = pd.read_csv(path, **how)
            if separator != "," and _has_decimal_commas(found):
                found = pd.read_csv(path, **how, decimal=",")
    except pd.errors.ParserWarning:
        raise UsageError(
            f"{path}: rows have more cells than the {len(names)} names in the first row; name each column."
        ) from None
    saved = [name for name in found if str(name).startswith("Unnamed: ") and (found[name].isna().all() or name == "Unnamed: 0")]
    return found.drop(columns=saved)  # the index that pandas saves, and columns of a separator at the end of each line


def _has_decimal_commas(found: pd.DataFrame) -> bool:
    """Return whether a column has numbers with a comma in them and nothing else, and none has numbers with a point."""
    texts, numbers = found.select_dtypes(exclude="number"), found.select_dtypes(include="number")
    if any((numbers[name].dropna() % 1 != 0).any() for name in numbers):
        return False
    seen = [texts[name].dropna().astype(str) for name in texts]
    return any(len(each) > 0 and each.str.fullmatch(r"[-+]?\d+(,\d+)?").all() for each in seen)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _arrays(path: Path) -> pd.DataFrame:
    with path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise UsageError(f"{path}: is a single array; save one for each column by numpy.savez.")
        columns = {name: found[name] for name in found.files}
    if wrong := [f"{name} {values.dtype}{values.shape}" for name, values in columns.items() if _no_column(values)]:
        raise UsageError(f"{path}: each array is a column, (rows,), of numbers or words; got {', '.join(wrong)}.")
    return pd.DataFrame(columns)


def _no_column(values: np.ndarray) -> bool:
    return values.ndim != 1 or values.dtype.kind not in "biufUSM"


def is_numbers(column: pd.Series, where: str) -> bool:
    """Return whether a column is of numbers. Raises: UsageError for one that mostly is, and has another word in it."""
    if pd.api.types.is_numeric_dtype(column):
        return True
    seen = column.dropna()
    numbers = pd.to_numeric(seen, errors="coerce")
    if len(seen) and numbers.notna().mean() >= 0.5:
        wrong = [(int(row) + 1, quoted(str(column[row]))) for row in seen.index[numbers.isna()][:1]]
        row, cell = wrong[0] if wrong else (1, "a number that is too large")
        raise UsageError(f"{where}: row {row} has {cell}, and most of this column are numbers; mend it, or leave the cell empty.")
    return False


def _times_of(column: pd.Series, where: str) -> tuple[np.ndarray, str]:
    """Return times since the first one, and their unit: s for dates, "" where it is not known. Raises: UsageError."""
    unit = ""
    numbers = column if pd.api.types.is_numeric_dtype(column) else pd.to_numeric(column.astype(str), errors="coerce")
    dates = column
    if pd.api.types.is_datetime64_any_dtype(column):
        dates, unit = pd.to_datetime(column, utc=True), "s"
    elif numbers.isna().all() and column.notna().any():
        dates, unit = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601"), "s"
        zoned = column.dropna().str.contains(r"[T ]\S+(?:Z|[+-]\d\d:?\d\d)$")
        if zoned.any() and not zoned.all():
            raise UsageError(f"{where}: some dates have a time zone and some have none; give all of them one, or none.")
    elif numbers.between(19000101, 21001231).all() and (numbers % 1 == 0).all():  # 20240531
        as_dates = pd.to_datetime(numbers.astype(int).astype(str), errors="coerce", utc=True, format="%Y%m%d")
        dates, unit = (as_dates, "s") if as_dates.notna().all() else (column, "")
    wrong = (dates if unit else numbers).isna() & column.notna()
    if wrong.any():
        raise UsageError(f"{where}: {quoted(str(column[wrong].iloc[0]))} is no number and no date like 2024-05-31 13:45:00.")
    if unit:
        numbers = (dates - dates.min()).dt.total_seconds()
    # Stamps of a clock that counts since 1970, in nanoseconds say, have more digits than a float.
    times = (numbers - numbers.min()).to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        what = "an infinite time" if np.isinf(times[row]) else "no time"
        raise UsageError(f"{where}: row {row + 1} has {what}; mend it, or drop the row.")
    return times, unit


def in_order(frame: pd.DataFrame, sequence: str, time: str, unit: float, path: Path) -> tuple[list[np.ndarray], np.ndarray, str]:
    """Return the rows of each sequence in the order of time, all rows' stamps in the model's unit, and words about them."""
    keys = np.zeros(len(frame), int)
    if sequence:
        keys = pd.factorize(frame[sequence])[0]
        if (keys < 0).any():
            raise UsageError(f"{path}: row {int(np.argmin(keys)) + 1} names no {sequence}, the column of sequences.")
    if not time:
        order = np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(keys[order])) + 1
        return np.split(order, bounds), np.arange(len(frame), dtype=float), "times: none, rows are 1 apart"
    times, called = _times_of(frame[time], f"{path}: {time}")
    order = np.lexsort((times, keys))
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    rows = np.split(order, bounds)
    if pd.api.types.is_float_dtype(frame[time]):
        given = frame[time].to_numpy(getattr(frame[time].dtype, "numpy_dtype", frame[time].dtype))
        latest = keys[np.abs(given).argmax()]  # where the numbers of a dtype are furthest apart
        stamps = torch.from_numpy(np.sort(given[keys == latest]))
        checks.say_if_rounded(f"{path}: {time}", stamps.double(), stamps.dtype)
    gaps = np.concatenate([np.diff(times[k]) for k in rows])
    if not len(gaps):
        raise UsageError(f"{path}: every sequence has one row; which rows belong together is said by sequence=COLUMN.")
    if (gaps == 0).any():
        k, place = next((k, p) for k in rows for p in np.flatnonzero(np.diff(times[k]) == 0))
        raise UsageError(
            f"{path}: rows {k[place] + 1} and {k[place + 1] + 1} have one {time}, {frame[time].iloc[k[place]]}"
            f"{' in one ' + sequence if sequence else ''}; keep one, or say by sequence=COLUMN what they are of."
        )
    median = float(np.median(gaps))
    one = unit or median
    regular = "" if np.allclose(gaps, median, rtol=1e-3, atol=0) else f" in the median, from {gaps.min():.4g} to {gaps.max():.4g}"
    unordered = "" if all((np.diff(k) > 0).all() for k in rows) else "; rows were put in the order of time"
    said = f"times: {time}, {median:.4g}{called and ' ' + called} apart{regular}; {one:.4g} of it is 1 for the model{unordered}"
    return rows, times / one, said


def features(frame: pd.DataFrame, inputs: Sequence[str], train: np.ndarray, path: Path) -> tuple[np.ndarray, list[str]]:
    """Return what a model sees (rows, features), nan where missing, and words about it."""
    columns, words, missing = [], [], []
    for name in inputs:
        column = frame[name]
        if pd.api.types.is_datetime64_any_dtype(column):
            raise UsageError(f"{path}: {name} holds dates; say that it is time, or name what to see by inputs=...")
        if is_numbers(column, f"{path}: {name}"):
            values = _finite(column, f"{path}: {name}")
            columns.append((values - _mean(values[train])) / _deviation(values[train]))
            words.append(name)
        else:
            known = sorted(map(str, column.iloc[train].dropna().unique()))
            if not known:
                raise UsageError(f"{path}: {name} has no value in the rows of train; leave it out by inputs=...")
            if len(known) > MOST_WORDS:
                raise UsageError(
                    f"{path}: {name} has {len(known)} different words, such as {quoted(known[0])}, and at most "
                    f"{MOST_WORDS} are read as kinds; name what to see by inputs=..., or say that it is sequence, time or target."
                )
            places = pd.Categorical(column.astype(str).where(column.notna()), known).codes
            columns += [np.where(places < 0, np.nan, places == kind) for kind in range(len(known))]
            words.append(f"{name} (one of {len(known)})")
        if absent := float(np.isnan(columns[-1]).mean()):
            missing.append(f"{name} {100 * absent:.3g} %")
    said = [f"inputs: {', '.join(words)}"]
    if missing:
        said.append(f"missing: {', '.join(missing)}; there a model sees 0, and beside every value whether it was seen")
    return np.stack(columns, 1).astype(np.float64), said


def target_of(frame: pd.DataFrame, targets: tuple[str, ...], predict: str, path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the classes, if it is one, and what each row has of the targets: (rows,), or (rows, numbers)."""
    if predict == "class":
        words = frame[targets[0]].map(_name, na_action="ignore")
        classes = tuple(sorted(words.dropna().unique()))
        if len(classes) < 2:
            raise UsageError(f"{path}: {targets[0]} is {quoted(classes[0]) if classes else 'missing'} in every row.")
        return classes, pd.Categorical(words, list(classes)).codes.astype(np.int64)
    values = np.stack([_finite(frame[name], f"{path}: {name}") for name in targets], 1)
    if predict == "count" and (wrong := [name for name, column in zip(targets, values.T, strict=True) if _no_counts(column)]):
        raise UsageError(f"{path}: {wrong[0]} is no count: it has numbers below 0, or no whole ones, or none above 0.")
    return (), values


def scales_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each column (rows, columns), 0 and 1 where nothing says them."""
    found = [(_mean(column), _deviation(column)) for column in values.T]
    means, deviations = zip(*found, strict=True)
    return np.array(means), np.array(deviations)


def _no_counts(column: np.ndarray) -> bool:
    seen = column[np.isfinite(column)]
    return bool((seen < 0).any() or (seen != np.round(seen)).any() or not (seen > 0).any())


def _name(value: object) -> str:
    """Write a class: 1.0, as a column of whole numbers with gaps is read, as 1."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _finite(column: pd.Series, where: str) -> np.ndarray:
    values = column.to_numpy(np.float64, na_value=np.nan)
    if np.isinf(values).any():
        raise UsageError(f"{where}: row {int(np.isinf(values).argmax()) + 1} is infinite; leave the cell empty.")
    return values


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def _deviation(values: np.ndarray) -> float:
    if not np.isfinite(values).any():
        return 1.0
    found, largest = float(np.nanstd(values)), float(np.nanmax(np.abs(values)))
    return found if found > CONSTANT * largest else 1.0
