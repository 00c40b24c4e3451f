"""Names columns of a table that are hardly what somebody meant to learn from: constants, signs for missing, numbers of rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from experiments.data.columns import Columns
from experiments.data.same_time import Joined
from experiments.data.scales import CONSTANT

__all__ = ["suspicious"]

SIGN = re.compile(r"-?9{2,}")  # -99, -999, 9999: written where nothing was measured


def suspicious(
    table: Columns, inputs: Sequence[str], rows: Sequence[np.ndarray], train: np.ndarray, joined: Joined
) -> Iterator[str]:
    """Yield a sentence for what is found; rows: of each sequence, in the order of time; train: those that are learned from."""
    constant, counting = [], []
    others = int((~joined.stand).sum())
    if len(rows) == 1 and others > len(joined.stand) / 2:
        yield f"{others:,} of {len(joined.stand):,} rows have the time of another one; of several sequences? Say sequence=COLUMN"
    for name in [name for name in inputs if table.is_numbers(name)]:
        values = joined.values(table.numbers(name))
        seen, taught = values[np.isfinite(values)], values[train][np.isfinite(values[train])]
        if len(taught) and np.ptp(taught) <= CONSTANT * np.abs(taught).max():
            constant.append(name)
        elif _counts(values, rows):
            counting.append(name)
        if (sign := _sign(seen)) is not None:
            count = int((seen == sign).sum())
            yield (
                f"{name} is {sign:g} in {count:,} row(s), far from all other values; if that says that nothing was measured: "
                f"missing={name}:{sign:g}"
            )
    if constant:
        yield f"{_are(constant, 'has', 'have')} one value in all rows of train, from which nothing is learned"
    if counting:
        yield f"{_are(counting, 'counts', 'count')} rows, 1 more in each; to leave that out, name what to see by inputs=..."


def _are(names: Sequence[str], one: str, several: str) -> str:
    return f"{', '.join(names)} {several if len(names) > 1 else one}"


def _counts(values: np.ndarray, rows: Sequence[np.ndarray]) -> bool:
    """Return whether values rise by 1 from row to row, of the table or of each sequence."""
    ends = np.cumsum([len(k) for k in rows])[:-1] - 1
    steps = np.delete(np.diff(values[np.concatenate(rows)]), ends)
    return len(values) > 2 and bool((np.diff(values) == 1).all() or (len(steps) > 1 and (steps == 1).all()))


def _sign(seen: np.ndarray) -> float | None:
    """Return an outermost value written with nines alone, further from the others than these are from one another."""
    for end in (seen.min(), seen.max()) if len(seen) else ():
        others = seen[seen != end]
        if len(others) and SIGN.fullmatch(f"{end:g}") and np.abs(others - end).min() > max(np.ptp(others), 1.0):
            return float(end)
    return None
