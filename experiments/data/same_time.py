r"""Joins rows of one sequence and one time into one, column by column, by the values that are seen.

rows at 12:30                   mean             first            last
hr 80     temperature  -
hr 100    temperature 36.6      90    36.6       80    36.6       100    36.6
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

__all__ = ["Joined"]


class Joined(NamedTuple):
    """Says which row stands for each row, (rows,), itself where no other is of its time, and how values are joined."""

    by: np.ndarray
    how: str

    @classmethod
    def none(cls, count: int) -> Joined:
        return cls(np.arange(count), "")

    @classmethod
    def of(cls, rows: list[np.ndarray], times: np.ndarray, how: str) -> Joined:
        """Join rows, each sequence's in the order of time, to the first of their time."""
        by = np.arange(len(times))
        for k in rows:
            first = np.concatenate([[True], np.diff(times[k]) > 0])
            by[k] = k[first][np.cumsum(first) - 1]
        return cls(by, how)

    @property
    def stand(self) -> np.ndarray:
        """Return whether each row stands for itself."""
        return self.by == np.arange(len(self.by))

    def with_others(self, rows: np.ndarray) -> np.ndarray:
        """Return these rows, and those that they stand for."""
        return np.flatnonzero(np.isin(self.by, rows)) if self.how else rows

    def values(self, values: np.ndarray) -> np.ndarray:
        """Return values (rows,) or (rows, columns), nan where missing, with those of joined rows where one stands for them."""
        if not self.how or self.stand.all():
            return values
        shared = np.isin(self.by, self.by[~self.stand])
        columns = pd.DataFrame(values[shared]).groupby(self.by[shared]).agg(self.how)
        found = values.copy()
        found[columns.index] = columns.to_numpy().reshape(-1, *values.shape[1:])
        return found
