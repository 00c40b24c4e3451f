"""Raises errors of wrong usage, with the valid names nearest to a wrong one."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable

__all__ = ["UsageError", "check_word", "nearest", "typed"]


class UsageError(Exception):
    """Raised for wrong usage; its text is the one line that the user reads, without a traceback."""


def check_word(kind: str, word: str, known: Iterable[str]) -> None:
    """Refuse a word that is not known. Raises: UsageError, with the nearest, or else with all."""
    known = list(known)
    if word not in known:
        raise UsageError(f"there is no {kind} {nearest(word, known)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Write the word, and the one that was meant, or all there are, or that there are none: 'dmo'; did you mean 'demo'?"""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"{word!r}; did you mean {near[0]!r}?" if near else f"{word!r}; there is {', '.join(known) or 'none'}."


def typed(*words: str, **options: object) -> str:
    """Write what to type for a command with these options, leaving out those that are None."""
    given = [word for name, value in options.items() if value is not None for word in (f"--{name.replace('_', '-')}", str(value))]
    return shlex.join(["ctrnn", *words, *given])
