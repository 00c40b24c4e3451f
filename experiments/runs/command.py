"""`ctrnn train`: trains with a progress bar, then says how it went or how to go on."""

from __future__ import annotations

import sys
from pathlib import Path

from tqdm import tqdm

from experiments.interruption import Interrupted
from experiments.runs.configuration import Configuration
from experiments.runs.processes import is_first
from experiments.runs.stopping import StoppedError
from experiments.runs.training import Outcome, train

__all__ = ["run"]


def run(configuration: Configuration, folder: Path, resume: bool) -> bool:
    """Whether it was finished; the result is on stdout, what went wrong on stderr."""
    try:
        # disable=None: on a terminal only
        with tqdm(total=configuration.training.steps, unit="step", leave=False, disable=None if is_first() else True) as bar:

            def progress(step: int, loss: float, rate: float) -> None:
                if not bar.n:
                    bar.initial = bar.n = step - 1  # steps before a resumption took none of this time
                bar.set_postfix_str(f"loss {loss:.4g}, rate {rate:.2g}", refresh=False)
                bar.update()

            outcome = train(configuration, folder, resume=resume, progress=progress)
    except StoppedError as error:
        print(f"ctrnn train: {error}", file=sys.stderr)
        return False
    except Interrupted:
        print(f"Go on with: {configuration.command(folder, resume=True)}", file=sys.stderr)
        raise
    if not is_first():
        return True
    if outcome.already:
        print(f"{folder} is finished; nothing was left to do.")
    print(_in_words(configuration, outcome), flush=True)
    if outcome.far_worse:
        print(f"ctrnn train: {outcome.far_worse}", file=sys.stderr)
    return True


def _in_words(configuration: Configuration, outcome: Outcome) -> str:
    measures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.measures.items())
    steps, name = configuration.training.steps, f"{configuration.field} under {configuration.integrator}"
    without = configuration.task.baselines().get("memoryless")
    beside = "" if without is None else f" (memoryless {without:.4g})"
    return f"{configuration.task_name}, {name}, {steps} steps in {outcome.seconds:.1f} s: test {measures}{beside}"
