r"""Reads numbers as people and programs write them, where they have one meaning.

    1234.5   1,234.5   1.234,5   1 234,5   1'234.5   1,5e3   −1   12 %   € 5    numbers, by what other cells say is the mark
    1.000                          a thousand or one: refused, if no cell says which
    o.5   5 mg   1.2.3   12-13     no number, and no word either: refused, quoted

What a mark is follows from the column, or else from all columns of the file that say it: 0.5, 1.25, 1,234.5 and 1.234.567 do, and
1.000 does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable
from typing import NamedTuple

import numpy as np

__all__ = ["MARKS", "NOTHING", "Numeral", "begins_as_number", "is_numeral", "marks_of", "numeral", "plain_numbers"]

MARKS = {"point": ".", "comma": ","}
NOTHING = frozenset(
    {"nan", "na", "n/a", "#n/a", "<na>", "null", "none", "nil", "nat", "?", "-nan", "-", "--", "—"}
)  # among numbers
MINUS = "-\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"  # what stands for a minus; first in a class
GAPS = " \u00a0\u2009\u202f'\u2019"  # between thousands
CURRENCIES = "[$€£¥₹₽₩₺₴₫₪฿]|USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF"
NUMERAL = re.compile(
    rf"(?P<sign>[{MINUS}+])?(?P<before>{CURRENCIES})?\s?(?P<after>(?<![{MINUS}+])[{MINUS}+])?(?P<body>\d(?:[\d.,{GAPS}]*[\d.,])?|[.,]\d+)"
    rf"(?:[eE](?P<power>[{MINUS}+]?\d+))?\s?(?P<unit>[%‰]|{CURRENCIES})?"
)
PLAIN = re.compile(r"\d+")
ONE_MARK = re.compile(r"(\d*)([.,])(\d*)")
GROUPED = re.compile(rf"([1-9]\d{{0,2}})((?P<gap>[.,{GAPS}])\d{{3}}(?:(?P=gap)\d{{3}})*)(?:(?P<mark>[.,])(?P<rest>\d*))?")
LAKHS = re.compile(r"[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d*)?")  # as in India
# As programs write them: up to 15 digits, which float64 has, without marks between thousands.
WRITTEN = re.compile(r"(?:-?\d{1,15}(?:\.\d+)?(?:e[-+]?\d{1,3})?\n)*", re.ASCII)
DECISIVE = re.compile(r"^-?(?:0|\d{4,})\.|\.\d{1,2}$|\.\d{4}", re.MULTILINE | re.ASCII)  # a decimal point, and not a thousand
INFINITE = re.compile(rf"[{MINUS}+]?(?:inf|infinity|∞)", re.IGNORECASE)
BEGINS = re.compile(r"\W*\d")


class Numeral(NamedTuple):
    """Holds a number as Python writes it, and its unit, a currency or per cent; what the cell says about marks."""

    text: str
    unit: str = ""
    says: str = ""  # which sign is the decimal mark, "" where any may be
    open: bool = False  # a thousand or one


def begins_as_number(cell: str) -> bool:
    """Return whether the first letter or digit is a digit."""
    return BEGINS.match(cell) is not None


def is_numeral(cell: str) -> bool:
    """Return whether a cell has a number, whatever its marks mean."""
    return numeral(cell, "") is not None


def numeral(cell: str, mark: str) -> Numeral | None:
    r"""Read a cell as a number.

    Args:    mark: the decimal mark, "." or ","; "" where it is not known, and then the text of an open one is of no use.
    Returns: None for what is no number, by this mark.
    """
    if INFINITE.fullmatch(cell):
        return Numeral("-inf" if cell[0] in MINUS else "inf")
    found = NUMERAL.fullmatch(cell)
    if found is None or (found["before"] and found["unit"]):
        return None
    sign = "-" if (found["sign"] or found["after"] or "+") in MINUS else ""
    power = found["power"]
    exponent = "" if power is None else "e" + ("-" + power[1:] if power[0] in MINUS else power)
    body = _body(found["body"], mark, power is not None)
    if body is None:
        return None
    text, says, is_open = body
    return Numeral(f"{sign}{text}{exponent}", found["before"] or found["unit"] or "", says, is_open)


def _body(body: str, mark: str, has_power: bool) -> tuple[str, str, bool] | None:
    """Return digits with a point, the decimal mark that they say, and whether they are open; None for no number by `mark`."""
    one, grouped = ONE_MARK.fullmatch(body), GROUPED.fullmatch(body)
    text, says, is_open = "", "", False
    if PLAIN.fullmatch(body):
        text = body
    elif LAKHS.fullmatch(body):
        text, says = body.replace(",", ""), "."
    elif one and grouped and not has_power:  # 1.000
        text, is_open = (f"{one[1]}.{one[3]}" if mark == one[2] else one[1] + one[3]), not mark
    elif one:
        text, says = f"{one[1] or '0'}.{one[3]}", one[2]
    elif grouped and grouped["gap"] != grouped["mark"]:
        says = grouped["mark"] or {".": ",", ",": "."}.get(grouped["gap"], "")
        text = grouped[1] + grouped[2].replace(grouped["gap"], "") + ("" if grouped["mark"] is None else f".{grouped['rest']}")
    return (text, says, is_open) if text and (not mark or not says or mark == says) else None


def marks_of(cells: Iterable[str]) -> tuple[set[str], bool]:
    """Return the decimal marks that cells say, and whether one of them is open."""
    found = [read for cell in cells if (read := numeral(cell, "")) is not None]
    return {read.says for read in found} - {""}, any(read.open for read in found)


def plain_numbers(cells: Iterable[str | None], missing: Container[str]) -> np.ndarray | None:
    """Return numbers where all cells are written plainly, and one of them says that the point is decimal; nan where missing.

    This is the way of most columns, without a look at each cell. None for others, which `numeral` reads.
    """
    seen = [None if cell is None or cell in missing else cell for cell in cells]
    text = "".join(f"{cell}\n" for cell in seen if cell is not None)
    if not text or not WRITTEN.fullmatch(text) or ("." in text and not DECISIVE.search(text)):
        return None
    return np.array([math.nan if cell is None else float(cell) for cell in seen])
