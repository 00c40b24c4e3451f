r"""The ledger: every claim of the papers, and every result of our own, with its verdict.

Chapters are decided one by one, or shared among processes; nothing is kept from one run to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from importlib import import_module
from types import FunctionType

from derivations.claim import Claim, Entry, decided
from derivations.contents import SOURCES
from derivations.processes.pool import Work, WorkerPool, in_order

__all__ = ["Ledger", "begin", "chapter", "chapters_of", "decide_all", "entries", "ledger"]


class Ledger(list[Claim]):
    """Claims in the order of the texts; printed, and at the end of a notebook's cell, a table of verdicts by source."""

    def _table(self) -> list[list[str]]:
        verdicts = Counter((claim.source, claim.verdict) for claim in self)
        kinds = list(dict.fromkeys(claim.verdict for claim in self))
        sources = dict.fromkeys(claim.source for claim in self)
        rows = [[source, *(str(verdicts[source, kind] or "") for kind in kinds)] for source in sources]
        return [["", *kinds], *rows]

    def __str__(self) -> str:
        if not self:
            return "no claims"
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<Ledger: {len(self)} claims>"

    def _repr_html_(self) -> str:
        rows = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._table()]
        return f'<table class="ctrnn"><caption>{len(self)} claims</caption><tbody>{"".join(rows)}</tbody></table>'


def ledger(source: str | None = None, *, workers: int = 1) -> Ledger:
    r"""Decide every claim.

    Args:    source: the stem of a literature file or "this project", all of them if not given; workers: processes to
             share the chapters among (a script that asks for more than one needs `if __name__ == "__main__":`).
    Returns: a list of claims in the order of the texts, which shows itself as a table.
    Raises:  ValueError for a source that is not in the ledger, or for less than one worker; RuntimeError where a worker was lost
             twice in one chapter, or none comes up.
    Source:  the texts named in docs/references.md; this project.
    """
    return Ledger(decide_all(source, workers=workers))


def decide_all(source: str | None = None, *, workers: int = 1) -> Iterator[Claim]:
    r"""`ledger`, one claim at a time, as they are decided.

    Args, Returns, Raises, Source: as `ledger`.
    """
    chapters = chapters_of(source)
    if workers < 1:
        raise ValueError(f"`workers` must be at least 1, got {workers}.")
    if workers == 1:
        return (decided(entry) for name in chapters for entry in chapter(name))
    return _shared(chapters, workers)


def entries(source: str | None = None) -> Iterator[Entry]:
    """What is written down, undecided. Args, Raises: as `ledger`."""
    return (entry for name in chapters_of(source) for entry in chapter(name))


def chapter(name: str) -> Iterator[Entry]:
    """The entries of a file of `derivations/texts`: of its sections, functions `() -> Iterator[Entry]`, in their order."""
    module = import_module(f"derivations.texts.{name}")
    for section in vars(module).values():
        ours = isinstance(section, FunctionType) and section.__module__ == module.__name__
        if ours and section.__annotations__ == {"return": "Iterator[Entry]"}:
            yield from section()


def chapters_of(source: str | None) -> tuple[str, ...]:
    """The files of a source, or of all. Raises: as `ledger`."""
    if source is None:
        return tuple(chapter for chapters in SOURCES.values() for chapter in chapters)
    if source not in SOURCES:
        raise ValueError(f"`source` must be one of {', '.join(map(repr, SOURCES))}, got {source!r}.")
    return SOURCES[source]


def _shared(chapters: tuple[str, ...], workers: int) -> Iterator[Claim]:
    pool = WorkerPool(workers, Work("derivations.book:begin"))
    for claims in in_order(pool.carry_out(chapters), chapters):
        yield from claims


def begin() -> Callable[[str], list[Claim]]:
    """Return the function that decides a chapter in a worker."""
    return lambda name: [decided(entry) for entry in chapter(name)]
