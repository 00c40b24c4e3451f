r"""a^n b^n: a line of as many a as are drawn, then a line of as many b.

    aaaaa
    bbbbb

The n are uniform on `least` .. `most`, so a pair of lines costs the true law log2(most - least + 1) bits: 10 from 1024 to 2047.
No model learns that law from ten numbers; the geometric law of the same mean needs 12.03, or 24.06 for a and b apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.settings import Count, check_whole
from experiments.symbols.source import UnifilarSource

__all__ = ["EqualBlocks"]


@dataclass(frozen=True)
class EqualBlocks(UnifilarSource):
    r"""Pairs of lines of equal length.

    Args:    pairs: of a sequence; least, most: the range of lengths, both included.
    Source:  Ollivier 2013, section 4, "a^n b^n problem".
    """

    pairs: Count = 10
    least: Count = 1024
    most: int = 2047
    start = ("a", 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("most", self.most, self.least, "it is the largest length")

    @property
    def alphabet(self) -> str:
        return "ab\n"

    @property
    def line_count(self) -> int:
        return 2 * self.pairs

    def choices(self, state: tuple[str, int]) -> Mapping[str, tuple[float, tuple[str, int]]]:  # type: ignore[override]
        letter, count = state  # a: how many are written; b: how many are still to be
        if letter == "b":
            return {"b": (1.0, ("b", count - 1))} if count else {"\n": (1.0, self.start)}
        lengths = self.most - max(count, self.least) + 1  # that the block may still have
        ends = 1 / lengths if count >= self.least else 0.0
        following = {"\n": (ends, ("b", count)), "a": (1 - ends, ("a", count + 1))}
        return {character: choice for character, choice in following.items() if choice[0] > 0}
