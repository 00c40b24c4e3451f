r"""Recall at random warps: one drawn for each sequence, or one for each symbol.

per sequence   A A B B C C D D        one clock, uniform on `least` .. `warp`, all along: another sequence has another
per symbol     A A A B C C D D        as the variable warping of `recall`

first = false  the first run, said before anything was seen, does not count: what is left is memory alone, and a
               memoryless guess is right once in as many times as there are other characters
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ctrnn import checks
from experiments.settings import check_one_of
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.recall import Recall
from experiments.tasks.task import Batch
from experiments.tasks.warped import DUMMY

__all__ = ["AnyWarp"]


@dataclass(frozen=True)
class AnyWarp(Recall):
    r"""As `recall` with warping=variable, which is the only one here.

    Args:    per: "sequence" or "symbol", what a warp is drawn for; first: whether the first run counts.
    Source:  Tallec and Ollivier 2018, appendix A and figure 5, whose caption has one reading and whose text has the other.
    """

    warping: Literal["uniform", "variable"] = "variable"
    per: Literal["sequence", "symbol"] = "sequence"
    first: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of("warping", self.warping, ("variable",))
        check_one_of("per", self.per, ("sequence", "symbol"))
        checks.is_flag("first", self.first)
        if not self.first and self.warp >= self.length:
            raise ValueError(
                f"`first` = false leaves nothing that counts in a sequence of `length` = {self.length} whose first run may be "
                f"`warp` = {self.warp} long; take a `length` above it."
            )

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        found = super().drawn(size, generator, split)
        if self.first:
            return found
        # The target is the dummy in the first run and, padded, where nothing counts; a character everywhere else.
        return replace(found, counts=(found.targets != DUMMY).to(found.xs))

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
