r"""Reads what an estimator is given as a table, a row a sample: sequences in a list or an array, or a DataFrame of all rows.

[frame, frame, ..]     a DataFrame each, a column a variable             array (n, time, features), or (n, time) of one variable
[array, array, ..]     (time, features), or (time,) of one variable      a DataFrame of all rows, with a column of sequences
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse

from experiments.data.columns import Columns, Notation

__all__ = ["SequenceRows", "by_sequence", "rows_of", "with_targets"]

WHERE = Path("X")  # in messages
SEQUENCE, TARGET = "(sequence)", "(target)"  # columns that are put beside those of lists


@dataclass(frozen=True)
class SequenceRows:
    """Holds all rows of some sequences, the column of sequences, the ids in the order of their first rows, whether they came
    as a table, so that answers go back into one, and how many features arrays had, which have no names, 0 of others."""

    frame: pd.DataFrame
    sequence: str
    ids: pd.Index
    is_table: bool
    features: int = 0

    @property
    def of_sequence(self) -> np.ndarray:
        """Return the number of each row's sequence, in the order of `ids`."""
        return self.ids.get_indexer(pd.Index(self.frame[self.sequence])) if self.sequence else np.zeros(len(self.frame), int)

    def columns(self, notation: Notation, only: Sequence[str] | None = None) -> Columns:
        """Return the columns as tables of files are read: cells of text are numbers, times or words by what they say.

        The column of sequences has their numbers: as words two ids may be one, 1 and "1", or none, "NA".
        """
        cells = {name: _cells(self.frame[name]) for name in (self.frame if only is None else only) if name != self.sequence}
        if self.sequence and only is None:
            cells[self.sequence] = pd.Series(self.of_sequence)
        return Columns(pd.DataFrame(cells), WHERE, notation)


def rows_of(X: Any, sequence: str | None) -> SequenceRows:
    r"""Read the sequences of an estimator.

    Args:    X: see above; sequence: the column that says which rows of a DataFrame belong together, None where all do.
    Raises:  TypeError, ValueError for what holds no sequences.
    """
    if isinstance(X, pd.DataFrame):
        frame, sequence = _named(X), None if sequence is None else str(sequence)
        if frame.columns.has_duplicates:
            raise ValueError(f"`X` has two columns {frame.columns[frame.columns.duplicated()][0]!r}; rename one of them.")
        if sequence is not None and sequence not in frame:
            raise ValueError(f"`X` has no column {sequence!r}, which `sequence` names; there is {', '.join(map(str, frame))}.")
        if not len(frame):
            raise ValueError("`X` has no rows.")
        if sequence is not None and (absent := frame[sequence].isna().to_numpy()).any():
            raise ValueError(f"row {int(absent.argmax()) + 1} of `X` names no {sequence}, the column of sequences.")
        ids = pd.Index(["all rows"]) if sequence is None else pd.Index(frame[sequence].unique())
        return SequenceRows(frame, sequence or "", ids, True)
    if sequence is not None:
        raise ValueError(f"`sequence` is {sequence!r}, a column of a DataFrame of all rows, and `X` is {_kind(X)}; leave it out.")
    listed = _listed(X)
    parts = [_part(part, k) for k, part in enumerate(listed)]
    if not parts:
        raise ValueError("`X` has no sequences; give at least 1 (Found array with 0 sample(s) while a minimum of 1 is required).")
    first = list(parts[0])
    for k, part in enumerate(parts):
        if list(part) != first:
            raise ValueError(
                f"sequence {k} of `X` has the columns {', '.join(map(str, part))}, "
                f"and sequence 0 {', '.join(map(str, first))}; give all the same."
            )
        if not len(part):
            raise ValueError(f"sequence {k} of `X` has no rows; leave it out.")
    frame = pd.concat(parts, ignore_index=True)
    return SequenceRows(
        _with(frame, {SEQUENCE: np.repeat(np.arange(len(parts)), [len(part) for part in parts])}),
        SEQUENCE,
        pd.RangeIndex(len(parts)),
        False,
        0 if isinstance(listed[0], pd.DataFrame) else len(first),
    )


