r"""Deals the sequences of a table, or their rows, to the parts train, validation and test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
import pandas as pd
import torch

from experiments.data.columns import Columns
from experiments.data.samples import NO_CLASS
from experiments.data.untrusted import quoted
from experiments.seeds import generator as generator_of
from experiments.tasks.task import SPLITS
from experiments.usage import UsageError

__all__ = ["Place", "dealt", "whole_of"]

FEWEST = 5  # sequences of which each part gets one
SHARES = (0.7, 0.15, 0.15)  # of train, validation and test


class Dealt(Protocol):
    """Has the settings that are read here, of a task."""

    @property
    def data(self) -> str: ...

    @property
    def split(self) -> str: ...


Place = tuple[str, int, slice]  # the part, the number of the sequence, and which of its rows


def dealt(task: Dealt, table: Columns, rows: list[np.ndarray], labels: np.ndarray | None, whole: bool) -> tuple[list[Place], str]:
    r"""Return which rows of which sequence are in which part, and words about it.

    Args:    labels: the class of every row, where it is of whole sequences; whole: whether the target is of whole sequences.
    """
    way = task.split or ("sequence" if len(rows) >= FEWEST else "time")
    if way == "time" and whole:
        raise UsageError(
            f"{task.data}: the target is of whole sequences, which split=time would put into every part; there are {len(rows)} "
            f"of them, at least {FEWEST} are needed."
        )
    if way == "time":
        return _by_time(rows), "split by time, the first 70 % of each sequence, then 15 % and 15 %"
    if way == "sequence" and len(rows) < FEWEST:
        raise UsageError(f"{task.data}: {len(rows)} sequence(s) are too few for three parts; take split=time.")
    if way == "sequence":
        classes = [0] * len(rows) if labels is None else [int(whole_of(labels[k])) for k in rows]
        last = max(classes) + 1  # sequences without a class come after the others
        given = _by_sequence([last if one == NO_CLASS else one for one in classes])
        return given, "split by sequence" + ", of each class as nearly as can be" * (labels is not None)
    parts = table.words(way, names=True)
    places = [place for k, here in enumerate(rows) for place in _as_said(task, parts.iloc[here], k)]
    if whole and len(places) > len(rows):
        raise UsageError(f"{task.data}: the target is of whole sequences, and {way} puts one sequence into several parts.")
    if missing := sorted(set(SPLITS) - {split for split, _, _ in places}):
        raise UsageError(f"{task.data}: {way} names no row for {' and '.join(missing)}.")
    return places, f"split by the column {way}"


def _by_time(rows: list[np.ndarray]) -> list[Place]:
    ends = [np.round(np.cumsum([0.0, *SHARES]) * len(here)).astype(int).tolist() for here in rows]
    spans = [(split, k, slice(*pair)) for k, each in enumerate(ends) for split, pair in zip(SPLITS, pairwise(each), strict=True)]
    return [(split, k, span) for split, k, span in spans if span.start < span.stop]


def _by_sequence(classes: Sequence[int]) -> list[Place]:
    """Deal sequences, in an order of chance within each class, to the part that has the least of its share."""
    order = torch.randperm(len(classes), generator=generator_of(0, "csv")).tolist()
    order.sort(key=lambda k: classes[k])
    taken, found = [0, 0, 0], []
    for count, k in enumerate(order, 1):
        part = max(range(len(SPLITS)), key=lambda j: SHARES[j] * count - taken[j])
        taken[part] += 1
        found.append((SPLITS[part], k, slice(None)))
    return found


def _as_said(task: Dealt, column: pd.Series, number: int) -> Iterator[Place]:
    words = column.fillna("").str.lower().replace({"val": "validation", "valid": "validation"}).tolist()
    if wrong := [word for word in words if word not in SPLITS]:
        raise UsageError(f"{task.data}: {task.split} is to say train, validation or test in every row, got {quoted(wrong[0])}.")
    changes = [place for place in range(1, len(words)) if words[place] != words[place - 1]]
    for start, end in pairwise([0, *changes, len(words)]):
        yield words[start], number, slice(start, end)


def whole_of(ys: np.ndarray) -> np.ndarray:
    """Return the target of a whole sequence: the first that is there, of each number."""
    seen = ys != NO_CLASS if ys.ndim == 1 else ~np.isnan(ys)
    first = seen.argmax(0)
    values: np.ndarray = ys[first] if ys.ndim == 1 else ys[first, np.arange(ys.shape[1])]
    return values
