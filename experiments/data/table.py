r"""Reads a table of anybody's, a row a sample and a column a variable, into columns by name.

.csv .tsv .txt     names in the first row, as `delimited.py` reads it; packed too, as .csv.gz, .xz, .bz2 or .zip
.npz               an array (rows,) for each name
.parquet           where pyarrow is installed

A column is kept as it is written, and read as what it is used for: numbers by `numerals.py`, times by `stamps.py`, and words,
as classes and the names of sequences, to the letter.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from ctrnn import checks
from experiments.data.delimited import LOOKED_AT, layout_of, open_lines, rows_of
from experiments.data.numerals import MARKS, NOTHING, begins_as_number, is_numeral, marks_of, numeral, plain_numbers
from experiments.data.stamps import Stamps, since_1970, stamps_of_text
from experiments.data.untrusted import check_file, check_unpacked, quoted, read_arrays, unreadable
from experiments.usage import UsageError

__all__ = ["NO_CLASS", "Columns", "Notation", "features", "in_order", "read_table", "scales_of", "target_of"]

MISSING = frozenset({"", "?", "nan", "NaN", "NA", "N/A", "n/a", "null", "NULL"})  # among words, too
TRUTHS = {"true": 1.0, "false": 0.0}
TEXTS = (".csv", ".tsv", ".txt")
WITH_POINT = re.compile(r"-?(?:0|[1-9]\d*)\.0*")  # 1.0, as programs write whole numbers of a column with gaps
WHOLE_DIGITS = 2**53  # up to which float64 has all whole numbers
MOST_WORDS = 100  # of a column that is no number
POINT_BETWEEN = (",", " ")  # between cells a program that writes decimal points has put it: else its own numbers were cut
CONSTANT = 16 * np.finfo(np.float64).eps  # of the largest number, which is rounding
NO_CLASS = -1  # where the target is missing
MOST_BYTES = 1 << 30  # of a table
MOST_CELLS = {"text": 1 << 25, "numbers": 1 << 27}
MOST_ROWS = 10_000_000
MOST_IN_A_CELL = 1 << 17  # characters, as csv.field_size_limit has it for text
LARGER = "for more than memory holds there is the task `arrays`, which reads from the disk"


@dataclass(frozen=True)
class Notation:
    r"""Says what a table's cells mean where they leave it open; "" for what they say themselves.

    encoding    of text, by Python's name                 dates     "day-first" or "month-first"
    separator   a word of `delimited.SEPARATORS`          clock     what 12:30 is, "hh:mm" or "mm:ss"
    decimal     "point" or "comma"                        missing   cells where nothing was seen, or COLUMN:CELL
    words       columns of words, whatever they look like
    """

    encoding: str = ""
    separator: Literal["", "comma", "semicolon", "tab", "bar", "space", "none"] = ""
    decimal: Literal["", "point", "comma"] = ""
    dates: Literal["", "day-first", "month-first"] = ""
    clock: Literal["", "hh:mm", "mm:ss"] = ""
    missing: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class Columns:
    r"""Holds the columns of a table as they are written, and reads them.

    Args:    frame: a column of text has None where nothing is, and is of objects; path: for messages; remarks: lines above;
             cut: what stands between cells of text.
    """

    def __init__(self, frame: pd.DataFrame, path: Path, notation: Notation, remarks: Sequence[str] = (), cut: str = "") -> None:
        self.frame, self.path, self.notation, self.remarks, self.cut = frame, path, notation, list(remarks), cut
        self.names = [str(name) for name in frame.columns]
        self._numbers: dict[str, np.ndarray | None] = {}
        self._units: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def __contains__(self, name: object) -> bool:
        return name in self.frame

    def where(self, name: str) -> str:
        return f"{self.path}: {name}"

    def is_dates(self, name: str) -> bool:
        kind = self.frame[name].dtype
        return pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind)

    def is_numbers(self, name: str) -> bool:
        """Return whether a column is of numbers, and not of words. Raises: UsageError for one that is neither."""
        return self._read(name) is not None

    def unit(self, name: str) -> str:
        """Return the unit that all cells of a column of numbers have, a currency or per cent."""
        self._read(name)
        return self._units.get(name, "")

    def numbers(self, name: str) -> np.ndarray:
        """Return a column of numbers, float64, nan where missing. Raises: UsageError for one that is not finite."""
        values = self._read(name)
        assert values is not None
        if np.isinf(values).any():
            row = int(np.isinf(values).argmax())
            raise UsageError(f"{self.where(name)}: row {row + 1} is infinite; leave the cell empty.")
        return values

    def words(self, name: str, *, names: bool = False) -> pd.Series:
        r"""Return the words of a column, None where missing: to the letter, but 1.0 as 1.

        Args:    names: whether they name sequences or parts, of which `missing` says nothing.
        Raises:  UsageError where two words are one number, as 1 and 01.
        """
        column = self.frame[name]
        if not _is_text(column):
            return column.map(_name, na_action="ignore").astype(object).where(column.notna(), None)
        column = column.where(~column.isin(self._absent(name, declared=not names)), None)
        if name in self.notation.words:
            return column
        alike: dict[Hashable, str] = {}
        for word in column.dropna().unique():
            value = _value(word)
            if value is not None and (other := alike.setdefault(value, word)) != word:
                a, b = (int((column == each).to_numpy().argmax()) + 1 for each in (other, word))
                raise UsageError(
                    f"{self.where(name)}: row {a} has {quoted(other)} and row {b} {quoted(word)}, two words for one value; "
                    f"write them alike, or say words={name} if they are not the same."
                )
        if not any(WITH_POINT.fullmatch(word) for word in alike.values()):
            return column
        return column.map(lambda word: word.partition(".")[0] if WITH_POINT.fullmatch(word) else word, na_action="ignore")

    def missing(self, name: str) -> np.ndarray:
        """Return which rows have nothing in a column, as numbers or else as words."""
        values = self._read(name)
        return self.words(name).isna().to_numpy() if values is None else np.isnan(values)

    def stamps(self, name: str) -> Stamps:
        """Return a column of times. Raises: UsageError for what is no time, or missing."""
        column, where = self.frame[name], self.where(name)
        absent = column.isna() if not _is_text(column) else column.map(lambda cell: cell is None or cell in MISSING)
        if absent.any():
            raise UsageError(f"{where}: row {int(absent.to_numpy().argmax()) + 1} has no time; mend it, or drop the row.")
        if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
            since = column - column.min()
            found = Stamps(since.dt.total_seconds().to_numpy(np.float64), "s")
        elif not _is_text(column):
            if pd.api.types.is_integer_dtype(column) and column.between(19000101, 21991231).all():
                return self._as_text(name).stamps(name)  # 20240531
            if pd.api.types.is_float_dtype(column) and not np.isfinite(column.to_numpy(np.float64)).all():
                found = Stamps(np.where(np.isfinite(column.to_numpy(np.float64)), 0.0, np.inf))
            else:
                found = Stamps(
                    (column - column.min()).to_numpy(np.float64), *since_1970(float(column.min()), float(column.max()))
                )
        else:
            cells = list(column.unique())
            plain = not self.notation.decimal and plain_numbers(cells, ()) is not None
            mark = "" if plain else self._mark(name, cells)
            found = stamps_of_text(column, where, mark, self.notation.dates, self.notation.clock)
        if not np.isfinite(found.times).all():
            raise UsageError(
                f"{where}: row {int(np.argmin(np.isfinite(found.times))) + 1} has an infinite time; mend it, or drop the row."
            )
        return found

    def _as_text(self, name: str) -> Columns:
        return Columns(pd.DataFrame({name: self.frame[name].astype(str).astype(object)}), self.path, self.notation, cut=self.cut)

    def _absent(self, name: str, *, declared: bool = True) -> set[str]:
        """Return which cells of a column of text say that nothing is there."""
        said = self._declared(name) if declared else set()
        if not said:
            return set(MISSING)
        values = {value for cell in said if (value := _value(cell)) is not None}
        return {cell for cell in self.frame[name].unique() if cell in MISSING or cell in said or _value(cell) in values}

    def _declared(self, name: str) -> set[str]:
        """Return what the setting `missing` says of a column."""
        pairs = [(cell.rpartition(":"), cell) for cell in self.notation.missing]
        return {value if column == name else cell for (column, _, value), cell in pairs}

    def _read(self, name: str) -> np.ndarray | None:
        if name not in self._numbers:
            self._numbers[name] = None if name in self.notation.words else self._as_numbers(name)
        return self._numbers[name]

    def _as_numbers(self, name: str) -> np.ndarray | None:
        column, where = self.frame[name], self.where(name)
        if self.is_dates(name):
            raise UsageError(f"{where} holds dates; say that it is time, or name what to see by inputs=...")
        if not _is_text(column):
            values = column.to_numpy(np.float64, na_value=np.nan)
            declared = [float(value) for cell in self._declared(name) if isinstance(value := _value(cell), Decimal)]
            return np.where(np.isin(values, declared), np.nan, values)
        gone = self._absent(name)
        if self.notation.decimal != "comma" and (found := plain_numbers(column, gone)) is not None:
            return found
        codes, unique = pd.factorize(column)  # None has the code -1
        cells = [str(cell) for cell in unique]
        return self._parsed(name, codes, cells, set(cells) - gone)

    def _parsed(self, name: str, codes: np.ndarray, cells: list[str], seen: set[str]) -> np.ndarray | None:
        where = self.where(name)
        if seen and {cell.lower() for cell in seen} <= TRUTHS.keys():
            return _taken([TRUTHS[cell.lower()] if cell in seen else np.nan for cell in cells], codes)
        numbers = {cell: is_numeral(cell) for cell in seen}
        nothing = {cell for cell in seen if not numbers[cell] and cell.lower() in NOTHING}
        others = [cell for cell in cells if cell in seen and not numbers[cell] and cell not in nothing]
        if not any(numbers.values()):
            if strange := next((cell for cell in others if begins_as_number(cell)), None):
                row = int((codes == cells.index(strange)).argmax()) + 1
                date = (
                    " If it is a date or a time of day, say time=" + name + "."
                    if ":" in strange or strange.count("-") == 2
                    else ""
                )
                raise UsageError(
                    f"{where}: row {row} has {quoted(strange)}, which begins as a number and is none; write the number alone, "
                    f"say words={name} if it is a kind, or name what to see by inputs=....{date}"
                )
            return None if others else np.full(len(codes), np.nan)
        if others:
            self._refuse_mixed(name, codes, cells, seen, others[0], sum(numbers.values()))
        mark = self._mark(name, [cell for cell in cells if numbers.get(cell)])
        read = {cell: numeral(cell, mark) for cell in cells if numbers.get(cell)}
        if against := next((cell for cell in cells if cell in read and read[cell] is None), None):
            row = int((codes == cells.index(against)).argmax()) + 1
            raise UsageError(
                f"{where}: row {row} has {quoted(against)}, which is no number with a decimal {_word(mark)}, as "
                "the others are read; write all alike."
            )
        units: dict[str, str] = {}
        for cell, number in read.items():
            units.setdefault("" if number is None else number.unit, cell)
        if len(units) > 1:
            raise UsageError(f"{where}: {self._places(name, *units.values())} are in two units; write all cells in one.")
        self._units[name] = next(iter(units))
        texts = ["nan" if (number := read.get(cell)) is None else number.text for cell in cells]
        values = list(map(float, texts))
        for k, value in enumerate(values):
            whole = texts[k].lstrip("-").isdigit()
            if whole and WHOLE_DIGITS <= abs(value) < np.inf and int(texts[k]) != int(value):
                raise UsageError(
                    f"{where}: row {int((codes == k).argmax()) + 1} has {quoted(cells[k])}, more digits than a number keeps; "
                    f"if it is a name, say words={name}, or name what to see by inputs=...."
                )
        return _taken(values, codes)

    def _refuse_mixed(self, name: str, codes: np.ndarray, cells: list[str], seen: set[str], strange: str, count: int) -> None:
        row = int((codes == cells.index(strange)).argmax()) + 1
        share = float(np.isin(codes, [k for k, cell in enumerate(cells) if cell in seen and is_numeral(cell)]).mean())
        if share < 0.5:
            example = next(cell for cell in cells if cell in seen and is_numeral(cell))
            some = f"and row {int((codes == cells.index(example)).argmax()) + 1} has the number {quoted(example)}"
        else:
            some = "and most of this column are numbers"
        second = " Is it a second row of names, as of units? Then drop it." if row == 1 else ""
        raise UsageError(
            f"{self.where(name)}: row {row} has {quoted(strange)}, {some}; mend it, or leave the cell empty; say "
            f"missing={strange[:20]} if nothing was seen there, or words={name} if all of them are words.{second}"
        )

    def _mark(self, name: str, cells: list[str]) -> str:
        """Return the decimal mark of a column, "" where no cell needs one. Raises: UsageError where cells leave it open."""
        if self.notation.decimal:
            return MARKS[self.notation.decimal]
        said, is_open = marks_of(cells)
        if len(said) > 1:
            a, b = (next(cell for cell in cells if (read := numeral(cell, "")) and read.says == sign) for sign in ".,")
            raise UsageError(
                f"{self.where(name)}: {self._places(name, a, b)} have a decimal point and a decimal comma; write all cells alike."
            )
        if said or not is_open:
            return next(iter(said), "")
        if len(self._said_elsewhere) == 1:
            return next(iter(self._said_elsewhere))
        cells = [cell for cell in cells if (read := numeral(cell, "")) and read.open]
        if not self._said_elsewhere and self.cut in POINT_BETWEEN and not any("," in cell for cell in cells):
            return "."
        cell = cells[0]
        row = int((self.frame[name] == cell).to_numpy().argmax()) + 1
        point, comma = (numeral(cell, sign) for sign in ".,")
        assert point is not None
        assert comma is not None
        raise UsageError(
            f"{self.where(name)}: row {row} has {quoted(cell)}, which is {point.text} or {comma.text}, and no other cell of the "
            "table says which; say it by decimal=point or decimal=comma."
        )

    def _places(self, name: str, *cells: str) -> str:
        """Return in words where the first two of these cells are."""
        rows = [int((self.frame[name] == cell).to_numpy().argmax()) + 1 for cell in cells]
        return " and ".join(f"{quoted(cell)} in row {row}" for cell, row in list(zip(cells, rows, strict=True))[:2])

    @functools.cached_property
    def _said_elsewhere(self) -> set[str]:
        """Which decimal marks are said by the columns of text in which all are numbers."""
        found: set[str] = set()
        for name in self.names:
            if _is_text(self.frame[name]):
                cells = [str(cell) for cell in self.frame[name].unique() if cell is not None and str(cell).lower() not in NOTHING]
                if all(map(is_numeral, cells)):
                    found |= marks_of(cells)[0]
        return found


def _taken(values: Sequence[float], codes: np.ndarray) -> np.ndarray:
    return np.array([*values, np.nan])[codes]


def _word(mark: str) -> str:
    return next((word for word, sign in MARKS.items() if sign == mark), "mark")


def _is_text(column: pd.Series) -> bool:
    return bool(column.dtype == object)


def _value(word: object) -> Hashable:
    """Return the number that a word is, written plainly and to the last digit, or the truth value; None for another word."""
    text = str(word).lower().replace("\u2212", "-")
    if text in TRUTHS:
        return text
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and "_" not in text else None


def read_table(path: Path, notation: Notation | None = None) -> Columns:
    r"""Read a table.

    Raises:  UsageError for what is no table, and for more than `MOST_BYTES`, `MOST_ROWS` or `MOST_CELLS`.
    """
    check_file(path)
    notation = notation or Notation()
    kind = next((suffix for suffix in reversed([each.lower() for each in path.suffixes]) if suffix not in PACKING), "")
    remarks: list[str] = []
    cut = ""
    if kind == ".parquet":
        frame = _parquet(path)
    elif kind == ".npz":
        frame = _arrays(path)
    elif kind in TEXTS:
        frame, remarks, cut = _text(path, notation)
    else:
        raise UsageError(f"{path}: a table is a .csv, .tsv, .npz or .parquet file.")
    if frame.empty:
        raise UsageError(f"{path}: has no rows below the names of its columns.")
    for name in [name for name in frame.columns if kind not in TEXTS and _is_text(frame[name])]:
        if max(map(len, filter(None, frame[name])), default=0) > MOST_IN_A_CELL:
            raise UsageError(
                f"{path}: {name} has a cell of more than {MOST_IN_A_CELL:,} characters; a cell has one number or word."
            )
    frame = frame.rename(columns=lambda name: str(name).strip())
    if twice := [name for name in frame.columns if list(frame.columns).count(name) > 1] if frame.columns.has_duplicates else []:
        raise UsageError(f"{path}: two columns are called {quoted(twice[0])}; rename one of them.")
    return Columns(frame, path, notation, remarks, cut)


PACKING = (".gz", ".xz", ".bz2", ".zip")


def _check_size(path: Path, rows: int, columns: int, kind: str) -> None:
    if rows > MOST_ROWS or rows * columns > MOST_CELLS[kind]:
        raise UsageError(
            f"{path}: has {rows:,} rows of {columns:,} columns or more, at most {MOST_ROWS:,} rows and "
            f"{MOST_CELLS[kind]:,} cells of {kind} are read; {LARGER}."
        )


def _text(path: Path, notation: Notation) -> tuple[pd.DataFrame, list[str], str]:
    with open_lines(path, MOST_BYTES, notation.encoding) as lines:
        head = list(itertools.islice(lines, LOOKED_AT))
        layout = layout_of(path, head, _is_no_name, notation.separator)
        names = layout.names
        if twice := sorted({name for name in names if name and names.count(name) > 1} if len(set(names)) < len(names) else ()):
            raise UsageError(f"{path}: two columns are called {quoted(twice[0])}; rename one of them.")
        columns: list[list[str | None]] = [[] for _ in names]
        pool: dict[str, str | None] = {"": None}
        below = itertools.chain(head[layout.header + 1 :], lines)
        for _, row in rows_of(path, below, layout, layout.header + 1):
            for column, cell in zip(columns, row, strict=True):
                column.append(pool.setdefault(cell, cell))
            if len(columns[0]) % 10_000 == 0:
                _check_size(path, len(columns[0]), len(columns), "text")
                if len(pool) > 1_000_000:
                    pool = {"": None}
        _check_size(path, len(columns[0]), len(columns), "text")
    while columns and columns[0] and all(column[-1] is None for column in columns):  # of separators alone, as Excel leaves them
        for column in columns:
            column.pop()
    frame = pd.DataFrame({k: pd.Series(column, dtype=object) for k, column in enumerate(columns)})
    dropped = [k for k, name in enumerate(names) if not name and _is_no_column(path, frame[k], k)]
    frame.columns = pd.Index(names)
    return frame.iloc[:, [k for k in range(len(names)) if k not in dropped]], layout.remarks, layout.separator


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


def in_order(
    table: Columns, sequence: str, time: str, unit: float, gap: float = 0.0
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, str]:
    r"""Return the rows of each sequence in the order of time, all rows' stamps in the model's unit, before which of the rows in
    that order a piece begins, and words about them.
    """
    keys, path = np.zeros(len(table), int), table.path
    if sequence:
        keys = pd.factorize(table.words(sequence, names=True))[0]
        if (keys < 0).any():
            raise UsageError(f"{path}: row {int(np.argmin(keys)) + 1} names no {sequence}, the column of sequences.")
    if not time:
        order = np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(keys[order])) + 1
        rows = np.split(order, bounds)
        return rows, np.arange(len(table), dtype=float), np.zeros(len(table), bool), "times: none, rows are 1 apart"
    stamps = table.stamps(time)
    times, called = stamps.times, stamps.unit
    order = np.lexsort((times, keys))
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    rows = np.split(order, bounds)
    _say_if_rounded(table, keys, time)
    if stamps.clock:
        _check_clock(table, keys, times, time)
    gaps = np.concatenate([np.diff(times[k]) for k in rows])
    if not len(gaps):
        raise UsageError(f"{path}: every sequence has one row; which rows belong together is said by sequence=COLUMN.")
    if (gaps == 0).any():
        _refuse_one_time(table, rows, times, sequence, time)
    median = float(np.median(gaps))
    one = unit or median
    regular = "" if np.allclose(gaps, median, rtol=1e-3, atol=0) else f" in the median, from {gaps.min():.4g} to {gaps.max():.4g}"
    unordered = "" if all((np.diff(k) > 0).all() for k in rows) else "; rows were put in the order of time"
    begins = np.zeros(len(table), bool)
    for k in rows if gap else ():
        begins[k[1:]] = np.diff(times[k]) > gap
    cut = f"; {int(begins.sum())} gap(s) of more than {gap:.4g}{called and ' ' + called} begin a new piece" if gap else ""
    read = f", read as {stamps.words}" if stamps.words else ""
    apart = f"{median:.4g}{called and ' ' + called} apart{regular}"
    said = f"times: {time}{read}, {apart}; {one:.4g} of it is 1 for the model{cut}{unordered}"
    return rows, times / one, begins, said


def _say_if_rounded(table: Columns, keys: np.ndarray, time: str) -> None:
    """Warn of times that the dtype which a file keeps them in has rounded."""
    column = table.frame[time]
    if pd.api.types.is_float_dtype(column):
        given = column.to_numpy(getattr(column.dtype, "numpy_dtype", column.dtype))
        latest = keys[np.abs(given).argmax()]  # where the numbers of a dtype are furthest apart
        stamps = torch.from_numpy(np.sort(given[keys == latest]))
        checks.say_if_rounded(f"{table.path}: {time}", stamps.double(), stamps.dtype)


def _check_clock(table: Columns, keys: np.ndarray, times: np.ndarray, time: str) -> None:
    """Refuse times of day that go back: past midnight, or in another order."""
    for key in range(int(keys.max()) + 1):
        here = np.flatnonzero(keys == key)
        if (back := np.diff(times[here]) < 0).any():
            a, b = here[back.argmax()], here[back.argmax() + 1]
            cells = [quoted(str(table.frame[time].iloc[row])) for row in (a, b)]
            raise UsageError(
                f"{table.where(time)}: goes back from {cells[0]} in row {a + 1} to {cells[1]} in row {b + 1}; past midnight, or "
                "in another order? Write the date before it, or put the rows in order."
            )


def _refuse_one_time(table: Columns, rows: list[np.ndarray], times: np.ndarray, sequence: str, time: str) -> None:
    k, place = next((k, p) for k in rows for p in np.flatnonzero(np.diff(times[k]) == 0))
    a, b = (int(row) for row in k[place : place + 2])
    of_one = f" in one {sequence}" if sequence else ""
    same = f"{table.path}: rows {a + 1} and {b + 1} have one {time}, {table.frame[time].iloc[a]}{of_one}"
    for name in (name for name in table.names if name not in (sequence, time) and _is_text(table.frame[name])):
        column = table.frame[name]
        one, other = (str(column.iloc[row]) for row in (a, b))
        if one != other and not any(is_numeral(str(cell)) for cell in column.dropna().unique()):
            index = ", ".join(map(repr, filter(None, (sequence, time))))
            turn = f"frame.pivot_table(index=[{index}], columns={name!r}, values=...).reset_index()"
            raise UsageError(
                f"{same}, and {name} {quoted(one)} and {quoted(other)}; is a row a measurement? Then turn the table by pandas, "
                f"{turn}, as docs/tasks.md shows; if not, keep one of them, or say by sequence=COLUMN what they are of."
            )
    raise UsageError(f"{same}; keep one, or say by sequence=COLUMN what they are of.")


def features(table: Columns, inputs: Sequence[str], train: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return what a model sees (rows, features), nan where missing, and words about it."""
    columns, words, missing = [], [], []
    for name in inputs:
        if table.is_numbers(name):
            values, unit = table.numbers(name), table.unit(name)
            columns.append((values - _mean(values[train])) / _deviation(values[train]))
            words.append(f"{name} ({unit})" if unit else name)
        else:
            column = table.words(name)
            known = sorted(map(str, column.iloc[train].dropna().unique()))
            if not known:
                raise UsageError(f"{table.path}: {name} has no value in the rows of train; leave it out by inputs=...")
            if len(known) > MOST_WORDS:
                raise UsageError(
                    f"{table.path}: {name} has {len(known)} different words, such as {quoted(known[0])}, and at most "
                    f"{MOST_WORDS} are read as kinds; name what to see by inputs=..., or say that it is sequence, time or target."
                )
            places = pd.Index(known, dtype=object).get_indexer(pd.Index(column, dtype=object))
            columns += [np.where(places < 0, np.nan, places == kind) for kind in range(len(known))]
            words.append(f"{name} (one of {len(known)})")
        if absent := float(np.isnan(columns[-1]).mean()):
            missing.append(f"{name} {100 * absent:.3g} %")
    said = [f"inputs: {', '.join(words)}"]
    if missing:
        said.append(f"missing: {', '.join(missing)}; there a model sees 0, and beside every value whether it was seen")
    return np.stack(columns, 1).astype(np.float64), said


def target_of(table: Columns, targets: tuple[str, ...], predict: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the classes, if it is one, and what each row has of the targets: (rows,), or (rows, numbers)."""
    if predict == "class":
        words = table.words(targets[0])
        classes = tuple(sorted(words.dropna().unique()))
        if len(classes) < 2:
            raise UsageError(f"{table.path}: {targets[0]} is {quoted(classes[0]) if classes else 'missing'} in every row.")
        return classes, pd.Index(classes, dtype=object).get_indexer(pd.Index(words, dtype=object)).astype(np.int64)
    values = np.stack([table.numbers(name) for name in targets], 1)
    if predict == "count" and (wrong := [name for name, column in zip(targets, values.T, strict=True) if _no_counts(column)]):
        raise UsageError(f"{table.path}: {wrong[0]} is no count: it has numbers below 0, or no whole ones, or none above 0.")
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


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def _deviation(values: np.ndarray) -> float:
    if not np.isfinite(values).any():
        return 1.0
    found, largest = float(np.nanstd(values)), float(np.nanmax(np.abs(values)))
    return found if found > CONSTANT * largest else 1.0
