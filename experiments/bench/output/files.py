"""The output file of a comparison: its ending chooses the form, and it is checked before minutes of work."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from experiments.files import write_atomically
from experiments.usage import UsageError, check_word

__all__ = ["refuse", "write"]

ENDINGS = (".json", ".md", ".svg", ".png")


def refuse(out: Path) -> None:
    """Raises: UsageError for a file that cannot be written."""
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file in it.")
    check_word("file ending", out.suffix, ENDINGS)
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}.")
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        raise UsageError(f"--out {out}: cannot write to {out.parent} ({error.strerror or error}).") from None


def write(out: Path, record: dict[str, Any]) -> None:
    """By the file's ending: the whole record, the tables, or the figure."""
    if out.suffix == ".json":
        write_atomically(out, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    elif out.suffix == ".md":
        from experiments.bench.output.tables import document  # noqa: PLC0415

        write_atomically(out, document(record))
    else:
        from experiments.bench.output.figures import overview, save  # noqa: PLC0415

        save(overview(record), out)
