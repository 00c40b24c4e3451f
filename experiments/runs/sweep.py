r"""Several values of a setting at the prompt, `--set seed=0,1,2`: as many runs, each in a folder of its own.

DIR/hidden-32-seed-0/    DIR/hidden-32-seed-1/    ...        every value with every other
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from experiments.interruption import Interrupted
from experiments.runs.configuration import SHARED, Configuration, configuration_from_words
from experiments.settings import assignments, setting_types
from experiments.tasks.registry import task_named
from experiments.usage import UsageError

__all__ = ["run", "swept"]

MOST = 1000


def swept(task: str, words: Sequence[str]) -> list[tuple[str, list[str]]]:
    r"""The name of each run's folder and its `KEY=VALUE` words; one run without a name where no setting has several values.

    A setting that is a sequence itself has its commas for that.

    Raises:  UsageError for what is no assignment, a value that stands twice, and more runs than anybody means.
    """
    given = assignments(words)
    several = {key: text.split(",") for key, text in given.items() if "," in text and not _is_sequence(task, key)}
    if not several:
        return [("", list(words))]
    for key, values in several.items():
        if len({value.strip() for value in values}) < len(values) or not all(value.strip() for value in values):
            raise UsageError(f"--set {key}={given[key]}: each value is given once, and none is empty.")
    if (count := math.prod(map(len, several.values()))) > MOST:  # before any of them is written out
        raise UsageError(f"--set asks for {count:,} runs, at most {MOST:,} are made at once.")
    products = list(itertools.product(*several.values()))
    names = ["-".join(f"{key}-{_word(value)}" for key, value in zip(several, each, strict=True)) for each in products]
    if len(set(names)) < len(names):
        raise UsageError("--set has values that would give two runs one folder; write them so that their letters differ.")
    runs = [given | dict(zip(several, each, strict=True)) for each in products]
    return [(name, [f"{key}={value}" for key, value in run.items()]) for name, run in zip(names, runs, strict=True)]


def run(task: str, field: str, integrator: str, words: Sequence[str], folder: Path, resume: bool) -> bool:
    """Train all of them, one after another; whether all were finished. Raises: UsageError before the first, for any of them."""
    runs = [(name, configuration_from_words(task, field, integrator, each)) for name, each in swept(task, words)]
    from experiments.runs.command import run as run_one  # noqa: PLC0415

    if len(runs) > 1:
        print(f"{len(runs)} runs of {_steps(runs)} steps, one after another, in {folder}.", file=sys.stderr)
    for sentence in runs[0][1].without_effect():
        if all(sentence in configuration.without_effect() for _, configuration in runs):
            print(f"ctrnn train: {sentence}", file=sys.stderr)
    finished = []
    for name, configuration in runs:
        try:
            finished.append(run_one(configuration, folder / name, resume))
        except Interrupted:
            if len(runs) > 1:
                print(
                    f"{sum(finished)} of {len(runs)} runs are finished; with --resume the same command goes on.", file=sys.stderr
                )
            raise
    return all(finished)


def _steps(runs: list[tuple[str, Configuration]]) -> str:
    counts = sorted({configuration.training.steps for _, configuration in runs})
    return " or ".join(map(str, counts))


def _is_sequence(task: str, key: str) -> bool:
    """Whether a value with commas is one value; of a key that is not known it is, and refused as one."""
    kinds = (*SHARED, task_named(task)) if not any(key in setting_types(kind) for kind in SHARED) else SHARED
    hint = next((setting_types(kind)[key] for kind in kinds if key in setting_types(kind)), tuple)
    return _holds_tuple(hint)


def _holds_tuple(hint: Any) -> bool:
    return hint is tuple or get_origin(hint) is tuple or any(_holds_tuple(each) for each in get_args(hint) if each is not ...)


def _word(value: str) -> str:
    return re.sub(r"[^a-z0-9.-]+", "_", value.strip().lower())
