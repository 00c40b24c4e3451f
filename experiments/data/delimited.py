r"""Reads text as rows of cells: its encoding, what stands between cells, remarks on top, the names of the columns.

    sep=;                       a first line of this form, as Excel reads it, says what stands between cells
    # of station 4              lines with #, % or // in front, and lines of fewer cells, above the names are remarks
    time;level                  the names
    2024-05-31;1,5              rows, each with a cell for each name

What stands between is what cuts the names and the rows below them into as many cells each: commas, semicolons, tabs, bars, or
else spaces. Where two signs do, or a row has other cells than there are names, the file is refused.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from experiments.data.numerals import begins_as_number
from experiments.data.untrusted import open_bounded, quoted
from experiments.usage import UsageError

if TYPE_CHECKING:
    import _csv  # only this module has the type of csv.reader

__all__ = ["LOOKED_AT", "SEPARATORS", "FileLayout", "layout_of", "open_lines", "rows_of"]

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " ", "none": "\x1f"}
MARKS = (  # of an encoding, at the beginning of a file; the longer ones first
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
OTHERS = (  # first bytes of files that are no text
    (b"PK\x03\x04", "a zip archive or a workbook"), (b"\xd0\xcf\x11\xe0", "a workbook of Excel"), (b"\x1f\x8b", "packed by gzip"),
    (b"\xfd7zXZ", "packed by xz"), (b"BZh", "packed by bzip2"), (b"\x28\xb5\x2f\xfd", "packed by Zstandard"),
    (b"PAR1", "a .parquet file"), (b"\x89HDF", "an HDF5 file"), (b"\x93NUMPY", "a .npy file"),
)  # fmt: skip
LOOKED_AT = 200  # lines, by which the separator is found
MOST_REMARKS = 50  # lines above the names
MOST_IN_A_LINE = 16 << 20  # characters of a line, and of a row that has line ends in its cells
MOST_COLUMNS = 100_000
REMARK = re.compile(r"\s*(#|%|//)")
SAID = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


class FileLayout(NamedTuple):
    """Holds what stands between cells, which line has the names, counted from 0, the names, and remarks above them."""

    separator: str
    header: int
    names: list[str]
    remarks: list[str]


@contextmanager
def open_lines(path: Path, most: int, encoding: str = "", most_in_a_line: int = MOST_IN_A_LINE) -> Iterator[Iterator[str]]:
    r"""Open a file of text as its lines; the encoding is UTF-8 or as its first bytes say, if it is not given.

    Raises:  UsageError, also as lines are read, for what is no text in that encoding, for a line without an end, and as
             `open_bounded`.
    """
    if encoding:
        try:
            io.TextIOWrapper(io.BytesIO(), encoding)
        except LookupError:
            raise UsageError(f"encoding is the name of an encoding, as cp1252 or utf-16, got {quoted(encoding)}.") from None
    with open_bounded(path, most) as file:
        first = file.peek(1024)[:1024]  # type: ignore[attr-defined]
        if kind := next((what for mark, what in OTHERS if first.startswith(mark)), ""):
            raise UsageError(f"{path}: is not text, but {kind}; give it the ending of that, or save a .csv file in UTF-8.")
        text = io.TextIOWrapper(file, encoding or _encoding(first), newline="")
        try:
            yield _short(path, text, most_in_a_line)
        except UnicodeError as error:
            byte = f", has the byte 0x{error.object[error.start]:02x}" if isinstance(error, UnicodeDecodeError) else ""
            raise UsageError(
                f"{path}: is not text in {text.encoding.upper().removesuffix('-SIG')}{byte}; save it in UTF-8, or say, of a "
                "table, by encoding=... what it is in: cp1252 (Windows, western Europe), latin-1, cp1250, cp1251, shift-jis."
            ) from None


def _encoding(first: bytes) -> str:
    """Return the encoding that a file's first bytes say."""
    if marked := next((name for mark, name in MARKS if first.startswith(mark)), ""):
        return marked
    # Every second byte is 0 where Latin letters and digits are in UTF-16; text in UTF-8 has none.
    half = len(first) // 2
    if half and first[1::2].count(0) > 0.8 * half:
        return "utf-16-le"
    return "utf-16-be" if half and first[::2].count(0) > 0.8 * half else "utf-8"


def _short(path: Path, text: io.TextIOWrapper, most: int) -> Iterator[str]:
    for line in iter(lambda: text.readline(most + 1), ""):
        if len(line) > most:
            raise UsageError(
                f"{path}: a line has more than {most:,} characters; a recording has one line a sample, a table one a row."
            )
        yield line


