r"""The page of a study: claim, verdict, figures, table and how they were made, from its records only.

    DIR/index.html      one file that loads nothing
    DIR/table.md        verdict and table
    DIR/NAME.svg        every figure

Records may be a part of all; then the page says how many.
"""

from __future__ import annotations

import re
from datetime import datetime
from html import escape
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from experiments.files import not_writable, write_atomically
from experiments.reports.page import Heading, page, table
from experiments.reports.section import Section
from experiments.reports.spreads import number
from experiments.reports.svg import inline_svg, with_colours
from experiments.studies.report import Report, report_of
from experiments.studies.study import Study

__all__ = ["as_html", "write"]


class Picture(NamedTuple):
    """A figure as inline SVG, and its caption in HTML."""

    svg: str
    caption: str

    @property
    def html(self) -> str:
        return f"<figure>\n{self.svg}\n<figcaption>{self.caption}</figcaption>\n</figure>\n"


def write(folder: Path, study: Study | None = None) -> str:
    """Write the page and its files; the verdict and where the page is, in words. Raises: UsageError."""
    found = report_of(folder, study)
    pictures = {name: _picture(found, name) for name in found.figures}
    try:
        for name, picture in pictures.items():
            write_atomically(folder / f"{name}.svg", with_colours(picture.svg))
        write_atomically(folder / "table.md", f"{found.word}. {found.sentence}\n\n{found.tables}\n")
        write_atomically(folder / "index.html", _page(found, tuple(pictures.values())))
    except OSError as error:
        raise not_writable(folder, error) from None
    return f"{found.word}. {found.sentence}\n{folder / 'index.html'}"


def _page(found: Report, pictures: tuple[Picture, ...]) -> str:
    study = found.study
    heading = Heading(
        kicker=f"ctrnn study {study.name}",
        title=study.question,
        description=f"{found.word}: {study.claim}",
        text=Markup(
            f"The study <i>{escape(study.name)}</i> at scale <i>{escape(found.asked['scale'])}</i>, {escape(found.runs)}."
        ),
    )
    return page([_claim(found, pictures), *_choices(study)], _facts(found), heading)


def _claim(found: Report, pictures: tuple[Picture, ...]) -> Section:
    good = found.verdict is not None and found.verdict.word == "reproduced"
    word = f'<b class="{"ok" if good else "no"}">{found.word}.</b>'
    numbers = found.verdict.numbers if found.verdict else {}
    rows = [(name, number(value) if isinstance(value, float) else str(value)) for name, value in numbers.items()]
    return Section(
        key="claim",
        title="Claim and verdict",
        lead=Markup(f"{word} {escape(found.sentence)}"),
        body=Markup(f"<p>The claim: “{escape(found.study.claim)}”<small>{escape(found.study.source)}</small></p>")
        + (table("Our numbers", ("what", "number"), rows) if rows else "")
        + Markup("".join(picture.html for picture in pictures) + as_html(found.tables)),
    )


def _choices(study: Study) -> list[Section]:
    if not study.resolutions:
        return []
    body = Markup(f"<ul>{''.join(f'<li>{escape(words)}</li>' for words in study.resolutions)}</ul>")
    lead = "Where the paper is silent or contradicts itself, something had to be taken; it is ours."
    return [Section(key="choices", title="What was taken", lead=lead, body=body)]


def _picture(found: Report, name: str) -> Picture:
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise ValueError(f"a figure is named by a-z, 0-9 and '-', as its file is; got {name!r}.")
    caption = found.study.figures[name].caption
    svg = inline_svg(found.figures[name], f"{found.study.name}-{name}", caption, f"{found.word}. {found.sentence}")
    return Picture(svg, f"{escape(caption)} {escape(found.runs.capitalize())}.")


def _facts(found: Report) -> dict[str, str]:
    return {
        "Command": found.commands,
        "Date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "Runs": f"{found.runs}, {found.seconds:,.0f} s of training in all",
        "Machine": found.machine,
        "Versions": found.versions,
        "Numbers": "runs/KEY/rows.json in the same folder, a file a run; runs/KEY also has what the training wrote down.",
        "Source": found.study.source,
    }


def as_html(markdown: str) -> str:
    """Pipe tables, and the lines between them as paragraphs; `code` and nothing else within."""
    pieces, rows = list[str](), list[list[Markup]]()
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([Markup(_inline(cell)) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
            continue
        if rows:
            pieces.append(table("", rows[0], rows[2:], "wide"))
            rows = []
        if line.strip():
            pieces.append(f"<p>{_inline(line)}</p>\n")
    return "".join(pieces)


def _inline(words: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words.strip().replace("\\|", "|"), quote=False))
