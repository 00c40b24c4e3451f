r"""Reads names of letters, x, \alpha, h_0, h_{t-1}, h_t^i, \tilde h, \mathbf{x}, \Delta t, x', each with its indices."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import NoReturn

from derivations.papers.tokens import Token, Unread, tokens

__all__ = ["ACCENTS", "GREEK", "WORDS", "Cursor", "mentioned", "name_of"]

GREEK = re.findall(
    r"\w+",
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega varepsilon vartheta varrho varsigma varphi ell",
)
# As SymPy's names end, so that they are printed with the same accent.
ACCENTS = {r"\tilde": "tilde", r"\hat": "hat", r"\bar": "bar", r"\mathbf": "bold", r"\boldsymbol": "bm", r"\mathcal": "cal"}
WORDS = (r"\mathrm", r"\operatorname")
# Words that are the names of other letters: alpha, dx, htilde.
TAKEN = re.compile(rf"{'|'.join(GREEK)}|d[A-Za-z]|([A-Za-z]|{'|'.join(GREEK)})({'|'.join(ACCENTS.values())})")


class Cursor:
    """Goes through tokens from left to right, and reads names, of which those with an index above must be declared."""

    def __init__(self, found: Sequence[Token], place: Token, declared: Container[str] | None = None) -> None:
        self.found, self.at, self.declared = found, 0, declared
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
        """Read a letter with its indices and primes."""
        name, above = self.base(), self._above("")
        name = f"{name}_{self.index()}" if self.takes("_") else name
        name += above or self._above(name)
        while self.takes("'"):
            name += "'"
        return name

    def _above(self, name: str) -> str:
        """Read an index above, where a letter that has it is declared: h_t^g; else it is a power, and left."""
        here = self.at
        if not name:  # h^g_t, which is h_t^g
            try:
                index = self.index() if self.takes("^") and self.next.text != "-" else ""
            except Unread:
                index = ""
            if index and self.next.text == "_":
                return f"^{index}"
        elif self.takes("^"):
            try:
                above = f"^{self.index()}"
            except Unread:
                above = ""
            if above and (self.declared is None or name + above in self.declared):
                return above
        self.at = here
        return ""

    def base(self, *, index: bool = False) -> str:  # noqa: PLR0911 - a kind of letter each
        token = self.take()
        if token.text in WORDS:
            self.expect("{")
            word = ""
            while not self.takes("}"):
                if self.next.kind != "letter":
                    self.fail(f"{token.text} is read with letters only, {token.text}{{in}}")
                word += self.take().text
            if not index and TAKEN.fullmatch(word):
                self.fail(f"{token.text}{{{word}}} is called here as \\alpha, \\Delta x or \\tilde h would be", token)
            return word or self.fail(f"{token.text} is empty", token)
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
        if index and token.kind == "words" and (text := re.fullmatch(r"\\text\s*\{([A-Za-z]+)\}", token.text)):
            return text[1]
        if index and token.text in (r"\max", r"\min"):
            return token.text[1:]
        self.at -= 1
        return self.fail(f"{token.text} is not read" if token.text else "a value is missing at the end")

    def index(self) -> str:
        if not self.takes("{"):
            token = self.take()
            if len(token.text) == 1 and token.text.isalnum():
                return token.text
            self.at -= 1
            if token.kind in ("command", "words"):
                return f"{{{self.base(index=True)}}}"
            self.fail("an index of several signs needs braces", token)
        index = ""
        while not self.takes("}"):
            token = self.next
            if token.kind == "number" or token.text in ("+", "-", ",", "/"):
                index += self.take().text
            else:
                index += self.base(index=True)
                index += f"_{self.index()}" if self.takes("_") else ""
        if not index:
            self.fail("an index is empty")
        return index if len(index) == 1 else f"{{{index}}}"


def mentioned(found: Sequence[Token]) -> set[str]:
    """Collect the letters of a formula that is not read: those that it may say something of."""
    names = set[str]()
    for cursor in (Cursor(found, Token("", "", 0, 0)), Cursor(found, Token("", "", 0, 0), ())):  # an index above, or a power
        while cursor.next.kind != "end":
            here = cursor.at
            try:
                name = cursor.name()
                names |= {name, name.rstrip("'"), *re.split(r"[\^{}]+", name)}
            except Unread:
                cursor.at = here + 1
                if (token := found[here]).kind == "words" and re.search(r"[$=<>]", token.text):
                    names |= set(re.findall(r"[A-Za-z]", token.text.partition("{")[2]))
    return {name for name in names if name[:1].isalpha() and name != "d"}


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
