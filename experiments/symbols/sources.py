r"""The sources by name, at the paper's sizes and at small ones, on which a table of baselines takes seconds.

insertions    1000 lines, 67 symbols               60 lines, 8 letters, 4 digits, runs of 3 of 6 capitals
music         2700 bars, 14 symbols                160 bars
xor           10,000 lines, T = 100, 6 symbols     200 lines, T = 10
blocks        10 pairs of 1024 to 2047, 3 symbols  10 pairs of 16 to 31
copies        100 words of 10 of 8 letters, T 100  100 words of 3 of 4 letters, T = 10      ours, not the paper's
"""

from __future__ import annotations

from experiments.symbols.laws.copies import Copies
from experiments.symbols.laws.distant_xor import DistantXOR
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.laws.insertions import Insertions
from experiments.symbols.laws.music import Music
from experiments.symbols.source import SymbolSource
from experiments.usage import check_word

__all__ = ["SCALES", "source_named"]

SCALES: dict[str, dict[str, SymbolSource]] = {
    "paper": {"insertions": Insertions(), "music": Music(), "xor": DistantXOR(), "blocks": EqualBlocks(), "copies": Copies()},
    "small": {
        "insertions": Insertions(lines=60, letters=8, digits=4, capitals=6, run=3),
        "music": Music(bars=160),
        "xor": DistantXOR(lines=200, T=10),
        "blocks": EqualBlocks(least=16, most=31),
        "copies": Copies(letters=4, length=3, blanks=10),
    },
}


def source_named(name: str, scale: str = "paper") -> SymbolSource:
    """Return one of the sources at one of the scales. Raises: UsageError for another name or scale, with the nearest."""
    check_word("scale", scale, SCALES)
    check_word("source", name, SCALES[scale])
    return SCALES[scale][name]
