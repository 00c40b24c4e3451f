r"""Checks all that `ctrnn compare`, and `compare` in Python, ask, and makes the comparison that the runner carries out.

--field gated,lstm,mine.py:Net  --integrator euler,exact  --dt 1,1/2  --speeds 1/2,1,2  --clock given,hidden  --seeds 5
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ctrnn.extras import needed_by
from experiments.models.fields import FIELDS, MODULES
from experiments.models.integrators import EXACT, INTEGRATORS, integrator_name, step_settings
from experiments.plugins import named_fields
from experiments.runs.command import refuse_unread
from experiments.runs.configuration import Configuration, by_key, configuration_from_words, from_things
from experiments.settings import words_of
from experiments.studies.study import data_path
from experiments.usage import UsageError, check_word

if TYPE_CHECKING:
    from ctrnn import VectorField
    from discretize import Step
    from experiments.compare.comparison import Comparison
    from experiments.studies.report import StudyReport
    from experiments.tasks.task import Task

__all__ = ["DEFAULT_SPEEDS", "INTEGRATOR", "SETTINGS", "compare", "comparison", "listed"]

INTEGRATOR = ("euler", "exponential-euler", EXACT)
T = TypeVar("T")
DEFAULT_SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Of training, where nothing else is said: minutes on two cores. One thread, so that no bit depends on how many workers there are.
SETTINGS: dict[str, Any] = {"steps": 300, "optimizer": "adam", "lr": 4e-3, "clip": 1.0, "hidden": 32, "threads": 1}
COUNTED = {"seed": "--seeds", "substeps": "--dt"}  # settings that a comparison counts itself
CLOCKS = {"given": True, "hidden": False}
FOLDERS = {"vowels": "japanese_vowels/", "har": "uci_har/"}  # of `--data DIR`


@needed_by("compare", "all")
def compare(
    task: str | Task,
    field: str | Callable[..., VectorField] | Sequence[str | Callable[..., VectorField]] = "gated",
    integrator: str | Step | Sequence[str | Step] = INTEGRATOR,
    *,
    out: str | Path,
    speeds: Sequence[float] | None = None,
    clock: str | Sequence[str] = "given",
    dt: float | Sequence[float] = 1.0,
    seeds: int = 5,
    score: str | None = None,
    workers: int | None = None,
    on: str = "here",
    plugin: Sequence[str] = (),
    **settings: object,
) -> StudyReport:
    r"""Train fields under several integrators, and run each trained model under each: which way matters, and where.

    Args:    task: a name, or a task; field: names, FILE.py:NAME, or what makes a field, called like `ctrnn.gated`; integrator:
             names, "exact" for the equation solved, or step maps; out: the folder, in which a comparison goes on where it was;
             speeds: how many times as fast the test is played, by default 1/4 to 4 where the task can be played, () for as it
             is; clock: "given" where samples then say how long they last, "hidden", or both; dt: how long a step is, as a share
             of its sample: 1, or 1 over a whole number; seeds: how many, each a start and batches of its own; score: the measure
             to compare by, by default accuracy, or the loss where there is none; workers: processes, None for runs one after
             another in this one, where a script needs no `if __name__ == "__main__"`; on: as for `ctrnn compare`; plugin: files
             with tasks or fields; settings: of task, field, integrator and training, by their keys, such as steps=1000.
    Returns: a report: `verdict.sentence`, `results.rows` (a data frame), `figures`; it shows itself in notebooks. The folder has
             index.html, table.md and rows.csv. Progress goes to stderr.
    Raises:  UsageError for what is wrong, before anything is trained, and at the end where a run failed.
    """
    fields, files = named_fields(_several(field), plugin)
    made = comparison(
        task,
        fields,
        _several(integrator),
        dt=_several(dt),
        speeds=speeds,
        clock=_several(clock),
        seeds=seeds,
        score=score,
        settings=settings,
    )
    from experiments.studies import runner  # noqa: PLC0415
    from experiments.studies.report import report_of  # noqa: PLC0415

    folder, where = Path(out), on if workers or on != "here" else runner.INSIDE
    with redirect_stdout(sys.stderr):  # progress
        done = runner.run(made.address, "", folder, f"compare(..., out={str(out)!r})", workers, plugins=files, on=where)
    if not done:
        raise UsageError(f"a run failed; {folder / 'runs'} says why, and the same call tries it again.")
    return report_of(folder, made)


def comparison(
    task: str | Task,
    fields: Sequence[Any],
    integrators: Sequence[Any],
    *,
    dt: Sequence[object],
    speeds: Sequence[object] | None,
    clock: Sequence[str],
    seeds: int,
    score: str | None,
    settings: Mapping[str, object],
    as_text: bool = False,
) -> Comparison:
    """Make the comparison, once all of it is checked. Raises: UsageError."""
    for option, values in {"field": fields, "integrator": integrators, "dt": dt, "clock": clock}.items():
        if not len(values):
            raise UsageError(f"--{option} takes one or several, got none.")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise UsageError(f"--seeds is how many, at least 1, and from 2 on there are intervals; got {seeds}.")
    names = [each if isinstance(each, str) else integrator_name(each) for each in integrators]
    settings = _of_steps(integrators) | dict(settings)
    for name in names:
        check_word("integrator", name, INTEGRATORS)
    ways = [(name, steps) for name in _once("integrator", names) for steps in ([1] if name == EXACT else _steps(dt))]
    base = _base(task, fields[0], names[0], dict(settings), as_text)
    fields = _once("field", [_field_named(each) for each in fields])
    base.task.fingerprint()  # raises for wrong files before anything is trained
    played = _speeds(base.task, speeds)
    for speed in played:
        dataclasses.replace(base, task=base.task.at_speed(speed, True))  # refused where a run of its own would be
    for word in clock:
        check_word("clock", word, CLOCKS)
    clocks = [CLOCKS[word] for word in _once("clock", clock)]
    measured = base.task.measured
    chosen = score or ("accuracy" if "accuracy" in measured else "loss")
    check_word("score", chosen, measured)
    from experiments.compare.comparison import Comparison  # noqa: PLC0415 (matplotlib, SciPy)

    made = Comparison(base.to_json(), fields, ways, seeds, played, clocks, chosen)
    first = [one.configuration for one in made.runs()[: len(fields) * len(ways)]]
    refuse_unread([dataclasses.replace(base, field=each.field, integrator=each.integrator) for each in first])
    for each in first:
        each.untrained_model()
    return made


def _of_steps(integrators: Sequence[Any]) -> dict[str, object]:
    """Return the settings of step maps that are given as such. Raises: UsageError where two have different ones."""
    settings: dict[str, object] = {}
    for step in (each for each in integrators if not isinstance(each, str)):
        for key in step_settings(type(step)):
            if settings.setdefault(key, value := getattr(step, key)) != value:
                raise UsageError(
                    f"two steps have {key} = {settings[key]} and {value}; a comparison has one, take two comparisons."
                )
    return settings


def _base(task: str | Task, field: Any, integrator: str, settings: Mapping[str, object], as_text: bool) -> Configuration:
    """Return the configuration that all runs share, with the settings of a comparison where nothing else is said."""
    given = by_key(settings)
    for key, option in COUNTED.items():
        if key in given:
            raise UsageError(
                f"a comparison has several values of {key}: say which by {option}, and leave out {key}={given[key]}."
            )
    name = task if isinstance(task, str) else ""
    folder = data_path(FOLDERS[name]) if name in FOLDERS and "data" not in given else None
    if name in FOLDERS and folder is None and "data" not in given:
        there = FOLDERS[name]
        raise UsageError(f"{name} reads recordings: --data DIR names the folder with {there} in it, or --set data=DIR that one.")
    known = SETTINGS | ({} if folder is None else {"data": str(folder)})
    given = {**known, **given}
    if not _reads_evaluations(given):
        given.setdefault("evaluate_every", given["steps"])  # once, at the end
    if not as_text:
        return from_things(task, field, integrator, given)
    assert isinstance(task, str)
    return configuration_from_words(task, field, integrator, [f"{key}={value}" for key, value in given.items()])


def _reads_evaluations(settings: Mapping[str, object]) -> bool:
    """Return whether evaluations before its end change a training."""
    words = {key: words_of(value).strip().lower() for key, value in settings.items()}
    ends = any(words.get(key, "none") != "none" for key in ("patience", "goal"))
    return ends or words.get("keep") == "best" or words.get("schedule") == "plateau"


def _speeds(task: Task, asked: Sequence[object] | None) -> list[float]:
    """Return the speeds at which the test is played; where none are said, those of the usual ones that the task can be."""
    if asked is None:
        return [speed for speed in DEFAULT_SPEEDS if task.has_speeds and _can_play(task, speed)]
    speeds = _once("speeds", [float(_fraction("speeds", each)) for each in asked])
    for speed in speeds:
        _play(task, speed)
    return sorted(speeds)


def _can_play(task: Task, speed: float) -> bool:
    try:
        _play(task, speed)
    except UsageError:
        return False
    return True


def _play(task: Task, speed: float) -> None:
    from experiments.seeds import generator  # noqa: PLC0415 (torch)

    task.at_speed(speed, True).batch(1, generator(0, "speed"), "test")


def _steps(dt: Sequence[object]) -> list[int]:
    """Return steps a sample, of the shares of a sample that steps are."""
    steps = []
    for each in _once("dt", [_fraction("dt", each) for each in dt]):
        if each > 1 or each.numerator != 1:
            raise UsageError(
                f"--dt is how long a step is, as a share of its sample: 1, or 1 over a whole number, such as 1/2; got {each}. "
                "To play the test faster take --speeds."
            )
        steps.append(each.denominator)
    return steps


def _fraction(option: str, value: object) -> Fraction:
    """Read "1/4", "0.25" or a number from 1/1000 on. Raises: UsageError."""
    try:
        fraction = Fraction(str(value)).limit_denominator(1000)
        near = abs(float(fraction) - float(Fraction(str(value)))) <= 1e-9 * float(fraction)
    except (ValueError, ZeroDivisionError, OverflowError):
        near = False
    if not near or not fraction > 0:
        raise UsageError(f"--{option} takes numbers from 1/1000 on with commas between, such as 1,1/2; got {str(value)!r}.")
    return fraction


def listed(option: str, text: str) -> list[str]:
    """Split what is typed at its commas. Raises: UsageError for an empty word."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise UsageError(f"--{option} takes one word or several with commas between, none of them empty; got {text!r}.")
    return words


def _once(option: str, values: Sequence[T]) -> list[T]:
    if twice := next((value for k, value in enumerate(values) if value in values[:k]), None):
        raise UsageError(f"--{option} has {twice} twice; each is compared once.")
    return list(values)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _field_named(field: Any) -> str:
    if not isinstance(field, str):
        return FIELDS.name_for(field)
    FIELDS.check(field)
    if field in MODULES:
        raise UsageError(f"{field} is a module of torch, no equation that integrators could run; leave it out.")
    return field
