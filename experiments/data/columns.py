r"""Reads the columns of a table, kept as they are written, as what they are used for.

numbers    by `numerals.py`, in whatever marks people and programs write them
times      by `stamps.py`
words      as classes and the names of sequences, to the letter
"""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from experiments.data.numerals import MARKS, NOTHING, begins_as_number, is_numeral, marks_of, numeral, plain_numbers
from experiments.data.stamps import Stamps, since_1970, stamps_of_text
from experiments.data.untrusted import quoted
from experiments.usage import UsageError

__all__ = ["Columns", "Notation"]

MISSING = frozenset({"", "?", "nan", "NaN", "NA", "N/A", "n/a", "null", "NULL"})  # among words, too
TRUTHS = {"true": 1.0, "false": 0.0}
WITH_POINT = re.compile(r"-?(?:0|[1-9]\d*)\.0*")  # 1.0, as programs write whole numbers of a column with gaps
WHOLE_DIGITS = 2**53  # up to which float64 has all whole numbers
POINT_BETWEEN = (",", " ")  # between cells a program that writes decimal points has put it: else its own numbers were cut


@dataclass(frozen=True)
class Notation:
    r"""Says what a table's cells mean where they leave it open; "" for what they say themselves.

    encoding    of text, by Python's name                 dates     "day-first" or "month-first"
    separator   a word of `delimited.SEPARATORS`          clock     what 12:30 is, "hh:mm" or "mm:ss"
    decimal     "point" or "comma"                        missing   cells where nothing was seen, or COLUMN:CELL
    words       columns of words, whatever they look like
    """

    missing: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    decimal: Literal["", "point", "comma"] = ""
    dates: Literal["", "day-first", "month-first"] = ""
    clock: Literal["", "hh:mm", "mm:ss"] = ""
    separator: Literal["", "comma", "semicolon", "tab", "bar", "space", "none"] = ""
    encoding: str = ""


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

    def is_text(self, name: str) -> bool:
        return bool(self.frame[name].dtype == object)

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
            raise UsageError(f"{self.where(name)}: row {row + 1} is infinite; mend it, or leave the cell empty.")
        return values

    def words(self, name: str, *, names: bool = False) -> pd.Series:
        r"""Return the words of a column, None where missing: to the letter, but 1.0 as 1.

        Args:    names: whether they name sequences or parts, of which `missing` says nothing.
        Raises:  UsageError where two words are one number, as 1 and 01.
        """
        column = self.frame[name]
        if not self.is_text(name):
            return column.map(_name, na_action="ignore").astype(object).where(column.notna(), None)
        column = column.where(~column.isin(self._absent(name, declared=not names)), None)
        if name in self.notation.words:
            return column
        alike: dict[Hashable, str] = {}
        for word in column.dropna().unique():
            value = _value(word)
            if value is not None and (other := alike.setdefault(value, word)) != word:
                raise UsageError(
                    f"{self._at(name, other)} and row {self._row(name, word)} {quoted(word)}, two words for one value; write "
                    f"them alike, or say words={name} if they are not the same."
                )
        if not any(WITH_POINT.fullmatch(word) for word in alike.values()):
            return column
        return column.map(lambda word: word.partition(".")[0] if WITH_POINT.fullmatch(word) else word, na_action="ignore")

    def missing(self, name: str) -> np.ndarray:
        """Return which rows have nothing in a column, as numbers or else as words."""
        values = self._read(name)
        return self.words(name).isna().to_numpy() if values is None else np.isnan(values)

    def declared(self, name: str) -> np.ndarray:
        """Return which rows have a cell of which the setting `missing` says that nothing is there."""
        column = self.frame[name]
        if self.is_text(name):
            missing: np.ndarray = column.isin(self._absent(name) - set(MISSING) | self._declared(name)).to_numpy()
            return missing
        return np.isin(column.to_numpy(np.float64, na_value=np.nan), self._declared_numbers(name))

    def stamps(self, name: str) -> Stamps:
        """Return a column of times. Raises: UsageError for what is no time, or missing."""
        column, where = self.frame[name], self.where(name)
        absent = column.isna() if not self.is_text(name) else column.map(lambda cell: cell is None or cell in MISSING)
        if absent.any():
            raise UsageError(f"{where}: row {int(absent.to_numpy().argmax()) + 1} has no time; mend it, or drop the row.")
        if self.is_dates(name):
            since = column - column.min()
            stamps = Stamps(since.dt.total_seconds().to_numpy(np.float64), "s")
        elif not self.is_text(name):
            if pd.api.types.is_integer_dtype(column) and column.between(19000101, 21991231).all():
                return self._as_text(name).stamps(name)  # 20240531
            if pd.api.types.is_float_dtype(column) and not np.isfinite(column.to_numpy(np.float64)).all():
                stamps = Stamps(np.where(np.isfinite(column.to_numpy(np.float64)), 0.0, np.inf))
            else:
                column = column.astype(_widest(column))
                stamps = Stamps(
                    (column - column.min()).to_numpy(np.float64), *since_1970(float(column.min()), float(column.max()))
                )
        else:
            cells = list(column.unique())
            plain = not self.notation.decimal and plain_numbers(cells, ()) is not None
            mark = "" if plain else self._mark(name, cells)
            stamps = stamps_of_text(column, where, mark, self.notation.dates, self.notation.clock)
        if not np.isfinite(stamps.times).all():
            raise UsageError(
                f"{where}: row {int(np.argmin(np.isfinite(stamps.times))) + 1} has an infinite time; mend it, or drop the row."
            )
        return stamps

    def _as_text(self, name: str) -> Columns:
        return Columns(pd.DataFrame({name: self.frame[name].astype(str).astype(object)}), self.path, self.notation, cut=self.cut)

    def _absent(self, name: str, *, declared: bool = True) -> set[str]:
        """Return which cells of a column of text say that nothing is there."""
        said = self._declared(name) if declared else set()
        if not said:
            return set(MISSING)
        values = {value for cell in said if (value := _value(cell)) is not None}
        return {cell for cell in self.frame[name].unique() if cell in MISSING or cell in said or _value(cell) in values}

    def _declared_numbers(self, name: str) -> list[float]:
        return [float(value) for cell in self._declared(name) if isinstance(value := _value(cell), Decimal)]

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
        if not self.is_text(name):
            values = column.to_numpy(np.float64, na_value=np.nan)
            return np.where(np.isin(values, self._declared_numbers(name)), np.nan, values)
        gone = self._absent(name)
        if self.notation.decimal != "comma" and (found := plain_numbers(column, gone)) is not None:
            return found
        codes, unique = pd.factorize(column)  # None has the code -1
        cells = [str(cell) for cell in unique]
        return self._parsed(name, codes, cells, set(cells) - gone)

    def _parsed(self, name: str, codes: np.ndarray, cells: list[str], seen: set[str]) -> np.ndarray | None:
        """Return the numbers of a column, None for words.

        Args:    codes: which of the different cells each row has; seen: those that say something.
        """
        if seen and {cell.lower() for cell in seen} <= TRUTHS.keys():
            return _taken([TRUTHS[cell.lower()] if cell in seen else np.nan for cell in cells], codes)
        numerals = [cell for cell in cells if cell in seen and is_numeral(cell)]
        rest = seen.difference(numerals)
        others = [cell for cell in cells if cell in rest and cell.lower() not in NOTHING]
        if not numerals:
            if strange := next(filter(begins_as_number, others), None):
                is_time = ":" in strange or strange.count("-") == 2
                raise UsageError(
                    f"{self._at(name, strange)}, which begins as a number and is none; write the number alone, say words={name} "
                    "if it is a kind, or name what to see by inputs=...."
                    + f" If it is a date or a time of day, say time={name}."
                    * is_time
                )
            return None if others else np.full(len(codes), np.nan)
        if others:
            self._refuse_mixed(name, numerals, others[0])
        mark = self._mark(name, numerals)
        read = {cell: numeral(cell, mark) for cell in numerals}
        if against := next((cell for cell in numerals if read[cell] is None), None):
            raise UsageError(
                f"{self._at(name, against)}, which is no number with a decimal {_word(mark)}, as the others are read; write all "
                "alike."
            )
        units: dict[str, str] = {}
        for cell, number in read.items():
            units.setdefault("" if number is None else number.unit, cell)
        if len(units) > 1:
            raise UsageError(
                f"{self.where(name)}: {self._places(name, *units.values())} are in two units; write all cells in one."
            )
        self._units[name] = next(iter(units))
        texts = ["nan" if (number := read.get(cell)) is None else number.text for cell in cells]
        values = list(map(float, texts))
        for cell, text, value in zip(cells, texts, values, strict=True):
            whole = text.lstrip("-").isdigit()
            if whole and WHOLE_DIGITS <= abs(value) < np.inf and int(text) != int(value):
                raise UsageError(
                    f"{self._at(name, cell)}, more digits than a number keeps; if it is a name, say words={name}, or name "
                    "what to see by inputs=...."
                )
        return _taken(values, codes)

    def _refuse_mixed(self, name: str, numerals: list[str], strange: str) -> None:
        some = "and most of this column are numbers"
        if self.frame[name].isin(numerals).mean() < 0.5:
            some = f"and row {self._row(name, numerals[0])} has the number {quoted(numerals[0])}"
        second = " Is it a second row of names, as of units? Then drop it." if self._row(name, strange) == 1 else ""
        raise UsageError(
            f"{self._at(name, strange)}, {some}; mend it, or leave the cell empty; say missing={strange[:20]} if nothing was "
            f"seen there, or words={name} if all of them are words.{second}"
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
        point, comma = (numeral(cells[0], sign) for sign in ".,")
        assert point is not None
        assert comma is not None
        raise UsageError(
            f"{self._at(name, cells[0])}, which is {point.text} or {comma.text}, and no other cell of the table says which; say "
            "it by decimal=point or decimal=comma."
        )

    def _places(self, name: str, *cells: str) -> str:
        """Return in words where the first two of these cells are."""
        return " and ".join(f"{quoted(cell)} in row {self._row(name, cell)}" for cell in cells[:2])

    def _at(self, name: str, cell: str) -> str:
        return f"{self.where(name)}: row {self._row(name, cell)} has {quoted(cell)}"

    def _row(self, name: str, cell: str) -> int:
        """Return the first row that has a cell, counted from 1."""
        return int((self.frame[name] == cell).to_numpy().argmax()) + 1

    @functools.cached_property
    def _said_elsewhere(self) -> set[str]:
        """Which decimal marks are said by the columns of text in which all are numbers."""
        names: set[str] = set()
        for name in self.names:
            if self.is_text(name):
                cells = [str(cell) for cell in self.frame[name].unique() if cell is not None and str(cell).lower() not in NOTHING]
                if all(map(is_numeral, cells)):
                    names |= marks_of(cells)[0]
        return names


def _widest(column: pd.Series) -> type[np.generic]:
    """Return the dtype in which differences of a column's numbers are exact: those of int8 and int16 soon overflow."""
    if pd.api.types.is_integer_dtype(column):
        return np.uint64 if pd.api.types.is_unsigned_integer_dtype(column) else np.int64
    return np.float64


def _taken(values: Sequence[float], codes: np.ndarray) -> np.ndarray:
    return np.array([*values, np.nan])[codes]


def _word(mark: str) -> str:
    return next((word for word, sign in MARKS.items() if sign == mark), "mark")


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


def _name(value: object) -> str:
    """Write a class: 1.0, as a column of whole numbers with gaps is read, as 1."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
