"""Checks of a task's settings: whole numbers and words."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

from experiments.settings import LARGEST

__all__ = ["one_of", "whole"]


def whole(name: str, value: int, least: int, why: str = "") -> None:
    """Refuse what is no whole number from `least` to `LARGEST`; `why` follows in the message."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be a whole number, got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}, got {value}{why and f': {why}'}.")
    if value > LARGEST:
        raise ValueError(f"`{name}` must be at most {LARGEST}, got {value}.")


def one_of(name: str, value: str, words: Sequence[str]) -> None:
    """Refuse a value that is none of the words."""
    if value not in words:
        raise ValueError(f"`{name}` must be {' or '.join(map(repr, words))}, got {value!r}.")
