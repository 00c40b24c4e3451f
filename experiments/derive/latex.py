r"""The ledger as a LaTeX document of its own: \section a source, a paragraph a claim."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from derivations.claim import Claim
from derivations.prover.formulas import PrintedFormula
from experiments.derive.table import summary

__all__ = ["document"]

PREAMBLE = r"""\documentclass[a4paper,10pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,amssymb,graphicx}
\usepackage[margin=25mm]{geometry}
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}\allowdisplaybreaks\emergencystretch=3em
"""
ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
# Wider formulas than this run off the page; in braces of their own they are made to fit.
WIDE = 90


def document(claims: Sequence[Claim], notes: Sequence[str] = ()) -> str:
    """Write the whole file; notes follow the count."""
    body = [PREAMBLE, r"\begin{document}", r"\title{The ledger}\date{}\maketitle", plain(" ".join([summary(claims), *notes]))]
    for source, found in groupby(claims, key=lambda claim: claim.source):
        body += ["", rf"\section*{{{plain(source)}}}", *(_paragraph(claim) for claim in found)]
    return "\n".join([*body, r"\end{document}", ""])


def plain(text: str) -> str:
    """Escape text for LaTeX; letters that pdfTeX has no sign for are spelled out."""
    return "".join(ESCAPES.get(letter, letter) for letter in text).encode("ascii", "namereplace").decode()


def _paragraph(claim: Claim) -> str:
    given = f" Assuming {plain(', '.join(claim.assumptions))}." if claim.assumptions else ""
    given += f" Where {plain(' and '.join(claim.where))}." if claim.where else ""
    lines = [rf"\paragraph{{{plain(claim.label)}}} \emph{{{plain(claim.verdict)}.}} {plain(claim.words)}{given}"]
    lines += map(_display, claim.formulas)
    if claim.correction is not None:
        lines += [f"{claim.corrected_by.capitalize()}: {plain(claim.corrected)}", *map(_display, claim.right)]
    return "\n".join(filter(None, [*lines, rf"{{\small {plain(claim.evidence)}\par}}", ""]))


def _display(formula: PrintedFormula) -> str:
    if not formula.display:
        return ""
    if len(formula.display) <= WIDE:
        return rf"\[ {formula.display} \]"
    return rf"\[ \resizebox{{\ifdim\width>\linewidth\linewidth\else\width\fi}}{{!}}{{$\displaystyle {formula.display}$}} \]"
