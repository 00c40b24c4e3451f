"""The ledger on a terminal: a line a claim, what is wrong in print in full, and the count."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from derivations.claim import Claim
from derivations.prover.verdict import UNDECIDED
from derivations.report import WORDS

__all__ = ["TITLES", "lines", "summary"]

TITLES = {
    "tallec-ollivier-2018": "Tallec and Ollivier 2018, Can recurrent neural networks warp time?",
    "tallec-ollivier-2018-summary": "A summary of Tallec and Ollivier 2018",
    "huth-2020-lecture-slides": "Huth 2020, Long short-term memory networks II (slides)",
    "ohno-kumagai-2021": "Ohno and Kumagai 2021",
    "ollivier-2013-riemannian-metrics-ii": "Ollivier 2013, Riemannian metrics for neural networks II",
    "this project": "Results of this project",
}


def lines(claims: Iterable[Claim], width: int) -> Iterator[str]:
    """Write the table line by line, each claim as soon as it comes."""
    source = None
    for claim in claims:
        if claim.source != source:
            source = claim.source
            yield from ("", source)
        mark = "" if claim.as_recorded else f"  !! recorded was: {claim.recorded}"
        yield from _hanging(f"  {WORDS[claim.verdict].short:<9} {claim.label:<22} ", claim.words + _provided(claim) + mark, width)
        if claim.correction is not None:
            yield from _hanging(f"{'':12}{claim.corrected_by + ':':<9} ", claim.corrected, width)
        if claim.verdict == UNDECIDED:
            yield from _hanging(f"{'':12}because:  ", claim.evidence, width)
        if claim.counterexample:
            yield from _hanging(f"{'':12}because:  ", ", ".join(claim.numbers), width)


def summary(claims: Sequence[Claim]) -> str:
    """Say how many claims have each verdict, and whether all are as recorded."""
    count = Counter(claim.verdict for claim in claims)
    parts = ", ".join(f"{count[verdict]} {words.plural}" for verdict, words in WORDS.items() if count[verdict])
    if remarks := sum(claim.is_remark for claim in claims):
        parts += f"; {remarks} of them {'is a remark' if remarks == 1 else 'are remarks'} on words in print, and no proof"
    if not any(claim.recorded for claim in claims):
        return f"{len(claims)} claims{': ' * bool(parts)}{parts}."
    strange = [f"{claim.source}, {claim.label}" for claim in claims if not claim.as_recorded]
    end = "all as recorded" if not strange else f"NOT as recorded: {'; '.join(strange)}"
    return f"{len(claims)} claims: {parts}. {end[0].upper()}{end[1:]}."


def _provided(claim: Claim) -> str:
    return f" [{', '.join(claim.provided)}]" if claim.provided else ""


def _hanging(start: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(start + text, max(width, 60), subsequent_indent=" " * len(start), break_long_words=False) or [start]
