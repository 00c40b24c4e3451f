r"""Times that can be compared: round after round, every candidate once in a round, in an order drawn anew.

    ratio = median over rounds of (seconds of the candidate / seconds of the reference in the same round)

A machine that slows down for a while slows down a whole round, and leaves the ratios within it alone.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from experiments.interruption import checkpoint

__all__ = ["Ratio", "interleaved", "ratio"]

K = TypeVar("K", bound=Hashable)
Seconds = list[float | None]


def interleaved(
    candidates: Mapping[K, Callable[[], object]],
    rounds: int,
    *,
    warm: Collection[K] = (),
    patience: float = 60.0,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    tell: Callable[[K], None] = lambda key: None,
) -> dict[K, Seconds]:
    """Seconds of each candidate, a number for each round, None for rounds it had no part in.

    Everyone runs once before the first round, but for those in `warm`; whoever has spent more than `patience` seconds in
    rounds so far sits out the rest.
    """
    times: dict[K, Seconds] = {key: [] for key in candidates}
    order, chance = list(candidates), random.Random(seed)
    gc.collect()
    gc.freeze()  # so that looking for garbage between the runs is quick
    collecting = gc.isenabled()
    try:
        gc.disable()
        for key in order:
            if key not in warm:
                tell(key)
                candidates[key]()
        for _ in range(rounds):
            chance.shuffle(order)
            for key in order:
                checkpoint()
                if sum(filter(None, times[key])) > patience:
                    times[key].append(None)
                    continue
                tell(key)
                gc.collect()
                begin = clock()
                candidates[key]()
                times[key].append(clock() - begin)
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()
    return times


@dataclass(frozen=True)
class Ratio:
    """Median and quartiles of ratios taken within rounds, and how many."""

    median: float
    low: float
    high: float
    rounds: int


def ratio(times: Sequence[float | None], reference: Sequence[float | None]) -> Ratio | None:
    """How many times as long as the reference; None where no round had both."""
    found = [a / b for a, b in zip(times, reference, strict=True) if a is not None and b is not None]
    if not found:
        return None
    low, middle, high = statistics.quantiles(found, n=4, method="inclusive") if len(found) > 1 else 3 * found
    return Ratio(middle, low, high, len(found))
