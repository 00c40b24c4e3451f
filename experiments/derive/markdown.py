r"""Writes the ledger as pages of the docs, a page a text, and its records.

    python -m experiments.derive.markdown          of the texts of which something changed, see `derivations.records`
    python -m experiments.derive.markdown --all    of all texts

Decides their claims, and writes docs/derivations/TEXT.md, the table of texts in docs/derivations.md and derivations/records.json,
each only if it is another one, and names it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from derivations import ledger, records
from derivations.book import entries
from derivations.claim import Claim
from derivations.contents import RECORDS, SOURCES, digest, recorded
from derivations.prover.verdict import FAILS, REINTERPRETED
from experiments.derive import table
from experiments.derive.run import as_json
from experiments.derive.table import TITLES, summary
from experiments.reports.marked import fill
from experiments.reports.pages import write_pages
from experiments.reports.spreads import markdown
from experiments.reports.templates import ENVIRONMENT

__all__ = ["MAIN", "PAGE", "file_of", "indexed", "of_records", "paper", "papers", "records_of"]

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


def records_of(claims: Iterable[Claim]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return what is recorded of claims: digest and verdict, by source and label."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for claim in claims:
        data = json.loads(json.dumps(as_json(claim)))
        found.setdefault(claim.source, {})[claim.label] = (digest(data), claim.verdict)
    return found


def of_records(claims: Mapping[str, Mapping[str, tuple[str, str]]]) -> list[Claim]:
    """Return claims as far as the table of texts needs them, from their records: nothing is decided."""
    words = {source: next(entry.words for entry in entries(source) if entry.label == MAIN[source]) for source in claims}
    return [
        Claim(source, label, "", (), verdict, None, "", 0.0, words=words[source], recorded=verdict)
        for source, found in claims.items()
        for label, (_, verdict) in found.items()
    ]


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


def main(everything: bool) -> None:
    """Decide the texts of which something changed, or all, and write what is another one. Exits where one is not as recorded."""
    stale = records.changed()
    for chapter, parts in stale.items():
        print(f"derivations/texts/{chapter}.py: another {', '.join(parts)}")
    sources = [source for source, chapters in SOURCES.items() if everything or stale.keys() & set(chapters)]
    claims = [claim for source in sources for claim in ledger(source, workers=2)]
    if strange := [claim for claim in claims if not claim.as_recorded]:
        sys.exit("\n".join(table.lines(strange, 130)))
    known = {**recorded()["claims"], **records_of(claims)}
    known = {source: known[source] for source in SOURCES}
    page = indexed(PAGE.read_text(encoding="utf-8"), of_records(known))
    write_pages({**papers(claims), PAGE: page, RECORDS: records.written(known)})


if __name__ == "__main__":
    main("--all" in sys.argv[1:])
