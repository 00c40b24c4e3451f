r"""Asks for recall on clocks that run slower and faster: at clock c a symbol takes `repeats` / c samples.

repeats = 16, one row a clock
c = 4      A A A A B B B B C C C C
c = 8      A A B B C C
c = 16     A B C                      no clock is faster: each symbol is a single sample

clock given      a sample takes tau c / repeats units of own time, so that a symbol takes tau on every clock
not given        every sample takes one unit, whatever the clock: that time passes faster has to be noticed

counted    last   at the last sample of each symbol: the same moments of own time on every clock
           all    at every sample
said       before   the symbol before, which has to be kept
           now      the symbol that is seen, which needs no memory: to compare with

held       a symbol is all that is seen while it lasts: samples of every clock are of one function of own time, so that the
           exact model's state at the end of a symbol, and with `last` its loss, does not depend on c
moving     it rises and falls, 2 sin^2(pi v) at v from 0 to 1 of its time, and a sample is the mean of what passes while it
           lasts: faster clocks see less of it, the fastest two a held symbol, and the exact model is another on each
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import torch
from torch import Tensor

from ctrnn import checks
from experiments.settings import LARGEST, Bounds, Count
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import Batch, ClassAtEverySample, one_hot
from experiments.tasks.warps.recall import Recall
from experiments.tasks.warps.warped import DUMMY

__all__ = ["ClockedRecall", "MovingRecall"]

SHORTEST = 2.0**-1022  # below it numbers lose digits, and edges of samples may fall together


@dataclass(frozen=True)
class ClockedRecall(ClassAtEverySample):
    r"""Say the symbol before, or the one that is seen, on a clock that a batch draws.

    Args:    clocks: speeds c, each as probable, of which every batch has one; repeats: samples of a symbol at c = 1; tau: own
             time that a symbol takes, in the units of the field's rates; clock_given: whether batches say how long samples take;
             counted: "last" or "all" samples of a symbol; characters: in a sequence; alphabet: characters and the dummy; said:
             "before" or "now".
    Raises:  ValueError for a clock that does not hold symbols for a whole number of samples.
    Source:  this project; the task is that of Tallec and Ollivier 2018, section 3, whose clocks all stretch time.
    """

    clocks: tuple[float, ...] = (1.0,)
    repeats: Count = 16
    tau: float = 4.0
    clock_given: bool = True
    counted: Literal["last", "all"] = "last"
    characters: Count = 10
    alphabet: Annotated[int, Bounds(3)] = 10
    said: Literal["before", "now"] = "before"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive_number("tau", self.tau)
        if not self.clocks:
            raise ValueError("`clocks` must be at least one speed, got none.")
        for clock in self.clocks:
            held = self.repeats / checks.positive_number("clocks", clock)
            if held > LARGEST:
                raise ValueError(f"`clocks` must hold symbols for at most {LARGEST} samples; {clock:g} would for more.")
            if round(held) < 1 or abs(held - round(held)) > 1e-9 * held:
                raise ValueError(
                    f"`clocks` must hold symbols for whole numbers of samples; {clock:g} would for {self.repeats} / {clock:g}."
                )
            if self.tau / held < SHORTEST or not math.isfinite(self.tau * self.characters):
                raise ValueError(f"`tau` must be a time that can be divided among samples and summed, got {self.tau:g}.")

    @property
    def input_size(self) -> int:
        return self.alphabet

    def at(self, clock: float, counted: Literal["last", "all"] | None = None) -> Self:
        """Return the same task on this clock alone; from the same generator, the same symbols."""
        return dataclasses.replace(self, clocks=(clock,), counted=counted or self.counted)

    @property
    def has_speeds(self) -> bool:
        return True

    def at_speed(self, speed: float, clock_given: bool) -> Self:
        return self._with(clocks=(speed,), clock_given=clock_given)

    def held(self, clock: float) -> int:
        """Return for how many samples a symbol is held."""
        return round(self.repeats / clock)

    def own_time(self, clock: float) -> float:
        """Return the units that a sample takes: c'."""
        return self.tau / self.held(clock) if self.clock_given else 1.0

    def sizes(self, held: int) -> Tensor:
        """Return the size of a symbol in each of the `held` samples that it takes."""
        return torch.ones(held, dtype=torch.float64)

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        # Before the clock is drawn, so that they do not depend on it.
        symbols = Recall(alphabet=self.alphabet).symbols(self.characters, size, generator)
        clock = self.clocks[int(torch.randint(len(self.clocks), (), generator=generator))]
        before = torch.cat([torch.full_like(symbols[:1], DUMMY), symbols[:-1]])
        targets = before if self.said == "before" else symbols
        held, dtype = self.held(clock), torch.get_default_dtype()
        xs = one_hot(symbols, self.alphabet).repeat_interleave(held, 0)
        xs = xs * self.sizes(held).to(dtype).repeat(self.characters)[:, None, None]
        counts: Tensor | None = None
        if self.counted == "last":
            counts = torch.zeros(len(xs), size, dtype=dtype)
            counts[held - 1 :: held] = 1
        ts = self.own_time(clock) * torch.arange(len(xs) + 1, dtype=torch.float64) if self.clock_given else None
        return Batch(xs, targets.repeat_interleave(held, 0), counts, ts)

    def target_counts(self) -> dict[str, TargetCounts]:
        if self.said == "now":
            return {"memoryless": [[1.0]]}
        # As of `Recall`: the target is the dummy during the first symbol, which is one of `characters` on every clock.
        p, others = 1 / self.characters, self.alphabet - 2
        return {"memoryless": [[p, *[(1 - p) / others] * others]]}


@dataclass(frozen=True)
class MovingRecall(ClockedRecall):
    r"""Moves the symbols: they rise and fall while they last; a sample is the mean of what passes meanwhile."""

    def sizes(self, held: int) -> Tensor:
        # The integral of 2 sin^2(pi v) is v - sin(2 pi v) / (2 pi).
        edges = torch.arange(held + 1, dtype=torch.float64) / held
        return held * (edges - (2 * math.pi * edges).sin() / (2 * math.pi)).diff()
