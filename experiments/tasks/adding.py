r"""Asks for the sum of the two numbers that are marked.

    number   0.4 0.9 0.1 | 0.7 0.2 0.6      uniform on [0, 1]
    mark      0   1   0  |  0   0   1       one in the first half, T // 2 samples, one in the second
    target   0.9 + 0.6, read at the end

A constant loses the variance of two numbers, 1/6. Who looks at the last sample knows, where it is marked, one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch

from experiments.settings import Bounds
from experiments.tasks.task import Batch, NumbersAtTheEnd

__all__ = ["Adding"]


@dataclass(frozen=True)
class Adding(NumbersAtTheEnd):
    r"""Say at the end the sum of the two marked numbers; two features, one number.

    Args:    T: samples of a sequence.
    Source:  Tallec and Ollivier 2018, section 3, "Adding task"; the mean squared error it prints is 0.167.
    """

    input_size = 2
    output_size = 1
    T: Annotated[int, Bounds(2, "a mark stands in each half")] = 200

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        # In float32 first: so a batch has the same numbers in either dtype.
        numbers = torch.rand(self.T, size, generator=generator, dtype=torch.float32).to(torch.get_default_dtype())
        half = self.T // 2
        first = torch.randint(half, (size,), generator=generator)
        second = torch.randint(half, self.T, (size,), generator=generator)
        at = torch.stack([first, second])
        marks = torch.zeros_like(numbers).scatter_(0, at, 1.0)
        return Batch(torch.stack([numbers, marks], dim=-1), numbers.gather(0, at).sum(0)[:, None])

    def baselines(self) -> dict[str, float]:
        second_half = self.T - self.T // 2
        return {"constant": 1 / 6, "memoryless": 1 / 6 - 1 / (12 * second_half)}
