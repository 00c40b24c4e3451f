"""Series that were measured: times, values with gaps, and numbers that are known of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks

__all__ = ["MeasuredSeries", "as_series", "of_one"]


@dataclass(frozen=True, eq=False)
class MeasuredSeries:
    """One series: ts (n,), values (n, outputs), nan where nothing was measured, and its own constants by name."""

    ts: Tensor
    values: Tensor
    constants: dict[str, float]


def of_one(data: object) -> bool:
    """Return whether the data are one series, a tuple, and not a list of several."""
    return isinstance(data, tuple)


def as_series(data: object, outputs: Sequence[str] | None) -> list[MeasuredSeries]:
    """Check the data of `fit`; outputs: the names of what is measured, None where each state is."""
    each = [data] if of_one(data) else data
    if not isinstance(each, list) or not each or not all(isinstance(one, tuple) and len(one) in (2, 3) for one in each):
        raise TypeError(
            f"`data` must be (ts, values), or a list of such tuples, each perhaps with a dict of its own constants after the "
            f"values, got {_kind(data)}."
        )
    found = [_series(one, "" if of_one(data) else f" of series {k}", outputs) for k, one in enumerate(each)]
    widths = {series.values.shape[1] for series in found}
    if len(widths) > 1:
        raise ValueError(f"Every series must have as many columns of values, got {sorted(widths)}; nan where one has none.")
    together = torch.cat([series.values for series in found])
    for k, name in enumerate(outputs or [f"column {k}" for k in range(together.shape[1])]):
        if bool(together[:, k].isnan().all()):
            raise ValueError(f"All values of {name!r} are nan; leave it out of `observe`, for a state that is never seen.")
    if any(series.constants.keys() != found[0].constants.keys() for series in found):
        raise ValueError(f"Every series must have the same constants, got {[sorted(s.constants) for s in found]}.")
    return found


def _series(given: tuple[Any, ...], whose: str, outputs: Sequence[str] | None) -> MeasuredSeries:
    ts = checks.are_times(f"ts{whose}", given[0])
    try:
        values = given[1].detach().cpu().double() if isinstance(given[1], Tensor) else torch.as_tensor(_filled(given[1]))
    except (TypeError, ValueError) as error:
        raise TypeError(f"Values{whose} must be an array of numbers (time, outputs), got {_kind(given[1])} ({error}).") from None
    values = values[:, None] if values.dim() == 1 else values
    wanted = (len(ts), values.shape[-1] if outputs is None else len(outputs))
    if tuple(values.shape) != wanted:
        names = "" if outputs is None else f", a column for each of {', '.join(map(repr, outputs))}"
        raise ValueError(
            f"Values{whose} must be {wanted}, a row for each of its {len(ts)} times{names}, got {tuple(values.shape)}."
        )
    if bool(values.isinf().any()):
        raise ValueError(f"Values{whose} must be finite, or nan where nothing was measured, got inf.")
    if len(ts) < 2:
        raise ValueError(f"`ts`{whose} is one time; give two at least, the first is that of the initial state.")
    constants = given[2] if len(given) > 2 else {}
    if not isinstance(constants, Mapping) or not all(isinstance(name, str) for name in constants):
        raise TypeError(f"Constants{whose} must be a dict of numbers by name, got {_kind(constants)}.")
    return MeasuredSeries(ts, values, {name: checks.finite_number(f"{name}{whose}", value) for name, value in constants.items()})


def _filled(values: Any) -> np.ndarray:
    """Return numbers as an array, nan where they are masked."""
    plain = np.ma.filled(values.astype(float), np.nan) if isinstance(values, np.ma.MaskedArray) else values
    return np.asarray(plain, dtype=float)


def _kind(value: object) -> str:
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__
