"""Write the pages of studies, docs/studies/NAME.md, and the table of them in docs/studies.md, from the records in docs/tables.

    ctrnn study run unwarped --scale small --out DIR
    python -m experiments.studies.docs_page DIR ...     records what the studies in these folders found, and draws their figures
    python -m experiments.studies.docs_page --beside DIR ...      the same of another scale, which the page then has in a section
    python -m experiments.studies.docs_page             all pages anew, from what is recorded and what the studies say

A page is written only if it changes. What is said by hand of a study, its title, what was found in short and what else was looked
at, is in docs/tables/NAME/words.txt, see `found`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from experiments.reports.marked import fill
from experiments.reports.pages import write_pages
from experiments.reports.spreads import markdown
from experiments.studies.found import REPORT, WORDS, Found, OtherScale, read_words, scales_in
from experiments.studies.registry import OWN, study_named
from experiments.studies.report import StudyReport, report_of
from experiments.studies.study import Study
from experiments.studies.verdicts import NoVerdict
from experiments.usage import UsageError

__all__ = ["DOCS", "indexed", "other_scales", "page", "pages", "record"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
GONE = "gone, and with them the commit that trained them; what is here was kept of them"
NO_COMMIT = "; the commit that trained them was not kept"


def record(report: StudyReport, docs: Path = DOCS, beside: bool = False) -> None:
    """Keep what a report says, and its figures, in place of the record or beside that of another scale.

    Raises: UsageError where there is no verdict, before anything is written.
    """
    name, scale = report.study.name, report.asked["scale"]
    if isinstance(report.verdict, NoVerdict) and not report.verdict.final:
        raise UsageError(f"nothing is published of {name} without a verdict: {report.word}. {report.sentence}")
    at = f"{scale}-" if beside else ""
    drawn = {docs / "figures" / _file(name, f"{at}{figure}"): report.svg(figure) for figure in report.figures}
    kept = docs / "tables" / name / (scale if beside else "") / REPORT
    if kept in write_pages({kept: report.found.text(), **drawn}) and kept.with_name(WORDS).exists():
        print(f"{kept.with_name(WORDS)} was written of the runs before: read it again")


def page(study: Study, docs: Path = DOCS) -> str:
    """Write the page of a study from its record."""
    folder = docs / "tables" / study.name
    words, found, others = read_words(folder), Found.read(folder), other_scales(study.name, docs)
    records = _records(folder, found, docs)
    text = found.markdown(study, lambda figure: f"../figures/{_file(study.name, figure)}", words, records, others)
    return f"# {words.title}\n\n{text}\n"


def other_scales(name: str, docs: Path = DOCS) -> list[OtherScale]:
    """Read what is recorded of a study at other scales than that of its page."""
    folder = docs / "tables" / name
    read = {folder / scale: Found.read(folder / scale) for scale in scales_in(folder)}
    return [OtherScale(place.name, found, read_words(place), _records(place, found, docs)) for place, found in read.items()]


def _records(folder: Path, found: Found, docs: Path) -> str:
    """Say where the records of the runs are. No links: the site would copy each file, three megabytes in all."""
    place = folder.relative_to(docs).as_posix()
    kept = [f"`docs/{place}/{name}`" for name in ("runs.csv", "rows.csv") if (folder / name).exists()]
    return " and ".join(kept) + (NO_COMMIT if not found.commits else "") if kept else GONE


def pages(docs: Path = DOCS) -> dict[Path, str]:
    """Write the page of each study that has a record, and the page of all of them."""
    studies = [study_named(name) for name in OWN if (docs / "tables" / name / REPORT).exists()]
    index = docs / "studies.md"
    written = {docs / "studies" / f"{study.name}.md": page(study, docs) for study in studies}
    return {**written, index: indexed(index.read_text(encoding="utf-8"), studies, docs)}


def indexed(text: str, studies: Sequence[Study], docs: Path = DOCS) -> str:
    """Put a line for each study between the markers of the page of all. Raises: ValueError if it has none."""
    return fill(text, "studies", {"found": markdown(["study", "question", "verdict"], [_line(study, docs) for study in studies])})


def _line(study: Study, docs: Path) -> list[str]:
    """Write the row of a study, with anchors of its name and title: links to sections that the page once had still work."""
    folder = docs / "tables" / study.name
    title, verdicts = read_words(folder).title, [Found.read(folder).heading.lower()]
    verdicts += [f"at `{other.scale}`: {other.found.heading.lower()}" for other in other_scales(study.name, docs)]
    anchors = dict.fromkeys((study.name, re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")))
    anchored = "".join(f'<a id="{anchor}"></a>' for anchor in anchors)
    return [f"{anchored}[{title}](studies/{study.name}.md)", study.question, "; ".join(verdicts)]


def _file(study: str, figure: str) -> str:
    return f"{study}-{figure}.svg"


def main(
    folders: tyro.conf.Positional[tuple[Path, ...]] = (),
    docs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = DOCS,
    beside: bool = False,
) -> None:
    """Record what the studies in these folders found, and write the pages that this changes.

    Args:  docs: the documents;  beside: keep the record of the page, of another scale, and these in sections of it.
    """
    try:
        for report in [report_of(folder) for folder in folders]:
            record(report, docs, beside)
        write_pages(pages(docs))
    except (ValueError, FileNotFoundError) as error:  # a page without markers
        raise UsageError(f"{docs}: {error}") from None


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except UsageError as error:
        sys.exit(f"experiments.studies.docs_page: {error}")
