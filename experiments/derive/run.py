"""Decide the ledger and write it down in the form asked for."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctrnn.storage.files import write_atomically
from derivations import report
from derivations.book import decide_all
from derivations.claim import Claim
from derivations.processes.interruption import checkpoint
from derivations.report import Report
from derivations.rules.replay import as_data
from experiments.derive import latex, table
from experiments.files import check_output

__all__ = ["KEYS", "as_json", "run", "show", "watched", "write_report"]

KEYS = ("source", "label", "statement", "assumptions", "verdict", "correction", "evidence", "seconds")
MORE_KEYS = ("quote", "mutation", "scope", "defined_on", "prior_work")
WORKERS = 2
WIDTH = 120  # of a table that no terminal sets the width of


def run(source: str | None, form: str, out: Path | None) -> bool:
    """Decide and write the claims; return whether every decision is as recorded."""
    return all(claim.as_recorded for claim in show(decide_all(source, workers=1 if source else WORKERS), form, out))


def show(
    decided: Iterator[Claim], form: str, out: Path | None, notes: Sequence[str] = (), more: Mapping[str, str] | None = None
) -> list[Claim]:
    """Write claims as they are decided, with notes behind their count, and in JSON more of each; return them."""
    if out is not None:
        check_output(out)
    claims: list[Claim] = []
    decided = watched(decided, claims)
    if form == "table" and out is None:
        for line in table.lines(decided, shutil.get_terminal_size((WIDTH, 24)).columns):
            print(line, flush=True)
        print("", table.summary(claims), *notes, sep="\n")
    else:
        for _ in decided:
            pass
        _put(_text(claims, form, notes, more or {}), out, table.summary(claims))
    return claims


def as_json(claim: Claim) -> dict[str, Any]:
    """Return a claim's public fields by name; its formulas as LaTeX, the counterexample as text, the certificates as data."""
    named = {key: list(value) if isinstance(value := getattr(claim, key), tuple) else value for key in (*KEYS, *MORE_KEYS)}
    numbers = {str(letter): str(value) for letter, value in claim.counterexample.items()}
    latex_of = [formula.latex for formula in claim.formulas]
    return {**named, "latex": latex_of, "counterexample": numbers, "certificate": as_data(claim.certificates)}


def _text(claims: list[Claim], form: str, notes: Sequence[str], more: Mapping[str, str]) -> str:
    if form == "json":
        # A claim a line: its certificates would be thousands.
        return "[\n" + ",\n".join(json.dumps({**as_json(claim), **more}, ensure_ascii=False) for claim in claims) + "\n]\n"
    if form == "latex":
        return latex.document(claims, notes)
    if form == "html":
        from experiments.derive.page import page  # noqa: PLC0415 - loads matplotlib

        return page(claims)
    return "\n".join([*table.lines(claims, WIDTH), "", table.summary(claims), *notes, ""])


def write_report(found: Report, form: str, out: Path | None, command: str) -> None:
    """Write a report as text, Markdown or a page; to a file with its count on stderr."""
    if form == "html":
        from experiments.derive.page import page_of_report  # noqa: PLC0415 - loads matplotlib

        text = page_of_report(found, command)
    else:
        width = min(shutil.get_terminal_size((report.WIDTH, 24)).columns, WIDTH) if out is None else report.WIDTH
        text = found.markdown() if form == "markdown" else "\n".join([*found.lines(max(width, 40)), ""])
    _put(text, out, found.summary[:2][-1])  # of a cell as text the verdict is the title, and the exit status alone is left


def _put(text: str, out: Path | None, summary: str) -> None:
    """Write a text on the terminal, or into a file, with what it comes to on stderr."""
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text)
        print(f"{summary} Written to {out}.", file=sys.stderr)


def watched(decided: Iterator[Claim], claims: list[Claim] | None = None) -> Iterator[Claim]:
    """The claims as they come, kept, with their number on a terminal's last line."""
    live = sys.stderr.isatty() and (claims is None or not sys.stdout.isatty())  # claims that are printed need no count
    claims = [] if claims is None else claims
    for claim in decided:
        checkpoint()
        claims.append(claim)
        if live:
            print(f"\r{len(claims)} claims decided", end="", file=sys.stderr, flush=True)
        yield claim
    if live:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
