"""What a command was asked for and cannot do: said in one line, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["UsageError", "did_you_mean"]


class UsageError(Exception):
    """Wrong usage; its text is the one line that the user reads."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'demo'?" where something known is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
