"""Work for the processes of test_pool.py, which have nothing else to import."""

import os
import signal
import time
from pathlib import Path


class TwoWordsError(Exception):
    """Can be written by pickle, and not read."""

    def __init__(self, one, other):
        super().__init__(one)


class WordsOfItsOwnError(Exception):
    """Comes back with other words: pickle calls it with those that it made."""

    def __init__(self, name):
        super().__init__(f"there is no {name}.")


def begin(folder):
    def work(key):
        name, _, number = key.partition(" ")
        return {
            "dies": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "dies-once": lambda: os.kill(os.getpid(), signal.SIGKILL) if is_first(folder, key) else "again",
            "memory": lambda: bytearray(1 << 62),
            "error": lambda: int("x"),
            "odd-error": lambda: raised(TwoWordsError("one", "other")),
            "own-words": lambda: raised(WordsOfItsOwnError("wind")),
            "odd-value": lambda: TwoWordsError("one", "other"),
            "no-value": lambda: lambda: 0,
            "large": lambda: b"x" * (1 << 22),
        }.get(name, lambda: (int(number), os.getpid()))()

    return work


def of_pairs(folder):
    """Takes keys of a name and a list."""
    work = begin(folder)
    return lambda key: work(key[0])


def raised(error):
    raise error


def is_first(folder, key):
    file = Path(folder, key)
    first = not file.exists()
    file.touch()
    return first


def failing():
    raise ValueError("there is no such file")


def beginning_once(folder):
    """Begins in one process only, which dies once three others did."""
    if not is_first(folder, "begun"):
        Path(folder, f"died-{os.getpid()}").touch()
        os._exit(3)

    def work(key):
        while len(list(Path(folder).glob("died-*"))) < 3:
            time.sleep(0.01)
        time.sleep(0.5)  # until that is known
        os.kill(os.getpid(), signal.SIGKILL)

    return work


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
