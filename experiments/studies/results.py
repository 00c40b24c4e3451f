r"""Makes two data frames of the records of a study.

runs    a row a run: its key, the axes of its point, the training's measures
rows    a row a row that `Study.measure` gave, of all runs: key and axes of the run, and what was measured
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any

import pandas as pd

from experiments.reports.spreads import Spread, spread

__all__ = ["Results", "best_settings", "groups", "once", "spreads", "where"]


class Results:
    """Holds the records of a study, perhaps a part of all, from which all that is said of it comes."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.records = list(records)
        self._computed: dict[Callable[..., pd.DataFrame], pd.DataFrame] = {}  # by `once`

    @cached_property
    def runs(self) -> pd.DataFrame:
        return pd.DataFrame([{"key": one["key"], **one["point"], **one["measures"]} for one in self.records])

    @cached_property
    def rows(self) -> pd.DataFrame:
        rows = [{"key": one["key"], **one["point"], **row} for one in self.records for row in one["rows"]]
        axes = dict.fromkeys(axis for one in self.records for axis in one["point"])
        return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["key", *axes])

    def rows_with(self, measure: str) -> pd.DataFrame:
        """Add to the rows a measure of their run, with " at the end" behind its name if rows have one of that name."""
        return self.rows.merge(self.runs[["key", measure]], on="key", suffixes=("", " at the end"))

    @property
    def diverged(self) -> dict[str, int]:
        """Return key -> step, of the trainings whose loss was no longer finite."""
        return {one["key"]: one["diverged"] for one in self.records if one["diverged"] is not None}

    def settings(self, name: str) -> list[Any]:
        """Return the different values of a setting in the configurations. Raises: KeyError for one that none has."""
        parts = [part for one in self.records for part in one["configuration"].values() if isinstance(part, dict)]
        values = list(dict.fromkeys(part[name] for part in parts if name in part))
        if not values:
            raise KeyError(f"no configuration has a setting {name!r}.")
        return values


def once(compute: Callable[[Results], pd.DataFrame]) -> Callable[[Results], pd.DataFrame]:
    """Compute a frame once of the same results, for the verdict and all tables and figures; none of them may change it."""

    @wraps(compute)
    def computed(results: Results) -> pd.DataFrame:
        known = results._computed
        if compute not in known:
            known[compute] = compute(results)
        return known[compute]

    return computed


def where(frame: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Select the rows with these values in these columns; none of a frame without them."""
    for column, value in values.items():
        frame = frame[frame[column] == value] if column in frame else frame.iloc[:0]
    return frame


def groups(frame: pd.DataFrame, by: str | Sequence[str]) -> dict[Any, pd.DataFrame]:
    """Group rows by their values in one column, or by tuples in several, in the order in which these first come."""
    if frame.empty:
        return {}
    grouped = frame.groupby(by if isinstance(by, str) else list(by), sort=False, dropna=False)
    return {tuple(map(_plain, key)) if isinstance(key, tuple) else _plain(key): same for key, same in grouped}


def spreads(frame: pd.DataFrame, by: str | Sequence[str], column: str) -> dict[Any, Spread]:
    """Compute the spread of a column in each group."""
    return {key: spread(same[column]) for key, same in groups(frame, by).items()}


def best_settings(frame: pd.DataFrame, by: Sequence[str], settings: Sequence[str], column: str) -> pd.DataFrame:
    """Select in each group the rows of the settings with the least mean of a column, of those where all have numbers."""
    best = []
    for same in groups(frame, by).values():
        tried = groups(same, settings)
        means = {key: rows[column].mean(skipna=False) for key, rows in tried.items()}
        if known := {key: mean for key, mean in means.items() if math.isfinite(mean)}:
            best.append(tried[min(known, key=known.__getitem__)])
    return pd.concat(best) if best else frame.iloc[:0]


def _plain(value: Any) -> Any:
    """Convert to a number of Python's, not numpy's: `is True` and words depend on it."""
    return value.item() if hasattr(value, "item") else value
