"""The output file of a comparison: its ending chooses the form, and it is checked before minutes of work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ctrnn.storage.files import write_atomically
from experiments.files import check_output, write_json
from experiments.usage import check_word

__all__ = ["refuse", "write"]

ENDINGS = (".json", ".md", ".svg", ".png")


def refuse(out: Path) -> None:
    """Raises: UsageError for a file that cannot be written, or of another kind."""
    check_output(out)
    check_word("file ending", out.suffix, ENDINGS)


def write(out: Path, record: dict[str, Any]) -> None:
    """By the file's ending: the whole record, the tables, or the figure."""
    if out.suffix == ".json":
        write_json(out, record)
    elif out.suffix == ".md":
        from experiments.bench.output.tables import document  # noqa: PLC0415

        write_atomically(out, document(record))
    else:
        from experiments.bench.output.figures import overview, save  # noqa: PLC0415

        save(overview(record), out)
