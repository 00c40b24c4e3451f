"""Turns Ctrl-C, SIGTERM and SIGUSR1 into one exception, which passes every `finally` and is never lost.

SIGUSR1 is how batch systems say that the time is nearly up; its exit code, 138, tells a script that there is more to be done.
They send SIGTERM to every process of a job, so that a worker hears it from its parent once more: only a second Ctrl-C, which
is somebody's who waits, cuts short what the first signal began. torchrun hands on SIGINT as well, to processes that stand at
the terminal and have had it: there one Ctrl-C comes as two.

An exception raised by a signal handler vanishes inside a weak reference's callback or a destructor; so the signal is
remembered too, and `checkpoint` raises it again at every line that a command prints.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

__all__ = ["Interrupted", "checkpoint", "deferred", "interruptible"]

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if sys.platform != "win32":
    WORDS[signal.SIGUSR1] = "told to end"
_received: list[int] = []


class Interrupted(BaseException):
    """Raised for a signal, with its word and the exit code that it means."""

    def __init__(self, number: int) -> None:
        self.word, self.code = WORDS[signal.Signals(number)], 128 + number
        super().__init__(self.word)


def _again(received: Sequence[int]) -> bool:
    """Return whether the last of these is a Ctrl-C behind a first signal, and not the same once more."""
    copies = 2 if "TORCHELASTIC_RUN_ID" in os.environ else 1
    return received[-1] == signal.SIGINT and len(received) > copies


def checkpoint() -> None:
    """Raise what was received and swallowed."""
    if _received:
        raise Interrupted(_received[0])


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` for each of these signals within it; outside of the main thread, signals are the caller's."""

    def receive(number: int, frame: object) -> None:
        _received.append(number)
        if len(_received) == 1 or _again(_received):
            raise Interrupted(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.clear()
    before = {number: signal.signal(number, receive) for number in WORDS}
    hook = sys.unraisablehook
    # What was swallowed is raised again by `checkpoint`; Python's own report of it would stand in the middle of the output.
    sys.unraisablehook = lambda lost: None if isinstance(lost.exc_value, Interrupted) else hook(lost)
    try:
        yield
        checkpoint()
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
        _received.clear()


@contextmanager
def deferred() -> Iterator[Callable[[], bool]]:
    """Hold back a first signal within it; on the way out it goes to the handler that was there before.

    Yields a function: whether a signal is held back. A second Ctrl-C is not, and an ignored signal stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    waiting: list[int] = []
    before = {number: handler for number in WORDS if (handler := signal.getsignal(number)) not in (None, signal.SIG_IGN)}

    def receive(number: int, frame: object) -> None:
        waiting.append(number)
        if _again(waiting):
            restore()
            signal.raise_signal(number)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, receive)
    try:
        yield lambda: bool(waiting)
    finally:
        restore()
    if waiting:
        signal.raise_signal(waiting[0])
        checkpoint()  # a signal raised inside a weak reference's callback was swallowed
