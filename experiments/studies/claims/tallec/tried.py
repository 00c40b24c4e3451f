"""Keeps what each learning rate gave that seeds of a choice tried, so that each start is judged at one rate, by other seeds."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["TriedRates"]

AXES = ("hidden", "T", "start", "rate")


@dataclass(frozen=True)
class TriedRates:
    """Holds a table beside a study, a line for each rate of a start at a T: by `measure` the least is the best.

    It is written by hand of a study's `main`, once all seeds of the choice are there, and read when its points are asked for.
    """

    file: Path
    measure: str

    def best(self, hidden: int, T: int, start: str, rates: Sequence[float]) -> float | None:
        """Return the best rate, of equals the smallest; None as long as one of these is not tried. One alone needs no trial."""
        if len(rates) == 1:
            return float(rates[0])
        tried = _read(self.file, self.measure).get((hidden, T, start), {})
        return min(sorted(tried), key=tried.__getitem__) if {*rates} <= {*tried} else None

    def write(self, lines: Iterable[Sequence[object]], *more: str) -> None:
        """Write lines of hidden, T, start, rate, the measure, and what else is named."""
        with self.file.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([[*AXES, self.measure, *more], *lines])
        _read.cache_clear()


@cache
def _read(file: Path, measure: str) -> dict[tuple[int, int, str], dict[float, float]]:
    found: dict[tuple[int, int, str], dict[float, float]] = {}
    if file.exists():
        with file.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                found.setdefault((int(row["hidden"]), int(row["T"]), row["start"]), {})[float(row["rate"])] = float(row[measure])
    return found
