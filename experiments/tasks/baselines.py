r"""Computes loss and accuracy of the best predictor without memory.

n_gc     how often, among samples that look like g to the predictor, the target is c
loss     sum_gc n_gc log(n_g / n_gc) / n          entropy of the target, given what the predictor sees, in nats
accuracy sum_g max_c n_gc / n                     always saying the most frequent target
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = ["TargetCounts", "accuracy", "loss"]

TargetCounts = Iterable[Sequence[float]]
"""A row for each g, what the predictor can tell apart: how often, or how probably, each target goes with it."""


def loss(counts: TargetCounts) -> float:
    rows = [row for row in map(list, counts) if sum(row) > 0]
    parts = (n * math.log(sum(row) / n) for row in rows for n in row if n > 0)
    return math.fsum(parts) / math.fsum(map(sum, rows))


def accuracy(counts: TargetCounts) -> float:
    rows = list(map(list, counts))
    return math.fsum(map(max, rows)) / math.fsum(map(sum, rows))
