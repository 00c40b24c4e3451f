"""Put what studies found into a page, between their markers.

    ctrnn study run unwarped --scale small --out DIR
    python -m experiments.studies.docs_page DIR ...

A study stands between <!-- study: NAME --> and <!-- end -->; its figures are files in figures/ beside the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from ctrnn.storage.files import write_atomically
from experiments.reports.marked import fill
from experiments.studies.report import Report, report_of
from experiments.usage import UsageError

__all__ = ["section"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "studies.md"


def section(found: Report) -> str:
    """Write what was asked, claimed and found, in Markdown."""
    return found.markdown(lambda name: f"figures/{_file(found, name)}")


def _file(found: Report, name: str) -> str:
    return f"{found.study.name}-{name}.svg"


def main(folders: tyro.conf.Positional[tuple[Path, ...]], page: Annotated[Path, tyro.conf.arg(metavar="FILE")] = PAGE) -> None:
    """Put what the studies in these folders found into a page."""
    found = [report_of(folder) for folder in folders]
    try:
        text = fill(page.read_text(encoding="utf-8"), "study", {one.study.name: section(one) for one in found})
    except ValueError as error:  # it has no place for one of them
        raise UsageError(f"{page}: {error}") from None
    (page.parent / "figures").mkdir(exist_ok=True)
    for one in found:
        for name in one.figures:
            write_atomically(page.parent / "figures" / _file(one, name), one.svg(name))
    write_atomically(page, text)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except UsageError as error:
        sys.exit(f"experiments.studies.docs_page: {error}")
