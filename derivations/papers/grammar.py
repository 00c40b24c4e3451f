r"""Reads formulas in LaTeX by the rules of derivations/grammar.lark.

    chain    = sum (relation sum)*                              = := \le \ge < > \approx

What can be taken for two things is refused, with the place, and not guessed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Expr, evaluate

from derivations.grammar import Misplaced, parse
from derivations.papers.letters import Letter
from derivations.papers.names import Cursor
from derivations.papers.reading import CONSTANTS, FUNCTIONS, FormulaReader
from derivations.papers.tokens import RELATIONS, Token, Unread
from derivations.papers.words import words

__all__ = ["RelationChain", "alone", "joined", "new_letter", "read_chain", "read_value"]


@dataclass(frozen=True)
class RelationChain:
    """Holds sides, the relations between them with places, the sides as printed, and the letter that the first one defines.

    objection: why a formula that is read is not judged; sizes: "one unit" where signs of matrices are read as those of numbers.
    """

    sides: tuple[Expr, ...]
    relations: tuple[Token, ...]
    texts: tuple[str, ...]
    defines: Letter | None
    objection: str = ""
    sizes: str = ""

    @property
    def text(self) -> str:
        """Return the whole as printed."""
        return self.texts[0] + "".join(f" {sign} {text}" for sign, text in zip(self.relations, self.texts[1:], strict=True))


def _tree(found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any]) -> Any:
    """Parse a formula. Raises: Unread at the first word that cannot stand there, with what is known of why."""
    try:
        return parse(words(found, letters, functions), "chain")
    except Misplaced as error:
        word, last, reason = error.word, found[-1], str(error)
        missing = not reason or reason.endswith("is missing")
        if word is None:
            place, reason = Token("end", "", last.line, last.column + len(last.text)), reason or "a value is missing"
            raise Unread(place, reason + " at the end" * missing) from None
        because = f": {reason}{' before it' * missing}" if reason else ""
        raise Unread(Token("", "", word.line or 1, word.column or 1), f"{word} is not read here{because}") from None


def read_chain(
    found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any], defined: Container[str]
) -> RelationChain:
    r"""Read a formula.

    Args:    found: its tokens; letters, functions: what is declared, by name; defined: names of those that earlier lines
             define.
    Raises:  Unread, with the place and the reason.
    """
    letter = new_letter(found, letters, functions)
    if letter and letter.name in defined:
        sign = next(token for token in found if token.text in RELATIONS)
        if RELATIONS[sign.text] == ":=":
            raise Unread(sign, f"{letter.name} is defined before")
        letter = None
    reader = FormulaReader(letters, functions, defined)
    with evaluate(False):
        tree = _tree(found, letters, functions)
        sides = tuple(reader.visit(side) for side in tree.children[::2])
    signs = [Token("", str(word), word.line, word.column) for word in tree.children[1::2]]
    places = [next(k for k, t in enumerate(found) if (t.line, t.column) == (s.line, s.column)) for s in signs]
    relations = tuple(found[k] for k in places)
    ends = zip([0, *(k + 1 for k in places)], [*places, len(found)], strict=True)
    texts = tuple(joined(found[a:b]) for a, b in ends)
    return RelationChain(sides, relations, texts, letter, reader.objection, reader.sizes)


def read_value(found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any]) -> Expr:
    """Read an expression alone. Raises: Unread."""
    (side,) = read_chain(found, letters, functions, ()).sides
    return side


def alone(found: Sequence[Token], letters: Container[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the name that stands alone on the left of = or :=, with the letters in the brackets behind it."""
    cursor, arguments = Cursor(found, found[0], letters), list[str]()
    try:
        name = cursor.name()
        if cursor.takes("("):
            arguments.append(cursor.name())
            while cursor.takes(","):
                arguments.append(cursor.name())
            cursor.expect(")")
    except Unread:
        return None
    return (name, tuple(arguments)) if RELATIONS.get(cursor.next.text) in ("=", ":=") else None


def new_letter(found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any]) -> Letter | None:
    """Return what stands alone on the left as a letter, or a function, that a line may define."""
    name, arguments = alone(found, letters) or ("", ())
    if (
        not name
        or name in functions
        or (name in FUNCTIONS and name not in letters)
        or (name.endswith("'") and name not in letters and name.rstrip("'") in letters)
    ):
        return None
    if name in letters:
        return letters[name] if arguments in ((), letters[name].arguments) else None
    if (name in CONSTANTS and not arguments) or len(set(arguments)) < len(arguments) or not all(a in letters for a in arguments):
        return None
    return Letter(name, arguments=arguments, in_full=bool(arguments))


def joined(found: Sequence[Token]) -> str:
    """Write tokens as LaTeX again, with the spaces that it needs."""
    text, before = "", ""
    for token in found:
        text += (" " if before == "command" and token.text[:1].isalpha() else "") + token.text
        before = token.kind
    return text
