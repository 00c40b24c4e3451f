"""Reads the recording that is named at the prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.usage import UsageError, typed

if TYPE_CHECKING:
    from experiments.data.recording import Recording

__all__ = ["read_recording"]


def read_recording(
    command: str, out: Path, input: Path | None, rate: float | None, set: Sequence[Sequence[str]]
) -> tuple[Recording, str]:
    """Read the recording before torch is imported, so that a wrong file is refused at once; return it and the command."""
    words = [word for words in set for word in words]
    if input is not None and rate is None and not any(word.startswith("time=") for word in words):
        raise UsageError("--input needs --sampling-rate too: how many samples per second is it?")
    if (rate is not None or words) and input is None:
        raise UsageError(f"--{'set' if words else 'sampling-rate'} is for a recording of yours; name it with --input FILE.")
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise UsageError(f"--sampling-rate must be a number of samples per second above 0, got {rate:g}.")
    from experiments.data.recording import load  # noqa: PLC0415

    told = [word for each in words for word in ("--set", each)]
    shown = typed(command, *told, out=out, input=input, sampling_rate=None if rate is None else f"{rate:g}")
    return load(input, rate, words), shown
