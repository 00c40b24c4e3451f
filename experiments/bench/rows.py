r"""Measurements as rows, the one form that tables, figures and the JSON file are made of.

part       a name in `declared.PARTS`
problem    what was computed, in words and with its sizes; rows of one problem were run in the same rounds
candidate  what computed it;  work  forward, or forward + backward
values     seconds of each round, null where it sat out; or bytes
facts      what else is known: engine, tolerance, error, evaluations, x of a sweep
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

__all__ = ["BACKWARD", "FORWARD", "WORKS", "Quartiles", "Row", "data_frame", "medians", "quartiles", "ratio"]

FORWARD, BACKWARD = WORKS = ("forward", "forward + backward")
Values = Sequence[float | None]


@dataclass(frozen=True)
class Row:
    """A candidate on a problem."""

    part: str
    problem: str
    candidate: str
    work: str
    values: Values
    unit: str = "s"
    facts: dict[str, Any] = field(default_factory=dict)


class Quartiles(NamedTuple):
    """Quartiles of values, how many there are, and the largest."""

    low: float
    median: float
    high: float
    rounds: int
    most: float


def quartiles(values: Values) -> Quartiles | None:
    """Compute quartiles over rounds; None where the candidate sat out all of them."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, median, high = np.quantile(known, [0.25, 0.5, 0.75]).tolist()
    return Quartiles(low, median, high, len(known), max(known))


def ratio(values: Values, reference: Values) -> Quartiles | None:
    """Compute quartiles of the ratios to the reference within each round; None where no round has both."""
    pairs = zip(values, reference, strict=True)
    return quartiles([None if a is None or b is None else a / b for a, b in pairs])


def data_frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Read the rows of a record, with their facts as columns and the median of their values."""
    frame = pd.DataFrame([{**row, **row["facts"]} for row in rows])
    return frame.assign(median=[np.median([value for value in values if value is not None]) for values in frame["values"]])


def medians(rows: pd.DataFrame, over: str) -> pd.DataFrame:
    """Tabulate medians by candidate, in the order of the rows, and by another column, sorted."""
    return rows.pivot(index="candidate", columns=over, values="median").reindex(rows["candidate"].unique())
