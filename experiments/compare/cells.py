r"""Arranges the records of a comparison: for each place of its table what every seed gave.

place    field, trained, run as, whether the clock is given, speed          one cell of the crosswise table
seed     a row that was measured; or why there is none: training diverged, or this run of it did
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from experiments.reports.spreads import Spread, paired
from experiments.studies.results import Results

__all__ = [
    "BY_RUN",
    "BY_TRAINING",
    "ROUNDING",
    "ComparisonLayout",
    "CrosswiseCell",
    "Seeds",
    "cells",
    "interval",
    "where_in_words",
]

ROUNDING = 1e-6  # of the largest score; they are means in float32, and what is nearer is equal
BY_TRAINING, BY_RUN = "training", "run"  # reasons why a number is missing
Seeds = dict[int, Mapping[str, Any]]  # seed -> what was measured; "lost" is BY_TRAINING, BY_RUN or ""


class CrosswiseCell(NamedTuple):
    """Names a cell of the crosswise table; the speed is None where the test is run as it is."""

    field: str
    trained: str
    run_as: str
    clock_given: bool
    speed: float | None


@dataclass(frozen=True)
class ComparisonLayout:
    """Says what a comparison is made of: its score and which way that is better, fields, ways, speeds and clocks."""

    score: str
    better: str
    fields: tuple[str, ...]
    ways: tuple[str, ...]
    speeds: tuple[float, ...]
    clocks: tuple[bool, ...]

    def settings(self) -> Iterator[tuple[str, bool, float | None]]:
        """Yield each field, clock and speed, in the order of the table."""
        for field in self.fields:
            for clock in self.clocks:
                for speed in self.speeds or (None,):
                    yield field, clock, speed

    def places(self) -> Iterator[CrosswiseCell]:
        for field, clock, speed in self.settings():
            for trained in self.ways:
                for run_as in self.ways:
                    yield CrosswiseCell(field, trained, run_as, clock, speed)


def cells(results: Results, layout: ComparisonLayout) -> dict[CrosswiseCell, Seeds]:
    """Return what every seed gave that is done, for all places of the table."""
    table: dict[CrosswiseCell, Seeds] = {place: {} for place in layout.places()}
    for record in results.records:
        point = record["point"]
        mine = {(row["run_as"], row["clock_given"], row["speed"]): row for row in record["rows"]}
        for place, seeds in table.items():
            if (place.field, place.trained) != (point["field"], point["trained"]):
                continue
            row = mine.get((place.run_as, place.clock_given, place.speed), {})
            lost = BY_TRAINING if record["diverged"] is not None else "" if row.get("finite") else BY_RUN
            seeds[point["seed"]] = {**row, "lost": lost}
    return table


def interval(values: list[float]) -> Spread:
    """Take the mean with its 95 % interval by Student's t; the mean alone of one number, and of equal ones."""
    mean, deviation = math.fsum(values) / len(values), statistics.stdev(values) if len(values) > 1 else 0.0
    return paired(values) if deviation > ROUNDING * max(map(abs, values)) else Spread(mean, mean, mean, len(values))


def where_in_words(layout: ComparisonLayout, field: str, clock: bool, speed: float | None) -> str:
    """Say where a difference is taken, as far as the comparison has several such places: "gated, clock hidden, c = 1/4"."""
    parts = [field] * (len(layout.fields) > 1 and bool(field)) + ["clock given" if clock else "clock hidden"] * (
        len(layout.clocks) > 1
    )
    parts += [f"c = {Fraction(speed).limit_denominator(1000)}"] if speed is not None and len(layout.speeds) > 1 else []
    return ", ".join(parts)
