r"""Computes the mean and the deviation by which values are standardized; a deviation that rounding makes is none."""

from __future__ import annotations

import numpy as np

__all__ = ["CONSTANT", "scale", "scales_of"]

CONSTANT = 16 * np.finfo(np.float64).eps  # of the largest value; a deviation up to it is rounding


def scales_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of each column (rows, columns), by `scale`."""
    means, deviations = zip(*map(scale, values.T), strict=True)
    return np.array(means), np.array(deviations)


def scale(values: np.ndarray) -> tuple[float, float]:
    """Return mean and deviation of values, nan where missing: 0 and 1 where there are none, and 1 where all are one number."""
    if not np.isfinite(values).any():
        return 0.0, 1.0
    mean, deviation, largest = float(np.nanmean(values)), float(np.nanstd(values)), float(np.nanmax(np.abs(values)))
    return mean, deviation if deviation > CONSTANT * largest else 1.0
