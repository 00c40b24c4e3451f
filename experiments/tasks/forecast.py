r"""Asks what will be seen next of an episode that comes and goes, and is looked at more often while it lasts.

    off -> on at rate `onset`,  on -> off at rate `end`         Q = [[-onset, onset], [end, -end]]
    looked at in `off` and in `on` at rates                     L = diag(seldom, often)

    what is seen after i, and when    J(t) = e^((Q - L) t) L    row i, density in t
    what is seen after i              P = (L - Q)^-1 L          its integral over all t

Who is told when the next look is knows J(t) / sum J(t) and not P: soon means on. That is the future, as long as it is not time
yet; so a forecast must be made from what came before.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from experiments.settings import Bounds
from experiments.tasks.baselines import TargetCounts
from experiments.tasks.task import Batch, ClassAtEverySample, one_hot

__all__ = ["Forecast"]

OFF, ON = 0, 1
NODES = 400  # of a rule of Gauss and Legendre, whose error is then below 1e-6


@dataclass(frozen=True)
class Forecast(ClassAtEverySample):
    r"""Say at every look what the next one will see; the stamps are those of the looks.

    Args:    onset, end: rates per unit of time at which the episode comes and goes; seldom, often: at which it is looked at while
             it is off and on; length: looks. The last one has no next, and does not count.
    Raises:  ValueError for rates that are not above 0, and fewer than two looks.
    Source:  this project; a Poisson process modulated by a Markov chain.
    """

    onset: float = 0.25
    end: float = 2.0
    seldom: float = 0.5
    often: float = 8.0
    length: Annotated[int, Bounds(2)] = 50
    input_size = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("onset", "end", "seldom", "often"):
            checks.positive_number(name, getattr(self, name))

    def drawn(self, size: int, generator: torch.Generator, split: str) -> Batch:
        seen, stamps = torch.empty(self.length, size, dtype=torch.int64), torch.empty(self.length, size, dtype=torch.float64)
        state = (torch.rand(size, generator=generator, dtype=torch.float64) < self._seen_on()).long()
        t = torch.zeros(size, dtype=torch.float64)
        for k in range(self.length):
            seen[k], stamps[k] = state, t
            state, t = self._next(state, t, generator)
        xs = one_hot(seen, 2)
        counts = torch.ones_like(xs[..., 0])
        counts[-1] = 0
        return Batch(xs, seen.roll(-1, 0), counts, stamps)

    def _next(self, state: Tensor, t: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw what the next look sees, and when: the first of a change and a look, until it is a look."""
        change, look = torch.tensor([self.onset, self.end]).double(), torch.tensor([self.seldom, self.often]).double()
        waiting = torch.ones_like(state, dtype=torch.bool)
        while bool(waiting.any()):
            rate = change[state] + look[state]
            passed = torch.empty_like(t).exponential_(generator=generator) / rate
            changed = waiting & (torch.rand(t.shape, generator=generator, dtype=t.dtype) * rate < change[state])
            t, state = torch.where(waiting, t + passed, t), torch.where(changed, 1 - state, state)
            waiting = changed
        return state, t

    def _rates(self) -> tuple[Tensor, Tensor]:
        """Return L - Q, and L."""
        change = torch.tensor([[self.onset, -self.onset], [-self.end, self.end]], dtype=torch.float64)
        looks = torch.diag(torch.tensor([self.seldom, self.often], dtype=torch.float64))
        return looks + change, looks

    def _seen_on(self) -> float:
        """Return the share of all looks that see it on."""
        following = torch.linalg.solve(*self._rates())
        return float(following[OFF, ON] / (following[OFF, ON] + following[ON, OFF]))

    def target_counts(self) -> dict[str, TargetCounts]:
        losses, looks = self._rates()
        often = torch.tensor([1 - self._seen_on(), self._seen_on()], dtype=torch.float64)[:, None]
        # t = -log(1 - u) / slowest, so that what is integrated over u from 0 to 1 is bounded.
        slowest = torch.linalg.eigvals(losses).real.min()
        nodes, weights = (torch.from_numpy(each) for each in _rule())
        u = (nodes + 1) / 2
        density = torch.linalg.matrix_exp(losses * (torch.log1p(-u) / slowest)[:, None, None]) @ looks
        known = often * density * (weights / 2 / (slowest * (1 - u)))[:, None, None]
        return {
            "next time unknown": (often * torch.linalg.solve(losses, looks)).tolist(),
            "next time known": known.flatten(0, 1).tolist(),
        }


@functools.cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Compute nodes and weights on [-1, 1]: those of 400 are an eigenvalue problem, most of the time that baselines take."""
    return np.polynomial.legendre.leggauss(NODES)
