r"""Draws patients anew, to say how far the AUROC of a model, or the difference between two, may be by chance.

    AUROC    sum of w_i w_j K_ij over i who died and j who did not, by the sum of w_i w_j     K: 1, a half in a tie, or 0
    w        how often a patient is drawn: within each fold, with replacement, those who died and the others apart

The weights are a function of the fold, so that two models that were tested on it are compared on the same draws. A model that is
trained again has another AUROC, too: noise of the deviation over seeds, by the root of their number, is added to each draw. What
an interval does not hold is another choice of patients to train on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from experiments.reports.spreads import NotEnoughError, Spread

__all__ = ["ByFold", "auroc_drawn", "difference_drawn", "fold_differences", "mean_drawn", "seed_deviation"]

DRAWS = 2000
INTERVAL = (0.025, 0.975)
ByFold = Mapping[int, np.ndarray]  # fold -> AUROCs (seeds, 1 + draws), the first of them of the patients as they are


@functools.lru_cache(32)
def _weights(fold: int, ones: int, zeros: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw how often each patient counts, of those who died (1 + draws, ones) and the others (1 + draws, zeros)."""
    draw = np.random.default_rng(fold)
    drawn = [draw.multinomial(count, np.full(count, 1 / count), size=draws) for count in (ones, zeros)]
    died, lived = (np.vstack([np.ones(some.shape[1]), some]).astype(np.float32) for some in drawn)
    return died, lived


def auroc_drawn(ranks: Sequence[float], died: Sequence[int], fold: int, draws: int = DRAWS) -> np.ndarray:
    """Compute the AUROC of the patients of a fold as they are, and of each draw: (1 + draws,).

    Args:    ranks: of the scores, one a patient; died: the places of those who died.
    Raises:  NotEnoughError where all died, or nobody.
    """
    values, mask = np.asarray(ranks), np.zeros(len(ranks), bool)
    mask[list(died)] = True
    ones, zeros = values[mask], values[~mask]
    if not len(ones) or not len(zeros):
        raise NotEnoughError("an AUROC needs patients who died and patients who did not")
    above = ((ones[:, None] > zeros) + (ones[:, None] == zeros) / 2).astype(np.float32)
    of_ones, of_zeros = _weights(fold, len(ones), len(zeros), draws)
    pairs: np.ndarray = ((of_ones @ above) * of_zeros).sum(1, dtype=np.float64) / (len(ones) * len(zeros))
    return pairs


def seed_deviation(models: Iterable[ByFold]) -> float:
    """Compute the standard deviation over seeds within a fold, pooled over models and folds; nan where none has two seeds."""
    several = [values[:, 0] for folds in models for values in folds.values() if len(values) > 1]
    squares, freedom = sum(found.var() * len(found) for found in several), sum(len(found) - 1 for found in several)
    return math.sqrt(squares / freedom) if freedom else math.nan


def mean_drawn(folds: ByFold, deviation: float = 0.0) -> Spread:
    """Take the mean over folds and seeds, with its 95 % interval. `deviation` as for `difference_drawn`."""
    return _interval([(folds[fold].mean(0), 1 / len(folds[fold])) for fold in sorted(folds)], deviation)


def difference_drawn(ours: ByFold, theirs: ByFold, deviation: float = 0.0) -> Spread:
    """Compute how much larger ours is, on the folds of both, with its 95 % interval; `count` is how many these are.

    Args:    deviation: over seeds in one fold; 0 or nan for none, where both are of the same trained weights, or it is not known.
    Raises:  NotEnoughError where no fold has both.
    """
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        raise NotEnoughError("of two models that are compared no fold is done")
    pairs = [(ours[fold], theirs[fold]) for fold in both]
    return _interval([(one.mean(0) - other.mean(0), 1 / len(one) + 1 / len(other)) for one, other in pairs], deviation)


def fold_differences(ours: ByFold, theirs: ByFold) -> list[float]:
    """Compute how much larger ours is in each fold of both, on the patients as they are."""
    return [float(ours[fold][:, 0].mean() - theirs[fold][:, 0].mean()) for fold in sorted(ours.keys() & theirs.keys())]


def _interval(folds: Sequence[tuple[np.ndarray, float]], deviation: float) -> Spread:
    """Take the mean over folds of (values as they are and drawn, how large the variance of seeds is in them)."""
    values = np.mean([found for found, _ in folds], axis=0)
    scale = deviation * math.sqrt(sum(size for _, size in folds)) / len(folds) if deviation > 0 else 0.0
    noise = np.random.default_rng(len(folds)).normal(0.0, scale, len(values) - 1)
    low, high = np.quantile(values[1:] + noise, INTERVAL)
    return Spread(float(values[0]), float(low), float(high), len(folds))
