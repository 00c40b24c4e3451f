r"""Synthetic music: in each bar one of five rhythms, and pitches of the chord whose turn it is.

    c2 c4 |           chords I-IV-I-V-I-IV-V-I, over and over from the first: ceg, cfa or gbd
    f4. a8 c4 |       rhythms 4-4-4, 2-4, 4.-8-4, 2., 4-4-8-8, each three quarters long
    g4 e4 c8 c8 |

A bar costs the true law log2 5 + (13/5) log2 3 = 6.443 bits in the mean: a rhythm, and one of three pitches a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.settings import Count
from experiments.symbols.source import UnifilarSource

__all__ = ["Music"]

RHYTHMS = ("_4 _4 _4 |\n", "_2 _4 |\n", "_4. _8 _4 |\n", "_2. |\n", "_4 _4 _8 _8 |\n")  # _ for a pitch
CHORDS = {"I": "ceg", "IV": "cfa", "V": "gbd"}
CYCLE = ("I", "IV", "I", "V", "I", "IV", "V", "I")


@dataclass(frozen=True)
class Music(UnifilarSource):
    r"""Bars of notes, a line each.

    Args:    bars: of a sequence, which begins with the first bar of the cycle.
    Source:  Ollivier 2013, section 4, whose fourth bar would be the chord V. Where its cycle begins is not in print.
    """

    bars: Count = 2700
    start = (0, "")

    @property
    def alphabet(self) -> str:
        return "abcdefg248. |\n"

    @property
    def line_count(self) -> int:
        return self.bars

    def choices(self, state: tuple[int, str]) -> Mapping[str, tuple[float, tuple[int, str]]]:  # type: ignore[override]
        bar, written = state  # of the cycle; of the bar, its pitches left open
        left = [rhythm[len(written)] for rhythm in RHYTHMS if rhythm.startswith(written)]
        if left[0] == "_":
            return dict.fromkeys(CHORDS[CYCLE[bar]], (1 / 3, (bar, written + "_")))
        over = ((bar + 1) % len(CYCLE), "")
        following = {character: over if character == "\n" else (bar, written + character) for character in left}
        return {character: (left.count(character) / len(left), state) for character, state in following.items()}
