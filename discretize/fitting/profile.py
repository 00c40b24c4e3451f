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
from discretize.errors import SolverWarning, warn_user
from discretize.fitting.run import Optimum, StartSearch
from discretize.fitting.shooting import Shooting

if TYPE_CHECKING:
    from discretize.analysis.drawing import ShownFigure

__all__ = ["Profile", "profiled"]

REACH, POINTS = 4.0, 16  # standard errors to both sides, and values there
WIDER, TIMES = 2.0, 4  # by what, and how often, a range grows that does not hold the interval


@dataclass(frozen=True, eq=False)
class Profile:
    """Values of one parameter (n,), what chi2 grows by there (n,), inf where no search can begin, all parameters there (n,
    unknowns), and the interval of this level: None where the values, the bounds, or what can be solved end before it does."""

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
        x, y = np.append(self.values, self.best), np.append(self.chi2, 0.0)
        order = x.argsort()
        return drawn_profile(self.name, unit, x[order], y[order], self.threshold, self.level, self.interval)


def profiled(
    search: StartSearch,
    best: Optimum,
    name: str,
    error: float | None,
    along: np.ndarray,
    values: Sequence[float] | None,
    level: float,
) -> Profile:
    """Make the profile of `Fit.profile`; along: how all unknowns move with this one, in sizes, while chi2 is a parabola."""
    from scipy.stats import chi2, f  # noqa: PLC0415 - of an extra

    checks.probability("level", level)
    unknowns = search.problem.unknowns
    at = [each.name for each in unknowns].index(name)
    low, high, middle = unknowns[at].low, unknowns[at].high, float(best.x[at] * best.sizes[at])
    degrees = search.problem.count - len(unknowns)
    threshold = float(chi2.ppf(level, 1) if search.noise is not None else f.ppf(level, 1, degrees))
    if values is not None:
        grid = np.sort(np.asarray(values, dtype=float))
        if grid.ndim != 1 or not len(grid) or not ((grid >= low) & (grid <= high)).all():
            raise ValueError(f"`values` of {name} must be numbers between its bounds, {low:g} and {high:g}, got {values}.")
        costs, found, unended = _held(search, best, at, along, grid)
        _say_unended(unended, len(grid), search)
        return _made(name, grid, costs, found, level, threshold, middle)
    if error is None and not math.isfinite(high - low):
        raise ValueError(f"{name!r} has no standard error and no two bounds; say at which `values`.")
    reach = [REACH * error, REACH * error] if error is not None else [middle - low, high - middle]
    for _ in range(TIMES):
        ends = max(low, middle - reach[0]), min(high, middle + reach[1])
        sides = [np.linspace(ends[0], middle, POINTS + 1), np.linspace(middle, ends[1], POINTS + 1)]
        grid = np.unique(np.concatenate(sides))
        grid = grid[grid != middle]
        costs, found, unended = _held(search, best, at, along, grid)
        short = [side for side, k in ((0, 0), (1, -1)) if costs[k] < threshold and ends[side] not in (low, high)]
        if not short:
            break
        for side in short:
            reach[side] *= WIDER
    _say_unended(unended, len(grid), search)
    return _made(name, grid, costs, found, level, threshold, middle)


def _say_unended(unended: int, count: int, search: StartSearch) -> None:
    if unended:
        warn_user(
            f"{unended} of {count} searches of this profile have not ended: chi2 may be less there, and the interval longer; "
            f"raise `max_nfev` of the fit, now {search.max_nfev}.",
            SolverWarning,
        )


def _held(
    search: StartSearch, best: Optimum, at: int, along: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return by how much chi2 grows (values,), all parameters (values, unknowns), and how many searches have not ended."""
    shooting = Shooting(search.problem, search.solver, best.sizes)
    trials = best.x + along * (values / best.sizes[at] - best.x[at])[:, None]
    trials[:, at] = values / best.sizes[at]
    bounds = np.array([[each.low, each.high] for each in search.problem.unknowns]).T / best.sizes
    trials = np.clip(trials, *bounds)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", SolverWarning)
        results = search.from_starts(shooting, trials, best.noise, held=at)
    costs = np.array([np.inf if result is None else 2 * result.cost - np.square(best.residuals).sum() for result in results])
    found = [trial if result is None else result.x for trial, result in zip(trials, results, strict=True)]
    unended = sum(result is not None and getattr(result, "status", 1) == 0 for result in results)
    return costs, np.stack(found) * best.sizes, unended


def _made(
    name: str, values: np.ndarray, costs: np.ndarray, found: np.ndarray, level: float, threshold: float, best: float
) -> Profile:
    sides = [(values[values < best][::-1], costs[values < best][::-1]), (values[values > best], costs[values > best])]
    low, high = (_crossing(best, *side, threshold) for side in sides)
    return Profile(name, values, costs, found, (low, high), level, threshold, best)


def _crossing(best: float, values: np.ndarray, costs: np.ndarray, threshold: float) -> float | None:
    """Return where costs first reach the threshold, outwards from the best; their root is nearly a line there. None where they
    do not, or are not known before."""
    beyond = np.flatnonzero(costs >= threshold)
    if not len(beyond) or math.isinf(costs[beyond[0]]):
        return None
    k = int(beyond[0])
    x = [best if k == 0 else float(values[k - 1]), float(values[k])]
    root = [0.0 if k == 0 else math.sqrt(max(costs[k - 1], 0)), math.sqrt(costs[k])]
    return x[0] + (x[1] - x[0]) * (math.sqrt(threshold) - root[0]) / (root[1] - root[0])
