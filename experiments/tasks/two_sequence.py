r"""Poses the two-sequence problem: which of two signals came first, when only noise has come since.

    class 1   noise + 1  noise + 1  noise + 1 | noise  noise  noise  ...  noise        `signal` samples, and T in all
    class 0   noise - 1  noise - 1  noise - 1 | noise  noise  noise  ...  noise        noise: normal, mean 0, `deviation`

Said at the end. All that is known of the class is the sum of the first N samples, normal with mean +-N and deviation
sqrt(N) deviation. So the best predictor is right with probability Phi(sqrt(N) / deviation), Phi the normal distribution; the
log-odds it sees are normal with mean 2 N / deviation^2 and twice that for a variance, in favour of the class that it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from ctrnn import checks
from experiments.settings import Count
from experiments.tasks.task import Batch, ClassOfTheSequence

__all__ = ["TwoSequence"]


@dataclass(frozen=True)
class TwoSequence(ClassOfTheSequence):
    r"""Say at the end which signal came first: one feature, two classes.

    Args:    T: samples of a sequence; signal: of these the first, which carry it; deviation: of the noise, above 0.
    Source:  Bengio, Simard and Frasconi 1994, with noise on the signal, too, as in Hochreiter and Schmidhuber 1997, task 3b,
             whose noise has variance 0.2 and whose lengths vary. These sizes, and the baselines, are this project's.
    """

    input_size, output_size = 1, 2
    T: Count = 300
    signal: Count = 15
    deviation: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.signal > self.T:
            raise ValueError(f"`signal` must be at most `T` = {self.T}, got {self.signal}.")
        if not 1e-6 <= checks.positive_number("deviation", self.deviation) <= 1e6:
            raise ValueError(f"`deviation` must be from 1e-6 to 1e6, beside a signal of 1, got {self.deviation}.")

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        targets = torch.randint(2, (size,), generator=generator)
        # In float32 first: so a batch has the same numbers in either dtype.
        xs = self.deviation * torch.randn(self.T, size, generator=generator, dtype=torch.float32)
        xs[: self.signal] += 2 * targets - 1
        return Batch(xs[..., None].to(torch.get_default_dtype()), targets)

    def baselines(self) -> dict[str, float]:
        return {name: _loss(samples / self.deviation**2) for name, samples in self._seen().items()}

    def baseline_accuracies(self) -> dict[str, float]:
        return {name: 0.5 * math.erfc(-math.sqrt(n / 2) / self.deviation) for name, n in self._seen().items()}

    def _seen(self) -> dict[str, int]:
        """Count the samples of the signal that a predictor knows: the one in front of it at the end, or all."""
        return {"memoryless": int(self.signal == self.T), "best": self.signal}


def _loss(evidence: float) -> float:
    """Compute the mean of log(1 + e^-z) over normal z of mean 2 `evidence` and twice that for a variance."""
    step = 0.01
    u = step * np.arange(-1200, 1201)  # the trapezoid rule on a normal density is exact to rounding
    density = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
    z = 2 * evidence + 2 * math.sqrt(evidence) * u
    return float(np.sum(density * np.logaddexp(0, -z)) * step)
