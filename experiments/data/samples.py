r"""Makes samples of a table's columns: rows in the order of time, what a model sees of them, and what it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

import discretize
from ctrnn import checks
from experiments.data.columns import Columns
from experiments.data.numerals import is_numeral
from experiments.data.same_time import Joined
from experiments.data.scales import scale
from experiments.data.untrusted import quoted
from experiments.usage import UsageError

__all__ = ["NO_CLASS", "Input", "Ordered", "features", "in_order", "target_of"]

MOST_WORDS = 100  # of a column that is no number
NO_CLASS = -1  # where the target is missing


class Ordered(NamedTuple):
    """Holds the rows of each sequence in the order of time, all rows' stamps in the model's unit, before which rows a piece
    begins, which rows of one time are joined, the unit, in that of the stamps, and words about them."""

    rows: list[np.ndarray]
    times: np.ndarray
    begins: np.ndarray
    joined: Joined
    unit: float
    words: str


def in_order(table: Columns, sequence: str, time: str, unit: float, gap: float = 0.0, same_time: str = "") -> Ordered:
    """Put the rows of each sequence in the order of time; unit: of the model, 0 for the median time between rows."""
    keys, path = np.zeros(len(table), int), table.path
    if sequence:
        keys = pd.factorize(table.words(sequence, names=True))[0]
        if (keys < 0).any():
            raise UsageError(f"{path}: row {int(np.argmin(keys)) + 1} names no {sequence}, the column of sequences.")
    if not time:
        order = np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(keys[order])) + 1
        rows = np.split(order, bounds)
        times, begins = np.arange(len(table), dtype=float), np.zeros(len(table), bool)
        return Ordered(rows, times, begins, Joined.none(len(table)), 1.0, "times: none, rows are 1 apart")
    stamps = table.stamps(time)
    times, called = stamps.times, stamps.unit
    order = np.lexsort((times, keys))
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    rows = np.split(order, bounds)
    _say_if_rounded(table, keys, time)
    if stamps.clock:
        _check_clock(table, keys, times, time)
    unordered = "" if all((np.diff(k) > 0).all() for k in rows) else "; rows were put in the order of time"
    joined = Joined.of(rows, times, same_time) if same_time else Joined.none(len(table))
    rows = [k[joined.stand[k]] for k in rows]
    gaps = np.concatenate([np.diff(times[k]) for k in rows])
    if not len(gaps) and not unit:
        raise UsageError(f"{path}: every sequence has one row; which rows belong together is said by sequence=COLUMN.")
    if (gaps == 0).any():
        _refuse_one_time(table, rows, times, sequence, time)
    if not len(gaps):
        return Ordered(rows, times / unit, np.zeros(len(table), bool), joined, unit, f"times: {time}, sequences have one row")
    median = discretize.unit(np.concatenate([np.append(times[k], np.nan) for k in rows]), samples=1)
    one = unit or median
    regular = "" if np.allclose(gaps, median, rtol=1e-3, atol=0) else f" in the median, from {gaps.min():.4g} to {gaps.max():.4g}"
    begins = np.zeros(len(table), bool)
    for k in rows if gap else ():
        begins[k[1:]] = np.diff(times[k]) > gap
    cut = f"; {int(begins.sum())} gap(s) of more than {gap:.4g}{called and ' ' + called} begin a new piece" if gap else ""
    read = f", read as {stamps.words}" if stamps.words else ""
    apart = f"{median:.4g}{called and ' ' + called} apart{regular}"
    others = int((~joined.stand).sum())
    same = f"; {others:,} row(s) were joined with another one of their time, by same_time={same_time}" if others else ""
    said = f"times: {time}{read}, {apart}; {one:.4g} of it is 1 for the model{cut}{unordered}{same}"
    return Ordered(rows, times / one, begins, joined, one, said)


def _say_if_rounded(table: Columns, keys: np.ndarray, time: str) -> None:
    """Warn of times that the dtype which a file keeps them in has rounded."""
    column = table.frame[time]
    if pd.api.types.is_float_dtype(column):
        given = column.to_numpy(getattr(column.dtype, "numpy_dtype", column.to_numpy().dtype))
        latest = keys[np.abs(given).argmax()]  # floats are furthest apart at the largest value
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
    index = ", ".join(map(repr, filter(None, (sequence, time))))
    same = f"{table.path}: rows {a + 1} and {b + 1} have one {time}, {table.frame[time].iloc[a]}{of_one}"
    for name in (name for name in table.names if name not in (sequence, time) and table.is_text(name)):
        column = table.frame[name]
        words = dict.fromkeys(str(cell) for cell in column.iloc[[a, b]].dropna())
        if len(words) == 2 and not any(is_numeral(str(cell)) for cell in column.dropna().unique()):
            turn = f"frame.pivot_table(index=[{index}], columns={name!r}, values=...).reset_index()"
            raise UsageError(
                f"{same}, and {name} {' and '.join(map(quoted, words))}; is a row a measurement? Then turn the table by pandas, "
                f"{turn}, as docs/tasks.md shows; if not, say by sequence=COLUMN what they are of, or join them by "
                "same_time=mean, first or last."
            )
    raise UsageError(
        f"{same}; say by sequence=COLUMN what they are of, or join them by same_time=mean, first or last, column by column; in "
        f"pandas by frame.groupby([{index}], as_index=False).first()."
    )


@dataclass(frozen=True)
class Input:
    """Says what a model sees of a column, by the rows of "train": numbers by their mean and deviation, or words as kinds, each a
    number that is 1 where it is the word and 0 where it is another; unit: a currency or per cent, that all cells had."""

    name: str
    scale: tuple[float, float] | None = None
    kinds: tuple[str, ...] = ()
    unit: str = ""

    @classmethod
    def of(cls, table: Columns, name: str, train: np.ndarray, joined: Joined) -> Input:
        if table.is_numbers(name):
            return cls(name, scale(joined.values(table.numbers(name))[train]), unit=table.unit(name))
        known = sorted(map(str, table.words(name).iloc[joined.with_others(train)].dropna().unique()))
        if not known:
            raise UsageError(f"{table.path}: {name} has no value in the rows of train; leave it out by inputs=...")
        if len(known) > MOST_WORDS:
            raise UsageError(
                f"{table.path}: {name} has {len(known)} different words, such as {quoted(known[0])}, and at most "
                f"{MOST_WORDS} are read as kinds; name what to see by inputs=..., or say that it is sequence, time or target."
            )
        return cls(name, None, tuple(known))

    def read(self, table: Columns, joined: Joined) -> np.ndarray:
        """Return what is seen of a table's column, (rows, features), nan where it is missing, or a word of no kind.

        Raises:  UsageError for words where numbers were, and for another unit.
        """
        if self.scale is None:
            places = pd.Index(self.kinds, dtype=object).get_indexer(pd.Index(table.words(self.name), dtype=object))
            columns = [joined.values(np.where(places < 0, np.nan, places == kind)) for kind in range(len(self.kinds))]
            return np.stack(columns, 1).astype(np.float64)
        if not table.is_numbers(self.name):
            raise UsageError(f"{table.where(self.name)} has words in it, and numbers are read there.")
        numbers, (mean, deviation) = table.numbers(self.name), self.scale
        if table.unit(self.name) != self.unit and not np.isnan(numbers).all():
            units = [quoted(unit) if unit else "plain numbers" for unit in (self.unit, table.unit(self.name))]
            raise UsageError(f"{table.where(self.name)} was in {units[0]} where it was fitted, and is in {units[1]}.")
        return (joined.values(numbers)[:, None] - mean) / deviation


def features(
    table: Columns, inputs: Sequence[str], train: np.ndarray, joined: Joined
) -> tuple[list[Input], np.ndarray, np.ndarray, list[str]]:
    """Return how a model's inputs are read, what it sees (rows, features), nan where missing, which features are of words, and
    words about all."""
    made = [Input.of(table, name, train, joined) for name in inputs]
    read = [each.read(table, joined) for each in made]
    words, missing = [], []
    for each, values in zip(made, read, strict=True):
        unit = "" if each.scale is None else table.unit(each.name)
        about = unit or (f"one of {len(each.kinds)}" if each.kinds else "")
        words.append(f"{each.name} ({about})" if about else each.name)
        if absent := float(np.isnan(values[joined.stand, -1]).mean()):
            missing.append(f"{each.name} {100 * absent:.3g} %")
    said = [f"inputs: {', '.join(words)}"]
    if missing:
        said.append(f"missing: {', '.join(missing)}; there a model sees 0, and beside every value whether it was seen")
    of_words = np.concatenate([np.full(values.shape[1], each.scale is None) for each, values in zip(made, read, strict=True)])
    return made, np.concatenate(read, 1), of_words, said


def target_of(table: Columns, targets: tuple[str, ...], predict: str, joined: Joined) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the classes, if it is one, and what each row has of the targets: (rows,), or (rows, numbers)."""
    if predict == "class":
        words = table.words(targets[0])
        classes = tuple(sorted(words.dropna().unique()))
        if len(classes) < 2:
            raise UsageError(f"{table.path}: {targets[0]} is {quoted(classes[0]) if classes else 'missing'} in every row.")
        places = pd.Index(classes, dtype=object).get_indexer(pd.Index(words, dtype=object)).astype(np.float64)
        places = np.where(places == NO_CLASS, np.nan, places)
        found = joined.values(places)
        if joined.how == "mean":  # classes have no mean
            one, other = (joined._replace(how=how).values(places)[joined.stand] for how in ("min", "max"))
            if (mixed := np.flatnonzero(joined.stand)[one < other]).size:
                row, names = int(mixed[0]) + 1, [quoted(classes[int(k[one < other][0])]) for k in (one, other)]
                raise UsageError(
                    f"{table.path}: at the time of row {row} {targets[0]} is {names[0]} and {names[1]}, of which there is no "
                    "mean; are they of several sequences? Say sequence=COLUMN; if not, take same_time=first or same_time=last."
                )
        return classes, np.nan_to_num(found, nan=NO_CLASS).astype(np.int64)
    values = np.stack([table.numbers(name) for name in targets], 1)
    if predict == "count" and (wrong := [name for name, column in zip(targets, values.T, strict=True) if _no_counts(column)]):
        raise UsageError(f"{table.path}: {wrong[0]} is no count: it has numbers below 0, or no whole ones, or none above 0.")
    return (), joined.values(values)


def _no_counts(column: np.ndarray) -> bool:
    seen = column[np.isfinite(column)]
    return bool((seen < 0).any() or (seen != np.round(seen)).any() or not (seen > 0).any())
