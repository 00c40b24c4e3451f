"""The numbers behind the figures, as lines of one CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

__all__ = ["Row", "as_csv"]


@dataclass(frozen=True)
class Row:
    """One number: in which part of the atlas, of which field and step map, at which g dt (or speed, or cost), and what it is."""

    part: str
    field: str
    step: str
    x: float
    quantity: str
    value: float
    region: str = ""


def as_csv(rows: Iterable[Row]) -> str:
    """A line of names and a line for each number; 17 digits, so that nothing is lost."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    for row in rows:
        writer.writerow([f"{value:.17g}" if isinstance(value, float) else value for value in astuple(row)])
    return out.getvalue()
