r"""Tell what becomes of states while their last inputs are held: rest, a cycle or chaos, under the steps and in the equation.

rest        a movement of at most 1 % of the spread of the states, and of a twentieth of the other run's where that one moves
no bound    all that leaves every bound, or still doubles

Of what moves on, a state very near it is followed too and drawn back to it again and again: the mean of the logarithms of how far
it goes is the largest Lyapunov exponent. The equation is stepped finely here, so that rounding alone parts the two.

Source:  Benettin, Galgani and Strelcyn 1976, "Kolmogorov entropy and numerical experiments", Physical Review A 14.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.analysis.refine import Held
from discretize.analysis.refinement import LEFT, STILL
from discretize.methods import checked_method
from discretize.sequences.rnn import DiscreteRNN

__all__ = ["CHAOS", "CYCLE", "FATES", "NO_BOUND", "REST", "fates"]

FATES = ("rest", "cycle", "chaos", "no bound")
REST, CYCLE, CHAOS, NO_BOUND = FATES
FINE = 16  # Runge-Kutta steps of order 4 in one of the model's samples, which stand for the equation
BLOCKS, UNCOUNTED, BLOCK = 80, 16, 4  # stretches of so many samples, of which the first are not counted
NEAR = 1e-6  # of the spread
SURE = 3.0  # standard errors above 0


def fates(held: Held, field: VectorField, part: DiscreteRNN, spread: float) -> tuple[list[str], list[str]]:
    """Return what becomes of each sequence under the steps of a module and in its equation, in the words of `FATES`; field: its
    own, in float64."""
    stepped = DiscreteRNN(field, part.step, dt=held.dt, substeps=part.substeps, allow_overshoot=True)
    finely = DiscreteRNN(field, checked_method("rk4"), dt=held.dt, substeps=FINE * part.substeps)
    moved = list(zip(held.stepped, held.exact, strict=True))
    return (
        _fates([_fate(*pair, STILL * spread) for pair in moved], held.states[0], stepped, held.x, spread),
        _fates([_fate(*pair[::-1], STILL * spread) for pair in moved], held.states[1], finely, held.x, spread),
    )


def _fate(size: float, other: float, still: float) -> str:
    """Name what moves so far, another run so far: of two movements that are much alike none is rest."""
    if not math.isfinite(size):
        return NO_BOUND
    return REST if size <= still and not still < other <= size / LEFT else CYCLE


def _fates(found: list[str], states: Tensor, rnn: DiscreteRNN, x: Tensor, spread: float) -> list[str]:
    going = [k for k, fate in enumerate(found) if fate == CYCLE and bool(states[k].isfinite().all())]
    for k, chaotic in zip(going, _are_chaotic(rnn, states[going], x[going], spread) if going else (), strict=True):
        found[k] = CHAOS if chaotic else CYCLE
    return found


def _are_chaotic(rnn: DiscreteRNN, h: Tensor, x: Tensor, spread: float) -> list[bool]:
    """Return whether the largest Lyapunov exponent of each is above 0, by more than its error may be."""
    away = torch.randn(h.shape, generator=torch.Generator("cpu").manual_seed(0), dtype=h.dtype, device="cpu").to(h.device)
    near, xs, logs = NEAR * spread, torch.cat([x, x]).expand(BLOCK, -1, -1), list[Tensor]()
    fresh = near * away / away.norm(dim=1, keepdim=True)
    for _ in range(BLOCKS):
        size = away.norm(dim=1, keepdim=True)
        away = torch.where(size > 0, near * away / size, fresh)  # one that has vanished begins anew, and counts as log 0
        h, other = rnn(xs, torch.cat([h, h + away])[None])[1][0].chunk(2)
        away = other - h
        logs.append((away.norm(dim=1) / near).log())
    counted = torch.stack(logs[UNCOUNTED:])
    # Over the whole run a difference has to grow more than e-fold.
    least = (SURE * counted.std(0) / math.sqrt(len(counted))).clamp(min=1 / len(counted))
    return (counted.mean(0) > least).tolist()
