r"""Resamples patients to say how far the AUROC of a model, or the difference between two, may be by chance.

    AUROC    sum of w_i w_j K_ij over i who died and j who did not, by the sum of w_i w_j     K: 1, a half in a tie, or 0
    w        how often a patient is drawn: within each fold, with replacement, those who died and the others apart

The weights are a function of the fold, so that models that were tested on it are compared on the same draws; seeds of training
are drawn too, where there are several. What an interval does not hold is another choice of training patients.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.reports.spreads import NotEnoughError, Spread

__all__ = ["DRAWS", "auroc_drawn", "difference_drawn", "over_folds", "weights_drawn"]

DRAWS = 2000
INTERVAL = (0.025, 0.975)
ByFold = Mapping[int, np.ndarray]  # fold -> AUROCs (seeds, 1 + draws), the first of them of the patients as they are


@functools.lru_cache(32)
def weights_drawn(fold: int, ones: int, zeros: int, draws: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    """Draw how often each patient counts, of those who died (1 + draws, ones) and the others (1 + draws, zeros)."""
    draw = np.random.default_rng(fold)
    drawn = (draw.multinomial(count, np.full(count, 1 / count), size=draws) for count in (ones, zeros))
    died, lived = (np.vstack([np.ones(some.shape[1]), some]).astype(np.float32) for some in drawn)
    return died, lived


def auroc_drawn(ranks: Sequence[float], died: Sequence[int], fold: int, draws: int = DRAWS) -> np.ndarray:
    """Compute the AUROC of the patients of a fold as they are, and of each draw: (1 + draws,).

    Args:    ranks: of the scores, one a patient; died: the places of those who died.
    """
    values, mask = np.asarray(ranks), np.zeros(len(ranks), bool)
    mask[list(died)] = True
    ones, zeros = values[mask], values[~mask]
    if not len(ones) or not len(zeros):
        raise NotEnoughError("an AUROC needs patients who died and patients who did not")
    above = ((ones[:, None] > zeros) + (ones[:, None] == zeros) / 2).astype(np.float32)
    of_ones, of_zeros = weights_drawn(fold, len(ones), len(zeros), draws)
    found: np.ndarray = ((of_ones @ above) * of_zeros).sum(1, dtype=np.float64) / (len(ones) * len(zeros))
    return found


def over_folds(folds: ByFold) -> Spread:
    """Take the mean over folds and seeds, with its 95 % interval."""
    return _interval(np.mean([_seeds_drawn(folds[fold], fold) for fold in sorted(folds)], axis=0), len(folds))


def difference_drawn(ours: ByFold, theirs: ByFold) -> Spread:
    """Compute how much larger ours is, on the folds of both, with its 95 % interval. Raises: NotEnoughError for no such fold."""
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        raise NotEnoughError("of two models that are compared no fold is done")
    apart = [_seeds_drawn(ours[fold], fold) - _seeds_drawn(theirs[fold], fold) for fold in both]
    return _interval(np.mean(apart, axis=0), len(both))


def _seeds_drawn(values: np.ndarray, fold: int) -> np.ndarray:
    """Take the mean over all seeds, then over seeds drawn anew for each draw of patients: (seeds, 1 + draws) -> (1 + draws,)."""
    seeds, draws = len(values), values.shape[1] - 1
    which = np.random.default_rng([fold, seeds]).integers(seeds, size=(seeds, draws))
    return np.concatenate([values[:, :1].mean(0), np.take_along_axis(values[:, 1:], which, axis=0).mean(0)])


def _interval(values: np.ndarray, count: int) -> Spread:
    low, high = np.quantile(values[1:], INTERVAL)
    return Spread(float(values[0]), float(low), float(high), count)
