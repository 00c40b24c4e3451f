"""Work for the processes of test_pool.py, which have nothing else to import."""

import os
import signal
import time
from pathlib import Path


class TwoWordsError(Exception):
    """Can be written by pickle, and not read."""

    def __init__(self, one, other):
        super().__init__(one)


def begin(folder):
    def work(key):
        name, _, number = key.partition(" ")
        return {
            "dies": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "dies-once": lambda: os.kill(os.getpid(), signal.SIGKILL) if is_first(folder, key) else "again",
            "memory": lambda: bytearray(1 << 62),
            "error": lambda: int("x"),
            "odd-error": lambda: raised(TwoWordsError("one", "other")),
            "odd-value": lambda: TwoWordsError("one", "other"),
            "no-value": lambda: lambda: 0,
            "large": lambda: b"x" * (1 << 22),
        }.get(name, lambda: (int(number), os.getpid()))()

    return work


def raised(error):
    raise error


def is_first(folder, key):
    file = Path(folder, key)
    first = not file.exists()
    file.touch()
    return first


def failing():
    raise ValueError("there is no such file")


def sleeping(folder):
    """What says who it is, writes megabytes and sleeps, and saves when it is ended."""

    def work(key):
        (Path(folder) / f"begun-{os.getpid()}").touch()
        if key == "large":
            return b"x" * (1 << 24)
        try:
            time.sleep(600)
        finally:
            (Path(folder) / f"saved-{os.getpid()}").touch()

    return work
