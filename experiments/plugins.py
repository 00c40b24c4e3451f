r"""Adds tasks, fields and studies of the user's own, from a file.

    TASKS = {"odd-ones": OddOnes}   STUDIES = {"odd-ones-study": OddOnesStudy}      FIELDS = {"mine": make}

A file has any of these three; make(input_size, hidden_size, dtype=..., generator=...) gives a field, as `ctrnn.gated` does. The
file is run; what is installed offers the same by the entry points ctrnn.tasks, ctrnn.studies and ctrnn.fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from experiments.code_files import named_in
from experiments.models.fields import FIELDS
from experiments.registry import add_from, field_name
from experiments.studies.registry import STUDIES
from experiments.tasks.registry import TASKS
from experiments.usage import UsageError

__all__ = ["named_fields", "use"]

REGISTRIES = {"TASKS": TASKS, "FIELDS": FIELDS, "STUDIES": STUDIES}


def use(files: Iterable[str]) -> None:
    """Run the files and add what they have. Raises: UsageError for a file that cannot be run, or has nothing to add."""
    add_from(files, REGISTRIES)


def named_fields(fields: Sequence[Any], files: Sequence[str]) -> tuple[list[Any], tuple[str, ...]]:
    """Use files, and those of fields that are FILE.py:NAME; return the fields, these by their names, and all files.

    Raises: UsageError, as `use`.
    """
    if bare := [field for field in fields if isinstance(field, str) and field.endswith(".py")]:
        raise UsageError(f"{bare[0]} is a file; say which class or function in it is the field, {bare[0]}:NAME.")
    own = [field for field in fields if isinstance(field, str) and named_in(field)]
    use(found := (*files, *own))
    return [field_name(field, FIELDS) if field in own else field for field in fields], found
