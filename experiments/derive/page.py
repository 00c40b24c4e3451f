r"""The ledger as one HTML file: formulas in MathML, a search box, nothing loaded from anywhere.

Without scripts the page shows every claim; the script only hides what is not searched for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from derivations.claim import Claim
from derivations.prover.verdict import AT_SIZES, FAILS, HOLDS, HOLDS_ASSUMING, REINTERPRETED, UNDECIDED
from experiments.derive.table import summary
from experiments.reports.templates import ENVIRONMENT

__all__ = ["page"]

TITLES = {
    "tallec-ollivier-2018": "Tallec and Ollivier 2018, Can recurrent neural networks warp time?",
    "tallec-ollivier-2018-summary": "A summary of Tallec and Ollivier 2018",
    "huth-2020-lecture-slides": "Huth 2020, Long short-term memory networks II (slides)",
    "ohno-kumagai-2021": "Ohno and Kumagai 2021",
    "ollivier-2013-riemannian-metrics-ii": "Ollivier 2013, Riemannian metrics for neural networks II",
    "this project": "Results of this project",
}
# The CSS class of a verdict, and the mark before it.
KINDS = {
    HOLDS: ("holds", "✓"),
    HOLDS_ASSUMING: ("assuming", "✓"),
    AT_SIZES: ("sizes", "✓"),
    REINTERPRETED: ("reread", "≈"),
    FAILS: ("fails", "✗"),
    UNDECIDED: ("undecided", "?"),
}


def page(claims: Sequence[Claim]) -> str:
    """The whole file."""
    count = Counter((claim.source, claim.verdict) for claim in claims)
    sources = list(dict.fromkeys(claim.source for claim in claims))
    used = [verdict for verdict in KINDS if any(claim.verdict == verdict for claim in claims)]
    return ENVIRONMENT.get_template("derive/page.html.jinja").render(
        sections=[(source, list(found)) for source, found in groupby(claims, key=lambda claim: claim.source)],
        titles={source: TITLES.get(source, source) for source in sources},
        counts={source: [count[source, verdict] for verdict in used] for source in sources},
        verdicts={KINDS[verdict][0]: verdict for verdict in used},
        kinds=KINDS,
        summary=summary(claims),
    )
