"""Warn at the line of the user's that led here."""

from __future__ import annotations

import sys
import warnings

__all__ = ["StampWarning", "warn_user"]

OWN = ("ctrnn", "discretize", "torch")


class StampWarning(UserWarning):
    """Times that do not say how long each sample lasts: an interval was taken from others, or lost in rounding."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that led here: the first above this project's own and torch's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OWN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
