r"""Adds tasks, fields and studies of the user's own, from a file.

    TASKS = {"odd-ones": OddOnes}   STUDIES = {"odd-ones-study": OddOnesStudy}      FIELDS = {"mine": make}

A file has any of these three; make(input_size, hidden_size, dtype=..., generator=...) gives a field, as `ctrnn.gated` does. The
file is run; what is installed offers the same by the entry points ctrnn.tasks, ctrnn.studies and ctrnn.fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.code_files import imported
from experiments.models.fields import FIELDS
from experiments.studies.registry import STUDIES
from experiments.tasks.registry import TASKS
from experiments.usage import UsageError

__all__ = ["use"]

REGISTRIES = {"TASKS": TASKS, "FIELDS": FIELDS, "STUDIES": STUDIES}


def use(files: Iterable[str]) -> None:
    """Run the files and add what they have. Raises: UsageError for a file that cannot be run, or has nothing to add."""
    for file in files:
        module = imported(file)
        found = {table: getattr(module, table) for table in REGISTRIES if hasattr(module, table)}
        if not found:
            raise UsageError(f"{file} has none of {', '.join(REGISTRIES)}, dictionaries of what it adds, by name.")
        for table, things in found.items():
            if not isinstance(things, Mapping):
                raise UsageError(f"{table} in {file} must be a dictionary of classes by name, got {type(things).__name__}.")
            for name, thing in things.items():
                if not callable(thing):
                    raise UsageError(f"{table} in {file} has {name!r}, which is no class or function: {type(thing).__name__}.")
                REGISTRIES[table].add(str(name), thing, file)
