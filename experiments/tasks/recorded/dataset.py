r"""Reads a table as sequences of three parts, standardized by "train", and says in words what was understood."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from experiments.data.columns import Columns, Notation
from experiments.data.mapped import digest_of
from experiments.data.samples import NO_CLASS, Input, features, in_order, target_of
from experiments.data.scales import scales_of
from experiments.data.suspicious import suspicious
from experiments.data.table import read_table
from experiments.data.untrusted import quoted
from experiments.seeds import generator as generator_of
from experiments.settings import Checked, Count
from experiments.tasks.recorded.parts import Place, dealt, whole_of
from experiments.tasks.recorded.pieces import RecordedPiece
from experiments.tasks.task import SPLITS
from experiments.usage import UsageError, nearest

__all__ = ["Dataset", "TableSettings", "dataset_from", "dataset_of", "span"]

ASKED = {"class": "the class", "number": "the number", "count": "the count", "next": "the next value"}
MOST_CLASSES = 20  # of whole numbers, that are classes if nothing else is said
KEPT = 8  # tables that a process remembers


@dataclass(frozen=True)
class _WhichRows(Checked):
    """Says which rows and columns of a table are read, and what is predicted: see `TableSettings`."""

    data: str = ""
    sequence: str = ""
    time: str = ""
    inputs: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    predict: Literal["", "class", "number", "count", "next"] = ""
    split: str = ""
    length: Count = 200
    unit: float = 0.0
    gap: float = 0.0
    same_time: Literal["", "mean", "first", "last"] = ""


@dataclass(frozen=True)
class TableSettings(Notation, _WhichRows):  # whose settings come first in help
    r"""Says how a table is read.

    Args:    data: FILE.csv, .tsv, .npz or .parquet, a column a variable and a row a sample; sequence: the column that says which
             rows belong together, "" where all do; time: the column of stamps, numbers, dates or times of a clock, "" for rows
             that are one apart; inputs: columns that a model sees, () for all that are not named otherwise; target: columns to
             predict, one if it is a class; predict: "class", "number", "count", "next" for the target's values at the next row,
             or "" for what the target looks like, and for the next inputs where there is none; split: "sequence", each sequence
             as a whole in one part, "time", first, middle and last rows of each, "" for the first of these where there are five
             sequences, or a column that says train, validation or test; length: rows after which a sequence is cut, where a
             prediction is asked for at every row; unit: of time that is 1 for the model, 0 for the median time between rows; gap:
             a time between rows after which a new piece begins, in the unit of the stamps, 0 for none; same_time: what becomes of
             rows of one sequence and time, column by column: the mean, or the first or last value that is seen, "" to refuse
             them;
             missing: cells that say
             that nothing was seen, as -1, of one column as COLUMN:-1; words: columns that are words, though they look like
             numbers; decimal: the mark, point or comma, "" for what cells say; dates: day-first or month-first, "" for what cells
             say; clock: what 12:30 is, hh:mm or mm:ss; separator: comma, semicolon, tab, bar, space, or none for one column, ""
             for what cuts all rows alike; encoding: of text, "" for UTF-8 or what its first bytes say.
    Raises:  UsageError for a file that cannot be read or has no such columns, when it is first needed; ValueError for settings
             that nothing reads together. A task reads its file once, and so do all of the same settings while it does not change.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("inputs", "target", "missing", "words"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        if not isinstance(self.data, str) or not self.data:
            raise ValueError(f"`data` must name a file, a table with a row a sample and a column a variable, got {self.data!r}.")
        if not 0 <= self.unit < np.inf:
            raise ValueError(f"`unit` must be a time above 0, or 0 for the median time between rows, got {self.unit:g}.")
        if not 0 <= self.gap < np.inf:
            raise ValueError(f"`gap` must be a time above 0, or 0 for none, got {self.gap:g}.")
        for name in ("unit", "gap", "same_time"):
            if getattr(self, name) and not self.time:
                raise ValueError(f"`{name}` is for stamps, and `time` names no column of them.")
        if self.predict in ("class", "number", "count") and not self.target:
            raise ValueError(f"`predict` is {self.predict}, and `target` names no column.")
        if self.predict == "class" and len(self.target) > 1:
            raise ValueError(f"`target` must be one column where it is a class, got {', '.join(self.target)}.")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Holds what a table was read as."""

    parts: dict[str, list[RecordedPiece]]
    of_words: Tensor
    masked: bool
    classes: tuple[str, ...]
    targets: tuple[str, ...]
    deviations: list[float]
    counts: bool
    at_the_end: bool
    words: str
    digest: str
    inputs: tuple[Input, ...]
    unit: float
    means: list[float]


Deal = Callable[[TableSettings, Columns, list[np.ndarray], np.ndarray | None, bool], tuple[list[Place], str]]


@functools.lru_cache(KEPT)
def dataset_of(task: TableSettings, size: int, changed: int) -> Dataset:
    """Read and split the table, and say in words what was understood; of a file of that size and time of change."""
    path = Path(task.data)
    return dataset_from(task, read_table(path, task), digest_of(path))


def dataset_from(task: TableSettings, table: Columns, digest: str, deal: Deal = dealt, whole: bool | None = None) -> Dataset:
    r"""Make sequences of a table that was read.

    Args:    task: its settings, of which `data` is for messages; deal: says which sequences are in which part, as `dealt`; whole:
             whether the target is of whole sequences, None for what it looks like.
    """
    path = table.path
    inputs, targets, predict = _asked_for(task, table)
    ordered = in_order(table, task.sequence, task.time, task.unit, task.gap, task.same_time)
    rows, times, begins, joined = ordered[:4]
    classes, ys = target_of(table, targets, predict, joined)
    at_the_end = predict != "next" and len(rows) > 1 and all(_is_one(ys[k]) for k in rows) if whole is None else whole
    if at_the_end and begins.any():
        raise UsageError(
            f"{path}: the target is of whole sequences, which gap={task.gap:g} would cut; say by sequence=COLUMN what a piece is."
        )
    labels = ys if at_the_end and predict == "class" else None
    places, about_split = deal(task, table, rows, labels, at_the_end)
    train = np.concatenate([rows[k][span] for split, k, span in places if split == "train"])
    made, xs, of_words, about_inputs = features(table, inputs, train, joined)
    scales = np.zeros(len(targets)), np.ones(len(targets))
    if not classes:
        asked = [whole_of(ys[rows[k]]) for split, k, _ in places if split == "train"] if at_the_end else ys[train]
        scales = scales_of(np.asarray(asked))
    if predict in ("number", "next"):
        ys = (ys - scales[0]) / scales[1]

    parts: dict[str, list[RecordedPiece]] = {}
    for split in SPLITS:
        here = [rows[k][span] for part, k, span in places if part == split]
        pieces = [piece for k in here for piece in _pieces(xs[k], ys[k], times[k], begins[k], at_the_end, predict, task.length)]
        if not pieces:
            raise UsageError(f"{path}: no sequence with a target is in {split}; {about_split}.")
        order = torch.randperm(len(pieces), generator=generator_of(0, "csv", split)).tolist()
        parts[split] = [pieces[k] for k in order]  # shuffled: the first ones are a fair sample
    dealt_to = {split: [(k, span) for part, k, span in places if part == split] for split in SPLITS}
    own = [split for k, split in enumerate(SPLITS) if dealt_to[split] not in [dealt_to[before] for before in SPLITS[:k]]]
    masked = any(bool(one.xs.isnan().any()) for split in SPLITS for one in parts[split])
    of = "of each sequence" if at_the_end else "at every row"
    absent = _absent(ys, rows, at_the_end)
    cut = "" if at_the_end else f", in pieces of at most {task.length} rows"
    words = [
        f"{path.name}: {len(table):,} rows, {len(rows):,} sequence(s) of {span([len(k) for k in rows])} rows",
        *(
            [f"above the names: {'; '.join(map(quoted, table.remarks[:3]))}{', …' * (len(table.remarks) > 3)}"]
            if table.remarks
            else []
        ),
        ordered.words,
        *about_inputs,
        f"to predict: {ASKED[predict]} {of}, {_about(targets, classes, scales, parts)}{absent}",
        f"{about_split}{cut}: {', '.join(f'{len(parts[split])} {split}' for split in own)}",
        *(
            f"careful: {each}"
            for each in (
                *suspicious(table, inputs, rows, train, joined),
                *_absent_classes(classes, {split: parts[split] for split in own}),
            )
        ),
    ]
    counts = predict == "count"
    deviations = [1.0] * len(targets) if counts else scales[1].tolist()
    return Dataset(
        parts,
        torch.from_numpy(of_words),
        masked,
        classes,
        targets,
        deviations,
        counts,
        at_the_end,
        "\n".join(words),
        digest,
        inputs=tuple(made),
        unit=ordered.unit,
        means=[0.0] * len(targets) if counts else scales[0].tolist(),
    )


def _asked_for(task: TableSettings, table: Columns) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the columns that a model sees, those that it predicts, and whether a class, a number or what comes next."""
    by_column = task.split not in ("", "sequence", "time")
    named = [task.sequence, task.time, task.split if by_column else "", *task.inputs, *task.target]
    for name in filter(None, [*named, *task.words]):
        if name not in table:
            raise UsageError(f"{task.data}: there is no column {nearest(name, table.names)}")
    predict = task.predict or _looks_like(table, task.target)
    inputs = task.inputs or tuple(
        name for name in table.names if name not in named or (predict == "next" and name in task.target)
    )
    if predict != "next" and (both := [name for name in task.target if name in task.inputs]):
        raise UsageError(f"{task.data}: {both[0]} is to be predicted, and is among the inputs, where a model would read it off.")
    targets = task.target or tuple(name for name in inputs if table.is_numbers(name))
    if not inputs:
        raise UsageError(f"{task.data}: no column is left for a model to see; there is {', '.join(table.names)}.")
    if predict != "class" and not targets:
        raise UsageError(f"{task.data}: there is no column of numbers to predict.")
    for name in targets if predict != "class" else ():
        if not table.is_numbers(name):
            such = quoted(str(table.words(name).dropna().iloc[0]))
            raise UsageError(f"{task.data}: {name} has words in it, such as {such}, and what is predicted is a number.")
    return inputs, targets, predict


def _pieces(
    xs: np.ndarray, ys: np.ndarray, times: np.ndarray, begins: np.ndarray, at_the_end: bool, predict: str, length: int
) -> Iterator[RecordedPiece]:
    """Cut a sequence into pieces, where a new one begins too, and yield those in which something is asked for."""
    if begins[1:].any():
        for start, end in pairwise([0, *(1 + np.flatnonzero(begins[1:])).tolist(), len(xs)]):
            some = slice(start, end)
            yield from _pieces(xs[some], ys[some], times[some], np.zeros(end - start, bool), at_the_end, predict, length)
        return
    asked, held = ys, pd.DataFrame(ys).ffill().to_numpy()
    if predict == "next":
        asked = np.concatenate([ys[1:], np.full_like(ys[:1], np.nan)])
    seen = asked != NO_CLASS if predict == "class" else ~np.isnan(asked)
    for start in range(0, len(xs), len(xs) if at_the_end else length):
        some = slice(start, None if at_the_end else start + length)
        if seen[some].any():
            stamps, target = times[some] - times[start], torch.as_tensor(whole_of(ys) if at_the_end else asked[some])
            now = torch.from_numpy(np.concatenate([held[start : start + 1], ys[some][1:]])) if predict == "next" else None
            yield RecordedPiece(torch.from_numpy(stamps), torch.from_numpy(xs[some]).float(), target, now)


def _looks_like(table: Columns, target: tuple[str, ...]) -> str:
    if not target:
        return "next"
    if len(target) > 1:
        return "number"
    if not table.is_numbers(target[0]):
        return "class"
    values = table.numbers(target[0])
    seen = np.unique(values[~np.isnan(values)])
    return "class" if len(seen) <= MOST_CLASSES and (seen == seen.round()).all() else "number"


def _is_one(ys: np.ndarray) -> bool:
    """Return whether a sequence has one class, or one number of each target, where they are not missing."""
    columns = (ys[ys != NO_CLASS],) if ys.ndim == 1 else (column[~np.isnan(column)] for column in ys.T)
    return all(len(seen) == 0 or bool((seen == seen[0]).all()) for seen in columns)


def span(numbers: Sequence[float]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,.4g}" if least == most else f"{least:,.4g} to {most:,.4g}"


def _about(
    targets: tuple[str, ...],
    classes: tuple[str, ...],
    scales: tuple[np.ndarray, np.ndarray],
    parts: dict[str, list[RecordedPiece]],
) -> str:
    if not classes:
        return ", ".join(f"{name} {mean:.4g} ± {deviation:.4g}" for name, mean, deviation in zip(targets, *scales, strict=True))
    counts = torch.stack(list(_counted(classes, parts).values())).sum(0)
    shares = [f"{name} {share:.3g} %" for name, share in zip(classes, (100 * counts / counts.sum()).tolist(), strict=True)]
    return f"{targets[0]}, {len(classes)} classes: {', '.join(shares[:MOST_CLASSES])}"


def _counted(classes: tuple[str, ...], parts: dict[str, list[RecordedPiece]]) -> dict[str, Tensor]:
    """Return how often each class is asked for in each part."""
    targets = {split: torch.cat([one.target.flatten() for one in some]) for split, some in parts.items()}
    return {split: torch.bincount(some[some != NO_CLASS], minlength=len(classes)) for split, some in targets.items()}


def _absent_classes(classes: tuple[str, ...], parts: dict[str, list[RecordedPiece]]) -> Iterator[str]:
    for split, counts in _counted(classes, parts).items() if classes else ():
        if absent := [name for name, count in zip(classes, counts.tolist(), strict=True) if not count]:
            verb = {"train": "learned", "validation": "evaluated", "test": "tested"}[split]
            more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
            yield f"never {verb}: {', '.join(absent[:5])}{more}, which {'is' if len(absent) == 1 else 'are'} not in {split}"


def _absent(ys: np.ndarray, rows: list[np.ndarray], whole: bool) -> str:
    """Say how many targets are missing; of a whole sequence only where no row has it."""
    gone = (ys == NO_CLASS)[:, None] if ys.ndim == 1 else np.isnan(ys)
    if whole:
        count, of = sum(bool(gone[k].all(0).any()) for k in rows), f"{len(rows):,} sequences"
    else:
        count, of = int(gone.any(1).sum()), f"{len(ys):,} rows"
    return f"; missing in {count:,} of {of}, where nothing is asked" if count else ""
