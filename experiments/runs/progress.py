r"""Where a run is, on one line of a terminal, and nowhere else."""

from __future__ import annotations

import os
import sys
import time

__all__ = ["Progress"]

EVERY = 0.2  # seconds between two looks


class Progress:
    """Called after every step; says something a few times a second, and only on a terminal."""

    def __init__(self, steps: int) -> None:
        self.steps, self._shown = steps, sys.stderr.isatty()
        self._begin: tuple[int, float] | None = None
        self._next = 0.0

    def __call__(self, step: int, loss: float, rate: float) -> None:
        now = time.monotonic()
        if not self._shown or (now < self._next and step < self.steps):
            return
        self._next = now + EVERY
        if self._begin is None:
            self._begin = (step, now)
        done, took = step - self._begin[0], now - self._begin[1]
        left = f", {_duration((self.steps - step) * took / done)} left" if done else ""
        self._line(f"step {step}/{self.steps}, loss {loss:.4g}, rate {rate:.2g}{left}")

    def clear(self) -> None:
        if self._shown:
            self._line("")

    @staticmethod
    def _line(text: str) -> None:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
        print(f"\r\x1b[K{text[: width - 1]}", end="", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
