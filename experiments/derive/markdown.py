r"""Writes the ledger as pages of the docs, a page a text, and its digests.

    python -m experiments.derive.markdown       docs/derivations/TEXT.md, the table of texts in docs/derivations.md, the digests

Decides every claim, writes the files that are no longer what it finds, and names them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from derivations import ledger
from derivations.claim import Claim
from derivations.contents import DIGESTS, digest
from derivations.prover.verdict import FAILS, REINTERPRETED
from experiments.derive.run import as_json
from experiments.derive.table import TITLES, summary
from experiments.reports.marked import fill
from experiments.reports.pages import write_pages
from experiments.reports.spreads import markdown
from experiments.reports.templates import ENVIRONMENT

__all__ = ["MAIN", "PAGE", "digested", "file_of", "indexed", "paper", "papers"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "derivations.md"
MAIN = {  # what a text is about, in one of its claims, with which its page begins
    "tallec-ollivier-2018": "sec. 1, quasi-invariance",
    "tallec-ollivier-2018-summary": "linear rescaling, required",
    "huth-2020-lecture-slides": "recap, vanishing",
    "ohno-kumagai-2021": "eq. 21",
    "ollivier-2013-riemannian-metrics-ii": "sec. 1.2.1, same trajectory",
    "this project": "result 1, sigmoid gate",
}
CORRECTED = [("What does not hold as printed", FAILS), ("What holds after reinterpretation", REINTERPRETED)]


def file_of(source: str) -> Path:
    """Return the page of a text."""
    return PAGE.parent / "derivations" / f"{source.replace(' ', '-')}.md"


def paper(source: str, claims: Sequence[Claim]) -> str:
    """Write the page of a text: what it is about, the count, what is wrong or to be read otherwise, and a table of the rest."""
    found = {verdict: [claim for claim in claims if claim.verdict == verdict] for _, verdict in CORRECTED}
    others = [claim for claim in claims if claim.verdict not in found]
    lines = [(claim.label, claim.words + _remark(claim), ", ".join(claim.provided), claim.verdict) for claim in others]
    return ENVIRONMENT.get_template("derive/paper.md.jinja").render(
        title=TITLES.get(source, source),
        main=_main(source, claims),
        summary=summary(claims),
        corrected=CORRECTED,
        found=found,
        known=_known(claims),
        table=_table(["where", "claim", "for", "verdict"], lines) if lines else "",
    )


def _known(claims: Sequence[Claim]) -> list[tuple[str, str]]:
    """Say once of claims that follow one another what is the prior work of all of them."""
    runs = [(words, list(run)) for words, run in groupby(claims, key=lambda claim: claim.prior_work) if words]
    return [(f"{run[0].label} to {run[-1].label}" if len(run) > 1 else run[0].label, words) for words, run in runs]


def papers(claims: Sequence[Claim]) -> dict[Path, str]:
    """Write the page of each text."""
    return {file_of(source): paper(source, list(found)) for source, found in groupby(claims, key=lambda claim: claim.source)}


def indexed(page: str, claims: Sequence[Claim]) -> str:
    """Put the count and a line for each text between the markers of the page."""
    lines = [_line(source, list(found)) for source, found in groupby(claims, key=lambda claim: claim.source)]
    head = ["text", "what it is about", "verdict on that", "claims", "wrong as printed", "to be read otherwise"]
    return fill(page, "ledger", {"claims": f"\n{summary(claims)}\n\n{markdown(head, lines)}\n"})


def digested(claims: Sequence[Claim]) -> str:
    """Write the digests of claims as JSON, a claim a line."""
    found: dict[str, dict[str, str]] = {}
    for claim in claims:
        found.setdefault(claim.source, {})[claim.label] = digest(json.loads(json.dumps(as_json(claim))))
    return json.dumps(found, indent=0, ensure_ascii=False) + "\n"


def _main(source: str, claims: Iterable[Claim]) -> Claim | None:
    return next((claim for claim in claims if claim.label == MAIN.get(source)), None)


def _line(source: str, claims: Sequence[Claim]) -> list[str]:
    """Write the row of a text, with the anchor of the section that it once had in the page."""
    count, main, page = Counter(claim.verdict for claim in claims), _main(source, claims), file_of(source)
    link = f'<a id="{page.stem}"></a>[{_escaped(TITLES.get(source, source))}]({page.parent.name}/{page.name})'
    about = [_escaped(main.words), main.verdict] if main else ["", ""]
    return [link, *about, str(len(claims)), str(count[FAILS] or ""), str(count[REINTERPRETED] or "")]


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    # Not by `spreads.markdown`, which escapes the bars that `_escaped` has escaped.
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *([*map(_escaped, one)] for one in lines)))


def _right(claim: Claim) -> str:
    """Write the correction of a claim, or how to read it; nothing of a claim that holds as it is printed."""
    return "" if claim.correction is None else f"*{claim.corrected_by.capitalize()}:* {_escaped(claim.corrected)}"


def _remark(claim: Claim) -> str:
    """Return the remark on a claim in brackets, or nothing."""
    return f" ({claim.remark})" if claim.remark else ""


def _escaped(text: str) -> str:
    return re.sub(r"([|*_<>\[\]])", r"\\\1", text)


ENVIRONMENT.filters |= {"escaped": _escaped, "right": _right}


if __name__ == "__main__":
    decided = ledger(workers=2)
    pages = {**papers(decided), PAGE: indexed(PAGE.read_text(encoding="utf-8"), decided), DIGESTS: digested(decided)}
    write_pages(pages)
