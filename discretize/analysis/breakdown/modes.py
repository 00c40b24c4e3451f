r"""Compare what a step makes of small differences along the data with what the equation makes of them.

step        M = d step / dh        its eigenvalues mu, 1 + dt lambda for Euler
equation    exp(dt J)              exp(dt lambda), with J the Jacobian of dh/dt and lambda its eigenvalues
several     the largest singular value of a product of k of them: what grows for a while, though every mode decays
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.analysis.breakdown.taken import SampledSteps
from discretize.analysis.stability import jacobian_of_step
from discretize.steps.step import Step

__all__ = ["Modes", "modes_along"]

WINDOWS, LONGEST = 32, 8  # of consecutive steps that are looked at, and how many are in each at most
SLACK = 1e-9
SWING = 0.1  # of a difference, which comes back on the other side


@dataclass(frozen=True, eq=False)
class Modes:
    r"""Factors of small differences in steps along the data, of the map and of the equation, and growth over several of them.

    `growth_stepped`, `growth_exact`: over 1, 2, ... steps; `units`: how much each moves in the map's fastest modes, 1 in all.

    Shape:   stepped, exact (places, state), complex, the largest first; growth_stepped, growth_exact (windows, longest); units
             (state,).
    """

    stepped: Tensor
    exact: Tensor
    growth_stepped: Tensor
    growth_exact: Tensor
    units: Tensor

    @property
    def largest(self) -> tuple[float, float]:
        """The largest factor of the map, and of the equation."""
        return float(self.stepped.abs().max()), float(self.exact.abs().max())

    @property
    def apart(self) -> float:
        """The share of the places where the map lets something grow and the equation nothing."""
        grows = (modes.abs().amax(1) > 1 + SLACK for modes in (self.stepped, self.exact))
        return float((next(grows) & ~next(grows)).double().mean())

    @property
    def swings(self) -> float:
        """The share of the places where a mode changes its sign in a step and keeps a tenth: no mode of an equation does."""
        real = self.stepped.imag.abs() <= SLACK * self.stepped.abs()
        return float((real & (self.stepped.real < -SWING)).any(1).double().mean())


def modes_along(field: VectorField, step: Step, places: list[SampledSteps]) -> Modes | None:
    """Return the modes of steps in a few stretches of the data; None where there is no step to look at."""
    field = copy.deepcopy(field).double()
    whole, longest = _windows(places)
    if not whole:
        return None
    projected, h, dt, _ = (torch.stack([places[k + i][part][b] for k, b in whole for i in range(longest)]) for part in range(4))
    stepped = jacobian_of_step(step, field, projected, h, dt)
    jacobian = field.jacobian(projected, h)
    jacobian = torch.diag_embed(jacobian) if jacobian.dim() == h.dim() else jacobian
    known = torch.cat([stepped, jacobian], -1).isfinite().unflatten(0, (len(whole), longest)).flatten(1).all(1)
    if not bool(known.any()):
        return None
    dt, stepped, jacobian = (part.unflatten(0, (-1, longest))[known].flatten(0, 1) for part in (dt, stepped, jacobian))
    exact = torch.matrix_exp(dt[..., None] * jacobian)
    values, vectors = torch.linalg.eig(stepped)
    first = values.abs().argmax(1)
    fastest = vectors.gather(2, first[:, None, None].expand(-1, vectors.shape[1], 1))[..., 0].abs().square()
    shape = (-1, longest)
    return Modes(
        _largest_first(values),
        _largest_first((dt * torch.linalg.eigvals(jacobian)).exp()),
        _grown(stepped.unflatten(0, shape)),
        _grown(exact.unflatten(0, shape)),
        (fastest / fastest.sum(1, keepdim=True)).mean(0),
    )


def _windows(places: list[SampledSteps]) -> tuple[list[tuple[int, int]], int]:
    """Return where a few windows of consecutive steps of one sequence begin, (place, sequence), and how long they are: as long as
    any sequence has, between resets."""
    if not places:
        return [], 0
    live = torch.stack([(place.dt[:, 0] > 0) & place.after.isfinite().all(1) for place in places])
    goes_on = live.clone()
    for k, (before, after) in enumerate(pairwise(places), 1):
        goes_on[k] &= (before.after == after.h).all(1)
    begins, longest = live, 1
    for length in range(2, min(LONGEST, len(places)) + 1):
        longer = begins[:-1] & goes_on[length - 1 :]
        if not bool(longer.any()):
            break
        begins, longest = longer, length
    found = begins.nonzero()
    chosen = torch.linspace(0, len(found) - 1, min(WINDOWS, len(found)), device="cpu").round().long()
    return found[chosen.to(found.device)].tolist(), longest


def _largest_first(modes: Tensor) -> Tensor:
    return modes.gather(1, modes.abs().argsort(1, descending=True))


def _grown(factors: Tensor) -> Tensor:
    """Return the largest singular values of products of the first factors (windows, steps, state, state): (windows, steps)."""
    product, found = factors[:, 0], [_norm(factors[:, 0])]
    for following in factors[:, 1:].unbind(1):
        product = following @ product
        found.append(_norm(product))
    return torch.stack(found, 1)


def _norm(matrices: Tensor) -> Tensor:
    """Return the largest singular values, inf of what is beyond all numbers."""
    there = matrices.isfinite().all(-1).all(-1)
    return torch.linalg.matrix_norm(matrices.where(there[:, None, None], 0.0), 2).masked_fill(~there, math.inf)
