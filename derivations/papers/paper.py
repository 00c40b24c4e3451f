r"""Makes claims of a paper's displays: what each step of a chain says follows from what was defined before it.

a letter alone, for the first time, on the left of = or :=     a definition: nothing is proved
dh/dt = F, h(0) = h_0, for the first time                      supposed from there on, and said so
lhs = rhs, <=, <, >=, >, \approx, \lim ... = ..., ... + O(x^n)    a claim

A formula that is not read says nothing, and may say something of every letter in it: claims that use these are undecided.
"""

from __future__ import annotations

import re

from derivations.papers.claims import Judge
from derivations.papers.doubt import OPERATIONS
from derivations.papers.equations import Paper, cut, read_all
from derivations.papers.letters import front_matter
from derivations.papers.meaning import Known
from derivations.papers.related import relate
from derivations.papers.tokens import displays
from derivations.papers.words import COMMANDS

__all__ = ["read_paper"]


def read_paper(text: str, name: str, tex: bool) -> Paper:
    r"""Read a paper.

    Args:    text; name: of its file; tex: whether it is TeX, or else Markdown.
    Raises:  Unread for front matter that says nothing, for displays that do not end, and for text that redefines commands.
    """
    front, rest = front_matter(text, tex)
    paper = Paper(name, front, Known(dict(front.letters)), lines=re.split(r"\r\n?|\n", text))
    paper.named = {label for related in front.related for label in (*related.first, *related.others) if related.kind != "solves"}
    for n, display in enumerate(displays(rest, tex, COMMANDS | OPERATIONS)):
        paper.equations += cut(n, display)
    read_all(paper)
    for related in front.related:
        for label in (*related.first, *related.others):
            paper.labelled(label, related.line)
    for equation in paper.equations:
        Judge(paper, equation).judge(relate)
    return paper
