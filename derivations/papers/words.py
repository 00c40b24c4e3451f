r"""Makes words of the grammar of tokens: a name is a letter, a value of a function, its slope, or a function, as declared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lark import Token as Word

from derivations.papers.letters import Letter
from derivations.papers.names import ACCENTS, GREEK, WORDS, Cursor
from derivations.papers.tokens import RELATIONS, Token, Unread

__all__ = ["COMMANDS", "words"]

FUNCTIONS = ("tanh", "exp", "log", "ln", "sin", "cos", "tan", "sinh", "cosh", "arctan", "erf")
DOTS = {r"\dot": "'", r"\ddot": "''", r"\dddot": "'''"}
# Signs, commands among them, that are words of the grammar as they are.
SIGNS = {
    "+": "PLUS", "-": "MINUS", "*": "TIMES", r"\cdot": "TIMES", r"\times": "TIMES", r"\odot": "TIMES", r"\circ": "TIMES",
    "/": "SLASH", "^": "CARET", "_": "_UNDER", ",": "_COMMA", "(": "_LPAR", ")": "_RPAR", "[": "_LSQB", "]": "_RSQB",
    "{": "_LBRACE", "}": "_RBRACE", r"\lvert": "_LBAR", r"\rvert": "_RBAR", r"\frac": "_FRAC", r"\dfrac": "_FRAC",
    r"\tfrac": "_FRAC", r"\sqrt": "_SQRT", r"\int": "_INT", r"\sum": "_SUM", r"\lim": "_LIM", r"\to": "_TO",
    r"\infty": "INFTY", r"\partial": "PARTIAL", r"\boxed": "_BOXED",
}  # fmt: skip
# What no equation has, with what it is.
NO_EQUATION = {
    r"\sim": "a law", r"\mapsto": "a map", r"\longmapsto": "a map", r"\longrightarrow": "a map", r"\lfloor": "a floor",
    r"\lceil": "a floor", r"\in": "a set", r"\mathbb": "a set", r"\lesssim": "a comparison", r"\gtrsim": "a comparison",
    r"\text": "words", r"\mbox": "words", r"\textrm": "words", r"\textit": "words",
}  # fmt: skip
# Every command that is read, spaces apart.
COMMANDS = {
    *(rf"\{name}" for name in (*FUNCTIONS, *GREEK)), *ACCENTS, *WORDS, *DOTS, *(s for s in SIGNS if s.startswith("\\")),
    *(command for command in RELATIONS if command.startswith("\\")), r"\label", r"\tag", r"\left", r"\right",
    r"\top",
}  # fmt: skip
OPERANDS = {"NUMBER", "LETTER", "VALUE", "SLOPE", "_RPAR", "_RSQB", "_RBRACE", "_RBAR", "_TOP", "ONE"}


class _Words(Cursor):
    """Makes words of the grammar: names are letters, values of functions, their slopes, or functions, as they are declared."""

    def __init__(self, found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any]) -> None:
        super().__init__(found, found[0], letters)
        self.letters, self.functions = letters, functions
        self.open = list[str]()  # brackets
        self.before = ""  # the type of the last word

    def all(self) -> Iterator[Word]:
        while self.next.kind != "end":
            for word in self._next():
                self.before = word.type
                yield word

    def _next(self) -> Iterator[Word]:
        token, following = self.next, [token.text for token in self.found[self.at + 1 : self.at + 4]]
        if token.text in RELATIONS:
            yield self._word("REL")
        elif token.text == "^" and (following[:1] == [r"\top"] or following == ["{", r"\top", "}"]):
            self.at += 2 if following[0] == r"\top" else 4
            yield self._made("_TOP", token)
        elif token.text == "|":
            yield self._word(self._bar())
        elif token.text in (r"\mathbf", r"\boldsymbol") and self._is_one(following):
            self.at += 4
            yield self._made("ONE", token)
        elif token.text in SIGNS:
            self._bracket(token)
            yield self._word(SIGNS[token.text])
        elif token.kind == "number":
            yield from self._number(self.take())
        elif token.text == "d":
            yield self._word("DIFF")
        elif token.text in DOTS:
            yield self._dotted(self.take())
        elif token.kind == "command" and token.text[1:] in FUNCTIONS:
            self.take()
            if self.next.text == "_":
                self.fail(f"{token.text} is read without an index; write the logarithm of another base as a quotient")
            yield self._made("FUN", token, token.text[1:])
        elif token.kind in ("letter", "command"):
            yield self._named(token)
        else:
            self.fail(f"{token.text} is not read here" + "; write one formula a row" * (token.text in (";", "&")))

    def _made(self, kind: str, token: Token, text: str | None = None) -> Word:
        return Word(kind, token.text if text is None else text, start_pos=self.at, line=token.line, column=token.column)

    def _word(self, kind: str) -> Word:
        token = self.take()
        return self._made(kind, token)

    def _is_one(self, following: Sequence[str]) -> bool:
        r"""Return whether \mathbf{1} or \mathbf{I} follows, which is 1 of one unit, if no letter is called so."""
        return following == ["{", "1", "}"] or (following == ["{", "I", "}"] and "Ibold" not in self.letters)

    def _bracket(self, token: Token) -> None:
        if token.text in ("(", "[", "{", r"\lvert"):
            self.open.append(token.text)
        elif token.text in (")", "]", "}", r"\rvert") and self.open:
            self.open.pop()

    def _bar(self) -> str:
        """Tell whether a | opens or closes."""
        ends = self.before in OPERANDS
        if self.open and self.open[-1] == "|" and ends:
            self.open.pop()
            return "_RBAR"
        if ends and self.before != "_RBAR" and self._bars() != 2:
            self.fail(r"it is not certain which | opens and which closes; write \lvert and \rvert")
        self.open.append("|")
        return "_LBAR"

    def _bars(self) -> int:
        """Count the bars of the side of the relation that is gone through."""
        signs = [k for k, token in enumerate(self.found) if token.text in RELATIONS]
        start, stop = max([-1, *(k for k in signs if k < self.at)]), min([len(self.found), *(k for k in signs if k > self.at)])
        return sum(token.text == "|" for token in self.found[start + 1 : stop])

    def _number(self, token: Token) -> Iterator[Word]:
        if self.before == "_FRAC" and len(token.text) == 2 and token.text.isdigit():  # \frac12
            yield self._made("NUMBER", token, token.text[0])
            yield self._made("NUMBER", token, token.text[1])
            return
        if self.before in ("_FRAC", "CARET", "_UNDER") and len(token.text) > 1:
            self.fail("braces are missing: LaTeX takes the first digit only", token)
        if self._is_power_of_ten(token):
            e = self.next.text
            self.fail(f"is this {token.text} times a power of ten, or {e}? write 10^{{...}}, or \\cdot before {e}", token)
        yield self._made("NUMBER", token)

    def _is_power_of_ten(self, token: Token) -> bool:
        """Return whether a number that was taken is the first part of one as programs write it, 1e-3, 1E-3."""
        following = self.found[self.at : self.at + 3]
        has_sign = len(following) > 1 and following[1].text in ("+", "-")
        parts = [token, *following[: 2 + has_sign]]
        close = all(one.line == other.line and one.column + len(one.text) == other.column for one, other in pairwise(parts))
        return len(parts) == 3 + has_sign and close and parts[1].text in ("e", "E") and parts[-1].kind == "number"

    def _dotted(self, token: Token) -> Word:
        braces = self.takes("{")
        name = self.name() if braces else self.base()
        if braces:
            self.expect("}")
        name += f"_{self.index()}" if self.takes("_") else ""
        letter = self.letters.get(name)
        if letter is None or len(letter.arguments) != 1:
            reason = f"{token.text} is read over a function of one letter; {name} is not declared as one"
            raise Unread(token, reason, add=f"{name}: function of t")
        return self._made("SLOPE", token, name + DOTS[token.text])

    def _named(self, token: Token) -> Word:
        if self.before == "CARET":  # LaTeX raises one sign
            return self._made(self._kind(name := self.base()), token, name)
        name = self.name()
        kind, bare = self._kind(name), name.rstrip("'")
        if kind == "LETTER" and name not in self.letters:
            if bare != name and bare in self.letters and len(self.letters[bare].arguments) == 1:
                kind = "SLOPE"
            elif name == "O" and self.next.text == "(":
                kind = "_ORDER"
            elif name in ("diag", *FUNCTIONS) and self.next.text == "(":
                kind = "FUN"
        return self._made(kind, token, name)

    def _kind(self, name: str) -> str:
        if name in self.functions:
            return "FUN"
        return "VALUE" if name in self.letters and self.letters[name].arguments else "LETTER"


def words(found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any]) -> list[Word]:
    r"""Make words of the grammar.

    Raises:  Unread for a sign that is none.
    """
    for token in found:
        head = re.match(r"\\[A-Za-z]*", token.text)
        if head and head[0] in NO_EQUATION and (token.kind != "words" or not _in_index(found, token)):
            raise Unread(token, f"{head[0]} says {NO_EQUATION[head[0]]}", "not an equation")
    return list(_Words(found, letters, functions).all())


def _in_index(found: Sequence[Token], word: Token) -> bool:
    r"""Return whether a word stands in an index, as in x_{\text{in}}."""
    at = next(k for k, token in enumerate(found) if token is word)
    before = [token.text for token in found[max(at - 2, 0) : at]]
    return before[-1:] == ["_"] or before == ["_", "{"]
