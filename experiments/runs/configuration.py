r"""A configuration: everything that a run is a function of.

    task, with its settings    field, with how it starts    integrator, with how fine    training: data, optimizer, schedule

The settings of all four are one flat list of keys at the prompt; names and keys are known without importing torch, those of a
task when its file is imported, after all that is wrong without it was told.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from experiments.models.fields import FieldSettings, known_field
from experiments.models.integrators import IntegratorSettings, known_integrator
from experiments.settings import LARGEST, assigned, made, read_json, setting_types, words_of
from experiments.tasks.registry import TASKS, task_named
from experiments.usage import UsageError, did_you_mean

__all__ = ["MOST_THREADS", "Configuration", "TrainingSettings", "check_names", "configured"]

if TYPE_CHECKING:
    from experiments.tasks.task import Task

MOST_THREADS = 1024
LARGEST_NUMBER = 1e30  # single precision ends at 3.4e38, and optimizers compute with it


@dataclass(frozen=True)
class TrainingSettings:
    r"""How a model is trained.

    Args:    steps: batches in all; batch: sequences in one; seed: of weights and data;
             optimizer: "rmsprop", with a moving average of 0.9, or "adam"; rate: at which learning starts;
             schedule: "constant" or "plateau", halved at every evaluation that is no new lowest; clip: largest norm of the
             gradient, None for no bound;
             evaluate_every: steps between evaluations; evaluation: sequences in one, and in the test at the end;
             checkpoint_every: steps between checkpoints; batches: of a training set, None for fresh ones at every step;
             threads: of torch, None for as many as it takes.
    Raises:  ValueError for numbers that train nothing.
    Source:  Tallec and Ollivier 2018, sec. 3.
    """

    steps: int = 1000
    batch: int = 32
    seed: int = 0
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    rate: float = 1e-3
    schedule: Literal["constant", "plateau"] = "constant"
    clip: float | None = None
    evaluate_every: int = 100
    evaluation: int = 1000
    checkpoint_every: int = 100
    batches: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "evaluate_every", "evaluation", "checkpoint_every", "batches", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}.")
            most = MOST_THREADS if name == "threads" else LARGEST
            if value is not None and value > most:
                raise ValueError(f"`{name}` must be at most {most}, got {value}.")
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0, got {self.seed}.")
        for name in ("rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < LARGEST_NUMBER:
                raise ValueError(f"`{name}` must be a number above 0, and below {LARGEST_NUMBER:g}, got {value:g}.")
        for name, known in (("optimizer", ("rmsprop", "adam")), ("schedule", ("constant", "plateau"))):
            if getattr(self, name) not in known:
                raise ValueError(f"`{name}` must be {' or '.join(known)}, got {getattr(self, name)!r}.")


SHARED = FieldSettings, IntegratorSettings, TrainingSettings
DEFAULT_FIELD, DEFAULT_INTEGRATOR, DEFAULT_TRAINING = FieldSettings(), IntegratorSettings(), TrainingSettings()


@dataclass(frozen=True)
class Configuration:
    r"""What is trained, on what, and how; two runs of the same one give the same weights, on the same machine.

    Args:    task: a `Task`; field, integrator: names of `FIELDS` and `INTEGRATORS`; and the settings of each.
    Raises:  UsageError for a name that is not known.
    """

    task: Task
    field: str
    integrator: str
    field_settings: FieldSettings = DEFAULT_FIELD
    integrator_settings: IntegratorSettings = DEFAULT_INTEGRATOR
    training: TrainingSettings = DEFAULT_TRAINING

    def __post_init__(self) -> None:
        known_field(self.field)
        known_integrator(self.integrator)

    def to_json(self) -> dict[str, Any]:
        """Names and settings, as `from_json` reads them. Raises: UsageError for a task that has no name."""
        return {
            "task": self.task_name,
            "field": self.field,
            "integrator": self.integrator,
            "task_settings": _values(self.task),
            "field_settings": _values(self.field_settings),
            "integrator_settings": _values(self.integrator_settings),
            "training": _values(self.training),
        }

    @classmethod
    def from_json(cls, values: object) -> Configuration:
        """Raises: UsageError for what is no configuration."""
        parts = ("task", "field", "integrator", "task_settings", "field_settings", "integrator_settings", "training")
        if not isinstance(values, dict) or sorted(values) != sorted(parts):
            raise UsageError(f"a configuration is an object with {', '.join(parts)}.")
        for part in ("task", "field", "integrator"):
            if not isinstance(values[part], str):
                raise UsageError(f"{part} is a name, got {values[part]!r}.")
        return cls(
            read_json(task_named(values["task"]), values["task_settings"]),
            values["field"],
            values["integrator"],
            read_json(FieldSettings, values["field_settings"]),
            read_json(IntegratorSettings, values["integrator_settings"]),
            read_json(TrainingSettings, values["training"]),
        )

    @property
    def task_name(self) -> str:
        """The name that the task has in `TASKS`."""
        kind = type(self.task)
        place = f"{kind.__module__}:{kind.__qualname__}"
        name = next((name for name, home in TASKS.items() if home == place), None)
        if name is None:
            raise UsageError(f"the task {kind.__name__} has no name in TASKS, by which a run could find it again.")
        return name

    def settings(self) -> dict[str, Any]:
        """All settings by their keys."""
        return {key: value for part in self._parts() for key, value in _values(part).items()}

    def named(self) -> dict[str, Any]:
        """Names and settings, all by their keys."""
        return {"task": self.task_name, "field": self.field, "integrator": self.integrator, **self.settings()}

    def differences(self, other: Configuration) -> list[str]:
        """Keys and names in which two configurations differ."""
        ours, theirs = self.named(), other.named()
        return [key for key in ours if key in theirs and ours[key] != theirs[key]]

    def command(self, folder: Path, resume: bool = False) -> str:
        """What to type for this run: only settings that are not those by default are in it."""
        words = ["ctrnn", "train", "--task", self.task_name, "--field", self.field, "--integrator", self.integrator]
        words += ["--out", str(folder)]
        for part in self._parts():
            for setting in dataclasses.fields(part):
                value = getattr(part, setting.name)
                if value != setting.default:
                    words += ["--set", f"{setting.name}={words_of(value)}"]
        return shlex.join(words + ["--resume"] * resume)

    def _parts(self) -> tuple[Any, ...]:
        return self.task, self.field_settings, self.integrator_settings, self.training


def check_names(task: str, field: str, integrator: str) -> None:
    """Refuse names that nothing has, before anything is imported. Raises: UsageError."""
    if task not in TASKS:
        hint = did_you_mean(task, TASKS) or f"; there is {', '.join(TASKS)}."
        raise UsageError(f"there is no task {task!r}{hint}")
    known_field(field)
    known_integrator(integrator)


def configured(task: str, field: str, integrator: str, assignments: Sequence[str] = ()) -> Configuration:
    r"""The configuration of those names with `KEY=VALUE` settings.

    Raises:  UsageError for names, keys and values that are not known.
    """
    check_names(task, field, integrator)
    shared, theirs = _told_apart(assignments)
    words = assigned(shared, SHARED)
    settings = made(FieldSettings, words[0]), made(IntegratorSettings, words[1]), made(TrainingSettings, words[2])
    # Only now, as a task's file imports torch: a key that nothing above has is the task's, or wrong.
    kind = task_named(task)
    return Configuration(made(kind, assigned(theirs, (kind, *SHARED))[0]), field, integrator, *settings)


def _told_apart(assignments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The assignments to keys that are shared by all tasks, with what is no assignment, and the others."""
    known = {key for kind in SHARED for key in setting_types(kind)}
    parts: tuple[list[str], list[str]] = [], []
    for assignment in assignments:
        key, equals, _ = assignment.partition("=")
        parts[bool(key and equals and key not in known)].append(assignment)
    return parts


def _values(settings: Any) -> Mapping[str, Any]:
    """A dataclass's own fields by name; JSON writes tuples as lists."""
    return {part.name: getattr(settings, part.name) for part in dataclasses.fields(settings) if part.init}
