r"""Reports of proofs: what was asked beside where it stands, in a paper or in code, with what was found and why.

Excerpt     lines as they are typed, each perhaps with the mathematics that was read from it
Finding     a verdict, and rows of what belongs to it: read as, for, if, at, left side, right side, because, add
Part        an excerpt and what was found of it
Report      parts behind a summary: text for a terminal, Markdown, and a table for notebooks
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from sympy import Basic

from derivations.prover.formulas import PrintedFormula, written
from derivations.prover.notebook import COLOURS, Cells, in_html
from derivations.prover.verdict import AT_SIZES, BUT_FOR_ROUNDING, FAILS, HOLDS, HOLDS_ASSUMING, REINTERPRETED, UNDECIDED

__all__ = ["DEFINED", "NOT_READ", "NO_EQUATION", "SUPPOSED", "WORDS", "Excerpt", "Finding", "Line", "ReportPart", "Report"]

DEFINED, SUPPOSED, NOT_READ, NO_EQUATION = "defined", "supposed", "not read", "not an equation"
WIDTH = 80
VERDICT, LABEL = 13, 12  # columns


class VerdictWords(NamedTuple):
    """Says how a verdict is shown: before a claim, in a count of several, and on the page by its CSS class and a mark."""

    short: str
    plural: str
    kind: str
    mark: str

    @property
    def single(self) -> str:
        """Return the words of a count of one."""
        verb, *others = self.plural.split(" ")
        return " ".join([{"hold": "holds", "do": "does"}.get(verb, verb), *others])


WORDS = {
    HOLDS: VerdictWords("holds", "hold", "holds", "✓"),
    HOLDS_ASSUMING: VerdictWords("holds if", "hold under the stated assumptions", "assuming", "✓"),
    AT_SIZES: VerdictWords("at sizes", "hold at the sizes computed", "sizes", "✓"),
    REINTERPRETED: VerdictWords("reread", "hold after reinterpretation", "reread", "≈"),
    BUT_FOR_ROUNDING: VerdictWords("rounded", "hold but for rounding", "reread", "≈"),
    FAILS: VerdictWords("NOT SO", "do not hold as printed", "fails", "✗"),
    UNDECIDED: VerdictWords("undecided", "undecided", "undecided", "?"),
    DEFINED: VerdictWords("defined", "define a letter", "said", ":="),
    SUPPOSED: VerdictWords("supposed", "are supposed", "said", ":="),
    NOT_READ: VerdictWords("not read", "not read", "undecided", "?"),
    NO_EQUATION: VerdictWords("no equation", "no equations", "said", "–"),
}
TRUTH = {"holds": True, "assuming": True, "sizes": True, "fails": False}


@dataclass(frozen=True)
class Line:
    """A line as it is typed: its number, its text, and the mathematics that was read from it."""

    number: int
    text: str
    formulas: tuple[PrintedFormula, ...] = ()


@dataclass(frozen=True)
class Excerpt:
    """Lines of a text or of code, under a title that says where they stand; fault: line and column of what is wrong."""

    title: str
    lines: tuple[Line, ...]
    fault: tuple[int, int] | None = None

    @property
    def typed(self) -> str:
        return "\n".join(line.text for line in self.lines)


@dataclass(frozen=True)
class Finding:
    """A verdict, what it is of in words or as a formula, and rows of a label and its cells; empty ones are left out."""

    verdict: str
    words: str | Basic | PrintedFormula
    rows: tuple[tuple[str, Cells], ...] = ()

    @property
    def shown(self) -> list[tuple[str, Cells]]:
        return [(label, cells) for label, cells in self.rows if cells]


@dataclass(frozen=True)
class ReportPart:
    """An excerpt, and what was found of it."""

    excerpt: Excerpt | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Report:
    """Parts behind a title and the lines of a summary; proved: whether all is. Text by str, Markdown by `markdown()`."""

    title: str
    summary: tuple[str, ...]
    parts: tuple[ReportPart, ...]
    proved: bool

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return str(self)

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Write the report for a terminal, line by line."""
        yield self.title
        for line in self.summary:
            yield from _wrapped("", line, width)
        for part in self.parts:
            yield ""
            if part.excerpt is not None:
                yield part.excerpt.title
                yield from _typed(part.excerpt, width)
            for finding in part.findings:
                yield from _wrapped(f"  {WORDS[finding.verdict].short:<{VERDICT - 2}}", _text(finding.words), width)
                for label, cells in finding.shown:
                    for k, cell in enumerate(cells):
                        yield from _wrapped(f"{'':{VERDICT}}{label if k == 0 else '':<{LABEL}}", _text(cell), width)

    def markdown(self) -> str:
        """Write the report as Markdown, formulas in LaTeX between dollar signs."""
        lines = [f"# {_in_markdown(self.title)}", "", *(f"{_in_markdown(line)}  " for line in self.summary)]
        for part in self.parts:
            lines += (
                ["", f"## {_in_markdown(part.excerpt.title)}", "", *_fenced(part.excerpt)] if part.excerpt is not None else [""]
            )
            for finding in part.findings:
                words = _in_markdown(finding.words)
                lines += ["", f"**{finding.verdict}**{': ' * bool(words)}{words}", *[""] * bool(finding.shown)]
                lines += [f"- {label}: {'; '.join(map(_in_markdown, cells))}" for label, cells in finding.shown]
        return "\n".join([*lines, ""])

    def excerpts_in_html(self) -> str:
        """Write the excerpts alone, for a notebook's table."""
        return "".join(_typed_in_html(part.excerpt) for part in self.parts if part.excerpt is not None)

    def _repr_html_(self) -> str:
        head = "".join(f"<p>{escape(line)}</p>" for line in (self.title, *self.summary))
        return f'<div class="ctrnn">{head}{"".join(map(_html, self.parts))}</div>'


