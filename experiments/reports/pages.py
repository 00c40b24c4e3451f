"""Writes pages of the docs that a program makes, each only where it has changed, and splits what is long in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ctrnn.storage.files import write_atomically

__all__ = ["short_paragraphs", "write_pages"]

LONGEST = 100  # words of a paragraph, unless a sentence alone has more


def write_pages(pages: Mapping[Path, str]) -> list[Path]:
    """Write the files whose text is another one than before, print their names, and return them."""
    changed = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pages[path])
        print(path)
    return changed


def short_paragraphs(text: str, most: int = LONGEST) -> list[str]:
    """Split a text into paragraphs of about so many words, at the ends of sentences, and in long ones behind a semicolon."""
    parts: list[list[str]] = []
    whole = ""
    for piece in re.split(r"(?<=[.?!;])\s+(?=[A-Z“(])|(?<=;)\s+", text.strip()):
        whole = f"{whole} {piece}".strip()
        if whole.count("(") > whole.count(")") or whole.count("`") % 2:  # the piece ends within parentheses, or code
            continue
        words, whole = whole.split(), ""
        if parts and len(parts[-1]) + len(words) <= most:
            parts[-1] += words
        else:
            parts.append(words)
    if whole:
        parts.append(whole.split())
    return [" ".join(words) for words in parts]
