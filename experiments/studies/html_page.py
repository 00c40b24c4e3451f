r"""The page of a study: claim, verdict, figures, table and how they were made, from its records only.

    DIR/index.html      one file that loads nothing
    DIR/table.md        verdict and table
    DIR/NAME.svg        every figure

Records may be a part of all; then the page says how many.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ctrnn.storage.files import write_atomically
from experiments.files import not_writable
from experiments.reports.report import now
from experiments.reports.section import Section, page
from experiments.reports.spreads import number
from experiments.reports.svg import with_colours
from experiments.reports.templates import ENVIRONMENT
from experiments.studies.report import Report, report_of
from experiments.studies.study import Study

__all__ = ["as_html", "write"]


def write(folder: Path, study: Study | None = None) -> str:
    """Write the page and its files; the verdict and where the page is, in words. Raises: UsageError."""
    found = report_of(folder, study)
    claim, told = _claim(found), f"{found.word}. {found.sentence}"
    files = {f"{name}.svg": with_colours(svg) for name, svg in zip(found.figures, claim.svgs, strict=True)}
    files["table.md"] = f"{told}\n\n{found.tables}\n"
    files["index.html"] = page([claim], _facts(found), "studies/page.html.jinja", found=found)
    try:
        for name, text in files.items():
            write_atomically(folder / name, text)
    except OSError as error:
        raise not_writable(folder, error) from None
    return f"{told}\n{folder / 'index.html'}"


def _claim(found: Report) -> Section:
    numbers = found.verdict.numbers
    return Section.from_template(
        "studies/claim.html.jinja", "claim", found.figures, found=found, tables=as_html(found.tables),
        listed=[(name, number(value) if isinstance(value, float) else str(value)) for name, value in numbers.items()],
    )  # fmt: skip


def _facts(found: Report) -> dict[str, str]:
    return {
        "Command": found.commands,
        "Date": now(),
        "Runs": f"{found.runs}, {found.cost}",
        "Machine": found.machine,
        "Versions": found.versions,
    }


def as_html(markdown: str) -> Markup:
    """Pipe tables, and the lines between them as paragraphs; `code` and nothing else within."""
    parts: Any = ENVIRONMENT.get_template("reports/parts.html.jinja").module
    pieces, rows = list[str](), list[list[Markup]]()
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([Markup(_inline(cell)) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
            continue
        if rows:
            pieces.append(parts.table(rows[0], rows[2:], "wide", caller=str))
            rows = []
        if line.strip():
            pieces.append(f"<p>{_inline(line)}</p>\n")
    return Markup("".join(pieces))


def _inline(words: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words.strip().replace("\\|", "|"), quote=False))
