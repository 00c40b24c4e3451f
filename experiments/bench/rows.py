"""What was measured, as rows: the one form that tables, figures and the JSON file are made of.

part       cells, solves, growth, stiff, memory, first use
problem    what was computed, in words and with its sizes; rows of one problem were run in the same rounds
candidate  who computed it;  work  forward, or forward + backward
values     seconds of each round, null where it sat out; or bytes
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.bench.interleaved import Ratio, ratio

__all__ = ["BACKWARD", "FORWARD", "Row", "find", "from_json", "grouped"]

FORWARD, BACKWARD = "forward", "forward + backward"


@dataclass(frozen=True)
class Row:
    """A candidate on a problem; `facts` are what else is known: engine, tolerance, error, evaluations, x of a sweep."""

    part: str
    problem: str
    candidate: str
    work: str
    values: list[float | None]
    unit: str = "s"
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(value for value in self.values if value is not None)

    def over(self, other: Row) -> Ratio | None:
        """How many times the other's, round by round."""
        return ratio(self.values, other.values)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    return [Row(**row) for row in rows]


def find(rows: Iterable[Row], **wanted: str) -> Row | None:
    """The first row with these words in these places."""
    return next((row for row in rows if all(getattr(row, key) == word for key, word in wanted.items())), None)


def grouped(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    """Rows by one of their words, in the order in which the words first come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(getattr(row, key), []).append(row)
    return found
