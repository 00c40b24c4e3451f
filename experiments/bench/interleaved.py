r"""Times that can be compared: round after round, every candidate once in a round, in an order drawn anew.

    ratio = median over rounds of (seconds of the candidate / seconds of the reference in the same round)

A machine that slows down for a while slows down a whole round, and leaves the ratios within it alone.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from experiments.interruption import checkpoint

__all__ = ["interleaved"]

K = TypeVar("K", bound=Hashable)


def interleaved(
    candidates: Mapping[K, Callable[[], object]],
    rounds: int,
    *,
    warm: Collection[K] = (),
    patience: float = 60.0,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    before_each: Callable[[K], None] = lambda key: None,
) -> dict[K, list[float | None]]:
    """Seconds of each candidate, a number for each round, None for rounds that it sat out.

    All run once before the first round, except those in `warm`; a candidate whose rounds have taken more than `patience`
    seconds sits out the rest.
    """
    times: dict[K, list[float | None]] = {key: [] for key in candidates}
    order, generator = list(candidates), random.Random(seed)
    with _without_garbage_collection():
        for key in order:
            if key not in warm:
                before_each(key)
                candidates[key]()
        for _ in range(rounds):
            generator.shuffle(order)
            for key in order:
                checkpoint()
                if sum(filter(None, times[key])) > patience:
                    times[key].append(None)
                    continue
                before_each(key)
                gc.collect()
                begin = clock()
                candidates[key]()
                times[key].append(clock() - begin)
    return times


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.collect()
    gc.freeze()  # so that collecting between the runs is quick
    try:
        gc.disable()
        yield
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()
