r"""The ledger as the tables of docs/derivations.md; `python -m experiments.derive.markdown` writes them, and its digests."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from ctrnn.storage.files import write_atomically
from derivations import ledger
from derivations.claim import Claim
from derivations.contents import DIGESTS, digest
from derivations.prover.verdict import REINTERPRETED
from experiments.derive.run import as_json
from experiments.derive.table import summary
from experiments.reports.marked import fill

__all__ = ["PAGE", "digested", "filled", "tables"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "derivations.md"


def tables(claims: Sequence[Claim]) -> str:
    """Write a heading and a table for each source; below its table, what does not hold as printed."""
    parts = [summary(claims)]
    for source, found in groupby(claims, key=lambda claim: claim.source):
        listed = list(found)
        parts += [f"### {source}", _table(listed), *map(_wrong, (claim for claim in listed if claim.correction is not None))]
    return "\n\n".join(parts)


def filled(page: str, claims: Sequence[Claim]) -> str:
    """Put the claims between the markers of the page."""
    return fill(page, "ledger", {"claims": f"\n{tables(claims)}\n"})


def _table(claims: Sequence[Claim]) -> str:
    lines = ["| where | claim | for | verdict |", "|---|---|---|---|"]
    for claim in claims:
        remark = "" if claim.correction else _remark(claim)  # what is wrong has its remark below the table
        cells = (claim.label, claim.words + remark, ", ".join(claim.provided), claim.verdict)
        lines.append("| " + " | ".join(map(_escaped, cells)) + " |")
    return "\n".join(lines)


def _wrong(claim: Claim) -> str:
    right, says = (claim.correction or "").partition(" | ")[0], "Read as" if claim.verdict == REINTERPRETED else "Right is"
    right = _escaped(right + _remark(claim))
    return (
        f"- **{_escaped(claim.label)}** {_escaped(claim.words)} Not so at {_escaped(', '.join(claim.numbers))}. *{says}:* {right}"
    )


def _remark(claim: Claim) -> str:
    """The remark as sentences behind others."""
    return f" ({claim.remark})" if claim.remark else ""


def _escaped(text: str) -> str:
    return re.sub(r"([|*_<>\[\]])", r"\\\1", text)


def digested(claims: Sequence[Claim]) -> str:
    """Write the digests of claims as JSON, a claim a line."""
    found: dict[str, dict[str, str]] = {}
    for claim in claims:
        found.setdefault(claim.source, {})[claim.label] = digest(json.loads(json.dumps(as_json(claim))))
    return json.dumps(found, indent=0, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    decided = ledger(workers=2)
    write_atomically(PAGE, filled(PAGE.read_text(encoding="utf-8"), decided))
    write_atomically(DIGESTS, digested(decided))
