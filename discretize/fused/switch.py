"""Whether fused paths are wanted: the argument `fused`, and the environment variable CTRNN_FUSED, which turns all of them off."""

from __future__ import annotations

import os

__all__ = ["unwanted"]

VARIABLE = "CTRNN_FUSED"


def unwanted(fused: bool) -> str | None:
    """Why a call that was given `fused` takes its steps one by one; None where it need not.

    Raises:  ValueError for a CTRNN_FUSED other than 0 and 1.
    """
    setting = os.environ.get(VARIABLE, "1")
    if setting not in ("0", "1"):
        raise ValueError(f"The environment variable {VARIABLE} must be 0 (step by step, everywhere) or 1, got {setting!r}.")
    if setting == "0":
        return f"{VARIABLE} is 0"
    return None if fused else "`fused` is False"
