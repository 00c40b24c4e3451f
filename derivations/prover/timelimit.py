r"""Stops a computation that runs too long, wherever it is: SymPy does not ask the clock, and code of a user's neither.

    try:
        with time_limit(60):
            ...
    except OutOfTime:
        ...                 undecided

A watcher thread raises `OutOfTime` in the thread of the block. What is nested ends at the nearest limit.
"""

from __future__ import annotations

import ctypes
import math
import threading
from functools import partial
from operator import call
from typing import Self

__all__ = ["OutOfTime", "time_limit"]

AGAIN = 0.1  # Seconds until the next attempt: a bare `except:`, a destructor or a limit inside may have swallowed the first.

_raise_in = ctypes.PYFUNCTYPE(None, ctypes.c_ulong, ctypes.py_object)(("PyThreadState_SetAsyncExc", ctypes.pythonapi))


class OutOfTime(BaseException):
    """Raised in a block that runs longer than its limit; no Exception, for SymPy and torch catch those and go on."""


class time_limit(threading._CRLock):  # type: ignore[name-defined]  # noqa: N801  # named as a function is
    r"""Limit the seconds that the block of a `with` statement may take; in any thread.

    The lock is held while the block runs, and its `__exit__` is a C function: OutOfTime cannot come while it is left, nor
    after. A single call into C (a huge power, one product of matrices) is ended when it returns, not before.

    Args:    seconds: above 0; None or inf is no limit.
    Raises:  ValueError where seconds are not above 0; OutOfTime in the block.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        if not self.seconds > 0:
            raise ValueError(f"`seconds` must be above 0, got {seconds}.")

    def __enter__(self) -> Self:
        self.acquire()
        try:
            if self.seconds <= threading.TIMEOUT_MAX:
                threading.Thread(target=self._watch, args=[threading.get_ident()], daemon=True).start()
        except BaseException:  # a limit around this one: then no block begins, and none is left
            self.release()
            raise
        return self

    def _watch(self, thread: int) -> None:
        left, out = partial(self.acquire, blocking=False), partial(_raise_in, thread, OutOfTime)
        seconds = self.seconds
        # The second part runs all in C, where no other thread does: nobody leaves the block between question and exception.
        while not (self.acquire(timeout=seconds) or any(map(call, (left, out)))):
            seconds = AGAIN
        self.release()
