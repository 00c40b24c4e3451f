r"""Reads a table of anybody's, a row a sample and a column a variable, into columns by name.

.csv .tsv .txt     names in the first row, as `delimited.py` reads it; packed too, as .csv.gz, .xz, .bz2 or .zip
.npz               an array (rows,) for each name
.parquet           where pyarrow is installed
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.data.columns import Columns, Notation
from experiments.data.delimited import LOOKED_AT, layout_of, open_lines, rows_of
from experiments.data.numerals import is_numeral
from experiments.data.untrusted import PACKINGS, check_file, check_unpacked, quoted, read_arrays, unreadable
from experiments.usage import UsageError

__all__ = ["TEXTS", "kind_of", "read_rows", "read_table"]

TEXTS = (".csv", ".tsv", ".txt")
MOST_BYTES = 1 << 30  # of a table
MOST_CELLS = {"text": 1 << 25, "numbers": 1 << 27}
MOST_ROWS = 10_000_000
MOST_IN_A_CELL = 1 << 17  # characters, as csv.field_size_limit has it for text
LARGER = "for more than memory holds there is the task `arrays`, which reads from the disk"


def read_table(path: Path, notation: Notation | None = None) -> Columns:
    r"""Read a table.

    Raises:  UsageError for what is no table, and for more than `MOST_BYTES`, `MOST_ROWS` or `MOST_CELLS`.
    """
    if path.is_dir():
        raise UsageError(
            f"{path}: is a folder, and a table is one file. Join its files, each with its name in a column: "
            "pandas.concat([pandas.read_csv(file).assign(file=file.stem) for file in files]), and say sequence=file."
        )
    check_file(path)
    notation = notation or Notation()
    kind = kind_of(path)
    if kind in TEXTS:
        return read_rows(path, notation)[0]
    if kind == ".parquet":
        frame = _parquet(path)
    elif kind == ".npz":
        frame = _arrays(path)
    else:
        raise UsageError(f"{path}: a table is a .csv, .tsv, .npz or .parquet file.")
    for name in [name for name in frame.columns if frame[name].dtype == object]:
        if max(map(len, filter(None, frame[name])), default=0) > MOST_IN_A_CELL:
            raise UsageError(
                f"{path}: {name} has a cell of more than {MOST_IN_A_CELL:,} characters; a cell has one number or word."
            )
    return _columns(frame, path, notation)


def kind_of(path: Path) -> str:
    """Return the ending of a file's name, without that of how it is packed."""
    return next((suffix for suffix in reversed([each.lower() for each in path.suffixes]) if suffix not in PACKINGS), "")


def _columns(frame: pd.DataFrame, path: Path, notation: Notation, remarks: Sequence[str] = (), cut: str = "") -> Columns:
    if frame.empty:
        raise UsageError(f"{path}: has no rows below the names of its columns.")
    frame = frame.rename(columns=lambda name: str(name).strip())
    _check_names(path, frame.columns)
    return Columns(frame, path, notation, remarks, cut)


def _check_names(path: Path, names: Iterable[str]) -> None:
    index = pd.Index(list(names))
    if index.has_duplicates:
        raise UsageError(f"{path}: two columns are called {quoted(index[index.duplicated()][0])}; rename one of them.")


def _check_size(path: Path, rows: int, columns: int, kind: str) -> None:
    if rows > MOST_ROWS or rows * columns > MOST_CELLS[kind]:
        raise UsageError(
            f"{path}: has {rows:,} rows of {columns:,} columns or more, at most {MOST_ROWS:,} rows and "
            f"{MOST_CELLS[kind]:,} cells of {kind} are read; {LARGER}."
        )


def read_rows(
    path: Path, notation: Notation, first: int | None = None, most: int = 0, unnamed: bool = False
) -> tuple[Columns, int]:
    r"""Read text as a table, and count its rows.

    Args:    first: so many rows are kept, None for all; most: bytes of the file, 0 for `MOST_BYTES`; unnamed: whether the
             first row may be of numbers, and then columns are called 1, 2, ...
    Raises:  UsageError, as `read_table`.
    """
    with open_lines(path, most or MOST_BYTES, notation.encoding) as lines:
        head = list(itertools.islice(lines, LOOKED_AT))
        layout = layout_of(path, head, _is_no_name, notation.separator, unnamed)
        names = layout.names
        _check_names(path, filter(None, names))
        columns: list[list[str | None]] = [[] for _ in names]
        pool: dict[str, str | None] = {"": None}
        below = itertools.chain(head[layout.header + 1 :], lines)
        rows, total = rows_of(path, below, layout, layout.header + 1), 0
        for _, row in itertools.islice(rows, first):
            for column, cell in zip(columns, row, strict=True):
                column.append(pool.setdefault(cell, cell))
            if len(columns[0]) % 10_000 == 0:
                _check_size(path, len(columns[0]), len(columns), "text")
                if len(pool) > 1_000_000:
                    pool = {"": None}
        _check_size(path, len(columns[0]), len(columns), "text")
        total = len(columns[0]) + sum(1 for _ in rows)
    while columns and columns[0] and all(column[-1] is None for column in columns):  # Excel leaves rows of separators alone
        for column in columns:
            column.pop()
        total -= 1
    frame = pd.DataFrame({k: pd.Series(column, dtype=object) for k, column in enumerate(columns)})
    dropped = [k for k, name in enumerate(names) if not name and _is_no_column(path, frame[k], k)]
    frame.columns = pd.Index(names)
    frame = frame.iloc[:, [k for k in range(len(names)) if k not in dropped]]
    return _columns(frame, path, notation, layout.remarks, layout.separator), total


