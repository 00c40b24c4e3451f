r"""Results as notebooks show them: a table of labels and cells, in HTML with MathML, or in LaTeX.

A cell is words, formulas one below the other, or both. Names may be a user's own: they are escaped in either writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from sympy import Basic, Eq

from derivations.prover.formulas import PrintedFormula, written
from derivations.prover.symbols import latex_text

__all__ = ["COLOURS", "Cells", "NotebookTable", "certificate_words", "counterexample_cells", "in_html"]

Cells = Sequence[str | Basic | PrintedFormula]
# Readable on white and on black.
COLOURS = {True: "#2a9d54", False: "#d1495b", None: "#8a8a8a"}
LEFT = "text-align:left;vertical-align:top;padding:0.2em 1em 0.2em 0"


class NotebookTable:
    """Shows itself as a table; a subclass gives `_rows`, and a colour for its first cell if it is a verdict."""

    def _rows(self) -> Iterable[tuple[str, Cells]]:
        raise NotImplementedError

    def _colour(self) -> str:
        return "inherit"

    def lines(self) -> Iterator[str]:
        """Write the rows as lines of text."""
        for label, cells in self._rows():
            for place, cell in enumerate(cells):
                words = cell if isinstance(cell, str) else (cell if isinstance(cell, PrintedFormula) else written(cell)).words
                yield f"{label if place == 0 else '':<20}{words}"

    def _repr_html_(self) -> str:
        rows = "".join(self._html_rows())
        return f'<table class="ctrnn" style="border-collapse:collapse"><tbody>{rows}</tbody></table>'

    def _html_rows(self) -> Iterator[str]:
        for place, (label, cells) in enumerate(row for row in self._rows() if row[1]):
            colour = f";color:{self._colour()}" if place == 0 else ""
            lines = "".join(f'<div style="margin:0.2em 0">{in_html(cell)}</div>' for cell in cells)
            head = f'<th scope="row" style="{LEFT};white-space:nowrap">{escape(label)}</th>'
            yield f'<tr>{head}<td style="{LEFT}{colour}">{lines}</td></tr>'

    def _repr_latex_(self) -> str:
        lines = [
            rf"\text{{{latex_text(label if place == 0 else '')}}} & {_latex(cell)}"
            for label, cells in self._rows()
            for place, cell in enumerate(cells)
        ]
        body = " \\\\\n".join(lines)
        return f"$\\displaystyle\n\\begin{{array}}{{ll}}\n{body}\n\\end{{array}}$"


def in_html(cell: str | Basic | PrintedFormula) -> str:
    if isinstance(cell, str):
        return escape(cell)
    formula = cell if isinstance(cell, PrintedFormula) else written(cell)
    if formula.mathml:
        return f'<math displaystyle="true">{formula.mathml}</math>'
    return f"<code>{escape(formula.words)}</code>"


def _latex(cell: str | Basic | PrintedFormula) -> str:
    if isinstance(cell, str):
        return rf"\text{{{latex_text(cell)}}}"
    formula = cell if isinstance(cell, PrintedFormula) else written(cell)
    return formula.display or rf"\texttt{{{latex_text(formula.words)}}}"


def counterexample_cells(numbers: Mapping[Any, object] | None) -> Cells:
    """Write letters and their numbers as equations."""
    pairs = (numbers or {}).items()
    return [
        Eq(u, value, evaluate=False) if isinstance(u, Basic) and isinstance(value, Basic) else f"{u} = {value}"
        for u, value in pairs
    ]


def certificate_words(certificate: object) -> Cells:
    """Say how many certificates there are, and how many lines they have."""
    count, lines = _count(certificate)
    return [f"{count} certificate{'s' * (count != 1)}, {lines} line{'s' * (lines != 1)}"] if count else []


def _count(x: object) -> tuple[int, int]:
    if isinstance(x, Mapping):
        inner = [_count(value) for value in x.values()]
        own = (int("rule" in x), sum(len(x[name]) for name in ("generators", "lines") if name in x))
        return own[0] + sum(c for c, _ in inner), own[1] + sum(n for _, n in inner)
    if isinstance(x, tuple | list):
        inner = [_count(part) for part in x]
        return sum(c for c, _ in inner), sum(n for _, n in inner)
    return 0, 0
