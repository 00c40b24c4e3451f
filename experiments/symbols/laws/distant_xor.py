r"""Distant XOR: after many random bits, the sum modulo 2 of the two of them that were marked far back.

     1 1X0 1 0 1X1 0 1 1=1        bits after a space, two of them after an X instead; only the bit after = is to be predicted

Of T' bits, uniform on T .. T + T // 10, the first mark is at one of the places in [0, T'/10[, the second in [T'/10, T'/2[,
counted from 0. The true law pays nothing, and a model that knows nothing one bit a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from experiments.settings import Bounds, Count
from experiments.symbols.source import SymbolSource

__all__ = ["DistantXOR"]

ALPHABET = "01 X=\n"
SPACE, MARK, EQUALS, NEWLINE = (ALPHABET.index(character) for character in " X=\n")


@dataclass(frozen=True)
class DistantXOR(SymbolSource):
    r"""Lines of bits and their result.

    Args:    lines: of a sequence; T: the least number of bits in a line.
    Source:  Ollivier 2013, section 4, "Distant XOR". The second line of its example 2 has a third mark, and the first line's
             first is not among the first tenth: here there are two, where the text has them, and `log_probs` reads the first
             two, as the ledger does. Where nothing is to be predicted `log_probs` is uniform, and no law of anything.
    """

    lines: Count = 10_000
    T: Annotated[int, Bounds(3, "the second mark is between a tenth and a half of it")] = 100

    @property
    def alphabet(self) -> str:
        return ALPHABET

    def counted(self, symbols: Tensor) -> Tensor:
        return torch.cat([symbols.new_zeros(1), self._checked(symbols)])[:-1] == EQUALS  # no sequence begins with its result

    def _drawn(self, generator: torch.Generator) -> Tensor:
        def below(limit: Tensor) -> Tensor:
            return (torch.rand(len(limit), generator=generator, dtype=torch.float64) * limit).long()

        lengths = self.T + below(torch.full((self.lines,), self.T // 10 + 1))
        tenth, half = (lengths + 9) // 10, (lengths + 1) // 2  # how many places are below T'/10 and T'/2
        marks = torch.stack([below(tenth), tenth + below(half - tenth)], dim=1)
        longest = int(lengths.max())
        values = torch.randint(2, (self.lines, longest), generator=generator)
        result = values.gather(1, marks).sum(1, keepdim=True) % 2
        before = torch.full_like(values, SPACE).scatter_(1, marks, MARK)
        end = torch.cat([torch.full_like(result, EQUALS), result, torch.full_like(result, NEWLINE)], dim=1)
        table = torch.cat([torch.stack([before, values], dim=2).flatten(1), end], dim=1)
        kept = torch.arange(table.shape[1])[None] < 2 * lengths[:, None]
        kept[:, -3:] = True
        return table[kept]

    def _law(self, symbols: Tensor) -> Tensor:
        log_probs = torch.full((len(symbols), len(ALPHABET)), -math.log(len(ALPHABET)), dtype=torch.float64).to(symbols.device)
        at, line = self.counted(symbols), torch.cat([symbols.new_zeros(1), (symbols == NEWLINE).long().cumsum(0)])[:-1]
        after = torch.cat([symbols.new_full((1,), SPACE), symbols])[:-1] == MARK  # the bits that are marked
        marks = torch.bincount(line[after], minlength=int(line[-1:].sum()) + 1)  # in each line
        rank = after.long().cumsum(0) - (marks.cumsum(0) - marks)[line]  # how many so far in this one
        wrong = at & (rank < 2)
        if bool(wrong.any()):
            raise ValueError(
                f"`symbols` are none of this source: the result at {int(wrong.nonzero()[0])} is not after two marks."
            )
        first_two = after & (rank <= 2)
        result = torch.zeros_like(marks).index_add_(0, line[first_two], symbols[first_two]) % 2
        log_probs[at] = -math.inf
        log_probs[at, result[line[at]]] = 0.0
        return log_probs
