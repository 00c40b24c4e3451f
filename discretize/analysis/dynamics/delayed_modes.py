r"""Modes around a point of rest of a field that reads its past: lambda v = A v + sum_k B_k exp(-lambda d_k) v.

They are infinitely many. The history h(t + theta), -d <= theta <= 0, moves by d/dt = d/dtheta and, at theta = 0, by the field; on
Chebyshev's points that is a matrix, whose rightmost eigenvalues are those modes. As many points are taken as modes that do not
fall can need: with D the diagonal of A, and M = |A - D| + sum_k |B_k|, their |Im lambda| is at most the spectral radius of M,
and their Re lambda at most that and the largest of D.

Source: Breda, Maset and Vermiglio 2005, "Pseudospectral differencing methods for characteristic roots of delay differential
equations".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.fields.delayed import DelayedField
from discretize.errors import SolverWarning, warn_user

__all__ = ["delayed_modes"]

FEWEST, MORE = 24, 1.5  # points besides the present, and how many more than 10 for each radian of half the longest delay
MOST_ROWS = 2000  # of the matrix, which takes some ten seconds
TOGETHER = 2**24  # numbers of matrices that are computed at once


def delayed_modes(field: DelayedField, now: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the modes that grow fastest, as many as the state has units, and their vectors in columns.

    Those that do not fall are right to some ten digits, and none of them is missed, unless a `SolverWarning` says so.

    Args:    field: whose delays; now: A; past: B_k.
    Shape:   now (n, state, state), past (n, delays, state, state) -> (n, state), (n, state, state), complex.
    """
    if not len(now):
        return now.new_zeros(now.shape[:2]).to(now.dtype.to_complex()), now.to(now.dtype.to_complex())
    # In float64: on many points slopes are differences of large numbers.
    wide = checks.time_dtype(now.device)
    delays, points = field.delays.to(device=now.device, dtype=wide), _points(field.delays.detach(), now.detach(), past.detach())
    rows = now.shape[-1] * (points + 1)
    few = max(1, TOGETHER // rows**2)
    parts = zip(now.to(wide).split(few), past.to(wide).split(few), strict=True)
    values, vectors = zip(*(_modes(delays, each, before, points) for each, before in parts), strict=True)
    return torch.cat(values).to(now.dtype.to_complex()), torch.cat(vectors).to(now.dtype.to_complex())


def _points(delays: Tensor, now: Tensor, past: Tensor) -> int:
    """Return how many points all modes need that do not fall; warn where these are too many."""
    radians = float(delays.max()) / 2 * _largest(now, past)
    needed = max(FEWEST, math.ceil(10 + MORE * radians)) if math.isfinite(radians) else FEWEST
    affordable = max(FEWEST, MOST_ROWS // now.shape[-1] - 1)
    if needed > affordable:
        warn_user(
            f"Modes may turn by up to {2 * radians:.3g} radians in the longest delay, {float(delays.max()):.3g}, and those above "
            f"{2 * (affordable - 10) / MORE:.3g} may be missed: a point that is said to be stable need not be. "
            "`discretize.integrate` from near it tells.",
            SolverWarning,
        )
    return min(needed, affordable)


def _largest(now: Tensor, past: Tensor) -> float:
    """Return a bound of |lambda| of all modes that do not fall."""
    own = now.diagonal(dim1=-2, dim2=-1)
    others = now - torch.diag_embed(own)
    # Two bounds: the first is the same in any units of the state, the second is far smaller where signs are mixed.
    radius = torch.linalg.eigvals(others.abs() + past.abs().sum(1)).abs().amax(-1)
    norm = torch.linalg.matrix_norm(others, 2) + torch.linalg.matrix_norm(past, 2).sum(1)
    turning = torch.minimum(radius, norm)
    growing = own.amax(-1) + turning
    return float(torch.where(growing < 0, 0, torch.hypot(growing, turning)).max())


def _modes(delays: Tensor, now: Tensor, past: Tensor, points: int) -> tuple[Tensor, Tensor]:
    units, longest = now.shape[-1], delays.max()
    derivative, nodes = _chebyshev(now, points)
    weights = _lagrange(nodes, 1 - 2 * delays / longest)  # (delays, points)
    # [0] is the present, what moves there is the field; all others follow their neighbours.
    eye = torch.eye(units, dtype=now.dtype, device=now.device)
    follow = torch.einsum("ij,ab->iajb", 2 / longest * derivative[1:], eye).flatten(0, 1).flatten(1)
    first = torch.einsum("kj,nkab->najb", weights, past)
    first = torch.cat([first[:, :, :1] + now[:, :, None], first[:, :, 1:]], 2).flatten(2)
    matrix = torch.cat([first, follow.expand(len(now), -1, -1)], 1)
    values, vectors = torch.linalg.eig(matrix)
    order = values.real.detach().argsort(dim=-1, descending=True, stable=True)[:, :units]
    chosen = vectors[:, :units].gather(2, order[:, None].expand(-1, units, -1))
    return values.gather(1, order), chosen / chosen.norm(dim=1, keepdim=True)


def _chebyshev(like: Tensor, points: int) -> tuple[Tensor, Tensor]:
    """Return the matrix that differentiates on the points cos(k pi / n), and these (Trefethen 2000, ch. 6)."""
    count = torch.arange(points + 1, dtype=like.dtype, device=like.device)
    nodes = torch.cos(torch.pi * count / points)
    signs = _signs(count)
    apart = nodes[:, None] - nodes + torch.eye(len(nodes), dtype=like.dtype, device=like.device)
    matrix = signs[:, None] / signs / apart
    return matrix - torch.diag(matrix.sum(1)), nodes


def _lagrange(nodes: Tensor, at: Tensor) -> Tensor:
    """Return how much of each point's value a polynomial has at these places, (places, points), by the barycentric formula."""
    weights = 1 / _signs(torch.arange(len(nodes), dtype=nodes.dtype, device=nodes.device))
    apart = at[:, None] - nodes
    on = apart.abs() < 1e-12
    terms = weights / torch.where(on, 1, apart)
    found = terms / terms.sum(1, keepdim=True)
    return torch.where(on.any(1, keepdim=True), on.to(found), found)


def _signs(count: Tensor) -> Tensor:
    ends = (count == 0) | (count == len(count) - 1)
    return (1 - 2 * (count % 2)) * (1 + ends.to(count))
