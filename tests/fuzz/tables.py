"""Tables in the dialects of people and programs against the same table written plainly: the same numbers, or an error."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
from fuzz.dice import Dice, Difference

from experiments.data.columns import Columns, Notation
from experiments.data.table import read_table
from experiments.usage import UsageError

__all__ = ["tables"]

SEPARATORS = {"commas": ",", "semicolons": ";", "tabs": "\t", "bars": "|", "spaces": "  "}
MISSING = ("", "NA", "NaN", "null", "?", "n/a")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252")
FORMS = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d %b %Y %H:%M:%S",
    "s", "ms", "clock",
)  # fmt: skip
WORDS = ("north", "süd", "two words", "01", "1a")
EXACT = 1e-15  # decimals have one nearest float; times are differences of such


def tables(dice: Dice) -> list[Difference]:
    """Numbers, times and words of a random table in a random dialect."""
    rows, count = dice.count("rows", 2, 40), dice.count("columns", 1, 4)
    values = [_values(dice, rows) for _ in range(count)]
    words = [WORDS[int(k)] for k in dice.rng.integers(len(WORDS), size=rows)]
    since = np.cumsum(dice.rng.integers(1, 200_000, rows))
    text, notation = _written(dice, values, words, since)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("a.csv.gz" if dice.chance("packed", 0.2) else "a.csv")
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        found = []
        try:
            read = read_table(path, notation)
        except UsageError as error:
            dice.note(str(error))
            return []
        assert set(read.names) == {"time", *(f"x{k}" for k in range(count)), "größe"}, read.names
        for k, column in enumerate(values):
            found += _compared(f"x{k}", read, column)
        found += _times(read, since)
        return found + _words(read, words)


def _values(dice: Dice, rows: int) -> np.ndarray:
    """Numbers of so many decimals, some of them missing."""
    size = dice.one_of("sizes", (1e-2, 1.0, 1e3, 1e7))
    found = (dice.rng.normal(size=rows) * size).round(dice.count("decimals", 0, 4)) + 0.0
    found[dice.rng.random(rows) < dice.one_of("missing", (0.0, 0.2))] = np.nan
    return found


def _written(dice: Dice, values: list[np.ndarray], words: list[str], since: np.ndarray) -> tuple[bytes, Notation]:
    """The bytes of a table, and what its reader is told about it."""
    sign = dice.one_of("between", SEPARATORS)
    mark = dice.one_of("decimal", (".", ","))
    group = dice.one_of("thousands", ("", ",", ".", " ", "\u00a0", "'"))
    group = "" if group == mark else group
    minus, power = dice.one_of("minus", ("-", "\u2212")), dice.chance("exponents", 0.1)
    unit, absent = dice.one_of("unit", ("", "", " %", "€")), dice.one_of("absent", MISSING)
    decimals = dice.count("digits written", 0, 6)

    def number(value: float) -> str:
        if np.isnan(value):
            return absent
        grouped = "," if group else ""
        full, short = f"{abs(value):{grouped}.{max(decimals, 4)}f}", f"{abs(value):{grouped}.{decimals}f}"
        digits = f"{abs(value):.17e}" if power else short if float(short.replace(",", "")) == abs(value) else full
        return (minus if value < 0 else "") + digits.replace(",", "\0").replace(".", mark).replace("\0", group) + unit

    quoted = dice.chance("quotes", 0.5)
    stamps, dates = _stamps(dice, since)

    def cell(text: str) -> str:
        needed = any(each in text for each in (sign, sign[0], '"'))
        return f'"{text}"' if needed or (quoted and dice.rng.random() < 0.8) else text

    columns = [stamps, *([number(value) for value in column] for column in values), words]
    names = ["time", *(f"x{k}" for k in range(len(values))), "größe"]
    if dice.chance("a careless writer", 0.15):  # who quotes nothing, and whose table may be refused
        cell = str
    lines = [sign.join(map(cell, row)) for row in [names, *zip(*columns, strict=True)]]
    top = dice.one_of("on top", ([], [], [f"sep={sign[0]}"], ["# by hand"], ["Station 4", ""]))
    end = dice.one_of("ends", ("\n", "\r\n", "\r"))
    encoding = dice.one_of("encoding", ENCODINGS)
    if encoding == "cp1252" and minus != "-":
        encoding = "utf-8"
    told = encoding if encoding == "cp1252" and dice.chance("encoding told", 0.8) else ""
    decimal = {".": "point", ",": "comma"}[mark] if dice.chance("decimal told", 0.3) else ""
    between = (
        {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}[sign[0]]
        if dice.chance("separator told", 0.2)
        else ""
    )
    text = (end.join([*top, *lines]) + end).encode(encoding)
    return text, Notation(encoding=told, decimal=decimal, dates=dates, separator=between)  # type: ignore[arg-type]


def _stamps(dice: Dice, since: np.ndarray) -> tuple[list[str], str]:
    """Times in a random form, and the setting `dates`."""
    start = np.datetime64("2023-01-01T00:00:00") + int(dice.rng.integers(10**8))
    form = dice.one_of("times", FORMS)
    if form in ("s", "ms"):
        return [str((int(start.astype(int)) + int(k)) * (1000 if form == "ms" else 1)) for k in since], ""
    if form == "clock":
        return [f"{k // 3600}:{k // 60 % 60:02}:{k % 60:02}" for k in since.tolist()], ""
    dates = {"%d.": "day-first", "%m/": "month-first"}.get(form[:3], "") if dice.chance("dates told", 0.5) else ""
    return [(start + int(k)).item().strftime(form) for k in since], dates


def _compared(name: str, read: Columns, expected: np.ndarray) -> list[Difference]:
    try:
        is_numbers = read.is_numbers(name)
        assert is_numbers, f"{name} is read as words"
        found = read.numbers(name)
    except UsageError:
        return []
    assert found.shape == expected.shape, (name, found.shape, expected.shape)
    assert (np.isnan(found) == np.isnan(expected)).all(), (name, found, expected)
    scale = np.abs(np.nan_to_num(expected)).clip(min=5e-324)
    return [Difference(name, float((np.abs(np.nan_to_num(found) - np.nan_to_num(expected)) / scale).max()), EXACT)]


def _times(read: Columns, since: np.ndarray) -> list[Difference]:
    try:
        found = read.stamps("time")
    except UsageError:
        return []
    times = found.times / (1000 if found.unit == "ms" else 1)
    expected = since - since.min()
    return [Difference("time", float(np.abs(times - expected).max() / expected.max()), EXACT)]


def _words(read: Columns, words: list[str]) -> list[Difference]:
    try:
        found = read.words("größe").tolist()
    except UsageError:
        return []
    assert found == words, (found, words)
    return [Difference("words", 0.0, 0.0)]
