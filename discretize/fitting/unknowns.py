"""What is fitted: numbers by name, each with a start and bounds, and its size, in which all else counts it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctrnn import checks

__all__ = ["Unknown", "as_unknown", "as_unknowns", "drawn"]


@dataclass(frozen=True)
class Unknown:
    """A number to be found between `low` and `high`, from `start` on."""

    name: str
    start: float
    low: float
    high: float

    @property
    def size(self) -> float:
        """How large it is, as far as its start and bounds tell."""
        width = self.high - self.low
        return abs(self.start) or (width / 2 if math.isfinite(width) else 0.0)


def as_unknown(name: str, given: object) -> Unknown:
    """Check one (start, low, high)."""
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise TypeError(
            f"`{name}` must be (start, low, high), got {given!r}; a known number is bound, or a constant of the data."
        )
    start = checks.finite_number(f"start of {name}", given[0])
    low, high = (-math.inf if given[1] is None else float(given[1])), (math.inf if given[2] is None else float(given[2]))
    if not low < high:
        raise ValueError(f"`{name}` needs low < high, got {low:g} and {high:g}; a known number is no parameter to fit.")
    if not low <= start <= high:
        raise ValueError(f"`{name}` starts at {start:g}, outside its bounds, {low:g} to {high:g}.")
    unknown = Unknown(name, start, low, high)
    if not unknown.size:
        raise ValueError(f"`{name}` starts at 0 and has no two bounds, so its size is not known; give both, or another start.")
    return unknown


def as_unknowns(params: object) -> dict[str, list[Unknown]]:
    """Check the parameters of `fit`; one whose start is an array is an unknown for each of its numbers, `name[0, 1]`."""
    if not isinstance(params, Mapping) or not params or not all(isinstance(name, str) for name in params):
        raise TypeError(f"`params` must be a dict, name: (start, low, high), got {params!r}.")
    return {name: _numbers(name, given) for name, given in params.items()}


def _numbers(name: str, given: Any) -> list[Unknown]:
    if not isinstance(given, tuple | list) or len(given) != 3 or not np.ndim(given[0]):
        return [as_unknown(name, given)]
    starts = np.asarray(given[0], dtype=float)
    low, high = (
        np.broadcast_to(np.asarray(fill if at is None else at, dtype=float), starts.shape)
        for at, fill in zip(given[1:], (-np.inf, np.inf), strict=True)
    )
    return [as_unknown(f"{name}{list(map(int, at))}", (starts[at], low[at], high[at])) for at in np.ndindex(starts.shape)]


def drawn(unknowns: list[Unknown], count: int, seed: int) -> np.ndarray:
    """Return starts (count, unknowns): the given one, and others that fill the bounds evenly (a Latin hypercube), on a scale of
    logarithms where both bounds are positive. What has no two bounds starts where it is said to.

    Raises:  ValueError where others are asked for, and nothing has two bounds.
    """
    from scipy.stats import qmc  # noqa: PLC0415 - of an extra

    starts, low, high = (np.array([getattr(each, name) for each in unknowns]) for name in ("start", "low", "high"))
    bounded = np.isfinite(high - low)
    if count > 1 and not bounded.any():
        raise ValueError(f"`starts`={count} are drawn between bounds, and no parameter has two; give (start, low, high).")
    shares = qmc.LatinHypercube(len(unknowns), rng=seed).random(count - 1) if count > 1 else np.empty((0, len(unknowns)))
    low, high = np.where(bounded, low, 0), np.where(bounded, high, 0)
    ratio = np.divide(high, low, out=np.ones_like(high), where=low > 0)
    others = np.where(low > 0, low * ratio**shares, low + (high - low) * shares)
    return np.concatenate([starts[None], np.where(bounded, others, starts)])
