r"""Cuts the displays of a paper into rows of tokens, each of which knows its line and column.

Markdown    $$ ... $$, \[ ... \], ```math, and the environments below; not code in other fences
TeX         \[ ... \], $$ ... $$, equation, align, gather, with and without a star; no comments

Every other environment that holds mathematics is a display that is not read.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

__all__ = ["RELATIONS", "Display", "Labelled", "Lacking", "Token", "Unread", "displays", "formulas", "tokens"]

RELATIONS = {r"\le": "<=", r"\leq": "<=", r"\leqslant": "<=", r"\ge": ">=", r"\geq": ">=", r"\geqslant": ">=", r"\lt": "<",
             r"\gt": ">", r"\approx": "approx", r"\coloneqq": ":=", ":=": ":=", "=": "=", "<": "<", ">": ">"}  # fmt: skip
OPERATORS = ("+", "-", "*", "/", r"\cdot", r"\times", r"\odot", r"\circ")
ARROWS = (r"\rightarrow", r"\Rightarrow", r"\implies", r"\Longrightarrow", r"\iff", r"\Leftrightarrow")
LENGTH = r"\[\s*-?[0-9.]+\s*(?:pt|ex|em|mm|cm|in)\s*\]"
TOKEN = re.compile(
    r"(?P<space>(?:\s|~|\\[,;:! ]|\\(?:displaystyle|nonumber|notag|limits)(?![A-Za-z])|\\[bB]igg?[lr]?(?![A-Za-z]))+)"
    rf"|(?P<label>\\label\s*\{{[^{{}}]*\}})|(?P<tag>\\tag\s*\{{[^{{}}]*\}})|(?P<row>\\\\\s*\*?(?:\s*{LENGTH})?)"
    r"|(?P<d>\\mathrm\s*\{\s*d\s*\}|\\mathrm\s+d(?![A-Za-z]))|(?P<inner>\\(?:begin|end)\s*\{(?:aligned|split|gathered)\})"
    r"|(?P<bar>\\(?:left|right)\s*(?:\||\\[lr]vert(?![A-Za-z]))|\\[lr]vert(?![A-Za-z]))|\\(?:left|right)\s*(?P<bracket>[()\[\]])"
    r"|(?P<words>\\(?:text|textrm|textit|mbox)\s*\{[^{}]*\})"
    r"|(?P<command>\\(?:[A-Za-z]+|.))|(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<letter>[A-Za-z])|(?P<sign>:=|.)",
    re.DOTALL,
)
ENVIRONMENTS = ("equation", "align", "gather")
TEXT = re.compile(
    r"document|abstract|itemize|enumerate|description|figure|table|tabular|tabularx|center|quote|quotation|verse|flush\w+|minipage"
    r"|theorem|lemma|proof|proposition|corollary|definition|remark|example|thebibliography|appendix|titlepage|frame|small|subequations"
)
OPENING = re.compile(r"\$\$|\\\[|\\begin\s*\{(\w+)(\*?)\}")
INLINE = re.compile(r"(?<!\\)\$[^$]*\$|\\\(.*?\\\)", re.DOTALL)
# Commands whose text stands elsewhere, is printed or not, or that give signs another meaning.
FOREIGN = re.compile(
    r"\\(?:input|include|import|subfile|(?:cat|math)code|cs(?:name|[egx]?def|let)|ExplSyntaxOn|renewenvironment|(?:New|Renew|Provide|Declare)DocumentCommand"
    r"|if(?!f(?![a-z]))[a-z]*|fi)(?![A-Za-z])"
)
NEW_MEANING = re.compile(
    r"\\(?:[egx]?def|let(?:cs)?|futurelet|(?:re)?newcommand|providecommand|Declare[A-Za-z]+|[A-Z][a-z]+CommandCopy"
    r"|(?:math)?chardef)(?![A-Za-z])\*?(?:\s|%[^\n]*\n)*\{?(?:\s|%[^\n]*\n)*(?P<sign>\\(?:[A-Za-z]+|.)|~)"
)
MEANINGLESS = re.compile(r"displaystyle|nonumber|notag|limits|q?quad|[bB]igg?[lr]?|begin|end|text\w*|mbox|math\w*")
COMMENT = r"(?s)(?<!\\)%[^\n]*|\\begin\{(verbatim|lstlisting|comment)\}.*?(?:\\end\{\1\}|\Z)|\\end\{document\}.*"
CODE = r"(?ms)^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*\s*$|\Z)|`[^`\n]*`|<!--.*?(?:-->|\Z)"
MATH_FENCE = re.compile(r"(?ms)^ {0,3}```+\s*(?:math|latex|tex)(?![\w+#-])[^\n]*$(.*?)^ {0,3}```+\s*$")
MOST = 4000  # tokens of a display


class Lacking(ValueError):  # noqa: N818 - said of the text
    """Raised where a line on top of the paper is missing: `add`, as short as it can be."""

    def __init__(self, reason: str, add: str) -> None:
        super().__init__(reason)
        self.add = add


class Unread(Lacking):
    """Raised for text that is not read, with the place in it; kind: whether it is no equation at all."""

    def __init__(self, place: Token, reason: str, kind: str = "not read", add: str = "") -> None:
        super().__init__(f"line {place.line}, column {place.column}: {reason}", add)
        self.place, self.kind = place, kind


@dataclass(frozen=True)
class Token:
    """A word of a formula: its kind (command, number, letter, sign, row, label, tag), text, line and column."""

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Display:
    """A display: its LaTeX, where it begins, the environment that is not read, if it is one, and whether rows have labels."""

    text: str
    begin: Token
    unread: str = ""
    labelled_rows: bool = False


def displays(text: str, tex: bool, commands: Container[str]) -> Iterator[Display]:
    r"""Find the displays of a text, TeX or Markdown.

    Raises:  Unread for a display without an end, and for text that says what is not to be seen here.
    """
    if not tex:
        text = MATH_FENCE.sub(_fenced, text)
    text = _blanked(COMMENT if tex else CODE, text)
    if foreign := FOREIGN.search(text):
        raise Unread(_at(text, foreign.start()), f"{foreign[0]}: what stands in another file, or is not printed, is not read")
    for new in NEW_MEANING.finditer(text):
        sign, name = new["sign"], new["sign"].removeprefix("\\")
        if sign in commands or not name.isalpha() or MEANINGLESS.fullmatch(name):
            raise Unread(_at(text, new.start()), f"{sign} is given a meaning of its own; call it otherwise")
    place = 0
    while opening := OPENING.search(text, place):
        place, name = opening.end(), opening[1]
        if name and name not in ENVIRONMENTS and (TEXT.fullmatch(name) or not _has_mathematics(text, opening)):
            continue
        closing = rf"\end{{{name}{opening[2]}}}" if name else {"$$": "$$", r"\[": r"\]"}[opening[0]]
        end = text.find(closing, place)
        if end < 0:
            raise Unread(_at(text, opening.start()), f"{opening[0]} has no {closing}")
        unread = "" if name in (None, *ENVIRONMENTS) else name
        yield Display(text[place:end], _at(text, place), unread, name in ("align", "gather"))
        place = end + len(closing)


def _has_mathematics(text: str, opening: re.Match[str]) -> bool:
    """Return whether an environment of an unknown name holds signs of mathematics outside of displays and formulas in a line."""
    body = text[opening.end() :].partition(rf"\end{{{opening[1]}{opening[2]}}}")[0]
    body = re.sub(r"\$\$.*?\$\$|\\\[.*?\\\]|\\begin\{(equation|align|gather)(\*?)\}.*?\\end\{\1\2\}", " ", body, flags=re.DOTALL)
    return re.search(r"[=<>^_&]|\\\\", INLINE.sub(" ", body)) is not None


def _fenced(found: re.Match[str]) -> str:
    """Write a fence of mathematics as $$, with lines as they are."""
    return "$$" + found[1] + "$$"


def _blanked(pattern: str, text: str) -> str:
    """Blank what matches, so that places stay as they are."""
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _at(text: str, offset: int) -> Token:
    return Token("place", "", text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def tokens(text: str, begin: Token) -> list[Token]:
    r"""Cut a formula into tokens, without spaces.

    Raises:  Unread for one of more tokens than anybody would read.
    """
    found, line, start = list[Token](), begin.line, 1 - begin.column
    for match in TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind != "space":
            if len(found) == MOST:
                raise Unread(begin, f"the display has more than {MOST} signs")
            found.append(Token(kind, _plain(match), line, match.start() - start + 1))
        if newlines := match[0].count("\n"):
            line, start = line + newlines, match.start() + match[0].rfind("\n") + 1
    return found


def _plain(match: re.Match[str]) -> str:
    r"""\left( is (, \left| is \lvert, and \label{x} is x."""
    kind = str(match.lastgroup)
    if kind in ("label", "tag"):
        return match[0].partition("{")[2][:-1].strip()
    if kind == "bar":
        return r"\lvert" if match[0].startswith(r"\l") else r"\rvert"
    return "d" if kind == "d" else match[kind]


Labelled = list[tuple[Token, str]]


def formulas(found: list[Token], labelled_rows: bool) -> Iterator[Labelled]:
    """Join the rows of a display into formulas: tokens, each with the label of its row, or that of the display.

    A row without a left side of its own goes on with the one before: one that begins with a relation, has none and begins with
    a sign, or follows one that is not at its end.

    Raises:  Unread for a row that can be taken for both.
    """
    rows = list(_rows(_without_frame(found)))
    labels = list(dict.fromkeys(label for _, label in rows if label))
    of_all = labels[0] if len(labels) == 1 and not labelled_rows else ""
    in_column = all(row[0].text == "&" for row, _ in rows)
    formula: Labelled = []
    for row, label in rows:
        bare = _without_columns(row)
        if not bare:
            raise Unread(row[0], "a row of & alone is not read")
        first, has_relation = bare[0].text, any(token.text in RELATIONS for token in _outside(bare))
        if formula and first in OPERATORS and has_relation and row[0].text == "&" and not in_column:
            raise Unread(bare[0], "does this row go on with the one before, or has it a left side of its own? write &= before it")
        goes_on = first in RELATIONS or (first in OPERATORS and not has_relation) or _is_open([token for token, _ in formula])
        if formula and not goes_on and row[0].text == "&" and not has_relation:
            raise Unread(bare[0], "a row that goes on with the one before begins with a sign or a relation that is read")
        if formula and not goes_on:
            yield formula
            formula = []
        formula = [*formula, *((token, label or of_all) for token in bare)]
    if formula:
        yield formula


def _without_frame(found: list[Token]) -> list[Token]:
    r"""Leave \begin{aligned} and its \end out where nothing but labels stands around them."""
    inner = [k for k, token in enumerate(found) if token.kind == "inner"]
    if len(inner) != 2:
        return found
    before, after = found[: inner[0]], found[inner[1] + 1 :]
    rest = _tagged(after)
    if all(t.kind in ("label", "tag") for t in before) and all(t.kind in ("label", "tag") or t.text in ".,;" for t in rest):
        return [*before, *found[inner[0] + 1 : inner[1]], *rest]
    return found


def _tagged(row: list[Token]) -> list[Token]:
    r"""Read the number of an equation that was written by hand, \quad (6), as its tag."""
    texts = [token.text for token in row]
    while texts and texts[-1] in (*".,;", r"\quad", r"\qquad"):
        texts.pop()
    if len(texts) > 3 and texts[-4] in (r"\quad", r"\qquad") and (texts[-3], texts[-1]) == ("(", ")") and texts[-2].isdigit():
        number = row[len(texts) - 2]
        return [*row[: len(texts) - 4], Token("tag", number.text, number.line, number.column)]
    return row


def _outside(row: Iterable[Token]) -> Iterator[Token]:
    r"""What stands outside of braces: the relation of \sum_{k=1} is none."""
    depth = 0
    for token in row:
        depth += (token.text == "{") - (token.text == "}")
        if depth <= 0:
            yield token


def _is_open(row: list[Token]) -> bool:
    """Return whether a formula cannot end here: with a sign, or a bracket that is not closed."""
    depth = sum((token.text in "([{") - (token.text in ")]}") for token in row if token.kind in ("sign", "bracket"))
    return bool(row) and (depth > 0 or row[-1].text in (*RELATIONS, *OPERATORS))


def _rows(found: Iterable[Token]) -> Iterator[tuple[list[Token], str]]:
    row, label = list[Token](), ""
    for token in (*found, Token("row", "", 0, 0)):
        if token.kind == "row":
            row = _tagged(row)
            if row and row[-1].kind == "tag":
                label = label or f"({row.pop().text})"
            while row and row[-1].text in (*".,;&", r"\quad", r"\qquad"):
                row.pop()
            if row and row[0].text in ARROWS:  # "and so"
                row.pop(0)
            if row:
                yield row, label
            row, label = [], ""
        elif token.kind in ("label", "tag"):
            label = label or (token.text if token.kind == "label" else f"({token.text})")
        else:
            row.append(token)


def _without_columns(row: list[Token]) -> list[Token]:
    """Leave the & out that stands first, beside a relation or before a sign; another parts two formulas, and stays."""

    def aligns(k: int) -> bool:
        beside = [row[n].text for n in (k - 1, k + 1) if 0 <= n < len(row)]
        return k == 0 or any(text in RELATIONS for text in beside) or beside[-1] in OPERATORS

    places = [k for k, token in enumerate(row) if token.text == "&"]
    return [token for k, token in enumerate(row) if k not in places[:1] or not aligns(k)]
