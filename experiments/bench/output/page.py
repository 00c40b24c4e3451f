r"""Markdown tables of a comparison, from its rows: a function for each part, and where it was measured.

    ctrnn bench --scale full --out speed.json
    python -m experiments.bench.output.page speed.json

puts them into a page: a table stands between <!-- bench: cells --> and <!-- end -->, by the name of its part; "machine" is where
it was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import tyro

from ctrnn.storage.files import write_atomically
from experiments.bench.parts.cells import BY_DEFAULT, COUNTERPARTS, LOOP
from experiments.bench.parts.growth import exponent, sweeps
from experiments.bench.rows import BACKWARD, WORKS, data_frame, medians, quartiles, ratio
from experiments.bench.session import ENGINES
from experiments.reports.marked import fill, names
from experiments.reports.spreads import markdown

__all__ = ["PAGE", "PARTS", "document", "filled", "machine", "part_of"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "speed.md"
NONE = "–"
LOOPED = " in a loop"
Values = Sequence[float | None]


def document(record: Mapping[str, Any]) -> str:
    """Write the tables of every part that was measured, and the machine."""
    rows = data_frame(record["rows"])
    parts = [f"## {title}\n\n{text}" for part, (title, _) in PARTS.items() if (text := part_of(rows, part))]
    return "\n\n".join([*parts, f"## Where\n\n{machine(record)}"]) + "\n"


def part_of(rows: pd.DataFrame, part: str) -> str:
    """Write the tables of one part; empty if it was not measured."""
    return "\n\n".join(PARTS[part][1](rows[rows["part"] == part]))


def machine(record: Mapping[str, Any]) -> str:
    """Write the command, where it ran, and what was left out."""
    lines = [f"`{record['command']}`", ""]
    lines += [f"- {key}: {value}" for key, value in record["machine"].items()]
    lines += [f"- {key}: {record[key]}" for key in ("scale", "repeats")]
    lines.append(f"- seconds: {', '.join(f'{part} {seconds:.0f}' for part, seconds in record['seconds'].items())}")
    lines += [f"- left out: {name}: {why}" for name, why in record["skipped"]]
    return "\n".join(lines)


def _cells(rows: pd.DataFrame) -> Iterator[str]:
    """A table for each of the sizes and works: fields by engine, as ratios to torch.nn.GRU (or milliseconds, without it)."""
    for (sizes, work), same in rows.groupby(["problem", "work"], sort=False):
        values = dict(zip(same["candidate"], same["values"], strict=True))
        gru = values.get("torch.nn.GRU")
        if gru is None:
            unit = "milliseconds"
            shown = {name: f"{1000 * _median(own):.3g}" for name, own in values.items()}
        else:
            unit = f"times torch.nn.GRU; torch.nn.GRU takes {_took(gru)}"
            shown = {name: _ratio(own, gru) for name, own in values.items()}
        endings = tuple(f", {engine}" for engine in (*ENGINES, BY_DEFAULT))
        names = dict.fromkeys(name.rpartition(", ")[0] for name in values if name.endswith(endings))
        columns = {name: [f"torch.nn.{COUNTERPARTS.get(name)}", *(name + ending for ending in endings)] for name in names}
        lines = [[name, *(shown.get(column, NONE) for column in columns[name])] for name in names]
        if LOOP in values:
            lines.append(["torch.nn.GRUCell in a loop", NONE, NONE, shown[LOOP], NONE])
        for name, kind in COUNTERPARTS.items():
            if kind != "GRU" and (theirs := values.get(f"torch.nn.{kind}")) is not None:
                beside = [_ratio(values.get(name + ending), theirs) for ending in endings]
                lines.append([f"{name}, times torch.nn.{kind}", "1", *beside])
        header = ["cell", "torch.nn", "compiled", "step by step", "by default, at first"]
        yield _table(f"**{sizes}, {work}**, {unit}", header, lines)


def _beside_the_first(what: str, rows: pd.DataFrame) -> Iterator[str]:
    """A line for each candidate and size: seconds, and ratios to the first."""
    if rows.empty:
        return
    lines = []
    for problem, same in rows.groupby("problem", sort=False):
        first = same.drop_duplicates("work").set_index("work")["values"]
        for name, own in same.groupby("candidate", sort=False):
            at, line = own.set_index("work")["values"], [problem, str(name)]
            for work in WORKS:
                line += [_took(at[work]), _ratio(at[work], first[work])]
            lines.append(line)
    yield markdown(["sizes", what, "forward", "ratio", "with backward", "ratio"], lines)


def _beside_the_cheapest(rows: pd.DataFrame) -> Iterator[str]:
    """A line for each door and size: the median, the largest, and the ratio to the door that is the cheapest."""
    if rows.empty:
        return
    lines = []
    for problem, same in rows.groupby("problem", sort=False):
        at = {work: own.set_index("candidate")["values"] for work, own in same.groupby("work", sort=False)}
        cheapest = {work: min(own, key=_median) for work, own in at.items()}
        for name in dict.fromkeys(same["candidate"]):
            line = [problem, str(name)]
            for work in WORKS:
                own = at[work][name]
                line += [_seconds(_median(own)), _seconds(max(filter(None, own))), _ratio(own, cheapest[work])]
            lines.append(line)
    works = ["forward", "largest", "ratio", "with backward", "largest", "ratio"]
    yield markdown(["sizes", "door", *works], lines)


def _live(rows: pd.DataFrame) -> Iterator[str]:
    """A line for each candidate: microseconds of a step, with quartiles, and the ratio to torch's cell."""
    if rows.empty:
        return
    lines = []
    for problem, same in rows.groupby("problem", sort=False):
        at = dict(zip(same["candidate"], same["values"], strict=True))
        for name, beside in zip(same["candidate"], same["beside"], strict=True):
            low, median, high, _, most = quartiles(at[name]) or (math.nan,) * 5
            took = f"{1e6 * median:.1f} ({1e6 * low:.1f}–{1e6 * high:.1f}; {1e6 * most:.1f})"
            lines.append([problem, str(name), took, _ratio(at[name], at[beside]) if beside in at else NONE])
    yield markdown(["sizes", "step", "µs", "times torch's cell"], lines)