def _is_no_name(cell: str) -> bool:
    return is_numeral(cell) and any(map(str.isdigit, cell))


def _is_no_column(path: Path, column: pd.Series, k: int) -> bool:
    """Return whether a column without a name may go: it is empty, or numbers the rows, as pandas saves its index."""
    seen = column.dropna()
    if not len(seen) or (k == 0 and seen.is_unique and len(seen) == len(column) and seen.str.fullmatch(r"\d+").all()):
        return True
    raise UsageError(
        f"{path}: column {k + 1} has no name, and row {int(seen.index[0]) + 1} has {quoted(seen.iloc[0])} in it; name it."
    )


def _arrays(path: Path) -> pd.DataFrame:
    with path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise UsageError(f"{path}: is a single array; save one for each column by numpy.savez.")
    columns = read_arrays(path, MOST_BYTES)
    if wrong := [f"{name} {values.dtype}{values.shape}" for name, values in columns.items() if _no_column(values)]:
        raise UsageError(f"{path}: each array is a column, (rows,), of numbers or words; got {', '.join(wrong)}.")
    counts = {name: len(values) for name, values in columns.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(
            f"{path}: columns have as many rows each; got {', '.join(f'{name} {count:,}' for name, count in counts.items())}."
        )
    _check_size(path, max(counts.values(), default=0), len(counts), "numbers")
    return pd.DataFrame({name: _as_column(values) for name, values in columns.items()})


def _no_column(values: np.ndarray) -> bool:
    return values.ndim != 1 or values.dtype.kind not in "biufUSMm"


def _as_column(values: np.ndarray) -> pd.Series:
    if values.dtype.kind == "b":
        return _text_of(["True" if value else "False" for value in values.tolist()])
    if values.dtype.kind == "S":
        return _text_of([value.decode("utf-8", "replace") for value in values.tolist()])
    return _text_of(values.tolist()) if values.dtype.kind == "U" else pd.Series(values.astype(values.dtype.newbyteorder("=")))


def _text_of(cells: Sequence[Any]) -> pd.Series:
    return pd.Series(list(map(_stripped, cells)), dtype=object)


def _stripped(cell: Any) -> str | None:
    return None if cell is None else str(cell).strip() or None


def _parquet(path: Path) -> pd.DataFrame:
    try:
        import pyarrow as arrow  # noqa: PLC0415 - an extra of the user's
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"{path}: a .parquet file is read by pyarrow: pip install pyarrow.") from error
    try:
        with parquet.ParquetFile(path) as file:
            about, schema = file.metadata, file.schema_arrow
            _check_names(path, schema.names)
            _check_size(path, about.num_rows, about.num_columns, "numbers")
            groups = [about.row_group(k) for k in range(about.num_row_groups)]
            size = sum(group.column(k).total_uncompressed_size for group in groups for k in range(group.num_columns))
            if size > MOST_BYTES:
                raise UsageError(f"{path}: its columns have {size:,} bytes, at most {MOST_BYTES:,} are read; {LARGER}.")
            check_unpacked(path, path.stat().st_size, max(size, about.num_rows * about.num_columns))
        words = [field.name for field in schema if arrow.types.is_string(field.type) or arrow.types.is_large_string(field.type)]
        # Words are kept as numbers of a dictionary: a long one over and over would fill memory.
        table = parquet.read_table(path, read_dictionary=words)
        return pd.DataFrame({name: _of_arrow(path, name, table.column(k), arrow) for k, name in enumerate(table.column_names)})
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, TypeError, NotImplementedError, MemoryError, arrow.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read as a table: {' '.join(str(error).split())}.") from None


def _of_arrow(path: Path, name: str, column: Any, arrow: Any) -> pd.Series:
    """Return a column of a .parquet file: numbers as such, whole ones with gaps and all words as text."""
    kind, types = column.type, arrow.types
    if types.is_dictionary(kind):
        return _text_of(_of_dictionary(column))
    if (types.is_decimal(kind) and kind.scale > 0) or types.is_floating(kind):
        return pd.Series(column.cast(arrow.float64()).to_numpy())
    if (types.is_integer(kind) and not column.null_count) or types.is_duration(kind):
        return pd.Series(column.to_numpy())
    if types.is_timestamp(kind) or types.is_date(kind):
        return pd.Series(column.cast(arrow.timestamp(kind.unit if types.is_timestamp(kind) else "ms")).to_numpy())
    as_text = ("boolean", "null", "string", "large_string", "string_view", "decimal", "integer", "time")
    if any(getattr(types, f"is_{each}", types.is_null)(kind) for each in as_text):  # an early pyarrow knows no string_view
        return _text_of(column.to_pylist())
    raise UsageError(
        f"{path}: {name} holds {kind} in a cell, and a cell has one number or word; unpack it, or leave the column out."
    )


def _of_dictionary(column: Any) -> list[Any]:
    """Return the words of a column, each word once in memory."""
    words: dict[Any, Any] = {}
    found: list[Any] = []
    for chunk in column.chunks:
        cells = [words.setdefault(word, word) for word in map(_stripped, chunk.dictionary.to_pylist())]
        found += [None if k is None else cells[k] for k in chunk.indices.to_pylist()]
    return found
