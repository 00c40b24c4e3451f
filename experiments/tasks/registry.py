"""Lists the tasks by name; the file of a task is imported on first use. Others are added by plugins.py and by entry points."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING

from experiments.registry import Registry
from experiments.usage import UsageError

if TYPE_CHECKING:
    from experiments.tasks.task import Task

__all__ = ["TASKS", "task_named"]

OWN = {
    "recall": "experiments.tasks.warps.recall:Recall",
    "recall-at-ends": "experiments.tasks.warps.recall:RecallAtEnds",
    "repeat-text": "experiments.tasks.warps.repeated_text:RepeatText",
    "next-character": "experiments.tasks.next_character:NextCharacter",
    "next-word": "experiments.tasks.next_word:NextWord",
    "copy": "experiments.tasks.copying:Copy",
    "variable-copy": "experiments.tasks.copying:VariableCopy",
    "adding": "experiments.tasks.adding:Adding",
    "two-sequence": "experiments.tasks.two_sequence:TwoSequence",
    "tones": "experiments.tasks.tones:Tones",
    "clocked-recall": "experiments.tasks.warps.clocked:ClockedRecall",
    "moving-recall": "experiments.tasks.warps.clocked:MovingRecall",
    "har": "experiments.tasks.recorded.har:HAR",
    "har-at-speeds": "experiments.tasks.recorded.at_speeds:HARAtSpeeds",
    "har-delayed": "experiments.tasks.recorded.at_speeds:DelayedHAR",
    "vowels": "experiments.tasks.recorded.vowels:Vowels",
    "pixels": "experiments.tasks.recorded.pixels:Pixels",
    "forecast": "experiments.tasks.forecast:Forecast",
    "recall-any-warp": "experiments.tasks.warps.recall:AnyWarp",
    "flip-flop": "experiments.tasks.cognitive:FlipFlop",
    "decision": "experiments.tasks.cognitive:Decision",
    "context": "experiments.tasks.cognitive:Context",
    "delayed-match": "experiments.tasks.cognitive:DelayedMatch",
    "working-memory": "experiments.tasks.cognitive:WorkingMemory",
    "ready-set-go": "experiments.tasks.cognitive:ReadySetGo",
    "rhythm": "experiments.tasks.cognitive:Rhythm",
    "neurogym": "experiments.tasks.neurogym:NeuroGym",
    "arrays": "experiments.tasks.recorded.arrays:Arrays",
    "csv": "experiments.tasks.recorded.table:TableTask",
    "physionet": "experiments.tasks.recorded.patients:Patients",
}
TASKS = Registry("task", "ctrnn.tasks", OWN)


def task_named(name: str) -> type[Task]:
    """Return the class of a task.

    Raises:  UsageError for another name, with the nearest one, and for what is no task.
    """
    task = TASKS.named(name)
    from experiments.tasks.task import Task  # noqa: PLC0415

    if not (isinstance(task, type) and issubclass(task, Task) and is_dataclass(task)):
        raise UsageError(f"the task {name} is no subclass of experiments.tasks.task.Task that is a dataclass.")
    return task
