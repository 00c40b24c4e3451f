"""What was measured, in Markdown, from the rows alone: one function a part, and all of them with where it was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.bench.cells import COUNTERPARTS
from experiments.bench.growth import exponent, sweeps
from experiments.bench.interleaved import Ratio
from experiments.bench.rows import BACKWARD, FORWARD, Row, find, from_json, grouped

__all__ = ["PARTS", "document", "machine", "part_of"]

WORKS = (FORWARD, BACKWARD)
NONE = "–"
COLUMNS = ("compiled", "torch", "steps")
LOOP = "loop over torch.nn.GRUCell"


def document(record: Mapping[str, Any]) -> str:
    """Every part that was measured, and the machine."""
    rows = from_json(record["rows"])
    parts = [f"## {title}\n\n{part_of(rows, part)}" for part, (title, _) in PARTS.items() if part_of(rows, part)]
    return "\n\n".join([*parts, f"## Where\n\n{machine(record)}"]) + "\n"


def part_of(rows: Sequence[Row], part: str) -> str:
    """The tables of one part; nothing if it was not measured."""
    mine = [row for row in rows if row.part == part]
    return "\n\n".join(PARTS[part][1](mine)) if mine else ""


def machine(record: Mapping[str, Any]) -> str:
    """The command, where it ran, and what was left out."""
    lines = [f"`{record['command']}`", ""]
    lines += [f"- {key}: {value}" for key, value in record["machine"].items()]
    lines += [f"- {key}: {record[key]}" for key in ("scale", "repeats")]
    lines.append(f"- seconds: {', '.join(f'{part} {seconds:.0f}' for part, seconds in record['seconds'].items())}")
    lines += [f"- left out: {name}: {why}" for name, why in record["skipped"]]
    return "\n".join(lines)


def _cells(rows: Sequence[Row]) -> list[str]:
    """A table for each of the sizes and works: fields by engine, as ratios to torch.nn.GRU (or milliseconds, without it)."""
    found = []
    for sizes, same in grouped(rows, "problem").items():
        for work in WORKS:
            base = find(same, work=work, candidate="torch.nn.GRU")
            gru = f"; torch.nn.GRU takes {_seconds(base.median)}" if base else ""
            unit = "times torch.nn.GRU" if base else "milliseconds"

            def cell(name: str, work: str = work, same: list[Row] = same, base: Row | None = base) -> str:
                row = find(same, work=work, candidate=name)
                if row is None:
                    return NONE
                return _ratio(row.over(base)) if base else f"{1000 * row.median:.3g}"

            lines = []
            for name in _field_names(same):
                lines.append([name, cell(f"torch.nn.{COUNTERPARTS.get(name)}"), *(cell(f"{name}, {e}") for e in COLUMNS)])
            if find(same, candidate=LOOP):
                lines.append(["torch.nn.GRUCell in a loop", NONE, NONE, NONE, cell(LOOP)])
            if (theirs := find(same, work=work, candidate="torch.nn.LSTM")) is not None:
                own = [find(same, work=work, candidate=f"LSTM, {engine}") for engine in COLUMNS]
                lines.append(["LSTM, times torch.nn.LSTM", "1", *(_ratio(row.over(theirs)) if row else NONE for row in own)])
            header = ["cell", "torch.nn", "compiled", "plain torch", "step by step"]
            found.append(f"**{sizes}, {work}**, {unit}{gru}\n\n{_table(header, lines)}")
    return found


def _field_names(rows: Sequence[Row]) -> list[str]:
    names = [row.candidate.rpartition(", ")[0] for row in rows if row.candidate.endswith(tuple(f", {e}" for e in COLUMNS))]
    return list(dict.fromkeys(names))


def _solves(rows: Sequence[Row]) -> list[str]:
    """A line for each candidate: what it needed to get there, seconds, and how many times those of the first line."""
    found = []
    for problem, same in grouped(rows, "problem").items():
        lines = []
        for name, own in grouped(same, "candidate").items():
            facts = own[0].facts
            line = [name, f"{facts['tolerance']:.0e}", f"{facts['error']:.1e}", f"{facts['evaluations']:,}"]
            for work in WORKS:
                row, first = find(own, work=work), find(same, work=work)
                line += [f"{row.median:.3g}", _ratio(row.over(first))] if row and first else [NONE, NONE]
            lines.append([*line, f"{facts['compile_seconds']:.1f}" if facts["compile_seconds"] else NONE])
        header = ["candidate", "tolerance", "error", "evaluations"]
        header += ["forward, s", "ratio", "with backward, s", "ratio", "to compile, s"]
        found.append(f"**{problem}**\n\n{_table(header, lines)}")
    return found


def _growth(rows: Sequence[Row]) -> list[str]:
    """A table for each sweep: seconds at each point, and the exponent."""
    bases = {row.facts["sweep"]: row.facts["base"] for row in rows}
    found = []
    for sweep, lines in sweeps(rows).items():
        xs = sorted({x for points in lines.values() for x, _ in points})
        table = []
        for name, points in lines.items():
            p, at = exponent(points), dict(points)
            table.append([name, *(f"{at[x]:.3g}" if x in at else NONE for x in xs), NONE if p is None else f"{p:.2f}"])
        header = [f"{sweep.rpartition(' ')[2]}, seconds", *(f"{x:g}" for x in xs), "exponent"]
        found.append(f"**{sweep[0].upper()}{sweep[1:]}**, {BACKWARD}, else {bases[sweep]}\n\n{_table(header, table)}")
    return found


def _stiff(rows: Sequence[Row]) -> list[str]:
    """Seconds in the three batches, and what the stiff sample multiplies them by."""
    found = []
    for problem, same in grouped(rows, "problem").items():
        for work in WORKS:
            lines = []
            for name, own in grouped([row for row in same if row.work == work], "candidate").items():
                at = {row.facts["variant"]: row for row in own}
                seconds = [f"{at[variant].median:.3g}" for variant in ("without", "with", "alone")]
                facts = at["with"].facts
                lines.append([name, f"{facts['error']:.1e}", *seconds, _ratio(at["with"].over(at["without"]))])
            header = ["candidate", "error", "without it, s", "with it, s", "it alone, s", "with / without"]
            found.append(f"**{problem[0].upper()}{problem[1:]}, {work}**\n\n{_table(header, lines)}")
    return found


def _memory(rows: Sequence[Row]) -> list[str]:
    """Megabytes over the length, a table for cells and one for solves."""
    found = []
    for kind in dict.fromkeys(row.facts["kind"] for row in rows):
        mine = [row for row in rows if row.facts["kind"] == kind]
        xs = sorted({row.facts["x"] for row in mine})
        lines = []
        for name, own in grouped(mine, "candidate").items():
            at = {row.facts["x"]: row.median / 1e6 for row in own}
            lines.append([name, *(f"{at[x]:,.3g}" if x in at else NONE for x in xs)])
        sizes = mine[0].problem.partition(", ")[2].partition(", ")[2]
        found.append(f"**{kind.capitalize()}s**, {sizes}, MB\n\n{_table(['T', *(f'{x:,}' for x in xs)], lines)}")
    return found


def _first_use(rows: Sequence[Row]) -> list[str]:
    found = []
    for problem, same in grouped(rows, "problem").items():
        engines = {row.facts["engine"] for row in same if "engine" in row.facts}
        by = f", by {' and '.join(sorted(engines))}" if engines else ""
        lines = [[row.candidate, _seconds(row.median), _spread(row)] for row in same]
        found.append(f"**{problem[0].upper()}{problem[1:]}**{by}\n\n{_table(['what', 'time', 'quartiles'], lines)}")
    return found


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ratio(ratio: Ratio | None) -> str:
    """The median, and the quartiles where there are some."""
    if ratio is None:
        return NONE
    middle, low, high = (_short(value) for value in (ratio.median, ratio.low, ratio.high))
    return middle if low == high else f"{middle} ({low}–{high})"


def _short(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _spread(row: Row) -> str:
    values = [value for value in row.values if value is not None]
    if len(values) < 2:
        return NONE
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{_seconds(low)} – {_seconds(high)}"


PARTS: dict[str, tuple[str, Callable[[Sequence[Row]], list[str]]]] = {
    "cells": ("Discrete cells", _cells),
    "solves": ("Exact solves", _solves),
    "growth": ("How cost grows", _growth),
    "stiff": ("One stiff sample", _stiff),
    "memory": ("Peak memory", _memory),
    "first use": ("First use", _first_use),
}
