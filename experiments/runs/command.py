r"""Runs `ctrnn train`: one training, or one after another where settings have several values, `--set seed=0,1,2 hidden=32,64`.

DIR/seed-0-hidden-32/    DIR/seed-0-hidden-64/    ...        every value with every other, in folders of their own
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_origin

from tqdm import tqdm

from experiments.interruption import Interrupted
from experiments.runs.configuration import SHARED, Configuration, by_key, configuration_from_words
from experiments.settings import assignments, described, setting_types
from experiments.tasks.registry import task_named
from experiments.usage import UsageError

__all__ = ["run", "settings_help", "swept"]

if TYPE_CHECKING:
    from experiments.runs.loop import Progress

MOST = 1000
BETWEEN_LINES = 30.0  # seconds, where no terminal shows a bar


def run(
    task: str,
    field: str,
    integrator: str,
    words: Sequence[str],
    folder: Path,
    resume: bool,
    look: bool = False,
    page: bool = False,
) -> bool:
    """Train all of them, one after another, or say what the first will read; return whether all were finished.

    Raises:  UsageError before the first, for any of them.
    """
    runs = [(name, configuration_from_words(task, field, integrator, each)) for name, each in swept(task, words)]
    if len(runs) > 1:
        steps = " or ".join(map(str, sorted({configuration.training.steps for _, configuration in runs})))
        print(f"{len(runs)} runs of {steps} steps, one after another, in {folder}.", file=sys.stderr)
    looked = runs[0][1].task.look()
    if look:
        print(looked)
        return True
    if looked:
        print(looked, file=sys.stderr)
    for sentence in runs[0][1].without_effect():
        if all(sentence in configuration.without_effect() for _, configuration in runs):
            print(f"ctrnn train: {sentence}", file=sys.stderr)
    finished = []
    for name, configuration in runs:
        try:
            finished.append(_run_one(configuration, folder / name, resume, page))
        except Interrupted:
            if len(runs) > 1:
                count = f"{sum(finished)} of {len(runs)} runs are finished"
                print(f"{count}; with --resume the same command goes on.", file=sys.stderr)
            raise
    from experiments.runs.processes import is_first  # noqa: PLC0415

    if len(runs) > 1 and is_first():
        from experiments.runs.sweep import compared  # noqa: PLC0415 (SciPy)

        first = runs[0][1].settings()
        keys = [key for key in first if any(each.settings()[key] != first[key] for _, each in runs)]
        print(f"\n{compared(folder, runs, keys)}\n{folder / 'runs.csv'}", flush=True)
    return all(finished)


def settings_help(tasks: Iterable[str]) -> str:
    """Return the settings of every run, and of these tasks, with their defaults and in words. Raises: UsageError."""
    kinds: dict[str, type] = {f"the task {name}": task_named(name) for name in tasks}
    kinds |= dict(zip(("every field", "every integrator", "every training"), SHARED, strict=True))
    return "\n\n".join("\n".join([f"Settings of {what}, by --set:", *described(kind)]) for what, kind in kinds.items())


def swept(task: str, words: Sequence[str]) -> list[tuple[str, list[str]]]:
    r"""Return the name of each run's folder and its `KEY=VALUE` words; one without a name where no setting has several values.

    A setting that is a sequence itself has its commas for that.

    Raises:  UsageError for what is no assignment, a value that stands twice, and more runs than anybody means.
    """
    given = by_key(assignments(words))
    several = {key: text.split(",") for key, text in given.items() if "," in text and not _is_sequence(task, key)}
    if not several:
        return [("", [f"{key}={text}" for key, text in given.items()])]
    for key, values in several.items():
        if len({value.strip() for value in values}) < len(values) or not all(value.strip() for value in values):
            raise UsageError(f"--set {key}={given[key]}: each value is given once, and none is empty.")
    if (count := math.prod(map(len, several.values()))) > MOST:  # before any of them is written out
        raise UsageError(f"--set asks for {count:,} runs, at most {MOST:,} are made at once.")
    points = [dict(zip(several, values, strict=True)) for values in itertools.product(*several.values())]
    names = ["-".join(f"{key}-{_word(value)}" for key, value in point.items()) for point in points]
    if len(set(names)) < len(names):
        raise UsageError("--set has values that would give two runs one folder; write them so that their letters differ.")
    return [
        (name, [f"{key}={value}" for key, value in (given | point).items()]) for name, point in zip(names, points, strict=True)
    ]


def _is_sequence(task: str, key: str) -> bool:
    """Return whether a value with commas is one value; of a key that is not known it is, and refused as one."""
    kinds = SHARED if any(key in setting_types(kind) for kind in SHARED) else (task_named(task),)
    return _holds_tuple(next((setting_types(kind)[key] for kind in kinds if key in setting_types(kind)), tuple))


def _holds_tuple(hint: object) -> bool:
    return hint is tuple or get_origin(hint) is tuple or any(_holds_tuple(each) for each in get_args(hint) if each is not ...)


def _word(value: str) -> str:
    return re.sub(r"[^a-z0-9.-]+", "_", value.strip().lower())


def _run_one(configuration: Configuration, folder: Path, resume: bool, page: bool) -> bool:
    """Train one, and return whether it was finished; result and page are told on stdout, what went wrong on stderr."""
    from experiments.runs import training  # noqa: PLC0415 (torch)
    from experiments.runs.processes import is_first  # noqa: PLC0415
    from experiments.runs.stopping import StoppedError  # noqa: PLC0415

    try:
        with _shown(configuration.training.steps, is_first()) as progress:
            outcome = training.train(configuration, folder, resume=resume, progress=progress)
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
    measures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.measures.items())
    guesses = ", ".join(f"{name} {loss:.4g}" for name, loss in configuration.task.baselines().items())
    beside = f" ({guesses})" if guesses else ""
    what = f"{configuration.task_name}, {configuration.field} under {configuration.integrator}"
    print(f"{what}, {outcome.steps} steps in {outcome.seconds:.1f} s: test {measures}{beside}", flush=True)
    if outcome.far_worse:
        print(f"ctrnn train: {outcome.far_worse}", file=sys.stderr)
    if page:
        from experiments.runs.page import write_page  # noqa: PLC0415 (matplotlib)

        print(write_page(folder))
    return True


@contextmanager
def _shown(steps: int, first: bool) -> Iterator[Progress]:
    """Show on stderr where a run is: a bar on a terminal, elsewhere a line now and then."""
    begun = told = time.monotonic()
    before = None
    with tqdm(total=steps, unit="step", leave=False, disable=None if first else True) as bar:

        def progress(step: int, loss: float, rate: float) -> None:
            nonlocal before, told
            if before is None:
                before = bar.initial = bar.n = step - 1  # steps before a resumption took none of this time
            about = f"loss {loss:.4g}, rate {rate:.2g}"
            bar.set_postfix_str(about, refresh=False)
            bar.update()
            now = time.monotonic()
            if first and bar.disable and now - told >= BETWEEN_LINES:
                told, left = now, (now - begun) * (steps - step) / (step - before)
                print(f"step {step} of {steps}: {about}; about {left:.0f} s left", file=sys.stderr, flush=True)

        yield progress
