r"""Decides the claims of a paper and reports them: each beside its line, with what was assumed, and what is missing.

print(derivations.prove_paper("paper.md"))          as the last line of a notebook's cell, a table
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sympy import Eq

from derivations.claim import ALL_SIZES, Claim, Entry, decided
from derivations.papers.equations import SIDES, About, NotRead, Paper, PaperEquation
from derivations.papers.paper import read_paper
from derivations.papers.tokens import Token
from derivations.prover.formulas import PrintedFormula, written
from derivations.prover.identity import DIFFERENCE
from derivations.prover.notebook import Cells
from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.prover.verdict import AT_SIZES, FAILS, HOLDS, HOLDS_ASSUMING, REINTERPRETED, UNDECIDED
from derivations.prover.witness import both_sides
from derivations.report import DEFINED, NO_EQUATION, NOT_READ, SUPPOSED, WORDS, Excerpt, Finding, Line, Report, ReportPart
from derivations.wording import plain

__all__ = ["SECONDS", "decided_within", "is_proved", "prove_paper", "report"]

SECONDS = 60.0
PROVED = (HOLDS, HOLDS_ASSUMING, AT_SIZES)


def prove_paper(file: str | Path, *, seconds: float | None = SECONDS) -> Report:
    r"""Read the equations of a text in LaTeX, and decide which follow from one another. Code that it names is not run.

        >>> prove_paper("paper.md").proved  # doctest: +SKIP
        True

    Args:    file: Markdown, or TeX if it ends in .tex, with the lines on top that docs/papers.md lists; seconds: after which a
             claim is undecided, None for no limit.
    Returns: a `Report`: `print` it, or have it shown by a notebook; `.markdown()`; `.proved` if there are claims and all hold.
    Raises:  OSError and UnicodeDecodeError for a file that cannot be read; ValueError, with its line, for a text that redefines
             commands, a display without an end, and lines on top that say nothing.
    """
    file = Path(file)
    paper = read_paper(file.read_text(encoding="utf-8-sig"), file.stem, file.suffix == ".tex")
    return report(paper, [decided_within(entry, seconds) for entry in paper.entries], file.name)


def is_proved(claims: Sequence[Claim]) -> bool:
    """Return whether there are claims, and all are proved."""
    return bool(claims) and all(claim.verdict in PROVED for claim in claims)


def decided_within(entry: Entry, seconds: float | None) -> Claim:
    """Decide a claim within a time limit, without an expected verdict to compare with."""
    try:
        with time_limit(seconds):
            claim = decided(entry)
    except OutOfTime:
        late = f"out of time after {seconds:g} s; --seconds gives it more"
        claim = decided(replace(entry, statements=tuple(NotRead(late, s.kind, printed=s.formulas()) for s in entry.statements)))
        claim = replace(claim, seconds=seconds or 0.0)
    return replace(claim, recorded="", mutation="")


def report(paper: Paper, claims: Sequence[Claim], title: str, more: Mapping[str, Sequence[ReportPart]] | None = None) -> Report:
    """Sort what was found by the lines of the paper; more: parts that stand behind those of a claim, by its label."""
    rows = dict[int, tuple[PaperEquation, list[Finding], list[ReportPart]]]()
    for equation, said in paper.stated:
        verdict = SUPPOSED if said.supposed else DEFINED
        _of(rows, equation)[1].append(Finding(verdict, Eq(said.left, said.value, evaluate=False)))
    for claim in claims:
        about = paper.about[claim.label]
        _, findings, behind = _of(rows, about.equation)
        findings.append(_finding(claim, about, paper))
        behind += (more or {}).get(claim.label, ())
    for _, findings, _ in rows.values():
        findings.sort(key=lambda finding: WORDS[finding.verdict].kind != "said")
    parts = list[ReportPart]()
    for equation, findings, behind in sorted(rows.values(), key=lambda part: (part[0].place.line, part[0].place.column)):
        parts += [ReportPart(_excerpt(paper, equation, claims), tuple(findings)), *behind]
    return Report(title, tuple(_summary(paper, claims, rows.values())), tuple(parts), is_proved(claims))


def _of(found: dict[int, tuple[PaperEquation, list[Finding], list[ReportPart]]], equation: PaperEquation) -> Any:
    return found.setdefault(id(equation), (equation, [], []))


def _summary(paper: Paper, claims: Sequence[Claim], found: Iterable[tuple[PaperEquation, list[Finding], Any]]) -> Iterator[str]:
    equations = Counter(_unread(paper.about[claim.label]) or "read" for claim in claims if claim.label in paper.about)
    read = sum(not any(f.verdict in (NOT_READ, NO_EQUATION) for f in findings) for _, findings, _ in found)
    count = Counter(claim.verdict for claim in claims if not _unread(paper.about[claim.label]))
    yield (
        f"{_counted(read, 'equation')} read, {len(paper.stated)} of them to define or suppose something; "
        f"{equations[NOT_READ]} not read; {equations[NO_EQUATION] + paper.skipped} that "
        f"{'is' if equations[NO_EQUATION] + paper.skipped == 1 else 'are'} no equation."
    )
    parts = [f"{n} {words.plural if n > 1 else words.single}{', with numbers' * (verdict == FAILS)}"
             for verdict, words in WORDS.items() if (n := count[verdict])]  # fmt: skip
    yield f"{_counted(count.total(), 'claim')}: {'; '.join(parts) or 'nothing is claimed'}."
    proved = "all" if is_proved(claims) else "not all" if claims else "nothing"
    yield f"Exit status {0 if is_proved(claims) else 1}: {proved} is proved."


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def _unread(about: About) -> str:
    """Return how a formula is called that is not read: it may be no equation."""
    if about.equation.unread is None:
        return ""
    return NO_EQUATION if about.equation.unread.kind == NO_EQUATION else NOT_READ


def _finding(claim: Claim, about: About, paper: Paper) -> Finding:
    refuted = claim.verdict in (FAILS, REINTERPRETED)
    sides = both_sides(claim.certificates[0]["steps"]) if refuted and len(claim.certificates) == 1 else None
    used = [(said.label, Eq(said.left, said.value, evaluate=False)) for said in about.by]
    unread = about.unread
    shown: list[Any] = _claimed(claim, [formula for _, formula in used]) if about.shown is None else [about.shown]
    words: Any = about.words or (shown[0] if shown else "")
    apart = f"left side - right side = {plain(claim.counterexample[DIFFERENCE])}" if DIFFERENCE in claim.counterexample else ""
    at = list(claim.numbers) if not apart else [] if sides else [apart]
    rows: list[tuple[str, Cells]] = [
        ("read as", shown if about.words and unread is None and about.words != "its units agree" else []),
        ("by", [f"{label}: {written(formula).words}" for label, formula in used]),
        ("for", ["; ".join(about.letters)] if about.letters else []),
        ("if", list(claim.assumptions)),
        ("where", [" and ".join(claim.where)] if claim.where else []),
        ("computed for", [claim.scope] if claim.scope != ALL_SIZES else []),
        ("at" if sides else "because", [", ".join(at)] if at else []),
        *((name, [value]) for name, value in sorted(zip(about.sides, sides or (), strict=False), key=_as_read)),
        ("because", [_because(claim)] if claim.verdict == UNDECIDED or (refuted and not sides and not at) else []),
        ("add", _missing(about, paper)),
        ("leaves open", ["; ".join(open_by)] if (open_by := _open_by(about, paper)) else []),
    ]
    return Finding(_unread(about) or claim.verdict, words, tuple(rows))


def _claimed(claim: Claim, used: list[Eq]) -> list[PrintedFormula]:
    """Return what a claim says, each formula once, without those at its end that it is judged by."""
    formulas = {formula.text: formula for formula in claim.formulas if formula.text != "True"}
    texts, by = [*formulas], [written(formula).text for formula in used]
    end = len(texts) - len(by)
    return [formulas[text] for text in (texts[:end] if end > 0 and texts[end:] == by else texts)]


def _as_read(side: tuple[str, str]) -> bool:
    return side[0] == SIDES[1]


def _missing(about: About, paper: Paper) -> list[str]:
    """Return the line on top that is missing: of the formula that is not read, if another one is why, or of this one."""
    why = about.unread
    causes = (other.unread for other in paper.equations if why and why.cause and other.place == why.cause)
    return [line for line in (*(cause.add for cause in causes if cause), why.add if why else "") if line][:1]


def _open_by(about: About, paper: Paper) -> list[str]:
    """List the claims that are not judged because this formula is not read."""
    if about.equation.unread is None:
        return []
    return [label for label, other in paper.about.items() if other.unread and other.unread.cause == about.equation.place]


def _because(claim: Claim) -> str:
    """Return why a claim is open, without the names of the kinds of its statements."""
    kinds = "|".join(sorted({re.escape(statement["kind"]) for statement in claim.certificates}))
    return re.sub(rf"(^|; )(?:{kinds}): ", r"\1", claim.evidence)


def _excerpt(paper: Paper, equation: PaperEquation, claims: Sequence[Claim]) -> Excerpt:
    places = [*(token.line for token in equation.found), equation.place.line]
    first, last = max(min(places), 1), min(max(places), len(paper.lines))
    lines = tuple(Line(n, paper.lines[n - 1]) for n in range(first, last + 1) if paper.lines[n - 1].strip())
    title = f"line {equation.place.line}" + ("" if equation.label.startswith("line ") else f", {equation.label}")
    wrong: Token | None = next(
        (about.unread.place for claim in claims if (about := paper.about[claim.label]).equation is equation and about.unread),
        None,
    )
    return Excerpt(title, lines, (wrong.line, wrong.column) if wrong is not None else None)
