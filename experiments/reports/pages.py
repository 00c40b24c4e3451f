"""Writes pages of the docs that a program makes, each only where it has changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ctrnn.storage.files import write_atomically

__all__ = ["write_pages"]


def write_pages(pages: Mapping[Path, str]) -> list[Path]:
    """Write the files whose text is another one than before, print their names, and return them."""
    changed = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pages[path])
        print(path)
    return changed
