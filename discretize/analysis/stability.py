r"""Linear stability of steps: the region of R(-g dt), and the growth of small differences.

one unit, its target held     h - f  ->  R(-g dt) (h - f)      g dt the leak times the step
    monotone        0 <= R < 1       as the equation, whose factor is e^(-g dt)
    overshooting    -1 < R < 0       past the target and back, and nearer each time
    marginal        |R| = 1          as far on the other side, for ever
    divergent       |R| > 1          away from the target
several units, all that moves     dh -> J dh                   J the Jacobian of the step map
    its spectral radius is the factor of small differences per step in the long run, were J constant
    its norm bounds that, and the factor of this one step
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.fields.field import check_field, check_input, check_same_leading_axes, check_state
from ctrnn.forward import jvp
from discretize.sequences.cell import checked_step
from discretize.steps.step import Step
from discretize.steps.zoneout import check_drawn

__all__ = [
    "DIVERGENT",
    "MONOTONE",
    "OVERSHOOTING",
    "REGIONS",
    "Growth",
    "growth",
    "jacobian_of_step",
    "regions",
    "regions_of_factors",
]

REGIONS = ("monotone", "overshooting", "marginal", "divergent")
MONOTONE, OVERSHOOTING, MARGINAL, DIVERGENT = range(len(REGIONS))


def regions(step: Step | str, g: Tensor) -> Tensor:
    r"""Return the region of each g dt, as an index into `REGIONS`: by R(-g dt), and so for any step map.

    Args:    step: a step map, by object or name; g: the leak times the length of the step, >= 0, without unit.
    Shape:   g (...) -> (...), whole numbers. Where R is not a number the step has diverged. g = 0 counts as monotone.
    Raises:  TypeError, ValueError for what is no step map or holds negative numbers.
    Source:  docs/derivations.md, results 3 and 6.
    """
    step = checked_step(step)
    if not bool((checks.is_tensor("g", g) >= 0).all()):
        raise ValueError("`g` must be at least 0: it is a leak times the length of a step.")
    return regions_of_factors(step.stability(-g), g)


def regions_of_factors(factor: Tensor, g: Tensor) -> Tensor:
    # As many roundings as a stability function of a few terms may make.
    slack, size = 8 * torch.finfo(factor.dtype).eps, factor.abs()
    regions = torch.full(factor.shape, MONOTONE, dtype=torch.int64, device=factor.device)
    regions.masked_fill_(factor < 0, OVERSHOOTING)
    regions.masked_fill_((size - 1).abs() <= slack, MARGINAL)
    regions.masked_fill_(~(size <= 1 + slack), DIVERGENT)
    # 1 - g rounds to 1 for a tiny g, which is as monotone as can be.
    return regions.masked_fill_(g <= slack, MONOTONE)


@dataclass(frozen=True)
class Growth:
    r"""The growth of small differences at a state in one step.

    Shape:   jacobian (..., state, state); spectral_radius, norm (...).
    """

    jacobian: Tensor
    spectral_radius: Tensor
    norm: Tensor  # the largest absolute row sum


@torch.no_grad()
def growth(step: Step | str, field: VectorField, x: Tensor, h: Tensor, dt: float) -> Growth:
    r"""Compute the Jacobian of the step map at a state, its spectral radius, and its norm, which bounds it.

    Args:    as for `step(field, x, h, dt)`.
    Shape:   x (..., input), h (..., state) -> a `Growth`.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  docs/derivations.md, result 3; of the norms the one for the largest difference of a unit.
    """
    check_input(check_field(field), x)
    check_state(field, h)
    check_same_leading_axes(x, h)
    step = checked_step(step)
    step.check_noise(field)
    check_drawn(step)
    jacobian = jacobian_of_step(step, field, field.project(x), h, checks.positive_number("dt", dt))
    finite = torch.isfinite(jacobian).all(-1).all(-1)
    radius = torch.full(finite.shape, torch.inf, dtype=h.dtype, device=h.device)
    radius[finite] = torch.linalg.eigvals(jacobian[finite]).abs().amax(-1)
    return Growth(jacobian, radius, jacobian.abs().sum(-1).amax(-1).nan_to_num(torch.inf))


def jacobian_of_step(step: Step, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
    """Return the derivative of a step map in the state it begins in: (..., state, state)."""

    def advance(u: Tensor) -> Tensor:
        return step.advance(field, projected, u, dt)

    units = torch.eye(h.shape[-1], dtype=h.dtype, device=h.device)
    # Per unit, because implicit steps cannot converge for several tangents at once.
    return torch.stack([jvp(advance, (h,), (unit.expand_as(h).contiguous(),))[1] for unit in units], -1)