def _ensembles(rows: pd.DataFrame) -> Iterator[str]:
    """A line for each field and size: seconds in a loop and in one call, and the ratio; beside torch's in a loop."""
    if rows.empty:
        return
    lines = []
    for (problem, work), same in rows.groupby(["problem", "work"], sort=False):
        values = dict(zip(same["candidate"], same["values"], strict=True))
        for name, loop in values.items():
            if name.endswith(LOOPED):
                own = values.get(name.removesuffix(LOOPED) + " in one call")
                called = [NONE, NONE] if own is None else [_took(own), _ratio(loop, own)]
                lines.append([problem, work, name.removesuffix(LOOPED), _took(loop), *called])
    yield markdown(["sizes", "work", "network", "a loop", "one call", "times faster"], lines)


def _solves(rows: pd.DataFrame) -> Iterator[str]:
    """A line for each candidate: its tolerance, error and evaluations, seconds, and ratios to the first candidate."""
    header = ["candidate", "tolerance", "error", "evaluations"]
    header += ["forward, s", "ratio", "with backward, s", "ratio", "to compile, s"]
    for problem, same in rows.groupby("problem", sort=False):
        lines, first = [], same.drop_duplicates("work").set_index("work")
        for name, own in same.groupby("candidate", sort=False):
            facts, at = own.iloc[0], own.set_index("work")
            line = [str(name), f"{facts['tolerance']:.0e}", f"{facts['error']:.1e}", f"{facts['evaluations']:,.0f}"]
            for work in WORKS:
                line += [_number(at["median"].get(work)), _ratio(at["values"].get(work), first["values"].get(work))]
            lines.append([*line, f"{facts['compile_seconds']:.1f}" if facts["compile_seconds"] else NONE])
        yield _table(f"**{problem}**", header, lines)


def _growth(rows: pd.DataFrame) -> Iterator[str]:
    """A table for each sweep: seconds at each point, and the exponent."""
    bases = dict(zip(rows["sweep"], rows["base"], strict=True)) if len(rows) else {}
    for sweep, seconds in sweeps(rows).items():
        header = [f"{sweep.rpartition(' ')[2]}, seconds", *(f"{x:g}" for x in seconds.columns), "exponent"]
        lines = [[str(name), *map(_number, own), _number(exponent(own), ".2f")] for name, own in seconds.iterrows()]
        yield _table(f"**{_capital(sweep)}**, {BACKWARD}, else {bases[sweep]}", header, lines)


def _stiff(rows: pd.DataFrame) -> Iterator[str]:
    """Seconds in the three batches, and the ratio of those with the stiff sample to those without."""
    header = ["candidate", "error", "without it, s", "with it, s", "it alone, s", "with / without"]
    for (problem, work), same in rows.groupby(["problem", "work"], sort=False):
        lines = []
        for name, own in same.groupby("candidate", sort=False):
            at = own.set_index("variant")
            seconds = [_number(at["median"][variant]) for variant in ("without", "with", "alone")]
            change = _ratio(at["values"]["with"], at["values"]["without"])
            lines.append([str(name), f"{at['error']['with']:.1e}", *seconds, change])
        yield _table(f"**{_capital(problem)}, {work}**", header, lines)


