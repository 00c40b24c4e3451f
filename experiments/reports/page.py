r"""The page: one HTML file without scripts that loads nothing, for a phone or a screen, light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from experiments.reports.section import Section
from experiments.reports.templates import ENVIRONMENT

__all__ = ["Heading", "page", "table"]


PAGE = "reports/page.html.jinja"


@dataclass(frozen=True)
class Heading:
    """What stands above the sections; text that is not `Markup` is escaped."""

    kicker: str
    title: str
    description: str
    text: str


def page(
    sections: Sequence[Section],
    facts: Mapping[str, str],
    heading: Heading | None = None,
    template: str = "reports/page.html.jinja",
) -> str:
    """The whole file, below a heading or by a template that extends the ordinary one; `facts` are the footer's, text by name."""
    return ENVIRONMENT.get_template(template).render(sections=sections, facts=facts, heading=heading)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "numbers") -> Markup:
    """A table whose first column names its rows; kinds: "numbers", "words", "wide", which scrolls; `head` is HTML."""
    parts = ENVIRONMENT.get_template("reports/parts.html.jinja").module
    return parts.table(head, list(rows), kind, caller=lambda: caption)  # type: ignore[attr-defined]
