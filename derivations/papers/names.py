r"""Reads names of letters: x, \alpha, h_0, h_{t-1}, \tilde h, \mathbf{x}, \Delta t, x', each with its index."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from derivations.papers.tokens import Token, Unread, tokens

__all__ = ["ACCENTS", "DEEPEST", "GREEK", "WORDS", "Cursor", "name_of"]

GREEK = re.findall(
    r"\w+",
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega varepsilon vartheta varrho varsigma varphi ell",
)
# As SymPy's names end, so that they are printed with the same accent.
ACCENTS = {r"\tilde": "tilde", r"\hat": "hat", r"\bar": "bar", r"\mathbf": "bold", r"\boldsymbol": "bm", r"\mathcal": "cal"}
WORDS = (r"\mathrm", r"\operatorname", r"\text")
DEEPEST = 40  # braces and brackets within one another


class Cursor:
    """Goes through tokens from left to right."""

    def __init__(self, found: Sequence[Token], place: Token) -> None:
        self.found, self.at, self.depth = found, 0, 0
        last = found[-1] if found else place
        self.end = Token("end", "", last.line, last.column + len(last.text))

    @property
    def next(self) -> Token:
        return self.found[self.at] if self.at < len(self.found) else self.end

    def take(self) -> Token:
        token = self.next
        self.at += 1
        return token

    def takes(self, *texts: str) -> str:
        if self.next.kind == "end" or self.next.text not in texts:
            return ""
        return self.take().text

    def expect(self, text: str) -> None:
        if not self.takes(text):
            self.fail(f"{text} is missing before {self.next.text!r}" if self.next.text else f"{text} is missing at the end")

    def fail(self, reason: str, token: Token | None = None) -> NoReturn:
        raise Unread(token or self.next, reason)

    def name(self) -> str:
        """Read a letter with its index and primes."""
        base = self.base()
        name = f"{base}_{self.index()}" if self.takes("_") else base
        while self.takes("'"):
            name += "'"
        return name

    def base(self, *, index: bool = False) -> str:
        token = self.take()
        if token.text == r"\text" and not index:
            self.fail("words in a formula are not read; what they say of letters belongs on top of the paper", token)
        if token.text in WORDS:
            self.expect("{")
            word = ""
            while not self.takes("}"):
                if self.next.kind != "letter":
                    self.fail(f"{token.text} is read with letters only, {token.text}{{in}}")
                word += self.take().text
            return word
        if token.text in ACCENTS:
            braces = self.takes("{")
            inner = self.base()
            if braces:
                self.expect("}")
            return inner + ACCENTS[token.text]
        if token.text == r"\Delta" and self.next.kind == "letter":
            return "d" + self.take().text
        if token.kind == "letter":
            return token.text
        if token.kind == "command" and token.text[1:] in GREEK:
            return token.text[1:]
        self.at -= 1
        return self.fail(f"{token.text} is not read" if token.text else "a value is missing at the end")

    def index(self) -> str:
        if not self.takes("{"):
            token = self.take()
            if len(token.text) == 1 and token.text.isalnum():
                return token.text
            self.at -= 1
            return (
                f"{{{self.base(index=True)}}}"
                if token.kind == "command"
                else self.fail("an index of several signs needs braces", token)
            )
        index = ""
        while not self.takes("}"):
            token = self.next
            if token.kind == "number" or token.text in ("+", "-", ",", "/"):
                index += self.take().text
            else:
                index += self.base(index=True)
        if not index:
            self.fail("an index is empty")
        return index if len(index) == 1 else f"{{{index}}}"


def name_of(text: str, place: Token) -> str:
    r"""Read the name of a letter as the front matter has it: `alpha` is \alpha there.

    Raises:  Unread for what is no letter.
    """
    spelt = re.sub(rf"(?<![A-Za-z\\])({'|'.join(GREEK)})(?![A-Za-z])", r"\\\1", text)
    cursor = Cursor(tokens(spelt, place), place)
    if not text:
        cursor.fail("a name is missing", place)
    name = cursor.name()
    if cursor.next.kind != "end":
        cursor.fail(f"{text!r} is not one letter; a word is written \\mathrm{{word}}", place)
    return name