def with_targets(rows: SequenceRows, y: Any) -> tuple[SequenceRows, tuple[str, ...], bool | None]:
    r"""Put targets beside the rows: those rows, the columns of targets, and whether they are of whole sequences, None for what a
    named column looks like.

    Args:    y: of a table the name of a column, or names; (n,) or (n, targets), of each sequence; or a list of as many, (time,)
             or (time, targets), of each row.
    Raises:  TypeError, ValueError for what is neither.
    """
    if y is None:
        raise ValueError("`y` is None: requires y to be passed, but the target y is None.")
    if isinstance(y, str) or (rows.is_table and isinstance(y, list | tuple) and y and all(isinstance(name, str) for name in y)):
        names = (y,) if isinstance(y, str) else tuple(y)
        if absent := [name for name in names if name not in rows.frame]:
            raise ValueError(f"`X` has no column {absent[0]!r}, which `y` names; there is {', '.join(map(str, rows.frame))}.")
        return rows, names, None
    if isinstance(y, pd.Series | pd.DataFrame) and rows.is_table:
        of_rows = y.index.equals(rows.frame.index)
        values, whole = (y.to_numpy(), len(y) == len(rows.ids)) if of_rows else _values(rows, _by_id(rows, y))
    else:
        values, whole = _values(rows, y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim > 2:
        raise ValueError(f"`y` must be (sequences,) or (sequences, targets), got {values.ndim} axes.")
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError("`y` is infinite somewhere (Input y contains infinity).")
    several = values.ndim > 1
    columns = values.T if several else [values]
    names = tuple(_own_names(rows, y) or [f"{TARGET} {k + 1}" if several else TARGET for k in range(len(columns))])
    return replace(rows, frame=_with(rows.frame, dict(zip(names, columns, strict=True)))), names, whole


def _by_id(rows: SequenceRows, y: pd.Series | pd.DataFrame) -> pd.Series | pd.DataFrame:
    """Sort targets of sequences by the ids if the index holds ids; leave them if it only counts, or holds none of the ids."""
    known = y.index.isin(rows.ids)
    counts = isinstance(y.index, pd.RangeIndex) and y.index.equals(pd.RangeIndex(len(y)))
    if not known.any() or (counts and not known.all()):
        return y
    if not known.all() or len(y) != len(rows.ids) or not y.index.is_unique:
        strange = [*y.index[~known], *rows.ids.difference(y.index, sort=False), *y.index[y.index.duplicated()]]
        raise ValueError(
            f"`y` has {len(y)} targets by the ids of sequences, and `X` {len(rows.ids)} sequences; {strange[0]!r} is not in both "
            "once (Found input variables with inconsistent numbers of samples)."
        )
    return y.reindex(rows.ids)


def _values(rows: SequenceRows, y: Any) -> tuple[np.ndarray, bool]:
    """Return what each row has of the targets, and whether they are of whole sequences."""
    counts = np.bincount(rows.of_sequence, minlength=len(rows.ids))
    if isinstance(y, list | tuple) and len(y) == len(counts) and all(np.ndim(one) for one in y):
        wrong = next((k for k, one in enumerate(y) if len(one) != counts[k]), None)
        if wrong is not None:
            raise ValueError(f"`y` has {len(y[wrong])} targets for sequence {wrong}, which has {counts[wrong]} rows.")
        if rows.is_table:
            raise ValueError("`y` of each row of a DataFrame of all rows is the name of a column, or a Series with its index.")
        return np.concatenate([np.asarray(one) for one in y]), False
    values = y.detach().cpu().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)
    if values.ndim == 0 or len(values) != len(counts):
        raise ValueError(
            f"`y` has {len(values) if values.ndim else 'no'} targets, and `X` {len(counts)} sequences "
            "(Found input variables with inconsistent numbers of samples)."
        )
    return values[rows.of_sequence], True


def _own_names(rows: SequenceRows, y: Any) -> list[str]:
    """Return what targets in pandas are called, where no column of `X` is called so."""
    given = [y.name] if isinstance(y, pd.Series) else [*y.columns] if isinstance(y, pd.DataFrame) else []
    names = [name for name in given if isinstance(name, str) and name.strip()]
    return names if len({*names} - {*rows.frame}) == len(given) else []


