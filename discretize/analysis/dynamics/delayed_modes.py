r"""Modes around a point of rest of a field that reads its past: lambda v = A v + sum_k B_k exp(-lambda d_k) v.

They are infinitely many. The history h(t + theta), -d <= theta <= 0, moves by d/dt = d/dtheta and, at theta = 0, by the field; on
Chebyshev's points that is a matrix, whose rightmost eigenvalues are those modes.

Source: Breda, Maset and Vermiglio 2005, "Pseudospectral differencing methods for characteristic roots of delay differential
equations".
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn.fields.delayed import DelayedField

__all__ = ["delayed_modes"]

POINTS = 24  # besides the present: the rightmost modes are right to some ten digits


def delayed_modes(field: DelayedField, now: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the modes that grow fastest, as many as the state has units, and their vectors in columns.

    Args:    field: whose delays; now: A; past: B_k.
    Shape:   now (n, state, state), past (n, delays, state, state) -> (n, state), (n, state, state), complex.
    """
    units, delays = now.shape[-1], field.delays.to(now)
    longest = delays.max()
    derivative, nodes = _chebyshev(now)
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


def _chebyshev(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrix that differentiates on the points cos(k pi / n), and these (Trefethen 2000, ch. 6)."""
    count = torch.arange(POINTS + 1, dtype=like.dtype, device=like.device)
    nodes = torch.cos(torch.pi * count / POINTS)
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
    ends = (count == 0) | (count == POINTS)
    return (1 - 2 * (count % 2)) * (1 + ends.to(count))
