"""Put the tables of a comparison into a page, between their markers.

    ctrnn bench --scale full --out speed.json
    python -m experiments.bench.output.page speed.json

A table stands between <!-- bench: cells --> and <!-- end -->, by the name of its part; "machine" is where it was measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import tyro

from ctrnn.storage.files import write_atomically
from experiments.bench.output.tables import PARTS, machine, part_of
from experiments.bench.rows import data_frame
from experiments.reports.marked import fill, names

__all__ = ["PAGE", "filled"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "speed.md"


def filled(page: str, record: dict[str, Any]) -> str:
    """The page with every table put in. Raises: ValueError for a marker that names no part."""
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
