r"""Reads a table of anybody's, a row a sample and a column a variable, into columns by name.

.csv .tsv .txt     names in the first row; commas, semicolons, tabs or bars between; packed too, as .csv.gz or .csv.xz
.npz               an array (rows,) for each name
.parquet           where pyarrow is installed
"""

from __future__ import annotations

import csv
import lzma
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.data.untrusted import OPENED, check_file, quoted, unreadable
from experiments.usage import UsageError

__all__ = ["NO_CLASS", "a_word", "features", "in_order", "read_table", "target_of"]

MISSING = ("?", "-", "nan", "NaN", "NA", "N/A", "na", "n/a", "null", "NULL", "None", "none", "missing")  # and empty cells
TEXTS = (".csv", ".tsv", ".txt")
MOST_WORDS = 100  # of a column that is no number
NO_CLASS = -1  # where the target is missing
SAMPLE = 1 << 16  # bytes by which the separator is found


def read_table(path: Path) -> pd.DataFrame:
    """Read a table; cells that say that nothing is there are missing. Raises: UsageError for what is no table."""
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
    except (ValueError, EOFError, lzma.LZMAError, zipfile.BadZipFile) as error:  # pandas' own errors are ValueErrors
        raise UsageError(f"{path}: cannot be read as a table: {' '.join(str(error).split())}.") from None
    if found.empty:
        raise UsageError(f"{path}: has no rows below the names of its columns.")
    if len(set(found.columns)) < len(found.columns):
        raise UsageError(f"{path}: two columns have one name; all: {', '.join(map(str, found.columns))}.")
    return found.rename(columns=str)


def _text(path: Path) -> pd.DataFrame:
    with OPENED.get(path.suffix, open)(path, "rb") as file:
        first = file.read(SAMPLE).decode("utf-8-sig", "replace")
    try:
        separator = csv.Sniffer().sniff(first.splitlines()[0] if first else "", ",;\t|").delimiter
    except csv.Error:
        separator = "\t" if path.suffix == ".tsv" else ","  # a single column
    how: dict[str, Any] = {
        "sep": separator, "na_values": [*MISSING, ""], "keep_default_na": False, "skipinitialspace": True,
        "encoding": "utf-8-sig", "low_memory": False,
    }  # fmt: skip
    found = pd.read_csv(path, **how)
    texts = found.select_dtypes(exclude="number")
    if separator != "," and any(texts[name].dropna().astype(str).str.fullmatch(r"[-+]?\d+,\d+").any() for name in texts):
        found = pd.read_csv(path, **how, decimal=",")
    if numbers := [name for name in found.columns if _is_number(str(name))]:
        raise UsageError(
            f"{path}: the first row names the columns, and {quoted(str(numbers[0]))} is a number; add a row of names."
        )
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _arrays(path: Path) -> pd.DataFrame:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        columns = {name: arrays[name] for name in arrays.files}
    if wrong := [f"{name} {values.shape}" for name, values in columns.items() if values.ndim != 1]:
        raise UsageError(f"{path}: each array is a column, (rows,); got {', '.join(wrong)}.")
    return pd.DataFrame(columns)


def _times_of(column: pd.Series, where: str) -> tuple[np.ndarray, str]:
    """Return stamps as numbers, and their unit, "" where nobody says it; dates in seconds. Raises: UsageError."""
    unit = ""
    if not pd.api.types.is_numeric_dtype(column):
        numbers = pd.to_numeric(column, errors="coerce")
        dates = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601") if numbers.isna().all() else numbers
        if (wrong := dates.isna() & column.notna()).any():
            raise UsageError(f"{where}: {quoted(str(column[wrong].iloc[0]))} is no number and no date like 2024-05-31 13:45:00.")
        column, unit = (dates - dates.min()).dt.total_seconds(), "s"
    times = column.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(times).all():
        raise UsageError(f"{where}: row {int(np.argmin(np.isfinite(times))) + 1} has no time; fill it, or drop the row.")
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
    gaps = np.concatenate([np.diff(times[k]) for k in rows])
    if not len(gaps):
        raise UsageError(f"{path}: every sequence has one row; which rows belong together is said by sequence=COLUMN.")
    if (gaps == 0).any():
        k, place = next((k, p) for k in rows for p in np.flatnonzero(np.diff(times[k]) == 0))
        raise UsageError(
            f"{path}: rows {k[place] + 1} and {k[place + 1] + 1} have one {time}, {times[k[place]]:g}"
            f"{' in one ' + sequence if sequence else ''}; keep one, or say by sequence=COLUMN what they are of."
        )
    median = float(np.median(gaps))
    one = unit or median
    regular = "" if np.allclose(gaps, median, rtol=1e-3) else f" in the median, from {gaps.min():.4g} to {gaps.max():.4g}"
    unordered = "" if all((np.diff(k) > 0).all() for k in rows) else "; rows were put in the order of time"
    said = f"times: {time}, {median:.4g}{called and ' ' + called} apart{regular}; {one:.4g} of it is 1 for the model{unordered}"
    return rows, times / one, said


def features(frame: pd.DataFrame, inputs: Sequence[str], train: np.ndarray, path: Path) -> tuple[np.ndarray, list[str]]:
    """Return what a model sees (rows, features), nan where missing, and words about it."""
    columns, words, missing = [], [], []
    for name in inputs:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            values = _finite(column, f"{path}: {name}")
            columns.append((values - _mean(values[train])) / _deviation(values[train]))
            words.append(name)
        else:
            known = sorted(map(str, column.iloc[train].dropna().unique()))
            if not 0 < len(known) <= MOST_WORDS:
                raise UsageError(
                    f"{path}: {name} has {len(known)} different words, such as {quoted(a_word(column))}, and at most "
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


def target_of(
    frame: pd.DataFrame, targets: tuple[str, ...], predict: str, train: np.ndarray, path: Path
) -> tuple[tuple[str, ...], np.ndarray, list[tuple[float, float]]]:
    """Return the classes, if it is one; targets (rows,), or (rows, numbers), standardized if no counts; means and deviations."""
    if predict == "class":
        column = frame[targets[0]]
        words = column.map(_name, na_action="ignore")
        classes = tuple(sorted(words.dropna().unique()))
        if len(classes) < 2:
            raise UsageError(f"{path}: {targets[0]} is {quoted(classes[0]) if classes else 'missing'} in every row.")
        return classes, pd.Categorical(words, list(classes)).codes.astype(np.int64), []
    values = np.stack([_finite(frame[name], f"{path}: {name}") for name in targets], 1)
    scales = [(_mean(column), _deviation(column)) for column in values[train].T]
    if predict == "count":
        if wrong := [name for name, column in zip(targets, values.T, strict=True) if _no_counts(column, train)]:
            raise UsageError(
                f"{path}: {wrong[0]} is no count: it has numbers below 0, or no whole ones, or none above 0 in train."
            )
        return (), values, scales
    means, deviations = zip(*scales, strict=True)
    return (), (values - means) / deviations, scales


def _no_counts(column: np.ndarray, train: np.ndarray) -> bool:
    seen = column[np.isfinite(column)]
    return bool((seen < 0).any() or (seen != np.round(seen)).any() or not (column[train] > 0).any())


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
    return (float(np.nanstd(values)) if np.isfinite(values).any() else 0.0) or 1.0


def a_word(column: pd.Series) -> str:
    return str(column[pd.to_numeric(column, errors="coerce").isna() & column.notna()].iloc[0])
