r"""Text between the markers of a page in the docs:

<!-- KIND: NAME -->
what a program writes
<!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["fill", "names"]


def names(page: str, kind: str) -> list[str]:
    """Return the names of the markers of this kind, in the page's order."""
    return [found[2] for found in _pattern(kind).finditer(page)]


def fill(page: str, kind: str, texts: Mapping[str, str]) -> str:
    """Put these texts between their markers. Raises: ValueError for a text that has no place in it."""
    if missing := sorted(set(texts) - set(names(page, kind))):
        raise ValueError(f"the page has no place for {missing[0]!r}: put <!-- {kind}: {missing[0]} --> and <!-- end --> into it.")
    return _pattern(kind).sub(lambda found: f"{found[1]}{texts[found[2]]}\n{found[3]}" if found[2] in texts else found[0], page)


def _pattern(kind: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {re.escape(kind)}: ([a-z0-9 -]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
