r"""Parses formulas by the rules of grammar.lark: those of papers, in LaTeX, and those of fields and steps, as text.

Who reads a formula makes words of it first, of the types that the grammar has. Some types LaTeX alone has, some text alone: what
is no formula of one kind is none, though it may be one of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
DEEPEST = 40  # brackets within one another


class Misplaced(ValueError):  # noqa: N818 - said of a word
    """Raised at the first word that cannot stand where it does.

    word: None at the end; missing: what is missing before it: "a value", or what would close a bracket; error: lark's, with what
    could stand there, and None for brackets too deep.
    """

    def __init__(self, word: Word | None, missing: str, error: UnexpectedToken | None) -> None:
        super().__init__(missing)
        self.word, self.missing, self.error = word, missing, error

    def as_in(self, reasons: Mapping[str, Sequence[str]], words: Callable[[str], Sequence[Word]]) -> str:
        """Return the reason whose examples, made into words, fail in the same way."""
        if self.error is None:
            return ""
        return self.error.match_examples(lambda text: _parser().parse(words(text), "chain"), reasons, use_accepts=True) or ""


class Values(Interpreter[Word, Any]):
    """Makes a value of each rule: of those that group, of sums. What terms, numbers and letters are a reader says of its own."""

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
        raise Misplaced(words[deep], f"more than {DEEPEST} brackets within one another are not read", None)
    try:
        return _parser().parse(words, start)
    except UnexpectedToken as error:
        place = next((k for k, word in enumerate(words) if word is error.token), len(words))
        missing = "a value" if "NUMBER" in error.accepts else inside[place - 1][-1:] if place else ""
        raise Misplaced(words[place] if place < len(words) else None, missing, error) from None


def _open(words: Sequence[Word]) -> list[str]:
    """Return for each word the brackets that would close those which are open behind it, the innermost last."""
    found, now = list[str](), ""
    for word in words:
        now = now + CLOSING[word.type] if word.type in CLOSING else now[:-1] if word.type in CLOSED else now
        found.append(now)
    return found
