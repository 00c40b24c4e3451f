r"""Writes the page of a study from its records only: claim, verdict, figures, table and how they were made.

    DIR/index.html      one file that loads nothing
    DIR/table.md        verdict and table
    DIR/NAME.svg        every figure

Records may be a part of all; then the page says how many.
"""

from __future__ import annotations

from pathlib import Path

from experiments.files import write_files
from experiments.reports.report import Section, now, page
from experiments.reports.spreads import cell_text
from experiments.reports.svg import with_colours
from experiments.studies.report import StudyReport, report_of
from experiments.studies.study import Study

__all__ = ["write"]


def write(folder: Path, study: Study | None = None) -> str:
    """Write the page and its files; return the verdict and where the page is, in words. Raises: UsageError."""
    report = report_of(folder, study)
    claim, told = _claim(report), f"{report.word}. {report.sentence}"
    files = {f"{name}.svg": with_colours(svg) for name, svg in zip(report.figures, claim.svgs, strict=True)}
    files["table.md"] = f"{told}\n\n{report.tables}\n"
    files["index.html"] = page([claim], _facts(report), report.study.templates[0], found=report)
    files |= report.study.files(report.results)
    write_files(folder, files)
    return f"{told}\n{folder / 'index.html'}"


def _claim(found: StudyReport) -> Section:
    listed = [(name, cell_text(value)) for name, value in found.verdict.numbers.items()]
    return Section.from_template(found.study.templates[1], "claim", found.figures, found=found, listed=listed)


def _facts(found: StudyReport) -> dict[str, str]:
    return {
        "Command": found.commands,
        "Date": now(),
        "Runs": f"{found.runs}, {found.cost}",
        "Machine": found.machine,
        "Versions": found.versions,
    }
