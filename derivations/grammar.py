r"""Parses formulas by the rules of grammar.lark: those of papers, in LaTeX, and those of fields and steps, as text.

A reader first splits a formula into words, each of a type that the grammar has. Some types occur in LaTeX only and some in text
only, so that each kind of formula refuses the signs of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from lark import Lark, Tree, UnexpectedToken
from lark import Token as Word
from lark.lexer import Lexer
from lark.visitors import Interpreter

__all__ = ["Misplaced", "Node", "Values", "Word", "parse"]

Node: TypeAlias = Any  # a lark.Tree, whose parts are trees and words
CLOSING = {"_LPAR": ")", "_LRAISED": ")", "_LSQB": "]", "_LCOL": "]", "_LBRACE": "}", "_LBAR": "|"}
CLOSED = ("_RPAR", "_RSQB", "_RCOL", "_RBRACE", "_RBAR")
WRITTEN = {"chain": {"times": r"\cdot", "braces": "braces"}, "right": {"times": "*", "braces": "brackets"}}
DEEPEST = 40  # brackets within one another


# Reasons of refusals: WRONG by the type of the word that cannot stand there, ENDLESS by that of a word before it which does not
# say where it ends, VALUES where a value is missing.
FURTHER = ("NUMBER", "LETTER", "VALUE", "SLOPE", "FUN", "ONE", "TIMES", "SLASH", "DIVIDE", "CARET", "_LPAR", "_LSQB", "_LCOL",
           "_LBAR", "_FRAC", "_SQRT", "_TOP")  # fmt: skip
VALUES = {
    ("CARET", ""): "a value is missing; an exponent of several signs stands in %(braces)s",
    ("FUN", ""): "the argument of a function is missing",
    ("_SQRT", "_LSQB"): "roots other than the square root are not read; write a power",
}
WRONG = {
    "CARET": "a second exponent; write brackets",
    "_COMMA": "write one formula a row",
    "_LBRACE": "braces do not show in print; write brackets",
    "NUMBER": "the number stands behind a factor; write %(times)s before it",
}
ENDLESS = {
    "SLASH": "several factors follow the /; write brackets, or \\frac",
    "DIVIDE": "several factors follow the /; write brackets about them, or * before this one",
    "FUN": "how far does the argument of a function reach? write brackets",
    "_FRAC": "how far does the derivative reach? write brackets",
}


class Misplaced(ValueError):  # noqa: N818 - said of a word
    """Raised at the first word that cannot stand where it does, None at the end, with why."""

    def __init__(self, word: Word | None, reason: str) -> None:
        super().__init__(reason)
        self.word = word


class Values(Interpreter[Word, Any]):
    """Evaluates groups and sums; a reader adds what terms, numbers and letters are."""

    def __default__(self, tree: Node) -> Any:
        (part,) = tree.children
        return self.visit(part)

    def sum(self, tree: Node) -> Any:
        terms, sign = list[Any](), ""
        for part in tree.children:
            if isinstance(part, Tree):
                value = self.visit(part)
                terms.append(self.negative(value) if sign == "MINUS" else value)
            else:
                sign = part.type
        return self.added(terms) if len(terms) > 1 else terms[0]

    def negated(self, tree: Node) -> Any:
        return self.negative(self.visit(tree.children[1]))

    def negative(self, value: Any) -> Any:
        raise NotImplementedError

    def added(self, terms: Sequence[Any]) -> Any:
        raise NotImplementedError


class _Given(Lexer):
    """Hands words on that are made already."""

    def __init__(self, _: object) -> None: ...

    def lex(self, data: Any, _: Any = None) -> Iterator[Word]:
        yield from data


@cache
def _parser() -> Lark:
    rules = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(rules, parser="lalr", lexer=_Given, start=["chain", "right"], maybe_placeholders=True, propagate_positions=True)


def parse(words: Sequence[Word], start: str) -> Node:
    """Parse a formula: a "chain", or the "right" side of an equation as text. Raises: Misplaced."""
    inside = _open(words)
    if deep := next((k for k, brackets in enumerate(inside) if len(brackets) > DEEPEST), 0):
        raise Misplaced(words[deep], f"more than {DEEPEST} brackets within one another are not read")
    try:
        return _parser().parse(words, start)
    except UnexpectedToken as error:
        place = next((k for k, word in enumerate(words) if word is error.token), len(words))
        reason = _reason(words, place, inside, error.accepts, WRITTEN[start])
        raise Misplaced(words[place] if place < len(words) else None, reason) from None


def _reason(words: Sequence[Word], place: int, inside: Sequence[str], accepts: set[str], written: Mapping[str, str]) -> str:  # noqa: PLR0911
    """Say why a word cannot stand where it does, from what could; nothing if that is not known."""
    kind, before = words[place].type if place < len(words) else "", words[place - 1].type if place else ""
    level = inside[place - 1] if place else ""
    if kind == "DIFF":
        return "d is read in derivatives and integrals only"
    if "NUMBER" in accepts and kind != "_LBRACE":
        return VALUES.get((before, kind), VALUES.get((before, ""), "a value is missing")) % written
    if accepts <= {"_UNDER", "CARET"} and before != "_LIM":
        return "sums and integrals are read from one end to another, \\int_a^b ... dx"
    at_level = [word for word, brackets in zip(words[:place], inside, strict=False) if brackets == level]
    if "PLUS" in accepts and "LETTER" not in accepts and kind in FURTHER:
        return next((ENDLESS[word.type] for word in reversed(at_level) if word.type in ENDLESS), "")
    if kind in ("PLUS", "MINUS") and any(word.type in ("_SUM", "_LIM") for word in at_level):
        return "how far does the sum or limit reach? write brackets about what follows it, or about all of it"
    if kind in WRONG and not (kind == "_COMMA" and level):
        return WRONG[kind] % written
    if level and not accepts.isdisjoint(CLOSED) and level[-1] != "".join(words[place : place + 1]):
        return f"{level[-1]} is missing"
    return "the d of the integral is missing, as in \\int_0^1 x dx" if "DIFF" in accepts and kind in ("", "REL") else ""


def _open(words: Sequence[Word]) -> list[str]:
    """Return for each word the brackets that would close those which are open behind it, the innermost last."""
    found, now = list[str](), ""
    for word in words:
        now = now + CLOSING[word.type] if word.type in CLOSING else now[:-1] if word.type in CLOSED else now
        found.append(now)
    return found