def layout_of(
    path: Path, head: Sequence[str], is_number: Callable[[str], bool], separator: str = "", unnamed: bool = False
) -> FileLayout:
    r"""Find what stands between cells, and the names.

    Args:    head: the first lines; is_number: whether a cell has a number; separator: a word of `SEPARATORS`, "" to find it;
             unnamed: whether the first row may be of numbers: then columns are called 1, 2, ...
    Raises:  UsageError where there are no names, or where two signs may stand between.
    """
    if not any(line.strip() for line in head):
        raise UsageError(f"{path}: is empty.")
    said = SAID.fullmatch(head[0])
    skipped = 1 if said else 0
    start = next((k for k in range(skipped, len(head)) if head[k].strip() and not REMARK.match(head[k])), len(head))
    remarks = [line.strip() for line in head[skipped:start] if line.strip()]
    signs, last = "\t,;|" if ".tsv" in path.name.lower() else ",;\t|", " "
    if separator or said:
        signs = last = SEPARATORS[separator] if separator else said[1] if said else ""
    fits = [layout for sign in signs if (layout := _fit(head, start, sign, is_number)) is not None]
    above = remarks[-1] if remarks and REMARK.match(remarks[-1]) else ""  # names, where numpy.savetxt has written them

    def with_names() -> list[FileLayout]:
        within = [layout for layout in fits if not any(map(begins_as_number, layout.names))]
        return within or [layout for each in fits if (layout := _named_by(above, each, is_number)) is not None]

    named = with_names()
    if unnamed and not named:  # 1,5;2,5 is cut into numbers by one sign alone
        fits = [each for each in fits if all(map(is_number, _head_rows(head, start, each.separator)[0][1]))]
    if not named and not (unnamed and fits) and (layout := _fit(head, start, last, is_number)) is not None and layout not in fits:
        fits.append(layout)
        named = with_names()
    fits = named or fits
    if len(fits) > 1:
        between = " or by ".join(next(word for word, sign in SEPARATORS.items() if sign == one.separator) for one in fits)
        raise UsageError(f"{path}: rows may be cut by {between}; say which by separator=....")
    layout = fits[0] if fits else max((_first(head, start, sign) for sign in signs), key=lambda each: len(each.names))
    lines = [line.split() for line in head[start:] if line.strip()]
    if len(layout.names) < 2 and last == " " and lines[1:] and all(len(words) > 1 for words in lines):
        layout = _first(head, start, last)  # rows of spaces that do not fit the names, and no single column
    layout = layout._replace(remarks=[*(remarks[:-1] if layout.header < start else remarks), *layout.remarks])
    numbers = [name for name in layout.names if is_number(name)]
    if numbers and unnamed:
        return layout._replace(header=layout.header - 1, names=[str(k + 1) for k in range(len(layout.names))])
    if numbers and not fits and any(len(row) != len(layout.names) for _, row in _head_rows(head, start, layout.separator)):
        raise UsageError(
            f"{path}: nothing cuts all rows into as many cells as there are names, and {quoted(head[start].strip())} is "
            "taken for them; put # before remarks, quotes around cells with spaces, NA into empty ones, or say separator=...."
        )
    if numbers:
        spaces = ", with spaces between them" if layout.separator == " " else ""
        raise UsageError(
            f"{path}: the first row names the columns, and {quoted(numbers[0])} is a number; add a row of names{spaces}."
        )
    if not layout.names:
        raise UsageError(f"{path}: has no names of columns, and no rows below them.")
    if len(layout.names) > MOST_COLUMNS:
        raise UsageError(f"{path}: has {len(layout.names):,} columns, at most {MOST_COLUMNS:,} are read.")
    return layout


def _named_by(remark: str, layout: FileLayout, is_number: Callable[[str], bool]) -> FileLayout | None:
    """Return the layout whose names are in a remark above the first row; None where it has not as many, or numbers."""
    names = _first([REMARK.sub("", remark)], 0, layout.separator).names
    fits = len(names) == len(layout.names) and not any(map(is_number, names))
    return layout._replace(names=names, header=layout.header - 1) if fits else None


def _first(head: Sequence[str], start: int, sign: str) -> FileLayout:
    """Return the layout of one column, or of rows that do not fit the names, which is told as they are read."""
    line, row = next(iter(_head_rows(head[: start + 1], start, sign)), (start, []))
    return FileLayout(sign, line, _names(row), [])


