r"""Writes the ledger, or the report of a paper or a cell, as one HTML file: formulas in MathML, nothing loaded from anywhere.

Without scripts the page of the ledger shows every claim; the script only hides what is not searched for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from derivations.claim import Claim
from derivations.report import WORDS, Report
from experiments.derive.table import TITLES, summary
from experiments.reports import report

__all__ = ["page", "page_of_report"]


def page_of_report(found: Report, command: str) -> str:
    """Write the whole file of a report, and by which command it is made."""
    kinds = {WORDS[finding.verdict].kind for part in found.parts for finding in part.findings}
    return report.page((), {}, "derive/report.html.jinja", report=found, words=WORDS, kinds=kinds, command=command)


def page(claims: Sequence[Claim]) -> str:
    """Write the whole file."""
    count = Counter((claim.source, claim.verdict) for claim in claims)
    sources = list(dict.fromkeys(claim.source for claim in claims))
    used = {verdict: words for verdict, words in WORDS.items() if any(claim.verdict == verdict for claim in claims)}
    return report.page(
        (),
        {},
        "derive/page.html.jinja",
        chapters=[(source, list(found)) for source, found in groupby(claims, key=lambda claim: claim.source)],
        titles={source: TITLES.get(source, source) for source in sources},
        counts={source: [count[source, verdict] or "" for verdict in used] for source in sources},
        verdicts={words.kind: verdict for verdict, words in used.items()},
        words=WORDS,
        summary=summary(claims),
    )
