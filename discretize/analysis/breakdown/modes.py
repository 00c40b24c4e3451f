r"""Compare what a step makes of small differences along the data with what the equation makes of them.

step        M = d step / dh        its eigenvalues mu, 1 + dt lambda for Euler
equation    exp(dt J)              exp(dt lambda), with J the Jacobian of dh/dt and lambda its eigenvalues
several     the largest singular value of a product of k of them: what grows for a while, though every mode decays
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.analysis.breakdown.taken import Place
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


def modes_along(field: VectorField, step: Step, places: list[Place]) -> Modes | None:
    """Return the modes of steps in a few stretches of the data; None where there is no step to look at."""
    field = copy.deepcopy(field).double()
    longest = min(LONGEST, len(places))
    starts, sequences = len(places) - longest + 1, len(places[0].h) if places else 0
    if not sequences:
        return None
    chosen = torch.linspace(0, starts * sequences - 1, min(WINDOWS, starts * sequences), device="cpu").round().long().unique()
    begin, sample = (chosen // sequences).tolist(), (chosen % sequences).tolist()
    whole = [
        (k, b)
        for k, b in zip(begin, sample, strict=True)
        if all(bool(places[k + i].dt[b] > 0) and bool(places[k + i].after[b].isfinite().all()) for i in range(longest))
        and all(torch.equal(places[k + i].after[b], places[k + i + 1].h[b]) for i in range(longest - 1))  # not over a reset
    ]
    if not whole:
        return None
    projected, h, dt, _ = (torch.stack([places[k + i][part][b] for k, b in whole for i in range(longest)]) for part in range(4))
    stepped = jacobian_of_step(step, field, projected, h, dt)
    jacobian = field.jacobian(projected, h)
    jacobian = torch.diag_embed(jacobian) if jacobian.dim() == h.dim() else jacobian
    exact = torch.matrix_exp(dt[..., None] * jacobian)
    values, vectors = torch.linalg.eig(stepped)
    first = values.abs().argmax(1)
    fastest = vectors.gather(2, first[:, None, None].expand(-1, vectors.shape[1], 1))[..., 0].abs().square()
    shape = (len(whole), longest)
    return Modes(
        _largest_first(values),
        _largest_first((dt * torch.linalg.eigvals(jacobian)).exp()),
        _grown(stepped.unflatten(0, shape)),
        _grown(exact.unflatten(0, shape)),
        (fastest / fastest.sum(1, keepdim=True)).mean(0),
    )


def _largest_first(modes: Tensor) -> Tensor:
    return modes.gather(1, modes.abs().argsort(1, descending=True))


def _grown(factors: Tensor) -> Tensor:
    """Return the largest singular values of products of the first factors (windows, steps, state, state): (windows, steps)."""
    product, found = factors[:, 0], [torch.linalg.matrix_norm(factors[:, 0], 2)]
    for following in factors[:, 1:].unbind(1):
        product = following @ product
        found.append(torch.linalg.matrix_norm(product, 2))
    return torch.stack(found, 1)