def _fit(head: Sequence[str], start: int, sign: str, is_number: Callable[[str], bool]) -> FileLayout | None:
    """Return the layout by which all rows have as many cells as there are names, at least two; None where they have not."""
    rows = _head_rows(head, start, sign)
    if not rows:
        return None
    widths = Counter(_width(row) for _, row in rows[1:] or rows)
    width = max(widths, key=lambda each: (widths[each], each))
    wide = [k for k, (_, row) in enumerate(rows) if _width(row) >= width and not any(map(is_number, row))]
    above = next((k for k in wide if k == 0 or not any(map(begins_as_number, rows[k][1]))), 0)
    if any(_width(row) >= width for _, row in rows[:above]):  # rows as wide as the table stand above: there is no line of names
        above = 0
    names = _names(rows[above][1])
    if above > MOST_REMARKS or len(names) < 2 or not all(_is_row(row, len(names)) for _, row in rows[above + 1 :]):
        return None
    return FileLayout(sign, rows[above][0], names, [" ".join(filter(None, row)) for _, row in rows[:above]])


def _head_rows(head: Sequence[str], start: int, sign: str) -> list[tuple[int, list[str]]]:
    """Return the number of the last line, and the cells, of each row; none where they cannot be cut."""
    reader, rows = _cut(head[start:], sign), []
    try:
        for row in reader:
            if any(cells := list(map(str.strip, row))):
                rows.append((start + reader.line_num - 1, cells))
    except csv.Error:
        return rows if len(head) >= LOOKED_AT else []  # a quoted cell may go on below
    return rows


def _cut(lines: Iterable[str], sign: str) -> _csv.Reader:
    """Cut lines into cells. Raises: csv.Error for quotes that do not end."""
    if sign == " ":
        lines = (line.replace("\t", " ").strip() + "\n" for line in lines)
    return csv.reader(lines, delimiter=sign, skipinitialspace=True, strict=True)


def _width(row: Sequence[str]) -> int:
    """Return the cells of a row without empty ones at its end."""
    return next((len(row) - k for k, cell in enumerate(reversed(row)) if cell), 0)


def _names(row: Sequence[str]) -> list[str]:
    return list(row[: _width(row)])


def _is_row(row: Sequence[str], count: int) -> bool:
    return len(row) >= count and not any(row[count:])


def rows_of(path: Path, lines: Iterator[str], layout: FileLayout, before: int = 0) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the number of the line and the cells of each row, stripped, as many as there are names.

    Args:    lines: those below the names; before: so many lines stand above them.
    Raises:  UsageError for a row of other cells.
    """
    names, count, longest = layout.names, len(layout.names), 0

    def counted() -> Iterator[str]:
        nonlocal longest
        for line in lines:
            longest += len(line)
            if longest > MOST_IN_A_LINE:  # a quoted cell without an end, or a row over all lines
                raise UsageError(f"{path}: a row has more than {MOST_IN_A_LINE:,} characters; is a quote missing?")
            yield line

    reader = _cut(counted(), layout.separator)
    number, blank = 0, 0
    try:
        for cells in reader:
            longest, row = 0, list(map(str.strip, cells))
            line = before + reader.line_num
            if len(row) < 2 and not any(row):  # a blank line
                blank = blank or line
                continue
            number += 1
            if blank and count == 1 and number > 1:
                raise UsageError(
                    f"{path}: line {blank} is blank, a row without its value or none at all; write NA, or drop the line."
                )
            blank = 0
            if len(row) != count and not _is_row(row, count):
                raise UsageError(f"{path}: {_other_cells(row, number, line, names, layout.separator)}")
            yield line, row[:count]
    except csv.Error as error:
        raise UsageError(
            f"{path}: line {before + reader.line_num} cannot be cut into cells ({error}); mend its quotes."
        ) from None


def _other_cells(row: Sequence[str], number: int, line: int, names: Sequence[str], sign: str) -> str:
    cells = ", ".join([*map(quoted, row[:4]), *["…"] * (len(row) > 4)])
    count = f"{len(row)} cell{'s' * (len(row) != 1)}"
    have = f"row {number}, line {line} of the file, has {count}, {cells}, and the first row names {len(names)}"
    if len(row) < len(names):
        return f"{have}: is it cut off, or a remark? Mend it, or drop the line."
    words = f"{have}: rows have more cells than the {len(names)} names"
    if sign == "," and all(re.fullmatch(r"[-+]?\d*", cell) for cell in row):
        alone = ", or say separator=none, as there is one column" if len(names) == 1 else ""
        return f"{words}; are they numbers with decimal commas? Put these in quotes, or semicolons between cells{alone}."
    return f"{words}; name each column, or say by separator=... what stands between: comma, semicolon, tab, bar, space, none."