def _text(cell: str | Basic | PrintedFormula) -> str:
    if isinstance(cell, str):
        return cell
    return (cell if isinstance(cell, PrintedFormula) else written(cell)).words


def _wrapped(start: str, text: str, width: int) -> list[str]:
    indent = " " * len(start)
    lines = textwrap.wrap(start + text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.rstrip() for line in lines] or [start.rstrip()]


def _typed(excerpt: Excerpt, width: int) -> Iterator[str]:
    """Write lines as typed, with a mark under what is wrong; one that is too long is cut to what is around it."""
    room, several = width - 8, len(excerpt.lines) > 1
    for line in excerpt.lines:
        start = f"{line.number:>5}  " if several else " " * 4
        text, at = line.text, excerpt.fault[1] - 1 if excerpt.fault and excerpt.fault[0] == line.number else -1
        if at > room - 8:
            text, at = f"... {text[at - room // 2 :]}", room // 2 + 4
        if at >= 0:
            yield start + (text if len(text) <= room else f"{text[: room - 4]} ...")
            yield f"{'':{len(start) + at}}^"
        else:
            yield from _wrapped(start, text, width) if text.strip() else []
        for formula in line.formulas:
            yield from _wrapped(f"{'':{len(start)}}-> ", formula.words, width)


def _fenced(excerpt: Excerpt) -> list[str]:
    fence = "```" if "```" not in excerpt.typed else "~~~~"
    read = [f"- line {line.number}: {_in_markdown(formula)}" for line in excerpt.lines for formula in line.formulas]
    return [fence, *excerpt.typed.splitlines(), fence, *[""] * bool(read), *read]


def _in_markdown(cell: str | Basic | PrintedFormula) -> str:
    if isinstance(cell, str):
        return "".join(rf"\{sign}" if sign in r"\`*_{}[]<>#|$" else sign for sign in cell)
    formula = cell if isinstance(cell, PrintedFormula) else written(cell)
    return f"${formula.display}$" if formula.display else f"`{formula.words}`"


def _typed_in_html(excerpt: Excerpt) -> str:
    lines = "".join(
        f'<pre style="margin:0;white-space:pre-wrap">{escape(line.text)}</pre>'
        + "".join(f'<div style="margin-left:3em;opacity:0.8">{in_html(formula)}</div>' for formula in line.formulas)
        for line in excerpt.lines
    )
    return f'<div style="margin-top:0.8em"><strong>{escape(excerpt.title)}</strong>{lines}</div>'


def _html(part: ReportPart) -> str:
    text = _typed_in_html(part.excerpt) if part.excerpt is not None else ""
    rows = ""
    for finding in part.findings:
        colour = COLOURS[TRUTH.get(WORDS[finding.verdict].kind)]
        rows += _row(f'<span style="color:{colour}">{escape(finding.verdict)}</span>', [finding.words])
        rows += "".join(_row(escape(label), cells) for label, cells in finding.shown)
    return f"{text}<table><tbody>{rows}</tbody></table>"


def _row(head: str, cells: Sequence[str | Basic | PrintedFormula]) -> str:
    style = "text-align:left;vertical-align:top"
    lines = "".join(f"<div>{in_html(cell)}</div>" for cell in cells)
    return f'<tr><th scope="row" style="{style};white-space:nowrap">{head}</th><td style="{style}">{lines}</td></tr>'
