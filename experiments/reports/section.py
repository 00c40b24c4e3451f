"""What a section of the page is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Picture", "Section", "SectionMaker"]


@dataclass(frozen=True)
class Picture:
    """A figure as inline SVG, and the sentence that says what to see."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    r"""One section of the page.

    `key` is its anchor; `lead` one sentence, `body` and `after` HTML before and after the pictures; `numbers` goes to
    numbers.json; `verdict` is one line for the top of the page (HTML); `failures` says which checks failed, in plain text.
    """

    key: str
    title: str
    lead: str
    body: str
    pictures: tuple[Picture, ...] = ()
    after: str = ""
    numbers: Any = None
    verdict: str = ""
    failures: tuple[str, ...] = field(default=())


# From the recording and a way to say a line in the terminal.
SectionMaker = Callable[[Any, Callable[[str], None]], Section]
