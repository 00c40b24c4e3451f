"""Postpone Python's full garbage collections while code is recorded.

One takes 0.1 to 0.2 s once torch is loaded, for it looks at all objects there are; loading torch's recorder alone leads to three.
Young objects are collected as ever.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["full_collections_postponed"]

LATER = 1_000_003  # a threshold that nobody else sets, so that it is known for ours


class _Postponement:
    """How many recordings run, in threads, and the threshold that comes back after the last one."""

    def __init__(self) -> None:
        self.lock, self.running, self.before = Lock(), 0, 0

    def begin(self) -> None:
        with self.lock:
            self.running += 1
            young, middle, full = gc.get_threshold()
            if full != LATER:
                self.before = full
                gc.set_threshold(young, middle, LATER)

    def end(self) -> None:
        with self.lock:
            self.running = max(self.running - 1, 0)
            if not self.running:
                self.restore()

    def restore(self) -> None:
        """The threshold as it was, unless somebody has set another one meanwhile."""
        young, middle, full = gc.get_threshold()
        if full == LATER:
            gc.set_threshold(young, middle, self.before)

    def begin_anew(self) -> None:
        """In a child, which has none of the threads that record."""
        self.restore()
        self.lock, self.running = Lock(), 0


_postponement = _Postponement()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_postponement.begin_anew)


@contextmanager
def full_collections_postponed() -> Iterator[None]:
    """Raise the threshold of full collections meanwhile, of all threads."""
    _postponement.begin()
    try:
        yield
    finally:
        _postponement.end()
