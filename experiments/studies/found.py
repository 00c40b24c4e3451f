r"""Keeps the results of a study in a file, so that its page is made again without the runs.

    Report.found  <->  docs/tables/NAME/report.json        and beside it, by hand:  words.txt
                       docs/tables/NAME/SCALE/report.json  of the same study at another scale, with words.txt of its own

`words.txt` is Markdown: a title, what was found in short, of which the first paragraph stands above the figure, and perhaps
sections of what else was looked at. Its links are those of a page in docs/studies. Of another scale the title is that of a
section, and what was found in short is all that is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ctrnn.storage.files import read_file
from experiments.files import MOST_JSON
from experiments.reports.pages import short_paragraphs
from experiments.studies.specs import FilledTable
from experiments.studies.study import SCALES
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, partial_words
from experiments.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.studies.study import Study

__all__ = ["REPORT", "WORDS", "Found", "OtherScale", "Words", "read_words", "folders_of", "scales_in"]

REPORT, WORDS = "report.json", "words.txt"
ANSWERS: dict[str, bool | None] = {"yes": True, "no": False, "undecided": None}


class Words(NamedTuple):
    """Holds what is written by hand of a study: a title, a summary and further sections."""

    title: str
    short: Sequence[str] = ()
    more: str = ""


@dataclass(frozen=True)
class Found:
    """Holds verdict, tables and how they were made. `parts`: (claim, answer, evidence); `summary`: in place of the parts."""

    heading: str
    parts: Sequence[tuple[str, str, str]]
    summary: str
    another: str
    runs: str
    partial: bool
    figures: Sequence[str]
    tables: Sequence[FilledTable]
    diverged: Mapping[str, int]
    commands: str
    cost: str
    machine: str
    versions: str
    commits: str = ""

    @property
    def verdict(self) -> ClaimVerdict:
        parts = [ClaimPart(claim, ANSWERS[answer], evidence) for claim, answer, evidence in self.parts]
        return ClaimVerdict(parts, summary=self.summary, another=self.another)

    @property
    def sentence(self) -> str:
        """Return the sentence of the verdict, and say behind it if some runs are missing."""
        return f"{self.verdict.sentence}{partial_words(self.runs) if self.partial else ''}"

    def markdown(
        self,
        study: Study,
        place: Callable[[str], str],
        words: Words | None = None,
        records: str = "",
        others: Sequence[OtherScale] = (),
    ) -> str:
        """Write question, claim, verdict and a figure, and below them all the rest.

        Args:  place: says where a figure's picture is, SCALE-NAME of another scale;  records: where those of the runs are.
        """
        from experiments.reports.templates import ENVIRONMENT  # noqa: PLC0415

        ENVIRONMENT.filters |= {"short_paragraphs": short_paragraphs, "paragraphs": _paragraphs}
        template = ENVIRONMENT.get_template("studies/found.md.jinja")
        words = words or Words("")
        return template.render(found=self, study=study, place=place, words=words, records=records, others=others).strip()

    def text(self) -> str:
        """Write it as JSON, a row of a table a line, so that what has changed can be seen."""
        found = {**asdict(self), "tables": [table._asdict() for table in self.tables]}
        return _json({name: part for name, part in found.items() if name != "commits" or part}) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what `text` wrote. Raises: UsageError for a file that has something else."""
        try:
            record = json.loads(read_file(folder / REPORT, MOST_JSON))
            tables = [FilledTable(**table) for table in record["tables"]]
            return cls(**{**record, "tables": tables, "parts": [tuple(part) for part in record["parts"]]})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{folder / REPORT} is no record of what a study found: {error!r}") from None


class OtherScale(NamedTuple):
    """Holds what was found at another scale than that of a study's page, and where the records of its runs are."""

    scale: str
    found: Found
    words: Words
    records: str


def folders_of(folder: Path) -> list[Path]:
    """Return the folders of a study's records, first that of its page."""
    return [each for each in (folder, *(folder / scale for scale in scales_in(folder))) if (each / REPORT).exists()]


def scales_in(folder: Path) -> list[str]:
    """Return the scales that a study is recorded at beside that of its page."""
    return [scale for scale in SCALES if (folder / scale / REPORT).exists()]


def read_words(folder: Path) -> Words:
    """Read what somebody wrote; where nobody did, the title is the name of the folder. Raises: UsageError without a title."""
    if not (folder / WORDS).exists():
        return Words(folder.name.replace("-", " ").capitalize())
    text, mark, more = read_file(folder / WORDS, MOST_JSON).decode().partition("\n## ")
    title, *short = [part.strip() for part in text.strip().split("\n\n")]
    if not title.startswith("# ") or "\n" in title:
        raise UsageError(f"{folder / WORDS} begins with a title, a line '# What was asked' and an empty one; got {title[:80]!r}.")
    return Words(title.removeprefix("# "), short, f"{mark}{more}".strip())


def _paragraphs(text: str, begin: str) -> str:
    """Split a text, each paragraph but the first on a line of its own that begins so."""
    return f"\n{begin}".join(short_paragraphs(text))


def _json(value: Any, indent: str = "\n") -> str:
    within, ended = isinstance(value, Mapping), f"{indent} "
    if within:
        parts = [f"{json.dumps(key)}: {_json(part, ended)}" for key, part in value.items()]
    elif isinstance(value, list | tuple) and not all(isinstance(part, str) for part in value):
        parts = [_json(part, ended) for part in value]
    else:
        return json.dumps(value, ensure_ascii=False)
    first, last = "{}" if within else "[]"
    return f"{first}{ended}{f',{ended}'.join(parts)}{indent}{last}" if parts else first + last
