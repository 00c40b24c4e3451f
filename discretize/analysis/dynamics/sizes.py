r"""How large each unit of a system counts as: what analyses measure its states by, so that they say the same in any units.

    size_i = median over the starts of |h_i|
    where that is 0          of |J^-1 r|_i, Newton's first correction; at least a thousandth of (|J^-1| |J| size)_i, what
                             roundings of the units whose size is known can move; the least |h_i| above 0; 1

A median, because one start that is far away must not change what the others count as. J and r are those of a point of rest.
"""

from __future__ import annotations

import torch
from torch import Tensor

from discretize.analysis.dynamics.roots import correction
from discretize.analysis.dynamics.systems import Dynamics, at_rest

__all__ = ["powers_of_two", "sizes"]

MOST = 256  # starts of which corrections are computed
COUPLED = 1e-3
PROBE = 16.0  # a correction of which this part changes nothing is rounding


@torch.no_grad()
def sizes(system: Dynamics, starts: Tensor, p: Tensor | float | None = None) -> Tensor:
    """Return the size of each unit, above 0: starts (n, state), p a number or (m,) -> (state,)."""
    starts = starts.detach()
    medians = starts.abs().median(0).values
    if bool((medians > 0).all()):
        return medians
    h, at = _pairs(system, starts, p)
    residual, matrix = system.residual(h, at), at_rest(system, h, at)
    move = correction(matrix, residual)
    rounding = system.residual(h + move.nan_to_num() / PROBE, at) == residual
    moved = _median(move.masked_fill(rounding, 0).abs())
    known = torch.where(medians > 0, medians, moved)
    inverse = torch.linalg.inv_ex(matrix)[0]
    reached = _median((inverse.abs() @ (matrix.abs() @ known).unsqueeze(-1)).squeeze(-1))
    least = torch.where(starts != 0, starts.abs(), torch.inf).amin(0)
    for other in (torch.maximum(moved, COUPLED * reached), least):
        medians = torch.where((medians == 0) & (other > 0) & torch.isfinite(other), other, medians)
    return torch.where(medians > 0, medians, 1.0)


def powers_of_two(sizes: Tensor) -> Tensor:
    """Return the nearest powers of two, by which states are multiplied and divided without rounding."""
    return torch.exp2(sizes.log2().round())


def _pairs(system: Dynamics, starts: Tensor, p: Tensor | float | None) -> tuple[Tensor, Tensor]:
    """Pair the first starts with the parameters: (k, state), (k,)."""
    given = system.parameter(starts[:1], None) if p is None else torch.as_tensor(p, dtype=starts.dtype, device=starts.device)
    at = given.reshape(-1)[:MOST]
    h = starts[: max(1, MOST // len(at))]
    return h.repeat(len(at), 1), at.repeat_interleave(len(h))


def _median(values: Tensor) -> Tensor:
    return torch.where(torch.isfinite(values), values, torch.nan).nanmedian(0).values.nan_to_num(0.0)
