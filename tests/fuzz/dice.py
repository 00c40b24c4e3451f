r"""Dice that draw a case from one integer, and the comparison of what came out with what should have.

    Dice(seed)    every choice of a case, noted in words: the seed alone gives the case again
    compared      the largest difference in tolerances; one that is too large is measured against the case's own condition

A condition number is measured where a difference is too large, and not before: the reference is computed again from inputs with
relative noise NOISE, and what moves by more than the noise did may differ by as much more. So chaos, a gradient that explodes,
and states that cancel raise no alarm, and a sample that is read in the wrong piece does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["NOISE", "Dice", "Difference", "NoAnswer", "compared", "noisy"]

NOISE = {torch.float64: 1e-8, torch.float32: 1e-4}  # half the digits: what is moved and what rounding leaves are both seen
LEAST = 1e-6  # of that noise: by it, what jumps moves as far


class NoAnswer(Exception):  # noqa: N818 - nothing went wrong
    """The case has no answer that could be compared, as a solution that ends before its time; it is counted as such."""


class Difference(NamedTuple):
    """What was compared, by how much it is off, and by how much it may be."""

    what: str
    off: float
    allowed: float

    @property
    def is_small(self) -> bool:
        return self.off <= self.allowed  # nan is not


class Dice:
    """Draws from a seed, and what was drawn in words."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng, self.notes = seed, np.random.default_rng(seed), list[str]()

    def one_of(self, name: str, choices: Sequence[Any] | Mapping[str, Any]) -> Any:
        """One of them, all as probable; of a mapping, the value whose name is drawn."""
        names = list(choices)
        drawn = names[int(self.rng.integers(len(names)))]
        self.note(f"{name} {drawn}")
        return choices[drawn] if isinstance(choices, Mapping) else drawn

    def count(self, name: str, low: int, high: int) -> int:
        """Any of low, ..., high."""
        drawn = int(self.rng.integers(low, high + 1))
        self.note(f"{name} {drawn}")
        return drawn

    def chance(self, name: str, share: float) -> bool:
        drawn = bool(self.rng.random() < share)
        if drawn:
            self.note(name)
        return drawn

    def number(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.from_numpy(self.rng.normal(size=shape)).to(dtype)

    def times(self, *shape: int, least: float = 0.05, mean: float = 0.6) -> Tensor:
        """Increasing along the first axis, from a start of their own; some intervals are much shorter than others."""
        steps = self.rng.exponential(mean, shape) + least
        return torch.from_numpy(np.cumsum(steps, 0) + self.number(-1, 1))

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(int(self.rng.integers(2**31)))

    def note(self, word: str) -> None:
        self.notes.append(word)

    @property
    def words(self) -> str:
        return ", ".join(self.notes)


@dataclass(frozen=True)
class _Moved:
    """By how many times the noise each result of the reference moves."""

    of: Mapping[str, Tensor]
    again: Mapping[str, Tensor]
    noise: float

    def times(self, name: str) -> float:
        return _off(self.again[name], self.of[name]) / self.noise


def noisy(tensor: Tensor, noise: float, seed: int = 0) -> Tensor:
    """Each number moved by up to `noise`, of 1 + itself; always by the same for the same seed."""
    shares = 2 * torch.rand(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1
    return tensor.detach() + (noise * (1 + tensor.detach().abs()) * shares).to(tensor)


def compared(
    mine: Mapping[str, Tensor],
    reference: Callable[[float], Mapping[str, Tensor]],
    allowed: float,
    noise: float = NOISE[torch.float64],
) -> list[Difference]:
    r"""Results against those of a reference, by name: |mine - theirs|, relative to 1 + the largest number of theirs.

    Args:    reference: of the relative noise on its inputs, 0 for none; allowed: what a case of condition 1 may be off by.
    Raises:  NoAnswer: the reference moves as far by a millionth of the noise, where something is off.
    """
    theirs = reference(0.0)
    assert set(mine) == set(theirs), (set(mine), set(theirs))
    found = [Difference(name, _off(mine[name], theirs[name]), allowed) for name in theirs]
    if all(each.is_small for each in found):
        return found
    moved = _Moved(theirs, reference(noise), noise)
    found = [each._replace(allowed=allowed * max(1.0, moved.times(each.what))) for each in found]
    if all(each.is_small for each in found):
        return found
    least = _Moved(theirs, reference(noise * LEAST), noise)  # times the same noise: what is smooth moves a millionth as far
    if any(2 * least.times(name) > moved.times(name) > 1 for name in theirs):
        raise NoAnswer("the reference jumps, as a field does that starts on its edge: no noise is small enough to move it less")
    return found


def _off(mine: Tensor, theirs: Tensor) -> float:
    assert mine.shape == theirs.shape, (mine.shape, theirs.shape)
    if not theirs.numel():
        return 0.0
    mine, theirs = mine.detach().double(), theirs.detach().double()
    same = (mine == theirs) | (mine.isnan() & theirs.isnan())  # infinities too
    return float(torch.where(same, 0.0, (mine - theirs).abs()).max() / (1 + theirs.nan_to_num(0, 0, 0).abs().max()))
