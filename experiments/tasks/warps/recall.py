r"""Asks for the character before, of random characters on a warped clock.

    alphabet   - and 1 .. K, K = alphabet - 1         neighbours differ, else all are as probable
    dummy -    the target before anything was seen, and the padding; never a character
    without memory, p of what counts in the first run:   -p log p - (1 - p) log((1 - p) / (K - 1))

A character that is seen does not tell where it stands, so whether the answer is still the dummy has to be remembered too.

At random warps: one drawn for each sequence, or one for each symbol.

per sequence   A A B B C C D D        one clock, uniform on `least` .. `warp`, all along: another sequence has another
per symbol     A A A B C C D D        as the variable warping of `recall`

at ends        A A A B C C D D
               . . - A . B . .        asked at the last sample of each symbol, before the next is shown, and nowhere else

first = false  the first run, said before anything was seen, does not count: what is left is memory alone, and a
               memoryless guess is right once in as many times as there are other characters
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from experiments.settings import Bounds, check_one_of
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import Batch
from experiments.tasks.warps.warped import DUMMY, Warped

__all__ = ["AnyWarp", "Recall", "RecallAtEnds"]


@dataclass(frozen=True)
class Recall(Warped):
    r"""Say the character before: `warping` and `padded` choose the panel of figure 1, `warp` is its maximum_warping.

    Args:    alphabet: characters and the dummy.
    Source:  Tallec and Ollivier 2018, section 3 and figures 1 and 2.
    """

    alphabet: Annotated[int, Bounds(3, "neighbours are to differ, and one symbol is the dummy")] = 10

    @property
    def input_size(self) -> int:
        return self.alphabet

    def symbols(self, count: int, size: int, generator: torch.Generator) -> Tensor:
        characters = self.alphabet - 1
        steps = torch.randint(1, characters, (count, size), generator=generator)  # never 0, nor all the way round
        steps[0] = torch.randint(characters, (size,), generator=generator)
        return 1 + steps.cumsum(0) % characters

    def target_counts(self) -> dict[str, TargetCounts]:
        # The same for every character that is seen: the first run's target is the dummy, any other's one of the others.
        p, others = self.share_of_the_first(), self.alphabet - 2
        return {"memoryless": [[p, *[(1 - p) / others] * others]]}


@dataclass(frozen=True)
class RecallAtEnds(Recall):
    """Say the character before at the last sample of each symbol: `recall`, of which nothing else counts.

    Raises:  ValueError for padded sequences, and for a `warp` as long as the sequence, in which nothing might end.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padded:
            raise ValueError("`padded` symbols are shown once, so that none has a last sample; leave it out, or take recall.")
        if self.warp >= self.length:
            raise ValueError(f"`warp` = {self.warp} must be below `length` = {self.length}, or no symbol might end.")

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        batch = super().drawn(size, generator, split)
        ends = batch.xs.diff(dim=0).any(-1)
        return replace(batch, counts=torch.cat([ends, torch.zeros_like(ends[:1])]).to(batch.xs))

    def share_of_the_first(self) -> float:
        return 1 / (self._expected_runs() - 1)  # the last run is cut off


@dataclass(frozen=True)
class AnyWarp(Recall):
    r"""Draw a warp for each sequence or symbol: `recall` with warping=variable, which is the only one here.

    Args:    per: "sequence" or "symbol", what a warp is drawn for; first: whether the first run counts.
    Source:  Tallec and Ollivier 2018, appendix A and figure 5, whose caption has one reading and whose text has the other.
    """

    warping: Literal["uniform", "variable"] = "variable"
    per: Literal["sequence", "symbol"] = "sequence"
    first: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of("warping", self.warping, ("variable",))
        if not self.first and self.warp >= self.length:
            raise ValueError(
                f"`first` = false leaves nothing that counts in a sequence of `length` = {self.length} whose first run may be "
                f"`warp` = {self.warp} long; take a `length` above it."
            )

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        batch = super().drawn(size, generator, split)
        if self.first:
            return batch
        # The target is the dummy in the first run and, padded, where nothing counts; a character everywhere else.
        return replace(batch, counts=(batch.targets != DUMMY).to(batch.xs))

    def target_counts(self) -> dict[str, TargetCounts]:
        return super().target_counts() if self.first else {"memoryless": [[1.0] * (self.alphabet - 2)]}

    def _runs(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        if self.per == "symbol":
            return super()._runs(size, generator)
        warps = torch.randint(self.least, self.warp + 1, (size,), generator=generator)
        times = torch.arange(self.length)[:, None]
        return times // warps, times % warps == 0

    def _expected_runs(self) -> float:
        if self.per == "symbol":
            return super()._expected_runs()
        return sum(-(-self.length // n) for n in self._repeats) / len(self._repeats)
