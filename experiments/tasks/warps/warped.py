r"""Warps sequences: each symbol lasts a number of samples, and the target is the symbol before.

    uniform    s0 s0 s0 s1 s1 s1 ..        every symbol `warp` times
    variable   s0 s0 s1 s1 s1 s2 ..        each a number of times, uniform on `least` .. `warp`
    padded     s0 -  -  s1 -  -  ..        once, and the dummy - for the rest of its time

    input      A A A B B C C C C
    target     - - - A A B B B B           the same repeats: a function of the input as long as neighbours differ
    padded     A - - B - C - - -           counts only where the input is not the dummy
               - . . A . B . . .

Cut off at `length` samples. A sequence begins with a whole run: a uniform warp has no random phase.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor

from experiments.settings import Count
from experiments.tasks.task import Batch, ClassAtEverySample, one_hot

__all__ = ["DUMMY", "Warped"]

DUMMY = 0


@dataclass(frozen=True)
class Warped(ClassAtEverySample):
    r"""Say the symbol before, on a clock.

    Args:    warping: "uniform" or "variable"; warp: how often a symbol is repeated, or at most; least: how often at least, of a
             variable one; padded: the dummy instead of repeats; length: samples of a sequence.
    Source:  Tallec and Ollivier 2018, section 3, "Pure warpings and paddings". That what stands between the characters of a
             padded sequence does not count is this project's reading of "each time the input is nonzero".
    """

    warping: Literal["uniform", "variable"] = "uniform"
    warp: Count = 1
    least: Count = 1
    padded: bool = False
    length: Count = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warping == "uniform" and self.least != 1:
            raise ValueError(f"`least` = {self.least} is for warping=variable; a uniform warp repeats all `warp` times.")
        if self.least > self.warp:
            raise ValueError(f"`least` = {self.least} is more than `warp` = {self.warp}, the largest number of repeats.")

    @abstractmethod
    def symbols(self, count: int, size: int, generator: torch.Generator) -> Tensor:
        """Draw what is played: (count, size) of whole numbers below `input_size`, none of them the dummy."""

    def with_warp(self, warp: int, least: int = 1) -> Self:
        """Return the same task at another speed; from the same generator, the same symbols."""
        return dataclasses.replace(self, warp=warp, least=least)

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        # As many as the fastest clock shows, on every clock: so the symbols do not depend on it.
        symbols = self.symbols(self.length, size, generator)
        before = torch.cat([torch.full_like(symbols[:1], DUMMY), symbols[:-1]])
        run, first = self._runs(size, generator)
        xs, targets, counts = symbols.gather(0, run), before.gather(0, run), None
        if self.padded:
            xs, targets = xs.where(first, DUMMY), targets.where(first, DUMMY)
            counts = first.to(torch.get_default_dtype())
        return Batch(one_hot(xs, self.input_size), targets, counts)

    def share_of_the_first(self) -> float:
        """Return how much of what counts is said before anything was seen, so that its target is the dummy; in the mean."""
        if self.padded:
            return 1 / self._expected_runs()
        return sum(min(n, self.length) for n in self._repeats) / len(self._repeats) / self.length

    @property
    def _repeats(self) -> range:
        """Return how often a symbol may be repeated, each number as probable."""
        return range(self.warp if self.warping == "uniform" else self.least, self.warp + 1)

    def _runs(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw the number of the run that is played at each sample, and whether it begins there: (length, size)."""
        shape, among = (self.length, size), self._repeats
        ends = torch.randint(among[0], among[-1] + 1, shape, generator=generator).cumsum(0)
        times = torch.arange(self.length).expand(size, -1)
        run = torch.searchsorted(ends.T.contiguous(), times.contiguous(), right=True).T.contiguous()
        return run, run.diff(dim=0, prepend=torch.full_like(run[:1], -1)) > 0

    def _expected_runs(self) -> float:
        """Count runs that begin within `length` samples: the sum of u_t, u_0 = 1, u_t the mean of u_(t - n) over repeats n."""
        begins = [1.0]
        for t in range(1, self.length):
            begins.append(sum(begins[t - n] for n in self._repeats if n <= t) / len(self._repeats))
        return sum(begins)