def _memory(rows: pd.DataFrame) -> Iterator[str]:
    """Megabytes over the length, a table for cells and one for solves."""
    if rows.empty:
        return
    for kind, same in rows.groupby("kind", sort=False):
        sizes = same["problem"].iloc[0].split(", ", 2)[2]  # after the kind and the length
        megabytes = medians(same, "x") / 1e6
        lines = [[str(name), *(_number(value, ",.3g") for value in own)] for name, own in megabytes.iterrows()]
        yield _table(f"**{str(kind).capitalize()}s**, {sizes}, MB", ["T", *(f"{x:,.0f}" for x in megabytes.columns)], lines)


def _first_use(rows: pd.DataFrame) -> Iterator[str]:
    """Seconds of imports and of first calls."""
    for problem, same in rows.groupby("problem", sort=False):
        engines = sorted(same["engine"].dropna().unique()) if "engine" in same else []
        by = f", by {' and '.join(engines)}" if engines else ""
        lines = [[row["candidate"], _seconds(row["median"]), _spread(row["values"])] for row in same.to_dict("records")]
        yield _table(f"**{_capital(problem)}**{by}", ["what", "time", "quartiles"], lines)


def _table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return f"{title}\n\n{markdown(header, lines)}"


def _capital(text: Any) -> str:
    return text[0].upper() + text[1:]


def _median(values: Values) -> float:
    found = quartiles(values)
    return found.median if found else float("nan")


def _number(value: float | None, form: str = ".3g") -> str:
    return NONE if pd.isna(value) else f"{value:{form}}"


def _ratio(values: Values | None, reference: Values | None) -> str:
    """The median of the ratios, and the quartiles and the largest where they differ."""
    found = None if values is None or reference is None else ratio(values, reference)
    if found is None:
        return NONE
    low, middle, high, most = map(_short, (*found[:3], found.most))
    return middle if low == most else f"{middle} ({low}–{high}; {most})"


def _short(value: float) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _took(values: Values) -> str:
    """The median, and the largest where it differs."""
    found = quartiles(values)
    if found is None:
        return NONE
    middle, most = map(_seconds, (found.median, found.most))
    return middle if middle == most else f"{middle} (at most {most})"


def _spread(values: Values) -> str:
    found = quartiles(values)
    return f"{_seconds(found.low)} – {_seconds(found.high)}" if found and found.rounds > 1 else NONE


PARTS: dict[str, tuple[str, Callable[[pd.DataFrame], Iterator[str]]]] = {
    "cells": ("Discrete cells", _cells),
    "tutorial": ("The network of a tutorial", partial(_beside_the_first, "candidate")),
    "doors": ("The same run by every door", _beside_the_cheapest),
    "drop-in": ("Programs of torchdiffeq's users", partial(_beside_the_first, "module")),
    "live": ("One sample at a time", _live),
    "layers": ("Layers, in both directions, packed", partial(_beside_the_first, "module")),
    "ensembles": ("Many networks", _ensembles),
    "noise": ("Noise", partial(_beside_the_first, "candidate")),
    "solves": ("Exact solves", _solves),
    "starts": ("One equation from many starts", _solves),
    "delays": ("A network with a delay", _solves),
    "growth": ("How cost grows", _growth),
    "stiff": ("One stiff sample", _stiff),
    "memory": ("Peak memory", _memory),
    "first use": ("First use", _first_use),
}


def filled(page: str, record: dict[str, Any]) -> str:
    """Put every table into the page. Raises: ValueError for a marker that names no part."""
    rows = data_frame(record["rows"])
    texts = {"machine": machine(record)} | {part: part_of(rows, part) or "Not measured." for part in PARTS}
    wanted = names(page, "bench")
    if unknown := [name for name in wanted if name not in texts]:
        raise ValueError(f"there is no part {unknown[0]!r} to put into the page; there is machine, {', '.join(PARTS)}.")
    return fill(page, "bench", {name: texts[name] for name in wanted})


def main(run: tyro.conf.Positional[Path], page: Annotated[Path, tyro.conf.arg(metavar="FILE")] = PAGE) -> None:
    """Put the tables of a run, a .json of `ctrnn bench`, into a page."""
    record = json.loads(run.read_text(encoding="utf-8"))
    write_atomically(page, filled(page.read_text(encoding="utf-8"), record))


if __name__ == "__main__":
    tyro.cli(main)