def _with(frame: pd.DataFrame, columns: dict[str, np.ndarray]) -> pd.DataFrame:
    if taken := [name for name in columns if name in frame]:
        raise ValueError(f"`X` has a column {taken[0]!r}, a name that is kept for what is given beside `X`; rename it.")
    return frame.assign(**columns)


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Name columns by text; a column of several levels by its tuple written as text."""
    return frame.set_axis(frame.columns.map(str), axis=1)


def by_sequence(frame: pd.DataFrame, sequence: str, target: str | Sequence[str] | None = None) -> tuple[list[pd.DataFrame], Any]:
    r"""Cut a DataFrame of all rows into sequences, and take their targets out: X and y, as `cross_val_score` deals them.

    Args:    sequence: the column that says which rows belong together; target: the column or columns to predict, which are the
             same in all rows of a sequence, or None.
    Returns: DataFrames without these columns, and y: (n,), (n, columns), or None.
    Raises:  ValueError for columns that are not there, and a target that changes within a sequence.
    """
    rows = rows_of(frame, sequence)
    sequence = rows.sequence
    targets = [target] if isinstance(target, str) else list(target or ())
    if absent := [name for name in targets if name not in rows.frame]:
        raise ValueError(f"there is no column {absent[0]!r}, which `target` names; there is {', '.join(map(str, rows.frame))}.")
    groups = [part for _, part in rows.frame.groupby(rows.of_sequence)]
    for name in targets:
        if changing := [part[sequence].iloc[0] for part in groups if part[name].nunique(dropna=False) > 1]:
            raise ValueError(
                f"{name} changes within sequence '{changing[0]}'; a target of every row is given to `fit` with the whole table."
            )
    y = pd.DataFrame([part[targets].iloc[0] for part in groups]).reset_index(drop=True) if targets else None
    return [part.drop(columns=[sequence, *targets]) for part in groups], y[target] if isinstance(
        target, str
    ) and y is not None else y


def _listed(X: Any) -> Sequence[Any]:
    if isinstance(X, torch.Tensor):
        X = X.detach().cpu().numpy()
    if issparse(X):
        raise TypeError("`X` is a sparse matrix, and sparse input is not supported; give `X.toarray()`.")
    if not isinstance(X, list | tuple | np.ndarray) and hasattr(X, "__array__"):
        X = np.asarray(X)
    if isinstance(X, np.ndarray) and X.dtype.kind == "c":
        raise ValueError("Complex data not supported: `X` has complex numbers; give real and imaginary parts as two features.")
    if isinstance(X, np.ndarray) and X.ndim > 1 and not X.shape[1]:
        raise ValueError(f"`X` has sequences of no rows: 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim not in (2, 3):
            raise ValueError(
                f"`X` must be (sequences, time, features), or (sequences, time) of one variable, got shape {X.shape}. "
                "Reshape your data: a single sequence is X[None], or [X] in a list."
            )
        return [*X]
    if isinstance(X, list | tuple | np.ndarray):
        return [*X]
    raise TypeError(f"`X` must be a list of sequences, an array or a DataFrame, got {_kind(X)}.")


def _part(part: Any, k: int) -> pd.DataFrame:
    if isinstance(part, pd.DataFrame):
        return _named(part)
    if isinstance(part, np.ma.MaskedArray):
        part = np.ma.filled(part.astype(np.float64), np.nan)
    values = part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part)
    if values.ndim not in (1, 2):
        raise ValueError(f"sequence {k} of `X` must be (time, features), or (time,) of one variable, got shape {values.shape}.")
    if values.dtype.kind not in "biufO":
        raise ValueError(
            f"sequence {k} of `X` is of {values.dtype}; give numbers, or a DataFrame with columns of words and dates."
        )
    values = values[:, None] if values.ndim == 1 else values
    try:
        values = values.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"sequence {k} of `X` is no array of numbers ({error}); give numbers, or a DataFrame with columns of words and dates."
        ) from None
    if np.isinf(values).any():
        raise ValueError(
            f"sequence {k} of `X` is infinite in row {int(np.isinf(values).any(1).argmax())}; nan says that nothing was seen."
        )
    return pd.DataFrame(values, columns=[f"x{j + 1}" for j in range(values.shape[1])])


def _cells(column: pd.Series) -> pd.Series:
    """Return a column as it would be read from a file: numbers and dates, or text, None where it is missing."""
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_numeric_dtype(kind):
        if pd.api.types.is_complex_dtype(kind):
            raise ValueError(f"Complex data not supported: `X` has complex numbers in {column.name}.")
        return column.reset_index(drop=True)
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        return column.reset_index(drop=True)
    seen = column.notna().to_numpy()
    return pd.Series(
        [str(cell) if there else None for cell, there in zip(column, seen, strict=True)], dtype=object, name=column.name
    )


def _kind(X: Any) -> str:
    return f"{type(X).__name__} of shape {tuple(X.shape)}" if hasattr(X, "shape") else type(X).__name__
