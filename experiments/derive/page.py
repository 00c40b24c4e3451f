r"""The ledger as one HTML file: formulas in MathML, a search box, nothing loaded from anywhere.

Without scripts the page shows every claim; the script only hides what is not searched for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from derivations.claim import Claim
from experiments.derive.table import WORDS, summary
from experiments.reports import report

__all__ = ["page"]

TITLES = {
    "tallec-ollivier-2018": "Tallec and Ollivier 2018, Can recurrent neural networks warp time?",
    "tallec-ollivier-2018-summary": "A summary of Tallec and Ollivier 2018",
    "huth-2020-lecture-slides": "Huth 2020, Long short-term memory networks II (slides)",
    "ohno-kumagai-2021": "Ohno and Kumagai 2021",
    "ollivier-2013-riemannian-metrics-ii": "Ollivier 2013, Riemannian metrics for neural networks II",
    "this project": "Results of this project",
}


def page(claims: Sequence[Claim], notes: Sequence[str] = ()) -> str:
    """Write the whole file; notes follow the count."""
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
        notes=notes,
    )
