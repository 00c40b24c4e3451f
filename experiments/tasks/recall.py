r"""Recall: the target is the character before, of random characters on a warped clock.

    alphabet   - and 1 .. K, K = alphabet - 1         neighbours differ, else all are as probable
    dummy -    the target before anything was seen, and the padding; never a character
    without memory, p of what counts in the first run:   -p log p - (1 - p) log((1 - p) / (K - 1))

A character that is seen does not tell where it stands, so whether the answer is still the dummy has to be remembered too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.settings import check_whole
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.warped import Warped

__all__ = ["Recall"]


@dataclass(frozen=True)
class Recall(Warped):
    r"""The tasks of figure 1: `warping` and `padded` choose the panel, `warp` is its maximum_warping; warp = 1 is unwarped.

    Args:    alphabet: characters and the dummy.
    Source:  Tallec and Ollivier 2018, section 3 and figures 1 and 2.
    """

    alphabet: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("alphabet", self.alphabet, 3, "neighbours are to differ, and one symbol is the dummy")

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
