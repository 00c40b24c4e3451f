r"""Compares the runs of a sweep by their best evaluation on held-out sequences, or, if none was due, by the test.

DIR/runs.csv      a row a run: folder, the settings that differ, steps, seconds, held-out and test measures
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.files import ready_folder, write_files
from experiments.reports.spreads import difference, spread
from experiments.runs.configuration import Configuration
from experiments.runs.folder import read_result
from experiments.runs.loop import sign_of
from experiments.settings import words_of

__all__ = ["compared"]


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
    lines, alike = [["settings", "runs", *shown, "behind the best by, 95 %"]], []
    for group in order:
        measured = [str(spread(_finite(row.get(name)) for row in groups[group])) for name in shown]
        behind = difference(numbers[group], numbers[order[0]])
        known = math.isfinite(behind.low) and group != order[0]
        lines.append([group or "all", str(len(groups[group])), *measured, str(replace(behind, count=2)) if known else ""])
        if group != order[0] and not (behind.low > 0 or behind.high < 0):
            alike.append(group)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    said = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    if len(done) < len(rows):
        said.append(f"{len(rows) - len(done)} of {len(rows)} runs are not finished, and not in the table.")
    if len(order) > 1 and max(map(len, groups.values())) < 2:
        said.append("With one run of each, what is ahead may be so by chance: --set seed=0,1,2 tells.")
    elif len(order) > 1:
        said.append(f"Not told apart from the best by these seeds: {'; '.join(alike) or 'none'}.")
    return "\n".join(said)


def _finite(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
