r"""What the best guess loses that is told something of a sample, but not its target.

    n_gc     how often, among samples of which g is told, the target is c
    loss     sum_gc n_gc log(n_g / n_gc) / n          entropy of the target, given what is told, in nats
    accuracy sum_g max_c n_gc / n                     always saying the most frequent one

One row g is told nothing but that this is a sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = ["Told", "accuracy", "loss"]

Told = Iterable[Sequence[float]]
"""A row for each thing that can be told: how often, or how probably, each target goes with it."""


def loss(told: Told) -> float:
    rows = [row for row in map(list, told) if sum(row) > 0]
    parts = (n * math.log(sum(row) / n) for row in rows for n in row if n > 0)
    return math.fsum(parts) / math.fsum(map(sum, rows))


def accuracy(told: Told) -> float:
    rows = list(map(list, told))
    return math.fsum(map(max, rows)) / math.fsum(map(sum, rows))
