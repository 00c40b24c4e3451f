r"""Why a run cannot go on, in words: what happened, at which step, what is kept, what to try."""

from __future__ import annotations

__all__ = ["StoppedError"]


class StoppedError(RuntimeError):
    """Training stopped at a step it cannot take; what was saved before is kept."""
