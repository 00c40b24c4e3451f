r"""Copy: a word, blanks, a sign, and the word again.

    cab------=cab

The letters of a word are drawn independently, each with the same chance; all else is sure. So the true law pays log2(letters)
bits for each letter of a word, and whoever does not remember pays them twice.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.settings import Count
from experiments.symbols.source import UnifilarSource

__all__ = ["Copies"]

Choices = Mapping[str, tuple[float, tuple[str, int]]]


@dataclass(frozen=True)
class Copies(UnifilarSource):
    r"""Lines of a word, blanks, = and the word.

    Args:    lines: of a sequence; letters: from which words are made, at most 26; length: of a word; blanks: after it.
    Source:  Hochreiter and Schmidhuber 1997, whose task this is as a sequence of symbols.
    """

    lines: Count = 100
    letters: Count = 8
    length: Count = 10
    blanks: Count = 100
    start = ("", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.letters > len(string.ascii_lowercase):
            raise ValueError(f"`letters` is {self.letters}, and there are 26; take as many or fewer.")

    @property
    def alphabet(self) -> str:
        return string.ascii_lowercase[: self.letters] + "-=\n"

    @property
    def line_count(self) -> int:
        return self.lines

    def choices(self, state: tuple[str, int]) -> Choices:  # type: ignore[override]
        word, at = state  # the letters so far, and how many symbols came after them: blanks, = and letters once more
        if len(word) < self.length:
            return {y: (1 / self.letters, (word + y, 0)) for y in self.alphabet[: self.letters]}
        again = at - self.blanks - 1
        if again == self.length:
            return {"\n": (1.0, self.start)}
        following = "-" if again < -1 else "=" if again < 0 else word[again]
        return {following: (1.0, (word, at + 1))}
