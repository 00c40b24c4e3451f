r"""Asks to write down, when the signal comes, the letters that were read long before.

    copy             input    a b c - - - - ! - - -          T - 1 dummies, the signal, as many dummies as letters
                     target   - - - - - - - - a b c          T + 2n samples, n letters
    variable copy    input    a b c - - ! - - - - - -        g dummies before the signal, g uniform on 1 .. T
                     target   - - - - - - a b c - - -        padded with dummies to T + 2n + 1

Without memory all dummies look the same; with one bit, whether the signal has come, those of the answer are known, or, in the
variable task, those from it on. Nobody who has forgotten the letters does better than at random among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from experiments.settings import Bounds, Count
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import Batch, ClassAtEverySample, one_hot

__all__ = ["Copy", "VariableCopy"]


@dataclass(frozen=True)
class Copy(ClassAtEverySample):
    r"""Write the letters when the signal comes: letters are 0, 1, .., then come the dummy and the signal.

    Args:    T: samples from the last letter to the signal; letters: how many different ones; count: how many to copy.
    Source:  Tallec and Ollivier 2018, section 3, "Copy tasks". The loss it prints, 10 log 8/(T + 20), is the one here with one
             bit of memory.
    """

    T: Count = 500
    letters: Annotated[int, Bounds(2, "of one letter there is nothing to remember")] = 8
    count: Count = 10

    @property
    def input_size(self) -> int:
        return self.letters + 2

    @property
    def length(self) -> int:
        """Return the samples of a sequence."""
        return self.T + 2 * self.count

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        dummy, signal = self.letters, self.letters + 1
        letters = torch.randint(self.letters, (self.count, size), generator=generator)
        at = self._signals(size, generator)
        xs = torch.full((self.length, size), dummy)
        targets = xs.clone()
        xs[: self.count] = letters
        xs.scatter_(0, at[None], signal)
        targets.scatter_(0, at + 1 + torch.arange(self.count)[:, None], letters)
        return Batch(one_hot(xs, self.input_size), targets)

    def target_counts(self) -> dict[str, TargetCounts]:
        answer = self._answer
        return {
            "memoryless": [[self.count + 1], [self.T - 1, *answer]],  # letters and the signal; dummies
            "one-bit": [[self.T + self.count], answer],  # up to the signal; after it
        }

    def _signals(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw where the signal stands in each sequence: (size,)."""
        return torch.full((size,), self.count + self.T - 1)

    @property
    def _answer(self) -> list[float]:
        """Count how often each letter stands in the answer, in the mean."""
        return [self.count / self.letters] * self.letters


@dataclass(frozen=True)
class VariableCopy(Copy):
    r"""Draws a number of dummies between letters and signal for each sequence, uniform on 1 to T; else as `Copy`.

    Source:  Tallec and Ollivier 2018, section 3, after Henaff et al. 2016. The padding after the answer is this project's.
    """

    @property
    def length(self) -> int:
        return self.T + 2 * self.count + 1

    def target_counts(self) -> dict[str, TargetCounts]:
        # The dummy is the target of the signal, of letters, and of T of the T + count dummies.
        rest, answer, padding = self.length - self.count, self._answer, (self.T - 1) / 2
        return {
            "memoryless": [[rest - self.T], [self.T, *answer]],
            "one-bit": [[rest - padding], [padding, *answer]],
            "counting": [[rest], answer],  # knows where the answer stands, not what it is
        }

    def _signals(self, size: int, generator: torch.Generator) -> Tensor:
        return self.count + torch.randint(1, self.T + 1, (size,), generator=generator)
