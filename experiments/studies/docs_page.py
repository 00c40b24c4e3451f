"""Put what studies found into a page, between their markers.

    ctrnn study run unwarped --scale small --out DIR
    python -m experiments.studies.docs_page DIR ...

A study stands between <!-- study: NAME --> and <!-- end -->; its figures are files in figures/ beside the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import tyro

from ctrnn.storage.files import write_atomically
from experiments.reports.marked import fill
from experiments.reports.svg import inline_svg, with_colours
from experiments.studies.report import Report, report_of
from experiments.usage import UsageError

__all__ = ["section"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "studies.md"


def section(found: Report) -> str:
    """What was asked, claimed and found, in Markdown."""
    study = found.study
    parts = [
        study.question,
        f"> {study.claim}\n>\n> {study.source}",
        f"**{found.word}.** {found.sentence}",
        *(f"![{study.figures[name].caption}](figures/{_file(found, name)})" for name in found.figures),
        found.tables,
    ]
    if study.resolutions:
        parts.append("Where the paper is silent or contradicts itself, this was taken:")
        parts.append("\n".join(f"- {words}" for words in study.resolutions))
    parts.append(
        f"`{found.commands}`: {found.runs}, {found.seconds:,.0f} s of training in all. "
        f"Machine: {found.machine}. Versions: {found.versions}."
    )
    return "\n\n".join(part for part in parts if part)


def _file(found: Report, name: str) -> str:
    return f"{found.study.name}-{name}.svg"


def _drawn(found: Report) -> Iterable[tuple[str, str]]:
    for name, figure in found.figures.items():
        caption = found.study.figures[name].caption
        yield _file(found, name), with_colours(inline_svg(figure, f"{found.study.name}-{name}", caption, found.sentence))


def main(folders: tyro.conf.Positional[tuple[Path, ...]], page: Annotated[Path, tyro.conf.arg(metavar="FILE")] = PAGE) -> None:
    """Put what the studies in these folders found into a page."""
    found = [report_of(folder) for folder in folders]
    text = fill(page.read_text(encoding="utf-8"), "study", {one.study.name: section(one) for one in found})
    (page.parent / "figures").mkdir(exist_ok=True)
    for one in found:
        for name, drawn in _drawn(one):
            write_atomically(page.parent / "figures" / name, drawn)
    write_atomically(page, text)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except UsageError as error:
        sys.exit(f"experiments.studies.docs_page: {error}")
