r"""Pages of sections: figures, numbers and failed checks come from code, all words from templates.

A section's template sets `title`, `lead` and `verdict` in blocks ({% set title %}...{% endset %}); the rest of it is the body.
It shows figures by {% call figure(name, title, description) %}caption{% endcall %}, and tables and marks by `table` and `mark`
of parts.html.jinja.
`ctrnn demo` and `ctrnn breakdown` also share lines in the terminal, how a page was made, its files, and the last words.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from derivations.processes.interruption import checkpoint
from experiments.files import write_files
from experiments.reports.machine import version_of
from experiments.reports.svg import inline_svg
from experiments.reports.templates import ENVIRONMENT

__all__ = ["Section", "SectionMaker", "conclude", "facts", "failures_of", "now", "page", "progress", "say", "versions"]


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
        template: str,
        key: str,
        figures: Mapping[str, Figure],
        numbers: object = None,
        failures: Sequence[str] = (),
        **values: object,
    ) -> Section:
        """Fill a section's template with values and `numbers`; `figures` by the names under which it shows them."""
        svgs: list[str] = []

        def figure(name: str, title: str, description: str, caller: Callable[[], Markup]) -> Markup:
            svgs.append(inline_svg(figures[name], f"figure-{name}", title, str(description)))
            return Markup("<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n").format(Markup(svgs[-1]), caller())

        filled: Any = ENVIRONMENT.get_template(template).make_module({**values, "numbers": numbers, "figure": figure})
        return Section(key, filled.title, filled.lead, Markup(str(filled)), tuple(svgs), numbers, filled.verdict, tuple(failures))


# Makes a section from the recording, given a function that prints a line in the terminal.
SectionMaker = Callable[[Any, Callable[[str], None]], Section]


def page(sections: Sequence[Section], facts: Mapping[str, str], template: str, **values: object) -> str:
    """Write one HTML file that loads nothing, by a template that extends reports/page.html.jinja; `facts` are its footer."""
    return ENVIRONMENT.get_template(template).render(sections=sections, facts=facts, **values)


def say(line: str) -> None:
    """Print a line at once; an interrupt that came in between is raised here."""
    checkpoint()
    print(line, flush=True)


@contextmanager
def progress(label: str) -> Iterator[None]:
    """Show a line on stderr while something is worked on, where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(f"\x1b[K{label} ...\r")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\x1b[K")
        sys.stderr.flush()


def now() -> str:
    """Return date and time."""
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and these packages."""
    return {"python": platform.python_version(), **{name: version_of(name) for name in packages}}


def facts(command: str, credit: str, seconds: Mapping[str, float], packages: Sequence[str]) -> dict[str, str]:
    """Say how a page was made, for its footer."""
    return {
        "Command": command,
        "Date": now(),
        "Time": ", ".join(f"{key} {value:.1f} s" for key, value in seconds.items()),
        "Versions": ", ".join(f"{name} {number}" for name, number in versions(*packages).items()),
        "Data": credit,
    }


def failures_of(sections: Sequence[Section]) -> list[str]:
    """Return which checks failed, of all sections."""
    return [failure for section in sections for failure in section.failures]


def conclude(
    out: Path, sections: Sequence[Section], template: str, facts: Mapping[str, str], files: Mapping[str, str], took: float
) -> bool:
    """Write the page and its files, say what failed and where the page is; whether all checks passed. Raises: UsageError."""
    write_files(out, {**files, "index.html": page(sections, facts, template)})
    failures = failures_of(sections)
    for failure in failures:
        say(f"FAILED  {failure}")
    say("A check failed; the page says which." if failures else f"All checks passed, in {took:.0f} s.")
    say(f"{out / 'index.html'}")
    return not failures
