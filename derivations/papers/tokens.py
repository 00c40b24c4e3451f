r"""Cuts the displays of a paper into tokens, each of which knows its line and column.

Markdown    $$ ... $$, \[ ... \], and the environments below; not code in fences
TeX         \[ ... \], $$ ... $$, equation, align, gather, with and without a star; no comments
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

__all__ = ["RELATIONS", "Display", "Token", "Unread", "displays", "formulas", "has_relation", "tokens"]

RELATIONS = {r"\le": "<=", r"\leq": "<=", r"\leqslant": "<=", r"\ge": ">=", r"\geq": ">=", r"\geqslant": ">=", r"\lt": "<",
             r"\gt": ">", r"\approx": "approx", r"\coloneqq": ":=", ":=": ":=", "=": "=", "<": "<", ">": ">"}  # fmt: skip
OPERATORS = ("+", "-", "*", "/", r"\cdot", r"\times")
TOKEN = re.compile(
    r"(?P<space>(?:\s|~|\\[,;:! ]|\\(?:displaystyle|nonumber|notag|limits)(?![A-Za-z])"
    r"|\\(?:begin|end)\s*\{(?:aligned|split)\}|\\[bB]igg?[lr]?(?![A-Za-z]))+)"
    r"|(?P<label>\\label\s*\{[^{}]*\})|(?P<tag>\\tag\s*\{[^{}]*\})|(?P<row>\\\\(?:\[[^\]]*\])?)"
    r"|(?P<d>\\mathrm\s*\{\s*d\s*\}|\\mathrm\s+d(?![A-Za-z]))"
    r"|(?P<bar>\\(?:left|right)\s*(?:\||\\[lr]vert(?![A-Za-z]))|\\[lr]vert(?![A-Za-z]))|\\(?:left|right)\s*(?P<bracket>[()\[\]])"
    r"|(?P<command>\\(?:[A-Za-z]+|.))|(?P<number>\d+(?:\.\d+)?)|(?P<letter>[A-Za-z])|(?P<sign>:=|.)"
)
ENVIRONMENTS = ("equation", "align", "gather")
MATH = ("multline", "eqnarray", "flalign", "alignat", "displaymath", "math", "dmath", "aligned", "split")
OPENING = re.compile(r"\$\$|\\\[|\\begin\s*\{(\w+)(\*?)\}")
# Commands whose text stands elsewhere, or that give others a new meaning.
FOREIGN = re.compile(r"\\(?:input|include|import|subfile)\b")
NEW_MEANING = re.compile(
    r"\\(?:def|edef|gdef|xdef|let|(?:re)?newcommand|providecommand|DeclareMathOperator|DeclareRobustCommand)\b\*?\s*\{?\s*\\"
    r"(?P<name>[A-Za-z]+)"
)
COMMENT = r"(?s)(?<!\\)%[^\n]*|\\begin\{(verbatim|lstlisting|comment)\}.*?(?:\\end\{\1\}|\Z)"
CODE = r"(?ms)^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*\s*$|\Z)|`[^`\n]*`|<!--.*?(?:-->|\Z)"
MOST = 4000  # tokens of a display


class Unread(ValueError):  # noqa: N818 - said of the text
    """Raised for text that is not read, with the place in it."""

    def __init__(self, place: Token, reason: str) -> None:
        super().__init__(f"line {place.line}, column {place.column}: {reason}")


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
    """A display: its LaTeX, where it begins, and the environment that is not read, if it is one."""

    text: str
    begin: Token
    unread: str = ""


def displays(text: str, tex: bool, commands: Container[str]) -> Iterator[Display]:
    r"""Find the displays of a text, TeX or Markdown.

    Raises:  Unread for a display without an end, and for text that says what is not to be seen here.
    """
    text = _blanked(COMMENT if tex else CODE, text)
    if foreign := FOREIGN.search(text):
        raise Unread(_at(text, foreign.start()), f"{foreign[0]}: what stands in another file is not read; put it here")
    for new in NEW_MEANING.finditer(text):
        if f"\\{new['name']}" in commands:
            raise Unread(_at(text, new.start()), f"\\{new['name']} is given a meaning of its own; call it otherwise")
    place = 0
    while opening := OPENING.search(text, place):
        place, name = opening.end(), opening[1]
        if name and name not in (*ENVIRONMENTS, *MATH):
            continue
        closing = rf"\end{{{name}{opening[2]}}}" if name else {"$$": "$$", r"\[": r"\]"}[opening[0]]
        end = text.find(closing, place)
        if end < 0:
            raise Unread(_at(text, opening.start()), f"{opening[0]} has no {closing}")
        yield Display(text[place:end], _at(text, place), "" if name in (None, *ENVIRONMENTS) else name)
        place = end + len(closing)


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


def formulas(found: Iterable[Token]) -> Iterator[list[tuple[Token, str]]]:
    """Join the rows of a display into formulas: tokens, each with the label of its row.

    A row that begins with a sign, ends with one or has no relation goes on with the one before.
    """
    formula = list[tuple[Token, str]]()
    for row, label in _rows(found):
        begins = row[0].text in (*RELATIONS, *OPERATORS)
        goes_on = formula and (begins or formula[-1][0].text in (*RELATIONS, *OPERATORS) or not has_relation(row))
        if formula and not goes_on:
            yield formula
            formula = []
        formula += [(token, label) for token in row]
    if formula:
        yield formula


def has_relation(found: Iterable[Token]) -> bool:
    r"""Whether there is a relation outside of braces: that of \sum_{k=1} is none."""
    depth, inside = 0, False
    for token in found:
        depth += (token.text == "{") - (token.text == "}")
        if token.text in RELATIONS:
            inside = True
            if depth <= 0:
                return True
    return inside and depth != 0  # a brace is missing


def _rows(found: Iterable[Token]) -> Iterator[tuple[list[Token], str]]:
    row, label = list[Token](), ""
    for token in (*found, Token("row", "", 0, 0)):
        if token.kind == "row":
            while row and row[-1].text in (*".,;&", r"\quad", r"\qquad"):
                row.pop()
            if row:
                yield [t for k, t in enumerate(row) if t.text != "&" or not _aligns(row, k)], label
            row, label = [], ""
        elif token.kind in ("label", "tag"):
            label = label or (token.text if token.kind == "label" else f"({token.text})")
        else:
            row.append(token)


def _aligns(row: list[Token], k: int) -> bool:
    """Return whether the & at a place stands beside a relation, before a sign or first, and does not part two formulas."""
    beside = [row[n].text for n in (k - 1, k + 1) if 0 <= n < len(row)]
    return k == 0 or any(text in RELATIONS for text in beside) or beside[-1] in OPERATORS
