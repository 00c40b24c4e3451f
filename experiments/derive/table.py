"""The ledger on a terminal: a line a claim, what is wrong in print in full, and the count."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from derivations.claim import Claim
from derivations.prover.verdict import AT_SIZES, FAILS, HOLDS, HOLDS_ASSUMING, REINTERPRETED, UNDECIDED

__all__ = ["lines", "summary"]

SHORT = {
    HOLDS: "holds",
    HOLDS_ASSUMING: "holds if",
    AT_SIZES: "at sizes",
    REINTERPRETED: "reread",
    FAILS: "NOT SO",
    UNDECIDED: "undecided",
}


def lines(claims: Iterable[Claim], width: int) -> Iterator[str]:
    """The table, line by line, each claim as soon as it comes."""
    source = None
    for claim in claims:
        if claim.source != source:
            source = claim.source
            yield from ("", source)
        mark = "" if claim.as_recorded else f"  !! recorded was: {claim.recorded}"
        yield from _hanging(f"  {SHORT[claim.verdict]:<9} {claim.label:<22} ", claim.words + _provided(claim) + mark, width)
        if claim.correction is not None:
            says = "read as: " if claim.verdict == REINTERPRETED else "right is:"
            yield from _hanging(f"{'':12}{says} ", claim.correction.partition(" | ")[0], width)
            yield from _hanging(f"{'':12}because:  ", ", ".join(f"{k} = {v}" for k, v in claim.counterexample.items()), width)


def summary(claims: Sequence[Claim]) -> str:
    """How many of each verdict, and whether all are as recorded."""
    count = Counter(claim.verdict for claim in claims)
    parts = ", ".join(f"{count[word]} {name}" for word, name in NAMES.items() if count[word])
    strange = [f"{claim.source}, {claim.label}" for claim in claims if not claim.as_recorded]
    end = "all as recorded" if not strange else f"NOT as recorded: {'; '.join(strange)}"
    return f"{len(claims)} claims: {parts}. {end[0].upper()}{end[1:]}."


NAMES = {
    HOLDS: "hold",
    HOLDS_ASSUMING: "hold under the stated assumptions",
    AT_SIZES: "hold at the sizes computed",
    REINTERPRETED: "hold after reinterpretation",
    FAILS: "do not hold as printed",
    UNDECIDED: "undecided",
}


def _provided(claim: Claim) -> str:
    return f" [{', '.join(claim.provided)}]" if claim.provided else ""


def _hanging(start: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(start + text, max(width, 60), subsequent_indent=" " * len(start), break_long_words=False) or [start]
