"""Profile likelihoods: what it costs to hold one parameter where it is not best."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.errors import SolverWarning
from discretize.fitting.shooting import Shooting

if TYPE_CHECKING:
    from discretize.analysis.drawing import ShownFigure
    from discretize.fitting.result import Fit

__all__ = ["Profile", "profiled"]

REACH, POINTS = 4.0, 16  # standard errors to both sides, and values there
WIDER, TIMES = 2.0, 4  # by what, and how often, a range grows that does not hold the interval


@dataclass(frozen=True, eq=False)
class Profile:
    """Values of one parameter (n,), what chi2 grows by there (n,), all parameters there (n, unknowns), and the interval of
    this level: None where the values, or the bounds, end before it does."""

    name: str
    values: np.ndarray
    chi2: np.ndarray
    params: np.ndarray
    interval: tuple[float | None, float | None]
    level: float
    threshold: float
    best: float

    def plot(self, unit: str = "") -> ShownFigure:
        """Draw chi2 over the parameter, with the level; unit: of the parameter."""
        with needed_by("profile.plot"):
            from discretize.fitting.figure import drawn_profile  # noqa: PLC0415 - Matplotlib
        return drawn_profile(self, unit)


def profiled(fit: Fit, name: str, values: Sequence[float] | None, level: float) -> Profile:
    """Make the profile of `Fit.profile`."""
    from scipy.stats import chi2, f  # noqa: PLC0415 - of an extra

    checks.probability("level", level)
    names, unknowns = list(fit.params), fit.search.problem.unknowns
    at = names.index(name)
    low, high = unknowns[at].low, unknowns[at].high
    known = fit.search.noise is not None
    threshold = float(chi2.ppf(level, 1) if known else f.ppf(level, 1, fit.degrees))
    best, error = fit.params[name], fit.stderr[name]
    if values is not None:
        given = np.asarray(values, dtype=float)
        if given.ndim != 1 or not len(given) or not ((given >= low) & (given <= high)).all():
            raise ValueError(f"`values` of {name} must be numbers between its bounds, {low:g} and {high:g}, got {values}.")
        costs, found = _held(fit, at, np.sort(given))
        return _made(name, np.sort(given), costs, found, level, threshold, best)
    if error is None and not math.isfinite(high - low):
        raise ValueError(f"{name!r} has no standard error ({fit.why[name]}) and no two bounds; say at which `values`.")
    reach = [REACH * error, REACH * error] if error is not None else [best - low, high - best]
    for _ in range(TIMES):
        ends = max(low, best - reach[0]), min(high, best + reach[1])
        sides = [np.linspace(ends[0], best, POINTS + 1)[:-1], np.linspace(best, ends[1], POINTS + 1)[1:]]
        grid = np.unique(np.concatenate([side[side != best] for side in sides]))
        costs, found = _held(fit, at, grid)
        short = [side for side, k in ((0, 0), (1, -1)) if costs[k] < threshold and ends[side] not in (low, high)]
        if not short:
            break
        for side in short:
            reach[side] *= WIDER
    return _made(name, grid, costs, found, level, threshold, best)


def _held(fit: Fit, at: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much chi2 grows (values,), and all parameters (values, unknowns)."""
    search, best = fit.search, fit.optimum
    shooting = Shooting(search.problem, search.solver, best.sizes)
    trials = np.tile(best.x, (len(values), 1))
    trials[:, at] = values / best.sizes[at]
    moved = [fit.identified.index(name) if name in fit.identified else None for name in fit.params]
    if moved[at] is not None:  # where the others are best while chi2 is a parabola
        for c, k in enumerate(moved):
            if k is not None and c != at:
                slope = float(fit.covariance[k, moved[at]] / fit.covariance[moved[at], moved[at]])
                trials[:, c] += slope * (trials[:, at] - best.x[at]) * best.sizes[at] / best.sizes[c]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", SolverWarning)
        results = search.from_starts(shooting, trials, best.noise, held=at)
    costs = np.array([np.inf if result is None else 2 * result.cost - fit.chi2 for result in results])
    found = [trial if result is None else result.x for trial, result in zip(trials, results, strict=True)]
    return costs, np.stack(found) * best.sizes


def _made(
    name: str, values: np.ndarray, costs: np.ndarray, found: np.ndarray, level: float, threshold: float, best: float
) -> Profile:
    sides = [(values[values < best][::-1], costs[values < best][::-1]), (values[values > best], costs[values > best])]
    low, high = (_crossing(best, *side, threshold) for side in sides)
    return Profile(name, values, costs, found, (low, high), level, threshold, best)


def _crossing(best: float, values: np.ndarray, costs: np.ndarray, threshold: float) -> float | None:
    """Return where costs first reach the threshold, outwards from the best; their root is nearly a line there."""
    beyond = np.flatnonzero(costs >= threshold)
    if not len(beyond):
        return None
    k = int(beyond[0])
    x = [best if k == 0 else float(values[k - 1]), float(values[k])]
    root = [0.0 if k == 0 else math.sqrt(max(costs[k - 1], 0)), math.sqrt(min(costs[k], 1e300))]
    return x[0] + (x[1] - x[0]) * (math.sqrt(threshold) - root[0]) / (root[1] - root[0])
