"""Names the statuses of a run, and raises the error of one that cannot go on: why, at which step, what is kept, what to try."""

from __future__ import annotations

from typing import Literal

__all__ = ["Status", "StoppedError"]

Status = Literal["completed", "diverged", "out of memory", "damaged", "not writable", "interrupted"]


class StoppedError(RuntimeError):
    r"""Raised where training cannot take a step; what was saved before is kept.

    Args:    status: why; step: at which, None where it was none that failed.
    """

    def __init__(self, message: str, status: Status, step: int | None = None) -> None:
        super().__init__(message)
        self.status, self.step = status, step
