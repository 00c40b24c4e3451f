r"""Compares the runs of a sweep by their best evaluation on held-out sequences, or, if none was due, by the test.

DIR/runs.csv      a row a run: folder, the settings that differ, steps, seconds, held-out and test measures
told apart        Holm's p is below 0.05: that of Welch's t test, times how many are left of all pairs of settings

All pairs count, as the best is chosen by the same numbers. Of 20 settings that are equal some are behind the best by 95 %
intervals in two sweeps of three.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.files import ready_folder, write_files
from experiments.reports.spreads import difference, holm, spread
from experiments.runs.configuration import Configuration
from experiments.runs.folder import read_result
from experiments.runs.loop import sign_of
from experiments.settings import words_of

__all__ = ["behind_the_first", "compared"]

LEVEL = 0.05


def compared(folder: Path, runs: Sequence[tuple[str, Configuration]], keys: Sequence[str]) -> str:
    r"""Write DIR/runs.csv, and return a table of the settings, best first, and what is told apart.

    Args:    runs: the name of each one's folder in DIR, and its configuration; keys: of the settings that differ.
    Raises:  UsageError for a folder that cannot be written.
    """
    rows = [_row(folder, name, configuration, keys) for name, configuration in runs]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    ready_folder(folder)  # where no run began it is not there
    write_files(folder, {"runs.csv": text.getvalue()})
    return _in_words(rows, [key for key in keys if key != "seed"], runs[0][1].training.keep_by)


def _row(folder: Path, name: str, configuration: Configuration, keys: Sequence[str]) -> dict[str, object]:
    given, result = configuration.settings(), read_result(folder / name)
    row: dict[str, object] = {"folder": name, **{key: words_of(given[key]) for key in keys}}
    if result is None:
        return row
    best = {f"held-out {key}": value for key, value in (result.get("best") or {}).items() if key != "step"}
    test = {f"test {key}": value for key, value in result["measures"].items()}
    return row | {"steps": result["steps"], "seconds": result["seconds"]} | best | test


def _in_words(rows: Sequence[dict[str, object]], keys: Sequence[str], keep_by: str) -> str:
    done = [row for row in rows if "seconds" in row]  # not "steps", which may be a setting that differs
    by = f"held-out {keep_by}" if all(f"held-out {keep_by}" in row for row in done) else f"test {keep_by}"
    groups: dict[str, list[dict[str, object]]] = {}
    for row in done:
        groups.setdefault(" ".join(f"{key}={words_of(row[key])}" for key in keys), []).append(row)
    sign = sign_of(keep_by)
    numbers = {group: [_finite(row[by]) for row in found] for group, found in groups.items()}
    means = {group: sign * math.fsum(found) / len(found) for group, found in numbers.items()}
    order = sorted(groups, key=lambda group: (math.isnan(means[group]), means[group]))  # what is no number is behind all others
    shown = list(dict.fromkeys([by, *(name for row in done for name in row if name.startswith("test "))]))
    lines = [["settings", "runs", *shown, "behind the best by, 95 %"]]
    for group in order:
        measured = [str(spread(_finite(row.get(name)) for row in groups[group])) for name in shown]
        behind = difference(numbers[group], numbers[order[0]])
        known = math.isfinite(behind.low) and group != order[0]
        lines.append([group or "all", str(len(groups[group])), *measured, str(replace(behind, count=2)) if known else ""])
    tests = zip(order[1:], behind_the_first([numbers[group] for group in order]), strict=True)
    alike = [group for group, p in tests if not p < LEVEL]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    said = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    if len(done) < len(rows):
        said.append(f"{len(rows) - len(done)} of {len(rows)} runs are not finished, and not in the table.")
    if len(order) > 1 and max(map(len, groups.values())) < 2:
        said.append("With one run of each, what is ahead may be so by chance: --set seed=0,1,2 tells.")
    elif len(order) > 1:
        pairs = f", with all {math.comb(len(order), 2)} pairs in view" if len(order) > 2 else ""
        said.append(f"Not told apart from the best by these seeds{pairs}: {'; '.join(alike) or 'none'}.")
    return "\n".join(said)


def behind_the_first(numbers: Sequence[Sequence[float]]) -> list[float]:
    """Test each after the first against it, by Welch's t: p by Holm, with all pairs in view; nan where there is no test."""
    from scipy.stats import ttest_ind_from_stats  # noqa: PLC0415

    counts = np.array([len(each) for each in numbers])
    means = np.array([np.mean(each) for each in numbers])
    widths = np.array([math.nan if len(each) < 2 else np.std(each, ddof=1) * (len({*each}) > 1) for each in numbers])
    a, b = np.triu_indices(len(numbers), 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # runs that are all alike have no test
        found = ttest_ind_from_stats(means[a], widths[a], counts[a], means[b], widths[b], counts[b], equal_var=False)
    return holm(np.where(widths[a] + widths[b] > 0, found.pvalue, math.nan).tolist())[: len(numbers) - 1]


def _finite(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
