r"""The equations: the theorem in three parts; every core identity proved, and the one that the paper misprints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from markupsafe import Markup, escape

import derivations
from experiments.data.recording import Recording
from experiments.reports.report import Section

__all__ = ["ProofRow", "checked", "misprinted", "section", "theorem", "typeset"]

PAPERS = {
    "tallec-ollivier-2018": "Tallec and Ollivier 2018",
    "ohno-kumagai-2021": "Ohno and Kumagai 2021",
    "this project": "this project",
}
ARGUMENT = [("tallec-ollivier-2018", f"eq. {number}") for number in (6, 7, 8)]  # from a clock to a gated cell
SIGNS = (
    (r"\balpha\b", "α"),
    (r"\bbeta\b", "β"),
    (r"\bsigma\b", "σ"),
    (r"\bh_?0\b", "h₀"),
    (r"\bt_?0\b", "t₀"),
    (r"-&gt;", "→"),
    (r"&gt;=", "≥"),
    (r"(?<=[\s(])-(?=[\s\w(|])", "−"),
    (r"(?<=[\w)])&#39;(?!s\b)", "′"),
    (r"\^\(((?:[^()]|\([^()]*\))*)\)", r"<sup>\1</sup>"),
    (r"\^([\w/]+)", r"<sup>\1</sup>"),
    (r"\b([a-zA-Z])_(\w+)", r"\1<sub>\2</sub>"),
)


@dataclass(frozen=True)
class ProofRow:
    """An identity and what SymPy found."""

    source: str
    label: str
    statement: str
    assumptions: tuple[str, ...]
    verdict: str
    evidence: str
    holds: bool | None
    seconds: float

    @property
    def paper(self) -> str:
        return PAPERS.get(self.source, self.source)


def checked() -> Iterator[ProofRow]:
    """Decide the core identities, and yield each as soon as it is."""
    yield from (_row(*pair) for pair in derivations.check_all())


def misprinted() -> Iterator[ProofRow]:
    """Decide the equations that do not hold as a paper prints them."""
    yield from (_row(*pair) for pair in derivations.check_all(derivations.misprints()))


def _row(identity: derivations.Identity, verdict: derivations.Verdict) -> ProofRow:
    return ProofRow(
        identity.source,
        identity.label,
        identity.statement,
        tuple(identity.assumptions),
        verdict.verdict,
        verdict.evidence,
        verdict.holds,
        verdict.seconds,
    )


def theorem(recording: Recording, say: Callable[[str], None]) -> Section:
    """Check the three identities that lead from a clock to a gated cell."""
    argument = [each for each in derivations.core_identities() if (each.source, each.label) in ARGUMENT]
    rows = list(_said((_row(*pair) for pair in derivations.check_all(argument)), say))
    return Section.from_template(
        "demo/theorem.html.jinja",
        "theorem",
        figures={},
        numbers=[asdict(row) for row in rows],
        failures=_failures(rows),
        rows=rows,
        held=sum(row.holds is True for row in rows),
        typeset=typeset,
    )


def section(recording: Recording, say: Callable[[str], None], verbose: bool = False) -> Section:
    """Check everything, saying each verdict as it comes, or those that are not as expected."""
    rows = list(_said(checked(), say, None if verbose else True))
    wrong = list(_said(misprinted(), say, None if verbose else False))
    held = sum(row.holds is True for row in rows)
    say(f"  {held} of {len(rows) + len(wrong)} hold{_corrected(wrong)}")
    return Section.from_template(
        "demo/proofs.html.jinja",
        "equations",
        figures={},
        numbers={"identities": [asdict(row) for row in rows], "misprints": [asdict(row) for row in wrong]},
        failures=[
            *_failures(rows),
            *(
                f"{row.source}, {row.label} was expected not to hold as printed: {row.verdict}"
                for row in wrong
                if row.holds is not False
            ),
        ],
        # The papers first, in the order in which they come.
        sources=sorted(dict.fromkeys(row.source for row in rows), key=lambda source: source == "this project"),
        rows=rows,
        wrong=wrong,
        held=held,
        corrected=_corrected(wrong),
        papers=PAPERS,
        typeset=typeset,
    )


def typeset(words: str) -> Markup:
    """Write ASCII formulas in HTML, with the letters and signs of print."""
    text = str(escape(words))
    for pattern, sign in SIGNS:
        text = re.sub(pattern, sign, text)
    return Markup(text)


def _said(rows: Iterator[ProofRow], say: Callable[[str], None], expected: bool | None = None) -> Iterator[ProofRow]:
    """Yield rows, and say those that do not end as expected, or all of them."""
    for row in rows:
        if expected is None or row.holds is not expected:
            say(f"  {f'{row.paper}, {row.label}':<46}  {row.verdict}")
        yield row


def _failures(rows: list[ProofRow]) -> list[str]:
    return [f"{row.source}, {row.label}: {row.verdict}: {row.statement}" for row in rows if not row.holds]


def _corrected(wrong: list[ProofRow]) -> str:
    """The correction of a misprint is one of the identities that hold."""
    refuted = sum(row.holds is False for row in wrong)
    one = "does not hold as printed, and holds as corrected"
    return f"; {refuted} {one if refuted == 1 else 'do not hold as printed, and hold as corrected'}" if refuted else ""
