"""The numbers behind the figures, as lines of one CSV file."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

__all__ = ["as_csv", "frame"]

COLUMNS = ["part", "field", "step", "x", "quantity", "value", "region"]


def frame(
    part: str, field: object, step: object, x: object, quantity: object, value: object, region: object = ""
) -> pd.DataFrame:
    """Numbers: in which part of the atlas, of which field and step map, at which g dt (or speed, or cost), and what they are.

    Each is a column, or one for all lines.
    """
    return pd.DataFrame(dict(zip(COLUMNS, (part, field, step, x, quantity, value, region), strict=True)))


def as_csv(frames: Iterable[pd.DataFrame]) -> str:
    """A line of names and a line for each number; 17 digits, so that nothing is lost."""
    return pd.concat(frames).to_csv(index=False, float_format="%.17g", na_rep="nan", lineterminator="\n")
