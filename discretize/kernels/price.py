"""Steps give way to a kernel once they have taken as long as it takes to build, from call to call and within one call."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

__all__ = [
    "PRICE",
    "LIVE",
    "KernelReady",
    "Stopwatch",
    "Waiting",
    "builds_at_once",
    "kernels_at_once",
    "may_build",
    "without_building",
]

PRICE = 4.0  # seconds that a kernel takes to build
LIVE = 'a live step builds no kernel; calls of whole sequences do, and fused="always"'


class Waiting(str):
    """Why there is no kernel yet."""


class KernelReady(Exception):  # noqa: N818 - nothing is wrong
    """Ends a call's steps: they have taken long enough, and a kernel has been made that starts again."""


class Stopwatch:
    """Says once that a call has taken as long as a kernel takes to build."""

    def __init__(self) -> None:
        self.end: float = time.perf_counter() + PRICE

    def rings(self) -> bool:
        if time.perf_counter() < self.end or not may_build():
            return False
        self.end = math.inf
        return True


def without_building() -> AbstractContextManager[None]:
    """Take kernels that are there, and build none, however much time steps have taken: of a stream that must not wait."""
    return _during(_may_build, False)


def may_build() -> bool:
    return _may_build.get()


def kernels_at_once() -> AbstractContextManager[None]:
    """Build kernels at first calls, where there can be one: bits depend on the engine, and not on how long steps took."""
    return _during(_at_once, True)


def builds_at_once() -> bool:
    return _at_once.get()


@contextmanager
def _during(setting: ContextVar[bool], value: bool) -> Iterator[None]:
    token = setting.set(value)
    try:
        yield
    finally:
        setting.reset(token)


_may_build: ContextVar[bool] = ContextVar("_may_build", default=True)
_at_once: ContextVar[bool] = ContextVar("_at_once", default=False)
