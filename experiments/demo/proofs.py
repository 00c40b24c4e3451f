r"""The equations: every core identity checked by SymPy, and the one that the paper misprints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from html import escape

import derivations
from experiments.data.recording import Recording
from experiments.reports.page import table
from experiments.reports.section import Section

__all__ = ["Row", "checked", "misprinted", "section"]

PAPERS = {
    "tallec-ollivier-2018": "Tallec and Ollivier 2018",
    "ohno-kumagai-2021": "Ohno and Kumagai 2021",
    "this project": "this project",
}


SIGNS = (
    (r"\balpha\b", "α"), (r"\bbeta\b", "β"), (r"\bsigma\b", "σ"), (r"\bh_?0\b", "h₀"), (r"\bt_?0\b", "t₀"),
    (r"-&gt;", "→"), (r"&gt;=", "≥"), (r"(?<=[\s(])-(?=[\s\w(|])", "−"), (r"(?<=[\w)])&#x27;(?!s\b)", "′"),
    (r"\^\(((?:[^()]|\([^()]*\))*)\)", r"<sup>\1</sup>"), (r"\^([\w/]+)", r"<sup>\1</sup>"),
    (r"\b([a-zA-Z])_(\w+)", r"\1<sub>\2</sub>"),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """An identity and what SymPy found."""

    source: str
    label: str
    statement: str
    assumptions: tuple[str, ...]
    verdict: str
    evidence: str
    holds: bool | None
    seconds: float


def checked() -> Iterator[Row]:
    """The core identities, each as soon as it is decided."""
    yield from (_row(*pair) for pair in derivations.check_all())


def misprinted() -> Iterator[Row]:
    """Equations that do not hold as a paper prints them."""
    yield from (_row(*pair) for pair in derivations.check_all(derivations.misprints()))


def _row(identity: derivations.Identity, verdict: derivations.Verdict) -> Row:
    return Row(
        identity.source, identity.label, identity.statement, tuple(identity.assumptions),
        verdict.verdict, verdict.evidence, verdict.holds, verdict.seconds,
    )  # fmt: skip


def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Check everything, saying each verdict as it comes."""
    say("Identities, checked by SymPy")
    rows = _told(checked(), say)
    wrong = _told(misprinted(), say)
    held = sum(row.holds is True for row in rows)
    failures = [f"{row.source}, {row.label}: {row.verdict}: {row.statement}" for row in rows if not row.holds]
    failures += [
        f"{row.source}, {row.label} was expected not to hold as printed: {row.verdict}" for row in wrong if row.holds is not False
    ]
    say(f"  {held} of {len(rows)} hold")
    say("")
    body = "".join(_table(source, [row for row in rows if row.source == source]) for source in dict.fromkeys(_sources(rows)))
    return Section(
        key="equations",
        title="The equations, proved",
        lead=f"{held} of {len(rows)} identities are proved by computer algebra, from the chain rule for clocks to the torch "
        "code itself.",
        body="<p>An identity holds when SymPy reduces left side minus right side to exactly 0, entry by entry; no numbers are "
        "involved. Where signs, positivity or elapsed time are assumed, the assumption is named. The last rows trace the torch "
        "code that runs below and prove it equal to the equations.</p>\n" + body + _misprints(wrong),
        numbers={"identities": [asdict(row) for row in rows], "misprints": [asdict(row) for row in wrong]},
        verdict=f"{held} of {len(rows)} identities hold, by computer algebra.",
        failures=tuple(failures),
    )


def _told(rows: Iterator[Row], say: Callable[[str], None]) -> list[Row]:
    told = []
    for row in rows:
        place = f"{PAPERS.get(row.source, row.source)}, {row.label}"
        say(f"  {place:<46}  {row.verdict}")
        told.append(row)
    return told


def _sources(rows: list[Row]) -> list[str]:
    """The papers first, in the order in which they come."""
    return sorted(dict.fromkeys(row.source for row in rows), key=lambda source: source == "this project")


def _table(source: str, rows: list[Row]) -> str:
    name = PAPERS.get(source, source)
    lines = [[_typeset(row.label), _statement(row), _verdict(row)] for row in rows]
    caption = f"{escape(name[:1].upper() + name[1:])}: {sum(row.holds is True for row in rows)} of {len(rows)} hold"
    drawn = table(caption, ["Where", "What it says", "Verdict"], lines, kind="words")
    if source != "this project":
        return drawn
    summary = f"{len(rows)} more, which no paper prints: what ties the equations together, and to the code"
    return f"<details>\n<summary>{summary}</summary>\n{drawn}</details>\n"


def _statement(row: Row) -> str:
    assumed = f"<small>for {_typeset(', '.join(row.assumptions))}</small>" if row.assumptions else ""
    return _typeset(row.statement) + assumed


def _typeset(words: str) -> str:
    """ASCII formulas in HTML, with the letters and signs of print."""
    words = escape(words)
    for pattern, sign in SIGNS:
        words = re.sub(pattern, sign, words)
    return words


def _verdict(row: Row) -> str:
    word = "holds" if row.holds else row.verdict
    return f'<span class="{"ok" if row.holds else "no"}">{"✓" if row.holds else "✗"} {escape(word)}</span>'


def _misprints(rows: list[Row]) -> str:
    lines = [
        [f"{escape(PAPERS.get(row.source, row.source))}, {escape(row.label)}", _statement(row), _verdict(row)] for row in rows
    ]
    return (
        table("Not so as printed; the corrected form is among the above", ["Where", "What it says", "Verdict"], lines, "words")
        if lines
        else ""
    )
