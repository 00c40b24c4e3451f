"""Measures how well scores rank two classes, whatever the threshold: AUROC and AUPRC."""

from __future__ import annotations

import math

import torch
from scipy.stats import mannwhitneyu, rankdata
from torch import Tensor

__all__ = ["auprc", "auroc"]


def auroc(scores: Tensor, labels: Tensor) -> float:
    r"""Compute the area under the ROC curve, by Mann and Whitney's U; nan where only one class is there, or a score is nan.

    Of two samples, one of class 1 and one of class 0, it is how often the first has the larger score; ties count half.

    Shape:   scores (n,), larger for class 1; labels (n,) of 0 and 1.
    Source:  Mann and Whitney 1947; Hanley and McNeil 1982.
    """
    scores = scores.double()  # SciPy adds up ranks in the dtype of scores: of 10⁴ in single precision digits are lost
    ones, zeros = (scores[labels == label].cpu().numpy() for label in (1, 0))
    pairs = ones.size * zeros.size
    return float(mannwhitneyu(ones, zeros, method="asymptotic").statistic) / pairs if pairs else math.nan


def auprc(scores: Tensor, labels: Tensor) -> float:
    r"""Compute the area under the curve of precision over recall, as average precision; nan where class 1 is not there, or a
    score is nan.

    The mean, over the samples of class 1, of the share of class 1 among all that score as much or more. A guess has the share of
    class 1.

    Shape:   as `auroc`.
    Source:  Davis and Goadrich 2006; without interpolation, as scikit-learn has it.
    """
    scores, labels = scores.double().cpu(), labels.double().cpu()
    if not labels.sum() or scores.isnan().any():
        return math.nan
    ranks = torch.from_numpy(rankdata(-scores, "max"))  # how many score as much or more
    reached = torch.from_numpy(rankdata(-scores[labels == 1], "max"))  # how many of class 1 do
    return float((reached / ranks[labels == 1]).mean())
