"""Carries out one run of a study in a worker process, unless it is done or in progress elsewhere, and records it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.plugins import use
from experiments.studies.folder import PROCESSOR_SECONDS, claimed, configuration_of, fail, keep, kept, place_of
from experiments.studies.registry import loaded
from experiments.studies.study import Run, Study

__all__ = ["BUSY", "DONE", "FAILED", "Ended", "begin", "carry_out"]

DONE, BUSY, FAILED = "done", "busy", "failed"
Ended = tuple[str, str]  # one of these words, and what went wrong


def begin(
    address: str, scale: str, folder: Path, made: Sequence[tuple[str, str]], plugins: Sequence[str]
) -> Callable[[str], Ended]:
    """Load the study once in a process, and return a function that carries out the run of a key."""
    use(plugins)
    study = loaded(address)
    runs = {run.key: run for run in study.runs(scale)}
    return lambda key: carry_out(study, runs[key], folder, dict(made))


def carry_out(study: Study, run: Run, folder: Path, made: Mapping[str, str]) -> Ended:
    """Carry out one run; return "busy" if another process is at it."""
    place = place_of(folder, run.key)
    try:
        with claimed(place) as mine:
            if not mine:
                return BUSY, ""
            # Another call may have done it since this one looked.
            if kept(folder, run.key, configuration_of(run)) is None:
                begun = time.process_time()
                measured = study.carry_out(run, place)
                keep(folder, run, measured, {**made, PROCESSOR_SECONDS: f"{time.process_time() - begun:.2f}"})
        return DONE, ""
    except Exception as error:
        fail(folder, run.key, traceback.format_exc())
        return FAILED, traceback.format_exception_only(error)[-1].strip().replace("\n", " ")
