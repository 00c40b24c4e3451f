r"""The page of a comparison: the tables of its parts, and where it was measured.

    ctrnn bench --scale full --out speed.json
    python -m experiments.bench.output.page speed.json

puts them into a page: a table stands between <!-- bench: cells --> and <!-- end -->, by the name of its part; "machine" is where
it was measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import tyro

from ctrnn.storage.files import write_atomically
from experiments.bench.declared import PARTS
from experiments.bench.rows import data_frame
from experiments.reports.marked import fill, names

__all__ = ["PAGE", "document", "filled", "machine", "part_of"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "speed.md"


def document(record: Mapping[str, Any]) -> str:
    """Write the tables of every part that was measured, and the machine."""
    rows = data_frame(record["rows"])
    parts = [f"## {PARTS[part].title}\n\n{text}" for part in PARTS if (text := part_of(rows, part))]
    return "\n\n".join([*parts, f"## Where\n\n{machine(record)}"]) + "\n"


def part_of(rows: pd.DataFrame, part: str) -> str:
    """Write the tables of one part; empty if it was not measured."""
    return "\n\n".join(PARTS[part].tables(rows[rows["part"] == part]))


def machine(record: Mapping[str, Any]) -> str:
    """Write the command, where it ran, and what was left out."""
    lines = [f"`{record['command']}`", ""]
    lines += [f"- {key}: {value}" for key, value in record["machine"].items()]
    lines += [f"- {key}: {record[key]}" for key in ("scale", "repeats")]
    lines.append(f"- seconds: {', '.join(f'{part} {seconds:.0f}' for part, seconds in record['seconds'].items())}")
    lines += [f"- left out: {name}: {why}" for name, why in record["skipped"]]
    return "\n".join(lines)


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
