"""The tasks by name; the file of a task is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from experiments.usage import check_word

if TYPE_CHECKING:
    from experiments.tasks.task import Task

__all__ = ["TASKS", "task_named"]

TASKS: Mapping[str, str] = {
    "recall": "experiments.tasks.recall:Recall",
    "repeat-text": "experiments.tasks.repeated_text:RepeatText",
    "copy": "experiments.tasks.copying:Copy",
    "variable-copy": "experiments.tasks.copying:VariableCopy",
    "adding": "experiments.tasks.adding:Adding",
    "clocked-recall": "experiments.tasks.clocked:ClockedRecall",
    "har": "experiments.tasks.recordings:HAR",
    "vowels": "experiments.tasks.recordings:Vowels",
    "recall-any-warp": "experiments.tasks.any_warp:AnyWarp",
}


def task_named(name: str) -> type[Task]:
    """The class of a task.

    Raises:  UsageError for another name, with the nearest one.
    """
    check_word("task", name, TASKS)
    found: type[Task] = resolve_name(TASKS[name])
    return found
