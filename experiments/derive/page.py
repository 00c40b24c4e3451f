r"""The ledger as one HTML file: formulas in MathML, a search box, nothing loaded from anywhere.

Without scripts the page shows every claim; the script only hides what is not asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby

from derivations.claim import Claim
from derivations.prover.formulas import Formula
from derivations.prover.identity import FAILS, HOLDS, HOLDS_ASSUMING, UNDECIDED
from experiments.derive.table import summary
from experiments.reports.colours import variables

__all__ = ["page"]

TITLES = {
    "tallec-ollivier-2018": "Tallec and Ollivier 2018, Can recurrent neural networks warp time?",
    "tallec-ollivier-2018-summary": "A summary of Tallec and Ollivier 2018",
    "huth-2020-lecture-slides": "Huth 2020, Long short-term memory networks II (slides)",
    "ohno-kumagai-2021": "Ohno and Kumagai 2021",
    "ollivier-2013-riemannian-metrics-ii": "Ollivier 2013, Riemannian metrics for neural networks II",
    "this project": "Results of this project",
}
CLASSES = {HOLDS: "holds", HOLDS_ASSUMING: "assuming", FAILS: "fails", UNDECIDED: "undecided"}
MARKS = {HOLDS: "✓", HOLDS_ASSUMING: "✓", FAILS: "✗", UNDECIDED: "?"}


def page(claims: Sequence[Claim]) -> str:
    """The whole file."""
    here = files("experiments.derive")
    style, script = (here.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="Every mathematical claim of five texts on recurrent networks and time, with its verdict.">
<title>The ledger: what the papers say, and whether it is so</title>
<link rel="icon" href="data:,">
<style>
{variables()}
{style}</style>
</head>
<body>
<header>
<p class="kicker">ctrnn derive</p>
<h1>What the papers say, and whether it is so</h1>
<p>{escape(summary(claims))} A claim holds when SymPy proves it; what it cannot decide is undecided. What does not hold as
printed comes with numbers that show it, and with what is right, itself proved.</p>
{_count(claims)}
<form class="search" role="search">
<label>Search <input type="search" id="words" placeholder="eq. 21, softmax, chrono …" autocomplete="off"></label>
<label>Text {_choice("source", {s: TITLES.get(s, s) for s in dict.fromkeys(c.source for c in claims)})}</label>
<label>Verdict {_choice("verdict", {CLASSES[v]: v for v in CLASSES if any(c.verdict == v for c in claims)})}</label>
<output id="found" aria-live="polite"></output>
</form>
</header>
<main>
{"".join(_source(source, list(found)) for source, found in groupby(claims, key=lambda claim: claim.source))}</main>
<script>
{script}</script>
</body>
</html>
"""


def _count(claims: Sequence[Claim]) -> str:
    count = Counter((claim.source, claim.verdict) for claim in claims)
    used = [verdict for verdict in CLASSES if any(claim.verdict == verdict for claim in claims)]
    head = "".join(f'<th scope="col">{verdict}</th>' for verdict in used)
    rows = "".join(
        f'<tr><th scope="row"><a href="#{source.replace(" ", "-")}">{escape(TITLES.get(source, source))}</a></th>'
        f"{''.join(f'<td>{count[source, verdict] or str()}</td>' for verdict in used)}</tr>\n"
        for source in dict.fromkeys(claim.source for claim in claims)
    )
    return f'<table><thead><tr><th scope="col">text</th>{head}</tr></thead><tbody>\n{rows}</tbody></table>'


def _choice(name: str, options: dict[str, str]) -> str:
    listed = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options.items())
    return f'<select id="{name}"><option value="">all</option>{listed}</select>'


def _source(source: str, claims: Sequence[Claim]) -> str:
    return (
        f'<section id="{source.replace(" ", "-")}">\n<h2>{escape(TITLES.get(source, source))}</h2>\n'
        f"{''.join(map(_claim, claims))}</section>\n"
    )


def _claim(claim: Claim) -> str:
    kind = CLASSES[claim.verdict]
    given = f'<p class="given">if {escape("; ".join(claim.assumptions))}</p>\n' if claim.assumptions else ""
    strange = "" if claim.as_recorded else f'<p class="strange">Recorded was: {escape(claim.recorded)}.</p>\n'
    right = ""
    if claim.correction is not None:
        words = claim.correction.partition(" | ")[0]
        numbers = ", ".join(f"{letter} = {value}" for letter, value in claim.counterexample.items())
        right = (
            f'<p class="given">Not so at {escape(numbers)}.</p>\n'
            f'<div class="right"><p><b>Right is:</b> {escape(words)}</p>\n{_formulas(claim.right)}</div>\n'
        )
    mutation = f" It can fail: {escape(claim.mutation)} turns the verdict." if claim.mutation else ""
    return (
        f'<article class="claim {kind}" data-source="{escape(claim.source)}" data-verdict="{kind}">\n'
        f'<h3><span>{escape(claim.label)}</span> <span class="verdict">{MARKS[claim.verdict]} {claim.verdict}</span></h3>\n'
        f"<p>{escape(claim.words)}</p>\n{given}{_formulas(claim.formulas)}{strange}{right}"
        f"<details><summary>How it was decided, {claim.seconds:.2f} s</summary>"
        f"<p>{escape(claim.evidence)}.{mutation}</p></details>\n</article>\n"
    )


def _formulas(formulas: Sequence[Formula]) -> str:
    shown = "".join(
        f'<div><math display="block">{formula.mathml}</math></div>\n'
        if formula.mathml
        else f'<details class="long"><summary>a long formula</summary><code>{escape(formula.text)}</code></details>\n'
        for formula in formulas
    )
    return f'<div class="formulas">{shown}</div>\n' if shown else ""
