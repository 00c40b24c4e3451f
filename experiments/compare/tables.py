"""Fills the tables of a comparison: scores crosswise, differences, what steps met, what it cost; and writes rows.csv."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.compare.cells import ComparisonLayout, CrosswiseCell, Seeds, cells, interval
from experiments.compare.differences import LEVEL, Difference, differences
from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, cell_text, number
from experiments.studies.clocks.figures import clock_words
from experiments.studies.results import Results
from experiments.studies.specs import FilledTable
from experiments.studies.tables import csv_text

__all__ = ["CostTable", "CrosswiseTable", "DifferencesTable", "GateTable", "rows_csv"]


@dataclass(frozen=True)
class CrosswiseTable:
    """A line for each way of training at each speed, a column for each way of running."""

    layout: ComparisonLayout

    def filled(self, results: Results) -> FilledTable:
        layout, known = self.layout, cells(results, self.layout)
        lines = []
        for field, clock, speed in layout.settings():
            for trained in layout.ways:
                found = [_score(known, CrosswiseCell(field, trained, run, clock, speed), layout.score) for run in layout.ways]
                lines.append([*_beside(layout, field, clock, speed), trained, *found])
        caption = (
            f"Test {layout.score} ({layout.better} is better): mean over seeds and its 95 % interval. In square brackets how far "
            "states are from those of the same weights solved exactly, as a share of how far these spread."
        )
        return FilledTable(caption, [*_columns(layout), "trained", *(f"run {way}" for way in layout.ways)], lines)


def _score(known: Mapping[CrosswiseCell, Seeds], place: CrosswiseCell, score: str) -> str:
    seeds = known[place].values()
    if not seeds:
        return cell_text(None)
    values, lost = [one[score] for one in seeds if not one["lost"]], sum(bool(one["lost"]) for one in seeds)
    apart = [one["apart"] for one in seeds if one.get("apart") is not None]
    words = str(interval(values)) if values else ""
    if apart and place.run_as != EXACT:
        words += f" [{number(math.fsum(apart) / len(apart), 2)}]"
    if not lost:
        return words
    return f"× {lost} of {len(seeds)}" + (f"; the others {words}" if words else "")


@dataclass(frozen=True)
class DifferencesTable:
    """A line for each two that are compared, a column for each speed; of one family of differences."""

    layout: ComparisonLayout
    family: str

    def filled(self, results: Results) -> FilledTable:
        layout = self.layout
        try:
            found = [each for each in differences(results, layout) if each.family == self.family]
        except NotEnoughError:
            found = []
        if not found:
            return FilledTable("")
        lines: dict[tuple[str, str], dict[tuple[bool, float | None], str]] = {}
        for each in found:
            at = lines.setdefault((each.field, f"{each.ours} − {each.theirs}"), {})
            at[each.clock, each.speed] = _difference(each)
        several = len({field for field, _ in lines}) > 1
        caption = (
            f"Differences of {layout.score}, seed by seed: {self.family}. Mean, with the 95 % interval of this difference alone, "
            f"and where that does not hold 0, p by Holm, with all {len(found)} of this table in view. ★: told apart, p below "
            f"{LEVEL:g}."
        )
        cells_of = [[at.get(run, "–") for run in _runs(layout)] for at in lines.values()]
        head = [*["field"] * several, "difference", *_run_heads(layout)]
        return FilledTable(caption, head, [[*[k[0]] * several, k[1], *one] for k, one in zip(lines, cells_of, strict=True)])


def _difference(one: Difference) -> str:
    if one.measured is None:
        return f"× on {one.lost} seeds"
    mean, low, high = (number(value) for value in (one.measured.mean, one.measured.low, one.measured.high))
    if math.isnan(one.holm):
        return f"{mean} on every seed"  # no test is made: equal differences have no variance
    excludes_0 = one.measured.low > 0 or one.measured.high < 0
    return f"{mean} ({low} to {high}){f', p {number(one.holm, 2)}' * excludes_0}{' ★' * one.told_apart}"


@dataclass(frozen=True)
class GateTable:
    """The largest g dt that was met, run as trained."""

    layout: ComparisonLayout

    def filled(self, results: Results) -> FilledTable:
        layout, known = self.layout, cells(results, self.layout)
        lines = []
        for field in layout.fields:
            for way in layout.ways:
                found = [_over(known, field, way, way, clock, speed, "largest_g_dt", max) for clock, speed in _runs(layout)]
                lines.append([*[field] * (len(layout.fields) > 1), way, *found])
        if not any(isinstance(cell, float) for line in lines for cell in line):
            return FilledTable("")
        caption = (
            "Largest g dt that a unit met, run as trained: its rate times how long its sample lasts. A Taylor step by dt keeps "
            "1 − g dt of a state: below 0 from 1 on, and growing from 2 on; of dt = 1/n a step has an n-th of it."
        )
        head = [*["field"] * (len(layout.fields) > 1), "trained and run", *_run_heads(layout)]
        return FilledTable(caption, head, [[_cell(cell) for cell in line] for line in lines])


@dataclass(frozen=True)
class CostTable:
    """What training took, and how often each way of running calls the field."""

    layout: ComparisonLayout

    def filled(self, results: Results) -> FilledTable:
        layout, known = self.layout, cells(results, self.layout)
        lines = []
        for field in layout.fields:
            for way in layout.ways:
                took = [
                    one["seconds"]
                    for one in results.records
                    if (one["point"]["field"], one["point"]["trained"]) == (field, way) and one["diverged"] is None
                ]
                calls = [_over(known, field, None, way, clock, speed, "evaluations", _mean) for clock, speed in _runs(layout)]
                tested = [_over(known, field, None, way, clock, speed, "seconds", _mean) for clock, speed in _runs(layout)]
                whole = [value for value in tested if isinstance(value, float)]
                cost = [min(took, default=None), *calls, math.fsum(whole) if whole else None]
                lines.append([*[field] * (len(layout.fields) > 1), way, *cost])
        head = [*["field"] * (len(layout.fields) > 1), "way", "training, s", *_run_heads(layout, "calls, "), "testing, s"]
        caption = (
            "What it cost: seconds of one training, the quickest seed's, for the first may wait for kernels; calls of the field "
            "for a sample of the test (of a solve those of a whole batch, whose sequences may wait for one another); and seconds "
            "that all these tests take."
        )
        return FilledTable(caption, head, [[_cell(cell) for cell in line] for line in lines])


def _runs(layout: ComparisonLayout) -> list[tuple[bool, float | None]]:
    return [(clock, speed) for clock in layout.clocks for speed in layout.speeds or (None,)]


def _run_heads(layout: ComparisonLayout, before: str = "") -> list[str]:
    several = len(layout.clocks) > 1
    return [
        f"{before}{'as it is' if speed is None else f'c = {clock_words(speed)}'}{several * (' given' if clock else ' hidden')}"
        for clock, speed in _runs(layout)
    ]


def _over(
    known: Mapping[CrosswiseCell, Seeds],
    field: str,
    trained: str | None,
    run: str,
    clock: bool,
    speed: float | None,
    name: str,
    of: Callable[[Iterable[float]], float],
) -> float | None:
    """Return the largest, or the mean, of what was measured over seeds, and over all trainings where none is named."""
    values = [
        one[name]
        for place, seeds in known.items()
        if place == CrosswiseCell(field, trained or place.trained, run, clock, speed)
        for one in seeds.values()
        if one.get(name) is not None
    ]
    return float(of(values)) if values else None


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else cell_text(value)


def _columns(layout: ComparisonLayout) -> list[str]:
    return ["field"] * (len(layout.fields) > 1) + ["clock"] * (len(layout.clocks) > 1) + ["c"] * (len(layout.speeds) > 1)


def _beside(layout: ComparisonLayout, field: str, clock: bool, speed: float | None) -> list[str]:
    """Return the cells of the columns that a line begins with, those of which there are several values."""
    words = [field] * (len(layout.fields) > 1) + ["given" if clock else "hidden"] * (len(layout.clocks) > 1)
    return words + ([] if speed is None or len(layout.speeds) < 2 else [clock_words(speed)])


def rows_csv(results: Results) -> str:
    """Write every run of every model, a row each; a training that diverged has a row that says at which step."""
    rows = []
    for one in results.records:
        about = {"key": one["key"], **one["point"], "diverged_at_step": one["diverged"], "training_seconds": one["seconds"]}
        rows += [about | dict(row) for row in one["rows"] or [{"finite": False}]]
    return csv_text(rows)
