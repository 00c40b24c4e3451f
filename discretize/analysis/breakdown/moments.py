"""Compare moments and spectra of a field with noise as its step is refined, along the same paths."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discretize.analysis.refine import Call, refined, run_with
from discretize.sequences.rnn import DiscreteRNN

__all__ = ["StateMoments", "moments"]


@dataclass(frozen=True)
class StateMoments:
    """Holds moments of states over time and batch, against those of the finest steps.

    `mean`: how far it is, in standard deviations, of the furthest unit; `variance`: its ratio, the smallest and the largest over
    units; `power`: ratios of that of slow and of fast parts, below and above a quarter of a turn a sample, nan where there are
    none.
    """

    substeps: int
    mean: float
    variance: tuple[float, float]
    power: tuple[float, float]

    def __str__(self) -> str:
        steps = "As stepped" if self.substeps == 1 else f"With {self.substeps} times as many steps"
        return (
            f"{steps} means are within {self.mean:.3g} standard deviations of those of the "
            f"finest, variances {self.variance[0]:.3g} to {self.variance[1]:.3g} of theirs, slow power {self.power[0]:.3g} and "
            f"fast power {self.power[1]:.3g}."
        )


def moments(part: DiscreteRNN, call: Call, halvings: int, finest: Tensor, dice: Tensor) -> tuple[StateMoments, ...]:
    """Return them for 1, 2, 4, ... times as many steps; finest (time, batch, hidden): states of the finest, nan beyond an end."""
    known, found = _statistics(finest), []
    for n in (2**k for k in range(halvings + 1)):
        with refined([part], n):
            (states, *_), _ = run_with([part], call, dice, over_time=True)
        mean, variance, slow, fast = (a for a in _statistics(states))
        moves = known[1] > 0
        ratio = (variance / known[1])[moves]
        off = ((mean - known[0]).abs() / known[1].sqrt())[moves]
        ends = (float(ratio.min()), float(ratio.max())) if len(ratio) else (1.0, 1.0)
        found.append(
            StateMoments(n, float(off.max()) if len(off) else 0.0, ends, (float(slow / known[2]), float(fast / known[3])))
        )
    return tuple(found)


def _statistics(states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the mean and variance of each unit, and the power of slow and fast parts in all."""
    states = states.double()
    mean = states.nanmean((0, 1))
    apart = (states - mean).nan_to_num(0.0)
    variance = apart.square().sum((0, 1)) / (~states.isnan()).sum((0, 1)).clamp(min=1)
    power = torch.fft.rfft(apart, dim=0).abs().square().sum((1, 2))
    fast = torch.fft.rfftfreq(len(states), device=power.device) >= 0.25
    return mean, variance, power[~fast].sum(), power[fast].sum()
