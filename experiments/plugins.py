r"""Adds tasks, fields and studies of the user's own, from a file.

    TASKS = {"odd-ones": OddOnes}   STUDIES = {"odd-ones-study": OddOnesStudy}      FIELDS = {"mine": make}

A file has any of these three; make(input_size, hidden_size, dtype=..., generator=...) gives a field, as `ctrnn.gated` does. The
file is run; what is installed offers the same by the entry points ctrnn.tasks, ctrnn.studies and ctrnn.fields.
"""

from __future__ import annotations

from collections.abc import Iterable

from experiments.models.fields import FIELDS
from experiments.registry import add_from
from experiments.studies.registry import STUDIES
from experiments.tasks.registry import TASKS

__all__ = ["use"]

REGISTRIES = {"TASKS": TASKS, "FIELDS": FIELDS, "STUDIES": STUDIES}


def use(files: Iterable[str]) -> None:
    """Run the files and add what they have. Raises: UsageError for a file that cannot be run, or has nothing to add."""
    add_from(files, REGISTRIES)
