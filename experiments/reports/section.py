r"""Sections and the page of them: figures, numbers and failed checks from code, and all of its words from a template.

A section's template sets `title`, `lead` and `verdict` in blocks ({% set title %}...{% endset %}); the rest of it is the body.
It shows figures by {% call figure(name, title, description) %}caption{% endcall %}, and tables by `table` of parts.html.jinja.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from experiments.reports.svg import inline_svg
from experiments.reports.templates import ENVIRONMENT

__all__ = ["Section", "SectionMaker", "page"]


@dataclass(frozen=True)
class Section:
    r"""One section of a page; text that is not `Markup` is escaped.

    `key` is its anchor; `lead` one sentence; `body` all that follows it; `svgs` the figures in it, as <svg> elements; `numbers`
    go to a file; `verdict` is one line for the top of the page, "" for none; `failures` say which checks failed.
    """

    key: str
    title: str
    lead: str
    body: str
    svgs: tuple[str, ...] = ()
    numbers: Any = None
    verdict: str = ""
    failures: tuple[str, ...] = ()

    @staticmethod
    def from_template(
        template: str, key: str, figures: Mapping[str, Figure], numbers: Any = None, failures: Sequence[str] = (), **values: Any
    ) -> Section:
        """Fill a section's template with values; `figures` by the names under which it shows them."""
        svgs: list[str] = []

        def figure(name: str, title: str, description: str, caller: Callable[[], Markup]) -> Markup:
            svgs.append(inline_svg(figures[name], f"figure-{name}", title, str(description)))
            return Markup("<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n").format(Markup(svgs[-1]), caller())

        filled: Any = ENVIRONMENT.get_template(template).make_module({**values, "figure": figure})
        return Section(key, filled.title, filled.lead, Markup(str(filled)), tuple(svgs), numbers, filled.verdict, tuple(failures))


# Makes a section from the recording, given a function that prints a line in the terminal.
SectionMaker = Callable[[Any, Callable[[str], None]], Section]


def page(sections: Sequence[Section], facts: Mapping[str, str], template: str, **values: Any) -> str:
    """One HTML file that loads nothing, by a template that extends reports/page.html.jinja; `facts` by name are its footer."""
    return ENVIRONMENT.get_template(template).render(sections=sections, facts=facts, **values)
