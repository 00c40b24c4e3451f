"""Train, say where the run is, and in the end how it went or how to go on."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.interruption import Interrupted
from experiments.runs.configuration import Configuration
from experiments.runs.progress import Progress
from experiments.runs.stopping import StoppedError
from experiments.runs.training import Outcome, train

__all__ = ["run"]


def run(configuration: Configuration, folder: Path, resume: bool) -> bool:
    """Whether it was finished; the result is on stdout, what went wrong on stderr."""
    progress = Progress(configuration.training.steps)
    try:
        outcome = train(configuration, folder, resume=resume, progress=progress)
    except StoppedError as error:
        progress.clear()
        print(f"ctrnn train: {error}", file=sys.stderr)
        return False
    except Interrupted:
        progress.clear()
        print(f"Go on with: {configuration.command(folder, resume=True)}", file=sys.stderr)
        raise
    progress.clear()
    if outcome.already:
        print(f"{folder} is finished; nothing was left to do.")
    print(_in_words(configuration, outcome))
    return True


def _in_words(configuration: Configuration, outcome: Outcome) -> str:
    measures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.measures.items())
    steps, name = configuration.training.steps, f"{configuration.field} under {configuration.integrator}"
    return f"{configuration.task_name}, {name}, {steps} steps in {outcome.seconds:.1f} s: test {measures}"
