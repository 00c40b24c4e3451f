r"""Newton's method with a line search for many equations r(u) = 0 at once, and the derivatives of their solutions.

r'(u) c = -r(u),   u <- u + a c        a halved until |r| falls; every sample has its own a and its own end
(r'^T r' + m I) c = -r'^T r            down |r|^2 also where there is no solution: m large far from a minimum, small near it
dr/dq + r'(u) du/dq = 0                du/dq of a solution: the implicit function theorem

Unknowns and residuals are counted in sizes of their own, so that 1 is what counts: each unknown by itself is compared with 1, or
with its own value where that is larger.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["ROUNDINGS", "correction", "descend", "newton", "with_derivatives"]

Residual = Callable[[Tensor], Tensor]
Matrix = Callable[[Tensor], Tensor]

MOST_ITERATIONS, MOST_HALVINGS, MOST_DESCENTS = 50, 10, 200
ROUNDINGS = 64.0  # of a correction, relative to the unknown, and of a residual, relative to its terms


@torch.no_grad()
def newton(residual: Residual, matrix: Matrix, u: Tensor, iterations: int = MOST_ITERATIONS) -> tuple[Tensor, Tensor, int]:
    r"""Find solutions near u; return them, which were found, and how many iterations it took.

    Each unknown must have come to its end, or each residual be one of its terms' roundings.

    Shape:   u (n, unknowns), residual the same, matrix (n, unknowns, unknowns) -> (n, unknowns), (n,).
    Source:  Deuflhard 2004, Newton Methods for Nonlinear Problems.
    """
    converged = torch.zeros(len(u), dtype=torch.bool, device=u.device)
    share = u.new_ones(len(u), 1)
    off, rounding, count = residual(u), ROUNDINGS * torch.finfo(u.dtype).eps, 0
    for _ in range(iterations):
        count += 1
        slopes, size = matrix(u), u.abs().clamp(min=1)
        move = correction(slopes, off)
        # What a correction leaves is about its square: one that is down to the root of a rounding is the last.
        small = (move.abs() <= rounding**0.5 * 1e-2 * size).all(-1)
        last = (small | _rounded(slopes, off, size)) & ~converged
        share = torch.where(last.unsqueeze(-1), 1.0, (2 * share).clamp(max=1.0))
        for _ in range(MOST_HALVINGS):
            moved = torch.where(converged.unsqueeze(-1), u, u + share * move)
            there = residual(moved)
            better = (there.norm(dim=-1) <= (1 - share[:, 0] / 4) * off.norm(dim=-1)) | last | converged
            if bool(better.all()):
                break
            share = torch.where(better.unsqueeze(-1), share, share / 2)
        u, off, converged = moved, there, converged | last
        stuck = (share[:, 0] <= 2.0**-MOST_HALVINGS) | ~torch.isfinite(u).all(-1)
        if bool((converged | stuck).all()):
            break
    return u, converged & torch.isfinite(u).all(-1), count


@torch.no_grad()
def descend(residual: Residual, matrix: Matrix, u: Tensor, enough: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    r"""Go down |r|^2 from u; return the first states whose residual is enough, nan where there are none, and the last ones.

    Shape:   as `newton`.
    Source:  Levenberg and Marquardt's method, with the damping of Nielsen 1999.
    """
    off, first = residual(u), torch.full_like(u, torch.nan)
    slope, curvature = _normal(matrix(u), off)
    damping = 1e-3 * curvature.diagonal(dim1=-2, dim2=-1).amax(-1)
    grow, eye = torch.full_like(damping, 2.0), torch.eye(u.shape[-1], dtype=u.dtype, device=u.device)
    for _ in range(MOST_DESCENTS):
        low = enough(off) & first.isnan().any(-1)
        first = torch.where(low.unsqueeze(-1), u, first)
        move = correction(curvature + damping[:, None, None] * eye, slope)
        small = (move.abs() <= ROUNDINGS * torch.finfo(u.dtype).eps * u.abs().clamp(min=1)).all(-1)
        if bool((small | ~torch.isfinite(move).all(-1)).all()):
            break
        there = residual(u + move)
        expected = (move * (damping.unsqueeze(-1) * move - slope)).sum(-1)
        gain = (off.square().sum(-1) - there.square().sum(-1)) / expected
        better = gain > 0
        u, off = torch.where(better.unsqueeze(-1), u + move, u), torch.where(better.unsqueeze(-1), there, off)
        damping = damping * torch.where(better, (1 - (2 * gain - 1) ** 3).clamp(min=1 / 3), grow)
        grow = torch.where(better, 2.0, 2 * grow)
        slope, curvature = _normal(matrix(u), off)
    return first, u


def _normal(matrix: Tensor, off: Tensor) -> tuple[Tensor, Tensor]:
    return (matrix.mT @ off.unsqueeze(-1)).squeeze(-1), matrix.mT @ matrix


def _rounded(matrix: Tensor, off: Tensor, size: Tensor) -> Tensor:
    """Whether a residual is no more than what roundings of the unknowns make of it, each by itself."""
    terms = (matrix.abs() @ size.unsqueeze(-1)).squeeze(-1)
    return (off.abs() <= ROUNDINGS * torch.finfo(off.dtype).eps * terms).all(-1)


def with_derivatives(residual: Residual, matrix: Matrix, u: Tensor) -> Tensor:
    """Return solutions that carry their first and second derivatives in all that the residual reads."""
    u = u.detach()
    with torch.no_grad():
        held = matrix(u)
    # With the matrix held, one correction takes on the first derivatives and a second one the second.
    for _ in range(2):
        u = u + correction(held, residual(u))
    return u


def correction(matrix: Tensor, off: Tensor) -> Tensor:
    """Solve matrix c = -off; c is not finite where the matrix is singular."""
    # The transpose's factors: so rounding is relative to the largest number of a row, and a slow unit keeps its digits beside a
    # stiff one.
    factors, pivots, failed = torch.linalg.lu_factor_ex(matrix.mT)
    found = torch.linalg.lu_solve(factors, pivots, -off.unsqueeze(-1), adjoint=True)
    return torch.where((failed != 0).reshape(-1, 1), torch.nan, found.squeeze(-1))
